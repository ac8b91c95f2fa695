"""A receipt: what `append` gives at once, and what its records' durability is awaited on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from affidavit.journal.errors import JournalPoisoned

_lock = threading.Lock()


class Receipt:
    """The seqs of one append, and whether they are durable. May be awaited in any loop and waited for in any thread.

    Resolved once, by the journal. Giving up waiting takes nothing back: what was appended is recorded all the same.
    """

    __slots__ = ("_failure", "_resolved", "_waiters", "seqs")

    def __init__(self, seqs: tuple[int, ...]) -> None:
        self.seqs = seqs
        self._resolved = False
        self._failure: str | None = None
        self._waiters: list[Callable[[], None]] = []

    @property
    def done(self) -> bool:
        """Whether it is known: the records are on disk, or will not be by this journal."""
        return self._resolved

    @property
    def on_disk(self) -> bool:
        """Whether the records are durable already."""
        return self._resolved and self._failure is None

    async def durable(self) -> None:
        """Return once the records are on disk; raise `JournalPoisoned` once they will not be by this journal."""
        if not self._resolved:
            loop = asyncio.get_running_loop()
            future: asyncio.Future[None] = loop.create_future()

            def settle() -> None:
                if not future.done():
                    future.set_result(None)

            def wake() -> None:
                try:
                    loop.call_soon_threadsafe(settle)
                except RuntimeError:  # the loop was closed with nobody left to wake
                    pass

            self._when_resolved(wake)
            await future
        self._raise_failure()

    def wait(self, timeout: float | None = None) -> None:
        """The same for a thread. `timeout` in seconds; raises TimeoutError when it passes."""
        if not self._resolved:
            event = threading.Event()
            self._when_resolved(event.set)
            if not event.wait(timeout):
                raise TimeoutError("the records are not durable yet")
        self._raise_failure()

    def resolve(self, failure: str | None = None) -> None:
        """For the journal: the records are durable, or (with the reason) never will be by it."""
        with _lock:
            self._failure = failure
            self._resolved = True
            waiters, self._waiters = self._waiters, []
        for wake in waiters:
            wake()

    def _when_resolved(self, wake: Callable[[], None]) -> None:
        with _lock:
            if not self._resolved:
                self._waiters.append(wake)
                return
        wake()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise JournalPoisoned(self._failure)
