"""Buttons: a link, a box to tick, and the button that can be pressed only once it is armed."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, QVariantAnimation
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontMetrics,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QPolygonF,
)
from PySide6.QtWidgets import QCheckBox, QPushButton, QRadioButton, QSizePolicy, QStyle, QStyleOptionButton, QWidget

from affidavit.gui import theme
from affidavit.gui.widgets.panel import edge_pen

ENTER_KEYS = (Qt.Key.Key_Return, Qt.Key.Key_Enter)
_ARM_MS = 120


class LinkButton(QPushButton):
    """A button that looks like a link, with an icon before its word where it has one."""

    _ICON, _GAP, _PADDING = 14, 5, 4

    def __init__(self, text: str, icon: str | None = None, parent: QWidget | None = None) -> None:
        super().__init__(text, parent)
        self._icon = icon
        self.setAutoDefault(False)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def sizeHint(self) -> QSize:
        metrics = QFontMetrics(_strong())
        icon = self._ICON + self._GAP if self._icon else 0
        return QSize(metrics.horizontalAdvance(self.text()) + icon + 2 * self._PADDING, max(metrics.height() + 4, 24))

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def paintEvent(self, _event: QPaintEvent) -> None:
        token = "accent" if self.isEnabled() else "ink3"
        painter = QPainter(self)
        left = self._PADDING
        if self._icon:
            picture = theme.pixmap(self._icon, self._ICON, token, self.devicePixelRatioF())
            painter.drawPixmap(left, (self.height() - self._ICON) // 2, picture)
            left += self._ICON + self._GAP
        font = _strong()
        font.setUnderline(self.underMouse() and self.isEnabled())
        painter.setFont(font)
        painter.setPen(QColor(theme.current().colour(token)))
        painter.drawText(self.rect().adjusted(left, 0, 0, 0), Qt.AlignmentFlag.AlignVCenter, self.text())


class TickBox(QCheckBox):
    """A box to tick. The style sheet fills it; the tick is drawn here, in the accent's own counterpart."""

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if not self.isChecked():
            return
        option = QStyleOptionButton()
        self.initStyleOption(option)
        box = QRectF(self.style().subElementRect(QStyle.SubElement.SE_CheckBoxIndicator, option, self))
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        pen = QPen(QColor(theme.current().on_accent), box.width() / 8)
        pen.setCapStyle(Qt.PenCapStyle.RoundCap)
        painter.setPen(pen)
        points = ((0.26, 0.53), (0.43, 0.70), (0.75, 0.33))
        painter.drawPolyline(
            QPolygonF([QPointF(box.x() + x * box.width(), box.y() + y * box.height()) for x, y in points])
        )


class Choice(QRadioButton):
    """One of several things to choose from. The style sheet's round border has corners, so the circle is drawn here."""

    def paintEvent(self, _event: QPaintEvent) -> None:
        colours = theme.current()
        option = QStyleOptionButton()
        self.initStyleOption(option)
        style = self.style()
        box = QRectF(style.subElementRect(QStyle.SubElement.SE_RadioButtonIndicator, option, self))
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setBrush(QColor(colours.base))
        painter.setPen(QPen(QColor(colours.border2), 1))
        if self.isChecked():
            width = box.width() * 0.32
            painter.setBrush(QColor(colours.on_accent))
            painter.setPen(QPen(QColor(colours.accent if self.isEnabled() else colours.ink3), width))
            painter.drawEllipse(box.adjusted(width / 2, width / 2, -width / 2, -width / 2))
        else:
            painter.drawEllipse(box.adjusted(0.5, 0.5, -0.5, -0.5))
        words = style.subElementRect(QStyle.SubElement.SE_RadioButtonContents, option, self)
        painter.setPen(QColor(colours.ink if self.isEnabled() else colours.ink3))
        flags = Qt.AlignmentFlag.AlignVCenter | Qt.TextFlag.TextShowMnemonic
        painter.drawText(words, flags, self.text())


class ArmedButton(QPushButton):
    """The one button that acts. Unarmed it is dashed and does nothing, but can be reached and says why.

    It ignores Enter and has no mnemonic: only Space or a click on it counts, and only if it began while armed, so that
    a key or button held down from before decides nothing.
    """

    _PADDING = 22

    def __init__(self, text: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._armed = False
        self._fill = QVariantAnimation(self)
        self._fill.setDuration(_ARM_MS)
        self._fill.setStartValue(0.0)
        self._fill.setEndValue(1.0)
        self._fill.valueChanged.connect(self.update)
        self.setAutoDefault(False)
        self.setDefault(False)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.set_text(text)

    @property
    def armed(self) -> bool:
        return self._armed

    def set_text(self, text: str) -> None:
        """Name the button; an ampersand in the text is drawn and makes no mnemonic."""
        self.setText(text.replace("&", "&&"))
        self.updateGeometry()

    def set_armed(self, armed: bool) -> None:
        """Arm or disarm it. Disarming drops a press that has not been released yet."""
        if armed == self._armed:
            return
        self._armed = armed
        self._fill.stop()
        if armed and not theme.less_motion() and self.isVisible():
            self._fill.start()
        if not armed:
            self.setDown(False)
        self.setCursor(Qt.CursorShape.PointingHandCursor if armed else Qt.CursorShape.ArrowCursor)
        self.update()

    def sizeHint(self) -> QSize:
        metrics = QFontMetrics(_strong())
        width = metrics.horizontalAdvance(self.text().replace("&&", "&")) + 2 * self._PADDING
        return QSize(width, max(metrics.height() + 12, 32))

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in ENTER_KEYS or (event.key() == Qt.Key.Key_Space and not self._armed):
            event.accept()
        else:
            super().keyPressEvent(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if self._armed:
            super().mousePressEvent(event)
        else:
            event.accept()

    def paintEvent(self, _event: QPaintEvent) -> None:
        colours = theme.current()
        running = self._fill.state() == QVariantAnimation.State.Running
        filled = (float(self._fill.currentValue()) if running else 1.0) if self._armed else 0.0
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        frame = QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(edge_pen("border2", dashed=True) if filled < 1 else Qt.PenStyle.NoPen)
        painter.drawRoundedRect(frame, theme.RADIUS_CONTROL, theme.RADIUS_CONTROL)
        if filled > 0:
            strength = 0.8 if self.isDown() else 0.9 if self.underMouse() else 1.0
            ground = QColor(theme.mixed(colours.accent, colours.ink, strength))
            ground.setAlphaF(filled)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(ground)
            painter.drawRoundedRect(QRectF(self.rect()), theme.RADIUS_CONTROL, theme.RADIUS_CONTROL)
        painter.setFont(_strong())
        painter.setPen(QColor(colours.on_accent if filled > 0.5 else colours.ink3))
        painter.drawText(self.rect(), Qt.AlignmentFlag.AlignCenter, self.text().replace("&&", "&"))


def _strong() -> QFont:
    return theme.font(theme.TextStyle.STRONG)
