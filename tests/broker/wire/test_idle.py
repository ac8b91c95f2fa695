"""Connections that serve more than one read, and everything that makes them unfit for it."""

from __future__ import annotations

import asyncio
import socket
import ssl

import pytest
from tests.broker.wire.driver import ToldLine, drive, post, prepared, read, turns
from tests.broker.wire.peer import Call, Peer, Script, answer, replies, serves

from affidavit.broker.wire import idle
from affidavit.broker.wire.dial import Address
from affidavit.broker.wire.exchange import DirectWire
from affidavit.broker.wire.port import Fault, SetupFault

ONE, TWO = answer(b"one"), answer(b"two")
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n0\r\nTrailer: t\r\n\r\n"


@pytest.fixture(params=range(3))
def nth_time(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(params=["http", "https"])
def tls(request: pytest.FixtureRequest, server_tls: ssl.SSLContext) -> ssl.SSLContext | None:
    return server_tls if request.param == "https" else None


@pytest.mark.parametrize("first", [ONE, CHUNKED, answer()])
async def test_a_second_read_goes_over_the_first_ones_connection(
    sharing: DirectWire, tls: ssl.SSLContext | None, first: bytes
) -> None:
    async with Peer(serves(first, TWO), tls) as peer:
        before, _ = await read(sharing, peer)
        after, run = await read(sharing, peer)
        sharing.close_idle()
        assert len(peer.calls) == 1
    assert before.complete
    assert after.complete
    assert run.sink.data == b"two"
    assert before.connection is not None
    assert not before.connection.reused
    assert after.connection == run.line.connection
    assert after.connection is not None
    assert after.connection.reused
    assert after.connection.id == before.connection.id
    assert after.connection.peer == before.connection.peer
    assert after.connection.identity == before.connection.identity
    assert (after.connection.identity is None) is (tls is None)
    assert run.line.told == ["cross", "request_sent", "response_started"]


async def test_a_fresh_connection_where_none_was_asked_to_be_shared(sharing: DirectWire) -> None:
    async with Peer(serves(ONE, TWO)) as peer:
        await read(sharing, peer, reuse=None)
        await read(sharing, peer)
        other, _ = await read(sharing, peer, reuse="other")
        write, _ = await post(sharing, peer)
        sharing.close_idle()
        assert len(peer.calls) == 4
    for evidence in (other, write):
        assert evidence.connection is not None
        assert not evidence.connection.reused


async def test_a_key_that_is_too_wide_still_leads_to_no_other_target(sharing: DirectWire) -> None:
    async with Peer(serves(ONE, TWO)) as one, Peer(serves(ONE, TWO)) as two:
        await read(sharing, one)
        evidence, _ = await read(sharing, two)
        sharing.close_idle()
    assert evidence.connection is not None
    assert evidence.connection.peer == f"127.0.0.1:{two.port}"


UNFIT: dict[str, bytes] = {
    "close asked for": answer(b"one", headers=b"Connection: keep-alive, Close\r\n"),
    "HTTP/1.0": b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\none",
    "more than announced": answer(b"one") + b"x",
    "a second answer": answer(b"one") + answer(b"poison"),
    "more after the last chunk": CHUNKED + b"x",
    "no body": b"HTTP/1.1 204 No Content\r\n\r\n",
    "no body, and one nevertheless": b"HTTP/1.1 304 Not Modified\r\n\r\nbody",
}


@pytest.mark.parametrize("name", UNFIT)
async def test_an_answer_after_which_nothing_else_may_come(
    sharing: DirectWire, tls: ssl.SSLContext | None, name: str
) -> None:
    async def script(call: Call) -> None:
        await call.next_request()
        await call.send(UNFIT[name] if len(peer.calls) == 1 else TWO)
        await call.read_to_end()

    async with Peer(script, tls) as peer:
        first, _ = await read(sharing, peer)
        second, run = await read(sharing, peer)
        sharing.close_idle()
        assert len(peer.calls) == 2
    assert first.complete
    assert second.connection is not None
    assert not second.connection.reused
    assert run.sink.data == b"two"


async def test_a_head_answer_ends_its_connection(sharing: DirectWire) -> None:
    async with Peer(serves(ONE, TWO)) as peer:
        run = drive(sharing, prepared(peer.port, method="HEAD", body=b""), reuse="r")
        assert (await run.run()).complete
        await (await peer.call()).over.wait()


async def test_an_answer_that_came_before_its_request_was_written_ends_its_connection(sharing: DirectWire) -> None:
    async def script(call: Call) -> None:
        await call.read_until(b"\r\n\r\n")
        await call.send(answer(b"no", "413 Content Too Large"))
        await call.read_to_end()

    async with Peer(script, rcvbuf=65536) as peer:
        run = drive(sharing, prepared(peer.port, body=bytes(32 * 1024 * 1024)), reuse="r")
        evidence = await run.run()
        await (await peer.call()).over.wait()
    assert evidence.complete
    assert evidence.early


async def _fin(call: Call) -> None:
    await call.fin()


async def _notify(call: Call) -> None:
    await call.close_notify()


async def _poison(call: Call) -> None:
    await call.send(answer(b"poison"))


@pytest.mark.parametrize("act", [_fin, Call.reset, _poison, _notify])
async def test_what_waits_on_an_idle_connection_makes_it_unfit(
    sharing: DirectWire, tls: ssl.SSLContext | None, act: Script, nth_time: int
) -> None:
    """An end of the stream or a byte: either is seen in the last look, and a fresh connection is dialled."""
    if act is _notify and tls is None:
        pytest.skip("plain TCP has no close_notify")
    go, done = asyncio.Event(), asyncio.Event()

    async def script(call: Call) -> None:
        await call.next_request()
        await call.send(ONE if len(peer.calls) == 1 else TWO)
        if len(peer.calls) == 1:
            await go.wait()
            await act(call)
            done.set()
            if act is not Call.reset:
                await call.read_to_end()
        else:
            await call.read_to_end()

    async with Peer(script, tls) as peer:
        await read(sharing, peer)
        go.set()
        await done.wait()
        second, run = await read(sharing, peer)
        sharing.close_idle()
        assert len(peer.calls) == 2
    assert second.complete
    assert second.connection is not None
    assert not second.connection.reused
    assert run.sink.data == b"two"
    assert run.line.told == ["cross", "request_sent", "response_started"]


async def test_f06_a_kept_connection_that_dies_is_one_send(
    sharing: DirectWire, tls: ssl.SSLContext | None, nth_time: int
) -> None:
    async def script(call: Call) -> None:
        await call.next_request()
        await call.send(ONE)
        await call.next_request()

    async with Peer(script, tls) as peer:
        await read(sharing, peer)
        evidence, run = await read(sharing, peer)
        call = await peer.call()
        await call.over.wait()
        assert len(peer.calls) == 1
    assert call.received.count(b"GET /effect") == 2
    assert evidence.crossed
    assert evidence.stopped is None
    assert evidence.fault is (Fault.CLOSED if tls is None else Fault.RAGGED)
    assert not evidence.anything_final
    assert evidence.connection is not None
    assert evidence.connection.reused
    assert run.line.told == ["cross", "request_sent"]


async def test_a_connection_that_dies_at_the_line_is_no_set_up_fault(sharing: DirectWire, nth_time: int) -> None:
    gate = asyncio.Event()

    async def script(call: Call) -> None:
        await call.next_request()
        await call.send(ONE)
        await gate.wait()
        await call.reset()

    async with Peer(script) as peer:
        await read(sharing, peer)

        async def at_line() -> None:
            gate.set()
            await (await peer.call()).over.wait()

        evidence, run = await read(sharing, peer, line=ToldLine(at_line))
        assert len(peer.calls) == 1
    assert evidence.crossed
    assert evidence.stopped is None
    assert evidence.fault is Fault.RESET
    assert evidence.bytes_sent == 0
    assert run.line.told == ["cross"]


@pytest.mark.parametrize("before", [len(TWO), 11, 0])
async def test_bytes_that_come_at_the_line_of_a_kept_connection_answer_nothing(
    sharing: DirectWire, before: int
) -> None:
    gate, sent = asyncio.Event(), asyncio.Event()

    async def script(call: Call) -> None:
        await call.next_request()
        await call.send(ONE)
        await gate.wait()
        await call.send(TWO[:before])
        sent.set()
        await call.next_request()
        await call.send(TWO[before:])
        await call.read_to_end()

    async with Peer(script) as peer:
        await read(sharing, peer)

        async def at_line() -> None:
            gate.set()
            await sent.wait()

        evidence, _ = await read(sharing, peer, line=ToldLine(at_line))
        call = await peer.call()
        if before == 0:
            sharing.close_idle()
        await call.over.wait()  # What follows an answer out of its turn meets no other call.
        assert len(peer.calls) == 1
    assert evidence.complete
    assert evidence.answer_before_request is (before > 0)


async def test_an_answer_cut_short_ends_its_connection(sharing: DirectWire) -> None:
    async with Peer(replies(answer(b"half", length=8))) as peer:
        evidence, _ = await read(sharing, peer)
        await (await peer.call()).over.wait()
    assert evidence.fault is Fault.CLOSED


async def test_an_address_that_is_not_allowed_any_more(sharing: DirectWire) -> None:
    async with Peer(serves(ONE, TWO)) as peer:
        await read(sharing, peer)
        evidence, run = await read(sharing, peer, allow=lambda address: False)
        await (await peer.call()).over.wait()
    assert evidence.stopped is not None
    assert evidence.stopped.fault is SetupFault.BLOCKED
    assert run.line.told == []


async def test_a_deadline_that_is_past_and_an_exchange_closed_before(sharing: DirectWire) -> None:
    async with Peer(serves(ONE, TWO)) as peer:
        await read(sharing, peer)
        late, _ = await read(sharing, peer, deadline_s=-1)
        await (await peer.call()).over.wait()
        await read(sharing, peer)
        closed = drive(sharing, prepared(peer.port, method="GET", body=b""), reuse="r")
        closed.exchange.close()
        abandoned = await closed.run()
        sharing.close_idle()
    assert late.stopped is not None
    assert late.stopped.fault is SetupFault.DEADLINE
    assert abandoned.fault is Fault.ABANDONED
    assert not abandoned.crossed


async def test_idle_time_passes(sharing: DirectWire, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle, "IDLE_S", 0.01)
    sharing._idle = idle.idle_connections()
    async with Peer(serves(ONE, TWO)) as peer:
        await read(sharing, peer)
        call = await peer.call()
        await call.over.wait()
        assert call.client_ended == "fin"


async def test_idle_time_ends_with_the_next_use(sharing: DirectWire) -> None:
    async with Peer(serves(ONE, TWO)) as peer:
        await read(sharing, peer)
        (waiting,) = sharing._idle._waiting.values()
        await read(sharing, peer)
        sharing.close_idle()
    assert waiting.timer.cancelled()


async def test_close_idle_closes_them_in_order(sharing: DirectWire, server_tls: ssl.SSLContext) -> None:
    async with Peer(serves(ONE, TWO), server_tls) as peer:
        await read(sharing, peer)
        sharing.close_idle()
        call = await peer.call()
        await call.over.wait()
        assert call.client_ended == "close_notify"


async def test_an_exchange_that_began_before_close_idle_keeps_nothing(sharing: DirectWire) -> None:
    go = asyncio.Event()

    async def script(call: Call) -> None:
        await call.next_request()
        await go.wait()
        await call.send(ONE)
        await call.read_to_end()

    async with Peer(script) as peer:
        task = asyncio.ensure_future(read(sharing, peer))
        await (await peer.call()).read_until(b"\r\n\r\n")
        sharing.close_idle()
        go.set()
        evidence, _ = await task
        await (await peer.call()).over.wait()
    assert evidence.complete


async def test_limits_per_key_and_in_all(sharing: DirectWire, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle, "KEPT_OF_KEY", 2)
    monkeypatch.setattr(idle, "KEPT", 3)
    sharing._idle = idle.idle_connections()
    together = asyncio.Barrier(3)

    async def script(call: Call) -> None:
        await call.next_request()
        await together.wait()
        await call.send(ONE)
        await call.read_to_end()

    async with Peer(script) as peer:
        for key in ("a", "b"):
            await asyncio.gather(*(read(sharing, peer, reuse=key) for _ in range(3)))
        await turns(50)
        over = [call.over.is_set() for call in peer.calls]
        assert len(sharing._idle._waiting) == 3
        assert (sum(over[:3]), sum(over[3:])) == (2, 1)
        sharing.close_idle()


async def test_the_newest_of_a_key_is_taken_first(sharing: DirectWire) -> None:
    together = asyncio.Barrier(2)

    async def script(call: Call) -> None:
        await call.next_request()
        await together.wait()
        await call.send(ONE)
        await call.next_request()
        await call.send(TWO)
        await call.read_to_end()

    async with Peer(script) as peer:
        await asyncio.gather(*(read(sharing, peer) for _ in range(2)))
        newest = list(sharing._idle._waiting)[-1]
        evidence, _ = await read(sharing, peer)
        sharing.close_idle()
    assert evidence.connection is not None
    assert evidence.connection.id == newest


async def test_reads_side_by_side_have_a_connection_each(sharing: DirectWire) -> None:
    async def script(call: Call) -> None:
        while True:
            asked = await call.next_request()
            await turns(3)
            await call.send(answer(asked.split()[1]))

    async def one(n: int) -> None:
        run = drive(sharing, prepared(peer.port, method="GET", target=b"/%d" % n, body=b""), reuse="r")
        assert (await run.run()).complete
        assert run.sink.data == b"/%d" % n

    async with Peer(script) as peer:
        for _ in range(5):
            await asyncio.gather(*(one(n) for n in range(12)))
        assert len(peer.calls) < 60
        sharing.close_idle()


async def test_a_name_that_now_leads_elsewhere_is_not_looked_up_for_a_kept_connection(
    client_tls: ssl.SSLContext,
) -> None:
    asked: list[str] = []

    def resolve(host: str, port: int) -> list[Address]:
        asked.append(host)
        return [Address(socket.AF_INET, "127.0.0.1", port)]

    wire = DirectWire(tls=client_tls, resolve=resolve)
    async with Peer(serves(ONE, TWO)) as peer:
        for _ in range(2):
            await drive(wire, prepared(peer.port, host="read.test", method="GET", body=b""), reuse="r").run()
        wire.close_idle()
    assert asked == ["read.test"]
