"""`affidavit action`: records of what was asked, sent and proven.

An ID is an invocation id, or an operation id, which stands for its newest invocation.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from affidavit.ipc.cli import exits, link, output, words
from affidavit.ipc.cli.arguments import Parser, example, family
from affidavit.ipc.cli.escape import escape
from affidavit.ipc.cli.refusal import usage
from affidavit.ipc.client import ActionFailed

REQUEST_MAX = 16 * 1024 * 1024

_INVOCATION = re.compile(r"act_[0-9A-Z]{26}")


def configure(parser: Parser, name: str) -> None:
    parser.description = "Records of actions: what was asked, what was sent, what is proven."
    parser.epilog = example("affidavit action list --outcome unknown", exits.ACTION_HELP)
    add = family(parser)
    for verb, run, what in (
        ("show", show, "one action with its records"),
        ("wait", wait, "wait until an action is finished"),
        ("retry", retry, "repeat an action, where its record says that this is safe"),
        ("reconcile", reconcile, "ask the target what became of an action, where its contract says how"),
        ("cancel", cancel, "stop an action of this session; once it was sent, that does not undo it"),
    ):
        part = add(verb, run, what, epilog=example(f"affidavit action {verb} op_7d5d4d8e", exits.ACTION_HELP))
        part.add_argument("id", metavar="ID", help="invocation id or operation id")
        if verb == "show":
            part.add_argument(
                "--operator",
                action="store_true",
                help="as the operator sees it: the target of any agent's, too",
            )
        if verb in ("wait", "retry"):
            part.add_argument("--wait", type=float, metavar="S", help="seconds until it answers `pending` (0-600)")
        if verb == "cancel":
            part.add_argument(
                "--signal", metavar="NAME", help="such as TERM: sent first to a command that runs; it proves nothing"
            )
        if verb == "retry":
            part.add_argument(
                "--unsafe", action="store_true", help="although it may happen twice; the operator must tick that"
            )
            part.add_argument(
                "--request", metavar="FILE", help="the params of http.request as JSON, where they are needed again"
            )
    part = add("list", list_, "actions, newest first", epilog=example("affidavit action list --scope all --limit 5"))
    part.add_argument("--scope", choices=("mine", "all"), help="mine: asked from here by this program")
    part.add_argument("--outcome", choices=tuple(words.OUTCOME))
    part.add_argument("--state", choices=("awaiting_approval", "running"), help="only open ones in this state")
    part.add_argument("--limit", type=int, metavar="N", help="rows of a page")
    part.add_argument("--before", metavar="CURSOR", help="the next page, as the last one named it")


def named(text: str) -> dict[str, str]:
    """The params that name what a person typed as ID."""
    return {"invocation_id" if _INVOCATION.fullmatch(text) else "operation_id": text}


def invocation_id(broker: link.Link, text: str) -> str:
    """The invocation that ID stands for. An id of neither form is left to the broker to refuse."""
    if _INVOCATION.fullmatch(text):
        return text
    return str(envelope_of(broker, "action.get", named(text))["invocation_id"])


def envelope_of(broker: link.Link, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
    """An envelope, whichever way it came: as a result, or as an error that carries it."""
    try:
        return broker.call(method, params)
    except ActionFailed as ended:
        return ended.envelope


def show(args: argparse.Namespace) -> int:
    with link.agent() as broker:
        if not args.operator:
            return told(envelope_of(broker, "action.get", {**named(args.id), "events": True}), as_json=args.json)
        params = {"invocation_id": invocation_id(broker, args.id)}
    from affidavit.ipc.cli import operator  # an agent's command needs none of it

    return told(without_contents(operator.call("action.get", params)), as_json=args.json)


def without_contents(envelope: Mapping[str, Any]) -> dict[str, Any]:
    """What the operator is shown, without what was answered: that is handed out by a card alone."""
    shown = dict(envelope)
    for wire in ("http", "ssh"):
        parts = shown.get(wire)
        if parts is not None:
            shown[wire] = {name: _described(part) for name, part in parts.items() if name != "headers"}
    return shown


def _described(part: Any) -> Any:
    return {n: v for n, v in part.items() if n not in ("text", "base64")} if isinstance(part, Mapping) else part


def wait(args: argparse.Namespace) -> int:
    with link.agent() as broker:
        params: dict[str, Any] = {"invocation_id": invocation_id(broker, args.id)}
        if args.wait is not None:
            params["wait_s"] = args.wait
        return told(envelope_of(broker, "action.wait", params), as_json=args.json)


def retry(args: argparse.Namespace) -> int:
    given = request_of(args.request) if args.request is not None else None
    asked = {"wait_s": args.wait, "unsafe": args.unsafe or None, "request": given}
    with link.agent() as broker:
        params = {"invocation_id": invocation_id(broker, args.id)}
        params |= {name: value for name, value in asked.items() if value is not None}
        return told(envelope_of(broker, "action.retry", params), as_json=args.json)


def request_of(file: str) -> Any:
    """The params of `http.request` in a JSON file."""
    try:
        with open(file, "rb") as opened:
            return json.loads(opened.read(REQUEST_MAX))
    except OSError as error:
        message = f"{file} cannot be read: {os.strerror(error.errno or 0)}."
        raise usage(message, field="--request") from None
    except ValueError:
        raise usage(f"{file} is not JSON.", field="--request", remedy="Give the params of http.request.") from None


def reconcile(args: argparse.Namespace) -> int:
    with link.agent() as broker:
        params = {"invocation_id": invocation_id(broker, args.id)}
        return told(envelope_of(broker, "action.reconcile", params), as_json=args.json)


def cancel(args: argparse.Namespace) -> int:
    with link.agent() as broker:
        params = {"invocation_id": invocation_id(broker, args.id)}
        if args.signal is not None:
            params["signal"] = args.signal
        return told(envelope_of(broker, "action.cancel", params), as_json=args.json)


def list_(args: argparse.Namespace) -> int:
    asked = {name: getattr(args, name) for name in ("scope", "outcome", "state", "limit", "before")}
    with link.agent() as broker:
        page = broker.call("action.list", {name: value for name, value in asked.items() if value is not None})
    return output.answer(page, page_lines(page), as_json=args.json)


def told(envelope: Mapping[str, Any], *, as_json: bool) -> int:
    if as_json:
        output.say_json(envelope)
    else:
        for line in record_lines(envelope):
            output.say(line)
    return exits.of_envelope(envelope)


def record_lines(envelope: Mapping[str, Any]) -> Iterator[str]:
    """One action for a person: the verdict first, then what it rests on, then its records."""
    yield from words.verdict(envelope)
    evidence = envelope.get("evidence") or {}
    times = evidence.get("times") or {}
    authorization = evidence.get("authorization") or {}
    settled = envelope.get("settled") or {}
    facts = (
        ("Title", envelope.get("title")),
        ("Action", envelope["invocation_id"]),
        ("Operation", envelope.get("operation_id")),
        ("Target", shown_target(evidence.get("target"))),
        ("Accepted", words.clock(times.get("accepted")) if times.get("accepted") else None),
        ("Dispatched", dispatched(evidence)),
        ("Settled", words.clock(times.get("settled")) if times.get("settled") else None),
        ("Source", evidence.get("source")),
        ("Observation", evidence.get("transport_observation")),
        ("Decision", " ".join(str(authorization[part]) for part in ("decision", "means") if authorization.get(part))),
        ("Look-up", looked_up(evidence)),
        ("Job", job(evidence)),
        ("Redirect", redirect(evidence)),
        ("Settlement", f"{settled.get('source')}, record {settled.get('record')}" if settled else None),
        ("Fingerprint", evidence.get("fingerprint")),
    )
    yield ""
    for name, value in facts:
        if value:
            yield f"{name + ':':<14}{escape(str(value))}"
    items = evidence.get("items") or []
    if items:
        yield ""
        yield "Items:"
        for item in items:
            outcome = words.OUTCOME.get(item["outcome"], item["outcome"])
            yield escape(f"{item['key']:>8}  {outcome:<14}  {item.get('evidence') or ''}").rstrip()
    events = envelope.get("events") or []
    if events:
        yield ""
        yield "Records:"
        for event in events:
            detail = escape(told_detail(event.get("detail") or {}))
            yield f"{event['record']:>8}  {words.clock(event['at'])}  {escape(event['kind']):<24}  {detail}".rstrip()


def looked_up(evidence: Mapping[str, Any]) -> str | None:
    looked = evidence.get("looked_up")
    return f"{words.clock(looked.get('at'))}, record {looked.get('record')}: {looked.get('answer')}" if looked else None


def job(evidence: Mapping[str, Any]) -> str | None:
    named = evidence.get("job")
    if not named:
        return None
    state = named.get("state") or "no state seen yet"
    followed = f"operation {named['operation_id']}" if named.get("operation_id") else "not followed"
    return f"{named.get('id') or named.get('status_url')}: {state}, {followed}"


def redirect(evidence: Mapping[str, Any]) -> str | None:
    led = evidence.get("redirect")
    if not led:
        return None
    what = "followed" if led.get("followed") else "not followed"
    hop = f" ({led['invocation_id']})" if led.get("invocation_id") else ""
    return f"to {led.get('url') or 'no target'}, {what}{hop}"


def dispatched(evidence: Mapping[str, Any]) -> str | None:
    if not evidence.get("dispatch_started"):
        return "no: nothing was sent"
    times = evidence.get("times") or {}
    return f"{words.clock(times.get('dispatched'))}, record {evidence.get('dispatch_record')}"


_TOLD = [
    "code",
    "outcome",
    "status",
    "completion",
    "length",
    "sent",
    "stage",
    "fault",
    "attempt",
    "injection",
    "decision",
    "approved",
    "denied",
    "means",
    "by",
    "scope",
    "reason",
    "note",
    "reference",
    "source",
    "item",
    "supersedes",
    "answer",
]
"""What a person looks for in a record; the rest is in --json."""


def told_detail(detail: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {detail[name]}" for name in _TOLD if isinstance(detail.get(name), str | int | float))


def page_lines(page: Mapping[str, Any]) -> Iterator[str]:
    if not page["rows"]:
        yield "No actions. Everything that agents ask for will be here."
        return
    heads = ("ACTION", "AT", "OUTCOME", "CODE", "RETRY", "TARGET")
    rows = [
        (
            escape(row["invocation_id"]),
            words.clock(row["at"]),
            "pending" if row["state"] else words.OUTCOME.get(row["outcome"], escape(row["outcome"])),
            escape(row["code"]),
            words.RETRY.get(row["retry"], escape(row["retry"])),
            escape(shown_target(row["target"]) or ("sealed" if row["sealed"] else "-")),
        )
        for row in page["rows"]
    ]
    yield from words.columns(rows, heads)
    if page.get("before"):
        yield f"More: affidavit action list --before {escape(page['before'])}"


def shown_target(target: Mapping[str, Any] | None) -> str:
    """The target of an envelope or a row, not escaped; empty where none is told."""
    return " ".join(str(target[part]) for part in ("method", "url", "host", "command") if target and target.get(part))
