"""One SSH host as the operator describes it, the rules for it, and the way to it through other hosts. Pure.

A host is known by its pinned keys alone, exactly by (address, port): no host certificates, no patterns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from affidavit.broker.contract.pattern import HostPattern
from affidavit.broker.fingerprint import digest
from affidavit.broker.openssh import SSH_PORT, BadKey, public_key
from affidavit.broker.target import BadUrl, is_hidden, normal_host
from affidavit.broker.terms import Micros
from affidavit.broker.vault.credentials import NAME, Credential, CredentialId
from affidavit.broker.vault.errors import Conflict, Invalid, NotKnown
from affidavit.broker.vault.kinds import SSH_KINDS, SshKeyOptions, SshPasswordOptions, login_name
from affidavit.broker.wire.ssh.port import HostKey

HOPS_MAX = 5
"""Hosts on one way, the target included."""
KEYS_MAX = 32
"""Keys pinned for one host, and as many revoked."""


class HostKeyPolicy(StrEnum):
    """What becomes of a host whose key is not known."""

    STRICT = "strict"
    """It is refused."""
    ACCEPT_NEW = "accept-new"
    """The key is learnt by a probe and shown on the card, which pins it."""


@dataclass(frozen=True, slots=True)
class NewHost:
    """What the operator asks for, as words; `checked` makes a HostEntry of it or says what does not fit."""

    name: str
    address: str
    user: str
    credential: str
    port: int = SSH_PORT
    jump: str | None = None
    host_keys: tuple[str, ...] = ()
    """Each as `known_hosts` has it: `ssh-ed25519 AAAA...`."""
    policy: str = HostKeyPolicy.STRICT


@dataclass(frozen=True, slots=True)
class HostEntry:
    """One SSH host."""

    name: str
    address: str
    """An A-label name or a literal, IPv6 without brackets. Behind a jump host, as that host resolves it."""
    port: int
    user: str
    credential_id: CredentialId
    jump: str | None
    """The name of the host through which it is reached."""
    host_keys: tuple[HostKey, ...]
    """The keys pinned for it."""
    revoked: tuple[HostKey, ...]
    """Keys that are never pinned for it."""
    policy: HostKeyPolicy
    added_at: Micros

    @property
    def authority(self) -> str:
        """Address and port as in a URL; the port always."""
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"

    @property
    def digest(self) -> str:
        """What a record names where the entry changed."""
        return digest(
            "host",
            {
                "name": self.name,
                "address": self.address,
                "port": self.port,
                "user": self.user,
                "credential": self.credential_id,
                "jump": self.jump,
                "host_keys": [key.line for key in self.host_keys],
                "revoked": [key.line for key in self.revoked],
                "policy": self.policy.value,
            },
        )

    def may_learn(self, key: HostKey) -> bool:
        """Whether a card may pin this key: nothing is pinned yet, and it was not revoked."""
        return self.policy is HostKeyPolicy.ACCEPT_NEW and not self.host_keys and key not in self.revoked

    def with_keys(self, *keys: HostKey) -> HostEntry:
        """With these keys pinned too. Conflict for a revoked one; Invalid for too many."""
        if any(key in self.revoked for key in keys):
            raise Conflict("This key was revoked for this host.", "Ask who runs the host.", field="host_keys")
        pinned = tuple(dict.fromkeys((*self.host_keys, *keys)))
        _check_count(pinned)
        return replace(self, host_keys=pinned)

    def without_key(self, key: HostKey) -> HostEntry:
        """With this key revoked: no longer pinned, and never again. Invalid for too many."""
        revoked = tuple(dict.fromkeys((*self.revoked, key)))
        _check_count(revoked)
        return replace(self, host_keys=tuple(kept for kept in self.host_keys if kept != key), revoked=revoked)


@dataclass(frozen=True, slots=True)
class Hop:
    """One host on the way, and the credential that logs in to it."""

    entry: HostEntry
    credential: Credential


def checked(new: NewHost, entries: Sequence[HostEntry], credentials: Iterable[Credential], now: Micros) -> HostEntry:
    """The entry that `new` asks for, beside those that are there. Invalid or Conflict, with field and remedy."""
    if not NAME.fullmatch(new.name):
        raise Invalid(
            "A name has 1 to 64 letters, digits, dots, dashes or underscores.", "Choose another.", field="name"
        )
    if any(entry.name == new.name for entry in entries):
        raise Conflict(
            "A host of this name exists.",
            f"Choose another name, or remove that one first: affidavit host remove {new.name}",
            field="name",
        )
    if not 1 <= new.port <= 65535:
        raise Invalid("A port is a number from 1 to 65535.", "Such as: --port 22", field="port")
    try:
        policy = HostKeyPolicy(new.policy)
    except ValueError:
        raise Invalid(
            "There is no such policy for host keys.", f"Use one of: {', '.join(HostKeyPolicy)}.", field="policy"
        ) from None
    keys = tuple(dict.fromkeys(map(_host_key, new.host_keys)))
    _check_count(keys)
    credential = next((each for each in credentials if each.name == new.credential), None)
    if credential is None:
        raise Invalid("There is no credential of this name.", "affidavit credential list", field="credential")
    if new.jump is not None:
        _check_jump(new.jump, entries)
    entry = HostEntry(
        name=new.name,
        address=checked_address(new.address),
        port=new.port,
        user=login_name(new.user, "user"),
        credential_id=credential.credential_id,
        jump=new.jump,
        host_keys=keys,
        revoked=(),
        policy=policy,
        added_at=now,
    )
    check_login(credential, entry)
    return entry


def checked_address(text: str) -> str:
    """The one spelling of a host's address. Invalid, field `address`."""
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    try:
        if not bare or any(map(is_hidden, bare)):
            raise BadUrl("The address is empty, or holds white space or an invisible character.")
        return normal_host(f"[{bare}]" if ":" in bare else bare)[0]
    except BadUrl as bad:
        message = str(bad).replace("The host in the URL", "The address").replace("in the URL", "in the address")
        raise Invalid(message, "Such as: db.example.com, 192.0.2.7 or 2001:db8::7", field="address") from None


