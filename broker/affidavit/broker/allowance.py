"""Repeats that a card named: "Approve with up to 2 repeats" (interface, Approval; R15).

Each is of the same dispatch fingerprint, and is counted down. Kept in memory only: no approval survives a lock or a
restart. Owned by the broker's loop.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace

from affidavit.broker.approval import Borrowed
from affidavit.broker.bound import Bound
from affidavit.broker.terms import OperationId

KEPT = 1024
"""Operations whose repeats are remembered; of the oldest one a repeat takes a card again."""


class Allowances:
    """What is left of each card, by operation."""

    def __init__(self) -> None:
        self._held: OrderedDict[OperationId, tuple[str, Borrowed]] = OrderedDict()

    def give(self, bound: Bound, decision: Borrowed) -> None:
        """`decision.repeats_left` repeats of what is bound were approved."""
        self._held[bound.operation_id] = (bound.fingerprint, decision)
        while len(self._held) > KEPT:
            self._held.popitem(last=False)

    def covers(self, bound: Bound) -> bool:
        held = self._held.get(bound.operation_id)
        return held is not None and held[0] == bound.fingerprint

    def take(self, bound: Bound) -> Borrowed | None:
        """One repeat of exactly this; None where none is left. What is left after it stands in what is returned."""
        if not self.covers(bound):
            return None
        fingerprint, decision = self._held.pop(bound.operation_id)
        decision = replace(decision, repeats_left=decision.repeats_left - 1)
        if decision.repeats_left:
            self._held[bound.operation_id] = (fingerprint, decision)
        return decision

    def end_all(self) -> None:
        self._held.clear()
