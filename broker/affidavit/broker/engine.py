"""The engine: the life of one action, from its acceptance to a durable verdict (architecture, One action).

Theory of operation. `begin` starts one task for each admitted action. Before the line the action may be stopped, by
its caller, a lock, a quit: `Live.stopping` is looked at after every wait. The line itself is `Engine.cross`: the last
checks, DISPATCH_STARTED appended and awaited durable, and only then the wire may send (R23). From there the deadline, a
cancel or the end of the exchange bring the verdict, which is durable before any caller hears of it (R38, R40). After a
verdict of `unknown` the connection is read on until the recovery deadline: a complete late answer settles the record.

The engine records what it sees; what that means is decided in `outcome`. Owned by the broker's loop.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, TypeVar

from affidavit.broker import events as ev
from affidavit.broker import outcome as oc
from affidavit.broker import shape
from affidavit.broker.advice import Operation, Repeat, decide
from affidavit.broker.allowance import Allowances
from affidavit.broker.approval import Borrowed
from affidavit.broker.card import Card, CardEnd, Decision
from affidavit.broker.card import Scope as CardScope
from affidavit.broker.desk import Desk
from affidavit.broker.first_contact import FirstContact
from affidavit.broker.grants import Grant, Grants
from affidavit.broker.limits import Limits
from affidavit.broker.live import Live
from affidavit.broker.moment import Clock, Elapsed, End, after, new_invocation_id, new_operation_id
from affidavit.broker.outcome import Invocation, Verdict
from affidavit.broker.projection import Projection
from affidavit.broker.recovery import at_rest
from affidavit.broker.redirects import Plan
from affidavit.broker.results import Results
from affidavit.broker.sink import Kept
from affidavit.broker.space import NO_ROOM, Space
from affidavit.broker.stop import Stop
from affidavit.broker.terms import (
    Code,
    InvocationId,
    Micros,
    Outcome,
    Phase,
    Source,
    Stage,
    State,
)
from affidavit.broker.wire.port import Connection, SetupStop
from affidavit.broker.work import Evidence, Findings, Redirection
from affidavit.journal import FileUnwritable, JournalPoisoned, faultpoint

T = TypeVar("T")

Permit = Card | FirstContact | Grant | Borrowed | None
"""A card where a person must be asked, after a probe where a host is new; a grant or a decision made before that covers
it; None: policy asks nobody."""

SETUP_PAUSES_S = (0.2, 1.0)
"""Before the second and each later set-up try; with jitter."""


class Engine:
    """Runs admitted actions. `spawn` starts a task that the broker awaits at its end."""

    def __init__(
        self,
        *,
        projection: Projection,
        desk: Desk,
        grants: Grants,
        results: Results,
        space: Space,
        allowances: Allowances,
        limits: Callable[[], Limits],
        clock: Clock,
        elapsed: Elapsed,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        alert: Callable[[str, str], None],
        job_opened: Callable[[InvocationId], None],
        plan: Callable[[Live, Redirection], Plan | None],
    ) -> None:
        self._projection = projection
        self._desk = desk
        self._grants = grants
        self._results = results
        self._space = space
        self._allowances = allowances
        self._limit = limits
        self._clock = clock
        self._elapsed = elapsed
        self._spawn = spawn
        self._alert = alert
        self._job_opened = job_opened
        self._plan = plan
        self._reading: list[Live] = []
        """Actions with a verdict whose connection is still read, oldest first."""

    async def run(self, live: Live, permit: Permit) -> None:
        """Run an admitted action to its verdict."""
        try:
            if live.pause_s > 0:
                await self._until(live, self._clock.sleep(live.pause_s))
            await self._authorise(live, permit)
            await self._prepare(live)
            await self._dispatch(live)
        except Stop as stop:
            await self._stopped(live, stop)
        except JournalPoisoned:
            self._unrecorded(live)
        except Exception:
            await self._given_up(live)
            raise
        finally:
            live.finished.set()
            live.work.release()
            if live not in self._reading:
                self._space.release(live.invocation_id)

    # -- authorisation

    async def _authorise(self, live: Live, permit: Permit) -> None:
        """Record the decision that covers this dispatch, asking a person where the mode says so; else Stop."""
        if live.stopping is not None:
            raise live.stopping
        match permit:
            case Card():
                await self._ask(live, permit)
            case FirstContact():
                await self._meet(live, permit)
            case Grant():
                self._decided(live, approved=True, means="grant", by="grant", grant=permit.grant_id)
            case Borrowed():
                self._decided(
                    live,
                    approved=True,
                    means=permit.means,
                    by=permit.by,
                    grant=permit.grant,
                    repeats_left=permit.repeats_left,
                )
            case None:
                self._decided(live, approved=True, means="policy", by="policy")

    async def _meet(self, live: Live, contact: FirstContact) -> None:
        """Learn a new host's key by a recorded probe, ask a person about it, and pin it; else Stop."""
        deadline = asyncio.get_running_loop().time() + live.bound.deadline_s
        for tries in itertools.count(1):
            probed = await self._until(live, contact.probe(deadline))
            if probed.stopped is None:
                break
            await self._stopped_short(live, probed.stopped, tries, deadline)
        assert probed.host_key is not None
        learnt, stage = contact.learnt, Stage.SSH_KEX
        event = ev.SetupAttempted(tries, stage, stage, "", probed.peer, learnt, probed.host_key.identity)
        self._projection.record(live.invocation_id, event)
        await self._ask(live, contact.card())
        await contact.pin()

    async def _ask(self, live: Live, card: Card) -> None:
        ends_at = after(self._clock.wall(), self._desk.longest_s())
        _, receipt = self._projection.record(
            live.invocation_id,
            ev.CardOpened(card.fingerprint, tuple(str(n.kind) for n in card.notices), ends_at),
            barrier=True,
        )
        await receipt.durable()
        live.accepted = receipt
        answer = await self._until(live, self._desk.ask(card))
        if isinstance(answer, CardEnd):
            raise Stop(oc.stop(CARD_ENDS[answer], Phase.CREDENTIAL_INJECTION))
        self._answered(live, card, answer)

    def _answered(self, live: Live, card: Card, answer: Decision) -> None:
        bound = live.bound
        repeats = card.repeats if answer.approve else 0
        grant_id = None
        if answer.approve and answer.scope is CardScope.SESSION:
            assert card.grant_until is not None, "a card offers a grant with its end alone"
            grant = self._grants.give(bound.scope, card.grant_until, self._limit().grant_s)
            grant_id = grant.grant_id if grant is not None else None
        self._decided(
            live,
            approved=answer.approve,
            means=answer.means,
            by=answer.by,
            grant=grant_id,
            repeats_left=repeats,
            tick=answer.tick,
            reason=answer.reason,
        )
        if not answer.approve:
            raise Stop(oc.stop(Code.APPROVAL_DENIED, Phase.CREDENTIAL_INJECTION))
        if repeats:
            self._allowances.give(bound, Borrowed(answer.means, answer.by, repeats_left=repeats))

    def _decided(self, live: Live, **facts: Any) -> None:
        fingerprint = live.bound.fingerprint
        self._projection.record(live.invocation_id, ev.ApprovalDecided(fingerprint=fingerprint, **facts))
        live.deadline = asyncio.get_running_loop().time() + live.bound.deadline_s
        live.approved_until = End.after(self._clock, live.bound.deadline_s)
        if live.lease is not None:
            live.lease_until = End.after(self._clock, self._limit().lease_s)

    # -- preparation, set-up and dispatch

    async def _prepare(self, live: Live) -> None:
        """Build the whole request in a private buffer. Nothing of it was attempted (R13)."""
        faultpoint.reach("engine:credential")
        await self._until(live, live.work.prepare())
        bound = live.bound
        self._projection.record(
            live.invocation_id,
            ev.CredentialAuthorized(bound.credential_id, bound.credential_version, bound.injection),
        )

    async def _dispatch(self, live: Live) -> None:
        """Try set-up, bounded, until one try reaches the line or the row says that no other helps (R22)."""
        assert live.deadline is not None
        for n in itertools.count(1):
            exchange = live.exchange = live.work.exchange(_Line(self, live), live.deadline)
            run = asyncio.ensure_future(exchange.run())
            try:
                evidence = await self._watch(live, run)
            except BaseException:
                exchange.close()
                await asyncio.gather(run, return_exceptions=True)
                await live.work.discard()
                raise
            if evidence is None:
                self._keep_reading(live, run)
                return
            if evidence.crossed:
                await self._ended(live, evidence)
                return
            await live.work.discard()
            assert evidence.stopped is not None
            await self._stopped_short(live, evidence.stopped, n, live.deadline)

    async def _stopped_short(self, live: Live, stopped: SetupStop, tries: int, deadline: float) -> None:
        """Record a set-up try that stopped short, and wait for the next one; Stop where none is to come."""
        inv = self._projection.get(live.invocation_id)
        assert inv is not None
        verdict, n = oc.setup_verdict(stopped), len(inv.attempts) + 1
        self._projection.record(
            live.invocation_id,
            ev.SetupAttempted(n, stopped.reached, stopped.stage, stopped.system, stopped.address, stopped.detail),
        )
        pause = SETUP_PAUSES_S[min(tries, len(SETUP_PAUSES_S)) - 1] * random.uniform(0.8, 1.2)  # noqa: S311 - jitter
        late = asyncio.get_running_loop().time() + pause >= deadline
        if not oc.setup_may_repeat(verdict) or tries >= live.bound.setup_tries or late:
            refused = None if stopped.name is None else f"env.{shape.path(stopped.name)}"
            raise Stop(verdict, field=refused)
        await self._until(live, asyncio.sleep(pause))

    async def _watch(self, live: Live, run: asyncio.Future[Evidence]) -> Evidence | None:
        """The evidence of an exchange that ended; None if a deadline or a cancel brought the verdict before."""
        loop = asyncio.get_running_loop()
        assert live.exchange is not None
        assert live.deadline is not None
        while True:
            poked = live.watch()
            if run.done():
                return run.result()
            if not live.crossed and live.stopping is not None:
                raise live.stopping
            if live.crossed and live.cancelled:
                await self._unknown(
                    live, oc.cancel_verdict(live.bound.meaning, signal_sent=live.signal_sent), live.exchange.evidence
                )
                return None
            left = live.deadline - loop.time()
            if live.crossed and left <= 0:
                evidence = live.exchange.evidence
                if evidence.complete or evidence.fault is not None:
                    await asyncio.wait((run,))  # it has ended, and what it brought is being stored
                    continue
                verdict = live.work.deadline_verdict(evidence, caller_gone=live.caller_gone)
                if verdict.outcome is not Outcome.UNKNOWN:  # the end is known, and nothing more is waited for
                    live.exchange.close()
                    return await run
                await self._unknown(live, verdict, evidence)
                return None
            # Set-up ends by itself at the deadline; should the line be crossed after that, `cross` pokes.
            await asyncio.wait((run, poked), timeout=left if left > 0 else None, return_when=asyncio.FIRST_COMPLETED)

    # -- verdicts

    async def _ended(self, live: Live, evidence: Evidence) -> None:
        """Record what an exchange that has ended proves, durably, before anyone hears of it."""
        if not evidence.complete and live.work.verdict(evidence).outcome is Outcome.UNKNOWN:
            await live.work.discard()
            await self._unknown(live, live.work.verdict(evidence), evidence)
            return
        kept = await self._kept(live, evidence)
        if kept is None:
            return
        verdict = live.work.verdict(evidence)
        complete = live.work.completed(evidence, kept)
        wait_s = live.work.retry_after_s(evidence)
        event: ev.Event
        job = plan = None
        if verdict.outcome is Outcome.UNKNOWN:
            event = oc.unknown_event(verdict, evidence.observation, body=kept.body, retry_after_s=wait_s)
        else:
            findings = live.work.findings(verdict)
            job = self._job(live, findings)
            plan = self._plan(live, findings.redirect) if findings.redirect is not None else None
            event = ev.ResultCommitted(
                verdict.outcome,
                verdict.code,
                verdict.retry,
                body=kept.body,
                stderr=kept.stderr,
                diagnostic=None if evidence.complete else live.work.diagnostic(evidence),
                needs=verdict.needs,
                hop=verdict.hop,
                retry_after_s=wait_s,
                items=findings.items,
                job=_reference(findings, job),
                consistency=findings.consistency,
                redirect=plan.redirect if plan is not None else None,
            )
        before = self._projection.get(live.invocation_id)
        try:
            _, receipt = self._projection.record(
                live.invocation_id, complete, event, barrier=True, blobs=kept.blobs, job=job
            )
            if plan is not None:
                plan.begin()  # in the same turn: nobody sees the redirect as the end of the operation
            self._results.remember(kept)
            await receipt.durable()
        except JournalPoisoned:
            assert before is not None
            self._storage_failed(before)
        else:
            if job is not None:
                self._job_opened(job[0])
        faultpoint.reach("engine:result")

    def _job(self, live: Live, findings: Findings) -> tuple[InvocationId, ev.JobOpened] | None:
        """The beginning of the job that an answer accepted, where it can be followed: an operation of its own (R7)."""
        inv = self._projection.get(live.invocation_id)
        if findings.job is None or findings.job.status_url is None or not findings.follow or inv is None:
            return None
        now = self._clock.wall()
        return new_invocation_id(now), ev.JobOpened(
            operation_id=new_operation_id(),
            job_id=findings.job.job_id,
            status_url=findings.job.status_url,
            acceptance=inv.dispatch_record or 0,
            recovery_deadline=after(now, live.bound.recovery_s),
            refers_to=live.invocation_id,
            session=inv.session_id,
            program=inv.program or "",
            agent=inv.agent or "",
            correlation_id=inv.correlation_id,
            contract_id=inv.contract_id,
            contract_digest=inv.contract_digest,
            title=inv.title,
        )

    async def _kept(self, live: Live, evidence: Evidence) -> Kept | None:
        """What was kept of a complete answer; None if it could not be stored, which is then recorded."""
        try:
            return await live.work.keep(evidence)
        except FileUnwritable:
            self._space.give_up()
            self._alert("storage", "An answer could not be stored. Free some space.")
            verdict = oc.storage_failed("a complete answer could not be stored")
            await self._unknown(live, verdict, evidence)
            return None

    async def _unknown(self, live: Live, verdict: Verdict, evidence: Evidence) -> None:
        event = oc.unknown_event(
            verdict, evidence.observation, diagnostic=live.work.diagnostic(evidence), stdin=live.work.streamed(evidence)
        )
        before = self._projection.get(live.invocation_id)
        try:
            _, receipt = self._projection.record(live.invocation_id, event, barrier=True)
            await receipt.durable()
        except JournalPoisoned:
            assert before is not None
            self._overruled(before, event)
        live.finished.set()

    def _storage_failed(self, before: Invocation) -> None:
        """What an answer proves is not durable: it stays unknown, and after a restart recovery says the same."""
        verdict = oc.storage_failed("an answer could not be recorded")
        self._overruled(before, oc.unknown_event(verdict))
        self._alert("storage", "An answer came but could not be recorded. Free some space; nothing is sent until then.")

    async def _stopped(self, live: Live, stop: Stop) -> None:
        """Record the proof that the line was not crossed."""
        verdict = stop.verdict
        event = ev.ActionStopped(
            verdict.phase,
            verdict.code,
            verdict.retry,
            field=stop.field,
            needs=verdict.needs,
            refers_to=stop.refers_to,
            message=stop.message,
        )
        before = self._projection.get(live.invocation_id)
        try:
            _, receipt = self._projection.record(live.invocation_id, event, barrier=True)
            await receipt.durable()
        except JournalPoisoned:
            if before is not None:
                self._overruled(before, event)

    async def _given_up(self, live: Live) -> None:
        """Something went wrong that nobody foresaw: the action ends as a stop of the broker here would end it."""
        inv = self._projection.get(live.invocation_id)
        if inv is None or inv.finished:
            return
        end = at_rest(inv)
        try:
            _, receipt = self._projection.record(live.invocation_id, end, barrier=True)
            await receipt.durable()
        except JournalPoisoned:
            self._overruled(inv, end)

    def _unrecorded(self, live: Live) -> None:
        """The journal took no dispatch record: nothing was sent, and nothing will be (R23)."""
        inv = self._projection.get(live.invocation_id)
        if inv is not None and not inv.dispatched:
            verdict = oc.stop(Code.JOURNAL_UNAVAILABLE, Phase.CONNECTION_SETUP)
            self._overruled(inv, ev.ActionStopped(verdict.phase, verdict.code, verdict.retry, needs=verdict.needs))

    def _overruled(self, before: Invocation, event: ev.ActionStopped | ev.OutcomeUnknown) -> None:
        """What needs no durable record to be true holds in memory alone: that nothing was sent, or that the outcome is
        unknown."""
        if before.finished:
            return
        seq, at = before.dispatch_record or before.accepted_record, self._clock.wall()
        self._projection.overrule(oc.apply(before, event, invocation_id=before.invocation_id, seq=seq, at=at))

    # -- late answers

    def _keep_reading(self, live: Live, run: asyncio.Future[Evidence]) -> None:
        """Go on reading a connection whose caller has its verdict; the oldest is closed over the limit."""
        self._reading.append(live)
        if len(self._reading) > self._limit().kept_reading:
            oldest = self._reading.pop(0)
            if oldest.exchange is not None:
                oldest.exchange.close()
        self._spawn(self._late(live, run))

    async def _late(self, live: Live, run: asyncio.Future[Evidence]) -> None:
        inv = self._projection.get(live.invocation_id)
        assert inv is not None
        assert live.exchange is not None
        end, at = inv.recovery_deadline or Micros(0), inv.dispatched_at or Micros(0)
        over = asyncio.ensure_future(self._elapsed.until(end, at, inv.boot, inv.boot_id))
        try:
            await asyncio.wait((run, over), return_when=asyncio.FIRST_COMPLETED)
            if not run.done():
                live.exchange.close()
            await self._settle_late(live, await run)
        except (JournalPoisoned, FileUnwritable):
            self._space.give_up()
            self._alert("storage", "A late answer could not be recorded.")
        finally:
            over.cancel()
            self._space.release(live.invocation_id)
            if live in self._reading:
                self._reading.remove(live)
            if not run.done():
                live.exchange.close()
                await asyncio.gather(run, return_exceptions=True)

    async def _settle_late(self, live: Live, evidence: Evidence) -> None:
        """A complete late answer settles the record; one that contradicts what is settled is appended beside it."""
        if not evidence.complete and live.work.verdict(evidence).outcome is Outcome.UNKNOWN:
            await live.work.discard()
            return
        kept = await live.work.keep(evidence)
        verdict = live.work.verdict(evidence)
        if verdict.outcome is Outcome.UNKNOWN:
            await self._results.delete(*(blob.id for blob in kept.blobs))
            return
        complete = live.work.completed(evidence, kept)
        findings = live.work.findings(verdict)
        job = self._job(live, findings)
        now = self._projection.get(live.invocation_id)
        if now is not None and now.state is State.SETTLED and now.outcome is not verdict.outcome:
            self.dispute(now, f"a late answer says {verdict.outcome}")
        settled = ev.OutcomeSettled(
            verdict.outcome,
            verdict.code,
            verdict.retry,
            Source.REMOTE_RESPONSE,
            body=kept.body,
            stderr=kept.stderr,
            exit_status=complete.exit_status,
            exit_signal=complete.exit_signal,
            stdin=complete.stdin,
            completion=complete.completion,
            status=complete.status,
            headers=complete.headers,
            remote_request_id=complete.remote_request_id,
            needs=verdict.needs,
            hop=verdict.hop,
            retry_after_s=live.work.retry_after_s(evidence),
            items=findings.items,
            job=_reference(findings, job),
            consistency=findings.consistency,
            diagnostic=None if evidence.complete else live.work.diagnostic(evidence),
        )
        try:
            _, receipt = self._projection.record(live.invocation_id, settled, barrier=True, blobs=kept.blobs, job=job)
        except oc.IllegalMove:
            await self._results.delete(*(blob.id for blob in kept.blobs))
            return
        self._results.remember(kept)
        await receipt.durable()
        if job is not None:
            self._job_opened(job[0])

    def dispute(self, inv: Invocation, what: str) -> None:
        """Append that something contradicts a settled outcome, and raise an alert (verdicts, section 5)."""
        contradicted = inv.settlement_record or inv.result_record or inv.dispatch_record or 0
        self._projection.record(inv.invocation_id, ev.OutcomeDisputed(contradicted, what), barrier=True)
        self._alert("contradiction", f"Record {contradicted} is contradicted: {what}.")

    # -- waiting

    async def _until(self, live: Live, work: Coroutine[Any, Any, T]) -> T:
        """Await `work`, unless the action is asked to stop first; `work` is then cancelled and the Stop raised."""
        if live.stopping is not None:
            work.close()
            raise live.stopping
        task = asyncio.current_task()
        assert task is not None
        live.interrupt = task.cancel
        try:
            return await work
        except asyncio.CancelledError:
            if live.stopping is None or task.uncancel() > 0:  # it is the broker that ends
                raise
            raise live.stopping from None
        finally:
            live.interrupt = None

    # -- the line, for _Line

    async def cross(self, live: Live, connection: Connection) -> None:
        """The last checks and DISPATCH_STARTED. Returns only when that record is durable."""
        if live.stopping is not None:
            raise live.stopping
        if live.work.recomputed() != live.bound.fingerprint:
            raise Stop(oc.stop(Code.FINGERPRINT_CHANGED, Phase.VALIDATION))
        bound = live.bound
        inv = self._projection.get(live.invocation_id)
        assert inv is not None
        operation = self._projection.operation_of(inv)
        self._check_right(live, operation)
        self._check_approval(live)
        if not self._space.reserve(live.invocation_id, bound.expected):
            self._alert("storage", NO_ROOM)
            raise Stop(oc.stop(Code.JOURNAL_UNAVAILABLE, Phase.CONNECTION_SETUP), message=NO_ROOM)
        assert live.deadline is not None
        now = self._clock.wall()
        first = operation.first_dispatched
        request_deadline = after(now, max(0.0, live.deadline - asyncio.get_running_loop().time()))
        recovery = first.recovery_deadline if first else None
        event = ev.DispatchStarted(
            fingerprint=bound.fingerprint,
            attempt=operation.attempt_of(inv),
            generation=live.lease.generation if live.lease is not None else inv.generation,
            connection=_shown(connection),
            request_deadline=request_deadline,
            recovery_deadline=recovery or after(request_deadline, bound.recovery_s),
            window_open_until=_window(inv, first, now),
            boot=self._clock.boot(),
            boot_id=self._clock.boot_id(),
        )
        faultpoint.reach("engine:line")
        live.crossed = True
        before = inv
        try:
            _, receipt = self._projection.record(live.invocation_id, event, barrier=True)
            await receipt.durable()
        except JournalPoisoned:
            live.crossed = False
            self._projection.overrule(before)
            raise
        finally:
            if asyncio.get_running_loop().time() >= live.deadline:
                live.poke()
        faultpoint.reach("engine:dispatched")

    def _check_approval(self, live: Live) -> None:
        """An approval ends with the action's deadline, by the clocks that go on in a suspend too."""
        assert live.approved_until is not None, "it was decided"
        if live.approved_until.left_s(self._clock) <= 0:
            verdict = oc.stop(Code.APPROVAL_EXPIRED, Phase.CREDENTIAL_INJECTION)
            raise Stop(verdict, message="The action's deadline came before it could be sent.")

    def _check_right(self, live: Live, operation: Operation) -> None:
        """A repeat goes out only under the newest lease, and while what it repeats was not settled meanwhile; it and a
        hop only while the key's window is open."""
        lease = live.lease
        repeated = self._projection.get(lease.of) if lease is not None else None
        if lease is not None and (repeated is None or repeated.generation != lease.generation):
            holder = repeated.lease.repeat if repeated is not None and repeated.lease is not None else lease.of
            verdict = oc.stop(Code.LEASE_LOST, Phase.CONNECTION_SETUP)
            raise Stop(verdict, refers_to=InvocationId(holder))
        first = operation.first_dispatched or repeated
        if first is None:
            return
        now = self._elapsed.now_since(first.dispatched_at or Micros(0), first.boot, first.boot_id)
        if live.until is not None and now >= live.until:
            verdict = oc.stop(Code.APPROVAL_EXPIRED, Phase.CREDENTIAL_INJECTION)
            raise Stop(verdict, message="The time in which it may be sent again ended before it could be.")
        if repeated is not None and decide(repeated, operation, now) is Repeat.RETURN_RECORDED_RESULT:
            verdict = oc.stop(Code.LEASE_LOST, Phase.CONNECTION_SETUP)
            said = "What it would repeat was settled before it could be sent again."
            raise Stop(verdict, refers_to=operation.outcome()[1] or repeated.invocation_id, message=said)


