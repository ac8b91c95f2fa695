"""What peers answer, byte for byte, where the protocol does not take it for whole. Plain data, for tests of every room.

A name that begins with a case's number plays that case; the others follow from RFC 9112 alone.
"""

from __future__ import annotations

import zlib

from affidavit.broker.wire.port import Fault

_CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"

BROKEN: dict[str, tuple[bytes, Fault, str]] = {
    "h33 101": (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", Fault.UPGRADE, "101"),
    "h34 HTTP/0.9": (b"<html>hello</html>", Fault.MALFORMED, "not HTTP/1"),
    "h39 status 99": (b"HTTP/1.1 99 Odd\r\nContent-Length: 0\r\n\r\n", Fault.MALFORMED, "status"),
    "h40 status 999": (b"HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n", Fault.MALFORMED, "status"),
    "status 600": (b"HTTP/1.1 600 Odd\r\nContent-Length: 0\r\n\r\n", Fault.MALFORMED, "status"),
    "status 1000": (b"HTTP/1.1 1000 Odd\r\nContent-Length: 0\r\n\r\n", Fault.MALFORMED, "status"),
    "h42 HTTP/2.0": (b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n", Fault.MALFORMED, "not HTTP/1"),
    "HTTP/1.2": (b"HTTP/1.2 200 OK\r\nContent-Length: 0\r\n\r\n", Fault.MALFORMED, "status line"),
    "bare LF": (b"HTTP/1.1 200 OK\nContent-Length: 0\n\n", Fault.MALFORMED, "without CR"),
    "bare CR": (b"HTTP/1.1 200 OK\r\nA: b\rContent-Length: 0\r\n\r\n", Fault.MALFORMED, "header line"),
    "folded line": (b"HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 0\r\n\r\n", Fault.MALFORMED, "header line"),
    "h45 space before colon": (b"HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n", Fault.MALFORMED, "header line"),
    "NUL": (b"HTTP/1.1 200 OK\r\nA: b\x00\r\nContent-Length: 0\r\n\r\n", Fault.MALFORMED, "header line"),
    "no name": (b"HTTP/1.1 200 OK\r\n: b\r\nContent-Length: 0\r\n\r\n", Fault.MALFORMED, "header line"),
    "h43 huge header": (b"HTTP/1.1 200 OK\r\nA: " + b"a" * 200_000 + b"\r\n\r\n", Fault.MALFORMED, "over 65536"),
    "h43 many headers": (b"HTTP/1.1 200 OK\r\n" + b"A: a\r\n" * 20_000 + b"\r\n", Fault.MALFORMED, "over 65536"),
    "h46 two lengths": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc",
        Fault.FRAMING,
        "more than one",
    ),
    "one length twice": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
        Fault.FRAMING,
        "more than one",
    ),
    "list of lengths": (b"HTTP/1.1 200 OK\r\nContent-Length: 3, 3\r\n\r\nabc", Fault.FRAMING, "more than one"),
    "length +3": (b"HTTP/1.1 200 OK\r\nContent-Length: +3\r\n\r\nabc", Fault.MALFORMED, "not a length"),
    "length -1": (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nabc", Fault.MALFORMED, "not a length"),
    "empty length": (b"HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\nabc", Fault.MALFORMED, "not a length"),
    "h50 length and chunked": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        Fault.FRAMING,
        "with Transfer-Encoding",
    ),
    "gzip, chunked": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        Fault.FRAMING,
        "other than chunked",
    ),
    "chunked twice": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        Fault.FRAMING,
        "other than chunked",
    ),
    "chunked in HTTP/1.0": (
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        Fault.FRAMING,
        "other than chunked",
    ),
    "h53 bad chunk size": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n",
        Fault.MALFORMED,
        "chunks",
    ),
    "negative chunk size": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n",
        Fault.MALFORMED,
        "chunks",
    ),
    "chunk longer than its size": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhello\r\n0\r\n\r\n",
        Fault.MALFORMED,
        "chunks",
    ),
    "protocol in lower case": (b"http/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", Fault.MALFORMED, "not HTTP/1"),
    "two spaces before the status": (b"HTTP/1.1  200 OK\r\nContent-Length: 0\r\n\r\n", Fault.MALFORMED, "status"),
    "no status": (b"HTTP/1.1 \r\nContent-Length: 0\r\n\r\n", Fault.MALFORMED, "status line"),
    "status with a point": (b"HTTP/1.1 200.1 OK\r\nContent-Length: 0\r\n\r\n", Fault.MALFORMED, "status line"),
    "blank line first": (b"\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", Fault.MALFORMED, "not HTTP/1"),
    "another protocol": (b"ICY 200 OK\r\n\r\n", Fault.MALFORMED, "not HTTP/1"),
    "frames of HTTP/2": (b"\0\0\0\x04\0\0\0\0\0" + b"\0\0\x08\x07\0" + bytes(12), Fault.MALFORMED, "not HTTP/1"),
    "1xx, then HTTP/0.9": (b"HTTP/1.1 100 Continue\r\n\r\n<html>", Fault.MALFORMED, "not HTTP/1"),
    "1xx with a folded line": (b"HTTP/1.1 103 Early\r\nA: b\r\n c\r\n\r\n", Fault.MALFORMED, "header line"),
    "line without a colon": (b"HTTP/1.1 200 OK\r\nServer\r\nContent-Length: 0\r\n\r\n", Fault.MALFORMED, "header line"),
    "space in a name": (b"HTTP/1.1 200 OK\r\nA B: c\r\nContent-Length: 0\r\n\r\n", Fault.MALFORMED, "header line"),
    "length in hex": (b"HTTP/1.1 200 OK\r\nContent-Length: 0x3\r\n\r\nabc", Fault.MALFORMED, "not a length"),
    "length of 19 digits": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000000003\r\n\r\nabc",
        Fault.MALFORMED,
        "not a length",
    ),
    "identity": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: identity\r\n\r\nabc",
        Fault.FRAMING,
        "other than chunked",
    ),
    "chunked with a parameter": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n",
        Fault.FRAMING,
        "other than chunked",
    ),
    "no chunk size": (_CHUNKED + b"\r\nhello\r\n0\r\n\r\n", Fault.MALFORMED, "chunks"),
    "chunk size in C's hex": (_CHUNKED + b"0x5\r\nhello\r\n0\r\n\r\n", Fault.MALFORMED, "chunks"),
    "chunk size of 21 digits": (_CHUNKED + b"0" * 20 + b"5\r\nhello\r\n0\r\n\r\n", Fault.MALFORMED, "chunks"),
    "chunk size that is signed": (_CHUNKED + b"+5\r\nhello\r\n0\r\n\r\n", Fault.MALFORMED, "chunks"),
    "chunk shorter than its size": (_CHUNKED + b"9\r\nhello\r\n0\r\n\r\nxx", Fault.MALFORMED, "chunks"),
    "chunk without its end": (_CHUNKED + b"5\r\nhello0\r\n\r\n", Fault.MALFORMED, "chunks"),
    "chunk extension over the limit": (_CHUNKED + b"5;a=" + b"a" * 200_000, Fault.MALFORMED, "chunks"),
    "trailer that is malformed": (_CHUNKED + b"0\r\nA b\r\n\r\n", Fault.MALFORMED, "chunks"),
    "trailers over the limit": (_CHUNKED + b"0\r\n" + b"A: a\r\n" * 40_000, Fault.MALFORMED, "chunks"),
    "last chunk ended by a bare LF": (_CHUNKED + b"5\r\nhello\r\n0\r\n\n", Fault.MALFORMED, "chunks"),
    "trailers ended by a bare LF": (_CHUNKED + b"0\r\nA: b\r\n\n", Fault.MALFORMED, "chunks"),
    "trailer ended by a bare LF": (_CHUNKED + b"0\r\nA: b\n\r\n", Fault.MALFORMED, "chunks"),
}
"""Answers that can never become whole, whatever follows, with the wire's word and reason."""

