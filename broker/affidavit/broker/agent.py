"""The agents' side of the broker: what a caller may ask, and what it is told (`api.AgentApi`).

Nothing here can approve, attest, unlock, or read or change a secret (R73). Owned by the broker's loop.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from affidavit.broker import events as ev
from affidavit.broker import outcome as oc
from affidavit.broker.admission import Admitted, Joined, Replayed, admit, card_of
from affidavit.broker.advice import retry_now
from affidavit.broker.api import ActionError, BadParam, Json, NotWhileLocked
from affidavit.broker.card import Card, CardEnd
from affidavit.broker.contract import explain
from affidavit.broker.core import Core, shown_state
from affidavit.broker.envelope import BodyView, envelope
from affidavit.broker.grants import Grant
from affidavit.broker.live import Live
from affidavit.broker.moment import new_invocation_id, new_operation_id, rfc3339
from affidavit.broker.outcome import Invocation, Verdict
from affidavit.broker.projection import clear
from affidavit.broker.refusal import Refusal, Refused
from affidavit.broker.release import ask_release
from affidavit.broker.request import HttpAsk, parse_http_request
from affidavit.broker.results import ResultUnreadable
from affidavit.broker.session import Session
from affidavit.broker.spool import needed
from affidavit.broker.stop import Stop
from affidavit.broker.target import parse_http
from affidavit.broker.terms import (
    Code,
    InvocationId,
    Kind,
    Micros,
    OperationId,
    Outcome,
    Phase,
    Retry,
    SessionId,
    State,
)
from affidavit.journal import JournalPoisoned
from affidavit.resources import __version__

PROTOCOL = 1
LIST_MAX = 200
WRITTEN_MAX = 4096
HEAVY = 100_000
"""Members and characters of a `json` value above which it is not made canonical on the loop."""


class AgentSide:
    """Implements `api.AgentApi`."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._written: OrderedDict[InvocationId, None] = OrderedDict()
        """Results whose frame was written whole in this run: no record of its own, so it is forgotten in time."""

    # -- sessions

    def session_started(self, session: Session) -> None:
        self._core.session_started(session)

    def session_ended(self, session_id: SessionId) -> None:
        self._core.session_ended(session_id)

    def hello(self, session: Session) -> Json:
        core = self._core
        return {
            "server": f"affidavit {__version__}",
            "protocol": PROTOCOL,
            "session_id": session.session_id,
            "vault": "locked" if core.locked else "ready",
            "journal": "poisoned" if core.journal.poisoned else "ok",
            "limits": core.limits.told(),
        }

    def on_change(self, session_id: SessionId, listener: Callable[[Json], None]) -> Callable[[], None]:
        return self._core.on_change(session_id, listener)

    # -- acting

    async def http_request(self, session: Session, params: Json) -> Json:
        """Check, bind, record, start; then wait for the verdict, at most `wait_s` (interface, Order of checks)."""
        core = self._core
        try:
            ask = await self._parsed(params)
        except Refused as refused:
            return await self._refuse(session, params, refused.refusal)
        try:
            admission = admit(core, session, ask)
        except Refused as refused:
            return await self._refuse(session, params, refused.refusal, ask)
        match admission:
            case Replayed():
                return self._answer(admission.invocation_id, session)
            case Joined():
                live = core.lives[admission.invocation_id]
                live.sessions.add(session.session_id)
            case Admitted():
                live = self._begin(session, ask, admission)
        return await self._wait(live, session, ask.wait_s)

    async def _parsed(self, params: Json) -> HttpAsk:
        """The checked params; canonical JSON of a large value is made in a thread, for it takes a second a few MB."""
        if _heavy(params.get("json")):
            return await self._core.loop.run_in_executor(None, parse_http_request, params, self._core.limits)
        return parse_http_request(params, self._core.limits)

    def _begin(self, session: Session, ask: HttpAsk, admitted: Admitted) -> Live:
        core = self._core
        bound = admitted.bound
        invocation_id = admitted.invocation_id
        accepted = ev.ActionAccepted(
            session=session.session_id,
            program=session.program,
            agent=agent_name(session),
            operation_id=bound.operation_id,
            correlation_id=bound.correlation_id,
            request_fingerprint=bound.request_fingerprint,
            asked=_asked(ask),
            reason=bound.reason,
            retry_of=bound.retry_of,
        )
        _, receipt = core.projection.record(invocation_id, accepted, admitted.validated, at=admitted.at)
        live = Live(invocation_id, core.http_work(invocation_id, bound), receipt, {session.session_id})
        core.lives[invocation_id] = live
        core.session_actions[session.session_id] = core.session_actions.get(session.session_id, 0) + 1
        core.spawn(self._act(live, card_of(core, invocation_id, bound) if admitted.asks else admitted.grant))
        return live

    async def _act(self, live: Live, permit: Card | Grant | None) -> None:
        try:
            await self._core.engine.run(live, permit)
        finally:
            self._core.loop.call_soon(self._retire, live)  # after those who wait have answered

    def _retire(self, live: Live) -> None:
        core = self._core
        core.lives.pop(live.invocation_id, None)
        inv = core.projection.get(live.invocation_id)
        if inv is None or not needed(inv, core.clock.wall(), core.limits.recovery_s):
            core.spool.drop(live.invocation_id)
        core.changed()

    async def _wait(self, live: Live, session: Session, wait_s: float) -> Json:
        """The verdict; after `wait_s` the `pending` envelope, once its acceptance is durable."""
        if not await live.wait(wait_s):
            try:
                receipt = self._core.projection.durable(live.invocation_id) or live.accepted
                if not receipt.done:
                    await self._core.projection.flush().durable()
            except JournalPoisoned:
                await live.finished.wait()
        return self._answer(live.invocation_id, session)

    async def _refuse(self, session: Session, params: Json, refusal: Refusal, ask: HttpAsk | None = None) -> Json:
        """Record a refusal before dispatch and answer with it; the same one again and again is slowed (R10)."""
        core = self._core
        for ended in core.loops.ended():
            core.projection.note(
                Kind.LOOP_COUNTED,
                {"session": ended.session_id, "request": ended.digest, "count": ended.count, "of": ended.invocation_id},
            )
        verdict = oc.stop(refusal.code, Phase.VALIDATION, retry=_retry_of(core, refusal))
        looping = None
        if verdict.phase is Phase.VALIDATION and verdict.retry is Retry.AFTER_CORRECTION:
            digest = core.journal.digest("invalid", json.dumps(params, sort_keys=True, default=str).encode())
            looping = core.loops.invalid(session.session_id, digest)
            if looping is not None:
                verdict = oc.stop(Code.REQUEST_LOOP, Phase.VALIDATION)
        if looping is not None and looping.invocation_id is not None:
            await asyncio.sleep(looping.delay_s)
            return self._answer(looping.invocation_id, session)
        invocation_id = new_invocation_id(core.clock.wall())
        self._record_refusal(session, invocation_id, verdict, refusal, params, ask)
        if looping is not None:
            core.loops.began(session.session_id, digest, invocation_id)
            await asyncio.sleep(looping.delay_s)
        return self._answer(invocation_id, session)

    def _record_refusal(
        self,
        session: Session,
        invocation_id: InvocationId,
        verdict: Verdict,
        refusal: Refusal,
        params: Json,
        ask: HttpAsk | None,
    ) -> None:
        operation_id = ask.operation_id if ask else _text(params, "operation_id")
        self._core.projection.record(
            invocation_id,
            ev.ActionAccepted(
                session=session.session_id,
                program=session.program,
                agent=agent_name(session),
                operation_id=operation_id or new_operation_id(),
                correlation_id=ask.correlation_id if ask else None,
                asked=_asked(ask) if ask else {},
            ),
            ev.ActionStopped(
                verdict.phase,
                verdict.code,
                verdict.retry,
                field=refusal.field,
                needs=refusal.needs or verdict.needs,
                refers_to=refusal.refers_to,
                message=refusal.message,
            ),
        )

    # -- asking about actions

    async def action_get(
        self, session: Session, *, invocation_id: str | None, operation_id: str | None, events: bool
    ) -> Json:
        inv = self._named(invocation_id, operation_id)
        out = dict(self._envelope(inv, session))
        if events:
            await self._settle_records()
            out["events"] = events_of(self._core, inv, sealed=not self._may_read(inv, session))
            out["invocations"] = [m.invocation_id for m in self._core.projection.operation_of(inv).members]
        return out

    async def action_wait(self, session: Session, *, invocation_id: str, wait_s: float | None) -> Json:
        inv = self._named(invocation_id, None)
        live = self._core.lives.get(inv.invocation_id)
        seconds = self._core.limits.wait_s if wait_s is None else min(wait_s, self._core.limits.wait_max_s)
        if live is not None and not live.finished.is_set():
            return await self._wait(live, session, seconds)
        return self._answer(inv.invocation_id, session)

    async def action_list(
        self,
        session: Session,
        *,
        scope: str,
        outcome: str | None,
        state: str | None,
        limit: int,
        before: str | None,
    ) -> Json:
        await self._settle_records()
        program = session.program if scope == "mine" else None
        return list_actions(self._core, program=program, outcome=outcome, state=state, limit=limit, before=before)

    async def action_cancel(self, session: Session, *, invocation_id: str) -> Json:
        """Stop before the line; after it CALLER_CANCELLED at once, while the broker goes on listening (R27)."""
        inv = self._named(invocation_id, None)
        if not self._mine(inv, session):
            raise BadParam("invocation_id", "This action is another session's.")
        live = self._core.lives.get(inv.invocation_id)
        if live is None or live.finished.is_set():
            return self._answer(inv.invocation_id, session)
        if not self._core.desk.end(inv.invocation_id, CardEnd.CALLER_CANCELLED):
            stopped = live.stop(Stop(oc.stop(Code.CALLER_CANCELLED, inv.phase)))
            if not stopped and live.crossed and not live.cancelled:
                live.cancelled = True
                self._core.projection.record(inv.invocation_id, ev.CancelAsked(session.session_id))
                live.poke()
        await live.finished.wait()
        return self._answer(inv.invocation_id, session)

    # -- results

    async def result_fetch(self, session: Session, *, invocation_id: str, chunk: int, part: str) -> Json:
        inv, body = self._readable(invocation_id, session, part)
        try:
            data = await self._core.results.chunk(body, chunk)
        except IndexError:
            raise BadParam("chunk", f"There is no chunk {chunk}; there are {body.chunks}, counted from 0.") from None
        except ResultUnreadable as unreadable:
            self._core.alert("storage", f"The result of {inv.invocation_id} cannot be read: {unreadable}.")
            raise ActionError(self._envelope(inv, session, lost=True)) from None
        last = chunk == body.chunks - 1
        return {
            "chunk": chunk,
            "chunks": body.chunks,
            "base64": base64.b64encode(data).decode(),
            "sha256": hashlib.sha256(data).hexdigest(),
            "last": last,
            "complete": last and body.truncated_at is None,
        }

    async def result_ack(self, session: Session, *, invocation_id: str, sha256: str, part: str) -> Json:
        """RESULT_DELIVERED, once the caller names the hash of what it was given (R42)."""
        inv, body = self._readable(invocation_id, session, part)
        expected = body.delivered_sha256
        named = sha256.removeprefix("sha256:").lower()
        if named != expected and (body.redactions or named != body.sha256):
            raise BadParam("sha256", "This is not the hash of the stored result.")
        if inv.state is State.SETTLED and inv.delivery != "acknowledged":
            self._core.projection.record(
                inv.invocation_id, ev.ResultDelivered(session.session_id, f"sha256:{expected}")
            )
        return {"delivered": True}

    def delivered(self, invocation_id: InvocationId, session_id: SessionId, *, whole: bool) -> None:
        inv = self._core.projection.get(invocation_id)
        if inv is None or not inv.finished:
            return
        if whole:
            self._written[invocation_id] = None
            while len(self._written) > WRITTEN_MAX:
                self._written.popitem(last=False)
        elif inv.state is State.SETTLED and inv.result_record is not None and inv.delivery != "acknowledged":
            try:
                self._core.projection.record(
                    invocation_id, ev.DeliveryFailed(session_id, "the connection closed before the frame was whole")
                )
            except JournalPoisoned:
                pass

    # -- credentials and contracts

    async def credential_list(self, session: Session) -> Json:
        self._unlocked()
        return {"credentials": [shown_credential(c) for c in self._core.vault.credentials.list()]}

    async def contract_list(self, session: Session) -> Json:
        contracts = self._unlocked()
        return {"contracts": contracts.shown()}

    async def contract_explain(self, session: Session, *, method: str, url: str) -> Json:
        contracts = self._unlocked()
        try:
            target = parse_http(url, self._core.limits)
        except Refused as bad:
            raise BadParam("url", bad.message) from None
        return explain(contracts.set, method, target)

    async def status(self) -> Json:
        return self._core.status()

    # -- inside

    def _unlocked(self) -> Any:
        if self._core.contracts is None:
            raise NotWhileLocked("operator_unlock")
        return self._core.contracts

    def _named(self, invocation_id: str | None, operation_id: str | None) -> Invocation:
        projection = self._core.projection
        if (invocation_id is None) == (operation_id is None):
            raise BadParam("invocation_id", "Name an invocation_id or an operation_id, and not both.")
        if invocation_id is not None:
            inv = projection.get(InvocationId(invocation_id))
            if inv is None:
                raise BadParam("invocation_id", "No such invocation is recorded here.")
            return inv
        members = projection.operation(OperationId(operation_id or "")).members
        if not members:
            raise BadParam("operation_id", "No such operation is recorded here.")
        return members[-1]

    def _mine(self, inv: Invocation, session: Session) -> bool:
        live = self._core.lives.get(inv.invocation_id)
        if live is not None and session.session_id in live.sessions:
            return True
        if inv.session_id == session.session_id:
            return True
        if inv.program is not None:
            return inv.program == session.program
        view = self._core.projection.reader.action(inv.invocation_id)
        return view is not None and view.program_digest == self._core.projection.program_digest(session.program)

    def _may_read(self, inv: Invocation, session: Session) -> bool:
        return not self._core.locked and (
            inv.session_id == session.session_id or inv.program == session.program or session.session_id in inv.released
        )

    def _readable(self, invocation_id: str, session: Session, part: str) -> tuple[Invocation, ev.StoredBody]:
        """The invocation and its stored body, or the envelope that says why not."""
        inv = self._named(invocation_id, None)
        if part != "body":
            raise BadParam("part", "An HTTP result has one part: body.")
        if self._may_read(inv, session) and inv.body is not None and not inv.expired:
            if inv.body.withheld:
                raise ActionError(self._envelope(inv, session, withheld=True))
            return inv, inv.body
        if not self._core.locked and inv.body is not None and not self._may_read(inv, session):
            self._core.spawn(ask_release(self._core, inv, session))
        raise ActionError(self._envelope(inv, session))

    def _envelope(self, inv: Invocation, session: Session, *, withheld: bool = False, lost: bool = False) -> Json:
        core = self._core
        operation = core.projection.operation_of(inv)
        written = inv.invocation_id in self._written
        if self._may_read(inv, session):
            body = None
            if inv.body is not None and not inv.expired:
                try:
                    body = core.results.view(inv.body)
                except ResultUnreadable:
                    lost = True
            seal = "operator_approval" if withheld else None
            return envelope(inv, operation, core.clock.wall(), BodyView(seal, body, written, lost))
        live = core.lives.get(inv.invocation_id)
        if not inv.finished and live is not None and session.session_id in live.sessions and not core.locked:
            return envelope(inv, operation, core.clock.wall(), BodyView(None, None, written))
        seal = "operator_unlock" if core.locked else "operator_approval"
        return envelope(clear(inv), operation, core.clock.wall(), BodyView(seal, None, written))

    def _answer(self, invocation_id: InvocationId, session: Session) -> Json:
        inv = self._core.projection.get(invocation_id)
        assert inv is not None
        out = self._envelope(inv, session)
        if "error" in out:
            raise ActionError(out)
        return out

    async def _settle_records(self) -> None:
        try:
            await self._core.projection.flush().durable()
        except JournalPoisoned:
            pass


