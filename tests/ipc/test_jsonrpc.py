"""The codec alone: what it reads, what it refuses, and that nothing makes it raise or run away."""

from __future__ import annotations

import json
import tracemalloc
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affidavit.ipc import jsonrpc
from affidavit.ipc.jsonrpc import Batch, Call, Failure, decode

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def call(**over: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": "status"} | over).encode()


@given(st.dictionaries(st.text(), JSON), st.text(max_size=256) | st.integers(-(2**53), 2**53))
def test_round_trip(params: dict[str, object], id_: str | int) -> None:
    assert decode(call(id=id_, params=params)) == Call(id_, "status", params)


@given(st.binary(max_size=200))
def test_garbage_is_answered_never_raised(line: bytes) -> None:
    assert isinstance(decode(line), Call | Batch | Failure)


@given(JSON)
def test_any_json_is_answered(value: object) -> None:
    message = decode(json.dumps(value).encode())
    if isinstance(message, Failure):
        assert json.loads(jsonrpc.error(message))["error"]["code"] == jsonrpc.INVALID_REQUEST


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"   ",
        b"{",
        b"nonsense",
        b'{"a":NaN}',
        b'{"a":-Infinity}',
        b"\xff\xfe",
        b'"\xed\xa0\x80"',
        b"\xef\xbb\xbf{}",
        b'{"a":"\x01"}',
        b"{'a':1}",
        b"[1,]",
        b"1 2",
    ],
)
def test_not_json(line: bytes) -> None:
    message = decode(line)
    assert isinstance(message, Failure)
    assert (message.code, message.id) == (jsonrpc.PARSE_ERROR, None)


@pytest.mark.parametrize(
    ("line", "id_"),
    [
        (b"1", None),
        (b'"text"', None),
        (b"null", None),
        (b"{}", None),
        (b"[]", None),
        (call(jsonrpc="1.0"), 1),
        (call(method=7), 1),
        (call(params=5), 1),
        (call(params=None), 1),
        (call(id=True), None),
        (call(id={}), None),
        (call(id="x" * 257), None),
        (b'{"jsonrpc":"2.0","id":9,"method":"a","method":"b"}', 9),
        (b'{"jsonrpc":"2.0","id":9,"method":"a","params":{"x":{"y":1,"y":2}}}', 9),
        (b'{"jsonrpc":"2.0","id":9,"method":"a","params":{"x":1e999}}', 9),
        (b'{"jsonrpc":"2.0","id":9,"method":"a","params":{"x":' + b"9" * 5000 + b"}}", 9),
        (b'{"jsonrpc":"2.0","id":1e999,"method":"a"}', 0.0),
        (b"[" + b"1," * 32 + b"1]", None),
    ],
)
def test_not_a_request(line: bytes, id_: object) -> None:
    message = decode(line)
    assert isinstance(message, Failure)
    assert message.code == jsonrpc.INVALID_REQUEST
    assert message.id == id_


def test_null_id_is_a_call_and_no_id_a_notification() -> None:
    assert decode(call(id=None)) == Call(None, "status", None)
    assert decode(b'{"jsonrpc":"2.0","method":"status"}') == Call(None, "status", None, notification=True)


def test_batch_keeps_its_order_and_marks_what_is_no_call() -> None:
    message = decode(b"[" + call(id=1) + b",7," + call(id="b") + b"]")
    assert isinstance(message, Batch)
    first, bad, last = message.entries
    assert first == Call(1, "status", None)
    assert isinstance(bad, Failure)
    assert bad.code == jsonrpc.INVALID_REQUEST
    assert last == Call("b", "status", None)


def nested(levels: int, opening: str = "[", closing: str = "]") -> bytes:
    return f'{{"jsonrpc":"2.0","id":1,"method":"m","params":{opening * (levels - 1)}{closing * (levels - 1)}}}'.encode()


@pytest.mark.parametrize("pair", [("[", "]"), ('{"a":[', "]}")])
def test_depth_is_exact(pair: tuple[str, str]) -> None:
    step = 1 if pair[0] == "[" else 2
    inside = (jsonrpc.MAX_DEPTH - 1) // step
    good = f'{{"jsonrpc":"2.0","id":1,"method":"m","params":{pair[0] * inside}{pair[1] * inside}}}'.encode()
    assert isinstance(decode(good), Call)
    deep = f'{{"jsonrpc":"2.0","id":1,"method":"m","params":{pair[0] * (inside + 1)}{pair[1] * (inside + 1)}}}'.encode()
    assert decode(deep) == Failure(jsonrpc.INVALID_REQUEST, "The line is nested deeper than 64 levels.")


def test_a_million_brackets_are_refused_not_parsed() -> None:
    assert isinstance(decode(b"[" * 1_000_000), Failure)
    assert isinstance(decode(b"]" * 1_000_000), Failure)
    assert isinstance(decode(b'{"a":' * 100_000 + b"1" + b"}" * 100_000), Failure)


def test_brackets_and_commas_in_text_count_for_nothing() -> None:
    text = '[[{"\\,' * 300_000
    message = decode(call(params={"body": text}))
    assert isinstance(message, Call)
    assert message.params == {"body": text}


def test_too_many_values_cost_little_memory() -> None:
    line = b"[" + b"[]," * 2_000_000 + b"1]"
    tracemalloc.start()
    message = decode(line)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert isinstance(message, Failure)
    assert "100,000 values" in message.message
    assert peak < 5 * len(line)


def test_a_call_shows_no_params() -> None:
    assert "hunter2" not in repr(decode(call(params={"passphrase": "hunter2"})))


def test_answers_are_ascii_and_one_line() -> None:
    frame = jsonrpc.result("\ud800", {"text": "a\nb\u202e\x9b", "nested": MappingProxyType({"a": (1, 2)})})
    assert b"\n" not in frame
    assert frame.isascii()
    assert json.loads(frame)["result"]["nested"] == {"a": [1, 2]}


def test_what_is_not_json_cannot_be_answered() -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        jsonrpc.result(1, {"a": float("nan")})
    with pytest.raises(TypeError, match="object"):
        jsonrpc.result(1, {"a": object()})


def test_batch_of_answers_is_one_array() -> None:
    frames = [jsonrpc.result(1, True), jsonrpc.error(Failure(-32601, "no", id=2, data={"field": "x"}))]
    assert json.loads(jsonrpc.batch(frames)) == [
        {"jsonrpc": "2.0", "id": 1, "result": True},
        {"jsonrpc": "2.0", "id": 2, "error": {"code": -32601, "message": "no", "data": {"field": "x"}}},
    ]
