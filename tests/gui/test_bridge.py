"""The bridge: every signal and answer arrives on the main thread, and a refusal is a value."""

from __future__ import annotations

import asyncio
import logging
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from PySide6.QtCore import QObject
from pytestqt.qtbot import QtBot
from tests.gui.scripted_broker import PASSPHRASE, ScriptedBroker

from affidavit.broker.api import BadParam, NotWhileLocked, OperatorApi, OperatorRefused
from affidavit.broker.card import CardEnd
from affidavit.broker.terms import InvocationId
from affidavit.gui.bridge import GONE, Bridge, Done, Refused, described
from affidavit.gui.status import Status


class Home:
    """A scripted broker as the bridge opens it, with what it lived through."""

    def __init__(self, broker: ScriptedBroker, *, fails: Exception | None = None) -> None:
        self.broker = broker
        self.fails = fails
        self.thread: threading.Thread | None = None
        self.closed = False

    @asynccontextmanager
    async def open(self) -> AsyncIterator[OperatorApi]:
        self.thread = threading.current_thread()
        if self.fails is not None:
            raise self.fails
        try:
            yield self.broker
        finally:
            self.closed = True


@pytest.fixture
def broker() -> ScriptedBroker:
    return ScriptedBroker()


@pytest.fixture
def bridge(qtbot: QtBot) -> Iterator[Bridge]:
    made = Bridge()
    yield made
    made.stop()
    assert made.join(5.0)


@pytest.fixture
def home(bridge: Bridge, broker: ScriptedBroker, qtbot: QtBot) -> Home:
    made = Home(broker)
    with qtbot.waitSignal(bridge.opened):
        bridge.start(made.open)
    return made


def answer(qtbot: QtBot, bridge: Bridge, call: Callable[[OperatorApi], Any], **more: Any) -> Any:
    got: list[Any] = []
    threads: list[threading.Thread] = []

    def then(value: Any) -> None:
        threads.append(threading.current_thread())
        got.append(value)

    bridge.ask(bridge, call, then, **more)
    qtbot.waitUntil(lambda: bool(got))
    assert threads == [threading.main_thread()]
    return got[0]


def test_the_broker_lives_on_its_own_named_thread(home: Home, bridge: Bridge, qtbot: QtBot) -> None:
    async def where(_api: OperatorApi) -> str:
        return threading.current_thread().name

    assert answer(qtbot, bridge, where) == Done("affidavit-loop")
    assert home.thread is not threading.main_thread()


def test_status_and_cards_are_told_on_the_main_thread(home: Home, bridge: Bridge, qtbot: QtBot) -> None:
    threads: list[threading.Thread] = []
    statuses: list[Status] = []
    bridge.status_changed.connect(lambda _s: threads.append(threading.current_thread()))
    bridge.status_changed.connect(statuses.append)
    bridge.card_closed.connect(lambda *_: threads.append(threading.current_thread()))
    with qtbot.waitSignal(bridge.card_closed) as closed:
        bridge.tell(lambda _api: home.broker.close_card(InvocationId("act_1"), CardEnd.EXPIRED))
    assert closed.args == [InvocationId("act_1"), CardEnd.EXPIRED]
    with qtbot.waitSignal(bridge.status_changed, check_params_cb=lambda s: s.unknown == 3):
        bridge.tell(lambda _api: home.broker.tell(unknown=3))
    assert bridge.status.unknown == 3
    assert set(threads) == {threading.main_thread()}


def test_the_first_status_is_told_at_once(bridge: Bridge, broker: ScriptedBroker, qtbot: QtBot) -> None:
    broker.told["cards"] = 2
    with qtbot.waitSignal(bridge.status_changed) as told:
        bridge.start(Home(broker).open)
    assert told.args[0].cards == 2


@pytest.mark.parametrize(
    ("error", "refused"),
    [
        (
            OperatorRefused("conflict", "Settled.", field="id", remedy="Look."),
            Refused("conflict", "Settled.", "id", "Look."),
        ),
        (BadParam("note", "too long"), Refused("invalid", "too long", "note")),
    ],
)
def test_a_refusal_is_a_value(home: Home, bridge: Bridge, qtbot: QtBot, error: Exception, refused: Refused) -> None:
    async def refuse(_api: OperatorApi) -> None:
        raise error

    assert answer(qtbot, bridge, refuse) == refused


def test_locked_is_a_refusal(home: Home, bridge: Bridge, qtbot: QtBot) -> None:
    async def refuse(_api: OperatorApi) -> None:
        raise NotWhileLocked("operator_unlock")

    assert answer(qtbot, bridge, refuse).code == "locked"


