"""The first start: a window that creates vault and journal, and nothing more."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import QButtonGroup, QDialog, QHBoxLayout, QPushButton, QRadioButton, QVBoxLayout, QWidget

from affidavit.gui import texts_unknown as texts
from affidavit.gui import theme
from affidavit.gui.bridge import Refused
from affidavit.gui.theme import FocusRing, TextStyle
from affidavit.gui.unknown_view import with_remedy
from affidavit.gui.widgets.fit import fit
from affidavit.gui.widgets.label import Label
from affidavit.gui.widgets.panel import Bar, Panel
from affidavit.gui.widgets.passphrase import PassphraseField

LEAST = 8
"""Characters. Length alone is asked for: rules about kinds of characters make worse passphrases (NIST SP 800-63B)."""


class Opens(StrEnum):
    """What opens the vault beside the passphrase."""

    KEYRING = "keyring"
    FILE = "file"


@dataclass(frozen=True, slots=True)
class Choice:
    """One way to protect the vault, worded with what it gives up."""

    opens: Opens
    title: str
    note: str


CHOICES = (
    Choice(Opens.KEYRING, texts.CREATE_BOTH, texts.CREATE_BOTH_NOTE),
    Choice(Opens.FILE, texts.CREATE_WITHOUT_KEYRING, texts.CREATE_WITHOUT_KEYRING_NOTE),
)

Create = Callable[[bytearray, Opens], Refused | None]
"""Makes vault and journal; called on a worker thread, since it takes Argon2id's time and may wait for a keyring. It
overwrites the passphrase."""


def missing(first: bytearray, second: bytearray) -> str | None:
    """The one next step before the vault can be created, or None."""
    if not first:
        return texts.CREATE_NEEDS_PASSPHRASE
    if len(first.decode("utf-8", "replace")) < LEAST:
        return texts.CREATE_NEEDS_LENGTH.format(n=LEAST)
    return texts.CREATE_DIFFERS if first != second else None


class FirstRun(QDialog):
    """`created` carries the passphrase, so that the new vault can be opened at once; the receiver overwrites it."""

    created = Signal(object)
    _made = Signal(object, object)

    def __init__(self, create: Create, preselected: Opens, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._create = create
        self._busy = False
        self.setWindowTitle(texts.CREATE_TITLE)
        self._first, self._second = (PassphraseField(description=texts.CREATE_ENTER) for _ in range(2))
        self._first.setAccessibleName(texts.CREATE_PASSPHRASE)
        self._second.setAccessibleName(texts.CREATE_AGAIN)
        self._opens = {choice.opens: QRadioButton(choice.title) for choice in CHOICES}
        self._opens[preselected].setChecked(True)
        self._said = Label(texts.CREATE_NO_WAY_BACK, TextStyle.CAPTION, "ink2", wrap=True)
        self._button = QPushButton(texts.CREATE)
        self._button.setProperty("kind", theme.PRIMARY)
        self._button.setAutoDefault(False)
        self._lay_out()
        self._first.entered.connect(self._second.setFocus)
        self._second.entered.connect(self._button.setFocus)
        self._button.clicked.connect(self._go)
        self._made.connect(self._answered, Qt.ConnectionType.QueuedConnection)
        self._ring = FocusRing(self)
        self._first.setFocus()

    def reject(self) -> None:
        """Close without a vault, unless one is being made."""
        if not self._busy:
            super().reject()

    def _lay_out(self) -> None:
        body = QVBoxLayout()
        body.setContentsMargins(28, 24, 28, 20)
        body.setSpacing(8)
        body.addWidget(Label(texts.CREATE_TITLE, TextStyle.TITLE))
        body.addWidget(Label(texts.CREATE_WHAT, token="ink2", wrap=True))
        body.addSpacing(8)
        body.addWidget(Label(texts.CREATE_PASSPHRASE, TextStyle.STRONG))
        body.addWidget(self._first)
        body.addWidget(Label(texts.CREATE_AGAIN, TextStyle.STRONG))
        body.addWidget(self._second)
        body.addSpacing(8)
        body.addWidget(Label(texts.CREATE_OPENS, TextStyle.STRONG))
        group = QButtonGroup(self)
        for choice in CHOICES:
            button = self._opens[choice.opens]
            button.setAccessibleDescription(choice.note)
            group.addButton(button)
            body.addWidget(_choice(button, choice.note))
        body.addStretch(1)
        bar = Bar()
        foot = QHBoxLayout(bar)
        foot.setContentsMargins(28, 12, 28, 14)
        foot.setSpacing(16)
        foot.addWidget(self._said, 1)
        foot.addWidget(self._button)
        whole = QVBoxLayout(self)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.setSpacing(0)
        whole.addLayout(body, 1)
        whole.addWidget(bar)
        fit(self, 560)

    @Slot()
    def _go(self) -> None:
        first, second = self._first.take(), self._second.take()
        step = missing(first, second)
        second[:] = bytes(len(second))
        if step is not None:
            first[:] = bytes(len(first))
            self._said.setText(step)
            self._first.setFocus()
            return
        opens = next(opens for opens, button in self._opens.items() if button.isChecked())
        self._set_busy(True)
        threading.Thread(target=self._make, args=(first, opens), name="affidavit-create", daemon=True).start()

    def _make(self, passphrase: bytearray, opens: Opens) -> None:
        """On the worker thread."""
        kept = bytearray(passphrase)
        refused = self._create(passphrase, opens)
        if refused is not None:
            kept[:] = bytes(len(kept))
        self._made.emit(refused, kept)

    @Slot(object, object)
    def _answered(self, refused: Refused | None, passphrase: bytearray) -> None:
        self._set_busy(False)
        if refused is None:
            self.created.emit(passphrase)
            self.accept()
        else:
            self._said.setText(with_remedy(refused.message, refused.remedy))
            self._first.setFocus()

    def _set_busy(self, busy: bool) -> None:
        self._busy = busy
        for widget in (self._first, self._second, self._button, *self._opens.values()):
            widget.setEnabled(not busy)
        self._said.setText(texts.CREATING if busy else texts.CREATE_NO_WAY_BACK)


def _choice(button: QRadioButton, note: str) -> Panel:
    panel = Panel()
    column = QVBoxLayout(panel)
    column.setContentsMargins(12, 10, 12, 10)
    column.setSpacing(2)
    column.addWidget(button)
    words = Label(note, TextStyle.CAPTION, "ink2", wrap=True)
    words.setContentsMargins(24, 0, 0, 0)
    column.addWidget(words)
    return panel
