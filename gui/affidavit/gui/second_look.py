"""The second look: the statement as it will be sealed, what changes and what does not, and the passphrase to sign."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, QSize, Qt, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QDialog, QFrame, QHBoxLayout, QPushButton, QScrollArea, QVBoxLayout, QWidget

from affidavit.gui import texts_unknown as texts
from affidavit.gui import theme
from affidavit.gui.runs import Line, Mark, revealed
from affidavit.gui.theme import FocusRing, TextStyle
from affidavit.gui.unknown_view import Consequence, Statement
from affidavit.gui.widgets.glyph import Glyph
from affidavit.gui.widgets.label import Label, RunsLabel
from affidavit.gui.widgets.panel import Bar, Panel
from affidavit.gui.widgets.passphrase import PassphraseField

WIDTH = 480


class SecondLook(QDialog):
    """One statement. `signed` carries the passphrase, which whoever takes it overwrites; Go back has the focus.

    Enter never signs: in the passphrase field it moves on to the button, which takes Space or a click.
    """

    signed = Signal(object)
    """The passphrase as a bytearray."""

    def __init__(self, statement: Statement, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.statement = statement
        self._busy = False
        self.setWindowTitle(texts.SECOND_LOOK)
        self.setWindowModality(Qt.WindowModality.WindowModal)
        self._passphrase = PassphraseField(description=texts.SIGN_ENTER)
        self._passphrase.setAccessibleName(texts.PASSPHRASE)
        self._back = QPushButton(texts.GO_BACK)
        self._sign = _SignButton(texts.SIGN)
        self._said = Label(style=TextStyle.CAPTION, token="ink2", wrap=True)
        self._lay_out()
        self._passphrase.changed.connect(self._changed)
        self._passphrase.entered.connect(self._sign.setFocus)
        self._back.clicked.connect(self.reject)
        self._sign.clicked.connect(self._give)
        self._ring = FocusRing(self)
        self._changed()
        self._back.setFocus()

    def refused(self, sentence: str) -> None:
        """The signature was refused: say why and take another passphrase."""
        self._busy = False
        self._passphrase.setEnabled(True)
        self._back.setEnabled(True)
        self._changed()
        self._said.setText(sentence)
        self._passphrase.setFocus()

    def done(self, result: int) -> None:
        self._passphrase.clear()
        super().done(result)

    def reject(self) -> None:
        """Go back, unless the statement is on its way: what was handed over cannot be taken back."""
        if not self._busy:
            super().reject()

    def _lay_out(self) -> None:
        body = QWidget()
        column = QVBoxLayout(body)
        column.setContentsMargins(20, 20, 20, 16)
        column.setSpacing(16)
        column.addWidget(Label(texts.SECOND_LOOK, TextStyle.TITLE))
        column.addWidget(_StatementPanel(self.statement))
        lines = QVBoxLayout()
        lines.setSpacing(8)
        for consequence in self.statement.consequences:
            lines.addLayout(_consequence(consequence))
        column.addLayout(lines)
        column.addStretch(1)
        scroll = _Fitted(body)

        bar = Bar()
        foot = QVBoxLayout(bar)
        foot.setContentsMargins(20, 14, 20, 16)
        foot.setSpacing(12)
        field = QHBoxLayout()
        field.setSpacing(12)
        field.addWidget(Label(texts.PASSPHRASE, TextStyle.STRONG))
        field.addWidget(self._passphrase, 1)
        foot.addLayout(field)
        foot.addWidget(self._said)
        buttons = QHBoxLayout()
        buttons.addWidget(self._back)
        buttons.addStretch(1)
        buttons.addWidget(self._sign)
        foot.addLayout(buttons)
        for button in (self._back, self._sign):
            button.setAutoDefault(False)
            button.setMinimumWidth(112)

        whole = QVBoxLayout(self)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.setSpacing(0)
        whole.addWidget(scroll, 1)
        whole.addWidget(bar)
        self.setTabOrder(self._back, self._passphrase)
        self.setTabOrder(self._passphrase, self._sign)
        self.ensurePolished()
        self.setFixedWidth(WIDTH)
        screen = self.screen().availableSize().height()
        self.resize(WIDTH, min(whole.totalHeightForWidth(WIDTH), round(screen * 0.92)))

    def _changed(self) -> None:
        ready = self._passphrase.filled and not self._busy
        self._sign.setEnabled(ready)
        self._said.setText("" if ready else texts.SIGNING if self._busy else texts.PASSPHRASE_NEEDED)
        self._sign.setAccessibleDescription(self.statement.claim if ready else self._said.text())

    def _give(self) -> None:
        passphrase = self._passphrase.take()
        self._busy = True
        self._passphrase.setEnabled(False)
        self._back.setEnabled(False)
        self._changed()
        self.signed.emit(passphrase)


class _SignButton(QPushButton):
    """Takes Space or a click, never Enter."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.setProperty("kind", theme.PRIMARY)
        self.setIconSize(QSize(16, 16))

    def setEnabled(self, enabled: bool) -> None:
        super().setEnabled(enabled)
        self.setIcon(theme.icon("attest", 16, "on_accent" if enabled else "ink3"))


class _StatementPanel(Panel):
    """What will be sealed, word for word; it ends in the line."""

    def __init__(self, statement: Statement) -> None:
        super().__init__()
        column = QVBoxLayout(self)
        column.setContentsMargins(18, 16, 18, 12)
        column.setSpacing(2)
        column.addWidget(Label(texts.LOOKED_AT, TextStyle.CAPTION, "ink3"))
        column.addWidget(RunsLabel(_lines(statement.note)))
        column.addSpacing(8)
        column.addWidget(Label(texts.STATE_THAT, TextStyle.CAPTION, "ink3"))
        column.addWidget(RunsLabel([revealed(statement.claim, Mark.STRONG)]))
        if statement.reference is not None:
            column.addSpacing(8)
            column.addWidget(Label(texts.ATTEST_REFERENCE, TextStyle.CAPTION, "ink3"))
            column.addWidget(RunsLabel([revealed(statement.reference)], mono=True))
        column.addSpacing(10)
        column.addWidget(_Line())
        column.addSpacing(2)
        column.addWidget(Label(statement.signed, TextStyle.CAPTION, "ink2"))


class _Line(QFrame):
    """The line: two pixels of ink. What stands above it is signed below it."""

    def __init__(self) -> None:
        super().__init__()
        self.setFixedHeight(2)

    def paintEvent(self, _event: QPaintEvent) -> None:
        QPainter(self).fillRect(self.rect(), QColor(theme.current().ink))


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


def _consequence(consequence: Consequence) -> QHBoxLayout:
    row = QHBoxLayout()
    row.setSpacing(10)
    icon = "answer-present" if consequence.changes else "answer-missing"
    row.addWidget(Glyph(icon, 14, "ink2"), 0, Qt.AlignmentFlag.AlignTop)
    row.addWidget(Label(consequence.text, token="ink2", wrap=True), 1)
    return row


def _lines(text: str) -> list[Line]:
    """A note of several lines, each as it was typed; control characters other than line ends become chips."""
    return [revealed(line) for line in text.splitlines()]
