"""The fingerprint: eight groups of four over the whole width, standing on the line."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QRect, QSize, Qt
from PySide6.QtGui import QColor, QFontMetrics, QPainter, QPaintEvent
from PySide6.QtWidgets import QLabel, QSizePolicy, QWidget

from affidavit.gui import theme

LINE_PX = 2
"""The line: the dispatch boundary. Ink, two pixels, and used for nothing else."""


class Fingerprint(QLabel):
    """Groups of digits on the line. `spoken` is what assistive tools read: group by group, letter by letter."""

    _ABOVE_LINE = 5

    def __init__(self, groups: Sequence[str], spoken: str, parent: QWidget | None = None) -> None:
        super().__init__(spoken, parent)
        self._groups = tuple(groups)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def sizeHint(self) -> QSize:
        metrics = QFontMetrics(theme.mono_font(theme.MonoStyle.FINGERPRINT))
        width = sum(metrics.horizontalAdvance(group + " ") for group in self._groups)
        return QSize(width, metrics.height() + self._ABOVE_LINE + LINE_PX)

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def paintEvent(self, _event: QPaintEvent) -> None:
        ink = QColor(theme.current().ink)
        font = theme.mono_font(theme.MonoStyle.FINGERPRINT)
        metrics = QFontMetrics(font)
        painter = QPainter(self)
        painter.setFont(font)
        painter.setPen(ink)
        widths = [metrics.horizontalAdvance(group) for group in self._groups]
        gap = (self.width() - sum(widths)) / max(len(widths) - 1, 1)
        left = 0.0
        for group, width in zip(self._groups, widths, strict=True):
            painter.drawText(QRect(round(left), 0, width + 1, metrics.height()), Qt.AlignmentFlag.AlignLeft, group)
            left += width + gap
        painter.fillRect(0, self.height() - LINE_PX, self.width(), LINE_PX, ink)
