"""Findings are judged as their goals say, and stand in one table."""

from __future__ import annotations

import pytest
from goals import Finding, Holds, Verdict, medians, milliseconds, table


def finding(measured: float | None, holds: Holds, wanted: float) -> Finding:
    return Finding("P0", "a thing / another", measured, holds, wanted, "n 1")


@pytest.mark.parametrize(
    ("measured", "holds", "wanted", "verdict"),
    [
        (1.2, Holds.AT_MOST, 1.2, Verdict.MET),
        (1.21, Holds.AT_MOST, 1.2, Verdict.MISSED),
        (8.0, Holds.AT_LEAST, 8, Verdict.MET),
        (7.99, Holds.AT_LEAST, 8, Verdict.MISSED),
        (2, Holds.EXACTLY, 2, Verdict.MET),
        (1, Holds.EXACTLY, 2, Verdict.MISSED),
        (3, Holds.EXACTLY, 2, Verdict.MISSED),
        (None, Holds.AT_MOST, 1.2, Verdict.NOT_MEASURED),
    ],
)
def test_verdict(measured: float | None, holds: Holds, wanted: float, verdict: Verdict) -> None:
    assert finding(measured, holds, wanted).verdict is verdict


def test_medians_of_each() -> None:
    assert medians({"a": [3.0, 1.0, 2.0], "b": [4.0, 1.0]}) == {"a": 2.0, "b": 2.5}


def test_milliseconds_name_their_count() -> None:
    assert milliseconds({"D": 0.00091, "C": 0.000384}, 400) == "D 0.91, C 0.384 ms; n 400"


def test_table_has_a_line_for_each_and_says_what_was_not_measured() -> None:
    lines = table([finding(1.5, Holds.AT_MOST, 1.2), finding(None, Holds.AT_LEAST, 3)]).splitlines()
    assert len(lines) == 3
    assert lines[1].split() == ["P0", "a", "thing", "/", "another", "1.5", "<=", "1.2", "missed", "n", "1"]
    assert lines[2].split() == ["P0", "a", "thing", "/", "another", "-", ">=", "3", "not", "measured", "n", "1"]
    assert len({line.index("n 1") for line in lines[1:]}) == 1


def test_json_of_a_finding() -> None:
    assert finding(1.0, Holds.AT_MOST, 1.2).plain() == {
        "goal": "P0",
        "what": "a thing / another",
        "measured": 1.0,
        "wanted": "<= 1.2",
        "verdict": "met",
        "detail": "n 1",
    }
