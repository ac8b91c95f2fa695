"""Foreign text made safe to look at: runs of one style each, with every character that hides or reorders made visible.

What agents and targets send is drawn as plain text only. Control, bidi and invisible characters, spaces that are not
the ordinary one, and piled-up combining marks become chips such as `U+202E`, so that what is read is what is sent.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum, auto


class Mark(Enum):
    """How a run looks."""

    TEXT = auto()
    SECOND = auto()
    FAINT = auto()
    STRONG = auto()
    VALUE = auto()
    CHIP = auto()
    """Stands for one character that would not be seen, or not in its place."""


@dataclass(frozen=True, slots=True)
class Run:
    text: str
    mark: Mark = Mark.TEXT
    changed: bool = False
    """Underlined: not as in the last approved call."""


Line = tuple[Run, ...]

_BLANK = frozenset(
    map(chr, [0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), 0x2800, 0x3164, *range(0xFE00, 0xFE10)])
) | frozenset(map(chr, [0xFFA0, *range(0xE0100, 0xE01F0)]))
"""Printable by their category, and yet they draw nothing: the grapheme joiner, Hangul fillers, Khmer inherent vowels,
variation selectors, the blank Braille pattern."""
_MARKS_ON_ONE = 2
"""Combining marks that one letter may carry; Vietnamese needs two, more of them paint over other lines."""
_WORTH_A_LOOK = re.compile("[^\x00-\u02ff\u0370-\u0482\u048a-\u0590\u4e00-\u9fff\uac00-\ud7a3]")
"""Outside Latin, Greek, Cyrillic, Han and Hangul letters: only there do blanks and combining marks lie."""


def _is_hidden(character: str, marks_before: int) -> bool:
    """str.isprintable is False for control, format, surrogate, private and unassigned characters, and odd spaces."""
    return not character.isprintable() or character in _BLANK or marks_before >= _MARKS_ON_ONE


def revealed(text: str, mark: Mark = Mark.TEXT) -> Line:
    """`text` in runs of `mark`, with a chip for each character that would not be seen."""
    if text.isprintable() and not _WORTH_A_LOOK.search(text):
        return (Run(text, mark),) if text else ()
    runs: list[Run] = []
    start = marks = 0
    for at, character in enumerate(text):
        combining = unicodedata.category(character) in ("Mn", "Me")
        if _is_hidden(character, marks if combining else 0):
            if at > start:
                runs.append(Run(text[start:at], mark))
            runs.append(Run(f"U+{ord(character):04X}", Mark.CHIP))
            start = at + 1
        marks = marks + 1 if combining else 0
    if start < len(text):
        runs.append(Run(text[start:], mark))
    return tuple(runs)


def underlined(line: Line) -> Line:
    """The same runs, as changed ones."""
    return tuple(replace(run, changed=True) for run in line)


def plain(line: Iterable[Run]) -> str:
    """A line's text without its looks, chips by their code point: what a screen reader reads."""
    return "".join(run.text for run in line)
