"""The line buffer: every cut of a stream gives the same lines, and memory has a bound."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affidavit.ipc.framing import READ_BYTES, LineBuffer, LineTooLong


def feed(buffer: LineBuffer, *pieces: bytes) -> list[bytes]:
    found = []
    for piece in pieces:
        buffer.space[: len(piece)] = piece
        buffer.filled(len(piece))
        while (line := buffer.line()) is not None:
            found.append(bytes(line))
    return found


@given(st.lists(st.binary(max_size=20).map(lambda b: b.replace(b"\n", b"")), max_size=6), st.data())
def test_cuts_do_not_matter(expected: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(line + b"\n" for line in expected)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=5)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    buffer = LineBuffer(limit=100)
    assert feed(buffer, *pieces) == expected
    assert not buffer.unfinished


@pytest.mark.parametrize("pieces", [(b"x" * 11 + b"\n",), (b"x" * 6, b"x" * 5), (b"ok\n", b"x" * 11)])
def test_too_long_is_said_before_the_line_ends(pieces: tuple[bytes, ...]) -> None:
    with pytest.raises(LineTooLong):
        feed(LineBuffer(limit=10), *pieces)


def test_the_limit_itself_is_allowed() -> None:
    assert feed(LineBuffer(limit=10), b"x" * 5, b"x" * 5 + b"\n") == [b"x" * 10]
    assert feed(LineBuffer(limit=READ_BYTES), b"x" * READ_BYTES, b"\n") == [b"x" * READ_BYTES]


def test_an_unfinished_line_is_no_line() -> None:
    buffer = LineBuffer(limit=100)
    assert feed(buffer, b"done\n", b'{"jsonrpc"') == [b"done"]
    assert buffer.unfinished


def test_wiping_leaves_nothing_behind() -> None:
    buffer = LineBuffer(limit=100, wiping=True)
    assert feed(buffer, b"passphrase one\npassphrase", b" two\n") == [b"passphrase one", b"passphrase two"]
    assert b"passphrase" not in buffer.space
    assert b"two" not in buffer.space


def test_without_wiping_the_buffer_is_left_as_it_is() -> None:
    buffer = LineBuffer(limit=100)
    feed(buffer, b"words\n")
    assert b"words" in buffer.space
