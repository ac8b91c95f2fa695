"""The rules of the card, played on a real window: what counts, what does not, and what is said meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import pytest
from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QAccessible, QCloseEvent, QFont, QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLineEdit, QWidget
from pytestqt.qtbot import QtBot
from tests.gui import cards

from affidavit.broker.card import Card, CardEnd, Decision, Scope
from affidavit.broker.terms import Micros
from affidavit.gui import card_window as module
from affidavit.gui import figures, texts, theme
from affidavit.gui.arming import ARM_S, Step
from affidavit.gui.card_view import STEPS, card_view
from affidavit.gui.card_window import CardWindow
from affidavit.gui.widgets import Label, NoticePanel, TickBox
from affidavit.gui.widgets.fingerprint import Groups

ENTER, SPACE, ESCAPE, TAB = Qt.Key.Key_Return, Qt.Key.Key_Space, Qt.Key.Key_Escape, Qt.Key.Key_Tab


@dataclass
class Played:
    """One window with its clocks in hand, and what it has reported."""

    window: CardWindow
    wall: list[Micros]
    ticks: list[float]
    decisions: list[Decision] = field(default_factory=list)
    passphrases: list[tuple[Scope, bytearray]] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    looked_at: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)

    def wait(self, seconds: float) -> None:
        """Move both clocks and let the window see it."""
        self.wall[0] = Micros(self.wall[0] + round(seconds * cards.SECOND))
        self.ticks[0] += seconds
        self.window.refresh()

    def arm(self) -> None:
        self.wait(ARM_S)
        assert self.window.bar.approve.armed, self.window.bar.sentence

    def key(self, key: Qt.Key) -> None:
        QTest.keyClick(self.window.focusWidget(), key)

    def click(self, widget: QWidget) -> None:
        QTest.mouseClick(widget, Qt.MouseButton.LeftButton)


Play = Callable[..., Played]


@pytest.fixture(autouse=True)
def _light(qapp: QApplication) -> None:
    qapp.setFont(_font(13))
    theme.apply(qapp, theme.Scheme.LIGHT)


def _font(pixels: int) -> QFont:
    font = QFont("Inter")
    font.setPixelSize(pixels)
    return font


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is read aloud."""
    sentences: list[str] = []
    monkeypatch.setattr(module, "announce", lambda _widget, sentence: sentences.append(sentence))
    return sentences


@pytest.fixture
def play(qtbot: QtBot, said: list[str]) -> Iterator[Play]:
    playing: list[Played] = []

    def start(card: Card = cards.WRITE, *, active: bool = True, life_s: float = 120) -> Played:
        wall, ticks = [cards.NOW], [100.0]
        window = CardWindow(
            card_view(card, now=cards.NOW, home=cards.HOME),
            clock=lambda: wall[0],
            monotonic=lambda: ticks[0],
            life_s=life_s,
            expires_at=card.expires_at,
        )
        played = Played(window, wall, ticks)
        window.decided.connect(lambda _id, decision: played.decisions.append(decision))
        window.passphrase_given.connect(lambda _id, scope, secret: played.passphrases.append((scope, secret)))
        window.shown.connect(played.shown.append)
        window.look_at.connect(played.looked_at.append)
        window.closed.connect(played.closed.append)
        window.show()
        if active:
            window.activateWindow()
            qtbot.waitUntil(window.isActiveWindow)
        qtbot.waitExposed(window)
        QApplication.processEvents()
        window.refresh()
        playing.append(played)
        return played

    yield start
    for played in playing:
        if not played.closed:
            played.window.close()


# Enter, focus and Deny


def test_deny_has_the_focus_and_takes_enter(play: Play) -> None:
    card = play()
    assert card.window.focusWidget() is card.window.bar.deny
    card.key(ENTER)
    assert card.decisions == [Decision(approve=False, by="card")]


@pytest.mark.parametrize("key", [SPACE, ESCAPE, Qt.Key.Key_Enter])
def test_deny_takes_space_and_escape_too(play: Play, key: Qt.Key) -> None:
    card = play()
    card.key(key)
    assert [decision.approve for decision in card.decisions] == [False]


