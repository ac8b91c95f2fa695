"""The application as a whole with a scripted broker: start, cards, quitting while actions run, what cannot start."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot
from tests.gui.scripted_broker import PASSPHRASE, TODAY, ScriptedBroker, four_unknown, refund
from tests.gui.whole import cut, text_at_200_percent

from affidavit.broker.api import OperatorApi, OperatorRefused
from affidavit.broker.card import Answer, Answers, Card, CardEnd, Decision, Scope
from affidavit.broker.home import HomeBusy, HomeRefused, HomeState, Places
from affidavit.broker.session import Process, Provenance, Session
from affidavit.broker.terms import ApprovalMode, Effect, InvocationId, Micros, OperationId, SessionId
from affidavit.gui import app as application
from affidavit.gui import faults, theme
from affidavit.gui.bridge import Bridge, Refused
from affidavit.gui.first_run import FirstRun, Opens, missing
from affidavit.gui.quit_window import QuitWindow
from affidavit.gui.refusal_window import RefusalWindow
from affidavit.gui.tray_app import Start, TrayApp, explained
from affidavit.gui.tray_view import Choice
from affidavit.gui.unix_signals import UnixSignals
from affidavit.gui.unlock_window import UnlockWindow
from affidavit.ipc.host import NotInitialised


def card(number: int = 1) -> Card:
    present = Answer("The key.", present=True)
    return Card(
        invocation_id=InvocationId(f"act_{number:026d}"),
        operation_id=OperationId("op_1"),
        session=Session(SessionId("ses_1"), Provenance(1000, Process(1, 1, "node"), Process(1, 1, "node"))),
        reason=None,
        effect=Effect.WRITE,
        title="Create a refund",
        method="POST",
        url="https://api.example.com/v1/refunds",
        headers=(),
        body=b"{}",
        body_type="application/json",
        credential=None,
        contract_id="default.write",
        contract_checked=None,
        answers=Answers(present, present, present),
        fingerprint="sha256:" + "ab" * 32,
        mode=ApprovalMode.ALWAYS,
        scopes=(Scope.ONCE,),
        preselected=Scope.ONCE,
        notices=(),
        tick=None,
        asked_at=Micros(1_000_000),
        shown_s=120,
    )


class Home:
    """Opens a scripted broker as the application opens a home."""

    def __init__(self, broker: ScriptedBroker) -> None:
        self.broker = broker
        self.fails: Exception | None = None
        self.breaks: Exception | None = None
        self.closed = False
        self.ask_raise: Callable[[], None] | None = None

    @asynccontextmanager
    async def open(self, ask_raise: Callable[[], None]) -> AsyncIterator[OperatorApi]:
        self.ask_raise = ask_raise
        if self.fails is not None:
            raise self.fails
        try:
            yield self.broker
        finally:
            self.closed = True


@pytest.fixture
def broker() -> ScriptedBroker:
    return ScriptedBroker(four_unknown())


@pytest.fixture
def home(broker: ScriptedBroker) -> Home:
    return Home(broker)


Make = Callable[..., TrayApp]


@pytest.fixture
def make(qtbot: QtBot, qapp: QApplication, home: Home) -> Iterator[Make]:
    theme.apply(qapp, theme.Scheme.LIGHT)
    made: list[TrayApp] = []

    def begin(start: Start = Start(), *, ready: bool = True, **more: Any) -> TrayApp:  # noqa: B008
        app = TrayApp(qapp, home.open, start, now=lambda: TODAY, **more)
        made.append(app)
        if ready:
            with qtbot.waitSignals([app.bridge.opened, app.bridge.status_changed]):
                app.begin()
        return app

    yield begin
    for app in made:
        app.leave()
        app.bridge.stop()
        assert app.bridge.join(5.0)
        for window in (app.main, app.unknown, app.unlock, app.refusal, app.quit_window):
            if window is not None:
                window.close()
                window.deleteLater()


def test_without_a_tray_the_main_window_is_the_way_in(make: Make) -> None:
    app = make(Start(minimized=True))
    assert not app.tray.available
    assert app.main.isVisible()
    assert not app.main._tray_there()


def test_the_operators_theme_is_put_on_once_it_is_told(make: Make, broker: ScriptedBroker, qtbot: QtBot) -> None:
    app = make()
    assert theme.current() == theme.tokens(theme.Scheme.LIGHT)
    for setting in (theme.Scheme.DARK, theme.Scheme.LIGHT):
        app.bridge.tell(lambda _api, setting=setting: broker.tell(theme=setting.value))
        qtbot.waitUntil(lambda setting=setting: theme.current() == theme.tokens(setting))
    app.bridge.tell(lambda _api: broker.tell(theme="dark"))
    qtbot.waitUntil(lambda: theme.current() == theme.tokens(theme.Scheme.DARK))
    app.restyle()
    assert theme.current() == theme.tokens(theme.Scheme.DARK)


def test_a_change_of_the_desktops_looks_is_followed(make: Make, qapp: QApplication) -> None:
    make()
    theme.apply(qapp, theme.Scheme.DARK)
    qapp.styleHints().colorSchemeChanged.emit(Qt.ColorScheme.Light)
    assert theme.current() == theme.tokens(theme.Scheme.LIGHT)


def test_a_second_start_raises_the_window(make: Make, home: Home, qtbot: QtBot) -> None:
    app = make()
    app.main.hide()
    assert home.ask_raise is not None
    home.ask_raise()
    qtbot.waitUntil(app.main.isVisible)


def test_a_given_passphrase_opens_the_vault(make: Make, broker: ScriptedBroker, qtbot: QtBot) -> None:
    broker.told["vault"] = "locked"
    secret = bytearray(PASSPHRASE)
    app = make(passphrase=secret)
    qtbot.waitUntil(lambda: app.bridge.status.open)
    assert not any(secret)
    assert broker.calls == [("unlock", ("the tray",))]


def test_a_wrong_given_passphrase_asks_for_the_right_one(make: Make, broker: ScriptedBroker, qtbot: QtBot) -> None:
    broker.told["vault"] = "locked"
    app = make(passphrase=bytearray(b"wrong"))
    qtbot.waitUntil(app.unlock.isVisible)
    assert app.main._banner._text.text() == "The passphrase does not open the vault."


def test_an_agent_that_asks_while_locked_raises_the_unlock_window_once(
    make: Make, broker: ScriptedBroker, qtbot: QtBot
) -> None:
    app = make()
    broker.tell(vault="locked", unlock_wanted=1)
    qtbot.waitUntil(app.unlock.isVisible)
    app.unlock.hide()
    broker.tell(vault="locked", unlock_wanted=1, sessions=2)
    qtbot.waitUntil(lambda: app.bridge.status.sessions == 2)
    assert not app.unlock.isVisible()


def test_the_trays_choices(make: Make, broker: ScriptedBroker, qtbot: QtBot) -> None:
    app = make()
    app.main.hide()
    app.tray.chosen.emit(Choice.OPEN)
    assert app.main.isVisible()
    app.tray.chosen.emit(Choice.UNKNOWN)
    assert app.unknown.isVisible()
    app.tray.chosen.emit(Choice.LOCK)
    qtbot.waitUntil(lambda: not app.bridge.status.open)
    assert broker.calls == [("lock", ("operator",))]
    app.tray.chosen.emit(Choice.UNLOCK)
    assert app.unlock.isVisible()
    app.main.hide()
    app.tray.chosen.emit(Choice.REVIEW)
    assert app.main.isVisible()


def test_a_card_opens_and_its_decision_reaches_the_broker(make: Make, broker: ScriptedBroker, qtbot: QtBot) -> None:
    app = make()
    waiting = card()
    app.bridge.tell(lambda _api: broker.open_card(waiting))
    qtbot.waitUntil(lambda: app.deck.count == 1)
    qtbot.waitUntil(lambda: ("card_shown", (waiting.invocation_id,)) in broker.calls)
    app.deck.decided.emit(waiting.invocation_id, Decision(approve=False))
    qtbot.waitUntil(lambda: app.deck.count == 0)
    assert ("decide", (waiting.invocation_id, Decision(approve=False))) in broker.calls


def test_cards_that_waited_before_the_windows_came_are_shown(make: Make, broker: ScriptedBroker, qtbot: QtBot) -> None:
    broker.waiting = [card()]
    app = make()
    qtbot.waitUntil(lambda: app.deck.count == 1)


def test_a_refused_decision_is_said_on_the_card(
    make: Make, broker: ScriptedBroker, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make()
    said: list[tuple[str, str]] = []
    monkeypatch.setattr(app.deck, "refuse", lambda invocation, sentence: said.append((invocation, sentence)))
    app.deck.decided.emit("act_9", Decision(approve=True))
    qtbot.waitUntil(lambda: bool(said))
    assert said == [("act_9", "This card is decided, expired or gone.")]


def test_a_wrong_passphrase_on_a_card_decides_nothing(
    make: Make, broker: ScriptedBroker, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make()
    said: list[str] = []
    monkeypatch.setattr(app.deck, "refuse", lambda _invocation, sentence: said.append(sentence))
    secret = bytearray(b"wrong")
    app.deck.passphrase_given.emit("act_9", Scope.ONCE, secret)
    qtbot.waitUntil(lambda: bool(said))
    assert said == ["The passphrase does not open the vault. Nothing was decided."]
    assert broker.calls == [("approve_by_passphrase", ("act_9", "once", "card_passphrase"))]
    assert not any(secret)


def test_look_at_opens_the_unknown_window_on_that_action(make: Make, qtbot: QtBot) -> None:
    app = make()
    app.deck.look_at.emit(refund().invocation_id)
    qtbot.waitUntil(lambda: app.unknown._list.current() == refund().invocation_id)


def test_quitting_at_rest_ends_the_broker_and_leaves(make: Make, home: Home, qtbot: QtBot) -> None:
    app = make()
    with qtbot.waitSignal(app.left) as left:
        app.tray.chosen.emit(Choice.QUIT)
    assert left.args == [0]
    assert home.closed
    assert not app.main.isVisible()


def test_quitting_while_actions_run_offers_to_wait(
    make: Make, home: Home, broker: ScriptedBroker, qtbot: QtBot
) -> None:
    broker.told["running"] = 2
    app = make()
    app.ask_to_leave()
    window = app.quit_window
    assert window is not None
    assert window.isVisible()
    assert not home.closed
    window.wait_chosen.emit()
    window.accept()
    assert app.main._banner._text.text() == "Quits when 2 actions have their answers"
    app.bridge.tell(lambda _api: broker.tell(running=1))
    qtbot.waitUntil(lambda: app.main._banner._text.text() == "Quits when 1 action has its answer")
    assert not home.closed
    with qtbot.waitSignal(app.left):
        app.bridge.tell(lambda _api: broker.tell(running=0))
    assert home.closed


def test_quitting_now_does_not_wait(make: Make, home: Home, broker: ScriptedBroker, qtbot: QtBot) -> None:
    broker.told["running"] = 1
    app = make()
    app.ask_to_leave()
    assert app.quit_window is not None
    with qtbot.waitSignal(app.left):
        app.quit_window.quit_chosen.emit()
    assert home.closed


def test_staying_open_changes_nothing(make: Make, home: Home, broker: ScriptedBroker) -> None:
    broker.told["running"] = 1
    app = make()
    app.ask_to_leave()
    assert app.quit_window is not None
    app.quit_window.reject()
    assert app.quit_window is None
    assert not home.closed
    assert app.bridge.running


def test_cards_close_undecided_at_quit(make: Make, broker: ScriptedBroker, qtbot: QtBot) -> None:
    app = make()
    app.bridge.tell(lambda _api: broker.open_card(card()))
    qtbot.waitUntil(lambda: app.deck.count == 1)
    with qtbot.waitSignal(app.left):
        app.leave()
    assert app.deck.count == 0
    assert not [call for call in broker.calls if call[0] == "decide"]


def test_what_cannot_start_says_why_and_ends_with_1(make: Make, home: Home, qtbot: QtBot) -> None:
    home.fails = HomeRefused("lax", "/home/x is open to other users (mode 0755).", "chmod 700 /home/x")
    app = make(ready=False)
    app.begin()
    qtbot.waitUntil(lambda: app.refusal is not None and app.refusal.isVisible())
    assert app.refusal is not None
    with qtbot.waitSignal(app.left) as left:
        app.refusal.accept()
    assert left.args == [1]


def test_a_broker_that_dies_is_said_and_nothing_pretends(make: Make, home: Home, qtbot: QtBot) -> None:
    app = make()
    app._ended(RuntimeError("boom"))
    assert app.main._banner._text.text().startswith("The broker does not answer. Nothing more is sent")
    assert app.tray._icon is not None
    assert app.tray._icon.toolTip().startswith("Affidavit: cannot record, nothing is sent")


def test_losing_the_race_for_the_home_raises_the_winner(
    make: Make, home: Home, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("affidavit.gui.tray_app.raise_running", lambda _environ: True)
    home.fails = HomeBusy(12, "affidavit tray")
    app = make(ready=False)
    with qtbot.waitSignal(app.left) as left:
        app.begin()
    assert left.args == [0]


def test_errors_at_start_in_words(tmp_path: Path) -> None:
    assert explained(HomeBusy(12, "affidavit serve")) == ("This home is in use by affidavit serve (pid 12).", None)
    assert explained(OperatorRefused("keyring", "No keyring.", remedy="Start it.")) == ("No keyring.", "Start it.")
    partial = explained(NotInitialised(HomeState.PARTIAL, Places.at(tmp_path)))
    assert "missing" in partial[0]
    assert explained(ValueError("a secret")) == (
        "Affidavit met a defect of its own (ValueError) and stopped this step. Activity shows what is recorded.",
        None,
    )


# --- first run ---


def fill(qtbot: QtBot, window: FirstRun, first: str, second: str) -> None:
    for field, text in ((window._first, first), (window._second, second)):
        field.setFocus()
        qtbot.keyClicks(field, text)
    qtbot.mouseClick(window._button, Qt.MouseButton.LeftButton)


@pytest.mark.parametrize(
    ("first", "second", "step"),
    [
        (b"", b"", "Choose a passphrase."),
        (b"short", b"short", "A passphrase has at least 8 characters."),
        (b"long enough", b"long enougj", "The two passphrases differ."),
        (b"long enough", b"long enough", None),
    ],
)
def test_a_passphrase_is_chosen_twice(first: bytes, second: bytes, step: str | None) -> None:
    assert missing(bytearray(first), bytearray(second)) == step


def test_the_first_run_creates_with_the_chosen_mode(qtbot: QtBot, qapp: QApplication) -> None:
    made: list[tuple[bytes, Opens]] = []

    def create(secret: bytearray, opens: Opens) -> Refused | None:
        made.append((bytes(secret), opens))
        secret[:] = bytes(len(secret))
        return None

    window = FirstRun(create, Opens.FILE)
    qtbot.addWidget(window)
    window.show()
    fill(qtbot, window, "correct horse", "correct mule")
    assert window._said.text() == "The two passphrases differ."
    with qtbot.waitSignal(window.created) as created:
        fill(qtbot, window, "correct horse", "correct horse")
    assert created.args == [bytearray(b"correct horse")]
    assert made == [(b"correct horse", Opens.FILE)]


def test_the_first_run_says_what_was_refused(qtbot: QtBot, qapp: QApplication) -> None:
    refused = Refused("keyring", "The login keyring did not answer.", remedy="Unlock it, or choose Passphrase only.")
    window = FirstRun(lambda _secret, _opens: refused, Opens.KEYRING)
    qtbot.addWidget(window)
    window.show()
    fill(qtbot, window, "correct horse", "correct horse")
    qtbot.waitUntil(lambda: window._said.text().startswith("The login keyring did not answer. Unlock it"))
    assert window.isVisible()


def test_a_home_is_created_as_init_does(tmp_path: Path) -> None:
    places = Places.at(tmp_path / "home")
    secret = bytearray(PASSPHRASE)
    assert application.creator(places)(secret, Opens.FILE) is None
    assert places.state is HomeState.INITIALISED
    assert not any(secret)
    again = application.creator(places)(bytearray(PASSPHRASE), Opens.FILE)
    assert again is not None
    assert again.code == "exists"


# --- the edges ---


def test_a_signal_asks_to_leave_once(qtbot: QtBot, qapp: QApplication) -> None:
    signals = UnixSignals()
    try:
        with qtbot.waitSignal(signals.asked):
            os.kill(os.getpid(), signal.SIGTERM)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signals.close()


def test_an_exception_in_a_slot_is_told_without_its_message(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import sys
    import threading

    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    told: list[str] = []
    faults.install(told.append)
    try:
        raise ValueError("token hunter2")
    except ValueError as error:
        sys.excepthook(ValueError, error, error.__traceback__)
    assert len(told) == 1
    assert told[0].startswith("ValueError in test_an_exception_in_a_slot")
    assert "hunter2" not in caplog.text
    assert "nobody caught ValueError" in caplog.text


def test_a_display_is_needed() -> None:
    assert application.has_display({"DISPLAY": ":1"})
    assert application.has_display({"WAYLAND_DISPLAY": "wayland-0"})
    assert application.has_display({"QT_QPA_PLATFORM": "offscreen"})
    assert not application.has_display({})


def test_card_ends_reach_the_deck(make: Make, broker: ScriptedBroker, qtbot: QtBot) -> None:
    app = make()
    app.bridge.tell(lambda _api: broker.open_card(card()))
    qtbot.waitUntil(lambda: app.deck.count == 1)
    app.bridge.tell(lambda _api: broker.close_card(card().invocation_id, CardEnd.EXPIRED))
    qtbot.waitUntil(lambda: app.deck.count == 0)


SMALL: dict[str, Callable[[Bridge], QWidget]] = {
    "unlock": UnlockWindow,
    "quit": lambda _bridge: QuitWindow(2),
    "first run": lambda _bridge: FirstRun(lambda _secret, _opens: None, Opens.KEYRING),
    "refusal": lambda _bridge: RefusalWindow("/home/user/affidavit/" + "d" * 200 + " is open to others.", "chmod it"),
}


@pytest.mark.parametrize("window", SMALL)
def test_small_windows_show_their_words_whole_at_200_percent(qtbot: QtBot, qapp: QApplication, window: str) -> None:
    theme.apply(qapp, theme.Scheme.LIGHT)
    with text_at_200_percent(qapp):
        made = SMALL[window](Bridge())
        qtbot.addWidget(made)
        made.show()
        assert cut(made) == []
