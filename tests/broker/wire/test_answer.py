from __future__ import annotations

from itertools import pairwise

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from affidavit.broker.wire.answer import DIAGNOSTIC_LIMIT, HEAD_LIMIT, Answer, Place
from affidavit.broker.wire.link import Ending
from affidavit.broker.wire.port import Fault

Facts = dict[str, object]


def new(method: str = "POST", *, close_completes: bool = False) -> Answer:
    framing = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_LIMIT)
    framing.send(h11.Request(method=method, target="/", headers=[("Host", "target.test")]))
    framing.send(h11.EndOfMessage())
    return Answer(method, framing, close_completes=close_completes)


def read(pieces: list[bytes], ending: Ending | None, *, method: str = "POST", close_completes: bool = False) -> Facts:
    """Every fact of an answer that came in these pieces. Of the diagnostic, only what is the same for all cuts."""
    answer = new(method, close_completes=close_completes)
    body = b"".join(part for piece in pieces for part in answer.feed(piece))
    if ending is not None:
        answer.end(ending)
    stream = b"".join(pieces)[answer.starts_at :]
    if answer.head_ends_at is not None:
        stream = stream[: answer.head_ends_at - answer.starts_at] + body
    assert stream.startswith(answer.diagnostic)
    assert len(answer.diagnostic) <= DIAGNOSTIC_LIMIT
    assert answer.body_bytes == len(body)
    return {
        "body": body,
        "place": answer.place,
        "status_line": answer.status_line,
        "anything_final": answer.anything_final,
        "status": answer.status,
        "headers": answer.headers,
        "starts_at": answer.starts_at,
        "head_ends_at": answer.head_ends_at,
        "complete": answer.complete,
        "completion": answer.completion,
        "fault": answer.fault,
        "observation": answer.observation,
    }


STREAMS = [
    b"",
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello and more",
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel",
    b"HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nA: b\r\n\r\nHTTP/1.1 404 No\r\nContent-Length: 2\r\n\r\nno",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 101 Switching\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP",
    b"HTTP/1.1 100 Continue\r\nA : b\r\n\r\n",
    b"HTTP/1.1 199 Odd\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n1;a=b\r\n!\r\n0\r\nA: b\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloX\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    b"HTTP/1.1 200 OK\r\n\r\nto the end",
    b"HTTP/1.0 200 OK\r\nA:  \t b \t\r\nA:c\r\n\r\nto the end",
    b"HTTP/1.1 204 No Content\r\n\r\n",
    b"HTTP/1.1 200 OK\nA: b\n\n",
    b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n1",
    b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n1",
    b"HTTP/1.1 2000 OK\r\n\r\n",
    b"HTTP/2 200\r\n\r\n",
    b"\r\nHTTP/1.1 200 OK\r\n\r\n",
    b"ICY 200 OK\r\n\r\n",
    b"H",
    b"HTTP/1.1 ",
]


@st.composite
def cut(draw: st.DrawFn) -> tuple[bytes, list[bytes]]:
    stream = draw(st.sampled_from(STREAMS) | st.sampled_from(STREAMS).flatmap(_damaged))
    places = sorted(draw(st.sets(st.integers(0, len(stream)), max_size=12)))
    edges = [0, *places, len(stream)]
    return stream, [stream[a:b] for a, b in pairwise(edges)]


def _damaged(stream: bytes) -> st.SearchStrategy[bytes]:
    """The same with one byte changed."""
    return st.tuples(st.integers(0, max(0, len(stream) - 1)), st.binary(min_size=1, max_size=1)).map(
        lambda change: stream[: change[0]] + change[1] + stream[change[0] + 1 :]
    )


@given(cut(), st.sampled_from([None, *Ending]), st.sampled_from(["POST", "HEAD"]), st.booleans())
def test_however_a_stream_is_cut_the_facts_are_the_same(
    stream: tuple[bytes, list[bytes]], ending: Ending | None, method: str, close_completes: bool
) -> None:
    whole, pieces = stream
    expected = read([whole], ending, method=method, close_completes=close_completes)
    assert read(pieces, ending, method=method, close_completes=close_completes) == expected
    single = [bytes([byte]) for byte in whole]
    assert read(single, ending, method=method, close_completes=close_completes) == expected


