"""The time ring: what is left of a card's time, once a second. It is the card's time, not the action's deadline."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetrics, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QLabel, QSizePolicy, QWidget

from affidavit.gui import figures, texts, theme

HURRY_S = 10
"""Under this many seconds the ring becomes a filled pill."""


class TimeRing(QLabel):
    """A ring and `m:ss`; assistive tools read the time in words."""

    _RING, _GAP, _PADDING, _HEIGHT = 16, 6, 7, 24

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._seconds, self._share = 0, 1.0
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    @property
    def seconds(self) -> int:
        return self._seconds

    @property
    def share(self) -> float:
        """How much of the whole time is left, 0 to 1."""
        return self._share

    def set_left(self, seconds: int, share: float) -> None:
        """Show `seconds` left, and `share` (0 to 1) of the whole time as the arc."""
        self._seconds, self._share = max(seconds, 0), min(max(share, 0.0), 1.0)
        self.setText(figures.countdown(self._seconds))
        self.setAccessibleName(texts.CARD_TIME_NAME.format(spoken=figures.spoken(self._seconds)))
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        metrics = QFontMetrics(theme.font(theme.TextStyle.STRONG))
        width = 2 * self._PADDING + self._RING + self._GAP + metrics.horizontalAdvance("0:00")
        width += max(metrics.horizontalAdvance(self.text()) - metrics.horizontalAdvance("0:00"), 0)
        return QSize(width, max(self._HEIGHT, metrics.height() + 6))

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def paintEvent(self, _event: QPaintEvent) -> None:
        colours = theme.current()
        hurry = self._seconds < HURRY_S
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if hurry:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(colours.ink))
            painter.drawRoundedRect(QRectF(self.rect()), self.height() / 2, self.height() / 2)
            painter.setBrush(Qt.BrushStyle.NoBrush)
        left = self._PADDING if hurry else 2 * self._PADDING
        top = (self.height() - self._RING) / 2
        circle = QRectF(left, top, self._RING, self._RING).adjusted(1.5, 1.5, -1.5, -1.5)
        trough = theme.mixed(colours.window, colours.ink, 0.35) if hurry else colours.border
        painter.setPen(QPen(QColor(trough), 2.5))
        painter.drawEllipse(circle)
        arc = QPen(QColor(colours.window if hurry else colours.ink2), 2.5)
        arc.setCapStyle(Qt.PenCapStyle.FlatCap)
        painter.setPen(arc)
        painter.drawArc(circle, 90 * 16, round(360 * 16 * self._share))
        painter.setFont(theme.font(theme.TextStyle.STRONG))
        painter.setPen(QColor(colours.window if hurry else colours.ink))
        words = self.rect().adjusted(left + self._RING + self._GAP, 0, 0, 0)
        painter.drawText(words, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, self.text())
