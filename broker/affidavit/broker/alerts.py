"""Alerts: what a person should look into (R67). Shown in tray and status, and recorded where records are still taken.

One alert of a kind and sentence at a time: the same cause again adds nothing. Owned by the broker's loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from affidavit.broker.moment import Clock, rfc3339
from affidavit.broker.projection import Projection
from affidavit.broker.terms import InvocationId, Kind, Micros
from affidavit.journal import JournalPoisoned

KEPT = 256
"""Alerts that are open at most; the oldest give way, and stay in the journal."""


@dataclass(frozen=True, slots=True)
class Alert:
    alert_id: int
    """Counted in this run."""
    which: str
    """`recovery_deadline`, `mismatch`, `contradiction`, `several_matches`, `storage`, `journal` or `passphrase`."""
    says: str
    at: Micros
    invocation_id: InvocationId | None = None


class Alerts:
    """The open alerts, oldest first."""

    def __init__(self, projection: Projection, clock: Clock, changed: Callable[[], None]) -> None:
        self._projection = projection
        self._clock = clock
        self._changed = changed
        self._open: dict[tuple[str, str], Alert] = {}
        self._raised = 0

    def __iter__(self) -> Any:
        return iter(tuple(self._open.values()))

    def raise_(self, which: str, says: str, invocation_id: InvocationId | None = None) -> None:
        if (which, says) in self._open:
            return
        self._raised += 1
        self._open[which, says] = Alert(self._raised, which, says, self._clock.wall(), invocation_id)
        if len(self._open) > KEPT:
            del self._open[next(iter(self._open))]
        self._note(Kind.ALERT_RAISED, {"which": which, "says": says, "invocation": invocation_id})
        self._changed()

    def close(self, which: str, says: str, by: str) -> bool:
        """Whether it was open. `by` is `operator`, or `broker` where the cause is gone."""
        if self._open.pop((which, says), None) is None:
            return False
        self._note(Kind.ALERT_CLOSED, {"which": which, "says": says, "by": by})
        self._changed()
        return True

    def get(self, alert_id: int) -> Alert | None:
        return next((alert for alert in self._open.values() if alert.alert_id == alert_id), None)

    def shown(self) -> list[dict[str, Any]]:
        return [
            {
                "id": alert.alert_id,
                "which": alert.which,
                "says": alert.says,
                "at": rfc3339(alert.at),
                "invocation_id": alert.invocation_id,
            }
            for alert in self._open.values()
        ]

    def _note(self, kind: Kind, payload: dict[str, Any]) -> None:
        try:
            self._projection.note(kind, {name: value for name, value in payload.items() if value is not None})
        except JournalPoisoned:
            pass
