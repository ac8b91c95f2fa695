"""The retry decision: small pure functions over what is recorded and the clock (R52).

Nothing here may loosen what the tables of `outcome` stored; it may only tighten: a key's window that closed, a budget
that is spent, a deadline that is past, an earlier dispatch that is still unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from affidavit.broker.outcome import OPEN_STATES, Invocation
from affidavit.broker.terms import Code, InvocationId, Micros, Outcome, Retry


@dataclass(frozen=True, slots=True)
class Operation:
    """All invocations of one operation, oldest first."""

    members: tuple[Invocation, ...]

    @property
    def newest_dispatched(self) -> Invocation | None:
        return next((m for m in reversed(self.members) if m.dispatched), None)

    @property
    def first_dispatched(self) -> Invocation | None:
        return next((m for m in self.members if m.dispatched), None)

    @property
    def dispatches(self) -> int:
        """Attempts so far: a hop belongs to the attempt whose redirect it follows."""
        return sum(m.dispatched and self.followed_by(m) is None for m in self.members)

    def hop(self, record: Invocation) -> Invocation | None:
        """The invocation that follows the redirect of `record`: dispatched, or still on its way there."""
        of = record.invocation_id
        return next((m for m in self.members if m.refers_to == of and (m.dispatched or not m.finished)), None)

    def followed_by(self, record: Invocation) -> Invocation | None:
        """The exchange whose redirect `record` follows; None where it is no hop, or one that was never dispatched."""
        before = next((m for m in self.members if m.invocation_id == record.refers_to), None)
        hop = self.hop(before) if before is not None else None
        return before if hop is not None and hop.invocation_id == record.invocation_id else None

    def end_of(self, record: Invocation) -> Invocation:
        """Whose envelope answers for `record`: the last hop that followed from it, else itself."""
        while (hop := self.hop(record)) is not None:
            record = hop
        return record

    @property
    def answering(self) -> Invocation:
        """Whose envelope answers for the operation: the newest invocation's, less hops that were never dispatched."""
        newest = self.members[-1]
        while newest.finished and not newest.dispatched and newest.retry_of is None:
            before = next((m for m in self.members if m.invocation_id == newest.refers_to), None)
            if before is None:
                break
            newest = before
        return newest

    def attempt_of(self, record: Invocation) -> int:
        """The number of the attempt that `record` begins or goes on with, before it is dispatched."""
        before = self.followed_by(record)
        return before.attempt if before is not None and before.attempt is not None else self.dispatches + 1

    def leads_elsewhere(self, record: Invocation) -> bool:
        """Whether `record` goes where a redirect led, itself or by what it repeats: not where the agent asked."""
        repeated = self._repeated(record)
        return self.followed_by(record) is not None or (repeated is not None and self.leads_elsewhere(repeated))

    def reads_after_write(self, record: Invocation) -> bool:
        """Whether `record` is the read that a write's redirect asked for, or repeats it: its answer says nothing of the
        write."""
        on: Invocation | None = record
        while on is not None:
            before = self.followed_by(on)
            if before is not None and before.effect is not on.effect:
                return True
            on = before or self._repeated(on)
        return False

    def _repeated(self, record: Invocation) -> Invocation | None:
        return next((m for m in self.members if m.invocation_id == record.retry_of), None)

    def replaced(self, record: Invocation) -> bool:
        """Whether a hop counts in the place of this exchange: the same kind of effect, sent elsewhere."""
        hop = self.hop(record)
        return hop is not None and hop.dispatched and hop.effect is record.effect

    def outcome(self) -> tuple[Outcome, InvocationId | None]:
        """The operation's own outcome and the invocation that gives it (interface, Operations)."""
        counted = [m for m in self.members if not self.replaced(m)]
        for i, member in enumerate(counted):
            reads = self.reads_after_write(member)
            later = [m for m in counted[i + 1 :] if reads or not self.reads_after_write(m)]
            if member.outcome is Outcome.UNKNOWN and not _answered_later(member, later):
                return Outcome.UNKNOWN, None
        for wanted in (Outcome.COMMITTED, Outcome.REJECTED, Outcome.NOT_ATTEMPTED):
            by = next((m for m in reversed(counted) if m.outcome is wanted), None)
            if by is not None:
                return wanted, by.invocation_id
        return Outcome.NOT_ATTEMPTED, None


