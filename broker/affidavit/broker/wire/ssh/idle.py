"""Transports kept open, logged in, for another command of the same kind.

SSH tells answers apart by their channel, so one transport could serve many commands at once. It serves one at a time
here: a slow reader would hold up the others, and what one peer does wrong would end them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

from affidavit.broker.wire.ssh.port import HostKey, SshHop
from affidavit.broker.wire.ssh.setup import Way

IDLE_S = 60.0
"""How long one waits unused. OpenSSH's ControlPersist has no default; ansible uses 60 s."""
KEPT_OF_KEY = 4
KEPT = 16
"""As many as wait in all, each with a thread; the oldest makes room."""


@dataclass(frozen=True, slots=True)
class Key:
    """Who may share a transport: the caller's own key, and where it leads, lest a wrong key leads elsewhere."""

    reuse: str
    hops: tuple[tuple[str, int, str, tuple[HostKey, ...]], ...]

    @classmethod
    def of(cls, reuse: str, hops: tuple[SshHop, ...]) -> Key:
        return cls(reuse, tuple((hop.host, hop.port, hop.user, hop.host_keys) for hop in hops))


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    key: Key
    way: Way
    timer: asyncio.TimerHandle


class Idle:
    """The transports that wait. Owned by the loop."""

    def __init__(self) -> None:
        self._waiting: dict[str, _Waiting] = {}
        """By the connection's id, in the order in which they came."""
        self._generation = 0

    def lease(self, key: Key) -> Lease:
        """One exchange's access to the transports of a key."""
        return Lease(self, key, self._generation)

    def close(self) -> None:
        """Close all of them, and whatever an earlier lease will want to keep."""
        self._generation += 1
        for name in list(self._waiting):
            self._drop(name)

    def take(self, key: Key) -> Way | None:
        """The one that came last."""
        waiting = next((waiting for waiting in reversed(self._waiting.values()) if waiting.key == key), None)
        return self._remove(waiting.way.connection.id) if waiting is not None else None

    def keep(self, key: Key, way: Way, generation: int) -> None:
        """Keep a transport, or close it: it is dead, or all were closed since its lease was given."""
        if generation != self._generation or not way.alive:
            way.close()
            return
        of_key = [name for name, waiting in self._waiting.items() if waiting.key == key]
        if len(of_key) >= KEPT_OF_KEY:
            self._drop(of_key[0])
        elif len(self._waiting) >= KEPT:
            self._drop(next(iter(self._waiting)))
        name = way.connection.id
        timer = asyncio.get_running_loop().call_later(IDLE_S, self._drop, name)
        self._waiting[name] = _Waiting(key, way, timer)

    def _drop(self, name: str) -> None:
        self._remove(name).close()

    def _remove(self, name: str) -> Way:
        waiting = self._waiting.pop(name)
        waiting.timer.cancel()
        return waiting.way


class Lease:
    """What one exchange may do with the transports of its key."""

    def __init__(self, idle: Idle, key: Key, generation: int) -> None:
        self._idle = idle
        self._key = key
        self._generation = generation

    def take(self, permits: Callable[[Way], bool]) -> Way | None:
        """A transport that `permits`; None if there is none. Whatever else is met on the way is closed."""
        while (way := self._idle.take(self._key)) is not None:
            if permits(way):
                return replace(way, connection=replace(way.connection, reused=True))
            way.close()
        return None

    def give(self, way: Way) -> None:
        """Hand over a transport whose command has ended in order. It is kept or closed."""
        self._idle.keep(self._key, way, self._generation)
