"""Private certificate authorities, each trusted for the targets that the operator named and for no others.

An authority vouches for servers, so of a target pattern only scheme, host and port count here: it is kept as
`https://host/**`, whatever path was written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from affidavit.broker.contract.pattern import BadPattern, UrlPattern
from affidavit.broker.fingerprint import digest
from affidavit.broker.target import DEFAULT_PORTS, HttpTarget
from affidavit.broker.terms import Micros
from affidavit.broker.vault.access import Access
from affidavit.broker.vault.certificates import BadCertificate, chain, check_authority, not_after, pem, subject
from affidavit.broker.vault.credentials import NAME, TARGETS_MAX
from affidavit.broker.vault.errors import Conflict, Invalid, NotKnown
from affidavit.broker.vault.snapshot import Snapshot
from affidavit.journal.sqlcipher import Connection

ANCHORS_MAX = 100

SCHEMA = """
CREATE TABLE trust (
    name TEXT PRIMARY KEY,
    targets TEXT NOT NULL,
    pem TEXT NOT NULL,
    subjects TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    added_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
"""

_COLUMNS = "name, targets, pem, subjects, expires_at, added_at"


@dataclass(frozen=True, slots=True)
class Anchor:
    """One or several authorities under one name, and the targets they vouch for."""

    name: str
    targets: tuple[str, ...]
    """Patterns in their one spelling, each `https://host/**`."""
    pem: str
    subjects: tuple[str, ...]
    expires_at: Micros
    """The first of theirs."""
    added_at: Micros

    @property
    def digest(self) -> str:
        """What a record names where trust changed."""
        return digest("trust", {"name": self.name, "targets": list(self.targets), "pem": self.pem})


def trust_for(anchors: Iterable[Anchor], target: HttpTarget) -> tuple[str, ...]:
    """The authorities that vouch for this target beside the system's, in PEM. A proxy's URL is a target too."""
    return tuple(
        anchor.pem for anchor in anchors if any(UrlPattern.parse(text).matches(target) for text in anchor.targets)
    )


def checked(name: str, ca: str, targets: tuple[str, ...], now: Micros) -> Anchor:
    """The anchor that the operator asks for. Invalid with the field and what to write instead."""
    if not NAME.fullmatch(name):
        raise Invalid(
            "A name has 1 to 64 letters, digits, dots, dashes or underscores.", "Choose another.", field="name"
        )
    if not 1 <= len(targets) <= TARGETS_MAX:
        raise Invalid(
            f"An authority is trusted for 1 to {TARGETS_MAX} targets.",
            "Such as: https://*.corp.example/**",
            field="target",
        )
    try:
        certificates = chain(ca)
        for certificate in certificates:
            check_authority(certificate, now)
    except BadCertificate as bad:
        raise Invalid(str(bad), "Give --ca FILE: certificate authorities in PEM.", field="ca") from None
    return Anchor(
        name=name,
        targets=tuple(dict.fromkeys(map(_server, targets))),
        pem=pem(certificates),
        subjects=tuple(map(subject, certificates)),
        expires_at=min(map(not_after, certificates)),
        added_at=now,
    )


def _server(text: str) -> str:
    """The pattern of all that is on the servers that `text` names. Invalid, field `target`."""
    try:
        pattern = UrlPattern.parse(text)
    except BadPattern as bad:
        raise Invalid(str(bad), "Such as: https://*.corp.example/**", field="target") from None
    if pattern.scheme != "https":
        raise Invalid("Only https:// has a certificate to trust.", "Use https://.", field="target")
    host = f"[{pattern.host_text}]" if ":" in pattern.host_text else pattern.host_text
    port = "" if pattern.port == DEFAULT_PORTS["https"] else f":{pattern.port}"
    return UrlPattern.parse(f"https://{host}{port}/**").text


class TrustAnchors:
    """The private authorities of one vault. VaultLocked from every call unless the vault is open.

    Any thread may call. `list` reads a snapshot in memory; a change ends with an fsync and belongs in an executor.
    """

    def __init__(self, access: Access, now: Callable[[], Micros]) -> None:
        self._now = now
        self.snapshot = Snapshot(access, _select_all)

    def list(self) -> tuple[Anchor, ...]:
        """Every anchor, by name."""
        return self.snapshot.get()

    def add(self, name: str, ca: str, targets: tuple[str, ...]) -> Anchor:
        """Trust the authorities of a PEM file for these targets. Invalid or Conflict with the field."""
        anchor = checked(name, ca, targets, self._now())
        self.snapshot.change(lambda database: _insert(database, anchor))
        return anchor

    def remove(self, name: str) -> Anchor:
        """Trust no longer; gives what was removed. NotKnown."""
        return self.snapshot.change(lambda database: _remove(database, name))


def _insert(database: Connection, anchor: Anchor) -> None:
    if database.execute("SELECT 1 FROM trust WHERE name = ?", (anchor.name,)).fetchone():
        raise Conflict(
            "An authority of this name is trusted already.",
            "Choose another name, or remove that one first: affidavit trust remove",
            field="name",
        )
    if database.execute("SELECT count(*) FROM trust").fetchone()[0] >= ANCHORS_MAX:
        raise Invalid(f"A vault holds {ANCHORS_MAX} authorities at most.", "Remove one first.", field="name")
    database.execute(
        f"INSERT INTO trust ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)",  # noqa: S608
        (
            anchor.name,
            json.dumps(anchor.targets),
            anchor.pem,
            json.dumps(anchor.subjects),
            anchor.expires_at,
            anchor.added_at,
        ),
    )


def _remove(database: Connection, name: str) -> Anchor:
    row = database.execute(f"SELECT {_COLUMNS} FROM trust WHERE name = ?", (name,)).fetchone()  # noqa: S608
    if row is None:
        raise NotKnown("No authority of this name is trusted.", "affidavit trust list", field="name")
    database.execute("DELETE FROM trust WHERE name = ?", (name,))
    return _from_row(row)


def _select_all(database: Connection) -> tuple[Anchor, ...]:
    rows = database.execute(f"SELECT {_COLUMNS} FROM trust ORDER BY name").fetchall()  # noqa: S608
    return tuple(_from_row(row) for row in rows)


def _from_row(row: Any) -> Anchor:
    return Anchor(
        name=row[0],
        targets=tuple(json.loads(row[1])),
        pem=row[2],
        subjects=tuple(json.loads(row[3])),
        expires_at=Micros(row[4]),
        added_at=Micros(row[5]),
    )
