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
from typing import Any, NewType, TypeVar

from affidavit.broker.contract.pattern import BadPattern, UrlPattern
from affidavit.broker.secret import Secret, overwrite
from affidavit.broker.terms import ApprovalMode, Micros
from affidavit.broker.vault.access import Access
from affidavit.broker.vault.errors import Conflict, Invalid, NotKnown, VaultLocked
from affidavit.journal.sqlcipher import Connection

T = TypeVar("T")

CredentialId = NewType("CredentialId", str)
"""`cred_` and 16 hex digits; it names this credential until it is removed, and no other after it."""

NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
PLACEHOLDER = "{secret}"
SECRET_MAX = 64 * 1024
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
    header TEXT,
    parameter TEXT,
    format TEXT,
    username TEXT,
    created_at INTEGER NOT NULL,
    rotated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE secrets (
    credential_id TEXT NOT NULL REFERENCES credentials (id) ON DELETE CASCADE,
    version INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    value BLOB,
    PRIMARY KEY (credential_id, version)
) STRICT, WITHOUT ROWID;
"""
"""`secrets.value` is NULL once a newer version took its place."""

_COLUMNS = (
    "id, name, kind, version, targets, approval, private, header, parameter, format, username, created_at, rotated_at"
)

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
"""A header's name (RFC 9110, 5.6.2)."""
_TOKEN_ENDPOINT = UrlPattern.parse("https://localhost/**/token*")
_PARAMETER = re.compile(r"[A-Za-z0-9._~\[\]-]{1,128}")
_FRAMING = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "upgrade", "expect", "te", "trailer", "keep-alive"}
)
"""Headers that say how a message is framed and where it goes: no credential is sent in one."""


class CredentialKind(StrEnum):
    """How a secret is sent."""

    BEARER = "bearer"
    BASIC = "basic"
    HEADER = "header"
    QUERY = "query"


LATER = frozenset({"sigv4", "oauth2", "mtls", "ssh-key", "ssh-password"})
"""Kinds that are named in the interface and not built yet."""


@dataclass(frozen=True, slots=True)
class Credential:
    """One credential without its secret. `version` is the newest one's.

    `header` is set for bearer, basic and header, `parameter` for query; `format` holds `{secret}` once and is set for
    all but basic, which has a `username`.
    """

    credential_id: CredentialId
    name: str
    kind: CredentialKind
    version: int
    targets: tuple[str, ...]
    """The target patterns in their one spelling: it may be sent where one of them matches."""
    approval: ApprovalMode | None
    private: bool
    """Names in the target may lead to private and loopback addresses."""
    header: str | None
    parameter: str | None
    format: str | None
    username: str | None
    created_at: Micros
    rotated_at: Micros


@dataclass(frozen=True, slots=True)
class NewCredential:
    """What the operator asks for, as words; `checked` turns it into a Credential or says what does not fit."""

    name: str
    kind: str
    targets: tuple[str, ...]
    approval: str | None = None
    private: bool = False
    header: str | None = None
    format: str | None = None
    username: str | None = None


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
    kind = _kind(new.kind)
    targets = checked_targets(new.targets)
    try:
        approval = None if new.approval is None else ApprovalMode(new.approval)
    except ValueError:
        raise Invalid(
            "There is no such approval mode.", f"Use one of: {', '.join(ApprovalMode)}.", field="approval"
        ) from None
    draft = Credential(
        credential_id=CredentialId(f"cred_{secrets.token_hex(8)}"),
        name=new.name,
        kind=kind,
        version=1,
        targets=targets,
        approval=approval,
        private=new.private,
        header=None,
        parameter=None,
        format=None,
        username=None,
        created_at=now,
        rotated_at=now,
    )
    if kind is CredentialKind.BASIC:
        _none(new.format, "format", kind)
        return replace(draft, header=_header(new.header or "Authorization"), username=_username(new.username))
    _none(new.username, "username", kind)
    if kind is CredentialKind.QUERY:
        parameter, template = _parameter(new.header, new.format)
        return replace(draft, parameter=parameter, format=_format(template))
    if kind is CredentialKind.BEARER:
        header, template = new.header or "Authorization", new.format or f"Bearer {PLACEHOLDER}"
    elif new.header:
        header, template = new.header, new.format or PLACEHOLDER
    else:
        raise Invalid("Kind header needs the header's name.", "Such as: --header X-Api-Key", field="header")
    return replace(draft, header=_header(header), format=_format(template))