@pytest.mark.parametrize("key", [Qt.Key.Key_Return, Qt.Key.Key_Enter])
def test_enter_never_approves_even_on_approve(play: Play, key: Qt.Key) -> None:
    card = play()
    card.arm()
    card.window.bar.approve.setFocus()
    card.key(key)
    assert card.decisions == []
    card.key(SPACE)
    assert card.decisions == [Decision(approve=True, scope=Scope.ONCE, means="card", by="card")]


def test_enter_does_not_approve_where_a_desktop_presses_buttons_with_it(play: Play) -> None:
    card = play()
    card.arm()
    card.window.bar.approve.setAutoDefault(True)  # as some desktops make every button
    card.window.bar.approve.setFocus()
    card.key(ENTER)
    assert card.decisions == []


def test_enter_elsewhere_decides_nothing(play: Play) -> None:
    card = play()
    card.arm()
    assert card.window.middle.body is not None
    card.window.middle.body.page.setFocus()
    card.key(ENTER)
    card.key(Qt.Key.Key_A)
    assert card.decisions == []


def test_a_pasted_fingerprint_that_differs_disarms_approve(play: Play) -> None:
    card = play(cards.NEW_KEY)
    card.arm()
    (field,) = card.window.head.findChildren(QLineEdit)
    assert field in card.window.head.controls()
    panel = card.window.head.findChild(NoticePanel)
    assert panel is not None
    field.setText("SHA256:7Qm4kV0xPz2r9sLhaT6EwB1dYc8NuJ3fLk2Re5XnGt5")
    assert not card.window.bar.approve.armed
    assert card.window.bar.sentence == STEPS[Step.HOST_KEY]
    assert field.accessibleDescription() == texts.NOTICE_NEW_KEY_OTHER
    card.click(card.window.bar.approve)
    assert card.decisions == []
    field.setText("SHA256:7Qm4kV0xPz2r9sLhaT6EwB1dYc8NuJ3fLk2Re5XnGt4")
    assert [label.text() for label in panel.findChildren(Label) if label.text().startswith("Same")] == [
        "Same as pasted"
    ]
    card.arm()
    card.click(card.window.bar.approve)
    assert [decision.approve for decision in card.decisions] == [True]


def test_the_key_of_a_new_host_is_read_letter_by_letter(play: Play) -> None:
    (key,) = play(cards.NEW_KEY).window.head.findChildren(Groups)
    assert key.text().startswith("Host key of web-02.example.com:22  ssh-ed25519  SHA256: 7 Q m 4, k V 0 x")


def test_escape_denies_wherever_the_focus_is(play: Play) -> None:
    card = play()
    assert card.window.middle.body is not None
    card.window.middle.body.page.setFocus()
    card.key(ESCAPE)
    assert [decision.approve for decision in card.decisions] == [False]


def test_the_focus_goes_from_top_to_bottom_and_ends_on_approve(play: Play) -> None:
    card = play(cards.TWIN)
    parts = (card.window.head, card.window.middle, card.window.bar)
    expected = [w for part in parts for w in part.controls() if w.isVisible()]
    assert expected[-1] is card.window.bar.approve
    expected[0].setFocus()
    met = [card.window.focusWidget()]
    while met[-1] is not card.window.bar.approve:
        card.key(TAB)
        met.append(card.window.focusWidget())
        assert len(met) <= len(expected)
    radios = [w for w in expected if not w.focusPolicy() & Qt.FocusPolicy.TabFocus or w not in met]
    assert [w for w in expected if w not in radios] == met
    assert all(type(w).__name__ == "_Half" for w in radios)  # of two halves, Tab stops at the chosen one


def test_approve_has_no_mnemonic(play: Play) -> None:
    card = play()
    assert card.window.bar.approve.shortcut().isEmpty()
    card.arm()
    QTest.keyClick(card.window, Qt.Key.Key_A, Qt.KeyboardModifier.AltModifier)
    assert card.decisions == []


def test_a_reason_reaches_the_agent(play: Play) -> None:
    card = play()
    card.window.bar.open_reason()
    QTest.keyClicks(card.window.focusWidget(), "not without a ticket")
    card.key(ENTER)
    assert card.decisions == [Decision(approve=False, by="card", reason="not without a ticket")]


