"""Asks an HTTP proxy for a tunnel to a target (CONNECT; RFC 9110, 9.3.6). All of it is set-up.

The proxy learns the target's host and port and its own credentials, nothing more; the target learns of no proxy.
"""

from __future__ import annotations

import base64
import binascii

import h11

from affidavit.broker.wire.answer import HEAD_LIMIT, Answer
from affidavit.broker.wire.link import Ending, Link, system_code
from affidavit.broker.wire.port import Fault, ProxyRoute, SetupFault

STATUS_LIMIT = 1024
"""Characters of a Proxy-Status that are kept."""

_WITHHELD = "(withheld: it holds the proxy's credentials)"
_ENDED = (Fault.CLOSED, Fault.RAGGED, Fault.RESET)


class NoTunnel(Exception):
    """The proxy opened none; with the stage, a `SetupStop`."""

    def __init__(self, fault: SetupFault, system: str, detail: str = "", ending: Ending | None = None) -> None:
        super().__init__(system)
        self.fault = fault
        self.system = system
        self.detail = detail
        self.ending = ending
        """Set if the proxy ended the stream instead of answering."""


class Tunnel:
    """One request for a tunnel. `open` is called once, on a link to the proxy."""

    def __init__(self, route: ProxyRoute, host: str, port: int) -> None:
        """Raises ValueError, which names no value, for what cannot be sent."""
        self.route = route
        authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        headers = [(b"Host", authority.encode())]
        if route.authorization is not None:
            headers.append((b"Proxy-Authorization", route.authorization))
        self._framing = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_LIMIT)
        outgoing: bytes | None = None
        try:
            outgoing = self._framing.send(h11.Request(method="CONNECT", target=authority, headers=headers))
            self._framing.send(h11.EndOfMessage())
        except h11.LocalProtocolError:
            pass
        if outgoing is None:
            # Outside the handler: the error of h11 quotes the value it refuses, which may be a secret.
            raise ValueError("the proxy's host or its authorization is not valid HTTP/1.1")
        self._outgoing = outgoing

    async def open(self, link: Link) -> None:
        """Return once bytes on the link are the target's. Raises NoTunnel."""
        answer = Answer("CONNECT", self._framing)
        came = 0
        try:
            await self._ask(link)
        except OSError as error:
            raise NoTunnel(SetupFault.REFUSED, system_code(error), ending=Ending.RESET) from None
        ending: Ending | None = None
        system = ""
        while not answer.ended:
            received = link.receive()
            came += len(received.data)
            answer.feed(received.data)
            if received.ending is not None:
                ending, system = received.ending, received.system
                answer.end(ending)
            elif not received.data:
                await link.readiness.wait(write=False)
        if answer.fault in _ENDED:
            raise NoTunnel(SetupFault.REFUSED, system, ending=ending)
        if answer.status is None or answer.head_ends_at is None:
            raise NoTunnel(SetupFault.PROXY_GARBLED, "HTTP_MALFORMED", answer.observation or "")
        if 200 <= answer.status < 300:
            if came > answer.head_ends_at:
                raise NoTunnel(SetupFault.PROXY_GARBLED, "HTTP_EXCESS", "bytes came before the target was spoken to")
            return
        fault = SetupFault.PROXY_ERROR if answer.status >= 500 else SetupFault.PROXY_REFUSED
        raise NoTunnel(fault, f"HTTP_{answer.status}", self._proxy_status(answer.headers))

    async def _ask(self, link: Link) -> None:
        outgoing, self._outgoing = memoryview(self._outgoing), b""
        while outgoing:
            outgoing = outgoing[link.send(outgoing) :]
            if outgoing:
                await link.readiness.wait(write=True)

    def _proxy_status(self, headers: tuple[tuple[str, str], ...]) -> str:
        """What the proxy says of itself and the next hop (RFC 9209), unless it repeats its credentials."""
        said = ", ".join(value for name, value in headers if name == "proxy-status")
        if any(secret in said for secret in _secrets(self.route.authorization)):
            return _WITHHELD
        return said[:STATUS_LIMIT]


def _secrets(authorization: bytes | None) -> list[str]:
    """What must not be kept of a Proxy-Authorization: its token, and the password in one of the Basic scheme."""
    token = (authorization or b"").rpartition(b" ")[2]
    try:
        password = base64.b64decode(token, validate=True).partition(b":")[2]
    except binascii.Error:
        password = b""
    return [secret.decode("latin-1") for secret in (token, password) if secret]
