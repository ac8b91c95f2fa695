"""Metrics: how often each phase and each outcome was reached, by target and contract, in this run (R69).

Why not from the records: docs/decisions/0012.

Phase and outcome are counted apart. An invocation counts once it has a verdict, where it stands now: one that is
settled later moves. Bounded: what is beyond `PLACES` is counted together. Owned by the broker's loop.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from affidavit.broker.outcome import Invocation
from affidavit.broker.terms import InvocationId, Micros

PLACES = 64
"""Pairs of target and contract that are told apart."""
MOVING = 4096
"""Invocations whose count may still move."""


class Place(NamedTuple):
    """Where an invocation is counted: the target's origin and the contract's id."""

    target: str
    contract: str


OTHERS = Place("others", "others")


class Metrics:
    """Counts by place, of what has reached its verdict since `since`."""

    def __init__(self, since: Micros) -> None:
        self.since = since
        self._phases: dict[Place, Counter[str]] = {}
        self._outcomes: dict[Place, Counter[str]] = {}
        self._standing: OrderedDict[InvocationId, tuple[Place, str, str]] = OrderedDict()

    def changed(self, inv: Invocation) -> None:
        if not inv.finished or inv.contract_id is None or inv.target is None:
            return
        before = self._standing.get(inv.invocation_id)
        place = before[0] if before is not None else self._place(inv)
        standing = (place, str(inv.phase), str(inv.outcome))
        if before == standing:
            return
        if before is not None:
            self._count(before, -1)
        self._count(standing, +1)
        self._standing[inv.invocation_id] = standing
        if len(self._standing) > MOVING:
            self._standing.popitem(last=False)

    def shown(self) -> list[dict[str, Any]]:
        """`[{target, contract, phases, outcomes}]`, in the order of first use."""
        return [
            {
                "target": place.target,
                "contract": place.contract,
                "phases": {name: count for name, count in self._phases[place].items() if count},
                "outcomes": {name: count for name, count in self._outcomes[place].items() if count},
            }
            for place in self._phases
        ]

    def _place(self, inv: Invocation) -> Place:
        target = inv.target or {}
        url = urlsplit(str(target.get("url", "")))
        origin = f"{url.scheme}://{url.netloc}" if url.netloc else str(target.get("host", ""))
        place = Place(origin, inv.contract_id or "")
        return place if place in self._phases or len(self._phases) < PLACES else OTHERS

    def _count(self, standing: tuple[Place, str, str], change: int) -> None:
        place, phase, outcome = standing
        self._phases.setdefault(place, Counter())[phase] += change
        self._outcomes.setdefault(place, Counter())[outcome] += change