def agent_name(session: Session) -> str:
    """The asking program as records name it, by the kernel: `node, process 48213`."""
    process = session.provenance.process
    return f"{process.name}, process {process.pid}"


def shown_credential(credential: Any) -> dict[str, Any]:
    """A credential as agents and the operator see it in lists: never its value."""
    return {
        "name": credential.name,
        "kind": str(credential.kind),
        "targets": list(credential.targets),
        "version": credential.version,
        "approval": str(credential.approval) if credential.approval else None,
        "private": credential.private,
    }


def list_actions(
    core: Core, *, program: str | None, outcome: str | None, state: str | None, limit: int, before: str | None
) -> dict[str, Any]:
    """`action.list`: rows newest first, and the cursor for the next page."""
    projection = core.projection
    cursor = None
    if before is not None:
        last = projection.reader.action(before)
        if last is None:
            raise BadParam("before", "No such invocation is recorded here.")
        cursor = last.number
    if outcome is not None and outcome not in list(Outcome):
        raise BadParam("outcome", f"An outcome is one of: {', '.join(Outcome)}.")
    if state is not None and state not in ("pending", "awaiting_approval", "running"):
        raise BadParam("state", "A state is pending, awaiting_approval or running.")
    limit = max(1, min(limit, LIST_MAX))
    now = core.clock.wall()
    rows: list[dict[str, Any]] = []
    more = True
    while len(rows) < limit and more:
        views = projection.reader.list_actions(
            program_digest=projection.program_digest(program) if program is not None else None,
            outcome=outcome,
            limit=limit,
            before=cursor,
        )
        more = len(views) == limit
        for view in views:
            cursor = view.number
            inv = projection.get(InvocationId(view.invocation_id))
            if inv is None or not _state_fits(inv, state):
                continue
            rows.append(
                {
                    "invocation_id": inv.invocation_id,
                    "operation_id": inv.operation_id,
                    "at": rfc3339(inv.accepted_at),
                    "state": shown_state(inv),
                    "phase": str(inv.phase),
                    "outcome": str(inv.outcome),
                    "code": str(inv.code),
                    "retry": str(retry_now(inv, core.projection.operation_of(inv), now)),
                    "target": dict(inv.target) if inv.target is not None else None,
                }
            )
            if len(rows) == limit:
                break
    return {"rows": rows, "before": rows[-1]["invocation_id"] if more and rows else None}


