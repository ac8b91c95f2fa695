"""The grammar of contract files as data: every key, its type, its default, and for whom it is (`docs/contracts.md`).

`read` walks parsed TOML along the table and notes every fault with its path; what it returns is meant only if none was
noted. Contradictions between keys are `check`'s business.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from difflib import get_close_matches
from typing import Any

from affidavit.broker.contract.lines import Path
from affidavit.broker.contract.model import (
    METHODS,
    NEVER_METHODS,
    PATH,
    PLACEHOLDER,
    RESULT_NAME,
    Completion,
    CompletionKind,
    Idempotent,
    Place,
    PlaceKind,
    RetryAfter,
    Sign,
    Template,
)
from affidavit.broker.contract.pattern import BadPattern, CommandPattern, UrlPattern
from affidavit.broker.contract.pointer import is_pointer
from affidavit.broker.limits import GIB, KIB, MIB, Limits
from affidavit.broker.refusal import Refused
from affidavit.broker.target import is_hidden, parse_http
from affidavit.broker.terms import ApprovalMode, Effect, Outcome, Retry

HTTP, SSH = "http", "ssh"


class Wrong(ValueError):
    """A value is not of its type; the text is the rest of a sentence that began with the key."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value without keys of its own. `says` names the type; `take` returns the typed value or raises Wrong."""

    says: str
    take: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class ListOf:
    item: Type
    least: int = 1


@dataclass(frozen=True, slots=True)
class TableOf:
    keys: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class MapOf:
    """A table whose keys the author chooses."""

    value: Leaf


@dataclass(frozen=True, slots=True)
class Either:
    """A leaf, or a table."""

    leaf: Leaf
    table: TableOf


Type = Leaf | ListOf | TableOf | MapOf | Either


@dataclass(frozen=True, slots=True)
class Key:
    """One row of the grammar. A key that is not needed and not there is `default`."""

    name: str
    type: Type
    needed: bool = False
    default: Any = None
    kind: str | None = None
    """`http` or `ssh`: needed and allowed only there; None: anywhere."""
    effect: Effect | None = None


@dataclass(frozen=True, slots=True)
class Fault:
    """Something wrong with the file: at which key, what, and what to do."""

    path: Path
    message: str
    fix: str


@dataclass(frozen=True, slots=True)
class _Reading:
    """What decides which keys are allowed; None where the file does not say it well."""

    kind: str | None
    effect: str | None
    faults: list[Fault]


def read(content: Mapping[str, Any]) -> tuple[dict[str, Any], tuple[Fault, ...]]:
    """The typed values of a file, by key, and every fault found on the way."""
    reading = _Reading(_word_at(content, "match", "kind"), _word_at(content, "effect", "kind"), [])
    values = _table(GRAMMAR, content, (), reading)
    return values, tuple(reading.faults)


def _word_at(content: Mapping[str, Any], section: str, key: str) -> str | None:
    table = content.get(section)
    word = table.get(key) if isinstance(table, Mapping) else None
    return word if isinstance(word, str) else None


def _read(kind: Type, value: Any, path: Path, reading: _Reading) -> Any:
    match kind:
        case Leaf():
            return _leaf(kind, value, path, reading)
        case ListOf():
            return _list(kind, value, path, reading)
        case TableOf():
            return _table(kind, value, path, reading)
        case MapOf():
            return _map(kind, value, path, reading)
        case Either():
            inner = kind.table if isinstance(value, Mapping) else kind.leaf
            return _read(inner, value, path, reading)


def _leaf(kind: Leaf, value: Any, path: Path, reading: _Reading) -> Any:
    try:
        return kind.take(value)
    except Wrong as wrong:
        reading.faults.append(Fault(path, str(wrong), f"Write {kind.says}."))
        return None


def _list(kind: ListOf, value: Any, path: Path, reading: _Reading) -> tuple[Any, ...]:
    if not isinstance(value, list):
        reading.faults.append(Fault(path, "is not a list", "Put the value in brackets: [ ... ]."))
        return ()
    if len(value) < kind.least:
        reading.faults.append(Fault(path, "is an empty list", "Name at least one, or leave the key out."))
    return tuple(_read(kind.item, item, (*path, at), reading) for at, item in enumerate(value))


def _map(kind: MapOf, value: Any, path: Path, reading: _Reading) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not value:
        reading.faults.append(Fault(path, "is not a table with entries", f'Write {{ "name" = {kind.value.says} }}.'))
        return {}
    return {name: _leaf(kind.value, inner, (*path, name), reading) for name, inner in value.items()}


