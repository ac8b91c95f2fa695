"""What the main window says."""

from __future__ import annotations

import pytest
from tests.gui.scripted_broker import READY, TODAY, four_unknown

from affidavit.broker.terms import Outcome
from affidavit.gui import main_view
from affidavit.gui.main_view import ByTarget
from affidavit.gui.status import Status

COUNTS = {
    "validation": {"not_attempted": 61},
    "connection_setup": {"not_attempted": 3},
    "remote_execution": {"committed": 1412, "rejected": 158, "unknown": 19},
    "result_delivery": {"committed": 12},
}


def status(**said: object) -> Status:
    return Status.read({**READY, **said})


@pytest.mark.parametrize(
    ("said", "title", "note", "is_open"),
    [
        ({}, "Vault is open", "agents may ask", True),
        ({"journal": "poisoned"}, "Vault is open", "nothing is sent", True),
        ({"vault": "locked"}, "Vault is locked", "nothing is sent", False),
        ({"vault": "quarantined"}, "Vault needs review", "nothing is sent", False),
        ({"vault": "absent"}, "No vault yet", "nothing is sent", False),
    ],
)
def test_the_vault_box(said: dict[str, object], title: str, note: str, is_open: bool) -> None:
    assert main_view.vault_box(status(**said)) == main_view.VaultBox(title, note, is_open)


def test_the_strip() -> None:
    assert main_view.strip(status(sessions=2, cards=1)) == main_view.Strip(
        "Journal record 48,211", "2 agents connected", "1 card waiting", True
    )
    assert main_view.strip(status(head={"record": None})) == main_view.Strip(
        "The journal has no record yet", "No agent connected", "No card waiting", False
    )


def test_a_poisoned_journal_is_said_in_place_of_the_record() -> None:
    sentence = "The journal cannot be written; nothing is sent until that is mended"
    assert main_view.strip(status(journal="poisoned")).record == sentence
    assert main_view.strip(status(journal="poisoned", journal_reason="ENOSPC")).record == f"{sentence} (ENOSPC)"


def test_tiles_count_by_outcome_and_what_is_unknown_now() -> None:
    tiles = main_view.tiles(status(counts=COUNTS, unknown=4))
    assert [(t.outcome, t.count) for t in tiles] == [
        (Outcome.COMMITTED, "1,424"),
        (Outcome.REJECTED, "158"),
        (Outcome.UNKNOWN, "4"),
        (Outcome.NOT_ATTEMPTED, "64"),
    ]


def test_the_ladder_has_the_line_after_connection_set_up() -> None:
    rungs = main_view.ladder(status(counts=COUNTS))
    assert [(r.phase, r.behind) for r in rungs] == [
        ("Validation", False),
        ("Credential injection", False),
        ("Connection set-up", False),
        ("Remote execution", True),
        ("Result delivery", True),
    ]
    assert rungs[3].accessible == "Remote execution: Committed 1,412, Rejected 158, Unknown 19"
    assert rungs[1].accessible == "Credential injection: none"


def test_whether_anything_is_recorded() -> None:
    assert not main_view.anything_recorded(status())
    assert not main_view.anything_recorded(status(counts={"validation": {"not_attempted": 0}}))
    assert main_view.anything_recorded(status(counts=COUNTS))


def test_unknown_outcomes_by_target() -> None:
    told = [story.envelope() for story in (*four_unknown(), four_unknown()[0])]
    assert main_view.by_target(told, TODAY)[:2] == (
        ByTarget("web-01.example.com", "3 h old, past deadline", 1),
        ByTarget("api.example.com", "12 min old", 2),
    )


def test_activity_rows_name_outcome_and_code() -> None:
    row = {
        "invocation_id": "act_1",
        "operation_id": "op_1",
        "at": "2026-11-30T14:00:00Z",
        "outcome": "committed",
        "code": "REMOTE_RESULT",
        "target": {"kind": "http", "method": "GET", "url": "https://a.example/x?y=1"},
    }
    (shown, sealed) = main_view.activity([row, {**row, "target": None, "operation_id": None, "at": None}], TODAY)
    assert (shown.time, shown.tag) == ("14:00:00", "Committed, REMOTE_RESULT")
    assert shown.target == "GET https://a.example/x?y=1"
    assert (sealed.time, sealed.target, sealed.operation) == ("", "the vault is locked", "")
