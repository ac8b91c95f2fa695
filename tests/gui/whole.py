"""Whether a window shows whole what it says, at any text size."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from PySide6.QtCore import QRect
from PySide6.QtGui import QFont
from PySide6.QtWidgets import QAbstractButton, QApplication, QScrollArea, QWidget

from affidavit.gui.widgets.label import Label, RunsLabel


@contextmanager
def text_at_200_percent(app: QApplication) -> Iterator[None]:
    before = app.font()
    font = QFont(before)
    font.setPixelSize(26)
    app.setFont(font)
    try:
        yield
    finally:
        app.setFont(before)


def cut(window: QWidget) -> list[str]:
    """What is not seen whole: texts that have less room than they need, and pages wider than what scrolls them."""
    _settle(window)
    found = []
    for label in (*window.findChildren(Label), *window.findChildren(RunsLabel)):
        needed = label.heightForWidth(label.width()) if label.hasHeightForWidth() else 0
        advance = 0 if label.hasHeightForWidth() else label.fontMetrics().horizontalAdvance(label.text())
        if label.isVisible() and (label.width() < advance or label.height() < needed):
            found.append(label.text())
    for button in window.findChildren(QAbstractButton):
        if button.isVisible() and button.width() < button.minimumSizeHint().width():
            found.append(button.text())
    for area in window.findChildren(QScrollArea):
        if area.isVisible() and area.widget().width() > area.viewport().width():
            found.append(type(area).__name__)
    return found


def _settle(window: QWidget) -> None:
    """Let what is posted lay out anew, until it moves nothing any more."""
    before: list[QRect] = []
    while (now := [widget.geometry() for widget in window.findChildren(QWidget)]) != before:
        before = now
        QApplication.processEvents()
