"""A change of one SSH host's entry: what is not named stays, and its keys stay as long as it is the same host. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from affidavit.broker.vault.credentials import Credential
from affidavit.broker.vault.errors import NotKnown
from affidavit.broker.vault.host_entry import HostEntry, NewHost, check_ways, checked
from affidavit.broker.wire.ssh.port import HostKey


@dataclass(frozen=True, slots=True)
class HostEdit:
    """What the operator changes, as words; None leaves it as it is."""

    address: str | None = None
    port: int | None = None
    user: str | None = None
    credential: str | None = None
    jump: str | None = None
    """Empty: it is reached directly from now on."""
    policy: str | None = None
    host_keys: tuple[str, ...] = ()
    """Keys that are pinned too."""
    forget_keys: tuple[str, ...] = ()
    """Fingerprints of pinned keys that are no longer: `SHA256:...`."""


def edited(
    entry: HostEntry, edit: HostEdit, entries: Sequence[HostEntry], credentials: Sequence[Credential]
) -> HostEntry:
    """The entry after `edit`, beside all others in `entries`. Invalid, NotKnown or Conflict, with field and remedy.

    Another address or port is another host: the keys pinned before say nothing about it and are dropped. What was
    revoked stays revoked.
    """
    held = next(each.name for each in credentials if each.credential_id == entry.credential_id)
    new = NewHost(
        name=entry.name,
        address=entry.address if edit.address is None else edit.address,
        user=entry.user if edit.user is None else edit.user,
        credential=edit.credential or held,
        port=entry.port if edit.port is None else edit.port,
        host_keys=edit.host_keys,
        policy=edit.policy or entry.policy,
    )
    others = [each for each in entries if each.name != entry.name]
    made = checked(new, others, credentials, entry.added_at)
    kept = _without(entry.host_keys, edit.forget_keys)
    if made.authority != entry.authority:
        kept = ()
    jump = entry.jump if edit.jump is None else edit.jump or None
    after = replace(made, jump=jump, host_keys=kept, revoked=entry.revoked).with_keys(*made.host_keys)
    check_ways((*others, after))
    return after


def _without(keys: tuple[HostKey, ...], fingerprints: tuple[str, ...]) -> tuple[HostKey, ...]:
    unknown = set(fingerprints) - {key.fingerprint for key in keys}
    if unknown:
        raise NotKnown(
            f"No pinned key of this host has the fingerprint {min(unknown)}.",
            "affidavit host list",
            field="forget_keys",
        )
    return tuple(key for key in keys if key.fingerprint not in fingerprints)
