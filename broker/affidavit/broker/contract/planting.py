"""What the broker puts into a request at the places that its contract names: the idempotency key (R44, R45) and the
ids that both sides' records then share (R63).

The same operation always carries the same bytes; whoever stored its key plants that one again. All of it is planted
before the fingerprint is taken, so the approved request is the one that goes out.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from urllib.parse import parse_qsl, quote

from affidavit.broker.contract.model import Contract, Correlation, IdempotencyTerms, PlaceKind
from affidavit.broker.contract.pointer import CannotPlant, NotJson, find, load_json, plant
from affidavit.broker.limits import Limits
from affidavit.broker.refusal import Refused
from affidavit.broker.target import HttpTarget, parse_http
from affidavit.broker.terms import Code, Micros

KEY_LENGTH = 36
"""Characters of a key that the broker makes: a UUID, which every documented target takes."""

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Planted:
    """A request with what was planted."""

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
            body = _with_field(body, name, key, "idempotency key", limits)
    date = format_datetime(datetime.fromtimestamp(first_asked // 1_000_000, UTC), usegmt=True)
    companions = tuple((companion, date) for companion in terms.companions)
    return Planted((*headers, *companions), target, body)


def carries_key(terms: IdempotencyTerms, key: str, *, headers: Headers, target: HttpTarget, body: bytes) -> bool:
    """Whether `key` stands in a request at the place of these terms, and nothing else does. Names in lower case."""
    match terms.at.kind:
        case PlaceKind.HEADER:
            found = [value for name, value in headers if name == terms.at.name.lower()]
            return found == [_quoted(key) if terms.quoted else key]
        case PlaceKind.QUERY:
            given = parse_qsl(target.query or "", keep_blank_values=True)
            return [value for name, value in given if name == terms.at.name] == [key]
        case _:
            try:
                return bool(find(load_json(body), terms.at.name) == key)
            except NotJson:
                return False


def plant_ids(
    terms: Correlation,
    operation_id: str,
    correlation_id: str | None,
    *,
    headers: Headers,
    body: bytes,
    limits: Limits,
) -> tuple[Headers, bytes]:
    """The headers and body with the ids in place. Refused: as `plant_key`, and INVALID_REQUEST where an agent's own
    header stands in a place of the contract's."""
    planted: list[tuple[str, str]] = []
    if terms.header is not None and correlation_id is not None:
        planted.append((terms.header, correlation_id))
    if terms.operation is not None and terms.operation.kind is PlaceKind.HEADER:
        planted.append((terms.operation.name, operation_id))
    given = {name.lower() for name, _ in headers}
    for name, _ in planted:
        if name.lower() in given:
            message = f"The contract carries an id in {name}; leave the header out and use the field of that id."
            raise Refused(Code.INVALID_REQUEST, f"headers.{name}", message)
    if terms.operation is not None and terms.operation.kind is PlaceKind.POINTER:
        body = _with_field(body, terms.operation.name, operation_id, "operation id", limits)
    return (*headers, *planted), body


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


def _with_field(body: bytes, pointer: str, value: str, what: str, limits: Limits) -> bytes:
    try:
        planted = plant(body, pointer, value)
    except NotJson as bad:
        message = f"The contract puts the {what} into the body at {pointer}, so the body must be JSON."
        raise Refused(Code.INVALID_REQUEST, "body", message) from bad
    except CannotPlant as bad:
        message = f"The {what} has no place in the body: {bad}. Leave that field to Affidavit."
        raise Refused(Code.INVALID_REQUEST, "body", message) from bad
    if len(planted) > limits.body:
        message = f"With its {what} the body is {len(planted)} bytes; the limit is {limits.body}."
        raise Refused(Code.PAYLOAD_LIMIT, "body", message)
    return planted
