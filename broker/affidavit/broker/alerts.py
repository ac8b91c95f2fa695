"""Alerts: what a person should look into (R67). Shown in tray and status, and recorded where records are still taken.

One alert of a kind and sentence at a time: the same cause again adds nothing. What is open outlives the run: its record
has an empty blob beside it, named by its number, which is deleted when it is closed. So the next run finds the open
ones without reading history, once the vault opens what they say. Where a state of an invocation is told, names of blobs
hold the invocation and what is told of it, so that a later run knows its alert again while the vault is locked: the one
that is open, and the one that the operator has closed. Owned by the broker's loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
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
"""Ends the name where the alert tells of a state: the next run finds that out by itself. Behind it, after a dot, comes
the cause of a state of an invocation."""
_SEEN = "seen_"
"""With a cause: the name of the blob that says that the operator has closed its alert. It sorts behind the marks."""


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
        self._dropped: set[str] = set()
        """Marks deleted in this run: the journal may still show them for a moment."""
        self._raised = 0
        marks = self._marks()
        self._known = {mark.partition(_LASTING + ".")[2]: mark for mark in marks if _LASTING + "." in mark}
        """The marks that earlier runs left, by cause."""
        self.sealed = sum(_LASTING not in mark for mark in marks)
        """How many earlier runs left open that are not shown yet: what they say is sealed."""

    def __iter__(self) -> Any:
        return iter(tuple(self._open.values()))

    def raise_(
        self, which: str, says: str, invocation_id: InvocationId | None = None, *, lasting: bool = False
    ) -> None:
        """`lasting`: it tells of a state and not of an event, so once the operator has closed it, it stays closed: as
        long as this run lasts, and for good where it is the state of an invocation."""
        cause = _cause(which, invocation_id) if lasting else None
        if (which, says) in self._open or (lasting and ((which, says) in self._seen_to or self._is_seen(cause))):
            return
        mark = self._known.pop(cause, None) if cause is not None else None
        record = self._projection.reader.record(_record(mark)) if mark is not None else None
        at = Micros(record.at) if record is not None else self._clock.wall()
        if mark is None or record is None:
            told = {"which": which, "says": says, "invocation": invocation_id}
            mark = self._raised_record(told, at, lasting=lasting, cause=cause)
        self._hold(which, says, at, invocation_id, mark)
        while len(self._open) > KEPT:
            self._drop(self._open.pop(next(iter(self._open))).mark)
        self._changed()

    def close(self, which: str, says: str, by: str) -> bool:
        """Whether it was open. `by` is `operator`, or `broker` where the cause is gone."""
        alert = self._open.pop((which, says), None)
        if alert is None:
            return False
        seen: list[Blob] = []
        if by == "operator":
            self._seen_to.add((which, says))
            cause = _cause(which, alert.invocation_id) if _LASTING in alert.mark else None
            if cause is not None and not self._is_seen(cause):
                seen.append(Blob(_SEEN + cause, b""))
        self._projection.note(Kind.ALERT_CLOSED, {"which": which, "says": says, "by": by}, blobs=lambda _: seen)
        self._drop(alert.mark)
        self._changed()
        return True

    def restore(self) -> None:
        """Show what earlier runs left open, now that the vault opens it. What is shown already is not shown twice, and
        has the time of the first; what was closed meanwhile is closed."""
        shown = {alert.mark for alert in self._open.values()}
        for mark in self._marks():
            noted = self._projection.noted(_record(mark)) if mark not in shown | self._dropped else None
            if noted is None:
                continue
            at, said = noted
            told = (said["which"], said["says"])
            again = self._open.get(told)
            if again is not None:
                self._drop(again.mark)
                self._open[told] = replace(again, at=at, mark=mark)
            elif told in self._seen_to:
                self._drop(mark)
            else:
                self._hold(*told, at, said.get("invocation"), mark)
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

    def _drop(self, mark: str) -> None:
        self._dropped.add(mark)
        self._journal.delete_blob(mark)

    def _is_seen(self, cause: str | None) -> bool:
        """Whether the operator has closed its alert, in whichever run."""
        return cause is not None and bool(self._projection.reader.blob_ids(_SEEN + cause, _SEEN + cause + "\0", 1))

    def _marks(self) -> Sequence[str]:
        return self._projection.reader.blob_ids(_MARK, _MARK + "~", 2 * KEPT)

    def _raised_record(self, payload: dict[str, Any], at: Micros, *, lasting: bool, cause: str | None) -> str:
        """Append the record and its mark; the mark's name."""
        told = {name: value for name, value in payload.items() if value is not None}
        ends = (_LASTING if lasting else "") + (f".{cause}" if cause is not None else "")
        receipt = self._projection.note(
            Kind.ALERT_RAISED, told, at=at, blobs=lambda seqs: [Blob(f"{_MARK}{seqs[0]:020d}{ends}", b"")]
        )
        return f"{_MARK}{receipt.seqs[0]:020d}{ends}"


def _record(mark: str) -> int:
    return int(mark.removeprefix(_MARK).partition(".")[0])


def _cause(which: str, invocation_id: InvocationId | None) -> str | None:
    return f"{invocation_id}.{which}" if invocation_id is not None else None
