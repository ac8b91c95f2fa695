"""Broken and hostile HTTP peers, by the socket that agents use: verdict, arrivals, records, and in time.

The peers are raw sockets that play bytes; the broker is the real one. A name that begins with a number plays that case
of the catalogue of hostile peers; the others follow from RFC 9110, 9112 and 9209. Actions are writes without a contract
unless a case says otherwise. What matters most: `rejected` and `not_attempted` are never said without their proof.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import re
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
import trustme
from tests.broker.wire.answers import BOMB, BOMB_BYTES, BROKEN, CODED, CUT, OPEN_ENDED
from tests.broker.wire.peer import (
    Call,
    Script,
    answer,
    replies,
    replies_and_resets,
    replies_and_stays,
    server_context,
    tunnels,
)
from tests.e2e import hostile
from tests.e2e.hostile import (
    BIG,
    GATEWAY,
    HIDDEN,
    HURRY,
    LATE,
    LOST,
    PINNED,
    UNKNOWN_NAME,
    Ground,
    Prepared,
    ground,
)
from tests.e2e.rig import facts, new_operation, until
from tests.e2e.said import Said, committed, refused, rejected, said, stopped, unknown

SHORT_S = 1.0
"""Deadline of cases that only a deadline ends."""


@pytest.fixture(autouse=True, params=range(2))
def nth_time(request: pytest.FixtureRequest) -> int:
    """Each case runs some times: a race shows only now and then."""
    return int(request.param)


@pytest.fixture(scope="module")
def hurried(ready: Prepared) -> Iterator[Ground]:
    with ground(ready, *HURRY) as made:
        yield made


# Before the line: the request

REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "h01 CRLF in a header value": ({"headers": {"X-A": "b\r\nX-C: d"}}, "HEADER_FORBIDDEN", "headers"),
    "LF in a header value": ({"headers": {"X-A": "b\nX-C: d"}}, "HEADER_FORBIDDEN", "headers"),
    "CR in a header value": ({"headers": {"X-A": "b\rX-C: d"}}, "HEADER_FORBIDDEN", "headers"),
    "NUL in a header value": ({"headers": {"X-A": "b\0"}}, "HEADER_FORBIDDEN", "headers"),
    "colon in a header name": ({"headers": {"X-A: b": "c"}}, "INVALID_REQUEST", "headers"),
    "h02 Content-Length": ({"headers": {"Content-Length": "5"}}, "HEADER_FORBIDDEN", "headers"),
    "h02 Transfer-Encoding": ({"headers": {"transfer-encoding": "chunked"}}, "HEADER_FORBIDDEN", "headers"),
    "Expect": ({"headers": {"Expect": "100-continue"}}, "HEADER_FORBIDDEN", "headers"),
    "Upgrade": ({"headers": {"Upgrade": "h2c"}}, "HEADER_FORBIDDEN", "headers"),
    "h03 user-info": ({"url": "http://user:pass@127.0.0.1:{port}/effect"}, "INVALID_TARGET", "url"),
    "h04 CR/LF": ({"url": "http://127.0.0.1:{port}/effect HTTP/1.1\r\nX-A: b\r\n\r\n"}, "INVALID_TARGET", "url"),
    "h04 LF in the host": ({"url": "http://127.0.0.1\n:{port}/effect"}, "INVALID_TARGET", "url"),
    "space in the path": ({"url": "http://127.0.0.1:{port}/ef fect"}, "INVALID_TARGET", "url"),
    "path that climbs": ({"url": "http://127.0.0.1:{port}/a/%2e%2e%2fb"}, "INVALID_TARGET", "url"),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_a_request_that_cannot_be_sent(here: Ground, name: str) -> None:
    wrong, code, field_ = REFUSED[name]
    params = {**wrong, "url": wrong["url"].format(port=here.port("plain"))} if "url" in wrong else wrong
    played = await here.play(replies(answer()), **params)
    played.check(refused(code))
    assert facts(played.envelope)["field"].startswith(field_)
    assert played.calls == ()


# Before the line: the connection


async def test_h06_connection_refused(here: Ground) -> None:
    played = await here.seen(await here.asked({"url": here.url("closed")}))
    played.check(stopped("CONNECT_FAILED"))
    tries = played.envelope["evidence"]["attempts"]
    assert [(one["stage"], one["code"]) for one in tries] == [("tcp_connect", "ECONNREFUSED")] * 2


async def test_h08_no_such_name(here: Ground) -> None:
    played = await here.seen(await here.asked({"url": f"https://{UNKNOWN_NAME}/effect"}))
    played.check(stopped("DNS_FAILED", "after_correction"))
    (tried,) = played.envelope["evidence"]["attempts"]
    assert (tried["stage"], tried["code"]) == ("dns", "EAI_NONAME")


async def goes_on(call: Call, then: str) -> None:
    """End the connection in this way, or stay."""
    if then == "closes":
        await call.fin()
        await call.drain()
    elif then == "resets":
        await call.reset()
    else:
        await call.hold()


def says_in_the_handshake(data: bytes, *, then: str) -> Script:
    """Read the client's first words, say this beneath TLS, and end or stay."""

    async def script(call: Call) -> None:
        await call.hear()
        await call.raw(data)
        await goes_on(call, then)

    return script


def alert(description: int) -> bytes:
    """A fatal alert in the clear (RFC 8446, 6)."""
    return b"\x15\x03\x03\x00\x02\x02" + bytes([description])


