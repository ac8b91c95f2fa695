"""What the command line says, word for word: `transcripts/*.txt` are sessions on a terminal, played again.

A line that begins with `$ ` is a command; what follows is what it printed (stdout, then stderr) and its exit status.
Run with AFFIDAVIT_WRITE_TRANSCRIPTS=1 to write them anew, and read the difference.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from affidavit.ipc.cli.main import COMMANDS

if TYPE_CHECKING:
    from tests.ipc.cli.conftest import Cli, ScriptedBroker

TRANSCRIPTS = Path(__file__).parent / "transcripts"
FAMILIES = {
    "action": ("show", "list", "wait", "retry", "reconcile", "cancel"),
    "result": ("fetch",),
    "contract": ("check", "list", "explain", "adopt"),
    "credential": ("add", "list", "rotate", "remove", "import"),
    "host": ("add", "list", "remove", "import"),
    "trust": ("add", "list", "remove"),
    "proxy": ("set", "show", "off"),
    "alert": ("list", "close"),
    "settings": ("show", "set"),
    "audit": ("verify",),
}
HELP = [
    "affidavit --help",
    *(f"affidavit {name} --help" for name in COMMANDS),
    *(f"affidavit {family} {command} --help" for family, commands in FAMILIES.items() for command in commands),
]


def played(cli: Cli, commands: list[str]) -> str:
    """Run each command; the session as a terminal would show it. The home has one name in every run."""
    shown = []
    for command in commands:
        ran = cli(*shlex.split(command)[1:])
        shown.append(f"$ {command}\n{ran.text}{ran.err}[exit {ran.status}]\n")
    return "\n".join(shown).replace(str(cli.home), "HOME")


def compare(name: str, text: str) -> None:
    file = TRANSCRIPTS / f"{name}.txt"
    if os.environ.get("AFFIDAVIT_WRITE_TRANSCRIPTS"):
        file.write_text(text)
    assert text == file.read_text()


def commands_of(name: str) -> list[str]:
    lines = (TRANSCRIPTS / f"{name}.txt").read_text().splitlines()
    return [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]


def test_help_on_every_level(cli: Cli) -> None:
    compare("help", played(cli, HELP))


@pytest.mark.parametrize("name", ["usage", "no-home"])
def test_errors_without_a_broker(cli: Cli, name: str) -> None:
    compare(name, played(cli, commands_of(name)))


def test_errors_of_a_broker(cli: Cli, broker: ScriptedBroker) -> None:
    act = "act_01JEXAMPLE0000000000000000"
    facts = {
        "code": "UNRESOLVED_DUPLICATE",
        "phase": "validation",
        "outcome": "not_attempted",
        "retry": "reconcile",
        "message": "Nothing was sent. The same write is still unknown (record 41).",
    }
    duplicate: dict[str, Any] = {"invocation_id": act, "error": facts, "evidence": {"refers_to": "act_9"}}
    locked = {
        "code": "VAULT_LOCKED",
        "phase": "credential_injection",
        "outcome": "not_attempted",
        "retry": "after_correction",
        "message": "Nothing was sent. The vault is locked.",
        "needs": "operator_unlock",
    }
    broker.answers(
        "http.request",
        {"error": {"code": -32001, "message": "m", "data": duplicate}},
        {"error": {"code": -32001, "message": "m", "data": {"invocation_id": act, "error": locked, "evidence": {}}}},
    )
    broker.answers("contract.list", {"error": {"code": -32002, "message": "", "data": {"needs": "operator_unlock"}}})
    broker.answers(
        "action.get", {"error": {"code": -32602, "message": "There is no such id.", "data": {"field": "operation_id"}}}
    )
    broker.answers(
        "approval.deny",
        {
            "error": {
                "code": -32003,
                "message": "It was decided before.",
                "data": {"code": "too_late", "field": None, "remedy": None},
            }
        },
    )
    broker.answers(
        "vault.lock", {"error": {"code": -32603, "message": "The broker failed on this call.", "data": None}}
    )
    compare("broker", played(cli, commands_of("broker")))
