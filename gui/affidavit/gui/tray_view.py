"""What the tray says: its face by precedence, the tooltip, the menu (design, Tray). Plain data, no Qt."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from affidavit.gui import texts_unknown as texts
from affidavit.gui.figures import count
from affidavit.gui.status import Status


class Face(StrEnum):
    """The tray's icons; the values are the names of the files less the panel's shade."""

    POISONED = "poisoned"
    QUARANTINED = "quarantined"
    LOCKED = "locked"
    WAITING = "waiting"
    WAITING_UNKNOWN = "waiting-unknown"
    UNKNOWN = "unknown"
    IDLE = "idle"


def face(status: Status) -> Face:
    """The icon of this status; the first that applies, in the order of the class. The line dots while one waits."""
    if status.poisoned:
        return Face.POISONED
    if status.vault == "quarantined":
        return Face.QUARANTINED
    if not status.open:
        return Face.LOCKED
    if status.cards:
        return Face.WAITING_UNKNOWN if status.unknown else Face.WAITING
    return Face.UNKNOWN if status.unknown else Face.IDLE


def corner(status: Status) -> str | None:
    """What stands in the corner disc: the count of waiting cards, `+` from ten on, None where there is no disc."""
    if face(status) not in (Face.WAITING, Face.WAITING_UNKNOWN):
        return None
    return str(status.cards) if status.cards < 10 else "+"


_HEADLINES = {
    Face.POISONED: texts.TRAY_POISONED,
    Face.QUARANTINED: texts.TRAY_QUARANTINED,
    Face.LOCKED: texts.TRAY_LOCKED,
}


def tooltip(status: Status) -> str:
    """The headline, and below it each count that is not zero, one a line."""
    if status.vault == "absent" and not status.poisoned:
        headline = texts.TRAY_ABSENT
    else:
        headline = _HEADLINES.get(face(status), texts.TRAY_READY)
    lines = [headline]
    if status.cards:
        lines.append(texts.counted(status.cards, *texts.TRAY_WAITING))
    if status.unknown and status.past_deadline:
        late = count(status.past_deadline)
        lines.append(texts.counted(status.unknown, *texts.TRAY_UNKNOWN_LATE, late=late))
    elif status.unknown:
        lines.append(texts.counted(status.unknown, *texts.TRAY_UNKNOWN))
    for n, forms in (
        (len(status.alerts) + status.alerts_sealed, texts.TRAY_ALERTS),
        (status.running, texts.TRAY_RUNNING),
        (status.grants, texts.TRAY_GRANTS),
        (status.allowed_without_asking, texts.TRAY_UNASKED),
        (status.pending_contracts, texts.TRAY_PENDING),
    ):
        if n:
            lines.append(texts.counted(n, *forms))
    return "\n".join(lines)


class Choice(StrEnum):
    """What a person can choose in the tray's menu."""

    REVIEW = "review"
    UNKNOWN = "unknown"
    UNLOCK = "unlock"
    LOCK = "lock"
    OPEN = "open"
    QUIT = "quit"


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the menu."""

    choice: Choice
    text: str
    enabled: bool = True


def menu(status: Status) -> tuple[tuple[Entry, ...], ...]:
    """The menu in groups, each set apart from the next by a line."""
    review = texts.counted(status.cards, *texts.MENU_REVIEW) if status.cards else texts.MENU_REVIEW_NONE
    unknown = texts.counted(status.unknown, *texts.MENU_UNKNOWN) if status.unknown else texts.MENU_UNKNOWN_NONE
    lock = Entry(Choice.LOCK, texts.MENU_LOCK) if status.open else Entry(Choice.UNLOCK, texts.MENU_UNLOCK)
    return (
        (Entry(Choice.REVIEW, review, enabled=status.cards > 0), Entry(Choice.UNKNOWN, unknown)),
        (lock, Entry(Choice.OPEN, texts.MENU_OPEN)),
        (Entry(Choice.QUIT, quit_text(status)),),
    )


def quit_text(status: Status) -> str:
    """What quitting now would interrupt, in the menu's own line."""
    if status.running:
        return texts.counted(status.running, *texts.MENU_QUIT_RUNNING)
    if status.cards:
        return texts.counted(status.cards, *texts.MENU_QUIT_CARDS)
    return texts.MENU_QUIT
