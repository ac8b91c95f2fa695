"""The retry decision: a test for each row of verdicts, section 6, and who holds a lease."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from affidavit.broker import events as ev
from affidavit.broker.advice import (
    Operation,
    Refusal,
    Repeat,
    decide,
    lease_holder,
    past_deadline,
    refusal,
    rests_on_window,
    retry_allowed,
    retry_now,
)
from affidavit.broker.outcome import Invocation
from affidavit.broker.terms import Code, InvocationId, Micros, Outcome, Phase, Retry, State

NOW = Micros(1_000_000_000)


def record(outcome: str, retry: str, n: int = 0, **more: Any) -> Invocation:
    dispatched = outcome != "not_attempted"
    state = {"not_attempted": State.STOPPED, "unknown": State.UNKNOWN}.get(outcome, State.SETTLED)
    facts: dict[str, Any] = {
        "invocation_id": InvocationId(f"act_{n}"),
        "state": state,
        "accepted_at": Micros(1),
        "phase": Phase.REMOTE_EXECUTION,
        "outcome": Outcome(outcome),
        "code": Code.REMOTE_RESULT,
        "retry": Retry(retry),
        "session_id": "s",
        "attempts_limit": 3,
        "dispatch_record": n + 1 if dispatched else None,
        "recovery_deadline": Micros(NOW + 1) if dispatched else None,
        "idempotent": "false",
        **more,
    }
    return Invocation(**facts)


OPEN_WINDOW = {"window_open_until": Micros(NOW + 1)}
SAFE = {"idempotent": "true"}


@pytest.mark.parametrize(
    ("of", "decision"),
    [
        (record("unknown", "fetch_result", state=State.OPEN), Repeat.FETCH),
        (record("not_attempted", "fetch_result"), Repeat.FETCH),
        (record("not_attempted", "backoff"), Repeat.RETRY_NEW_ATTEMPT),
        (record("not_attempted", "after_correction"), Repeat.STOP_FOR_CORRECTION),
        (record("not_attempted", "never"), Repeat.STOP_FOR_CORRECTION),
        (record("unknown", "same_idempotency_key", **OPEN_WINDOW), Repeat.RETRY_SAME_KEY),
        (record("unknown", "same_idempotency_key", window_open_until=NOW), Repeat.RECONCILE),
        (record("rejected", "same_idempotency_key", **OPEN_WINDOW), Repeat.RETRY_SAME_KEY),
        (record("rejected", "same_idempotency_key", window_open_until=NOW), Repeat.RETURN_RECORDED_RESULT),
        (record("unknown", "backoff", **SAFE), Repeat.RETRY_NEW_ATTEMPT),
        (record("unknown", "backoff", idempotent="assumed"), Repeat.RETRY_NEW_ATTEMPT),
        (record("unknown", "backoff"), Repeat.RECONCILE),
        (record("unknown", "reconcile"), Repeat.RECONCILE),
        (record("rejected", "backoff"), Repeat.RETRY_WHEN_ALLOWED),
        (record("committed", "backoff", **SAFE), Repeat.RETRY_WHEN_ALLOWED),
        (record("rejected", "after_correction"), Repeat.RETURN_RECORDED_RESULT),
        (record("rejected", "reconcile"), Repeat.RETURN_RECORDED_RESULT),
        (record("committed", "never"), Repeat.RETURN_RECORDED_RESULT),
        (record("committed", "reconcile"), Repeat.RETURN_RECORDED_RESULT),
    ],
)
def test_the_rows(of: Invocation, decision: Repeat) -> None:
    assert decide(of, Operation((of,)), NOW) is decision


def test_a_refusal_of_the_repeat_while_the_first_is_unknown() -> None:
    first, second = record("unknown", "reconcile"), record("rejected", "after_correction", 1, status=403)
    assert retry_now(second, Operation((first, second)), NOW) is Retry.RECONCILE
    assert decide(second, Operation((first, second)), NOW) is Repeat.RECONCILE
    assert retry_now(second, Operation((second,)), NOW) is Retry.AFTER_CORRECTION
    keyed = replace(second, retry=Retry.SAME_IDEMPOTENCY_KEY, window_open_until=Micros(NOW + 1))
    assert decide(keyed, Operation((first, keyed)), NOW) is Repeat.RETRY_SAME_KEY
    safe = replace(second, retry=Retry.BACKOFF, idempotent="true")
    assert decide(safe, Operation((first, safe)), NOW) is Repeat.RETRY_WHEN_ALLOWED
    unsafe = replace(second, retry=Retry.BACKOFF)
    assert decide(unsafe, Operation((first, unsafe)), NOW) is Repeat.RECONCILE


@pytest.mark.parametrize("refused", [{"status": 503}, {"status": 200}, {"status": None}])
@pytest.mark.parametrize("retry", ["backoff", "after_correction"])
def test_whatever_refuses_the_repeat_speaks_of_the_repeat_only(refused: dict[str, Any], retry: str) -> None:
    """A 503, a body's own verdict, an exec request: none of them says what became of the first (decision 20)."""
    first, second = record("unknown", "reconcile"), record("rejected", retry, 1, **refused)
    assert decide(second, Operation((first, second)), NOW) is Repeat.RECONCILE


