"""Content codings: strict ends, a limit, and the rest only for hashing (verdicts, section 2)."""

from __future__ import annotations

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affidavit.broker.decode import PIECE, Decoder, Undecodable

TEXT = b"the target's answer, " * 5000


def bare(data: bytes) -> bytes:
    stream = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return stream.compress(data) + stream.flush()


CODED = {"gzip": gzip.compress(TEXT), "x-gzip": gzip.compress(TEXT), "deflate": zlib.compress(TEXT)}


def decode(coding: str | None, data: bytes, *, step: int = 1000, limit: int = 1 << 20) -> tuple[bytes, str | None]:
    decoder = Decoder(coding, limit)
    out = b"".join(piece for at in range(0, len(data), step) for piece in decoder.feed(data[at : at + step]))
    return out, decoder.finish()


@pytest.mark.parametrize("step", [1, 7, 1 << 20])
@pytest.mark.parametrize(
    ("coding", "data"),
    [*CODED.items(), ("GZIP", CODED["gzip"]), (" gzip , identity", CODED["gzip"]), ("deflate", bare(TEXT))],
)
def test_decodes(coding: str, data: bytes, step: int) -> None:
    assert decode(coding, data, step=step) == (TEXT, None)


@pytest.mark.parametrize("coding", [None, "", "identity"])
def test_no_coding_is_no_limit(coding: str | None) -> None:
    assert decode(coding, TEXT, limit=1) == (TEXT, None)


@pytest.mark.parametrize(
    ("coding", "data", "why"),
    [
        ("br", b"anything", Undecodable.CODING),
        ("zstd", b"anything", Undecodable.CODING),
        ("zzz", b"anything", Undecodable.CODING),
        ("gzip, deflate", b"anything", Undecodable.CODING),
        ("gzip", CODED["gzip"][:-1], Undecodable.CUT),
        ("gzip", CODED["gzip"][:5], Undecodable.CUT),
        ("deflate", b"x", Undecodable.CUT),
        ("deflate", CODED["deflate"][:-4], Undecodable.CUT),
        ("gzip", CODED["gzip"][:-8] + b"\0" * 8, Undecodable.MALFORMED),
        ("gzip", b"plain text", Undecodable.MALFORMED),
        ("deflate", b"plain text", Undecodable.MALFORMED),
        ("gzip", CODED["gzip"] + b"x", Undecodable.TRAILING),
        ("gzip", CODED["gzip"] * 2, Undecodable.TRAILING),
        ("deflate", CODED["deflate"] + b"\0", Undecodable.TRAILING),
    ],
)
@pytest.mark.parametrize("step", [1, 1 << 20])
def test_undecodable(coding: str, data: bytes, why: Undecodable, step: int) -> None:
    out, found = decode(coding, data, step=step)
    assert found is why
    assert TEXT.startswith(out)


def test_a_body_of_no_bytes_is_not_cut() -> None:
    assert decode("gzip", b"") == (b"", None)


def test_a_bomb_stops_at_the_limit_in_small_pieces() -> None:
    bomb = gzip.compress(bytes(50 << 20))
    decoder = Decoder("gzip", 1 << 20)
    pieces = [len(piece) for piece in decoder.feed(bomb)]
    assert decoder.undecodable is Undecodable.LIMIT
    assert max(pieces) <= PIECE
    assert sum(pieces) <= 1 << 20
    assert list(decoder.feed(bomb)) == []
    assert decoder.finish() is Undecodable.LIMIT


def test_output_up_to_the_limit_is_whole() -> None:
    assert decode("gzip", CODED["gzip"], limit=len(TEXT)) == (TEXT, None)
    assert decode("gzip", CODED["gzip"], limit=len(TEXT) - 1)[1] is Undecodable.LIMIT


@given(st.binary(max_size=3 * PIECE), st.integers(1, 5000), st.sampled_from(["gzip", "deflate", "bare"]))
def test_round_trip(data: bytes, step: int, coding: str) -> None:
    coded = {"gzip": gzip.compress, "deflate": zlib.compress, "bare": bare}[coding](data)
    assert decode("gzip" if coding == "gzip" else "deflate", coded, step=step) == (data, None)
