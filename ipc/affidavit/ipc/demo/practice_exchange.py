"""One exchange of the practice service: what arrived, what is done about it, and the effect that a write asks for."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any


class Mode(StrEnum):
    """How a write is answered; the caller chooses it with the body field `practice`."""

    OK = "ok"
    APPLY_THEN_HANG_UP = "apply_then_hang_up"
    """The effect happens; the connection closes without a byte of an answer."""
    APPLY_THEN_CUT = "apply_then_cut"
    """The effect happens; the answer breaks off inside its framed body."""
    APPLY_THEN_500 = "apply_then_500"
    """The effect happens; the answer is a complete 500."""
    SLOW = "slow"
    """The effect happens; the answer comes only after `slow_s` seconds (30 without it)."""
    REFUSE = "refuse"
    """No effect; a complete 422."""


class Did(StrEnum):
    """What an arrival led to."""

    READ = "read"
    APPLIED = "applied"
    REPLAYED = "replayed"
    """Answered from the store of keys: no new effect."""
    DROPPED = "dropped"
    """Answered as a success, and nothing was done."""
    FAILED = "failed"
    """The work broke off before its effect; a repeat may carry it on."""
    REFUSED = "refused"
    INCOMPLETE = "incomplete"
    """The connection ended before the whole request was here: no effect."""


@dataclass(frozen=True, slots=True)
class Request:
    """One whole request as it arrived."""

    method: str
    path: str
    query: Mapping[str, Sequence[str]]
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes
    authorized: bool


@dataclass(frozen=True, slots=True)
class Reply:
    """What the service is about to do. `status` is None where it hangs up instead; `body` is the answer lost by it."""

    did: Did
    status: int | None
    body: Mapping[str, Any] | None
    mode: Mode = Mode.OK
    effect: str | None = None
    """The object that this arrival made."""
    delay_s: float = 0.0
    headers: tuple[tuple[str, str], ...] = ()
    effects: tuple[str, ...] = ()
    """The objects that a batch made, where it made any number of them."""
    hold: threading.Event | None = None
    """Ends the delay early."""

    @property
    def made(self) -> tuple[str, ...]:
        """Every object that this arrival made."""
        return self.effects if self.effect is None else (self.effect, *self.effects)


def problem(status: int, code: str, message: str, *headers: tuple[str, str]) -> Reply:
    return Reply(Did.REFUSED, status, {"error": {"code": code, "message": message}}, headers=headers)


def asked(request: Request) -> dict[str, Any] | Reply:
    """The JSON object that a write's body is, or the refusal."""
    try:
        body = json.loads(request.body)
    except ValueError:
        body = None
    return body if isinstance(body, dict) else problem(400, "invalid_json", "The body must be a JSON object.")


def write(request: Request, rows: list[dict[str, Any]], prefix: str) -> Reply:
    """Make one effect as its body asks, and say how it is to be answered."""
    body = asked(request)
    if isinstance(body, Reply):
        return body
    amount = body.get("amount")
    if not is_amount(amount):
        return problem(422, "invalid_amount", "The field amount must be a whole number above 0.")
    mode = mode_of(body)
    if isinstance(mode, Reply):
        return mode
    row = {"id": f"{prefix}_{len(rows) + 1}", "amount": amount, **named(body), "status": "succeeded"}
    rows.append(row)
    return answered(Reply(Did.APPLIED, 201, row, mode, str(row["id"])), body)


def is_amount(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def named(body: Mapping[str, Any]) -> dict[str, Any]:
    """What a row keeps of the names that its caller gave it."""
    metadata = body.get("metadata")
    return {"reference": body.get("reference"), "metadata": metadata if isinstance(metadata, dict) else {}}


def mode_of(body: Mapping[str, Any]) -> Mode | Reply:
    """How a write asks to be answered, or the refusal: REFUSE asks for one."""
    try:
        mode = Mode(body.get("practice", "ok"))
    except ValueError:
        return problem(422, "invalid_mode", f"The field practice must be one of {', '.join(Mode)}.")
    if mode is Mode.REFUSE:
        return replace(problem(422, "refused", "Refused, as the request asked."), mode=mode)
    return mode


def answered(reply: Reply, body: Mapping[str, Any]) -> Reply:
    """A reply to a write that was done, given as its mode says."""
    match reply.mode:
        case Mode.APPLY_THEN_HANG_UP:
            return replace(reply, status=None)
        case Mode.APPLY_THEN_500:
            failure = {"error": {"code": "internal", "message": "Something broke after the effect."}}
            return replace(reply, status=500, body=failure)
        case Mode.SLOW:
            slow_s = body.get("slow_s", 30)
            delay_s = float(slow_s) if isinstance(slow_s, int | float) and 0 <= slow_s <= 3600 else 30.0
            return replace(reply, delay_s=delay_s)
        case _:
            return reply


def listed(rows: Sequence[Mapping[str, Any]], query: Mapping[str, Sequence[str]]) -> list[Mapping[str, Any]]:
    """All rows, or those that one of the query's `ref` values names: by operation id, reference or id."""
    wanted = {*query.get("ref", ()), *query.get("reference", ())}
    if not wanted:
        return list(rows)
    return [row for row in rows if wanted & {row["id"], row["reference"], row["metadata"].get("op")}]
