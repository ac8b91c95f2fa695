"""Walk the chain over ciphertext and name the first record that is not what was appended. No vault is needed (R58).

Reads in windows, so that no read transaction lasts and memory is bounded at any length. Costs one CPU for seconds per
million records: a program with a loop runs it in a process of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from affidavit.journal import schema
from affidavit.journal.record import Head, encode_header, record_hash
from affidavit.journal.sqlcipher import Connection, Error, is_damage, open_database, translate

_WINDOW = 512

_READ = """
SELECT seq, at, kind, invocation_id, segment, previous, tally, sealed, prev_hash, hash
FROM record WHERE seq > ? ORDER BY seq LIMIT ?
"""


class Fault(StrEnum):
    """What is wrong with a record."""

    MISSING = "missing"
    """Records before it exist and after it, too, but it does not."""
    CHANGED = "changed"
    """Its hash is not that of its content."""
    DETACHED = "detached"
    """It does not name the record before it: something was swapped, inserted, or the chain is another journal's."""
    UNREADABLE = "unreadable"
    """The page that holds it is not what was written."""


_SENTENCES = {
    Fault.MISSING: "Record {seq} is missing.",
    Fault.CHANGED: "Record {seq} was changed after it was written.",
    Fault.DETACHED: "Record {seq} does not follow from the record before it.",
    Fault.UNREADABLE: "Record {seq} cannot be read: its page in the file was changed after it was written.",
}


@dataclass(frozen=True, slots=True)
class Broken:
    """The first record that does not hold."""

    seq: int
    fault: Fault


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found. `records` hold, the newest of them is `head`; `broken` is the first that does not."""

    records: int
    head: Head
    broken: Broken | None

    @property
    def intact(self) -> bool:
        return self.broken is None

    @property
    def sentence(self) -> str:
        """What this proves, and what it does not."""
        if self.broken is not None:
            found = _SENTENCES[self.broken.fault].format(seq=self.broken.seq)
            return (
                f"{found} The {self.records} records before it are unbroken; nothing is proven of it and what follows."
            )
        if not self.records:
            return "The journal holds no records; whether it ever did is not proven."
        return (
            f"The {self.records} records up to number {self.head.seq} follow from each other and none was changed,"
            " removed or inserted before the newest. Not proven: that nothing was cut off after the newest, that"
            " everything was recorded, or that a target did anything."
        )


def verify(path: Path, key: bytes) -> Verdict:
    """Check every record of the journal at `path`, live or not. Raises a `DatabaseError` if it cannot be opened."""
    with_damage = None
    connection = open_database(path, key, read_only=True)
    try:
        schema.check_format(connection, path)
        head = Head(0, schema.read_genesis(connection))
        try:
            for row in _rows(connection, 0, _WINDOW):
                broken = _check(row, head)
                if broken is not None:
                    return Verdict(head.seq, head, broken)
                head = Head(row[0], row[9])
        except Error as error:
            if not is_damage(error):
                raise
            with_damage = error
    except Error as error:
        raise translate(path, error) from None
    finally:
        connection.close()
    if with_damage is None:
        return Verdict(head.seq, head, None)
    return _find_unreadable(path, key, head)


def _rows(connection: Connection, after: int, window: int) -> Iterator[tuple[Any, ...]]:
    while rows := connection.execute(_READ, (after, window)).fetchall():
        yield from rows
        after = rows[-1][0]


def _check(row: tuple[Any, ...], before: Head) -> Broken | None:
    seq, at, kind, invocation_id, segment, previous, tally, sealed, prev_hash, hashed = row
    if seq != before.seq + 1:
        return Broken(before.seq + 1, Fault.MISSING)
    if prev_hash != before.hash:
        return Broken(seq, Fault.DETACHED)
    header = encode_header(at, kind, invocation_id, segment, previous, tally)
    if record_hash(seq, header, sealed, prev_hash) != hashed:
        return Broken(seq, Fault.CHANGED)
    return None


def _find_unreadable(path: Path, key: bytes, head: Head) -> Verdict:
    """A window after `head` meets a broken page: go on record by record, to the one that cannot be read.

    A connection that met a broken page answers nothing more, so this takes a fresh one.
    """
    connection = open_database(path, key, read_only=True)
    try:
        for row in _rows(connection, head.seq, 1):
            broken = _check(row, head)
            if broken is not None:
                return Verdict(head.seq, head, broken)
            head = Head(row[0], row[9])
    except Error as error:
        if not is_damage(error):
            raise translate(path, error) from None
    finally:
        connection.close()
    return Verdict(head.seq, head, Broken(head.seq + 1, Fault.UNREADABLE))
