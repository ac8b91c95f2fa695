"""The colours, by name, for a light and a dark scheme; plain data, no Qt.

Colour belongs to outcomes: green, vermilion, amber and slate are theirs alone. Everything else is ink, weight, an icon
and words; the accent marks focus, selection, links and the one button that acts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType

from affidavit.broker.terms import Outcome


class Scheme(StrEnum):
    """Which of the two sets of colours is on the screen."""

    LIGHT = "light"
    DARK = "dark"


@dataclass(frozen=True, slots=True)
class OutcomeColours:
    """One outcome's colours, `#rrggbb`. `fill` may be under 3:1 on its ground: it always carries an outline."""

    text: str
    fill: str
    tint: str


@dataclass(frozen=True, slots=True)
class Tokens:
    """Every colour a window may use, `#rrggbb`.

    `sunken` is the decision bar and the wizard's rail, `trough` what a bar lies in; `border` edges panels, `border2`
    controls and dashes (3:1 and more on `base`).
    """

    window: str
    base: str
    raised: str
    sunken: str
    trough: str
    border: str
    border2: str
    ink: str
    ink2: str
    ink3: str
    accent: str
    on_accent: str
    accent_tint: str
    outcome: Mapping[Outcome, OutcomeColours]

    def colour(self, token: str) -> str:
        """The colour of a token by name: a field such as `ink2`, or `unknown.text` for an outcome's.

        Raises KeyError for a name that is no colour.
        """
        word, dot, part = token.partition(".")
        if dot:
            return str(getattr(self.outcome[Outcome(word)], part))
        value = getattr(self, word, None)
        if not isinstance(value, str):
            raise KeyError(token)
        return value


_LIGHT = Tokens(
    window="#f1f1f4",
    base="#ffffff",
    raised="#ffffff",
    sunken="#e9e9ee",
    trough="#e9e9ee",
    border="#d3d4dc",
    border2="#858896",
    ink="#1a1b24",
    ink2="#4c4f5c",
    ink3="#5f6370",
    accent="#4a3da8",
    on_accent="#ffffff",
    accent_tint="#e9e7f6",
    outcome=MappingProxyType(
        {
            Outcome.COMMITTED: OutcomeColours("#0a6a4d", "#0f7d5c", "#e0f2eb"),
            Outcome.REJECTED: OutcomeColours("#b23c0a", "#d1501a", "#fbe9e1"),
            Outcome.UNKNOWN: OutcomeColours("#855600", "#f2b01e", "#fff3d6"),
            Outcome.NOT_ATTEMPTED: OutcomeColours("#4b5f7e", "#7b90b1", "#e8edf4"),
        }
    ),
)
_DARK = Tokens(
    window="#1c1d23",
    base="#15161b",
    raised="#25262e",
    sunken="#121317",
    trough="#3a3c47",
    border="#3a3c47",
    border2="#747888",
    ink="#ecedf2",
    ink2="#b9bcc8",
    ink3="#9196a6",
    accent="#b3a8f7",
    on_accent="#15161b",
    accent_tint="#2d2a47",
    outcome=MappingProxyType(
        {
            Outcome.COMMITTED: OutcomeColours("#55cfa3", "#2fae84", "#17322a"),
            Outcome.REJECTED: OutcomeColours("#ff9a70", "#e2622b", "#3c241b"),
            Outcome.UNKNOWN: OutcomeColours("#f6c34d", "#f6c34d", "#382d14"),
            Outcome.NOT_ATTEMPTED: OutcomeColours("#a3b6d3", "#6f86a8", "#252c38"),
        }
    ),
)
_TOKENS = {Scheme.LIGHT: _LIGHT, Scheme.DARK: _DARK}

TEXT_CONTRAST = 4.5
"""Least ratio of text to its ground (WCAG 2.2, 1.4.3)."""
CONTROL_CONTRAST = 3.0
"""Least ratio of a control's edge to its ground (WCAG 2.2, 1.4.11)."""
_OUTCOME_DISTANCE = 25.0
"""Nearer than this (CIE76) to an outcome's colour, an accent would be taken for that outcome."""


def tokens(scheme: Scheme) -> Tokens:
    """The colours of a scheme."""
    return _TOKENS[scheme]


def with_accent(scheme: Scheme, accent: str | None) -> Tokens:
    """A scheme's colours with the desktop's own accent where that can be read and is no outcome's colour; else ours."""
    ours = _TOKENS[scheme]
    if accent is None or contrast(accent, ours.base) < TEXT_CONTRAST:
        return ours
    taken = [colour for o in ours.outcome.values() for colour in (o.text, o.fill)]
    if min(_distance(accent, colour) for colour in taken) < _OUTCOME_DISTANCE:
        return ours
    on_accent = max((ours.base, ours.ink), key=lambda colour: contrast(colour, accent))
    return replace(ours, accent=accent, on_accent=on_accent, accent_tint=mixed(accent, ours.base, 0.12))


def contrast(one: str, other: str) -> float:
    """The contrast ratio of two colours, 1 to 21 (WCAG 2.2)."""
    low, high = sorted((_luminance(one), _luminance(other)))
    return (high + 0.05) / (low + 0.05)


def mixed(colour: str, ground: str, share: float) -> str:
    """`colour` laid over `ground` with an opacity of `share`, 0 to 1."""
    pairs = zip(_channels(colour), _channels(ground), strict=True)
    return "#" + "".join(f"{round(share * top + (1 - share) * below):02x}" for top, below in pairs)


def _channels(colour: str) -> tuple[int, int, int]:
    red, green, blue = bytes.fromhex(colour.removeprefix("#"))
    return red, green, blue


def _linear(colour: str) -> tuple[float, float, float]:
    def one(channel: int) -> float:
        share = channel / 255
        return share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4

    red, green, blue = _channels(colour)
    return one(red), one(green), one(blue)


def _luminance(colour: str) -> float:
    red, green, blue = _linear(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _lab(colour: str) -> tuple[float, float, float]:
    """CIE L*a*b* under D65."""
    red, green, blue = _linear(colour)
    x = (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.9505
    y = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    z = (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.0890

    def root(t: float) -> float:
        return t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116

    return 116 * root(y) - 16, 500 * (root(x) - root(y)), 200 * (root(y) - root(z))


def _distance(one: str, other: str) -> float:
    return math.dist(_lab(one), _lab(other))
