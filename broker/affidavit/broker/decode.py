"""Content codings of a response, undone as it arrives (RFC 9110, 8.4).

A body counts as decoded only if its coding ended exactly where the body did: no early end, no bad checksum, nothing
after the end. Libraries let all of these pass, so the end is checked here. Once a body proved undecodable, the decoder
swallows the rest: the caller goes on hashing and keeping the raw bytes (verdicts, section 2).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import Protocol

PIECE = 64 * 1024
"""Bytes of output at most in one piece, so that a small input cannot ask for much memory."""


class Undecodable(StrEnum):
    """Why a body could not be decoded."""

    CODING = "coding"
    """A coding that is not spoken here, or several at once."""
    MALFORMED = "malformed"
    CUT = "cut"
    """The body ended before its coding did."""
    TRAILING = "trailing"
    """The coding ended before the body did; a second gzip member counts as such."""
    LIMIT = "limit"
    """More output than allowed."""


class _Coding(Protocol):
    """One coding. `pieces` raises ValueError on malformed input."""

    def pieces(self, data: bytes) -> Iterator[bytes]: ...

    @property
    def ended(self) -> bool: ...

    @property
    def trailing(self) -> bool: ...


class _Zlib:
    """gzip and deflate. Deflate is zlib's format by RFC 9110, 8.4.1.2; bare deflate, which some send, is told apart by
    its first two bytes."""

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
        try:
            while True:
                piece = self._stream.decompress(data, PIECE)
                data = self._stream.unconsumed_tail
                if piece:
                    yield piece
                # Behind the end nothing is consumed. Before it, a full piece may leave more output inside the stream
                # although all input is taken.
                if self._stream.eof or (not data and len(piece) < PIECE):
                    return
        except zlib.error as bad:
            raise ValueError("malformed") from bad

    @property
    def ended(self) -> bool:
        return self._stream is not None and self._stream.eof

    @property
    def trailing(self) -> bool:
        return self._stream is not None and bool(self._stream.unused_data)


_CODINGS: dict[str, Callable[[], _Coding]] = {
    "gzip": lambda: _Zlib(gzip=True),
    "x-gzip": lambda: _Zlib(gzip=True),
    "deflate": lambda: _Zlib(gzip=False),
}
"""Codings by name. `br` and `zstd` are not among them: no request asks for any coding but `identity`."""


class Decoder:
    """Decodes one body. `undecodable` is set as soon as it is known, and never cleared."""

    def __init__(self, content_encoding: str | None, limit: int) -> None:
        """`content_encoding`: the header's value, repeats joined; `limit`: bytes that a coding may put out."""
        names = [name for part in (content_encoding or "").split(",") if (name := part.strip().lower())]
        codings = [name for name in names if name != "identity"]
        self.undecodable: Undecodable | None = None
        self._coding: _Coding | None = None
        self._left = limit
        self._began = False
        if len(codings) > 1 or any(name not in _CODINGS for name in codings):
            self.undecodable = Undecodable.CODING
        elif codings:
            self._coding = _CODINGS[codings[0]]()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The decoded pieces of `data`, each of at most PIECE bytes; consume them all. Without a coding, `data`."""
        if self.undecodable or not data:
            return
        if self._coding is None:
            yield data
            return
        self._began = True
        try:
            for piece in self._coding.pieces(data):
                if len(piece) > self._left:
                    self.undecodable = Undecodable.LIMIT
                    return
                self._left -= len(piece)
                yield piece
        except ValueError:
            self.undecodable = Undecodable.MALFORMED
            return
        if self._coding.trailing:
            self.undecodable = Undecodable.TRAILING

    def finish(self) -> Undecodable | None:
        """The body has ended. A body of no bytes needs no coding: HEAD and 304 announce one without sending it."""
        if not self.undecodable and self._coding is not None and self._began and not self._coding.ended:
            self.undecodable = Undecodable.CUT
        return self.undecodable
