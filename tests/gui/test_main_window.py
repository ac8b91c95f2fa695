"""The main window with a scripted broker."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QCloseEvent
from PySide6.QtWidgets import QApplication, QPushButton, QScrollArea, QWidget
from pytestqt.qtbot import QtBot
from tests.gui.scripted_broker import HOST, NEW_HOST, PASSPHRASE, TODAY, ScriptedBroker, four_unknown
from tests.gui.whole import cut, text_at_200_percent

from affidavit.broker.api import OperatorApi, OperatorRefused
from affidavit.gui import theme
from affidavit.gui.bridge import Bridge
from affidavit.gui.hosts_page import HostsPage
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
        qtbot.mouseClick(window._overview._targets.open, Qt.MouseButton.LeftButton)


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


def test_what_was_typed_on_the_page_does_not_open_the_vault_later(
    window: MainWindow, qtbot: QtBot, bridge: Bridge, broker: ScriptedBroker
) -> None:
    def turn(vault: str) -> None:
        with qtbot.waitSignal(bridge.vault_changed):
            bridge.tell(lambda _api: broker.tell(vault=vault))

    turn("locked")
    form = window._overview._unlock.form
    qtbot.keyClicks(form._field, PASSPHRASE.decode())
    assert form._button.isEnabled()
    turn("ready")  # another window, or a command, opened it
    turn("locked")
    assert not form._button.isEnabled()
    qtbot.keyClicks(form._field, PASSPHRASE.decode())
    window.go(Page.ACTIVITY)
    window.go(Page.OVERVIEW)
    assert not form._button.isEnabled()
    assert broker.calls == []


def test_a_window_that_waits_for_its_passphrase_forgets_it_when_the_vault_locks(
    window: MainWindow, qtbot: QtBot, bridge: Bridge, broker: ScriptedBroker
) -> None:
    bridge.tell(lambda _api: broker.tell(alerts=ALERTS))
    panel = window._overview._alerts
    qtbot.waitUntil(panel.isVisible)
    panel.ask(bridge.status.alerts[0])
    closing = panel.closing
    assert closing is not None
    qtbot.keyClicks(closing.bar.passphrase, PASSPHRASE.decode())
    with qtbot.waitSignal(bridge.vault_changed):
        bridge.tell(lambda _api: broker.tell(vault="locked"))
    assert not closing.bar.passphrase.filled
    qtbot.keyClicks(closing.bar.passphrase, PASSPHRASE.decode())
    field = closing.bar.passphrase
    window.hide()
    closing.hide()
    assert not field.filled


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


def test_the_unlock_window_forgets_what_was_typed_when_the_vault_is_opened_elsewhere(
    qtbot: QtBot, bridge: Bridge, broker: ScriptedBroker
) -> None:
    with qtbot.waitSignal(bridge.vault_changed):
        bridge.tell(lambda _api: broker.tell(vault="locked"))
    unlock = UnlockWindow(bridge)
    qtbot.addWidget(unlock)
    unlock.ask()
    qtbot.keyClicks(unlock.form._field, PASSPHRASE.decode())
    with qtbot.waitSignal(bridge.vault_changed):
        bridge.tell(lambda _api: broker.tell(vault="ready"))
    assert unlock.isVisible()
    assert not unlock.form._field.filled


ALERTS = [
    {"id": 1, "which": "contradiction", "says": "Record 41 is contradicted.", "at": "2026-11-30T13:02:00Z"},
    {"id": 2, "which": "passphrase", "says": "Wrong passphrases from /tmp/x\u202ey.", "at": "2026-11-30T14:02:11Z"},
]


def said(window: MainWindow) -> list[str]:
    """What the alerts' labels say, row by row."""
    return [part.text() for row in window._overview._alerts.rows for part in (row.since, row.says, row.button)]


