"""Content codings of a response, undone as it arrives (RFC 9110, 8.4; br: RFC 7932; zstd: RFC 8878, 9659).

A body counts as decoded only if its coding ended exactly where the body did: no early end, no bad checksum, nothing
after the end. Libraries let all of these pass, so the end is checked here. Once a body proved undecodable, the decoder
swallows the rest: the caller goes on hashing and keeping the raw bytes (verdicts, section 2).

No request asks for any coding but `identity`; whoever sends one all the same has it undone here, so that redaction
sees what an agent would see.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from enum import StrEnum
from typing import Protocol

import brotli
import zstandard

PIECE = 64 * 1024
"""Bytes of output at most in one piece, so that a small input cannot ask for much memory."""

CODINGS_MOST = 2
"""Codings of one body. Two are seen where a gateway compresses what its origin already did; more is an attack."""

_ZSTD_WINDOW = 8 << 20
"""Bytes: what RFC 9659 lets a sender use, so what a reader must hold at most."""

_ZSTD_SLICE = 256
"""Bytes of input at a time. The library gives all output of an input at once; the smallest block has four bytes and
stands for 128 KiB at most, so a slice of a bomb makes 8 MiB."""


class Undecodable(StrEnum):
    """Why a body could not be decoded."""

    CODING = "coding"
    """A coding that is not spoken here, or too many at once."""
    MALFORMED = "malformed"
    CUT = "cut"
    """The body ended before its coding did."""
    TRAILING = "trailing"
    """The coding ended before the body did; a second gzip member or zstd frame counts as such."""
    LIMIT = "limit"
    """More output than allowed."""


class _Coding(Protocol):
    """One coding, fed until `ended`. `pieces` gives pieces of at most PIECE bytes; ValueError on malformed input."""

    def pieces(self, data: bytes) -> Iterator[bytes]: ...

    @property
    def tells_all(self) -> bool:
        """Of malformed input it gives whatever was good before."""

    @property
    def ended(self) -> bool: ...

    @property
    def trailing(self) -> bool:
        """Input was left over behind the end."""


class _Zlib:
    """gzip and deflate. Deflate is zlib's format by RFC 9110, 8.4.1.2; bare deflate, which some send, is told apart by
    its first two bytes."""

    tells_all = True

    def __init__(self, *, gzip: bool) -> None:
        self._stream = zlib.decompressobj(zlib.MAX_WBITS | 16) if gzip else None
        self._head = b""

    def pieces(self, data: bytes) -> Iterator[bytes]:
        if self._stream is None:
            self._head += data
            if len(self._head) < 2:
                return
            data, self._head = self._head, b""
            zlib_header = data[0] & 0x0F == 8 and int.from_bytes(data[:2], "big") % 31 == 0
            self._stream = zlib.decompressobj(zlib.MAX_WBITS if zlib_header else -zlib.MAX_WBITS)
        before = self._stream
        try:
            while True:
                before = self._stream.copy()
                piece = self._stream.decompress(data, PIECE)
                data = self._stream.unconsumed_tail
                if piece:
                    yield piece
                # Behind the end nothing is consumed. Before it, a full piece may leave more output inside the stream
                # although all input is taken.
                if self._stream.eof or (not data and len(piece) < PIECE):
                    return
        except zlib.error as bad:
            yield from _good_of(data, before)
            raise ValueError("malformed") from bad

    @property
    def ended(self) -> bool:
        return self._stream is not None and self._stream.eof

    @property
    def trailing(self) -> bool:
        return self._stream is not None and bool(self._stream.unused_data)


def _good_of(data: bytes, stream: zlib._Decompress) -> Iterator[bytes]:
    """What a stream makes of input that is bad somewhere: given at once, the library tells nothing of it."""
    rest = b""
    with suppress(zlib.error):
        for at in range(len(data)):
            piece = stream.decompress(rest + data[at : at + 1], PIECE)
            rest = stream.unconsumed_tail
            if piece:
                yield piece


class _Brotli:
    """br. The library takes bytes behind the end in the same input for malformed."""

    trailing = False
    tells_all = False

    def __init__(self) -> None:
        self._stream = brotli.Decompressor()

    def pieces(self, data: bytes) -> Iterator[bytes]:
        try:
            while True:
                out = self._stream.process(data, output_buffer_limit=PIECE)
                yield from _cut(out)
                if self._stream.is_finished() or (not out and self._stream.can_accept_more_data()):
                    return
                data = b""
        except brotli.error as bad:
            raise ValueError("malformed") from bad

    @property
    def ended(self) -> bool:
        return bool(self._stream.is_finished())


class _Zstd:
    """zstd, one frame, without a dictionary."""

    tells_all = False

    def __init__(self) -> None:
        self._stream = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).decompressobj(write_size=PIECE)
        self._left_over = False

    def pieces(self, data: bytes) -> Iterator[bytes]:
        try:
            for at in range(0, len(data), _ZSTD_SLICE):
                yield from _cut(self._stream.decompress(data[at : at + _ZSTD_SLICE]))
                if self._stream.eof:
                    self._left_over = bool(self._stream.unused_data) or at + _ZSTD_SLICE < len(data)
                    return
        except zstandard.ZstdError as bad:
            raise ValueError("malformed") from bad

    @property
    def ended(self) -> bool:
        return self._stream.eof

    @property
    def trailing(self) -> bool:
        return self._left_over


def _cut(data: bytes) -> Iterator[bytes]:
    for at in range(0, len(data), PIECE):
        yield data[at : at + PIECE]


_CODINGS: dict[str, Callable[[], _Coding]] = {
    "gzip": lambda: _Zlib(gzip=True),
    "x-gzip": lambda: _Zlib(gzip=True),
    "deflate": lambda: _Zlib(gzip=False),
    "br": _Brotli,
    "zstd": _Zstd,
}
"""Codings by name."""


class _Stage:
    """One coding with its strict end and its limit."""

    def __init__(self, coding: _Coding, limit: int) -> None:
        self._coding = coding
        self._left = limit
        self._began = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Decoded pieces. _Bad as soon as it is known."""
        if self._coding.ended:
            raise _Bad(Undecodable.TRAILING)
        self._began = True
        try:
            for piece in self._coding.pieces(data):
                if len(piece) > self._left:
                    raise _Bad(Undecodable.LIMIT)
                self._left -= len(piece)
                yield piece
        except ValueError:
            raise _Bad(Undecodable.MALFORMED) from None
        if self._coding.trailing:
            raise _Bad(Undecodable.TRAILING)

    @property
    def tells_all(self) -> bool:
        return self._coding.tells_all

    @property
    def cut(self) -> bool:
        """Whether the input, if this was all, ended too early. No input at all needs no coding."""
        return self._began and not self._coding.ended


