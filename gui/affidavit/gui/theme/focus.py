"""The focus ring: two pixels of accent around whatever has the keyboard, the same on every control."""

from __future__ import annotations

from PySide6.QtCore import QObject, QRectF
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QApplication, QFocusFrame, QWidget

from affidavit.gui.theme import state

RING = 2
"""Width in device-independent pixels; Fusion leaves just that much around a control (PM_FocusFrameHMargin)."""
PLAIN = "no_ring"
"""Dynamic property of a widget that shows its focus in another way (rows of a list, a read-only page)."""


class FocusRing(QFocusFrame):
    """The ring of one window: it follows the focus, lies outside the control, and takes no clicks."""

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        app = QApplication.instance()
        assert isinstance(app, QApplication)
        app.focusChanged.connect(self._follow)

    def _follow(self, _old: QObject | None, new: QObject | None) -> None:
        if isinstance(new, QWidget) and new.window() is self._window and new.property(PLAIN) is None:
            self.setWidget(new)
        else:
            self.hide()

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(QColor(state.current().accent), RING))
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(1, 1, -1, -1), 7, 7)
