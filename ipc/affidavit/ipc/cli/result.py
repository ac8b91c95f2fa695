"""`affidavit result fetch`: a stored result, resumable. It can never cause a second dispatch (R39).

A command's result has two parts, each fetched and acknowledged by itself; without `--part` it is its standard output.

With `-o FILE` the chunks go to `FILE.part`, each verified as it comes; an interrupted fetch goes on after the last
whole chunk there. The first chunk is always fetched again: it tells how large a chunk is, and whether the part file
belongs to this result at all. FILE appears only when everything is there and has the recorded hash.
"""

from __future__ import annotations

import argparse
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from affidavit.ipc.cli import action, exits, link, output, results, words
from affidavit.ipc.cli.arguments import Parser, example, family
from affidavit.ipc.cli.escape import escape
from affidavit.ipc.cli.refusal import Refusal, usage
from affidavit.ipc.client import ActionFailed


def configure(parser: Parser, name: str) -> None:
    parser.description = "Stored results."
    parser.epilog = example("affidavit result fetch act_01JEXAMPLE0000000000000000 -o answer.json", exits.ACTION_HELP)
    add = family(parser)
    part = add(
        "fetch",
        fetch,
        "fetch a stored result and acknowledge it once it is complete",
        epilog=example("affidavit result fetch op_7d5d4d8e -o answer.json", exits.ACTION_HELP),
    )
    part.add_argument("id", metavar="ID", help="invocation id or operation id")
    part.add_argument(
        "--part",
        choices=("body", *results.OUTPUTS),
        help="which part; without it the body of an HTTP answer, the stdout of a command",
    )
    part.add_argument("-o", "--output", type=Path, metavar="FILE", help="write to FILE; resumable. Without: stdout")


def fetch(args: argparse.Namespace) -> int:
    if args.json and args.output is None:
        raise usage("With --json the result needs a file.", field="-o/--output", remedy="Add -o FILE.")
    file = destination(args.output) if args.output is not None else None
    with link.agent() as broker:
        envelope = action.envelope_of(broker, "action.get", action.named(args.id))
        invocation = str(envelope["invocation_id"])
        if results.withheld(envelope):
            raise Refusal(exits.IN_DELIVERY, "withheld", words.WITHHELD, remedy=f"affidavit action show {invocation}")
        part, body = chosen(envelope, args.part)
        try:
            if body is None:
                # There may be a card to raise or a refusal to hear: ask for the first chunk all the same.
                results.fetch(broker, invocation, 0, part)
                envelope = action.envelope_of(broker, "action.get", {"invocation_id": invocation})
                part, body = chosen(envelope, args.part)
                if body is None:
                    if "error" in envelope:
                        return told(envelope, as_json=args.json)
                    raise unreadable(invocation)
            if file is None:
                return results.deliver(broker, envelope, body, exits.DONE, part, printed=False)
            stored = store(broker, invocation, file, body, part)
        except ActionFailed as ended:
            return told(ended.envelope, as_json=args.json)
        except results.Damaged as damage:
            raise Refusal(exits.IN_DELIVERY, "damaged", str(damage), remedy=words.fetching(invocation, part)) from None
        results.acknowledge(broker, invocation, results.acknowledged_hash(body), part)
    if args.json:
        output.say_json({"invocation_id": invocation, "file": str(args.output), "bytes": stored})
    else:
        output.note(f"{escape(str(args.output))}: {stored} bytes, verified.")
    return exits.DONE


def chosen(envelope: Mapping[str, Any], asked: str | None) -> tuple[str, Mapping[str, Any] | None]:
    """The name of the part to fetch, and the part itself where it is here whole. Refusal where there is none by it."""
    found = results.readable(envelope)
    part = asked or next(iter(found), "stdout" if words.is_command(envelope) else "body")
    if found and part not in found:
        raise usage(f"This result has no {part}; it has {' and '.join(found)}.", field="--part")
    body = found.get(part)
    return part, body if body is not None and body["complete"] else None


def told(envelope: Mapping[str, Any], *, as_json: bool) -> int:
    """There is no readable result; its envelope says why."""
    if as_json:
        output.say_json(envelope)
    else:
        for line in words.verdict(envelope):
            output.note(line)
    return exits.of_envelope(envelope)


def unreadable(invocation: str) -> Refusal:
    message = "This action has no complete answer to fetch."
    return Refusal(exits.REFUSED, "no_result", message, remedy=f"affidavit action show {invocation}")


def destination(file: Path) -> Path:
    """The file that is to be, at the end of symbolic links. Refusal for what is there and is no regular file."""
    end = Path(os.path.realpath(file))
    if end.exists() and not end.is_file():
        message = f"{file} is not a regular file, and would be replaced by one."
        raise usage(message, field="-o/--output", remedy="Name another file, or leave -o out for stdout.")
    return end


def store(broker: link.Link, invocation: str, file: Path, body: Mapping[str, Any], part: str) -> int:
    """Bring `file` into being, chunk by chunk; returns its size. Raises results.Damaged where a hash differs."""
    begun = file.with_name(file.name + ".part")
    first = results.fetch(broker, invocation, 0, part)
    head = results.verified(first)
    try:
        descriptor = os.open(begun, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "r+b") as opened:
            have = whole_chunks(opened.read(len(head)), head, os.fstat(descriptor).st_size)
            if not first["last"]:
                opened.seek(have * len(head))
                opened.truncate()
                if have == 0:
                    opened.write(head)
                for data in results.chunks(lambda n: results.fetch(broker, invocation, n, part), max(have, 1)):
                    opened.write(data)
            else:
                opened.seek(0)
                opened.truncate()
                opened.write(head)
            opened.flush()
            os.fsync(descriptor)
            size = opened.tell()
            opened.seek(0)
            whole = hashlib.file_digest(opened, "sha256").hexdigest()
        if whole != results.plain_hex(results.acknowledged_hash(body)):
            begun.unlink()
            raise results.Damaged("The result does not have the hash in its record; the part file was removed.")
        begun.replace(file)
    except OSError as error:
        message = f"{error.filename or begun} cannot be written: {os.strerror(error.errno or 0)}."
        raise Refusal(exits.REFUSED, "file", message, field="-o/--output") from None
    return size


def whole_chunks(begin: bytes, head: bytes, size: int) -> int:
    """How many chunks of a part file can be kept: all that are whole, if it begins as this result does.

    The last chunk on disk may be the result's own last one and is fetched again, so that the end is heard of.
    """
    if not head or begin != head:
        return 0
    whole = size // len(head)
    return whole if size % len(head) else max(whole - 1, 1)
