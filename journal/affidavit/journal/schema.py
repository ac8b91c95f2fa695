"""The tables of `journal.db`, and what guards the records in them.

Records are append-only three times over, because each guard alone has a hole: the BEFORE UPDATE and DELETE triggers
do not see the rows that an `INSERT OR REPLACE` displaces unless `recursive_triggers` is on (`open_database` sees to
that); the BEFORE INSERT trigger refuses a seq that is taken, whatever the conflict clause; and the authorizer refuses
the writer every statement that is not its own, which neither pragma nor trigger could.

They guard against our own mistakes. Against who holds the key, the hash chain gives evidence.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from affidavit.journal import sqlcipher
from affidavit.journal.action import OPEN_STATES, UNKNOWN_STATE
from affidavit.journal.counts import Place, read_counts
from affidavit.journal.errors import FormatUnknown
from affidavit.journal.record import Head, genesis
from affidavit.journal.sqlcipher import Connection

APPLICATION_ID = 0x41464644  # "AFFD"
FORMAT = 1

IS_OPEN = f"({' OR '.join(f'state = {state!r}' for state in OPEN_STATES)})"  # IN would build a table at each update
IS_UNKNOWN = f"state = {UNKNOWN_STATE!r}"
"""The conditions of the partial indexes; a query must hold the very words to use them."""


TABLES = (
    # journal_id and public_key are bound into the first record's prev_hash
    """CREATE TABLE meta (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        journal_id BLOB NOT NULL,
        public_key BLOB NOT NULL
    ) STRICT""",
    """CREATE TABLE record (
        seq INTEGER PRIMARY KEY,
        at INTEGER NOT NULL,
        kind TEXT NOT NULL,
        invocation_id TEXT,
        segment INTEGER NOT NULL,
        previous INTEGER,
        tally TEXT,
        sealed BLOB NOT NULL,
        prev_hash BLOB NOT NULL,
        hash BLOB NOT NULL
    ) STRICT""",
    # `id` counts invocations, so that newest first needs no index of its own; `newest_record` is where the chain of
    # an invocation's records begins, in a row that is rewritten anyway, instead of an index page in every commit
    """CREATE TABLE action (
        id INTEGER PRIMARY KEY,
        invocation_id TEXT NOT NULL,
        operation_id TEXT NOT NULL,
        state TEXT NOT NULL,
        effect_digest TEXT,
        key_digest TEXT,
        program_digest TEXT,
        phase TEXT,
        outcome TEXT,
        facts TEXT NOT NULL,
        newest_record INTEGER
    ) STRICT""",
    """CREATE TABLE name (
        id INTEGER PRIMARY KEY,
        kind TEXT NOT NULL,
        lookup BLOB NOT NULL,
        segment INTEGER NOT NULL,
        sealed BLOB NOT NULL
    ) STRICT""",
    "CREATE TABLE blob (number INTEGER PRIMARY KEY, id TEXT NOT NULL, data BLOB NOT NULL) STRICT",
    "CREATE TABLE tally (id INTEGER PRIMARY KEY CHECK (id = 1), counts TEXT NOT NULL) STRICT",
)

INDEXES = (
    "CREATE INDEX record_unlinked ON record (invocation_id) WHERE previous IS NULL AND invocation_id IS NOT NULL",
    "CREATE UNIQUE INDEX action_invocation ON action (invocation_id)",
    f"CREATE INDEX action_open ON action (id) WHERE {IS_OPEN}",
    f"CREATE INDEX action_unknown ON action (id) WHERE {IS_UNKNOWN}",
    "CREATE INDEX action_operation ON action (operation_id)",
    "CREATE INDEX action_effect ON action (effect_digest) WHERE effect_digest IS NOT NULL",
    "CREATE INDEX action_key ON action (key_digest) WHERE key_digest IS NOT NULL",
    "CREATE INDEX action_program ON action (program_digest) WHERE program_digest IS NOT NULL",
    "CREATE UNIQUE INDEX name_lookup ON name (lookup)",
    "CREATE UNIQUE INDEX blob_id ON blob (id)",
)

GUARDS = {
    "record_no_update": """CREATE TRIGGER record_no_update BEFORE UPDATE ON record
        BEGIN SELECT RAISE(ABORT, 'a record is never changed'); END""",
    "record_no_delete": """CREATE TRIGGER record_no_delete BEFORE DELETE ON record
        BEGIN SELECT RAISE(ABORT, 'a record is never deleted'); END""",
    # ROLLBACK: with ABORT every insertion would keep a journal of its own statement
    "record_no_replace": """CREATE TRIGGER record_no_replace BEFORE INSERT ON record
        WHEN EXISTS (SELECT 1 FROM record WHERE seq = new.seq)
        BEGIN SELECT RAISE(ROLLBACK, 'a record is never replaced'); END""",
}

_WRITES = {
    (sqlcipher.INSERT, "record"),
    (sqlcipher.INSERT, "action"),
    (sqlcipher.UPDATE, "action"),
    (sqlcipher.INSERT, "name"),
    (sqlcipher.INSERT, "blob"),
    (sqlcipher.DELETE, "blob"),
    (sqlcipher.UPDATE, "tally"),
}
_READS = {("name", "id"), ("name", "lookup"), ("blob", "id"), ("tally", "id")}


def create_schema(connection: Connection, journal_id: bytes, public_key: bytes) -> None:
    """Make the tables of a new journal, in one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    for statement in (*TABLES, *INDEXES, *GUARDS.values()):
        connection.execute(statement)
    connection.execute("INSERT INTO meta VALUES (1, ?, ?)", (journal_id, public_key))
    connection.execute("INSERT INTO tally VALUES (1, '[]')")
    connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version={FORMAT}")
    connection.execute("COMMIT")


