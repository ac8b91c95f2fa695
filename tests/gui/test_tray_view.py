"""The tray's face by precedence, its tooltip in words, and its menu."""

from __future__ import annotations

import pytest
from tests.gui.scripted_broker import READY

from affidavit.broker.terms import Outcome, Phase
from affidavit.gui import tray_view
from affidavit.gui.status import Status
from affidavit.gui.tray_view import Choice, Face


def status(**said: object) -> Status:
    return Status.read({**READY, **said})


@pytest.mark.parametrize(
    ("said", "face"),
    [
        ({"journal": "poisoned", "vault": "quarantined", "cards": 1, "unknown": 1}, Face.POISONED),
        ({"vault": "quarantined", "cards": 1, "unknown": 1}, Face.QUARANTINED),
        ({"vault": "locked", "cards": 1, "unknown": 1}, Face.LOCKED),
        ({"vault": "absent"}, Face.LOCKED),
        ({"cards": 2, "unknown": 1}, Face.WAITING_UNKNOWN),
        ({"cards": 2}, Face.WAITING),
        ({"unknown": 4}, Face.UNKNOWN),
        ({}, Face.IDLE),
    ],
)
def test_the_first_that_applies_is_shown(said: dict[str, object], face: Face) -> None:
    assert tray_view.face(status(**said)) is face


@pytest.mark.parametrize(
    ("said", "corner"),
    [
        ({"cards": 1}, "1"),
        ({"cards": 9, "unknown": 1}, "9"),
        ({"cards": 10}, "+"),
        ({"unknown": 3}, None),
        ({"cards": 2, "vault": "locked"}, None),
    ],
)
def test_the_corner_counts_only_what_waits(said: dict[str, object], corner: str | None) -> None:
    assert tray_view.corner(status(**said)) == corner


def test_the_tooltip_gives_every_count_in_words() -> None:
    text = tray_view.tooltip(
        status(
            cards=3,
            unknown=4,
            unknown_past_deadline=1,
            alerts=[{"id": 1, "which": "guessing", "says": "Five wrong passphrases."}],
            alerts_sealed=1,
            running=2,
            grants=1,
            allowed_without_asking=5,
            pending_contracts=1,
        )
    )
    assert text.split("\n") == [
        "Affidavit: ready",
        "3 requests wait for you",
        "4 outcomes are unknown, 1 past their deadline",
        "2 alerts to look into",
        "2 actions are running",
        "1 grant is in force",
        "5 routes are allowed without asking",
        "1 contract file waits for adoption",
    ]


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ({"journal": "poisoned"}, "Affidavit: cannot record, nothing is sent"),
        ({"vault": "quarantined"}, "Affidavit: needs review, nothing is sent"),
        ({"vault": "locked"}, "Affidavit: the vault is locked"),
        ({"vault": "absent"}, "Affidavit: no vault yet"),
        ({"unknown": 1}, "Affidavit: ready\n1 outcome is unknown"),
    ],
)
def test_the_tooltips_headline(said: dict[str, object], line: str) -> None:
    assert tray_view.tooltip(status(**said)) == line


def test_the_menu_names_what_waits_and_what_quitting_interrupts() -> None:
    groups = tray_view.menu(status(cards=3, unknown=4, running=2))
    assert [[(e.choice, e.text) for e in group] for group in groups] == [
        [(Choice.REVIEW, "Review 3 waiting requests"), (Choice.UNKNOWN, "4 unknown outcomes…")],
        [(Choice.LOCK, "Lock now"), (Choice.OPEN, "Open Affidavit")],
        [(Choice.QUIT, "Quit - 2 actions are running")],
    ]


def test_the_menu_at_rest() -> None:
    (review, unknown), (lock, _open), (leave,) = tray_view.menu(status(vault="locked"))
    assert (review.text, review.enabled) == ("No request is waiting", False)
    assert (unknown.text, unknown.enabled) == ("Unknown outcomes…", True)
    assert (lock.choice, lock.text) == (Choice.UNLOCK, "Unlock…")
    assert leave.text == "Quit"


def test_quit_says_that_cards_close() -> None:
    assert tray_view.quit_text(status(cards=1)) == "Quit - 1 card closes"
    assert tray_view.quit_text(status(running=1, cards=4)) == "Quit - 1 action is running"


def test_counts_are_kept_by_phase_and_outcome() -> None:
    read = status(counts={"remote_execution": {"committed": 5, "unknown": 1}, "result_delivery": {"committed": 2}})
    assert read.total(Outcome.COMMITTED) == 7
    assert read.at(Phase.REMOTE_EXECUTION, Outcome.UNKNOWN) == 1
    assert read.at(Phase.VALIDATION, Outcome.NOT_ATTEMPTED) == 0


def test_a_status_with_little_in_it_is_read() -> None:
    read = Status.read({"vault": "locked"})
    assert (read.record, read.cards, read.open, read.poisoned) == (None, 0, False, False)