def checked_targets(texts: tuple[str, ...]) -> tuple[str, ...]:
    """The patterns in their one spelling, 1 to TARGETS_MAX. Invalid, field `target`."""
    if not 1 <= len(texts) <= TARGETS_MAX:
        raise Invalid(
            f"A credential is bound to 1 to {TARGETS_MAX} targets.",
            "Such as: https://api.example.com/v1/*",
            field="target",
        )
    return tuple(dict.fromkeys(checked_target(text).text for text in texts))


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


def check_secret(kind: CredentialKind, value: bytearray) -> None:
    """Invalid, field `secret`, where these bytes cannot be sent as this kind. The value is never quoted."""
    if not 1 <= len(value) <= SECRET_MAX:
        raise Invalid(f"A secret has 1 byte to {SECRET_MAX // 1024} KiB.", "Give another.", field="secret")
    if kind is CredentialKind.QUERY:
        return
    if any(byte in b"\r\n\0" for byte in value):
        raise Invalid(
            "The secret holds a line break or a NUL, which no header can carry.",
            "Give it without one; a file's last line break is the usual cause.",
            field="secret",
        )
    if kind is not CredentialKind.BASIC:
        # RFC 9110, 5.5: a value neither begins nor ends in white space and holds no other control character.
        if value[0] in b" \t" or value[-1] in b" \t":
            raise Invalid("The secret begins or ends with white space.", "Give it without.", field="secret")
        if any((byte < 0x20 and byte != 0x09) or byte == 0x7F for byte in value):
            raise Invalid("The secret holds a control character.", "Give it without.", field="secret")


def cautions(credential: Credential, value: bytearray) -> tuple[Caution, ...]:
    """What a person should know of this credential with this secret."""
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


def _kind(text: str) -> CredentialKind:
    if text in LATER:
        raise Invalid(
            f"Kind {text} comes later; this version sends {', '.join(CredentialKind)}.",
            "Use one of these, or wait for the version that has it.",
            field="kind",
        )
    try:
        return CredentialKind(text)
    except ValueError:
        raise Invalid(
            "There is no such kind of credential.", f"Use one of: {', '.join(CredentialKind)}.", field="kind"
        ) from None


def _header(name: str) -> str:
    if not _TOKEN.fullmatch(name):
        raise Invalid("That is no header name.", "Such as: X-Api-Key", field="header")
    if name.lower() in _FRAMING or name.lower().startswith("proxy-"):
        raise Invalid("A secret cannot be sent in this header.", "Such as: Authorization", field="header")
    return name


def _format(template: str) -> str:
    if template.count(PLACEHOLDER) != 1 or not template.isascii() or not template.isprintable() or len(template) > 1024:
        raise Invalid(
            "A format is printable ASCII with {secret} in it once.", "Such as: token {secret}", field="format"
        )
    if template != template.strip():
        raise Invalid("A format neither begins nor ends with white space.", "Such as: token {secret}", field="format")
    return template


def _username(name: str | None) -> str:
    if not name or len(name) > 255 or ":" in name or not name.isprintable():
        raise Invalid(
            "Kind basic needs a user name without a colon or control characters (RFC 7617).",
            "Such as: --username ada",
            field="username",
        )
    return name


def _parameter(header: str | None, template: str | None) -> tuple[str, str]:
    """Name and value format of a query credential: `--header` names the parameter, or `--format` as `name={secret}`."""
    name, equals, value = (template or "").partition("=")
    if header is None and equals and PLACEHOLDER in value:
        header, template = name, value
    parameter = header or "key"
    if not _PARAMETER.fullmatch(parameter):
        raise Invalid("That is no name of a query parameter.", "Such as: --format 'api_key={secret}'", field="format")
    return parameter, template or PLACEHOLDER


def _none(given: str | None, field: str, kind: CredentialKind) -> None:
    if given is not None:
        raise Invalid(f"Kind {kind.value} takes no {field}.", f"Leave --{field} out.", field=field)


