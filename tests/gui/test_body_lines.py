"""The body is shown whole in both forms; the pretty one only moves white space."""

from __future__ import annotations

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affidavit.gui import texts
from affidavit.gui.body_lines import LONG_LINES, BodyLine, body
from affidavit.gui.runs import Mark, plain, revealed

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


def _texts(lines: tuple[BodyLine, ...] | None) -> list[str]:
    assert lines is not None
    return [plain(line.runs) for line in lines]


def test_json_is_laid_out_field_by_field() -> None:
    shown = body(b'{"a":1,"b":{"c":[true,null]},"d":[],"e":{}}')
    assert shown.kind == texts.BODY_JSON
    assert _texts(shown.pretty) == [
        "{",
        '  "a": 1,',
        '  "b": {',
        '    "c": [',
        "      true,",
        "      null",
        "    ]",
        "  },",
        '  "d": [],',
        '  "e": {}',
        "}",
    ]


def test_values_are_strong_and_keys_are_not() -> None:
    shown = body(b'{"amount":"4900"}').pretty
    assert shown is not None
    marks = {run.text: run.mark for run in shown[1].runs}
    assert marks["amount"] is Mark.SECOND
    assert marks["4900"] is Mark.STRONG


@pytest.mark.parametrize(
    "sent",
    [b'{"a":1,"a":2}', b"[1.0E+400]", b"[0.10000000000000000001]", b'["\\u202e"]', b"[" + b"9" * 5000 + b"]", b'"x"'],
)
def test_spellings_and_repeated_keys_are_kept(sent: bytes) -> None:
    pretty = "".join(_texts(body(sent).pretty))
    assert "".join(pretty.split()) == sent.decode()


@given(VALUES)
def test_the_pretty_form_holds_every_character(value: object) -> None:
    sent = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    shown = body(sent.encode())
    assert json.loads(sent) == value
    drawn = "\n".join(_texts(shown.pretty))
    assert json.loads(drawn) == value
    squeezed = [c for c in drawn if not c.isspace()]
    assert squeezed == [c for c in plain(revealed(sent)) if not c.isspace()]


@pytest.mark.parametrize("sent", [b"[NaN]", b"{'a':1}", b"[1,]", b"[" * 100_000, b"a=1&b=2", b"\xef\xbb\xbf{}"])
def test_what_is_no_json_is_shown_raw(sent: bytes) -> None:
    shown = body(sent)
    assert shown.pretty is None
    assert shown.kind == texts.BODY_TEXT


def test_raw_lines_end_only_at_line_feeds() -> None:
    shown = body("a\r\nb\x0bc\u2028d\re\n".encode())
    assert _texts(shown.raw) == ["a", "bU+000BcU+2028dU+000De", ""]


def test_a_long_line_goes_on_and_says_so() -> None:
    shown = body(b"x" * 2_500)
    assert [(len(plain(line.runs)), line.continues) for line in shown.raw] == [(1000, False), (1000, True), (500, True)]


def test_a_chip_is_never_split() -> None:
    shown = body(("x" * 997 + "\u202e" + "y").encode())
    assert _texts(shown.raw) == ["x" * 997, "U+202Ey"]


def test_bytes_that_are_no_text_are_shown_in_hexadecimal() -> None:
    shown = body(b"\xff\x00PNG" + bytes(14))
    assert shown.kind == texts.BODY_BINARY
    assert _texts(shown.raw) == [
        "00000000  ff 00 50 4e 47 00 00 00 00 00 00 00 00 00 00 00  ..PNG...........",
        "00000010  00 00 00" + " " * 41 + "...",
    ]


def test_size_and_digest_are_of_the_bytes() -> None:
    shown = body("ü".encode())
    assert (shown.size, shown.digest) == (2, hashlib.sha256("ü".encode()).hexdigest())


def test_a_body_over_the_pretty_limit_is_raw_only() -> None:
    sent = json.dumps(["x" * 100] * 3_000).encode()
    assert body(sent).pretty is None


@pytest.mark.parametrize(("lines", "long"), [(LONG_LINES, False), (LONG_LINES + 1, True)])
def test_over_500_lines_a_body_is_long(lines: int, long: bool) -> None:
    assert body(b"\n" * (lines - 1)).is_long is long
