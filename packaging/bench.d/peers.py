"""What the broker is measured against and with: an echo, and a target over HTTP and HTTPS, each its own process.

    python peers.py echo SOCKET
    python peers.py target CERTIFICATE_AND_KEY

The target prints `{"http": PORT, "https": PORT}` once it listens. Both end when their stdin does.

The target does as little as an HTTP/1.1 server can: it knows heads and Content-Length, keeps connections open unless
told to close them, and answers `GET /large/BYTES` with a body of that length and anything else with 1 KB.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import sys

LINE = b"x" * 1023 + b"\n"
"""What goes to the echo and comes back."""
BODY = json.dumps({"account": "a-1", "note": "n" * 985}).encode()
PIECE = bytes(range(256)) * 1024
"""What a long body is made of."""
_HEAD_MAX = 64 * 1024


async def echo(path: str) -> None:
    """A bare echo of lines over a Unix socket, as asyncio's own streams make one."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line)
        writer.close()

    async with await asyncio.start_unix_server(serve, path):
        print("ready", flush=True)
        await _stdin_ends()


async def target(certificate: str) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    loop = asyncio.get_running_loop()
    plain = await loop.create_server(Target, "127.0.0.1", 0, backlog=512)
    secure = await loop.create_server(Target, "127.0.0.1", 0, backlog=512, ssl=tls)
    ports = {name: server.sockets[0].getsockname()[1] for name, server in (("http", plain), ("https", secure))}
    print(json.dumps(ports), flush=True)
    await _stdin_ends()


class Target(asyncio.Protocol):
    """One connection to the target."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._received = b""
        self._left = 0
        self._paused = False

    def data_received(self, data: bytes) -> None:
        self._received += data
        while True:
            head, end, rest = self._received.partition(b"\r\n\r\n")
            if not end:
                if len(head) > _HEAD_MAX:
                    self._transport.close()
                return
            request, *lines = head.split(b"\r\n")
            fields = {
                name.strip().lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)
            }
            length = int(fields.get(b"content-length", b"0"))
            if len(rest) < length:
                return
            self._received = rest[length:]
            self._answer(request.split(b" ")[1])
            if fields.get(b"connection", b"").lower() == b"close":
                self._transport.close()
                return

    def _answer(self, path: bytes) -> None:
        large = path.rpartition(b"/large/")[2] if b"/large/" in path else b""
        length = int(large) if large else len(BODY)
        kind = b"application/octet-stream" if large else b"application/json"
        head = b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n" % (kind, length)
        if large:
            self._transport.write(head)
            self._left = length
            self._more()
        else:
            self._transport.write(head + BODY)

    def _more(self) -> None:
        """Send on of a long body, as long as the transport takes it."""
        while self._left and not self._paused:
            self._transport.write(PIECE[: self._left])
            self._left -= min(self._left, len(PIECE))

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        self._more()


async def _stdin_ends() -> None:
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.buffer.read)


if __name__ == "__main__":
    _, what, where = sys.argv
    asyncio.run({"echo": echo, "target": target}[what](where))
