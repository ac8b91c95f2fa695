"""How long a run takes, and where it says how far it is."""

from __future__ import annotations

import sys
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Effort:
    """How many samples are taken."""

    commits: int
    group_rounds: int
    history: int
    """Events of the longer journal of P9; the shorter one has a tenth."""
    recoveries: int
    calls: int
    warming: int
    """Rounds before those that count. Two commits of some four frames each: after 130 the write-ahead log is reused."""
    many_calls: int
    """Of all 32 callers together, each time."""
    many_rounds: int
    starts: int
    large_results: int
    result_bytes: int
    """Of the result of P12."""
    result_rounds: int
    commands: int
    push_bytes: int
    pushes: int


FULL = Effort(
    commits=400,
    group_rounds=20,
    history=1_000_000,
    recoveries=40,
    calls=400,
    warming=150,
    many_calls=640,
    many_rounds=5,
    starts=40,
    large_results=10,
    result_bytes=1024 * 1024 * 1024,
    result_rounds=3,
    commands=100,
    push_bytes=200 * 1024 * 1024,
    pushes=5,
)
QUICK = Effort(
    commits=100,
    group_rounds=5,
    history=20_000,
    recoveries=20,
    calls=80,
    warming=150,
    many_calls=256,
    many_rounds=3,
    starts=10,
    large_results=3,
    result_bytes=128 * 1024 * 1024,
    result_rounds=3,
    commands=20,
    push_bytes=32 * 1024 * 1024,
    pushes=3,
)


def progress(what: str) -> None:
    """Say on stderr what is measured now."""
    print(f"bench: {what}", file=sys.stderr, flush=True)