def test_a_reason_is_no_longer_than_the_limit(play: Play) -> None:
    card = play()
    card.window.bar.open_reason()
    QTest.keyClicks(card.window.focusWidget(), "x" * 600)
    assert len(card.window.bar.reason) == 500


# Arming


def test_approve_arms_after_the_pause(play: Play) -> None:
    card = play()
    card.wait(ARM_S - 0.01)
    assert (card.window.step, card.window.bar.approve.armed) == (Step.PAUSE, False)
    card.click(card.window.bar.approve)
    assert card.decisions == []
    card.wait(0.02)
    assert card.window.bar.approve.armed
    card.click(card.window.bar.approve)
    assert [decision.approve for decision in card.decisions] == [True]


def test_the_beat_comes_when_the_pause_is_over(play: Play) -> None:
    card = play()
    card.window.refresh()
    assert card.window._beat.isActive()
    assert card.window._beat.interval() == round(ARM_S * 1000) + 1


def test_every_activation_starts_the_pause_anew(play: Play, qtbot: QtBot) -> None:
    card = play()
    card.arm()
    other = QWidget()
    qtbot.addWidget(other)
    other.show()
    other.activateWindow()
    qtbot.waitUntil(lambda: not card.window.isActiveWindow())
    assert card.window.bar.sentence == STEPS[Step.ACTIVATE]
    card.wait(10)
    assert not card.window.bar.approve.armed
    card.click(card.window.bar.approve)
    card.window.activateWindow()
    qtbot.waitUntil(card.window.isActiveWindow)
    assert card.window.step is Step.PAUSE
    card.click(card.window.bar.approve)
    assert card.decisions == []  # losing the focus decided nothing, and neither did a press too early
    card.arm()


def test_coming_back_the_focus_is_not_on_approve(play: Play, qtbot: QtBot) -> None:
    card = play()
    card.arm()
    card.window.bar.approve.setFocus()
    other = QWidget()
    qtbot.addWidget(other)
    other.show()
    other.activateWindow()
    qtbot.waitUntil(lambda: not card.window.isActiveWindow())
    card.window.activateWindow()
    qtbot.waitUntil(card.window.isActiveWindow)
    assert card.window.focusWidget() is card.window.bar.deny


def test_the_window_does_not_take_the_focus_when_it_appears(play: Play) -> None:
    card = play(active=False)
    assert card.window.testAttribute(Qt.WidgetAttribute.WA_ShowWithoutActivating)
    assert card.window.windowFlags() & Qt.WindowType.WindowStaysOnTopHint
    assert not card.window.windowFlags() & Qt.WindowType.WindowMinimizeButtonHint


def test_a_press_that_began_unarmed_does_not_count(play: Play) -> None:
    card = play()
    approve = card.window.bar.approve
    QTest.mousePress(approve, Qt.MouseButton.LeftButton)
    card.arm()
    QTest.mouseRelease(approve, Qt.MouseButton.LeftButton)
    approve.setFocus()
    card.wait(-ARM_S)
    QTest.keyPress(approve, SPACE)
    card.wait(ARM_S)
    QTest.keyRelease(approve, SPACE)
    assert card.decisions == []


def test_assistive_tools_cannot_press_it_early(play: Play) -> None:
    card = play()
    card.window.bar.approve.click()
    assert card.decisions == []
    card.arm()
    card.window.bar.approve.click()
    assert len(card.decisions) == 1


def test_the_tick_is_needed_and_named_by_its_effect(play: Play) -> None:
    card = play(cards.TWIN)
    card.wait(60)
    assert card.window.bar.sentence == STEPS[Step.TICK]
    box = card.window.findChild(TickBox)
    assert box.text() == "I accept that the refund may happen twice"
    card.click(card.window.bar.approve)
    assert card.decisions == []
    box.click()
    _scroll_to_end(card)
    card.click(card.window.bar.approve)
    assert card.decisions == [Decision(approve=True, means="card", by="card", tick=True)]


