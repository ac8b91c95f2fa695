"""The waiting cards: one window at a time, the oldest first, with the count of those that wait."""

from __future__ import annotations

from collections.abc import Callable
from datetime import tzinfo

from PySide6.QtCore import QObject, Signal

from affidavit.broker.card import Card, CardEnd
from affidavit.broker.terms import InvocationId, Micros
from affidavit.gui.card_view import card_view
from affidavit.gui.card_window import CardWindow


class CardDeck(QObject):
    """Holds cards from when the broker opens them until it says how they ended. Owned by the Qt main thread."""

    decided = Signal(str, object)
    """Invocation id, Decision."""
    passphrase_given = Signal(str, object, object)
    """Invocation id, Scope, and the passphrase as a bytearray that the receiver overwrites."""
    shown = Signal(str)
    """Invocation id; the card is on a screen and its time runs from here."""
    look_at = Signal(str)
    """Invocation id of an unknown outcome that the person wants to see."""
    count_changed = Signal(int)
    """How many cards wait."""

    def __init__(
        self,
        *,
        clock: Callable[[], Micros],
        monotonic: Callable[[], float],
        home: str,
        zone: tzinfo | None = None,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._clock, self._monotonic = clock, monotonic
        self._home, self._zone = home, zone
        self._waiting: dict[InvocationId, Card] = {}
        self._window: CardWindow | None = None
        self._on_screen: InvocationId | None = None

    @property
    def count(self) -> int:
        """How many cards wait."""
        return len(self._waiting)

    @property
    def window(self) -> CardWindow | None:
        """The window of the card that is on the screen."""
        return self._window

    def open(self, card: Card) -> None:
        """A card waits. One that is known already is told its new end, and nothing else changes."""
        known = card.invocation_id in self._waiting
        self._waiting[card.invocation_id] = card
        if not known:
            self._counted()
            self._show_next()
        elif card.invocation_id == self._on_screen and self._window is not None and card.expires_at is not None:
            self._window.set_expiry(card.expires_at, card.shown_s)

    def close(self, invocation_id: InvocationId, end: CardEnd) -> None:
        """A card has ended; one on the screen says why."""
        if self._waiting.pop(invocation_id, None) is None:
            return
        self._counted()
        if invocation_id == self._on_screen and self._window is not None:
            self._window.end(end)

    def refuse(self, invocation_id: InvocationId, sentence: str) -> None:
        """The broker did not take the decision; the card on the screen says why and is open again."""
        if invocation_id == self._on_screen and self._window is not None:
            self._window.refuse(sentence)

    def raise_card(self) -> bool:
        """Bring the card on the screen to the front, because a person asked for it. False where there is none."""
        if self._window is None:
            return False
        self._window.show()
        self._window.raise_()
        self._window.activateWindow()
        return True

    def discard(self) -> None:
        """Take every card away without deciding any: the application ends."""
        self._waiting.clear()
        self._counted()
        if self._window is not None:
            self._window.close()

    def _show_next(self) -> None:
        if self._window is not None or not self._waiting:
            return
        card = next(iter(self._waiting.values()))
        view = card_view(card, now=self._clock(), home=self._home, zone=self._zone)
        window = CardWindow(
            view, clock=self._clock, monotonic=self._monotonic, life_s=card.shown_s, expires_at=card.expires_at
        )
        window.decided.connect(self.decided)
        window.passphrase_given.connect(self.passphrase_given)
        window.shown.connect(self.shown)
        window.look_at.connect(self.look_at)
        window.closed.connect(self._closed)
        self._window, self._on_screen = window, card.invocation_id
        window.set_queue(1, self.count)
        window.show()

    def _closed(self, invocation_id: str) -> None:
        self._window = self._on_screen = None
        if self._waiting.pop(InvocationId(invocation_id), None) is not None:
            self._counted()
        self._show_next()

    def _counted(self) -> None:
        if self._window is not None and self._on_screen in self._waiting:
            self._window.set_queue(1, self.count)
        self.count_changed.emit(self.count)
