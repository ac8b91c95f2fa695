"""What the tour prints and counts."""

from __future__ import annotations

import io

from affidavit.ipc.demo.board import Board


def test_checks_are_printed_and_counted() -> None:
    out = io.StringIO()
    board = Board(out)
    board.scene("A scene", "What it\n  shows.")
    assert board.equal("status", 200, 200)
    assert not board.check("it \x1b holds", held=False, found="x\x1b")
    board.facts({"error": {"code": "X"}}, code="X", outcome="unknown")
    assert out.getvalue() == (
        "\n1. A scene\n----------\nWhat it shows.\n"
        "  held:         status is 200\n"
        "  NOT HELD:     it <U+001B> holds\n"
        "  found:        x<U+001B>\n"
        "  held:         code is X\n"
        "  NOT HELD:     outcome is unknown\n"
        "  found:        None\n"
    )
    assert (board.passed, board.failed) == (2, 2)
    assert board.json()["scenes"][0]["checks"][1] == {"what": "it \x1b holds", "held": False, "found": "x\x1b"}
