"""JSON documents of others, and places in them (RFC 8259, RFC 6901).

A document that holds a name twice, NaN, or an endless nesting is no document: two programs could read different things
from it, and a contract must not match by one reading while the target acts by the other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

Scalar = str | int | float | bool

_POINTER = re.compile(r"(?:/(?:[^~/]|~[01])*)*")


class Missing:
    """Nothing is at that place."""


MISSING: Final = Missing()


class NotJson(ValueError):
    """The bytes are not one JSON document that every reader reads in the same way."""


class CannotPlant(ValueError):
    """The document has no place for the value; the text says why."""


class _Number(str):
    """A number in the letters in which it came."""

    __slots__ = ()


def load_json(data: bytes) -> Any:
    """The document. Raises NotJson."""
    return _load(data, number=None)


def is_pointer(text: str) -> bool:
    return _POINTER.fullmatch(text) is not None


def find(document: Any, pointer: str) -> Any:
    """The value at `pointer`, or MISSING."""
    found = document
    for token in _tokens(pointer):
        if isinstance(found, Mapping):
            found = found.get(token, MISSING)
        elif isinstance(found, list) and re.fullmatch("0|[1-9][0-9]{0,8}", token) and int(token) < len(found):
            found = found[int(token)]
        else:
            return MISSING
        if found is MISSING:
            return MISSING
    return found


def same(value: Any, scalar: Scalar) -> bool:
    """Equal in type and value: `true` is not 1, "1" is not 1, 1.0 is."""
    if isinstance(value, bool) or isinstance(scalar, bool):
        return value is scalar
    if isinstance(value, str) or isinstance(scalar, str):
        return isinstance(value, str) and isinstance(scalar, str) and value == scalar
    return isinstance(value, int | float) and value == scalar


def plant(data: bytes, pointer: str, text: str) -> bytes:
    """The document with `text` at `pointer`, which must lead through objects; missing ones are made.

    Every other value stays, numbers to the letter and names in order; white space does not. Raises NotJson, or
    CannotPlant where something other than `text` is there already.
    """
    document = _load(data, number=_Number)
    *parents, last = _tokens(pointer)
    place = document
    for token in parents:
        if isinstance(place, dict):
            place = place.setdefault(token, {})
    if not isinstance(place, dict):
        raise CannotPlant(f"the JSON has no object around {pointer}")
    if place.get(last, text) != text or isinstance(place.get(last), _Number):
        raise CannotPlant(f"{pointer} holds another value already")
    place[last] = text
    try:
        return _dump(document).encode()
    except RecursionError as bad:
        raise NotJson("the body is nested too deeply") from bad


def replaced(data: bytes, pointer: str, change: Callable[[Any], Any]) -> bytes:
    """The document with `change` of the value at `pointer`, which must be there, in its place; else as `plant`.

    Raises NotJson.
    """
    return _dump(_replaced(_load(data, number=_Number), _tokens(pointer), change)).encode()


def _replaced(value: Any, tokens: list[str], change: Callable[[Any], Any]) -> Any:
    if not tokens:
        return change(value)
    at = int(tokens[0]) if isinstance(value, list) else tokens[0]
    value[at] = _replaced(value[at], tokens[1:], change)
    return value


def _tokens(pointer: str) -> list[str]:
    return [token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:]]


def _load(data: bytes, number: type[_Number] | None) -> Any:
    try:
        return json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_without_repeats,
            parse_constant=_no_constant,
            parse_int=number,
            parse_float=number,
        )
    except (ValueError, RecursionError) as bad:
        raise NotJson("the body is not one plain JSON document") from bad


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = dict(pairs)
    if len(names) != len(pairs):
        raise ValueError("a name stands twice in an object")
    return names


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _dump(value: Any) -> str:
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(name)}:{_dump(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_dump, value)) + "]"
    return json.dumps(value)
