"""Results on their way out: inline or in chunks, verified, flushed, and only then acknowledged."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from affidavit.ipc.cli import exits, link, output, words
from affidavit.ipc.cli.refusal import Refusal
from affidavit.ipc.client import ActionFailed
from affidavit.ipc.verdict import facts

OUTPUTS = ("stdout", "stderr")
"""The parts of a command's result."""


class Damaged(Exception):
    """What arrived does not have the hash that was promised."""


def readable(envelope: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """The parts of the answer that settled the action, whole or cut, by name; empty where there is none to read."""
    return {part: body for part, body in _recorded(envelope).items() if not body.get("withheld")}


def withheld(envelope: Mapping[str, Any]) -> bool:
    """The answer that settled the action does not decode, and may hold a credential in a form that was not found: no
    agent gets it."""
    return any(body.get("withheld") for body in _recorded(envelope).values())


def _recorded(envelope: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    if facts(envelope)["outcome"] not in ("committed", "rejected"):
        return {}
    found = {"body": (envelope.get("http") or {}).get("body")}
    found |= {part: (envelope.get("ssh") or {}).get(part) for part in OUTPUTS}
    return {part: body for part, body in found.items() if body is not None}


def acknowledged_hash(body: Mapping[str, Any]) -> str:
    """The hash of what the caller gets, which is decoded and redacted; the original's where the two are one."""
    return str(body["delivered_sha256"] or body["sha256"])


def deliver(
    broker: link.Link,
    envelope: Mapping[str, Any],
    body: Mapping[str, Any],
    status: int,
    part: str = "body",
    *,
    printed: bool,
) -> int:
    """Print the part (unless `printed` with its envelope), flush, acknowledge. Returns the exit status."""
    invocation = str(envelope["invocation_id"])
    try:
        if not printed:
            for data in parts(broker, invocation, body, part):
                output.write_bytes(data)
        output.flush()
    except Damaged as damage:
        output.note(f"{damage} It is not acknowledged. Next: {words.fetching(invocation, part)}")
        return exits.IN_DELIVERY
    except BrokenPipeError:
        output.reader_gone()
        step = words.fetching(invocation, part)
        output.note(f"The output was not read to its end; it is not acknowledged. Next: {step}")
        return exits.IN_DELIVERY
    acknowledge(broker, invocation, acknowledged_hash(body), part)
    return status


def acknowledge(broker: link.Link, invocation: str, sha256: str, part: str = "body") -> None:
    """Say that all of it arrived. Where that cannot be said the result stays fetchable; nothing else changes."""
    try:
        broker.call("result.ack", {"invocation_id": invocation, "sha256": sha256, **_named(part)})
    except (Refusal, ActionFailed):
        output.note(f"The result was printed but could not be acknowledged; it stays fetchable: {invocation}")


def parts(broker: link.Link, invocation: str, body: Mapping[str, Any], part: str = "body") -> Iterator[bytes]:
    """The bytes of one part: from the envelope, or chunk by chunk, each verified and the whole at the end."""
    whole = hashlib.sha256()
    for data in _inline(body) if body["inline"] else chunks(lambda n: fetch(broker, invocation, n, part)):
        whole.update(data)
        yield data
    if body["truncated_at"] is None and plain_hex(whole.hexdigest()) != plain_hex(acknowledged_hash(body)):
        raise Damaged("The result does not have the hash in its record.")


def _inline(body: Mapping[str, Any]) -> Iterator[bytes]:
    if body.get("text") is not None:
        yield str(body["text"]).encode()
    elif body.get("base64") is not None:
        yield base64.b64decode(body["base64"])


def chunks(get: Callable[[int], Mapping[str, Any]], first: int = 0) -> Iterator[bytes]:
    """Chunks from number `first` to the last. `get` fetches one."""
    number = first
    while True:
        answer = get(number)
        yield verified(answer)
        if answer["last"]:
            return
        number += 1


def fetch(broker: link.Link, invocation: str, chunk: int, part: str = "body") -> Mapping[str, Any]:
    return broker.call("result.fetch", {"invocation_id": invocation, "chunk": chunk, "part": part})


def _named(part: str) -> dict[str, str]:
    return {} if part == "body" else {"part": part}


def verified(answer: Mapping[str, Any]) -> bytes:
    """The bytes of one fetched chunk, which has the hash it came with."""
    data = base64.b64decode(answer["base64"])
    if hashlib.sha256(data).hexdigest() != plain_hex(answer["sha256"]):
        raise Damaged(f"Chunk {answer['chunk']} does not have the hash it came with.")
    return data


def plain_hex(digest: str) -> str:
    return digest.removeprefix("sha256:").lower()
