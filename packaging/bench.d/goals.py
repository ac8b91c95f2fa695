"""What was found and what it is held against: values, without a clock. Also the one table that is printed."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Holds(StrEnum):
    """How a measured value must stand to its goal."""

    AT_MOST = "<="
    AT_LEAST = ">="
    EXACTLY = "="


class Verdict(StrEnum):
    MET = "met"
    MISSED = "missed"
    NOT_MEASURED = "not measured"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the table. `measured` is a ratio or a count in the goal's own unit; None: `detail` says why not."""

    goal: str
    what: str
    measured: float | None
    holds: Holds
    wanted: float
    detail: str

    @property
    def verdict(self) -> Verdict:
        if self.measured is None:
            return Verdict.NOT_MEASURED
        match self.holds:
            case Holds.AT_MOST:
                kept = self.measured <= self.wanted
            case Holds.AT_LEAST:
                kept = self.measured >= self.wanted
            case Holds.EXACTLY:
                kept = self.measured == self.wanted
        return Verdict.MET if kept else Verdict.MISSED

    def plain(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "goal": self.goal,
            "what": self.what,
            "measured": self.measured,
            "wanted": f"{self.holds} {self.wanted:g}",
            "verdict": str(self.verdict),
            "detail": self.detail,
        }


def medians(samples: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {name: statistics.median(taken) for name, taken in samples.items()}


def milliseconds(of: Mapping[str, float], count: int) -> str:
    """Medians for a person: `D 0.91, C 0.38 ms; n 400`."""
    return f"{', '.join(f'{name} {seconds * 1000:.3g}' for name, seconds in of.items())} ms; n {count}"


def table(findings: Sequence[Finding]) -> str:
    """The findings, one a line, under a head."""
    rows = [("goal", "what", "measured", "wanted", "", "medians and counts")]
    rows += [
        (
            finding.goal,
            finding.what,
            "-" if finding.measured is None else f"{finding.measured:.3g}",
            f"{finding.holds} {finding.wanted:g}",
            str(finding.verdict),
            finding.detail,
        )
        for finding in findings
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
