"""`affidavit ssh`: an agent's SSH action, called as `ssh` is called.

Standard input, output, error and the exit status are the command's own, so that scripts, git and rsync need not change.
The outputs come while it runs. Input that ends soon is bound and shown to whoever is asked; input that goes on, or that
the command answers while it comes, is streamed, and nobody can be shown it.

It waits for a person without limit, as `ssh` waits for a host: whoever cannot wait calls `ssh.exec` on the socket.
"""

from __future__ import annotations

import argparse
import base64
import os
import re
import select
import shlex
import sys
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from affidavit.broker.limits import Limits
from affidavit.ipc.cli import exits, link, live, output, results, words
from affidavit.ipc.cli.arguments import Parser, command, example
from affidavit.ipc.cli.escape import escape
from affidavit.ipc.cli.refusal import Refusal, usage
from affidavit.ipc.client import ActionFailed, new_operation_id

STDIN_MAX = Limits().body
"""More input than this is streamed."""
PATIENCE_S = 2.0
"""Input that has not ended after this is streamed."""
WAIT_S = 60.0
"""One wait on the socket; another follows it."""

ANSWERS = re.compile(
    r"(\S*/)?(git[- ](upload-pack|receive-pack|upload-archive)|rsync --server|scp (-\w+ )*-[tf]|sftp-server)(\s|$)"
)
"""Commands that answer their input while it comes: it is streamed from its first byte on."""

TAKEN = {
    "batchmode": "yes",
    "clearallforwardings": "yes",
    "forwardagent": "no",
    "forwardx11": "no",
    "permitlocalcommand": "no",
    "remotecommand": "none",
    "requesttty": "no",
    "stricthostkeychecking": "yes",
}
"""Options of OpenSSH that ask for what is always so here; scp gives some of them."""


class Given(NamedTuple):
    """What was read of standard input. `more`: it has not ended."""

    data: bytes = b""
    more: bool = False


def configure(parser: Parser, name: str) -> None:
    parser.passes_output = True
    parser.usage = "affidavit ssh [OPTIONS] [USER@]HOST [--] COMMAND..."
    parser.description = (
        "One command on a host that the operator has set up: Affidavit logs in, asks the operator where that is\n"
        "needed, runs it at most once, and says what its records prove. Input, outputs and exit status are as\n"
        "with ssh; git and rsync take it in the place of ssh. Options stand before HOST."
    )
    parser.epilog = example("affidavit ssh --reason 'free space' deploy@web -- df -h /srv", exits.SSH_HELP)
    parser.add_argument("host", metavar="HOST", help="a host entry, or the address of the one entry that has it")
    parser.add_argument("command", metavar="COMMAND", nargs=argparse.REMAINDER, help="its words are joined by spaces")
    parser.add_argument("-n", dest="no_input", action="store_true", help="no input; else stdin goes to the command")
    for flag in ("-T", "-q", "-x", "-a", "-4", "-6"):
        parser.add_argument(flag, dest="taken", action="store_true", help="taken as ssh has it; nothing changes by it")
    parser.add_argument("-l", dest="user", metavar="USER", help="where given, the entry must log in as this user")
    parser.add_argument("-p", dest="port", type=int, metavar="PORT", help="where given, the entry must have this port")
    parser.add_argument(
        "-o", dest="option", action="append", default=[], metavar="SendEnv=NAME", help="send a variable along"
    )
    parser.add_argument("-G", dest="probe", action="store_true", help="print what is asked for, and ask nobody")
    parser.add_argument("--stream", action="store_true", help="stream the input from its first byte on")
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
    if args.probe:
        return probe(args)
    asked = asked_of(args)
    given = Given() if args.no_input else given_stdin(asked["command"], stream=args.stream)
    params = {**asked, **bound(given)}
    try:
        with link.agent() as broker:
            run = Run(broker, given)
            envelope = run.ended(params)
            refused = refused_variable(envelope, params.get("env", {}))
            if refused is not None and args.operation_id is None:
                without = "it" if len(params.pop("env")) == 1 else "any variable"
                again = f"asking again without {without}, which may need another approval."
                output.note(f"The host refused {escape(refused)}; {again}")
                params = {**params, "operation_id": new_operation_id()}
                envelope = run.ended(params)
            return run.passed_on(envelope, as_json=args.json)
    except Refusal as refusal:
        refusal.extra = {"operation_id": params["operation_id"], **refusal.extra}
        if isinstance(refusal, link.Lost):
            refusal.remedy = f"affidavit action show {params['operation_id']}"
            refusal.status = exits.NO_STATUS  # the command may have run: no small status may be taken for its own
        raise


def probe(args: argparse.Namespace) -> int:
    """What is asked for, in the form of `ssh -G`: by its answer git knows what it may ask for."""
    user, _, host = args.host.rpartition("@")
    asked = {"hostname": host, "user": args.user or user or None, "port": args.port}
    for name, value in asked.items():
        if value is not None:
            output.say(f"{name} {value}")
    variables(args.option)
    return exits.DONE


def refused_variable(envelope: Mapping[str, Any], wished: Mapping[str, str]) -> str | None:
    """The variable of `SendEnv` for which nothing was sent, as the host does not take it. To ssh they are a wish."""
    error = envelope.get("error") or {}
    named = str(error.get("field")).removeprefix("env.")
    return named if error.get("code") == "SSH_ENV_REFUSED" and named in wished else None


