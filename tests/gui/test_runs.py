"""No character that hides or reorders is drawn as if it were not there."""

from __future__ import annotations

import sys
import unicodedata

import pytest

from affidavit.gui.runs import Mark, Run, plain, revealed

HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
BLANK = {0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0}


def _chips(text: str) -> list[str]:
    return [run.text for run in revealed(text) if run.mark is Mark.CHIP]


def test_every_character_that_is_not_seen_becomes_a_chip_and_no_other() -> None:
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        category = unicodedata.category(character)
        selector = 0xFE00 <= code < 0xFE10 or 0xE0100 <= code < 0xE01F0 or 0x180B <= code < 0x1810
        hidden = category in HIDDEN or (category == "Zs" and character != " ") or code in BLANK or selector
        assert _chips(character) == ([f"U+{code:04X}"] if hidden else []), hex(code)


def test_piled_up_marks_are_cut_off_after_two() -> None:
    assert _chips("e\u0301\u0302") == []
    assert _chips("e" + "\u0301" * 4) == ["U+0301", "U+0301"]


def test_a_reordering_name_is_read_as_it_is_sent() -> None:
    assert revealed("invoice\u202efdp.exe", Mark.STRONG) == (
        Run("invoice", Mark.STRONG),
        Run("U+202E", Mark.CHIP),
        Run("fdp.exe", Mark.STRONG),
    )


@pytest.mark.parametrize("text", ["", "plain", "größe, 東京, Ελλάδα", "\U0001f600"])
def test_ordinary_text_stays_one_run(text: str) -> None:
    assert plain(revealed(text)) == text
    assert len(revealed(text)) == (1 if text else 0)


def test_a_literal_that_looks_like_a_chip_is_no_chip() -> None:
    assert _chips("U+202E") == []
