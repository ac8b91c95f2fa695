"""How values become bytes before they are hashed, sealed or authenticated (docs/journal-format.md).

A field is a 4-byte big-endian length and the bytes; an absent field is the length 2**32 - 1 and nothing. So no two
different lists of fields give the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_ABSENT = b"\xff\xff\xff\xff"


def fields(*values: bytes | None) -> bytes:
    """Length-prefixed fields, one after the other."""
    return b"".join([_ABSENT if value is None else len(value).to_bytes(4, "big") + value for value in values])


def number(value: int) -> bytes:
    """A whole number as 8 bytes, big-endian, two's complement."""
    return value.to_bytes(8, "big", signed=True)


def canonical_json(value: Mapping[str, Any]) -> bytes:
    """Compact JSON with sorted keys, in ASCII, so that any text survives it. NaN and infinities are refused."""
    return _ENCODER.encode(value).encode("ascii")


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
