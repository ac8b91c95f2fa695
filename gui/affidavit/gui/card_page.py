"""The parts of a card above its decision bar: the head, the middle that may scroll, and the sentence at its end."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from affidavit.gui import texts, theme
from affidavit.gui.card_view import CardView, CredentialView
from affidavit.gui.widgets import (
    BodyView,
    CallerPanel,
    EffectBadge,
    Glyph,
    Label,
    NoticePanel,
    Rule,
    TargetLines,
    ThreeAnswers,
    TimeRing,
)

MARGIN = 20
"""Pixels left and right of everything on a card."""


class CardHead(QWidget):
    """What it is, how many wait, how long; notices; who asks."""

    look_at = Signal(str)
    ticked = Signal(bool)
    compared = Signal(bool)

    def __init__(self, view: CardView) -> None:
        super().__init__()
        self.ring = TimeRing()
        self._queue = Label("", token="ink2")
        self._title = Label(view.title, theme.TextStyle.TITLE, wrap=True)
        self._title.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self._notices = [NoticePanel(notice) for notice in view.notices]
        column = QVBoxLayout(self)
        column.setContentsMargins(MARGIN, 14, MARGIN, 0)
        column.setSpacing(12)
        row = QHBoxLayout()
        row.setSpacing(8)
        row.addWidget(EffectBadge(view.effect))
        row.addWidget(self._title, 1)
        row.addWidget(self._queue)
        row.addSpacing(8)
        row.addWidget(self.ring)
        column.addLayout(row)
        for panel in self._notices:
            panel.look_at.connect(self.look_at)
            panel.ticked.connect(self.ticked)
            panel.compared.connect(self.compared)
            column.addWidget(panel)
        column.addWidget(CallerPanel(view.caller))
        column.addWidget(Rule())

    def set_queue(self, place: int, count: int) -> None:
        """Which of how many waiting cards this is; nothing where it is the only one."""
        self._queue.setText(texts.CARD_QUEUE.format(place=place, count=count) if count > 1 else "")

    def controls(self) -> list[QWidget]:
        """What takes the focus, in order."""
        return [self._title, *(control for panel in self._notices for control in panel.controls())]


class CardMiddle(QWidget):
    """Where it goes, what it carries, with which credential, and what the contract answers."""

    def __init__(self, view: CardView) -> None:
        super().__init__()
        self.body = None if view.body is None else BodyView(view.body)
        self._target = TargetLines(view.target)
        column = QVBoxLayout(self)
        column.setContentsMargins(MARGIN, 12, MARGIN, 14)
        column.setSpacing(8)
        column.addWidget(self._target)
        column.addWidget(self.body or Label(texts.BODY_NONE, theme.TextStyle.CAPTION, "ink3"))
        column.addSpacing(2)
        column.addLayout(_credential(view.credential))
        column.addSpacing(2)
        heads = QHBoxLayout()
        heads.addWidget(Label(view.contract, theme.TextStyle.CAPTION, "ink3"))
        heads.addStretch(1)
        heads.addWidget(Label(view.contract_more, theme.TextStyle.CAPTION, "ink3"))
        answers = QVBoxLayout()
        answers.setSpacing(4)
        answers.addLayout(heads)
        answers.addWidget(ThreeAnswers(view.answers))
        column.addLayout(answers)
        column.addStretch(1)

    def end_on_screen(self) -> bool:
        """Whether the end of the body, or of the target where there is no body, is or was on the screen."""
        if self.body is not None:
            self.body.look()
            return self.body.seen
        return self._target.visibleRegion().boundingRect().bottom() >= self._target.height() - 1

    def controls(self) -> list[QWidget]:
        """What takes the focus, in order."""
        return [] if self.body is None else self.body.controls()


class Farewell(QWidget):
    """What it was, and the one sentence that says why it went away."""

    def __init__(self, view: CardView) -> None:
        super().__init__()
        self._sentence = Label("", wrap=True)
        column = QVBoxLayout(self)
        column.setContentsMargins(MARGIN, 16, MARGIN, 20)
        column.setSpacing(12)
        row = QHBoxLayout()
        row.setSpacing(8)
        row.addWidget(EffectBadge(view.effect))
        row.addWidget(Label(view.title, theme.TextStyle.TITLE, wrap=True), 1)
        column.addLayout(row)
        column.addWidget(self._sentence)

    @property
    def sentence(self) -> str:
        return self._sentence.text()

    def say(self, sentence: str) -> None:
        self._sentence.setText(sentence)


def _credential(shown: CredentialView) -> QHBoxLayout:
    row = QHBoxLayout()
    row.setSpacing(8)
    row.addWidget(Glyph("credentials", 14, "ink2"))
    if shown.name is not None:
        name = Label(shown.name, theme.TextStyle.STRONG)
        name.setAccessibleName(shown.spoken)
        row.addWidget(name)
    for n, part in enumerate(shown.rest):
        if n:
            row.addWidget(Label("·", token="ink3"))
        row.addWidget(Label(part, token="ink2"))
    row.addStretch(1)
    return row
