"""One command over SSH from the first look-up to the channel's close, reported as evidence.

    set-up, channel, environment  ->  last look  ->  Line.cross  ->  exec  ...  reply, output, exit result, EOF, CLOSE
                                                                     stdin, written while output is read

Up to `cross` a failure is a `SetupStop`, after it a `Fault`; where an error was caught decides nothing (R13). All of it
runs on the loop; what the peer sent is read from the channel, which paramiko's thread fills (see `session`).
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

from affidavit.broker.wire import dial
from affidavit.broker.wire.port import AddressCheck, Connection, Fault, Line, SetupFault, SetupStop
from affidavit.broker.wire.setup import Abandoned, Stopped
from affidavit.broker.wire.ssh.channel import CommandChannel
from affidavit.broker.wire.ssh.command import Command
from affidavit.broker.wire.ssh.idle import Key, WayLease, idle_transports
from affidavit.broker.wire.ssh.port import (
    COMMAND_BYTES,
    Probed,
    SshEvidence,
    SshHop,
    SshLimits,
    SshRequest,
    SshSink,
    Stream,
)
from affidavit.broker.wire.ssh.setup import Setup, Way

_SIGNAL = re.compile(r"[A-Z0-9]{1,32}(@[a-z0-9.-]{1,64})?")


class ParamikoWire:
    """Reaches SSH targets, through jump hosts if need be. Owned by the loop."""

    def __init__(self, *, resolve: dial.Resolver = dial.system_resolver) -> None:
        self._resolve = resolve
        self._idle = idle_transports()
        self._executor = ThreadPoolExecutor(2, "affidavit-ssh-key")
        """For decrypting keys; threads start with the first one."""

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
    ) -> CommandExchange:
        """As `SshWire.exchange`."""
        check(request)
        hops = (*request.jumps, request.target)
        lease = self._idle.lease(Key.of(reuse, hops)) if reuse is not None else None
        setup = self._setup(hops, allow, limits, deadline)
        return CommandExchange(request, setup, lease, line, sink, limits)

    async def probe(
        self,
        target: SshHop,
        *,
        allow: AddressCheck,
        limits: SshLimits,
        deadline: float,
        jumps: tuple[SshHop, ...] = (),
    ) -> Probed:
        """As `SshWire.probe`."""
        try:
            host_key, peer = await self._setup((*jumps, target), allow, limits, deadline).probe()
        except Stopped as stopped:
            return Probed(stopped=stopped.stop)
        return Probed(host_key, peer)

    def close_idle(self) -> None:
        """As `SshWire.close_idle`."""
        self._idle.close()

    def _setup(self, hops: tuple[SshHop, ...], allow: AddressCheck, limits: SshLimits, deadline: float) -> Setup:
        return Setup(
            hops, allow=allow, limits=limits, deadline=deadline, resolve=self._resolve, executor=self._executor
        )


def check(request: SshRequest) -> None:
    """Raise ValueError for what cannot be sent: OpenSSH drops a connection for it, after the line."""
    if not request.command or b"\0" in request.command:
        raise ValueError("a command is not empty and holds no NUL")
    if len(request.command) > COMMAND_BYTES:
        raise ValueError("the command is too long")
    for name, value in request.env:
        if not name or "=" in name or "\0" in name + value:
            raise ValueError("a variable has a name, without =, and holds no NUL")
        if not _is_text(name + value) or len((name + value).encode()) > COMMAND_BYTES:
            raise ValueError("a variable is text, and not too long")
    for hop in (*request.jumps, request.target):
        if not hop.host.isascii() or not _is_text(hop.user):
            raise ValueError("a host is an A-label name or a literal, and its user is text")


def _is_text(value: str) -> bool:
    """Whether it can be told to a peer: lone surrogates cannot."""
    return not any("\ud800" <= char <= "\udfff" for char in value)


class CommandExchange:
    """One command. As `port.SshExchange`."""

    def __init__(
        self, request: SshRequest, setup: Setup, lease: WayLease | None, line: Line, sink: SshSink, limits: SshLimits
    ) -> None:
        self._request = request
        self._setup: Setup | None = setup
        self._lease = lease
        self._line = line
        self._sink = sink
        self._limits = limits
        self._way: Way | None = None
        self._command: Command | None = None
        self._connection: Connection | None = None
        self._stopped: SetupStop | None = None
        self._crossed = False
        self._abandoned = False
        self._over = False

    @property
    def evidence(self) -> SshEvidence:
        """What is known at this moment."""
        if self._command is not None and self._crossed:
            return _told(self._command, self._connection)
        abandoned = self._abandoned and self._stopped is None
        return SshEvidence(
            crossed=self._crossed,
            stopped=self._stopped,
            connection=self._connection,
            fault=Fault.ABANDONED if abandoned else None,
            observation="closed by the broker" if abandoned else None,
        )

    async def run(self) -> SshEvidence:
        """As `SshExchange.run`."""
        try:
            await self._reach_the_line()
            if self._command is not None:
                if self._abandoned:
                    self._command.abandon()
                await self._command.run()
        finally:
            self._over = True
            self._part()
        return self.evidence

    def close(self) -> None:
        """As `SshExchange.close`."""
        if self._over:
            return
        self._abandoned = True
        if self._setup is not None:
            self._setup.abandon()
        elif self._command is not None:
            self._command.abandon()

    def signal(self, name: str) -> bool:
        """As `SshExchange.signal`."""
        if _SIGNAL.fullmatch(name) is None:
            raise ValueError("not the name of a signal")
        return self._command is not None and not self._over and self._command.signal(name)

    async def _reach_the_line(self) -> None:
        """Set up and cross, unless either stops the exchange."""
        assert self._setup is not None, "an exchange is run once"
        try:
            way, channel = await self._open(self._setup)
        except Stopped as stopped:
            self._stopped = stopped.stop
            return
        except Abandoned:
            return
        finally:
            self._setup = None
        self._connection = way.connection
        await self._line.cross(self._connection)
        self._crossed = True
        self._command = Command(way.last, channel, self._request, self._line, self._sink, self._limits)

    async def _open(self, setup: Setup) -> tuple[Way, CommandChannel]:
        """A channel on a kept transport that is still good, or else on a new one."""
        env, ready = self._request.env, self._request.ready
        kept = self._lease.take(setup.permits) if self._lease is not None else None
        if kept is not None:
            self._way = kept
            try:
                return kept, await setup.open(kept, env, ready)
            except Stopped as stopped:
                silent = stopped.stop.fault is SetupFault.LIMIT and not setup.late
                if kept.fit and not silent:  # it is the peer's answer, or the end of the time for one
                    raise
                kept.close()
        way = self._way = await setup.connect()
        return way, await setup.open(way, env, ready)

    def _part(self) -> None:
        """Keep the transport for the next one, or close it."""
        if self._way is None:
            return
        if self._lease is not None and self._command is not None and self._command.finish():
            self._lease.give(self._way)
        else:
            self._way.close()


def _told(command: Command, connection: Connection | None) -> SshEvidence:
    channel = command.channel
    with channel.lock:
        return SshEvidence(
            crossed=True,
            connection=connection,
            command_sent=command.sent,
            stdin_bytes=command.stdin_bytes,
            stdin_complete=command.stdin_complete,
            stdin_broken=command.stdin_broken,
            stdin_sha256=command.stdin_sha256,
            exec_accepted=channel.accepted,
            exec_refused=channel.refused,
            stdout_bytes=channel.bytes[Stream.STDOUT],
            stderr_bytes=channel.bytes[Stream.STDERR],
            exit_status=channel.exit_status,
            exit_signal=channel.exit_signal,
            eof=channel.eof,
            closed=channel.closed,
            violation=channel.violation,
            complete=command.complete,
            completion=command.completion,
            fault=command.fault,
            observation=command.observation,
        )