def test_alerts_stand_on_the_overview_with_nothing_hidden(
    window: MainWindow, qtbot: QtBot, bridge: Bridge, broker: ScriptedBroker
) -> None:
    assert not window._overview._alerts.isVisible()
    bridge.tell(lambda _api: broker.tell(alerts=ALERTS))
    qtbot.waitUntil(window._overview._alerts.isVisible)
    newest = ["14:02:11", "Wrong passphrases from /tmp/xU+202Ey.", "Close…"]
    assert said(window) == [*newest, "13:02:00", "Record 41 is contradicted.", "Close…"]
    close = window._overview._alerts.rows[0].button
    assert close.accessibleDescription() == "Wrong passphrases from /tmp/xU+202Ey."
    bridge.tell(lambda _api: broker.tell(cards=1))
    qtbot.waitUntil(lambda: bridge.status.cards == 1)
    assert window._overview._alerts.rows[0].button is close, "the focus stays where it is"


def test_an_alert_is_closed_with_the_passphrase_and_never_by_enter(
    window: MainWindow, qtbot: QtBot, bridge: Bridge, broker: ScriptedBroker
) -> None:
    panel = window._overview._alerts
    bridge.tell(lambda _api: broker.tell(alerts=ALERTS))
    qtbot.waitUntil(panel.isVisible)
    qtbot.mouseClick(panel.rows[1].button, Qt.MouseButton.LeftButton)
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


# Hosts


@pytest.fixture
def hosts(window: MainWindow, qtbot: QtBot, broker: ScriptedBroker) -> HostsPage:
    broker.entries = [copy.deepcopy(HOST), dict(NEW_HOST)]
    window.go(Page.HOSTS)
    page = window._hosts
    qtbot.waitUntil(lambda: len(page._panels) == 2)
    return page


def signed(qtbot: QtBot, page: HostsPage) -> None:
    """Sign what the page asks for, by keys."""
    signing = page.signing
    assert signing is not None
    qtbot.waitUntil(signing.isVisible)
    assert signing.focusWidget() is signing.bar.back
    qtbot.keyClicks(signing.bar.passphrase, PASSPHRASE.decode())
    qtbot.keyClick(signing.bar.passphrase, Qt.Key.Key_Return)
    assert page.signing is signing, "Enter does not sign"
    qtbot.keyClick(signing.bar.sign, Qt.Key.Key_Space)
    qtbot.waitUntil(lambda: page.signing is None)


def test_a_key_is_forgotten_under_the_passphrase(hosts: HostsPage, qtbot: QtBot, broker: ScriptedBroker) -> None:
    first = hosts._panels[0]
    forget = [b for b in first.findChildren(QPushButton) if b.text() == "Forget key…"]
    gone, stays = (key["fingerprint"] for key in HOST["host_keys"])
    assert [b.accessibleDescription() for b in forget] == [gone, stays]
    assert all(b.focusPolicy() != Qt.FocusPolicy.NoFocus for b in forget)
    qtbot.keyClick(forget[0], Qt.Key.Key_Space)
    signed(qtbot, hosts)
    assert broker.calls[-1] == ("host_edit", ("web-01", {"forget_keys": (gone,)}))
    qtbot.waitUntil(lambda: [key.fingerprint for key in hosts._shown[0].keys] == [stays])


def test_a_host_is_removed_under_the_passphrase(hosts: HostsPage, qtbot: QtBot, broker: ScriptedBroker) -> None:
    (remove,) = (b for b in hosts._panels[1].findChildren(QPushButton) if b.text() == "Remove…")
    qtbot.mouseClick(remove, Qt.MouseButton.LeftButton)
    assert hosts.signing is not None
    qtbot.keyClicks(hosts.signing.bar.passphrase, "wrong")
    qtbot.mouseClick(hosts.signing.bar.sign, Qt.MouseButton.LeftButton)
    said = hosts.signing.bar.said
    qtbot.waitUntil(lambda: said.text() == "The passphrase does not open the vault.")
    assert len(broker.entries) == 2
    qtbot.keyClicks(hosts.signing.bar.passphrase, PASSPHRASE.decode())
    qtbot.mouseClick(hosts.signing.bar.sign, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: [row.name for row in hosts._shown] == ["web-01"])


