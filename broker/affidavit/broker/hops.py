"""From the operator's host entries and the secrets lent for them to what the SSH wire is told."""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable, Sequence
from dataclasses import dataclass

from affidavit.broker.secret import Secret
from affidavit.broker.vault import Vault
from affidavit.broker.vault.host_entry import Hop, HostEntry
from affidavit.broker.vault.kinds import SshKeyOptions, SshPasswordOptions
from affidavit.broker.wire.ssh.port import InteractiveLogin, KeyLogin, Login, PasswordLogin, SshHop, SshRequest


@dataclass(frozen=True, slots=True, eq=False)
class Lent:
    """The secrets that log in to one host. Whoever took them wipes them once the exchange has ended."""

    secret: Secret
    passphrase: Secret | None = None
    """Of an SSH key's file."""

    def wipe(self) -> None:
        self.secret.wipe()
        if self.passphrase is not None:
            self.passphrase.wipe()


def lend(vault: Vault, hops: Sequence[Hop]) -> tuple[Lent, ...]:
    """The secrets of the whole way, in its order, at the versions that were bound; all of them, or none.

    Reads the vault's database, a row each. NotKnown where a newer version took a place; VaultLocked.
    """
    lent: list[Lent] = []
    try:
        for hop in hops:
            bound = hop.credential.credential_id, hop.credential.version
            secret = vault.credentials.secret(*bound)
            lent.append(Lent(secret))
            lent[-1] = Lent(secret, vault.credentials.passphrase(*bound))
    except BaseException:
        for each in lent:
            each.wipe()
        raise
    return tuple(lent)


def ssh_hop(hop: Hop, lent: Lent) -> SshHop:
    """One host as the wire reaches it. It holds the lent secrets themselves: they are wiped through `lent`."""
    entry = hop.entry
    return SshHop(entry.address, entry.port, entry.user, entry.host_keys, _login(hop, lent))


def nameless(entry: HostEntry) -> SshHop:
    """A host that is only probed: nobody logs in to it."""
    return SshHop(entry.address, entry.port, entry.user, entry.host_keys, None)


def request_for(
    hops: Sequence[Hop],
    lent: Sequence[Lent],
    command: bytes,
    *,
    stdin: bytes | AsyncIterable[bytes] = b"",
    env: tuple[tuple[str, str], ...] = (),
    ready: Callable[[], Awaitable[None]] | None = None,
) -> SshRequest:
    """The command for the last host of the way, through the others. `lent` is in the way's order."""
    *jumps, target = map(ssh_hop, hops, lent)
    return SshRequest(target, command, stdin, env, tuple(jumps), ready)


def reuse_key(hops: Sequence[Hop]) -> str:
    """Names the transports that may serve this way again: those of the same entries and credential versions."""
    return " ".join(f"{h.entry.digest}/{h.credential.credential_id}/{h.credential.version}" for h in hops)


def _login(hop: Hop, lent: Lent) -> Login:
    match hop.credential.options:
        case SshKeyOptions(certificate=certificate):
            return KeyLogin(lent.secret, lent.passphrase, None if certificate is None else certificate.encode("ascii"))
        case SshPasswordOptions(interactive=interactive):
            return (InteractiveLogin if interactive else PasswordLogin)(lent.secret)
        case _:
            raise ValueError("this kind of credential logs in to no SSH host")
