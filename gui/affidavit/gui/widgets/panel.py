"""Panels: a solid frame holds what we know, a dashed one what someone says or what is not known."""

from __future__ import annotations

from enum import Enum

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QFrame, QWidget

from affidavit.gui import theme


class PanelKind(Enum):
    """Ground, edge, and whether the edge is dashed; token names, None for no ground."""

    SOLID = ("base", "border", False)
    DASHED = (None, "border2", True)
    SUNKEN = ("sunken", "border2", False)
    AMBER = ("unknown.tint", "unknown.text", False)


class Panel(QFrame):
    """A framed ground with round corners. It paints itself: the dashes of a style sheet break at the corners."""

    def __init__(self, kind: PanelKind = PanelKind.SOLID, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._kind = kind

    def paintEvent(self, _event: QPaintEvent) -> None:
        ground, edge, dashed = self._kind.value
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setBrush(Qt.BrushStyle.NoBrush if ground is None else QColor(theme.current().colour(ground)))
        painter.setPen(edge_pen(edge, dashed=dashed))
        radius = theme.RADIUS_PANEL
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), radius, radius)


class Bar(QFrame):
    """The sunken ground of the decision bar, with a hairline above it."""

    def paintEvent(self, _event: QPaintEvent) -> None:
        colours = theme.current()
        painter = QPainter(self)
        painter.fillRect(self.rect(), QColor(colours.sunken))
        painter.fillRect(0, 0, self.width(), 1, QColor(colours.border))


class Rule(QFrame):
    """A hairline between two parts of a page. It is not the line: that one is ink, and two pixels."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFixedHeight(1)

    def paintEvent(self, _event: QPaintEvent) -> None:
        QPainter(self).fillRect(self.rect(), QColor(theme.current().border))


def edge_pen(token: str, *, dashed: bool) -> QPen:
    """A one pixel edge; dashes of 4 on 3 off."""
    pen = QPen(QColor(theme.current().colour(token)), 1)
    if dashed:
        pen.setDashPattern([4, 3])
        pen.setCapStyle(Qt.PenCapStyle.FlatCap)
    return pen
