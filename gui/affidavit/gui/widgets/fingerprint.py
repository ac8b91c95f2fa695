"""The fingerprint: eight groups of four over the whole width, standing on the line."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QRect, QSize, Qt
from PySide6.QtGui import QColor, QFontMetrics, QPainter, QPaintEvent
from PySide6.QtWidgets import QLabel, QSizePolicy, QWidget

from affidavit.gui import theme

LINE_PX = 2
"""The line: the dispatch boundary. Ink, two pixels, and used for nothing else."""


class Groups(QLabel):
    """Groups of characters spread over the whole width. `spoken` is what assistive tools read."""

    _STYLE = theme.MonoStyle.MONO_STRONG
    _BELOW = 0
    """Pixels under the groups."""

    def __init__(self, groups: Sequence[str], spoken: str, parent: QWidget | None = None) -> None:
        super().__init__(spoken, parent)
        self._groups = tuple(groups)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def sizeHint(self) -> QSize:
        metrics = QFontMetrics(theme.mono_font(self._STYLE))
        width = sum(metrics.horizontalAdvance(group + " ") for group in self._groups)
        return QSize(width, metrics.height() + self._BELOW)

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def paintEvent(self, _event: QPaintEvent) -> None:
        font = theme.mono_font(self._STYLE)
        metrics = QFontMetrics(font)
        painter = QPainter(self)
        painter.setFont(font)
        painter.setPen(QColor(theme.current().ink))
        widths = [metrics.horizontalAdvance(group) for group in self._groups]
        gap = (self.width() - sum(widths)) / max(len(widths) - 1, 1)
        left = 0.0
        for group, width in zip(self._groups, widths, strict=True):
            painter.drawText(QRect(round(left), 0, width + 1, metrics.height()), Qt.AlignmentFlag.AlignLeft, group)
            left += width + gap


class Fingerprint(Groups):
    """The dispatch fingerprint's groups of digits, on the line."""

    _STYLE = theme.MonoStyle.FINGERPRINT
    _BELOW = 5 + LINE_PX

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        QPainter(self).fillRect(0, self.height() - LINE_PX, self.width(), LINE_PX, QColor(theme.current().ink))
