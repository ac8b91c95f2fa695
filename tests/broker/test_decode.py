"""Content codings: strict ends, a limit, and the rest only for hashing (verdicts, section 2)."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from affidavit.broker.decode import PIECE, Decoder, Undecodable

TEXT = b"the target's answer, " * 5000


def bare(data: bytes) -> bytes:
    stream = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return stream.compress(data) + stream.flush()


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(data)


CODED = {
    "gzip": gzip.compress(TEXT),
    "x-gzip": gzip.compress(TEXT),
    "deflate": zlib.compress(TEXT),
    "br": brotli.compress(TEXT),
    "zstd": zstd(TEXT),
}


def decode(coding: str | None, data: bytes, *, step: int = 1000, limit: int = 1 << 20) -> tuple[bytes, str | None]:
    decoder = Decoder(coding, limit)
    out = b"".join(piece for at in range(0, len(data), step) for piece in decoder.feed(data[at : at + step]))
    return out, decoder.finish()


@pytest.mark.parametrize("step", [1, 7, 1 << 20])
@pytest.mark.parametrize(
    ("coding", "data"),
    [
        *CODED.items(),
        ("GZIP", CODED["gzip"]),
        (" gzip , identity", CODED["gzip"]),
        ("deflate", bare(TEXT)),
        ("gzip, br", brotli.compress(CODED["gzip"])),
        ("zstd,, gzip", gzip.compress(CODED["zstd"])),
        ("deflate, deflate", zlib.compress(CODED["deflate"])),
    ],
)
def test_decodes(coding: str, data: bytes, step: int) -> None:
    assert decode(coding, data, step=step) == (TEXT, None)


@pytest.mark.parametrize("coding", [None, "", "identity"])
def test_no_coding_is_no_limit(coding: str | None) -> None:
    assert decode(coding, TEXT, limit=1) == (TEXT, None)


@pytest.mark.parametrize(
    ("coding", "data", "why"),
    [
        ("zzz", b"anything", Undecodable.CODING),
        ("gzip, zzz", b"anything", Undecodable.CODING),
        ("gzip, gzip, gzip", b"anything", Undecodable.CODING),
        ("gzip, br", CODED["gzip"], Undecodable.MALFORMED),
        ("gzip, br", brotli.compress(CODED["gzip"][:-1]), Undecodable.CUT),
        ("gzip, br", brotli.compress(CODED["gzip"])[:-1], Undecodable.CUT),
        ("gzip, br", brotli.compress(CODED["gzip"] + b"x"), Undecodable.TRAILING),
        ("br", CODED["br"][:-1], Undecodable.CUT),
        ("br", b"plain text nonsense", Undecodable.MALFORMED),
        ("zstd", CODED["zstd"][:-1], Undecodable.CUT),
        ("zstd", CODED["zstd"][:3], Undecodable.CUT),
        ("zstd", CODED["zstd"][:-4] + b"\0" * 4, Undecodable.MALFORMED),
        ("zstd", b"plain text", Undecodable.MALFORMED),
        ("zstd", CODED["zstd"] + b"x", Undecodable.TRAILING),
        ("zstd", CODED["zstd"] * 2, Undecodable.TRAILING),
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


@pytest.mark.parametrize("step", [1, 100, 1 << 20])
@pytest.mark.parametrize("coding", ["gzip", "deflate"])
def test_what_was_good_of_a_malformed_body_is_put_out(coding: str, step: int) -> None:
    """Whoever asks for less than a right checksum reads it, so redaction has to see it."""
    wrong = CODED[coding][:-4] + bytes(4)
    assert decode(coding, wrong, step=step) == (TEXT, Undecodable.MALFORMED)


def test_a_body_of_no_bytes_is_not_cut() -> None:
    assert decode("gzip", b"") == (b"", None)


def test_bytes_behind_the_end_of_brotli_are_refused_however_they_come() -> None:
    assert decode("br", CODED["br"] + b"x", step=len(CODED["br"]))[1] is Undecodable.TRAILING
    assert decode("br", CODED["br"] + b"x", step=1 << 20)[1] is Undecodable.MALFORMED  # the library tells no more


ZEROS = bytes(50 << 20)
WIDE = zstandard.ZstdCompressionParameters.from_level(3, window_log=27)
BOMBS = {
    "gzip": gzip.compress(ZEROS),
    "deflate": bare(ZEROS),
    "br": brotli.compress(ZEROS, quality=5),
    "zstd": zstandard.ZstdCompressor(level=3).compress(ZEROS),
    "gzip, zstd": zstd(gzip.compress(ZEROS)),
}


@pytest.mark.parametrize("coding", BOMBS)
def test_a_bomb_stops_at_the_limit_in_small_pieces(coding: str) -> None:
    decoder = Decoder(coding, 1 << 20)
    tracemalloc.start()
    try:
        pieces = [len(piece) for piece in decoder.feed(BOMBS[coding])]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert decoder.undecodable is Undecodable.LIMIT
    assert max(pieces) <= PIECE
    assert sum(pieces) <= 1 << 20
    assert peak < 20 << 20
    assert list(decoder.feed(BOMBS[coding])) == []
    assert decoder.finish() is Undecodable.LIMIT


def test_a_window_that_a_reader_need_not_hold_is_refused() -> None:
    wide = zstandard.ZstdCompressor(compression_params=WIDE).compress(ZEROS)
    assert decode("zstd", wide, limit=1 << 30)[1] is Undecodable.MALFORMED


def test_output_up_to_the_limit_is_whole() -> None:
    assert decode("gzip", CODED["gzip"], limit=len(TEXT)) == (TEXT, None)
    assert decode("gzip", CODED["gzip"], limit=len(TEXT) - 1)[1] is Undecodable.LIMIT


ENCODERS = {"gzip": gzip.compress, "deflate": zlib.compress, "bare": bare, "br": brotli.compress, "zstd": zstd}


@given(st.binary(max_size=3 * PIECE), st.integers(1, 5000), st.sampled_from(list(ENCODERS)))
def test_round_trip(data: bytes, step: int, coding: str) -> None:
    coded = ENCODERS[coding](data)
    assert decode("deflate" if coding == "bare" else coding, coded, step=step) == (data, None)
