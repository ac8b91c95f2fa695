"""A notice: amber where an unknown outcome exists, else ink; a bold sentence, a plain one, an action, a tick."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QLineEdit, QPushButton, QVBoxLayout, QWidget

from affidavit.broker.terms import Outcome
from affidavit.gui import texts, theme
from affidavit.gui.card_view import NoticeView
from affidavit.gui.host_key import HostKeyView
from affidavit.gui.widgets.buttons import TickBox
from affidavit.gui.widgets.fingerprint import Groups
from affidavit.gui.widgets.glyph import Glyph, OutcomeGlyph
from affidavit.gui.widgets.label import Label
from affidavit.gui.widgets.panel import Panel, PanelKind

PASTED_CHARS = 1000
"""Of a pasted fingerprint; a line of `ssh-keygen -l` with a long comment is far shorter."""


class NoticePanel(Panel):
    """One notice above the caller."""

    look_at = Signal(str)
    """The invocation id of the unknown outcome that the person wants to see first."""
    ticked = Signal(bool)
    compared = Signal(bool)
    """Whether what is pasted beside a host key is another one."""

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
        if notice.host_key is not None:
            self._add_key(column, notice.host_key)
        actions = self._actions(notice)
        if actions is not None:
            column.addSpacing(3)
            column.addLayout(actions)
        row.addLayout(column, 1)

    def controls(self) -> list[QWidget]:
        """What takes the focus, in order."""
        return list(self._controls)

    def _add_key(self, column: QVBoxLayout, key: HostKeyView) -> None:
        self._key = key
        self._pasted = QLineEdit()
        self._pasted.setPlaceholderText(texts.NOTICE_NEW_KEY_HINT)
        self._pasted.setMaxLength(PASTED_CHARS)
        self._pasted.setAccessibleName(texts.NOTICE_NEW_KEY_FIELD)
        self._pasted.setAccessibleDescription(texts.NOTICE_NEW_KEY_HINT)
        self._pasted.textChanged.connect(self._compare)
        self._compared = Label(style=theme.TextStyle.STRONG)
        self._compared.hide()
        self._controls.append(self._pasted)
        spoken = ", ".join(" ".join(group) for group in key.groups)
        column.addSpacing(3)
        column.addWidget(Label(key.about, theme.TextStyle.CAPTION, "ink2", wrap=True))
        column.addWidget(Groups(key.groups, texts.NOTICE_NEW_KEY_SPOKEN.format(about=key.about, groups=spoken)))
        column.addSpacing(3)
        column.addWidget(self._pasted)
        column.addWidget(self._compared)

    def _compare(self, pasted: str) -> None:
        same = self._key.same_as(pasted)
        self._compared.setText(texts.NOTICE_NEW_KEY_SAME if same else texts.NOTICE_NEW_KEY_OTHER)
        self._compared.setVisible(same is not None)
        self._pasted.setAccessibleDescription(texts.NOTICE_NEW_KEY_HINT if same is None else self._compared.text())
        self.compared.emit(same is False)

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
