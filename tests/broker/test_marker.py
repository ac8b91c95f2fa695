"""What of an output counts as the marker, however it is cut into parts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affidavit.broker.marker import Marker

LINE = b"released op-1"


def fed(*parts: bytes) -> bool:
    marker = Marker(LINE)
    for part in parts:
        marker.feed(part)
    return marker.last


@pytest.mark.parametrize(
    ("output", "last"),
    [
        (b"released op-1\n", True),
        (b"one\ntwo\nreleased op-1\n", True),
        (b"released op-1\nreleased op-1\n", True),
        (b"\nreleased op-1\n", True),
        (b"", False),
        (b"released op-1", False),
        (b"one\nreleased op-1", False),
        (b"released op-1\n\n", False),
        (b"released op-1\nmore\n", False),
        (b"released op-1\nmore", False),
        (b"not released op-1\n", False),
        (b"released op-11\n", False),
        (b"released op-1 \n", False),
        (b"released op-1\r\n", False),
        (b"\0released op-1\n", False),
        (b"released op-2\n", False),
    ],
)
def test_only_a_whole_last_line_counts(output: bytes, last: bool) -> None:
    assert fed(output) is last
    assert fed(*(bytes([byte]) for byte in output)) is last


@given(st.lists(st.sampled_from([b"", b"\n", b"x", b"released ", b"op-1", b"released op-1\n", b"x" * 100])))
def test_it_says_of_parts_what_it_says_of_the_whole(parts: list[bytes]) -> None:
    whole = b"".join(parts)
    assert fed(*parts) is (b"\n" + whole).endswith(b"\n" + LINE + b"\n")
