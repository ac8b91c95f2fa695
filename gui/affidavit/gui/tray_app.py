"""The tray application put together: bridge, tray, windows and cards, from the first status to the orderly end.

The tray is a convenience (design, Tray): without one the main window is there from the start, and closing it only puts
it away, since it is the only way back. A second start raises it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from datetime import datetime

from PySide6.QtCore import QObject, Signal, Slot
from PySide6.QtWidgets import QApplication

from affidavit.broker.api import Json, OperatorApi, OperatorRefused
from affidavit.broker.card import Card, CardEnd, Decision, Scope
from affidavit.broker.home import HomeBusy, HomeRefused
from affidavit.broker.terms import InvocationId, Micros
from affidavit.gui import texts_unknown as texts
from affidavit.gui import theme, unknown_view
from affidavit.gui.bridge import Answer, Bridge, Refused, described
from affidavit.gui.card_deck import CardDeck
from affidavit.gui.main_window import MainWindow
from affidavit.gui.quit_window import QuitWindow
from affidavit.gui.refusal_window import RefusalWindow
from affidavit.gui.second_start import raise_running
from affidavit.gui.status import Status
from affidavit.gui.theme import Scheme
from affidavit.gui.tray import Tray, panel_scheme
from affidavit.gui.tray_view import Choice
from affidavit.gui.unknown_window import UnknownWindow
from affidavit.gui.unlock_form import PROGRAM
from affidavit.gui.unlock_window import UnlockWindow
from affidavit.ipc.host import NotInitialised
from affidavit.ipc.server import SocketTaken

OpenHome = Callable[[Callable[[], None]], AbstractAsyncContextManager[OperatorApi]]
"""Opens the home on the broker's loop; what it is given raises our window, from any thread."""


@dataclass(frozen=True, slots=True)
class Start:
    """How the application begins: `first` right after the vault was created, `minimized` without a window if a tray is
    there."""

    first: bool = False
    minimized: bool = False


def local_now() -> datetime:
    """The time in the operator's zone."""
    return datetime.now().astimezone()