def authorize_writer(
    access: int, subject: str | None, detail: str | None, _database: str | None, trigger: str | None
) -> int:
    """SQLite's authorizer for the writer's connection: what is not named here is refused.

    Of a record the writer reads nothing; only the guard looks, at seq alone. So what was sealed stays sealed to it.
    """
    if access in {sqlcipher.TRANSACTION, sqlcipher.SELECT} or (access, subject) in _WRITES:
        return sqlcipher.ALLOW
    if access == sqlcipher.READ:
        if subject == "action" or (subject, detail) in _READS:
            return sqlcipher.ALLOW
        if subject == "record" and trigger == "record_no_replace" and detail in {"seq", ""}:  # "": the table, no column
            return sqlcipher.ALLOW
    return sqlcipher.DENY


def check_format(connection: Connection, path: Path) -> None:
    """Raise `FormatUnknown` unless this is a journal of the format that this version writes."""
    application_id = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if (application_id, version) != (APPLICATION_ID, FORMAT):
        raise FormatUnknown(path, f"format {version}" if application_id == APPLICATION_ID else "")


def read_genesis(connection: Connection) -> bytes:
    """What the first record's `prev_hash` has to be."""
    journal_id, public_key = connection.execute("SELECT journal_id, public_key FROM meta").fetchone()
    return genesis(journal_id, public_key)


def read_head(connection: Connection) -> Head:
    """The newest record; seq 0 and the genesis hash where there is none."""
    found = connection.execute("SELECT seq, hash FROM record ORDER BY seq DESC LIMIT 1").fetchone()
    return Head(*found) if found else Head(0, read_genesis(connection))


@dataclass(frozen=True, slots=True)
class Ending:
    """Where a writer goes on: what it must know of a journal, and cannot read once the authorizer guards it."""

    public_key: bytes
    head: Head
    last_name: int
    counts: Counter[Place]


def read_ending(connection: Connection) -> Ending:
    """Read where the journal ends; costs one segment at most, however long the history."""
    return Ending(
        public_key=connection.execute("SELECT public_key FROM meta").fetchone()[0],
        head=read_head(connection),
        last_name=connection.execute("SELECT coalesce(max(id), 0) FROM name").fetchone()[0],
        counts=read_counts(connection),
    )