def _state_fits(inv: Invocation, state: str | None) -> bool:
    shown = shown_state(inv)
    return state is None or shown == state or (state == "pending" and shown is not None)


def events_of(core: Core, inv: Invocation, *, sealed: bool) -> list[dict[str, Any]]:
    """The durable records of an invocation: `[{record, at, kind, detail}]`; detail null where it is sealed."""
    out = []
    for record, payload in core.projection.records(inv.invocation_id):
        detail = None if sealed or payload is None else _shown(payload)
        out.append({"record": record.seq, "at": rfc3339(Micros(record.at)), "kind": record.kind, "detail": detail})
    return out


def _shown(payload: Mapping[str, Any]) -> dict[str, Any]:
    """A payload without the keys that open stored bodies."""
    out = dict(payload)
    for name in ("body", "spool"):
        if isinstance(out.get(name), Mapping):
            out[name] = {k: v for k, v in out[name].items() if k != "key"}
    return out


def _asked(ask: HttpAsk) -> dict[str, Any]:
    """What was asked, as the record keeps it: no body, no header values (R62)."""
    return {
        "method": ask.method,
        "url": ask.target.url,
        "headers": [h.shown for h in ask.headers],
        "body_bytes": len(ask.body),
        "deadline_s": ask.deadline_s,
        "read_for": ask.read_for,
        "acknowledge_unresolved": ask.acknowledge_unresolved,
    }


def _heavy(value: Any) -> bool:
    """Whether a JSON value holds more than HEAVY members and characters. Looks at no more than that."""
    waiting, size = [value], 0
    while waiting and size <= HEAVY:
        item = waiting.pop()
        size += 1 + (len(item) if isinstance(item, (str, list, dict)) else 0)
        waiting += item.values() if isinstance(item, dict) else item[:HEAVY] if isinstance(item, list) else ()
    return size > HEAVY


def _text(params: Json, name: str) -> str | None:
    value = params.get(name) if isinstance(params, Mapping) else None
    return value if isinstance(value, str) and 0 < len(value) <= 128 and value.isascii() else None


def _retry_of(core: Core, refusal: Refusal) -> Retry | None:
    """UNRESOLVED_DUPLICATE of an action that is still open advises to fetch its result."""
    if refusal.code is not Code.UNRESOLVED_DUPLICATE or refusal.refers_to is None:
        return None
    live = core.lives.get(InvocationId(refusal.refers_to))
    return Retry.FETCH_RESULT if live is not None and not live.finished.is_set() else None
