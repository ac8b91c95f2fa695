"""An exception that nobody foresaw is told by type and place, and its text is not (R12)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from affidavit.broker import unforeseen
from affidavit.broker.http_work import HttpWork
from affidavit.broker.wire.scripted import Complete, Cross, Head, Sent

TEXT = "planted-secret-9fK2"


async def failing() -> None:
    raise ValueError(TEXT)


def of_failing() -> ValueError:
    try:
        asyncio.run(failing())
    except ValueError as error:
        return error
    raise AssertionError("it did not fail")


def test_it_is_told_where_it_was_raised() -> None:
    line = failing.__code__.co_firstlineno + 1
    assert unforeseen.told(of_failing()) == f"ValueError at {__file__}:{line}"
    assert unforeseen.told(KeyError(TEXT)) == "KeyError at nowhere"


async def test_the_handler_prints_no_text(caplog: pytest.LogCaptureFixture) -> None:
    loop = asyncio.get_running_loop()
    unforeseen.handler(loop, {"message": "a broker task failed", "exception": of_failing_now()})
    unforeseen.handler(loop, {"message": "something odd"})
    unforeseen.handler(loop, {"message": f"Exception in callback f('{TEXT}') at here", "exception": of_failing_now()})
    assert [record.message.partition(" at ")[0] for record in caplog.records] == [
        "a broker task failed: ValueError",
        "something odd: no exception was given.",
        "Exception in callback f: ValueError",
    ]
    assert TEXT not in caplog.text


def of_failing_now() -> ValueError:
    try:
        raise ValueError(TEXT)
    except ValueError as error:
        return error


@pytest.mark.parametrize(
    ("broken", "facts", "crossed"),
    [
        ("exchange", ("connection_setup", "not_attempted", "BROKER_RESTARTED", "backoff"), 0),
        ("retry_after_s", ("remote_execution", "unknown", "BROKER_RESTARTED", "reconcile"), 1),
    ],
)
async def test_an_action_that_meets_one_is_told_what_its_record_proves(
    world: Any, monkeypatch: pytest.MonkeyPatch, broken: str, facts: tuple[str, ...], crossed: int
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError(TEXT)

    monkeypatch.setattr(HttpWork, broken, fail)
    world.script((Cross(), Sent(), Head(201), Complete()))
    envelope = await world.ask(world.session(), json={"a": 1})
    assert world.facts(envelope) == facts
    assert world.wire.crossed == crossed
    monkeypatch.undo()
    session = world.session("s-2")
    await world.restart()
    assert world.facts(await world.get(session, envelope["invocation_id"])) == facts


async def test_what_it_leaves_is_told_also_where_nothing_is_recorded_any_more(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(batches: Any) -> None:
        raise OSError(28, "No space left on device")

    def fail(*_: object) -> None:
        monkeypatch.setattr(world.broker.core.journal._ledger, "write", full)
        raise RuntimeError(TEXT)

    monkeypatch.setattr(HttpWork, "retry_after_s", fail)
    world.script((Cross(), Sent(), Head(201), Complete()))
    session = world.session()
    envelope = await world.ask(session, json={"a": 1})
    assert world.facts(envelope) == ("remote_execution", "unknown", "BROKER_RESTARTED", "reconcile")
    assert world.facts(await world.get(session, envelope["invocation_id"])) == world.facts(envelope)
