"""An exception that nobody foresaw is told by type and place, and its text is not (R12)."""

from __future__ import annotations

import asyncio

import pytest

from affidavit.broker import unforeseen

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
