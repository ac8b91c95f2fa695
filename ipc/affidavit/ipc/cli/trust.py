"""`affidavit trust`: private certificate authorities, each for the targets that it vouches for."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from affidavit.ipc.cli import operator, output, words
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
    found = operator.call_with_passphrase(args, "trust.add", asked, offline=True)
    return output.answer(found, added(found), as_json=args.json)


def added(found: Mapping[str, Any]) -> Iterator[str]:
    """An authority that is trusted now."""
    yield f"{escape(found['name'])} is trusted for {escape(' '.join(found['targets']))}"
    for subject in found["subjects"]:
        yield f"  {escape(subject)}"
    yield f"It expires {words.clock(found['expires_at'])} UTC."


def list_authorities(args: argparse.Namespace) -> int:
    found = operator.call_with_passphrase(args, "trust.list", {}, offline=True)
    return output.answer(found, lines(found), as_json=args.json)


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
    found = operator.call_with_passphrase(args, "trust.remove", {"name": args.name}, offline=True)
    return output.answer(found, [f"{escape(args.name)} is trusted no longer."], as_json=args.json)
