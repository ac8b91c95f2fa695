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
from functools import partial
from typing import Any

from affidavit.broker import events as ev
from affidavit.broker import outcome as oc
from affidavit.broker.admission import Admitted, Joined, Replayed, admit, fingerprint_of, planted
from affidavit.broker.advice import Refusal, code_now, retry_now
from affidavit.broker.api import ActionError, BadParam, Json, NotWhileLocked
from affidavit.broker.bound import SshBound
from affidavit.broker.card import CardEnd
from affidavit.broker.contract import explain
from affidavit.broker.core import Core, shown_state
from affidavit.broker.envelope import BodyView, envelope, target_of
from affidavit.broker.launch import agent_name, asked, launch
from affidavit.broker.live import Live
from affidavit.broker.moment import new_invocation_id, new_operation_id, rfc3339
from affidavit.broker.outcome import Invocation, Verdict
from affidavit.broker.projection import bound, clear
from affidavit.broker.reconcile import is_over, worth_asking
from affidavit.broker.refusal import Refusal as RefusedRequest
from affidavit.broker.refusal import Refused
from affidavit.broker.release import ask_release
from affidavit.broker.repeat import Standing
from affidavit.broker.request import HttpAsk, parse_http_request
from affidavit.broker.results import ResultUnreadable
from affidavit.broker.session import Session
from affidavit.broker.ssh_admission import admit_ssh, planted_command, ssh_fingerprint_of
from affidavit.broker.ssh_request import SshAsk, parse_ssh_exec
from affidavit.broker.stop import Stop
from affidavit.broker.stream import CallerStream
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
CALL_NAMES = ("operation_id", "correlation_id")
"""What a caller names anew for each call: the same request under another name is the same request (R10)."""
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
        self._acknowledged: OrderedDict[InvocationId, set[str]] = OrderedDict()
        """Parts of a command's result that were acknowledged; the last one makes the record."""

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
        return await self._admitted(session, ask, admission)

    async def ssh_exec(self, session: Session, params: Json, *, ready: Callable[[InvocationId], None]) -> Json:
        """As `http_request`, of a command; `ready` announces its stream."""
        core = self._core
        try:
            ask = parse_ssh_exec(params, core.limits)
        except Refused as refused:
            return await self._refuse(session, params, refused.refusal)
        try:
            admission = admit_ssh(core, session, ask)
        except Refused as refused:
            return await self._refuse(session, params, refused.refusal, ask)
        if ask.live and isinstance(admission, Admitted):
            announce = partial(ready, admission.invocation_id)
            core.streams[admission.invocation_id] = CallerStream(
                session.session_id, takes_input=ask.stream, announce=announce
            )
        return await self._admitted(session, ask, admission)

    async def stream_attach(self, session: Session, *, invocation_id: str) -> CallerStream:
        """Take the caller's end: once, by the session that asked, after the announcement."""
        inv = self._named(invocation_id, None)
        stream = self._core.streams.get(inv.invocation_id)
        if stream is None or not stream.announced or stream.over:
            raise BadParam("invocation_id", "There is no stream here to attach to: not yet, or not any more.")
        if stream.session_id != session.session_id:
            raise BadParam("invocation_id", "This stream is another session's.")
        if stream.taken:
            raise BadParam("invocation_id", "This stream is attached already.")
        stream.attach()
        return stream

    async def _admitted(self, session: Session, ask: HttpAsk | SshAsk, admission: Admitted | Joined | Replayed) -> Json:
        """Start what is new, join what is at work; then wait for the verdict, at most the caller's `wait_s`."""
        core = self._core
        match admission:
            case Replayed():
                return await self._replay(admission.invocation_id, session, ask.wait_s)
            case Joined():
                live = core.lives[admission.invocation_id].first
                live.sessions.add(session.session_id)
            case Admitted():
                live = launch(core, session, ask, admission)
                core.pursuits.begin(session, live)
        return await self._wait(live, session, ask.wait_s)

    async def _replay(self, invocation_id: InvocationId, session: Session, wait_s: float) -> Json:
        """The recorded answer; of an operation that the broker is about to repeat by itself, what comes of that."""
        inv = self._core.projection.get(invocation_id)
        pursuit = self._core.pursuits.of(inv.operation_id) if inv is not None else None
        if pursuit is not None:
            return await self._wait(pursuit.live, session, wait_s)
        return await self._answer(invocation_id, session)

    async def _parsed(self, params: Json) -> HttpAsk:
        """The checked params; canonical JSON of a large value is made in a thread, for it takes a second a few MB."""
        if _heavy(params.get("json")):
            return await self._core.loop.run_in_executor(None, parse_http_request, params, self._core.limits)
        return parse_http_request(params, self._core.limits)

    async def _wait(self, live: Live, session: Session, wait_s: float) -> Json:
        """The verdict, of the newest invocation where the broker repeats by itself; after `wait_s` the `pending`
        envelope, once its acceptance is durable."""
        pursuit = self._core.pursuits.of(live.bound.operation_id)
        if pursuit is not None:
            await pursuit.wait(wait_s)
            live = pursuit.live
        if not (live.ended if pursuit is not None else await live.wait(wait_s)):
            try:
                receipt = self._core.projection.durable(live.last.invocation_id) or live.last.accepted
                if not receipt.done:
                    await self._core.projection.flush().durable()
            except JournalPoisoned:
                await live.end()
        inv = self._core.projection.get(live.invocation_id)
        assert inv is not None
        return await self._answer(self._end_of(inv).invocation_id, session)

    def _end_of(self, inv: Invocation) -> Invocation:
        """Whose envelope answers for `inv`: where a redirect of it was followed, that of the last hop (R20)."""
        return self._core.projection.operation_of(inv).end_of(inv)

    async def _refuse(
        self, session: Session, params: Json, refusal: RefusedRequest, ask: HttpAsk | SshAsk | None = None
    ) -> Json:
        """Record a refusal before dispatch and answer with it; the same one again and again is slowed (R10)."""
        core = self._core
        if refusal.code is Code.IDEMPOTENCY_MISMATCH and refusal.refers_to is not None:
            says = f"What {refusal.refers_to} asked for was asked again under its name with another content."
            core.alert("mismatch", says, InvocationId(refusal.refers_to))
        for ended in core.loops.ended():
            core.projection.note(
                Kind.LOOP_COUNTED,
                {"session": ended.session_id, "request": ended.digest, "count": ended.count, "of": ended.invocation_id},
            )
        verdict = oc.stop(refusal.code, Phase.VALIDATION, retry=_retry_of(core, refusal))
        looping = None
        if verdict.phase is Phase.VALIDATION and verdict.retry is Retry.AFTER_CORRECTION:
            asked = {name: value for name, value in params.items() if name not in CALL_NAMES}
            digest = core.journal.digest("invalid", json.dumps(asked, sort_keys=True, default=str).encode())
            looping = core.loops.invalid(session.session_id, digest)
            if looping is not None:
                verdict = oc.stop(Code.REQUEST_LOOP, Phase.VALIDATION)
        if looping is not None and looping.invocation_id is not None:
            await asyncio.sleep(looping.delay_s)
            return await self._answer(looping.invocation_id, session)
        invocation_id = new_invocation_id(core.clock.wall())
        self._record_refusal(session, invocation_id, verdict, refusal, params, ask)
        if looping is not None:
            core.loops.began(session.session_id, digest, invocation_id)
            await asyncio.sleep(looping.delay_s)
        return await self._answer(invocation_id, session)

    def _record_refusal(
        self,
        session: Session,
        invocation_id: InvocationId,
        verdict: Verdict,
        refusal: RefusedRequest,
        params: Json,
        ask: HttpAsk | SshAsk | None,
    ) -> None:
        operation_id = (ask.operation_id if ask else None) or _text(params, "operation_id")
        self._core.projection.record(
            invocation_id,
            ev.ActionAccepted(
                session=session.session_id,
                program=session.program,
                agent=agent_name(session),
                operation_id=operation_id or new_operation_id(),
                correlation_id=ask.correlation_id if ask else None,
                request_fingerprint=_fingerprint_of(ask) if ask else None,
                asked=asked(ask) if ask else {},
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
        inv = await self._core.projection.recorded(inv.invocation_id) or inv
        out = dict(self._given(inv, session))
        if events:
            await self._settle_records()
            out["events"] = events_of(self._core, inv, sealed=not self._may_read(inv, session))
            out["invocations"] = [m.invocation_id for m in self._core.projection.operation_of(inv).members]
        return out

    async def action_wait(self, session: Session, *, invocation_id: str, wait_s: float | None) -> Json:
        inv = self._end_of(self._named(invocation_id, None))
        core = self._core
        pursuit = core.pursuits.of(inv.operation_id)
        live = pursuit.live if pursuit is not None else core.lives.get(inv.invocation_id)
        seconds = self._seconds(wait_s)
        if live is not None and (pursuit is not None or not live.finished.is_set()):
            return await self._wait(live, session, seconds)
        if not inv.finished:
            await core.finished_within(inv.invocation_id, seconds)
        return await self._answer(inv.invocation_id, session)

    def _seconds(self, wait_s: float | None) -> float:
        limits = self._core.limits
        return limits.wait_s if wait_s is None else max(0.0, min(wait_s, limits.wait_max_s))

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
        return await list_actions(
            self._core,
            program=program,
            outcome=outcome,
            state=state,
            limit=limit,
            before=before,
            seen=lambda inv: inv if self._may_see(inv, session) else clear(inv),
        )

    async def action_retry(
        self, session: Session, *, invocation_id: str, wait_s: float | None, unsafe: bool, request: Json | None
    ) -> Json:
        """Repeat an operation where its record allows it; else that record's envelope says why not (section 6)."""
        core = self._core
        named = self._named(invocation_id, None)
        standing = core.repeats.standing(named, unsafe=unsafe)
        if standing.answered is not None:
            return await self._refused(standing.answered, session, standing.refusal)
        record, operation = standing.record, standing.operation
        if core.locked:
            return await self._refused(record, session, None, while_locked=True)
        ask = await self._given_again(record, request) if request is not None else None
        if ask is not None and not core.projection.same_request(record, _fingerprint_of(ask)):
            message = "This is not the request of that operation. Ask for another one by a new operation."
            mismatch = RefusedRequest(Code.IDEMPOTENCY_MISMATCH, "request", message, refers_to=record.invocation_id)
            return await self._refuse(session, {"action.retry": invocation_id, "request": request}, mismatch)
        if ask is not None and not bound(record):
            again = {**(request or {}), "operation_id": record.operation_id}
            if isinstance(ask, HttpAsk):
                return await self.http_request(session, again)
            if ask.live:
                raise BadParam("request.stream", "A repeat is not streamed; call ssh.exec by the same operation_id.")
            return await self.ssh_exec(session, again, ready=lambda _: None)
        asked_again = await core.repeats.request_of(record)
        try:
            if asked_again is None and not core.locked and not operation.leads_elsewhere(record):
                match ask:
                    case HttpAsk():
                        asked_again = planted(core, ask, record, operation)
                    case SshAsk():
                        asked_again = planted_command(core, ask, record)
                    case None:
                        pass
            if asked_again is None or core.locked:
                given_again = None if operation.leads_elsewhere(record) else "request"
                needs = None if core.locked else Refusal(Code.RETRY_REFUSED, record.retry, needs=given_again)
                return await self._refused(record, session, needs, while_locked=core.locked)
            live = core.repeats.launch(session, standing, asked_again, unsafe=unsafe)
        except Refused as refused:
            params = {"action.retry": invocation_id, "operation_id": record.operation_id}
            return await self._refuse(session, params, refused.refusal)
        if isinstance(live, Standing):
            return await self._refused(live.answered or live.record, session, live.refusal)
        core.pursuits.begin(session, live)
        return await self._wait(live, session, self._seconds(wait_s))

    async def _given_again(self, record: Invocation, request: Json) -> HttpAsk | SshAsk:
        """A request that was given once more, in the shape of what the record asked for."""
        try:
            if "command" in record.asked:
                return parse_ssh_exec(request, self._core.limits)
            return await self._parsed(request)
        except Refused as bad:
            raise BadParam(f"request.{bad.field}" if bad.field else "request", bad.message) from None

    async def _refused(
        self, record: Invocation, session: Session, refusal: Refusal | None, *, while_locked: bool = False
    ) -> Json:
        """A record's envelope in answer to a call that changed nothing."""
        if refusal is None and not while_locked:
            return await self._answer(record.invocation_id, session)
        out = dict(self._envelope(record, session, refusal=refusal))
        if while_locked:
            out["evidence"] = {**out["evidence"], "refused": str(Code.VAULT_LOCKED)}
        if "error" in out:
            raise ActionError(out)
        return out

    async def action_reconcile(self, session: Session, *, invocation_id: str) -> Json:
        """Ask the target what became of it, and tell what is recorded then. Without a look-up, while locked, and past
        the recovery deadline, until when the approval covers look-ups, nothing is asked."""
        core = self._core
        inv = self._named(invocation_id, None)
        operation = core.projection.operation_of(inv)
        if not core.locked and not is_over(core, operation):
            if inv.is_job and inv.state is not State.SETTLED:
                await core.jobs.ask(inv.invocation_id)
            elif not inv.is_job and inv.operation_id is not None and worth_asking(core, inv, operation):
                await core.reconciler.look(inv.operation_id)
        return await self._answer(inv.invocation_id, session)

    async def action_cancel(self, session: Session, *, invocation_id: str, signal: str | None) -> Json:
        """Stop before the line; after it CALLER_CANCELLED at once, while the broker goes on listening (R27).

        `signal`: sent first to a command that runs, and recorded before. The outcome stays what the evidence says.
        """
        inv = self._end_of(self._named(invocation_id, None))
        if not self._mine(inv, session):
            raise BadParam("invocation_id", "This action is another session's.")
        live = self._core.lives.get(inv.invocation_id)
        if signal is not None and not inv.finished and (live is None or not isinstance(live.bound, SshBound)):
            raise BadParam("signal", "Only a command can be sent a signal.")
        if inv.is_job and inv.state is State.OPEN:
            return await self._leave_job(inv, session)
        if live is None or live.finished.is_set() or inv.finished:
            return await self._answer(inv.invocation_id, session)
        if not self._core.desk.end(inv.invocation_id, CardEnd.CALLER_CANCELLED):
            stopped = live.stop(Stop(oc.stop(Code.CALLER_CANCELLED, inv.phase)))
            if not stopped and live.crossed:
                if not inv.cancel_asked:  # by a cancel before, or as the command's input broke off
                    await self._cancel_asked(live, ev.CancelAsked(session.session_id, signal))
                live.cancelled = True
                live.poke()
        await live.finished.wait()
        return await self._answer(inv.invocation_id, session)

    async def _cancel_asked(self, live: Live, asked: ev.CancelAsked) -> None:
        """Record it, and then send the signal if there is one. What cannot be recorded is not done."""
        signalled = asked.signal is not None
        try:
            _, receipt = self._core.projection.record(live.invocation_id, asked, barrier=signalled)
            if asked.signal is not None:
                await receipt.durable()
                live.signal_sent = live.work.signal(asked.signal)
        except JournalPoisoned:
            live.signal_sent = False if signalled else None

    async def _leave_job(self, inv: Invocation, session: Session) -> Json:
        """A job is cancelled by nobody here: the caller gets its verdict, and the job is followed as before."""
        unknown = oc.unknown_event(oc.job_left())
        self._core.projection.record(inv.invocation_id, ev.CancelAsked(session.session_id), unknown, barrier=True)
        return await self._answer(inv.invocation_id, session)

    # -- results

    async def result_fetch(self, session: Session, *, invocation_id: str, chunk: int, part: str) -> Json:
        inv, body = await self._readable(invocation_id, session, part)
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
        inv, body = await self._readable(invocation_id, session, part)
        expected = body.delivered_sha256
        named = sha256.removeprefix("sha256:").lower()
        if named != expected and (body.redactions or named != body.sha256):
            raise BadParam("sha256", "This is not the hash of the stored result.")
        acknowledged = self._acknowledged.setdefault(inv.invocation_id, set())
        acknowledged.add(part)
        while len(self._acknowledged) > WRITTEN_MAX:
            self._acknowledged.popitem(last=False)
        whole = inv.delivery == "acknowledged" or inv.stderr is None or acknowledged >= {"stdout", "stderr"}
        if whole and inv.state is State.SETTLED and inv.delivery != "acknowledged":
            self._core.projection.record(
                inv.invocation_id, ev.ResultDelivered(session.session_id, f"sha256:{expected}")
            )
        return {"delivered": whole}

    def delivered(self, invocation_id: InvocationId, session_id: SessionId, *, whole: bool) -> None:
        inv = self._core.projection.get(invocation_id)
        if inv is None or not inv.finished:
            return
        if whole:
            self._written[invocation_id] = None
            while len(self._written) > WRITTEN_MAX:
                self._written.popitem(last=False)
        elif inv.state is State.SETTLED and inv.result_record is not None and inv.delivery != "acknowledged":
            self._core.projection.record(
                invocation_id, ev.DeliveryFailed(session_id, "the connection closed before the frame was whole")
            )

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
        operation = projection.operation(OperationId(operation_id or ""))
        if not operation.members:
            raise BadParam("operation_id", "No such operation is recorded here.")
        return operation.answering

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

    def _may_see(self, inv: Invocation, session: Session) -> bool:
        """Whether more than ids, times and verdicts: of its own actions, and of one at work that it has joined."""
        live = self._core.lives.get(inv.invocation_id)
        joined = not inv.finished and live is not None and session.session_id in live.sessions
        return self._may_read(inv, session) or (joined and not self._core.locked)

    async def _readable(self, invocation_id: str, session: Session, part: str) -> tuple[Invocation, ev.StoredBody]:
        """The invocation and its stored body, or the envelope that says why not."""
        named = self._named(invocation_id, None)
        inv = await self._core.projection.recorded(named.invocation_id) or named
        parts = {"stdout": inv.body, "stderr": inv.stderr} if inv.stderr is not None else {"body": inv.body}
        if inv.body is not None and part not in parts:
            raise BadParam("part", f"This result has {' and '.join(parts)}.")
        body = parts.get(part)
        if self._may_read(inv, session) and body is not None and not inv.expired and not body.cut:
            if body.withheld:
                raise ActionError(self._envelope(inv, session, withheld=True))
            return inv, body
        if not self._core.locked and inv.body is not None and not self._may_read(inv, session):
            self._core.spawn(ask_release(self._core, inv, session))
        raise ActionError(self._envelope(inv, session))

    def _envelope(
        self,
        inv: Invocation,
        session: Session,
        *,
        withheld: bool = False,
        lost: bool = False,
        refusal: Refusal | None = None,
    ) -> Json:
        core = self._core
        operation = core.projection.operation_of(inv)
        now = core.now_of(operation)
        written = inv.invocation_id in self._written
        if self._may_read(inv, session):
            body = stderr = None
            if inv.body is not None and not inv.expired:
                try:
                    body = core.results.view(inv.body)
                    stderr = core.results.view(inv.stderr) if inv.stderr is not None else None
                except ResultUnreadable:
                    lost = True
            seal = "operator_approval" if withheld else None
            job = core.job_of(inv)
            return envelope(inv, operation, now, BodyView(seal, body, written, lost, job, stderr), refusal)
        if self._may_see(inv, session):
            return envelope(inv, operation, now, BodyView(None, None, written), refusal)
        seal = "operator_unlock" if core.locked else "operator_approval"
        return envelope(clear(inv), operation, now, BodyView(seal, None, written), refusal)

    async def _answer(self, invocation_id: InvocationId, session: Session) -> Json:
        """The envelope, or ActionError with it. A verdict is durable before anybody hears of it (R38)."""
        inv = await self._core.projection.recorded(invocation_id)
        assert inv is not None
        out = self._given(inv, session)
        if "error" in out:
            raise ActionError(out)
        return out

    def _given(self, inv: Invocation, session: Session) -> Json:
        """An envelope on its way to a caller; one with a result or an error ends what the broker does by itself."""
        out = self._envelope(inv, session)
        pursuit = self._core.pursuits.of(inv.operation_id)
        if pursuit is not None and "pending" not in out:
            pursuit.answered.set()
        return out

    async def _settle_records(self) -> None:
        try:
            await self._core.projection.flush().durable()
        except JournalPoisoned:
            pass


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


async def list_actions(
    core: Core,
    *,
    program: str | None,
    outcome: str | None,
    state: str | None,
    limit: int,
    before: str | None,
    seen: Callable[[Invocation], Invocation],
) -> dict[str, Any]:
    """`action.list`: rows newest first, and the cursor for the next page. `seen`: what of each may be shown."""
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
            inv = await projection.recorded(InvocationId(view.invocation_id))
            if inv is None or not _state_fits(inv, state):
                continue
            operation = projection.operation_of(inv)
            rows.append(
                {
                    "invocation_id": inv.invocation_id,
                    "operation_id": inv.operation_id,
                    "at": rfc3339(inv.accepted_at),
                    "state": shown_state(inv),
                    "phase": str(inv.phase),
                    "outcome": str(inv.outcome),
                    "code": str(code_now(inv, operation)),
                    "retry": str(retry_now(inv, operation, core.now_of(operation))),
                    "target": target_of(seen(inv)),
                    "sealed": seen(inv).partial,
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
    for name in ("body", "stderr", "spool"):
        if isinstance(out.get(name), Mapping):
            out[name] = {k: v for k, v in out[name].items() if k != "key"}
    return out


def _fingerprint_of(ask: HttpAsk | SshAsk) -> str:
    return fingerprint_of(ask) if isinstance(ask, HttpAsk) else ssh_fingerprint_of(ask)


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


def _retry_of(core: Core, refusal: RefusedRequest) -> Retry | None:
    """UNRESOLVED_DUPLICATE of an action that is still open advises to fetch its result."""
    if refusal.code is not Code.UNRESOLVED_DUPLICATE or refusal.refers_to is None:
        return None
    live = core.lives.get(InvocationId(refusal.refers_to))
    return Retry.FETCH_RESULT if live is not None and not live.finished.is_set() else None