def test_look_at_it_first_names_the_unknown_and_keeps_the_card(play: Play) -> None:
    card = play(cards.TWINS)
    for panel in card.window.findChildren(NoticePanel):
        card.click(panel.controls()[0])
    assert card.looked_at == ["act_01J9ZK0000000000000000REF0", "act_01J9ZK0000000000000000REF9"]
    assert (card.decisions, card.closed) == ([], [])


# The body


def _scroll_to_end(card: Played) -> None:
    body = card.window.middle.body
    assert body is not None
    bar = body.page.verticalScrollBar()
    bar.setValue(bar.maximum())
    QApplication.processEvents()


def test_a_body_has_to_be_seen_to_its_end(play: Play) -> None:
    card = play(cards.LONGER)
    card.wait(60)
    assert card.window.bar.sentence == STEPS[Step.BODY_END]
    card.click(card.window.bar.approve)
    body = card.window.middle.body
    assert body is not None
    bar = body.page.verticalScrollBar()
    bar.setValue(bar.maximum() - 1)
    assert not card.window.bar.approve.armed
    _scroll_to_end(card)
    assert card.window.bar.approve.armed
    bar.setValue(0)
    assert card.window.bar.approve.armed
    assert card.decisions == []


def test_what_lies_below_is_counted(play: Play) -> None:
    card = play(cards.LONGER)
    body = card.window.middle.body
    assert body is not None
    lines = body.page.lines
    assert body._below.text() == f"{lines - 12} of {lines} lines below"
    _scroll_to_end(card)
    assert body._below.text() == f"{lines} of {lines} lines seen"
    assert play(cards.WRITE).window.middle.body._below.text() == texts.BODY_ALL_SHOWN  # type: ignore[union-attr]


def test_over_500_lines_size_and_digest_are_ticked_instead(play: Play) -> None:
    card = play(cards.LONG)
    card.wait(60)
    assert card.window.bar.sentence == STEPS[Step.BODY_UNREAD]
    box = card.window.findChild(TickBox)
    assert box.text().startswith("I have not read all of it: 2,900 bytes, sha256 ")
    box.click()
    assert card.window.bar.approve.armed
    box.click()
    assert not card.window.bar.approve.armed
    _scroll_to_end(card)
    assert card.window.bar.approve.armed


def test_the_raw_form_counts_as_well(play: Play) -> None:
    card = play(cards.LONGER)
    body = card.window.middle.body
    assert body is not None
    raw = body.controls()[2]
    raw.click()  # type: ignore[attr-defined]
    QApplication.processEvents()
    assert body.page.toPlainText() == cards.LONGER.body.decode()
    assert body.seen


def test_a_body_under_the_fold_is_not_seen(play: Play) -> None:
    card = play(replace(cards.TWINS, tick=None, headers=tuple((f"x-{n}", "y") for n in range(30))))
    card.wait(60)
    assert card.window.step is Step.BODY_END
    _scroll_to_end(card)
    assert card.window.step is Step.BODY_END
    bar = card.window._scroll.verticalScrollBar()
    bar.setValue(bar.maximum())
    QApplication.processEvents()
    card.window.refresh()
    assert card.window.step is None


def test_a_target_without_a_body_has_to_be_seen_too(play: Play) -> None:
    card = play(replace(cards.READ, headers=tuple((f"x-{n}", "y") for n in range(60))))
    card.wait(60)
    assert card.window.step is Step.BODY_END


def test_hidden_characters_are_chips_on_the_page(play: Play) -> None:
    card = play(cards.NO_CONTRACT)
    body = card.window.middle.body
    assert body is not None
    assert "note=aU+202EbU+200B&long=" in body.page.toPlainText()


def test_a_body_of_8_mib_is_shown(play: Play) -> None:
    card = play(replace(cards.WRITE, body=b"x" * (8 << 20)))
    body = card.window.middle.body
    assert body is not None
    assert body.page.lines == 8_389
    assert card.window.step is Step.BODY_UNREAD


