"""`affidavit trust`: private certificate authorities, each for the targets that it vouches for."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from affidavit.ipc.cli import exits, operator, output, words
from affidavit.ipc.cli.arguments import Parser, example, family, passphrase_option
from affidavit.ipc.cli.credential import read_pem
from affidavit.ipc.cli.escape import escape


def configure(parser: Parser, name: str) -> None:
    parser.description = (
        "Private certificate authorities. Each is trusted beside the system's, for the servers of its targets alone."
    )
    parser.epilog = example("affidavit trust list")
    add = family(parser)
    part = add(
        "add",
        add_authority,
        "trust an authority for some targets",
        epilog=example("affidavit trust add corp --ca corp-ca.pem --target 'https://*.corp.example/**'"),
    )
    part.add_argument("name", metavar="NAME")
    part.add_argument("--ca", required=True, type=Path, metavar="FILE", help="the authority in PEM, or several")
    part.add_argument(
        "--target",
        required=True,
        action="append",
        metavar="PATTERN",
        help="whose servers it vouches for: scheme, host and port count; may be repeated",
    )
    passphrase_option(part)
    passphrase_option(add("list", list_authorities, "names, targets, until when"))
    part = add("remove", remove, "trust an authority no longer", epilog=example("affidavit trust remove corp"))
    part.add_argument("name", metavar="NAME")
    passphrase_option(part)


def add_authority(args: argparse.Namespace) -> int:
    asked = {"name": args.name, "ca": read_pem(args.ca, "--ca"), "targets": args.target}
    with operator.opened(args, offline=True) as open_call:
        found = open_call("trust.add", asked)
    if args.json:
        output.say_json(found)
        return exits.DONE
    output.say(f"{escape(args.name)} is trusted for {escape(' '.join(found['targets']))}")
    for subject in found["subjects"]:
        output.say(f"  {escape(subject)}")
    output.say(f"It expires {words.clock(found['expires_at'])} UTC.")
    return exits.DONE


def list_authorities(args: argparse.Namespace) -> int:
    with operator.opened(args, offline=True) as open_call:
        found = open_call("trust.list", {})
    if args.json:
        output.say_json(found)
    else:
        for line in lines(found):
            output.say(line)
    return exits.DONE


def lines(found: Mapping[str, Any]) -> Iterator[str]:
    rows = found["trust"]
    if not rows:
        yield "No private authority is trusted."
        return
    cells = [
        (
            escape(row["name"]),
            words.clock(row["expires_at"]),
            escape("; ".join(row["subjects"])),
            escape(" ".join(row["targets"])),
        )
        for row in rows
    ]
    yield from words.columns(cells, ("NAME", "EXPIRES", "AUTHORITY", "TARGETS"))


def remove(args: argparse.Namespace) -> int:
    with operator.opened(args, offline=True) as open_call:
        found = open_call("trust.remove", {"name": args.name})
    if args.json:
        output.say_json(found)
    else:
        output.say(f"{escape(args.name)} is trusted no longer.")
    return exits.DONE
