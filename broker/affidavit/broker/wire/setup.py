"""Connection set-up, stage by stage, up to the line: everything here is `not_attempted` (R16, R19).

Each stage has its own limit and all of them the deadline. A set-up that stops says where, and with which of the
system's own codes.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from affidavit.broker.terms import Stage
from affidavit.broker.wire import dial
from affidavit.broker.wire.link import Ending, Link, PlainLink, Received
from affidavit.broker.wire.port import AddressCheck, Connection, SetupFault, SetupLimits, SetupStop, TlsTerms
from affidavit.broker.wire.tls import AuthoritiesUnusable, Contexts, HandshakeFailed, TlsLink
from affidavit.broker.wire.tunnel import NoTunnel, Tunnel

PROBE_S = 0.25
"""How long a TLS 1.3 peer that asked for a client certificate is listened to before the line: it may refuse what it got
only after our last word. Peers that go on send session tickets at once."""


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
        contexts: Contexts,
        terms: TlsTerms,
        resolve: dial.Resolver,
        tunnel: Tunnel | None = None,
    ) -> None:
        self._scheme = scheme
        self._host = host
        self._port = port
        self._allow = allow
        self._limits = limits
        self._deadline = deadline
        self._contexts = contexts
        self._terms = terms
        self._resolve = resolve
        self._tunnel = tunnel
        self._reached: Stage | None = None
        self._address: dial.Address | None = None
        self._scope: asyncio.Timeout | None = None
        self._abandoned = False

    async def connect(self) -> tuple[Link, dial.Address]:
        """A link on which the first byte of a request may be sent, and the address it leads to.

        Raises Stopped or Abandoned; before anything is attempted KeyUnusable, and what the key's Secret raises.
        """
        self._check_literal()
        tunnel = self._tunnel
        context = to_proxy = None
        if self._scheme == "https":
            context = await self._context(self._terms, Stage.CERTIFICATE)
        if tunnel is not None and tunnel.route.tls:
            to_proxy = await self._context(TlsTerms(tunnel.route.authorities), Stage.PROXY_TUNNEL)
        addresses = await self._dns()
        self._reached = Stage.DNS
        self._address = addresses[0]
        sock, address = await self._tcp(addresses)
        self._address = address
        self._reached = Stage.TCP_CONNECT
        link: Link = PlainLink(sock)
        try:
            if tunnel is not None:
                link = await self._through(tunnel, link, to_proxy)
                self._reached = Stage.PROXY_TUNNEL
            if context is not None:
                tls = TlsLink(link, context, self._host)
                link = tls
                await self._secure(tls)
        except BaseException:
            link.close()
            raise
        return link, address

    def permits(self, ip: str) -> bool:
        """Whether a connection to this address that is open already may be used in place of a new one."""
        if self._abandoned or asyncio.get_running_loop().time() >= self._deadline:
            return False
        spelled = self._host if dial.literal(self._host, self._port) else None
        checked = spelled if self._tunnel is not None else ip
        return checked is None or self._allow(checked)

    def described(self, link: Link, address: dial.Address) -> Connection:
        """What the record says of a connection that this try has set up."""
        named = dial.literal(self._host, self._port) is None
        return Connection(
            f"c-{secrets.token_hex(6)}",
            address.peer,
            identity=link.identity,
            resolved_by="proxy" if self._tunnel is not None and named else None,
            proxy=self._tunnel.route.authority if self._tunnel is not None else None,
        )

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

    def _check_literal(self) -> None:
        """Behind a proxy a literal is all that can be checked here: names are looked up there."""
        if self._tunnel is None:
            return
        spelled = dial.literal(self._host, self._port)
        if spelled is not None and not self._allow(spelled.ip):
            self._address = spelled
            raise self._stop(Stage.DNS, SetupFault.BLOCKED, "ADDRESS_BLOCKED")

    async def _context(self, terms: TlsTerms, stage: Stage) -> ssl.SSLContext:
        try:
            return await self._contexts.get(terms)
        except AuthoritiesUnusable as error:
            detail = "the certificates to trust beside the system's are unusable"
            raise self._stop(stage, SetupFault.CERTIFICATE, error.system, detail) from None

    async def _dns(self) -> list[dial.Address]:
        """Look up who is dialled: the target, or the proxy before it."""
        route = self._tunnel.route if self._tunnel is not None else None
        host, port = (route.host, route.port) if route is not None else (self._host, self._port)
        async with self._bounded(Stage.DNS, self._limits.dns_s, self._fault(SetupFault.LIMIT)):
            spelled = dial.literal(host, port)
            try:
                found = [spelled] if spelled else list(await dial.lookup(self._resolve, host, port))
            except OSError as error:
                system = dial.dns_code(error)
                fault = SetupFault.NOT_FOUND if system in dial.NOT_FOUND else SetupFault.TEMPORARY
                raise self._stop(Stage.DNS, self._fault(fault), system) from None
        if not found:
            raise self._stop(Stage.DNS, self._fault(SetupFault.NOT_FOUND), "EAI_NODATA")
        for address in found:
            if route is None and not self._allow(address.ip):
                self._address = address
                raise self._stop(Stage.DNS, SetupFault.BLOCKED, "ADDRESS_BLOCKED")
        return found

    async def _tcp(self, addresses: list[dial.Address]) -> tuple[socket.socket, dial.Address]:
        async with self._bounded(Stage.TCP_CONNECT, self._limits.tcp_connect_s, self._fault(SetupFault.LIMIT)):
            try:
                return await dial.connect(addresses)
            except dial.Unreachable as error:
                self._address = error.address
                fault = self._fault(SetupFault.REFUSED)
                raise self._stop(Stage.TCP_CONNECT, fault, error.system, error.detail) from None

    async def _through(self, tunnel: Tunnel, link: Link, context: ssl.SSLContext | None) -> Link:
        """From a link to the proxy to one to the target. Whatever goes wrong here is the proxy's, TLS with it included.

        The caller closes the link it gave.
        """
        async with self._bounded(Stage.PROXY_TUNNEL, self._limits.proxy_tunnel_s):
            try:
                if context is not None:
                    secured = TlsLink(link, context, tunnel.route.host)
                    await secured.handshake()
                    link = secured
                await tunnel.open(link)
            except HandshakeFailed as error:
                raise self._stop(Stage.PROXY_TUNNEL, error.fault, error.system, error.detail) from None
            except NoTunnel as error:
                fault = error.fault
                if error.ending is Ending.ALERT and isinstance(link, TlsLink) and link.may_refuse:
                    fault = SetupFault.CLIENT_CERTIFICATE
                raise self._stop(Stage.PROXY_TUNNEL, fault, error.system, error.detail) from None
        return link

    async def _secure(self, link: TlsLink) -> None:
        async with self._bounded(Stage.TLS_HANDSHAKE, self._limits.tls_handshake_s):
            try:
                await link.handshake()
            except HandshakeFailed as error:
                raise self._stop(error.stage, error.fault, error.system, error.detail) from None
            self._reached = Stage.CERTIFICATE
            if link.may_refuse:
                await self._probe(link)

    async def _probe(self, link: TlsLink) -> None:
        try:
            async with asyncio.timeout(PROBE_S):
                await link.readiness.wait(write=False)
        except TimeoutError:
            pass

    @asynccontextmanager
    async def _bounded(
        self, stage: Stage, limit_s: float, past_limit: SetupFault = SetupFault.LIMIT
    ) -> AsyncIterator[None]:
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
            fault = SetupFault.DEADLINE if end == self._deadline else past_limit
            raise self._stop(stage, fault, "ETIMEDOUT") from None
        finally:
            self._scope = None

    def _fault(self, direct: SetupFault) -> SetupFault:
        """What stops the way to whoever is dialled: a proxy is unreachable, whatever the cause."""
        return direct if self._tunnel is None else SetupFault.PROXY_UNREACHABLE

    def _stop(self, stage: Stage, fault: SetupFault, system: str, detail: str = "") -> Stopped:
        address = self._address.ip if self._address else None
        return Stopped(SetupStop(self._reached, stage, fault, system, address, detail))