def _table(kind: TableOf, value: Any, path: Path, reading: _Reading) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        reading.faults.append(Fault(path, "is not a table", "Write it as a table with the keys that it has."))
        return {}
    known = {key.name: key for key in kind.keys}
    for name in value:
        if name not in known:
            reading.faults.append(Fault((*path, name), "is not a key here", _did_you_mean(name, kind, reading)))
    values: dict[str, Any] = {}
    for key in kind.keys:
        here = (*path, key.name)
        not_for = _allowed(key, reading)
        if key.name not in value:
            values[key.name] = key.default
            if key.needed and not_for is None and key.kind in (None, reading.kind):
                reading.faults.append(Fault(here, "is missing", f"Add `{key.name}`."))
        elif not_for is not None:
            reading.faults.append(Fault(here, f"is not for {not_for}", "Leave it out."))
        else:
            values[key.name] = _read(key.type, value[key.name], here, reading)
    return values


def _allowed(key: Key, reading: _Reading) -> str | None:
    """None if the key may be used here, else for whom it is not."""
    if key.kind is not None and reading.kind in (HTTP, SSH) and key.kind != reading.kind:
        return f"kind {reading.kind}"
    if key.effect is not None and reading.effect in set(Effect) and key.effect != reading.effect:
        return f"a {reading.effect}"
    return None


def _did_you_mean(name: str, table: TableOf, reading: _Reading) -> str:
    if near := get_close_matches(name, [key.name for key in table.keys], n=1):
        return f"Did you mean `{near[0]}`?"
    return "The keys here are: " + ", ".join(key.name for key in table.keys if _allowed(key, reading) is None) + "."


# Types


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise Wrong("is not a text")
    return value


def text(most: int) -> Leaf:
    def take(value: Any) -> str:
        line = _text(value)
        if not line.strip() or len(line) > most:
            raise Wrong(f"must have 1 to {most} characters")
        if any(is_hidden(character) for character in line if character != " "):
            raise Wrong("holds a character that cannot be seen")
        return line

    return Leaf(f"one line of text, at most {most} characters", take)


def word(*words: str, enum: Callable[[str], Any] = str) -> Leaf:
    says = " or ".join(f'"{each}"' for each in words)

    def take(value: Any) -> Any:
        if value not in words or not isinstance(value, str):
            raise Wrong(f"is not {says}")
        return enum(value)

    return Leaf(says, take)


def whole(least: int, most: int) -> Leaf:
    def take(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise Wrong(f"is not a whole number from {least} to {most}")
        return value

    return Leaf(f"a whole number from {least} to {most}", take)


_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"([0-9]{1,9})(ms|s|m|h|d)")


def duration(least: str, most: str) -> Leaf:
    def take(value: Any) -> float:
        seconds = _duration(_text(value))
        if not _duration(least) <= seconds <= _duration(most):
            raise Wrong(f'is not from "{least}" to "{most}"')
        return seconds

    return Leaf(f'a duration from "{least}" to "{most}", such as "{least}"', take)


def _duration(written: str) -> float:
    match = _DURATION.fullmatch(written)
    if match is None:
        raise Wrong('is not a duration such as "30s" or "24h"')
    return int(match[1]) * _UNITS_S[match[2]]


_UNITS = {"B": 1, "KiB": KIB, "MiB": MIB, "GiB": GIB}
_SIZE = re.compile(r"([0-9]{1,12})(B|KiB|MiB|GiB)")


def _size(value: Any) -> int:
    match = _SIZE.fullmatch(_text(value))
    if match is None:
        raise Wrong('is not a size such as "64KiB" or "1MiB"')
    size = int(match[1]) * _UNITS[match[2]]
    if size > Limits().result:
        raise Wrong("is more than any result that is kept (2GiB)")
    return size


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Wrong("is neither true nor false")
    return value


def _date(value: Any) -> date:
    if not isinstance(value, date) or isinstance(value, datetime):
        raise Wrong("is not a date")
    return value


_NAME = re.compile(r"[a-z0-9]+(?:[._-][a-z0-9]+)*")


def _id(value: Any) -> str:
    name = _text(value)
    if not _NAME.fullmatch(name) or len(name) > 128:
        raise Wrong("is not a contract's id")
    if name.split(".")[0] == "default":
        raise Wrong("begins with `default`, which is kept for what no contract covers")
    return name


