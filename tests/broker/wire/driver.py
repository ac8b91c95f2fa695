"""The engine's side of an exchange, for tests: a line and a sink that keep what they were told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tests.broker.wire.peer import Peer

from affidavit.broker.wire.exchange import DirectWire, SinkExchange
from affidavit.broker.wire.port import (
    AddressCheck,
    Connection,
    HttpEvidence,
    PreparedRequest,
    ProxyRoute,
    SetupLimits,
    TlsTerms,
)

BOUND_S = 20.0
"""No test needs this long; one that does has hung."""


class ToldLine:
    """Keeps the order of what happens at the line. `at_line` runs inside `cross`."""

    def __init__(self, at_line: Callable[[], Awaitable[object]] | None = None) -> None:
        self.told: list[str] = []
        self.connection: Connection | None = None
        self.sent: int | None = None
        self.status: int | None = None
        self.headers: tuple[tuple[str, str], ...] = ()
        self.started = asyncio.Event()
        self._at_line = at_line

    async def cross(self, connection: Connection) -> None:
        self.told.append("cross")
        self.connection = connection
        if self._at_line is not None:
            await self._at_line()

    def request_sent(self, sent: int) -> None:
        self.told.append("request_sent")
        self.sent = sent

    def response_started(self, status: int, headers: tuple[tuple[str, str], ...]) -> None:
        self.told.append("response_started")
        self.status = status
        self.headers = headers
        self.started.set()


class KeptBody:
    """Keeps a body, or only its length where it is large."""

    def __init__(self, *, keep: bool = True) -> None:
        self.data = bytearray()
        self.length = 0
        self.largest = 0
        self.first = asyncio.Event()
        self._keep = keep

    async def write(self, data: bytes) -> None:
        self.length += len(data)
        self.largest = max(self.largest, len(data))
        if self._keep:
            self.data += data
        self.first.set()


def prepared(
    port: int,
    *,
    scheme: str = "http",
    host: str = "127.0.0.1",
    method: str = "POST",
    target: bytes = b"/effect",
    body: bytes = b"amount=5",
    headers: tuple[tuple[bytes, bytes], ...] = (),
) -> PreparedRequest:
    """A request as the engine builds it."""
    length = ((b"Content-Length", str(len(body)).encode()),) if body else ()
    return PreparedRequest(method, scheme, host, port, target, ((b"Host", b"target.test"), *headers, *length), body)


@dataclass
class Drive:
    """One exchange and what it told."""

    exchange: SinkExchange
    line: ToldLine
    sink: KeptBody

    async def run(self) -> HttpEvidence:
        async with asyncio.timeout(BOUND_S):
            return await self.exchange.run()


def drive(
    wire: DirectWire,
    request: PreparedRequest,
    *,
    line: ToldLine | None = None,
    sink: KeptBody | None = None,
    allow: AddressCheck = lambda address: True,
    limits: SetupLimits | None = None,
    deadline_s: float = 10.0,
    close_completes: bool = False,
    tls: TlsTerms | None = None,
    proxy: ProxyRoute | None = None,
    reuse: str | None = None,
) -> Drive:
    line = line or ToldLine()
    sink = sink or KeptBody()
    exchange = wire.exchange(
        request,
        line=line,
        sink=sink,
        allow=allow,
        limits=limits or SetupLimits(),
        deadline=asyncio.get_running_loop().time() + deadline_s,
        close_completes=close_completes,
        tls=tls,
        proxy=proxy,
        reuse=reuse,
    )
    return Drive(exchange, line, sink)


async def post(wire: DirectWire, peer: Peer, **options: object) -> tuple[HttpEvidence, Drive]:
    """POST to a peer and run to the end."""
    scheme = "https" if peer.tls is not None else "http"
    run = drive(wire, prepared(peer.port, scheme=scheme, host=peer.host), **options)  # type: ignore[arg-type]
    return await run.run(), run


async def read(wire: DirectWire, peer: Peer, reuse: str | None = "r", **options: object) -> tuple[HttpEvidence, Drive]:
    """GET from a peer, on a connection that is shared under `reuse`, and run to the end."""
    scheme = "https" if peer.tls is not None else "http"
    request = prepared(peer.port, scheme=scheme, host=peer.host, method="GET", body=b"")
    run = drive(wire, request, reuse=reuse, **options)  # type: ignore[arg-type]
    return await run.run(), run


async def turns(count: int) -> None:
    """Let the loop go round: time for others to act, by the loop's measure and not by a clock."""
    for _ in range(count):
        await asyncio.sleep(0)