def test_a_file_is_taken_in_and_what_it_skipped_is_said(
    hosts: HostsPage, qtbot: QtBot, broker: ScriptedBroker, tmp_path: Path
) -> None:
    file = tmp_path / "known_hosts"
    file.write_bytes(b"web-01 \xff\n")
    hosts.ask_import(file)
    signed(qtbot, hosts)
    assert ("host_import", ("web-01 \ufffd\n",)) in broker.calls
    assert hosts._said.text().endswith("Skipped, line 2: A pattern: only literal names are taken.")


@pytest.mark.parametrize("size", [None, 0, 256 * 1024 + 1])
def test_a_file_that_cannot_be_taken_in_asks_for_nothing(hosts: HostsPage, tmp_path: Path, size: int | None) -> None:
    file = tmp_path / "known_hosts"
    if size is not None:
        file.write_bytes(b"x" * size)
    hosts.ask_import(file)
    assert hosts.signing is None
    assert hosts._said.text() == "known_hosts cannot be read, is empty, or is over 256 KiB."


def test_while_the_vault_is_locked_no_host_is_shown(hosts: HostsPage, qtbot: QtBot, bridge: Bridge) -> None:
    bridge.tell(lambda api: api.tell(vault="locked"))  # type: ignore[attr-defined]
    qtbot.waitUntil(lambda: hosts._panels == [])
    assert hosts._empty.text().startswith("The vault is locked.")
    assert not hosts._import.isEnabled()


def test_what_did_not_change_is_not_built_anew(hosts: HostsPage, window: MainWindow, qtbot: QtBot) -> None:
    before = hosts._panels
    with qtbot.waitSignal(window._bridge.status_changed):
        window._bridge.tell(lambda api: api.tell(cards=1))  # type: ignore[attr-defined]
    qtbot.waitUntil(lambda: not window._asking)
    assert hosts._panels is before


@pytest.mark.parametrize(
    ("code", "says"),
    [("locked", "The vault is locked. Hosts appear once it is unlocked."), ("invalid", "It cannot be read. Look.")],
)
def test_a_refusal_is_told_as_what_it_is(
    hosts: HostsPage, window: MainWindow, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch, code: str, says: str
) -> None:
    async def refuse(_broker: ScriptedBroker) -> None:
        raise OperatorRefused(code, "It cannot be read.", remedy="Look.")

    monkeypatch.setattr(ScriptedBroker, "hosts", refuse)
    window.refresh()
    qtbot.waitUntil(lambda: hosts._panels == [])
    assert hosts._empty.text() == says
    assert not hosts._import.isEnabled()


# Large text, long names, keys


FULL = {
    "validation": {"not_attempted": 61},
    "remote_execution": {"committed": 1412, "rejected": 158, "unknown": 19},
}
LONG = {**HOST, "name": "h" * 64, "address": "h" * 64 + ".example.com"}


@pytest.mark.parametrize("vault", ["ready", "locked"])
@pytest.mark.parametrize("size", ["design", "twice"])
def test_nothing_is_cut_at_the_least_size(
    qapp: QApplication, qtbot: QtBot, bridge: Bridge, broker: ScriptedBroker, size: str, vault: str
) -> None:
    with text_at_200_percent(qapp) if size == "twice" else nullcontext():
        _nothing_is_cut(qtbot, bridge, broker, vault)