class Credentials:
    """The credentials of one vault. VaultLocked from every call unless the vault is open.

    Any thread may call. `list` and `named` read a snapshot in memory and never wait; `secret` reads one row; the others
    end with an fsync and belong in an executor.
    """

    def __init__(self, access: Access, now: Callable[[], Micros]) -> None:
        self._access = access
        self._now = now
        self._all: tuple[Credential, ...] | None = None

    def list(self) -> tuple[Credential, ...]:
        """Every credential, by name."""
        if (snapshot := self._all) is None:
            raise VaultLocked
        return snapshot

    def named(self, name: str) -> Credential:
        """NotKnown if there is none."""
        for credential in self.list():
            if credential.name == name:
                return credential
        raise _no_such_name()

    def add(self, new: NewCredential, value: bytearray) -> Added:
        """Take in a credential and its secret; `value` is overwritten. Invalid or Conflict with the field."""
        try:
            credential = checked(new, self._now())
            check_secret(credential.kind, value)
            found = cautions(credential, value)
            self._change(lambda database: _insert(database, credential, value))
            return Added(credential, found)
        finally:
            overwrite(value)

    def rotate(self, name: str, value: bytearray) -> Added:
        """Give a credential its next version and forget the older secrets; `value` is overwritten."""
        try:
            credential = self._change(lambda database: _rotate(database, name, value, self._now()))
            return Added(credential, cautions(credential, value))
        finally:
            overwrite(value)

    def remove(self, name: str) -> Credential:
        """Remove a credential with all its versions; gives what was removed."""
        return self._change(lambda database: _remove(database, name))

    def secret(self, credential_id: CredentialId, version: int) -> Secret:
        """The secret of this version, which the caller owns and wipes. NotKnown if a newer one took its place."""
        return self._access.read(lambda database: _select_secret(database, credential_id, version))

    def load(self, database: Connection) -> None:
        """For the vault, when it opens: take the snapshot."""
        self._all = _select_all(database)

    def unload(self) -> None:
        """For the vault, when it locks."""
        self._all = None

    def _change(self, work: Callable[[Connection], T]) -> T:
        def change(database: Connection) -> tuple[T, tuple[Credential, ...]]:
            return work(database), _select_all(database)

        result, snapshot = self._access.write(change)
        if self._all is not None:
            self._all = snapshot
        return result


def _insert(database: Connection, credential: Credential, value: bytearray) -> None:
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
        credential.header,
        credential.parameter,
        credential.format,
        credential.username,
        credential.created_at,
        credential.rotated_at,
    )
    database.execute(f"INSERT INTO credentials ({_COLUMNS}) VALUES ({', '.join('?' * len(row))})", row)  # noqa: S608
    _insert_secret(database, credential, value)


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


def _rotate(database: Connection, name: str, value: bytearray, now: Micros) -> Credential:
    """Give the credential its next version and forget the values of the older ones."""
    old = _select_named(database, name)
    check_secret(old.kind, value)
    new = replace(old, version=old.version + 1, rotated_at=now)
    database.execute(
        "UPDATE credentials SET version = ?, rotated_at = ? WHERE id = ?", (new.version, now, new.credential_id)
    )
    database.execute("UPDATE secrets SET value = NULL WHERE credential_id = ?", (new.credential_id,))
    _insert_secret(database, new, value)
    return new


def _remove(database: Connection, name: str) -> Credential:
    """Remove a credential with all its versions; gives what was removed."""
    old = _select_named(database, name)
    database.execute("DELETE FROM secrets WHERE credential_id = ?", (old.credential_id,))
    database.execute("DELETE FROM credentials WHERE id = ?", (old.credential_id,))
    return old


def _select_secret(database: Connection, credential_id: str, version: int) -> Secret:
    """The secret of this version. NotKnown if it was removed or a newer version took its place."""
    row = database.execute(
        "SELECT value FROM secrets WHERE credential_id = ? AND version = ?", (credential_id, version)
    ).fetchone()
    if row is None or row[0] is None:
        raise NotKnown("This version of the credential has no secret any more.", "Send the request again.")
    return Secret(row[0])


def _no_such_name() -> NotKnown:
    return NotKnown("There is no credential of this name.", "affidavit credential list", field="name")


def _insert_secret(database: Connection, credential: Credential, value: bytearray) -> None:
    database.execute(
        "INSERT INTO secrets (credential_id, version, created_at, value) VALUES (?, ?, ?, ?)",
        (credential.credential_id, credential.version, credential.rotated_at, value),
    )


def _from_row(row: Any) -> Credential:
    return Credential(
        credential_id=CredentialId(row[0]),
        name=row[1],
        kind=CredentialKind(row[2]),
        version=row[3],
        targets=tuple(json.loads(row[4])),
        approval=None if row[5] is None else ApprovalMode(row[5]),
        private=bool(row[6]),
        header=row[7],
        parameter=row[8],
        format=row[9],
        username=row[10],
        created_at=Micros(row[11]),
        rotated_at=Micros(row[12]),
    )
