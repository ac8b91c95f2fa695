"""The unknown window with a scripted broker: list, detail, and an attestation from the form to the record."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAccessible, QFont
from PySide6.QtWidgets import QApplication, QPushButton, QScrollArea
from pytestqt.qtbot import QtBot
from tests.gui.scripted_broker import PASSPHRASE, TODAY, ScriptedBroker, four_unknown, products, refund
from tests.gui.whole import cut, text_at_200_percent

from affidavit.broker.api import OperatorApi
from affidavit.broker.terms import InvocationId, Outcome
from affidavit.gui import theme
from affidavit.gui.attest_form import AttestForm
from affidavit.gui.bridge import Bridge
from affidavit.gui.second_look import SecondLook
from affidavit.gui.unknown_view import Draft
from affidavit.gui.unknown_window import UnknownWindow

REFUND = refund().invocation_id
PRODUCTS = products().invocation_id
NOTE = "Refund list in the dashboard: one refund of 49.00 EUR."


@pytest.fixture
def broker() -> ScriptedBroker:
    return ScriptedBroker(four_unknown())


@pytest.fixture
def bridge(qtbot: QtBot, broker: ScriptedBroker) -> Iterator[Bridge]:
    @asynccontextmanager
    async def opened() -> AsyncIterator[OperatorApi]:
        yield broker

    made = Bridge()
    with qtbot.waitSignal(made.opened):
        made.start(opened)
    yield made
    made.stop()
    assert made.join(5.0)


@pytest.fixture
def window(qtbot: QtBot, qapp: QApplication, bridge: Bridge) -> UnknownWindow:
    theme.apply(qapp, theme.Scheme.LIGHT)
    made = UnknownWindow(bridge, lambda: TODAY)
    qtbot.addWidget(made)
    made.show()
    qtbot.waitUntil(lambda: made._list.current() is not None)
    return made


def accessible_rows(view: object) -> list[str]:
    found = QAccessible.queryAccessibleInterface(view)  # type: ignore[arg-type]
    assert found is not None
    return [found.child(i).text(QAccessible.Text.Name) for i in range(found.childCount())]


def look(qtbot: QtBot, window: UnknownWindow, draft: Draft, at: InvocationId = REFUND) -> SecondLook:
    window.look_at(at)
    window._detail.form.show_draft(draft)
    qtbot.mouseClick(window._detail.form._review, Qt.MouseButton.LeftButton)
    assert window._look is not None
    return window._look


def type_passphrase(qtbot: QtBot, second: SecondLook, text: bytes) -> None:
    second.bar.passphrase.setFocus()
    qtbot.keyClicks(second.bar.passphrase, text.decode())


def test_the_first_in_the_list_is_shown(window: UnknownWindow) -> None:
    assert window._list.model().rowCount() == 4
    assert window._detail._title.text() == "Restart shop-worker"
    assert window._count.text() == "4"


def test_every_row_of_both_lists_is_read_as_a_sentence(window: UnknownWindow) -> None:
    window.look_at(REFUND)
    assert accessible_rows(window._list)[1].startswith("Create a refund, at api.example.com. Outcome unknown.")
    rows = accessible_rows(window._detail._evidence._timeline)
    assert len(rows) == 8
    assert rows[4] == "Dispatch line: what stands below was handed to a connection."
    assert rows[6] == "Record 41, 14:02:11: Request sent, all 117 bytes. transport observed."


def test_look_at_selects_the_named_action(window: UnknownWindow) -> None:
    window.look_at(REFUND)
    assert window._list.current() == REFUND
    assert window._detail._title.text() == "Create a refund"


def test_look_at_waits_for_the_list(qtbot: QtBot, bridge: Bridge) -> None:
    made = UnknownWindow(bridge, lambda: TODAY)
    qtbot.addWidget(made)
    made.look_at(REFUND)
    qtbot.waitUntil(lambda: made._list.current() == REFUND)


def test_an_action_that_settles_leaves_the_list_and_a_new_one_comes(
    qtbot: QtBot, window: UnknownWindow, bridge: Bridge, broker: ScriptedBroker
) -> None:
    def change(_api: OperatorApi) -> None:
        broker.stories = [s for s in broker.stories if s.invocation_id != InvocationId("act_" + "3".zfill(26))]
        broker.tell(unknown=3)

    bridge.tell(change)
    qtbot.waitUntil(lambda: window._list.model().rowCount() == 3)
    assert window._detail._title.text() == "Create a refund"


def test_the_empty_page_says_so(qtbot: QtBot, window: UnknownWindow, bridge: Bridge, broker: ScriptedBroker) -> None:
    def clear(_api: OperatorApi) -> None:
        broker.stories = []
        broker.tell(unknown=0)

    bridge.tell(clear)
    qtbot.waitUntil(lambda: window._pages.currentWidget() is window._empty)
    assert window._empty._first.text() == ("No unknown outcomes. Everything sent so far has a recorded answer.")
    assert not window._side.isVisible()


def test_what_was_written_about_an_action_stays_with_it(window: UnknownWindow) -> None:
    window.look_at(REFUND)
    draft = Draft(Outcome.REJECTED, NOTE, "re_1")
    window._detail.form.show_draft(draft)
    window._list.setCurrentIndex(window._list.model().index(0, 0))
    assert window._detail.form.draft() == Draft()
    window.look_at(REFUND)
    assert window._detail.form.draft() == draft


def test_a_refresh_keeps_what_is_being_written(qtbot: QtBot, window: UnknownWindow) -> None:
    window.look_at(REFUND)
    window._detail.form.show_draft(Draft(Outcome.COMMITTED, NOTE))
    window._draw()
    assert window._detail.form.draft() == Draft(Outcome.COMMITTED, NOTE)


def test_review_names_the_missing_step_until_it_is_armed(qtbot: QtBot, window: UnknownWindow) -> None:
    form = window._detail.form
    assert not form._review.isEnabled()
    assert form._missing.text() == "Choose what happened."
    qtbot.mouseClick(form._committed, Qt.MouseButton.LeftButton)
    assert form._missing.text() == "Say what you checked."
    form._note.setPlainText(NOTE)
    assert form._review.isEnabled()
    assert form._missing.text() == ""


def test_a_locked_vault_cannot_be_attested_into(
    qtbot: QtBot, window: UnknownWindow, bridge: Bridge, broker: ScriptedBroker
) -> None:
    form = window._detail.form
    form.show_draft(Draft(Outcome.COMMITTED, NOTE))
    bridge.tell(lambda _api: broker.tell(vault="locked"))
    qtbot.waitUntil(lambda: not form._review.isEnabled())
    assert form._missing.text() == "The vault is locked. Unlock it to attest."


def test_the_second_look_forgets_its_passphrase_when_the_vault_locks(
    qtbot: QtBot, window: UnknownWindow, bridge: Bridge, broker: ScriptedBroker
) -> None:
    second = look(qtbot, window, Draft(Outcome.COMMITTED, NOTE, "re_5Tq81"))
    qtbot.keyClicks(second.bar.passphrase, PASSPHRASE.decode())
    assert second.bar.sign.isEnabled()
    with qtbot.waitSignal(bridge.vault_changed):
        bridge.tell(lambda _api: broker.tell(vault="locked"))
    assert not second.bar.sign.isEnabled()


def test_the_second_look_starts_on_go_back_and_needs_the_passphrase(qtbot: QtBot, window: UnknownWindow) -> None:
    second = look(qtbot, window, Draft(Outcome.COMMITTED, NOTE, "re_5Tq81"))
    qtbot.waitUntil(second.isVisible)
    assert second.focusWidget() is second.bar.back
    assert not second.bar.sign.isEnabled()
    assert second.bar.said.text() == "Type the vault passphrase to sign."
    assert second.bar.passphrase.accessibleDescription() == (
        "Empty. Enter moves on to Sign statement. What you type is not read aloud."
    )
    assert not any(b.isDefault() or b.autoDefault() for b in second.findChildren(QPushButton))
    type_passphrase(qtbot, second, PASSPHRASE)
    assert second.bar.sign.isEnabled()


@pytest.mark.parametrize("note", ["short", "word " * 60, "line\n" * 20])
@pytest.mark.parametrize("family", ["Inter", "DejaVu Sans"])
def test_a_statement_is_seen_whole_where_the_screen_has_room(
    qtbot: QtBot, qapp: QApplication, window: UnknownWindow, note: str, family: str
) -> None:
    before = qapp.font()
    qapp.setFont(QFont(family, 10))
    try:
        second = look(qtbot, window, Draft(Outcome.COMMITTED, note, "log line 232"))
        qtbot.waitUntil(second.isVisible)
        (area,) = second.findChildren(QScrollArea)
        assert area.verticalScrollBar().maximum() == 0
    finally:
        qapp.setFont(before)


def test_a_statement_too_long_for_the_screen_scrolls(qtbot: QtBot, window: UnknownWindow) -> None:
    second = look(qtbot, window, Draft(Outcome.COMMITTED, "line\n" * 200))
    qtbot.waitUntil(second.isVisible)
    (area,) = second.findChildren(QScrollArea)
    assert area.verticalScrollBar().maximum() > 0
    assert second.height() < second.screen().availableSize().height()
    assert second.bar.sign.isVisible()


def test_enter_never_signs(qtbot: QtBot, window: UnknownWindow, broker: ScriptedBroker) -> None:
    second = look(qtbot, window, Draft(Outcome.COMMITTED, NOTE))
    type_passphrase(qtbot, second, PASSPHRASE)
    qtbot.keyClick(second.bar.passphrase, Qt.Key.Key_Return)
    assert second.focusWidget() is second.bar.sign
    qtbot.keyClick(second.bar.sign, Qt.Key.Key_Return)
    assert second.isVisible()
    assert broker.calls == []


def test_an_attestation_from_the_form_to_the_record(
    qtbot: QtBot, window: UnknownWindow, broker: ScriptedBroker
) -> None:
    second = look(qtbot, window, Draft(Outcome.COMMITTED, NOTE, "re_5Tq81"))
    type_passphrase(qtbot, second, PASSPHRASE)
    with qtbot.waitSignal(window.attested) as told:
        qtbot.mouseClick(second.bar.sign, Qt.MouseButton.LeftButton)
    sentence = "You attested it as committed (record 47). The attempt's own record stays beside it."
    assert told.args == [sentence]
    assert broker.calls == [("attest", (REFUND, "committed", NOTE, "re_5Tq81", None, None))]
    qtbot.waitUntil(lambda: window._list.model().rowCount() == 3)
    assert window._list.current() != REFUND
    assert window._done.isVisible()
    assert window._done._text.text() == sentence
    assert window._look is None
    assert window._detail.form.draft() == Draft()


def test_what_another_has_settled_is_seen_before_the_signature(
    qtbot: QtBot, window: UnknownWindow, bridge: Bridge, broker: ScriptedBroker
) -> None:
    """R77: an operator resumes what another has settled."""
    second = look(qtbot, window, Draft(Outcome.COMMITTED, NOTE))
    type_passphrase(qtbot, second, PASSPHRASE)

    def settle(_api: OperatorApi) -> None:
        (story,) = [each for each in broker.stories if each.invocation_id == REFUND]
        story.attest(Outcome.REJECTED, "looked", None)
        broker.stories.remove(story)
        broker.settled.append(story)
        broker.tell(unknown=3)

    bridge.tell(settle)
    sentence = "It was settled while you were reading: rejected, attested by operator. Record 47 says so."
    qtbot.waitUntil(lambda: second.bar.said.text() == sentence)
    assert not second.bar.passphrase.filled
    assert not second.bar.passphrase.isEnabled()
    assert not second.bar.sign.isEnabled()
    assert second.focusWidget() is second.bar.back
    qtbot.mouseClick(second.bar.back, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: window._look is None)
    assert broker.calls == []


def test_an_item_that_another_has_settled(
    qtbot: QtBot, window: UnknownWindow, bridge: Bridge, broker: ScriptedBroker
) -> None:
    second = look(qtbot, window, Draft(Outcome.COMMITTED, NOTE, item="TS-112"), PRODUCTS)

    def settle(_api: OperatorApi) -> None:
        (story,) = [each for each in broker.stories if each.invocation_id == PRODUCTS]
        story.attest(Outcome.COMMITTED, "looked", None, "TS-112")
        broker.tell()

    bridge.tell(settle)
    qtbot.waitUntil(lambda: second.bar.said.text() == "This item was settled while you were reading: committed.")
    assert window._list.current() == PRODUCTS


def test_news_of_another_action_leaves_the_statement_alone(
    qtbot: QtBot, window: UnknownWindow, bridge: Bridge, broker: ScriptedBroker
) -> None:
    second = look(qtbot, window, Draft(Outcome.COMMITTED, NOTE))
    type_passphrase(qtbot, second, PASSPHRASE)

    def change(_api: OperatorApi) -> None:
        broker.stories = [s for s in broker.stories if s.invocation_id != PRODUCTS]
        broker.tell(unknown=3)

    bridge.tell(change)
    qtbot.waitUntil(lambda: window._list.model().rowCount() == 3)
    assert second.bar.sign.isEnabled()


def test_the_items_of_a_batch_are_read_one_by_one(window: UnknownWindow) -> None:
    detail = window._detail
    assert not detail._items.isVisible()
    assert not detail.form._for.isVisible()
    window.look_at(PRODUCTS)
    assert detail._items.isVisible()
    rows = accessible_rows(detail._items._list)
    assert len(rows) == 14
    assert rows[11] == 'Item 12, TS-111: Rejected. /status is "invalid price".'
    assert rows[12] == "Item 13, TS-112: Unknown. not in the answer."
    found = QAccessible.queryAccessibleInterface(detail._items._list)
    assert found is not None
    assert found.text(QAccessible.Text.Name) == "Items"
    window.look_at(REFUND)
    assert not detail._items.isVisible()


def test_each_item_is_attested_by_itself_and_by_the_keyboard(
    qtbot: QtBot, window: UnknownWindow, broker: ScriptedBroker
) -> None:
    window.look_at(PRODUCTS)
    form = window._detail.form
    assert [form._for.itemText(i) for i in range(form._for.count())] == ["Item 13, TS-112", "Item 14, TS-113"]
    assert form._for.accessibleDescription() == "For"
    form._for.setFocus()
    qtbot.keyClick(form._for, Qt.Key.Key_Down)
    assert form.draft().item == "TS-113"
    second = look(qtbot, window, Draft(Outcome.COMMITTED, NOTE, item="TS-113"), PRODUCTS)
    assert second.statement.claim.startswith("Item 14, TS-113, of")
    type_passphrase(qtbot, second, PASSPHRASE)
    with qtbot.waitSignal(window.attested) as told:
        qtbot.mouseClick(second.bar.sign, Qt.MouseButton.LeftButton)
    assert told.args[0].startswith("You attested item TS-113 as committed (record ")
    assert broker.calls == [("attest", (PRODUCTS, "committed", NOTE, None, "TS-113", None))]
    assert window._list.current() == PRODUCTS, "the other item is still unknown"
    assert [form._for.itemText(i) for i in range(form._for.count())] == ["Item 13, TS-112"]
    assert form.draft() == Draft(item="TS-112")
    last = look(qtbot, window, Draft(Outcome.REJECTED, NOTE, item="TS-112"), PRODUCTS)
    type_passphrase(qtbot, last, PASSPHRASE)
    with qtbot.waitSignal(window.attested):
        qtbot.mouseClick(last.bar.sign, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: window._list.model().rowCount() == 3)


def test_a_draft_about_an_item_stays_with_it(window: UnknownWindow) -> None:
    window.look_at(PRODUCTS)
    draft = Draft(Outcome.REJECTED, NOTE, "re_1", "TS-113")
    window._detail.form.show_draft(draft)
    window.look_at(REFUND)
    assert window._detail.form.draft() == Draft()
    window.look_at(PRODUCTS)
    assert window._detail.form.draft() == draft


def test_a_wrong_passphrase_records_nothing_and_may_be_tried_again(
    qtbot: QtBot, window: UnknownWindow, broker: ScriptedBroker
) -> None:
    second = look(qtbot, window, Draft(Outcome.REJECTED, NOTE))
    type_passphrase(qtbot, second, b"wrong")
    qtbot.mouseClick(second.bar.sign, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: second.bar.said.text() == "The passphrase does not open the vault. Nothing was recorded.")
    assert not second.bar.passphrase.filled
    assert window._list.model().rowCount() == 4
    assert len(broker.stories) == 4
    type_passphrase(qtbot, second, PASSPHRASE)
    with qtbot.waitSignal(window.attested):
        qtbot.mouseClick(second.bar.sign, Qt.MouseButton.LeftButton)


def test_going_back_keeps_the_draft_and_forgets_the_passphrase(
    qtbot: QtBot, window: UnknownWindow, broker: ScriptedBroker
) -> None:
    draft = Draft(Outcome.COMMITTED, NOTE)
    second = look(qtbot, window, draft)
    type_passphrase(qtbot, second, PASSPHRASE)
    qtbot.keyClick(second, Qt.Key.Key_Escape)
    assert not second.bar.passphrase.filled
    assert window._look is None
    assert window._detail.form.draft() == draft
    assert broker.calls == []


def test_a_statement_on_its_way_cannot_be_walked_away_from(qtbot: QtBot, window: UnknownWindow) -> None:
    second = look(qtbot, window, Draft(Outcome.COMMITTED, NOTE))
    second.signed.disconnect(window._sign)
    type_passphrase(qtbot, second, PASSPHRASE)
    with qtbot.waitSignal(second.signed) as given:
        qtbot.mouseClick(second.bar.sign, Qt.MouseButton.LeftButton)
    assert given.args == [bytearray(PASSPHRASE)]
    qtbot.keyClick(second, Qt.Key.Key_Escape)
    assert second.isVisible()
    assert second.bar.said.text() == "The statement is being recorded."


def test_without_a_look_up_the_box_stays_and_says_so(window: UnknownWindow) -> None:
    query = window._detail._query
    assert query._note.text() == "No status query is known for this action."
    assert not query._target.isVisible()
    window.look_at(REFUND)
    assert query._target.isVisible()
    assert not query.findChildren(QPushButton)


def test_the_form_stands_alone(qtbot: QtBot) -> None:
    form = AttestForm()
    qtbot.addWidget(form)
    form.show_draft(Draft(Outcome.REJECTED, NOTE))
    with qtbot.waitSignal(form.review_asked) as asked:
        form._review.click()
    assert asked.args == [Draft(Outcome.REJECTED, NOTE)]
    form.set_sealed(True)
    assert not form._review.isEnabled()


@pytest.mark.parametrize("which", [REFUND, PRODUCTS])
@pytest.mark.parametrize("width", [0, 1800])
def test_nothing_is_cut_at_200_percent(
    qtbot: QtBot, qapp: QApplication, bridge: Bridge, width: int, which: InvocationId
) -> None:
    with text_at_200_percent(qapp):
        window = UnknownWindow(bridge, lambda: TODAY)
        qtbot.addWidget(window)
        window.resize(width, 640)
        window.look_at(which)
        qtbot.waitUntil(lambda: window._shown == which and window._detail.isVisible())
        qtbot.waitUntil(lambda: cut(window) == [])
        assert window.width() == max(width, window.minimumWidth())
