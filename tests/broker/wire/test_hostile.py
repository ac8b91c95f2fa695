"""The HTTP cases of broken and hostile peers, as far as the wire's facts go: one test for each, by its number.

What verdict follows from these facts is tested with `outcome`.
"""

from __future__ import annotations

import asyncio
import datetime
import socket
import ssl

import pytest
import trustme
from tests.broker.wire.answers import BROKEN, CODED, CUT, OPEN_ENDED
from tests.broker.wire.driver import BOUND_S, Drive, KeptBody, ToldLine, drive, post, prepared, turns
from tests.broker.wire.peer import (
    Call,
    Peer,
    answer,
    replies,
    replies_and_resets,
    replies_and_stays,
    server_context,
)

from affidavit.broker.terms import Stage
from affidavit.broker.wire.dial import Address
from affidavit.broker.wire.exchange import DirectWire
from affidavit.broker.wire.port import Fault, HttpEvidence, SetupFault, SetupLimits


@pytest.fixture(autouse=True, params=range(5))
def nth_time(request: pytest.FixtureRequest) -> int:
    """Each case runs some times: a race shows only now and then."""
    return int(request.param)


def stopped(evidence: HttpEvidence) -> tuple[Stage, SetupFault, str]:
    assert evidence.stopped is not None
    assert not evidence.crossed
    assert evidence.bytes_sent == 0
    assert evidence.fault is None
    assert not evidence.complete
    return evidence.stopped.stage, evidence.stopped.fault, evidence.stopped.system


# Before the line


async def test_h06_connection_refused(wire: DirectWire) -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        run = drive(wire, prepared(bound.getsockname()[1]))
        evidence = await run.run()
    assert stopped(evidence) == (Stage.TCP_CONNECT, SetupFault.REFUSED, "ECONNREFUSED")
    assert evidence.stopped is not None
    assert evidence.stopped.reached is Stage.DNS
    assert evidence.stopped.address == "127.0.0.1"
    assert run.line.told == []


async def test_h08_no_such_name(client_tls: ssl.SSLContext) -> None:
    def resolve(host: str, port: int) -> list[Address]:
        raise socket.gaierror(socket.EAI_NONAME, "no such name")

    evidence = await drive(DirectWire(tls=client_tls, resolve=resolve), prepared(1, host="no.such.test")).run()
    assert stopped(evidence) == (Stage.DNS, SetupFault.NOT_FOUND, "EAI_NONAME")
    assert evidence.stopped is not None
    assert evidence.stopped.reached is None


async def test_h09_tls_handshake_stalls(wire: DirectWire, server_tls: ssl.SSLContext) -> None:
    async def script(call: Call) -> None:
        await call.hold()

    async with Peer(script, server_tls, handshake=False) as peer:
        evidence, _ = await post(wire, peer, limits=SetupLimits(tls_handshake_s=0.05))
    assert stopped(evidence) == (Stage.TLS_HANDSHAKE, SetupFault.LIMIT, "ETIMEDOUT")
    assert evidence.stopped is not None
    assert evidence.stopped.reached is Stage.TCP_CONNECT


async def test_h10_closed_during_the_handshake(wire: DirectWire, server_tls: ssl.SSLContext) -> None:
    async def script(call: Call) -> None:
        await asyncio.get_running_loop().sock_recv(call._sock, 65536)

    async with Peer(script, server_tls, handshake=False) as peer:
        evidence, _ = await post(wire, peer)
    assert stopped(evidence) == (Stage.TLS_HANDSHAKE, SetupFault.HANDSHAKE, "EOF")


async def test_h10_reset_during_the_handshake(wire: DirectWire, server_tls: ssl.SSLContext) -> None:
    async def script(call: Call) -> None:
        await asyncio.get_running_loop().sock_recv(call._sock, 65536)
        await call.reset()

    async with Peer(script, server_tls, handshake=False) as peer:
        evidence, _ = await post(wire, peer)
    assert stopped(evidence) == (Stage.TLS_HANDSHAKE, SetupFault.HANDSHAKE, "ECONNRESET")


