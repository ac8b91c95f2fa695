"""The point kills its process at its turn, and at no other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

PROGRAM = """
from affidavit.journal import faultpoint
for name in ("a", "b", "a", "a"):
    faultpoint.reach(name)
    print(name, flush=True)
"""


@pytest.mark.parametrize(
    ("armed", "printed"),
    [("a", ""), ("a@1", ""), ("b", "a"), ("a@2", "ab"), ("a@3", "aba"), ("a@4", "abaa"), ("c", "abaa"), ("", "abaa")],
)
def test_reach(armed, printed):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "AFFIDAVIT_FAULTPOINT": armed},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.replace("\n", "") == printed
    assert done.returncode == (0 if printed == "abaa" else -signal.SIGKILL)
