"""Retention: what is over is deleted, durably recorded before, and nothing else ever is (interface, section 7)."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from tests.broker.conftest import PASSPHRASE

from affidavit.broker import broker
from affidavit.broker.api import ActionError
from affidavit.broker.grants import Grants
from affidavit.broker.moment import first_invocation_id, new_invocation_id
from affidavit.broker.retention import Retention
from affidavit.broker.space import Space
from affidavit.broker.terms import Micros
from affidavit.broker.wire.port import Fault
from affidavit.broker.wire.scripted import Body, Broken, Complete, Cross, Hang, Head, Sent
from affidavit.journal import CHUNK, SpoolFile

DAY_S = 86_400
SMALL = (Cross(), Sent(), Head(201), Body(b"small"), Complete())
LARGE = (Cross(), Sent(), Head(404), *[Body(os.urandom(CHUNK))] * 3, Complete())
GATEWAY = (Cross(), Sent(), Head(502), Body(b"bad gateway"), Complete())


def stored(world: Any) -> tuple[list[str], list[str]]:
    """The names of files of results, and of entries in the index."""
    names = sorted(p.name for p in world.places.results.iterdir() if p.suffix != ".spool")
    return names, list(world.broker.core.projection.reader.blob_ids("act_", "act_~"))


def leave(directory: Path, *names: str) -> None:
    for name in names:
        (directory / name).write_bytes(b"left")


async def get(world: Any, invocation_id: str) -> Any:
    return await world.broker.agent.action_get(
        world.session(), invocation_id=invocation_id, operation_id=None, events=True
    )


@pytest.mark.parametrize("script", [SMALL, LARGE])
async def test_after_its_time_it_is_gone_and_hash_and_status_stay(world: Any, script: Any) -> None:
    world.script(script)
    got = await world.ask(world.session(), json={"a": 1})
    assert len(stored(world)[1]) == 1
    assert len(stored(world)[0]) == (script is LARGE)
    world.clock.ahead_s = 30 * DAY_S - 1
    assert await world.broker.core.retention.clean() == 0
    assert len(stored(world)[1]) == 1
    world.clock.ahead_s = 30 * DAY_S + 60
    assert await world.broker.core.retention.clean() == 1
    await world.broker.core.projection.flush().durable()
    assert stored(world) == ([], [])
    now = await get(world, got["invocation_id"])
    outcome = "committed" if script is SMALL else "rejected"
    assert world.facts(now) == ("result_delivery", outcome, "RESULT_EXPIRED", "never")
    assert now["evidence"]["response_sha256"] == got["evidence"]["response_sha256"]
    expired = now["events"][-1]
    assert expired["kind"] == "RESULT_EXPIRED"
    assert expired["detail"] == {"sha256": got["evidence"]["response_sha256"], "status": got["http"]["status"]}
    with pytest.raises(ActionError) as refused:
        await world.broker.agent.result_fetch(world.session(), invocation_id=got["invocation_id"], chunk=0, part="body")
    assert world.facts(refused.value.envelope)[2] == "RESULT_EXPIRED"
    assert await world.broker.core.retention.clean() == 0
    for _ in range(2):  # as another run reads it, and from the clear columns alone
        await world.restart()
        await world.broker.operator.lock(why="test")
        now = await get(world, got["invocation_id"])
        assert world.facts(now)[2:] == ("RESULT_EXPIRED", "never")


async def test_it_is_recorded_durably_before_it_is_deleted(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash in between: the next pass deletes, and records nothing a second time."""
    world.script(LARGE)
    got = await world.ask(world.session(), json={"a": 1})
    world.clock.ahead_s = 31 * DAY_S

    async def crash(*_: Any) -> None:
        assert world.broker.core.projection.reader.records(got["invocation_id"])[-1].kind == "RESULT_EXPIRED"
        raise RuntimeError("crash")

    with monkeypatch.context() as patch:
        patch.setattr(world.broker.core.results, "delete", crash)
        with pytest.raises(RuntimeError, match="crash"):
            await world.broker.core.retention.clean()
    assert len(stored(world)[0]) == len(stored(world)[1]) == 1
    await world.restart()
    assert await world.broker.core.retention.clean() == 1
    await world.broker.core.projection.flush().durable()
    assert stored(world) == ([], [])
    assert (await world.kinds(got["invocation_id"])).count("RESULT_EXPIRED") == 1


async def test_the_time_runs_from_the_result_also_where_it_was_fetched_and_acknowledged(world: Any) -> None:
    world.script(SMALL)
    session = world.session()
    got = await world.ask(session)
    await world.broker.agent.result_ack(
        session, invocation_id=got["invocation_id"], sha256=got["http"]["body"]["sha256"], part="body"
    )
    world.clock.ahead_s = 29 * DAY_S
    assert await world.broker.core.retention.clean() == 0
    assert (await get(world, got["invocation_id"]))["http"]["body"]["text"] == "small"


