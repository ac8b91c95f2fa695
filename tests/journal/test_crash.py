"""Real processes, killed between commits or robbed of their disk: nothing that was acknowledged is lost (R23, R75)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from affidavit.journal import verify

PROGRAM = Path(__file__).with_name("writer_process.py")


def run(home, *arguments: str, faultpoint: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ)
    if faultpoint is not None:
        environment["AFFIDAVIT_FAULTPOINT"] = faultpoint
    return subprocess.run(
        [sys.executable, str(PROGRAM), str(home.path), home.key.hex(), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def acknowledged(done: subprocess.CompletedProcess[str]) -> list[int]:
    return [int(seq) for line in done.stdout.splitlines() if line[0].isdigit() for seq in line.split()]


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("nth", [1, 2, 5])
def test_killed_around_a_commit(home, moment, nth):
    done = run(home, "8", faultpoint=f"{moment}:DISPATCH_STARTED@{nth}")
    assert done.returncode == -signal.SIGKILL, done.stderr
    told = acknowledged(done)
    assert len(told) == 2 * (nth - 1)
    verdict = verify(home.path, home.key)
    assert verdict.intact
    # before its commit nothing of it is there; after it all is, though nobody was told
    committed = nth - (moment == "before")
    assert verdict.records == (2 * committed + 1 if committed else 0)
    assert set(told) <= set(range(verdict.head.seq + 1))
    reader = home.reader()
    assert [view.invocation_id for view in reader.open_actions()] == [f"act_{n}" for n in range(committed)]
    assert [home.opener().payload(record)["n"] for record in reader.records_between(2, 99)] == [
        n for n in range(committed) for _ in range(2)
    ]


def test_killed_again_and_again(home):
    """Every start goes on where the last one was killed, each time in a segment of its own."""
    for nth in (1, 3, 2, 4):
        assert run(home, "8", faultpoint=f"after:DISPATCH_STARTED@{nth}").returncode == -signal.SIGKILL
    assert run(home, "2").returncode == 0
    verdict = verify(home.path, home.key)
    assert verdict.intact
    records = home.reader().records_between(1, 10**6)
    assert [record.kind for record in records].count("SEGMENT_OPENED") == 5
    assert verdict.records == 2 * (1 + 3 + 2 + 4 + 2) + 5


def test_a_full_disk_poisons_and_keeps_what_was_acknowledged(home):
    """The kernel refuses to let a file grow any further: the write-ahead log, in the midst of a commit."""
    done = run(home, "500", str(300_000))
    assert done.returncode == 1, done.stderr
    assert "poisoned A record could not be written" in done.stdout
    told = acknowledged(done)
    assert len(told) >= 10
    verdict = verify(home.path, home.key)
    assert verdict.intact
    assert verdict.head.seq >= max(told)
    assert run(home, "1").returncode == 0  # with space again, it goes on


def test_an_unarmed_point_does_nothing(home):
    assert run(home, "2", faultpoint="before:NEVER").returncode == 0
    assert run(home, "2", faultpoint="").returncode == 0
