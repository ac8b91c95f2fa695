"""The reading side: records, rows, names and blobs, as of the last commit.

Every query is answered whole and leaves no read transaction behind, or the write-ahead log could never be reused.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from affidavit.journal import schema
from affidavit.journal.action import COLUMNS, OPEN_STATES, UNKNOWN_STATE, ActionView, Name, view
from affidavit.journal.counts import Place, read_counts
from affidavit.journal.keys import JournalKeys
from affidavit.journal.record import Head, Record
from affidavit.journal.sealing import SealedName
from affidavit.journal.sqlcipher import Connection, Error, is_damage, open_database, translate

PAGE = 100
"""Rows that a list gives unless told otherwise."""

_T = TypeVar("_T")

_VIEW = f"SELECT id, {', '.join(COLUMNS)}, facts FROM action"  # noqa: S608

_RECORD = """
SELECT r.seq, r.at, r.kind, r.invocation_id, r.segment, r.previous, r.tally, r.sealed, r.prev_hash, r.hash, s.sealed
FROM record r JOIN record s ON s.seq = r.segment
"""

_CHAIN = """
WITH RECURSIVE chain (seq, previous) AS (
    SELECT seq, previous FROM record
    WHERE seq = (SELECT newest_record FROM action WHERE invocation_id = :invocation)
    UNION ALL
    SELECT r.seq, r.previous FROM chain JOIN record r ON r.seq = chain.previous AND r.seq < chain.seq
)
SELECT seq FROM chain
UNION
SELECT seq FROM record WHERE previous IS NULL AND invocation_id IS NOT NULL AND invocation_id = :invocation
"""


class Reader:
    """A read connection of its own. May be used from any thread; calls take turns."""

    def __init__(self, path: Path, key: bytes) -> None:
        """For `open`."""
        self._path = path
        self._key = key
        self._keys = JournalKeys(key)
        self._turn = threading.Lock()
        self._connection: Connection | None = None

    @classmethod
    def open(cls, path: Path, key: bytes) -> Reader:
        """Open a journal for reading, in this or another process than its writer. Raises a `DatabaseError`."""
        reader = cls(path, key)
        with reader._turn:
            reader._connect()
        return reader

    def close(self) -> None:
        with self._turn:
            self._drop()

    # -- records

    def head(self) -> Head:
        """The newest record's seq and hash."""
        return self._ask(schema.read_head)

    def ending(self) -> schema.Ending:
        """Where a writer goes on."""
        return self._ask(schema.read_ending)

    def record(self, seq: int) -> Record | None:
        rows = self._rows(f"{_RECORD} WHERE r.seq = ?", seq)
        return Record(*rows[0]) if rows else None

    def records(self, invocation_id: str) -> tuple[Record, ...]:
        """All records of one invocation, oldest first. Costs what it gives, at any length of the journal."""
        found = self._ask(
            lambda connection: connection.execute(
                f"{_RECORD} WHERE r.seq IN ({_CHAIN}) ORDER BY r.seq", {"invocation": invocation_id}
            ).fetchall()
        )
        return tuple(Record(*row) for row in found)

    def records_between(self, first: int, last: int) -> tuple[Record, ...]:
        """The records from `first` to `last`, both included, oldest first."""
        return tuple(
            Record(*row) for row in self._rows(f"{_RECORD} WHERE r.seq BETWEEN ? AND ? ORDER BY r.seq", first, last)
        )

    # -- actions

    def action(self, invocation_id: str) -> ActionView | None:
        found = self._views(f"{_VIEW} WHERE invocation_id = ?", invocation_id)
        return found[0] if found else None

    def actions_of(self, operation_id: str) -> tuple[ActionView, ...]:
        """The invocations of one operation, newest first."""
        return self._views(f"{_VIEW} WHERE operation_id = ? ORDER BY id DESC", operation_id)

    def open_actions(self) -> tuple[ActionView, ...]:
        """Those that recovery looks at, oldest first."""
        return self._views(f"{_VIEW} INDEXED BY action_open WHERE {schema.IS_OPEN} ORDER BY id")

    def unknown_actions(self) -> tuple[ActionView, ...]:
        """Those whose outcome is unknown, oldest first."""
        return self._views(f"{_VIEW} INDEXED BY action_unknown WHERE {schema.IS_UNKNOWN} ORDER BY id")

    def by_effect(self, digest: str, limit: int = PAGE) -> tuple[ActionView, ...]:
        """The newest invocations of this effect digest, newest first."""
        return self._views(f"{_VIEW} WHERE effect_digest = ? ORDER BY id DESC LIMIT ?", digest, limit)

    def unsettled_by_effect(self, digest: str) -> tuple[ActionView, ...]:
        """All that are open or unknown with this effect digest, newest first, however many were settled since."""
        return self._views(
            f"{_VIEW} INDEXED BY action_open WHERE {schema.IS_OPEN} AND effect_digest = ?1"
            f" UNION ALL {_VIEW} INDEXED BY action_unknown WHERE {schema.IS_UNKNOWN} AND effect_digest = ?1"
            " ORDER BY id DESC",
            digest,
        )

    def by_key(self, digest: str, limit: int = PAGE) -> tuple[ActionView, ...]:
        """The newest invocations of this idempotency-key digest, newest first."""
        return self._views(f"{_VIEW} WHERE key_digest = ? ORDER BY id DESC LIMIT ?", digest, limit)

    def list_actions(
        self,
        *,
        program_digest: str | None = None,
        outcome: str | None = None,
        state: str | None = None,
        limit: int = PAGE,
        before: int | None = None,
    ) -> tuple[ActionView, ...]:
        """A window of all invocations, newest first: those older than `before` (the `number` of the last one seen).

        Filters narrow it. An index serves the bare list, `program_digest` and the open and unknown states; another
        filter reads on until the window is full.
        """
        wanted = {"program_digest": program_digest, "outcome": outcome, "state": state}
        terms = [(f"{column} = ?", value) for column, value in wanted.items() if value is not None]
        conditions = [term for term, _ in terms]
        values: list[Any] = [value for _, value in terms]
        if state == UNKNOWN_STATE:
            conditions.append(schema.IS_UNKNOWN)
        elif state in OPEN_STATES:
            conditions.append(schema.IS_OPEN)
        if before is not None:
            conditions.append("id < ?")
            values.append(before)
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return self._views(f"{_VIEW}{where} ORDER BY id DESC LIMIT ?", *values, limit)

    def newest_under(self, contract: int, *, among: int, limit: int) -> tuple[ActionView, ...]:
        """The newest invocations under the contract of this integer, newest first; only the `among` newest of all are
        looked at, as no index serves this."""
        newest = self._rows("SELECT max(id) FROM action")[0][0] or 0
        return self._views(
            f"{_VIEW} WHERE id > ? AND json_extract(facts, '$.contract') = ? ORDER BY id DESC LIMIT ?",
            newest - among,
            contract,
            limit,
        )

    def counts(self) -> dict[Place, int]:
        """How many invocations stand at each (phase, outcome)."""
        return {place: count for place, count in self._ask(read_counts).items() if count}

    # -- names and blobs

    def name(self, name: int) -> SealedName:
        """The sealed text of a target, agent or contract; an opener opens it. KeyError where there is none."""
        rows = self._rows(
            "SELECT n.id, n.kind, n.segment, n.sealed, s.sealed FROM name n JOIN record s ON s.seq = n.segment"
            " WHERE n.id = ?",
            name,
        )
        if not rows:
            raise KeyError(name)
        return SealedName(*rows[0])

    def name_id(self, name: Name) -> int | None:
        """The integer of a name; None where no committed row ever had it."""
        lookup = self._keys.name_lookup(name.kind, json.dumps(name.text).encode("ascii"))
        rows = self._rows("SELECT id FROM name WHERE lookup = ?", lookup)
        return int(rows[0][0]) if rows else None

    def blob(self, blob_id: str) -> bytes | None:
        rows = self._rows("SELECT data FROM blob WHERE id = ?", blob_id)
        return bytes(rows[0][0]) if rows else None

    def blob_ids(self, first: str, before: str, limit: int = PAGE) -> tuple[str, ...]:
        """The ids of blobs from `first` on that sort before `before`, in order. Costs what it gives."""
        rows = self._rows("SELECT id FROM blob WHERE id >= ? AND id < ? ORDER BY id LIMIT ?", first, before, limit)
        return tuple(blob_id for (blob_id,) in rows)

    # -- for benchmarks

    def wal_frames(self) -> int:
        """Pages that the write-ahead log holds now; a commit adds one for each page that it changed."""
        return int(self._rows("PRAGMA wal_checkpoint(NOOP)")[0][1])

    # -- inside

    def _views(self, query: str, *values: Any) -> tuple[ActionView, ...]:
        return tuple(view(*row, facts=facts) for *row, facts in self._rows(query, *values))

    def _rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._ask(lambda connection: connection.execute(query, values).fetchall())

    def _ask(self, ask: Callable[[Connection], _T]) -> _T:
        with self._turn:
            try:
                return ask(self._connect())
            except Error as error:
                if is_damage(error):  # this connection answers nothing more
                    self._drop()
                raise translate(self._path, error) from None

    def _connect(self) -> Connection:
        if self._connection is None:
            connection = open_database(self._path, self._key, read_only=True)
            try:
                schema.check_format(connection, self._path)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
