"""`affidavit settings`: what is in force, and the operator's own values."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

from affidavit.ipc.cli import operator, output, words
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
    return output.answer(found, lines(found), as_json=args.json)


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
    found = operator.call_with_passphrase(args, "settings.set", {"key": args.key, "value": args.value}, offline=True)
    told = f"{escape(args.key)} is {escape(str(found['in_force']))}"
    if found["in_force"] != found["value"]:
        told += f", not {escape(args.value)}: config/settings.toml sets it"
    return output.answer(found, [f"{told}."], as_json=args.json)
