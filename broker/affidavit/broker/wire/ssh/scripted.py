"""An SSH wire without a network, for tests of what stands on it: plays steps, tells its line, counts exchanges.

It keeps the order of the real one: `cross` before anything is sent, evidence at any moment, and `close` in every step.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from affidavit.broker.first_of import first_of
from affidavit.broker.wire.port import AddressCheck, Connection, Fault, Line
from affidavit.broker.wire.scripted import Hang, Stop
from affidavit.broker.wire.ssh.port import (
    ExitSignal,
    Probed,
    SshEvidence,
    SshHop,
    SshLimits,
    SshRequest,
    SshSink,
    StdinBroken,
    Stream,
)


@dataclass(frozen=True, slots=True)
class Cross:
    """Set-up has succeeded: ask the line."""

    peer: str = "127.0.0.1:22"
    identity: str | None = None
    reused: bool = False


@dataclass(frozen=True, slots=True)
class Accept:
    """The command is sent, and the peer accepts it."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """The command is sent, and the peer refuses it; the script's last step."""


@dataclass(frozen=True, slots=True)
class Stdin:
    """All of stdin is taken; a stream is read to its end, and is broken off where it is broken."""


@dataclass(frozen=True, slots=True)
class Output:
    """A part of a stream comes."""

    data: bytes
    stream: Stream = Stream.STDOUT


@dataclass(frozen=True, slots=True)
class Exit:
    """The exit result comes."""

    status: int | None = 0
    signal: ExitSignal | None = None


@dataclass(frozen=True, slots=True)
class Eof:
    """Both streams end."""


@dataclass(frozen=True, slots=True)
class Close:
    """The peer closes the channel; the script's last step. Complete if exit result and EOF came."""


@dataclass(frozen=True, slots=True)
class Broken:
    """The exchange ends short; the script's last step. With exit result and EOF it is complete all the same."""

    fault: Fault = Fault.RESET
    observation: str = "reset by peer before the command's end"
    violation: str | None = None


Step = Stop | Cross | Accept | Refuse | Stdin | Output | Exit | Eof | Close | Broken | Hang


def result(status: int = 0, stdout: bytes = b"", stderr: bytes = b"") -> tuple[Step, ...]:
    """The steps of an ordinary command."""
    return (
        Cross(),
        Accept(),
        Stdin(),
        Output(stdout),
        Output(stderr, Stream.STDERR),
        Exit(status),
        Eof(),
        Close(),
    )


