"""JSON-RPC 2.0, read and written: bytes of one line to a message, an answer to the bytes of one line.

Reading is bounded by what stands in the line, before anything is built from it: depth and number of values. It refuses
what two readers could read in two ways (I-JSON, RFC 7493: a name given twice, a number that no double holds).
What is wrong comes back as a `Failure` to be sent, never as an exception. Nothing here knows of methods.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Id = str | int | float | None
"""A call's id, given back as it came."""

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
REFUSED = -32000
"""The connection is refused: too many of them, another user, a process that is gone."""
ACTION_FAILED = -32001
"""`data` is an envelope with `error`."""
NOT_WHILE_LOCKED = -32002
OPERATOR_REFUSED = -32003

MAX_DEPTH = 64
MAX_VALUES = 100_000
"""Parsing that many holds the interpreter for some 30 ms. A longer document goes into `body`, where it is one value."""
MAX_BATCH = 32
MAX_ID_CHARS = 256
MAX_INT_DIGITS = 308


@dataclass(frozen=True, slots=True)
class Call:
    """One call. A notification (no id at all) has `notification` set. The repr shows no params: they may be secret."""

    id: Id
    method: str
    params: dict[str, Any] | list[Any] | None = field(repr=False)
    notification: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """An error answer. `data` holds `field` where one is to be corrected, and `remedy` where there is one."""

    code: int
    message: str
    id: Id = None
    data: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Batch:
    """Calls to be run concurrently, at most MAX_BATCH; a Failure stands where an entry is no call."""

    entries: tuple[Call | Failure, ...]


Message = Call | Batch | Failure


def decode(line: bytes | bytearray) -> Message:
    """Read one line, its line feed removed. Never raises."""
    too_much = _bounds(line)
    if too_much is not None:
        return Failure(INVALID_REQUEST, too_much)
    try:
        value = _STRICT.read(line.decode("utf-8"))
    except UnicodeDecodeError:
        return Failure(PARSE_ERROR, "The line is not UTF-8.")
    except (ValueError, RecursionError):
        return Failure(PARSE_ERROR, "The line is not JSON.")
    if _STRICT.fault is not None:
        return Failure(INVALID_REQUEST, _STRICT.fault, id=_id_of(value))
    if not isinstance(value, list):
        return _call(value)
    if not value:
        return Failure(INVALID_REQUEST, "The batch is empty.")
    if len(value) > MAX_BATCH:
        return Failure(INVALID_REQUEST, f"The batch holds more than {MAX_BATCH} calls.")
    return Batch(tuple(_call(entry) for entry in value))


def result(id_: Id, value: Any) -> bytes:
    """The answer to a call that went well. Raises TypeError or ValueError where `value` is not JSON."""
    return _dump({"jsonrpc": "2.0", "id": id_, "result": value})


def error(failure: Failure) -> bytes:
    """The answer to a call that did not."""
    body: dict[str, Any] = {"code": failure.code, "message": failure.message}
    if failure.data is not None:
        body["data"] = failure.data
    return _dump({"jsonrpc": "2.0", "id": failure.id, "error": body})


def notification(method: str, params: Mapping[str, Any]) -> bytes:
    """What the server says unasked."""
    return _dump({"jsonrpc": "2.0", "method": method, "params": params})


def batch(answers: Sequence[bytes]) -> bytes:
    """One array of answers that were encoded one by one."""
    return b"[" + b",".join(answers) + b"]"


def _bounds(line: bytes | bytearray) -> str | None:
    """Why the line is too much to be parsed, or None.

    Counted with whole-line operations, so that a hostile line costs about what a harmless one of its length does.
    Commas and brackets inside strings count for nothing: where the plain counts are low they need not be told apart.
    """
    openings = line.count(b"[") + line.count(b"{")
    if openings <= MAX_DEPTH and openings + line.count(b",") <= MAX_VALUES:
        return None
    outside = b"".join(line.replace(rb"\\", b"").replace(rb"\"", b"").split(b'"')[::2])
    if outside.count(b"[") + outside.count(b"{") + outside.count(b",") > MAX_VALUES:
        return f"The line holds more than {MAX_VALUES:,} values. Send a large document as text in `body`."
    brackets = outside.translate(_AS_SQUARE, _NOT_BRACKETS)
    for _ in range(MAX_DEPTH):
        brackets = brackets.replace(b"[]", b"")  # takes away the innermost level, exactly one each time
        if not brackets:
            return None
    # Unbalanced brackets are left over too: then it is the parser that says so, if it gets that far.
    return f"The line is nested deeper than {MAX_DEPTH} levels." if b"[" in brackets else None


_AS_SQUARE = bytes.maketrans(b"{}", b"[]")
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


class _Strict(threading.local):
    """A reader for each thread, made once. `fault` is what JSON allows and two readers would not read alike."""

    def __init__(self) -> None:
        self.fault: str | None = None
        self._decoder = json.JSONDecoder(
            object_pairs_hook=self._object,
            parse_int=self._int,
            parse_float=self._float,
            parse_constant=self._constant,
        )

    def read(self, text: str) -> Any:
        """The value of a whole text. Raises ValueError, RecursionError."""
        self.fault = None
        return self._decoder.decode(text)

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        if len(made) != len(pairs):
            self.fault = "An object gives the same name twice."
        return made

    def _int(self, digits: str) -> int:
        if len(digits) > MAX_INT_DIGITS:
            self.fault = "A number is too large."
            return 0
        return int(digits)

    def _float(self, digits: str) -> float:
        number = float(digits)
        if not math.isfinite(number):
            self.fault = "A number is too large."
            return 0.0
        return number

    def _constant(self, name: str) -> Any:
        raise ValueError(name)  # NaN, Infinity: not JSON (RFC 8259, section 6)


_STRICT = _Strict()


def _call(value: Any) -> Call | Failure:
    """One entry, checked as far as JSON-RPC itself goes."""
    if not isinstance(value, dict):
        return Failure(INVALID_REQUEST, "A call is a JSON object.")
    id_ = _id_of(value)
    if value.get("jsonrpc") != "2.0":
        return Failure(INVALID_REQUEST, 'A call has "jsonrpc": "2.0".', id=id_)
    if "id" in value and id_ is None and value["id"] is not None:
        return Failure(INVALID_REQUEST, f"An id is a number or a string of at most {MAX_ID_CHARS} characters.")
    method = value.get("method")
    if not isinstance(method, str):
        return Failure(INVALID_REQUEST, "A call names its method as a string.", id=id_)
    params = value.get("params")
    if not isinstance(params, dict | list) and "params" in value:
        return Failure(INVALID_REQUEST, "Params are an object.", id=id_)
    return Call(id_, method, params, notification="id" not in value)


def _id_of(value: Any) -> Id:
    """The id of what may be a call, or None where it has none that can be given back."""
    id_ = value.get("id") if isinstance(value, dict) else None
    if isinstance(id_, bool) or (isinstance(id_, str) and len(id_) > MAX_ID_CHARS):
        return None
    return id_ if isinstance(id_, str | int | float) else None


def _dump(value: Mapping[str, Any]) -> bytes:
    """ASCII, so that no lone surrogate and no control character of a remote text meets a reader raw."""
    return _ENCODER.encode(value).encode("ascii")


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(type(value).__name__)


_ENCODER = json.JSONEncoder(allow_nan=False, separators=(",", ":"), default=_plain)
