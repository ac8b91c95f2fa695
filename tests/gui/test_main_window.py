"""The main window with a scripted broker."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QCloseEvent
from PySide6.QtWidgets import QApplication, QPushButton
from pytestqt.qtbot import QtBot
from tests.gui.scripted_broker import PASSPHRASE, TODAY, ScriptedBroker, four_unknown

from affidavit.broker.api import OperatorApi
from affidavit.gui import theme
from affidavit.gui.bridge import Bridge
from affidavit.gui.main_window import MainWindow, Page
from affidavit.gui.unlock_window import UnlockWindow

COUNTS = {"remote_execution": {"committed": 5, "unknown": 4}}


@pytest.fixture
def broker() -> ScriptedBroker:
    return ScriptedBroker(four_unknown(), counts=COUNTS)


@pytest.fixture
def bridge(qtbot: QtBot, qapp: QApplication, broker: ScriptedBroker) -> Iterator[Bridge]:
    theme.apply(qapp, theme.Scheme.LIGHT)

    @asynccontextmanager
    async def opened() -> AsyncIterator[OperatorApi]:
        yield broker

    made = Bridge()
    with qtbot.waitSignals([made.opened, made.status_changed]):
        made.start(opened)
    yield made
    made.stop()
    assert made.join(5.0)


@pytest.fixture
def tray() -> dict[str, bool]:
    """Whether there is a tray, now."""
    return {"there": False}


@pytest.fixture
def window(qtbot: QtBot, bridge: Bridge, tray: dict[str, bool]) -> MainWindow:
    made = MainWindow(bridge, lambda: TODAY, lambda: tray["there"])
    qtbot.addWidget(made)
    made.show()
    return made


def test_the_sidebar_counts_what_is_unknown_and_asks_for_its_window(window: MainWindow, qtbot: QtBot) -> None:
    nav = window._nav[Page.UNKNOWN]
    assert nav._count == 4
    assert nav.accessibleDescription() == "4 outcomes are unknown"
    with qtbot.waitSignal(window.unknown_asked):
        qtbot.mouseClick(nav, Qt.MouseButton.LeftButton)
    assert window._pages.currentWidget() is window._overview


def test_the_overview_names_the_targets(window: MainWindow, qtbot: QtBot) -> None:
    qtbot.waitUntil(lambda: len(window._overview._targets._cells) == 12)
    with qtbot.waitSignal(window.unknown_asked):
        qtbot.mouseClick(window._overview._targets._open, Qt.MouseButton.LeftButton)


def test_activity_is_read_when_it_is_turned_to(window: MainWindow, qtbot: QtBot, broker: ScriptedBroker) -> None:
    assert not window._activity._pages.isVisible()
    window.go(Page.ACTIVITY)
    activity = window._activity
    assert activity._pages.currentWidget() is activity._empty
    broker.rows = [
        {
            "invocation_id": "act_1",
            "operation_id": "op_1",
            "at": None,
            "outcome": "rejected",
            "code": "X",
            "target": None,
        }
    ]
    window.refresh()
    qtbot.waitUntil(lambda: activity._pages.currentWidget() is activity._table)
    assert activity._model.rowCount() == 1
    assert activity._model.data(activity._model.index(0, 1)) == "Rejected, X"
    assert activity._shown.text() == "The newest action"


def test_lock_now_is_there_and_unlock_when_it_is_locked(
    window: MainWindow, qtbot: QtBot, bridge: Bridge, broker: ScriptedBroker
) -> None:
    button = window._vault._button
    assert (button.text(), button.isVisible()) == ("Lock now", True)
    assert not window._overview._unlock.isVisible()
    with qtbot.waitSignal(window.lock_asked):
        qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    bridge.tell(lambda _api: broker.tell(vault="locked"))
    qtbot.waitUntil(lambda: button.text() == "Unlock…")
    assert window._overview._unlock.isVisible()
    with qtbot.waitSignal(window.unlock_asked):
        qtbot.mouseClick(button, Qt.MouseButton.LeftButton)


def test_the_form_on_the_page_unlocks(window: MainWindow, qtbot: QtBot, bridge: Bridge, broker: ScriptedBroker) -> None:
    bridge.tell(lambda _api: broker.tell(vault="locked", pending_contracts=2))
    form = window._overview._unlock.form
    qtbot.waitUntil(form.isVisible)
    assert form._contracts.text().startswith("2 contract files are new or changed")
    form._field.setFocus()
    qtbot.keyClicks(form._field, "wrong")
    qtbot.keyClick(form._field, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: form._said.text() == "The passphrase does not open the vault.")
    assert not form._field.filled
    qtbot.keyClicks(form._field, PASSPHRASE.decode())
    with qtbot.waitSignal(form.unlocked):
        qtbot.mouseClick(form._button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: not form.isVisible())
    assert broker.calls == [("unlock", ("the tray",)), ("unlock", ("the tray",))]


def test_the_strip_shows_cards(window: MainWindow, qtbot: QtBot, bridge: Bridge, broker: ScriptedBroker) -> None:
    assert not window._strip._show.isVisible()
    bridge.tell(lambda _api: broker.tell(cards=2, sessions=1))
    qtbot.waitUntil(window._strip._show.isVisible)
    assert window._strip._cards.text() == "2 cards waiting"
    with qtbot.waitSignal(window.cards_asked):
        qtbot.mouseClick(window._strip._show, Qt.MouseButton.LeftButton)


def test_an_empty_journal_says_what_will_appear(
    window: MainWindow, qtbot: QtBot, bridge: Bridge, broker: ScriptedBroker
) -> None:
    bridge.tell(lambda _api: broker.tell(counts={}))
    qtbot.waitUntil(window._overview._empty.isVisible)
    assert not window._overview._ladder.isVisible()


def test_keys_turn_pages_and_lock(window: MainWindow, qtbot: QtBot) -> None:
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)
    qtbot.keyClick(window, Qt.Key.Key_2, Qt.KeyboardModifier.ControlModifier)
    assert window._pages.currentWidget() is window._activity
    for key, signal in (
        (Qt.Key.Key_L, window.lock_asked),
        (Qt.Key.Key_U, window.unknown_asked),
        (Qt.Key.Key_Q, window.quit_asked),
    ):
        with qtbot.waitSignal(signal):
            qtbot.keyClick(window, key, Qt.KeyboardModifier.ControlModifier)


class _Spontaneous(QCloseEvent):
    def spontaneous(self) -> bool:
        return True


@pytest.mark.parametrize("there", [True, False])
def test_without_a_tray_closing_puts_the_window_away(window: MainWindow, tray: dict[str, bool], there: bool) -> None:
    tray["there"] = there
    event = _Spontaneous()
    window.closeEvent(event)
    assert event.isAccepted() is there
    assert window.isMinimized() is not there


def test_a_sentence_stands_above_the_pages(window: MainWindow) -> None:
    window.say("Quits when 1 action has its answer")
    assert window._banner.isVisible()
    window.say("")
    assert not window._banner.isVisible()


def test_the_unlock_window_closes_once_the_vault_is_open(qtbot: QtBot, bridge: Bridge, broker: ScriptedBroker) -> None:
    unlock = UnlockWindow(bridge)
    qtbot.addWidget(unlock)
    unlock.ask()
    qtbot.keyClicks(unlock.form._field, "half a passphr")
    unlock.reject()
    assert not unlock.form._field.filled
    unlock.ask()
    qtbot.keyClicks(unlock.form._field, PASSPHRASE.decode())
    qtbot.keyClick(unlock.form._field, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: not unlock.isVisible())


ALERTS = [
    {"id": 1, "which": "contradiction", "says": "Record 41 is contradicted.", "at": "2026-11-30T13:02:00Z"},
    {"id": 2, "which": "passphrase", "says": "Wrong passphrases from /tmp/x\u202ey.", "at": "2026-11-30T14:02:11Z"},
]


def said(window: MainWindow) -> list[str]:
    """What the alerts' labels say, row by row."""
    grid = window._overview._alerts._grid
    cells = [grid.itemAtPosition(row, at).widget() for row in range(2) for at in range(3)]
    return [cell.text() for cell in cells]


