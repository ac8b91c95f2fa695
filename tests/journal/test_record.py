"""The encoding, against the example in docs/journal-format.md, and that no two records share one."""

from __future__ import annotations

import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from affidavit.journal.record import encode_header, genesis, record_hash

DOCUMENT = Path(__file__).parents[2] / "docs" / "journal-format.md"


def test_the_documented_example():
    example = DOCUMENT.read_text().split("## Encoding")[0]
    hashes = re.findall(r"^    ([0-9a-f]{64})$", example, re.MULTILINE)
    header = encode_header(1785000000000000, "DISPATCH_STARTED", "act_1", 1, 0, '[["remote_execution","unknown",1]]')
    assert genesis(b"\x6a" * 16, b"\x70" * 32).hex() == hashes[0]
    assert record_hash(2, header, bytes([0, 1, 2, 3]), b"\x11" * 32).hex() == hashes[-1]
    assert header.hex() in re.sub(r"\s", "", example)


HEADERS = st.tuples(
    st.integers(-(2**63), 2**63 - 1),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.none() | st.text(st.characters(exclude_categories=["Cs"])),
    st.integers(0, 2**63 - 1),
    st.none() | st.integers(0, 2**63 - 1),
    st.none() | st.text(st.characters(exclude_categories=["Cs"])),
)


@given(one=HEADERS, other=HEADERS)
def test_different_headers_differ_in_bytes(one, other):
    assert (encode_header(*one) == encode_header(*other)) == (one == other)


@given(data=st.lists(st.binary(max_size=4), min_size=6, max_size=6))
def test_the_hash_knows_where_one_part_ends(data):
    one = record_hash(1, data[0] + data[1], data[2], data[3])
    other = record_hash(1, data[0], data[1] + data[2], data[3])
    assert (one == other) == (data[1] == b"")
