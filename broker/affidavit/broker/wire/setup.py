"""Connection set-up, stage by stage, up to the line: everything here is `not_attempted` (R16, R19).

Each stage has its own limit and all of them the deadline. A set-up that stops says where, and with which of the
system's own codes.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from affidavit.broker.terms import Stage
from affidavit.broker.wire import dial
from affidavit.broker.wire.link import Ending, Link, PlainLink, Received
from affidavit.broker.wire.port import AddressCheck, SetupFault, SetupLimits, SetupStop
from affidavit.broker.wire.tls import HandshakeFailed, TlsLink

PROBE_S = 0.25
"""How long a TLS 1.3 peer that asked for a client certificate, and got none, is listened to before the line: it may
refuse only after our last word. Peers that go on without one send session tickets at once."""


class Stopped(Exception):
    """Set-up stopped short of the line."""

    def __init__(self, stop: SetupStop) -> None:
        super().__init__(stop.system)
        self.stop = stop


class Abandoned(Exception):
    """The broker closed the exchange during set-up."""


class Setup:
    """One set-up try. `abandon` ends it at any point; `connect` is called once."""

    def __init__(
        self,
        *,
        scheme: str,
        host: str,
        port: int,
        allow: AddressCheck,
        limits: SetupLimits,
        deadline: float,
        tls: ssl.SSLContext,
        resolve: dial.Resolver,
    ) -> None:
        self._scheme = scheme
        self._host = host
        self._port = port
        self._allow = allow
        self._limits = limits
        self._deadline = deadline
        self._tls = tls
        self._resolve = resolve
        self._reached: Stage | None = None
        self._address: dial.Address | None = None
        self._scope: asyncio.Timeout | None = None
        self._abandoned = False

    async def connect(self) -> tuple[Link, str]:
        """A link on which the first byte of a request may be sent, and its peer. Raises Stopped or Abandoned."""
        addresses = await self._dns()
        self._reached = Stage.DNS
        self._address = addresses[0]
        async with self._bounded(Stage.TCP_CONNECT, self._limits.tcp_connect_s):
            try:
                sock, self._address = await dial.connect(addresses)
            except dial.Unreachable as error:
                self._address = error.address
                raise self._stop(Stage.TCP_CONNECT, SetupFault.REFUSED, error.system, error.detail) from None
        self._reached = Stage.TCP_CONNECT
        peer = self._address.peer
        if self._scheme == "http":
            return PlainLink(sock), peer
        link = TlsLink(sock, self._tls, self._host)
        try:
            async with self._bounded(Stage.TLS_HANDSHAKE, self._limits.tls_handshake_s):
                try:
                    await link.handshake()
                except HandshakeFailed as error:
                    raise self._stop(error.stage, error.fault, error.system, error.detail) from None
                self._reached = Stage.CERTIFICATE
                if link.may_refuse:
                    await self._probe(link)
        except BaseException:
            link.close()
            raise
        return link, peer

    def last_look(self, link: Link) -> Received:
        """What is there right before the line. Raises Stopped if the peer has gone; data is left to the caller."""
        found = link.receive()
        if found.ending is None:
            return found
        if isinstance(link, TlsLink) and link.may_refuse and found.ending is not Ending.CLOSE_NOTIFY:
            raise self._stop(Stage.TLS_HANDSHAKE, SetupFault.CLIENT_CERTIFICATE, found.system)
        if found.ending is Ending.ALERT:
            raise self._stop(Stage.TLS_HANDSHAKE, SetupFault.HANDSHAKE, found.system)
        raise self._stop(Stage.TCP_CONNECT, SetupFault.REFUSED, found.system)

    def abandon(self) -> None:
        """Make `connect` raise Abandoned."""
        self._abandoned = True
        if self._scope is not None:
            self._scope.reschedule(asyncio.get_running_loop().time())

    async def _dns(self) -> list[dial.Address]:
        async with self._bounded(Stage.DNS, self._limits.dns_s):
            spelled = dial.literal(self._host, self._port)
            try:
                found = [spelled] if spelled else list(await dial.lookup(self._resolve, self._host, self._port))
            except OSError as error:
                system = dial.dns_code(error)
                fault = SetupFault.NOT_FOUND if system in dial.NOT_FOUND else SetupFault.TEMPORARY
                raise self._stop(Stage.DNS, fault, system) from None
        if not found:
            raise self._stop(Stage.DNS, SetupFault.NOT_FOUND, "EAI_NODATA")
        for address in found:
            if not self._allow(address.ip):
                self._address = address
                raise self._stop(Stage.DNS, SetupFault.BLOCKED, "ADDRESS_BLOCKED")
        return found

    async def _probe(self, link: TlsLink) -> None:
        try:
            async with asyncio.timeout(PROBE_S):
                await link.readiness.wait(write=False)
        except TimeoutError:
            pass

    @asynccontextmanager
    async def _bounded(self, stage: Stage, limit_s: float) -> AsyncIterator[None]:
        """Run a stage under its limit and the deadline, and so that `abandon` can end it."""
        if self._abandoned:
            raise Abandoned
        now = asyncio.get_running_loop().time()
        if now >= self._deadline:
            raise self._stop(stage, SetupFault.DEADLINE, "ETIMEDOUT")
        end = min(self._deadline, now + limit_s)
        try:
            async with asyncio.timeout_at(end) as self._scope:
                yield
        except TimeoutError:
            if self._abandoned:
                raise Abandoned from None
            fault = SetupFault.DEADLINE if end == self._deadline else SetupFault.LIMIT
            raise self._stop(stage, fault, "ETIMEDOUT") from None
        finally:
            self._scope = None

    def _stop(self, stage: Stage, fault: SetupFault, system: str, detail: str = "") -> Stopped:
        address = self._address.ip if self._address else None
        return Stopped(SetupStop(self._reached, stage, fault, system, address, detail))
