"""The focus ring: two pixels of accent around whatever has the keyboard, the same on every control.

Not a QFocusFrame: that masks itself by a rectangle, which cuts round corners, and lies in the control's own parent,
which cuts the ring where a control fills it.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from weakref import WeakSet

import shiboken6
from PySide6.QtCore import QEvent, QObject, QPoint, QRect, QRectF, Qt, Slot
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QAbstractScrollArea, QApplication, QWidget

from affidavit.gui.theme import state

RING = 2
"""Width in device-independent pixels; it lies just outside the control."""
PLAIN = "no_ring"
"""Dynamic property of a widget that shows its focus in another way (rows of a list, a read-only page)."""
_RADIUS = 7.0
_MOVES = frozenset(
    {QEvent.Type.Move, QEvent.Type.Resize, QEvent.Type.Show, QEvent.Type.Hide, QEvent.Type.LayoutRequest}
)


def tab_order(controls: Iterable[QWidget]) -> None:
    """Let Tab go over these, which are in one window, in this order. Without it, what was built last comes last."""
    for before, after in pairwise(controls):
        QWidget.setTabOrder(before, after)


class FocusRing(QWidget):
    """The ring of one window: it follows the focus, is cut where a scroll area cuts its control, takes no clicks."""

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        self._control: QWidget | None = None
        self._watched: list[QWidget] = []
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.hide()
        _listener().rings.add(self)

    def eventFilter(self, _watched: QObject, event: QEvent) -> bool:
        if event.type() in _MOVES:
            self._place()
        return False

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(QColor(state.current().accent), RING))
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(1, 1, -1, -1), _RADIUS, _RADIUS)

    def follow(self, new: QWidget | None) -> None:
        """The keyboard went to `new`."""
        for watched in filter(shiboken6.isValid, self._watched):
            watched.removeEventFilter(self)
        self._watched = []
        inside = new is not None and new.window() is self._window and new is not self._window
        self._control = new if inside and new is not None and new.property(PLAIN) is None else None
        at = self._control
        while at is not None and at is not self._window:
            at.installEventFilter(self)
            self._watched.append(at)
            at = at.parentWidget()
        self._place()

    def _place(self) -> None:
        control = self._control
        if control is None or not shiboken6.isValid(control) or not control.isVisibleTo(self._window):
            self.hide()
            return
        frame = QRect(control.mapTo(self._window, QPoint(0, 0)), control.size())
        frame = frame.adjusted(-RING, -RING, RING, RING)
        shown = frame.intersected(self._clip(control))
        if shown.isEmpty():
            self.hide()
            return
        self.setGeometry(frame)
        self.setMask(shown.translated(-frame.topLeft()))
        self.raise_()
        self.show()

    def _clip(self, control: QWidget) -> QRect:
        """What the scroll areas around a control leave of the window."""
        clip = self._window.rect()
        at = control.parentWidget()
        while at is not None and at is not self._window:
            area = at.parentWidget()
            if isinstance(area, QAbstractScrollArea) and at is area.viewport():
                clip = clip.intersected(QRect(at.mapTo(self._window, QPoint(0, 0)), at.size()))
            at = area
        return clip


class _Listener(QObject):
    """Hears of the focus for all rings. A ring's own connection would be called once more while its window is
    destroyed, when nothing is left of the ring but its C++ half."""

    def __init__(self, app: QApplication) -> None:
        super().__init__(app)
        self.rings: WeakSet[FocusRing] = WeakSet()
        app.focusChanged.connect(self._changed)

    @Slot(QWidget, QWidget)
    def _changed(self, _old: QWidget | None, new: QWidget | None) -> None:
        for ring in list(self.rings):
            if shiboken6.isValid(ring):
                ring.follow(new)


def _listener() -> _Listener:
    app = QApplication.instance()
    assert isinstance(app, QApplication)
    found = app.findChild(_Listener)
    return found if isinstance(found, _Listener) else _Listener(app)
