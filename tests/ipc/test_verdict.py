"""Which verdict may do what: by the advice in the envelope, and by nothing else (R68)."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from affidavit.broker.terms import Outcome, Retry
from affidavit.ipc import verdict
from affidavit.ipc.verdict import ActionFailed, Retryable, RetryableFailure, Unresolved, UnresolvedFailure, Verdict

ROOT = Path(__file__).parents[2]
ACT = "act_01JEXAMPLE0000000000000000"


def envelope(
    outcome: str, retry: str, *, kind: str = "error", allowed: bool = True, operation: str | None = None, **more: Any
) -> dict[str, Any]:
    facts = {"code": "A_CODE", "phase": "remote_execution", "outcome": outcome, "retry": retry, "message": "Said."}
    evidence = {"retry_allowed": allowed, "operation": {"outcome": operation or outcome}, "retry_after_s": 3.0}
    return {"invocation_id": ACT, "operation_id": "op_1", kind: {**facts, **more}, "evidence": evidence}


class Asked:
    """Stands for a client: what a verdict asks of it."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []

    def __call__(self, method: str, params: Any) -> str:
        self.calls.append((method, params))
        return "the next verdict"


def none_asked(method: str, params: Any) -> Any:
    raise AssertionError((method, params))


@pytest.mark.parametrize(("outcome", "retry", "allowed"), list(itertools.product(Outcome, Retry, (True, False))))
def test_retry_is_there_only_where_the_advice_allows_a_repeat(outcome: str, retry: str, allowed: bool) -> None:
    may = retry in ("backoff", "same_idempotency_key") and allowed
    given = envelope(outcome, retry, allowed=allowed)
    failed = verdict.failure(given, none_asked)
    assert hasattr(failed, "retry") is may
    assert isinstance(failed, RetryableFailure) is may
    assert (
        hasattr(verdict.verdict(envelope(outcome, retry, kind="result", allowed=allowed), none_asked), "retry") is may
    )
    assert failed.envelope is given
    assert (failed.code, failed.phase, failed.outcome, failed.advice) == ("A_CODE", "remote_execution", outcome, retry)


@pytest.mark.parametrize(("outcome", "retry"), list(itertools.product(Outcome, Retry)))
def test_what_may_have_happened_can_be_repeated_only_by_an_unsafe_name(outcome: str, retry: str) -> None:
    failed = verdict.failure(envelope(outcome, retry), none_asked)
    unsure = (outcome == "unknown" and retry != "fetch_result") or (retry == "reconcile" and outcome != "not_attempted")
    expected = unsure and not isinstance(failed, Retryable)
    assert hasattr(failed, "repeat_unsafely") is expected
    assert hasattr(failed, "reconcile") is expected
    assert isinstance(failed, UnresolvedFailure) is expected


PROGRAM = """
from affidavit.ipc.client import AsyncClient, Client, RetryableFailure, UnresolvedFailure, Verdict

def repeated(found: Verdict, safe: RetryableFailure, unsure: UnresolvedFailure) -> list[object]:
    return [
        safe.retry(), unsure.repeat_unsafely(), unsure.reconcile(),
        found.retry(),
        unsure.retry(),
        safe.repeat_unsafely(),
    ]

async def both(one: Client, other: AsyncClient) -> tuple[Verdict, Verdict]:
    return one.act("a", {}), await other.act("a", {})
"""


def test_the_types_say_so_too(tmp_path: Path) -> None:
    """An agent's program is told before it runs."""
    (tmp_path / "agent.py").write_text(PROGRAM)
    words = ("--strict", "--namespace-packages", "--explicit-package-bases", "--follow-imports=silent")
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", *words, "--cache-dir", str(tmp_path / "cache"), "agent.py"],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(ROOT / "ipc")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.stdout.splitlines() == [
        'agent.py:7: error: "Verdict" has no attribute "retry"  [attr-defined]',
        'agent.py:8: error: "UnresolvedFailure" has no attribute "retry"  [attr-defined]',
        'agent.py:9: error: "RetryableFailure" has no attribute "repeat_unsafely"  [attr-defined]',
        "Found 3 errors in 1 file (checked 1 source file)",
    ]


def test_a_repeat_of_a_rejected_repeat_is_unsafe_while_the_operation_is_unknown() -> None:
    assert isinstance(verdict.failure(envelope("rejected", "reconcile", operation="unknown"), none_asked), Unresolved)
    assert isinstance(verdict.failure(envelope("not_attempted", "never", operation="unknown"), none_asked), Unresolved)


def test_a_duplicate_is_the_matter_of_another_operation() -> None:
    failed = verdict.failure(envelope("not_attempted", "reconcile"), none_asked)
    assert type(failed) is ActionFailed


def test_a_complete_result_whose_effect_is_not_known() -> None:
    found = verdict.verdict(envelope("committed", "reconcile", kind="result"), none_asked)
    assert type(found) is Unresolved
    assert found.look_up is None
    assert type(verdict.verdict(envelope("committed", "never", kind="result"), none_asked)) is Verdict


def test_what_is_asked_of_the_broker() -> None:
    asked = Asked()
    retryable = verdict.failure(envelope("unknown", "same_idempotency_key"), asked, {"method": "POST"})
    assert isinstance(retryable, Retryable)
    assert retryable.pause_s == 3.0
    assert retryable.retry() == "the next verdict"
    unresolved = verdict.failure(envelope("unknown", "reconcile"), asked)
    assert isinstance(unresolved, Unresolved)
    unresolved.reconcile()
    unresolved.repeat_unsafely()
    assert asked.calls == [
        ("action.retry", {"invocation_id": ACT}),
        ("action.reconcile", {"invocation_id": ACT}),
        ("action.retry", {"invocation_id": ACT, "unsafe": True}),
    ]


def test_what_was_refused_at_once_is_asked_again_with_its_request() -> None:
    """Nothing was bound, so nobody else keeps it (BUSY)."""
    asked = Asked()
    busy = verdict.failure(envelope("not_attempted", "backoff"), asked, {"method": "GET"})
    assert isinstance(busy, Retryable)
    busy.retry()
    assert asked.calls == [("action.retry", {"invocation_id": ACT, "request": {"method": "GET"}})]


def test_a_repeat_that_needs_something_first_is_not_retryable() -> None:
    refused = verdict.failure(envelope("not_attempted", "backoff", needs="request"), none_asked)
    assert type(refused) is ActionFailed


def test_the_look_up_that_would_settle_it() -> None:
    given = envelope("unknown", "reconcile")
    given["evidence"]["reconcile"] = {"available": True, "method": "GET", "url": "https://api.example.com/1"}
    failed = verdict.failure(given, none_asked)
    assert isinstance(failed, Unresolved)
    assert failed.look_up == given["evidence"]["reconcile"]


def test_an_envelope_of_a_result_that_cannot_be_read_is_told() -> None:
    failed = verdict.failure(
        {"invocation_id": ACT, "pending": {"code": "IN_PROGRESS", "retry": "fetch_result"}}, none_asked
    )
    assert type(failed) is ActionFailed
    assert (failed.code, failed.evidence, failed.operation_id) == ("IN_PROGRESS", {}, None)
    with pytest.raises(ValueError, match="one of result, pending, error"):
        verdict.facts({})
