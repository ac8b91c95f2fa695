"""Free space: counted before dispatch, and some of it held back for the verdicts (R43, F23).

A dispatch needs room for its records and its answer. Before the line the size that its contract expects is counted,
with what others at work expect, against the free space, less what is always kept free. Counting reserves nothing: a
disk can be filled by others a moment later. For that there is the ballast, a file that holds real blocks; right before
a commit would find no room it is given up, so that what was dispatched can still be recorded. Nothing is dispatched
from then on; when there is room again for what is kept free and for the ballast, it is made anew.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from affidavit.broker.limits import MIB, Limits
from affidavit.broker.terms import InvocationId

BALLAST = 64 * MIB
HARDLY_ANY = 32 * MIB
"""Bytes. With less than that free the ballast is given up: a commit needs a few KiB, a checkpoint of the write-ahead
log some MiB, and others may be filling the disk at this moment."""

NO_ROOM = "Too little space is free where the records lie. Free some; until then nothing is sent."

SEEN_S = 1.0
"""How old the look may be that a dispatch goes by."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Bytes of a file system: free for this user, and all."""

    free: int
    total: int


def look(directory: Path) -> Seen:
    """What is free where `directory` lies. A microsecond; data directories are local."""
    found = os.statvfs(directory)
    return Seen(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize)


def kept_free(total: int, limits: Limits) -> int:
    """Bytes that no dispatch may count on: the smaller of the two limits."""
    return min(limits.free_space, int(total * limits.free_space_share))


class Space:
    """The free space of one data directory, and its ballast.

    Owned by the loop, but for `relieve` and `tend`, which any thread may call. `looking` and `now` (seconds) are passed
    in for tests.
    """

    def __init__(
        self,
        data: Path,
        limits: Callable[[], Limits],
        *,
        ballast: int = BALLAST,
        looking: Callable[[Path], Seen] = look,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._data = data
        self._limits = limits
        self._looking = looking
        self._now = now
        self._seen = looking(data)
        self._seen_at = now()
        self._expected: dict[InvocationId, int] = {}
        self._ballast = Ballast(data / "ballast", ballast)

    # -- before dispatch

    def reserve(self, invocation_id: InvocationId, expected: int) -> bool:
        """Count on `expected` bytes until `release`; False where there is too little room, and nothing is counted."""
        if self._now() - self._seen_at >= SEEN_S:
            self._look()
        if self.lacking(expected) > 0:
            return False
        self._expected[invocation_id] = expected
        return True

    def release(self, invocation_id: InvocationId) -> None:
        """The answer is stored, or none will come."""
        self._expected.pop(invocation_id, None)

    def lacking(self, expected: int = 0) -> int:
        """Bytes that would have to become free, by the last look."""
        wanted = kept_free(self._seen.total, self._limits()) + sum(self._expected.values()) + expected
        return max(0, wanted + self._ballast.owed - self._seen.free)

    # -- ballast

    def relieve(self) -> None:
        """Give the ballast up if hardly anything is free. Called before each commit."""
        if not self._ballast.there:
            return
        with suppress(OSError):
            if self._looking(self._data).free < HARDLY_ANY:
                self._ballast.give_up()

    def give_up(self) -> None:
        """A write found no room: give the ballast up whatever is counted. A user's quota shows in no count."""
        self._ballast.give_up()

    def tend(self) -> None:
        """Look anew; make the ballast where there is room for it, or give it up. Blocks on the disk."""
        seen = self._look()
        if seen.free < HARDLY_ANY:
            self._ballast.give_up()
        elif seen.free >= kept_free(seen.total, self._limits()) + HARDLY_ANY + self._ballast.size:
            self._ballast.make()

    def _look(self) -> Seen:
        self._seen, self._seen_at = self._looking(self._data), self._now()
        return self._seen


class Ballast:
    """A file of `size` bytes that holds nothing but blocks. May be used from any thread."""

    def __init__(self, path: Path, size: int) -> None:
        self.size = size
        self._path = path
        self._turn = threading.Lock()
        self.there = self._whole()
        self.owed = 0
        """Bytes that were given up and not made good."""

    def make(self) -> None:
        """Make the file, whole or not at all: a disk that has no room for it is no error."""
        with self._turn:
            if self.there:
                return
            try:
                self._fill()
            except OSError:
                self._path.unlink(missing_ok=True)
            self.there = self._whole()
            self.owed = 0 if self.there else self.owed

    def give_up(self) -> None:
        """Give its blocks back. Called where nothing may fail for it: that it cannot be removed is no error."""
        with self._turn, suppress(OSError):
            self.owed = self.size if self.there else self.owed
            self.there = False
            self._path.unlink()

    def _fill(self) -> None:
        self._path.unlink(missing_ok=True)
        file = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(file, 0, self.size)
            if not _holds_blocks(os.fstat(file), self.size):
                # A file system that packs zeros away: what cannot be packed holds blocks on any.
                for at in range(0, self.size, MIB):
                    os.pwrite(file, os.urandom(min(MIB, self.size - at)), at)
            os.fsync(file)
        finally:
            os.close(file)

    def _whole(self) -> bool:
        try:
            found = self._path.lstat()
        except FileNotFoundError:
            return False
        return found.st_size == self.size and _holds_blocks(found, self.size)


def _holds_blocks(found: os.stat_result, size: int) -> bool:
    return found.st_blocks * 512 >= size
