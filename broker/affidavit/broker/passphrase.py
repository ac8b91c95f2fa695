"""The gate before the vault's passphrase: one try at a time, and a pause after each wrong one.

Interface, Operator commands: the operator socket is open to any program of this user, so the passphrase is the barrier
and guessing must be slow. The pause doubles from 1 s to 60 s over all callers together: a program that guesses gains
nothing by opening more connections. From the fifth wrong one on, somebody is told which program it was.

A program may hang up while its guess is tried; the guess counts all the same, or hanging up would be a way to guess
without a pause. So each try runs in a task of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from affidavit.broker.vault.errors import WrongPassphrase

T = TypeVar("T")

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
WARN_FROM = 5
"""Wrong passphrases in a row, over all callers, from which on the person is warned."""
WAITING_MAX = 16
"""Callers that may wait for their turn; a person needs one."""


class GateFull(Exception):
    """Too many callers wait for their turn. Nothing was tried; it counts as no guess."""


class PassphraseGate:
    """Serialises tries of the passphrase over all callers. Owned by the broker's loop.

    `clock` and `sleep` are the loop's, in seconds. `warn` is called on the loop with the count of wrong passphrases in
    a row and the program that gave the last one.
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        warn: Callable[[int, str], None],
    ) -> None:
        self._clock = clock
        self._sleep = sleep
        self._warn = warn
        self._turn = asyncio.Lock()
        self._open_at = clock()
        self._wrong = 0
        self._tries: set[asyncio.Task[object]] = set()

    @property
    def wrong(self) -> int:
        """Wrong passphrases since the last right one."""
        return self._wrong

    @property
    def pause_s(self) -> float:
        """Seconds until the next try may begin; 0 if it may now."""
        return max(0.0, self._open_at - self._clock())

    async def attempt(self, check: Callable[[], Awaitable[T]], *, program: str) -> T:
        """Await the turn and the pause, then `check`, which raises WrongPassphrase for a wrong one.

        Whatever `check` returns or raises comes through; only WrongPassphrase counts, and only a return resets the
        count. GateFull if too many wait already.
        """
        if len(self._tries) >= WAITING_MAX:
            raise GateFull
        task = asyncio.create_task(self._try(check, program))
        self._tries.add(task)
        task.add_done_callback(self._done)
        return await asyncio.shield(task)

    async def _try(self, check: Callable[[], Awaitable[T]], program: str) -> T:
        async with self._turn:
            while (pause := self.pause_s) > 0:
                await self._sleep(pause)
            try:
                result = await check()
            except WrongPassphrase:
                self._open_at = self._clock() + min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(self._wrong, 10))
                self._wrong += 1
                if self._wrong >= WARN_FROM:
                    self._warn(self._wrong, program)
                raise
            self._wrong = 0
            return result

    def _done(self, task: asyncio.Task[T]) -> None:
        self._tries.discard(task)
        if not task.cancelled():
            task.exception()  # A caller that hung up does not fetch it.
