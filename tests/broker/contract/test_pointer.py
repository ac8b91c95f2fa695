"""JSON documents that have one reading, and places in them."""

from __future__ import annotations

import json

import pytest

from affidavit.broker.contract.pointer import (
    MISSING,
    CannotPlant,
    NotJson,
    find,
    is_pointer,
    load_json,
    plant,
    replaced,
    same,
)

DOCUMENT = {"a": {"b/c": [10, {"~": "x"}], "": 0}, "n": None}


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("", DOCUMENT),
        ("/a/b~1c/0", 10),
        ("/a/b~1c/1/~0", "x"),
        ("/a/", 0),
        ("/n", None),
        ("/a/b~1c/2", MISSING),
        ("/a/b~1c/-", MISSING),
        ("/a/b~1c/00", MISSING),
        ("/a/b~1c/x", MISSING),
        ("/a/b~1c/0/x", MISSING),
        ("/x", MISSING),
        ("/n/x", MISSING),
    ],
)
def test_find(pointer: str, value: object) -> None:
    assert find(DOCUMENT, pointer) == value


def test_pointers() -> None:
    assert all(map(is_pointer, ["", "/", "/a/b", "/~0~1", "//"]))
    assert not any(map(is_pointer, ["a", "a/b", "/~", "/~2", "#/a"]))


@pytest.mark.parametrize(
    "data", [b"", b"{", b"{} {}", b'{"a":1,"a":2}', b"NaN", b"[Infinity]", b"\xff", b"\xef\xbb\xbf{}", b"[" * 100_000]
)
def test_what_is_not_one_document(data: bytes) -> None:
    with pytest.raises(NotJson):
        load_json(data)


def test_same_is_strict_about_types() -> None:
    assert same(1, 1)
    assert same(1.0, 1)
    assert same("1", "1")
    assert same(False, False)
    assert not same(True, 1)
    assert not same(1, True)
    assert not same(0, False)
    assert not same("1", 1)
    assert not same(1, "1")
    assert not same(None, "")
    assert not same(MISSING, 0)
    assert not same([], "")


@pytest.mark.parametrize(
    ("before", "pointer", "after"),
    [
        (b"{}", "/key", b'{"key":"K"}'),
        (b'{ "z": 1.10, "a": 1e400 }', "/key", b'{"z":1.10,"a":1e400,"key":"K"}'),
        (b'{"big":123456789012345678901234567890}', "/m/op", b'{"big":123456789012345678901234567890,"m":{"op":"K"}}'),
        (b'{"m":{"x":[true,null,"\\u00e9",{}]}}', "/m/op", b'{"m":{"x":[true,null,"\\u00e9",{}],"op":"K"}}'),
        (b'{"key":"K"}', "/key", b'{"key":"K"}'),
        (b'{"a/b":{}}', "/a~1b/k", b'{"a/b":{"k":"K"}}'),
    ],
)
def test_plant(before: bytes, pointer: str, after: bytes) -> None:
    assert plant(before, pointer, "K") == after


def test_a_name_with_a_quote_is_planted_as_it_is() -> None:
    assert json.loads(plant(b"{}", '/a"b', 'K"')) == {'a"b': 'K"'}


@pytest.mark.parametrize(
    ("body", "pointer"),
    [(b"[]", "/key"), (b"1", "/key"), (b'{"a":[]}', "/a/b"), (b'{"a":1}', "/a/b/c"), (b'{"a":1}', "/a")],
)
def test_no_place(body: bytes, pointer: str) -> None:
    with pytest.raises(CannotPlant):
        plant(body, pointer, "K")


@pytest.mark.parametrize("taken", [b'{"key":"other"}', b'{"key":5}', b'{"key":null}', b'{"key":{}}'])
def test_a_place_that_is_taken(taken: bytes) -> None:
    with pytest.raises(CannotPlant, match="holds another value"):
        plant(taken, "/key", "5")


def test_a_body_too_deep_to_write_again() -> None:
    for depth in range(100, 1000, 50):
        body = b'{"a":' + b"[" * depth + b"]" * depth + b"}"
        try:
            assert plant(body, "/key", "K").endswith(b'"key":"K"}')
        except NotJson:
            return


@pytest.mark.parametrize(
    ("given", "pointer", "made"),
    [
        (b'{ "a": [1.0, 2], "b": 1e2 }', "/a", b'{"a":[2],"b":1e2}'),
        (b"[1.50, 2]", "", b"[2]"),
        (b'[{"x": [1, 2]}, 3]', "/0/x", b'[{"x":[2]},3]'),
    ],
)
def test_a_value_is_replaced_and_all_else_stays_to_the_letter(given: bytes, pointer: str, made: bytes) -> None:
    assert replaced(given, pointer, lambda rows: rows[1:]) == made
