"""Type: the desktop's own two fonts, in sizes relative to its base, in two weights (400 and 600).

Mono is for what a machine sends or checks: URL, command, body, host, record number, time, fingerprint.
"""

from __future__ import annotations

from enum import Enum

from PySide6.QtGui import QFont, QFontDatabase, QFontInfo
from PySide6.QtWidgets import QApplication


class TextStyle(Enum):
    """Pixels added to the base, and the weight."""

    CAPTION = (-2, 400)
    BODY = (0, 400)
    STRONG = (0, 600)
    TITLE = (4, 600)
    DISPLAY = (13, 600)


class MonoStyle(Enum):
    """Pixels added to the base, and the weight."""

    MONO = (-1, 400)
    MONO_STRONG = (-1, 600)
    FINGERPRINT = (2, 700)


DESIGN_PX = 13


def base_px() -> int:
    """The desktop's text size in device-independent pixels: 13 at 10 pt and 96 dpi."""
    return QFontInfo(QApplication.font()).pixelSize()


def scaled(pixels: int) -> int:
    """A measure of the design, which is drawn at a base of 13, under a larger text."""
    return round(pixels * max(base_px() / DESIGN_PX, 1.0))


def font(style: TextStyle = TextStyle.BODY) -> QFont:
    """A text font; its figures have one width, so that a count or a time does not shift while it changes."""
    made = QFont(QApplication.font())
    return _sized(made, *style.value)


def mono_font(style: MonoStyle = MonoStyle.MONO) -> QFont:
    """A font for what a machine sends or checks."""
    made = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
    made.setStyleHint(QFont.StyleHint.Monospace)
    return _sized(made, *style.value)


def _sized(made: QFont, delta: int, weight: int) -> QFont:
    made.setPixelSize(max(base_px() + delta, 8))
    made.setWeight(QFont.Weight(weight))
    made.setFeature(QFont.Tag("tnum"), 1)
    return made
