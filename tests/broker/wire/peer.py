"""A hostile peer on loopback: plays a script on each connection and keeps what reached it.

TLS runs over memory buffers here too, so that a script decides how a stream ends.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import trustme

Script = Callable[["Call"], Awaitable[None]]

LULL_S = 0.002

LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")


class Call:
    """One connection, from the peer's side. A script drives it; at its end the socket is closed."""

    def __init__(self, sock: socket.socket, tls: ssl.SSLContext | None, release: asyncio.Event) -> None:
        self.received = bytearray()
        """Application bytes of the client."""
        self.over = asyncio.Event()
        """The script has ended."""
        self.alert: str | None = None
        """Why the client broke off the handshake, in OpenSSL's words."""
        self.client_ended: str | None = None
        """How the client's half ended: fin, close_notify, ragged or reset."""
        self._taken = 0
        self._left: int | None = None
        self._release = release
        self._sock = sock
        self._loop = asyncio.get_running_loop()
        self._in = ssl.MemoryBIO()
        self._out = ssl.MemoryBIO()
        self._tls = tls.wrap_bio(self._in, self._out, server_side=True) if tls else None

    async def handshake(self, *, then: bytes = b"") -> None:
        """`then`: said in one piece with the peer's last words."""
        assert self._tls is not None
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._flush()
                if not await self._fill():
                    raise ConnectionError("closed during the handshake") from None
            except ssl.SSLError as error:
                self.alert = error.reason
                await self._flush()
                raise
            else:
                if then:
                    self._tls.write(then)
                await self._flush()
                return

    async def hear(self) -> None:
        """Wait for the client's first bytes beneath TLS."""
        await self._loop.sock_recv(self._sock, 65536)

    async def drain(self) -> None:
        """Read beneath TLS until the client is gone."""
        while await self._loop.sock_recv(self._sock, 65536):
            pass

    async def begin_handshake(self, *, until: int) -> None:
        """Say our part of a handshake, and take in this much more of the client before it is looked at."""
        assert self._tls is not None
        while not self._out.pending:
            await self._fill()
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                pass
        await self._flush()
        taken = 0
        while taken < until:
            before = self._in.pending
            if not await self._fill():
                raise ConnectionError("closed during the handshake")
            taken += self._in.pending - before

    async def request(self) -> bytes:
        """Read one whole request, its body included."""
        head, _, body = (await self.read_until(b"\r\n\r\n")).partition(b"\r\n\r\n")
        length = LENGTH.search(head)
        while length and len(body) < int(length[1]):
            if not await self._more():
                raise ConnectionError("the request broke off")
            body = bytes(self.received).partition(b"\r\n\r\n")[2]
        return bytes(self.received)

    async def next_request(self) -> bytes:
        """Read the next request on this connection, one without a body."""
        start = self._taken
        while b"\r\n\r\n" not in self.received[start:]:
            if not await self._more():
                raise ConnectionError("the request broke off")
        self._taken = self.received.index(b"\r\n\r\n", start) + 4
        return bytes(self.received[start : self._taken])

    async def read_until(self, mark: bytes) -> bytes:
        while mark not in self.received:
            if not await self._more():
                raise ConnectionError("the request broke off")
        return bytes(self.received)

    async def read_at_least(self, count: int) -> None:
        while len(self.received) < count:
            if not await self._more():
                raise ConnectionError("the request broke off")

    async def read_to_end(self) -> None:
        """Read until the client is gone."""
        while await self._more():
            pass

    async def send(self, data: bytes) -> None:
        if self._tls is None:
            await self.raw(data)
            return
        view = memoryview(data)
        while view:
            view = view[self._tls.write(view) :]
            await self._flush()

    async def raw(self, data: bytes) -> None:
        """Send beneath TLS."""
        await self._loop.sock_sendall(self._sock, data)

    def stops_after(self, count: int) -> None:
        """Say this many bytes more of what TLS gives, and end."""
        self._left = count

    async def fin(self) -> None:
        """End our half in order at TCP; over TLS this is ragged."""
        self._sock.shutdown(socket.SHUT_WR)

    async def reset(self) -> None:
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._sock.close()

    async def close_notify(self) -> None:
        assert self._tls is not None
        try:
            self._tls.unwrap()
        except ssl.SSLWantReadError:
            pass
        await self._flush()

    async def hold(self) -> None:
        """Do nothing until the test is over."""
        await self._release.wait()

    async def lull(self) -> bool:
        """Let a moment pass, as a peer does that is slow; False once the test is over."""
        try:
            async with asyncio.timeout(LULL_S):
                await self._release.wait()
        except TimeoutError:
            return True
        return False

    async def _more(self) -> bool:
        if self._tls is None:
            try:
                data = await self._loop.sock_recv(self._sock, 65536)
            except ConnectionError:
                self.client_ended = "reset"
                return False
            self.client_ended = None if data else "fin"
            self.received += data
            return bool(data)
        while True:
            try:
                data = self._tls.read(65536)
            except ssl.SSLWantReadError:
                if not await self._fill():
                    return False
            except ssl.SSLError:
                self.client_ended = "ragged"
                return False
            else:
                self.client_ended = None if data else "close_notify"
                self.received += data
                return bool(data)

    async def _fill(self) -> bool:
        try:
            data = await self._loop.sock_recv(self._sock, 65536)
        except ConnectionError:
            self.client_ended = "reset"
            return False
        if data:
            self._in.write(data)
        else:
            self._in.write_eof()
        return True

    async def _flush(self) -> None:
        if not self._out.pending:
            return
        data = self._out.read()
        await self.raw(data[: self._left])
        if self._left is not None:
            self._left -= len(data)
            if self._left <= 0:
                raise ConnectionError("the peer ends here")

    def close(self) -> None:
        self._sock.close()