def test_alerts_stand_on_the_overview_with_nothing_hidden(
    window: MainWindow, qtbot: QtBot, bridge: Bridge, broker: ScriptedBroker
) -> None:
    assert not window._overview._alerts.isVisible()
    bridge.tell(lambda _api: broker.tell(alerts=ALERTS))
    qtbot.waitUntil(window._overview._alerts.isVisible)
    newest = ["14:02:11", "Wrong passphrases from /tmp/xU+202Ey.", "Close…"]
    assert said(window) == [*newest, "13:02:00", "Record 41 is contradicted.", "Close…"]
    close = window._overview._alerts._grid.itemAtPosition(0, 2).widget()
    assert close.accessibleDescription() == "Wrong passphrases from /tmp/xU+202Ey."
    bridge.tell(lambda _api: broker.tell(cards=1))
    qtbot.waitUntil(lambda: bridge.status.cards == 1)
    assert window._overview._alerts._grid.itemAtPosition(0, 2).widget() is close, "the focus stays where it is"


def test_an_alert_is_closed_with_the_passphrase_and_never_by_enter(
    window: MainWindow, qtbot: QtBot, bridge: Bridge, broker: ScriptedBroker
) -> None:
    panel = window._overview._alerts
    bridge.tell(lambda _api: broker.tell(alerts=ALERTS))
    qtbot.waitUntil(panel.isVisible)
    qtbot.mouseClick(panel._grid.itemAtPosition(1, 2).widget(), Qt.MouseButton.LeftButton)
    closing = panel.closing
    assert closing is not None
    qtbot.waitUntil(closing.isVisible)
    assert closing.focusWidget() is closing.bar.back
    assert not any(b.isDefault() or b.autoDefault() for b in closing.findChildren(QPushButton))
    qtbot.keyClicks(closing.bar.passphrase, "wrong")
    qtbot.keyClick(closing.bar.passphrase, Qt.Key.Key_Return)
    qtbot.keyClick(closing.bar.sign, Qt.Key.Key_Return)
    assert broker.calls == []
    qtbot.keyClick(closing.bar.sign, Qt.Key.Key_Space)
    qtbot.waitUntil(lambda: closing.bar.said.text() == "The passphrase does not open the vault.")
    qtbot.keyClicks(closing.bar.passphrase, PASSPHRASE.decode())
    assert closing.bar.sign.accessibleDescription() == "Record 41 is contradicted."
    qtbot.mouseClick(closing.bar.sign, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: panel.closing is None)
    assert broker.calls == [("alert_close", (1,)), ("alert_close", (1,))]
    qtbot.waitUntil(lambda: len(bridge.status.alerts) == 1)