_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")


def _header(value: Any) -> str:
    name = _text(value)
    if not _TOKEN.fullmatch(name):
        raise Wrong("is not a header's name")
    return name


def _pointer(value: Any) -> str:
    pointer = _text(value)
    if not is_pointer(pointer):
        raise Wrong("is not a JSON pointer (RFC 6901)")
    return pointer


def _inner_pointer(value: Any) -> Place:
    pointer = _pointer(value)
    if not pointer:
        raise Wrong("names the whole document; a key needs a field")
    return Place(PlaceKind.POINTER, pointer)


_ENV = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]{0,127})")


def _header_place(value: Any) -> Place:
    scheme, colon, name = _text(value).partition(":")
    if scheme != "header" or not colon or not _TOKEN.fullmatch(name):
        raise Wrong("is not `header:` and a header's name")
    return Place(PlaceKind.HEADER, name)


def _header_or_pointer(value: Any) -> Place:
    if _text(value).startswith("header:"):
        return _header_place(value)
    return Place(PlaceKind.POINTER, _pointer(value))


_ARG = re.compile(r"arg:(--?[A-Za-z0-9][A-Za-z0-9-]{0,63}=?)")


def _operation_place(value: Any) -> Place:
    if env := _ENV.fullmatch(_text(value)):
        return Place(PlaceKind.ENV, env[1])
    if arg := _ARG.fullmatch(_text(value)):
        return Place(PlaceKind.ARG, arg[1])
    place = _header_or_pointer(value)
    if not place.name:
        raise Wrong("names the whole document; an id needs a field")
    return place


def _scalar(value: Any) -> Any:
    if isinstance(value, bool | str):
        return value
    if isinstance(value, int) and abs(value) < 2**53:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise Wrong("is not a text, a number within 2^53, true or false")


def _method(value: Any) -> str:
    method = _text(value)
    if not _TOKEN.fullmatch(method) or method != method.upper() or method in NEVER_METHODS:
        raise Wrong("is not a method that can be sent")
    return method


def _url_pattern(value: Any) -> UrlPattern:
    try:
        return UrlPattern.parse(_text(value))
    except BadPattern as bad:
        raise Wrong(f"is not a URL pattern: {bad}") from bad


def _host_pattern(value: Any) -> str:
    host = _text(value)
    try:
        CommandPattern.parse(host, "*")
    except BadPattern as bad:
        raise Wrong(f"is not a host: {bad}") from bad
    return host


def _command_pattern(value: Any) -> str:
    command = _text(value)
    try:
        CommandPattern.parse("*", command)
    except BadPattern as bad:
        raise Wrong(f"is not a command: {bad}") from bad
    return command


def _idempotent(value: Any) -> Idempotent:
    if isinstance(value, bool):
        return Idempotent.YES if value else Idempotent.NO
    if value in ("name", "if-match", "if-none-match"):
        return Idempotent(value)
    raise Wrong("says neither that a repeat is safe nor by what")


def _completion(value: Any) -> Completion:
    name = _text(value)
    if name.startswith("header:"):
        return Completion(CompletionKind.HEADER, _header_place(name).name)
    if name in ("body", "close", "exit_status", "marker"):
        return Completion(CompletionKind(name))
    raise Wrong("is not a way in which an answer ends")


MAX_MARKER = 500


def _marker(value: Any) -> Template:
    line = text(MAX_MARKER).take(value)
    template = _template(line)
    if "operation_id" not in template.names:
        raise Wrong("does not hold {operation_id}, so that the line of another run would do")
    if set(template.names) != {"operation_id"}:
        raise Wrong("holds a placeholder other than {operation_id}")
    return template


def _retry_after(value: Any) -> RetryAfter:
    place, semicolon, unit = _text(value).partition(";")
    if semicolon and unit != "epoch":
        raise Wrong("has a unit other than `epoch`")
    return RetryAfter(_header_place(place).name, bool(semicolon))


_PLAIN_PLACEHOLDERS = ("operation_id", "idempotency_key", "correlation_id")
_PATH = re.compile(PATH + r"(?::[1-9][0-9]?)?")
MAX_TEMPLATE = 8 * KIB


