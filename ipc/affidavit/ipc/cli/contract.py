"""`affidavit contract`: what is promised of a remote action, checked, shown, and adopted.

`check` needs no broker and no vault. `adopt` checks the files here first, so that what is wrong is told with its line
before a passphrase is asked for.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from affidavit.ipc.cli import exits, link, operator, output, words
from affidavit.ipc.cli.arguments import Parser, example, family, passphrase_option
from affidavit.ipc.cli.card_text import ANSWERS
from affidavit.ipc.cli.escape import escape
from affidavit.ipc.cli.refusal import Refusal, usage

_FILE_MAX = 64 * 1024


def configure(parser: Parser, name: str) -> None:
    parser.description = (
        "Contracts: what binds a repeat, where an outcome can be looked up, what is left if the connection dies."
    )
    parser.epilog = example("affidavit contract explain POST https://api.example.com/v1/payments")
    add = family(parser)
    part = add(
        "check",
        check,
        "check a contract file in full; every problem is named with its line",
        epilog=example("affidavit contract check payments.toml"),
    )
    part.add_argument("file", type=Path, metavar="FILE")
    add("list", list_, "the contracts in force", epilog=example("affidavit contract list"))
    part = add(
        "explain",
        explain,
        "which contract a call falls under, and its three answers",
        epilog=example("affidavit contract explain GET https://api.example.com/v1/account"),
    )
    part.add_argument("method", metavar="METHOD")
    part.add_argument("url", metavar="URL")
    part = add(
        "adopt",
        adopt,
        "put contract files in force, all or none",
        epilog=example("affidavit contract adopt --all"),
    )
    part.add_argument("files", type=Path, nargs="*", metavar="FILE")
    part.add_argument("--all", action="store_true", help="every *.toml in the home's contracts directory")
    passphrase_option(part)


def check(args: argparse.Namespace) -> int:
    from affidavit.broker.contract import ContractRefused, parse, told

    text = read(args.file)
    try:
        contract = parse(text, file=args.file.name)
    except ContractRefused as refused:
        if args.json:
            output.say_json({"file": str(args.file), "problems": [problem_json(each) for each in refused.problems]})
        else:
            for each in refused.problems:
                output.say(escape(str(each)))
        return exits.REFUSED
    shown = told(contract)
    if args.json:
        output.say_json({"file": str(args.file), "problems": [], **shown})
    else:
        output.say(f"{escape(args.file.name)} is a whole contract. It matches nothing until it is adopted.")
        for line in contract_lines(shown, standing="as checked"):
            output.say(line)
    return exits.DONE


def problem_json(problem: Any) -> dict[str, Any]:
    return {"line": problem.line, "key": problem.key, "message": problem.message, "fix": problem.fix}


def list_(args: argparse.Namespace) -> int:
    with link.agent() as broker:
        found = broker.call("contract.list", {})
    if args.json:
        output.say_json(found)
        return exits.DONE
    rows = [
        (
            escape(each["contract"]["id"]),
            escape(each["effect"]),
            escape(each["contract"]["standing"]),
            ", ".join(ANSWERS.get(name, escape(name)) for name in each["missing"]) or "none",
        )
        for each in found["contracts"]
    ]
    for line in words.columns(rows, ("CONTRACT", "EFFECT", "STANDING", "ANSWERS MISSING")):
        output.say(line)
    return exits.DONE


def explain(args: argparse.Namespace) -> int:
    with link.agent() as broker:
        found = broker.call("contract.explain", {"method": args.method, "url": args.url})
    if args.json:
        output.say_json(found)
        return exits.DONE
    output.say(f"{escape(found['method'])} {escape(found['url'])}")
    for line in contract_lines(found):
        output.say(line)
    if found.get("unless"):
        output.say(f"Unless the request itself is one of: {escape(', '.join(found['unless']))}")
    return exits.DONE


def contract_lines(found: Mapping[str, Any], *, standing: str | None = None) -> Iterator[str]:
    """One contract with its three answers. `standing`: in place of its own, of a text that was only read."""
    contract = found["contract"]
    title = f", {escape(contract['title'])}" if contract.get("title") else ""
    yield f"Contract: {escape(contract['id'])}{title} ({escape(standing or contract['standing'])})"
    if contract.get("source"):
        yield f"Read from: {escape(contract['source'])}, checked {escape(str(contract.get('checked')))}"
    yield f"Effect: {escape(found['effect'])}; idempotent: {escape(str(found['idempotent']).lower())}"
    if found.get("approval"):
        yield f"Approval: {escape(found['approval'])}"
    if found.get("redirects"):
        yield f"Redirects: followed, {found['redirects']} at most"
    for name, label in ANSWERS.items():
        missing = "MISSING. " if name in found["missing"] else ""
        yield f"  {label}: {missing}{escape(found['answers'][name])}"


def adopt(args: argparse.Namespace) -> int:
    from affidavit.broker.contract import ContractRefused, parse

    if args.all == bool(args.files):
        raise usage("Name the files, or give --all.", field="FILE")
    files = sorted(link.places().contracts.glob("*.toml")) if args.all else args.files
    if not files:
        raise Refusal(exits.REFUSED, "nothing", f"There is no contract file in {link.places().contracts}.")
    texts = [{"file": file.name, "text": read(file)} for file in files]
    try:
        for each in texts:
            parse(each["text"], file=each["file"])
    except ContractRefused as refused:
        for problem in [] if args.json else refused.problems:
            output.note(escape(str(problem)))
        raise Refusal(
            exits.REFUSED,
            "invalid",
            f"{refused.problems[0].file} is no whole contract.",
            field="FILE",
            remedy="Nothing was adopted. Mend it first.",
            extra={"problems": [problem_json(each) for each in refused.problems]},
        ) from None
    found = operator.call_with_passphrase(args, "contract.adopt", {"files": texts}, offline=True)
    if args.json:
        output.say_json(found)
    else:
        for each in found["adopted"]:
            output.say(f"Adopted {escape(each['file'])}: {escape(each['id'])}, {escape(each['digest'])}")
        if not found["adopted"]:
            output.say("Nothing changed: these texts are in force already.")
    return exits.DONE


def read(file: Path) -> str:
    """A contract file's text. One byte over the limit is read, so that checking says what is wrong with it."""
    try:
        with open(file, "rb") as opened:
            return opened.read(_FILE_MAX + 1).decode()
    except OSError as error:
        raise usage(f"{file} cannot be read: {os.strerror(error.errno or 0)}.", field="FILE") from None
    except UnicodeDecodeError:
        raise Refusal(exits.REFUSED, "invalid", f"{file} is not UTF-8 text.", field="FILE") from None
