"""Where the windows' thread and the broker's thread meet; they meet nowhere else (architecture, Threads).

Into the broker: `Bridge.ask` hands a call to the broker's loop. Out of it: whatever the broker tells is posted as one
frozen message by a queued signal and is told on from the main thread, so that no receiver ever runs on the loop.
A refusal comes back as a value, `Refused`; no exception crosses.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
import traceback
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import shiboken6
from PySide6.QtCore import QObject, Qt, Signal, Slot

from affidavit.broker.api import BadParam, Json, NotWhileLocked, OperatorApi, OperatorRefused
from affidavit.broker.card import Card, CardEnd
from affidavit.broker.terms import InvocationId
from affidavit.gui import texts_unknown as texts
from affidavit.gui.status import Status

log = logging.getLogger("affidavit.gui")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Done(Generic[T]):
    """The call's value."""

    value: T


@dataclass(frozen=True, slots=True)
class Refused:
    """The call was refused, with the codes of OperatorRefused; `gone`: there is no broker; `internal`: a defect."""

    code: str
    message: str
    field: str | None = None
    remedy: str | None = None


Answer = Done[T] | Refused
OpenBroker = Callable[[], AbstractAsyncContextManager[OperatorApi]]
"""Opens the broker on the loop that runs it; leaving the context ends it in order."""

GONE = Refused("gone", texts.BROKER_GONE)


@dataclass(frozen=True, slots=True)
class _Opened:
    loop: asyncio.AbstractEventLoop
    api: OperatorApi


@dataclass(frozen=True, slots=True)
class _Ended:
    error: BaseException | None


@dataclass(frozen=True, slots=True)
class _CardOpened:
    card: Card


@dataclass(frozen=True, slots=True)
class _CardClosed:
    invocation_id: InvocationId
    end: CardEnd


@dataclass(frozen=True, slots=True)
class _RaiseAsked:
    pass


@dataclass(frozen=True, slots=True)
class _Answered:
    ticket: int
    answer: Any


