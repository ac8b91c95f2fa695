"""The state machine of an invocation, and the verdict tables: the one file that decides what evidence means.

Theory of operation. An invocation is a fold over its events in the order of their record numbers (R56). `MOVES` names
every legal move; a missing key is an illegal one and `apply` refuses it, so no code elsewhere can bring an outcome back
to `not_attempted` after DISPATCH_STARTED or undo a settled one. The tables below turn evidence into a `Verdict`: they
look at what was observed, never at an exception's class (R1, R13). No I/O, no clock, no randomness.

Retry words are stored as the tables give them; `same_idempotency_key` holds only while the key's window is open, which
`advice` looks at with each reply.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, assert_never

from affidavit.broker import events as ev
from affidavit.broker.proxy_status import error_of_next_hop
from affidavit.broker.terms import (
    ApprovalMode,
    Code,
    Effect,
    InvocationId,
    Kind,
    Micros,
    OperationId,
    Outcome,
    Phase,
    Retry,
    Source,
    Stage,
    State,
)
from affidavit.broker.wire.port import Fault, HttpEvidence, SetupFault, SetupStop
from affidavit.broker.wire.ssh.port import SshEvidence

# ---------------------------------------------------------------------------------------------------------------------
# Moves (verdicts, section 7)


class IllegalMove(Exception):
    """An event that this state does not allow. Nothing is recorded; the state stays as it was."""


_LISTENING = (Kind.REQUEST_SENT, Kind.REMOTE_RESPONSE_STARTED, Kind.CANCEL_ASKED, Kind.CALLER_GONE)
_AFTER = (
    Kind.RESULT_RELEASED,
    Kind.RESULT_DELIVERED,
    Kind.DELIVERY_FAILED,
    Kind.RESULT_EXPIRED,
    Kind.OUTCOME_DISPUTED,
)

MOVES: dict[tuple[State | None, Kind], State] = {
    (None, Kind.ACTION_ACCEPTED): State.ACCEPTED,
    (None, Kind.JOB_OPENED): State.OPEN,
    (State.ACCEPTED, Kind.PREFLIGHT_VALIDATED): State.VALIDATED,
    (State.VALIDATED, Kind.CARD_OPENED): State.VALIDATED,
    (State.VALIDATED, Kind.APPROVAL_DECIDED): State.VALIDATED,
    (State.VALIDATED, Kind.SETUP_ATTEMPTED): State.VALIDATED,
    (State.VALIDATED, Kind.CREDENTIAL_AUTHORIZED): State.AUTHORISED,
    (State.ACCEPTED, Kind.ACTION_STOPPED): State.STOPPED,
    (State.VALIDATED, Kind.ACTION_STOPPED): State.STOPPED,
    (State.AUTHORISED, Kind.ACTION_STOPPED): State.STOPPED,
    (State.AUTHORISED, Kind.SETUP_ATTEMPTED): State.AUTHORISED,
    (State.AUTHORISED, Kind.DISPATCH_STARTED): State.OPEN,
    **{(State.OPEN, kind): State.OPEN for kind in _LISTENING},
    **{(State.UNKNOWN, kind): State.UNKNOWN for kind in _LISTENING},
    (State.OPEN, Kind.REMOTE_RESPONSE_COMPLETE): State.OPEN,
    (State.OPEN, Kind.RESULT_COMMITTED): State.SETTLED,
    (State.OPEN, Kind.OUTCOME_UNKNOWN): State.UNKNOWN,
    (State.OPEN, Kind.LOOKED_UP): State.OPEN,
    (State.UNKNOWN, Kind.LOOKED_UP): State.UNKNOWN,
    (State.SETTLED, Kind.LOOKED_UP): State.SETTLED,
    (State.OPEN, Kind.OUTCOME_SETTLED): State.SETTLED,
    (State.UNKNOWN, Kind.OUTCOME_SETTLED): State.SETTLED,
    (State.SETTLED, Kind.OUTCOME_SETTLED): State.SETTLED,
    (State.STOPPED, Kind.LEASE_TAKEN): State.STOPPED,
    (State.UNKNOWN, Kind.LEASE_TAKEN): State.UNKNOWN,
    (State.SETTLED, Kind.LEASE_TAKEN): State.SETTLED,
    **{(State.SETTLED, kind): State.SETTLED for kind in _AFTER},
}
"""(state, kind of record) -> the state after it. A missing key is an illegal move."""

ONCE = frozenset(
    {
        Kind.CARD_OPENED,
        Kind.APPROVAL_DECIDED,
        Kind.REQUEST_SENT,
        Kind.REMOTE_RESPONSE_STARTED,
        Kind.CANCEL_ASKED,
        Kind.CALLER_GONE,
        Kind.REMOTE_RESPONSE_COMPLETE,
    }
)
"""Kinds that an invocation holds at most once, though their move leads back to the same state."""

STRENGTH = {Source.REMOTE_RESPONSE: 3, Source.REMOTE_QUERY: 2, Source.OPERATOR_ATTESTED: 1}
"""Which source may correct which (verdicts, section 5)."""

OPEN_STATES = frozenset({State.ACCEPTED, State.VALIDATED, State.AUTHORISED, State.OPEN})
"""Not finished: the envelope holds `pending`."""


@dataclass(frozen=True, slots=True)
class Confirmed:
    """A stage that a record proves."""

    stage: str
    at: Micros
    record: int


@dataclass(frozen=True, slots=True)
class Look:
    """The newest look-up of an invocation, or the newest poll of a job. `worth` is a word of `lookup.Worth`."""

    invocation_id: str
    at: Micros
    record: int
    answer: str
    worth: str
    state: str | None = None


@dataclass(frozen=True)
class Invocation:
    """The projection: what the records of one invocation prove. Only `apply` makes a new one.

    Read back from the clear columns alone (vault locked) the sealed fields are None or empty and `partial` is True.
    """

    invocation_id: InvocationId
    state: State
    accepted_at: Micros
    phase: Phase
    outcome: Outcome
    code: Code
    retry: Retry
    session_id: str
    accepted_record: int = 0
    partial: bool = False
    seen: frozenset[Kind] = frozenset()
    last: Confirmed | None = None
    lease: ev.LeaseTaken | None = None
    """Who may repeat it, or did."""
    operation_id: OperationId | None = None
    correlation_id: str | None = None
    program: str | None = None
    agent: str | None = None
    request_fingerprint: str | None = None
    asked: Mapping[str, Any] = field(default_factory=dict)
    reason: str | None = None
    retry_of: str | None = None
    refers_to: str | None = None
    # bound at PREFLIGHT_VALIDATED
    target: Mapping[str, Any] | None = None
    title: str | None = None
    effect: Effect | None = None
    idempotent: str | None = None
    contract_id: str | None = None
    contract_digest: str | None = None
    effect_digest: str | None = None
    fingerprint: str | None = None
    mode: ApprovalMode | None = None
    answers: Mapping[str, str] | None = None
    credential_id: str | None = None
    credential_name: str | None = None
    credential_version: int | None = None
    injection: str | None = None
    key: str | None = None
    key_scope: str | None = None
    key_retention_s: float | None = None
    attempts_limit: int | None = None
    lookup: Mapping[str, Any] | None = None
    has_lookup: bool = False
    spool: Mapping[str, Any] | None = None
    item_keys: tuple[str, ...] | None = None
    # authorisation
    approval: ev.ApprovalDecided | None = None
    approval_record: int | None = None
    approved_at: Micros | None = None
    # set-up
    attempts: tuple[ev.SetupAttempted, ...] = ()
    # dispatch
    dispatch_record: int | None = None
    dispatched_at: Micros | None = None
    attempt: int | None = None
    generation: int = 0
    connection: Mapping[str, Any] | None = None
    request_deadline: Micros | None = None
    recovery_deadline: Micros | None = None
    window_open_until: Micros | None = None
    boot: float | None = None
    boot_id: str | None = None
    bytes_sent: int | None = None
    cancel_asked: bool = False
    caller_gone: bool = False
    # the answer
    completion: str | None = None
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    remote_request_id: str | None = None
    response_sha256: str | None = None
    body: ev.StoredBody | None = None
    """Of a command its standard output."""
    stderr: ev.StoredBody | None = None
    exit_status: int | None = None
    exit_signal: Mapping[str, Any] | None = None
    stdin: Mapping[str, Any] | None = None
    """What went of streamed input: `bytes`, `sha256`, `complete`."""
    result_record: int | None = None
    # the verdict
    settled_at: Micros | None = None
    source: Source | None = None
    observation: str | None = None
    diagnostic: Mapping[str, Any] | None = None
    message: str | None = None
    field: str | None = None
    needs: str | None = None
    hop: str | None = None
    retry_after_s: float | None = None
    items: tuple[ev.Item, ...] | None = None
    items_sealed: bool = False
    """Read back without its items, some of which are unknown."""
    job: ev.JobReference | None = None
    consistency: Mapping[str, Any] | str | None = None
    redirect: ev.Redirect | None = None
    settlement: ev.OutcomeSettled | None = None
    settlement_record: int | None = None
    looked: Look | None = None
    disputed: bool = False
    # delivery
    delivery: str | None = None
    expired: bool = False
    released: tuple[str, ...] = ()
    """Sessions beside the asking one that the operator let read the result."""

    @property
    def dispatched(self) -> bool:
        """Whether a dispatch record exists. From then on the outcome never is `not_attempted` again (R24)."""
        return self.dispatch_record is not None

    @property
    def finished(self) -> bool:
        return self.state not in OPEN_STATES

    @property
    def is_job(self) -> bool:
        """A job that was accepted: followed by look-ups, never dispatched itself (R7)."""
        return Kind.JOB_OPENED in self.seen

    @property
    def has_unknown_items(self) -> bool:
        """Whether any item of a batch is unknown, whatever became of the batch (R28)."""
        return self.items_sealed or any(item.outcome is Outcome.UNKNOWN for item in self.items or ())

    @property
    def known_idempotent(self) -> bool:
        """As `verdicts` defines it, the assumption of `default.read` included. A name or condition the caller gives
        is known-idempotent by the contract's word."""
        return self.idempotent in ("true", "assumed", "name", "if-match", "if-none-match")


