"""A target on loopback that answers as a test tells it, byte by byte, and counts what arrived. Its peer is always the
real broker over a real socket; the server itself is threads of the test's process, so that a test can wait for it.
"""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.e2e.rig import LIMIT_S

_LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")


@dataclass(frozen=True, slots=True)
class Arrival:
    """One whole request."""

    method: str
    path: str
    """As it was sent, query included."""
    head: bytes
    body: bytes

    def header(self, name: str) -> str | None:
        found = re.search(rb"(?im)^" + name.encode() + rb": *(.*?)\r$", self.head)
        return found[1].decode("latin-1") if found else None


@dataclass(slots=True)
class Call:
    """One connection with a whole request on it, from the target's side. It is closed when its script returns."""

    arrival: Arrival
    sock: socket.socket
    port: int
    """The broker's end."""
    reached: threading.Event = field(default_factory=threading.Event)
    release: threading.Event = field(default_factory=threading.Event)

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def answer(self, status: int, body: bytes, *headers: str) -> None:
        lines = [f"HTTP/1.1 {status} Told", f"Content-Length: {len(body)}", "Content-Type: text/plain", *headers]
        self.send("\r\n".join([*lines, "", ""]).encode("latin-1") + body)

    def hold(self) -> None:
        """Tell the test that this point is reached, and wait until it lets go, or the connection's other end does."""
        self.reached.set()
        self.release.wait(LIMIT_S)


Script = Callable[[Call], Any]


def ok(call: Call) -> None:
    call.answer(200, b"ok")


class Target:
    """Listens from the start; `scripts` says by path (without its query) how a request is answered."""

    def __init__(self) -> None:
        self.scripts: dict[str, Script] = {}
        self._changed = threading.Condition()
        self._calls: list[Call] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._threads: list[threading.Thread] = []
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def arrivals(self, path: str) -> list[Arrival]:
        with self._changed:
            return [call.arrival for call in self._calls if call.arrival.path.partition("?")[0] == path]

    def calls(self, path: str, count: int = 1) -> list[Call]:
        """Wait until `count` requests for this path have arrived."""

        def found() -> list[Call]:
            return [call for call in self._calls if call.arrival.path.partition("?")[0] == path]

        with self._changed:
            assert self._changed.wait_for(lambda: len(found()) >= count, LIMIT_S), f"{count} requests for {path}"
            return found()

    def close(self) -> None:
        for call in self._calls:
            call.release.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accepting.join(LIMIT_S)
        for thread in self._threads:
            thread.join(LIMIT_S)

    def _accept(self) -> None:
        while True:
            try:
                sock, (_, port) = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(sock, port), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, sock: socket.socket, port: int) -> None:
        sock.settimeout(LIMIT_S)
        with sock:
            try:
                arrival = read_request(sock)
                if arrival is None:
                    return
                call = Call(arrival, sock, port)
                with self._changed:
                    self._calls.append(call)
                    self._changed.notify_all()
                self.scripts.get(arrival.path.partition("?")[0], ok)(call)
            except OSError:
                return


def read_request(sock: socket.socket) -> Arrival | None:
    """The request on a connection, or None where it ends before one is whole."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = sock.recv(65536)
        if not more:
            return None
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(found[1]) if (found := _LENGTH.search(head)) else 0
    while len(body) < length:
        more = sock.recv(65536)
        if not more:
            return None
        body += more
    method, path, _ = head.split(b"\r\n")[0].decode("latin-1").split(" ")
    return Arrival(method, path, head + b"\r\n", body)


class Mute:
    """Takes connections and what is said on them, and never says a word: where a TLS handshake gets to and no further.

    `heard` is set once something came.
    """

    def __init__(self) -> None:
        self.heard = threading.Event()
        self.received = bytearray()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(LIMIT_S)

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            with sock:
                sock.settimeout(LIMIT_S)
                try:
                    while data := sock.recv(65536):
                        self.received += data
                        self.heard.set()
                except OSError:
                    pass
