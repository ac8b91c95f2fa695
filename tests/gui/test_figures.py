"""Numbers are exact, and times are read off in the zone that was asked for."""

from __future__ import annotations

from datetime import UTC, timedelta, timezone

import pytest

from affidavit.broker.terms import Micros
from affidavit.gui import figures

SECOND = 1_000_000


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (117, "117 bytes"),
        (10_000, "10,000 bytes"),
        (9 << 20, "9 MiB"),
        (8193, "8,193 bytes"),
        (8192, "8 KiB"),
    ],
)
def test_size(number: int, said: str) -> None:
    assert figures.size(number) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(102, "1 minute 42 seconds"), (60, "1 minute"), (121, "2 minutes 1 second"), (9.9, "9 seconds"), (0, "0 seconds")],
)
def test_spoken(seconds: float, said: str) -> None:
    assert figures.spoken(seconds) == said


@pytest.mark.parametrize(("seconds", "said"), [(102, "1:42"), (9, "0:09"), (0, "0:00"), (-5, "0:00"), (600, "10:00")])
def test_countdown(seconds: int, said: str) -> None:
    assert figures.countdown(seconds) == said


def test_clock_is_in_the_zone() -> None:
    noon = Micros(12 * 3600 * SECOND)
    assert figures.clock(noon, UTC) == "12:00"
    assert figures.clock(noon, timezone(timedelta(hours=2, minutes=30))) == "14:30"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0 seconds ago"),
        (1, "1 second ago"),
        (59, "59 seconds ago"),
        (60, "1 minute ago"),
        (720, "12 minutes ago"),
        (7199, "1 hour ago"),
        (200_000, "2 days ago"),
        (-3, "0 seconds ago"),
    ],
)
def test_ago_is_rounded_down(seconds: int, said: str) -> None:
    assert figures.ago(Micros(0), Micros(seconds * SECOND)) == said