def test_a_streamed_command_needs_the_tick_whatever_was_read(play: Play) -> None:
    body = b"$ git-receive-pack 'shop.git'\n< Input is streamed and cannot be shown"
    card = play(replace(cards.NEW_KEY, notices=(), body=body, streamed=True))
    card.wait(60)
    assert card.window.bar.sentence == STEPS[Step.STREAM]
    shown = card.window.middle.body
    assert shown is not None
    assert shown._unread.text().startswith("I have not read all of it: the input is streamed")
    card.window.middle.body.unread_ticked.emit(True)
    assert card.window.step is None


# The passphrase


def _type(card: Played, text: str) -> None:
    assert card.window.bar.passphrase is not None
    card.window.bar.passphrase.setFocus()
    QTest.keyClicks(card.window.bar.passphrase, text)


def test_the_passphrase_is_one_tab_from_deny_and_enter_moves_on(play: Play) -> None:
    card = play(cards.PASSPHRASE)
    card.wait(60)
    assert card.window.bar.sentence == STEPS[Step.PASSPHRASE]
    card.key(TAB)
    assert card.window.focusWidget() is card.window.bar.passphrase
    QTest.keyClicks(card.window.focusWidget(), "correct horse")
    card.key(ENTER)
    assert card.window.focusWidget() is card.window.bar.approve
    assert card.passphrases == []
    assert card.window.bar.sentence == texts.PASSPHRASE_WHY
    card.key(SPACE)
    assert card.passphrases == [(Scope.ONCE, bytearray(b"correct horse"))]
    assert card.decisions == []
    assert not card.window.bar.passphrase.filled


def test_the_passphrase_is_cleared_when_another_window_takes_the_focus(play: Play, qtbot: QtBot) -> None:
    card = play(cards.PASSPHRASE)
    _type(card, "secret")
    other = QWidget()
    qtbot.addWidget(other)
    other.show()
    other.activateWindow()
    qtbot.waitUntil(lambda: not card.window.isActiveWindow())
    assert card.window.bar.passphrase is not None
    assert not card.window.bar.passphrase.filled


@pytest.mark.parametrize("how", ["expiry", "lock", "deny"])
def test_the_passphrase_is_cleared_at_every_end(play: Play, how: str) -> None:
    card = play(cards.PASSPHRASE)
    _type(card, "secret")
    field = card.window.bar.passphrase
    assert field is not None
    kept = field._bytes
    match how:
        case "expiry":
            card.wait(121)
        case "lock":
            card.window.end(CardEnd.VAULT_LOCKED)
        case _:
            card.key(ESCAPE)
    assert not field.filled
    assert kept == bytes(len(kept))  # overwritten, not only dropped


def test_a_wrong_passphrase_opens_the_card_again(play: Play, said: list[str]) -> None:
    card = play(cards.PASSPHRASE)
    _type(card, "wrong")
    card.wait(1)
    card.click(card.window.bar.approve)
    assert card.window.bar.sentence == texts.DECIDED
    card.window.refuse("That passphrase does not open the vault.")
    assert card.window.bar.sentence == "That passphrase does not open the vault."
    assert said[-1] == "That passphrase does not open the vault."
    assert not card.window.bar.approve.armed
    _type(card, "right")
    assert card.window.bar.sentence == texts.PASSPHRASE_WHY
    card.click(card.window.bar.approve)
    assert [bytes(secret) for _, secret in card.passphrases] == [b"wrong", b"right"]


# Scope


def test_the_button_says_the_scope_that_is_chosen(play: Play) -> None:
    card = play(cards.READ)
    assert card.window.bar.approve.text().startswith("Approve until ")
    once = card.window.bar.controls()[1]
    once.click()  # type: ignore[attr-defined]
    assert card.window.bar.approve.text() == "Approve once"
    assert card.window.bar.sentence != texts.SCOPE_SESSION
    card.arm()
    assert card.window.bar.sentence == texts.SCOPE_ONCE
    card.click(card.window.bar.approve)
    assert card.decisions[0].scope is Scope.ONCE


def test_the_preselected_scope_is_what_is_approved(play: Play) -> None:
    card = play(cards.READ)
    card.arm()
    card.click(card.window.bar.approve)
    assert card.decisions[0].scope is Scope.SESSION


# Time


