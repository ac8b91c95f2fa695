"""Connections kept open for another read of the same kind, and what makes them unfit for it.

HTTP/1.1 does not tell which request an answer belongs to but by its order. So a connection is kept only where its last
answer was framed to an exact end with nothing after it, and is taken again only while it is silent: a byte or an end of
the stream that waits on it would be read as the answer to a request that has not gone yet.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from affidavit.broker.wire.link import Link, Received
from affidavit.broker.wire.pool import Lease, Pool
from affidavit.broker.wire.port import Connection

IDLE_S = 30.0
"""How long one waits unused. Servers close theirs after 5 to 75 s; httpx keeps 5 s, urllib3 without limit."""
KEPT_OF_KEY = 32
"""As many as wait for one key. They were open at one time, so this opens none that was not wanted; whoever would be the
33rd caller at once sets up anew. httpx keeps 20 in all, browsers 6 to a host."""
KEPT = 64
"""As many as wait in all, as many as actions are open at most unless set otherwise; the oldest makes room."""


@dataclass(frozen=True, slots=True)
class Kept:
    """An open connection, its set-up done."""

    link: Link
    connection: Connection
    ip: str
    """The address it leads to, for an AddressCheck that may have changed since."""

    @property
    def fit(self) -> bool:
        """It is silent."""
        return self.link.receive() == Received()

    def again(self) -> Kept:
        return replace(self, connection=replace(self.connection, reused=True))

    def close(self) -> None:
        self.link.close()


@dataclass(frozen=True, slots=True)
class Key:
    """Who may share a connection: the caller's own key, and where it leads, lest a wrong key leads elsewhere."""

    reuse: str
    scheme: str
    host: str
    port: int
    proxy: str | None


KeptLease = Lease[Key, Kept]


def idle_connections() -> Pool[Key, Kept]:
    return Pool(wait_s=IDLE_S, of_key=KEPT_OF_KEY, in_all=KEPT)
