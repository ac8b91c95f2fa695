"""The broker's `status` as one frozen value, as the tray and the main window read it. Plain data, no Qt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from affidavit.broker.api import Json
from affidavit.broker.terms import Outcome, Phase
from affidavit.gui import times

Counts = Mapping[Phase, Mapping[Outcome, int]]


@dataclass(frozen=True, slots=True)
class Alert:
    """One open alert: its id in this run, its whole sentence (foreign text may stand in it), and since when."""

    alert_id: int
    says: str
    at: datetime | None


@dataclass(frozen=True, slots=True)
class Status:
    """One snapshot. `vault` is `locked`, `ready`, `quarantined` or `absent`; `journal` is `ok` or `poisoned`."""

    vault: str = "locked"
    journal: str = "ok"
    journal_reason: str | None = None
    record: int | None = None
    """The journal's newest record."""
    approver: bool = False
    cards: int = 0
    running: int = 0
    """Actions behind the line, or on their way to it, that are not settled."""
    unknown: int = 0
    past_deadline: int = 0
    sessions: int = 0
    grants: int = 0
    allowed_without_asking: int = 0
    pending_contracts: int = 0
    unlock_wanted: int = 0
    """Counts up, once a minute at most, while agents ask and the vault is locked."""
    alerts: tuple[Alert, ...] = ()
    """What the operator should look into, oldest first (R67)."""
    alerts_sealed: int = 0
    """Open alerts of earlier runs; what they say is sealed until the vault is open."""
    theme: str = "system"
    """The operator's setting `look.theme`: `system`, `light` or `dark`."""
    counts: Counts = field(default_factory=dict)

    @classmethod
    def read(cls, told: Json) -> Status:
        """Read a `status` object; a field that is not there keeps its default."""
        head = told.get("head") or {}
        return cls(
            vault=str(told.get("vault", "locked")),
            journal=str(told.get("journal", "ok")),
            journal_reason=told.get("journal_reason"),
            record=head.get("record"),
            approver=bool(told.get("approver", False)),
            cards=int(told.get("cards", 0)),
            running=int(told.get("running", 0)),
            unknown=int(told.get("unknown", 0)),
            past_deadline=int(told.get("unknown_past_deadline", 0)),
            sessions=int(told.get("sessions", 0)),
            grants=int(told.get("grants", 0)),
            allowed_without_asking=int(told.get("allowed_without_asking", 0)),
            pending_contracts=int(told.get("pending_contracts", 0)),
            unlock_wanted=int(told.get("unlock_wanted", 0)),
            alerts=tuple(
                Alert(int(alert["id"]), str(alert["says"]), times.parse(alert.get("at")))
                for alert in told.get("alerts") or ()
            ),
            theme=str(told.get("theme", "system")),
            alerts_sealed=int(told.get("alerts_sealed", 0)),
            counts={
                Phase(phase): {Outcome(outcome): int(n) for outcome, n in row.items()}
                for phase, row in (told.get("counts") or {}).items()
            },
        )

    def total(self, outcome: Outcome) -> int:
        """All actions of this outcome, whatever their phase."""
        return sum(row.get(outcome, 0) for row in self.counts.values())

    def at(self, phase: Phase, outcome: Outcome) -> int:
        """The actions of this outcome that stopped in this phase."""
        return self.counts.get(phase, {}).get(outcome, 0)

    @property
    def open(self) -> bool:
        """The vault is open, so that an action may be dispatched."""
        return self.vault == "ready"

    @property
    def poisoned(self) -> bool:
        """A record could not be written: nothing is dispatched any more."""
        return self.journal == "poisoned"
