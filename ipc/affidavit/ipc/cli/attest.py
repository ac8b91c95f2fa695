"""`affidavit attest`: the operator says what became of an action whose outcome is unknown.

It is added beside the attempt and never rewrites it (R57).
"""

from __future__ import annotations

import argparse

from affidavit.ipc.cli import operator, output, words
from affidavit.ipc.cli.arguments import Parser, command, example, passphrase_option


def configure(parser: Parser, name: str) -> None:
    parser.description = (
        "Say what became of an unknown outcome, from knowledge of your own. The attempt's record stays as it is; this\n"
        "is added beside it. An attestation cannot be erased; a later one, or a proof, is added beside it."
    )
    parser.epilog = example(
        "affidavit attest act_01JEXAMPLE0000000000000000 --outcome committed --note 'seen in the account' \\\n"
        "    --reference pay_118"
    )
    parser.add_argument("id", metavar="ID", help="invocation id")
    parser.add_argument("--outcome", required=True, choices=("committed", "rejected"))
    parser.add_argument("--note", required=True, metavar="TEXT", help="what you know and from where")
    parser.add_argument("--reference", metavar="REF", help="the target's own name for what happened")
    parser.add_argument("--item", metavar="KEY", help="one item of a batch")
    parser.add_argument(
        "--supersedes", type=int, metavar="RECORD", help="the earlier attestation that this one corrects"
    )
    passphrase_option(command(parser, attest))


def attest(args: argparse.Namespace) -> int:
    asked = {
        "invocation_id": args.id,
        "outcome": args.outcome,
        "note": args.note,
        "reference": args.reference,
        "item": args.item,
        "supersedes": args.supersedes,
    }
    given = {name: value for name, value in asked.items() if value is not None}
    found = operator.call_with_passphrase(args, "attestation.add", given)
    return output.answer(found, words.verdict(found), as_json=args.json)
