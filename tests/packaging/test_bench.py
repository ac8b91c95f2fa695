"""The benchmark command itself, on what is exact: it runs the real broker, and prints what it found."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

ROOT = Path(__file__).parents[2]


def bench(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "packaging/bench.d", *words],
        cwd=ROOT,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


@pytest.mark.e2e
def test_counts_are_printed_as_json_and_progress_goes_to_stderr() -> None:
    with TemporaryDirectory() as short:  # a socket's path has room for some hundred characters only
        done = bench("--quick", "--only", "p2", "--json", "--dir", short)
        left = list(Path(short).iterdir())
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    assert {finding["goal"] for finding in printed["findings"]} == {"P2"}
    assert {finding["verdict"] for finding in printed["findings"]} <= {"met", "not measured"}
    assert printed["machine"]["quick"] is True
    assert done.stderr.startswith("bench: ")
    assert left == []


def test_a_goal_that_is_not_measured_here_is_named() -> None:
    done = bench("--only", "P4,P99")
    assert done.returncode == 2
    assert "not measured here: P99" in done.stderr
