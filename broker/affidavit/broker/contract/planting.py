"""The idempotency key of an operation: making one, and putting it where the contract says (R44, R45).

The same operation always carries the same key bytes; whoever stores the key calls `plant_key` again with it. What goes
out is planted before the fingerprint is taken, so the approved request is the one with the key in it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from urllib.parse import parse_qsl, quote

from affidavit.broker.contract.model import Contract, IdempotencyTerms, PlaceKind
from affidavit.broker.contract.pointer import CannotPlant, NotJson, plant
from affidavit.broker.limits import Limits
from affidavit.broker.refusal import Refused
from affidavit.broker.target import HttpTarget, parse_http
from affidavit.broker.terms import Code, Micros

KEY_LENGTH = 36
"""Characters of a key that the broker makes: a UUID, which every documented target takes."""

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Planted:
    """A request with its key in it."""

    headers: Headers
    target: HttpTarget
    body: bytes = field(repr=False)


def make_key(terms: IdempotencyTerms, random_bytes: Callable[[int], bytes]) -> str:
    """A new key: 36 characters, or as many as the target takes (16 at least, by the grammar: 64 random bits)."""
    key = uuid.UUID(bytes=random_bytes(16), version=4)
    return str(key) if terms.max_length >= KEY_LENGTH else key.hex[: terms.max_length]


def check_key(key: str | None, contract: Contract) -> None:
    """Refuse a caller's key where no contract documents one, or one that the target would not take."""
    if key is None:
        return
    if contract.idempotency is None:
        message = "No contract says that this target understands a key. Leave it out, or have a contract adopted."
        raise Refused(Code.NO_IDEMPOTENCY_CONTRACT, "idempotency_key", message)
    if len(key) > contract.idempotency.max_length:
        message = f"The key has {len(key)} characters; this target takes {contract.idempotency.max_length}."
        raise Refused(Code.INVALID_REQUEST, "idempotency_key", message)


def plant_key(
    terms: IdempotencyTerms,
    key: str,
    *,
    headers: Headers,
    target: HttpTarget,
    body: bytes,
    first_asked: Micros,
    limits: Limits,
) -> Planted:
    """The request with `key` and its companions in place.

    `first_asked` is when the operation's first invocation was accepted: companion headers carry it, the same on every
    repeat. Refused: INVALID_REQUEST where the place is taken or there is none, PAYLOAD_LIMIT where it grows too long.
    """
    name = terms.at.name
    match terms.at.kind:
        case PlaceKind.HEADER:
            headers = (*headers, (name, _quoted(key) if terms.quoted else key))
        case PlaceKind.QUERY:
            target = _with_parameter(target, name, key, limits)
        case _:
            body = _with_field(body, name, key, limits)
    date = format_datetime(datetime.fromtimestamp(first_asked // 1_000_000, UTC), usegmt=True)
    companions = tuple((companion, date) for companion in terms.companions)
    return Planted((*headers, *companions), target, body)


def _quoted(key: str) -> str:
    """A structured field's string (RFC 9651, 3.3.3)."""
    escaped = key.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _with_parameter(target: HttpTarget, name: str, key: str, limits: Limits) -> HttpTarget:
    if any(given == name for given, _ in parse_qsl(target.query or "", keep_blank_values=True)):
        message = f"The parameter {name} carries the idempotency key; leave it out and use the field `idempotency_key`."
        raise Refused(Code.INVALID_REQUEST, "url", message)
    joint = "?" if target.query is None else "&" if target.query else ""
    return parse_http(f"{target.url}{joint}{quote(name, safe='')}={quote(key, safe='')}", limits)


def _with_field(body: bytes, pointer: str, key: str, limits: Limits) -> bytes:
    try:
        planted = plant(body, pointer, key)
    except NotJson as bad:
        message = f"The contract puts the idempotency key into the body at {pointer}, so the body must be JSON."
        raise Refused(Code.INVALID_REQUEST, "body", message) from bad
    except CannotPlant as bad:
        message = f"The idempotency key has no place in the body: {bad}. Use the field `idempotency_key`."
        raise Refused(Code.INVALID_REQUEST, "body", message) from bad
    if len(planted) > limits.body:
        message = f"With its idempotency key the body is {len(planted)} bytes; the limit is {limits.body}."
        raise Refused(Code.PAYLOAD_LIMIT, "body", message)
    return planted
