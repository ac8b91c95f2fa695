"""The benchmark command: measures what docs/performance.md lists, and prints one table.

It asserts nothing: a goal that is missed is said, and the exit status is 0. Exact counts are gates of the test suite.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import call_goals
import commit_goals
import journal_goals
import rpc_goals
from arena import Arena, directory, file_system, load
from effort import FULL, QUICK, Effort, progress
from goals import Finding, table

GOALS = ("P1", "P2", "P3", "P4", "P5", "P6", "P9", "P13", "P14")


def main() -> int:
    arguments = _arguments()
    wanted = arguments.only.upper().split(",") if arguments.only else GOALS
    effort = QUICK if arguments.quick else FULL
    with directory(arguments.dir) as root:
        before = load()
        disk = file_system(root.resolve())
        findings = _measure(root, wanted, effort)
        after = load()
    if arguments.json:
        machine = {"before": before, "after": after, "file_system": disk, "quick": arguments.quick}
        print(json.dumps({"machine": machine, "findings": [finding.plain() for finding in findings]}))
    else:
        print(table(findings))
        print(f"\n{before} before, {after} after; files on {disk}; {'quick' if arguments.quick else 'full'} run")
    return 0


def _measure(root: Path, wanted: tuple[str, ...] | list[str], effort: Effort) -> list[Finding]:
    findings: list[Finding] = []
    alone: dict[str, Callable[[Path, Effort], list[Finding]]] = {
        "P1": journal_goals.p1,
        "P3": journal_goals.p3,
        "P9": journal_goals.p9,
    }
    for goal, measure in alone.items():
        if goal in wanted:
            findings += measure(root, effort)
    if set(wanted) <= alone.keys():
        return findings
    with Arena(root) as arena:
        if "P2" in wanted:
            findings += commit_goals.p2(arena)
        if "P5" in wanted:
            findings += call_goals.p5(arena, effort)
        if not {"P4", "P6", "P13", "P14"}.isdisjoint(wanted):
            progress("starting the broker")
            stage = arena.broker("home")
            if "P4" in wanted:
                findings += call_goals.p4(arena, stage, effort)
            if "P6" in wanted:
                findings += call_goals.p6(arena, stage, effort)
            if "P13" in wanted:
                findings += rpc_goals.p13(arena, stage, effort)
            if "P14" in wanted:
                findings += rpc_goals.p14(arena, stage, effort)
    return sorted(findings, key=lambda finding: GOALS.index(finding.goal))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="packaging/bench",
        description="What Affidavit costs, as ratios of medians that are measured side by side in one run.",
    )
    parser.add_argument("--quick", action="store_true", help="fewer samples and a shorter history")
    parser.add_argument("--only", metavar="GOALS", help=f"some of {','.join(GOALS)}")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--unattended", action="store_true", help="ask nothing before the set-up")
    parser.add_argument("--dir", type=Path, metavar="D", help="where the throw-away files lie; a disk, not memory")
    arguments = parser.parse_args()
    unknown = set(arguments.only.upper().split(",")) - set(GOALS) if arguments.only else None
    if unknown:
        parser.error(f"not measured here: {', '.join(sorted(unknown))}")
    return arguments


if __name__ == "__main__":
    raise SystemExit(main())
