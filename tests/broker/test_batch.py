"""Batches: how items and results meet, and what an answer proves of each."""

from __future__ import annotations

import json
from typing import Any

import pytest

from affidavit.broker.batch import ITEMS_MAX, NoItems, item_keys, outcomes, reduced
from affidavit.broker.contract.model import Batch, BatchOutcome
from affidavit.broker.signs import Answer
from affidavit.broker.terms import Outcome, Source

WORDS = BatchOutcome("/status", committed=("created", 201), rejected=("invalid",))
BY_KEY = Batch("key", "/items", "/results", "/id", WORDS, atomic=False)
BY_PLACE = Batch("position", "/items", "/results", None, WORDS, atomic=False)
ATOMIC = Batch("key", "/items", "/results", "/id", WORDS, atomic=True)
TWO_LISTS = Batch("key", "/items", None, "/id", None, atomic=False, successes="/done", failures="/failed")


def body(items: Any) -> bytes:
    return json.dumps({"items": items}).encode()


def told(batch: Batch, keys: tuple[str, ...], results: Any, status: int = 200, outcome: str = "committed") -> list[str]:
    data = json.dumps({"results": results}).encode() if results is not None else b"{}"
    items = outcomes(batch, keys, Outcome(outcome), Answer(status, {}, data))
    assert [item.key for item in items] == list(keys)
    return [str(item.outcome) for item in items]


def test_the_keys_of_items() -> None:
    assert item_keys(BY_KEY, body([{"id": "a"}, {"id": 2}])) == ("a", "2")
    assert item_keys(BY_PLACE, body([{}, {}, 3])) == ("0", "1", "2")
    assert item_keys(BY_KEY, b"not JSON") is None
    assert item_keys(BY_KEY, body({"id": "a"})) is None


@pytest.mark.parametrize(
    "items",
    [
        [{"id": "a"}, {"id": "a"}],
        [{"id": 1}, {"id": "1"}],
        [{"id": "a"}, {}],
        [{"id": True}],
        [{"id": ""}],
        [{"id": "x" * 129}],
        [{"id": n} for n in range(ITEMS_MAX + 1)],
    ],
)
def test_items_that_cannot_be_told_apart(items: Any) -> None:
    with pytest.raises(NoItems):
        item_keys(BY_KEY, body(items))


def test_results_meet_items_by_key_in_any_order() -> None:
    results = [{"id": "b", "status": "invalid"}, {"id": "a", "status": "created"}, {"id": "z", "status": "created"}]
    assert told(BY_KEY, ("a", "b"), results) == ["committed", "rejected"]
    assert told(BY_KEY, ("1", "2"), [{"id": 1, "status": 201}, {"id": 2, "status": "201"}]) == ["committed", "unknown"]


def test_what_meets_nothing_or_twice_is_unknown() -> None:
    results = [{"id": "a", "status": "created"}, {"id": "b", "status": "created"}, {"id": "b", "status": "invalid"}]
    assert told(BY_KEY, ("a", "b", "c"), results) == ["committed", "unknown", "unknown"]
    assert told(BY_KEY, ("a",), [{"id": "a", "status": "odd"}]) == ["unknown"]
    assert told(BY_KEY, ("a",), [{"id": "a"}]) == ["unknown"]
    assert told(BY_KEY, ("a",), ["a"]) == ["unknown"]


def test_results_by_position_may_end_early_but_not_run_over() -> None:
    keys = ("0", "1", "2")
    assert told(BY_PLACE, keys, [{"status": "created"}, {"status": "invalid"}]) == ["committed", "rejected", "unknown"]
    assert told(BY_PLACE, ("0",), [{"status": "created"}] * 2) == ["unknown"]


