"""A wire without a network, for tests of what stands on it: plays steps, tells its line, counts exchanges.

It keeps the order of the real one: `cross` before anything is sent, evidence at any moment, and `close` in every step.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from affidavit.broker.first_of import first_of
from affidavit.broker.wire.port import (
    AddressCheck,
    BodySink,
    Connection,
    Fault,
    HttpEvidence,
    Line,
    PreparedRequest,
    ProxyRoute,
    SetupLimits,
    SetupStop,
    TlsTerms,
)


@dataclass(frozen=True, slots=True)
class Stop:
    """Set-up stops here; the script's last step."""

    stop: SetupStop


@dataclass(frozen=True, slots=True)
class Cross:
    """Set-up has succeeded, or none was needed: ask the line."""

    peer: str = "127.0.0.1:80"
    identity: str | None = None
    reused: bool = False
    resolved_by: str | None = None
    proxy: str | None = None


@dataclass(frozen=True, slots=True)
class Sent:
    """The request is handed over: wholly, or only its first `count` bytes."""

    count: int | None = None


@dataclass(frozen=True, slots=True)
class Head:
    """The final head comes."""

    status: int
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Body:
    """A part of the body comes."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Complete:
    """The answer ends as framed; the script's last step after the line."""

    completion: str = "content-length"


@dataclass(frozen=True, slots=True)
class Broken:
    """The exchange ends short of a complete answer; the script's last step after the line.

    `seen` sets further fields of the evidence, such as `status_line`.
    """

    fault: Fault
    observation: str | None = None
    seen: tuple[tuple[str, object], ...] = ()


@dataclass(frozen=True, slots=True)
class Hang:
    """Nothing happens until `release` is set or the exchange is closed. `reached` is set when the script is here."""

    reached: asyncio.Event = field(default_factory=asyncio.Event)
    release: asyncio.Event = field(default_factory=asyncio.Event)


Step = Stop | Cross | Sent | Head | Body | Complete | Broken | Hang


class ScriptedExchange:
    """Plays one script. As `port.Exchange`."""

    def __init__(self, number: int, steps: Iterable[Step], size: int, line: Line, sink: BodySink) -> None:
        self._number = number
        self._steps = steps
        self._size = size
        self._line = line
        self._sink = sink
        self._evidence = HttpEvidence()
        self._closed = asyncio.Event()

    @property
    def evidence(self) -> HttpEvidence:
        return self._evidence

    async def run(self) -> HttpEvidence:
        """As `Exchange.run`. A script that ends without saying how leaves the exchange closed by peer."""
        for step in self._steps:
            if self._closed.is_set() or self._ended:
                break
            await self._play(step)
        if not self._ended and self._closed.is_set():
            self._note(fault=Fault.ABANDONED, observation="closed by the broker")
        elif not self._ended:
            self._note(fault=Fault.CLOSED, observation="closed by peer after request write")
        return self._evidence

    def close(self) -> None:
        self._closed.set()

    @property
    def _ended(self) -> bool:
        evidence = self._evidence
        return evidence.stopped is not None or evidence.complete or evidence.fault is not None

    async def _play(self, step: Step) -> None:
        match step:
            case Stop(stop):
                self._note(stopped=stop)
            case Cross(peer, identity, reused, resolved_by, proxy):
                connection = Connection(f"c-{self._number}", peer, reused, identity, resolved_by, proxy)
                self._note(connection=connection)
                await self._line.cross(connection)
                self._note(crossed=True)
            case Sent(count):
                whole = count is None
                self._note(bytes_sent=self._size if count is None else count, request_complete=whole)
                if whole:
                    self._line.request_sent(self._size)
            case Head(status, headers):
                self._note(
                    status_line=True,
                    anything_final=True,
                    status=status,
                    headers=headers,
                    early=not self._evidence.request_complete,
                )
                self._line.response_started(status, headers)
            case Body(data):
                self._note(body_bytes=self._evidence.body_bytes + len(data))
                await self._sink.write(data)
            case Complete(completion):
                self._note(complete=True, completion=completion)
            case Broken(fault, observation, seen):
                self._note(fault=fault, observation=observation, **dict(seen))
            case Hang(reached, release):
                reached.set()
                await first_of(release.wait(), self._closed.wait())

    def _note(self, **facts: object) -> None:
        assert self._evidence.crossed or not facts.keys() & _AFTER_THE_LINE, "the script has not crossed the line"
        self._evidence = replace(self._evidence, **facts)  # type: ignore[arg-type]


_AFTER_THE_LINE = {"bytes_sent", "status", "body_bytes", "complete"}


@dataclass(frozen=True, slots=True)
class Way:
    """By which way an exchange was to go."""

    tls: TlsTerms | None
    proxy: ProxyRoute | None
    reuse: str | None


class ScriptedWire:
    """Plays one script for each exchange, in order. As `port.HttpWire`."""

    def __init__(self, *scripts: Sequence[Step]) -> None:
        self.requests: list[PreparedRequest] = []
        """What each exchange was asked to send, whether or not it came to that."""
        self.ways: list[Way] = []
        """One for each of them."""
        self.exchanges: list[ScriptedExchange] = []
        self.closed_idle = 0
        """How often what was kept was to be closed."""
        self._scripts = list(scripts)

    def exchange(
        self,
        request: PreparedRequest,
        *,
        line: Line,
        sink: BodySink,
        allow: AddressCheck,
        limits: SetupLimits,
        deadline: float,
        close_completes: bool = False,
        tls: TlsTerms | None = None,
        proxy: ProxyRoute | None = None,
        reuse: str | None = None,
    ) -> ScriptedExchange:
        assert len(self.exchanges) < len(self._scripts), "an exchange that no script foresaw"
        steps = self._scripts[len(self.exchanges)]
        size = sum(len(name) + len(value) + 4 for name, value in request.headers) + len(request.body)
        exchange = ScriptedExchange(len(self.exchanges) + 1, steps, size, line, sink)
        self.requests.append(request)
        self.ways.append(Way(tls, proxy, reuse))
        self.exchanges.append(exchange)
        return exchange

    def close_idle(self) -> None:
        self.closed_idle += 1

    @property
    def crossed(self) -> int:
        """How many exchanges crossed the line: the dispatches."""
        return sum(exchange.evidence.crossed for exchange in self.exchanges)
