"""Jobs: what was accepted and is not done, followed as an operation of its own (R7).

The acceptance stays committed whatever becomes of the job. A job is asked for its state on the schedule of look-ups,
and no sooner than the target says; a poll that fails only delays. It ends by a state that the contract lists, or at its
recovery deadline as REMOTE_DEADLINE. After a restart it is followed from the record alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from affidavit.broker import outcome as oc
from affidavit.broker.address import check_form
from affidavit.broker.contract.model import HttpMatch, Job
from affidavit.broker.contract.pattern import UrlPattern
from affidavit.broker.contract.pointer import MISSING
from affidavit.broker.errands import Errand, reach
from affidavit.broker.events import JobReference
from affidavit.broker.first_of import first_of
from affidavit.broker.limits import Limits
from affidavit.broker.lookup import SHOWN_MAX, Finding, Worth, pauses
from affidavit.broker.moment import SECOND, after
from affidavit.broker.outcome import Invocation
from affidavit.broker.refusal import Refused
from affidavit.broker.signs import UNREADABLE, Answer
from affidavit.broker.target import HttpTarget, parse_http
from affidavit.broker.terms import InvocationId, Micros, State
from affidavit.broker.vault.credentials import Credential

if TYPE_CHECKING:
    from affidavit.broker.core import Core


def may_follow(job: JobReference, asked: HttpTarget, credential: Credential | None) -> bool:
    """Whether a status URL that the target gave may be asked: within the action's origin or the credential's targets.

    Any other is shown and not followed, for it would have the broker call whatever a target likes.
    """
    if job.status_url is None:
        return False
    try:
        target = parse_http(job.status_url, Limits())
        check_form(target)
    except Refused:
        return False
    bound = credential.targets if credential is not None else ()
    return target.origin == asked.origin or any(UrlPattern.parse(text).matches(target) for text in bound)


def found(job: Job, answer: Answer | None) -> Finding:
    """What a poll of a job's status resource proves."""
    if answer is None:
        return Finding(Worth.FAILED, "no complete answer came")
    if answer.status // 100 != 2:
        return Finding(Worth.FAILED, f"the status resource answered {answer.status}")
    value = answer.pointed(job.state)
    if value is MISSING or value is UNREADABLE or not isinstance(value, str | int):
        return Finding(Worth.FAILED, "the status resource has no state where the contract reads one")
    state = str(value)[:SHOWN_MAX]
    outcome = job.states.get(state)
    if outcome is None:
        return Finding(Worth.PENDING, f"its state is {state}", state=state)
    return Finding(Worth.SETTLES, f"its state is {state}", outcome, state)


class Jobs:
    """Follows jobs, each in a task of its own. Owned by the broker's loop."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._followed: set[InvocationId] = set()

    def follow(self, invocation_id: InvocationId) -> None:
        """Follow a job until it is settled or its recovery deadline is past."""
        if invocation_id not in self._followed and not self._core.stopping:
            self._followed.add(invocation_id)
            self._core.spawn(self._follow(invocation_id))

    def resume(self) -> None:
        """Follow the jobs that an earlier run left open. Needs no vault: while it is locked their time runs on."""
        for invocation_id in self._core.projection.open_in_journal():
            inv = self._core.projection.get(invocation_id)
            if inv is not None and inv.is_job:
                self.follow(invocation_id)

    async def _follow(self, invocation_id: InvocationId) -> None:
        core, wait_s = self._core, 0.0
        try:
            for pause_s in pauses():
                job = self._job(invocation_id)
                if job.state is State.SETTLED:
                    return
                await self._pass(min(max(pause_s, wait_s), self._left_s(job)))
                while core.locked and self._left_s(job) > 0:
                    await first_of(core.unlocked.wait(), self._pass(self._left_s(job)))
                if self._left_s(job) <= 0:
                    self._overdue(self._job(invocation_id))
                    return
                wait_s = await self.ask(invocation_id)
        finally:
            self._followed.discard(invocation_id)

    async def ask(self, invocation_id: InvocationId) -> float:
        """Ask for the job's state now and record it; how long the target asks to wait. Not while locked."""
        core, job = self._core, self._job(invocation_id)
        cause = core.projection.get(InvocationId(job.refers_to or ""))
        contract = core.contracts.set.get(job.contract_id or "") if core.contracts is not None else None
        if cause is None or contract is None or contract.job is None or job.job is None or job.job.status_url is None:
            return 0.0
        private = isinstance(contract.match, HttpMatch) and contract.match.private
        try:
            target, credential, leave = reach(core, cause, job.job.status_url, private=private)
        except Refused:
            return 0.0
        errand = Errand(
            cause=cause,
            refers_to=invocation_id,
            title=f"Ask for the job: {job.title or contract.id}",
            target=target,
            credential=credential,
            leave=leave,
            contract_id=contract.id,
            contract_digest=contract.digest,
        )
        ran = await core.errands.run(errand)
        if ran is None:
            return 0.0
        if ran.invocation.dispatched:
            core.reconciler.record(job, found(contract.job, ran.answer), ran, contract.digest)
        return ran.invocation.retry_after_s or 0.0

    def _overdue(self, job: Invocation) -> None:
        if job.state is State.OPEN:
            overdue = oc.unknown_event(oc.job_overdue())
            self._core.projection.record(job.invocation_id, overdue, barrier=True)
        self._core.alert_overdue()

    def _job(self, invocation_id: InvocationId) -> Invocation:
        job = self._core.projection.get(invocation_id)
        assert job is not None, "it was opened"
        return job

    async def _pass(self, seconds: float) -> None:
        """Wait; a suspend counts, so that a job is overdue when its time is over."""
        elapsed = self._core.elapsed
        await elapsed.until(after(elapsed.now(), seconds))

    def _left_s(self, job: Invocation) -> float:
        now = self._core.elapsed.now()
        return ((job.recovery_deadline or Micros(0)) - now) / SECOND
