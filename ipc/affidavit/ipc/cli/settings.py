"""`affidavit settings`: what is in force, and the operator's own values."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

from affidavit.ipc.cli import exits, operator, output, words
from affidavit.ipc.cli.arguments import Parser, example, family, passphrase_option
from affidavit.ipc.cli.escape import escape


def configure(parser: Parser, name: str) -> None:
    parser.description = "Settings. Files under the config directory can only tighten; what loosens is set here."
    parser.epilog = example("affidavit settings show")
    add = family(parser)
    add("show", show, "every setting with the value in force", epilog=example("affidavit settings show --json"))
    part = add("set", set_, "set one value", epilog=example("affidavit settings set assume_reads off"))
    part.add_argument("key", metavar="KEY", help="as `affidavit settings show` names it")
    part.add_argument("value", metavar="VALUE")
    passphrase_option(part)


def show(args: argparse.Namespace) -> int:
    found = operator.call("settings.show", {}, offline=True)
    if args.json:
        output.say_json(found)
    else:
        for line in lines(found):
            output.say(line)
    return exits.DONE


def lines(found: Mapping[str, Any]) -> Iterator[str]:
    rows = [
        (
            escape(row["key"]),
            escape(str(row["value"])),
            escape(" and ".join(row["set_by"]) or "default"),
            escape(row["what"]),
        )
        for row in found["settings"]
    ]
    yield from words.columns(rows, ("SETTING", "VALUE", "SET BY", "WHAT IT IS"))


def set_(args: argparse.Namespace) -> int:
    with operator.opened(args, offline=True) as open_call:
        found = open_call("settings.set", {"key": args.key, "value": args.value})
    if args.json:
        output.say_json(found)
    else:
        output.say(f"{escape(args.key)} is {escape(args.value)}.")
    return exits.DONE