def apply(
    before: Invocation | None, event: ev.Event, *, invocation_id: InvocationId, seq: int, at: Micros
) -> Invocation:
    """The invocation after `event`, which record `seq` holds. Raises IllegalMove; `before` is never changed."""
    kind = event.kind
    state = before.state if before is not None else None
    after = MOVES.get((state, kind))
    if after is None:
        raise IllegalMove(f"{kind} does not follow {state or 'nothing'}")
    if before is None:
        return _first(event, invocation_id, seq, at)
    _guard(before, event)
    if isinstance(event, ev.OutcomeSettled) and event.item is not None:
        after = before.state  # an item's outcome says nothing of the batch's own
    changes = {"state": after, "seen": before.seen | {kind}, **_changes(before, event, seq, at)}
    if kind in _CONFIRMING:
        changes["last"] = Confirmed(kind.lower(), at, seq)
    return _changed(before, changes)


def _changed(before: Invocation, changes: Mapping[str, Any]) -> Invocation:
    """What `dataclasses.replace` does, which over so many fields would be the greater part of what a record costs."""
    if not changes.keys() <= before.__dict__.keys():
        raise TypeError("an invocation has no such field")
    after = object.__new__(Invocation)
    after.__dict__.update(before.__dict__, **changes)
    return after


_CONFIRMING = frozenset(
    {
        Kind.PREFLIGHT_VALIDATED,
        Kind.APPROVAL_DECIDED,
        Kind.CREDENTIAL_AUTHORIZED,
        Kind.DISPATCH_STARTED,
        Kind.REQUEST_SENT,
        Kind.REMOTE_RESPONSE_STARTED,
        Kind.REMOTE_RESPONSE_COMPLETE,
        Kind.RESULT_COMMITTED,
        Kind.OUTCOME_SETTLED,
        Kind.RESULT_DELIVERED,
    }
)


def _first(event: ev.Event, invocation_id: InvocationId, seq: int, at: Micros) -> Invocation:
    if isinstance(event, ev.JobOpened):
        return Invocation(
            invocation_id=invocation_id,
            state=State.OPEN,
            accepted_at=at,
            accepted_record=seq,
            phase=Phase.REMOTE_EXECUTION,
            outcome=Outcome.UNKNOWN,
            code=Code.IN_PROGRESS,
            retry=Retry.FETCH_RESULT,
            session_id=event.session,
            program=event.program,
            agent=event.agent,
            operation_id=OperationId(event.operation_id),
            correlation_id=event.correlation_id,
            refers_to=event.refers_to,
            target={"kind": "http", "method": "GET", "url": event.status_url},
            title=event.title,
            contract_id=event.contract_id,
            contract_digest=event.contract_digest,
            lookup={"method": "GET", "url": event.status_url},
            has_lookup=True,
            job=ev.JobReference(event.job_id, event.status_url, event.operation_id, invocation_id),
            source=Source.REMOTE_RESPONSE,
            dispatch_record=event.acceptance,
            dispatched_at=at,
            recovery_deadline=event.recovery_deadline,
            seen=frozenset({Kind.JOB_OPENED}),
            last=Confirmed("job_opened", at, seq),
        )
    assert isinstance(event, ev.ActionAccepted)
    return Invocation(
        invocation_id=invocation_id,
        state=State.ACCEPTED,
        accepted_at=at,
        accepted_record=seq,
        phase=Phase.VALIDATION,
        outcome=Outcome.NOT_ATTEMPTED,
        code=Code.IN_PROGRESS,
        retry=Retry.FETCH_RESULT,
        session_id=event.session,
        program=event.program,
        agent=event.agent,
        operation_id=OperationId(event.operation_id) if event.operation_id else None,
        correlation_id=event.correlation_id,
        request_fingerprint=event.request_fingerprint,
        asked=event.asked,
        reason=event.reason,
        retry_of=event.retry_of,
        refers_to=event.refers_to,
        seen=frozenset({Kind.ACTION_ACCEPTED}),
        last=Confirmed("action_accepted", at, seq),
    )


