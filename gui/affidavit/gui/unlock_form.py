"""The form that opens the vault, wherever it stands."""

from __future__ import annotations

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from affidavit.broker.api import Json
from affidavit.gui import texts_unknown as texts
from affidavit.gui import theme, unknown_view
from affidavit.gui.bridge import Answer, Bridge, Refused
from affidavit.gui.status import Status
from affidavit.gui.theme import TextStyle
from affidavit.gui.widgets.label import Label
from affidavit.gui.widgets.passphrase import PassphraseField

PROGRAM = "the tray"
"""Which program tries the passphrase, as the record of a wrong one names it."""


class UnlockForm(QWidget):
    """Passphrase and Unlock. Enter in the field unlocks: opening the vault dispatches nothing.

    What was typed is forgotten once the vault is locked or opened, here or elsewhere.
    """

    unlocked = Signal()

    def __init__(self, bridge: Bridge, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._bridge = bridge
        self._busy = False
        self._field = PassphraseField(description=texts.UNLOCK_ENTER)
        self._field.setAccessibleName(texts.PASSPHRASE)
        self._button = QPushButton(texts.UNLOCK)
        self._button.setProperty("kind", theme.PRIMARY)
        self._button.setAutoDefault(False)
        self._said = Label(style=TextStyle.CAPTION, token="ink2", wrap=True)
        self._contracts = Label(style=TextStyle.CAPTION, token="ink2", wrap=True)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(8)
        row = QHBoxLayout()
        row.setSpacing(12)
        row.addWidget(self._field, 1)
        row.addWidget(self._button)
        column.addLayout(row)
        column.addWidget(self._said)
        column.addWidget(self._contracts)
        self.setFocusProxy(self._field)
        self._field.changed.connect(self._changed)
        self._field.entered.connect(self._unlock)
        self._button.clicked.connect(self._unlock)
        bridge.status_changed.connect(self.show_status)
        bridge.vault_changed.connect(self._field.clear)
        self.show_status(bridge.status)
        self._changed()

    def controls(self) -> list[QWidget]:
        """What takes the focus, in order."""
        return [self._field, self._button]

    @Slot(object)
    def show_status(self, status: Status) -> None:
        """Say which contract files wait; opening the vault does not adopt them."""
        waiting = status.pending_contracts
        said = texts.counted(waiting, *texts.CONTRACTS_PENDING) if waiting else ""
        self._contracts.setText(said)
        self._contracts.setVisible(bool(said))

    @Slot()
    def _changed(self) -> None:
        ready = self._field.filled and not self._busy
        self._button.setEnabled(ready)
        self._said.setText("" if ready else texts.UNLOCKING if self._busy else texts.UNLOCK_NEEDED)
        self._button.setAccessibleDescription(self._said.text())

    @Slot()
    def _unlock(self) -> None:
        if self._busy or not self._field.filled:
            return
        passphrase = self._field.take()
        self._set_busy(True)
        self._bridge.ask(
            self, lambda api: api.unlock(passphrase, program=PROGRAM), self._answered, secrets=(passphrase,)
        )

    def _answered(self, answer: Answer[Json]) -> None:
        self._set_busy(False)
        if isinstance(answer, Refused):
            wrong = answer.code == "wrong_passphrase"
            message = texts.UNLOCK_WRONG if wrong else answer.message
            self._said.setText(unknown_view.with_remedy(message, answer.remedy))
            self._field.setFocus()
        else:
            self.unlocked.emit()

    def _set_busy(self, busy: bool) -> None:
        self._busy = busy
        self._field.setEnabled(not busy)
        self._changed()