def _answered_later(unknown: Invocation, later: Sequence[Invocation]) -> bool:
    """Whether a later commit speaks for an unknown dispatch: under the same key, or known idempotent."""
    return any(
        m.outcome is Outcome.COMMITTED
        and (m.known_idempotent or (unknown.window_open_until is not None and m.window_open_until is not None))
        for m in later
    )


def retry_now(record: Invocation, operation: Operation, now: Micros) -> Retry:
    """The advice at this moment, before delivery is looked at."""
    if record.state in OPEN_STATES:
        return Retry.FETCH_RESULT
    if record.has_unknown_items and record.outcome is not Outcome.UNKNOWN and not operation.replaced(record):
        return Retry.RECONCILE
    if _speaks_of_a_repeat_only(record, operation, now) or _speaks_of_a_read_only(record, operation):
        return Retry.RECONCILE
    if record.retry is Retry.SAME_IDEMPOTENCY_KEY and not window_open(record, now):
        return Retry.RECONCILE
    return record.retry


def window_open(record: Invocation, now: Micros) -> bool:
    """Whether the remote still holds the key, less the safety margin (R46)."""
    return record.window_open_until is not None and now < record.window_open_until


def rests_on_window(record: Invocation, operation: Operation) -> bool:
    """Whether what the record allows ends with its key's window."""
    window = record.window_open_until
    return window is not None and retry_now(record, operation, window) is not record.retry


def _speaks_of_a_repeat_only(record: Invocation, operation: Operation, now: Micros) -> bool:
    """Whatever refuses a repeat, while an earlier dispatch of the operation is unknown, or once one has turned out a
    commit that allows no repeat (verdicts, section 3; decision 20)."""
    if record.outcome is not Outcome.REJECTED:
        return False
    earlier = operation.members[: _index(operation, record)]
    if not operation.reads_after_write(record) and any(
        m.outcome is Outcome.COMMITTED and m.retry is not Retry.BACKOFF and not operation.replaced(m) for m in earlier
    ):
        return True
    if not any(m.outcome is Outcome.UNKNOWN for m in earlier):
        return False
    excepted = record.retry in (Retry.BACKOFF, Retry.SAME_IDEMPOTENCY_KEY)
    return not (excepted and (record.known_idempotent or window_open(record, now)))


def _speaks_of_a_read_only(record: Invocation, operation: Operation) -> bool:
    """A refusal of the read that a write's redirect asked for: correcting and sending again would be a second write."""
    refused = record.outcome is Outcome.REJECTED and record.retry is Retry.AFTER_CORRECTION
    return refused and operation.reads_after_write(record)


def code_now(record: Invocation, operation: Operation) -> Code:
    """The code at this moment: a redirect is not followed until its hop is dispatched."""
    hop = operation.hop(record) if record.code is Code.REDIRECT_NOT_FOLLOWED else None
    return Code.REMOTE_RESULT if hop is not None and hop.dispatched else record.code


def _index(operation: Operation, record: Invocation) -> int:
    return next(i for i, m in enumerate(operation.members) if m.invocation_id == record.invocation_id)


def attempts_left(record: Invocation, operation: Operation) -> int | None:
    """Dispatches that the operation's budget still holds (R51); None before validation."""
    if record.attempts_limit is None:
        return None
    return max(0, record.attempts_limit - operation.dispatches)


def retry_allowed(retry: Retry, record: Invocation, operation: Operation, now: Micros) -> bool:
    """`evidence.retry_allowed` (verdicts, section 6)."""
    left = attempts_left(record, operation)
    ahead = not past_deadline(operation, now)
    return retry in (Retry.BACKOFF, Retry.SAME_IDEMPOTENCY_KEY) and (left is None or left > 0) and ahead


def past_deadline(operation: Operation, now: Micros) -> bool:
    """Whether the operation's recovery deadline is past; it has none before its first dispatch (R53)."""
    first = operation.first_dispatched
    return first is not None and first.recovery_deadline is not None and now >= first.recovery_deadline


