from __future__ import annotations

import asyncio
import ssl
import threading

import pytest
from tests.broker.wire.driver import BOUND_S, Drive, KeptBody, ToldLine, drive, post, prepared, turns
from tests.broker.wire.peer import Call, Peer, answer, replies, replies_and_stays
from tests.broker.wire.test_setup import hanging

from affidavit.broker.wire.exchange import DirectWire
from affidavit.broker.wire.port import Fault, HttpEvidence
from affidavit.broker.wire.tls import TlsLink

MIB = 1024 * 1024


class Refused(Exception):
    """What a line raises whose record could not be made durable."""


@pytest.fixture(params=["http", "https"])
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def tls(scheme: str, server_tls: ssl.SSLContext) -> ssl.SSLContext | None:
    return server_tls if scheme == "https" else None


async def closed_when(run: Drive, reached: asyncio.Event) -> HttpEvidence:
    """Run, and close from outside once an event has come."""
    task = asyncio.ensure_future(run.run())
    async with asyncio.timeout(BOUND_S):
        await reached.wait()
        await turns(5)
        run.exchange.close()
        return await task


# The line


async def test_nothing_is_sent_if_the_line_raises(wire: DirectWire, tls: ssl.SSLContext | None) -> None:
    async def at_line() -> None:
        raise Refused

    async def script(call: Call) -> None:
        await call.read_to_end()

    async with Peer(script, tls) as peer:
        scheme = "https" if tls else "http"
        run = drive(wire, prepared(peer.port, scheme=scheme, body=bytes(MIB)), line=ToldLine(at_line))
        with pytest.raises(Refused):
            await run.run()
        call = await peer.call()
        await call.over.wait()
    assert call.received == b""
    evidence = run.exchange.evidence
    assert not evidence.crossed
    assert evidence.bytes_sent == 0
    assert run.line.told == ["cross"]


async def test_nothing_is_sent_before_the_line_lets_it(wire: DirectWire, tls: ssl.SSLContext | None) -> None:
    at_line, durable = asyncio.Event(), asyncio.Event()

    async def cross() -> None:
        at_line.set()
        await durable.wait()

    async with Peer(replies(answer(b"ok")), tls) as peer:
        run = drive(wire, prepared(peer.port, scheme="https" if tls else "http"), line=ToldLine(cross))
        task = asyncio.ensure_future(run.run())
        await at_line.wait()
        call = await peer.call()
        await turns(50)
        before = bytes(call.received), run.exchange.evidence
        durable.set()
        evidence = await task
    assert before[0] == b""
    assert not before[1].crossed
    assert before[1].connection == run.line.connection
    assert evidence.complete


# close


async def test_close_before_it_began(wire: DirectWire) -> None:
    run = drive(wire, prepared(1))
    run.exchange.close()
    evidence = await run.run()
    assert not evidence.crossed
    assert evidence.stopped is None
    assert evidence.fault is Fault.ABANDONED
    assert run.line.told == []


async def test_close_during_dns(client_tls: ssl.SSLContext) -> None:
    gate, looking = threading.Event(), asyncio.Event()
    wire = DirectWire(tls=client_tls, resolve=hanging(gate))
    looking.set()
    evidence = await closed_when(drive(wire, prepared(1, host="slow.test")), looking)
    gate.set()
    assert not evidence.crossed
    assert evidence.fault is Fault.ABANDONED


async def test_close_during_the_handshake(wire: DirectWire, server_tls: ssl.SSLContext) -> None:
    accepted = asyncio.Event()

    async def script(call: Call) -> None:
        accepted.set()
        await call.hold()

    async with Peer(script, server_tls, handshake=False) as peer:
        evidence = await closed_when(drive(wire, prepared(peer.port, scheme="https")), accepted)
    assert not evidence.crossed
    assert evidence.fault is Fault.ABANDONED


async def test_close_at_the_line_waits_for_the_record_and_sends_nothing(
    wire: DirectWire, tls: ssl.SSLContext | None
) -> None:
    at_line, durable = asyncio.Event(), asyncio.Event()

    async def cross() -> None:
        at_line.set()
        await durable.wait()

    async def script(call: Call) -> None:
        await call.read_to_end()

    async with Peer(script, tls) as peer:
        run = drive(wire, prepared(peer.port, scheme="https" if tls else "http"), line=ToldLine(cross))
        task = asyncio.ensure_future(run.run())
        await at_line.wait()
        run.exchange.close()
        await turns(5)
        assert not task.done()
        durable.set()
        evidence = await task
        call = await peer.call()
        await call.over.wait()
    assert evidence.crossed
    assert evidence.fault is Fault.ABANDONED
    assert evidence.bytes_sent == 0
    assert call.received == b""
    assert evidence.observation == "closed by the broker before request write"


