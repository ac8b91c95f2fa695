"""A window that records something under the passphrase: what it is, then go back, or sign.

Enter never signs: in the passphrase field it moves on to the button, which takes Space or a click.
"""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QEvent, QObject, QSize, Qt, Signal, Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QDialog, QFrame, QHBoxLayout, QPushButton, QScrollArea, QVBoxLayout, QWidget

from affidavit.gui import texts_unknown as texts
from affidavit.gui import theme
from affidavit.gui.theme import FocusRing, TextStyle
from affidavit.gui.widgets.fit import fit
from affidavit.gui.widgets.label import Label
from affidavit.gui.widgets.panel import Bar
from affidavit.gui.widgets.passphrase import PassphraseField

WIDTH = 480


@dataclass(frozen=True, slots=True)
class SignWords:
    """What the window says: the button, what Enter does in the field, the missing step, and that it is under way."""

    sign: str
    enter: str
    needed: str
    busy: str
    icon: str


class SignWindow(QDialog):
    """`signed` carries the passphrase, which whoever takes it overwrites. Go back has the focus."""

    signed = Signal(object)
    """The passphrase as a bytearray."""

    def __init__(self, title: str, body: QWidget, words: SignWords, claim: str, parent: QWidget | None = None) -> None:
        """`claim` is what the button records, to assistive tools."""
        super().__init__(parent)
        self.setWindowTitle(title)
        self.setWindowModality(Qt.WindowModality.WindowModal)
        self.bar = _SignBar(words, claim)
        self.bar.signed.connect(self.signed)
        self.bar.back.clicked.connect(self.reject)
        whole = QVBoxLayout(self)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.setSpacing(0)
        whole.addWidget(_Fitted(body), 1)
        whole.addWidget(self.bar)
        self._ring = FocusRing(self)
        fit(self, WIDTH)
        self.bar.back.setFocus()

    def refused(self, sentence: str) -> None:
        """The signature was refused: say why and take another passphrase."""
        self.bar.refused(sentence)

    def overtaken(self, sentence: str) -> None:
        """There is nothing left to sign: say why. Only going back is left."""
        self.bar.overtaken(sentence)

    @Slot()
    def forget(self) -> None:
        """Overwrite what was typed: the vault was locked or opened meanwhile."""
        self.bar.passphrase.clear()

    def reject(self) -> None:
        """Go back, unless the signature is on its way: what was handed over cannot be taken back."""
        if not self.bar.busy:
            super().reject()


class _SignBar(Bar):
    """Passphrase, the one missing step, and the two buttons."""

    signed = Signal(object)

    def __init__(self, words: SignWords, claim: str) -> None:
        super().__init__()
        self._words, self._claim = words, claim
        self.busy = False
        self.passphrase = PassphraseField(description=words.enter)
        self.passphrase.setAccessibleName(texts.PASSPHRASE)
        self.back = QPushButton(texts.GO_BACK)
        self.sign = _SignButton(words.sign, words.icon)
        self.said = Label(style=TextStyle.CAPTION, token="ink2", wrap=True)
        self._lay_out()
        self.passphrase.changed.connect(self._changed)
        self.passphrase.entered.connect(self.sign.setFocus)
        self.sign.clicked.connect(self._give)
        self._changed()

    def overtaken(self, sentence: str) -> None:
        self.passphrase.clear()
        self.passphrase.setEnabled(False)
        self.said.setText(sentence)
        self.sign.setAccessibleDescription(sentence)
        self.back.setFocus()

    def refused(self, sentence: str) -> None:
        self.busy = False
        self.passphrase.setEnabled(True)
        self.back.setEnabled(True)
        self._changed()
        self.said.setText(sentence)
        self.passphrase.setFocus()

    def _lay_out(self) -> None:
        foot = QVBoxLayout(self)
        foot.setContentsMargins(20, 14, 20, 16)
        foot.setSpacing(12)
        field = QHBoxLayout()
        field.setSpacing(12)
        field.addWidget(Label(texts.PASSPHRASE, TextStyle.STRONG))
        field.addWidget(self.passphrase, 1)
        foot.addLayout(field)
        foot.addWidget(self.said)
        buttons = QHBoxLayout()
        buttons.addWidget(self.back)
        buttons.addStretch(1)
        buttons.addWidget(self.sign)
        foot.addLayout(buttons)
        for button in (self.back, self.sign):
            button.setAutoDefault(False)
            button.setMinimumWidth(112)
        theme.tab_order([self.back, self.passphrase, self.sign])

    @Slot()
    def _changed(self) -> None:
        ready = self.passphrase.filled and not self.busy
        self.sign.setEnabled(ready)
        self.said.setText("" if ready else self._words.busy if self.busy else self._words.needed)
        self.sign.setAccessibleDescription(self._claim if ready else self.said.text())

    @Slot()
    def _give(self) -> None:
        passphrase = self.passphrase.take()
        self.busy = True
        self.passphrase.setEnabled(False)
        self.back.setEnabled(False)
        self._changed()
        self.signed.emit(passphrase)


class _SignButton(QPushButton):
    """Takes Space or a click, never Enter."""

    def __init__(self, text: str, icon: str) -> None:
        super().__init__(text)
        self._icon = icon
        self.setProperty("kind", theme.PRIMARY)
        self.setIconSize(QSize(16, 16))

    def setEnabled(self, enabled: bool) -> None:
        super().setEnabled(enabled)
        self.setIcon(theme.icon(self._icon, 16, "on_accent" if enabled else "ink3"))


class _Fitted(QScrollArea):
    """The body at its full height where there is room for it; else it scrolls.

    Sized by hand: a resizable one goes by the minimum of wrapped labels, which is not that of their real width.
    """

    def __init__(self, body: QWidget) -> None:
        super().__init__()
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._body = body
        self.setWidget(body)

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        layout = self._body.layout()
        assert layout is not None
        return layout.totalHeightForWidth(width)

    def minimumSizeHint(self) -> QSize:
        return QSize(200, 120)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if watched is self._body and event.type() == QEvent.Type.LayoutRequest:
            self._fit()
        return super().eventFilter(watched, event)

    def _fit(self) -> None:
        whole = self.maximumViewportSize()
        if self.heightForWidth(whole.width()) <= whole.height():
            self._body.resize(whole)
        else:
            width = self.viewport().width()
            self._body.resize(width, self.heightForWidth(width))
