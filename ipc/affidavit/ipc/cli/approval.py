"""`affidavit approvals`, `approve`, `deny`: the cards, decided on a terminal."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping
from typing import Any

from affidavit.ipc.cli import card_text, exits, operator, output, words
from affidavit.ipc.cli.arguments import Parser, command, example, passphrase_option
from affidavit.ipc.cli.escape import escape
from affidavit.ipc.cli.refusal import Refusal, usage

_ID = "act_01JEXAMPLE0000000000000000"


def configure(parser: Parser, name: str) -> None:
    if name == "approvals":
        parser.description = "The cards that wait, oldest first, without bodies. Needs no passphrase."
        parser.epilog = example("affidavit approvals")
        command(parser, approvals)
        return
    if name == "deny":
        parser.description = "Deny what a card asks for. Nothing is sent. Needs no passphrase: it loosens nothing."
        parser.epilog = example(f"affidavit deny {_ID} --reason 'not without a ticket'")
        parser.add_argument("id", metavar="ID", help="invocation id")
        parser.add_argument("--reason", metavar="TEXT", help="told to the agent")
        command(parser, deny)
        return
    parser.description = (
        "Print a whole card, then approve it. On a terminal you are asked once more after reading; with\n"
        "--passphrase-fd the passphrase is the approval. If it is too late, or was decided elsewhere: exit 1,\n"
        "nothing is sent."
    )
    parser.epilog = example(f"affidavit approve {_ID} --scope once")
    parser.add_argument("id", metavar="ID", help="invocation id")
    parser.add_argument(
        "--scope", choices=("once", "session"), help="what it covers; without it what the card preselects"
    )
    passphrase_option(command(parser, approve))


def approvals(args: argparse.Namespace) -> int:
    found = operator.call("approval.list", {})
    return output.answer(found, card_lines(found["cards"]), as_json=args.json)


def card_lines(cards: list[Mapping[str, Any]]) -> Iterator[str]:
    if not cards:
        yield "No cards wait."
        return
    rows = [
        (
            escape(card["invocation_id"]),
            words.clock(card["asked_at"]),
            card["effect"].upper(),
            card_text.seen(card["session"]["process"]["name"]),
            f"{escape(card['method'])} {escape(card['url'])}",
        )
        for card in cards
    ]
    yield from words.columns(rows, ("ACTION", "ASKED", "EFFECT", "BY", "TARGET"))
    yield "Decide: affidavit approve ACTION, or affidavit deny ACTION"


def approve(args: argparse.Namespace) -> int:
    with operator.opened(args) as open_call:
        card = open_call("approval.show", {"invocation_id": args.id})
        show = output.note if args.json else output.say
        for line in card_text.lines(card):
            show(line)
        scope = args.scope or card["preselected"]
        if scope not in card["scopes"]:
            raise usage(f"This card offers no scope {scope!r}.", field="--scope", remedy="Use --scope once.")
        if args.passphrase_fd is None and not agreed(scope):
            raise Refusal(exits.REFUSED, "left_waiting", "Nothing was decided; the card still waits.")
        found = open_call("approval.approve", {"invocation_id": args.id, "scope": scope})
    said = "Approved once." if scope == "once" else "Approved for this session."
    return output.answer(found, [said], as_json=args.json)


def agreed(scope: str) -> bool:
    """Ask on the terminal, after the card was read. Anything but the whole word leaves the card as it is."""
    what = "this once" if scope == "once" else "for this session"
    try:
        with open("/dev/tty", "r+b", buffering=0) as terminal:
            terminal.write(f"Type approve to approve it {what}, anything else to leave it waiting: ".encode())
            return terminal.readline(64).strip() == b"approve"
    except OSError as error:
        message = f"There is no terminal to ask on: {os.strerror(error.errno or 0)}."
        raise usage(message, field="--passphrase-fd", remedy="Give --passphrase-fd N.") from None


def deny(args: argparse.Namespace) -> int:
    asked = {"invocation_id": args.id}
    if args.reason is not None:
        asked["reason"] = args.reason
    found = operator.call("approval.deny", asked)
    return output.answer(found, ["Denied. Nothing is sent."], as_json=args.json)
