"""The proxy through which `https://` targets are reached: at most one, chosen by the operator (interface, proxy).

Nothing is taken from the environment. Loopback is never sent through it, nor are the hosts that the operator excepts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from affidavit.broker.address import AddressClass, classify, is_loopback
from affidavit.broker.contract.pattern import BadPattern, UrlPattern
from affidavit.broker.fingerprint import digest
from affidavit.broker.limits import Limits
from affidavit.broker.refusal import Refused
from affidavit.broker.target import HttpTarget, parse_http
from affidavit.broker.terms import Micros
from affidavit.broker.vault.access import Access
from affidavit.broker.vault.credentials import CredentialId
from affidavit.broker.vault.errors import Invalid, NotKnown
from affidavit.broker.vault.kinds import CredentialKind
from affidavit.broker.vault.snapshot import Snapshot
from affidavit.journal.sqlcipher import Connection

NO_PROXY_MAX = 256
CREDENTIAL_KINDS = (CredentialKind.BASIC, CredentialKind.BEARER)
"""Kinds that fit into a Proxy-Authorization header."""

SCHEMA = """
CREATE TABLE proxy (
    only_one INTEGER PRIMARY KEY CHECK (only_one = 1),
    url TEXT NOT NULL,
    credential_id TEXT REFERENCES credentials (id),
    no_proxy TEXT NOT NULL,
    trusted INTEGER NOT NULL,
    set_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
"""

_COLUMNS = "url, credential_id, no_proxy, trusted, set_at"
_WITH_PORT = re.compile(r".*:[0-9]{1,5}/?")


@dataclass(frozen=True, slots=True)
class Proxy:
    """The proxy as the operator set it."""

    url: str
    """`http://host:port` or `https://host:port`; the port is always there."""
    credential_id: CredentialId | None
    no_proxy: tuple[str, ...]
    """Hosts that are reached directly; `*` is any text inside one label."""
    trusted: bool
    """Its `Proxy-Status` counts as proof (verdicts, section 3)."""
    set_at: Micros

    @property
    def digest(self) -> str:
        """What a record names where the proxy changed."""
        return digest(
            "proxy",
            {
                "url": self.url,
                "credential": self.credential_id,
                "no_proxy": list(self.no_proxy),
                "trusted": self.trusted,
            },
        )


@dataclass(frozen=True, slots=True)
class ProxyChoice:
    """The proxy for one target. `url` is the route that the dispatch fingerprint holds."""

    url: str
    scheme: str
    host: str
    """A-label name or literal, IPv6 without brackets: what is dialled and, with https, checked."""
    port: int
    credential_id: CredentialId | None
    trusted: bool


def route_for(proxy: Proxy | None, target: HttpTarget) -> ProxyChoice | None:
    """The proxy by which this target is reached; None for a direct connection."""
    if proxy is None or target.scheme != "https" or is_loopback(target):
        return None
    if any(_server(host, target.port).matches(target) for host in proxy.no_proxy):
        return None
    found = parse_http(proxy.url, Limits())
    return ProxyChoice(proxy.url, found.scheme, found.host, found.port, proxy.credential_id, proxy.trusted)


def checked(
    url: str, no_proxy: tuple[str, ...], *, credential_id: CredentialId | None, trusted: bool, now: Micros
) -> Proxy:
    """The proxy that the operator asks for. Invalid with the field and what to write instead."""
    remedy = "Such as: http://proxy.example.com:3128"
    try:
        target = parse_http(url, Limits())
    except Refused as bad:
        if "@" in url:
            raise Invalid(
                "A proxy's URL holds no user name; it would be no secret there.",
                "Put it into the vault and give: --credential NAME",
                field="url",
            ) from None
        raise Invalid(bad.refusal.message, remedy, field="url") from None
    if target.path != "/" or target.query is not None or not _WITH_PORT.fullmatch(url):
        raise Invalid("A proxy is scheme, host and port, and nothing else.", remedy, field="url")
    if target.is_literal and classify(target.host) is AddressClass.NEVER:
        raise Invalid(f"The address {target.host} is never allowed.", remedy, field="url")
    if len(no_proxy) > NO_PROXY_MAX:
        raise Invalid(f"At most {NO_PROXY_MAX} hosts are excepted.", "Use `*` for a label.", field="no_proxy")
    host = f"[{target.host}]" if ":" in target.host else target.host
    return Proxy(
        url=f"{target.scheme}://{host}:{target.port}",
        credential_id=credential_id,
        no_proxy=tuple(dict.fromkeys(map(_excepted, no_proxy))),
        trusted=trusted,
        set_at=now,
    )


def sends_in_clear(proxy: Proxy) -> bool:
    """Whether the proxy's credential can be read on its way."""
    target = parse_http(proxy.url, Limits())
    return proxy.credential_id is not None and target.scheme == "http" and not is_loopback(target)


def _excepted(text: str) -> str:
    """The one spelling of a host that is excepted. Invalid, field `no_proxy`."""
    remedy = "Such as: --no-proxy intranet.example.com or --no-proxy '*.example.com'"
    try:
        pattern = _server(text, 443)
    except BadPattern:
        pattern = None
    if pattern is None or pattern.port != 443 or len(pattern.path) != 1 or pattern.path[0] is not None or pattern.query:
        raise Invalid("An excepted host is a name or an address alone.", remedy, field="no_proxy")
    return pattern.host_text


def _server(host: str, port: int) -> UrlPattern:
    written = f"[{host}]" if ":" in host and not host.startswith("[") else host
    return UrlPattern.parse(f"https://{written}:{port}/**")


class ProxySetting:
    """The proxy of one vault. VaultLocked from every call unless the vault is open.

    Any thread may call. `get` reads a snapshot in memory; a change ends with an fsync and belongs in an executor.
    """

    def __init__(self, access: Access, now: Callable[[], Micros]) -> None:
        self._now = now
        self.snapshot = Snapshot(access, _select)

    def get(self) -> Proxy | None:
        """The proxy, or None for direct connections."""
        return self.snapshot.get()

    def set(
        self, url: str, *, credential: str | None, no_proxy: tuple[str, ...], trusted: bool
    ) -> tuple[Proxy | None, Proxy]:
        """Use this proxy from now on; gives the one before and the new one. Invalid or NotKnown with the field."""

        def change(database: Connection) -> tuple[Proxy | None, Proxy]:
            before = _select(database)
            credential_id = None if credential is None else _credential(database, credential)
            proxy = checked(url, no_proxy, credential_id=credential_id, trusted=trusted, now=self._now())
            _replace(database, proxy)
            return before, proxy

        return self.snapshot.change(change)

    def off(self) -> Proxy | None:
        """Connect directly from now on; gives the proxy before, if there was one."""

        def change(database: Connection) -> Proxy | None:
            before = _select(database)
            _replace(database, None)
            return before

        return self.snapshot.change(change)


def _credential(database: Connection, name: str) -> CredentialId:
    row = database.execute("SELECT id, kind FROM credentials WHERE name = ?", (name,)).fetchone()
    if row is None:
        raise NotKnown("There is no credential of this name.", "affidavit credential list", field="credential")
    if row[1] not in CREDENTIAL_KINDS:
        raise Invalid(
            f"A proxy takes a credential of kind {' or '.join(CREDENTIAL_KINDS)}.",
            "Add one for it: affidavit credential add",
            field="credential",
        )
    return CredentialId(row[0])


def _replace(database: Connection, proxy: Proxy | None) -> None:
    database.execute("DELETE FROM proxy")
    if proxy is not None:
        database.execute(
            f"INSERT INTO proxy (only_one, {_COLUMNS}) VALUES (1, ?, ?, ?, ?, ?)",  # noqa: S608
            (proxy.url, proxy.credential_id, json.dumps(proxy.no_proxy), int(proxy.trusted), proxy.set_at),
        )


def _select(database: Connection) -> Proxy | None:
    row: Any = database.execute(f"SELECT {_COLUMNS} FROM proxy").fetchone()  # noqa: S608
    if row is None:
        return None
    return Proxy(
        url=row[0],
        credential_id=None if row[1] is None else CredentialId(row[1]),
        no_proxy=tuple(json.loads(row[2])),
        trusted=bool(row[3]),
        set_at=Micros(row[4]),
    )
