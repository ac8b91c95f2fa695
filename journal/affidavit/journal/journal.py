"""The journal: records handed over at once, made durable in order by one thread.

`append` gives out the seqs, projects, and queues, all under one lock and without touching disk, JSON or a cipher; the
thread `affidavit-journal` does the rest. Its rule of group commit: when a barrier waits, take whatever is queued, make
one commit of it, resolve the receipts. What no barrier follows is committed a second after it came.

A failed write poisons the journal for good: the chain in memory and the one on disk may differ, so nothing is appended
any more, and who dispatches must stop (R23). Opening it again tells what is on disk.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from affidavit.journal import schema
from affidavit.journal.action import Row
from affidavit.journal.errors import DatabaseExists, DatabaseUnavailable, JournalClosed
from affidavit.journal.files import sync_directory
from affidavit.journal.keys import JournalKeys
from affidavit.journal.ledger import Batch, Blob, Ledger, Standing, WallClock
from affidavit.journal.reader import Reader
from affidavit.journal.receipt import Receipt
from affidavit.journal.record import Draft
from affidavit.journal.sealing import CurrentOpener
from affidavit.journal.sqlcipher import Error, error_name, open_database, remove_database, translate

LAZY_S = 1.0
SEGMENT_RECORDS = 1024
SEGMENT_S = 900.0
"""A segment's key is in memory for at most so many records and so long: what a thief of the memory can read back."""

Project = Callable[[Sequence[int]], Sequence[Row]]
"""Turns the seqs of an append into the rows that change with it. Runs under the journal's lock: it must not append."""


@dataclass(frozen=True, slots=True)
class Counters:
    """What the writer did since it was opened. `largest` is the most records in one commit."""

    commits: int
    records: int
    largest: int


@dataclass(slots=True)
class _Segment:
    """The running segment, as seen by who hands out seqs."""

    number: int
    opened_at: int
    records: int


