"""The journal by itself: P1, P3, P9."""

from __future__ import annotations

from pathlib import Path

from effort import Effort, progress
from goals import Finding, Holds, milliseconds

from affidavit.journal import bench


def p1(root: Path, effort: Effort) -> list[Finding]:
    progress("P1, one commit against a plain append")
    cost = bench.measure_commit(_new(root, "p1"), commits=effort.commits)
    taken = {"F": cost.plain_s, "C": cost.commit_s, "C as called": cost.call_s}
    detail = milliseconds(taken, effort.commits)
    return [
        Finding("P1", "commit / F", cost.ratio, Holds.AT_MOST, 1.7, detail),
        Finding("P1", "frames in the log per commit", cost.frames, Holds.AT_MOST, 4, f"mean of {effort.commits}"),
    ]


def p3(root: Path, effort: Effort) -> list[Finding]:
    progress("P3, 32 callers of the journal")
    cost = bench.measure_group(_new(root, "p3"), rounds=effort.group_rounds)
    detail = f"{cost.callers} callers, {cost.events} events"
    return [
        Finding("P3", "commits per event", cost.commits_per_event, Holds.AT_MOST, 1 / 8, detail),
        Finding("P3", "events/s against one by one", cost.speedup, Holds.AT_LEAST, 8, detail),
    ]


def p9(root: Path, effort: Effort) -> list[Finding]:
    long, short = effort.history, effort.history // 10
    progress(f"P9, recovery after {short:,} and {long:,} events")
    after_short, after_long = bench.measure_recovery(_new(root, "p9"), events=(short, long), rounds=effort.recoveries)
    replay = {"recovery": after_long.recovery_s, "full replay": after_long.replay_s}
    growth = {f"{short:,} events": after_short.recovery_s, f"{long:,} events": after_long.recovery_s}
    grown = after_long.recovery_s / after_short.recovery_s
    return [
        Finding(
            "P9",
            f"recovery / replay of {long:,} events",
            after_long.ratio,
            Holds.AT_MOST,
            0.01,
            milliseconds(replay, effort.recoveries),
        ),
        Finding(
            "P9", "recovery, ten times the history", grown, Holds.AT_MOST, 1.5, milliseconds(growth, effort.recoveries)
        ),
    ]


def _new(root: Path, name: str) -> Path:
    made = root / name
    made.mkdir()
    return made
