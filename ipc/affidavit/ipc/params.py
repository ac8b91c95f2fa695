"""Params of a call, checked against the method table: what comes out has every name its handler takes.

Errors name the field and never its value: it may be a secret.
"""

from __future__ import annotations

import base64
import binascii
import math
from typing import Any

from affidavit.broker.api import BadParam
from affidavit.ipc.methods import ID_CHARS, TEXT_CHARS, Method, Param

_IN_WORDS = {
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "strings": "an array of strings",
    "files": "an array of {file, text}",
    "passphrase": "a string",
    "secret": "base64",
}


def read(method: Method, params: dict[str, Any] | list[Any] | None) -> dict[str, Any]:
    """The handler's keyword arguments: defaults filled in, None where a param may be absent.

    Secrets are taken out of `params` and come back as bytearrays. Raises BadParam.
    """
    if isinstance(params, list):
        raise BadParam("params", "Params are given by name, as an object.")
    given = {} if params is None else params
    known = {param.name for param in method.params}
    for name in given:
        if name not in known:
            raise BadParam(name[:ID_CHARS], f"{method.name} has no such param.")
    values = {_argument(param): _value(param, given) for param in method.params}
    if method.one_of and sum(values[name] is not None for name in method.one_of) != 1:
        raise BadParam(method.one_of[0], f"Give one of {', '.join(method.one_of)}.")
    return values


def _argument(param: Param) -> str:
    return param.name.removesuffix("_base64") if param.type == "secret" else param.name


def _value(param: Param, given: dict[str, Any]) -> Any:
    value = given.pop(param.name, None) if param.type in ("passphrase", "secret") else given.get(param.name)
    if value is None:
        if param.required:
            raise BadParam(param.name, f"{param.name} is missing.")
        return param.default
    checked = _typed(param, value)
    if param.choices and checked not in param.choices:
        raise BadParam(param.name, f"{param.name} is one of {', '.join(param.choices)}.")
    size = checked if isinstance(checked, int | float) else len(checked)
    if not isinstance(checked, bool) and not param.least <= size <= param.most:
        what = "" if isinstance(checked, int | float) else " in length"
        raise BadParam(param.name, f"{param.name} is between {param.least:g} and {param.most:g}{what}.")
    return checked


def _typed(param: Param, value: Any) -> Any:
    """The value if it is of the param's type, in the form that a handler takes."""
    wrong = BadParam(param.name, f"{param.name} is {_IN_WORDS[param.type]}.")
    match param.type:
        case "string" if isinstance(value, str):
            return value
        case "integer" if isinstance(value, int) and not isinstance(value, bool):
            return value
        case "number" if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            return value
        case "boolean" if isinstance(value, bool):
            return value
        case "strings" if isinstance(value, list) and all(isinstance(entry, str) for entry in value):
            return tuple(value)
        case "files" if isinstance(value, list):
            return tuple(_file(wrong, entry) for entry in value)
        case "passphrase" if isinstance(value, str):
            return _bytes_of(wrong, value)
        case "secret" if isinstance(value, str):
            try:
                return bytearray(base64.b64decode(value, validate=True))
            except (binascii.Error, ValueError):
                raise wrong from None
    raise wrong


def _file(wrong: BadParam, entry: Any) -> tuple[str, str]:
    if not isinstance(entry, dict) or entry.keys() != {"file", "text"}:
        raise wrong
    file, text = entry["file"], entry["text"]
    if not isinstance(file, str) or not isinstance(text, str) or len(file) > ID_CHARS or len(text) > TEXT_CHARS:
        raise wrong
    return file, text


def _bytes_of(wrong: BadParam, text: str) -> bytearray:
    try:
        return bytearray(text, "utf-8")
    except UnicodeEncodeError:  # a lone surrogate
        raise wrong from None
