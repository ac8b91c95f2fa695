"""A window that signs one call of the broker's: what it does, the passphrase, and why it was refused."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QVBoxLayout, QWidget

from affidavit.broker.api import Json, OperatorApi
from affidavit.gui import texts_unknown as texts
from affidavit.gui import unknown_view
from affidavit.gui.bridge import Answer, Bridge, Refused
from affidavit.gui.sign_window import SignWindow, SignWords
from affidavit.gui.theme import TextStyle
from affidavit.gui.widgets.label import Label

Call = Callable[[OperatorApi, bytearray], Awaitable[Json]]
"""The call, given the passphrase, which the bridge overwrites."""


class SignedCall(SignWindow):
    """Closes once the call is answered; a refused one says why and takes another passphrase."""

    answered = Signal(object)
    """What the broker answered."""

    def __init__(
        self,
        bridge: Bridge,
        words: SignWords,
        body: Sequence[QWidget],
        claim: str,
        call: Call,
        parent: QWidget | None = None,
    ) -> None:
        """`body` stands under the title, which is the button's word; `claim` as in SignWindow."""
        self._bridge, self._call = bridge, call
        inside = QWidget()
        column = QVBoxLayout(inside)
        column.setContentsMargins(20, 20, 20, 16)
        column.setSpacing(12)
        column.addWidget(Label(words.sign, TextStyle.TITLE))
        for part in body:
            column.addWidget(part)
        super().__init__(words.sign, inside, words, claim, parent)
        self.signed.connect(self._give)
        bridge.vault_changed.connect(self.forget)

    @Slot(object)
    def _give(self, passphrase: bytearray) -> None:
        call = self._call  # not `self`: the broker's thread holds no window
        self._bridge.ask(self, lambda api: call(api, passphrase), self._answered, secrets=(passphrase,))

    def _answered(self, answer: Answer[Json]) -> None:
        if isinstance(answer, Refused):
            wrong = answer.code == "wrong_passphrase"
            message = texts.UNLOCK_WRONG if wrong else answer.message
            self.refused(unknown_view.with_remedy(message, answer.remedy))
        else:
            self.answered.emit(answer.value)
            self.accept()
