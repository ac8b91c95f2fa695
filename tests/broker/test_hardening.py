"""What `harden` asks for holds, seen from outside the process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from affidavit.broker import hardening

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="prctl and /proc")

PROGRAM = """
import ctypes, resource, sys
from affidavit.broker.hardening import harden
if "harden" in sys.argv:
    harden()
print("ready", ctypes.CDLL(None).prctl(3, 0, 0, 0, 0), *resource.getrlimit(resource.RLIMIT_CORE), flush=True)
sys.stdin.read()
"""


def run(*arguments: str) -> tuple[list[str], str, int]:
    """The program's own answer, its status file, and the owner of its /proc directory."""
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        answer = process.stdout.readline().split()
        text = Path(f"/proc/{process.pid}/status").read_text()
        owner = os.stat(f"/proc/{process.pid}/environ").st_uid
        process.kill()
    return answer, text, owner


@pytest.mark.e2e
def test_harden_closes_the_process() -> None:
    answer, status, owner = run("harden")
    assert answer == ["ready", "0", "0", "0"]
    assert "NoNewPrivs:\t1" in status
    assert owner == 0


@pytest.mark.e2e
def test_importing_alone_changes_nothing() -> None:
    answer, status, _ = run()
    assert answer[1] == "1"
    ours = Path("/proc/self/status").read_text()
    assert ("NoNewPrivs:\t1" in status) == ("NoNewPrivs:\t1" in ours)


def test_a_refusal_is_not_silent() -> None:
    with pytest.raises(OSError, match="prctl"):
        hardening._prctl(-1, 0)
