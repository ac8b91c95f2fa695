"""`affidavit demo` from its first line to its last: who plays the operator, the stage, the scenes, the sum."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from affidavit.ipc.cli import exits, output
from affidavit.ipc.client import ClientError
from affidavit.ipc.demo.board import Board
from affidavit.ipc.demo.operators import AtCards, AtTerminal, OperatorPlayer, Played, has_display
from affidavit.ipc.demo.scenes import Tour, play
from affidavit.ipc.demo.stage import COMMAND_S, PASSPHRASE, PERSON_S, Stage, StageTrouble

WELCOME = """
Affidavit lets AI agents act with your credentials without holding them, and says only what its records prove. This tour
runs the real thing: a throw-away home, its broker, a practice service on this machine that can lose answers on
purpose, and the same commands that an agent and an operator use. Nothing leaves this machine, and everything is removed
at the end.
"""


def run(*, unattended: bool, as_json: bool) -> int:
    """Play the tour; exit status 0 only if every check held. With `as_json` the tale goes to stderr."""
    board = Board(sys.stderr if as_json else sys.stdout)
    board.say(WELCOME)
    operator, windows, who = cast(unattended)
    board.line()
    board.say(who)
    try:
        with ended_by_signals(), Stage(windows, COMMAND_S if isinstance(operator, Played) else PERSON_S) as stage:
            stage.open()
            board.line()
            board.shown("home:", str(stage.root / "home"))
            board.shown("practice:", f"{stage.origin}, and a closed port, {stage.closed_port}")
            play(Tour(stage, board, operator))
    except (StageTrouble, ClientError) as trouble:
        board.scene("The stage", "What the tour needs did not come to be.")
        board.check("the tour could be played", held=False, found=trouble)
    board.line()
    board.line(f"{board.passed} passed, {board.failed} failed")
    if as_json:
        output.say_json(board.json())
    return exits.REFUSED if board.failed else exits.DONE


def cast(unattended: bool) -> tuple[OperatorPlayer, bool, str]:
    """Who plays the operator, whether with windows, and a sentence that says so."""
    if unattended:
        return Played(), False, "Unattended: the tour plays the operator too, and checks every scene."
    if has_display():
        return AtCards(), True, f"You are the operator: cards will open. The passphrase of this home is: {PASSPHRASE}"
    if sys.stdin.isatty():
        return AtTerminal(), False, "There is no display, so the cards come to this terminal: you are the operator."
    return Played(), False, "There is neither a display nor a terminal to ask on, so the tour plays the operator too."


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """SIGTERM and SIGHUP end the tour as Ctrl-C does, so that its processes and files go with it."""

    def interrupt(_signal: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