@given(st.binary(max_size=200), st.sampled_from(list(Ending)))
def test_no_bytes_at_all_make_it_raise_or_guess(noise: bytes, ending: Ending) -> None:
    for start in (b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"):
        facts = read([start + noise], ending)
        assert facts["complete"] or facts["fault"] is not None


@given(cut(), st.sampled_from(list(Ending)))
def test_what_is_known_never_gets_less(stream: tuple[bytes, list[bytes]], ending: Ending) -> None:
    answer = new()
    seen: list[tuple[bool, bool, bool, bool]] = []
    for piece in stream[1]:
        answer.feed(piece)
        seen.append((answer.anything_final, answer.status_line, answer.status is not None, answer.ended))
    answer.end(ending)
    seen.append((answer.anything_final, answer.status_line, answer.status is not None, answer.ended))
    for before, after in pairwise(seen):
        assert all(now >= then for then, now in zip(before, after, strict=True))


def test_head_at_its_limit_and_one_over() -> None:
    fixed = len(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nA: \r\n\r\n")
    for extra, fault in ((0, None), (1, Fault.MALFORMED)):
        filler = b"a" * (HEAD_LIMIT - fixed + extra)
        head = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nA: " + filler + b"\r\n\r\n"
        facts = read([head], None)
        assert facts["fault"] is fault
        assert facts["complete"] is (fault is None)
        halves = [head[: HEAD_LIMIT // 2], head[HEAD_LIMIT // 2 :]]
        assert read(halves, None) == facts


def test_a_line_without_end_is_refused_at_the_limit() -> None:
    answer = new()
    answer.feed(b"HTTP/1.1 200 OK\r\nA: ")
    for _ in range(HEAD_LIMIT // 1024):
        answer.feed(b"a" * 1024)
    assert answer.fault is Fault.MALFORMED
    assert answer.status_line


def test_trailers_have_the_limit_of_a_head() -> None:
    answer = new()
    answer.feed(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n")
    for _ in range(HEAD_LIMIT // 1024 + 1):
        answer.feed(b"A: " + b"a" * 1021)
    assert answer.fault is Fault.MALFORMED
    assert not answer.complete


def test_diagnostic_is_cut_and_starts_with_the_final_head() -> None:
    answer = new()
    answer.feed(b"HTTP/1.1 100 Continue\r\n\r\n")
    answer.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n" + b"x" * 6000)
    answer.end(Ending.FIN)
    assert len(answer.diagnostic) == DIAGNOSTIC_LIMIT
    assert answer.diagnostic.startswith(b"HTTP/1.1 200 OK\r\n")


def test_a_1xx_head_leaves_no_diagnostic() -> None:
    answer = new()
    answer.feed(b"HTTP/1.1 100 Conti")
    answer.end(Ending.FIN)
    assert answer.diagnostic == b""
    assert answer.place is Place.NOTHING


def test_nothing_is_read_after_the_end() -> None:
    answer = new()
    answer.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n1")
    assert answer.feed(b"HTTP/1.1 500 No\r\n\r\n") == []
    answer.end(Ending.RESET)
    assert answer.status == 200
    assert answer.fault is None


@pytest.mark.parametrize("ending", list(Ending))
@pytest.mark.parametrize("close_completes", [False, True])
def test_what_ends_a_body_without_a_length(ending: Ending, close_completes: bool) -> None:
    facts = read([b"HTTP/1.1 200 OK\r\n\r\nbody"], ending, close_completes=close_completes)
    fault, completion = {
        Ending.CLOSE_NOTIFY: (None, "close_notify"),
        Ending.FIN: (None, "close") if close_completes else (Fault.FRAMING, None),
        Ending.RAGGED: (Fault.RAGGED, None),
        Ending.RESET: (Fault.RESET, None),
        Ending.ALERT: (Fault.RESET, None),
    }[ending]
    assert facts["fault"] is fault
    assert facts["completion"] == completion


def test_header_values_keep_their_bytes() -> None:
    facts = read([b"HTTP/1.1 200 OK\r\nX: \xe9\tz \r\nContent-Length: 0\r\n\r\n"], None)
    assert facts["headers"] == (("x", "\xe9\tz"), ("content-length", "0"))


LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
CHUNKS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\n\r\n"


@pytest.mark.parametrize(
    ("method", "pieces", "open_"),
    [
        ("GET", [LENGTH], True),
        ("GET", [CHUNKS], True),
        ("GET", [bytes([byte]) for byte in CHUNKS], True),
        ("GET", [b"HTTP/1.1 100 Continue\r\n\r\n" + LENGTH], True),
        ("GET", [LENGTH[:-1]], False),
        ("GET", [LENGTH + b"H"], False),
        ("GET", [LENGTH[:-1], LENGTH[-1:] + b"H"], False),
        ("GET", [CHUNKS + b"\r\n"], False),
        ("GET", [LENGTH.replace(b"OK", b"OK\r\nConnection: x, CLOSE")], False),
        ("GET", [LENGTH.replace(b"1.1", b"1.0")], False),
        ("GET", [LENGTH.replace(b"1.1", b"1.0").replace(b"OK", b"OK\r\nConnection: keep-alive")], False),
        ("GET", [b"HTTP/1.1 204 No Content\r\n\r\n"], False),
        ("GET", [b"HTTP/1.1 304 Not Modified\r\n\r\n"], False),
        ("HEAD", [LENGTH.removesuffix(b"hello")], False),
        ("CONNECT", [b"HTTP/1.1 200 OK\r\n\r\n"], False),
    ],
)
def test_whether_another_answer_may_follow(method: str, pieces: list[bytes], open_: bool) -> None:
    answer = new(method)
    for piece in pieces:
        answer.feed(piece)
    assert answer.leaves_open is open_


def test_a_request_that_asks_for_a_close_leaves_nothing_open() -> None:
    framing = h11.Connection(h11.CLIENT)
    framing.send(h11.Request(method="GET", target="/", headers=[("Host", "target.test"), ("Connection", "close")]))
    framing.send(h11.EndOfMessage())
    answer = Answer("GET", framing)
    answer.feed(LENGTH)
    assert answer.complete
    assert not answer.leaves_open


@pytest.mark.parametrize(
    "lengths", [b"", b"Content-Length: 5\r\n", b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"]
)
@pytest.mark.parametrize("status", [200, 204, 302, 407, 502])
def test_an_answer_to_connect_ends_with_its_head(status: int, lengths: bytes) -> None:
    head = b"HTTP/1.1 %d X\r\n%s\r\n" % (status, lengths)
    facts = read([head + b"then"], None, method="CONNECT")
    assert facts["complete"]
    assert facts["completion"] == "head"
    assert facts["status"] == status
    assert facts["head_ends_at"] == len(head)
    assert facts["body"] == b""