class Repeat(StrEnum):
    """What `decide` says about a repeat."""

    FETCH = "FETCH"
    RETRY_NEW_ATTEMPT = "RETRY_NEW_ATTEMPT"
    RETRY_SAME_KEY = "RETRY_SAME_KEY"
    RETRY_WHEN_ALLOWED = "RETRY_WHEN_ALLOWED"
    RECONCILE = "RECONCILE"
    STOP_FOR_CORRECTION = "STOP_FOR_CORRECTION"
    RETURN_RECORDED_RESULT = "RETURN_RECORDED_RESULT"


def decide(record: Invocation, operation: Operation, now: Micros) -> Repeat:
    """What may be done about `record`, the operation's newest dispatched invocation (verdicts, section 6).

    That the fingerprints are equal is for `admission` to see, where the request is at hand.
    """
    retry = retry_now(record, operation, now)
    match record.outcome:
        case _ if retry is Retry.FETCH_RESULT:
            return Repeat.FETCH
        case Outcome.NOT_ATTEMPTED:
            return Repeat.RETRY_NEW_ATTEMPT if retry is Retry.BACKOFF else Repeat.STOP_FOR_CORRECTION
        case Outcome.UNKNOWN | Outcome.REJECTED if retry is Retry.SAME_IDEMPOTENCY_KEY and window_open(record, now):
            return Repeat.RETRY_SAME_KEY
        case Outcome.UNKNOWN if retry is Retry.BACKOFF and record.known_idempotent:
            return Repeat.RETRY_NEW_ATTEMPT
        case Outcome.UNKNOWN:
            return Repeat.RECONCILE
        case Outcome.REJECTED if retry is Retry.RECONCILE and operation.outcome()[0] is Outcome.UNKNOWN:
            return Repeat.RECONCILE
        case Outcome.REJECTED if retry is Retry.BACKOFF:
            return Repeat.RETRY_WHEN_ALLOWED
        case Outcome.COMMITTED if retry is Retry.BACKOFF:
            return Repeat.RETRY_WHEN_ALLOWED
        case _:
            return Repeat.RETURN_RECORDED_RESULT


STREAM = "stream"
"""`asked.stdin` of a command whose input was streamed: it is gone, so it is never repeated."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A call that changed nothing: the record's own facts under this code (verdicts, section 6)."""

    code: Code
    retry: Retry
    refers_to: str | None = None
    needs: str | None = None


def lease_holder(record: Invocation, repeat: Invocation | None, *, expired: bool) -> InvocationId | None:
    """Who holds the lease of a repeat of `record`; `repeat` is the invocation of its newest LEASE_TAKEN (R47).

    It is held while the repeat waits for its authorisation, then until it is `expired`; a dispatched one until it ends.
    """
    if record.lease is None or repeat is None or repeat.finished:
        return None
    return repeat.invocation_id if repeat.dispatched or not expired else None


def refusal(
    record: Invocation,
    operation: Operation,
    now: Micros,
    decision: Repeat,
    *,
    holder: InvocationId | None,
    unsafe: bool,
) -> Refusal | None:
    """Why a repeat of `record` is refused, if it is; `decision` is neither FETCH nor RETURN_RECORDED_RESULT.

    `unsafe` overrules RECONCILE and the recovery deadline, and nothing else.
    """
    retry = retry_now(record, operation, now)
    if holder is not None:
        return Refusal(Code.LEASE_LOST, Retry.FETCH_RESULT, refers_to=holder)
    if attempts_left(record, operation) == 0:
        never = record.outcome is Outcome.NOT_ATTEMPTED
        return Refusal(Code.RETRY_BUDGET_EXHAUSTED, Retry.NEVER if never else Retry.RECONCILE)
    if record.asked.get("stdin") == STREAM:
        return Refusal(Code.RETRY_REFUSED, retry)
    stops = decision is Repeat.STOP_FOR_CORRECTION
    looks_first = decision is Repeat.RECONCILE or past_deadline(operation, now)
    if stops or (looks_first and not unsafe):
        return Refusal(Code.RETRY_REFUSED, retry)
    return None
