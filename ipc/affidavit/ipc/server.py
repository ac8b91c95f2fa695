"""A Unix socket in a home's run directory: listens, accepts, counts, and closes in order.

The run directory is private (`home.Places.prepare`), the socket file 0600 before it listens. Whoever starts a server
holds the home's lock: so a socket file that is already there belongs to nobody.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import socket
import stat
from pathlib import Path
from typing import Generic

from affidavit.ipc.connection import C, Calls, Connection

BACKLOG = 128
ABANDONED = 256
"""Connections without an other side whose acting calls still run; with more of them no new ones are taken."""
REFUSING = 64
"""Connections that are just being told so; beyond them they are closed without a word."""
_PAUSE_S = 0.1
_log = logging.getLogger(__name__)


class SocketTaken(Exception):
    """A file that is no socket lies where ours goes."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is not a socket. Move it away.")
        self.path = path


class Server(Generic[C]):
    """Owned by the broker's loop. Each connection is a task of its own that raises nothing."""

    def __init__(self, path: Path, calls: Calls[C], *, connections: int, line: int) -> None:
        self._path = path
        self._calls = calls
        self._most = connections
        self._line = line
        self._listener: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._connections: dict[Connection[C], asyncio.Task[None]] = {}
        self._refusing: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Bind and listen; clients can connect when this returns. Raises SocketTaken, OSError."""
        try:
            if not stat.S_ISSOCK(self._path.lstat().st_mode):
                raise SocketTaken(self._path)
            self._path.unlink()
        except FileNotFoundError:
            pass
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        try:
            os.fchmod(listener.fileno(), 0o600)  # on Linux the file is made with this mode: a kill leaves no laxer one
            listener.bind(str(self._path))
            os.chmod(self._path, 0o600)
            listener.listen(BACKLOG)
        except BaseException:
            listener.close()
            raise
        self._listener = listener
        self._accepting = asyncio.get_running_loop().create_task(self._accept(listener))

    def stop_accepting(self) -> None:
        """Take no new connections; those that are open go on."""
        if self._listener is not None and self._accepting is not None:
            self._accepting.cancel()
            self._listener.close()
            self._listener = None
            self._path.unlink(missing_ok=True)

    async def close(self, *, grace_s: float) -> None:
        """End every connection. Calls that are answered within `grace_s` still get their answers written."""
        self.stop_accepting()
        for connection in self._connections:
            connection.stop_reading()
        tasks = {*self._connections.values(), *self._refusing}
        if self._accepting is not None:
            tasks.add(self._accepting)
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=grace_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, _ = await loop.sock_accept(listener)
            except OSError as error:  # out of descriptors, or the other side is gone already
                _log.error("No connection can be accepted: %s.", os.strerror(error.errno or 0))
                await asyncio.sleep(_PAUSE_S)
                continue
            connection = Connection(sock, self._calls, line=self._line)
            full = self._full()
            if full is not None and len(self._refusing) >= REFUSING:
                sock.close()
            elif full is not None:
                refusing = loop.create_task(connection.refuse(full))
                self._refusing.add(refusing)
                refusing.add_done_callback(self._refusing.discard)
            else:
                task = loop.create_task(connection.run())
                self._connections[connection] = task
                task.add_done_callback(functools.partial(self._ended, connection))

    def _full(self) -> str | None:
        """Why there is no place for one more."""
        live = sum(connection.open for connection in self._connections)
        if live >= self._most or len(self._connections) >= self._most + ABANDONED:
            return f"There are {self._most} connections already. Close one and try again."
        return None

    def _ended(self, connection: Connection[C], task: asyncio.Task[None]) -> None:
        self._connections.pop(connection, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("A connection failed with %s.", type(error).__name__)