def test_the_time_runs_from_when_the_card_was_shown(play: Play) -> None:
    card = play()
    assert card.shown == [cards.WRITE.invocation_id]
    assert card.window.head.ring.seconds == 120
    card.wait(18)
    assert card.window.head.ring.seconds == 102
    assert card.window.head.ring.text() == "1:42"
    assert card.window.head.ring.accessibleName() == "1 minute 42 seconds left"
    card.window.hide()
    card.window.show()
    assert card.shown == [cards.WRITE.invocation_id]


def test_the_end_that_the_broker_set_is_followed(play: Play) -> None:
    card = play(replace(cards.WRITE, expires_at=Micros(cards.NOW + 60 * cards.SECOND)))
    assert card.window.head.ring.seconds == 60
    end = Micros(cards.NOW + 300 * cards.SECOND)
    card.window.set_expiry(end, 600)
    assert card.window.head.ring.seconds == 300
    assert card.window.head.ring.share == 0.5
    assert figures.clock(end) in card.window.head.ring.toolTip()


def test_under_ten_seconds_it_says_how_it_ends(play: Play) -> None:
    card = play()
    card.wait(111)
    assert card.window.bar.sentence == ("Closes in 9 s. Nothing will be sent, and the caller is told it expired.")


def test_when_the_time_is_over_nothing_can_be_decided_and_nothing_is_claimed(play: Play) -> None:
    card = play()
    card.arm()
    card.wall[0] = Micros(cards.NOW + 121 * cards.SECOND)
    card.window.bar.approve.click()  # before the beat has noticed
    card.window.refresh()
    card.key(ESCAPE)
    card.click(card.window.bar.deny)
    assert card.decisions == []
    assert card.window.bar.sentence == texts.TIME_OVER
    assert not card.window.bar.deny.isEnabled()


def test_the_time_is_said_at_30_and_10_seconds_only(play: Play, said: list[str]) -> None:
    card = play()
    assert said == ["Write. Create a refund at api.example.com, asked by node. Deny is focused. 2 minutes."]
    for _ in range(119):
        card.wait(1)
        card.window.refresh()
    assert said[1:] == ["30 seconds left.", "10 seconds left."]


def test_a_wall_clock_that_is_set_does_not_arm(play: Play) -> None:
    card = play()
    card.wall[0] = Micros(cards.NOW + 30 * cards.SECOND)
    card.window.refresh()
    assert card.window.step is Step.PAUSE


# Ends


@pytest.mark.parametrize("end", CardEnd)
def test_a_card_that_ends_without_us_says_why_and_closes(play: Play, end: CardEnd, said: list[str]) -> None:
    card = play()
    card.window.end(end)
    assert card.window.farewell.isVisible()
    assert card.window.farewell.sentence == texts.CARD_ENDS[end] == said[-1]
    assert not card.window.bar.isVisible()
    assert card.window._goodbye.isActive()
    assert card.window._goodbye.interval() == 4_000
    card.window.bar.approve.click()
    card.window.refresh()
    assert (card.decisions, card.closed) == ([], [])
    card.window._goodbye.timeout.emit()
    assert card.closed == [cards.WRITE.invocation_id]


def test_decided_here_it_closes_at_once(play: Play) -> None:
    card = play()
    card.key(ESCAPE)
    assert card.window.bar.sentence == texts.DECIDED
    card.window.end(CardEnd.DENIED)
    assert card.closed == [cards.WRITE.invocation_id]


def test_approved_too_late_it_says_what_happened_instead(play: Play) -> None:
    card = play()
    card.arm()
    card.click(card.window.bar.approve)
    card.window.end(CardEnd.CALLER_GONE)
    assert card.window.farewell.sentence == "The caller ended. Nothing was sent."


def test_a_decision_is_made_once(play: Play) -> None:
    card = play()
    card.arm()
    card.click(card.window.bar.approve)
    card.click(card.window.bar.approve)
    card.key(ESCAPE)
    assert len(card.decisions) == 1


