"""`affidavit ssh`: an agent's SSH action, called as `ssh` is called.

Standard output, standard error and the exit status are the command's own, so that scripts need not change. It waits
for a person without limit, as `ssh` waits for a host: whoever cannot wait calls `ssh.exec` on the socket.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import shlex
import sys
from collections.abc import Mapping
from typing import Any

from affidavit.broker.limits import Limits
from affidavit.ipc.cli import exits, link, output, results
from affidavit.ipc.cli.arguments import Parser, command, example
from affidavit.ipc.cli.http import new_operation_id
from affidavit.ipc.cli.refusal import Refusal, usage
from affidavit.ipc.client import ActionFailed

STDIN_MAX = Limits().body
WAIT_S = 60.0
"""One wait on the socket; another follows it."""


def configure(parser: Parser, name: str) -> None:
    parser.usage = "affidavit ssh [OPTIONS] [USER@]HOST [--] COMMAND..."
    parser.description = (
        "One command on a host that the operator has set up: Affidavit logs in, asks the operator where that is\n"
        "needed, runs it at most once, and says what its records prove. Input, outputs and exit status are as\n"
        "with ssh. Options stand before HOST; what follows it is the command."
    )
    parser.epilog = example("affidavit ssh --reason 'free space' deploy@web -- df -h /srv", exits.SSH_HELP)
    parser.add_argument("host", metavar="HOST", help="a host entry, or the address of the one entry that has it")
    parser.add_argument("command", metavar="COMMAND", nargs=argparse.REMAINDER, help="its words are joined by spaces")
    parser.add_argument("-n", dest="no_input", action="store_true", help="no input; else stdin goes to the command")
    parser.add_argument(
        "-T", dest="no_tty", action="store_true", help="no terminal, as always here; taken as ssh has it"
    )
    parser.add_argument("-p", dest="port", type=int, metavar="PORT", help="where given, the entry must have this port")
    parser.add_argument(
        "-o", dest="option", action="append", default=[], metavar="SendEnv=NAME", help="send a variable along"
    )
    parser.add_argument(
        "--credential", metavar="N", help="the credential by name; else the one that logs in to the host"
    )
    parser.add_argument("--operation-id", metavar="ID", help="your durable name for this operation; else one is made")
    parser.add_argument("--deadline", type=float, metavar="S", help="seconds from authorisation to the command's end")
    parser.add_argument("--correlation-id", metavar="ID", help="your name for the run that this belongs to")
    parser.add_argument("--reason", metavar="TEXT", help="shown on the card as your claim")
    parser.add_argument(
        "--acknowledge-unresolved", metavar="ID", help="the unknown action whose effect this may repeat"
    )
    command(parser, ssh)


def ssh(args: argparse.Namespace) -> int:
    params = params_of(args)
    try:
        with link.agent() as broker:
            envelope = ended(broker, params)
            return passed_on(broker, envelope, as_json=args.json)
    except Refusal as refusal:
        refusal.extra = {"operation_id": params["operation_id"], **refusal.extra}
        if isinstance(refusal, link.Lost):
            refusal.remedy = f"affidavit action show {params['operation_id']}"
        raise


def ended(broker: link.Link, params: Mapping[str, Any]) -> dict[str, Any]:
    """The envelope, once nothing is pending."""
    method, asked = "ssh.exec", dict(params)
    while True:
        try:
            envelope = broker.call(method, asked)
        except ActionFailed as failed:
            envelope = dict(failed.envelope)
        if envelope.get("pending") is None:
            return envelope
        method, asked = "action.wait", {"invocation_id": envelope["invocation_id"], "wait_s": WAIT_S}


def passed_on(broker: link.Link, envelope: Mapping[str, Any], *, as_json: bool) -> int:
    """Write what the command wrote, acknowledge it, and end as the command ended."""
    invocation = str(envelope["invocation_id"])
    found = results.outputs(envelope)
    whole = [deliver(broker, invocation, part, shown) for part, shown in found.items()]
    exit_status = envelope["ssh"]["exit_status"] if found else None
    status = exits.NO_STATUS if exit_status is None or not all(whole) else int(exit_status)
    if as_json or status == exits.NO_STATUS:
        output.note(json.dumps(envelope, separators=(",", ":")))
    return status


def deliver(broker: link.Link, invocation: str, part: str, shown: Mapping[str, Any]) -> bool:
    """Write one output to where it belongs; whether it arrived whole, and only then is it acknowledged."""
    if not shown["complete"]:
        output.note(f"The {part} was cut at {shown['truncated_at']} bytes. Next: affidavit action show {invocation}")
        return False
    stream = sys.stdout if part == "stdout" else sys.stderr
    try:
        stream.flush()
        for data in results.parts(broker, invocation, shown, part):
            stream.buffer.write(data)
        stream.flush()
    except results.Damaged as damage:
        output.note(f"{damage} It is not acknowledged. Next: affidavit action show {invocation}")
        return False
    except BrokenPipeError:
        output.reader_gone()
        return False
    results.acknowledge(broker, invocation, results.acknowledged_hash(shown), part)
    return True


def params_of(args: argparse.Namespace) -> dict[str, Any]:
    """The params of `ssh.exec`; what is not given is left out."""
    user, at, host = args.host.rpartition("@")
    if at and not user:
        raise usage(f"{args.host!r} names no user.", field="HOST", remedy="Write it as user@host, or the host alone.")
    words = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not words:
        raise usage("There is no command, and a terminal is not given.", field="COMMAND", remedy="affidavit ssh --help")
    stdin = b"" if args.no_input else given_stdin()
    params: dict[str, Any] = {
        "host": host,
        "user": user or None,
        "port": args.port,
        "command": " ".join(words),
        "stdin_base64": base64.b64encode(stdin).decode() if stdin else None,
        "env": variables(args.option) or None,
        "operation_id": args.operation_id or new_operation_id(),
        "credential": args.credential,
        "deadline_s": args.deadline,
        "correlation_id": args.correlation_id,
        "reason": args.reason,
        "acknowledge_unresolved": args.acknowledge_unresolved,
    }
    return {name: value for name, value in params.items() if value is not None}


def given_stdin() -> bytes:
    """What stands on stdin, unless that is a terminal. One byte over the limit is read, so that the broker refuses."""
    if sys.stdin is None or sys.stdin.isatty():
        return b""
    return sys.stdin.buffer.read(STDIN_MAX + 1)


def variables(options: list[str]) -> dict[str, str]:
    """The environment of this command that `-o SendEnv=NAME` names; one that is not set is left out, as ssh does."""
    found = {}
    for option in options:
        key, _, names = option.replace("=", " ", 1).partition(" ")
        if key.lower() != "sendenv" or not names.strip():
            message = f"The option {shlex.quote(option)} is not taken: a host is what its entry says."
            raise usage(message, field="-o", remedy="Only -o SendEnv=NAME; the operator sets the rest: affidavit host")
        for name in names.split():
            if name in os.environ:
                found[name] = os.environ[name]
    return found