CUT: dict[str, tuple[bytes, bool]] = {
    "h37 in the status line": (b"HTTP/1.1 200", False),
    "in its first bytes": (b"HT", False),
    "after the status line": (b"HTTP/1.1 200 OK\r\n", True),
    "in a header": (b"HTTP/1.1 200 OK\r\nContent-Le", True),
    "h48 huge length": (b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999999999\r\n\r\nabc", True),
    "h51 short body": (b"HTTP/1.1 201 Created\r\nContent-Length: 10000\r\n\r\nfourteen bytes", True),
    "h55 missing last chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", True),
    "in a chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", True),
    "in the trailers": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nA: b\r\n", True),
    "in a final head after 1xx": (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nA: b", True),
    "before a chunk": (_CHUNKED, True),
    "before the end of a chunk": (_CHUNKED + b"5\r\nhello\r", True),
    "in the last chunk": (_CHUNKED + b"5\r\nhello\r\n0\r\n", True),
    "before the last byte": (_CHUNKED + b"5\r\nhello\r\n0\r\n\r", True),
    "chunks that end in bare LF": (_CHUNKED + b"5\nhello\n0\n\n", True),
}
"""Beginnings of answers, and whether a whole status line is among them."""

OPEN_ENDED = b"HTTP/1.1 200 OK\r\n\r\nwhole?"
"""Only the end of the stream can tell where this one ends."""

_GZIP = zlib.compressobj(wbits=31)
ZIPPED = _GZIP.compress(b"hello" * 100) + _GZIP.flush()
_BOMB = zlib.compressobj(wbits=31)
BOMB_BYTES = 50 * 1024 * 1024
BOMB = _BOMB.compress(bytes(BOMB_BYTES)) + _BOMB.flush()

CODED: dict[str, tuple[bytes, bytes]] = {
    "h60 truncated": (b"gzip", ZIPPED[:-6]),
    "h61 bad CRC": (b"gzip", ZIPPED[:-8] + b"\0\0\0\0" + ZIPPED[-4:]),
    "h62 trailing garbage": (b"gzip", ZIPPED + b"garbage"),
    "h64 unknown coding": (b"zzz", b"?"),
    "h65 bomb": (b"gzip", BOMB),
}
"""Content-Encoding and body of answers that are framed whole; no body decodes."""
