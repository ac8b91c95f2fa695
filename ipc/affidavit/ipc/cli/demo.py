"""`affidavit demo`: a guided tour on a throw-away home."""

from __future__ import annotations

import argparse

from affidavit.ipc.cli import exits
from affidavit.ipc.cli.arguments import Parser, command, example


def configure(parser: Parser, name: str) -> None:
    parser.description = (
        "A guided tour: a throw-away home, a practice service on loopback, the real broker, real commands. Each scene\n"
        "says what it shows and checks it against the answer, the journal and the practice service's own log. With a\n"
        "display you decide on cards; without one the terminal asks. Everything is removed at the end."
    )
    parser.epilog = example("affidavit demo --unattended", exits.CHECK_HELP)
    parser.add_argument(
        "--unattended", action="store_true", help="play the operator too; exit 0 only if every check held"
    )
    command(parser, demo)


def demo(args: argparse.Namespace) -> int:
    from affidavit.ipc.demo.tour import run

    return run(unattended=args.unattended, as_json=args.json)
