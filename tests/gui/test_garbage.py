"""Nothing of Qt's is collected on a thread other than the windows'."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator

import pytest
from pytestqt.qtbot import QtBot

from affidavit.gui.garbage import OLDER_EVERY, Collector


class Ring:
    """Reachable from itself alone once it is let go, so that only a collection ends it."""

    def __init__(self, ended_on: list[int]) -> None:
        self.ring = self
        weakref.finalize(self, lambda: ended_on.append(threading.get_ident()))


def elsewhere() -> list[list[int]]:
    """Enough containers on another thread for the interpreter to collect its two younger generations; to be kept, since
    what is freed again counts as never made."""
    kept: list[list[int]] = []
    many = gc.get_threshold()[0] * (gc.get_threshold()[1] + 2)
    thread = threading.Thread(target=lambda: kept.extend([] for _ in range(many)))
    thread.start()
    thread.join()
    return kept


@pytest.fixture
def automatic() -> Iterator[None]:
    """Collection as a new process has it; the tests of this room run without."""
    gc.collect()
    gc.enable()
    yield
    gc.disable()


@pytest.fixture
def collections(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    seen: list[int] = []
    monkeypatch.setattr(gc, "collect", lambda generation=2: seen.append(generation) or 0)
    return seen


@pytest.mark.usefixtures("automatic")
def test_without_a_collector_another_thread_collects() -> None:
    ended_on: list[int] = []
    gc.collect()  # so that this thread is far from its next collection
    Ring(ended_on)
    assert elsewhere()
    assert ended_on
    assert ended_on != [threading.get_ident()]


@pytest.mark.usefixtures("automatic")
def test_what_another_thread_allocates_is_collected_on_the_main_one(qtbot: QtBot) -> None:
    collector = Collector()
    ended_on: list[int] = []
    Ring(ended_on)
    kept = elsewhere()
    assert ended_on == []
    qtbot.waitUntil(lambda: bool(ended_on))
    assert ended_on == [threading.get_ident()]
    assert kept
    collector.deleteLater()


def test_a_timer_with_nothing_to_do_collects_nothing(collections: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc, "get_count", lambda: gc.get_threshold())
    Collector().look()
    assert collections == []


def test_older_generations_are_looked_at_less_often(collections: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gc, "get_count", lambda: (gc.get_threshold()[0] + 1, 0, 0))
    collector = Collector()
    for _ in range(OLDER_EVERY**2):
        collector.look()
    assert collections[: OLDER_EVERY - 1] == [0] * (OLDER_EVERY - 1)
    assert collections[OLDER_EVERY - 1] == 1
    assert [collections.count(generation) for generation in (0, 1, 2)] == [90, 9, 1]
