"""The fold and the verdict tables: a test per row, and properties over all orders of events."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from affidavit.broker import events as ev
from affidavit.broker import outcome as oc
from affidavit.broker.outcome import IllegalMove, Invocation, Meaning, apply
from affidavit.broker.terms import (
    ApprovalMode,
    Code,
    Effect,
    InvocationId,
    Kind,
    Micros,
    Outcome,
    Phase,
    Retry,
    Source,
    Stage,
    State,
)
from affidavit.broker.wire.port import Connection, Fault, HttpEvidence, SetupFault, SetupStop

ACT = InvocationId("act_0")

ACCEPTED = ev.ActionAccepted(session="s-1", operation_id="op_1", request_fingerprint="sha256:aa")
VALIDATED = ev.PreflightValidated(
    target={"kind": "http", "method": "POST", "url": "https://api.example.com/"},
    effect=Effect.WRITE,
    idempotent="false",
    contract_id="default.write",
    contract_digest="sha256:cc",
    effect_digest="sha256:ee",
    fingerprint="sha256:ff",
    mode=ApprovalMode.ALWAYS,
    attempts_limit=3,
)
CARD = ev.CardOpened(fingerprint="sha256:ff", notices=(), ends_at=Micros(9))
APPROVED = ev.ApprovalDecided(approved=True, means="card", by="card", fingerprint="sha256:ff")
DENIED = ev.ApprovalDecided(approved=False, means=None, by=None, fingerprint="sha256:ff")
AUTHORIZED = ev.CredentialAuthorized()
TRIED = ev.SetupAttempted(n=1, reached="dns", stage="tcp_connect", code="ECONNREFUSED")
STOPPED = ev.ActionStopped(phase=Phase.CONNECTION_SETUP, code=Code.CONNECT_FAILED, retry=Retry.BACKOFF)
DISPATCHED = ev.DispatchStarted(
    fingerprint="sha256:ff",
    attempt=1,
    generation=0,
    connection={"id": "c-1"},
    request_deadline=Micros(30),
    recovery_deadline=Micros(60),
)
SENT = ev.RequestSent(sent=10)
HEAD = ev.RemoteResponseStarted(status=200)
CANCEL = ev.CancelAsked(session="s-1")
GONE = ev.CallerGone(session="s-1")
COMPLETE = ev.RemoteResponseComplete(completion="content-length", status=200, length=2, sha256="00")
COMMITTED = ev.ResultCommitted(outcome=Outcome.COMMITTED, code=Code.REMOTE_RESULT, retry=Retry.NEVER)
REJECTED = ev.ResultCommitted(outcome=Outcome.REJECTED, code=Code.REMOTE_REJECTED, retry=Retry.AFTER_CORRECTION)
UNKNOWN = ev.OutcomeUnknown(
    code=Code.REMOTE_OUTCOME_UNKNOWN, retry=Retry.RECONCILE, source=Source.TRANSPORT_OBSERVED, observation="closed"
)


def settled(source: Source, outcome: Outcome = Outcome.COMMITTED, supersedes: int | None = None) -> ev.OutcomeSettled:
    code = {
        Source.OPERATOR_ATTESTED: Code.SETTLED_BY_OPERATOR,
        Source.REMOTE_QUERY: Code.SETTLED_BY_QUERY,
        Source.REMOTE_RESPONSE: Code.REMOTE_RESULT,
    }[source]
    return ev.OutcomeSettled(outcome=outcome, code=code, retry=Retry.NEVER, source=source, supersedes=supersedes)


ATTESTED = settled(Source.OPERATOR_ATTESTED)
BY_QUERY = settled(Source.REMOTE_QUERY)
LATE = settled(Source.REMOTE_RESPONSE, Outcome.REJECTED)
ALL: list[ev.Event] = [
    ACCEPTED,
    VALIDATED,
    CARD,
    APPROVED,
    DENIED,
    AUTHORIZED,
    TRIED,
    STOPPED,
    DISPATCHED,
    SENT,
    HEAD,
    CANCEL,
    GONE,
    COMPLETE,
    COMMITTED,
    REJECTED,
    UNKNOWN,
    ATTESTED,
    BY_QUERY,
    LATE,
    ev.OutcomeDisputed(contradicts=1, what="another answer"),
    ev.LookedUp(invocation="act_9", answer="0 found", worth="proves nothing"),
    ev.JobOpened("op_2", "j", "https://api.example.com/jobs/j", 5, Micros(60), "act_1"),
    ev.LeaseTaken(generation=1, repeat="act_2", expires_at=Micros(60)),
    ev.ResultReleased(session="s-2", means="card", by="card"),
    ev.ResultDelivered(session="s-1", sha256="00"),
    ev.DeliveryFailed(session="s-1", how_far="0 bytes"),
    ev.ResultExpired(sha256="00", status=200),
]
TO_LINE = [ACCEPTED, VALIDATED, APPROVED, AUTHORIZED, DISPATCHED]


def fold(*events: ev.Event, start: Invocation | None = None) -> Invocation:
    inv = start
    for n, event in enumerate(events, start=1):
        inv = apply(inv, event, invocation_id=ACT, seq=n, at=Micros(n))
    assert inv is not None
    return inv


def test_every_kind_of_event_is_tried_here() -> None:
    assert {e.kind for e in ALL} == set(ev.EVENTS)


def test_the_way_to_a_result() -> None:
    inv = fold(*TO_LINE, SENT, HEAD, COMPLETE, COMMITTED)
    assert (inv.state, inv.outcome, inv.code) == (State.SETTLED, Outcome.COMMITTED, Code.REMOTE_RESULT)
    assert (inv.dispatch_record, inv.result_record, inv.phase) == (5, 9, Phase.REMOTE_EXECUTION)
    assert inv.last is not None
    assert (inv.last.stage, inv.last.record) == ("result_committed", 9)


def test_outcome_is_unknown_from_the_dispatch_record_on() -> None:
    assert fold(*TO_LINE[:-1]).outcome is Outcome.NOT_ATTEMPTED
    inv = fold(*TO_LINE)
    assert (inv.outcome, inv.state, inv.source) == (Outcome.UNKNOWN, State.OPEN, Source.TRANSPORT_OBSERVED)


@pytest.mark.parametrize(
    ("before", "event"),
    [
        ([ACCEPTED, VALIDATED], AUTHORIZED),
        ([ACCEPTED, VALIDATED, DENIED], AUTHORIZED),
        ([ACCEPTED, VALIDATED, APPROVED], APPROVED),
        ([ACCEPTED, VALIDATED, CARD], CARD),
        (TO_LINE, DISPATCHED),
        (TO_LINE, STOPPED),
        (TO_LINE, COMMITTED),
        (TO_LINE, ATTESTED),
        (TO_LINE, ev.LookedUp("act_9", "0 found", "proves nothing")),
        ([*TO_LINE, SENT], SENT),
        ([*TO_LINE, COMPLETE], COMPLETE),
        ([*TO_LINE, UNKNOWN], COMMITTED),
        ([*TO_LINE, UNKNOWN], UNKNOWN),
        ([*TO_LINE, COMPLETE, COMMITTED], UNKNOWN),
        ([*TO_LINE, COMPLETE, COMMITTED], ATTESTED),
        ([*TO_LINE, UNKNOWN, BY_QUERY], ATTESTED),
        ([*TO_LINE, UNKNOWN, ATTESTED], ATTESTED),
        ([*TO_LINE, UNKNOWN, settled(Source.REMOTE_RESPONSE)], BY_QUERY),
        ([ACCEPTED, STOPPED], DISPATCHED),
        ([*TO_LINE, UNKNOWN], settled(Source.OPERATOR_ATTESTED, supersedes=6)),
        ([*TO_LINE, UNKNOWN, ev.LeaseTaken(1, "act_2", Micros(9))], ev.LeaseTaken(1, "act_3", Micros(9))),
    ],
)
def test_impossible_moves_are_refused(before: list[ev.Event], event: ev.Event) -> None:
    inv = fold(*before)
    with pytest.raises(IllegalMove):
        apply(inv, event, invocation_id=ACT, seq=99, at=Micros(99))


def test_an_attestation_may_be_corrected_by_a_stronger_source_or_by_naming_it() -> None:
    attested = fold(*TO_LINE, UNKNOWN, ATTESTED)
    assert attested.settlement_record == 7
    assert apply(attested, LATE, invocation_id=ACT, seq=8, at=Micros(8)).outcome is Outcome.REJECTED
    named = settled(Source.OPERATOR_ATTESTED, Outcome.REJECTED, supersedes=7)
    assert apply(attested, named, invocation_id=ACT, seq=8, at=Micros(8)).outcome is Outcome.REJECTED


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(ALL), max_size=30))
def test_properties_over_any_order_of_events(events: list[ev.Event]) -> None:
    """Total: each event moves or is refused. Never back to not_attempted; a definite outcome is never undone to
    unknown; committed and rejected change places only after an attestation."""
    inv: Invocation | None = None
    for seq, event in enumerate(events, start=1):
        before = inv
        try:
            inv = apply(before, event, invocation_id=ACT, seq=seq, at=Micros(seq))
        except IllegalMove:
            assert inv is before
            continue
        assert (before.state if before else None, event.kind) in oc.MOVES
        if inv.dispatched:
            assert inv.outcome is not Outcome.NOT_ATTEMPTED
        if before is None:
            continue
        assert not (before.dispatched and event.kind is Kind.DISPATCH_STARTED)
        if before.outcome in (Outcome.COMMITTED, Outcome.REJECTED):
            assert inv.outcome in (Outcome.COMMITTED, Outcome.REJECTED)
            if inv.outcome is not before.outcome:
                assert before.source is Source.OPERATOR_ATTESTED
        if before.state is State.STOPPED:
            assert inv.outcome is Outcome.NOT_ATTEMPTED
        assert (inv.outcome is Outcome.UNKNOWN) == (inv.state in (State.OPEN, State.UNKNOWN))


def test_no_move_leads_out_of_a_finished_state_but_settlement() -> None:
    """STOPPED stays; SETTLED stays; UNKNOWN leads to SETTLED alone, by OUTCOME_SETTLED alone."""
    out = {
        (state, kind, after) for (state, kind), after in oc.MOVES.items() if state is not None and after is not state
    }
    finished = {(s, k, a) for s, k, a in out if s in (State.STOPPED, State.UNKNOWN, State.SETTLED)}
    assert finished == {(State.UNKNOWN, Kind.OUTCOME_SETTLED, State.SETTLED)}
    assert {k for s, k, a in out if a is State.OPEN} == {Kind.DISPATCH_STARTED}


# -- tables

PLAIN = Meaning(idempotent=False, keyed=False)
KEYED = Meaning(idempotent=False, keyed=True)
IDEMPOTENT = Meaning(idempotent=True, keyed=False)
REFUSING = Meaning(idempotent=False, keyed=False, refused=frozenset({429, 503}))
C, R, U = Outcome.COMMITTED, Outcome.REJECTED, Outcome.UNKNOWN

STATUS_CASES = [
    (200, C, "REMOTE_RESULT", "never", "never"),
    (206, C, "REMOTE_RESULT", "never", "never"),
    (204, C, "REMOTE_RESULT", "never", "never"),
    (202, C, "JOB_ACCEPTED", "never", "never"),
    (304, C, "REMOTE_RESULT", "never", "never"),
    (300, C, "REMOTE_RESULT", "never", "never"),
    *((s, R, "REMOTE_REJECTED", "after_correction", "after_correction") for s in (400, 401, 402, 403, 404, 405, 406)),
    *((s, R, "REMOTE_REJECTED", "after_correction", "after_correction") for s in (407, 409, 410, 411, 412, 413, 414)),
    *((s, R, "REMOTE_REJECTED", "after_correction", "after_correction") for s in (415, 416, 417, 418, 422, 423, 424)),
    *((s, R, "REMOTE_REJECTED", "after_correction", "after_correction") for s in (426, 428, 431, 451, 499, 501)),
    *((s, R, "REMOTE_REJECTED", "after_correction", "after_correction") for s in (505, 511)),
    (408, R, "REMOTE_REJECTED", "backoff", "reconcile"),
    (421, R, "REMOTE_REJECTED", "backoff", "backoff"),
    (425, R, "REMOTE_REJECTED", "backoff", "backoff"),
    (429, R, "REMOTE_RATE_LIMITED", "backoff", "reconcile"),
    (500, C, "REMOTE_RESULT", "backoff", "reconcile"),
    (507, C, "REMOTE_RESULT", "backoff", "reconcile"),
    (508, C, "REMOTE_RESULT", "backoff", "reconcile"),
    *((s, U, "GATEWAY_UNCERTAIN", "backoff", "reconcile") for s in (502, 504, 520, 527, 530)),
]


@pytest.mark.parametrize(("status", "outcome", "code", "idempotent", "otherwise"), STATUS_CASES)
def test_status_rows(status: int, outcome: Outcome, code: str, idempotent: str, otherwise: str) -> None:
    plain = oc.status_verdict(status, {}, PLAIN)
    assert (plain.outcome, plain.code, plain.retry) == (outcome, code, otherwise)
    known = oc.status_verdict(status, {}, IDEMPOTENT)
    assert (known.outcome, known.code, known.retry) == (outcome, code, idempotent)


@pytest.mark.parametrize(
    ("status", "needs"),
    [(401, "credential"), (402, "payment"), (403, "permission"), (407, "proxy_credential"), (511, "network_login")],
)
def test_refusals_name_what_they_need(status: int, needs: str) -> None:
    assert oc.status_verdict(status, {}, PLAIN).needs == needs


def test_503_is_rejected_only_where_a_repeat_is_safe_or_the_contract_says_so() -> None:
    assert oc.status_verdict(503, {}, PLAIN) == oc.Verdict(
        Phase.REMOTE_EXECUTION, C, Code.REMOTE_UNAVAILABLE, Retry.RECONCILE
    )
    assert oc.status_verdict(503, {}, IDEMPOTENT).outcome is R
    refused = oc.status_verdict(503, {}, REFUSING)
    assert (refused.outcome, refused.retry) == (R, Retry.BACKOFF)


def test_429_follows_refused_then_key_then_reconcile() -> None:
    assert oc.status_verdict(429, {}, KEYED).retry is Retry.SAME_IDEMPOTENCY_KEY
    assert oc.status_verdict(429, {}, REFUSING).retry is Retry.BACKOFF


def test_redirect_with_location_is_a_complete_result_that_was_not_followed() -> None:
    assert oc.status_verdict(307, {"location": "https://b.example/"}, PLAIN).code is Code.REDIRECT_NOT_FOLLOWED
    assert oc.status_verdict(304, {"location": "x"}, PLAIN).code is Code.REMOTE_RESULT


def test_proxy_status_is_proof_only_of_a_trusted_hop() -> None:
    headers = {"proxy-status": "edge; error=connection_refused"}
    assert oc.status_verdict(502, headers, PLAIN).code is Code.GATEWAY_UNCERTAIN
    trusted = replace(PLAIN, trusted_gateway=True)
    verdict = oc.status_verdict(502, headers, trusted)
    assert (verdict.outcome, verdict.code, verdict.retry, verdict.hop) == (
        R,
        Code.GATEWAY_REFUSED,
        Retry.BACKOFF,
        "proxy",
    )
    assert oc.status_verdict(520, headers, trusted).code is Code.GATEWAY_UNCERTAIN
    quoted = {"proxy-status": 'edge; error=http_protocol_error; details="sent, then; error=connection_refused"'}
    assert oc.status_verdict(502, quoted, trusted).code is Code.GATEWAY_UNCERTAIN
    late = {"proxy-status": "edge; error=connection_terminated"}
    assert oc.status_verdict(502, late, trusted).code is Code.GATEWAY_UNCERTAIN


SETUP_CASES = [
    (Stage.DNS, SetupFault.NOT_FOUND, "DNS_FAILED", "after_correction"),
    (Stage.DNS, SetupFault.TEMPORARY, "DNS_FAILED", "backoff"),
    (Stage.DNS, SetupFault.LIMIT, "DNS_FAILED", "backoff"),
    (Stage.DNS, SetupFault.BLOCKED, "TARGET_BLOCKED", "after_correction"),
    (Stage.DNS, SetupFault.DEADLINE, "CONNECT_TIMEOUT", "backoff"),
    (Stage.TCP_CONNECT, SetupFault.REFUSED, "CONNECT_FAILED", "backoff"),
    (Stage.TCP_CONNECT, SetupFault.LIMIT, "CONNECT_TIMEOUT", "backoff"),
    (Stage.TCP_CONNECT, SetupFault.DEADLINE, "CONNECT_TIMEOUT", "backoff"),
    (Stage.TLS_HANDSHAKE, SetupFault.LIMIT, "TLS_FAILED", "backoff"),
    (Stage.TLS_HANDSHAKE, SetupFault.HANDSHAKE, "TLS_FAILED", "backoff"),
    (Stage.TLS_HANDSHAKE, SetupFault.DEADLINE, "CONNECT_TIMEOUT", "backoff"),
    (Stage.TLS_HANDSHAKE, SetupFault.CLIENT_CERTIFICATE, "TLS_FAILED", "after_correction"),
    (Stage.CERTIFICATE, SetupFault.CERTIFICATE, "CERT_INVALID", "after_correction"),
    (Stage.DNS, SetupFault.PROXY_UNREACHABLE, "PROXY_FAILED", "backoff"),
    (Stage.TCP_CONNECT, SetupFault.PROXY_UNREACHABLE, "PROXY_FAILED", "backoff"),
    (Stage.PROXY_TUNNEL, SetupFault.LIMIT, "PROXY_FAILED", "backoff"),
    (Stage.PROXY_TUNNEL, SetupFault.REFUSED, "PROXY_FAILED", "backoff"),
    (Stage.PROXY_TUNNEL, SetupFault.HANDSHAKE, "PROXY_FAILED", "backoff"),
    (Stage.PROXY_TUNNEL, SetupFault.CERTIFICATE, "PROXY_FAILED", "after_correction"),
    (Stage.PROXY_TUNNEL, SetupFault.CLIENT_CERTIFICATE, "PROXY_FAILED", "after_correction"),
    (Stage.PROXY_TUNNEL, SetupFault.PROXY_GARBLED, "PROXY_FAILED", "backoff"),
    (Stage.PROXY_TUNNEL, SetupFault.PROXY_ERROR, "PROXY_FAILED", "backoff"),
    (Stage.PROXY_TUNNEL, SetupFault.PROXY_REFUSED, "PROXY_FAILED", "after_correction"),
    (Stage.PROXY_TUNNEL, SetupFault.DEADLINE, "CONNECT_TIMEOUT", "backoff"),
]


@pytest.mark.parametrize(("stage", "fault", "code", "retry"), SETUP_CASES)
def test_setup_rows(stage: Stage, fault: SetupFault, code: str, retry: str) -> None:
    verdict = oc.setup_verdict(SetupStop(None, stage, fault, "X"))
    assert (verdict.phase, verdict.outcome, verdict.code, verdict.retry) == (
        Phase.CONNECTION_SETUP,
        Outcome.NOT_ATTEMPTED,
        code,
        retry,
    )
    assert oc.setup_may_repeat(verdict) == (retry == "backoff")


def test_every_setup_fault_has_a_row_at_every_http_stage() -> None:
    stages = (Stage.DNS, Stage.TCP_CONNECT, Stage.PROXY_TUNNEL, Stage.TLS_HANDSHAKE, Stage.CERTIFICATE)
    rows = {(s, f) for s, f in oc.SETUP_ROWS if s is not None} | {
        (s, f) for _, f in oc.SETUP_ROWS if (None, f) in oc.SETUP_ROWS for s in stages
    }
    assert {f for _, f in rows} == set(SetupFault)


def test_every_code_before_dispatch_has_its_row() -> None:
    for code, (phase, retry, _) in oc.STOP_ROWS.items():
        verdict = oc.stop(code, Phase.CREDENTIAL_INJECTION)
        assert verdict.outcome is Outcome.NOT_ATTEMPTED
        assert verdict.phase is (phase or Phase.CREDENTIAL_INJECTION)
        assert verdict.retry is retry


CROSSED = HttpEvidence(crossed=True, connection=Connection("c-1", "127.0.0.1:1"), request_complete=True, bytes_sent=9)

HTTP_CASES = [
    (replace(CROSSED, fault=Fault.CLOSED), "REMOTE_OUTCOME_UNKNOWN"),
    (replace(CROSSED, fault=Fault.RESET), "REMOTE_OUTCOME_UNKNOWN"),
    (replace(CROSSED, fault=Fault.WRITE_FAILED, request_complete=False), "REMOTE_OUTCOME_UNKNOWN"),
    (replace(CROSSED, fault=Fault.RESET, anything_final=True), "REMOTE_RESULT_INCOMPLETE"),
    (replace(CROSSED, fault=Fault.CLOSED, anything_final=True, status_line=True), "REMOTE_RESULT_INCOMPLETE"),
    (replace(CROSSED, fault=Fault.MALFORMED), "REMOTE_RESULT_INCOMPLETE"),
    (replace(CROSSED, fault=Fault.UPGRADE), "REMOTE_RESULT_INCOMPLETE"),
    (replace(CROSSED, fault=Fault.FRAMING, status_line=True, status=200), "REMOTE_RESULT_INCOMPLETE"),
    (replace(CROSSED, complete=True, status=200, early=True, request_complete=False), "REMOTE_OUTCOME_UNKNOWN"),
    (replace(CROSSED, complete=True, status=500, early=True, request_complete=False), "REMOTE_OUTCOME_UNKNOWN"),
    (replace(CROSSED, complete=True, status=413, answer_before_request=True), "REMOTE_OUTCOME_UNKNOWN"),
]


@pytest.mark.parametrize(("evidence", "code"), HTTP_CASES)
def test_incomplete_exchanges_are_unknown(evidence: HttpEvidence, code: str) -> None:
    for meaning, retry in ((PLAIN, "reconcile"), (KEYED, "same_idempotency_key"), (IDEMPOTENT, "backoff")):
        verdict = oc.http_verdict(evidence, meaning)
        assert (verdict.phase, verdict.outcome, verdict.code, verdict.retry) == (
            Phase.REMOTE_EXECUTION,
            Outcome.UNKNOWN,
            code,
            retry,
        )


def test_a_4xx_that_came_early_counts() -> None:
    evidence = replace(CROSSED, complete=True, status=413, early=True, request_complete=False)
    assert oc.http_verdict(evidence, PLAIN).outcome is Outcome.REJECTED


def test_deadline_rows() -> None:
    assert oc.deadline_verdict(CROSSED, PLAIN, caller_gone=False).code is Code.REMOTE_DEADLINE
    half = replace(CROSSED, anything_final=True)
    assert oc.deadline_verdict(half, PLAIN, caller_gone=False).code is Code.REMOTE_DEADLINE
    head = replace(half, status_line=True)
    assert oc.deadline_verdict(head, PLAIN, caller_gone=False).code is Code.REMOTE_RESULT_INCOMPLETE
    assert oc.deadline_verdict(CROSSED, PLAIN, caller_gone=True).code is Code.CALLER_CANCELLED
    assert oc.deadline_verdict(head, PLAIN, caller_gone=True).code is Code.REMOTE_RESULT_INCOMPLETE
    assert oc.cancel_verdict(KEYED).retry is Retry.SAME_IDEMPOTENCY_KEY


@given(
    st.builds(
        HttpEvidence,
        crossed=st.just(True),
        request_complete=st.booleans(),
        answer_before_request=st.booleans(),
        status_line=st.booleans(),
        anything_final=st.booleans(),
        status=st.none() | st.integers(200, 599),
        early=st.booleans(),
        complete=st.booleans(),
        fault=st.none() | st.sampled_from(list(Fault)),
        connection=st.just(None),
        stopped=st.just(None),
        headers=st.just(()),
    ),
    st.builds(Meaning, idempotent=st.booleans(), keyed=st.booleans()),
)
def test_rejected_takes_a_complete_refusal_and_not_attempted_never_follows_the_line(
    evidence: HttpEvidence, meaning: Meaning
) -> None:
    verdict = oc.http_verdict(evidence, meaning)
    assert verdict.outcome is not Outcome.NOT_ATTEMPTED
    if verdict.outcome is Outcome.REJECTED:
        assert evidence.complete
        assert evidence.status is not None
        assert evidence.status >= 400
        assert not evidence.answer_before_request
    if verdict.outcome is Outcome.COMMITTED:
        assert evidence.complete
        assert not evidence.early