def _guard(before: Invocation, event: ev.Event) -> None:
    """The conditions that the table's words add to its rows."""
    kind = event.kind
    if kind in ONCE and kind in before.seen:
        raise IllegalMove(f"{kind} a second time")
    match event:
        case ev.CredentialAuthorized():
            if not (before.partial or (before.approval is not None and before.approval.approved)):
                raise IllegalMove("CREDENTIAL_AUTHORIZED without an approval")
        case ev.ResultCommitted():
            if Kind.REMOTE_RESPONSE_COMPLETE not in before.seen:
                raise IllegalMove("RESULT_COMMITTED without REMOTE_RESPONSE_COMPLETE")
            _guard_definite(event.outcome)
        case ev.OutcomeSettled() if event.item is not None:
            _guard_definite(event.outcome)
            _guard_item(before, event)
        case ev.OutcomeSettled():
            _guard_definite(event.outcome)
            if before.state is State.OPEN and Kind.JOB_OPENED not in before.seen:
                raise IllegalMove("OUTCOME_SETTLED of an open action that is no job")
            if before.state is State.SETTLED:
                _guard_correction(before, event)
            else:
                _guard_first(event)
        case ev.LookedUp():
            if before.state is State.OPEN and Kind.JOB_OPENED not in before.seen:
                raise IllegalMove("LOOKED_UP of an open action that is no job")
        case ev.LeaseTaken():
            if event.generation <= before.generation:
                raise IllegalMove("LEASE_TAKEN by a generation that is not higher")
        case _:
            pass


def _guard_definite(outcome: Outcome) -> None:
    if outcome not in (Outcome.COMMITTED, Outcome.REJECTED):
        raise IllegalMove(f"settled as {outcome}")


def _guard_first(event: ev.OutcomeSettled) -> None:
    """What is unknown was attested by no record that could be named."""
    if event.supersedes is not None:
        raise IllegalMove("there is no attestation to supersede")


def _guard_correction(before: Invocation, event: ev.OutcomeSettled) -> None:
    """Only what was attested may move, by a stronger source or by an attestation that names the first (section 5)."""
    if before.source is not Source.OPERATOR_ATTESTED:
        raise IllegalMove("a settled outcome is not undone")
    stronger = STRENGTH[event.source] > STRENGTH[Source.OPERATOR_ATTESTED]
    if not stronger and event.supersedes != before.settlement_record:
        raise IllegalMove("a second attestation names the first")


def _guard_item(before: Invocation, event: ev.OutcomeSettled) -> None:
    """An item is settled apart where it is unknown; what was attested of it may be corrected, as above."""
    item = next((i for i in before.items or () if i.key == event.item), None)
    if item is None or before.state is State.OPEN:
        raise IllegalMove("there is no such item")
    if item.outcome is Outcome.UNKNOWN:
        _guard_first(event)
        return
    if item.source is not Source.OPERATOR_ATTESTED:
        raise IllegalMove("a settled item is not undone")
    if STRENGTH[event.source] <= STRENGTH[Source.OPERATOR_ATTESTED] and event.supersedes != item.record:
        raise IllegalMove("a second attestation names the first")


def _changes(before: Invocation, event: ev.Event, seq: int, at: Micros) -> dict[str, Any]:
    match event:
        case ev.PreflightValidated():
            return {
                "phase": Phase.CREDENTIAL_INJECTION,
                "target": event.target,
                "title": event.title,
                "effect": event.effect,
                "idempotent": event.idempotent,
                "contract_id": event.contract_id,
                "contract_digest": event.contract_digest,
                "effect_digest": event.effect_digest,
                "fingerprint": event.fingerprint,
                "mode": event.mode,
                "answers": event.answers,
                "credential_id": event.credential_id,
                "credential_name": event.credential_name,
                "credential_version": event.credential_version,
                "injection": event.injection,
                "key": event.key,
                "key_scope": event.key_scope,
                "key_retention_s": event.key_retention_s,
                "attempts_limit": event.attempts_limit,
                "lookup": event.lookup,
                "has_lookup": event.lookup is not None,
                "spool": event.spool,
                "item_keys": event.items,
            }
        case ev.CardOpened():
            return {"code": Code.AWAITING_APPROVAL, "fingerprint": event.fingerprint}
        case ev.ApprovalDecided():
            return {"code": Code.IN_PROGRESS, "approval": event, "approval_record": seq, "approved_at": at}
        case ev.CredentialAuthorized():
            return {"phase": Phase.CONNECTION_SETUP}
        case ev.SetupAttempted():
            return {} if event.identity is not None else {"attempts": (*before.attempts, event)}
        case ev.ActionStopped():
            return {
                "phase": event.phase,
                "outcome": Outcome.NOT_ATTEMPTED,
                "code": event.code,
                "retry": event.retry,
                "field": event.field,
                "needs": event.needs,
                "refers_to": event.refers_to or before.refers_to,
                "message": event.message,
                "settled_at": at,
            }
        case ev.DispatchStarted():
            return {
                "phase": Phase.REMOTE_EXECUTION,
                "outcome": Outcome.UNKNOWN,
                "code": Code.IN_PROGRESS,
                "source": Source.TRANSPORT_OBSERVED,
                "dispatch_record": seq,
                "dispatched_at": at,
                "attempt": event.attempt,
                "generation": event.generation,
                "connection": event.connection,
                "request_deadline": event.request_deadline,
                "recovery_deadline": event.recovery_deadline,
                "window_open_until": event.window_open_until,
                "boot": event.boot,
                "boot_id": event.boot_id,
            }
        case ev.RequestSent():
            return {"bytes_sent": event.sent, "stdin": event.stdin or before.stdin}
        case ev.RemoteResponseStarted():
            return {"status": event.status}
        case ev.CancelAsked():
            return {"cancel_asked": True}
        case ev.CallerGone():
            return {"caller_gone": True}
        case ev.RemoteResponseComplete():
            return {
                "completion": event.completion,
                "status": event.status,
                "headers": event.headers,
                "remote_request_id": event.remote_request_id,
                "response_sha256": event.sha256,
                "exit_status": event.exit_status,
                "exit_signal": event.exit_signal,
                "stdin": event.stdin or before.stdin,
            }
        case ev.ResultCommitted():
            return {
                "outcome": event.outcome,
                "code": event.code,
                "retry": event.retry,
                "source": event.source,
                "body": event.body,
                "stderr": event.stderr,
                "diagnostic": event.diagnostic,
                "needs": event.needs,
                "hop": event.hop,
                "retry_after_s": event.retry_after_s,
                "items": event.items,
                "job": event.job,
                "consistency": event.consistency,
                "redirect": event.redirect,
                "result_record": seq,
                "settled_at": at,
            }
        case ev.OutcomeUnknown():
            return {
                "phase": Phase.RESULT_DELIVERY if event.code is Code.RESULT_STORAGE_FAILED else Phase.REMOTE_EXECUTION,
                "outcome": Outcome.UNKNOWN,
                "code": event.code,
                "retry": event.retry,
                "source": event.source,
                "observation": event.observation,
                "diagnostic": event.diagnostic,
                "body": event.body,
                "hop": event.hop,
                "retry_after_s": event.retry_after_s,
                "message": event.message,
                "stdin": event.stdin or before.stdin,
                "items": _all_unknown(before),
            }
        case ev.OutcomeSettled() if event.item is not None:
            return {"items": _item_settled(before, event, seq)}
        case ev.OutcomeSettled():
            return _settled(before, event, seq, at)
        case ev.OutcomeDisputed():
            return {"disputed": True}
        case ev.LeaseTaken():
            return {"generation": event.generation, "lease": event}
        case ev.ResultDelivered():
            return {"delivery": "acknowledged"}
        case ev.DeliveryFailed():
            return {} if before.delivery == "acknowledged" else {"delivery": "failed"}
        case ev.ResultExpired():
            return {"expired": True}
        case ev.ResultReleased():
            return {"released": (*before.released, event.session)}
        case ev.LookedUp():
            return {"looked": Look(event.invocation, at, seq, event.answer, event.worth, event.state)}
        case ev.ActionAccepted() | ev.JobOpened():
            raise IllegalMove(f"{event.kind} a second time")
        case _:
            assert_never(event)


