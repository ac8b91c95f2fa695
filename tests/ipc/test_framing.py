"""The line reader: every cut of a stream gives the same lines, and memory has a bound."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affidavit.ipc.framing import LineReader, LineTooLong, LineUnfinished


class ScriptedStream:
    """Gives out its pieces one read at a time, then the end."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = [piece for piece in pieces if piece]
        self.buffer = bytearray()

    async def receive(self, buffer: bytearray) -> int:
        self.buffer = buffer
        if not self.pieces:
            return 0
        piece = self.pieces.pop(0)
        buffer[: len(piece)] = piece
        return len(piece)


async def lines(stream: ScriptedStream, limit: int = 100) -> list[bytes]:
    reader = LineReader(stream.receive, limit=limit)
    found = []
    while (line := await reader.line()) is not None:
        found.append(bytes(line))
    return found


@given(st.lists(st.binary(max_size=20).map(lambda b: b.replace(b"\n", b"")), max_size=6), st.data())
async def test_cuts_do_not_matter(expected: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(line + b"\n" for line in expected)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=5)))
    pieces = [whole[a:b] for a, b in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert await lines(ScriptedStream(*pieces)) == expected


@pytest.mark.parametrize("pieces", [(b"x" * 11 + b"\n",), (b"x" * 6, b"x" * 5), (b"ok\n", b"x" * 11)])
async def test_too_long_is_said_before_the_line_ends(pieces: tuple[bytes, ...]) -> None:
    with pytest.raises(LineTooLong):
        await lines(ScriptedStream(*pieces), limit=10)


async def test_the_limit_itself_is_allowed() -> None:
    assert await lines(ScriptedStream(b"x" * 5, b"x" * 5 + b"\n"), limit=10) == [b"x" * 10]


async def test_an_unfinished_line_is_no_line() -> None:
    with pytest.raises(LineUnfinished):
        await lines(ScriptedStream(b"done\n", b'{"jsonrpc"'))


async def test_wiping_leaves_nothing_behind() -> None:
    stream = ScriptedStream(b"passphrase one\npassphrase", b" two\n")
    reader = LineReader(stream.receive, limit=100, wiping=True)
    first, second = await reader.line(), await reader.line()
    assert (first, second) == (b"passphrase one", b"passphrase two")
    assert b"passphrase" not in stream.buffer
    assert b"two" not in stream.buffer