async def test_what_is_open_or_unknown_stays(world: Any) -> None:
    """An unknown one's body may settle it; once it is settled, its time runs from there."""
    hang = Hang()
    world.script(GATEWAY, (Cross(), Sent(), Head(200), Body(b"begun"), hang, Complete()))
    session = world.session()
    unknown = await world.ask(session, json={"a": 1})
    assert world.facts(unknown)[1:3] == ("unknown", "GATEWAY_UNCERTAIN")
    call = world.call(session, json={"a": 2}, deadline_s=3600, wait_s=600)
    await world.approve()
    await hang.reached.wait()
    world.clock.ahead_s = 40 * DAY_S
    assert await world.broker.core.retention.clean() == 0
    assert (await get(world, unknown["invocation_id"]))["http"]["body"]["text"] == "bad gateway"
    hang.release.set()
    assert (await call)["http"]["body"]["text"] == "begun"
    assert await world.broker.core.retention.clean() == 0
    await world.broker.operator.attest(
        unknown["invocation_id"],
        outcome="committed",
        note="seen",
        reference=None,
        item=None,
        supersedes=None,
        passphrase=bytearray(PASSPHRASE),
    )
    assert await world.broker.core.retention.clean() == 0
    world.clock.ahead_s = 71 * DAY_S
    assert await world.broker.core.retention.clean() == 2
    assert world.facts(await get(world, unknown["invocation_id"]))[1:3] == ("committed", "SETTLED_BY_OPERATOR")


async def test_while_locked_nothing_is_deleted(world: Any) -> None:
    world.script(SMALL)
    await world.ask(world.session())
    world.clock.ahead_s = 31 * DAY_S
    await world.broker.operator.lock(why="test")
    assert await world.broker.core.retention.clean() == 0
    assert len(stored(world)[1]) == 1
    await world.unlock()
    assert await world.broker.core.retention.clean() == 1


async def test_a_pass_looks_at_nothing_that_is_newer(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    world.script(*[SMALL] * 40)
    session = world.session()
    for n in range(20):
        await world.ask(session, json={"n": n})
    world.clock.ahead_s = 31 * DAY_S
    for n in range(20, 40):
        await world.ask(session, json={"n": n})
    reader = world.broker.core.projection.reader
    looked: list[str] = []
    action = reader.action
    monkeypatch.setattr(reader, "action", lambda name: looked.append(name) or action(name))
    assert await world.broker.core.retention.clean() == 20
    await world.broker.core.projection.flush().durable()
    assert len(set(looked)) == 20
    assert len(stored(world)[1]) == 20
    looked.clear()
    assert await world.broker.core.retention.clean() == 0
    assert looked == []


async def test_the_tending_loop_cleans(world: Any) -> None:
    world.script(SMALL)
    await world.ask(world.session())
    world.clock.ahead_s = 31 * DAY_S
    await world.broker.core.tend_storage()
    await world.broker.core.projection.flush().durable()
    assert stored(world) == ([], [])


@pytest.mark.parametrize(
    ("where", "what", "error", "alerts"),
    [
        (SpoolFile, "delete", OSError(30, "Read-only file system"), ["storage"]),
        (Space, "tend", OSError(5, "Input/output error"), ["storage"]),
        (Retention, "clean", OSError(30, "Read-only file system"), ["storage"]),
        (Grants, "end_expired", RuntimeError("unforeseen"), []),
    ],
)
async def test_a_disk_that_refuses_ends_neither_tending_nor_the_idle_lock(
    world: Any, monkeypatch: pytest.MonkeyPatch, where: Any, what: str, error: Exception, alerts: list[str]
) -> None:
    core, failed = world.broker.core, asyncio.Event()
    spooled = SpoolFile(world.places.results, f"{new_invocation_id(world.clock.wall())}.spool")
    spooled.write(b"{}", bytes(32))
    core.spool._held.add(spooled.name.removesuffix(".spool"))
    right = getattr(where, what)

    def refused(*_: Any) -> Any:
        core.loop.call_soon_threadsafe(failed.set)
        raise error

    monkeypatch.setattr(broker, "TEND_S", 0.0)
    monkeypatch.setattr(where, what, refused)
    tending = asyncio.ensure_future(world.broker._tend(idle_lock=True))
    try:
        async with asyncio.timeout(10):
            for _ in range(2):
                failed.clear()
                await failed.wait()
            assert [alert["which"] for alert in core.status()["alerts"]] == alerts
            world.clock.ahead_s += 7200
            await world.until(lambda: core.locked)
            monkeypatch.setattr(where, what, right)
            while spooled.path.exists():
                await core.results.in_thread(lambda: None)
    finally:
        tending.cancel()


async def test_files_that_no_record_names_go_at_the_start(world: Any) -> None:
    """A crash between a file and the commit of its record."""
    world.script(LARGE, (Cross(), Sent(), Broken(Fault.CLOSED)))
    session = world.session()
    got = await world.ask(session, json={"a": 1})
    await world.ask(session, json={"a": 2})  # leaves its request in the spool
    (name,), _ = stored(world)
    orphan = f"{new_invocation_id(world.clock.wall())}.00c0ffee"
    leave(world.places.results, orphan, f"{orphan}.part")
    spooled = list(world.places.results.glob("*.spool"))
    await world.restart()
    while orphan in stored(world)[0]:
        await world.broker.core.results.in_thread(lambda: None)
    assert stored(world)[0] == [name]
    assert list(world.places.results.glob("*.spool")) == spooled
    assert world.broker.core.retention._is_indexed(name)
    fetched = await world.broker.agent.result_fetch(session, invocation_id=got["invocation_id"], chunk=2, part="body")
    assert fetched["last"]


def test_ids_sort_by_the_time_they_were_made() -> None:
    at = Micros(1_796_000_000_000_000)
    before, after = new_invocation_id(Micros(at - 1000)), new_invocation_id(at)
    assert before < first_invocation_id(at) < after
    assert first_invocation_id(Micros(0)) < before
    assert first_invocation_id(Micros(-5)) == first_invocation_id(Micros(0))
