"""The benchmark command: measures what docs/performance.md lists, and prints one table.

It asserts nothing: a goal that is missed is said, and the exit status is 0. Exact counts are gates of the test suite.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Set
from pathlib import Path

import call_goals
import commit_goals
import journal_goals
import result_goals
import rpc_goals
import ssh_goals
from arena import Arena, directory, file_system, load
from effort import FULL, QUICK, Effort, progress
from goals import Finding, table

from affidavit.ipc.demo.stage import Stage

OF_JOURNAL: dict[str, Callable[[Path, Effort], list[Finding]]] = {
    "P1": journal_goals.p1,
    "P3": journal_goals.p3,
    "P9": journal_goals.p9,
}
"""Measured on the journal by itself, in a directory of their own."""

OF_ARENA: dict[str, Callable[[Arena, Effort], list[Finding]]] = {
    "P2": commit_goals.p2,
    "P5": call_goals.p5,
    "P7": ssh_goals.p7,
}
"""Measured on brokers that they start themselves; what needs another peer or wire belongs here."""

OF_STAGE: dict[str, Callable[[Arena, Stage, Effort], list[Finding]]] = {
    "P4": call_goals.p4,
    "P6": call_goals.p6,
    "P12": result_goals.p12,
    "P13": rpc_goals.p13,
    "P14": rpc_goals.p14,
}
"""Measured on one broker, which is started for all of them."""

GOALS = tuple(sorted([*OF_JOURNAL, *OF_ARENA, *OF_STAGE], key=lambda goal: int(goal[1:])))


def main() -> int:
    arguments = _arguments()
    wanted = set(arguments.only.upper().split(",") if arguments.only else GOALS)
    effort = QUICK if arguments.quick else FULL
    with directory(arguments.dir) as root:
        before = load()
        disk = file_system(root.resolve())
        findings = _measure(root, wanted, effort, arguments.mitmdump)
        after = load()
    if arguments.json:
        machine = {"before": before, "after": after, "file_system": disk, "quick": arguments.quick}
        print(json.dumps({"machine": machine, "findings": [finding.plain() for finding in findings]}))
    else:
        print(table(findings))
        print(f"\n{before} before, {after} after; files on {disk}; {'quick' if arguments.quick else 'full'} run")
    return 0


def _measure(root: Path, wanted: Set[str], effort: Effort, mitmdump: Path | None) -> list[Finding]:
    findings: list[Finding] = []
    for goal in filter(wanted.__contains__, OF_JOURNAL):
        findings += OF_JOURNAL[goal](root, effort)
    if wanted <= OF_JOURNAL.keys():
        return findings
    with Arena(root, mitmdump) as arena:
        for goal in filter(wanted.__contains__, OF_ARENA):
            findings += OF_ARENA[goal](arena, effort)
        if not wanted.isdisjoint(OF_STAGE):
            progress("starting the broker")
            stage = arena.broker("home")
            for goal in filter(wanted.__contains__, OF_STAGE):
                findings += OF_STAGE[goal](arena, stage, effort)
    return sorted(findings, key=lambda finding: GOALS.index(finding.goal))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="packaging/bench",
        description="What Affidavit costs, as ratios of medians that are measured side by side in one run.",
    )
    parser.add_argument("--quick", action="store_true", help="fewer samples and a shorter history")
    parser.add_argument("--only", metavar="GOALS", help=f"some of {','.join(GOALS)}")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--with-mitmproxy", action="store_true", help="set mitmproxy up in a .venv of its own")
    parser.add_argument("--mitmdump", type=Path, metavar="FILE", help="measure against this mitmdump, which is there")
    parser.add_argument("--unattended", action="store_true", help="ask nothing before the set-up")
    parser.add_argument("--dir", type=Path, metavar="D", help="where the throw-away files lie; a disk, not memory")
    arguments = parser.parse_args()
    unknown = set(arguments.only.upper().split(",")) - set(GOALS) if arguments.only else None
    if unknown:
        parser.error(f"not measured here: {', '.join(sorted(unknown))}")
    return arguments


if __name__ == "__main__":
    raise SystemExit(main())