def _settled(before: Invocation, event: ev.OutcomeSettled, seq: int, at: Micros) -> dict[str, Any]:
    changes: dict[str, Any] = {
        "phase": Phase.REMOTE_EXECUTION,
        "outcome": event.outcome,
        "code": event.code,
        "retry": event.retry,
        "source": event.source,
        "needs": event.needs,
        "settled_at": at,
        "settlement": event,
        "settlement_record": seq,
        "message": None,
    }
    if event.source is Source.REMOTE_RESPONSE:
        changes |= {
            "body": event.body,
            "stderr": event.stderr,
            "exit_status": event.exit_status,
            "exit_signal": event.exit_signal,
            "stdin": event.stdin or before.stdin,
            "completion": event.completion,
            "status": event.status,
            "headers": event.headers,
            "remote_request_id": event.remote_request_id,
            "response_sha256": f"sha256:{event.body.sha256}" if event.body else None,
            "hop": event.hop,
            "retry_after_s": event.retry_after_s,
            "items": event.items,
            "job": event.job,
            "consistency": event.consistency,
            "diagnostic": event.diagnostic,
            "result_record": seq,
        }
    elif before.items is not None:
        changes["items"] = tuple(
            replace(i, outcome=event.outcome, evidence="settled with the batch", source=event.source, record=seq)
            if i.outcome is Outcome.UNKNOWN
            else i
            for i in before.items
        )
    if event.lookup is not None:
        changes["looked"] = Look(event.lookup, at, seq, event.answer or "", "settles", event.state)
    return changes


def _all_unknown(before: Invocation) -> tuple[ev.Item, ...] | None:
    """A cut answer makes every item of a batch unknown with it (R28)."""
    if before.item_keys is None:
        return None
    return tuple(ev.Item(key, Outcome.UNKNOWN, "no complete answer speaks of it") for key in before.item_keys)


def _item_settled(before: Invocation, event: ev.OutcomeSettled, seq: int) -> tuple[ev.Item, ...]:
    return tuple(
        replace(i, outcome=event.outcome, evidence=event.note, source=event.source, record=seq)
        if i.key == event.item
        else i
        for i in before.items or ()
    )


# ---------------------------------------------------------------------------------------------------------------------
# Verdicts


@dataclass(frozen=True, slots=True)
class Verdict:
    """What evidence proves. `retry` is the stored word; see the module's head for `same_idempotency_key`."""

    phase: Phase
    outcome: Outcome
    code: Code
    retry: Retry
    needs: str | None = None
    hop: str | None = None
    observation: str | None = None
    message: str | None = None
    """A key of `sentences` where a code has more than one sentence."""


@dataclass(frozen=True, slots=True)
class Meaning:
    """What the bound contract says that the tables ask for."""

    idempotent: bool
    """Known idempotent, the assumption included."""
    keyed: bool
    """A configured idempotency key went out."""
    refused: frozenset[int] = frozenset()
    """Statuses that this target sends before any work."""
    trusted_gateway: bool = False
    receipt: str | None = None
    """A header, in lower case, whose presence on a complete 2xx head is the target's receipt."""


# -- before dispatch, outside set-up (section 1): code -> (phase or None for the phase reached, retry, needs)

