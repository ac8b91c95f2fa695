"""The parts by themselves: what a passphrase field keeps, what a ring follows, what a badge says."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QAccessible, QGuiApplication, QInputMethodEvent, QKeyEvent, QKeySequence
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLineEdit, QPushButton, QScrollArea, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from affidavit.broker.terms import Effect, Outcome
from affidavit.gui import theme
from affidavit.gui.runs import revealed
from affidavit.gui.widgets import (
    EffectBadge,
    Label,
    OutcomeTag,
    PassphraseField,
    RunsLabel,
    TimeRing,
)


@pytest.fixture(autouse=True)
def _light(qapp: QApplication) -> None:
    theme.apply(qapp, theme.Scheme.LIGHT)


@pytest.fixture
def field(qtbot: QtBot) -> PassphraseField:
    made = PassphraseField()
    qtbot.addWidget(made)
    made.show()
    made.setFocus()
    return made


def _type(field: PassphraseField, text: str) -> None:
    """As a keyboard sends it; QTest types ASCII only."""
    for character in text:
        event = QKeyEvent(QEvent.Type.KeyPress, Qt.Key.Key_unknown, Qt.KeyboardModifier.NoModifier, character)
        QApplication.sendEvent(field, event)


def test_a_passphrase_is_taken_as_bytes_and_leaves_nothing(field: PassphraseField) -> None:
    _type(field, "pass phräse")
    assert field.take() == bytearray("pass phräse".encode())
    assert not field.filled
    assert field.take() == bytearray()


def test_backspace_takes_back_one_character_not_one_byte(field: PassphraseField) -> None:
    _type(field, "aä")
    QTest.keyClick(field, Qt.Key.Key_Backspace)
    assert field._bytes == b"a"
    QTest.keyClick(field, Qt.Key.Key_Backspace)
    QTest.keyClick(field, Qt.Key.Key_Backspace)
    assert not field.filled


@pytest.mark.parametrize("key", [Qt.Key.Key_U, Qt.Key.Key_Backspace])
def test_all_of_it_can_be_cleared_and_is_overwritten(field: PassphraseField, key: Qt.Key) -> None:
    QTest.keyClicks(field, "secret")
    kept = field._bytes
    QTest.keyClick(field, key, Qt.KeyboardModifier.ControlModifier)
    assert not field.filled
    assert kept == bytes(6)


def test_what_was_typed_is_forgotten_and_overwritten_once_nobody_sees_it(qtbot: QtBot) -> None:
    page = QWidget()
    qtbot.addWidget(page)
    field = PassphraseField(page)
    page.show()
    QTest.keyClicks(field, "secret")
    kept = field._bytes
    page.hide()
    assert not field.filled
    assert kept == bytes(6)


def test_paste_and_input_methods_add_at_the_end(field: PassphraseField) -> None:
    QGuiApplication.clipboard().setText("pasted")
    QTest.keySequence(field, QKeySequence(QKeySequence.StandardKey.Paste))
    event = QInputMethodEvent()
    event.setCommitString("é")
    QApplication.sendEvent(field, event)
    assert field.take() == bytearray("pastedé".encode())


def test_a_passphrase_over_the_limit_is_not_taken(field: PassphraseField) -> None:
    QGuiApplication.clipboard().setText("x" * 2_000)
    QTest.keySequence(field, QKeySequence(QKeySequence.StandardKey.Paste))
    assert not field.filled


def test_enter_is_reported_and_escape_and_tab_are_left_to_the_window(field: PassphraseField, qtbot: QtBot) -> None:
    with qtbot.waitSignal(field.entered):
        QTest.keyClick(field, Qt.Key.Key_Return)
    QTest.keyClick(field, Qt.Key.Key_Escape)
    assert not field.filled


def test_foreign_text_is_found_by_assistive_tools_and_never_parsed(qtbot: QtBot) -> None:
    label = RunsLabel([revealed("<b>x</b>\u202e"), revealed("second")])
    qtbot.addWidget(label)
    interface = QAccessible.queryAccessibleInterface(label)
    assert interface.text(QAccessible.Text.Name) == "<b>x</b>U+202E\nsecond"
    assert label.textFormat() is Qt.TextFormat.PlainText


def test_long_foreign_text_wraps_inside_words_and_is_never_elided(qtbot: QtBot) -> None:
    label = RunsLabel([revealed("x" * 500)])
    qtbot.addWidget(label)
    one = label.sizeHint().height()
    assert label.heightForWidth(100) > 10 * one
    assert label.heightForWidth(200) < label.heightForWidth(100)


def test_a_label_keeps_its_token_through_a_change_of_scheme(qtbot: QtBot, qapp: QApplication) -> None:
    label = Label("word", token="ink2")
    qtbot.addWidget(label)
    for scheme in (theme.Scheme.DARK, theme.Scheme.LIGHT):
        theme.apply(qapp, scheme)
        assert label.palette().windowText().color().name() == theme.tokens(scheme).ink2


@pytest.mark.parametrize(("effect", "said"), [(Effect.READ, "READ"), (Effect.WRITE, "WRITE")])
def test_a_badge_is_read_aloud_and_filled_only_for_a_write(qtbot: QtBot, effect: Effect, said: str) -> None:
    badge = EffectBadge(effect)
    qtbot.addWidget(badge)
    badge.resize(badge.sizeHint())
    assert QAccessible.queryAccessibleInterface(badge).text(QAccessible.Text.Name) == said
    ground = badge.grab().toImage().pixelColor(badge.width() - 4, badge.height() // 2).name()
    assert (ground == theme.tokens(theme.Scheme.LIGHT).ink) is (effect is Effect.WRITE)


@pytest.mark.parametrize("outcome", Outcome)
def test_an_outcome_tag_says_its_outcome_by_glyph_and_word(qtbot: QtBot, outcome: Outcome) -> None:
    tag = OutcomeTag(outcome)
    qtbot.addWidget(tag)
    names = [
        QAccessible.queryAccessibleInterface(child).text(QAccessible.Text.Name) for child in tag.findChildren(QWidget)
    ]
    assert len(set(names)) == 1
    assert names[0] == outcome.value.replace("_", " ").capitalize()


@pytest.mark.parametrize(("seconds", "filled"), [(102, False), (10, False), (9, True), (0, True)])
def test_the_ring_is_a_pill_under_ten_seconds(qtbot: QtBot, seconds: int, filled: bool) -> None:
    ring = TimeRing()
    qtbot.addWidget(ring)
    ring.set_left(seconds, 0.5)
    ring.resize(ring.sizeHint())
    colour = ring.grab().toImage().pixelColor(ring.width() // 2, 2).name()
    assert (colour == theme.tokens(theme.Scheme.LIGHT).ink) is filled


def test_the_focus_ring_lies_around_whatever_has_the_focus(qtbot: QtBot) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    column = QVBoxLayout(window)
    button, line, unmarked = QPushButton("one"), QLineEdit(), QPushButton("three")
    unmarked.setProperty(theme.PLAIN, True)
    for control in (button, line, unmarked):
        column.addWidget(control)
    ring = theme.FocusRing(window)
    window.show()
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    for control in (button, line):
        control.setFocus()
        assert ring.isVisible()
        assert ring.geometry() == control.geometry().adjusted(-2, -2, 2, 2)
    line.hide()
    assert not ring.geometry().intersects(line.geometry()) or not ring.isVisible()
    unmarked.setFocus()
    assert not ring.isVisible()


def test_the_focus_ring_is_cut_where_a_scroll_area_cuts_its_control(qtbot: QtBot) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    column = QVBoxLayout(window)
    area, inside = QScrollArea(), QWidget()
    inside.setFixedSize(200, 1_000)
    button = QPushButton("far", inside)
    button.setGeometry(10, 80, 100, 40)
    area.setWidget(inside)
    area.setFixedSize(220, 100)
    column.addWidget(area)
    ring = theme.FocusRing(window)
    window.show()
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    button.setFocus()
    assert ring.isVisible()
    assert ring.mask().boundingRect().height() < ring.height()
    area.verticalScrollBar().setValue(900)
    assert not ring.isVisible()
    QApplication.sendEvent(button, QEvent(QEvent.Type.Move))