class Run:
    """One command line at work. `live` once its stream was attached."""

    def __init__(self, broker: link.Link, given: Given) -> None:
        self._broker = broker
        self._given = given
        self._live: live.Live | None = None
        broker.hear(self._told)

    def ended(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The envelope, once nothing is pending."""
        method, asked = "ssh.exec", dict(params)
        while True:
            try:
                envelope = self._broker.call(method, asked)
            except ActionFailed as failed:
                envelope = dict(failed.envelope)
            if envelope.get("pending") is None:
                return envelope
            method, asked = "action.wait", {"invocation_id": envelope["invocation_id"], "wait_s": WAIT_S}

    def passed_on(self, envelope: Mapping[str, Any], *, as_json: bool) -> int:
        """Write what the command wrote, unless it was written as it came; acknowledge it; end as the command ended."""
        invocation = str(envelope["invocation_id"])
        found = results.readable(envelope)
        if self._live is None:
            delivered = [deliver(self._broker, invocation, part, shown) for part, shown in found.items()]
            whole = all(delivered)
        else:
            whole = self._live.whole
            for part, shown in found.items():
                self._acknowledge(invocation, part, shown)
        exit_status = envelope["ssh"]["exit_status"] if found else None
        status = exits.NO_STATUS if exit_status is None or not whole else int(exit_status)
        if as_json or status == exits.NO_STATUS:
            output.note(output.one_line(envelope))
        return status

    def _acknowledge(self, invocation: str, part: str, shown: Mapping[str, Any]) -> None:
        """Where what was written is what the record names. Less is stored of a long output, with another hash."""
        assert self._live is not None
        if self._live.sha256(part) == _prefixed(results.acknowledged_hash(shown)):
            results.acknowledge(self._broker, invocation, results.acknowledged_hash(shown), part)

    def _told(self, method: str, params: Mapping[str, Any]) -> None:
        """The stream is ready: attach to it, and carry it to its end. Then the answer to the call is read on."""
        if method != "stream.ready":
            return
        sock, begun = link.stream(params["invocation_id"])
        with sock:
            self._live = live.Live()
            try:
                self._live.carry(sock, begun, self._given.data if self._given.more else None)
            except live.ReaderGone:
                output.reader_gone()
                message = f"The output was not read to its end. Next: affidavit action show {params['invocation_id']}"
                raise Refusal(exits.NO_STATUS, "reader_gone", message) from None


def _prefixed(digest: str) -> str:
    return f"sha256:{results.plain_hex(digest)}"


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
        output.note(f"{damage} It is not acknowledged. Next: {words.fetching(invocation, part)}")
        return False
    except BrokenPipeError:
        output.reader_gone()
        return False
    results.acknowledge(broker, invocation, results.acknowledged_hash(shown), part)
    return True


def asked_of(args: argparse.Namespace) -> dict[str, Any]:
    """The params of `ssh.exec` but for input; what is not given is left out."""
    user, at, host = args.host.rpartition("@")
    if at and not user:
        raise usage(f"{args.host!r} names no user.", field="HOST", remedy="Write it as user@host, or the host alone.")
    said = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not said:
        raise usage("There is no command, and a terminal is not given.", field="COMMAND", remedy="affidavit ssh --help")
    params: dict[str, Any] = {
        "host": host,
        "user": args.user or user or None,
        "port": args.port,
        "command": " ".join(said),
        "env": variables(args.option) or None,
        "operation_id": args.operation_id or new_operation_id(),
        "credential": args.credential,
        "deadline_s": args.deadline,
        "correlation_id": args.correlation_id,
        "reason": args.reason,
        "acknowledge_unresolved": args.acknowledge_unresolved,
    }
    return {name: value for name, value in params.items() if value is not None}


def bound(given: Given) -> dict[str, Any]:
    """How input and outputs go: input that has ended is bound, and the outputs always come as they are written."""
    if given.more:
        return {"stream": True}
    data = {"stdin_base64": base64.b64encode(given.data).decode()} if given.data else {}
    return {**data, "stream": "output"}


def given_stdin(command: str, *, stream: bool) -> Given:
    """What stands on stdin, unless that is a terminal; read as far as the command can wait for it."""
    if sys.stdin is None or sys.stdin.isatty():
        return Given()
    if stream or ANSWERS.match(command):
        return Given(more=True)
    poll, until, data = select.poll(), time.monotonic() + PATIENCE_S, bytearray()
    poll.register(0, select.POLLIN)
    while len(data) <= STDIN_MAX and poll.poll(max(0.0, until - time.monotonic()) * 1000):
        part = live.read_input()
        if not part:
            return Given(bytes(data))
        data += part
    return Given(bytes(data), more=True)


def variables(options: list[str]) -> dict[str, str]:
    """The environment of this command that `-o SendEnv=NAME` names; one that is not set is left out, as ssh does."""
    found = {}
    for option in options:
        key, _, value = option.replace("=", " ", 1).partition(" ")
        if TAKEN.get(key.lower()) == value.strip().lower():
            continue
        if key.lower() != "sendenv" or not value.strip():
            message = f"The option {shlex.quote(option)} is not taken: a host is what its entry says."
            raise usage(message, field="-o", remedy="Only -o SendEnv=NAME; the operator sets the rest: affidavit host")
        for name in value.split():
            if name in os.environ:
                found[name] = os.environ[name]
    return found