class Bridge(QObject):
    """The windows' one way to the broker. Made on the main thread and owned by it; signals are emitted there."""

    opened = Signal()
    """The broker is there; calls are answered from now on."""
    ended = Signal(object)
    """The broker has ended: the exception that ended it, or None after `stop`. Nothing follows it."""
    status_changed = Signal(object)
    """A `Status`."""
    vault_changed = Signal()
    """It was locked or opened, whoever did it."""
    card_opened = Signal(object)
    """A `Card`."""
    card_closed = Signal(object, object)
    """An invocation id and a `CardEnd`."""
    raise_asked = Signal()
    """A second start of the program asks this one to show itself."""

    _posted = Signal(object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._broker: _Opened | None = None
        self._thread: _BrokerThread | None = None
        self._status = Status()
        self._asked: dict[int, tuple[QObject, Callable[[Any], None]]] = {}
        """Who waits for which answer: kept here, so that no widget's last reference ends on the broker's thread."""
        self._tickets = itertools.count()
        self._posted.connect(self._deliver, Qt.ConnectionType.QueuedConnection)

    @property
    def status(self) -> Status:
        """The newest status that was told."""
        return self._status

    @property
    def running(self) -> bool:
        """The broker's thread was started and has not ended."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, open_broker: OpenBroker) -> None:
        """Open the broker on a thread of its own. `opened` or `ended` follows."""
        if self._thread is not None:
            raise RuntimeError("the broker was started already")
        self._thread = _BrokerThread(open_broker, self._posted.emit)
        self._thread.start()

    def stop(self) -> None:
        """Ask the broker to end in order; `ended` follows. A second call changes nothing."""
        if self._thread is not None:
            self._thread.stop()

    def join(self, timeout_s: float) -> bool:
        """Wait for the broker's thread; whether it has ended. Called once `ended` was told, or at the very end."""
        if self._thread is None:
            return True
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def ask(
        self,
        owner: QObject,
        call: Callable[[OperatorApi], Awaitable[T]],
        then: Callable[[Answer[T]], None],
        *,
        secrets: Sequence[bytearray] = (),
    ) -> None:
        """Run `call` on the broker's loop, then `then` on the main thread, unless `owner` was deleted meanwhile.

        `secrets` are overwritten once the call has ended, however it ended, also if it never began.
        """
        ticket = next(self._tickets)
        self._asked[ticket] = (owner, then)
        if self._broker is None:
            _wipe(secrets)
            self._posted.emit(_Answered(ticket, GONE))
            return
        work = self._answered(self._broker.api, ticket, call, secrets)
        try:
            asyncio.run_coroutine_threadsafe(work, self._broker.loop)
        except RuntimeError:  # The loop was closed between our last message and now.
            work.close()
            _wipe(secrets)
            self._posted.emit(_Answered(ticket, GONE))

    def tell(self, notice: Callable[[OperatorApi], None]) -> None:
        """Run a call that has no answer on the broker's loop; without a broker nothing happens."""
        if self._broker is not None:
            try:
                self._broker.loop.call_soon_threadsafe(notice, self._broker.api)
            except RuntimeError:
                log.debug("the broker's loop is closed")

    def ask_raise(self) -> None:
        """A second start asks for our window. May be called from any thread."""
        self._posted.emit(_RaiseAsked())

    async def _answered(
        self,
        api: OperatorApi,
        ticket: int,
        call: Callable[[OperatorApi], Awaitable[T]],
        secrets: Sequence[bytearray],
    ) -> None:
        answer: Answer[T] = GONE
        try:
            answer = Done(await call(api))
        except OperatorRefused as refused:
            answer = Refused(refused.code, refused.message, refused.field, refused.remedy)
        except NotWhileLocked:
            answer = Refused("locked", texts.REFUSED["locked"])
        except BadParam as bad:
            answer = Refused("invalid", bad.message, bad.field)
        except Exception as error:
            log.error("a call of the windows failed: %s", described(error))
            answer = Refused("internal", texts.INTERNAL)
        finally:
            _wipe(secrets)
            self._posted.emit(_Answered(ticket, answer))

    @Slot(object)
    def _deliver(self, message: object) -> None:
        match message:
            case _Answered(ticket, answer):
                owner, then = self._asked.pop(ticket)
                if shiboken6.isValid(owner):
                    then(answer)
            case Status():
                before, self._status = self._status, message
                self.status_changed.emit(message)
                if message.vault != before.vault:
                    self.vault_changed.emit()
            case _CardOpened(card):
                self.card_opened.emit(card)
            case _CardClosed(invocation_id, end):
                self.card_closed.emit(invocation_id, end)
            case _Opened():
                self._broker = message
                self.opened.emit()
            case _RaiseAsked():
                self.raise_asked.emit()
            case _Ended(error):
                self._broker = None
                self.ended.emit(error)


class _Told:
    """A CardWatcher and status listener on the loop; everything it hears becomes a message."""

    def __init__(self, post: Callable[[object], None]) -> None:
        self._post = post

    def card_opened(self, card: Card) -> None:
        self._post(_CardOpened(card))

    def card_closed(self, invocation_id: InvocationId, end: CardEnd) -> None:
        self._post(_CardClosed(invocation_id, end))

    def status(self, told: Json) -> None:
        self._post(Status.read(told))


class _BrokerThread(threading.Thread):
    """The thread `affidavit-loop`: all broker state lives on it."""

    def __init__(self, open_broker: OpenBroker, post: Callable[[object], None]) -> None:
        super().__init__(name="affidavit-loop", daemon=True)
        self._open_broker = open_broker
        self._post = post
        self._asked = threading.Event()
        self._wake: Callable[[], object] | None = None
        self._guard = threading.Lock()

    def stop(self) -> None:
        """From any thread."""
        self._asked.set()
        with self._guard:
            if self._wake is not None:
                self._wake()

    def run(self) -> None:
        error: BaseException | None = None
        try:
            asyncio.run(self._serve())
        except BaseException as failure:
            log.error("the broker ended: %s", described(failure))
            error = failure
        finally:
            self._post(_Ended(error))

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(_log_loop_error)
        stopped = asyncio.Event()
        with self._guard:
            self._wake = lambda: loop.call_soon_threadsafe(stopped.set)
        try:
            if self._asked.is_set():
                return
            async with self._open_broker() as api:
                told = _Told(self._post)
                self._post(_Opened(loop, api))
                detach = (api.watch_cards(told), api.on_status(told.status))
                for card in api.cards():
                    told.card_opened(card)
                await stopped.wait()
                for stop in detach:
                    stop()
        finally:
            with self._guard:
                self._wake = None


def described(error: BaseException) -> str:
    """An exception's type and where it was raised, without its message, which may hold what must not be logged."""
    frames = traceback.extract_tb(error.__traceback__)[-4:]
    places = " < ".join(f"{frame.name} ({frame.filename.rsplit('/', 1)[-1]}:{frame.lineno})" for frame in frames[::-1])
    return f"{type(error).__name__} in {places}" if places else type(error).__name__


def _log_loop_error(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    error = context.get("exception")
    log.error("the broker's loop reports: %s", described(error) if error else "an error without an exception")


def _wipe(secrets: Sequence[bytearray]) -> None:
    for secret in secrets:
        secret[:] = bytes(len(secret))
