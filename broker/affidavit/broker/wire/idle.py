"""Connections kept open for another read of the same kind, and what makes them unfit for it.

HTTP/1.1 does not tell which request an answer belongs to but by its order. So a connection is kept only where its last
answer was framed to an exact end with nothing after it, and is taken again only while it is silent: a byte or an end of
the stream that waits on it would be read as the answer to a request that has not gone yet.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from affidavit.broker.wire.link import Link, Received
from affidavit.broker.wire.port import Connection

IDLE_S = 30.0
"""How long one waits unused. Servers close theirs after 5 to 75 s; httpx keeps 5 s, urllib3 without limit."""
KEPT_OF_KEY = 32
"""As many as wait for one key. They were open at one time, so this opens none that was not wanted; whoever would be the
33rd caller at once sets up anew. httpx keeps 20 in all, browsers 6 to a host."""
KEPT = 64
"""As many as wait in all, as many as actions are open at most unless set otherwise; the oldest makes room."""


@dataclass(frozen=True, slots=True)
class Kept:
    """An open connection, its set-up done."""

    link: Link
    connection: Connection
    ip: str
    """The address it leads to, for an AddressCheck that may have changed since."""


@dataclass(frozen=True, slots=True)
class Key:
    """Who may share a connection: the caller's own key, and where it leads, lest a wrong key leads elsewhere."""

    reuse: str
    scheme: str
    host: str
    port: int
    proxy: str | None


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    key: Key
    kept: Kept
    timer: asyncio.TimerHandle


class Idle:
    """The connections that wait. Owned by the loop's thread."""

    def __init__(self) -> None:
        self._waiting: dict[str, _Waiting] = {}
        """By the connection's id, in the order in which they came."""
        self._generation = 0

    def lease(self, key: Key) -> Lease:
        """One exchange's access to the connections of a key."""
        return Lease(self, key, self._generation)

    def close(self) -> None:
        """Close all of them, and whatever an earlier lease will want to keep."""
        self._generation += 1
        for name in list(self._waiting):
            self._drop(name)

    def take(self, key: Key) -> Kept | None:
        """The one that came last, which is the least likely to be closed meanwhile."""
        waiting = next((waiting for waiting in reversed(self._waiting.values()) if waiting.key == key), None)
        return self._remove(waiting.kept.connection.id) if waiting is not None else None

    def keep(self, key: Key, kept: Kept, generation: int) -> None:
        """Keep a connection, or close it if all were closed since its lease was given."""
        if generation != self._generation:
            kept.link.close()
            return
        of_key = [name for name, waiting in self._waiting.items() if waiting.key == key]
        if len(of_key) >= KEPT_OF_KEY:
            self._drop(of_key[0])
        elif len(self._waiting) >= KEPT:
            self._drop(next(iter(self._waiting)))
        name = kept.connection.id
        timer = asyncio.get_running_loop().call_later(IDLE_S, self._drop, name)
        self._waiting[name] = _Waiting(key, kept, timer)

    def _drop(self, name: str) -> None:
        self._remove(name).link.close()

    def _remove(self, name: str) -> Kept:
        waiting = self._waiting.pop(name)
        waiting.timer.cancel()
        return waiting.kept


class Lease:
    """What one exchange may do with the connections of its key."""

    def __init__(self, idle: Idle, key: Key, generation: int) -> None:
        self._idle = idle
        self._key = key
        self._generation = generation

    def take(self, permits: Callable[[str], bool]) -> Kept | None:
        """A connection that is silent and leads to an address that `permits`; None if there is none.

        Whatever else is met on the way is closed.
        """
        while (kept := self._idle.take(self._key)) is not None:
            if permits(kept.ip) and kept.link.receive() == Received():
                return replace(kept, connection=replace(kept.connection, reused=True))
            kept.link.close()
        return None

    def give(self, kept: Kept) -> None:
        """Hand over a connection whose exchange has ended exactly. It is kept or closed."""
        self._idle.keep(self._key, kept, self._generation)