BROKEN_HANDSHAKES = {
    "h10 closes": says_in_the_handshake(b"", then="closes"),
    "h10 resets": says_in_the_handshake(b"", then="resets"),
    "closes inside a record": says_in_the_handshake(b"\x16\x03\x03\x40\x00\x02", then="closes"),
    "speaks HTTP": says_in_the_handshake(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", then="stays"),
    "refuses the versions": says_in_the_handshake(alert(70), then="closes"),
    "refuses everything": says_in_the_handshake(alert(40), then="closes"),
    "fails inside": says_in_the_handshake(alert(80), then="resets"),
    "does not know the name": says_in_the_handshake(alert(112), then="closes"),
    "speaks HTTP/2 only": says_in_the_handshake(alert(120), then="closes"),
    "wants a certificate without having asked for one": says_in_the_handshake(alert(116), then="closes"),
    "denies access without having asked for a certificate": says_in_the_handshake(alert(49), then="closes"),
}


@pytest.mark.parametrize("name", BROKEN_HANDSHAKES)
async def test_a_broken_handshake(here: Ground, name: str) -> None:
    played = await here.play(BROKEN_HANDSHAKES[name], "tls", peer={"handshake": False})
    played.check(stopped("TLS_FAILED"))
    assert len(played.calls) == 2, "set-up is tried again"


def cut_in_the_handshake(count: int) -> Script:
    """An honest handshake, of which only the first bytes come."""

    async def script(call: Call) -> None:
        call.stops_after(count)
        await call.handshake()

    return script


@pytest.mark.parametrize("count", [1, 5, 90, 127, 128, 133, 600, 900])
async def test_a_handshake_cut_at_any_place(here: Ground, count: int) -> None:
    played = await here.play(cut_in_the_handshake(count), "tls", peer={"handshake": False})
    played.check(stopped("TLS_FAILED"))


async def test_h09_handshake_stalls(hurried: Ground) -> None:
    played = await hurried.play(says_in_the_handshake(b"", then="stays"), "tls", peer={"handshake": False})
    played.check(stopped("TLS_FAILED"))


async def test_h25_deadline_during_a_handshake_drip(here: Ground) -> None:
    async def script(call: Call) -> None:
        await call.raw(b"\x16\x03\x03\x40\x00")
        await drip(call, [b"\x02"], call.raw)

    played = await here.play(script, "tls", peer={"handshake": False}, deadline_s=SHORT_S)
    played.check(stopped("CONNECT_TIMEOUT"), deadline_s=SHORT_S)


async def test_h12_unknown_authority(here: Ground) -> None:
    other = server_context(trustme.CA().issue_cert("127.0.0.1"))
    played = await here.play(replies(answer()), "tls", peer={"tls": other})
    played.check(stopped("CERT_INVALID", "after_correction"))


async def test_h13_certificate_for_another_name(here: Ground) -> None:
    other = server_context(here.authority.issue_cert("other.test"))
    url = here.url("tls", host=PINNED)
    played = await here.play(replies(answer()), "tls", peer={"tls": other}, url=url)
    played.check(stopped("CERT_INVALID", "after_correction"))
    right = server_context(here.authority.issue_cert(PINNED))
    played = await here.play(replies(answer()), "tls", peer={"tls": right}, url=url)
    played.check(committed())


@pytest.fixture(params=[ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["TLS 1.2", "TLS 1.3"])
def version(request: pytest.FixtureRequest) -> ssl.TLSVersion:
    found: ssl.TLSVersion = request.param
    return found


@pytest.fixture
def any_tls(here: Ground, version: ssl.TLSVersion) -> ssl.SSLContext:
    context = server_context(here.authority.issue_cert("127.0.0.1"))
    context.minimum_version = context.maximum_version = version
    return context


def asking(context: ssl.SSLContext, authority: trustme.CA) -> ssl.SSLContext:
    """The same, asking for a client certificate."""
    authority.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


async def test_h14_h15_client_certificate_missing(here: Ground, any_tls: ssl.SSLContext) -> None:
    played = await here.play(replies(answer()), "tls", peer={"tls": asking(any_tls, here.authority)})
    played.check(stopped("TLS_FAILED", "after_correction"))


async def test_a_client_certificate_refused_only_once_the_request_is_there(here: Ground) -> None:
    """TLS 1.3 lets the refusal come after the line: then nothing is proven (RFC 8446, 4.4.2.4)."""

    async def script(call: Call) -> None:
        await call.begin_handshake(until=4096)
        with pytest.raises(ssl.SSLError):
            await call.handshake()
        await call.fin()
        await call.drain()

    tls = asking(server_context(here.authority.issue_cert("127.0.0.1")), here.authority)
    played = await here.play(script, "tls", peer={"tls": tls, "handshake": False}, body="a" * 8192)
    played.check(LOST)


# Before the line: the proxy


def proxy_says(data: bytes, *, then: str = "closes") -> Script:
    async def script(call: Call) -> None:
        await call.read_until(b"\r\n\r\n")
        await call.send(data)
        await goes_on(call, then)

    return script


NO_TUNNEL = {
    "h19 407": (proxy_says(answer(b"who?", "407 Proxy Authentication Required")), "after_correction"),
    "h20 502": (proxy_says(answer(b"", "502 Bad", headers=b"Proxy-Status: p; error=dns_error\r\n")), "backoff"),
    "h21 302": (proxy_says(answer(b"", "302 Found", headers=b"Location: http://portal.test/\r\n")), "after_correction"),
    "403": (proxy_says(answer(b"", "403 Forbidden")), "after_correction"),
    "404": (proxy_says(answer(b"", "404 Not Found")), "after_correction"),
    "429": (proxy_says(answer(b"", "429 Too Many Requests")), "after_correction"),
    "500": (proxy_says(answer(b"", "500 Internal Server Error")), "backoff"),
    "503": (proxy_says(answer(b"", "503 Service Unavailable", headers=b"Retry-After: 1\r\n")), "backoff"),
    "504 and stays": (proxy_says(answer(b"", "504 Gateway Timeout"), then="stays"), "backoff"),
    "closes": (proxy_says(b""), "backoff"),
    "resets": (proxy_says(b"", then="resets"), "backoff"),
    "cut": (proxy_says(b"HTTP/1.1 200 Connection est"), "backoff"),
    "garbled": (proxy_says(b"SSH-2.0-OpenSSH_9.2\r\n", then="stays"), "backoff"),
    "1xx only": (proxy_says(b"HTTP/1.1 100 Continue\r\n\r\n"), "backoff"),
    "101": (proxy_says(b"HTTP/1.1 101 Switching Protocols\r\n\r\n", then="stays"), "backoff"),
    "speaks for the target": (proxy_says(b"HTTP/1.1 200 OK\r\n\r\n" + answer(b"no"), then="stays"), "backoff"),
}


@pytest.mark.parametrize("name", NO_TUNNEL)
async def test_a_proxy_that_opens_no_tunnel(here: Ground, name: str) -> None:
    script, retry = NO_TUNNEL[name]
    played = await here.play(script, "proxy", url=f"https://{HIDDEN}/effect")
    played.check(stopped("PROXY_FAILED", retry))
    assert len(played.calls) == (2 if retry == "backoff" else 1)
    for call in played.calls:
        assert call.received.startswith(b"CONNECT hidden.test:443 HTTP/1.1\r\n")
        assert call.received.endswith(b"\r\n\r\n"), "nothing was said to the proxy but CONNECT"


async def test_h24_proxy_never_answers(hurried: Ground) -> None:
    played = await hurried.play(proxy_says(b"", then="stays"), "proxy", url=f"https://{HIDDEN}/effect")
    played.check(stopped("PROXY_FAILED"))


BEHIND: dict[str, tuple[Script, Said]] = {
    "answers": (replies_and_stays(answer(b"done", "201 Created")), committed()),
    "closes": (replies(b""), LOST),
    "resets inside the body": (replies_and_resets(answer(b"half", length=8)), hostile.CUT),
    "502 with Proxy-Status": (
        replies_and_stays(answer(b"", "502 Bad", headers=b"Proxy-Status: p; error=connection_refused\r\n")),
        GATEWAY,
    ),
    "407 of its own": (replies_and_stays(answer(b"", "407 Proxy Authentication Required")), rejected()),
}


@pytest.mark.parametrize("name", BEHIND)
async def test_what_a_target_behind_a_proxy_does(here: Ground, name: str) -> None:
    script, verdict = BEHIND[name]
    tls = server_context(here.authority.issue_cert(HIDDEN))
    async with here.peer(script, "tls", tls) as target:
        played = await here.play(tunnels(target.port), "proxy", url=f"https://{HIDDEN}/effect")
        played.check(verdict)
        assert len(target.calls) == 1
        assert b"\r\namount" not in played.calls[0].received, "the proxy sees TLS alone"


async def test_a_tunnel_to_another_target(here: Ground) -> None:
    async with here.peer(replies(answer()), "tls") as target:
        played = await here.play(tunnels(target.port), "proxy", url=f"https://{HIDDEN}/effect")
        played.check(stopped("CERT_INVALID", "after_correction"))
        assert [bytes(call.received) for call in target.calls] == [b""]


# After the line: nothing final, or nothing whole


@dataclass(frozen=True, slots=True)
class Case:
    """A peer of a write, and what it must come to."""

    script: Script
    said: Said
    others: tuple[Said, ...] = ()
    at: str = "plain"
    path: str = "/effect"
    params: Mapping[str, Any] = field(default_factory=dict)


async def drip(call: Call, pieces: list[bytes], say: Any = None) -> None:
    """Say these, slowly, over and over, until nobody listens."""
    said = itertools.cycle(pieces)
    while await call.lull():
        await (say or call.send)(next(said))


def drips(first: bytes, *pieces: bytes) -> Script:
    async def script(call: Call) -> None:
        await call.request()
        await call.send(first)
        await drip(call, list(pieces))

    return script


async def resets_at_once(call: Call) -> None:
    await call.reset()


async def closes_at_once(call: Call) -> None:
    await call.fin()
    await call.drain()


async def never_reads(call: Call) -> None:
    await call.hold()


def reads_a_part(then: str, data: bytes = b"") -> Script:
    """Read a part of a large request, say this, and do not read again."""

    async def script(call: Call) -> None:
        await call.read_at_least(20_000)
        await call.send(data)
        if then == "resets":
            await call.reset()
        elif then == "closes":
            await call.fin()
            await call.hold()
        else:
            await call.hold()

    return script


LARGE: Mapping[str, Any] = {"body": "a" * BIG}
SOON: Mapping[str, Any] = {"deadline_s": SHORT_S}
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
EARLY = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"

NOTHING_FINAL: dict[str, Case] = {
    "h26 resets at once": Case(resets_at_once, LOST, (stopped("CONNECT_FAILED"),)),
    "closes at once": Case(closes_at_once, LOST, (stopped("CONNECT_FAILED"),)),
    "h27 closes after reading": Case(replies(b""), LOST),
    "h28 says nothing": Case(replies_and_stays(b""), LATE, params=SOON),
    "h29 never reads": Case(never_reads, LATE, at="narrow", params={**LARGE, **SOON}),
    "reads a part, and stops": Case(reads_a_part("stays"), LATE, at="narrow", params={**LARGE, **SOON}),
    "reads a part, and resets": Case(reads_a_part("resets"), LOST, at="narrow", params=LARGE),
    "reads a part, and ends its half": Case(reads_a_part("closes"), LOST, at="narrow", params=LARGE),
    "h31 1xx, then closes": Case(replies(b"HTTP/1.1 100 Continue\r\n\r\n"), LOST),
    "1xx, then resets": Case(replies_and_resets(EARLY), LOST),
    "1xx with a length, then closes": Case(replies(b"HTTP/1.1 102 Processing\r\nContent-Length: 5\r\n\r\n"), LOST),
    "1xx, and says nothing more": Case(replies_and_stays(EARLY), LATE, params=SOON),
    "1xx without end": Case(drips(b"", EARLY * 100), LATE, params=SOON),
    "h35 resets after reading": Case(replies_and_resets(b""), LOST),
    "half a status line, and says nothing more": Case(replies_and_stays(b"HTTP/1.1 200 O"), LATE, params=SOON),
    "status line without end": Case(drips(b"HTTP/1.1 200 ", b"O"), LATE, params=SOON),
    "h52 short body, held": Case(replies_and_stays(answer(b"half", length=8)), hostile.CUT, params=SOON),
    "a head that drips": Case(drips(b"HTTP/1.1 200 OK\r\nA: ", b"b"), hostile.CUT, params=SOON),
    "h30 headers that drip": Case(drips(b"HTTP/1.1 200 OK\r\n", b"A: ", b"b\r\n"), hostile.CUT, params=SOON),
    "a body that drips": Case(drips(answer(length=10**9), b"b"), hostile.CUT, params=SOON),
    "chunks that drip": Case(drips(CHUNKED, b"1\r\n", b"b\r\n"), hostile.CUT, params=SOON),
    "a chunk extension that drips": Case(drips(CHUNKED + b"1;", b"b"), hostile.CUT, params=SOON),
    "trailers that drip": Case(drips(CHUNKED + b"0\r\n", b"A: ", b"b\r\n"), hostile.CUT, params=SOON),
    "an open-ended body that drips": Case(drips(OPEN_ENDED, b"b"), hostile.CUT, params=SOON),
    "4xx, cut": Case(replies(answer(b"no", "400 Bad Request", length=5)), hostile.CUT),
    "4xx, open-ended": Case(replies(b"HTTP/1.1 403 Forbidden\r\n\r\nno"), hostile.CUT),
    "429, resets": Case(replies_and_resets(answer(b"no", "429 Too Many Requests", length=5)), hostile.CUT),
    "h57 plain close": Case(replies(OPEN_ENDED), hostile.CUT),
    "h59 plain close of HTTP/1.0": Case(replies(b"HTTP/1.0 200 OK\r\n\r\n{}"), hostile.CUT),
    "plain reset": Case(replies_and_resets(OPEN_ENDED), hostile.CUT),
    "HTTP/1.0, kept alive, no length": Case(
        replies_and_stays(b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n{}"), hostile.CUT, params=SOON
    ),
    "204 with two framings": Case(
        replies(b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n"), hostile.CUT
    ),
}


BY_DEADLINE = {name: case for name, case in NOTHING_FINAL.items() if case.params is SOON}
"""Played all at once, since each of them takes its whole deadline."""
LONGER_S = 3.0
"""In which the first bytes of all these peers are read also where the machine is busy."""


async def test_answers_that_only_the_deadline_ends(here: Ground) -> None:
    cases = {f"/late/{n}/{new_operation()}": case for n, case in enumerate(BY_DEADLINE.values())}

    def calls_for(path: str) -> list[Call]:
        return [call for call in peer.calls if call.received.startswith(f"POST {path} ".encode())]

    async def script(call: Call) -> None:
        request = await call.request()
        await cases[request.split(b" ")[1].decode()].script(call)

    async with here.peer(script) as peer:
        asked = [{"url": here.url("plain", path), "body": "amount=5", "deadline_s": LONGER_S} for path in cases]
        for path, envelope in zip(cases, await asyncio.to_thread(here.ask, *asked), strict=True):
            played = await here.seen(envelope, *calls_for(path))
            played.check(cases[path].said, deadline_s=LONGER_S)
            assert len(played.calls) == 1, list(BY_DEADLINE)[list(cases).index(path)]


@pytest.mark.parametrize("name", [name for name in NOTHING_FINAL if name not in BY_DEADLINE])
async def test_an_answer_that_does_not_come(here: Ground, name: str) -> None:
    await played_as(here, NOTHING_FINAL[name])


async def played_as(here: Ground, case: Case) -> hostile.Played:
    url = here.url(case.at, case.path)
    played = await here.play(case.script, case.at, url=url, **case.params)
    played.check(case.said, *case.others, deadline_s=case.params.get("deadline_s", hostile.DEADLINE_S))
    if case.said[1] != "not_attempted" and not case.others:
        assert len(played.calls) == 1, "it was sent once, on one connection"
    return played


ENDS = {"closes": replies, "stays": replies_and_stays, "resets": replies_and_resets}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_answer(here: Ground, name: str, end: str) -> None:
    await played_as(here, Case(ENDS[end](BROKEN[name][0]), hostile.CUT))


@pytest.mark.parametrize("end", ["closes", "resets"])
@pytest.mark.parametrize("name", CUT)
async def test_an_answer_that_is_cut(here: Ground, name: str, end: str) -> None:
    await played_as(here, Case(ENDS[end](CUT[name][0]), hostile.CUT))


# After the line: whole answers

PLAIN_STATUS: dict[str, Said] = {
    "200 OK": committed(),
    "201 Created": committed(),
    "202 Accepted": committed(code="JOB_ACCEPTED"),
    "203 Non-Authoritative": committed(),
    "206 Partial Content": committed(),
    "226 IM Used": committed(),
    "299 Odd": committed(),
    "300 Multiple Choices": committed(),
    "399 Odd": committed(),
    **{status: rejected() for status in ("400 Bad Request", "h78 401 Unauthorized", "402 Payment Required")},
    **{f"{status} Refused": rejected() for status in (403, 404, 405, 406, 409, 410, 411, 412, 413, 414, 415, 416, 417)},
    **{f"{status} Refused": rejected() for status in (418, 422, 423, 424, 426, 428, 431, 451, 499)},
    "h83 407 Proxy Authentication Required": rejected(),
    "408 Request Timeout": rejected(retry="reconcile"),
    "421 Misdirected Request": rejected(retry="backoff"),
    "425 Too Early": rejected(retry="backoff"),
    "429 Too Many Requests": rejected("REMOTE_RATE_LIMITED", "reconcile"),
    "h80 500 Internal Server Error": committed(retry="reconcile"),
    "501 Not Implemented": rejected(),
    "503 Service Unavailable": committed("REMOTE_UNAVAILABLE", "reconcile"),
    "505 HTTP Version Not Supported": rejected(),
    "507 Insufficient Storage": committed(retry="reconcile"),
    "511 Network Authentication Required": rejected(),
    "531 Odd": committed(retry="reconcile"),
    "599 Odd": committed(retry="reconcile"),
    "h81 x16 502 Bad Gateway": GATEWAY,
    "h82 504 Gateway Timeout": GATEWAY,
    **{f"{status} Edge": GATEWAY for status in (520, 521, 522, 523, 524, 525, 526, 527, 530)},
}


@pytest.mark.parametrize("name", PLAIN_STATUS)
async def test_a_whole_answer_by_its_status(here: Ground, name: str) -> None:
    line = name[re.search(r"\b\d{3} ", name).start() :]  # type: ignore[union-attr]
    case = Case(replies_and_stays(answer(b"why", line, headers=b"Retry-After: 1\r\n")), PLAIN_STATUS[name])
    played = await played_as(here, case)
    assert played.envelope["http"]["status"] == int(line[:3])
    assert played.body["text"] == "why"


READ = {"method": "GET"}
WHOLE: dict[str, Case] = {
    "h66 excess after the length": Case(replies(answer(b"exact") + b"and more"), committed()),
    "excess after the last chunk": Case(replies(CHUNKED + b"5\r\nexact\r\n0\r\n\r\nmore"), committed()),
    "a second answer": Case(replies(answer(b"exact") + answer(b"poison", "400 Bad Request")), committed()),
    "resets after the length": Case(replies_and_resets(answer(b"exact")), committed()),
    "resets after the last chunk": Case(replies_and_resets(CHUNKED + b"5\r\nexact\r\n0\r\n\r\n"), committed()),
    "stays after the length": Case(replies_and_stays(answer(b"exact")), committed()),
    "h68 HEAD, then resets": Case(replies_and_resets(answer(length=500)), committed(), params={"method": "HEAD"}),
    "HEAD, chunked": Case(replies_and_stays(CHUNKED), committed(), params={"method": "HEAD"}),
    "HEAD, open-ended": Case(replies_and_stays(b"HTTP/1.1 200 OK\r\n\r\n"), committed(), params={"method": "HEAD"}),
    "HEAD, with a body": Case(replies(answer(b"exact")), committed(), params={"method": "HEAD"}),
    "204 with a body": Case(replies(b"HTTP/1.1 204 No Content\r\n\r\nexact"), committed()),
    "204 with a length": Case(replies(answer(b"exact", "204 No Content")), committed()),
    "304 with a length": Case(replies_and_stays(answer(b"", "304 Not Modified", length=500)), committed()),
    "205 without content": Case(replies_and_stays(answer(b"", "205 Reset Content")), committed()),
    "h71 trailers": Case(
        replies_and_stays(CHUNKED + b"5;ext=1\r\nexact\r\n0\r\nDigest: x\r\nContent-Length: 9\r\n\r\n"), committed()
    ),
    "chunk extensions": Case(replies_and_stays(CHUNKED + b'5;a;b="c;d";e=f\r\nexact\r\n00000;x\r\n\r\n'), committed()),
    "chunk of one byte each": Case(
        replies_and_stays(CHUNKED + b"".join(b"1\r\n%c\r\n" % b for b in b"exact") + b"0\r\n\r\n"), committed()
    ),
    "Chunked": Case(
        replies_and_stays(b"HTTP/1.1 200 OK\r\ntransfer-encoding:\tChunked \r\n\r\n5\r\nexact\r\n0\r\n\r\n"),
        committed(),
    ),
    "no reason": Case(replies_and_stays(b"HTTP/1.1 200 \r\nContent-Length: 5\r\n\r\nexact"), committed()),
    "HTTP/1.0 with a length": Case(replies(b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nexact"), committed()),
    "1xx before it": Case(
        replies_and_stays(b"HTTP/1.1 100 Continue\r\n\r\n" + EARLY * 50 + answer(b"exact")), committed()
    ),
    "a head as long as is allowed": Case(
        replies_and_stays(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nA: " + b"a" * 65_000 + b"\r\n\r\nexact"),
        committed(),
    ),
    "h79 307 to another origin": Case(
        replies_and_stays(answer(b"", "307 Temporary Redirect", headers=b"Location: https://other.test/\r\n")),
        committed(code="REDIRECT_NOT_FOLLOWED"),
    ),
    "303 to the same origin": Case(
        replies_and_stays(answer(b"", "303 See Other", headers=b"Location: /other\r\n")),
        committed(code="REDIRECT_NOT_FOLLOWED"),
    ),
    "read: 500": Case(replies_and_stays(answer(b"", "500 Odd")), committed(retry="backoff"), params=READ),
    "read: 503": Case(
        replies_and_stays(answer(b"", "503 Busy", headers=b"Retry-After: 7\r\n")),
        rejected("REMOTE_UNAVAILABLE", "backoff"),
        params=READ,
    ),
    "read: 408": Case(replies_and_stays(answer(b"", "408 Late")), rejected(retry="backoff"), params=READ),
    "read: 429": Case(
        replies_and_stays(answer(b"", "429 Slow")), rejected("REMOTE_RATE_LIMITED", "backoff"), params=READ
    ),
    "read: 404": Case(replies_and_stays(answer(b"", "404 Gone")), rejected(), params=READ),
    "read: 502": Case(replies_and_stays(answer(b"", "502 Bad")), unknown("GATEWAY_UNCERTAIN", "backoff"), params=READ),
    "read: closes": Case(replies(b""), unknown("REMOTE_OUTCOME_UNKNOWN", "backoff"), params=READ),
    "read: cut": Case(replies(answer(b"half", length=8)), unknown("REMOTE_RESULT_INCOMPLETE", "backoff"), params=READ),
}


@pytest.mark.parametrize("name", WHOLE)
async def test_a_whole_answer(here: Ground, name: str) -> None:
    case = WHOLE[name]
    played = await played_as(here, case)
    if case.said == committed() and case.params == {} and "exact" in repr(played.envelope.get("http")):
        assert played.body["text"] == "exact"


@pytest.mark.parametrize("name", CODED)
async def test_a_body_that_does_not_decode(here: Ground, name: str) -> None:
    coding, data = CODED[name]
    headers = b"Content-Encoding: " + coding + b"\r\n"
    before = here.broker.most_memory
    played = await played_as(here, Case(replies_and_stays(answer(data, headers=headers)), committed()))
    assert (played.body["sha256"], played.body["bytes"]) == (hashlib.sha256(data).hexdigest(), len(data))
    if data is BOMB:
        assert here.broker.most_memory - before < BOMB_BYTES / 2
    else:
        assert played.body["undecodable"]


async def test_h85_a_second_answer_meets_no_other_call(here: Ground) -> None:
    async def script(call: Call) -> None:
        await call.next_request()
        await call.send(answer(b"first" if call is peer.calls[0] else b"second") + answer(b"poison", "201 Created"))
        await call.hold()

    for params in ({}, READ):
        async with here.peer(script) as peer:
            texts = []
            for n in (1, 2):
                envelope = await here.asked({"url": here.url("plain"), **params})
                played = await here.seen(envelope, *peer.calls)
                assert played.said == committed()
                texts.append(played.body["text"])
                assert len(peer.calls) == n
        assert texts == ["first", "second"]


async def test_a_kept_connection_that_dies_under_a_read_is_not_made_up_for(here: Ground) -> None:
    """The second request went out on a connection that the first one left; nobody repeats it (R17)."""

    async def script(call: Call) -> None:
        await call.next_request()
        await call.send(answer(b"first"))
        await call.next_request()
        await call.fin()
        await call.drain()

    async with here.peer(script) as peer:
        params = {"url": here.url("plain", "/kept"), "method": "GET"}
        first = await here.seen(await here.asked(params), *peer.calls)
        assert first.said == committed()
        second = await here.seen(await here.asked(params), *peer.calls)
        assert second.said == unknown("REMOTE_OUTCOME_UNKNOWN", "backoff")
        assert second.envelope["evidence"]["connection"]["reused"] is True
        (call,) = peer.calls
        assert call.received.count(b"GET /kept ") == 2


@pytest.mark.parametrize("said_there", [answer(b"", "408 Request Timeout"), b"", b"\0"], ids=["408", "nothing", "junk"])
async def test_a_kept_connection_that_its_peer_has_ended_is_not_used(here: Ground, said_there: bytes) -> None:
    """What waits on it answers nothing (RFC 9110, 15.5.9), and no read goes out there to be lost."""
    first_is_done, ended = asyncio.Event(), asyncio.Event()

    async def script(call: Call) -> None:
        await call.next_request()
        await call.send(answer(b"fine"))
        if call is peer.calls[0]:
            await first_is_done.wait()
            await call.send(said_there)
            await call.fin()
            ended.set()
        await call.hold()

    async with here.peer(script) as peer:
        params = {"url": here.url("plain", "/ended"), "method": "GET"}
        assert (await here.seen(await here.asked(params))).said == committed()
        first_is_done.set()
        await ended.wait()
        second = await here.seen(await here.asked(params))
        assert second.said == committed()
        assert second.envelope["evidence"]["connection"]["reused"] is False
        assert [call.received.count(b"GET /ended ") for call in peer.calls] == [1, 1]


# After the line: answers that come too late, or too early


@pytest.mark.parametrize(
    ("data", "settled"),
    [(answer(b"late"), committed()), (answer(b"late", "409 Conflict"), rejected()), (CHUNKED, None)],
    ids=["committed", "rejected", "cut"],
)
async def test_an_answer_that_is_whole_only_after_the_deadline(here: Ground, data: bytes, settled: Said | None) -> None:
    """The verdict is there by the deadline; what comes after it settles the record, if it is whole."""
    told = asyncio.Event()

    async def script(call: Call) -> None:
        await call.request()
        await call.send(data[:30])
        await told.wait()
        await call.send(data[30:])
        await call.fin()
        await call.drain()

    async with here.peer(script) as peer:
        envelope = await here.asked({"url": f"{here.url('plain')}?late={new_operation()}", **SOON})
        (await here.seen(envelope, *peer.calls)).check(hostile.CUT, deadline_s=SHORT_S)
        told.set()
        await peer.calls[0].over.wait()
        found = await asyncio.to_thread(here.look, envelope)
        if settled is not None:
            await asyncio.to_thread(until, lambda: said(here.look(envelope)) == settled, "it is settled")
            found = await asyncio.to_thread(here.look, envelope)
            assert found["http"]["body"]["text"] == "late"
            assert found["evidence"]["source"] == "remote_response"
        else:
            assert said(found) == hostile.CUT
        assert len(peer.calls) == 1


EARLY_STATUS: dict[str, Said] = {
    "200 OK": LOST,
    "202 Accepted": LOST,
    "307 Temporary Redirect": LOST,
    "500 Internal Server Error": LOST,
    "502 Bad Gateway": LOST,
    "503 Service Unavailable": LOST,
    "401 Unauthorized": rejected(),
    "408 Request Timeout": rejected(retry="reconcile"),
    "h75 h77 413 Content Too Large": rejected(),
    "417 Expectation Failed": rejected(),
    "429 Too Many Requests": rejected("REMOTE_RATE_LIMITED", "reconcile"),
}


@pytest.mark.parametrize("end", ["stays", "closes", "resets"])
@pytest.mark.parametrize("name", EARLY_STATUS)
async def test_an_answer_while_the_body_goes_out(here: Ground, name: str, end: str) -> None:
    line = name[re.search(r"\b\d{3} ", name).start() :]  # type: ignore[union-attr]
    data = answer(b"why", line, headers=b"Connection: close\r\n")
    await played_as(here, Case(reads_a_part(end, data), EARLY_STATUS[name], at="narrow", params=LARGE))


@pytest.mark.parametrize("end", ["closes", "resets"])
async def test_a_413_that_is_cut_while_the_body_goes_out(here: Ground, end: str) -> None:
    data = answer(b"too", "413 Content Too Large", length=9)
    await played_as(here, Case(reads_a_part(end, data), hostile.CUT, at="narrow", params=LARGE))


@pytest.mark.parametrize("status", ["200 OK", "408 Request Timeout", "400 Bad Request"])
async def test_h18_an_answer_that_was_there_before_the_request(here: Ground, status: str) -> None:
    """Its bytes come with the last of the handshake, so nothing of the request can have been out (RFC 9112, 9.3)."""

    async def script(call: Call) -> None:
        await call.handshake(then=answer(b"poison", status))
        await call.request()
        await call.hold()

    tls = server_context(here.authority.issue_cert("127.0.0.1"))
    tls.maximum_version = ssl.TLSVersion.TLSv1_2
    played = await here.play(script, "tls", peer={"tls": tls, "handshake": False})
    played.check(LOST)
    assert "before" in played.envelope["evidence"]["transport_observation"]


# How TLS ends a stream


def ends(data: bytes, how: str) -> Script:
    async def script(call: Call) -> None:
        await call.request()
        await call.send(data)
        match how:
            case "close_notify":
                await call.close_notify()
                await call.hold()
            case "ragged":
                await call.fin()
                await call.drain()
            case "reset":
                await call.reset()
            case "forged record":
                await call.raw(b"\x17\x03\x03\x00\x20" + bytes(32))
                await call.hold()
            case "forged alert":
                await call.raw(alert(80))
                await call.hold()

    return script


FORGED = ("ragged", "reset", "forged record", "forged alert")
TLS_ENDS: dict[str, tuple[bytes, str, Said]] = {
    "h72 open-ended, ragged": (OPEN_ENDED, "ragged", hostile.CUT),
    "h73 open-ended, reset": (OPEN_ENDED, "reset", hostile.CUT),
    "h74 open-ended, close_notify": (OPEN_ENDED, "close_notify", committed()),
    "open-ended, forged record": (OPEN_ENDED, "forged record", hostile.CUT),
    "open-ended, forged alert": (OPEN_ENDED, "forged alert", hostile.CUT),
    "HTTP/1.0, close_notify": (b"HTTP/1.0 200 OK\r\n\r\n{}", "close_notify", committed()),
    "4xx, open-ended, ragged": (b"HTTP/1.1 403 Forbidden\r\n\r\nno", "ragged", hostile.CUT),
    "4xx, open-ended, close_notify": (b"HTTP/1.1 403 Forbidden\r\n\r\nno", "close_notify", rejected()),
    "short body, close_notify": (answer(b"half", length=8), "close_notify", hostile.CUT),
    "no last chunk, close_notify": (CHUNKED + b"5\r\nhello\r\n", "close_notify", hostile.CUT),
    "head, close_notify": (b"HTTP/1.1 200 OK\r\nContent-Le", "close_notify", hostile.CUT),
    "nothing, close_notify": (b"", "close_notify", LOST),
    "1xx, close_notify": (EARLY, "close_notify", LOST),
    **{f"nothing, {how}": (b"", how, LOST) for how in FORGED},
    **{f"short body, {how}": (answer(b"half", length=8), how, hostile.CUT) for how in FORGED},
    **{f"whole body, {how}": (answer(b"whole"), how, committed()) for how in FORGED},
    **{f"whole 4xx, {how}": (answer(b"no", "400 Bad Request"), how, rejected()) for how in FORGED},
}


@pytest.mark.parametrize("name", TLS_ENDS)
async def test_how_tls_ends(here: Ground, any_tls: ssl.SSLContext, name: str) -> None:
    data, how, verdict = TLS_ENDS[name]
    played = await here.play(ends(data, how), "tls", peer={"tls": any_tls})
    played.check(verdict)
    assert len(played.calls) == 1
    assert played.envelope["evidence"]["connection"]["identity"].startswith("sha256:")


async def test_close_notify_before_the_request(here: Ground, any_tls: ssl.SSLContext) -> None:
    async def script(call: Call) -> None:
        await call.close_notify()
        await call.hold()

    played = await here.play(script, "tls", peer={"tls": any_tls})
    played.check(LOST, stopped("CONNECT_FAILED"))


# What a contract says beyond the protocol

REFUSING, TRUSTING = "/refusing/x", "/trusting/x"
KEY = "same_idempotency_key"


def gateway(said: bytes, status: str = "502 Bad Gateway") -> Script:
    return replies_and_stays(answer(b"", status, headers=b"Proxy-Status: " + said + b"\r\n"))


def vouched(said: bytes, verdict: Said, status: str = "502 Bad Gateway") -> Case:
    return Case(gateway(said, status), verdict, path=TRUSTING)


NOT_FORWARDED, NOWHERE = rejected("GATEWAY_REFUSED", "backoff"), rejected("GATEWAY_REFUSED", "after_correction")
BY_CONTRACT: dict[str, Case] = {
    "not vouched for": Case(gateway(b"edge; error=connection_refused"), GATEWAY),
    "never forwarded": vouched(b"edge; error=connection_refused", NOT_FORWARDED),
    "never forwarded, 504": vouched(b"edge; error=dns_timeout", NOT_FORWARDED, "504 Gateway Timeout"),
    "nowhere to go": vouched(b'edge;next-hop="b";error=destination_not_found', NOWHERE),
    "prohibited": vouched(b"edge;error=destination_ip_prohibited", NOWHERE),
    "broken while it waited": vouched(b"edge; error=connection_terminated", GATEWAY),
    "timed out": vouched(b"edge; error=http_response_timeout", GATEWAY, "504 Gateway Timeout"),
    "incomplete": vouched(b"edge; error=http_response_incomplete", GATEWAY),
    "connection timeout": vouched(b"edge; error=connection_timeout", GATEWAY, "504 Gateway Timeout"),
    "no error": vouched(b"edge", GATEWAY),
    "the inner hop's word": vouched(b"inner; error=connection_refused, edge", GATEWAY),
    "a comma inside the details": vouched(
        b'edge; error=connection_terminated; details="x, y; error=dns_error"', GATEWAY
    ),
    "a semicolon inside the details": vouched(b'edge; details="x; error=dns_error"', GATEWAY),
    "details without their end": vouched(b'edge; details="x, y; error=dns_error', GATEWAY),
    "answered after all": vouched(b"edge; error=connection_refused; received-status=500", GATEWAY),
    "another status": vouched(b"edge; error=connection_refused", GATEWAY, "520 Odd"),
    "503 of a trusted hop": vouched(
        b"edge; error=connection_refused", committed("REMOTE_UNAVAILABLE", "reconcile"), "503 Busy"
    ),
    "cut": Case(
        replies(answer(b"x", "502 Bad", length=2, headers=b"Proxy-Status: edge; error=dns_error\r\n")),
        hostile.CUT,
        path=TRUSTING,
    ),
    "refused before any work: 503": Case(
        replies_and_stays(answer(b"", "503 Busy")), rejected("REMOTE_UNAVAILABLE", "backoff"), path=REFUSING
    ),
    "refused before any work: 429": Case(
        replies_and_stays(answer(b"", "429 Slow")), rejected("REMOTE_RATE_LIMITED", "backoff"), path=REFUSING
    ),
    "refused before any work: 503, cut": Case(replies(answer(b"", "503 Busy", length=1)), hostile.CUT, path=REFUSING),
    "refused before any work: 503, early": Case(
        reads_a_part("stays", answer(b"", "503 Busy")), LOST, at="narrow", params=LARGE
    ),
    "key: lost": Case(replies(b""), unknown("REMOTE_OUTCOME_UNKNOWN", KEY), path="/keyed/x"),
    "key: cut": Case(replies(CHUNKED), unknown("REMOTE_RESULT_INCOMPLETE", KEY), path="/keyed/x"),
    "key: gateway": Case(replies_and_stays(answer(b"", "502 Bad")), unknown("GATEWAY_UNCERTAIN", KEY), path="/keyed/x"),
    "key: 429": Case(replies_and_stays(answer(b"", "429 Slow")), rejected("REMOTE_RATE_LIMITED", KEY), path="/keyed/x"),
    "close ends it: closes": Case(replies(OPEN_ENDED), committed(), path="/closing/x"),
    "close ends it: resets": Case(replies_and_resets(OPEN_ENDED), hostile.CUT, path="/closing/x"),
    "close ends it: short of its length": Case(replies(answer(b"x", length=2)), hostile.CUT, path="/closing/x"),
    "close ends it: chunked": Case(replies(CHUNKED + b"1\r\nx\r\n"), hostile.CUT, path="/closing/x"),
    "close ends it: nothing": Case(replies(b""), LOST, path="/closing/x"),
    "receipt: cut": Case(
        replies(answer(b"x", length=2, headers=b"X-Receipt: r1\r\n")),
        committed(code="REMOTE_RESULT_INCOMPLETE"),
        path="/receipt/x",
    ),
    "receipt: head cut": Case(replies(b"HTTP/1.1 200 OK\r\nX-Receipt: r1\r\n"), hostile.CUT, path="/receipt/x"),
    "receipt: none": Case(replies(answer(b"x", length=2)), hostile.CUT, path="/receipt/x"),
    "receipt: of a 400": Case(
        replies(answer(b"x", "400 Bad", length=2, headers=b"X-Receipt: r1\r\n")), hostile.CUT, path="/receipt/x"
    ),
}


@pytest.mark.parametrize("name", BY_CONTRACT)
async def test_what_a_contract_adds(here: Ground, name: str) -> None:
    await played_as(here, BY_CONTRACT[name])
