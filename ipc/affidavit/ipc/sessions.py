"""The sessions that live: one for each agent's process, ended when the kernel says that the process ended (R59)."""

from __future__ import annotations

import asyncio
import hashlib
import os
from dataclasses import dataclass, replace

from affidavit.broker.api import AgentApi
from affidavit.broker.session import Claim, Process, Session
from affidavit.broker.terms import SessionId
from affidavit.ipc.peer import Peer, PeerRefused, alive

MAX_SESSIONS = 512
"""Each holds one descriptor."""


def session_id(process: Process, boot_id: str) -> SessionId:
    """The same for one process for ever, also for a broker that was restarted meanwhile; no other process gets it."""
    named = f"affidavit session\n{boot_id}\n{process.pid}\n{process.started}"
    return SessionId(f"ses_{hashlib.sha256(named.encode()).hexdigest()[:24]}")


@dataclass(slots=True)
class _Living:
    session: Session
    pidfd: int
    recorded: bool = False


class Sessions:
    """Owned by the broker's loop. `ended` of the broker is called once for each session that was recorded."""

    def __init__(self, api: AgentApi, loop: asyncio.AbstractEventLoop, boot_id: str) -> None:
        self._api = api
        self._loop = loop
        self._boot_id = boot_id
        self._living: dict[SessionId, _Living] = {}

    def enter(self, peer: Peer) -> SessionId:
        """The session of a new connection's peer. Raises PeerRefused where there are too many."""
        id_ = session_id(peer.provenance.process, self._boot_id)
        if id_ not in self._living:
            if len(self._living) >= MAX_SESSIONS:
                raise PeerRefused(f"There are {MAX_SESSIONS} sessions already.")
            pidfd = os.dup(peer.session_pidfd)
            self._living[id_] = _Living(Session(id_, peer.provenance), pidfd)
            self._loop.add_reader(pidfd, self._end, id_)
        return id_

    def session(self, id_: SessionId) -> Session | None:
        """The session, recorded if it was not; None where its process has ended."""
        living = self._living.get(id_)
        if living is None:
            return None
        if not alive(living.pidfd):
            self._end(id_)
            return None
        if not living.recorded:
            living.recorded = True
            self._api.session_started(living.session)
        return living.session

    def claim(self, id_: SessionId, claim: Claim) -> Session:
        """What a session's process says of itself; the last word counts. The session lives: it was just asked for."""
        living = self._living[id_]
        living.session = replace(living.session, claim=claim)
        living.recorded = True
        self._api.session_started(living.session)
        return living.session

    def close(self) -> None:
        """Stop watching. Nothing has ended by that."""
        for living in self._living.values():
            self._loop.remove_reader(living.pidfd)
            os.close(living.pidfd)
        self._living.clear()

    def _end(self, id_: SessionId) -> None:
        living = self._living.pop(id_)
        self._loop.remove_reader(living.pidfd)
        os.close(living.pidfd)
        if living.recorded:
            self._api.session_ended(id_)
