"""Signals from Python cost no reference: one Qt binding drops a `True` with each emit, and the process aborts."""

from __future__ import annotations

import subprocess
import sys

EMITS = 2_000
PROGRAM = f"""
import sys
from PySide6.QtCore import QCoreApplication, QObject, Signal

class Source(QObject):
    happened = Signal(int)

app = QCoreApplication([])
source, seen = Source(), []
before = sys.getrefcount(True)
for n in range({EMITS}):
    source.happened.connect(seen.append)
    source.happened.emit(n)
    source.happened.disconnect(seen.append)
assert len(seen) == {EMITS}
assert sys.getrefcount(True) > before - 100, "each emit drops a reference to True"
print("whole")
"""


def test_two_thousand_emits_leave_the_process_whole() -> None:
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout) == (0, "whole\n"), ended.stderr
