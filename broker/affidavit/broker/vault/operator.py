"""Operator data: what loosens, and therefore lives behind the passphrase (architecture, Vault and keys).

Adopted contract texts and the operator's settings. A contract's text is kept by its digest for ever: verdict and retry
follow the text that was bound at approval, however old.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from affidavit.broker.terms import Micros
from affidavit.broker.vault.access import Access
from affidavit.broker.vault.errors import Conflict, NotKnown
from affidavit.journal.sqlcipher import Connection

SCHEMA = """
CREATE TABLE contract_texts (
    digest TEXT PRIMARY KEY,
    id TEXT NOT NULL,
    text TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE contracts (
    id TEXT PRIMARY KEY,
    digest TEXT NOT NULL REFERENCES contract_texts (digest),
    file TEXT NOT NULL,
    adopted_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE settings (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
"""


@dataclass(frozen=True, slots=True)
class Adoption:
    """A contract text that the operator takes on: its id, the digest that records name, its file's name, its text."""

    contract_id: str
    digest: str
    file: str
    text: str


@dataclass(frozen=True, slots=True)
class Adopted:
    """A contract text in force."""

    contract_id: str
    digest: str
    file: str
    text: str
    adopted_at: Micros


class OperatorData:
    """The operator data of one vault. VaultLocked from every call unless the vault is open.

    Any thread may call; what changes something is one transaction, ends with an fsync and belongs in an executor.
    """

    def __init__(self, access: Access, now: Callable[[], Micros]) -> None:
        self._access = access
        self._now = now

    def contracts(self) -> tuple[Adopted, ...]:
        """The contract texts in force, by id."""
        return self._access.read(_select_contracts)

    def adopt(self, adoptions: Sequence[Adoption]) -> None:
        """Put these texts in force, each in place of the last one of its id; all or none.

        Conflict if a digest stands for another text already.
        """
        self._access.write(lambda database: _adopt(database, adoptions, self._now()))

    def contract_text(self, digest: str) -> str:
        """The contract text of this digest, in force or old. NotKnown if it was never adopted here."""
        return self._access.read(lambda database: _select_text(database, digest))

    def settings(self) -> dict[str, str]:
        """All settings by key, as text; `settings.parse_value` reads them."""
        return self._access.read(_select_settings)

    def setting(self, key: str) -> str | None:
        """One setting as text, or None."""
        return self.settings().get(key)

    def set_setting(self, key: str, value: str) -> str | None:
        """Set one; gives the value before, or None. The caller has checked it with `settings.parse_value`."""
        return self._access.write(lambda database: _put_setting(database, key, value))


def _select_contracts(database: Connection) -> tuple[Adopted, ...]:
    rows = database.execute(
        "SELECT c.id, c.digest, c.file, t.text, c.adopted_at FROM contracts c JOIN contract_texts t USING (digest) "
        "ORDER BY c.id"
    ).fetchall()
    return tuple(Adopted(*row) for row in rows)


def _adopt(database: Connection, adoptions: Iterable[Adoption], now: Micros) -> None:
    for one in adoptions:
        kept = database.execute("SELECT id, text FROM contract_texts WHERE digest = ?", (one.digest,)).fetchone()
        if kept is None:
            database.execute(
                "INSERT INTO contract_texts (digest, id, text) VALUES (?, ?, ?)",
                (one.digest, one.contract_id, one.text),
            )
        elif tuple(kept) != (one.contract_id, one.text):
            raise Conflict(
                "Two contract texts have one digest; nothing was adopted.", "Report this as a defect.", field="digest"
            )
        database.execute(
            "INSERT INTO contracts (id, digest, file, adopted_at) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (id) DO UPDATE SET digest = excluded.digest, file = excluded.file, "
            "adopted_at = excluded.adopted_at",
            (one.contract_id, one.digest, one.file, now),
        )


def _select_text(database: Connection, digest: str) -> str:
    row = database.execute("SELECT text FROM contract_texts WHERE digest = ?", (digest,)).fetchone()
    if row is None:
        raise NotKnown("No contract text of this digest was adopted here.", "affidavit contract list", field="digest")
    text: str = row[0]
    return text


def _select_settings(database: Connection) -> dict[str, str]:
    return dict(database.execute("SELECT key, value FROM settings ORDER BY key").fetchall())


def _put_setting(database: Connection, key: str, value: str) -> str | None:
    row = database.execute("SELECT value FROM settings WHERE key = ?", (key,)).fetchone()
    database.execute(
        "INSERT INTO settings (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        (key, value),
    )
    return None if row is None else str(row[0])