@pytest.mark.parametrize(
    ("settled", "second", "decision"),
    [
        ("never", record("rejected", "backoff", 1), Repeat.RETURN_RECORDED_RESULT),
        ("never", record("rejected", "backoff", 1, **SAFE), Repeat.RETURN_RECORDED_RESULT),
        ("reconcile", record("rejected", "backoff", 1), Repeat.RETURN_RECORDED_RESULT),
        ("never", record("rejected", "same_idempotency_key", 1, **OPEN_WINDOW), Repeat.RETURN_RECORDED_RESULT),
        ("backoff", record("rejected", "backoff", 1, **SAFE), Repeat.RETRY_WHEN_ALLOWED),
    ],
)
def test_a_commit_that_is_learnt_later_ends_what_a_refused_repeat_allowed(
    settled: str, second: Invocation, decision: Repeat
) -> None:
    first = record("committed", settled)
    assert decide(second, Operation((first, second)), NOW) is decision


@pytest.mark.parametrize(
    ("first", "of", "rests"),
    [
        ((), record("unknown", "same_idempotency_key", **OPEN_WINDOW), True),
        ((record("unknown", "reconcile"),), record("rejected", "backoff", 1, **OPEN_WINDOW), True),
        ((record("unknown", "reconcile"),), record("rejected", "backoff", 1, **OPEN_WINDOW, **SAFE), False),
        ((), record("rejected", "backoff", **OPEN_WINDOW), False),
        ((), record("not_attempted", "backoff"), False),
    ],
)
def test_which_repeats_rest_on_their_keys_window(first: tuple[Invocation, ...], of: Invocation, rests: bool) -> None:
    assert rests_on_window(of, Operation((*first, of))) is rests


def test_an_unknown_item_makes_a_known_batch_one_to_look_at() -> None:
    items = (ev.Item("a", Outcome.COMMITTED), ev.Item("b", Outcome.UNKNOWN))
    of = record("committed", "never", items=items)
    assert retry_now(of, Operation((of,)), NOW) is Retry.RECONCILE
    cut = record("unknown", "same_idempotency_key", items=items, **OPEN_WINDOW)
    assert retry_now(cut, Operation((cut,)), NOW) is Retry.SAME_IDEMPOTENCY_KEY


@pytest.mark.parametrize(
    ("of", "allowed"),
    [
        (record("unknown", "backoff"), True),
        (record("unknown", "same_idempotency_key"), True),
        (record("unknown", "reconcile"), False),
        (record("unknown", "backoff", attempts_limit=1), False),
        (record("unknown", "backoff", recovery_deadline=NOW), False),
        (record("not_attempted", "backoff"), True),
    ],
)
def test_retry_allowed(of: Invocation, allowed: bool) -> None:
    assert retry_allowed(of.retry, of, Operation((of,)), NOW) is allowed


UNKNOWN = record("unknown", "reconcile")
SPENT = record("unknown", "backoff", attempts_limit=1, **SAFE)


@pytest.mark.parametrize(
    ("of", "holder", "unsafe", "refused"),
    [
        (record("unknown", "backoff", **SAFE), None, False, None),
        (UNKNOWN, None, False, Refusal(Code.RETRY_REFUSED, Retry.RECONCILE)),
        (UNKNOWN, None, True, None),
        (UNKNOWN, "act_9", True, Refusal(Code.LEASE_LOST, Retry.FETCH_RESULT, refers_to="act_9")),
        (SPENT, None, False, Refusal(Code.RETRY_BUDGET_EXHAUSTED, Retry.RECONCILE)),
        (SPENT, None, True, Refusal(Code.RETRY_BUDGET_EXHAUSTED, Retry.RECONCILE)),
        (SPENT, "act_9", False, Refusal(Code.LEASE_LOST, Retry.FETCH_RESULT, refers_to="act_9")),
        (
            record("not_attempted", "backoff", attempts_limit=0),
            None,
            False,
            Refusal(Code.RETRY_BUDGET_EXHAUSTED, Retry.NEVER),
        ),
        (record("not_attempted", "never"), None, True, Refusal(Code.RETRY_REFUSED, Retry.NEVER)),
        (
            record("unknown", "backoff", recovery_deadline=NOW, **SAFE),
            None,
            False,
            Refusal(Code.RETRY_REFUSED, Retry.BACKOFF),
        ),
        (record("unknown", "backoff", recovery_deadline=NOW, **SAFE), None, True, None),
    ],
)
def test_what_refuses_a_repeat(of: Invocation, holder: Any, unsafe: bool, refused: Refusal | None) -> None:
    operation = Operation((of,))
    assert refusal(of, operation, NOW, decide(of, operation, NOW), holder=holder, unsafe=unsafe) == refused


def test_the_deadline_is_the_first_dispatchs() -> None:
    never, first = record("not_attempted", "backoff"), record("unknown", "backoff", recovery_deadline=NOW)
    later = record("unknown", "backoff", 1, recovery_deadline=Micros(NOW + 99))
    assert past_deadline(Operation((first, later)), NOW)
    assert not past_deadline(Operation((never,)), NOW)


LEASED = replace(UNKNOWN, lease=ev.LeaseTaken(1, "act_9", Micros(0)))


@pytest.mark.parametrize(
    ("of", "repeat", "expired", "held"),
    [
        (UNKNOWN, None, False, False),
        (LEASED, None, False, False),
        (LEASED, record("not_attempted", "backoff", 9, state=State.VALIDATED), False, True),
        (LEASED, record("not_attempted", "backoff", 9, state=State.AUTHORISED), False, True),
        (LEASED, record("not_attempted", "backoff", 9, state=State.AUTHORISED), True, False),
        (LEASED, record("unknown", "fetch_result", 9, state=State.OPEN), True, True),
        (LEASED, record("not_attempted", "backoff", 9), False, False),
        (LEASED, record("unknown", "reconcile", 9), False, False),
    ],
)
def test_how_long_a_lease_is_held(of: Invocation, repeat: Invocation | None, expired: bool, held: bool) -> None:
    assert lease_holder(of, repeat, expired=expired) == ("act_9" if held else None)