STOP_ROWS: dict[Code, tuple[Phase | None, Retry, str | None]] = {
    Code.INVALID_REQUEST: (Phase.VALIDATION, Retry.AFTER_CORRECTION, None),
    Code.INVALID_TARGET: (Phase.VALIDATION, Retry.AFTER_CORRECTION, None),
    Code.UNSUPPORTED_ACTION: (Phase.VALIDATION, Retry.AFTER_CORRECTION, None),
    Code.PAYLOAD_LIMIT: (Phase.VALIDATION, Retry.AFTER_CORRECTION, None),
    Code.HEADER_FORBIDDEN: (Phase.VALIDATION, Retry.AFTER_CORRECTION, None),
    Code.CREDENTIAL_UNKNOWN: (Phase.VALIDATION, Retry.AFTER_CORRECTION, None),
    Code.CREDENTIAL_OUT_OF_SCOPE: (Phase.VALIDATION, Retry.AFTER_CORRECTION, None),
    Code.TARGET_BLOCKED: (Phase.VALIDATION, Retry.AFTER_CORRECTION, None),
    Code.IDEMPOTENCY_MISMATCH: (Phase.VALIDATION, Retry.AFTER_CORRECTION, None),
    Code.UNRESOLVED_DUPLICATE: (Phase.VALIDATION, Retry.RECONCILE, None),
    Code.NO_IDEMPOTENCY_CONTRACT: (Phase.VALIDATION, Retry.AFTER_CORRECTION, None),
    Code.REQUEST_LOOP: (Phase.VALIDATION, Retry.NEVER, None),
    Code.BUSY: (Phase.VALIDATION, Retry.BACKOFF, None),
    Code.FINGERPRINT_CHANGED: (Phase.VALIDATION, Retry.AFTER_CORRECTION, None),
    Code.VAULT_LOCKED: (Phase.CREDENTIAL_INJECTION, Retry.AFTER_CORRECTION, "operator_unlock"),
    Code.VAULT_QUARANTINED: (Phase.CREDENTIAL_INJECTION, Retry.AFTER_CORRECTION, "operator_review"),
    Code.APPROVAL_DENIED: (Phase.CREDENTIAL_INJECTION, Retry.NEVER, None),
    Code.APPROVAL_EXPIRED: (Phase.CREDENTIAL_INJECTION, Retry.BACKOFF, None),
    Code.APPROVAL_UNAVAILABLE: (Phase.CREDENTIAL_INJECTION, Retry.AFTER_CORRECTION, None),
    Code.CALLER_CANCELLED: (None, Retry.NEVER, None),
    Code.LEASE_LOST: (None, Retry.FETCH_RESULT, None),
    Code.CREDENTIAL_MISSING: (Phase.CREDENTIAL_INJECTION, Retry.AFTER_CORRECTION, None),
    Code.INJECTION_UNSUPPORTED: (Phase.CREDENTIAL_INJECTION, Retry.AFTER_CORRECTION, None),
    Code.KEY_UNUSABLE: (Phase.CREDENTIAL_INJECTION, Retry.AFTER_CORRECTION, None),
    Code.TOKEN_UNAVAILABLE: (Phase.CREDENTIAL_INJECTION, Retry.BACKOFF, None),
    Code.JOURNAL_UNAVAILABLE: (None, Retry.AFTER_CORRECTION, None),
    Code.BROKER_RESTARTED: (None, Retry.BACKOFF, None),
}

PHASE_REACHED = {
    State.ACCEPTED: Phase.VALIDATION,
    State.VALIDATED: Phase.CREDENTIAL_INJECTION,
    State.AUTHORISED: Phase.CONNECTION_SETUP,
}
"""Where an invocation stands that was not dispatched; awaiting a person is credential_injection."""


def stop(code: Code, reached: Phase, *, retry: Retry | None = None) -> Verdict:
    """The verdict of an action that ends before the line for another reason than set-up.

    `retry` only for rows with two: UNRESOLVED_DUPLICATE of an open action, TOKEN_UNAVAILABLE after a 4xx.
    """
    phase, advised, needs = STOP_ROWS[code]
    return Verdict(phase or reached, Outcome.NOT_ATTEMPTED, code, retry or advised, needs=needs)


# -- set-up (section 1): (stage or None for any, fault) -> (code, retry)

SETUP_ROWS: dict[tuple[Stage | None, SetupFault], tuple[Code, Retry]] = {
    (Stage.DNS, SetupFault.NOT_FOUND): (Code.DNS_FAILED, Retry.AFTER_CORRECTION),
    (Stage.DNS, SetupFault.TEMPORARY): (Code.DNS_FAILED, Retry.BACKOFF),
    (Stage.DNS, SetupFault.LIMIT): (Code.DNS_FAILED, Retry.BACKOFF),
    (Stage.PROXY_TUNNEL, SetupFault.LIMIT): (Code.PROXY_FAILED, Retry.BACKOFF),
    (Stage.PROXY_TUNNEL, SetupFault.REFUSED): (Code.PROXY_FAILED, Retry.BACKOFF),
    (Stage.PROXY_TUNNEL, SetupFault.HANDSHAKE): (Code.PROXY_FAILED, Retry.BACKOFF),
    (Stage.PROXY_TUNNEL, SetupFault.CERTIFICATE): (Code.PROXY_FAILED, Retry.AFTER_CORRECTION),
    (Stage.PROXY_TUNNEL, SetupFault.CLIENT_CERTIFICATE): (Code.PROXY_FAILED, Retry.AFTER_CORRECTION),
    (None, SetupFault.PROXY_UNREACHABLE): (Code.PROXY_FAILED, Retry.BACKOFF),
    (None, SetupFault.PROXY_GARBLED): (Code.PROXY_FAILED, Retry.BACKOFF),
    (None, SetupFault.PROXY_ERROR): (Code.PROXY_FAILED, Retry.BACKOFF),
    (None, SetupFault.PROXY_REFUSED): (Code.PROXY_FAILED, Retry.AFTER_CORRECTION),
    (None, SetupFault.BLOCKED): (Code.TARGET_BLOCKED, Retry.AFTER_CORRECTION),
    (None, SetupFault.DEADLINE): (Code.CONNECT_TIMEOUT, Retry.BACKOFF),
    (Stage.TCP_CONNECT, SetupFault.LIMIT): (Code.CONNECT_TIMEOUT, Retry.BACKOFF),
    (Stage.TCP_CONNECT, SetupFault.REFUSED): (Code.CONNECT_FAILED, Retry.BACKOFF),
    (Stage.TLS_HANDSHAKE, SetupFault.LIMIT): (Code.TLS_FAILED, Retry.BACKOFF),
    (Stage.TLS_HANDSHAKE, SetupFault.HANDSHAKE): (Code.TLS_FAILED, Retry.BACKOFF),
    (Stage.TLS_HANDSHAKE, SetupFault.REFUSED): (Code.TLS_FAILED, Retry.BACKOFF),
    (None, SetupFault.CERTIFICATE): (Code.CERT_INVALID, Retry.AFTER_CORRECTION),
    (None, SetupFault.CLIENT_CERTIFICATE): (Code.TLS_FAILED, Retry.AFTER_CORRECTION),
    (None, SetupFault.REFUSED): (Code.CONNECT_FAILED, Retry.BACKOFF),
    **{
        (stage, fault): (Code.SSH_TRANSPORT_FAILED, Retry.BACKOFF)
        for stage in (Stage.SSH_VERSION, Stage.SSH_KEX, Stage.SSH_AUTH, Stage.SSH_CHANNEL, Stage.SSH_ENVIRONMENT)
        for fault in (SetupFault.REFUSED, SetupFault.LIMIT, SetupFault.GARBLED)
    },
    (None, SetupFault.INCOMPATIBLE): (Code.SSH_TRANSPORT_FAILED, Retry.AFTER_CORRECTION),
    (None, SetupFault.HOST_KEY_UNKNOWN): (Code.HOST_KEY_UNKNOWN, Retry.AFTER_CORRECTION),
    (None, SetupFault.HOST_KEY_DIFFERS): (Code.HOST_KEY_MISMATCH, Retry.AFTER_CORRECTION),
    (None, SetupFault.AUTH_REFUSED): (Code.SSH_AUTH_FAILED, Retry.AFTER_CORRECTION),
    (None, SetupFault.AUTH_PARTIAL): (Code.SSH_AUTH_FAILED, Retry.AFTER_CORRECTION),
    (Stage.SSH_AUTH, SetupFault.LIMIT): (Code.SSH_AUTH_FAILED, Retry.BACKOFF),
    (None, SetupFault.CHANNEL_SHORTAGE): (Code.SSH_CHANNEL_REFUSED, Retry.BACKOFF),
    (None, SetupFault.CHANNEL_PROHIBITED): (Code.SSH_CHANNEL_REFUSED, Retry.AFTER_CORRECTION),
    (Stage.SSH_CHANNEL, SetupFault.LIMIT): (Code.SSH_CHANNEL_REFUSED, Retry.BACKOFF),
    (None, SetupFault.VARIABLE_REFUSED): (Code.SSH_ENV_REFUSED, Retry.AFTER_CORRECTION),
}


