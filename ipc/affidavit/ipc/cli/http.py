"""`affidavit http`: an agent's HTTP action.

The operation id is made, and printed, before anything is sent: whoever loses the answer can still ask for it. The
result is acknowledged only once its output was flushed (R42).
"""

from __future__ import annotations

import argparse
import base64
import os
import sys
from collections.abc import Mapping
from typing import Any, BinaryIO

from affidavit.broker.limits import Limits
from affidavit.ipc.cli import exits, link, output, results, words
from affidavit.ipc.cli.arguments import Parser, command, example
from affidavit.ipc.cli.refusal import Refusal, usage
from affidavit.ipc.client import ActionFailed, new_operation_id

BODY_MAX = Limits().body


def configure(parser: Parser, name: str) -> None:
    parser.description = (
        "One HTTP action: Affidavit adds the credential, asks the operator where that is needed, sends the request at\n"
        "most once, and says what its records prove. The first line on stderr is the operation id, also when nothing\n"
        "answers; the body of a complete answer goes to stdout."
    )
    parser.epilog = example(
        "affidavit http POST https://api.example.com/v1/payments -H 'Content-Type: application/json' \\\n"
        "    -d @payment.json --credential example --reason 'invoice 118'",
        exits.ACTION_HELP,
    )
    parser.add_argument("method", metavar="METHOD", help="GET, HEAD, OPTIONS, POST, PUT, PATCH, DELETE")
    parser.add_argument("url", metavar="URL", help="absolute; http:// goes to loopback only")
    parser.add_argument("-H", "--header", action="append", default=[], metavar="K:V", help="a header; may be repeated")
    parser.add_argument("-d", "--data", metavar="DATA", help="the body: DATA itself, @FILE, or - for stdin")
    parser.add_argument("--credential", metavar="N", help="the credential by name; else the one bound to the target")
    parser.add_argument("--operation-id", metavar="ID", help="your durable name for this operation; else one is made")
    parser.add_argument("--idempotency-key", metavar="K", help="where a contract documents one; else one is made")
    parser.add_argument("--deadline", type=float, metavar="S", help="seconds from authorisation to the settled answer")
    parser.add_argument("--wait", type=float, metavar="S", help="seconds until this command answers `pending`")
    parser.add_argument("--correlation-id", metavar="ID", help="your name for the run that this belongs to")
    parser.add_argument("--reason", metavar="TEXT", help="shown on the card as your claim")
    parser.add_argument(
        "--acknowledge-unresolved", metavar="ID", help="the unknown action whose effect this may repeat"
    )
    command(parser, http)


def http(args: argparse.Namespace) -> int:
    params = params_of(args)
    operation_id = params["operation_id"]
    output.note(operation_id)
    try:
        with link.agent() as broker:
            return ask(broker, params, as_json=args.json)
    except Refusal as refusal:
        refusal.extra = {"operation_id": operation_id, **refusal.extra}
        if isinstance(refusal, link.Lost):
            refusal.remedy = f"affidavit action show {operation_id}"
        raise


def ask(broker: link.Link, params: Mapping[str, Any], *, as_json: bool) -> int:
    """Make the call, print its answer, acknowledge what was printed."""
    try:
        envelope = broker.call("http.request", params)
    except ActionFailed as ended:
        envelope = dict(ended.envelope)
    if as_json:
        output.say_json(envelope)
    status = exits.of_envelope(envelope)
    body = results.readable(envelope).get("body")
    if body is not None and body["complete"] and not (as_json and not body["inline"]):
        status = results.deliver(broker, envelope, body, status, printed=as_json)
    if results.withheld(envelope):
        status = exits.IN_DELIVERY
    if not as_json:
        for line in words.verdict(envelope):
            output.note(line)
        if results.withheld(envelope):
            output.note(words.WITHHELD)
    return status


def params_of(args: argparse.Namespace) -> dict[str, Any]:
    """The params of `http.request`; what is not given is left out."""
    params: dict[str, Any] = {
        "method": args.method,
        "url": args.url,
        "headers": [header(text) for text in args.header],
        "operation_id": args.operation_id or new_operation_id(),
        "credential": args.credential,
        "idempotency_key": args.idempotency_key,
        "deadline_s": args.deadline,
        "wait_s": args.wait,
        "correlation_id": args.correlation_id,
        "reason": args.reason,
        "acknowledge_unresolved": args.acknowledge_unresolved,
    }
    if args.data is not None:
        params["body_base64"] = base64.b64encode(body_of(args.data)).decode()
    return {name: value for name, value in params.items() if value is not None and value != []}


def header(text: str) -> list[str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise usage(f"{text!r} is not a header.", field="-H/--header", remedy="Write it as 'Name: value'.")
    return [name.strip(), value.strip()]


def body_of(data: str) -> bytes:
    """The bytes that `-d` names. A source over the limit is refused here: nobody has counted how long it is."""
    if data == "-":
        return whole(sys.stdin.buffer)
    if not data.startswith("@"):
        return data.encode("utf-8", "surrogateescape")
    try:
        with open(data[1:], "rb") as file:
            return whole(file)
    except OSError as error:
        message = f"{data[1:]} cannot be read: {os.strerror(error.errno or 0)}."
        raise usage(message, field="-d/--data") from None


def whole(source: BinaryIO) -> bytes:
    """All bytes of a source, up to the limit."""
    read = source.read(BODY_MAX + 1)
    if len(read) > BODY_MAX:
        raise usage(f"The body is over {BODY_MAX} bytes, which is the limit.", field="-d/--data")
    return read
