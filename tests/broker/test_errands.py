"""Errands: exchanges beside an action's own, and the one whose answer is kept nowhere."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.broker.recovery import HANG_UP, answer

from affidavit.broker.address import Leave
from affidavit.broker.errands import Errand, Ran
from affidavit.broker.limits import Limits
from affidavit.broker.target import parse_http
from affidavit.broker.terms import Effect
from affidavit.broker.wire.scripted import Cross, Hang, Sent

WHERE: dict[str, Any] = {
    "title": "Ask",
    "target": parse_http("https://login.example.com/token", Limits()),
    "leave": Leave(),
    "contract_id": "test.things",
    "contract_digest": "sha256:0",
}


def holding(directory: Path, needle: bytes) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file() and needle in path.read_bytes()]


async def run(world: Any, *scripts: Any, **more: Any) -> tuple[Any, Ran]:
    """An errand of a write that was approved; (the write's envelope, what came of it)."""
    world.script(answer(201), *scripts)
    got = await world.ask(world.session(), json={"a": 1}, correlation_id="run-1")
    cause = world.broker.core.projection.get(got["invocation_id"])
    errand = Errand(**{**WHERE, "cause": cause, **more})
    ran = await world.broker.core.errands.run(errand)
    assert ran is not None, "nothing stops the broker"
    return got, ran


async def test_it_is_an_invocation_under_its_causes_decision_and_gives_back_its_answer(world: Any) -> None:
    got, ran = await run(world, answer(200, {"x": 1}))
    inv = ran.invocation
    assert ran.answer is not None
    assert (ran.answer.status, ran.answer.document) == (200, {"x": 1})
    assert (inv.refers_to, inv.correlation_id, inv.attempt) == (got["invocation_id"], "run-1", 1)
    assert inv.approval is not None
    assert (inv.approval.means, inv.approval.by, inv.approval.approved) == ("card", "card", True)
    assert inv.operation_id != got["operation_id"]
    after = await world.get(world.session(), got["invocation_id"])
    assert after["evidence"]["attempts_left"] == 2
    assert after["evidence"]["operation"]["invocations"] == [got["invocation_id"]]
    assert not world.broker.operator.cards()


async def test_one_that_gets_no_answer_has_none(world: Any) -> None:
    _, ran = await run(world, HANG_UP)
    assert ran.answer is None
    assert ran.invocation.outcome == "unknown"


async def test_a_body_that_may_hold_new_secrets_is_in_memory_alone(world: Any) -> None:
    _, ran = await run(
        world,
        answer(200, {"access_token": "fresh-token-4711"}, set_cookie="sid=1"),
        method="POST",
        effect=Effect.WRITE,
        body=b"grant_type=client_credentials",
        stored=False,
    )
    assert ran.answer is not None
    assert ran.answer.document == {"access_token": "fresh-token-4711"}
    inv = ran.invocation
    assert inv.body is not None
    assert (inv.body.place, inv.body.stored_bytes, inv.body.withheld) == ("none", 0, True)
    assert "fresh-token" not in repr(ran)
    shown = await world.broker.operator.action_get(inv.invocation_id)
    assert "fresh-token" not in str(shown)
    assert "text" not in shown["http"]["body"]
    mine = await world._ended(
        world.broker.agent.action_get(world.session(), invocation_id=inv.invocation_id, operation_id=None, events=True)
    )
    assert "fresh-token" not in str(mine)
    await world.broker.core.projection.flush().durable()
    assert not holding(world.places.data, b"fresh-token")


async def test_nothing_of_such_an_answer_is_kept_where_it_breaks_off(world: Any) -> None:
    from affidavit.broker.wire.port import Fault
    from affidavit.broker.wire.scripted import Body, Broken, Cross, Head, Sent

    broken = Broken(Fault.CLOSED, "closed by peer", (("diagnostic", b'{"access_token":"fresh'),))
    _, ran = await run(world, (Cross(), Sent(), Head(200), Body(b'{"access_token":"fresh'), broken), stored=False)
    assert (ran.answer, ran.invocation.diagnostic) == (None, None)


async def test_a_lock_before_the_line_ends_it(world: Any) -> None:
    before_line = Hang()
    world.script(answer(201), (before_line, *answer(200)))
    got = await world.ask(world.session(), json={"a": 1})
    cause = world.broker.core.projection.get(got["invocation_id"])
    errand = Errand(**WHERE, cause=cause)
    running = asyncio.ensure_future(world.broker.core.errands.run(errand))
    await before_line.reached.wait()
    await world.broker.operator.lock(why="test")
    ran = await running
    assert (ran.invocation.code, ran.invocation.dispatched) == ("VAULT_LOCKED", False)


async def test_none_begins_while_the_broker_stops(world: Any) -> None:
    world.script(answer(201))
    got = await world.ask(world.session(), json={"a": 1})
    core = world.broker.core
    errand = Errand(**WHERE, cause=core.projection.get(got["invocation_id"]))
    core.stopping = True
    records = core.journal.counters.records
    assert await core.errands.run(errand) is None
    assert (len(world.wire.requests), core.journal.counters.records) == (1, records)


async def test_the_cause_of_what_is_bound_is_found_while_it_is_at_work(world: Any) -> None:
    hang = Hang()
    world.script((Cross(), Sent(), hang, *answer(201)[2:]))
    call = world.call(world.session(), json={"a": 1})
    await world.approve()
    await hang.reached.wait()
    core = world.broker.core
    (live,) = core.lives.values()
    assert core.errands.cause_of(live.bound).invocation_id == live.invocation_id
    hang.release.set()
    await call
    await world.settle()
    assert core.errands.cause_of(live.bound) is None