class _Line:
    """One exchange's line (port.Line): reports from the wire, as records."""

    def __init__(self, engine: Engine, live: Live) -> None:
        self._engine = engine
        self._live = live

    async def cross(self, connection: Connection) -> None:
        await self._engine.cross(self._live, connection)

    def request_sent(self, sent: int) -> None:
        exchange = self._live.exchange
        stdin = self._live.work.streamed(exchange.evidence) if exchange is not None else None
        self._record(ev.RequestSent(sent, stdin))
        faultpoint.reach("engine:sent")

    def response_started(self, status: int | None, headers: tuple[tuple[str, str], ...]) -> None:
        self._live.work.started(status, headers)
        self._record(ev.RemoteResponseStarted(status))
        faultpoint.reach("engine:head")

    def _record(self, event: ev.Event) -> None:
        """A diagnosis, which changes no outcome (R25)."""
        try:
            self._engine._projection.record(self._live.invocation_id, event)
        except oc.IllegalMove:
            pass


CARD_ENDS: dict[CardEnd, Code] = {
    CardEnd.EXPIRED: Code.APPROVAL_EXPIRED,
    CardEnd.CALLER_GONE: Code.CALLER_CANCELLED,
    CardEnd.CALLER_CANCELLED: Code.CALLER_CANCELLED,
    CardEnd.VAULT_LOCKED: Code.VAULT_LOCKED,
    CardEnd.BROKER_STOPPED: Code.BROKER_RESTARTED,
}


def _shown(connection: Connection) -> dict[str, Any]:
    """The connection as its record and the envelope have it; what a proxy adds only where there is one."""
    shown = {
        "id": connection.id,
        "reused": connection.reused,
        "peer": connection.peer,
        "identity": connection.identity,
    }
    behind = {"resolved_by": connection.resolved_by, "proxy": connection.proxy}
    return {**shown, **{name: value for name, value in behind.items() if value is not None}}


def _window(inv: Invocation, first: Invocation | None, now: Micros) -> Micros | None:
    """`window_open_until`: from the operation's first dispatch, less the larger of 60 s and 5 % (R46)."""
    if inv.key is None or inv.key_retention_s is None:
        return None
    if first is not None and first.window_open_until is not None:
        return first.window_open_until
    return after(now, inv.key_retention_s - max(60.0, inv.key_retention_s * 0.05))


def _reference(findings: Findings, job: tuple[InvocationId, ev.JobOpened] | None) -> ev.JobReference | None:
    """How an acceptance names its job: with the operation that follows it, if it is followed."""
    if findings.job is None or job is None:
        return findings.job
    return replace(findings.job, operation_id=job[1].operation_id, invocation_id=job[0])