class Journal:
    """One journal file, open for appending by this process alone. Its methods may be called from any thread."""

    def __init__(self, path: Path, key: bytes, ledger: Ledger, clock: WallClock, lazy_s: float) -> None:
        """For `open`."""
        self._path = path
        self._key = key
        self._keys = JournalKeys(key)
        self._ledger = ledger
        self._clock = clock
        self._lazy_s = lazy_s
        self._changed = threading.Condition()  # guards all below
        self._next = ledger.head.seq + 1
        self._segment: _Segment | None = None
        self._queue: list[Batch] = []
        self._due: float | None = None  # on the monotonic clock: when the queue is committed at the latest
        self._awake_at: float | None = None  # on the same clock: when the writer looks again without being told
        self._poisoned: str | None = None
        self._closed = False
        self._on_poisoned: list[Callable[[str], None]] = []
        self._before_commit: Callable[[], None] = _nothing
        self._thread = threading.Thread(target=self._run, name="affidavit-journal", daemon=True)
        self._thread.start()

    @staticmethod
    def create(path: Path, key: bytes, public_key: bytes) -> None:
        """Make an empty journal, whole or not at all. `public_key` (X25519, 32 bytes) is what it is sealed to.

        Raises a `DatabaseError`.
        """
        if len(public_key) != 32:
            raise ValueError("a journal's public key has 32 bytes")
        if path.exists():
            raise DatabaseExists(path)
        made = path.with_name(path.name + ".new")
        try:
            remove_database(made)
            connection = open_database(made, key, create=True)
            try:
                schema.create_schema(connection, secrets.token_bytes(16), public_key)
            finally:
                connection.close()  # and with it the write-ahead log
            made = made.rename(path)
            sync_directory(path.parent)
        except BaseException as error:
            with suppress(OSError):
                remove_database(made)
            if isinstance(error, Error):
                raise translate(path, error) from None
            if isinstance(error, OSError):
                raise DatabaseUnavailable(path, error.strerror or "") from None
            raise

    @classmethod
    def open(cls, path: Path, key: bytes, *, clock: WallClock | None = None, lazy_s: float = LAZY_S) -> Journal:
        """Open a journal to append to it. `clock` gives wall microseconds; `lazy_s` is how long a lazy append waits.

        Raises a `DatabaseError`. Who calls must own the home: a second writer would poison itself at its first write.
        """
        with closing(Reader.open(path, key)) as reader:
            found = reader.ending()
        connection = open_database(path, key)
        connection.set_authorizer(schema.authorize_writer)
        ledger = Ledger(connection, JournalKeys(key), found)
        return cls(path, key, ledger, clock or _wall_micros, lazy_s)

    @property
    def poisoned(self) -> str | None:
        """Why nothing can be recorded any more, in one sentence; None while all is well."""
        return self._poisoned

    def on_poisoned(self, callback: Callable[[str], None]) -> None:
        """Call back once, with the reason, on the writer thread; at once if it has happened."""
        with self._changed:
            reason = self._poisoned
            if reason is None:
                self._on_poisoned.append(callback)
        if reason is not None:
            callback(reason)

    def before_commit(self, callback: Callable[[], None]) -> None:
        """Call back on the writer thread before each commit, such as to make room for it. It must not raise."""
        self._before_commit = callback

    @property
    def counters(self) -> Counters:
        """Commits and records since opening."""
        ledger = self._ledger
        return Counters(ledger.commits, ledger.records, ledger.largest)

    @property
    def standing(self) -> Standing:
        """Where the last commit left it, without a look at the disk."""
        return self._ledger.standing

    def append(
        self,
        drafts: Sequence[Draft],
        project: Project | None = None,
        *,
        barrier: bool = False,
        blobs: Sequence[Blob] | Callable[[Sequence[int]], Sequence[Blob]] = (),
    ) -> Receipt:
        """Queue records, with the rows and blobs that belong to them, for one transaction.

        `project`, and `blobs` where it is a function, are called with the seqs before anything is queued; if one
        raises, no seq is used up. With `barrier` the commit is made at once. On a poisoned journal the receipt raises;
        on a closed one this does.
        """
        if not drafts:
            raise ValueError("an append has at least one draft")
        with self._changed:
            self._refuse_closed()
            now = self._clock()
            segment = self._running_segment(now)
            opens = segment is None
            first = self._next + opens
            seqs = tuple(range(first, first + len(drafts)))
            rows = tuple(project(seqs)) if project is not None else ()
            made = blobs(seqs) if callable(blobs) else blobs
            if segment is None:
                segment = self._segment = _Segment(self._next, now, 1)
            segment.records += len(drafts)
            self._next = first + len(drafts)
            batch = Batch(
                Receipt(seqs),
                tuple(drafts),
                rows,
                tuple(made),
                segment=segment.number,
                opens=opens,
                opened_at=segment.opened_at,
                barrier=barrier,
            )
            self._enqueue(batch)
        return batch.receipt

    def flush(self) -> Receipt:
        """Commit whatever is queued now; the receipt, which has no seqs, stands for all that came before."""
        return self._errand(Batch(Receipt(()), barrier=True))

    def delete_blob(self, blob_id: str) -> Receipt:
        """Delete a blob, lazily. One that is not there is no error."""
        return self._errand(Batch(Receipt(()), deletes=(blob_id,)))

    def rotate(self) -> Receipt:
        """End the running segment: commit whatever is queued, then forget its key. The next append opens another."""
        with self._changed:
            self._refuse_closed()
            self._segment = None
            batch = Batch(Receipt(()), forgets=True, barrier=True)
            self._enqueue(batch)
        return batch.receipt

    def digest(self, domain: str, data: bytes) -> str:
        """HMAC-SHA-256 in hex under a key of this journal: for clear columns whose values must not be guessable."""
        return self._keys.digest(domain, data)

    def reader(self) -> Reader:
        """A read connection of its own, to be closed by who asked. It sees what is committed."""
        return Reader.open(self._path, self._key)

    def current_opener(self) -> CurrentOpener:
        """Opens what the running segment holds, without the vault."""
        return CurrentOpener(self._ledger.segment)

    def close(self) -> None:
        """Commit whatever is queued, forget the keys, and close. Later appends raise `JournalClosed`."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    # -- handing over, under the lock

    def _refuse_closed(self) -> None:
        if self._closed:
            raise JournalClosed("the journal is closed")

    def _errand(self, batch: Batch) -> Receipt:
        with self._changed:
            self._refuse_closed()
            self._enqueue(batch)
        return batch.receipt

    def _enqueue(self, batch: Batch) -> None:
        if self._poisoned is not None:
            batch.receipt.resolve(self._poisoned)
            return
        self._queue.append(batch)
        if batch.barrier:
            self._due = 0.0
            self._changed.notify()
        elif self._due is None:
            self._due = time.monotonic() + self._lazy_s
            if self._awake_at is None or self._awake_at > self._due:
                self._changed.notify()

    def _running_segment(self, now: int) -> _Segment | None:
        segment = self._segment
        if segment is None or segment.records >= SEGMENT_RECORDS or _segment_left_s(segment, now) <= 0:
            return None
        return segment

    # -- the writer thread

    def _run(self) -> None:
        try:
            while batches := self._take():
                try:
                    self._before_commit()
                    self._ledger.write(batches)
                except Exception as error:  # whatever it was, the chain in memory can no longer be trusted
                    self._poison(error, batches)
                    return
                for batch in batches:
                    batch.receipt.resolve()
        finally:
            self._ledger.close()

    def _take(self) -> list[Batch]:
        """Wait until something is due, then take all there is; empty when the journal was closed."""
        with self._changed:
            just_written = True
            while True:
                now = time.monotonic()
                if self._queue and (self._closed or (self._due is not None and self._due <= now)):
                    batches, self._queue, self._due = self._queue, [], None
                    return batches
                if self._closed:
                    return []
                idle_s = self._idle_s(now)
                if just_written:  # more will come soon, and should not have to wake this thread to be due in time
                    idle_s = self._lazy_s if idle_s is None else min(idle_s, self._lazy_s)
                    just_written = False
                self._awake_at = None if idle_s is None else now + idle_s
                self._changed.wait(idle_s)

    def _idle_s(self, now: float) -> float | None:
        """How long nothing is to be done, unless something comes. An idle segment's key is forgotten on time."""
        if self._due is not None:
            return self._due - now
        if self._segment is None:
            return None
        left = _segment_left_s(self._segment, self._clock())
        if left > 0:
            return left
        self._segment = None
        self._ledger.forget_segment()
        return None

    def _poison(self, error: Exception, batches: Sequence[Batch]) -> None:
        reason = f"A record could not be written ({error_name(error)})."
        with self._changed:
            self._poisoned = reason
            lost = [*batches, *self._queue]
            self._queue = []
            callbacks, self._on_poisoned = self._on_poisoned, []
        for batch in lost:
            batch.receipt.resolve(reason)
        for callback in callbacks:
            callback(reason)


def _segment_left_s(segment: _Segment, now: int) -> float:
    """Seconds until the segment ends; a clock that was set back ends it, too."""
    age_s = (now - segment.opened_at) / 1e6
    return SEGMENT_S - age_s if age_s >= 0 else 0.0


def _nothing() -> None:
    """What is done before a commit where nobody asked for anything."""


def _wall_micros() -> int:
    return time.time_ns() // 1000
