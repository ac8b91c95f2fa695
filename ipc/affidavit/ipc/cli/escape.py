"""Text from agents and targets, made safe and honest on a terminal.

Whatever could move the cursor, change colours, reorder or hide text is shown as `<U+202E>`, in the manner of the
cards' chips: C0 and C1 controls (ANSI sequences begin with one), bidirectional controls, invisible and format
characters, separators and any white space but the ordinary space, lone surrogates. Everything else stays as it is.
"""

from __future__ import annotations

import re

_SHOWN_AS_CODE = re.compile(
    "["
    "\x00-\x1f\x7f-\x9f"  # C0, DEL, C1
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"  # soft hyphen, joiners, fillers, Arabic letter mark
    "\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2"  # format characters of Arabic and Syriac
    "\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"  # white space that is not the ordinary space
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f"  # zero width, marks, separators, bidi, invisible operators, isolates
    "\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\uffff"  # fillers, variation selectors, byte order mark, specials
    "\ud800-\udfff"  # lone surrogates
    "\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"  # tags and variation selectors
    "]"
)


def escape(text: str, *, keep_lines: bool = False) -> str:
    """`text` with every character that is not plainly visible shown as its code.

    With `keep_lines` line feeds and tabs stay, for bodies that are shown as blocks of their own; everywhere else they
    would let a value pretend to be a line of ours.
    """
    return _SHOWN_AS_CODE.sub(_keeping_lines if keep_lines else _code, text)


def _code(match: re.Match[str]) -> str:
    return f"<U+{ord(match[0]):04X}>"


def _keeping_lines(match: re.Match[str]) -> str:
    return match[0] if match[0] in "\n\t" else _code(match)
