"""Repeats: a further invocation of an operation, where its record allows one (verdicts, section 6; R44-R54).

What may be done is decided by `advice` from the record and the clock; here the request is found again, the decision is
asked for once more with everything at hand, and the repeat is launched under the lease of what it repeats - without a
pause between the last look and the acceptance, so that two who ask at once do not both get through.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from affidavit.broker import advice
from affidavit.broker.admission import Admitted, admit_repeat
from affidavit.broker.advice import Operation, Refusal, Repeat
from affidavit.broker.launch import launch_repeat
from affidavit.broker.live import Live
from affidavit.broker.moment import SECOND
from affidavit.broker.outcome import Invocation
from affidavit.broker.refusal import Refused
from affidavit.broker.request import HttpAsk
from affidavit.broker.session import Session
from affidavit.broker.spool import Request, SpooledCommand
from affidavit.broker.ssh_admission import admit_ssh_repeat
from affidavit.broker.ssh_request import SshAsk
from affidavit.broker.terms import Code, InvocationId, Micros, Retry

if TYPE_CHECKING:
    from affidavit.broker.core import Core


@dataclass(frozen=True, slots=True)
class Standing:
    """What holds of a repeat at this moment.

    `record` is what would be repeated, `answered` whose envelope answers where nothing is, `refusal` why not. All three
    but the first are None where a repeat may be launched.
    """

    record: Invocation
    operation: Operation
    answered: Invocation | None = None
    refusal: Refusal | None = None


Admit = Callable[..., tuple[HttpAsk | SshAsk, Admitted]]
"""`admission.admit_repeat`, or `ssh_admission.admit_ssh_repeat`."""


class Repeats:
    """Owned by the broker's loop."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def standing(self, named: Invocation, *, unsafe: bool) -> Standing:
        """What `decide` says of the operation's newest dispatched invocation, else of the one that was named."""
        core = self._core
        operation = core.projection.operation_of(named)
        record = operation.newest_dispatched or named
        now = core.now_of(operation)
        holder = self._holder(record, operation)
        decision = advice.decide(record, operation, now)
        if decision is Repeat.FETCH:
            named_by = record.refers_to if record.finished else None  # of one that is open: whose redirect it follows
            fetched = core.projection.get(InvocationId(named_by)) if named_by is not None else None
            return Standing(record, operation, answered=fetched or record)
        if decision is Repeat.RETURN_RECORDED_RESULT:
            return Standing(record, operation, answered=operation.end_of(record))
        refusal = advice.refusal(record, operation, now, decision, holder=holder, unsafe=unsafe)
        return Standing(record, operation, answered=record if refusal else None, refusal=refusal)

    def _holder(self, record: Invocation, operation: Operation) -> InvocationId | None:
        """Who is at work on a repeat: the lease's holder, or an invocation of the operation that is still open."""
        core = self._core
        repeat = core.projection.get(InvocationId(record.lease.repeat)) if record.lease is not None else None
        live = core.lives.get(repeat.invocation_id) if repeat is not None else None
        until = live.lease_until if live is not None else None
        held = advice.lease_holder(record, repeat, expired=until is not None and until.left_s(core.clock) <= 0)
        if held is not None:
            return held
        lost = repeat.invocation_id if repeat is not None else None
        unfinished = [m for m in operation.members if not m.finished and m.invocation_id != lost]
        return unfinished[-1].invocation_id if unfinished else None

    async def request_of(self, record: Invocation) -> Request | None:
        """The request as it was approved; None where it is no longer kept."""
        if record.spool is None:
            return None
        return await self._core.results.in_thread(partial(self._core.spool.get, record.spool))

    def launch(
        self, session: Session, standing: Standing, request: Request, *, unsafe: bool, may_ask: bool = True
    ) -> Live | Standing:
        """Launch the repeat, unless what holds now is no longer what was seen. Raises Refused; without `may_ask` also
        where a person would have to be asked."""
        now = self.standing(standing.record, unsafe=unsafe)
        if now.answered is not None or now.record.invocation_id != standing.record.invocation_id:
            return now
        record, operation = now.record, now.operation
        admit_it: Admit = admit_ssh_repeat if isinstance(request, SpooledCommand) else admit_repeat
        try:
            ask, admitted = admit_it(self._core, session, record, operation, request, unsafe=unsafe, may_ask=may_ask)
        except Refused as refused:
            if refused.code is not Code.RETRY_REFUSED:
                raise
            return Standing(record, operation, record, Refusal(Code.RETRY_REFUSED, Retry.RECONCILE))
        return launch_repeat(
            self._core,
            session,
            ask,
            admitted,
            record,
            pause_s=self.pause_s(record),
            until=None if unsafe else _until(record, operation),
        )

    def pause_s(self, record: Invocation) -> float:
        """How much of the pause that the target asked for is still to come."""
        if record.retry_after_s is None:
            return 0.0
        at = record.settled_at or record.dispatched_at or record.accepted_at
        passed_s = (self._core.clock.wall() - at) / SECOND
        return max(0.0, record.retry_after_s - max(0.0, passed_s))


def _until(record: Invocation, operation: Operation) -> Micros | None:
    """When the right to this repeat ends: with the recovery deadline, or with the key's window if it rests on that."""
    first = operation.first_dispatched
    ends = [first.recovery_deadline if first is not None else None]
    if advice.rests_on_window(record, operation):
        ends.append(record.window_open_until)
    known = [end for end in ends if end is not None]
    return min(known) if known else None
