"""What the main window says: vault, strip, outcome counts, where actions stopped, activity. Plain data, no Qt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from affidavit.broker.api import Json
from affidavit.broker.terms import InvocationId, Outcome, Phase
from affidavit.gui import texts_unknown as texts
from affidavit.gui import times, unknown_view
from affidavit.gui.figures import count
from affidavit.gui.status import Status
from affidavit.gui.texts import OUTCOME

ACTIVITY_LIMIT = 200
"""Actions on the page. Filters and search over all of them are another page."""

TILES = (Outcome.COMMITTED, Outcome.REJECTED, Outcome.UNKNOWN, Outcome.NOT_ATTEMPTED)
BEFORE_THE_LINE = (Phase.VALIDATION, Phase.CREDENTIAL_INJECTION, Phase.CONNECTION_SETUP)
BEHIND_THE_LINE = (Phase.REMOTE_EXECUTION, Phase.RESULT_DELIVERY)


@dataclass(frozen=True, slots=True)
class VaultBox:
    """The state of the vault at the foot of the sidebar."""

    title: str
    note: str
    open: bool


@dataclass(frozen=True, slots=True)
class Strip:
    """The status strip. `show` is set where there are cards to show."""

    record: str
    agents: str
    cards: str
    show: bool


@dataclass(frozen=True, slots=True)
class Tile:
    outcome: Outcome
    count: str
    note: str


@dataclass(frozen=True, slots=True)
class Rung:
    """One phase of the ladder with the outcomes that stopped there. `behind`: below the line."""

    phase: str
    counts: tuple[tuple[Outcome, str], ...]
    behind: bool

    @property
    def accessible(self) -> str:
        if not self.counts:
            return texts.RUNG_ACCESSIBLE.format(phase=self.phase, counts=texts.STOPPED_NONE)
        said = ", ".join(f"{OUTCOME[outcome]} {n}" for outcome, n in self.counts)
        return texts.RUNG_ACCESSIBLE.format(phase=self.phase, counts=said)


@dataclass(frozen=True, slots=True)
class ByTarget:
    """The unknown outcomes of one target; `late` where one is past its recovery deadline."""

    place: str
    age: str
    count: int


@dataclass(frozen=True, slots=True)
class ActivityRow:
    invocation_id: InvocationId
    time: str
    outcome: Outcome
    tag: str
    target: str
    operation: str


def vault_box(status: Status) -> VaultBox:
    """The words beside the padlock."""
    if status.vault == "absent":
        return VaultBox(texts.VAULT_ABSENT, texts.VAULT_LOCKED_NOTE, open=False)
    if status.vault == "quarantined":
        return VaultBox(texts.VAULT_QUARANTINED, texts.VAULT_LOCKED_NOTE, open=False)
    if not status.open:
        return VaultBox(texts.VAULT_LOCKED, texts.VAULT_LOCKED_NOTE, open=False)
    note = texts.VAULT_LOCKED_NOTE if status.poisoned else texts.VAULT_OPEN_NOTE
    return VaultBox(texts.VAULT_OPEN, note, open=True)


def strip(status: Status) -> Strip:
    """The strip below the pages."""
    if status.poisoned:
        why = status.journal_reason
        record = texts.STRIP_POISONED_WHY.format(why=why) if why else texts.STRIP_POISONED
    elif status.record is None:
        record = texts.STRIP_RECORD_NONE
    else:
        record = texts.STRIP_RECORD.format(record=count(status.record))
    agents = texts.counted(status.sessions, *texts.STRIP_AGENTS) if status.sessions else texts.STRIP_NO_AGENT
    cards = texts.counted(status.cards, *texts.STRIP_CARDS) if status.cards else texts.STRIP_NO_CARD
    return Strip(record, agents, cards, show=status.cards > 0)


def tiles(status: Status) -> tuple[Tile, ...]:
    """One tile an outcome. Unknown counts what is unknown now, by operation; the others what is recorded."""
    shown = {outcome: status.total(outcome) for outcome in TILES} | {Outcome.UNKNOWN: status.unknown}
    return tuple(Tile(outcome, count(shown[outcome]), texts.OUTCOME_NOTES[outcome]) for outcome in TILES)


def ladder(status: Status) -> tuple[Rung, ...]:
    """The phases in order; the line stands between the first three and the rest."""
    rungs = []
    for phase in (*BEFORE_THE_LINE, *BEHIND_THE_LINE):
        there = tuple((o, count(n)) for o in TILES if (n := status.at(phase, o)))
        rungs.append(Rung(texts.PHASES[phase], there, behind=phase in BEHIND_THE_LINE))
    return tuple(rungs)


def anything_recorded(status: Status) -> bool:
    """Whether any action is in the journal."""
    return any(n for row in status.counts.values() for n in row.values())


def by_target(envelopes: Sequence[Json], now: datetime) -> tuple[ByTarget, ...]:
    """The unknown outcomes by target, in the order of the unknown window; `age` is that of the first."""
    places: dict[str, list[unknown_view.ListRow]] = {}
    for envelope in unknown_view.ordered(envelopes, now):
        row = unknown_view.list_row(envelope, now)
        places.setdefault(row.place, []).append(row)
    return tuple(
        ByTarget(
            place,
            texts.BY_TARGET_LATE.format(age=rows[0].age.left) if rows[0].age.past else rows[0].age.left,
            len(rows),
        )
        for place, rows in places.items()
    )


def activity(rows: Sequence[Json], now: datetime) -> tuple[ActivityRow, ...]:
    """The rows of `action.list`, newest first."""
    return tuple(_activity_row(row, now) for row in rows)


def _activity_row(row: Json, now: datetime) -> ActivityRow:
    at = times.parse(row.get("at"))
    outcome = Outcome(row["outcome"])
    target = unknown_view.target(row.get("target"))
    return ActivityRow(
        invocation_id=InvocationId(row["invocation_id"]),
        time=times.clock(at, now) if at else "",
        outcome=outcome,
        tag=texts.ACTIVITY_TAG.format(outcome=OUTCOME[outcome], code=row.get("code")),
        target=target.plain if target else texts.PLACE_SEALED,
        operation=str(row.get("operation_id") or ""),
    )
