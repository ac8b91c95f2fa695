"""Whichever comes first."""

from __future__ import annotations

import asyncio

from affidavit.broker.first_of import first_of


async def test_the_first_ends_the_wait_and_the_others_are_cancelled() -> None:
    ended: list[str] = []

    async def waits(name: str, event: asyncio.Event) -> None:
        try:
            await event.wait()
        finally:
            ended.append(name)

    one, other = asyncio.Event(), asyncio.Event()
    one.set()
    await first_of(waits("one", one), waits("other", other))
    assert ended == ["one", "other"]


async def test_who_waits_may_be_cancelled() -> None:
    ended = asyncio.Event()

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    waiting = asyncio.ensure_future(first_of(waits()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert waiting.cancelled()
    assert ended.is_set()
