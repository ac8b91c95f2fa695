"""What importing an OpenSSH file changes in the host entries. Pure: the file and what is there give what will be.

A `known_hosts` pins and revokes keys of entries that are there, matched by exact (address, port). An `ssh_config` gives
new entries. What cannot be taken is skipped and named.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from affidavit.broker.openssh import SSH_PORT, ConfigHost, Skipped, is_config, known_hosts, ssh_config
from affidavit.broker.terms import Micros
from affidavit.broker.vault.credentials import Credential
from affidavit.broker.vault.errors import Conflict, Invalid
from affidavit.broker.vault.host_entry import HostEntry, NewHost, by_address, checked
from affidavit.broker.vault.kinds import CredentialKind

_JUMP = re.compile(r"(?:ssh://)?(?:(?P<user>[^@,/]+)@)?(?P<host>\[[^\]]+\]|[^@,/:\[\]]+)(?::(?P<port>[0-9]{1,5}))?/?")


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import does."""

    added: tuple[HostEntry, ...]
    """In an order in which each jump host comes before those behind it."""
    changed: tuple[tuple[HostEntry, HostEntry], ...]
    """Entries whose keys change: before and after, by name."""
    skipped: tuple[Skipped, ...]
    """By line."""


def planned(
    text: str,
    entries: Sequence[HostEntry],
    credentials: Sequence[Credential],
    *,
    credential: str | None,
    user: str | None,
    now: Micros,
) -> Imported:
    """What the file `text` changes. `credential` and `user` are for hosts of an `ssh_config` that name none."""
    if is_config(text):
        return _from_config(text, entries, credentials, credential, user, now)
    return _from_known_hosts(text, entries)


def _from_known_hosts(text: str, entries: Sequence[HostEntry]) -> Imported:
    found, unread = known_hosts(text)
    skipped = list(unread)
    now = {entry.name: entry for entry in entries}
    # Revocations first: they hold for the whole file, wherever they stand in it.
    for known in sorted(found, key=lambda each: not each.revoked):
        named = [entry for entry in now.values() if known.is_of(entry.address, entry.port)]
        if not named and not known.revoked:
            skipped.append(Skipped(known.line, _names(known.names), "No host entry has this address and port."))
        for entry in named:
            try:
                after = entry.without_key(known.key) if known.revoked else entry.with_keys(known.key)
            except (Conflict, Invalid) as refused:
                skipped.append(Skipped(known.line, entry.name, refused.message))
            else:
                now[entry.name] = after
    changed = tuple((entry, now[entry.name]) for entry in entries if now[entry.name] != entry)
    return Imported((), changed, _by_line(skipped))


def _names(names: tuple[str, ...]) -> str:
    return ",".join("(a hashed name)" if name.startswith("|") else name for name in names)


def _from_config(
    text: str,
    entries: Sequence[HostEntry],
    credentials: Sequence[Credential],
    credential: str | None,
    user: str | None,
    now: Micros,
) -> Imported:
    found, unread = ssh_config(text)
    skipped = list(unread)
    added: list[HostEntry] = []
    waiting = list(found)
    # Each turn takes the hosts whose jump host is settled, so that it comes before those behind it.
    while waiting:
        aliases = {host.alias for host in waiting}
        ready = [host for host in waiting if _jump_alias(host) not in aliases]
        if not ready:
            skipped += [Skipped(host.line, host.alias, "Its jump hosts lead in a circle.") for host in waiting]
            break
        for host in ready:
            there = (*entries, *added)
            try:
                added.append(checked(_asked(host, there, credentials, credential, user), there, credentials, now))
            except (Conflict, Invalid) as refused:
                skipped.append(Skipped(host.line, host.alias, f"{refused.message} {refused.remedy}"))
        waiting = [host for host in waiting if host not in ready]
    return Imported(tuple(added), (), _by_line(skipped))


def _asked(
    host: ConfigHost,
    there: Sequence[HostEntry],
    credentials: Iterable[Credential],
    credential: str | None,
    user: str | None,
) -> NewHost:
    """The entry that this host asks for. Invalid with a reason."""
    if host.proxy_command:
        raise Invalid("It is reached by a ProxyCommand.", "Programs are not run; use ProxyJump.")
    asked_user = host.user or user
    if asked_user is None:
        raise Invalid("It names no User.", "Give one for all that name none: --user U")
    port = host.port or str(SSH_PORT)
    if not re.fullmatch(r"[0-9]{1,5}", port):
        raise Invalid("Its Port is no number.", "Correct the file.")
    return NewHost(
        name=host.alias,
        address=host.address,
        port=int(port),
        user=asked_user,
        credential=_credential(host, credentials, credential),
        jump=_jump(host, there),
    )


def _credential(host: ConfigHost, credentials: Iterable[Credential], fallback: str | None) -> str:
    """The SSH key that is named as one of its identity files is, as `credential import` names it; else the fallback."""
    keys = {each.name for each in credentials if each.kind is CredentialKind.SSH_KEY}
    names = [PurePosixPath(file).name for file in host.identity_files]
    found = next((name for name in names if name in keys), fallback)
    if found is None:
        file = host.identity_files[0] if host.identity_files else "FILE"
        raise Invalid(
            "No credential is named as its IdentityFile is." if names else "It names no IdentityFile.",
            f"Give one: --credential NAME. Or first: affidavit credential import {file} --target {host.address}",
        )
    return found


def _jump_alias(host: ConfigHost) -> str | None:
    """What its ProxyJump calls the jump host; None where there is none, or none that can be taken."""
    found = _JUMP.fullmatch(host.proxy_jump or "")
    return None if found is None else found["host"]


def _jump(host: ConfigHost, there: Sequence[HostEntry]) -> str | None:
    """The name of the entry that its ProxyJump means: by name, else by address; user and port must be the entry's."""
    spelt = host.proxy_jump
    if spelt is None or spelt.lower() == "none":
        return None
    found = _JUMP.fullmatch(spelt)
    if found is None:
        raise Invalid(f"Its ProxyJump {spelt} is not one host.", "Give each jump host a ProxyJump of its own.")
    name, port = found["host"], None if found["port"] is None else int(found["port"])
    named = [entry for entry in there if entry.name == name] or by_address(there, name, port)
    if not named:
        raise Invalid(f"Its jump host {name} is no entry and was not taken.", "Add that one first.")
    fitting = [e for e in named if found["user"] in (None, e.user) and port in (None, e.port)]
    if len(fitting) != 1:
        raise Invalid(f"Its ProxyJump {spelt} does not mean exactly one entry.", "Name the entry in the file.")
    return fitting[0].name


def _by_line(skipped: Iterable[Skipped]) -> tuple[Skipped, ...]:
    return tuple(sorted(skipped, key=lambda each: each.line))
