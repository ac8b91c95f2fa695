"""The fold and the tables where they serve recovery: receipts, items, jobs, what look-ups leave behind."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from affidavit.broker import events as ev
from affidavit.broker import outcome as oc
from affidavit.broker.outcome import IllegalMove, Invocation, Meaning, apply
from affidavit.broker.terms import Code, InvocationId, Micros, Outcome, Phase, Retry, Source, State
from affidavit.broker.wire.port import Fault, HttpEvidence

ACT = InvocationId("act_0")
BATCH = Invocation(
    invocation_id=ACT,
    state=State.OPEN,
    accepted_at=Micros(1),
    phase=Phase.REMOTE_EXECUTION,
    outcome=Outcome.UNKNOWN,
    code=Code.IN_PROGRESS,
    retry=Retry.FETCH_RESULT,
    session_id="s",
    dispatch_record=5,
    item_keys=("a", "b"),
)
CUT = ev.OutcomeUnknown(Code.REMOTE_OUTCOME_UNKNOWN, Retry.RECONCILE, Source.TRANSPORT_OBSERVED, "closed")
COMPLETE = ev.RemoteResponseComplete("content-length", 200)
PART = ev.ResultCommitted(
    Outcome.COMMITTED,
    Code.REMOTE_RESULT,
    Retry.NEVER,
    items=(
        ev.Item("a", Outcome.COMMITTED, source=Source.REMOTE_RESPONSE),
        ev.Item("b", Outcome.UNKNOWN, "no result has its key"),
    ),
)


def fold(before: Invocation, *events: ev.Event, first: int = 10) -> Invocation:
    for seq, event in enumerate(events, first):
        before = apply(before, event, invocation_id=ACT, seq=seq, at=Micros(seq))
    return before


def attested(
    item: str | None, outcome: Outcome = Outcome.COMMITTED, supersedes: int | None = None
) -> ev.OutcomeSettled:
    return ev.OutcomeSettled(
        outcome,
        Code.SETTLED_BY_OPERATOR,
        Retry.NEVER,
        Source.OPERATOR_ATTESTED,
        item=item,
        note="looked",
        supersedes=supersedes,
    )


def items(inv: Invocation) -> dict[str, str]:
    return {item.key: str(item.outcome) for item in inv.items or ()}


def test_a_cut_answer_makes_every_item_unknown() -> None:
    inv = fold(BATCH, CUT)
    assert items(inv) == {"a": "unknown", "b": "unknown"}
    assert inv.has_unknown_items


def test_an_item_is_settled_apart_and_the_batch_stays_as_it_was() -> None:
    unknown = fold(BATCH, CUT, attested("a"))
    assert (unknown.state, unknown.outcome, items(unknown)) == (
        State.UNKNOWN,
        Outcome.UNKNOWN,
        {"a": "committed", "b": "unknown"},
    )
    settled = fold(BATCH, COMPLETE, PART, attested("b", Outcome.REJECTED))
    assert (settled.state, settled.outcome, settled.retry) == (State.SETTLED, Outcome.COMMITTED, Retry.NEVER)
    assert items(settled) == {"a": "committed", "b": "rejected"}
    assert not settled.has_unknown_items


def test_an_items_attestation_is_corrected_by_name_and_an_answer_is_not() -> None:
    inv = fold(BATCH, COMPLETE, PART, attested("b"))
    with pytest.raises(IllegalMove):
        fold(inv, attested("b", Outcome.REJECTED), first=20)
    with pytest.raises(IllegalMove):
        fold(inv, attested("a", Outcome.REJECTED), first=20)
    with pytest.raises(IllegalMove):
        fold(inv, attested("c"), first=20)
    with pytest.raises(IllegalMove):
        fold(BATCH, COMPLETE, PART, attested("b", supersedes=11))
    assert items(fold(inv, attested("b", Outcome.REJECTED, supersedes=12), first=20))["b"] == "rejected"


def test_an_item_of_an_open_batch_is_not_settled() -> None:
    with pytest.raises(IllegalMove):
        fold(BATCH, attested("a"))


def test_what_settles_the_batch_settles_its_unknown_items() -> None:
    inv = fold(BATCH, CUT, attested("a", Outcome.REJECTED), attested(None))
    assert items(inv) == {"a": "rejected", "b": "committed"}
    assert inv.state is State.SETTLED


JOB = ev.JobOpened("op_job", "j1", "https://api.example.com/jobs/j1", 5, Micros(99), "act_1", session="s")


def test_a_job_is_open_until_it_is_settled_or_overdue() -> None:
    job = apply(None, JOB, invocation_id=ACT, seq=7, at=Micros(7))
    assert (job.state, job.outcome, job.is_job, job.refers_to) == (State.OPEN, Outcome.UNKNOWN, True, "act_1")
    looked = fold(job, ev.LookedUp("act_2", "its state is running", "pending", state="running"))
    assert looked.state is State.OPEN
    assert looked.looked is not None
    assert (looked.looked.state, looked.looked.at, looked.looked.record) == ("running", 10, 10)
    by_query = ev.OutcomeSettled(
        Outcome.REJECTED,
        Code.SETTLED_BY_QUERY,
        Retry.AFTER_CORRECTION,
        Source.REMOTE_QUERY,
        lookup="act_3",
        answer="its state is failed",
        state="failed",
    )
    done = fold(looked, by_query, first=11)
    assert (done.state, done.outcome, done.source) == (State.SETTLED, Outcome.REJECTED, Source.REMOTE_QUERY)
    assert done.looked is not None
    assert done.looked.invocation_id == "act_3"
    overdue = fold(looked, replace(CUT, code=Code.REMOTE_DEADLINE), first=11)
    assert (overdue.state, overdue.code) == (State.UNKNOWN, Code.REMOTE_DEADLINE)
    assert fold(overdue, by_query, first=12).outcome is Outcome.REJECTED


RECEIPT = Meaning(idempotent=False, keyed=False, receipt="x-receipt")


def cut(status: int | None, **more: Any) -> HttpEvidence:
    facts: dict[str, Any] = {
        "crossed": True,
        "request_complete": True,
        "status_line": True,
        "anything_final": True,
        "status": status,
        "headers": (("x-receipt", "r-1"),),
        "fault": Fault.CLOSED,
        **more,
    }
    return HttpEvidence(**facts)


def test_a_receipt_settles_an_answer_that_breaks_off() -> None:
    verdict = oc.http_verdict(cut(200), RECEIPT)
    assert (verdict.outcome, verdict.code, verdict.retry) == (
        Outcome.COMMITTED,
        Code.REMOTE_RESULT_INCOMPLETE,
        Retry.NEVER,
    )
    assert oc.deadline_verdict(cut(200, fault=None), RECEIPT, caller_gone=False) == verdict


@pytest.mark.parametrize(
    "evidence",
    [
        cut(200, headers=()),
        cut(500),
        cut(200, early=True),
        cut(200, answer_before_request=True),
        cut(200, request_complete=False),
        cut(None),
    ],
)
def test_without_a_whole_2xx_head_a_receipt_is_none(evidence: HttpEvidence) -> None:
    assert oc.http_verdict(evidence, RECEIPT).outcome is Outcome.UNKNOWN


def test_without_the_contract_a_receipt_is_none() -> None:
    assert oc.http_verdict(cut(200), Meaning(idempotent=False, keyed=False)).outcome is Outcome.UNKNOWN
