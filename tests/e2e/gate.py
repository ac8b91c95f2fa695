"""A target that may be made deaf: what connects then is held by the kernel, before any byte of a request can leave."""

from __future__ import annotations

import errno
import socket
import threading

from tests.e2e.rig import LIMIT_S
from tests.e2e.target import Arrival, read_request


class Gate:
    """Counts one effect for each key. The first answer is lost; then nothing more is accepted until `open`."""

    def __init__(self) -> None:
        self.arrivals: list[Arrival] = []
        self.effects: set[str | None] = set()
        self._listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(0)
        self.port = int(self._listener.getsockname()[1])
        self._fillers: list[socket.socket] = []
        self._is_open = threading.Event()
        self._ending = False
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def open(self) -> None:
        """Accept whoever still waits, and answer."""
        for filler in self._fillers:
            filler.close()
        self._is_open.set()

    def close(self) -> None:
        self._ending = True
        self.open()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(LIMIT_S)

    def _serve(self) -> None:
        self._take(answered=False)
        self._is_open.wait(LIMIT_S)
        while not self._ending:
            try:
                self._take(answered=True)
            except OSError:  # the listener is closed
                return

    def _take(self, *, answered: bool) -> None:
        sock, _ = self._listener.accept()
        sock.settimeout(LIMIT_S)
        with sock:
            arrival = read_request(sock)
            if arrival is None:
                return
            if not answered:
                self._fill()
            self.arrivals.append(arrival)
            self.effects.add(arrival.header("Idempotency-Key"))
            if answered:
                sock.sendall(b"HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n")

    def _fill(self) -> None:
        """Connect until the kernel's queue is full: from then on it answers nobody who connects."""
        while True:
            filler = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            filler.setblocking(False)
            self._fillers.append(filler)
            assert filler.connect_ex(("127.0.0.1", self.port)) in (0, errno.EINPROGRESS)
            if not _is_connected(filler):
                return


def _is_connected(sock: socket.socket) -> bool:
    """On loopback the kernel has made the connection, or dropped it, by the time that `connect` returns."""
    try:
        sock.getpeername()
    except OSError:
        return False
    return True
