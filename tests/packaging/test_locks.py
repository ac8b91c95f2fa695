"""Lock files: every package pinned to one version and its hashes, and nothing that names where it comes from."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PACKAGING = Path(__file__).parents[2] / "packaging"
LOCKS = sorted(PACKAGING.glob("requirements*.txt"))

PINNED = re.compile(r"[a-z0-9-]+==[^\s;]+( ; [^\\]+)? \\")
HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}( \\)?")
WHY = re.compile(r"    # +(via( .+)?|(-[cr] packaging/)?[\w.-]+( \(.+\))?)")


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_a_lock_holds_pins_and_hashes_alone(lock: Path) -> None:
    lines = lock.read_text().splitlines()
    assert any(PINNED.fullmatch(line) for line in lines)
    odd = [
        line for line in lines if line and not (PINNED.fullmatch(line) or HASH.fullmatch(line) or WHY.fullmatch(line))
    ]
    assert odd == []


def test_each_lock_has_its_source() -> None:
    assert {lock.with_suffix(".in").name for lock in LOCKS} == {path.name for path in PACKAGING.glob("*.in")}