def setup_verdict(stopped: SetupStop) -> Verdict:
    """The verdict of a set-up try that stopped short. Raises KeyError for evidence that no row names."""
    row = SETUP_ROWS.get((stopped.stage, stopped.fault)) or SETUP_ROWS[(None, stopped.fault)]
    code, retry = row
    return Verdict(Phase.CONNECTION_SETUP, Outcome.NOT_ATTEMPTED, code, retry)


def setup_may_repeat(verdict: Verdict) -> bool:
    """Whether set-up may be tried again inside the same invocation (section 1, last line)."""
    return (
        verdict.phase is Phase.CONNECTION_SETUP
        and verdict.retry is Retry.BACKOFF
        and verdict.code not in (Code.SSH_AUTH_FAILED, Code.BROKER_RESTARTED)
    )


# -- after dispatch (sections 2 and 3)


def advice_unknown(meaning: Meaning) -> Retry:
    """`advice(unknown)`: known idempotent -> backoff; a key -> same key (while its window is open); else reconcile."""
    return Retry.BACKOFF if meaning.idempotent else _key_or_reconcile(meaning)


def _key_or_reconcile(meaning: Meaning) -> Retry:
    return Retry.SAME_IDEMPOTENCY_KEY if meaning.keyed else Retry.RECONCILE


GATEWAY_STATUSES = frozenset({502, 504, *range(520, 528), 530})

NEVER_FORWARDED = {
    "dns_error": Retry.BACKOFF,
    "dns_timeout": Retry.BACKOFF,
    "destination_not_found": Retry.AFTER_CORRECTION,
    "destination_unavailable": Retry.BACKOFF,
    "destination_ip_prohibited": Retry.AFTER_CORRECTION,
    "destination_ip_unroutable": Retry.BACKOFF,
    "connection_refused": Retry.BACKOFF,
    "connection_limit_reached": Retry.BACKOFF,
}
"""Proxy-Status errors (RFC 9209, 2.3) that say the request was never forwarded. Proof only of a trusted hop."""


@dataclass(frozen=True, slots=True)
class StatusRow:
    """One row of the status table: retry if known idempotent, and otherwise (None: the key, else reconcile)."""

    outcome: Outcome
    code: Code
    idempotent: Retry
    otherwise: Retry | None
    needs: str | None = None


def _rejected(needs: str | None = None) -> StatusRow:
    return StatusRow(
        Outcome.REJECTED, Code.REMOTE_REJECTED, Retry.AFTER_CORRECTION, Retry.AFTER_CORRECTION, needs=needs
    )


STATUS_ROWS: dict[int, StatusRow] = {
    202: StatusRow(Outcome.COMMITTED, Code.JOB_ACCEPTED, Retry.NEVER, Retry.NEVER),
    **{
        status: _rejected()
        for status in (400, 404, 405, 406, 410, 411, 413, 414, 415, 416, 417, 422, 424, 426, 428, 431, 451, 501, 505)
    },
    401: _rejected("credential"),
    402: _rejected("payment"),
    403: _rejected("permission"),
    407: _rejected("proxy_credential"),
    511: _rejected("network_login"),
    408: StatusRow(Outcome.REJECTED, Code.REMOTE_REJECTED, Retry.BACKOFF, Retry.RECONCILE),
    421: StatusRow(Outcome.REJECTED, Code.REMOTE_REJECTED, Retry.BACKOFF, Retry.BACKOFF),
    425: StatusRow(Outcome.REJECTED, Code.REMOTE_REJECTED, Retry.BACKOFF, Retry.BACKOFF),
    **{status: _rejected() for status in (409, 412, 423)},
    429: StatusRow(Outcome.REJECTED, Code.REMOTE_RATE_LIMITED, Retry.BACKOFF, None),
    503: StatusRow(Outcome.COMMITTED, Code.REMOTE_UNAVAILABLE, Retry.BACKOFF, Retry.RECONCILE),
}

CLASS_ROWS: dict[int, StatusRow] = {
    2: StatusRow(Outcome.COMMITTED, Code.REMOTE_RESULT, Retry.NEVER, Retry.NEVER),
    3: StatusRow(Outcome.COMMITTED, Code.REMOTE_RESULT, Retry.NEVER, Retry.NEVER),
    4: _rejected(),
    5: StatusRow(Outcome.COMMITTED, Code.REMOTE_RESULT, Retry.BACKOFF, Retry.RECONCILE),
}
"""By the status's first digit, where `STATUS_ROWS` has no row of its own."""


