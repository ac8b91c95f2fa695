"""The writing side of the database: batches in, one transaction out.

A `Ledger` belongs to the writer thread. It holds the only write connection, the head of the chain and the key of the
running segment; it reads back nothing of what it sealed.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

from affidavit.journal import faultpoint
from affidavit.journal.action import CHANGING, COLUMNS, FACTS, NAMES, ActionRow, Name, Row, encode_facts
from affidavit.journal.counts import Place, encode_tally
from affidavit.journal.encoding import canonical_json
from affidavit.journal.keys import JournalKeys
from affidavit.journal.receipt import Receipt
from affidavit.journal.record import SEGMENT_OPENED, Draft, Head, encode_header, record_hash
from affidavit.journal.schema import Ending
from affidavit.journal.sealing import SegmentKey, new_segment_key
from affidavit.journal.sqlcipher import Connection

_CACHED_NAMES = 4096
_CACHED_ROWS = 1024

# OR ROLLBACK: a write that fails poisons the journal, and SQLite need not prepare to undo one statement alone
_APPEND = "INSERT OR ROLLBACK INTO record VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_FIND = f"SELECT id, newest_record, phase, outcome, {', '.join(CHANGING)} FROM action WHERE invocation_id = ?"  # noqa: S608
_INSERT = (
    f"INSERT OR ROLLBACK INTO action ({', '.join(COLUMNS)}, facts, newest_record)"  # noqa: S608
    f" VALUES ({', '.join('?' * len(COLUMNS))}, ?, ?)"
)
_UPDATE = "UPDATE OR ROLLBACK action SET phase = ?, outcome = ?, facts = ?, newest_record = ? WHERE id = ?"
_UPDATE_STATE = _UPDATE.replace(" WHERE", ", state = ? WHERE")
_facts, _changing = attrgetter(*FACTS), attrgetter(*CHANGING)
_UPDATE_ONE = {column: f"UPDATE action SET {column} = ? WHERE id = ?" for column in CHANGING}  # noqa: S608


@dataclass(frozen=True, slots=True)
class Blob:
    """A small result, sealed by a key that the caller holds; unlike a record it can be deleted."""

    id: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Batch:
    """One append, or one errand (a flush, a deletion, the end of a segment), as it waits for the writer.

    The drafts get the seqs of the receipt; `opens` says that the seq before them opens their segment, at `opened_at`.
    """

    receipt: Receipt
    drafts: Sequence[Draft] = ()
    rows: Sequence[Row] = ()
    blobs: Sequence[Blob] = ()
    deletes: Sequence[str] = ()
    segment: int = 0
    opens: bool = False
    opened_at: int = 0
    forgets: bool = False
    barrier: bool = False

    @property
    def writes(self) -> bool:
        return bool(self.drafts or self.deletes)

    @property
    def invocations(self) -> Iterable[str]:
        """Those that have a row or a record here, each once, in order."""
        named = dict.fromkeys([row.invocation_id for row in self.rows])
        named |= dict.fromkeys([draft.invocation_id for draft in self.drafts if draft.invocation_id is not None])
        return named


@dataclass(frozen=True, slots=True)
class _Change:
    """What a transaction does to rows. Each is written once, where it first comes up, as the last batch has it."""

    rows: Mapping[str, Row]
    newest: Mapping[str, int]
    """The last record of each invocation that has any here."""
    linked: dict[str, int] = field(default_factory=dict)
    """Of the rows written so far: the newest record up to now, which the next one is linked to."""

    @staticmethod
    def of(batches: Sequence[Batch]) -> _Change:
        rows = {row.invocation_id: row for batch in batches for row in batch.rows}
        newest = {
            draft.invocation_id: seq
            for batch in batches
            for draft, seq in zip(batch.drafts, batch.receipt.seqs, strict=True)
            if draft.invocation_id is not None
        }
        return _Change(rows, newest)


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a commit left the journal: its newest seq, and how many invocations stand at each (phase, outcome)."""

    head: int
    counts: Mapping[Place, int]


@dataclass(frozen=True, slots=True)
class _Known:
    """What the table holds of an invocation, as the transaction goes on."""

    id: int
    newest_record: int
    place: Place
    changing: tuple[str | None, ...]