async def test_h10_junk_in_place_of_a_handshake(wire: DirectWire, server_tls: ssl.SSLContext) -> None:
    async def script(call: Call) -> None:
        await call.raw(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await call.hold()

    async with Peer(script, server_tls, handshake=False) as peer:
        evidence, _ = await post(wire, peer)
    assert stopped(evidence) == (Stage.TLS_HANDSHAKE, SetupFault.HANDSHAKE, "WRONG_VERSION_NUMBER")


async def test_h12_unknown_authority(wire: DirectWire) -> None:
    other = server_context(trustme.CA().issue_cert("127.0.0.1"))
    async with Peer(replies(answer()), other) as peer:
        evidence, _ = await post(wire, peer)
        call = await peer.call()
        await call.over.wait()
    assert stopped(evidence) == (Stage.CERTIFICATE, SetupFault.CERTIFICATE, "CERT_UNTRUSTED")
    assert call.alert == "TLSV1_ALERT_UNKNOWN_CA"
    assert not call.received


async def test_h13_certificate_for_another_name(client_tls: ssl.SSLContext, authority: trustme.CA) -> None:
    names: list[str] = []
    tls = server_context(authority.issue_cert("other.test"))
    tls.sni_callback = lambda _object, name, _context: names.append(name)
    async with Peer(replies(answer()), tls) as peer:
        pinned = DirectWire(tls=client_tls, resolve=lambda host, port: [Address(socket.AF_INET, "127.0.0.1", port)])
        evidence = await drive(pinned, prepared(peer.port, scheme="https", host="pinned.test")).run()
        call = await peer.call()
    assert stopped(evidence) == (Stage.CERTIFICATE, SetupFault.CERTIFICATE, "CERT_NAME")
    assert names == ["pinned.test"]
    assert not call.received


@pytest.mark.parametrize(("begins", "ends", "system"), [(-20, -10, "CERT_EXPIRED"), (10, 20, "CERT_NOT_YET_VALID")])
async def test_h12_certificate_out_of_its_time(
    wire: DirectWire, authority: trustme.CA, begins: int, ends: int, system: str
) -> None:
    now = datetime.datetime.now(datetime.UTC)
    day = datetime.timedelta(days=1)
    cert = authority.issue_cert("127.0.0.1", not_before=now + begins * day, not_after=now + ends * day)
    async with Peer(replies(answer()), server_context(cert)) as peer:
        evidence, _ = await post(wire, peer)
    assert stopped(evidence) == (Stage.CERTIFICATE, SetupFault.CERTIFICATE, system)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_h14_h15_client_certificate_missing(
    wire: DirectWire, authority: trustme.CA, version: ssl.TLSVersion
) -> None:
    tls = server_context(authority.issue_cert("127.0.0.1"))
    authority.configure_trust(tls)
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.minimum_version = tls.maximum_version = version
    async with Peer(replies(answer()), tls) as peer:
        evidence, run = await post(wire, peer)
    stage, fault, system = stopped(evidence)
    assert (stage, fault) == (Stage.TLS_HANDSHAKE, SetupFault.CLIENT_CERTIFICATE)
    assert "ALERT" in system
    assert run.line.told == []


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_h14_h15_client_certificate_wished_for_only(
    wire: DirectWire, authority: trustme.CA, version: ssl.TLSVersion
) -> None:
    tls = server_context(authority.issue_cert("127.0.0.1"))
    authority.configure_trust(tls)
    tls.verify_mode = ssl.CERT_OPTIONAL
    tls.minimum_version = tls.maximum_version = version
    async with Peer(replies(answer(b"fine")), tls) as peer:
        evidence, run = await post(wire, peer)
    assert evidence.complete
    assert run.sink.data == b"fine"


async def test_h25_deadline_during_a_handshake_drip(wire: DirectWire, server_tls: ssl.SSLContext) -> None:
    async def script(call: Call) -> None:
        # A record that announces far more than will come; each byte would renew a time-out of one read.
        await call.raw(b"\x16\x03\x03\x40\x00")
        while not call.over.is_set():
            await call.raw(b"\x02")
            await turns(100)

    async with Peer(script, server_tls, handshake=False) as peer:
        evidence, _ = await post(wire, peer, deadline_s=0.1, limits=SetupLimits(tls_handshake_s=2 * BOUND_S))
    assert stopped(evidence) == (Stage.TLS_HANDSHAKE, SetupFault.DEADLINE, "ETIMEDOUT")


async def test_h26_reset_right_after_accept(wire: DirectWire) -> None:
    async def script(call: Call) -> None:
        await call.reset()

    async with Peer(script) as peer:
        evidence, run = await post(wire, peer)
    if evidence.crossed:
        assert evidence.fault in (Fault.RESET, Fault.WRITE_FAILED)
        assert not evidence.anything_final
        assert run.line.told[0] == "cross"
    else:
        assert stopped(evidence) == (Stage.TCP_CONNECT, SetupFault.REFUSED, "ECONNRESET")
        assert run.line.told == []


async def test_h26_reset_after_the_record_is_never_a_set_up_fault(wire: DirectWire) -> None:
    gate = asyncio.Event()

    async def script(call: Call) -> None:
        await gate.wait()
        await call.reset()

    async with Peer(script) as peer:

        async def at_line() -> None:
            gate.set()
            await (await peer.call()).over.wait()

        evidence, run = await post(wire, peer, line=ToldLine(at_line))
    assert evidence.crossed
    assert evidence.stopped is None
    assert evidence.fault is Fault.RESET
    assert evidence.bytes_sent == 0
    assert evidence.observation == "reset by peer before request write"
    assert run.line.told == ["cross"]


# After the line, nothing final


async def test_h27_closes_after_reading(wire: DirectWire) -> None:
    async with Peer(replies(b"")) as peer:
        evidence, run = await post(wire, peer)
        call = await peer.call()
    assert evidence.crossed
    assert evidence.request_complete
    assert evidence.fault is Fault.CLOSED
    assert not evidence.anything_final
    assert not evidence.status_line
    assert evidence.observation == "closed by peer after request write"
    assert call.received.endswith(b"\r\n\r\namount=5")
    assert evidence.bytes_sent == len(call.received) == run.line.sent
    assert run.line.told == ["cross", "request_sent"]


async def test_h28_no_answer(wire: DirectWire) -> None:
    async with Peer(replies_and_stays(b"")) as peer:
        run = drive(wire, prepared(peer.port))
        task = asyncio.ensure_future(run.run())
        await (await peer.call()).read_until(b"amount=5")
        still = run.exchange.evidence
        run.exchange.close()
        evidence = await task
    assert still.crossed
    assert still.fault is None
    assert not still.complete
    assert not still.anything_final
    assert evidence.fault is Fault.ABANDONED
    assert evidence.observation == "closed by the broker after request write"


async def test_h29_peer_never_reads(wire: DirectWire) -> None:
    async def script(call: Call) -> None:
        await call.hold()

    async with Peer(script, rcvbuf=4096) as peer:
        run = drive(wire, prepared(peer.port, body=bytes(32 * 1024 * 1024)))
        task = asyncio.ensure_future(run.run())
        await peer.call()
        await _until_writing_blocks(run)
        run.exchange.close()
        evidence = await task
    assert evidence.crossed
    assert evidence.fault is Fault.ABANDONED
    assert not evidence.request_complete
    assert 0 < evidence.bytes_sent < 32 * 1024 * 1024
    assert evidence.observation == "closed by the broker during request write"
    assert run.line.told == ["cross"]


async def _until_writing_blocks(run: Drive) -> None:
    """Return once the exchange has made no headway over many turns of the loop."""
    async with asyncio.timeout(BOUND_S):
        seen = -1
        while seen <= 0 or seen != run.exchange.evidence.bytes_sent:
            seen = run.exchange.evidence.bytes_sent
            await turns(200)


@pytest.mark.parametrize(
    "interim",
    [
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 100 Conti",
        b"HTTP/1.1 1",
    ],
)
async def test_h31_only_1xx_then_closes(wire: DirectWire, interim: bytes) -> None:
    async with Peer(replies(interim)) as peer:
        evidence, run = await post(wire, peer)
    assert evidence.fault is Fault.CLOSED
    assert not evidence.anything_final
    assert not evidence.status_line
    assert evidence.status is None
    assert run.line.told == ["cross", "request_sent"]


async def test_1xx_before_a_final_answer_is_passed_over(wire: DirectWire) -> None:
    async with Peer(replies(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n" + answer(b"ok"))) as peer:
        evidence, run = await post(wire, peer)
    assert evidence.complete
    assert run.line.status == 200
    assert run.line.told == ["cross", "request_sent", "response_started"]


async def test_h35_resets_without_an_answer(wire: DirectWire) -> None:
    async with Peer(replies_and_resets(b"")) as peer:
        evidence, _ = await post(wire, peer)
    assert evidence.fault is Fault.RESET
    assert not evidence.anything_final
    assert evidence.observation == "reset by peer after request write"


# After the line, an answer that does not count


def told(data: bytes, run: Drive) -> bytes:
    """An answer whose head was in order: that head, and what came of its body, framing removed."""
    return data[: data.index(b"\r\n\r\n") + 4] + run.sink.data


@pytest.mark.parametrize("after", ["closes", "stays", "resets"])
@pytest.mark.parametrize("name", BROKEN)
async def test_broken_answer(wire: DirectWire, name: str, after: str) -> None:
    data, fault, why = BROKEN[name]
    script = {"closes": replies, "stays": replies_and_stays, "resets": replies_and_resets}[after](data)
    async with Peer(script) as peer:
        evidence, run = await post(wire, peer)
    assert evidence.fault is fault
    assert evidence.observation is not None
    assert why in evidence.observation
    assert not evidence.complete
    assert evidence.anything_final
    assert evidence.diagnostic in data if evidence.status is None else told(data, run) == evidence.diagnostic
    assert len(evidence.diagnostic) <= 4096
    if "chunk" not in why:
        assert evidence.status is None
        assert "response_started" not in run.line.told


@pytest.mark.parametrize("after", ["closes", "resets"])
@pytest.mark.parametrize("name", CUT)
async def test_answer_cut(wire: DirectWire, name: str, after: str) -> None:
    data, status_line = CUT[name]
    script = replies(data) if after == "closes" else replies_and_resets(data)
    async with Peer(script) as peer:
        evidence, run = await post(wire, peer)
    assert evidence.fault is (Fault.CLOSED if after == "closes" else Fault.RESET)
    assert evidence.status_line is status_line
    assert evidence.anything_final
    assert not evidence.complete
    assert evidence.completion is None
    final = data.removeprefix(b"HTTP/1.1 100 Continue\r\n\r\n")
    assert evidence.diagnostic == (final if evidence.status is None else told(final, run))
    assert evidence.body_bytes == len(run.sink.data)


async def test_h52_short_body_held(wire: DirectWire) -> None:
    async with Peer(replies_and_stays(answer(b"half", length=8))) as peer:
        run = drive(wire, prepared(peer.port))
        task = asyncio.ensure_future(run.run())
        async with asyncio.timeout(BOUND_S):
            await run.sink.first.wait()
        still = run.exchange.evidence
        run.exchange.close()
        evidence = await task
    assert still.status_line
    assert still.status == 200
    assert still.fault is None
    assert not still.complete
    assert evidence.fault is Fault.ABANDONED
    assert evidence.observation == "closed by the broker inside the response body"
    assert evidence.diagnostic.endswith(b"\r\n\r\nhalf")


@pytest.mark.parametrize("version", [b"1.1", b"1.0"])
async def test_h57_h59_plain_close_ends_no_body(wire: DirectWire, version: bytes) -> None:
    async with Peer(replies(b"HTTP/" + version + b" 200 OK\r\n\r\n{}")) as peer:
        evidence, run = await post(wire, peer)
    assert evidence.fault is Fault.FRAMING
    assert evidence.status == 200
    assert evidence.status_line
    assert not evidence.complete
    assert run.sink.data == b"{}"


@pytest.mark.parametrize("version", [b"1.1", b"1.0"])
async def test_h57_h59_plain_close_where_the_contract_says_so(wire: DirectWire, version: bytes) -> None:
    async with Peer(replies(b"HTTP/" + version + b" 200 OK\r\n\r\n{}")) as peer:
        evidence, _ = await post(wire, peer, close_completes=True)
    assert evidence.complete
    assert evidence.completion == "close"
    assert evidence.fault is None


@pytest.mark.parametrize("close_completes", [False, True])
async def test_a_reset_ends_no_body(wire: DirectWire, close_completes: bool) -> None:
    async with Peer(replies_and_resets(b"HTTP/1.1 200 OK\r\n\r\n{}")) as peer:
        evidence, _ = await post(wire, peer, close_completes=close_completes)
    assert evidence.fault is Fault.RESET
    assert not evidence.complete


# TLS endings


@pytest.fixture(params=["TLS 1.2", "TLS 1.3"])
def any_tls(request: pytest.FixtureRequest, server_tls: ssl.SSLContext, server_tls12: ssl.SSLContext) -> ssl.SSLContext:
    return server_tls if request.param == "TLS 1.3" else server_tls12


async def test_h72_ragged(wire: DirectWire, any_tls: ssl.SSLContext) -> None:
    async with Peer(replies(OPEN_ENDED), any_tls) as peer:
        evidence, _ = await post(wire, peer)
    assert evidence.fault is Fault.RAGGED
    assert not evidence.complete
    assert evidence.status == 200
    assert evidence.observation == "closed by peer without close_notify inside the response body"


async def test_h73_reset(wire: DirectWire, any_tls: ssl.SSLContext) -> None:
    async with Peer(replies_and_resets(OPEN_ENDED), any_tls) as peer:
        evidence, _ = await post(wire, peer)
    assert evidence.fault is Fault.RESET
    assert not evidence.complete


async def test_h74_close_notify(wire: DirectWire, any_tls: ssl.SSLContext) -> None:
    async def script(call: Call) -> None:
        await call.request()
        await call.send(OPEN_ENDED)
        await call.close_notify()
        await call.hold()

    async with Peer(script, any_tls) as peer:
        evidence, run = await post(wire, peer)
    assert evidence.complete
    assert evidence.completion == "close_notify"
    assert run.sink.data == b"whole?"


async def test_close_notify_does_not_complete_a_length(wire: DirectWire, any_tls: ssl.SSLContext) -> None:
    async def script(call: Call) -> None:
        await call.request()
        await call.send(answer(b"half", length=8))
        await call.close_notify()
        await call.hold()

    async with Peer(script, any_tls) as peer:
        evidence, _ = await post(wire, peer)
    assert evidence.fault is Fault.CLOSED
    assert not evidence.complete


async def test_tls_records_that_are_not_authentic(wire: DirectWire, any_tls: ssl.SSLContext) -> None:
    async def script(call: Call) -> None:
        await call.request()
        await call.send(OPEN_ENDED)
        await call.raw(b"\x17\x03\x03\x00\x20" + bytes(32))
        await call.hold()

    async with Peer(script, any_tls) as peer:
        evidence, _ = await post(wire, peer)
    assert evidence.fault is Fault.RESET
    assert evidence.observation is not None
    assert evidence.observation.startswith("ended by TLS (")
    assert not evidence.complete


async def test_tls_answer_is_bound_to_the_peer(wire: DirectWire, any_tls: ssl.SSLContext) -> None:
    async with Peer(replies(answer(b"yes")), any_tls) as peer:
        evidence, run = await post(wire, peer)
        call = await peer.call()
        await call.over.wait()
    assert evidence.complete
    assert evidence.connection == run.line.connection
    assert evidence.connection is not None
    assert evidence.connection.peer == f"127.0.0.1:{peer.port}"
    assert evidence.connection.identity is not None
    assert evidence.connection.identity.startswith("sha256:")
    assert call.client_ended == "close_notify"


# Complete answers


@pytest.mark.parametrize("name", CODED)
async def test_content_coding_is_kept(wire: DirectWire, name: str) -> None:
    coding, body = CODED[name]
    data = answer(body, headers=b"Content-Encoding: " + coding + b"\r\n")
    async with Peer(replies_and_stays(data)) as peer:
        evidence, run = await post(wire, peer)
    assert evidence.complete
    assert evidence.completion == "content-length"
    assert ("content-encoding", coding.decode()) in evidence.headers
    assert run.sink.data == body
    assert evidence.diagnostic == b""


async def test_h66_excess_bytes(wire: DirectWire) -> None:
    async with Peer(replies(answer(b"exact") + b"and more")) as peer:
        evidence, run = await post(wire, peer)
    assert evidence.complete
    assert run.sink.data == b"exact"
    assert evidence.body_bytes == 5


async def test_h68_head_then_reset(wire: DirectWire) -> None:
    async with Peer(replies_and_resets(answer(length=500))) as peer:
        run = drive(wire, prepared(peer.port, method="HEAD", body=b""))
        evidence = await run.run()
    assert evidence.complete
    assert evidence.completion == "head"
    assert evidence.body_bytes == 0


@pytest.mark.parametrize("status", ["204 No Content", "304 Not Modified"])
async def test_no_content(wire: DirectWire, status: str) -> None:
    async with Peer(replies_and_stays(f"HTTP/1.1 {status}\r\nETag: x\r\n\r\n".encode())) as peer:
        evidence, _ = await post(wire, peer)
    assert evidence.complete
    assert evidence.completion == "no-content"


async def test_h71_trailers(wire: DirectWire) -> None:
    data = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;ext=1\r\nhello\r\n0\r\nDigest: x\r\n\r\n"
    async with Peer(replies_and_stays(data)) as peer:
        evidence, run = await post(wire, peer)
    assert evidence.complete
    assert evidence.completion == "chunked"
    assert run.sink.data == b"hello"


@pytest.mark.parametrize(
    "status",
    [
        "h78 401 Unauthorized",
        "h79 307 Temporary Redirect",
        "h80 500 Internal Server Error",
        "h81 502 Bad Gateway",
        "h82 504 Gateway Timeout",
        "h83 407 Proxy Authentication Required",
        "x16 502 Bad Gateway",
    ],
)
async def test_complete_whatever_the_status(wire: DirectWire, status: str) -> None:
    line = status.partition(" ")[2]
    data = answer(b"why", line, headers=b"Location: https://other.test/\r\nProxy-Status: g; error=x\r\n")
    async with Peer(replies(data)) as peer:
        evidence, run = await post(wire, peer)
        assert len(peer.calls) == 1
    assert evidence.complete
    assert not evidence.early
    assert evidence.status == run.line.status == int(line[:3])
    assert evidence.headers == (
        ("location", "https://other.test/"),
        ("proxy-status", "g; error=x"),
        ("content-length", "3"),
    )
    assert run.line.told == ["cross", "request_sent", "response_started"]


BIG = 32 * 1024 * 1024


async def test_h75_refused_and_reset_while_the_body_is_in_flight(wire: DirectWire) -> None:
    async def script(call: Call) -> None:
        await call.read_at_least(100_000)
        await call.send(answer(b"too large", "413 Content Too Large"))
        await call.reset()

    async with Peer(script) as peer:
        run = drive(wire, prepared(peer.port, body=bytes(BIG)))
        evidence = await run.run()
    assert evidence.complete
    assert evidence.status == 413
    assert evidence.early
    assert not evidence.request_complete
    assert run.sink.data == b"too large"
    assert run.line.told == ["cross", "response_started"]


@pytest.mark.parametrize("over_tls", [False, True])
async def test_h77_refused_and_never_reads_again(wire: DirectWire, server_tls: ssl.SSLContext, over_tls: bool) -> None:
    async def script(call: Call) -> None:
        await call.read_until(b"\r\n\r\n")
        await call.send(answer(b"too large", "413 Content Too Large"))
        await call.hold()

    async with Peer(script, server_tls if over_tls else None, rcvbuf=65536) as peer:
        run = drive(wire, prepared(peer.port, scheme="https" if over_tls else "http", body=bytes(BIG)))
        evidence = await run.run()
    assert evidence.complete
    assert evidence.status == 413
    assert evidence.early
    assert 0 < evidence.bytes_sent < BIG
    assert not evidence.request_complete


async def test_h76_early_200(wire: DirectWire) -> None:
    async def script(call: Call) -> None:
        await call.read_until(b"\r\n\r\n")
        await call.send(answer(b"done"))
        await call.hold()

    async with Peer(script, rcvbuf=65536) as peer:
        evidence = await drive(wire, prepared(peer.port, body=bytes(BIG))).run()
    assert evidence.complete
    assert evidence.status == 200
    assert evidence.early
    assert not evidence.answer_before_request


async def test_reset_in_mid_request_without_an_answer(wire: DirectWire) -> None:
    async def script(call: Call) -> None:
        await call.read_at_least(100_000)
        await call.reset()

    async with Peer(script) as peer:
        evidence = await drive(wire, prepared(peer.port, body=bytes(BIG))).run()
    assert evidence.fault in (Fault.WRITE_FAILED, Fault.RESET)
    assert not evidence.anything_final
    assert not evidence.request_complete
    assert evidence.observation is not None
    assert evidence.observation.endswith("during request write")


async def test_h85_a_second_answer_meets_no_other_call(wire: DirectWire) -> None:
    async def script(call: Call) -> None:
        await call.request()
        mine = b"first" if len(peer.calls) == 1 else b"second"
        await call.send(answer(mine) + answer(b"poison", "201 Created"))
        await call.hold()

    async with Peer(script) as peer:
        first, one = await post(wire, peer)
        second, two = await post(wire, peer)
        assert len(peer.calls) == 2
    assert first.complete
    assert second.complete
    assert (first.status, second.status) == (200, 200)
    assert (one.sink.data, two.sink.data) == (b"first", b"second")
    assert first.connection is not None
    assert second.connection is not None
    assert first.connection.id != second.connection.id


@pytest.mark.parametrize("over_tls", [False, True])
async def test_h18_answer_that_was_there_before_the_request(
    wire: DirectWire, server_tls: ssl.SSLContext, over_tls: bool
) -> None:
    sent = asyncio.Event()

    async def script(call: Call) -> None:
        await call.send(answer(b"poison"))
        sent.set()
        await call.hold()

    async with Peer(script, server_tls if over_tls else None) as peer:

        async def at_line() -> None:
            await sent.wait()

        evidence, run = await post(wire, peer, line=ToldLine(at_line))
    assert evidence.complete
    assert evidence.answer_before_request
    assert evidence.early
    assert run.line.told == ["cross", "request_sent", "response_started"]


async def test_h18_beginning_of_an_answer_before_the_request(wire: DirectWire) -> None:
    sent = asyncio.Event()

    async def script(call: Call) -> None:
        await call.send(b"HTTP/1.1 20")
        sent.set()
        await call.request()
        await call.send(answer(b"poison")[len(b"HTTP/1.1 20") :])
        await call.hold()

    async with Peer(script) as peer:
        evidence, _ = await post(wire, peer, line=ToldLine(sent.wait))
    assert evidence.complete
    assert evidence.answer_before_request
    assert not evidence.early


async def test_1xx_before_the_request_is_no_answer_before_it(wire: DirectWire) -> None:
    sent = asyncio.Event()

    async def script(call: Call) -> None:
        await call.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        sent.set()
        await call.request()
        await call.send(answer(b"real"))
        await call.hold()

    async with Peer(script) as peer:
        evidence, _ = await post(wire, peer, line=ToldLine(sent.wait))
    assert evidence.complete
    assert not evidence.answer_before_request
    assert not evidence.early


async def test_h30_slow_drip_of_a_head_is_read_byte_by_byte(wire: DirectWire) -> None:
    async def script(call: Call) -> None:
        await call.request()
        for byte in answer(b"slow", headers=b"A: b\r\n"):
            await call.send(bytes([byte]))
            await turns(3)
        await call.hold()

    async with Peer(script) as peer:
        evidence, run = await post(wire, peer)
    assert evidence.complete
    assert run.sink.data == b"slow"


async def test_memory_stays_bounded_while_a_large_body_comes(wire: DirectWire) -> None:
    async with Peer(replies_and_stays(answer(bytes(8 * 1024 * 1024)))) as peer:
        evidence, run = await post(wire, peer, sink=KeptBody(keep=False))
    assert evidence.complete
    assert run.sink.length == 8 * 1024 * 1024
    assert run.sink.largest <= 64 * 1024