def _template(value: Any, allowed: Callable[[str], bool] = lambda _: False) -> Template:
    """`allowed`: placeholders that may stand here beside those that may stand in any template."""
    written = _text(value)
    if not written or len(written.encode("utf-8", "surrogatepass")) > MAX_TEMPLATE:
        raise Wrong(f"must have 1 to {MAX_TEMPLATE} bytes")
    names = tuple(PLACEHOLDER.findall(written))
    for name in names:
        if name not in _PLAIN_PLACEHOLDERS and not _is_result(name) and not allowed(name):
            raise Wrong(f"holds the unknown placeholder {{{name}}}")
    return Template(written, names)


def _is_result(name: str) -> bool:
    pointer = name.removeprefix(RESULT_NAME)
    return pointer not in ("", name) and is_pointer(pointer)


def _is_path(name: str) -> bool:
    return _PATH.fullmatch(name) is not None


def _url_template(value: Any) -> Template:
    if _text(value).startswith("/"):
        return _own_url_template(value)
    template = _template(value)
    if "{" in template.text.partition("://")[2].partition("/")[0].partition("?")[0]:
        raise Wrong("has a placeholder in its host or port, which must be written out")
    return _checked_url(template, template.text)


def _own_url_template(value: Any) -> Template:
    """A URL at the action's own origin: its path and query. Only there may a part of the action's path go."""
    template = _template(value, _is_path)
    if not template.is_own or template.text.startswith("//"):
        raise Wrong("does not begin with one slash")
    if f"{{{PATH}}}" in template.text.partition("?")[2]:
        raise Wrong("has the whole path in its query, where one segment may stand: {path:1}")
    return _checked_url(template, f"https://origin{template.text}")


def _checked_url(template: Template, url: str) -> Template:
    try:
        parse_http(PLACEHOLDER.sub("x", url), Limits())
    except Refused as refused:
        raise Wrong(f"is not a URL: {refused.message}") from refused
    return template


def _job_url(value: Any) -> Template:
    template = _own_url_template(value)
    if not any(map(_is_result, template.names)):
        raise Wrong("names nothing of the answer")
    for name in template.names:
        if not _is_result(name) and not _is_path(name):
            raise Wrong(f"holds {{{name}}}, which is not of the answer or of the action's path")
    return template


def _command_template(value: Any) -> Template:
    template = _template(value)
    if "\0" in template.text:
        raise Wrong("holds a NUL")
    return template


def _scalar_or_template(value: Any) -> Any:
    scalar = _scalar(value)
    if not isinstance(scalar, str) or not scalar:
        return scalar
    template = _template(scalar)
    return template if template.names else scalar


BOOLEAN = Leaf("true or false", _boolean)
DATE = Leaf("a date without quotes, such as 2026-11-30", _date)
SIZE = Leaf('a size, such as "1MiB"', _size)
ID = Leaf('lower-case words and digits joined by . _ or -, such as "example.payments.create"', _id)
HEADER = Leaf('a header\'s name, such as "Idempotency-Key"', _header)
HEADER_PLACE = Leaf('"header:NAME"', _header_place)
POINTER = Leaf('a JSON pointer, such as "/status", or "" for the whole document', _pointer)
INNER_POINTER = Leaf('a JSON pointer to a field, such as "/idempotency_key"', _inner_pointer)
HEADER_OR_POINTER = Leaf('a JSON pointer or "header:NAME"', _header_or_pointer)
OPERATION_PLACE = Leaf(
    'a JSON pointer to a field, "header:NAME" or, for ssh, "env:NAME" or "arg:--NAME"', _operation_place
)
SCALAR = Leaf("a text, a number, true or false", _scalar)
STATUS = whole(200, 599)
REFUSING_STATUS = whole(400, 599)
METHOD = Leaf("a method in capitals, such as " + ", ".join(METHODS), _method)
URL_PATTERN = Leaf('a pattern, such as "https://api.example.com/v1/*"', _url_pattern)
HOST_PATTERN = Leaf("the name of a host entry", _host_pattern)
COMMAND_PATTERN = Leaf("a command, in which * is any text", _command_pattern)
IDEMPOTENT = Leaf('true, false, "name", "if-match" or "if-none-match"', _idempotent)
COMPLETION = Leaf('"body", "close" or "header:NAME"; for ssh "exit_status" or "marker"', _completion)
MARKER = Leaf('one line with {operation_id}, such as "released {operation_id}"', _marker)
RETRY_AFTER = Leaf('"header:NAME" or "header:NAME;epoch"', _retry_after)
TEMPLATE = Leaf("text with {operation_id}, {idempotency_key}, {correlation_id} or {result:/pointer}", _template)
URL_TEMPLATE = Leaf(
    'a URL, such as "https://api.example.com/v1/payments?ref={operation_id}", or, at the action\'s own origin, a path, '
    'such as "/{path}/{operation_id}"',
    _url_template,
)
JOB_URL = Leaf('a path at the action\'s own origin, such as "/v1/jobs/{result:/id}"', _job_url)
COMMAND_TEMPLATE = Leaf("a command, such as 'releasectl status {operation_id}'", _command_template)
SCALAR_OR_TEMPLATE = Leaf("a text, which may hold a placeholder, a number, true or false", _scalar_or_template)

