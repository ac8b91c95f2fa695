"""Set-up of an SSH way, hop by hop and stage by stage, up to the channel: all of it is `not_attempted` (R16, R19).

    dns -> tcp_connect -> ssh_version -> ssh_kex -> host_key -> ssh_auth   for each hop, through the one before it
    ssh_channel -> ssh_environment                                         at the target

Each stage has its own limit, and the action's deadline is a limit of each. A key exchange that the peer begins later
and does not finish is that stage again, wherever it is met.
"""

from __future__ import annotations

import asyncio
import math
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import assert_never

import paramiko

from affidavit.broker.secret import Secret
from affidavit.broker.terms import Stage
from affidavit.broker.wire import dial
from affidavit.broker.wire.port import AddressCheck, Connection, SetupFault, SetupStop
from affidavit.broker.wire.setup import Abandoned, Stopped
from affidavit.broker.wire.ssh import algorithms, keys
from affidavit.broker.wire.ssh.channel import CONNECT_FAILED, SHORTAGE, Channel, CommandChannel, Kind
from affidavit.broker.wire.ssh.fields import string
from affidavit.broker.wire.ssh.login import Failed, LoginHandler, Passed, Unsupported
from affidavit.broker.wire.ssh.pipe import Pipe, SocketPipe
from affidavit.broker.wire.ssh.port import (
    HostKey,
    InteractiveLogin,
    KeyLogin,
    PasswordLogin,
    SshHop,
    SshLimits,
)
from affidavit.broker.wire.ssh.session import NO_MORE_AUTH_METHODS, End, Session
from affidavit.broker.wire.ssh.tunnel import TunnelChannel, TunnelPipe, target

Begin = Callable[[LoginHandler], None]

_ENDS = {
    End.CLOSED: SetupFault.REFUSED,
    End.RESET: SetupFault.REFUSED,
    End.DISCONNECT: SetupFault.REFUSED,
    End.DEAF: SetupFault.REFUSED,
    End.HERE: SetupFault.REFUSED,
    End.GARBLED: SetupFault.GARBLED,
    End.VERSION: SetupFault.INCOMPATIBLE,
    End.ALGORITHMS: SetupFault.INCOMPATIBLE,
    End.KEY_NOT_OFFERED: SetupFault.HOST_KEY_DIFFERS,
}
"""How a session's end reads where it was not done yet."""


@dataclass(frozen=True, slots=True, eq=False)
class Way:
    """The sessions from here to a target, logged in to. Owned by the loop."""

    sessions: tuple[Session, ...]
    connection: Connection
    ip: str
    """The address of the first hop."""

    @property
    def last(self) -> Session:
        return self.sessions[-1]

    @property
    def fit(self) -> bool:
        """Each of them lives."""
        return all(session.ended is None for session in self.sessions)

    def again(self) -> Way:
        """The same, its connection marked as reused."""
        return replace(self, connection=replace(self.connection, reused=True))

    def close(self) -> None:
        for session in reversed(self.sessions):
            session.end()


