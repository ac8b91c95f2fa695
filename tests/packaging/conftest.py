"""Puts the benchmark's modules, which are a program and no package, within reach of the tests beside it."""

from __future__ import annotations

import sys
from pathlib import Path

BENCH = Path(__file__).parents[2] / "packaging" / "bench.d"

sys.path.insert(0, str(BENCH))
