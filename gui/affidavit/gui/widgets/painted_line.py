"""One line of text in a painted row."""

from __future__ import annotations

from PySide6.QtCore import QRect, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter


def paint_line(painter: QPainter, at: QRect, font: QFont, colour: str, text: str, *, at_end: bool = False) -> None:
    """Draw it in the middle of `at`, elided to its width: the whole text is in the row's tooltip."""
    side = Qt.AlignmentFlag.AlignRight if at_end else Qt.AlignmentFlag.AlignLeft
    painter.setFont(font)
    painter.setPen(QColor(colour))
    shown = QFontMetrics(font).elidedText(text, Qt.TextElideMode.ElideRight, at.width())
    painter.drawText(at, side | Qt.AlignmentFlag.AlignVCenter, shown)
