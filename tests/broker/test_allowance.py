"""Repeats that a card named: of the same request, counted down, remembered in bounds."""

from __future__ import annotations

from dataclasses import replace

from tests.broker.bounds import http_bound

from affidavit.broker.allowance import KEPT, Allowances
from affidavit.broker.approval import Borrowed
from affidavit.broker.terms import OperationId

BOUND = http_bound("https://api.example.com/v1/a")
TWO = Borrowed("card", "card", repeats_left=2)


def test_each_repeat_is_counted_down() -> None:
    held = Allowances()
    assert held.take(BOUND) is None
    held.give(BOUND, TWO)
    assert held.covers(BOUND)
    assert [held.take(BOUND) for _ in range(3)] == [replace(TWO, repeats_left=1), replace(TWO, repeats_left=0), None]
    assert not held.covers(BOUND)


def test_another_request_or_operation_is_not_covered() -> None:
    held = Allowances()
    held.give(BOUND, TWO)
    assert held.take(http_bound("https://api.example.com/v1/b")) is None
    assert held.take(replace(BOUND, operation_id=OperationId("op_2"))) is None
    assert held.covers(BOUND)


def test_a_lock_ends_all() -> None:
    held = Allowances()
    held.give(BOUND, TWO)
    held.end_all()
    assert not held.covers(BOUND)


def test_the_oldest_is_forgotten() -> None:
    held = Allowances()
    for n in range(KEPT + 1):
        held.give(replace(BOUND, operation_id=OperationId(f"op_{n}")), TWO)
    assert not held.covers(replace(BOUND, operation_id=OperationId("op_0")))
    assert held.covers(replace(BOUND, operation_id=OperationId("op_1")))
