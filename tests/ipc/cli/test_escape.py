"""What foreign text looks like on a terminal."""

from __future__ import annotations

import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affidavit.ipc.cli.escape import escape


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text, Grüße, 日本語", "plain text, Grüße, 日本語"),
        ("\x1b[31mred\x1b[0m", "<U+001B>[31mred<U+001B>[0m"),
        ("a\rb\x07", "a<U+000D>b<U+0007>"),
        ("\x9b2J", "<U+009B>2J"),
        ("pay \u202eEVIL\u202c", "pay <U+202E>EVIL<U+202C>"),
        ("\u2066x\u2069", "<U+2066>x<U+2069>"),
        ("zero\u200bwidth", "zero<U+200B>width"),
        ("tag\U000e0041", "tag<U+E0041>"),
        ("lone \ud800", "lone <U+D800>"),
        ("a\u00a0b", "a<U+00A0>b"),
        ("line\nnext\ttab", "line<U+000A>next<U+0009>tab"),
    ],
)
def test_what_moves_hides_or_reorders_is_shown_as_its_code(text: str, shown: str) -> None:
    assert escape(text) == shown


def test_a_block_keeps_its_lines_and_nothing_else() -> None:
    assert escape("a\n\tb\r\x0b\u2028", keep_lines=True) == "a\n\tb<U+000D><U+000B><U+2028>"


def test_every_control_format_and_separator_character_is_covered() -> None:
    hidden = {"Cc", "Cf", "Cs", "Zl", "Zp", "Zs"}
    missed = [
        f"U+{code:04X}"
        for code in range(sys.maxunicode + 1)
        if unicodedata.category(chr(code)) in hidden and code != 0x20 and escape(chr(code)) == chr(code)
    ]
    assert missed == []


@given(st.text())
def test_it_is_stable_and_safe(text: str) -> None:
    shown = escape(text)
    assert escape(shown) == shown
    assert all(
        character == " "
        or unicodedata.category(character)[0] not in "CZ"
        or ord(character) > 0xFFFF
        or unicodedata.category(character) in ("Cn", "Co")
        for character in shown
    )
