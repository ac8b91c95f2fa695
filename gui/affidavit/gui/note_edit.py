"""A field for a few lines of plain text."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QFontMetrics
from PySide6.QtWidgets import QPlainTextEdit, QWidget

_LINES = 2
_EDGES = 18
"""What frame, padding and the document's own margin take of the height."""


class NoteEdit(QPlainTextEdit):
    """Two lines high at least; Tab goes on to the next control."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setTabChangesFocus(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)

    def sizeHint(self) -> QSize:
        return QSize(200, self._height())

    def minimumSizeHint(self) -> QSize:
        return QSize(80, self._height())

    def _height(self) -> int:
        return _LINES * QFontMetrics(self.font()).lineSpacing() + _EDGES