def test_a_close_by_the_window_manager_denies_without_a_reason(play: Play) -> None:
    card = play()
    card.window.bar.open_reason()
    QTest.keyClicks(card.window.focusWidget(), "typed")
    handle = card.window.windowHandle()
    QGuiApplication.sendEvent(handle, QCloseEvent())
    assert card.decisions == [Decision(approve=False, by="card")]
    assert card.closed == []


def test_a_close_by_us_decides_nothing(play: Play) -> None:
    card = play()
    card.window.close()
    assert card.decisions == []
    assert card.closed == [cards.WRITE.invocation_id]


# Looks and access


@pytest.mark.parametrize(
    "card", [cards.WRITE, cards.LONGER, cards.TWINS, cards.READ, cards.PASSPHRASE, cards.NO_CONTRACT, cards.LONG]
)
def test_a_card_has_its_width_and_never_more_than_its_height(play: Play, card: Card) -> None:
    window = play(card).window
    assert window.width() == 600
    assert window.height() <= 740
    assert window.bar.geometry().bottom() == window.height() - 1
    assert window.bar.height() >= window.bar.layout().heightForWidth(600)
    assert window.head.height() >= window.head.layout().heightForWidth(600)


@pytest.mark.parametrize("card", [cards.WRITE, cards.TWINS, cards.READ, cards.PASSPHRASE])
def test_at_twice_the_text_size_nothing_is_cut(play: Play, qapp: QApplication, card: Card) -> None:
    qapp.setFont(_font(26))
    window = play(card).window
    bar = window.bar
    for button in (bar.deny, bar.approve):
        assert button.width() >= button.sizeHint().width()
        assert bar.rect().contains(button.geometry())
    assert window.height() <= round(1600 * 0.92)
    assert bar.height() >= bar.layout().heightForWidth(window.width())


def test_every_control_has_a_name_and_a_description(play: Play) -> None:
    for shown in (cards.TWINS, cards.READ, cards.PASSPHRASE, cards.LONG):
        window = play(shown).window
        window.bar.open_reason()
        controls = [*window.head.controls()[1:], *window.middle.controls(), *window.bar.controls()]
        for control in controls:
            interface = QAccessible.queryAccessibleInterface(control)
            assert interface.text(QAccessible.Text.Name), control
            if control is not (window.middle.body.page if window.middle.body else None):
                assert interface.text(QAccessible.Text.Description), control


def test_the_card_is_an_alert(play: Play) -> None:
    interface = QAccessible.queryAccessibleInterface(play().window)
    assert interface.role() is QAccessible.Role.AlertMessage
    assert interface.text(QAccessible.Text.Name) == "Write. Create a refund"


def test_approve_describes_effect_target_fingerprint_and_what_is_missing(play: Play) -> None:
    card = play()
    described = card.window.bar.approve.accessibleDescription()
    assert described.startswith("Cannot be pressed yet.")
    card.arm()
    described = card.window.bar.approve.accessibleDescription()
    assert described.startswith("Write. Create a refund at api.example.com. Fingerprint 8 b 1 f, 2 0 c 4")


def test_assistive_tools_do_not_learn_the_length_of_the_passphrase(play: Play) -> None:
    card = play(cards.PASSPHRASE)
    said = []
    for typed in ("a", "longer than that"):
        _type(card, typed)
        interface = QAccessible.queryAccessibleInterface(card.window.bar.passphrase)
        said.append(
            [
                interface.text(text)
                for text in (QAccessible.Text.Name, QAccessible.Text.Value, QAccessible.Text.Description)
            ]
        )
        assert interface.textInterface() is None
    assert said[0] == said[1]


def test_copy_takes_the_whole_fingerprint(play: Play) -> None:
    card = play()
    card.click(card.window.bar.controls()[0])
    assert QGuiApplication.clipboard().text() == cards.WRITE.fingerprint


def test_the_scheme_can_change_while_a_card_is_shown(play: Play, qapp: QApplication) -> None:
    card = play(cards.TWINS)
    theme.apply(qapp, theme.Scheme.DARK)
    QApplication.processEvents()
    ground = card.window.grab().toImage().pixelColor(4, 4).name()
    assert ground == theme.tokens(theme.Scheme.DARK).window
    QApplication.sendEvent(card.window, QEvent(QEvent.Type.ActivationChange))
