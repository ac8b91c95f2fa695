"""The three answers of a contract: one frame, three cells, each with a check or with dashes and amber words."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QVBoxLayout, QWidget

from affidavit.gui import theme
from affidavit.gui.card_view import AnswerView
from affidavit.gui.widgets.glyph import Glyph
from affidavit.gui.widgets.label import Label
from affidavit.gui.widgets.panel import Panel


class ThreeAnswers(Panel):
    """Three cells side by side. A missing answer may be amber: it is what leads to an unknown outcome."""

    def __init__(self, answers: Sequence[AnswerView], parent: QWidget | None = None) -> None:
        super().__init__(parent=parent)
        self._cells = [_Cell(answer) for answer in answers]
        grid = QGridLayout(self)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setSpacing(0)
        for column, cell in enumerate(self._cells):
            grid.addWidget(cell, 0, column)
            grid.setColumnStretch(column, 1)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        painter = QPainter(self)
        for cell in self._cells[1:]:
            painter.fillRect(cell.x(), 1, 1, self.height() - 2, QColor(theme.current().border))


class _Cell(QWidget):
    def __init__(self, answer: AnswerView) -> None:
        super().__init__()
        column = QVBoxLayout(self)
        column.setContentsMargins(11, 8, 9, 10)
        column.setSpacing(4)
        head = QHBoxLayout()
        head.setSpacing(5)
        icon, token = ("answer-present", "ink") if answer.present else ("answer-missing", "unknown.text")
        head.addWidget(Glyph(icon, 14, token))
        head.addWidget(Label(answer.question, theme.TextStyle.CAPTION, "ink3"), 1)
        column.addLayout(head)
        words = Label(answer.text, token="ink" if answer.present else "unknown.text", wrap=True)
        words.setAccessibleName(answer.spoken)
        column.addWidget(words)
        column.addStretch(1)