def wall_clock() -> Micros:
    """The wall time of cards."""
    return Micros(time.time_ns() // 1000)


class TrayApp(QObject):
    """Owned by the main thread. `left` is told once, when the broker has ended and nothing is left to wait for."""

    left = Signal(int)
    """The exit status."""

    def __init__(
        self,
        app: QApplication,
        open_home: OpenHome,
        start: Start,
        *,
        passphrase: bytearray | None = None,
        now: Callable[[], datetime] = local_now,
        clock: Callable[[], Micros] = wall_clock,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._app, self._open_home, self._start = app, open_home, start
        self._passphrase = passphrase
        self._was_open = self._leaving = self._waiting = False
        self._unlock_wanted = 0
        self._theme = theme.SYSTEM
        self._desktop = theme.put_on(app)
        self.bridge = Bridge(self)
        self.tray = Tray(self._panel(), self)
        self.main = MainWindow(self.bridge, now, lambda: self.tray.available)
        self.unknown = UnknownWindow(self.bridge, now)
        self.unlock = UnlockWindow(self.bridge)
        self.deck = CardDeck(
            clock=clock,
            monotonic=time.monotonic,
            home=os.path.expanduser("~"),
            parent=self,
        )
        self.refusal: RefusalWindow | None = None
        self.quit_window: QuitWindow | None = None
        self._connect()

    def begin(self) -> None:
        """Start the broker; windows come once it is there."""
        self._app.setQuitOnLastWindowClosed(False)
        self.bridge.start(lambda: self._open_home(self.bridge.ask_raise))

    @Slot()
    def restyle(self) -> None:
        """Put on what the desktop and the operator's setting ask for now."""
        self._desktop = theme.put_on(self._app, self._theme)
        self.tray.restyle(self._panel())

    def say(self, sentence: str) -> None:
        """One sentence in the main window."""
        self.main.say(sentence)

    @Slot()
    def leave(self) -> None:
        """Quit in order, now: cards close undecided, the broker ends, then `left`."""
        if self._leaving:
            return
        self._leaving = True
        self.deck.discard()
        for window in (self.main, self.unknown, self.unlock):
            window.hide()
        if self.bridge.running:
            self.bridge.stop()
        else:
            self._end(0)

    @Slot()
    def ask_to_leave(self) -> None:
        """Quit; while actions run, offer to wait for them."""
        running = self.bridge.status.running
        if not running or not self.bridge.running:
            self.leave()
            return
        if self.quit_window is None:
            window = QuitWindow(running)
            window.quit_chosen.connect(self.leave)
            window.wait_chosen.connect(self._wait)
            window.finished.connect(self._quit_window_closed)
            self.quit_window = window
        self.quit_window.show()
        self.quit_window.raise_()
        self.quit_window.activateWindow()

    def _connect(self) -> None:
        bridge, deck = self.bridge, self.deck
        bridge.opened.connect(self._opened)
        bridge.ended.connect(self._ended)
        bridge.status_changed.connect(self._status_changed)
        bridge.raise_asked.connect(self.main.bring)
        bridge.card_opened.connect(self._card_opened)
        bridge.card_closed.connect(self._card_closed)
        deck.decided.connect(self._decide)
        deck.passphrase_given.connect(self._decide_by_passphrase)
        deck.shown.connect(self._card_shown)
        deck.look_at.connect(self._look_at)
        self.tray.chosen.connect(self._choose)
        self.main.unknown_asked.connect(self._show_unknown)
        self.main.cards_asked.connect(deck.raise_card)
        self.main.lock_asked.connect(self._lock)
        self.main.unlock_asked.connect(self.unlock.ask)
        self.main.quit_asked.connect(self.ask_to_leave)
        theme.on_desktop_change(self._app, self.restyle)

    @Slot()
    def _opened(self) -> None:
        self._was_open = True
        if self._start.first or not self.tray.available:
            self.main.bring()
        if self._passphrase is not None:
            passphrase, self._passphrase = self._passphrase, None
            self.bridge.ask(
                self, lambda api: api.unlock(passphrase, program=PROGRAM), self._unlocked, secrets=(passphrase,)
            )
        elif self.tray.available and not self._start.minimized and not self._start.first:
            self.bridge.ask(self, lambda api: api.status(), self._offer_unlock)

    def _unlocked(self, answer: Answer[Json]) -> None:
        if isinstance(answer, Refused):
            self.say(texts.UNLOCK_WRONG if answer.code == "wrong_passphrase" else answer.message)
            self.unlock.ask()

    def _offer_unlock(self, answer: Answer[Json]) -> None:
        if not isinstance(answer, Refused) and Status.read(answer.value).vault == "locked":
            self.unlock.ask()

    @Slot(object)
    def _ended(self, error: BaseException | None) -> None:
        if self._leaving or error is None:
            self._end(0)
        elif isinstance(error, HomeBusy) and raise_running(os.environ):
            self._end(0)  # the other one won the race for the lock
        elif self._was_open:
            self.tray.show_status(replace(self.bridge.status, journal="poisoned"))
            self.say(texts.BROKER_GONE)
            self.main.bring()
        else:
            self._refuse(error)

    def _refuse(self, error: BaseException) -> None:
        message, remedy = explained(error)
        self.tray.hide()
        self.refusal = RefusalWindow(message, remedy)
        self.refusal.finished.connect(lambda _result: self._end(1))
        self.refusal.show()

    def _end(self, status: int) -> None:
        if self._passphrase is not None:
            self._passphrase[:] = bytes(len(self._passphrase))
        self.tray.hide()
        self.left.emit(status)

    @Slot(object)
    def _status_changed(self, status: Status) -> None:
        self.tray.show_status(status)
        if status.unlock_wanted > self._unlock_wanted and status.vault == "locked":
            self.unlock.ask()
        self._unlock_wanted = status.unlock_wanted
        if status.theme != self._theme:
            self._theme = status.theme
            self.restyle()
        if self._waiting:
            self._waited(status)

    @Slot()
    def _wait(self) -> None:
        self._waiting = True
        self._waited(self.bridge.status)

    def _waited(self, status: Status) -> None:
        if status.running:
            self.say(texts.counted(status.running, *texts.QUIT_WAITING))
        else:
            self.leave()

    @Slot()
    def _quit_window_closed(self) -> None:
        self.quit_window = None

    @Slot(object)
    def _choose(self, choice: Choice) -> None:
        match choice:
            case Choice.REVIEW:
                if not self.deck.raise_card():
                    self.main.bring()
            case Choice.UNKNOWN:
                self._show_unknown()
            case Choice.LOCK:
                self._lock()
            case Choice.UNLOCK:
                self.unlock.ask()
            case Choice.OPEN:
                self.main.bring()
            case Choice.QUIT:
                self.ask_to_leave()

    @Slot()
    def _show_unknown(self) -> None:
        self.unknown.show()
        self.unknown.raise_()
        self.unknown.activateWindow()

    @Slot()
    def _lock(self) -> None:
        self.bridge.ask(self, lambda api: api.lock(why="operator"), self._told)

    def _told(self, answer: Answer[object]) -> None:
        if isinstance(answer, Refused):
            self.say(unknown_view.with_remedy(answer.message, answer.remedy))

    # --- cards ---

    @Slot(object)
    def _card_opened(self, card: Card) -> None:
        if not self._leaving:
            self.deck.open(card)

    @Slot(object, object)
    def _card_closed(self, invocation_id: InvocationId, end: CardEnd) -> None:
        self.deck.close(invocation_id, end)

    @Slot(str)
    def _card_shown(self, invocation_id: str) -> None:
        self.bridge.tell(lambda api: api.card_shown(InvocationId(invocation_id)))

    @Slot(str)
    def _look_at(self, invocation_id: str) -> None:
        self.unknown.look_at(InvocationId(invocation_id))

    @Slot(str, object)
    def _decide(self, invocation_id: str, decision: Decision) -> None:
        named = InvocationId(invocation_id)
        self.bridge.ask(self, lambda api: api.decide(named, decision), lambda answer: self._decided(named, answer))

    @Slot(str, object, object)
    def _decide_by_passphrase(self, invocation_id: str, scope: Scope, passphrase: bytearray) -> None:
        named = InvocationId(invocation_id)
        self.bridge.ask(
            self,
            lambda api: api.approve_by_passphrase(
                named, scope=scope.value, passphrase=passphrase, means="card_passphrase"
            ),
            lambda answer: self._decided(named, answer),
            secrets=(passphrase,),
        )

    def _decided(self, invocation_id: InvocationId, answer: Answer[Json]) -> None:
        if isinstance(answer, Refused):
            wrong = answer.code == "wrong_passphrase"
            sentence = texts.CARD_WRONG_PASSPHRASE if wrong else answer.message
            self.deck.refuse(invocation_id, unknown_view.with_remedy(sentence, answer.remedy))

    # --- looks ---

    def _panel(self) -> Scheme:
        return panel_scheme(self._desktop, os.environ.get("XDG_CURRENT_DESKTOP", ""))


def explained(error: BaseException) -> tuple[str, str | None]:
    """What a person is told of an error at start, and the next step. A defect is named by type and place alone."""
    match error:
        case HomeRefused(message=message, remedy=remedy) | OperatorRefused(message=message, remedy=remedy):
            return message, remedy
        case NotInitialised(remedy=remedy):
            return str(error), remedy
        case HomeBusy() | SocketTaken():
            return str(error), None
        case _:
            return texts.DEFECT.format(what=described(error)), None