def _nothing_is_cut(qtbot: QtBot, bridge: Bridge, broker: ScriptedBroker, vault: str) -> None:
    told = {"alerts": ALERTS, "cards": 12, "sessions": 12, "counts": FULL, "vault": vault, "unknown": 1234}
    with qtbot.waitSignal(bridge.status_changed):
        bridge.tell(lambda _api: broker.tell(**told))
    broker.entries = [LONG, dict(NEW_HOST)]
    window = MainWindow(bridge, lambda: TODAY, lambda: True)
    qtbot.addWidget(window)
    window.resize(900, 600)
    window.show()
    qtbot.waitUntil(lambda: len(window._overview._targets._cells) > 0)
    assert cut(window) == []
    window.go(Page.HOSTS)
    qtbot.waitUntil(lambda: not window._asking)
    assert cut(window) == []
    assert (window.width(), window.height()) == (900, 600)


def test_the_window_that_removes_a_long_host_shows_its_name_whole(hosts: HostsPage, qtbot: QtBot) -> None:
    hosts.show_hosts([LONG])
    hosts.ask_remove(hosts._shown[0])
    assert hosts.signing is not None
    assert hosts.signing.findChild(QScrollArea).widget().minimumSizeHint().width() <= hosts.signing.width()
    hosts.signing.reject()


def tabbed(window: MainWindow) -> list[QWidget]:
    """What takes the focus by Tab, in its order."""
    found: list[QWidget] = []
    at = window.nextInFocusChain()
    while at is not window:
        if at.isVisible() and at.isEnabled() and at.focusPolicy() & Qt.FocusPolicy.TabFocus:
            found.append(at)
        at = at.nextInFocusChain()
    return found


def around(window: MainWindow) -> list[QWidget]:
    """The sidebar, before every page."""
    return [*window._nav.values(), *window._vault.findChildren(QPushButton)]


def test_tab_goes_over_the_overview_as_it_stands_on_the_screen(
    window: MainWindow, qtbot: QtBot, bridge: Bridge, broker: ScriptedBroker
) -> None:
    qtbot.waitUntil(window._overview._targets.open.isVisible)
    for alerts in (ALERTS[:1], ALERTS):  # what came later is chained as well
        bridge.tell(lambda _api, alerts=alerts: broker.tell(alerts=alerts, vault="locked"))
        qtbot.waitUntil(lambda alerts=alerts: len(window._overview._alerts.rows) == len(alerts))
    form = window._overview._unlock.form
    qtbot.waitUntil(form.isVisible)
    qtbot.keyClicks(form._field, "typed")
    overview = window._overview
    closes = [row.button for row in overview._alerts.rows]
    order = [*around(window), overview, *closes, form._field, form._button, overview._targets.open]
    qtbot.waitUntil(lambda: tabbed(window) == order)  # rows that were taken out are there until the loop runs


def test_tab_goes_over_the_hosts_as_they_stand_on_the_screen(
    hosts: HostsPage, window: MainWindow, qtbot: QtBot, broker: ScriptedBroker
) -> None:
    broker.entries.insert(0, {**HOST, "name": "web-00"})
    window.refresh()
    qtbot.waitUntil(lambda: len(hosts._panels) == 3)
    buttons = [button for panel in hosts._panels for button in panel.findChildren(QPushButton)]
    assert len(buttons) == 3 + 3 + 1
    qtbot.waitUntil(lambda: len({button.mapTo(window, QPoint()).y() for button in buttons}) == len(buttons))
    placed = sorted(buttons, key=lambda button: button.mapTo(window, QPoint()).y())
    order = [*around(window), hosts, hosts._import, *placed]
    qtbot.waitUntil(lambda: tabbed(window) == order)


def test_by_tab_from_the_page_to_the_strip(
    window: MainWindow, qtbot: QtBot, bridge: Bridge, broker: ScriptedBroker
) -> None:
    bridge.tell(lambda _api: broker.tell(cards=1, alerts=ALERTS))
    qtbot.waitUntil(window._overview._alerts.isVisible)
    qtbot.waitUntil(window._overview._targets.open.isVisible)
    assert tabbed(window)[-2:] == [window._overview._targets.open, window._strip._show]
