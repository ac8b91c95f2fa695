"""What is kept of an answer that is no result: what a peer's bytes become between the wire and the record (R31)."""

from __future__ import annotations

import base64
import gzip

import h11
import pytest

from affidavit.broker.diagnostic import diagnostic, readable
from affidavit.broker.redact import Forms
from affidavit.broker.wire.answer import DIAGNOSTIC_LIMIT, HEAD_LIMIT, Answer
from affidavit.broker.wire.link import Ending

SECRET = b"planted-secret-9fK2"
FORMS = Forms((SECRET,), (b"Bearer " + SECRET,))
OK = b"HTTP/1.1 200 OK\r\n"


def told(*pieces: bytes) -> bytes:
    """The diagnostic of an answer that came in these pieces and broke off."""
    framing = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_LIMIT)
    framing.send(h11.Request(method="GET", target="/", headers=[("Host", "target.test")]))
    framing.send(h11.EndOfMessage())
    answer = Answer("GET", framing)
    for piece in pieces:
        answer.feed(piece)
    answer.end(Ending.RESET)
    assert not answer.complete
    assert len(answer.diagnostic) <= DIAGNOSTIC_LIMIT
    made = diagnostic(readable(answer.diagnostic, framed=answer.status is not None), FORMS, "cut")
    shown = base64.b64decode(made["base64"])
    assert (made["bytes"], made["note"]) == (len(shown), "cut")
    return shown


CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
LONG = OK + b"Content-Length: 9999\r\n\r\n"


def chunks(*parts: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)


CODED = OK + b"Content-Encoding: gzip\r\nContent-Length: 999\r\n\r\n"
CODED_TOO = OK + b"Content-Encoding: identity\r\nContent-Encoding: zzz\r\nContent-Length: 999\r\n\r\n"
PLAIN = OK + b"Content-Encoding: identity\r\nContent-Length: 9\r\n\r\n"


@pytest.mark.parametrize("step", [1, 7, 1 << 20])
@pytest.mark.parametrize(
    ("stream", "shown"),
    [
        (LONG + b"half", LONG + b"half"),
        (LONG + b"x " + SECRET + b" y", LONG + b"x [redacted] y"),
        (LONG + b"x " + SECRET[:-1], LONG + b"x "),
        (CHUNKED + chunks(SECRET[:9], SECRET[9:], b" y"), CHUNKED + b"[redacted] y"),
        (CHUNKED + chunks(b"y") + b"9\r\n" + SECRET[:9], CHUNKED + b"y"),
        (OK + b"Set-Cookie: s=new\r\nA: b\r\nContent-Length: 9\r\n\r\nx", OK + b"A: b\r\nContent-Length: 9\r\n\r\nx"),
        (OK + b"A: b\r\nset-cookie2: s=n", OK + b"A: b\r\n"),
        (CODED + gzip.compress(SECRET), CODED),
        (CODED_TOO + b"odd", CODED_TOO),
        (PLAIN + b"half", PLAIN + b"half"),
    ],
)
def test_what_is_told_is_what_redaction_could_read(stream: bytes, shown: bytes, step: int) -> None:
    """The head, then the body without framing; of a coded body nothing."""
    assert told(*(stream[at : at + step] for at in range(0, len(stream), step))) == shown


@pytest.mark.parametrize(
    ("head", "shown"),
    [
        (OK + b"Set-Cookie : s=new\r\nA: b\r\n\r\n", OK + b"A: b\r\n\r\n"),
        (OK + b"Set-Cookie: s=new\r\n and=more\r\nA: b\r\n\r\n", OK + b"A: b\r\n\r\n"),
        (OK + b"A: b\nSet-Cookie: s=new\n\n", OK + b"A: b\n\n"),
        (OK + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", ...),
    ],
)
def test_a_broken_head_is_told_and_nothing_behind_it(head: bytes, shown: object) -> None:
    """Where its head is broken nobody knows how a body is framed or coded."""
    assert told(head + chunks(SECRET[:9], SECRET[9:])) == (head if shown is ... else shown)


def test_it_is_cut_at_its_limit() -> None:
    body = b"x" * 9000
    assert told(LONG, body) == (LONG + body)[:DIAGNOSTIC_LIMIT]
    assert told(CHUNKED, chunks(body), b"1") == (CHUNKED + body)[:DIAGNOSTIC_LIMIT]
    long_head = OK + b"A: " + b"x" * 5000 + b"\r\nContent-Length: 9\r\n\r\n"
    assert told(long_head + b"half") == long_head[:DIAGNOSTIC_LIMIT]