# The table

_SIGN = TableOf(
    (
        Key("status", STATUS, needed=True),
        Key("pointer", POINTER),
        Key("header", HEADER),
        Key("equals", SCALAR),
    )
)
_SCALARS = ListOf(SCALAR)
_READ, _WRITE = Effect.READ, Effect.WRITE

GRAMMAR = TableOf(
    (
        Key("id", ID, needed=True),
        Key("title", text(120)),
        Key("source", text(500)),
        Key("checked", DATE),
        Key(
            "match",
            TableOf(
                (
                    Key("kind", word(HTTP, SSH), needed=True),
                    Key("method", ListOf(METHOD), kind=HTTP),
                    Key("url", URL_PATTERN, needed=True, kind=HTTP),
                    Key(
                        "where",
                        ListOf(
                            TableOf(
                                (
                                    Key("pointer", POINTER),
                                    Key("query", text(120)),
                                    Key("header", HEADER),
                                    Key("equals", SCALAR, needed=True),
                                )
                            )
                        ),
                        default=(),
                        kind=HTTP,
                    ),
                    Key("private", BOOLEAN, default=False, kind=HTTP),
                    Key("host", HOST_PATTERN, needed=True, kind=SSH),
                    Key("command", COMMAND_PATTERN, needed=True, kind=SSH),
                )
            ),
            needed=True,
        ),
        Key(
            "effect",
            TableOf(
                (
                    Key("kind", word(*Effect, enum=Effect), needed=True),
                    Key("idempotent", IDEMPOTENT),
                    Key("completion", COMPLETION),
                    Key("marker", MARKER, kind=SSH),
                )
            ),
            needed=True,
        ),
        Key("correlation", TableOf((Key("header", HEADER, kind=HTTP), Key("operation", OPERATION_PLACE)))),
        Key(
            "read",
            TableOf(
                (
                    Key("purpose", word("refresh", "decides_write")),
                    Key(
                        "consistency",
                        Either(HEADER_OR_POINTER, TableOf((Key("eventual", duration("1s", "1d"), needed=True),))),
                    ),
                )
            ),
            effect=_READ,
        ),
        Key(
            "idempotency",
            TableOf(
                (
                    Key("header", HEADER),
                    Key("body_field", INNER_POINTER),
                    Key("query", text(120)),
                    Key("quoted", BOOLEAN, default=False),
                    Key("max_length", whole(16, 255), default=255),
                    Key("scope", word("endpoint", "account", "host", "named"), default="endpoint"),
                    Key("retention", duration("1m", "400d")),
                    Key("mismatch", word("rejected", "ignored"), default="ignored"),
                    Key("replays_errors", BOOLEAN, default=False),
                    Key("companions", ListOf(HEADER_PLACE), default=()),
                    Key("in_use", ListOf(_SIGN), default=()),
                )
            ),
            kind=HTTP,
            effect=_WRITE,
        ),
        Key(
            "verdict",
            TableOf(
                (
                    Key("refused", ListOf(REFUSING_STATUS, least=0), default=(), kind=HTTP),
                    Key("applied", ListOf(Either(STATUS, _SIGN), least=0), default=(), kind=HTTP),
                    Key("rate_limited", ListOf(_SIGN, least=0), default=(), kind=HTTP),
                    Key(
                        "body",
                        ListOf(
                            TableOf(
                                (
                                    Key("pointer", POINTER, needed=True),
                                    Key("equals", SCALAR),
                                    Key(
                                        "outcome",
                                        word(Outcome.COMMITTED, Outcome.REJECTED, Outcome.UNKNOWN, enum=Outcome),
                                        needed=True,
                                    ),
                                )
                            ),
                            least=0,
                        ),
                        default=(),
                        kind=HTTP,
                    ),
                    Key(
                        "exit",
                        ListOf(
                            TableOf(
                                (
                                    Key("status", whole(0, 255), needed=True),
                                    Key(
                                        "outcome",
                                        word(Outcome.COMMITTED, Outcome.REJECTED, enum=Outcome),
                                        default=Outcome.COMMITTED,
                                    ),
                                    Key(
                                        "retry",
                                        word(
                                            Retry.NEVER,
                                            Retry.AFTER_CORRECTION,
                                            Retry.BACKOFF,
                                            Retry.RECONCILE,
                                            enum=Retry,
                                        ),
                                    ),
                                )
                            ),
                            least=0,
                        ),
                        default=(),
                        kind=SSH,
                    ),
                    Key("proxy_status", word("trusted"), kind=HTTP),
                )
            ),
        ),
        Key("answers", TableOf((Key("on_connection_death", text(160), needed=True),))),
        Key(
            "job",
            TableOf(
                (
                    Key("pointer", POINTER),
                    Key("status_url", HEADER_OR_POINTER),
                    Key("url", JOB_URL),
                    Key("state", POINTER, needed=True),
                    Key("states", MapOf(word(Outcome.COMMITTED, Outcome.REJECTED, enum=Outcome)), needed=True),
                )
            ),
            kind=HTTP,
            effect=_WRITE,
        ),
        Key(
            "batch",
            TableOf(
                (
                    Key("by", word("key", "position"), needed=True),
                    Key("items", POINTER, needed=True),
                    Key("results", POINTER),
                    Key("successes", POINTER),
                    Key("failures", POINTER),
                    Key("key", POINTER),
                    Key(
                        "outcome",
                        TableOf(
                            (
                                Key("pointer", POINTER, needed=True),
                                Key("committed", _SCALARS, needed=True),
                                Key("rejected", _SCALARS, default=()),
                            )
                        ),
                    ),
                    Key("atomic", BOOLEAN, default=False),
                )
            ),
            kind=HTTP,
            effect=_WRITE,
        ),
        Key(
            "reconcile",
            TableOf(
                (
                    Key("method", word("GET", "POST"), default="GET", kind=HTTP),
                    Key("url", URL_TEMPLATE, needed=True, kind=HTTP),
                    Key("body", TEMPLATE, kind=HTTP),
                    Key("command", COMMAND_TEMPLATE, needed=True, kind=SSH),
                    Key("each", POINTER),
                    Key(
                        "where",
                        TableOf((Key("pointer", POINTER, needed=True), Key("equals", SCALAR_OR_TEMPLATE, needed=True))),
                    ),
                    Key("state", POINTER),
                    Key("committed", _SCALARS, default=()),
                    Key("pending", _SCALARS, default=()),
                    Key("rejected", _SCALARS, default=()),
                    Key(
                        "absent",
                        TableOf(
                            (
                                Key(
                                    "means",
                                    word(Outcome.UNKNOWN, Outcome.REJECTED, enum=Outcome),
                                    needed=True,
                                ),
                                Key("after", duration("1s", "30d")),
                            )
                        ),
                    ),
                )
            ),
            effect=_WRITE,
        ),
        Key(
            "deadlines",
            TableOf((Key("request", duration("100ms", "1h")), Key("recovery", duration("1s", "30d")))),
        ),
        Key(
            "retry",
            TableOf(
                (
                    Key("attempts", whole(1, 10)),
                    Key("automatic", BOOLEAN, default=False),
                    Key("setup", whole(1, 5)),
                    Key("after", RETRY_AFTER, kind=HTTP),
                )
            ),
        ),
        Key("redirect", TableOf((Key("follow", whole(0, 5), default=0),)), kind=HTTP),
        Key("result", TableOf((Key("expected", SIZE),))),
        Key("approval", TableOf((Key("mode", word(*ApprovalMode, enum=ApprovalMode)),))),
    )
)


def sign(value: int | Mapping[str, Any]) -> Sign:
    """A status alone, or the table of a sign, as a Sign."""
    if isinstance(value, int):
        return Sign(value)
    at = None
    if value["pointer"] is not None:
        at = Place(PlaceKind.POINTER, value["pointer"])
    elif value["header"] is not None:
        at = Place(PlaceKind.HEADER, value["header"])
    return Sign(value["status"], at, value["equals"])