class ScriptedSshExchange:
    """Plays one script. As `port.SshExchange`."""

    def __init__(self, number: int, steps: Iterable[Step], request: SshRequest, line: Line, sink: SshSink) -> None:
        self.signals: list[str] = []
        """What was sent on request."""
        self.stdin = bytearray()
        """What of stdin was taken."""
        self._number = number
        self._steps = steps
        self._request = request
        self._line = line
        self._sink = sink
        self._evidence = SshEvidence()
        self._closed = asyncio.Event()

    @property
    def evidence(self) -> SshEvidence:
        return self._evidence

    async def run(self) -> SshEvidence:
        """As `SshExchange.run`. A script that ends without saying how leaves the connection closed by peer."""
        for step in self._steps:
            if self._closed.is_set() or self._ended:
                break
            await self._play(step)
        if not self._ended:
            abandoned = self._closed.is_set()
            self._end(
                Fault.ABANDONED if abandoned else Fault.CLOSED,
                "closed by the broker" if abandoned else "closed by peer before the command's end",
            )
        return self._evidence

    def close(self) -> None:
        self._closed.set()

    def signal(self, name: str) -> bool:
        runs = self._evidence.exec_accepted and not self._evidence.exited and not self._ended
        if runs:
            self.signals.append(name)
        return runs

    @property
    def _ended(self) -> bool:
        evidence = self._evidence
        return evidence.stopped is not None or evidence.complete or evidence.fault is not None

    async def _play(self, step: Step) -> None:
        seen = self._evidence
        match step:
            case Stop(stop):
                self._note(stopped=stop)
            case Cross(peer, identity, reused):
                connection = Connection(f"c-{self._number}", peer, reused, identity)
                self._note(connection=connection)
                if self._request.ready is not None:
                    await self._request.ready()
                await self._line.cross(connection)
                self._note(crossed=True)
            case Accept():
                self._note(command_sent=True, exec_accepted=True)
                self._line.response_started(None, ())
            case Refuse():
                self._note(command_sent=True, exec_refused=True)
                self._line.response_started(None, ())
                self._note(complete=True, completion="refused")
            case Stdin():
                await self._take_stdin()
            case Output(data, Stream.STDOUT):
                self._note(stdout_bytes=seen.stdout_bytes + len(data))
                await self._write(Stream.STDOUT, data)
            case Output(data, Stream.STDERR):
                self._note(stderr_bytes=seen.stderr_bytes + len(data))
                await self._write(Stream.STDERR, data)
            case Exit(status, signal):
                self._note(exit_status=None if signal else status, exit_signal=signal)
            case Eof():
                self._note(eof=True)
            case Close():
                self._note(closed=True)
                self._end(Fault.CLOSED, "channel closed by peer before the command's end")
            case Broken(fault, observation, violation):
                self._note(violation=violation)
                self._end(fault, violation or observation)
            case Hang(reached, release):
                reached.set()
                await first_of(release.wait(), self._closed.wait())

    async def _take_stdin(self) -> None:
        stdin = self._request.stdin
        try:
            if isinstance(stdin, bytes):
                self.stdin += stdin
            else:
                async for part in stdin:
                    self.stdin += part
        except StdinBroken:
            self._note(stdin_bytes=len(self.stdin), stdin_broken=True)
            return
        self._note(stdin_bytes=len(self.stdin), stdin_complete=True)
        self._line.request_sent(len(self._request.command) + len(self.stdin))

    async def _write(self, stream: Stream, data: bytes) -> None:
        if data:
            await self._sink.write(stream, data)

    def _end(self, fault: Fault, observation: str) -> None:
        evidence = self._evidence
        if evidence.exited and evidence.eof and evidence.violation is None:
            result = "exit" if evidence.exit_status is not None else "signal"
            self._note(complete=True, completion=f"{result}+eof+close" if evidence.closed else f"{result}+eof")
        else:
            self._note(fault=fault, observation=observation)

    def _note(self, **facts: object) -> None:
        assert self._evidence.crossed or not facts.keys() & _AFTER_THE_LINE, "the script has not crossed the line"
        self._evidence = replace(self._evidence, **facts)  # type: ignore[arg-type]


_AFTER_THE_LINE = {
    "command_sent",
    "stdin_bytes",
    "stdout_bytes",
    "stderr_bytes",
    "exit_status",
    "eof",
    "closed",
    "complete",
}


class ScriptedSshWire:
    """Plays one script for each exchange, and one answer for each probe, in order. As `port.SshWire`."""

    def __init__(self, *scripts: Sequence[Step], probes: Sequence[Probed] = ()) -> None:
        self.requests: list[SshRequest] = []
        """What each exchange was asked to send, whether or not it came to that."""
        self.reuses: list[str | None] = []
        self.exchanges: list[ScriptedSshExchange] = []
        self.probed: list[SshHop] = []
        self.probe_jumps: list[tuple[SshHop, ...]] = []
        """The hosts that each probe logs in to on its way."""
        self.idle_closed = 0
        """How often `close_idle` was called."""
        self._scripts = list(scripts)
        self._probes = list(probes)

    def exchange(
        self,
        request: SshRequest,
        *,
        line: Line,
        sink: SshSink,
        allow: AddressCheck,
        limits: SshLimits,
        deadline: float,
        reuse: str | None = None,
    ) -> ScriptedSshExchange:
        assert len(self.exchanges) < len(self._scripts), "an exchange that no script foresaw"
        steps = self._scripts[len(self.exchanges)]
        exchange = ScriptedSshExchange(len(self.exchanges) + 1, steps, request, line, sink)
        self.requests.append(request)
        self.reuses.append(reuse)
        self.exchanges.append(exchange)
        return exchange

    async def probe(
        self,
        target: SshHop,
        *,
        allow: AddressCheck,
        limits: SshLimits,
        deadline: float,
        jumps: tuple[SshHop, ...] = (),
    ) -> Probed:
        assert len(self.probed) < len(self._probes), "a probe that no script foresaw"
        self.probed.append(target)
        self.probe_jumps.append(jumps)
        return self._probes[len(self.probed) - 1]

    def close_idle(self) -> None:
        self.idle_closed += 1

    @property
    def crossed(self) -> int:
        """How many exchanges crossed the line: the dispatches."""
        return sum(exchange.evidence.crossed for exchange in self.exchanges)
