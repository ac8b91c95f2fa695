"""What both wires owe to the engine: the real one against a peer, and the scripted one that stands for it in tests."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import pytest
from tests.broker.wire.driver import BOUND_S, KeptBody, ToldLine, prepared, turns
from tests.broker.wire.peer import Peer, Script, answer, replies, replies_and_resets, replies_and_stays

from affidavit.broker.terms import Stage
from affidavit.broker.wire.exchange import DirectWire
from affidavit.broker.wire.port import (
    Connection,
    Exchange,
    Fault,
    HttpWire,
    ProxyRoute,
    SetupFault,
    SetupLimits,
    SetupStop,
    TlsTerms,
)
from affidavit.broker.wire.scripted import (
    Body,
    Broken,
    Complete,
    Cross,
    Hang,
    Head,
    ScriptedWire,
    Sent,
    Step,
    Stop,
    Way,
)


@dataclass
class Story:
    """The same story for both: what a peer does (None: nobody listens), and what a script says."""

    peer: Script | None
    steps: Sequence[Step]


ANSWERED = Story(
    replies(answer(b"done", "201 Created")),
    [Cross(), Sent(), Head(201, (("content-length", "4"),)), Body(b"done"), Complete()],
)
REFUSED = Story(None, [Stop(SetupStop(Stage.DNS, Stage.TCP_CONNECT, SetupFault.REFUSED, "ECONNREFUSED", "127.0.0.1"))])
SILENT = Story(replies(b""), [Cross(), Sent(), Broken(Fault.CLOSED, "closed by peer after request write")])
HALF = Story(
    replies_and_resets(answer(b"half", length=8)),
    [Cross(), Sent(), Head(200, (("content-length", "8"),)), Body(b"half"), Broken(Fault.RESET)],
)


def held() -> Story:
    return Story(
        replies_and_stays(answer(b"half", length=8)),
        [Cross(), Sent(), Head(200, (("content-length", "8"),)), Body(b"half"), Hang()],
    )


@pytest.fixture(params=["direct", "scripted"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@asynccontextmanager
async def told(kind: str, real: DirectWire, story: Story, line: ToldLine) -> AsyncIterator[tuple[Exchange, KeptBody]]:
    async with AsyncExitStack() as stack:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            port: int = unused.getsockname()[1]
            if story.peer is not None and kind == "direct":
                port = (await stack.enter_async_context(Peer(story.peer))).port
            wire: HttpWire = real if kind == "direct" else ScriptedWire(story.steps)
            sink = KeptBody()
            yield (
                wire.exchange(
                    prepared(port),
                    line=line,
                    sink=sink,
                    allow=lambda address: True,
                    limits=SetupLimits(),
                    deadline=asyncio.get_running_loop().time() + BOUND_S,
                ),
                sink,
            )


async def test_a_complete_answer(kind: str, wire: DirectWire) -> None:
    line = ToldLine()
    async with told(kind, wire, ANSWERED, line) as (exchange, sink):
        evidence = await exchange.run()
    assert line.told == ["cross", "request_sent", "response_started"]
    assert line.sent == evidence.bytes_sent > 0
    assert line.connection == evidence.connection
    assert (line.status, line.headers) == (evidence.status, evidence.headers) == (201, (("content-length", "4"),))
    assert sink.data == b"done"
    assert evidence.body_bytes == 4
    assert evidence.crossed
    assert evidence.complete
    assert evidence.completion == "content-length"
    assert evidence.request_complete
    assert not evidence.early
    assert evidence.fault is None
    assert evidence.stopped is None
    assert exchange.evidence == evidence


async def test_set_up_that_stops(kind: str, wire: DirectWire) -> None:
    line = ToldLine()
    async with told(kind, wire, REFUSED, line) as (exchange, _):
        evidence = await exchange.run()
    assert evidence.stopped is not None
    assert evidence.stopped.stage is Stage.TCP_CONNECT
    assert evidence.stopped.system == "ECONNREFUSED"
    assert not evidence.crossed
    assert evidence.bytes_sent == 0
    assert evidence.fault is None
    assert line.told == []


async def test_no_answer(kind: str, wire: DirectWire) -> None:
    line = ToldLine()
    async with told(kind, wire, SILENT, line) as (exchange, _):
        evidence = await exchange.run()
    assert line.told == ["cross", "request_sent"]
    assert evidence.fault is Fault.CLOSED
    assert evidence.observation == "closed by peer after request write"
    assert not evidence.anything_final
    assert not evidence.complete


async def test_half_an_answer(kind: str, wire: DirectWire) -> None:
    line = ToldLine()
    async with told(kind, wire, HALF, line) as (exchange, sink):
        evidence = await exchange.run()
    assert evidence.fault is Fault.RESET
    assert evidence.status_line
    assert evidence.status == 200
    assert evidence.body_bytes == len(sink.data) == 4
    assert not evidence.complete


async def test_a_line_that_raises(kind: str, wire: DirectWire) -> None:
    class Refused(Exception):
        pass

    async def at_line() -> None:
        raise Refused

    line = ToldLine(at_line)
    async with told(kind, wire, ANSWERED, line) as (exchange, _):
        with pytest.raises(Refused):
            await exchange.run()
    assert line.told == ["cross"]
    assert not exchange.evidence.crossed
    assert exchange.evidence.bytes_sent == 0


async def test_closed_while_it_waits(kind: str, wire: DirectWire) -> None:
    line = ToldLine()
    async with told(kind, wire, held(), line) as (exchange, sink):
        task = asyncio.ensure_future(exchange.run())
        await sink.first.wait()
        await turns(5)
        waiting = exchange.evidence
        exchange.close()
        evidence = await task
    assert waiting.fault is None
    assert not waiting.complete
    assert evidence.crossed
    assert evidence.fault is Fault.ABANDONED
    assert evidence.status == 200
    exchange.close()
    assert exchange.evidence == evidence


async def test_closed_before_it_began(kind: str, wire: DirectWire) -> None:
    line = ToldLine()
    async with told(kind, wire, ANSWERED, line) as (exchange, _):
        exchange.close()
        evidence = await exchange.run()
    assert line.told == []
    assert not evidence.crossed
    assert evidence.fault is Fault.ABANDONED
    assert evidence.stopped is None


async def test_a_scripted_wire_counts(wire: DirectWire) -> None:
    scripted = ScriptedWire(REFUSED.steps, ANSWERED.steps)
    for _ in range(2):
        await scripted.exchange(
            prepared(1),
            line=ToldLine(),
            sink=KeptBody(),
            allow=lambda address: True,
            limits=SetupLimits(),
            deadline=0.0,
        ).run()
    assert len(scripted.exchanges) == len(scripted.requests) == 2
    assert scripted.crossed == 1


async def test_a_scripted_wire_keeps_the_way_each_exchange_was_to_go() -> None:
    scripted = ScriptedWire([Cross(reused=True, resolved_by="proxy", proxy="proxy.test:3128"), Sent()])
    tls, proxy = TlsTerms(b"pem"), ProxyRoute("proxy.test", 3128)
    exchange = scripted.exchange(
        prepared(1),
        line=ToldLine(),
        sink=KeptBody(),
        allow=lambda address: True,
        limits=SetupLimits(),
        deadline=0.0,
        tls=tls,
        proxy=proxy,
        reuse="key",
    )
    assert scripted.ways == [Way(tls, proxy, "key")]
    connection = (await exchange.run()).connection
    assert connection == Connection("c-1", "127.0.0.1:80", True, None, "proxy", "proxy.test:3128")


def test_what_is_kept_for_reuse_can_be_closed(kind: str, wire: DirectWire) -> None:
    any_wire: HttpWire = wire if kind == "direct" else ScriptedWire()
    any_wire.close_idle()
    any_wire.close_idle()
    if isinstance(any_wire, ScriptedWire):
        assert any_wire.closed_idle == 2


@pytest.mark.parametrize(
    ("host", "authority"), [("proxy.test", "proxy.test:3128"), ("2001:db8::1", "[2001:db8::1]:3128")]
)
def test_a_proxy_is_named_as_in_a_url(host: str, authority: str) -> None:
    assert ProxyRoute(host, 3128).authority == authority


async def test_a_scripted_hang_can_be_released() -> None:
    hang = Hang()
    scripted = ScriptedWire([Cross(), Sent(), hang, Head(200), Complete("head")])
    exchange = scripted.exchange(
        prepared(1), line=ToldLine(), sink=KeptBody(), allow=lambda address: True, limits=SetupLimits(), deadline=0.0
    )
    task = asyncio.ensure_future(exchange.run())
    await hang.reached.wait()
    assert not exchange.evidence.anything_final
    hang.release.set()
    assert (await task).complete
