"""One window at a time, oldest first; what is decided and what ended without us."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from tests.gui import cards

from affidavit.broker.card import Card, CardEnd, Decision
from affidavit.broker.terms import InvocationId, Micros
from affidavit.gui import theme
from affidavit.gui.card_deck import CardDeck


def _card(name: str) -> Card:
    return replace(cards.WRITE, invocation_id=InvocationId(name), title=name)


@pytest.fixture
def deck(qapp: QApplication) -> Iterator[CardDeck]:
    theme.apply(qapp, theme.Scheme.LIGHT)
    made = CardDeck(clock=lambda: cards.NOW, monotonic=lambda: 0.0, home=cards.HOME)
    yield made
    made.discard()


def _on_screen(deck: CardDeck) -> str | None:
    return None if deck.window is None else deck.window.accessibleName()


def test_the_oldest_comes_first_and_the_others_are_counted(deck: CardDeck) -> None:
    shown: list[str] = []
    counts: list[int] = []
    deck.shown.connect(shown.append)
    deck.count_changed.connect(counts.append)
    for name in ("a", "b", "c"):
        deck.open(_card(name))
    assert _on_screen(deck) == "Write. a"
    assert deck.window is not None
    assert deck.window.head._queue.text() == "1 of 3 waiting"
    assert (shown, counts) == (["a"], [1, 2, 3])


def test_the_next_comes_when_the_one_before_is_decided(deck: CardDeck) -> None:
    decided: list[tuple[str, Decision]] = []
    deck.decided.connect(lambda invocation_id, decision: decided.append((invocation_id, decision)))
    deck.open(_card("a"))
    deck.open(_card("b"))
    assert deck.window is not None
    QTest.keyClick(deck.window, Qt.Key.Key_Escape)
    assert decided == [("a", Decision(approve=False, by="card"))]
    assert _on_screen(deck) == "Write. a"
    deck.close(InvocationId("a"), CardEnd.DENIED)
    assert _on_screen(deck) == "Write. b"
    assert deck.window is not None
    assert deck.window.head._queue.text() == ""


def test_a_card_that_ended_unseen_is_never_shown(deck: CardDeck) -> None:
    for name in ("a", "b", "c"):
        deck.open(_card(name))
    deck.close(InvocationId("b"), CardEnd.CALLER_GONE)
    deck.close(InvocationId("b"), CardEnd.CALLER_GONE)
    assert deck.count == 2
    assert deck.window is not None
    deck.window.close()
    assert _on_screen(deck) == "Write. c"


def test_the_next_waits_until_the_sentence_is_gone(deck: CardDeck) -> None:
    deck.open(_card("a"))
    deck.open(_card("b"))
    deck.close(InvocationId("a"), CardEnd.EXPIRED)
    assert _on_screen(deck) == "Write. a"
    assert deck.window is not None
    deck.window._goodbye.timeout.emit()
    assert _on_screen(deck) == "Write. b"


def test_a_known_card_only_gets_its_new_end(deck: CardDeck) -> None:
    deck.open(_card("a"))
    window = deck.window
    assert window is not None
    deck.open(replace(_card("a"), expires_at=Micros(cards.NOW + 60 * cards.SECOND)))
    assert deck.window is window
    assert (deck.count, window.head.ring.seconds) == (1, 60)


def test_a_refusal_reaches_only_the_card_on_the_screen(deck: CardDeck) -> None:
    deck.open(_card("a"))
    assert deck.window is not None
    QTest.keyClick(deck.window, Qt.Key.Key_Escape)
    deck.refuse(InvocationId("b"), "Not this one.")
    assert deck.window.bar.sentence != "Not this one."
    deck.refuse(InvocationId("a"), "This one.")
    assert deck.window.bar.deny.isEnabled()


def test_quitting_decides_nothing(deck: CardDeck) -> None:
    decided: list[object] = []
    deck.decided.connect(lambda *_: decided.append(1))
    deck.open(_card("a"))
    deck.open(_card("b"))
    deck.discard()
    assert (decided, deck.count, deck.window) == ([], 0, None)


def test_raise_says_whether_there_is_a_card(deck: CardDeck) -> None:
    assert deck.raise_card() is False
    deck.open(_card("a"))
    assert deck.raise_card() is True


def test_a_card_has_the_time_that_the_desk_gives_it(deck: CardDeck) -> None:
    card = replace(_card("a"), shown_s=30)
    deck.open(card)
    assert deck.window is not None
    ring = deck.window.head.ring
    assert (ring.seconds, ring.share) == (30, 1.0)
    deck.open(replace(card, shown_s=60, expires_at=Micros(cards.NOW + 45 * cards.SECOND)))
    assert (ring.seconds, ring.share) == (45, 0.75)
