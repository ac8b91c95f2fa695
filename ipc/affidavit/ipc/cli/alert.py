"""`affidavit alert`: what a person should look into, until one has (R67)."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any

from affidavit.ipc.cli import operator, output, words
from affidavit.ipc.cli.arguments import Parser, example, family, passphrase_option
from affidavit.ipc.cli.escape import escape


def configure(parser: Parser, name: str) -> None:
    parser.description = "Alerts: what a person should look into. One that is closed stays in the journal."
    parser.epilog = example("affidavit alert list")
    add = family(parser)
    add("list", list_alerts, "the open alerts, oldest first", epilog=example("affidavit alert list --json"))
    part = add("close", close, "close an alert that was looked into", epilog=example("affidavit alert close 3"))
    part.add_argument("id", type=int, metavar="ID", help="as `affidavit alert list` names it")
    passphrase_option(part)


def list_alerts(args: argparse.Namespace) -> int:
    status = operator.call("status", {})
    found = {name: status[name] for name in ("alerts", "alerts_sealed")}
    return output.answer(found, lines(found), as_json=args.json)


def lines(found: Mapping[str, Any]) -> Iterator[str]:
    rows = [
        (
            str(alert["id"]),
            words.clock(alert["at"]),
            escape(alert["invocation_id"] or "-"),
            escape(alert["says"]),
        )
        for alert in found["alerts"]
    ]
    sealed = found["alerts_sealed"]
    if rows:
        yield from words.columns(rows, ("ID", "SINCE", "ACTION", "WHAT TO LOOK INTO"))
    elif not sealed:
        yield "No alert is open."
    if sealed:
        yield f"From an earlier run: {sealed}, sealed until the vault is open. Next: affidavit unlock"


def close(args: argparse.Namespace) -> int:
    found = operator.call_with_passphrase(args, "alert.close", {"alert_id": args.id})
    return output.answer(found, [f"Alert {args.id} is closed. It stays in the journal."], as_json=args.json)
