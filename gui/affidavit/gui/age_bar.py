"""The age bar: how much of the recovery time is used; past the deadline it is full and hatched (design, Components)."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPainterPath, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from affidavit.broker.terms import Outcome
from affidavit.gui import theme
from affidavit.gui.unknown_view import Age

HEIGHT = 8
"""Of the bar in the detail; the list draws it two lower."""
_STRIPE = 6.0


def paint(painter: QPainter, rect: QRectF, age: Age) -> None:
    """Draw the bar into `rect`: an amber share with its outline in a trough, hatched once the deadline is past."""
    tokens = theme.current()
    amber = tokens.outcome[Outcome.UNKNOWN]
    radius = rect.height() / 2
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(QColor(tokens.trough))
    painter.drawRoundedRect(rect, radius, radius)
    filled = QRectF(rect)
    filled.setWidth(max(rect.height() * 1.5, rect.width() * age.share))
    shape = QPainterPath()
    shape.addRoundedRect(filled.adjusted(0.5, 0.5, -0.5, -0.5), radius - 0.5, radius - 0.5)
    painter.fillPath(shape, QColor(amber.fill))
    if age.past:
        darkest = max((tokens.ink, tokens.base), key=lambda colour: theme.contrast(colour, amber.fill))
        _hatch(painter, shape, QColor(darkest))
    painter.setPen(QPen(QColor(amber.text), 1))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.drawPath(shape)
    painter.restore()


def _hatch(painter: QPainter, shape: QPainterPath, colour: QColor) -> None:
    painter.save()
    painter.setClipPath(shape)
    painter.setPen(QPen(colour, 1.5))
    bounds = shape.boundingRect()
    x = bounds.left() - bounds.height()
    while x < bounds.right():
        painter.drawLine(QPointF(x, bounds.bottom() + 1), QPointF(x + bounds.height() + 2, bounds.top() - 1))
        x += _STRIPE
    painter.restore()


class AgeBar(QWidget):
    """The bar as wide as it may be; its words stand below it in labels, and are its accessible name too."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._age = Age(0.0, False, "", "")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def show_age(self, age: Age) -> None:
        """Show this age."""
        self._age = age
        self.setAccessibleName(age.accessible)
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(120, HEIGHT)

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        paint(painter, QRectF(self.rect()), self._age)
