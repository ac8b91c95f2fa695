"""Nobody hears a verdict that is not on disk, by whichever call they ask (R38, R40)."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.broker.recovery import HANG_UP, LOOKUP, answer, contract, rows

from affidavit.broker import events as ev
from affidavit.broker.terms import State
from affidavit.broker.wire.scripted import Complete, Cross, Hang, Head, Sent

POST = {"json": {"a": 1}, "operation_id": "op-1"}


class Disk:
    """Commits that wait, from the first one on that holds a settled action, until they are let go or fail."""

    def __init__(self, world: Any) -> None:
        core = world.broker.core
        self._projection = core.projection
        self._before: Callable[[], None] = core.journal._before_commit
        self._go = threading.Event()
        self.holding = threading.Event()
        """One waits: whatever was committed before is known to who waited for it."""
        self._fails = False
        core.journal.before_commit(self._commit)

    def _commit(self) -> None:
        if any(held.inv.state is State.SETTLED for held in list(self._projection._held.values())):
            self.holding.set()
            self._go.wait()
            if self._fails:
                raise OSError("the disk is gone")
        self._before()

    def write(self) -> None:
        self._go.set()

    def fail(self) -> None:
        self._fails = True
        self._go.set()


@pytest.fixture
def disk(world: Any) -> Iterator[Disk]:
    made = Disk(world)
    yield made
    made.write()


async def turns() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


def is_settled(world: Any) -> bool:
    return any(held.inv.state is State.SETTLED for held in world.broker.core.projection._held.values())


def calls(world: Any, session: Any, invocation_id: str) -> list[asyncio.Future[Any]]:
    """Every way of asking what became of it."""
    agent = world.broker.agent
    return [
        world.call(session, **POST),
        *map(
            asyncio.ensure_future,
            (
                world.get(session, invocation_id),
                world._ended(agent.action_wait(session, invocation_id=invocation_id, wait_s=5)),
                world._ended(agent.action_cancel(session, invocation_id=invocation_id, signal=None)),
            ),
        ),
    ]


async def answered(world: Any, session: Any) -> tuple[asyncio.Task[Any], str]:
    """A write whose complete answer is recorded, and its invocation; the record is on its way to the disk."""
    world.script(answer(200, {}))
    first = world.call(session, **POST)
    invocation_id = (await world.approve()).invocation_id
    await world.until(lambda: is_settled(world))
    return first, invocation_id


async def test_a_verdict_on_its_way_to_the_disk_is_told_to_nobody(world: Any, disk: Disk) -> None:
    session = world.session()
    first, invocation_id = await answered(world, session)
    asked = [first, *calls(world, session, invocation_id)]
    await turns()
    assert not [call for call in asked if call.done()]
    disk.write()
    assert {world.facts(await call)[1:3] for call in asked} == {("committed", "REMOTE_RESULT")}


async def test_nor_is_it_notified_listed_or_its_result_given(world: Any, disk: Disk) -> None:
    session, agent = world.session(), world.broker.agent
    told: list[Any] = []
    agent.on_change(session.session_id, told.append)
    first, invocation_id = await answered(world, session)
    given = {"invocation_id": invocation_id, "part": "body"}
    empty = hashlib.sha256(b"{}").hexdigest()
    listing = {"scope": "mine", "outcome": None, "state": None, "limit": 5, "before": None}
    asked = [
        asyncio.ensure_future(each)
        for each in (
            world._ended(agent.result_fetch(session, chunk=0, **given)),
            world._ended(agent.result_ack(session, sha256=empty, **given)),
            agent.action_list(session, **listing),
        )
    ]
    await turns()
    assert not [call for call in asked if call.done()]
    assert {each["outcome"] for each in told} <= {"not_attempted", "unknown"}
    disk.fail()
    await first
    fetched, acknowledged, listed = [await call for call in asked]
    assert {world.facts(each)[2] for each in (fetched, acknowledged)} == {"RESULT_STORAGE_FAILED"}
    assert [row["outcome"] for row in listed["rows"]] == ["unknown"]
    await turns()
    assert told[-1]["code"] == "RESULT_STORAGE_FAILED"


async def test_nor_to_one_who_asked_before_it_came(world: Any) -> None:
    """Asked while it is open; its answer comes while what was recorded until then is on its way."""
    session, core, hang = world.session(), world.broker.core, Hang()
    first_begun, first_write = threading.Event(), threading.Event()
    world.script((Cross(), Sent(), hang, Head(200), Complete()))
    call = world.call(session, **POST)
    invocation_id = (await world.approve()).invocation_id
    await hang.reached.wait()
    before: Callable[[], None] = core.journal._before_commit

    def write_later() -> None:
        first_begun.set()
        first_write.wait()
        before()

    core.journal.before_commit(write_later)
    disk = Disk(world)
    try:
        core.projection.record(invocation_id, ev.CallerGone(session.session_id))
        asked = asyncio.ensure_future(world.get(session, invocation_id))
        await asyncio.to_thread(first_begun.wait)
        hang.release.set()
        await world.until(lambda: is_settled(world))
        first_write.set()
        await asyncio.to_thread(disk.holding.wait)
        await turns()
        assert not core.projection.durable(invocation_id).on_disk
        assert not asked.done()
    finally:
        first_write.set()
        disk.write()
    assert world.facts(await asked)[1:3] == ("committed", "REMOTE_RESULT")
    await call


async def test_what_is_pending_is_told_once_its_acceptance_is_on_disk(world: Any) -> None:
    session, projection = world.session(), world.broker.core.projection
    hang = Hang()
    world.script((Cross(), Sent(), hang, Head(200), Complete()))
    call = world.call(session, **POST)
    invocation_id = (await world.approve()).invocation_id
    await world.until(lambda: projection.get(invocation_id).bytes_sent is not None)
    told = await world.get(session, invocation_id)
    assert "pending" in told
    assert projection.durable(invocation_id).on_disk
    assert told["evidence"]["last_confirmed"]["record"] <= projection.head_record()
    hang.release.set()
    await call


async def test_a_verdict_that_never_gets_there_is_told_to_nobody(world: Any, disk: Disk) -> None:
    session = world.session()
    first, invocation_id = await answered(world, session)
    asked = [first, *calls(world, session, invocation_id)]
    await turns()
    disk.fail()
    assert {world.facts(await call)[1:3] for call in asked} == {("unknown", "RESULT_STORAGE_FAILED")}


@pytest.mark.parametrize("writes", [True, False])
async def test_what_a_look_up_settles_is_settled_once_it_is_on_disk(world: Any, writes: bool) -> None:
    await world.adopt(contract(LOOKUP))
    await world.credential()
    session = world.session()
    world.script(HANG_UP)
    lost = await world.ask(session, **POST)
    world.script(rows("done"))
    projection = world.broker.core.projection
    looking = asyncio.ensure_future(world.look(session, lost["invocation_id"]))
    await asyncio.sleep(0)
    disk = Disk(world)
    disk.write() if writes else disk.fail()
    told = await looking
    assert world.facts(told)[1] == ("committed" if writes else "unknown")
    again = await world.get(session, lost["invocation_id"])
    assert world.facts(again)[1] == ("committed" if writes else "unknown")
    assert projection.get(lost["invocation_id"]).outcome == ("committed" if writes else "unknown")


async def test_a_caller_that_ends_while_its_verdict_is_on_its_way_is_recorded_and_stops_its_other_actions(
    world: Any, disk: Disk
) -> None:
    session = world.session()
    first, invocation_id = await answered(world, session)
    second = world.call(session, json={"a": 2})
    await asyncio.sleep(0)
    world.broker.agent.session_ended(session.session_id)
    disk.write()
    assert world.facts(await first)[1:3] == ("committed", "REMOTE_RESULT")
    assert world.facts(await second)[1:3] == ("not_attempted", "CALLER_CANCELLED")
    assert "CALLER_GONE" not in await world.kinds(invocation_id), "its end was recorded before"
    reader = world.broker.core.projection.reader
    assert "SESSION_ENDED" in [record.kind for record in reader.records_between(1, 100)]
