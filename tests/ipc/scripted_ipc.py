"""A broker that answers by script, both sockets around it, and a client that speaks raw lines."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from affidavit.broker.api import ActionError, BadParam, CardWatcher, Json, OperatorRefused
from affidavit.broker.card import Answer, Answers, Card, CredentialShown, Decision, Scope
from affidavit.broker.limits import Limits
from affidavit.broker.session import Claim, Process, Provenance, Session
from affidavit.broker.stream import CallerStream
from affidavit.broker.terms import ApprovalMode, Effect, InvocationId, Micros, OperationId, SessionId
from affidavit.ipc import proc
from affidavit.ipc.agent_calls import AgentCalls
from affidavit.ipc.operator_calls import About, OperatorCalls
from affidavit.ipc.server import Server
from affidavit.ipc.sessions import Sessions

PASSPHRASE = b"correct horse"


def envelope(invocation_id: str = "act_1", part: str = "result", **facts: Any) -> dict[str, Any]:
    return {"invocation_id": invocation_id, "operation_id": "op_1", part: {"code": "REMOTE_RESULT", **facts}}


def card(invocation_id: str = "act_1", body: bytes = b'{"amount":5}') -> Card:
    none = Answer("missing", present=False)
    process = Process(pid=7, started=1, name="agent", exe="/bin/agent", cwd="/")
    return Card(
        invocation_id=InvocationId(invocation_id),
        operation_id=OperationId("op_1"),
        session=Session(SessionId("ses_1"), Provenance(0, process, process), Claim("agent", "1")),
        reason="because",
        effect=Effect.WRITE,
        title="POST payments",
        method="POST",
        url="https://api.example.com/v1/payments",
        headers=(("accept", "*/*"),),
        body=body,
        body_type="application/json",
        credential=CredentialShown("example", 2, "Authorization header"),
        contract_id="practice.payments.create",
        contract_checked=None,
        answers=Answers(none, none, none),
        fingerprint="sha256:" + "0123456789abcdef" * 4,
        mode=ApprovalMode.ALWAYS,
        scopes=(Scope.ONCE,),
        preselected=Scope.ONCE,
        notices=(),
        tick=None,
        asked_at=Micros(1_000_000),
        shown_s=120,
    )


class ScriptedBroker:
    """Implements AgentApi and OperatorApi. `held` calls wait until `answer_all`; `log` says what was asked."""

    def __init__(self) -> None:
        self.log: list[tuple[Any, ...]] = []
        self.sessions: dict[SessionId, Session] = {}
        self.ended: list[SessionId] = []
        self.deliveries: list[tuple[str, bool]] = []
        self.listeners: dict[SessionId, list[Callable[[Json], None]]] = {}
        self.reply: Callable[[str, Json], Json] = lambda method, params: envelope()
        self.hold = False
        self.asked = asyncio.Condition()
        self.waiting: list[asyncio.Future[None]] = []
        self.given_up = 0
        self.waiting_cards: list[Card] = []
        self.seen_bytes: list[bytearray] = []
        self.pending_files: list[dict[str, str]] = []
        self.stream: CallerStream | None = None
        self.refused_files: set[str] = set()

    async def until(self, met: Callable[[], bool]) -> None:
        """Wait until something that the broker was told makes `met` true."""
        async with asyncio.timeout(20):
            async with self.asked:
                await self.asked.wait_for(met)

    def answer_all(self) -> None:
        self.hold = False
        for future in self.waiting:
            if not future.done():
                future.set_result(None)

    def _note(self) -> None:
        async def tell() -> None:
            async with self.asked:
                self.asked.notify_all()

        self._telling = asyncio.get_running_loop().create_task(tell())

    async def _answer(self, method: str, params: Json) -> Json:
        self.log.append((method, dict(params)))
        self._note()
        if self.hold:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.waiting.append(future)
            try:
                await future
            except asyncio.CancelledError:
                self.given_up += 1
                self._note()
                raise
        return self.reply(method, params)

    # AgentApi

    def session_started(self, session: Session) -> None:
        self.sessions[session.session_id] = session

    def session_ended(self, session_id: SessionId) -> None:
        self.ended.append(session_id)
        self._note()

    def hello(self, session: Session) -> Json:
        return {"session_id": session.session_id, "protocol": 1}

    async def http_request(self, session: Session, params: Json) -> Json:
        if "method" not in params:
            raise ActionError(envelope(part="error", code="INVALID_REQUEST", field="method", message="No method."))
        return await self._answer("http.request", params)

    async def ssh_exec(self, session: Session, params: Json, *, ready: Callable[[InvocationId], None]) -> Json:
        if self.stream is not None and params.get("stream"):
            ready(InvocationId("act_1"))
        return await self._answer("ssh.exec", params)

    async def stream_attach(self, session: Session, *, invocation_id: str) -> CallerStream:
        if self.stream is None or invocation_id != "act_1":
            raise BadParam("invocation_id", "There is no stream here.")
        self.stream.attach()
        return self.stream

    async def action_get(self, session: Session, **params: Any) -> Json:
        if params["invocation_id"] == "act_none":
            raise BadParam("invocation_id", "There is no such invocation.")
        return await self._answer("action.get", params)

    async def action_wait(self, session: Session, **params: Any) -> Json:
        return await self._answer("action.wait", params)

    async def action_list(self, session: Session, **params: Any) -> Json:
        return await self._answer("action.list", params)

    async def action_cancel(self, session: Session, **params: Any) -> Json:
        return await self._answer("action.cancel", params)

    async def action_retry(self, session: Session, **params: Any) -> Json:
        return await self._answer("action.retry", params)

    async def action_reconcile(self, session: Session, **params: Any) -> Json:
        return await self._answer("action.reconcile", params)

    async def result_fetch(self, session: Session, **params: Any) -> Json:
        return await self._answer("result.fetch", params)

    async def result_ack(self, session: Session, **params: Any) -> Json:
        return await self._answer("result.ack", params)

    async def credential_list(self, session_or_passphrase: Any) -> Json:
        if isinstance(session_or_passphrase, bytearray):
            self._check(session_or_passphrase)
        return await self._answer("credential.list", {})

    async def contract_list(self, session: Session | None = None) -> Json:
        return await self._answer("contract.list", {})

    async def contract_explain(self, session: Session, **params: Any) -> Json:
        return await self._answer("contract.explain", params)

    async def status(self) -> Json:
        return {"version": "0", "vault": "locked", "journal": "ok"}

    def delivered(self, invocation_id: InvocationId, session_id: SessionId, *, whole: bool) -> None:
        self.deliveries.append((invocation_id, whole))
        self._note()

    def on_change(self, session_id: SessionId, listener: Callable[[Json], None]) -> Callable[[], None]:
        self.listeners.setdefault(session_id, []).append(listener)
        self._note()

        def stop() -> None:
            self.listeners[session_id].remove(listener)
            self._note()

        return stop

    # OperatorApi

    def _check(self, passphrase: bytearray) -> None:
        self.seen_bytes.append(passphrase)
        if passphrase != PASSPHRASE:
            raise OperatorRefused("wrong_passphrase", "The passphrase is wrong.", field="passphrase", remedy="Again.")

    async def unlock(self, passphrase: bytearray, *, program: str) -> Json:
        self._check(passphrase)
        self.log.append(("unlock", program))
        return {"vault": "ready"}

    async def lock(self, *, why: str) -> None:
        self.log.append(("lock", why))

    async def check_passphrase(self, passphrase: bytearray) -> None:
        self._check(passphrase)

    def cards(self) -> Sequence[Card]:
        return tuple(self.waiting_cards)

    def watch_cards(self, watcher: CardWatcher) -> Callable[[], None]:
        return lambda: None

    def card_shown(self, invocation_id: InvocationId) -> None: ...

    async def decide(self, invocation_id: InvocationId, decision: Decision) -> Json:
        self.log.append(("decide", invocation_id, decision))
        return {"decision": "denied"}

    async def approve_by_passphrase(
        self, invocation_id: InvocationId, *, scope: str | None, passphrase: bytearray, means: str
    ) -> Json:
        self._check(passphrase)
        self.log.append(("approve", invocation_id, scope, means))
        return {"decision": "approved"}

    async def attest(self, invocation_id: InvocationId, *, passphrase: bytearray, **about: Any) -> Json:
        self._check(passphrase)
        return await self._answer("attest", about)

    async def unknown(self) -> Sequence[Json]:
        return [envelope(part="error", outcome="unknown")]

    async def credential_add(
        self, params: Json, secret: bytearray, passphrase: bytearray, *, key_passphrase: bytearray | None = None
    ) -> Json:
        self._check(passphrase)
        self.log.append(("credential_add", dict(params), bytes(secret)))
        self.seen_bytes.append(secret)
        return {"name": params["name"], "version": 1}

    async def credential_rotate(
        self,
        name: str,
        secret: bytearray,
        passphrase: bytearray,
        *,
        certificate: str | None = None,
        key_passphrase: bytearray | None = None,
    ) -> Json:
        self._check(passphrase)
        return {"name": name, "version": 2}

    async def credential_remove(self, name: str, passphrase: bytearray) -> Json:
        self._check(passphrase)
        return {"name": name}

    async def contract_pending(self) -> Json:
        return {"files": self.pending_files}

    async def contract_adopt(self, files: Sequence[tuple[str, str]], passphrase: bytearray) -> Json:
        self._check(passphrase)
        if bad := self.refused_files & {file for file, _ in files}:
            raise OperatorRefused("invalid", f"{bad.pop()} line 1: unknown key.")
        self.log.append(("adopt", tuple(files)))
        return {"adopted": [file for file, _ in files]}

    async def settings_show(self) -> Json:
        return {"settings": {}}

    async def settings_set(self, key: str, value: str, passphrase: bytearray) -> Json:
        self._check(passphrase)
        return {"key": key, "value": value}

    def on_status(self, listener: Callable[[Json], None]) -> Callable[[], None]:
        return lambda: None


class OperatorSide(ScriptedBroker):
    """The two protocols name two of their methods alike, with other params: this is the operator's reading."""

    async def action_get(self, invocation_id: InvocationId) -> Json:  # type: ignore[override]
        return await self._answer("operator action.get", {"invocation_id": invocation_id})

    async def action_list(self, **params: Any) -> Json:  # type: ignore[override]
        return await self._answer("operator action.list", params)


