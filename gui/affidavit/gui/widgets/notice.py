"""A notice: amber where an unknown outcome exists, else ink; a bold sentence, a plain one, an action, a tick."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from affidavit.broker.terms import Outcome
from affidavit.gui import texts, theme
from affidavit.gui.card_view import NoticeView
from affidavit.gui.widgets.buttons import TickBox
from affidavit.gui.widgets.glyph import Glyph, OutcomeGlyph
from affidavit.gui.widgets.label import Label
from affidavit.gui.widgets.panel import Panel, PanelKind


class NoticePanel(Panel):
    """One notice above the caller."""

    look_at = Signal(str)
    """The invocation id of the unknown outcome that the person wants to see first."""
    ticked = Signal(bool)

    def __init__(self, notice: NoticeView, parent: QWidget | None = None) -> None:
        super().__init__(PanelKind.AMBER if notice.amber else PanelKind.SUNKEN, parent)
        self._look_at = notice.look_at
        self._controls: list[QWidget] = []
        row = QHBoxLayout(self)
        row.setContentsMargins(12, 10, 12, 10)
        row.setSpacing(10)
        glyph = OutcomeGlyph(Outcome.UNKNOWN, 16) if notice.amber else Glyph("warning", 16, "ink")
        side = QVBoxLayout()
        side.setContentsMargins(0, 1, 0, 0)
        side.addWidget(glyph)
        side.addStretch(1)
        row.addLayout(side)
        column = QVBoxLayout()
        column.setSpacing(3)
        column.addWidget(Label(notice.bold, theme.TextStyle.STRONG, wrap=True))
        column.addWidget(Label(notice.more, wrap=True))
        actions = self._actions(notice)
        if actions is not None:
            column.addSpacing(3)
            column.addLayout(actions)
        row.addLayout(column, 1)

    def controls(self) -> list[QWidget]:
        """What takes the focus, in order."""
        return list(self._controls)

    def _actions(self, notice: NoticeView) -> QHBoxLayout | None:
        if notice.look_at is None and notice.tick is None:
            return None
        row = QHBoxLayout()
        row.setSpacing(16)
        if notice.look_at is not None:
            look = QPushButton(texts.NOTICE_LOOK)
            look.setProperty("kind", theme.SMALL)
            look.setAutoDefault(False)
            look.setAccessibleDescription(notice.look_description)
            look.clicked.connect(self._look)
            row.addWidget(look)
            self._controls.append(look)
        if notice.tick is not None:
            box = TickBox(notice.tick.replace("&", "&&"))
            box.setAccessibleDescription(texts.TICK_DESCRIPTION)
            box.toggled.connect(self.ticked)
            row.addWidget(box, 1)
            self._controls.append(box)
        else:
            row.addStretch(1)
        return row

    def _look(self) -> None:
        self.look_at.emit(self._look_at)
