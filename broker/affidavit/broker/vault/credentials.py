"""Credentials: what may be sent where, and the rules by which one is taken in.

A credential is named by the operator, bound to a target pattern, and has a secret in numbered versions. Only the newest
version has a value; a number is never used twice, so evidence that names a version stays true. The secret itself is
never part of a `Credential` (R12).
"""

from __future__ import annotations

import ipaddress
import json
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NewType

from affidavit.broker.contract.pattern import BadPattern, HostPattern, UrlPattern
from affidavit.broker.fingerprint import digest
from affidavit.broker.secret import Secret, overwrite
from affidavit.broker.terms import ApprovalMode, Micros
from affidavit.broker.vault.access import Access
from affidavit.broker.vault.errors import Conflict, Invalid, NotKnown
from affidavit.broker.vault.kinds import (
    SSH_KINDS,
    CredentialKind,
    NewCredential,
    Options,
    checked_options,
    fitted,
    kind_of,
    loaded,
    renewed_certificate,
    stored,
)
from affidavit.broker.vault.snapshot import Snapshot
from affidavit.journal.sqlcipher import Connection

CredentialId = NewType("CredentialId", str)
"""`cred_` and 16 hex digits; it names this credential until it is removed, and no other after it."""

NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
SHORT_SECRET = 8
"""Below this many bytes redaction does not look for the secret by itself: it would hit by chance."""
CREDENTIALS_MAX = 1000
TARGETS_MAX = 64

SCHEMA = """
CREATE TABLE credentials (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    version INTEGER NOT NULL,
    targets TEXT NOT NULL,
    approval TEXT,
    private INTEGER NOT NULL,
    options TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    rotated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE secrets (
    credential_id TEXT NOT NULL REFERENCES credentials (id) ON DELETE CASCADE,
    version INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    value BLOB,
    passphrase BLOB,
    PRIMARY KEY (credential_id, version)
) STRICT, WITHOUT ROWID;
"""
"""`secrets.value` is NULL once a newer version took its place; `passphrase` is that of an SSH key's file."""

_COLUMNS = "id, name, kind, version, targets, approval, private, options, created_at, rotated_at"

_TOKEN_ENDPOINT = UrlPattern.parse("https://localhost/**/token*")


@dataclass(frozen=True, slots=True)
class Credential:
    """One credential without its secret. `version` is the newest one's."""

    credential_id: CredentialId
    name: str
    kind: CredentialKind
    version: int
    targets: tuple[str, ...]
    """The target patterns in their one spelling: it may be sent where one of them matches."""
    approval: ApprovalMode | None
    private: bool
    """Names in the target may lead to private and loopback addresses."""
    options: Options
    """What its kind needs to know beside the secret."""
    created_at: Micros
    rotated_at: Micros

    @property
    def digest(self) -> str:
        """Of all that is not secret: what a record names where the credential changed."""
        return digest(
            "credential",
            {
                "id": self.credential_id,
                "name": self.name,
                "kind": self.kind.value,
                "version": self.version,
                "targets": list(self.targets),
                "approval": self.approval.value if self.approval else None,
                "private": self.private,
                "options": stored(self.options),
            },
        )


class Caution(StrEnum):
    """Why a person should look twice at a credential that was added."""

    LOOPBACK_TARGET = "loopback_target"
    TOKEN_ENDPOINT = "token_endpoint"  # noqa: S105 - a word
    SHORT_SECRET = "short_secret"  # noqa: S105 - a word


CAUTIONS = {
    Caution.LOOPBACK_TARGET: "The target is this machine: the secret goes to whatever program listens on that port.",
    Caution.TOKEN_ENDPOINT: (
        "The target covers paths that end in token*. Such answers hold new secrets, which redaction cannot know: the "
        "agent would see them. Bind a narrower path if you can."
    ),
    Caution.SHORT_SECRET: (
        f"The secret is shorter than {SHORT_SECRET} bytes: it can be guessed, and answers are cleared of it only as "
        "part of the whole injected value."
    ),
}


@dataclass(frozen=True, slots=True)
class Added:
    """What `add` and `rotate` did, and what a person should know of it."""

    credential: Credential
    cautions: tuple[Caution, ...]


