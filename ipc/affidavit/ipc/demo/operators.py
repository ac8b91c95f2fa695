"""Who decides in the tour: the tour itself, a person at the terminal, or a person at the cards."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from affidavit.ipc.cli import card_text
from affidavit.ipc.demo.board import Board
from affidavit.ipc.demo.stage import PASSPHRASE, Stage


class OperatorPlayer(Protocol):
    """Decides what a scene puts before it."""

    def decide(self, stage: Stage, board: Board, card: Mapping[str, Any], *, approve: bool, reason: str) -> None:
        """One card has opened; the scene expects it to be approved or denied."""

    def before_attesting(self, board: Board) -> None:
        """An unknown outcome waits for an attestation; on return the tour attests what is still unknown."""


@dataclass(frozen=True, slots=True)
class Played:
    """The tour plays the operator with the operator's own commands."""

    def decide(self, stage: Stage, board: Board, card: Mapping[str, Any], *, approve: bool, reason: str) -> None:
        if approve:
            ran = stage.operator("approve", card["invocation_id"])
        else:
            ran = stage.operator("deny", card["invocation_id"], "--reason", reason, passphrase=False)
        board.shown("operator:", ran.shown)
        if ran.status != 0:
            board.shown("refused:", ran.err)

    def before_attesting(self, board: Board) -> None:
        """Nothing to wait for."""


@dataclass(frozen=True, slots=True)
class AtTerminal:
    """A person reads each card on the terminal and decides there."""

    def decide(self, stage: Stage, board: Board, card: Mapping[str, Any], *, approve: bool, reason: str) -> None:
        board.line()
        for line in card_text.lines(stage.whole_card(card["invocation_id"])):
            board.line(f"    {line}".rstrip())
        board.line()
        expected = "approve" if approve else "deny"
        typed = answer(f"  Type approve or deny (the scene shows what follows when you {expected}; Enter does that): ")
        Played().decide(stage, board, card, approve=(typed or expected) == "approve", reason=reason)

    def before_attesting(self, board: Board) -> None:
        answer("  Press Enter to attest that it was committed: ")


@dataclass(frozen=True, slots=True)
class AtCards:
    """A person decides in the windows of the tray application."""

    def decide(self, stage: Stage, board: Board, card: Mapping[str, Any], *, approve: bool, reason: str) -> None:
        board.line(f"  A card is open. Please {'approve' if approve else 'deny'} it there.")

    def before_attesting(self, board: Board) -> None:
        board.line("  It is in the window of unknown outcomes now, and you can attest it there as committed.")
        board.line(f"  The passphrase of this throw-away home is: {PASSPHRASE}")
        answer("  Then press Enter here; what is still unknown then, the tour attests by command: ")


def answer(prompt: str) -> str:
    """What a person types in one line; nothing where stdin is at its end or no terminal."""
    if not sys.stdin.isatty():
        return ""
    try:
        return input(prompt).strip().lower()
    except EOFError:
        return ""


def has_display() -> bool:
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
