"""What waits, open, for another exchange of the same kind: by key, a few of each, for a while.

What may wait and what makes it unfit is each wire's own affair (`idle`, `ssh/idle`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, Self, TypeVar

from affidavit.broker.wire.port import Connection


class Keepable(Protocol):
    """An open connection, its set-up done."""

    @property
    def connection(self) -> Connection: ...

    @property
    def fit(self) -> bool:
        """Whether another exchange may begin on it now."""

    def again(self) -> Self:
        """The same, its connection marked as reused."""

    def close(self) -> None: ...


K = TypeVar("K")
T = TypeVar("T", bound=Keepable)


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting(Generic[K, T]):
    key: K
    kept: T
    timer: asyncio.TimerHandle


class Pool(Generic[K, T]):
    """Those that wait. Owned by the loop's thread."""

    def __init__(self, *, wait_s: float, of_key: int, in_all: int) -> None:
        """Each waits `wait_s` at most, `of_key` for one key, `in_all` together; the oldest makes room."""
        self._wait_s = wait_s
        self._of_key = of_key
        self._in_all = in_all
        self._waiting: dict[str, _Waiting[K, T]] = {}
        """By the connection's id, in the order in which they came."""
        self._generation = 0

    def lease(self, key: K) -> Lease[K, T]:
        """One exchange's access to those of a key."""
        return Lease(self, key, self._generation)

    def close(self) -> None:
        """Close all of them, and whatever an earlier lease will want to keep."""
        self._generation += 1
        for name in list(self._waiting):
            self._drop(name)

    def take(self, key: K) -> T | None:
        """The one that came last, which is the least likely to be closed meanwhile."""
        waiting = next((waiting for waiting in reversed(self._waiting.values()) if waiting.key == key), None)
        return self._remove(waiting.kept.connection.id) if waiting is not None else None

    def keep(self, key: K, kept: T, generation: int) -> None:
        """Keep it, or close it: it is unfit, or all were closed since its lease was given."""
        if generation != self._generation or not kept.fit:
            kept.close()
            return
        of_key = [name for name, waiting in self._waiting.items() if waiting.key == key]
        if len(of_key) >= self._of_key:
            self._drop(of_key[0])
        elif len(self._waiting) >= self._in_all:
            self._drop(next(iter(self._waiting)))
        name = kept.connection.id
        timer = asyncio.get_running_loop().call_later(self._wait_s, self._drop, name)
        self._waiting[name] = _Waiting(key, kept, timer)

    def _drop(self, name: str) -> None:
        self._remove(name).close()

    def _remove(self, name: str) -> T:
        waiting = self._waiting.pop(name)
        waiting.timer.cancel()
        return waiting.kept


class Lease(Generic[K, T]):
    """What one exchange may do with those of its key."""

    def __init__(self, pool: Pool[K, T], key: K, generation: int) -> None:
        self._pool = pool
        self._key = key
        self._generation = generation

    def take(self, permits: Callable[[T], bool]) -> T | None:
        """A fit one that `permits`; None if there is none. Whatever else is met on the way is closed."""
        while (kept := self._pool.take(self._key)) is not None:
            if permits(kept) and kept.fit:
                return kept.again()
            kept.close()
        return None

    def give(self, kept: T) -> None:
        """Hand over one whose exchange has ended in order. It is kept or closed."""
        self._pool.keep(self._key, kept, self._generation)