def listening(host: str = "127.0.0.1", port: int = 0, rcvbuf: int | None = None) -> socket.socket:
    """A socket that listens; `rcvbuf` bounds what each connection takes unread."""
    found = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if rcvbuf is not None:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
    found.bind((host, port))
    found.listen(64)
    return found


@dataclass
class Peer:
    """Listens on loopback from `async with` to its end. `calls` are its connections in order."""

    script: Script
    tls: ssl.SSLContext | None = None
    host: str = "127.0.0.1"
    handshake: bool = True
    """With TLS: whether to shake hands before the script runs."""
    rcvbuf: int | None = None
    listener: socket.socket | None = None
    """One that listens already and outlives this peer, instead of a new one."""
    calls: list[Call] = field(default_factory=list)
    port: int = 0

    async def __aenter__(self) -> Self:
        self._release = asyncio.Event()
        self._accepted = asyncio.Condition()
        self._listener = self.listener.dup() if self.listener else listening(self.host, self.port, self.rcvbuf)
        self._listener.setblocking(False)
        self.port = self._listener.getsockname()[1]
        self._group = asyncio.TaskGroup()
        await self._group.__aenter__()
        self._accepting = self._group.create_task(self._accept())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release.set()
        self._accepting.cancel()
        async with asyncio.timeout(20):
            await self._group.__aexit__(None, None, None)
        self._listener.close()

    async def call(self, index: int = 0) -> Call:
        """The connection of that number, once it was accepted."""
        async with asyncio.timeout(10), self._accepted:
            await self._accepted.wait_for(lambda: len(self.calls) > index)
        return self.calls[index]

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            sock, _ = await loop.sock_accept(self._listener)
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            call = Call(sock, self.tls, self._release)
            self._group.create_task(self._play(call))
            async with self._accepted:
                self.calls.append(call)
                self._accepted.notify_all()

    async def _play(self, call: Call) -> None:
        try:
            if self.tls is not None and self.handshake:
                await call.handshake()
            await self.script(call)
        except (OSError, ConnectionError):
            pass  # The client left first, or TLS broke: as the test wants it.
        finally:
            call.close()
            call.over.set()


def server_context(cert: trustme.LeafCert) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    cert.configure_cert(context)
    return context


def answer(body: bytes = b"", status: str = "200 OK", *, headers: bytes = b"", length: int | None = None) -> bytes:
    """An answer with Content-Length."""
    size = len(body) if length is None else length
    return b"HTTP/1.1 %s\r\n%sContent-Length: %d\r\n\r\n%s" % (status.encode(), headers, size, body)


def replies(data: bytes) -> Script:
    """Read the request, send these bytes, close in order."""

    async def script(call: Call) -> None:
        await call.request()
        await call.send(data)
        await call.fin()
        await call.read_to_end()

    return script


def serves(*answers: bytes) -> Script:
    """Read a request and send an answer, for each of these, then hold the connection."""

    async def script(call: Call) -> None:
        for data in answers:
            await call.next_request()
            await call.send(data)
        await call.read_to_end()

    return script


def tunnels(port: int, said: bytes = b"HTTP/1.1 200 Connection established\r\n\r\n") -> Script:
    """A proxy: whatever host CONNECT names, the tunnel leads to this port on loopback."""

    async def script(call: Call) -> None:
        asked = len(await call.read_until(b"\r\n\r\n"))
        reader, writer = await asyncio.open_connection("127.0.0.1", port)

        async def up() -> None:
            passed = asked
            while await call._more():
                writer.write(call.received[passed:])
                passed = len(call.received)

        async def down() -> None:
            while data := await reader.read(65536):
                await call.send(data)

        await call.send(said)
        ways = [asyncio.ensure_future(up()), asyncio.ensure_future(down())]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            writer.close()

    return script


def replies_and_stays(data: bytes) -> Script:
    async def script(call: Call) -> None:
        await call.request()
        await call.send(data)
        await call.hold()

    return script


def replies_and_resets(data: bytes) -> Script:
    """As `replies`, but reset. What was sent before is read first: the client asks for it."""

    async def script(call: Call) -> None:
        await call.request()
        await call.send(data)
        await call.reset()

    return script