def checked(new: NewCredential, now: Micros) -> Credential:
    """The credential that `new` asks for, version 1. Invalid with the field and what to write instead."""
    if not NAME.fullmatch(new.name):
        raise Invalid(
            "A name has 1 to 64 letters, digits, dots, dashes or underscores.", "Choose another.", field="name"
        )
    kind = kind_of(new.kind)
    targets = checked_targets(new.targets, ssh=kind in SSH_KINDS)
    if kind is CredentialKind.MTLS and any(target.startswith("http:") for target in targets):
        raise Invalid("A client certificate goes to https:// only.", "Use https://.", field="target")
    try:
        approval = None if new.approval is None else ApprovalMode(new.approval)
    except ValueError:
        raise Invalid(
            "There is no such approval mode.", f"Use one of: {', '.join(ApprovalMode)}.", field="approval"
        ) from None
    return Credential(
        credential_id=CredentialId(f"cred_{secrets.token_hex(8)}"),
        name=new.name,
        kind=kind,
        version=1,
        targets=targets,
        approval=approval,
        private=new.private,
        options=checked_options(new, kind, now),
        created_at=now,
        rotated_at=now,
    )


def checked_targets(texts: tuple[str, ...], *, ssh: bool) -> tuple[str, ...]:
    """The patterns in their one spelling, 1 to TARGETS_MAX. Invalid, field `target`."""
    if not 1 <= len(texts) <= TARGETS_MAX:
        raise Invalid(
            f"A credential is bound to 1 to {TARGETS_MAX} targets.",
            "Such as: db.example.com" if ssh else "Such as: https://api.example.com/v1/*",
            field="target",
        )
    return tuple(dict.fromkeys((checked_host if ssh else checked_target)(text).text for text in texts))


def checked_host(text: str) -> HostPattern:
    """The SSH hosts that `text` spells. Invalid, field `target`."""
    try:
        return HostPattern.parse(text)
    except BadPattern as bad:
        raise Invalid(str(bad), "Such as: db.example.com or *.prod.example.com", field="target") from None


def checked_target(text: str) -> UrlPattern:
    """The pattern that `text` spells; `http://` only to loopback (R35). Invalid, field `target`."""
    try:
        pattern = UrlPattern.parse(text)
    except BadPattern as bad:
        raise Invalid(str(bad), "Such as: https://api.example.com/v1/*", field="target") from None
    if pattern.scheme == "http" and not is_loopback(pattern):
        raise Invalid(
            "http:// goes to loopback only: anywhere else there is no identity to bind a secret to.",
            "Use https://.",
            field="target",
        )
    return pattern


def cautions(credential: Credential, value: bytearray) -> tuple[Caution, ...]:
    """What a person should know of this credential with this secret."""
    if credential.kind in SSH_KINDS:
        # A host proves itself by its pinned key before it sees anything, on loopback too; a key's file is never short.
        return (Caution.SHORT_SECRET,) if len(value) < SHORT_SECRET else ()
    patterns = [UrlPattern.parse(target) for target in credential.targets]
    tokens = [(p, replace(p, path=_TOKEN_ENDPOINT.path, query=())) for p in patterns]
    found = [
        (Caution.LOOPBACK_TARGET, any(map(is_loopback, patterns))),
        (Caution.TOKEN_ENDPOINT, any(pattern.overlaps(token) for pattern, token in tokens)),
        (Caution.SHORT_SECRET, len(value) < SHORT_SECRET),
    ]
    return tuple(caution for caution, holds in found if holds)


def is_loopback(pattern: UrlPattern) -> bool:
    """Whether the pattern's host is `localhost` or an address of 127/8 or ::1, also in its v4-mapped form."""
    if not pattern.host_is_literal:
        return pattern.host_text == "localhost"
    address = ipaddress.ip_address(pattern.host_text)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


