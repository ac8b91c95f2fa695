"""From the words of a command line to the one command that is imported, run, and answers with an exit status."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from affidavit.ipc.cli import output
from affidavit.ipc.cli.arguments import Parser
from affidavit.ipc.cli.refusal import Refusal, usage
from affidavit.resources.version import __version__

COMMANDS: dict[str, tuple[str, str, str]] = {
    # name: (module of affidavit.ipc.cli, group, what it does)
    "tray": ("tray", "The app", "the tray application: broker, sockets, cards (also without any argument)"),
    "serve": ("serve", "The app", "the same broker and sockets without windows"),
    "init": ("init", "The app", "create the vault and the journal"),
    "demo": ("demo", "The app", "a guided tour on a throw-away home"),
    "status": ("status", "The app", "health: vault, journal, counts, open actions"),
    "http": ("http", "For agents", "one HTTP action with the operator's credential"),
    "ssh": ("ssh", "For agents", "one SSH action, as ssh runs a command"),
    "action": ("action", "For agents", "show, list, wait for, retry, reconcile, cancel actions"),
    "result": ("result", "For agents", "fetch a stored result"),
    "contract": ("contract", "For agents", "check, list, explain, adopt contracts"),
    "unlock": ("vault", "For the operator", "open the vault"),
    "lock": ("vault", "For the operator", "close the vault; what is not sent yet is stopped"),
    "credential": ("credential", "For the operator", "add, list, rotate, remove, import credentials"),
    "host": ("host", "For the operator", "add, edit, list, remove, import SSH hosts"),
    "trust": ("trust", "For the operator", "add, list, remove private certificate authorities"),
    "proxy": ("proxy", "For the operator", "set, show, drop the proxy of https targets"),
    "approvals": ("approval", "For the operator", "the cards that wait"),
    "approve": ("approval", "For the operator", "print a card and approve it"),
    "deny": ("approval", "For the operator", "deny what a card asks for"),
    "attest": ("attest", "For the operator", "say what became of an unknown outcome"),
    "alert": ("alert", "For the operator", "list and close what a person should look into"),
    "settings": ("settings", "For the operator", "show and set settings"),
    "audit": ("audit", "For the operator", "verify the journal's chain"),
}

_HEAD = """\
usage: affidavit [COMMAND] [OPTIONS]

Lets AI agents act with your credentials without holding them, and says only what its records prove.
Without a command it starts the tray application, or raises the running one.
"""

_TAIL = """\
Every command takes --json (print one JSON object) and --help.
AFFIDAVIT_HOME names the home; AFFIDAVIT_SOCKET names another agent socket, for agents' commands only.

example:
  affidavit http GET https://api.example.com/v1/account --credential example

exit status:
  0 done, 1 refused or a check found something, 2 wrong usage, 3 the broker is not reachable,
  4 wrong passphrase or locked; those of an action are told by `affidavit http --help`."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line, without the program's name; returns its exit status."""
    line = Line(list(sys.argv[1:] if argv is None else argv))
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    try:
        status = line.run()
        output.flush()
    except Refusal as refusal:
        return output.refused(refusal, as_json=line.json, aside=line.passes_output)
    except BrokenPipeError:
        return output.reader_gone()
    except KeyboardInterrupt:
        return 130
    except SystemExit as helped:  # argparse has printed what --help asks for
        return int(helped.code or 0)
    return status


class Line:
    """One command line, and what is known of it so far: a refusal may come at any point of its run.

    `json`: whether one JSON object is asked for; until the words are parsed, whether they look so. `passes_output`:
    whether stdout is another program's.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self._leading = list(words[:1]) == ["--json"]
        self._words = list(words[1:] if self._leading else words)
        self.json = self._leading
        self.passes_output = False

    def run(self) -> int:
        words = self._words
        if words[:1] in (["-h"], ["--help"]):
            output.say(overview())
            return 0
        if words == ["--version"]:
            output.say(f"affidavit {__version__}")
            return 0
        name, *rest = words or ["tray"]
        known = COMMANDS.get(name)
        if known is None:
            self.json = self.json or "--json" in words
            raise unknown(name)
        module = importlib.import_module(f"affidavit.ipc.cli.{known[0]}")
        parser = Parser(f"affidavit {name}")
        module.configure(parser, name)
        self.passes_output = parser.passes_output
        self.json = self.json or "--json" in (parser.options_before_operands(rest) if parser.passes_output else rest)
        args = parser.parse_args(rest, argparse.Namespace(json=self._leading))
        self.json = args.json
        status: int = args.run(args)
        return status


def overview() -> str:
    """The help of the program as a whole."""
    lines = [_HEAD]
    for group in dict.fromkeys(group for _, group, _ in COMMANDS.values()):
        lines.append(f"{group}:")
        lines += [f"  {name:<12}{what}" for name, (_, its, what) in COMMANDS.items() if its == group]
        lines.append("")
    return "\n".join([*lines, _TAIL])


def unknown(name: str) -> Refusal:
    """There is no such command; the nearest one is named."""
    from difflib import get_close_matches

    near = get_close_matches(name, COMMANDS, n=1)
    remedy = f"Did you mean: affidavit {near[0]}" if near else "affidavit --help"
    return usage(f"There is no command {name!r}.", field="COMMAND", remedy=remedy)
