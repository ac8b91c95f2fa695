"""`affidavit status`: the health of the running broker."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

from affidavit.ipc.cli import exits, link, output
from affidavit.ipc.cli.arguments import Parser, command, example
from affidavit.ipc.cli.escape import escape


def configure(parser: Parser, name: str) -> None:
    parser.description = "Health of the running broker: version, vault, journal, counts, open actions."
    parser.epilog = example("affidavit status --json")
    command(parser, status)


def status(args: argparse.Namespace) -> int:
    with link.agent() as broker:
        found = broker.call("status", {})
    if args.json:
        output.say_json(found)
    else:
        for line in lines(found):
            output.say(line)
    return exits.DONE


def lines(found: Mapping[str, Any]) -> Iterator[str]:
    """Every member, nested counts in one line each; members of later versions are shown too."""
    for name, value in found.items():
        label = f"{escape(name).replace('_', ' ')}:"
        if isinstance(value, Mapping):
            inner = ", ".join(f"{escape(str(key))} {_shown(count)}" for key, count in value.items())
            yield f"{label:<16}{inner or 'none'}"
        elif isinstance(value, list):
            yield f"{label:<16}{len(value)}"
        else:
            yield f"{label:<16}{_shown(value)}"


def _shown(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return escape(str(value))
