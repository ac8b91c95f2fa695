"""The params of `http.request`, checked: from a raw mapping to a frozen `HttpAsk` (R8, R9).

Everything that can be judged from the params alone is judged here, in this order: shape (known params, types, ids,
ranges, the body, header syntax and reserved names), form of the target, sizes. What needs a contract or a credential
are functions of their own, which the engine calls at that step (interface, Order of checks).

A param that is null counts as absent.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

import rfc8785

from affidavit.broker import shape
from affidavit.broker.address import check_form
from affidavit.broker.contract.model import METHODS, NEVER_METHODS, Contract, HttpMatch, is_reserved_header
from affidavit.broker.limits import Limits
from affidavit.broker.refusal import Refused
from affidavit.broker.target import HttpTarget, parse_http
from affidavit.broker.terms import Code

_SINGLE_HEADERS = frozenset({"content-encoding", "content-type", "if-range", "range", "user-agent"})
"""Agents' headers that have one value; two of them would let each reader choose its own."""

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_FIELD_VALUE = re.compile(r"[\t\x20-\x7e]*")


class BodyGiven(StrEnum):
    """By which param the body came."""

    NONE = "none"
    TEXT = "body"
    BASE64 = "body_base64"
    JSON = "json"


class Header(NamedTuple):
    """One agent header. `name` is in lower case; `shown` as the agent wrote it, which is what goes out."""

    name: str
    shown: str
    value: str


@dataclass(frozen=True, slots=True)
class HttpAsk:
    """What an agent asks for, checked as far as the params go."""

    method: str
    target: HttpTarget
    headers: tuple[Header, ...]
    body: bytes = field(repr=False)
    body_given: BodyGiven
    credential: str | None = field(repr=False)
    """As named, which may be a secret that was put in the wrong place: it is not echoed (R9)."""
    operation_id: str | None
    correlation_id: str | None
    idempotency_key: str | None
    deadline_s: float | None
    """None: the contract's, else the default."""
    wait_s: float
    reason: str | None
    read_for: str | None
    """`refresh` or `decides_write` (R66)."""
    acknowledge_unresolved: str | None
    """The invocation whose unknown outcome the agent knows of."""

    def header(self, name: str) -> str | None:
        """The value of a header by its lower-case name; repeats joined (RFC 9110, 5.2)."""
        values = [header.value for header in self.headers if header.name == name]
        return ", ".join(values) if values else None

    @property
    def header_pairs(self) -> tuple[tuple[str, str], ...]:
        """Lower-case names and values, in order: as fingerprints and contract matches take them."""
        return tuple((header.name, header.value) for header in self.headers)


_PARAMS = frozenset(
    {
        "method",
        "url",
        "headers",
        "body",
        "body_base64",
        "json",
        "credential",
        "operation_id",
        "correlation_id",
        "idempotency_key",
        "deadline_s",
        "wait_s",
        "reason",
        "read_for",
        "acknowledge_unresolved",
    }
)


def parse_http_request(params: Mapping[str, Any], limits: Limits) -> HttpAsk:
    """Check the raw params of `http.request`. The first check that fails raises Refused."""
    given = shape.given(params, _PARAMS, ("method", "url"))
    method = _method(given)
    url = _url(given)
    body, body_given = _body(given)
    headers = _headers(given.get("headers", {}))
    if body_given is BodyGiven.JSON and not any(header.name == "content-type" for header in headers):
        headers = (*headers, Header("content-type", "Content-Type", "application/json"))
    ask_of_text = {name: shape.formed(given, name) for name in shape.TEXT_FORMS}
    credential = shape.credential(given)
    deadline_s = shape.seconds(given, "deadline_s", limits.deadline_min_s, limits.deadline_max_s)
    wait_s = shape.seconds(given, "wait_s", 0, limits.wait_max_s)
    reason = shape.text(given, "reason")
    ask = HttpAsk(
        method=method,
        target=_target(url, limits),
        headers=headers,
        body=body,
        body_given=body_given,
        credential=credential,
        deadline_s=deadline_s,
        wait_s=limits.wait_s if wait_s is None else wait_s,
        reason=reason,
        **ask_of_text,
    )
    _check_sizes(ask, limits)
    return ask


def check_method(ask: HttpAsk, contract: Contract) -> None:
    """An unusual method goes out only if the contract names it: UNSUPPORTED_ACTION."""
    if ask.method in METHODS:
        return
    match = contract.match
    if not isinstance(match, HttpMatch) or not match.names_method(ask.method):
        raise Refused(
            Code.UNSUPPORTED_ACTION,
            "method",
            f"No contract names the method {ask.method} for this target; without one these go out: "
            + ", ".join(METHODS)
            + ".",
        )


def check_headers(ask: HttpAsk, injected: Collection[str], key_header: str | None) -> None:
    """Headers that this credential or this contract sets are not the agent's: HEADER_FORBIDDEN.

    `injected` and `key_header` are names in any case.
    """
    by = {name.lower(): "the credential" for name in injected}
    if key_header is not None:
        by[key_header.lower()] = "the contract, from the field `idempotency_key`"
    for header in ask.headers:
        if header.name in by:
            raise _forbidden(header.shown, f"Affidavit sets {header.shown} itself, by {by[header.name]}; leave it out.")


def _target(url: str, limits: Limits) -> HttpTarget:
    target = parse_http(url, limits)
    check_form(target)
    return target