def check_login(credential: Credential, entry: HostEntry) -> None:
    """Raise Invalid unless this credential may log in to this host as its user: by kind, target and user name."""
    if credential.kind not in SSH_KINDS:
        raise Invalid(
            f"A credential of kind {credential.kind} logs in to no SSH host.",
            f"Use one of kind {' or '.join(sorted(SSH_KINDS))}.",
            field="credential",
        )
    if not any(HostPattern.parse(text).matches(entry.address) for text in credential.targets):
        raise Invalid(
            f"The credential {credential.name} is bound to {', '.join(credential.targets)}, not to this address.",
            f"Add one with: --target {entry.address}",
            field="credential",
        )
    assert isinstance(credential.options, SshKeyOptions | SshPasswordOptions)
    if credential.options.username not in (None, entry.user):
        raise Invalid(
            f"The credential {credential.name} logs in as {credential.options.username} alone.",
            "Give that user, or another credential.",
            field="user",
        )


def hops_of(
    entries: Iterable[HostEntry],
    credentials: Iterable[Credential],
    name: str,
    *,
    credential: Credential | None = None,
) -> tuple[Hop, ...]:
    """The way to the host of this name: jump hosts in the order in which they are passed, the target last.

    `credential` logs in to the target in place of its own. NotKnown, field `host`; Invalid where a credential does not
    fit its host, or the way is a circle or longer than HOPS_MAX.
    """
    named = {entry.name: entry for entry in entries}
    known = {each.credential_id: each for each in credentials}
    hops: list[Hop] = []
    at: str | None = name
    while at is not None:
        if len(hops) == HOPS_MAX:
            raise _too_far()
        entry = named.get(at)
        if entry is None:
            raise NotKnown("There is no host entry of this name.", "affidavit host list", field="host")
        used = credential if credential is not None and not hops else known.get(entry.credential_id)
        if used is None:
            raise NotKnown("The credential of this host is gone.", "affidavit credential list", field="credential")
        check_login(used, entry)
        hops.append(Hop(entry, used))
        at = entry.jump
    return tuple(reversed(hops))


def find(entries: Sequence[HostEntry], host: str, *, port: int | None = None, user: str | None = None) -> HostEntry:
    """The entry that a person means by `[user@]host`: the one of this name, else the one with this address.

    NotKnown where there is none; Invalid, field `host`, where several fit, or where port or user is another.
    """
    named = [entry for entry in entries if entry.name == host]
    fitting = [
        entry
        for entry in named or by_address(entries, host, port)
        if port in (None, entry.port) and user in (None, entry.user)
    ]
    if not fitting and named:
        raise Invalid(
            f"The entry {host} is for {named[0].user} at {named[0].authority}.",
            "Leave user and port out, or name another entry.",
            field="host",
        )
    if not fitting:
        raise NotKnown("There is no host entry of this name or address.", "affidavit host list", field="host")
    if len(fitting) > 1:
        raise Invalid(
            "Several host entries have this address.",
            f"Name one of: {', '.join(entry.name for entry in fitting)}.",
            field="host",
        )
    return fitting[0]


def by_address(entries: Iterable[HostEntry], address: str, port: int | None = None) -> tuple[HostEntry, ...]:
    """The entries with this address, in whatever spelling; with `port`, on that port."""
    try:
        wanted = checked_address(address)
    except Invalid:
        return ()
    return tuple(entry for entry in entries if entry.address == wanted and port in (None, entry.port))


def check_ways(entries: Sequence[HostEntry]) -> None:
    """Raise Invalid, field `jump`, unless every jump host is there and every way is short enough and no circle."""
    for entry in entries:
        if entry.jump is not None:
            _check_jump(entry.jump, entries)


def _check_jump(jump: str, entries: Iterable[HostEntry]) -> None:
    """The jump host exists, and the way through it is short enough. It leads back to no entry that is not there."""
    named = {entry.name: entry for entry in entries}
    hops = 1
    at: str | None = jump
    while at is not None:
        if at not in named:
            raise Invalid("There is no host entry of this name.", "Add the jump host first.", field="jump")
        hops += 1
        if hops > HOPS_MAX:
            raise _too_far()
        at = named[at].jump


def _too_far() -> Invalid:
    return Invalid(
        f"The way has more than {HOPS_MAX} hosts, or leads in a circle.", "Jump through fewer.", field="jump"
    )


def _host_key(text: str) -> HostKey:
    try:
        return public_key(text)
    except BadKey as bad:
        raise Invalid(str(bad), "Such as: --host-key 'ssh-ed25519 AAAA...'", field="host_keys") from None


def _check_count(keys: Sequence[HostKey]) -> None:
    if len(keys) > KEYS_MAX:
        raise Invalid(f"A host has {KEYS_MAX} keys at most.", "Leave old ones out.", field="host_keys")