class Setup:
    """One set-up try. `abandon` ends it at any point."""

    def __init__(
        self,
        hops: tuple[SshHop, ...],
        *,
        allow: AddressCheck,
        limits: SshLimits,
        deadline: float,
        resolve: dial.Resolver,
        executor: Executor,
    ) -> None:
        self._hops = hops
        self._allow = allow
        self._limits = limits
        self._deadline = deadline
        self._resolve = resolve
        self._executor = executor
        self._loop = asyncio.get_running_loop()
        self._sessions: list[Session] = []
        self._place = 0
        """The number of the hop that is set up."""
        self._reached: Stage | None = None
        self._address: str | None = None
        self._first: dial.Address | None = None
        self._scope: asyncio.Timeout | None = None
        self._abandoned = False

    def permits(self, way: Way) -> bool:
        """Whether a way that was kept may serve: it leads where this one would."""
        shown = way.last.shown
        return self._allow(way.ip) and shown in algorithms.pinned(self._hops[-1].host_keys)

    @property
    def late(self) -> bool:
        """The deadline has come."""
        return self._loop.time() >= self._deadline

    async def connect(self) -> Way:
        """A way to the last hop, logged in to. Raises Stopped or Abandoned.

        Before anything is attempted SshKeyUnusable comes through, and what a Secret raises.
        """
        try:
            await self._pass(self._hops)
        except BaseException:
            self._close()
            raise
        return Way(tuple(self._sessions), self._described(), self._first_ip)

    async def probe(self) -> tuple[HostKey, str]:
        """The last hop's key and its peer, nothing left open. Raises as `connect`."""
        try:
            await self._pass(self._hops[:-1])
            session = await self._reach(self._hops[-1], ())
            assert session.shown is not None
            return session.shown, self._peer
        finally:
            self._close()

    async def open(
        self, way: Way, env: tuple[tuple[str, str], ...], ready: Callable[[], Awaitable[None]] | None = None
    ) -> CommandChannel:
        """A session channel at the end of a way, its environment set, on which exec may be asked for now.

        Raises Stopped or Abandoned, and what `ready` raises. Nothing is awaited after the last look: what it saw holds
        until the line.
        """
        self._place = len(self._hops) - 1
        self._reached = Stage.SSH_AUTH
        self._address = way.connection.peer
        session = way.last
        channel = CommandChannel()
        await self._open_channel(session, channel, b"session")
        if env:
            await self._set(session, channel, env)
        if ready is not None:
            async with self._bounded(Stage.SSH_CHANNEL, math.inf, session):
                await ready()
        await self._wait(Stage.SSH_CHANNEL, session, lambda: session.clear)
        self._check_channel(channel, Stage.SSH_CHANNEL)
        return channel

    def abandon(self) -> None:
        """Make whatever runs raise Abandoned."""
        self._abandoned = True
        if self._scope is not None:
            self._scope.reschedule(self._loop.time())

    # -- one hop

    async def _pass(self, hops: tuple[SshHop, ...]) -> None:
        """Reach and log in to each of them. Keys are made ready before anything is attempted."""
        self._place = 0
        begins = [await self._prepared(hop) for hop in hops]
        for hop, begin in zip(hops, begins, strict=True):
            session = await self._reach(hop, algorithms.pinned(hop.host_keys))
            self._check_host_key(hop, session)
            await self._log_in(session, begin)
            self._place += 1

    async def _reach(self, hop: SshHop, pins: tuple[HostKey, ...]) -> Session:
        """A session with proven keys; which key it is, is not looked at. Without pins any kind of key is asked for."""
        self._reached = None
        self._address = None
        pipe = await (self._tunnel(hop, self._sessions[-1]) if self._sessions else self._dial(hop))
        offered = algorithms.SIGNATURES[pins[0].algorithm] if pins else algorithms.ALL_SIGNATURES
        session = Session(pipe, offered, self._loop)
        self._sessions.append(session)
        session.begin()
        await self._wait(Stage.SSH_VERSION, session, lambda: session.spoken is not None)
        self._reached = Stage.SSH_VERSION
        await self._wait(Stage.SSH_KEX, session, lambda: session.keyed)
        self._reached = Stage.SSH_KEX
        return session

    async def _dial(self, hop: SshHop) -> Pipe:
        addresses = await self._dns(hop)
        self._reached = Stage.DNS
        self._address = addresses[0].ip
        async with self._bounded(Stage.TCP_CONNECT, self._limits.tcp_connect_s):
            try:
                sock, self._first = await dial.connect(addresses)
            except dial.Unreachable as error:
                self._address = error.address.ip
                raise self._stop(Stage.TCP_CONNECT, SetupFault.REFUSED, error.system, error.detail) from None
        self._address = self._first.ip
        self._reached = Stage.TCP_CONNECT
        return SocketPipe(sock, self._loop)

    async def _tunnel(self, hop: SshHop, outer: Session) -> Pipe:
        self._reached = Stage.DNS
        self._address = hop.authority
        channel = TunnelChannel()
        try:
            await self._open_channel(outer, channel, b"direct-tcpip", target(hop.host, hop.port))
        except Stopped as stopped:
            stop = stopped.stop
            refusal = channel.refusal
            if refusal is not None and refusal.reason == CONNECT_FAILED:
                raise self._stop(Stage.TCP_CONNECT, SetupFault.REFUSED, "SSH_OPEN_2", refusal.text) from None
            if stop.fault is SetupFault.LIMIT:
                raise self._stop(Stage.TCP_CONNECT, stop.fault, stop.system, stop.detail) from None
            raise
        self._reached = Stage.TCP_CONNECT
        return TunnelPipe(outer, channel, self._loop)

    async def _dns(self, hop: SshHop) -> list[dial.Address]:
        async with self._bounded(Stage.DNS, self._limits.dns_s):
            spelled = dial.literal(hop.host, hop.port)
            try:
                found = [spelled] if spelled else list(await dial.lookup(self._resolve, hop.host, hop.port))
            except OSError as error:
                system = dial.dns_code(error)
                fault = SetupFault.NOT_FOUND if system in dial.NOT_FOUND else SetupFault.TEMPORARY
                raise self._stop(Stage.DNS, fault, system) from None
        if not found:
            raise self._stop(Stage.DNS, SetupFault.NOT_FOUND, "EAI_NODATA")
        for address in found:
            if not self._allow(address.ip):
                self._address = address.ip
                raise self._stop(Stage.DNS, SetupFault.BLOCKED, "ADDRESS_BLOCKED")
        return found

    def _check_host_key(self, hop: SshHop, session: Session) -> None:
        shown = session.shown
        assert shown is not None
        pins = algorithms.pinned(hop.host_keys)
        if not pins:
            raise self._stop(Stage.HOST_KEY, SetupFault.HOST_KEY_UNKNOWN, "HOST_KEY_UNKNOWN", shown.fingerprint)
        if shown not in pins:
            raise self._stop(Stage.HOST_KEY, SetupFault.HOST_KEY_DIFFERS, "HOST_KEY_DIFFERS", shown.fingerprint)
        self._reached = Stage.HOST_KEY

    async def _log_in(self, session: Session, begin: Begin) -> None:
        session.login(begin)
        try:
            await self._wait(Stage.SSH_AUTH, session, lambda: session.result is not None)
        finally:
            session.forget_login()
        match session.result:
            case Passed():
                self._reached = Stage.SSH_AUTH
            case Failed(partial, methods):
                fault = SetupFault.AUTH_PARTIAL if partial else SetupFault.AUTH_REFUSED
                raise self._stop(Stage.SSH_AUTH, fault, fault.name, f"may go on with: {methods}")
            case Unsupported():
                raise self._stop(Stage.SSH_AUTH, SetupFault.AUTH_REFUSED, "SSH_SIGNATURE_ALGORITHMS")
            case None:
                raise AssertionError("a session that ended was let through")
            case result:
                assert_never(result)

    async def _prepared(self, hop: SshHop) -> Begin:
        """How to log in, its secrets borrowed and copied: a key may have to be decrypted first, off the loop."""
        user = hop.user
        match hop.login:
            case KeyLogin(key, passphrase, certificate):
                try:
                    async with self._scoped(None):
                        loaded = await self._loop.run_in_executor(self._executor, _load, key, passphrase, certificate)
                except TimeoutError:
                    raise Abandoned from None
                return lambda handler: handler.by_key(user, loaded)
            case PasswordLogin(password):
                value = password.use(bytes)
                return lambda handler: handler.by_password(user, value)
            case InteractiveLogin(password):
                value = password.use(bytes)
                return lambda handler: handler.by_answer(user, value)
            case None:
                raise ValueError("a host that is only probed is not logged in to")
            case login:
                assert_never(login)

    # -- channels

    async def _open_channel(self, session: Session, channel: Channel, kind: bytes, fields: bytes = b"") -> None:
        session.open(channel, kind, fields)
        await self._wait(Stage.SSH_CHANNEL, session, lambda: channel.answered or bool(channel.violation))
        if channel.refusal is not None:
            reason, text = channel.refusal.reason, channel.refusal.text
            fault = SetupFault.CHANNEL_SHORTAGE if reason == SHORTAGE else SetupFault.CHANNEL_PROHIBITED
            raise self._stop(Stage.SSH_CHANNEL, fault, f"SSH_OPEN_{reason}", text)
        self._check_channel(channel, Stage.SSH_CHANNEL)
        self._reached = Stage.SSH_CHANNEL

    async def _set(self, session: Session, channel: CommandChannel, env: tuple[tuple[str, str], ...]) -> None:
        for name, value in env:
            channel.ask(f"={name}")
            session.send(channel, Kind.REQUEST, string(b"env") + b"\1" + string(name.encode()) + string(value.encode()))
        stage = Stage.SSH_ENVIRONMENT
        await self._wait(stage, session, lambda: not channel.awaits_reply or channel.closed or bool(channel.violation))
        self._check_channel(channel, stage)
        if channel.refused_variable is not None:
            raise self._stop(stage, SetupFault.VARIABLE_REFUSED, "SSH_ENV_REFUSED", name=channel.refused_variable)
        self._reached = stage

    def _check_channel(self, channel: Channel, stage: Stage) -> None:
        if channel.violation is not None:
            raise self._stop(stage, SetupFault.GARBLED, "SSH_CHANNEL", channel.violation)
        if channel.closed or channel.eof:
            raise self._stop(stage, SetupFault.REFUSED, "SSH_CHANNEL_CLOSED")

    # -- stages

    async def _wait(self, stage: Stage, session: Session, ready: Callable[[], bool]) -> None:
        """Wait for a session to get ready, as a stage of its own."""
        async with self._bounded(stage, self._limits.stage_s, session):
            await session.until(ready)
        if not ready():
            self._check(session, stage)

    def _check(self, session: Session, stage: Stage) -> None:
        """Raise Stopped if the session is over."""
        ended = session.ended
        if ended is None:
            return
        fault = _ENDS[ended.end]
        if ended.reason == NO_MORE_AUTH_METHODS and stage is Stage.SSH_AUTH:
            fault = SetupFault.AUTH_REFUSED
        if fault is SetupFault.HOST_KEY_DIFFERS:
            stage = Stage.HOST_KEY
        raise self._stop(stage, fault, ended.system, ended.detail)

    @asynccontextmanager
    async def _bounded(self, stage: Stage, limit_s: float, session: Session | None = None) -> AsyncIterator[None]:
        """Run a stage under its limit and the deadline, and so that `abandon` can end it."""
        end = min(self._deadline, self._loop.time() + limit_s)
        try:
            async with self._scoped(end):
                yield
        except TimeoutError:
            if self._abandoned:
                raise Abandoned from None
            if session is not None and session.keyed and session.exchanging_keys:
                stage = Stage.SSH_KEX
            detail = "the action's deadline" if end == self._deadline else ""
            raise self._stop(stage, SetupFault.LIMIT, "ETIMEDOUT", detail) from None

    @asynccontextmanager
    async def _scoped(self, end: float | None) -> AsyncIterator[None]:
        """Raises TimeoutError at the loop's time `end`, and when the set-up is abandoned."""
        if self._abandoned:
            raise Abandoned
        try:
            async with asyncio.timeout_at(end) as self._scope:
                yield
        finally:
            self._scope = None

    def _stop(
        self, stage: Stage, fault: SetupFault, system: str, detail: str = "", *, name: str | None = None
    ) -> Stopped:
        said = "; ".join(part for part in (self._where, detail) if part)
        return Stopped(SetupStop(self._reached, stage, fault, system, self._address, said, name))

    @property
    def _where(self) -> str:
        """Which hop it is, unless it is the target."""
        return f"jump host {self._hops[self._place].authority}" if self._place < len(self._hops) - 1 else ""

    @property
    def _peer(self) -> str:
        if len(self._hops) > 1:
            return self._hops[-1].authority
        assert self._first is not None
        return self._first.peer

    @property
    def _first_ip(self) -> str:
        assert self._first is not None
        return self._first.ip

    def _described(self) -> Connection:
        shown = self._sessions[-1].shown
        assert shown is not None
        return Connection(f"c-{secrets.token_hex(6)}", self._peer, identity=shown.identity)

    def _close(self) -> None:
        for session in reversed(self._sessions):
            session.end()


def _load(key: Secret, passphrase: Secret | None, certificate: bytes | None) -> paramiko.PKey:
    phrase = passphrase.use(bytes) if passphrase is not None else None
    return keys.load(key.use(bytes), phrase, certificate)
