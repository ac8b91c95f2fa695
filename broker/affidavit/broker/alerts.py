"""Alerts: what a person should look into (R67). Shown in tray and status, and recorded where records are still taken.

One alert of a kind and sentence at a time: the same cause again adds nothing. What is open outlives the run: its record
has an empty blob beside it, named by its number, which is deleted when it is closed. So the next run finds the open
ones without reading history, once the vault opens what they say. Owned by the broker's loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from affidavit.broker.moment import Clock, rfc3339
from affidavit.broker.projection import Projection
from affidavit.broker.terms import InvocationId, Kind, Micros
from affidavit.journal import Blob, Journal

KEPT = 256
"""Alerts that are open at most; the oldest give way, and stay in the journal."""
_MARK = "alert_"
"""With the record's number: the name of the blob of an open alert. It sorts behind those of results (`act_`)."""
_LASTING = ".lasting"
"""Ends the name where the alert tells of a state: the next run finds that out by itself."""


@dataclass(frozen=True, slots=True)
class Alert:
    alert_id: int
    """Counted in this run."""
    which: str
    """`recovery_deadline`, `mismatch`, `contradiction`, `several_matches`, `storage`, `journal` or `passphrase`."""
    says: str
    at: Micros
    invocation_id: InvocationId | None
    mark: str
    """Its blob."""


class Alerts:
    """The open alerts, oldest first."""

    def __init__(self, projection: Projection, journal: Journal, clock: Clock, changed: Callable[[], None]) -> None:
        self._projection = projection
        self._journal = journal
        self._clock = clock
        self._changed = changed
        self._open: dict[tuple[str, str], Alert] = {}
        self._seen_to: set[tuple[str, str]] = set()
        """What the operator has closed in this run."""
        self._raised = 0
        self.sealed = sum(not mark.endswith(_LASTING) for mark in self._marks())
        """How many earlier runs left open that are not shown yet: what they say is sealed."""

    def __iter__(self) -> Any:
        return iter(tuple(self._open.values()))

    def raise_(
        self, which: str, says: str, invocation_id: InvocationId | None = None, *, lasting: bool = False
    ) -> None:
        """`lasting`: it tells of a state and not of an event, so once the operator has closed it, it stays closed as
        long as this run lasts."""
        if (which, says) in self._open or (lasting and (which, says) in self._seen_to):
            return
        mark = self._raised_record({"which": which, "says": says, "invocation": invocation_id}, lasting=lasting)
        self._hold(which, says, self._clock.wall(), invocation_id, mark)
        while len(self._open) > KEPT:
            self._journal.delete_blob(self._open.pop(next(iter(self._open))).mark)
        self._changed()

    def close(self, which: str, says: str, by: str) -> bool:
        """Whether it was open. `by` is `operator`, or `broker` where the cause is gone."""
        alert = self._open.pop((which, says), None)
        if alert is None:
            return False
        self._projection.note(Kind.ALERT_CLOSED, {"which": which, "says": says, "by": by})
        if by == "operator":
            self._seen_to.add((which, says))
        self._journal.delete_blob(alert.mark)
        self._changed()
        return True

    def restore(self) -> None:
        """Show what earlier runs left open, now that the vault opens it. What is shown already is not shown twice."""
        shown = {alert.mark for alert in self._open.values()}
        for mark in self._marks():
            record = int(mark.removeprefix(_MARK).removesuffix(_LASTING))
            noted = self._projection.noted(record) if mark not in shown else None
            if noted is None:
                continue
            at, said = noted
            if (said["which"], said["says"]) in self._open:
                self._journal.delete_blob(mark)
            else:
                self._hold(said["which"], said["says"], at, said.get("invocation"), mark)
        self._open = dict(sorted(self._open.items(), key=lambda each: each[1].at))
        self.sealed = 0

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

    def _hold(self, which: str, says: str, at: Micros, invocation_id: InvocationId | None, mark: str) -> None:
        self._raised += 1
        self._open[which, says] = Alert(self._raised, which, says, at, invocation_id, mark)

    def _marks(self) -> Sequence[str]:
        return self._projection.reader.blob_ids(_MARK, _MARK + "~", 2 * KEPT)

    def _raised_record(self, payload: dict[str, Any], *, lasting: bool) -> str:
        """Append the record and its mark; the mark's name."""
        told = {name: value for name, value in payload.items() if value is not None}
        receipt = self._projection.note(
            Kind.ALERT_RAISED, told, blobs=lambda seqs: [Blob(_mark(seqs[0], lasting=lasting), b"")]
        )
        return _mark(receipt.seqs[0], lasting=lasting)


def _mark(record: int, *, lasting: bool) -> str:
    return f"{_MARK}{record:020d}{_LASTING if lasting else ''}"