def status_verdict(status: int, headers: Mapping[str, str], meaning: Meaning) -> Verdict:
    """The verdict of a complete authentic answer by its status (section 3), 200-599."""
    if status in GATEWAY_STATUSES:
        return _gateway_verdict(status, headers, meaning)
    row = STATUS_ROWS.get(status) or CLASS_ROWS[status // 100]
    outcome, code = row.outcome, row.code
    retry = row.idempotent if meaning.idempotent else row.otherwise or _key_or_reconcile(meaning)
    if status // 100 == 3 and status != 304 and "location" in headers:
        code = Code.REDIRECT_NOT_FOLLOWED
    if status in meaning.refused and status in (429, 503):
        retry = Retry.BACKOFF
    elif status in meaning.refused and status // 100 == 5:
        outcome, code, retry = Outcome.REJECTED, Code.REMOTE_REJECTED, Retry.BACKOFF
    if status == 503 and (meaning.idempotent or status in meaning.refused):
        outcome = Outcome.REJECTED
    return Verdict(Phase.REMOTE_EXECUTION, outcome, code, retry, needs=row.needs)


def _gateway_verdict(status: int, headers: Mapping[str, str], meaning: Meaning) -> Verdict:
    error = error_of_next_hop(headers.get("proxy-status", ""))
    if meaning.trusted_gateway and status in (502, 504) and error in NEVER_FORWARDED:
        return Verdict(
            Phase.REMOTE_EXECUTION, Outcome.REJECTED, Code.GATEWAY_REFUSED, NEVER_FORWARDED[error], hop="proxy"
        )
    return Verdict(
        Phase.REMOTE_EXECUTION,
        Outcome.UNKNOWN,
        Code.GATEWAY_UNCERTAIN,
        advice_unknown(meaning),
        hop="gateway",
        observation=f"a gateway answered {status}",
    )


def _unknown(code: Code, meaning: Meaning, observation: str | None, message: str | None = None) -> Verdict:
    return Verdict(
        Phase.REMOTE_EXECUTION,
        Outcome.UNKNOWN,
        code,
        advice_unknown(meaning),
        observation=observation or "nothing more was observed",
        message=message,
    )


def http_verdict(evidence: HttpEvidence, meaning: Meaning) -> Verdict:
    """The verdict of an exchange that crossed the line and has ended: a complete answer, or a fault."""
    assert evidence.crossed
    if evidence.complete and evidence.status is not None:
        if evidence.answer_before_request:
            return _unknown(
                Code.REMOTE_OUTCOME_UNKNOWN, meaning, "an answer was there before the request", "answer_before_request"
            )
        if evidence.early and evidence.status // 100 != 4:
            return _unknown(
                Code.REMOTE_OUTCOME_UNKNOWN,
                meaning,
                f"answered {evidence.status} before the request was whole",
                "answer_before_whole",
            )
        return status_verdict(evidence.status, joined(evidence.headers), meaning)
    if _receipted(evidence, meaning):
        return _RECEIPTED
    malformed = evidence.fault in (Fault.MALFORMED, Fault.UPGRADE, Fault.FRAMING)
    if malformed or evidence.status_line or evidence.anything_final:
        return _unknown(Code.REMOTE_RESULT_INCOMPLETE, meaning, evidence.observation)
    return _unknown(Code.REMOTE_OUTCOME_UNKNOWN, meaning, evidence.observation)


def deadline_verdict(evidence: HttpEvidence, meaning: Meaning, *, caller_gone: bool) -> Verdict:
    """The verdict at the action's deadline while the exchange still runs (section 2)."""
    if evidence.complete or evidence.fault is not None:
        return http_verdict(evidence, meaning)
    if _receipted(evidence, meaning):
        return _RECEIPTED
    if evidence.status_line:
        return _unknown(Code.REMOTE_RESULT_INCOMPLETE, meaning, "the answer was not whole at the deadline")
    if caller_gone and not evidence.anything_final:
        return _unknown(Code.CALLER_CANCELLED, meaning, "the caller ended; no answer by the deadline", "caller_ended")
    return _unknown(Code.REMOTE_DEADLINE, meaning, "no answer by the deadline")


# -- what a contract reads from a complete answer (section 3, below the table; section 2, last row)


def said_verdict(verdict: Verdict, said: Outcome, meaning: Meaning) -> Verdict:
    """The status table's verdict where the answer itself says another outcome."""
    if said is Outcome.REJECTED and verdict.outcome is Outcome.REJECTED:
        return verdict
    match said:
        case Outcome.COMMITTED if verdict.code is Code.JOB_ACCEPTED:
            return verdict
        case Outcome.COMMITTED:
            return Verdict(Phase.REMOTE_EXECUTION, said, Code.REMOTE_RESULT, Retry.NEVER)
        case Outcome.REJECTED:
            return Verdict(Phase.REMOTE_EXECUTION, said, Code.REMOTE_REJECTED, Retry.AFTER_CORRECTION)
        case _:
            observation = "the answer says that part of it may have happened"
            return _unknown(Code.REMOTE_OUTCOME_UNKNOWN, meaning, observation, "part")


def unread_verdict(meaning: Meaning) -> Verdict:
    """The contract reads its verdict from a part of the answer that cannot be read."""
    observation = "the part of the answer that decides could not be read"
    return _unknown(Code.REMOTE_OUTCOME_UNKNOWN, meaning, observation, "unreadable")


def key_in_use_verdict(_status: int, _meaning: Meaning) -> Verdict:
    """It speaks about the repeat, not about the first dispatch under this key."""
    return Verdict(
        Phase.REMOTE_EXECUTION,
        Outcome.UNKNOWN,
        Code.REMOTE_IN_PROGRESS,
        Retry.SAME_IDEMPOTENCY_KEY,
        observation="the target says that the key is in use",
    )


def rate_limited_verdict(status: int, meaning: Meaning) -> Verdict:
    """The row of 429, in whatever status it is dressed."""
    verdict = status_verdict(429, {}, meaning)
    return replace(verdict, retry=Retry.BACKOFF) if status in meaning.refused else verdict


def job_accepted(verdict: Verdict) -> Verdict:
    """A committed answer that holds the contract's job pointer."""
    return replace(verdict, code=Code.JOB_ACCEPTED, retry=Retry.NEVER)


def job_overdue() -> Verdict:
    """A job that had not ended by its recovery deadline (R7)."""
    return Verdict(
        Phase.REMOTE_EXECUTION,
        Outcome.UNKNOWN,
        Code.REMOTE_DEADLINE,
        Retry.RECONCILE,
        observation="the job had not ended by its recovery deadline",
        message="job",
    )


@dataclass(frozen=True, slots=True)
class ExitMeaning:
    """What the bound contract says of one exit status (`verdict.exit`)."""

    outcome: Outcome
    """Committed or rejected."""
    retry: Retry | None = None


def ssh_verdict(
    evidence: SshEvidence, meaning: Meaning, exits: Mapping[int, ExitMeaning], *, marked: bool = False
) -> Verdict:
    """The verdict of a command that crossed the line and whose exchange has ended. `exits`: by exit status.

    `marked`: the last line of standard output is the marker of the contract's `completion` (R37). An exit status or
    signal says more than it, and a contradiction voids it too.
    """
    assert evidence.crossed
    if evidence.violation is not None:
        return _unknown(Code.REMOTE_RESULT_INCOMPLETE, meaning, evidence.violation)
    if evidence.exec_refused and evidence.complete:
        return Verdict(Phase.REMOTE_EXECUTION, Outcome.REJECTED, Code.SSH_EXEC_REFUSED, Retry.AFTER_CORRECTION)
    if not evidence.exited and marked:
        code = Code.REMOTE_RESULT if evidence.eof else Code.REMOTE_RESULT_INCOMPLETE
        return Verdict(Phase.REMOTE_EXECUTION, Outcome.COMMITTED, code, Retry.NEVER)
    if not evidence.exited:
        return _unknown(Code.REMOTE_RESULT_INCOMPLETE, meaning, evidence.observation)
    if not evidence.complete:
        retry = _exit_retry(evidence, meaning, zero=Retry.BACKOFF if meaning.idempotent else Retry.NEVER)
        return Verdict(
            Phase.REMOTE_EXECUTION,
            Outcome.COMMITTED,
            Code.REMOTE_RESULT_INCOMPLETE,
            retry,
            observation=evidence.observation or "the output was not whole at the deadline",
        )
    retry = _exit_retry(evidence, meaning, zero=Retry.NEVER)
    said = exits.get(evidence.exit_status) if evidence.exit_status is not None else None
    if said is None:
        return Verdict(Phase.REMOTE_EXECUTION, Outcome.COMMITTED, Code.REMOTE_RESULT, retry)
    if said.retry is not None and evidence.exit_status != 0:
        retry = said.retry
    code = Code.REMOTE_REJECTED if said.outcome is Outcome.REJECTED else Code.REMOTE_RESULT
    return Verdict(Phase.REMOTE_EXECUTION, said.outcome, code, retry)


def _exit_retry(evidence: SshEvidence, meaning: Meaning, *, zero: Retry) -> Retry:
    if evidence.exit_status == 0:
        return zero
    return Retry.BACKOFF if meaning.idempotent else Retry.RECONCILE


def ssh_deadline_verdict(
    evidence: SshEvidence,
    meaning: Meaning,
    exits: Mapping[int, ExitMeaning],
    *,
    caller_gone: bool,
    marked: bool = False,
) -> Verdict:
    """The verdict at the action's deadline while the exchange still runs (section 2).

    Committed where the exit result or the marker is known: nothing more is waited for then. Output is whole where both
    streams have ended, though CLOSE is still out.
    """
    if evidence.exited and evidence.eof:
        evidence = replace(evidence, complete=True)
    known = evidence.complete or evidence.exited or marked
    if known or evidence.fault is not None or evidence.violation is not None:
        return ssh_verdict(evidence, meaning, exits, marked=marked)
    if caller_gone and not evidence.answered:
        return _unknown(Code.CALLER_CANCELLED, meaning, "the caller ended; no answer by the deadline", "caller_ended")
    return _unknown(Code.REMOTE_DEADLINE, meaning, "the command had not ended by the deadline")


def ssh_completion(evidence: SshEvidence) -> str:
    """`completion` where the wire names none: an end by the marker, or output that was cut."""
    if evidence.exit_signal is not None:
        return "signal"
    if evidence.exit_status is not None:
        return "exit"
    if not evidence.eof:
        return MARKER
    return f"{MARKER}+eof+close" if evidence.closed else f"{MARKER}+eof"


MARKER = "marker"
"""Begins the `completion` of a command that ended by its contract's marker."""

RECEIPT = "receipt"
"""`completion` of an answer that its head settled and whose body broke off."""

CUT_SHORT = frozenset({RECEIPT, "exit", "signal", MARKER})
"""Each `completion` of an answer that is not whole, though it decided."""

_RECEIPTED = Verdict(
    Phase.REMOTE_EXECUTION, Outcome.COMMITTED, Code.REMOTE_RESULT_INCOMPLETE, Retry.NEVER, message="receipt"
)


def _receipted(evidence: HttpEvidence, meaning: Meaning) -> bool:
    """A complete 2xx head that carries the receipt of the contract's `completion` (section 2, last paragraph)."""
    return (
        meaning.receipt is not None
        and evidence.status is not None
        and evidence.status // 100 == 2
        and evidence.request_complete
        and not evidence.early
        and not evidence.answer_before_request
        and meaning.receipt in joined(evidence.headers)
    )


def unknown_event(verdict: Verdict, observed: str | None = None, **found: Any) -> ev.OutcomeUnknown:
    """The record of an unknown verdict. `observed`: by the wire, where the verdict says nothing of its own.

    `found`: what else the record holds.
    """
    return ev.OutcomeUnknown(
        code=verdict.code,
        retry=verdict.retry,
        source=Source.TRANSPORT_OBSERVED,
        observation=verdict.observation or observed or "nothing more was observed",
        hop=verdict.hop,
        message=verdict.message,
        **found,
    )


# -- settlement by later evidence (section 5); a late answer is judged as any answer is

SETTLEMENTS: dict[tuple[Source, Outcome], tuple[Code, Retry]] = {
    (Source.REMOTE_QUERY, Outcome.COMMITTED): (Code.SETTLED_BY_QUERY, Retry.NEVER),
    (Source.REMOTE_QUERY, Outcome.REJECTED): (Code.SETTLED_BY_QUERY, Retry.AFTER_CORRECTION),
    (Source.OPERATOR_ATTESTED, Outcome.COMMITTED): (Code.SETTLED_BY_OPERATOR, Retry.NEVER),
    (Source.OPERATOR_ATTESTED, Outcome.REJECTED): (Code.SETTLED_BY_OPERATOR, Retry.AFTER_CORRECTION),
}


def settlement(source: Source, outcome: Outcome, *, absent: bool = False) -> Verdict:
    """The verdict that a query or an attestation brings.

    `absent`: the query found nothing, which the contract takes for a refusal; a new invocation of the operation may
    follow.
    """
    code, retry = SETTLEMENTS[(source, outcome)]
    return Verdict(Phase.REMOTE_EXECUTION, outcome, code, Retry.BACKOFF if absent else retry)


# -- delivery (section 4); the outcome of what is recorded stays

RESULT_EXPIRED = (Phase.RESULT_DELIVERY, Code.RESULT_EXPIRED, Retry.NEVER)
RESULT_SEALED = (Phase.RESULT_DELIVERY, Code.RESULT_SEALED, Retry.FETCH_RESULT)
RESULT_LOST = (Phase.RESULT_DELIVERY, Code.RESULT_STORAGE_FAILED, Retry.RECONCILE)
RESULT_UNDELIVERED = (Phase.RESULT_DELIVERY, Code.RESULT_UNDELIVERED, Retry.FETCH_RESULT)


def storage_failed(observation: str) -> Verdict:
    """A complete answer came, and no record of it is durable."""
    phase, code, retry = RESULT_LOST
    return Verdict(phase, Outcome.UNKNOWN, code, retry, observation=observation)


def cancel_verdict(meaning: Meaning, *, signal_sent: bool | None = None) -> Verdict:
    """`action.cancel` after dispatch (R27): at once, whatever may still come. A signal that was sent proves nothing."""
    return _unknown(Code.CALLER_CANCELLED, meaning, f"the caller cancelled after dispatch{_SIGNALLED[signal_sent]}")


def job_left() -> Verdict:
    """`action.cancel` of a job: its caller does not wait for it; it is followed as before."""
    verdict = cancel_verdict(Meaning(idempotent=False, keyed=False))
    return replace(verdict, observation="the caller does not wait for the job")


_SIGNALLED = {None: "", True: "; the signal was sent", False: "; the command could not be sent the signal"}
"""By whether the signal that the cancel asked for could be sent."""


def joined(headers: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """Header pairs as an object: lower-case names, repeats joined (RFC 9110, 5.3)."""
    out: dict[str, str] = {}
    for name, value in headers:
        name = name.lower()
        out[name] = f"{out[name]}, {value}" if name in out else value
    return out
