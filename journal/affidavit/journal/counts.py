"""How many invocations stand at each (phase, outcome), kept without a page of its own in every commit.

The `tally` row holds the totals as of the newest segment's beginning. What each later transaction did to them stands
in the `tally` column of its last record. So the totals are one row and at most one segment of records away, however
long the history, and a settled action costs no further page.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping

from affidavit.journal.sqlcipher import Connection

Place = tuple[str | None, str | None]
"""(phase, outcome)."""

_READ = """
SELECT counts FROM tally
UNION ALL
SELECT tally FROM record
WHERE tally IS NOT NULL AND seq > (SELECT segment FROM record ORDER BY seq DESC LIMIT 1)
"""


def encode_tally(changes: Mapping[Place, int]) -> str | None:
    """Changes as canonical JSON `[[phase, outcome, change], ...]`; None where nothing changed."""
    entries = [[*place, change] for place, change in changes.items() if change]
    if not entries:
        return None
    return json.dumps(sorted(entries, key=str), separators=(",", ":"))


def add_tally(totals: Counter[Place], tally: str) -> None:
    """Add what `encode_tally` gave."""
    for phase, outcome, change in json.loads(tally):
        totals[phase, outcome] += change


def read_counts(connection: Connection) -> Counter[Place]:
    """The totals as of the last commit that this connection sees."""
    totals: Counter[Place] = Counter()
    for (tally,) in connection.execute(_READ).fetchall():
        add_tally(totals, tally)
    return totals