class Ledger:
    """See the module. Every method but `segment` runs on the writer thread."""

    def __init__(self, connection: Connection, keys: JournalKeys, ending: Ending) -> None:
        self.head = ending.head
        self.commits = 0
        self.records = 0
        self.largest = 0
        self._connection = connection
        self._keys = keys
        self._public_key = ending.public_key
        self._last_name = ending.last_name
        self._totals = ending.counts
        self._segment: tuple[int, SegmentKey] | None = None
        self._names: OrderedDict[Name, int] = OrderedDict()
        self._rows: OrderedDict[str, _Known] = OrderedDict()
        self._linked: list[tuple[Any, ...]] = []
        """The transaction's records so far: all of them are inserted by one call, at its end."""
        self.standing = self._stand()
        """As of the last commit; any thread may look."""

    def segment(self) -> tuple[int, SegmentKey] | None:
        """Number and key of the running segment; any thread may ask."""
        return self._segment

    def forget_segment(self) -> None:
        """Drop the segment's key: what it sealed can be read with the private key alone."""
        self._segment = None

    def write(self, batches: Sequence[Batch]) -> None:
        """Make all of it durable in one transaction. After an exception this object is of no further use."""
        if not any(batch.writes for batch in batches):
            for batch in batches:
                self._end_segment(batch)
            return
        before = self.head.seq
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        change = _Change.of(batches)
        for batch in batches:
            self._write(batch, change)
            self._end_segment(batch)
        self._connection.executemany(_APPEND, self._linked)
        self._linked.clear()
        _reach("before", batches)
        execute("COMMIT")
        _reach("after", batches)
        self.standing = self._stand()
        written = self.head.seq - before
        self.commits += 1
        self.records += written
        self.largest = max(self.largest, written)

    def close(self) -> None:
        self.forget_segment()
        self._connection.close()

    def _stand(self) -> Standing:
        return Standing(self.head.seq, {place: count for place, count in self._totals.items() if count})

    def _end_segment(self, batch: Batch) -> None:
        if batch.forgets:
            self.forget_segment()

    def _write(self, batch: Batch, change: _Change) -> None:
        execute = self._connection.execute
        if batch.opens:
            self._open_segment(batch)
        places: dict[Place, int] = {}
        for invocation_id in batch.invocations:
            if invocation_id not in change.linked:
                self._write_row(invocation_id, change, places)
        tally = self._count(places)
        for draft, seq in zip(batch.drafts, batch.receipt.seqs, strict=True):
            previous = None
            if draft.invocation_id in change.linked:
                previous, change.linked[draft.invocation_id] = change.linked[draft.invocation_id], seq
            last = seq == batch.receipt.seqs[-1]
            self._append(seq, draft, batch.segment, previous, tally if last else None)
        for blob in batch.blobs:
            execute("INSERT INTO blob (id, data) VALUES (?, ?)", (blob.id, blob.data))
        for blob_id in batch.deletes:
            execute("DELETE FROM blob WHERE id = ?", (blob_id,))

    def _write_row(self, invocation_id: str, change: _Change, places: dict[Place, int]) -> None:
        """Write an invocation's row, if it has one, as it is at the transaction's end; count it where it stands."""
        known = self._find(invocation_id)
        row = change.rows.get(invocation_id)
        if row is None and known is None:
            return  # its records stay unlinked, under an index of their own
        change.linked[invocation_id] = known.newest_record if known else 0
        newest = change.newest.get(invocation_id, change.linked[invocation_id])
        if row is not None:
            self._upsert(row.columns(), known, newest)
            if known is not None:
                places[known.place] = places.get(known.place, 0) - 1
            place = self._rows[invocation_id].place
            places[place] = places.get(place, 0) + 1
            return
        assert known is not None
        self._connection.execute("UPDATE action SET newest_record = ? WHERE id = ?", (newest, known.id))
        self._keep(invocation_id, replace(known, newest_record=newest))

    def _open_segment(self, batch: Batch) -> None:
        key, sealed_key = new_segment_key(self._public_key)
        self._segment = batch.segment, key
        self._connection.execute("UPDATE tally SET counts = ? WHERE id = 1", (encode_tally(self._totals) or "[]",))
        opening = Draft(SEGMENT_OPENED, None, {}, batch.opened_at)
        self._append(batch.segment, opening, batch.segment, sealed=sealed_key)

    def _append(
        self,
        seq: int,
        draft: Draft,
        segment: int,
        previous: int | None = None,
        tally: str | None = None,
        *,
        sealed: bytes | None = None,
    ) -> None:
        """Link one record to the head. `sealed` is given where it is not the payload under the segment's key."""
        running = self._segment
        if seq != self.head.seq + 1 or running is None or running[0] != segment:
            raise RuntimeError("a record came out of order")
        header = encode_header(draft.at, draft.kind, draft.invocation_id, segment, previous, tally)
        if sealed is None:
            sealed = running[1].seal_payload(seq, header, canonical_json(draft.payload))
        hashed = record_hash(seq, header, sealed, self.head.hash)
        clear = (seq, draft.at, draft.kind, draft.invocation_id, segment, previous, tally)
        self._linked.append((*clear, sealed, self.head.hash, hashed))
        self.head = Head(seq, hashed)

    def _find(self, invocation_id: str) -> _Known | None:
        held = self._rows.get(invocation_id)
        if held is not None:
            return held
        found = self._connection.execute(_FIND, (invocation_id,)).fetchone()
        if found is None:
            return None
        number, newest_record, phase, outcome, *changing = found
        return _Known(number, newest_record or 0, (phase, outcome), tuple(changing))

    def _keep(self, invocation_id: str, known: _Known) -> None:
        """Remember a row that was written, since it will soon be written again."""
        self._rows[invocation_id] = known
        self._rows.move_to_end(invocation_id)
        if len(self._rows) > _CACHED_ROWS:
            self._rows.popitem(last=False)

    def _upsert(self, row: ActionRow, known: _Known | None, newest_record: int) -> None:
        """Write the row."""
        execute = self._connection.execute
        values = dict(zip(FACTS, _facts(row), strict=True))
        for column in NAMES:
            if isinstance(values[column], Name):
                values[column] = self._intern(values[column])
        facts = encode_facts(values)
        place = row.phase, row.outcome
        changing = _changing(row)
        if known is None:
            inserted = execute(_INSERT, (row.invocation_id, *changing, *place, facts, newest_record or None))
            number = inserted.lastrowid
            assert number is not None
        else:
            number = known.id
            changed = {
                column: value
                for column, value, held in zip(CHANGING, changing, known.changing, strict=True)
                if value != held
            }
            if "state" in changed:
                execute(_UPDATE_STATE, (*place, facts, newest_record or None, changed.pop("state"), number))
            else:
                execute(_UPDATE, (*place, facts, newest_record or None, number))
            for column, value in changed.items():
                execute(_UPDATE_ONE[column], (value, number))
        self._keep(row.invocation_id, _Known(number, newest_record, place, changing))

    def _count(self, changes: Mapping[Place, int]) -> str | None:
        if changes:
            self._totals.update(changes)
        return encode_tally(changes)

    def _intern(self, name: Name) -> int:
        """The name's integer; a new one is sealed into the dictionary in this transaction."""
        held = self._names.get(name)
        if held is not None:
            self._names.move_to_end(name)
            return held
        text = json.dumps(name.text).encode("ascii")
        lookup = self._keys.name_lookup(name.kind, text)
        found = self._connection.execute("SELECT id FROM name WHERE lookup = ?", (lookup,)).fetchone()
        if found is not None:
            number = int(found[0])
        else:
            if self._segment is None:
                raise RuntimeError("a name came without a running segment")
            number = self._last_name = self._last_name + 1
            segment, key = self._segment
            sealed = key.seal_name(number, name.kind, text)
            self._connection.execute(
                "INSERT INTO name VALUES (?, ?, ?, ?, ?)", (number, name.kind, lookup, segment, sealed)
            )
        self._names[name] = number
        if len(self._names) > _CACHED_NAMES:
            self._names.popitem(last=False)
        return number


def _reach(moment: str, batches: Sequence[Batch]) -> None:
    if faultpoint.ARMED:
        for batch in batches:
            for draft in batch.drafts:
                faultpoint.reach(f"{moment}:{draft.kind}")


WallClock = Callable[[], int]
"""Wall time in microseconds."""