def _method(given: Mapping[str, Any]) -> str:
    method = shape.text(given, "method")
    if not method:
        raise shape.invalid("method", "The method is empty.")
    if method in NEVER_METHODS or not _TOKEN.fullmatch(method) or method != method.upper():
        raise Refused(
            Code.UNSUPPORTED_ACTION,
            "method",
            "This method is not supported; write one of these, in capitals: " + ", ".join(METHODS) + ".",
        )
    return method


def _body(given: Mapping[str, Any]) -> tuple[bytes, BodyGiven]:
    way = shape.only_one(given, (BodyGiven.TEXT, BodyGiven.BASE64, BodyGiven.JSON))
    match way:
        case None:
            return b"", BodyGiven.NONE
        case BodyGiven.JSON:
            return _canonical(given["json"]), BodyGiven.JSON
        case BodyGiven.TEXT:
            return (shape.text(given, "body") or "").encode(), BodyGiven.TEXT
        case _:
            return shape.from_base64(given, "body_base64"), BodyGiven.BASE64


def _canonical(value: Any) -> bytes:
    try:
        return rfc8785.dumps(value)
    except (ValueError, RecursionError) as bad:  # every fault of `rfc8785` is a ValueError
        path, says = _json_fault(value)
        raise shape.invalid(path, says) from bad


_MAX_SAFE = 2**53 - 1
_MAX_DEPTH = 128


def _json_fault(value: Any) -> tuple[str, str]:
    """The first place in a JSON value that RFC 8785 cannot carry, and what to do about it."""
    waiting = [("json", value, 0)]
    while waiting:
        path, item, depth = waiting.pop()
        if depth > _MAX_DEPTH:
            return "json", f"The JSON is nested deeper than {_MAX_DEPTH} levels; send it as `body`."
        if isinstance(item, float) and not math.isfinite(item):
            return path, "JSON has no NaN and no infinity."
        if isinstance(item, int) and abs(item) > _MAX_SAFE:
            return path, "A whole number beyond 2^53-1 is not exact in JSON; send it as text, or the whole as `body`."
        if isinstance(item, str) and shape.lone_surrogate(item):
            return path, "The text holds half of a surrogate pair."
        if isinstance(item, Mapping):
            if any(map(shape.lone_surrogate, item)):
                return path, "A name holds half of a surrogate pair."
            waiting += [(f"{path}.{shape.cut(name)}", inner, depth + 1) for name, inner in reversed(list(item.items()))]
        elif isinstance(item, list):
            waiting += [(f"{path}[{at}]", inner, depth + 1) for at, inner in reversed(list(enumerate(item)))]
    return "json", "This value cannot be written as canonical JSON (RFC 8785); send it as `body`."


def _headers(given: Any) -> tuple[Header, ...]:
    pairs: Iterable[Any]
    if isinstance(given, Mapping):
        pairs = given.items()
    elif isinstance(given, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in given):
        pairs = given
    else:
        raise shape.invalid("headers", "Headers must be an object, or a list of pairs [name, value].")
    headers: list[Header] = []
    seen: set[str] = set()
    for name, value in pairs:
        header = _header(name, value)
        if header.name in seen and (isinstance(given, Mapping) or header.name in _SINGLE_HEADERS):
            raise shape.invalid(_header_path(header.shown), "This header is given twice; keep one.")
        seen.add(header.name)
        headers.append(header)
    return tuple(headers)


def _header(name: Any, value: Any) -> Header:
    if not isinstance(name, str) or not name:
        raise shape.invalid("headers", "A header's name must be a text that is not empty.")
    if not isinstance(value, str):
        raise shape.invalid(_header_path(name), "A header's value must be a text.")
    if any(mark in name or mark in value for mark in "\r\n\0"):
        raise _forbidden(name, "A header must not hold a line break or NUL.")
    if not _TOKEN.fullmatch(name):
        raise shape.invalid(_header_path(name), "This is not a header name (RFC 9110, 5.1).")
    if is_reserved_header(name):
        raise _forbidden(name, f"The agent set {name}; Affidavit sets it. Leave it out.")
    value = value.strip(" \t")
    if not _FIELD_VALUE.fullmatch(value):
        raise shape.invalid(_header_path(name), "A header's value must be printable ASCII.")
    return Header(name.lower(), name, value)


def _url(given: Mapping[str, Any]) -> str:
    """The URL as given; what is wrong in it is for `target` to say."""
    value = given["url"]
    if not isinstance(value, str):
        raise shape.invalid("url", "The field `url` must be a text.")
    return value


def _check_sizes(ask: HttpAsk, limits: Limits) -> None:
    if len(ask.body) > limits.body:
        raise _over(ask.body_given, f"The body is {len(ask.body)} bytes; the limit is {limits.body}.")
    head = len(f"{ask.method}  HTTP/1.1\r\nHost: {ask.target.authority}\r\n\r\n") + len(ask.target.origin_form)
    head += sum(len(header.shown) + len(header.value) + 4 for header in ask.headers)
    if head > limits.request_head:
        raise _over("headers", f"The request head is {head} bytes; the limit is {limits.request_head}.")
    if ask.reason is not None and len(ask.reason) > limits.reason_chars:
        raise _over("reason", f"The reason is {len(ask.reason)} characters; the limit is {limits.reason_chars}.")


def _header_path(name: str) -> str:
    return f"headers.{shape.cut(name)}"


def _forbidden(name: str, message: str) -> Refused:
    return Refused(Code.HEADER_FORBIDDEN, _header_path(name), message)


def _over(path: str, message: str) -> Refused:
    return Refused(Code.PAYLOAD_LIMIT, path, message)