class _Bad(Exception):
    def __init__(self, why: Undecodable) -> None:
        super().__init__(why)
        self.why = why


class Decoder:
    """Decodes one body. `undecodable` is set as soon as it is known, and never cleared."""

    def __init__(self, content_encoding: str | None, limit: int) -> None:
        """`content_encoding`: the header's value, repeats joined; `limit`: bytes that each coding may put out."""
        self._codings = codings = coding_names(content_encoding)
        self.undecodable: Undecodable | None = None
        self._stages: list[_Stage] = []
        if len(codings) > CODINGS_MOST or any(name not in _CODINGS for name in codings):
            self.undecodable = Undecodable.CODING
        else:
            # The header names codings in the order in which they were applied; they come off in the other.
            self._stages = [_Stage(_CODINGS[name](), limit) for name in reversed(codings)]

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The decoded pieces of `data`, each of at most PIECE bytes; consume them all. Without a coding, `data`."""
        if self.undecodable or not data:
            return
        try:
            yield from self._undone(data, self._stages)
        except _Bad as bad:
            self.undecodable = bad.why

    def finish(self) -> Undecodable | None:
        """The body has ended. A body of no bytes needs no coding: HEAD and 304 announce one without sending it."""
        if not self.undecodable and any(stage.cut for stage in self._stages):
            self.undecodable = Undecodable.CUT
        return self.undecodable

    @property
    def hides(self) -> bool:
        """Whether a reader that asks for less may get something out of this undecodable body that was not put out here:
        what stands behind an end or a limit, what a library keeps to itself where the rest is bad, a coding below."""
        match self.undecodable:
            case None | Undecodable.CUT:
                return False
            case Undecodable.CODING:
                return any(name in _CODINGS for name in self._codings)
            case Undecodable.MALFORMED:
                return len(self._stages) > 1 or not self._stages[0].tells_all
            case _:
                return True

    def _undone(self, data: bytes, stages: list[_Stage]) -> Iterator[bytes]:
        if not stages:
            yield data
            return
        for piece in stages[0].feed(data):
            yield from self._undone(piece, stages[1:])


def coding_names(content_encoding: str | None) -> list[str]:
    """The codings that a header names, in its order, in lower case, `identity` left out."""
    names = [name for part in (content_encoding or "").split(",") if (name := part.strip().lower())]
    return [name for name in names if name != "identity"]
