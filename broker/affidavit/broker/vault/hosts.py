"""The host entries of one vault: where SSH actions go, and by which keys those hosts are known."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

from affidavit.broker.terms import Micros
from affidavit.broker.vault.access import Access
from affidavit.broker.vault.credentials import CredentialId, Credentials
from affidavit.broker.vault.errors import Conflict, Invalid, NotKnown
from affidavit.broker.vault.host_edit import HostEdit, edited
from affidavit.broker.vault.host_entry import HostEntry, HostKeyPolicy, NewHost, checked
from affidavit.broker.vault.host_import import Imported, planned
from affidavit.broker.vault.snapshot import Snapshot
from affidavit.broker.wire.ssh.port import HostKey
from affidavit.journal.sqlcipher import Connection

HOSTS_MAX = 1000

SCHEMA = """
CREATE TABLE hosts (
    name TEXT PRIMARY KEY,
    address TEXT NOT NULL,
    port INTEGER NOT NULL,
    user TEXT NOT NULL,
    credential_id TEXT NOT NULL REFERENCES credentials (id),
    jump TEXT REFERENCES hosts (name),
    host_keys TEXT NOT NULL,
    revoked TEXT NOT NULL,
    policy TEXT NOT NULL,
    added_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
"""

_COLUMNS = "name, address, port, user, credential_id, jump, host_keys, revoked, policy, added_at"


class Hosts:
    """The SSH hosts of one vault. VaultLocked from every call unless the vault is open.

    Any thread may call. `list` and `named` read a snapshot in memory; a change ends with an fsync and belongs in an
    executor.
    """

    def __init__(self, access: Access, credentials: Credentials, now: Callable[[], Micros]) -> None:
        self._credentials = credentials
        self._now = now
        self.snapshot = Snapshot(access, _select_all)

    def list(self) -> tuple[HostEntry, ...]:
        """Every entry, by name."""
        return self.snapshot.get()

    def named(self, name: str) -> HostEntry:
        """NotKnown if there is none."""
        for entry in self.list():
            if entry.name == name:
                return entry
        raise _no_such_host()

    def add(self, new: NewHost) -> HostEntry:
        """Add a host. Invalid or Conflict with the field."""
        credentials, now = self._credentials.list(), self._now()

        def insert(database: Connection) -> HostEntry:
            entry = checked(new, _select_all(database), credentials, now)
            _insert(database, entry)
            return entry

        return self.snapshot.change(insert)

    def remove(self, name: str) -> HostEntry:
        """Remove a host; gives what was removed. NotKnown; Conflict while others are reached through it."""
        return self.snapshot.change(lambda database: _remove(database, name))

    def edit(self, name: str, edit: HostEdit) -> tuple[HostEntry, HostEntry]:
        """Change a host; gives what it was and what it is. NotKnown, Invalid or Conflict with the field."""
        credentials = self._credentials.list()

        def change(database: Connection) -> tuple[HostEntry, HostEntry]:
            before = _select_named(database, name)
            after = edited(before, edit, _select_all(database), credentials)
            _update(database, after)
            return before, after

        return self.snapshot.change(change)

    def pin(self, entry: HostEntry, key: HostKey) -> HostEntry:
        """Pin the key of a new host that a person accepted; one that is pinned already changes nothing.

        NotKnown; Conflict where the entry is another than the one given, or may not learn it: another key is pinned, it
        is strict, the key was revoked.
        """
        return self.snapshot.change(lambda database: _pin(database, entry, key))

    def import_file(self, text: str, *, credential: str | None = None, user: str | None = None) -> Imported:
        """Take what can be taken from a `known_hosts` or `ssh_config`: all of the plan, or nothing.

        `credential` and `user` are for hosts of an `ssh_config` that name none. Invalid where there would be too many.
        """
        credentials, now = self._credentials.list(), self._now()

        def take(database: Connection) -> Imported:
            plan = planned(text, _select_all(database), credentials, credential=credential, user=user, now=now)
            for entry in plan.added:
                _insert(database, entry)
            for _, after in plan.changed:
                _update(database, after)
            return plan

        return self.snapshot.change(take)


def _insert(database: Connection, entry: HostEntry) -> None:
    if database.execute("SELECT count(*) FROM hosts").fetchone()[0] >= HOSTS_MAX:
        raise Invalid(f"A vault holds {HOSTS_MAX} hosts at most.", "Remove one first.", field="name")
    row = _row(entry)
    database.execute(f"INSERT INTO hosts ({_COLUMNS}) VALUES ({', '.join('?' * len(row))})", row)  # noqa: S608


def _remove(database: Connection, name: str) -> HostEntry:
    entry = _select_named(database, name)
    behind = database.execute("SELECT name FROM hosts WHERE jump = ? ORDER BY name", (name,)).fetchone()
    if behind is not None:
        raise Conflict(
            f"The host {behind[0]} is reached through it.",
            f"Remove that one first: affidavit host remove {behind[0]}",
            field="name",
        )
    database.execute("DELETE FROM hosts WHERE name = ?", (name,))
    return entry


def _pin(database: Connection, entry: HostEntry, key: HostKey) -> HostEntry:
    held = _select_named(database, entry.name)
    if entry.may_learn(key) and held == entry.with_keys(key):
        return held
    if held != entry or not entry.may_learn(key):
        raise Conflict(
            "This host's entry takes no new key: it was changed, is strict, has another one, or this one was revoked.",
            f"If the host has a new key, ask who runs it; then: affidavit host edit {entry.name} --forget-key ...",
            field="host_keys",
        )
    pinned = entry.with_keys(key)
    _update(database, pinned)
    return pinned


def _update(database: Connection, entry: HostEntry) -> None:
    name, *values = _row(entry)
    columns = ", ".join(f"{column} = ?" for column in _COLUMNS.split(", ")[1:])
    database.execute(f"UPDATE hosts SET {columns} WHERE name = ?", (*values, name))  # noqa: S608


def _select_all(database: Connection) -> tuple[HostEntry, ...]:
    rows = database.execute(f"SELECT {_COLUMNS} FROM hosts ORDER BY name").fetchall()  # noqa: S608
    return tuple(_from_row(row) for row in rows)


def _select_named(database: Connection, name: str) -> HostEntry:
    row = database.execute(f"SELECT {_COLUMNS} FROM hosts WHERE name = ?", (name,)).fetchone()  # noqa: S608
    if row is None:
        raise _no_such_host()
    return _from_row(row)


def _no_such_host() -> NotKnown:
    return NotKnown("There is no host of this name.", "affidavit host list", field="name")


def _stored(keys: tuple[HostKey, ...]) -> str:
    return json.dumps([key.line for key in keys])


def _loaded(kept: str) -> tuple[HostKey, ...]:
    return tuple(HostKey.of(base64.b64decode(line.split()[1])) for line in json.loads(kept))


def _row(entry: HostEntry) -> tuple[Any, ...]:
    return (
        entry.name,
        entry.address,
        entry.port,
        entry.user,
        entry.credential_id,
        entry.jump,
        _stored(entry.host_keys),
        _stored(entry.revoked),
        entry.policy.value,
        entry.added_at,
    )


def _from_row(row: Any) -> HostEntry:
    return HostEntry(
        name=row[0],
        address=row[1],
        port=row[2],
        user=row[3],
        credential_id=CredentialId(row[4]),
        jump=row[5],
        host_keys=_loaded(row[6]),
        revoked=_loaded(row[7]),
        policy=HostKeyPolicy(row[8]),
        added_at=Micros(row[9]),
    )
