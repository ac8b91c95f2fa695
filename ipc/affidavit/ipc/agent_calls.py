"""The agent socket's calls: the caller's session, and the broker's answer to it."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from affidavit.broker.api import AgentApi, Json
from affidavit.broker.session import Claim, Session
from affidavit.broker.stream import CallerStream
from affidavit.broker.terms import InvocationId, SessionId
from affidavit.ipc import params
from affidavit.ipc.connection import CallerGone, Tell
from affidavit.ipc.methods import METHODS, Method
from affidavit.ipc.peer import Peer, identify
from affidavit.ipc.provenance import Ours
from affidavit.ipc.sessions import Sessions

CHANGED = "action.changed"
READY = "stream.ready"


@dataclass(slots=True)
class AgentCaller:
    """One connection of an agent. `tell` says a notification to it; `stop` ends what it was subscribed to."""

    peer: Peer
    session_id: SessionId
    tell: Tell
    stop: Callable[[], None] | None = None


def _ready(caller: AgentCaller, invocation_id: InvocationId) -> None:
    caller.tell(READY, {"invocation_id": invocation_id})


class AgentCalls:
    """Answers for `agent.sock`. Owned by the broker's loop."""

    methods = METHODS["agent"]
    wiping = False

    def __init__(self, api: AgentApi, sessions: Sessions, ours: Ours) -> None:
        self._api = api
        self._sessions = sessions
        self._ours = ours

    def admit(self, sock: socket.socket, tell: Tell) -> AgentCaller:
        """Who connected. Raises PeerRefused."""
        peer = identify(sock, self._ours)
        try:
            return AgentCaller(peer, self._sessions.enter(peer), tell)
        except BaseException:
            peer.close()
            raise

    def leave(self, caller: AgentCaller) -> None:
        if caller.stop is not None:
            caller.stop()
        caller.peer.close()

    async def call(
        self, caller: AgentCaller, method: Method, given: dict[str, Any] | list[Any] | None
    ) -> Json | CallerStream:
        """Answer one call. Raises CallerGone, or what `errors.failure` knows."""
        session = self._sessions.session(caller.session_id) if caller.peer.alive else None
        if session is None:
            raise CallerGone
        if method.raw:
            # By position there is nothing to check: the broker refuses the unknown name, with an envelope.
            raw = {"params": given} if isinstance(given, list) else given
            if method.handler == "ssh_exec":
                return await self._api.ssh_exec(session, raw or {}, ready=partial(_ready, caller))
            acted: Json = await getattr(self._api, method.handler)(session, raw or {})
            return acted
        values = params.read(method, given)
        match method.handler:
            case "hello":
                return self._hello(caller, session, values)
            case "status":
                return await self._api.status()
        answer: Json | CallerStream = await getattr(self._api, method.handler)(session, **values)
        return answer

    def delivered(self, caller: AgentCaller, invocation_id: str, *, whole: bool) -> None:
        self._api.delivered(InvocationId(invocation_id), caller.session_id, whole=whole)

    def _hello(self, caller: AgentCaller, session: Session, values: dict[str, Any]) -> Json:
        claim = Claim(values["client"], values["version"])
        if claim != Claim():
            session = self._sessions.claim(session.session_id, claim)
        if caller.stop is None:
            caller.stop = self._api.on_change(session.session_id, lambda change: caller.tell(CHANGED, change))
        return self._api.hello(session)
