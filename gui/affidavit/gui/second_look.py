"""The second look: the statement as it will be sealed, what changes and what does not, and the passphrase to sign."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout, QWidget

from affidavit.gui import texts_unknown as texts
from affidavit.gui import theme
from affidavit.gui.runs import Line, Mark, revealed
from affidavit.gui.sign_window import SignWindow, SignWords
from affidavit.gui.theme import TextStyle
from affidavit.gui.unknown_view import Consequence, Statement
from affidavit.gui.widgets.glyph import Glyph
from affidavit.gui.widgets.label import Label, RunsLabel
from affidavit.gui.widgets.panel import Panel

_WORDS = SignWords(texts.SIGN, texts.SIGN_ENTER, texts.PASSPHRASE_NEEDED, texts.SIGNING, icon="attest")


class SecondLook(SignWindow):
    """One statement, word for word, and what follows from it."""

    def __init__(self, statement: Statement, parent: QWidget | None = None) -> None:
        self.statement = statement
        body = QWidget()
        column = QVBoxLayout(body)
        column.setContentsMargins(20, 20, 20, 16)
        column.setSpacing(16)
        column.addWidget(Label(texts.SECOND_LOOK, TextStyle.TITLE))
        column.addWidget(_StatementPanel(statement))
        lines = QVBoxLayout()
        lines.setSpacing(8)
        for consequence in statement.consequences:
            lines.addLayout(_consequence(consequence))
        column.addLayout(lines)
        column.addStretch(1)
        super().__init__(texts.SECOND_LOOK, body, _WORDS, statement.claim, parent)


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