class Credentials:
    """The credentials of one vault. VaultLocked from every call unless the vault is open.

    Any thread may call. `list` and `named` read a snapshot in memory and never wait; `secret` reads one row; the others
    end with an fsync and belong in an executor.
    """

    def __init__(self, access: Access, now: Callable[[], Micros]) -> None:
        self._access = access
        self._now = now
        self.snapshot = Snapshot(access, _select_all)

    def list(self) -> tuple[Credential, ...]:
        """Every credential, by name."""
        return self.snapshot.get()

    def named(self, name: str) -> Credential:
        """NotKnown if there is none."""
        for credential in self.list():
            if credential.name == name:
                return credential
        raise _no_such_name()

    def of(self, credential_id: CredentialId) -> Credential:
        """NotKnown if it was removed."""
        for credential in self.list():
            if credential.credential_id == credential_id:
                return credential
        raise _no_such_name()

    def add(self, new: NewCredential, value: bytearray, passphrase: bytearray | None = None) -> Added:
        """Take in a credential and its secret; both secrets are overwritten. Invalid or Conflict with the field.

        `passphrase` is that of an SSH key's file.
        """
        try:
            asked = checked(new, self._now())
            credential = replace(asked, options=fitted(asked.options, value, passphrase))
            found = cautions(credential, value)
            self.snapshot.change(lambda database: _insert(database, credential, value, passphrase))
            return Added(credential, found)
        finally:
            _forget(value, passphrase)

    def rotate(
        self, name: str, value: bytearray, *, certificate: str | None = None, passphrase: bytearray | None = None
    ) -> Added:
        """Give a credential its next version and forget the older secrets; both secrets are overwritten.

        `certificate` only for kinds mtls and ssh-key: the one that the new key belongs to. Without it the old one of
        mtls stays, and an SSH key has none. `passphrase` as in `add`.
        """
        try:
            old, now = self.named(name), self._now()
            # Outside the transaction: an SSH key may ask for a second of derivation.
            options = fitted(renewed_certificate(old.options, certificate, now), value, passphrase)
            credential = self.snapshot.change(lambda database: _rotate(database, old, options, value, passphrase, now))
            return Added(credential, cautions(credential, value))
        finally:
            _forget(value, passphrase)

    def renewed(self, credential_id: CredentialId, version: int, value: bytearray) -> Credential:
        """The next version with a secret that its service gave in place of this version's; `value` is overwritten.

        NotKnown where this version is not the newest any more: what the operator did since then stands.
        """
        try:
            return self.snapshot.change(lambda database: _renew(database, credential_id, version, value, self._now()))
        finally:
            overwrite(value)

    def remove(self, name: str) -> Credential:
        """Remove a credential with all its versions; gives what was removed. Conflict while proxy or host uses it."""
        return self.snapshot.change(lambda database: _remove(database, name))

    def secret(self, credential_id: CredentialId, version: int) -> Secret:
        """The secret of this version, which the caller owns and wipes. NotKnown if a newer one took its place."""
        return self._access.read(lambda database: _select_secret(database, credential_id, version))

    def passphrase(self, credential_id: CredentialId, version: int) -> Secret | None:
        """The passphrase of this version's key file, which the caller owns and wipes; None if it needs none."""
        return self._access.read(lambda database: _select_passphrase(database, credential_id, version))


def _forget(value: bytearray, passphrase: bytearray | None) -> None:
    overwrite(value)
    if passphrase is not None:
        overwrite(passphrase)


def _insert(database: Connection, credential: Credential, value: bytearray, passphrase: bytearray | None) -> None:
    """Add a credential and its first secret. Conflict if the name is taken."""
    if database.execute("SELECT 1 FROM credentials WHERE name = ?", (credential.name,)).fetchone():
        raise Conflict(
            "A credential of this name exists.",
            "Choose another name, or use: affidavit credential rotate",
            field="name",
        )
    if database.execute("SELECT count(*) FROM credentials").fetchone()[0] >= CREDENTIALS_MAX:
        raise Invalid(f"A vault holds {CREDENTIALS_MAX} credentials at most.", "Remove one first.", field="name")
    row = (
        credential.credential_id,
        credential.name,
        credential.kind.value,
        credential.version,
        json.dumps(credential.targets),
        credential.approval.value if credential.approval else None,
        int(credential.private),
        json.dumps(stored(credential.options)),
        credential.created_at,
        credential.rotated_at,
    )
    database.execute(f"INSERT INTO credentials ({_COLUMNS}) VALUES ({', '.join('?' * len(row))})", row)  # noqa: S608
    _insert_secret(database, credential, value, passphrase)


def _select_all(database: Connection) -> tuple[Credential, ...]:
    """Every credential, by name."""
    rows = database.execute(f"SELECT {_COLUMNS} FROM credentials ORDER BY name").fetchall()  # noqa: S608
    return tuple(_from_row(row) for row in rows)


def _select_named(database: Connection, name: str) -> Credential:
    """NotKnown if there is none."""
    row = database.execute(f"SELECT {_COLUMNS} FROM credentials WHERE name = ?", (name,)).fetchone()  # noqa: S608
    if row is None:
        raise _no_such_name()
    return _from_row(row)


