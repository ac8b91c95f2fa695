"""Transports kept open, logged in, for another command of the same kind.

SSH tells answers apart by their channel, so one transport could serve many commands at once. It serves one at a time
here: a slow reader would hold up the others, and what one peer does wrong would end them.
"""

from __future__ import annotations

from dataclasses import dataclass

from affidavit.broker.wire.pool import Lease, Pool
from affidavit.broker.wire.ssh.port import HostKey, SshHop
from affidavit.broker.wire.ssh.setup import Way

IDLE_S = 60.0
"""How long one waits unused. OpenSSH's ControlPersist has no default; ansible uses 60 s."""
KEPT_OF_KEY = 4
KEPT = 16
"""As many as wait in all, each with a thread; the oldest makes room."""


@dataclass(frozen=True, slots=True)
class Key:
    """Who may share a transport: the caller's own key, and where it leads, lest a wrong key leads elsewhere."""

    reuse: str
    hops: tuple[tuple[str, int, str, tuple[HostKey, ...]], ...]

    @classmethod
    def of(cls, reuse: str, hops: tuple[SshHop, ...]) -> Key:
        return cls(reuse, tuple((hop.host, hop.port, hop.user, hop.host_keys) for hop in hops))


WayLease = Lease[Key, Way]


def idle_transports() -> Pool[Key, Way]:
    return Pool(wait_s=IDLE_S, of_key=KEPT_OF_KEY, in_all=KEPT)
