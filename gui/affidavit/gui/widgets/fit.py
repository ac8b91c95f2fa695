"""The size of a window under any size of text."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget

from affidavit.gui import theme

SCREEN_SHARE = 0.92
"""Of the screen, at most."""


def fitted(window: QWidget, width: int) -> int:
    """A width as drawn in the design, fitted to the size of the text and to the screen."""
    return min(theme.scaled(width), round(window.screen().availableSize().width() * SCREEN_SHARE))


def fit(window: QWidget, width: int) -> None:
    """Fix the `fitted` width and show all of the content where the screen is high enough. For a window whose content is
    complete."""
    window.ensurePolished()
    layout, wide = window.layout(), fitted(window, width)
    assert layout is not None
    window.setFixedWidth(wide)
    most = round(window.screen().availableSize().height() * SCREEN_SHARE)
    window.resize(wide, min(layout.totalHeightForWidth(wide), most))
