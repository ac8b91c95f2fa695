"""A field for the vault's passphrase.

Not a QLineEdit: that keeps the passphrase in strings which cannot be overwritten, and tells assistive tools how long
it is. This one keeps bytes, can only be added to at the end, always says the same to whoever asks, and forgets what was
typed as soon as nobody sees it any more, whatever hid it.
"""

from __future__ import annotations

from PySide6.QtCore import QEvent, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFocusEvent,
    QFontMetrics,
    QGuiApplication,
    QHideEvent,
    QInputMethodEvent,
    QKeyEvent,
    QKeySequence,
    QPainter,
    QPaintEvent,
    QPen,
)
from PySide6.QtWidgets import QSizePolicy, QWidget

from affidavit.gui import texts, theme
from affidavit.gui.widgets.buttons import ENTER_KEYS

_LIMIT = 1024
"""Bytes; longer input is not taken."""
_BULLETS = 24
"""At most so many are drawn: enough to see that a key was taken."""


class PassphraseField(QWidget):
    """Bullets for what was typed. Backspace takes one character back, Ctrl+U or Ctrl+Backspace all of them."""

    changed = Signal()
    entered = Signal()
    """Enter was pressed: go on to the next control. It decides nothing."""

    def __init__(self, parent: QWidget | None = None, *, description: str = texts.PASSPHRASE_DESCRIPTION) -> None:
        """`description` says what Enter does here, to assistive tools."""
        super().__init__(parent)
        self._description = description
        self._bytes = bytearray()
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAttribute(Qt.WidgetAttribute.WA_InputMethodEnabled)
        self.setInputMethodHints(
            Qt.InputMethodHint.ImhHiddenText
            | Qt.InputMethodHint.ImhSensitiveData
            | Qt.InputMethodHint.ImhNoPredictiveText
            | Qt.InputMethodHint.ImhNoAutoUppercase
        )
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setCursor(Qt.CursorShape.IBeamCursor)
        self._tell()

    @property
    def filled(self) -> bool:
        return bool(self._bytes)

    def take(self) -> bytearray:
        """Hand over what was typed, as UTF-8, and be empty. Whoever takes it overwrites it."""
        taken, self._bytes = self._bytes, bytearray()
        self._changed()
        return taken

    def clear(self) -> None:
        """Overwrite and forget what was typed."""
        if not self._bytes:
            return
        self._bytes[:] = bytes(len(self._bytes))
        self._bytes = bytearray()
        self._changed()

    def sizeHint(self) -> QSize:
        return QSize(160, max(QFontMetrics(theme.font()).height() + 12, 32))

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        control = event.modifiers() & Qt.KeyboardModifier.ControlModifier
        if event.key() in ENTER_KEYS:
            self.entered.emit()
        elif event.matches(QKeySequence.StandardKey.Paste):
            self._add(QGuiApplication.clipboard().text())
        elif control and event.key() in (Qt.Key.Key_U, Qt.Key.Key_Backspace):
            self.clear()
        elif event.key() == Qt.Key.Key_Backspace:
            self._remove_last()
        elif event.text() and event.text().isprintable() and not control:
            self._add(event.text())
        else:
            event.ignore()
            return
        event.accept()

    def inputMethodEvent(self, event: QInputMethodEvent) -> None:
        self._add(event.commitString())
        event.accept()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self.clear()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.update()

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.update()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self.updateGeometry()

    def paintEvent(self, _event: QPaintEvent) -> None:
        colours = theme.current()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(QColor(colours.border2), 1))
        painter.setBrush(QColor(colours.base))
        painter.drawRoundedRect(
            QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), theme.RADIUS_CONTROL, theme.RADIUS_CONTROL
        )
        size = QFontMetrics(theme.font()).height() * 0.6
        left, middle = 11.0, self.height() / 2
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(colours.ink))
        for _ in range(min(self._characters(), _BULLETS)):
            painter.drawEllipse(QRectF(left, middle - size / 2, size, size))
            left += size + 2
        if self.hasFocus():
            painter.fillRect(QRectF(left + 1, middle - size, 1, 2 * size), QColor(colours.ink))

    def _add(self, text: str) -> None:
        more = bytearray(text.encode("utf-8", "ignore"))
        if more and len(self._bytes) + len(more) <= _LIMIT:
            grown = self._bytes + more
            self._bytes[:] = bytes(len(self._bytes))
            self._bytes = grown
            self._changed()
        more[:] = bytes(len(more))

    def _remove_last(self) -> None:
        while self._bytes:
            last = self._bytes[-1]
            self._bytes[-1] = 0
            del self._bytes[-1]
            if last & 0xC0 != 0x80:
                break
        self._changed()

    def _characters(self) -> int:
        return sum(byte & 0xC0 != 0x80 for byte in self._bytes)

    def _changed(self) -> None:
        self._tell()
        self.update()
        self.changed.emit()

    def _tell(self) -> None:
        """Assistive tools learn whether something was typed, and nothing else."""
        said = texts.PASSPHRASE_FILLED if self._bytes else texts.PASSPHRASE_EMPTY
        self.setAccessibleDescription(f"{said}. {self._description}")