def test_no_results_at_all() -> None:
    assert told(BY_KEY, ("a", "b"), None) == ["unknown", "unknown"]
    assert told(BY_KEY, ("a", "b"), None, 422, "rejected") == ["rejected", "rejected"]
    assert told(BY_KEY, ("a",), [{"id": "a", "status": "created"}], 422, "rejected") == ["committed"]
    unreadable = outcomes(BY_KEY, ("a",), Outcome.COMMITTED, Answer(200, {}, None))
    assert unreadable[0].outcome is Outcome.UNKNOWN
    gateway = outcomes(BY_KEY, ("a",), Outcome.UNKNOWN, Answer(502, {}, b"{}"))
    assert gateway[0].outcome is Outcome.UNKNOWN


def test_all_or_nothing() -> None:
    both = [{"id": "a", "status": "created"}, {"id": "b", "status": "created"}]
    assert told(ATOMIC, ("a", "b"), both) == ["committed", "committed"]
    assert told(ATOMIC, ("a", "b"), [both[0], {"id": "b", "status": "invalid"}]) == ["unknown", "unknown"]
    assert told(ATOMIC, ("a", "b"), both[:1]) == ["unknown", "unknown"]


def test_an_outcome_says_what_it_rests_on() -> None:
    answer = Answer(200, {}, b'{"results":[{"id":"a","status":"created"}]}')
    (item,) = outcomes(BY_KEY, ("a",), Outcome.COMMITTED, answer)
    assert (item.evidence, item.source) == ('/status is "created"', Source.REMOTE_RESPONSE)


def test_a_request_with_fewer_items_keeps_all_else_to_the_letter() -> None:
    given = b'{"note":"x","n":1.50,"items":[{"id":"a","amount":10.00},{"id":"b"},{"id":"c"}]}'
    assert reduced(BY_KEY, given, ("a", "b", "c"), {"a", "c"}) == (
        b'{"note":"x","n":1.50,"items":[{"id":"a","amount":10.00},{"id":"c"}]}'
    )
    top = Batch("position", "", "", None, WORDS, atomic=False)
    assert reduced(top, b"[1,2,3]", ("0", "1", "2"), {"1"}) == b"[2]"


@pytest.mark.parametrize(
    ("answered", "says"),
    [
        ({"done": [{"id": "b"}, {"id": "z"}], "failed": [{"id": "a"}]}, ["rejected", "committed", "unknown"]),
        ({"done": [{"id": "b"}, {"id": "a"}, {"id": "c"}]}, ["committed"] * 3),
        ({"done": None, "failed": [{"id": "a"}, {"id": "b"}]}, ["rejected", "rejected", "unknown"]),
        ({"done": [{"id": "a"}, {"id": "b"}], "failed": [{"id": "a"}]}, ["unknown", "committed", "unknown"]),
        ({"done": [{"id": "a"}, {}, "b", None], "failed": []}, ["committed", "unknown", "unknown"]),
        ({"done": [], "failed": []}, ["unknown"] * 3),
        ({"done": [{"id": "a"}], "failed": "none"}, ["unknown"] * 3),
        ({"done": {"id": "a"}, "failed": [{"id": "b"}]}, ["unknown"] * 3),
        ({}, ["unknown"] * 3),
        ([], ["unknown"] * 3),
    ],
)
def test_results_in_two_lists(answered: Any, says: list[str]) -> None:
    """An item is what the list is in which it stands; in both, in neither, or with no list to read it is unknown."""
    answer = Answer(200, {}, json.dumps(answered).encode())
    items = outcomes(TWO_LISTS, ("a", "b", "c"), Outcome.COMMITTED, answer)
    assert [str(item.outcome) for item in items] == says
    assert all((item.source is None) is (item.outcome is Outcome.UNKNOWN) for item in items)


def test_two_lists_that_cannot_be_read() -> None:
    unread = outcomes(TWO_LISTS, ("a",), Outcome.COMMITTED, Answer(200, {}, None))
    assert (unread[0].outcome, unread[0].evidence) == (Outcome.UNKNOWN, "its part of the answer could not be read")
    refused = outcomes(TWO_LISTS, ("a",), Outcome.REJECTED, Answer(400, {}, b"{}"))
    assert refused[0].outcome is Outcome.REJECTED
