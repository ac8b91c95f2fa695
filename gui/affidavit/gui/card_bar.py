"""The decision bar of a card: the fingerprint on the line, what an approval covers, Deny, and Approve.

The bar never scrolls. It draws what it is told and reports presses; whether a press counts is the window's to say.
"""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QGuiApplication, QKeyEvent
from PySide6.QtWidgets import (
    QBoxLayout,
    QButtonGroup,
    QHBoxLayout,
    QLineEdit,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from affidavit.broker.limits import Limits
from affidavit.gui import texts, theme
from affidavit.gui.card_page import MARGIN
from affidavit.gui.card_view import CardView, ScopeView
from affidavit.gui.widgets import (
    ENTER_KEYS,
    ArmedButton,
    Bar,
    Choice,
    Fingerprint,
    Glyph,
    Label,
    LinkButton,
    PassphraseField,
)

_DENY_WIDTH = 112


class DecisionBar(Bar):
    """Bottom of a card. `deny` and `approve` are its two buttons; `passphrase` is None where none is asked for."""

    approve_pressed = Signal()
    deny_pressed = Signal()
    changed = Signal()
    """Another scope, or something typed: see again what is missing."""
    grew = Signal()
    """The bar wants another height."""

    def __init__(self, view: CardView) -> None:
        super().__init__()
        self._view = view
        self._chosen = view.preselected
        self.deny = _DenyButton(texts.DENY)
        self.approve = ArmedButton(self.scope.button)
        self.passphrase = PassphraseField() if view.needs.passphrase else None
        self._copy = LinkButton(texts.COPY, "copy")
        self._because = LinkButton(texts.DENY_REASON)
        self._reason = QLineEdit()
        self._scopes = [Choice(scope.choice.replace("&", "&&")) for scope in view.scopes]
        self._line = Label("", token="ink2", wrap=True)
        self._buttons = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._lay_out()
        self._name()
        self._connect()

    @property
    def scope(self) -> ScopeView:
        """What an approval would cover now."""
        return self._view.scopes[self._chosen]

    @property
    def reason(self) -> str:
        """The reason typed for a denial, perhaps empty."""
        return self._reason.text().strip()

    @property
    def sentence(self) -> str:
        """The line above the buttons."""
        return self._line.text()

    def show_state(self, *, armed: bool, enabled: bool, sentence: str, described: str) -> None:
        """Draw whether Approve can be pressed, whether anything can, and the sentence that goes with it."""
        for control in (self.deny, self.approve, self._because, self._reason, *self._scopes):
            control.setEnabled(enabled)
        self.approve.set_armed(armed)
        self.approve.setAccessibleDescription(described)
        if sentence != self._line.text():
            self._line.setText(sentence)

    def open_reason(self) -> None:
        """Put the one line for a reason above the buttons."""
        self._because.hide()
        self._reason_row.show()
        self.grew.emit()
        self._reason.setFocus()

    def controls(self) -> list[QWidget]:
        """What takes the focus, in order; the passphrase is one step from Deny, Approve is last."""
        scopes: list[QWidget] = list(self._scopes) if len(self._scopes) > 1 else []
        field = [self.passphrase] if self.passphrase is not None else []
        return [self._copy, *scopes, self.deny, *field, self._reason, self._because, self.approve]

    def turn(self, width: int) -> None:
        """Put buttons that do not fit side by side one above the other; a word is never cut."""
        wanted = sum(button.sizeHint().width() for button in (self.deny, self._because, self.approve)) + 24
        fits = wanted <= width - 2 * MARGIN
        self._buttons.setDirection(QBoxLayout.Direction.LeftToRight if fits else QBoxLayout.Direction.TopToBottom)

    def _lay_out(self) -> None:
        column = QVBoxLayout(self)
        column.setContentsMargins(MARGIN, 12, MARGIN, 18)
        column.setSpacing(8)
        head = QHBoxLayout()
        head.setSpacing(6)
        head.addWidget(Glyph("attest", 16, "ink2"))
        head.addWidget(Label(texts.FINGERPRINT, theme.TextStyle.CAPTION, "ink3"))
        head.addStretch(1)
        head.addWidget(self._copy)
        signed = QVBoxLayout()
        signed.setSpacing(2)
        signed.addLayout(head)
        spoken = texts.FINGERPRINT_SPOKEN.format(groups=self._view.spoken_groups)
        signed.addWidget(Fingerprint(self._view.groups, spoken))
        column.addLayout(signed)
        if len(self._scopes) > 1:
            column.addLayout(self._scope_rows())
        if self.passphrase is not None:
            column.addSpacing(2)
            column.addLayout(_labelled(texts.PASSPHRASE, self.passphrase))
        column.addWidget(self._line)
        self._reason_row = QWidget()
        self._reason_row.setLayout(_labelled(texts.DENY_REASON_FIELD, self._reason))
        self._reason_row.hide()
        column.addWidget(self._reason_row)
        self._lay_out_buttons()
        column.addLayout(self._buttons)

    def _scope_rows(self) -> QVBoxLayout:
        """All choices at once, not folded into a list: what an approval covers should not need a click to be seen."""
        group = QButtonGroup(self)
        rows = QVBoxLayout()
        rows.setSpacing(4)
        for place, choice in enumerate(self._scopes):
            choice.setChecked(place == self._view.preselected)
            choice.setAccessibleDescription(texts.SCOPE_NAME)
            group.addButton(choice, place)
            rows.addWidget(choice)
        group.idToggled.connect(self._choose)
        return rows

    def _lay_out_buttons(self) -> None:
        self.deny.setMinimumWidth(_DENY_WIDTH)
        left = QHBoxLayout()
        left.setSpacing(4)
        left.addWidget(self.deny)
        left.addWidget(self._because)
        left.addStretch(1)
        self._buttons.setSpacing(8)
        self._buttons.addLayout(left, 1)
        self._buttons.addWidget(self.approve, 0, Qt.AlignmentFlag.AlignRight)

    def _name(self) -> None:
        self._copy.setToolTip(texts.COPY_FINGERPRINT)
        self._copy.setAccessibleDescription(texts.COPY_FINGERPRINT)
        self.deny.setAccessibleDescription(self._view.words.deny)
        self._because.setAccessibleDescription(texts.DENY_REASON_DESCRIPTION)
        self._reason.setMaxLength(Limits().reason_chars)
        self._reason.setPlaceholderText(texts.DENY_REASON_HINT)
        self._reason.setAccessibleName(texts.DENY_REASON_FIELD)
        self._reason.setAccessibleDescription(texts.DENY_REASON_DESCRIPTION)
        if self.passphrase is not None:
            self.passphrase.setAccessibleName(texts.PASSPHRASE)

    def _connect(self) -> None:
        self.deny.clicked.connect(self.deny_pressed)
        self.approve.clicked.connect(self.approve_pressed)
        self._copy.clicked.connect(self._copy_fingerprint)
        self._because.clicked.connect(self.open_reason)
        self._reason.returnPressed.connect(self.deny_pressed)
        if self.passphrase is not None:
            self.passphrase.changed.connect(self.changed)
            self.passphrase.entered.connect(self.approve.setFocus)

    def _choose(self, place: int, chosen: bool) -> None:
        if chosen:
            self._chosen = place
            self.approve.set_text(self.scope.button)
            self.changed.emit()

    def _copy_fingerprint(self) -> None:
        QGuiApplication.clipboard().setText(self._view.fingerprint)
        self._copy.setText(texts.COPIED)
        self._copy.updateGeometry()


class _DenyButton(QPushButton):
    """Deny takes Enter as well as Space."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.setAutoDefault(False)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in ENTER_KEYS:
            event.accept()
            if not event.isAutoRepeat():
                self.click()
        else:
            super().keyPressEvent(event)


def _labelled(text: str, field: QWidget) -> QHBoxLayout:
    row = QHBoxLayout()
    row.setContentsMargins(0, 0, 0, 0)
    row.setSpacing(12)
    label = Label(text, theme.TextStyle.STRONG)
    label.setBuddy(field)
    row.addWidget(label)
    row.addWidget(field, 1)
    return row
