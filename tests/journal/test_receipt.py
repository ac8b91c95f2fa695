"""A receipt is resolved once, and wakes whoever waits in whatever order the two come."""

from __future__ import annotations

import pytest

from affidavit.journal import JournalPoisoned, Receipt


def test_who_comes_after_the_resolution_is_woken_at_once():
    """Between looking and waiting, the writer may have been faster."""
    receipt = Receipt((1,))
    receipt.resolve()
    woken: list[bool] = []
    receipt._when_resolved(lambda: woken.append(True))
    assert woken == [True]


def test_who_waits_is_woken_once():
    receipt = Receipt((1,))
    woken: list[bool] = []
    receipt._when_resolved(lambda: woken.append(True))
    assert woken == []
    receipt.resolve()
    receipt.resolve()
    assert woken == [True]


async def test_a_failure_is_raised_anew_each_time():
    receipt = Receipt((1,))
    receipt.resolve("A record could not be written (SQLITE_FULL).")
    for _ in range(2):
        with pytest.raises(JournalPoisoned, match="SQLITE_FULL") as caught:
            await receipt.durable()
        assert caught.value.remedy
    with pytest.raises(JournalPoisoned):
        receipt.wait(0)