async def test_close_while_blocked_in_a_write(wire: DirectWire, tls: ssl.SSLContext | None) -> None:
    reading = asyncio.Event()

    async def script(call: Call) -> None:
        await call.read_at_least(1)
        reading.set()
        await call.hold()

    async with Peer(script, tls, rcvbuf=65536) as peer:
        run = drive(wire, prepared(peer.port, scheme="https" if tls else "http", body=bytes(32 * MIB)))
        evidence = await closed_when(run, reading)
    assert evidence.fault is Fault.ABANDONED
    assert not evidence.request_complete


async def test_close_while_reading_a_body(wire: DirectWire, tls: ssl.SSLContext | None) -> None:
    async with Peer(replies_and_stays(answer(b"half", length=8)), tls) as peer:
        sink = KeptBody()
        run = drive(wire, prepared(peer.port, scheme="https" if tls else "http"), sink=sink)
        evidence = await closed_when(run, sink.first)
        run.exchange.close()
    assert evidence.fault is Fault.ABANDONED
    assert evidence.status == 200
    assert not evidence.complete


async def test_nothing_is_read_once_closed_even_if_it_is_there(wire: DirectWire) -> None:
    async with Peer(replies_and_stays(b"")) as peer:
        run = drive(wire, prepared(peer.port))
        task = asyncio.ensure_future(run.run())
        call = await peer.call()
        await call.read_until(b"amount=5")
        await call.raw(answer(b"late"))
        link = run.exchange._flight._link
        assert link is not None
        link.readiness._on_readable()  # The loop has seen the answer, and before the exchange wakes it is closed.
        run.exchange.close()
        evidence = await task
    assert evidence.fault is Fault.ABANDONED
    assert not evidence.anything_final


async def test_close_while_the_sink_holds_back(wire: DirectWire) -> None:
    entered, go_on = asyncio.Event(), asyncio.Event()

    class Slow(KeptBody):
        async def write(self, data: bytes) -> None:
            entered.set()
            await go_on.wait()
            await super().write(data)

    async def script(call: Call) -> None:
        await call.request()
        await call.send(answer(b"half", length=8))
        await call.read_to_end()

    async with Peer(script) as peer:
        run = drive(wire, prepared(peer.port), sink=Slow())
        task = asyncio.ensure_future(run.run())
        await entered.wait()
        run.exchange.close()
        call = await peer.call()
        await call.over.wait()  # The connection closes at once, whatever the sink does.
        go_on.set()
        evidence = await task
    assert evidence.fault is Fault.ABANDONED
    assert run.sink.data == b"half"


async def test_close_after_the_end_changes_nothing(wire: DirectWire) -> None:
    async with Peer(replies(answer(b"ok"))) as peer:
        evidence, run = await post(wire, peer)
    run.exchange.close()
    assert run.exchange.evidence == evidence
    assert evidence.complete


# Cancellation and errors of ours


async def test_cancelling_closes_the_connection(wire: DirectWire, tls: ssl.SSLContext | None) -> None:
    arrived = asyncio.Event()

    async def script(call: Call) -> None:
        await call.request()
        arrived.set()
        await call.read_to_end()

    async with Peer(script, tls) as peer:
        run = drive(wire, prepared(peer.port, scheme="https" if tls else "http"))
        task = asyncio.ensure_future(run.run())
        await arrived.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await (await peer.call()).over.wait()
    evidence = run.exchange.evidence
    assert evidence.crossed
    assert evidence.fault is Fault.ABANDONED


async def test_what_the_sink_raises_comes_through_and_closes(wire: DirectWire) -> None:
    class Full(KeptBody):
        async def write(self, data: bytes) -> None:
            raise Refused

    async def script(call: Call) -> None:
        await call.request()
        await call.send(answer(b"half", length=8))
        await call.read_to_end()

    async with Peer(script) as peer:
        run = drive(wire, prepared(peer.port), sink=Full())
        with pytest.raises(Refused):
            await run.run()
        await (await peer.call()).over.wait()
    assert run.exchange.evidence.fault is Fault.ABANDONED