def _rotate(
    database: Connection,
    seen: Credential,
    options: Options,
    value: bytearray,
    passphrase: bytearray | None,
    now: Micros,
) -> Credential:
    """Give the credential its next version and forget the values of the older ones.

    `options` were made from `seen`. Conflict where it was changed meanwhile; NotKnown where it was removed.
    """
    old = _select_named(database, seen.name)
    if (old.credential_id, old.version) != (seen.credential_id, seen.version):
        raise Conflict("The credential was changed meanwhile.", "Look at it, then try again.", field="name")
    return _next_version(database, replace(old, options=options), value, passphrase, now)


def _renew(database: Connection, credential_id: str, version: int, value: bytearray, now: Micros) -> Credential:
    row = database.execute(
        f"SELECT {_COLUMNS} FROM credentials WHERE id = ? AND version = ?",  # noqa: S608
        (credential_id, version),
    ).fetchone()
    if row is None:
        raise _no_such_version()
    old = _from_row(row)
    return _next_version(database, replace(old, options=fitted(old.options, value)), value, None, now)


def _next_version(
    database: Connection, old: Credential, value: bytearray, passphrase: bytearray | None, now: Micros
) -> Credential:
    new = replace(old, version=old.version + 1, rotated_at=now)
    database.execute(
        "UPDATE credentials SET version = ?, options = ?, rotated_at = ? WHERE id = ?",
        (new.version, json.dumps(stored(new.options)), now, new.credential_id),
    )
    database.execute("UPDATE secrets SET value = NULL, passphrase = NULL WHERE credential_id = ?", (new.credential_id,))
    _insert_secret(database, new, value, passphrase)
    return new


def _remove(database: Connection, name: str) -> Credential:
    """Remove a credential with all its versions; gives what was removed. Conflict while proxy or host uses it."""
    old = _select_named(database, name)
    if database.execute("SELECT 1 FROM proxy WHERE credential_id = ?", (old.credential_id,)).fetchone():
        raise Conflict(
            "The proxy uses this credential.",
            "Change the proxy first: affidavit proxy set, or affidavit proxy off",
            field="name",
        )
    hosts = database.execute("SELECT name FROM hosts WHERE credential_id = ? ORDER BY name", (old.credential_id,))
    if (host := hosts.fetchone()) is not None:
        raise Conflict(
            f"The host {host[0]} logs in with this credential.",
            f"Remove the host first: affidavit host remove {host[0]}",
            field="name",
        )
    database.execute("DELETE FROM secrets WHERE credential_id = ?", (old.credential_id,))
    database.execute("DELETE FROM credentials WHERE id = ?", (old.credential_id,))
    return old


def _select_secret(database: Connection, credential_id: str, version: int) -> Secret:
    """The secret of this version. NotKnown if it was removed or a newer version took its place."""
    row = database.execute(
        "SELECT value FROM secrets WHERE credential_id = ? AND version = ?", (credential_id, version)
    ).fetchone()
    if row is None or row[0] is None:
        raise _no_such_version()
    return Secret(row[0])


def _select_passphrase(database: Connection, credential_id: str, version: int) -> Secret | None:
    row = database.execute(
        "SELECT passphrase FROM secrets WHERE credential_id = ? AND version = ?", (credential_id, version)
    ).fetchone()
    return None if row is None or row[0] is None else Secret(row[0])


def _no_such_version() -> NotKnown:
    return NotKnown("This version of the credential has no secret any more.", "Send the request again.")


def _no_such_name() -> NotKnown:
    return NotKnown("There is no credential of this name.", "affidavit credential list", field="name")


def _insert_secret(
    database: Connection, credential: Credential, value: bytearray, passphrase: bytearray | None
) -> None:
    database.execute(
        "INSERT INTO secrets (credential_id, version, created_at, value, passphrase) VALUES (?, ?, ?, ?, ?)",
        (credential.credential_id, credential.version, credential.rotated_at, value, passphrase),
    )


def _from_row(row: Any) -> Credential:
    kind = CredentialKind(row[2])
    return Credential(
        credential_id=CredentialId(row[0]),
        name=row[1],
        kind=kind,
        version=row[3],
        targets=tuple(json.loads(row[4])),
        approval=None if row[5] is None else ApprovalMode(row[5]),
        private=bool(row[6]),
        options=loaded(kind, json.loads(row[7])),
        created_at=Micros(row[8]),
        rotated_at=Micros(row[9]),
    )