def test_a_defect_is_logged_without_its_message(
    home: Home, bridge: Bridge, qtbot: QtBot, caplog: pytest.LogCaptureFixture
) -> None:
    async def break_down(_api: OperatorApi) -> None:
        raise RuntimeError("token hunter2 was in here")

    with caplog.at_level(logging.DEBUG):
        assert answer(qtbot, bridge, break_down).code == "internal"
    assert "RuntimeError in break_down (test_bridge.py:" in caplog.text
    assert "hunter2" not in caplog.text


def test_a_passphrase_is_overwritten_even_where_the_callee_does_not(home: Home, bridge: Bridge, qtbot: QtBot) -> None:
    secret = bytearray(PASSPHRASE)

    async def forget(_api: OperatorApi) -> None:
        raise OperatorRefused("too_late", "Gone.")

    answer(qtbot, bridge, forget, secrets=(secret,))
    assert not any(secret)


def test_without_a_broker_the_answer_says_so_and_the_passphrase_is_gone(bridge: Bridge, qtbot: QtBot) -> None:
    secret = bytearray(PASSPHRASE)

    async def never(_api: OperatorApi) -> None:
        raise AssertionError

    assert answer(qtbot, bridge, never, secrets=(secret,)) == GONE
    assert not any(secret)
    bridge.tell(lambda _api: pytest.fail("there is no broker"))


def test_an_owner_that_is_gone_hears_nothing(home: Home, bridge: Bridge, qtbot: QtBot) -> None:
    heard: list[object] = []
    release = threading.Event()

    async def slow(_api: OperatorApi) -> None:
        await asyncio.to_thread(release.wait)

    owner = QObject()
    bridge.ask(owner, slow, heard.append)
    with qtbot.waitSignal(owner.destroyed):
        owner.deleteLater()
    release.set()

    async def last(_api: OperatorApi) -> None:
        return None

    answer(qtbot, bridge, last)
    assert heard == []


def test_the_brokers_thread_holds_no_window(home: Home, bridge: Bridge, qtbot: QtBot) -> None:
    """A window whose last reference ended there would be taken apart there."""
    started, release = threading.Event(), threading.Event()

    async def slow(_api: OperatorApi) -> None:
        started.set()
        await asyncio.to_thread(release.wait)

    owner = QObject()
    held = weakref.ref(owner)
    bridge.ask(owner, slow, lambda _answer: None)
    assert started.wait(20)
    (ticket,) = bridge._asked
    heard: list[object] = []
    bridge._asked[ticket] = (bridge, heard.append)
    del owner
    assert held() is None, "the bridge's own thread alone held it"
    release.set()
    qtbot.waitUntil(lambda: len(heard) == 1)
    assert bridge._asked == {}


def test_stop_ends_the_broker_in_order(home: Home, bridge: Bridge, qtbot: QtBot) -> None:
    with qtbot.waitSignal(bridge.ended) as ended:
        bridge.stop()
    bridge.stop()
    assert ended.args == [None]
    assert home.closed
    assert home.broker.watchers == []
    assert home.broker.listeners == []
    assert bridge.join(5.0)
    assert not bridge.running


def test_a_call_in_flight_is_answered_when_the_broker_ends(home: Home, bridge: Bridge, qtbot: QtBot) -> None:
    got: list[object] = []

    async def forever(_api: OperatorApi) -> None:
        await asyncio.Event().wait()

    bridge.ask(bridge, forever, got.append)
    with qtbot.waitSignal(bridge.ended):
        bridge.stop()
    assert got == [GONE]


def test_a_broker_that_does_not_open_is_told(bridge: Bridge, broker: ScriptedBroker, qtbot: QtBot) -> None:
    failure = OSError("no socket for you")
    with qtbot.waitSignal(bridge.ended) as ended:
        bridge.start(Home(broker, fails=failure).open)
    assert ended.args == [failure]
    with pytest.raises(RuntimeError, match="started already"):
        bridge.start(Home(broker).open)


def test_a_raise_may_be_asked_from_any_thread(bridge: Bridge, qtbot: QtBot) -> None:
    with qtbot.waitSignal(bridge.raise_asked):
        thread = threading.Thread(target=bridge.ask_raise)
        thread.start()
        thread.join()


def test_an_error_that_was_never_raised_is_described_by_its_type() -> None:
    assert described(ValueError("secret")) == "ValueError"