async def test_a_request_that_is_not_http_is_refused_at_once(wire: DirectWire) -> None:
    with pytest.raises(ValueError, match="not valid HTTP"):
        drive(wire, prepared(1, headers=((b"X", b"a\r\nb"),)))


# Large bodies


async def test_large_bodies_both_ways_at_once(wire: DirectWire, tls: ssl.SSLContext | None) -> None:
    """The peer sends back what it gets while it gets it: neither side may wait for the other to finish."""
    body = bytes(range(256)) * (8 * MIB // 256)

    async def script(call: Call) -> None:
        await call.read_until(b"\r\n\r\n")
        await call.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body))
        start, done = call.received.index(b"\r\n\r\n") + 4, 0
        while done < len(body):
            await call.read_at_least(start + done + 1)
            part = bytes(call.received[start + done :])
            await call.send(part)
            done += len(part)
        await call.hold()

    async with Peer(script, tls) as peer:
        request = prepared(peer.port, scheme="https" if tls else "http", body=body)
        run = drive(wire, request)
        evidence = await run.run()
    assert evidence.complete
    assert evidence.early
    assert run.sink.data == body
    assert run.sink.largest <= 2 * 64 * 1024


async def test_large_body_up(wire: DirectWire, tls: ssl.SSLContext | None) -> None:
    body = bytes(8 * MIB)
    async with Peer(replies(answer(b"ok")), tls) as peer:
        run = drive(wire, prepared(peer.port, scheme="https" if tls else "http", body=body))
        evidence = await run.run()
        call = await peer.call()
    assert evidence.complete
    assert not evidence.early
    assert evidence.request_complete
    assert call.received.endswith(body)
    assert evidence.bytes_sent == len(call.received) == run.line.sent


async def test_the_request_is_let_go_with_its_last_byte(wire: DirectWire) -> None:
    """A request holds a secret, and its exchange may be read for minutes after it has gone."""
    async with Peer(replies_and_stays(b"")) as peer:
        run = drive(wire, prepared(peer.port))
        assert b"amount=5" in bytes(run.exchange._flight._outgoing.obj)
        task = asyncio.ensure_future(run.run())
        await (await peer.call()).read_until(b"amount=5")
        await turns(5)
        assert run.exchange.evidence.request_complete
        assert run.exchange._flight._outgoing.obj == b""
        run.exchange.close()
        await task


# Where it goes


async def test_ipv6(wire: DirectWire, tls: ssl.SSLContext | None) -> None:
    async with Peer(replies(answer(b"six")), tls, host="::1") as peer:
        evidence, run = await post(wire, peer)
    assert evidence.complete
    assert evidence.connection is not None
    assert evidence.connection.peer == f"[::1]:{peer.port}"
    assert (evidence.connection.identity is None) is (tls is None)
    assert run.sink.data == b"six"


async def test_a_name_is_looked_up_and_its_certificate_checked(wire: DirectWire, server_tls: ssl.SSLContext) -> None:
    async with Peer(replies(answer(b"ok")), server_tls) as peer:
        evidence = await drive(wire, prepared(peer.port, scheme="https", host="localhost")).run()
    assert evidence.complete


async def test_only_http_1_1_is_offered(wire: DirectWire, authority: object, server_tls: ssl.SSLContext) -> None:
    chosen: list[str | None] = []

    async def script(call: Call) -> None:
        assert call._tls is not None
        chosen.append(call._tls.selected_alpn_protocol())
        await replies(answer())(call)

    server_tls.set_alpn_protocols(["h2", "http/1.1"])
    async with Peer(script, server_tls) as peer:
        evidence, _ = await post(wire, peer)
    assert evidence.complete
    assert chosen == ["http/1.1"]


async def test_one_context_serves_all_exchanges(wire: DirectWire, server_tls: ssl.SSLContext) -> None:
    async with Peer(replies(answer(b"ok")), server_tls) as peer:
        runs = [drive(wire, prepared(peer.port, scheme="https")) for _ in range(16)]
        ended = await asyncio.gather(*(run.run() for run in runs))
    assert all(evidence.complete for evidence in ended)
    assert len({evidence.connection.id for evidence in ended if evidence.connection}) == 16
    assert isinstance(runs[0].exchange._flight._link, TlsLink)


async def test_evidence_is_a_snapshot(wire: DirectWire) -> None:
    async with Peer(replies(answer(b"ok"))) as peer:
        run = drive(wire, prepared(peer.port))
        before = run.exchange.evidence
        after = await run.run()
    assert before == HttpEvidence()
    assert after == run.exchange.evidence
    assert after != before