class ScriptedHostBroker:
    """What a host asks of a broker, and in which order it was asked."""

    def __init__(self) -> None:
        self.agent = ScriptedBroker()
        self.operator = OperatorSide()
        self.limits = Limits()
        self.steps: list[str] = []

    async def shutdown(self, why: str) -> None:
        self.steps.append(f"shutdown {why}")
        self.agent.answer_all()

    async def close(self) -> None:
        self.steps.append("close")


class Doors:
    """Both servers on sockets in `directory`."""

    def __init__(self, broker: ScriptedBroker, directory: Path, *, line: int = Limits().line) -> None:
        ours = proc.ours()
        self.broker = broker
        self.directory = directory
        self.sessions = Sessions(broker, asyncio.get_running_loop(), proc.boot_id())  # type: ignore[arg-type]
        self.agent = Server(
            directory / "agent.sock",
            AgentCalls(broker, self.sessions, ours),  # type: ignore[arg-type]
            connections=64,
            line=line,
        )
        self.operator_broker = OperatorSide()
        self.operator = Server(
            directory / "operator.sock",
            OperatorCalls(self.operator_broker, About("/home/x", None, "affidavit"), ours, lambda: False),  # type: ignore[arg-type]
            connections=64,
            line=line,
        )

    def start(self) -> None:
        self.agent.start()
        self.operator.start()

    async def close(self, grace_s: float = 0.0) -> None:
        await self.agent.close(grace_s=grace_s)
        await self.operator.close(grace_s=grace_s)
        self.sessions.close()

    async def connect(self, name: str = "agent") -> RawClient:
        client = RawClient(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        client.sock.setblocking(False)
        await client.loop.sock_connect(client.sock, str(self.directory / f"{name}.sock"))
        return client


class RawClient:
    """Speaks lines on a socket of this process."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.loop = asyncio.get_running_loop()
        self.buffer = b""
        self.next = 0

    async def send(self, *lines: bytes) -> None:
        async with asyncio.timeout(20):
            await self.loop.sock_sendall(self.sock, b"".join(line + b"\n" for line in lines))

    async def recv(self) -> Any:
        """The next line's JSON; None at the end of the stream."""
        async with asyncio.timeout(20):
            while b"\n" not in self.buffer:
                piece = await self.loop.sock_recv(self.sock, 1 << 20)
                if not piece:
                    return None
                self.buffer += piece
        line, _, self.buffer = self.buffer.partition(b"\n")
        return json.loads(line)

    async def ask(self, method: str, params: Any = None, **over: Any) -> Any:
        """One call and its whole answer."""
        await self.send(self.line(method, params, **over))
        return await self.recv()

    def line(self, method: str, params: Any = None, **over: Any) -> bytes:
        self.next += 1
        call = {"jsonrpc": "2.0", "id": self.next, "method": method} | over
        return json.dumps(call if params is None else call | {"params": params}).encode()

    def close(self) -> None:
        self.sock.close()
