"""The shape of raw params: types, ids, ranges. What `http.request` and `ssh.exec` have in common (R8, R9).

Each function names the field that is wrong and what belongs there. A param that is null counts as absent.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Collection, Mapping
from typing import Any

from affidavit.broker.refusal import Refused
from affidavit.broker.terms import Code

_ID = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_INVOCATION = re.compile(r"act_[0-9A-Za-z]{26}")
_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_MAX_NAME = 128

TEXT_FORMS = {
    "operation_id": (_ID, "1 to 128 of the characters A-Z a-z 0-9 . _ : -"),
    "correlation_id": (_ID, "1 to 128 of the characters A-Z a-z 0-9 . _ : -"),
    "idempotency_key": (_KEY, "1 to 255 visible ASCII characters"),
    "read_for": (re.compile("refresh|decides_write"), "`refresh` or `decides_write`"),
    "acknowledge_unresolved": (_INVOCATION, "the id of the invocation that is unknown, such as act_01J9ZK..."),
}
"""Params that are texts of a form, and how that form is told."""


def given(params: Any, known: Collection[str], required: Collection[str]) -> dict[str, Any]:
    """The params that are not null. Refused: not an object, a param that is not known, one that is missing."""
    if not isinstance(params, Mapping):
        raise invalid("params", "The params must be an object with named fields.")
    for name in params:
        if name not in known:
            raise invalid(path(name), "This field is not known; the fields are: " + ", ".join(sorted(known)) + ".")
    found = {name: value for name, value in params.items() if value is not None}
    for name in required:
        if name not in found:
            raise invalid(name, f"The field `{name}` is missing.")
    return found


def text(params: Mapping[str, Any], name: str) -> str | None:
    """A text without half of a surrogate pair, or None."""
    value = params.get(name)
    if value is None:
        return None
    if not isinstance(value, str):
        raise invalid(name, f"The field `{name}` must be a text.")
    if lone_surrogate(value):
        raise invalid(name, f"The field `{name}` holds half of a surrogate pair.")
    return value


def formed(params: Mapping[str, Any], name: str) -> str | None:
    """A text of the form that `TEXT_FORMS` gives this name, or None."""
    pattern, says = TEXT_FORMS[name]
    value = text(params, name)
    if value is not None and not pattern.fullmatch(value):
        raise invalid(name, f"The field `{name}` must be {says}.")
    return value


def credential(params: Mapping[str, Any]) -> str | None:
    """The credential as named. It may be a secret in the wrong place, so no message repeats it (R9)."""
    name = text(params, "credential")
    if name is not None and not 1 <= len(name) <= _MAX_NAME:
        raise invalid("credential", f"A credential's name has 1 to {_MAX_NAME} characters.")
    return name


def seconds(params: Mapping[str, Any], name: str, least: float, most: float) -> float | None:
    """A number of seconds within bounds, or None."""
    value = params.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise invalid(name, f"The field `{name}` must be a number of seconds from {least:g} to {most:g}.")
    return float(value)


def only_one(params: Mapping[str, Any], ways: Collection[str]) -> str | None:
    """Which of these params is given; Refused where two are."""
    found = [way for way in ways if way in params]
    if len(found) > 1:
        raise invalid(found[1], f"It is given twice, by `{found[0]}` and `{found[1]}`; keep one.")
    return found[0] if found else None


def from_base64(params: Mapping[str, Any], name: str) -> bytes:
    try:
        return base64.b64decode(text(params, name) or "", validate=True)
    except (binascii.Error, ValueError) as bad:
        raise invalid(name, "This is not base64 (RFC 4648, section 4, with its padding).") from bad


def lone_surrogate(value: str) -> bool:
    return not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value)


def cut(name: str) -> str:
    """A name from outside as part of a path: not longer than a header's or field's name has reason to be."""
    return name if len(name) <= _MAX_NAME else name[:_MAX_NAME] + "..."


def path(name: Any) -> str:
    return cut(name) if isinstance(name, str) and name else "params"


def invalid(field: str, message: str) -> Refused:
    return Refused(Code.INVALID_REQUEST, field, message)
