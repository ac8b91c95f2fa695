"""SSH's data types: what is cut is an error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affidavit.broker.wire.ssh.fields import Fields, Malformed, string, uint32


@given(st.integers(0, 2**32 - 1), st.binary(max_size=50), st.booleans(), st.binary(max_size=9))
def test_round_trip(number: int, value: bytes, flag: bool, rest: bytes) -> None:
    fields = Fields(uint32(number) + string(value) + bytes([flag]) + rest)
    assert fields.uint32() == number
    assert bytes(fields.string()) == value
    assert fields.boolean() is flag
    assert fields.left == len(rest)


@given(st.binary(max_size=12), st.integers(0, 15))
def test_a_cut_message_is_malformed(value: bytes, kept: int) -> None:
    whole = string(value)
    if kept >= len(whole):
        assert bytes(Fields(whole).string()) == value
        return
    with pytest.raises(Malformed):
        Fields(whole[:kept]).string()


@pytest.mark.parametrize("read", [Fields.uint32, Fields.boolean, Fields.string, lambda fields: fields.text(9)])
def test_nothing_is_read_from_nothing(read: object) -> None:
    with pytest.raises(Malformed):
        read(Fields(b""))  # type: ignore[operator]


def test_text_is_cut_and_cleaned() -> None:
    assert Fields(string(b"caf\xc3\xa9\x1b[2J\xff\n")).text(100) == "café?[2J\ufffd?"
    assert Fields(string("é".encode() * 90)).text(10) == "é" * 7 + "..."
    assert Fields(string("é".encode() * 10)).text(10) == "é" * 10
    fields = Fields(string(b"x" * 1000) + b"\1")
    assert fields.text(5) == "xx..."
    assert fields.left == 1
