"""Times and durations as the windows write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from affidavit.gui import times

NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize("text", [None, 12, "", "yesterday", "2026-11-30T14:02:11"])
def test_what_is_no_time_is_none(text: object) -> None:
    assert times.parse(text) is None


def test_a_time_of_today_has_no_date() -> None:
    at = times.parse("2026-11-30T14:02:11.083Z")
    assert at is not None
    assert times.clock(at, NOON) == "14:02:11"
    assert times.clock(at, NOON + timedelta(days=1)) == "30 Nov 2026, 14:02:11"


def test_the_day_is_that_of_the_operators_zone() -> None:
    at = datetime(2026, 11, 30, 23, 30, tzinfo=UTC)
    east = timezone(timedelta(hours=2))
    assert times.clock(at, NOON.astimezone(east)) == "1 Dec 2026, 01:30:00"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (3600, "1 h"),
        (3660, "61 min"),
        (7199, "119 min"),
        (7200, "2 h"),
        (172_799, "47 h"),
        (86_400, "1 d"),
        (172_800, "2 d"),
    ],
)
def test_a_duration_is_rounded_down_in_one_unit(seconds: int, text: str) -> None:
    assert times.length(timedelta(seconds=seconds)) == text
