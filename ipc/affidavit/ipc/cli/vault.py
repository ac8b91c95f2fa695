"""`affidavit unlock`, `lock`."""

from __future__ import annotations

import argparse

from affidavit.ipc.cli import exits, operator, output
from affidavit.ipc.cli.arguments import Parser, command, example, passphrase_option


def configure(parser: Parser, name: str) -> None:
    if name == "unlock":
        parser.description = "Open the vault of the running app. Until then nothing is sent."
        parser.epilog = example("affidavit unlock")
        passphrase_option(command(parser, unlock))
    else:
        parser.description = (
            "Close the vault of the running app. Whatever is not sent yet ends VAULT_LOCKED; what was sent goes on\n"
            "being recorded. Needs no passphrase: it loosens nothing."
        )
        parser.epilog = example("affidavit lock")
        command(parser, lock)


def unlock(args: argparse.Namespace) -> int:
    with operator.opened(args) as open_call:
        found = open_call("vault.unlock", {})
    if args.json:
        output.say_json(found)
    else:
        output.say("The vault is open.")
    return exits.DONE


def lock(args: argparse.Namespace) -> int:
    found = operator.call("vault.lock", {})
    if args.json:
        output.say_json(found or {"vault": "locked"})
    else:
        output.say("The vault is locked. Nothing is sent until it is opened.")
    return exits.DONE
