"""Playbooks of what the broker repeats by itself: only where the contract says so, counted down, looking first."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from tests.broker.recovery import AUTOMATIC, HANG_UP, KEY, LOOKUP, answer, contract, route, rows

from affidavit.broker.wire.scripted import Cross, Hang, Sent

POST = {"json": {"a": 1}, "operation_id": "op-1", "wait_s": 600}


async def asked(world: Any, *scripts: Any, **more: Any) -> tuple[Any, asyncio.Task[Any]]:
    """A call whose card was approved; (session, the call)."""
    session = world.session()
    world.script(*scripts)
    call = world.call(session, **{**POST, **more})
    await world.approve()
    await world.settle()
    return session, call


async def routed(world: Any, **scripts: Any) -> asyncio.Task[Any]:
    session = world.session()
    route(world, **scripts)
    call = world.call(session, **POST)
    await world.approve()
    await world.settle()
    return call


async def test_the_card_names_its_repeats_and_each_is_counted_down(world: Any) -> None:
    await world.adopt(contract(KEY, AUTOMATIC))
    session = world.session()
    world.script(HANG_UP, HANG_UP, answer(201))
    call = world.call(session, **POST)
    card = await world.card()
    assert card.repeats == 2
    await world.approve()
    await world.later(120)
    got = await call
    assert world.facts(got) == ("remote_execution", "committed", "REMOTE_RESULT", "never")
    assert got["evidence"]["attempt"] == 3
    members = got["evidence"]["operation"]["invocations"]
    assert len(members) == 3
    left = []
    for member in members:
        shown = await world.broker.operator.action_get(member)
        (decided,) = [e["detail"] for e in shown["events"] if e["kind"] == "APPROVAL_DECIDED"]
        left.append((decided["means"], decided.get("repeats_left", 0), decided["fingerprint"]))
    assert left == [("card", n, got["evidence"]["fingerprint"]) for n in (2, 1, 0)]
    keys = {dict(r.headers)[b"Idempotency-Key"] for r in world.wire.requests}
    assert len(keys) == 1
    assert not world.broker.operator.cards()


async def test_the_budget_ends_what_the_broker_repeats(world: Any) -> None:
    await world.adopt(contract(KEY, AUTOMATIC))
    _, call = await asked(world, HANG_UP, HANG_UP, HANG_UP)
    await world.later(120)
    got = await call
    assert world.facts(got)[1] == "unknown"
    assert (got["evidence"]["attempt"], got["evidence"]["attempts_left"]) == (3, 0)
    await world.later(600)
    assert world.wire.crossed == 3


@pytest.fixture
def even(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses without their jitter."""
    monkeypatch.setattr(random, "uniform", lambda a, b: (a + b) / 2)


@pytest.mark.usefixtures("even")
async def test_the_pauses_grow(world: Any) -> None:
    await world.adopt(contract(KEY, AUTOMATIC))
    _, call = await asked(world, HANG_UP, HANG_UP, answer(201))
    crossed = []
    for seconds in (0.9, 0.2, 1.8, 0.2):
        await world.later(seconds)
        crossed.append(world.wire.crossed)
    assert crossed == [1, 2, 2, 3]
    assert world.facts(await call)[1] == "committed"


async def test_the_targets_own_pause_is_heard(world: Any) -> None:
    await world.adopt(contract(KEY, AUTOMATIC, "[verdict]\nrefused = [503]\n"))
    _, call = await asked(world, answer(503, retry_after="40"), answer(201))
    await world.later(39)
    assert world.wire.crossed == 1
    await world.later(2)
    assert world.facts(await call)[1] == "committed"


async def test_without_automatic_nothing_is_repeated_and_the_card_names_none(world: Any) -> None:
    await world.adopt(contract(KEY))
    session = world.session()
    world.script(HANG_UP)
    call = world.call(session, **POST)
    assert (await world.card()).repeats == 0
    await world.approve()
    assert world.facts(await call)[3] == "same_idempotency_key"
    await world.later(60)
    assert world.wire.crossed == 1


async def test_a_repeat_by_assumption_is_never_the_brokers(world: Any) -> None:
    session = world.session()
    world.script(HANG_UP)
    got = await world.ask(session, method="GET")
    assert world.facts(got)[3] == "backoff"
    await world.later(60)
    assert world.wire.crossed == 1


async def test_it_looks_before_it_repeats_also_under_a_key(world: Any) -> None:
    await world.adopt(contract(KEY, AUTOMATIC, LOOKUP))
    call = await routed(world, POST=[HANG_UP], GET=[rows("done")])
    await world.later(10)
    got = await call
    assert world.facts(got) == ("remote_execution", "committed", "SETTLED_BY_QUERY", "never")
    assert world.wire.methods == ["POST", "GET"]


async def test_while_the_target_works_on_it_nothing_is_repeated(world: Any) -> None:
    await world.adopt(contract(KEY, AUTOMATIC, LOOKUP))
    call = await routed(world, POST=[HANG_UP], GET=[rows("working")])
    await world.later(60)
    assert not call.done()
    world.wire.scripts["GET"] = [rows("done")]
    await world.later(60)
    assert world.facts(await call)[2] == "SETTLED_BY_QUERY"
    assert world.wire.methods.count("POST") == 1


@pytest.mark.usefixtures("even")
async def test_it_looks_again_where_the_repeat_was_refused_and_the_first_is_unknown(world: Any) -> None:
    await world.adopt(contract(KEY, AUTOMATIC, LOOKUP))
    call = await routed(world, POST=[HANG_UP, answer(429, retry_after="4"), answer(201)], GET=[answer(503)])
    await world.later(1)
    assert world.wire.methods.count("POST") == 2
    world.wire.scripts["GET"] = [rows("working"), rows("done")]
    await world.later(60)
    got = await call
    assert got["evidence"]["operation"]["outcome"] == "committed"
    assert world.wire.methods.count("POST") == 2


@pytest.mark.usefixtures("even")
async def test_a_target_that_works_on_it_for_ever_is_looked_at_until_the_recovery_deadline(world: Any) -> None:
    await world.adopt(contract(KEY, AUTOMATIC, LOOKUP, "[deadlines]\nrecovery = '60s'\n"))
    call = await routed(world, POST=[HANG_UP], GET=[rows("working")])
    await world.later(120)
    assert call.done()
    assert world.facts(call.result())[1:] == ("unknown", "REMOTE_OUTCOME_UNKNOWN", "same_idempotency_key")
    looked = len(world.wire.requests)
    await world.later(600)
    assert len(world.wire.requests) == looked


async def test_looking_again_ends_with_its_session(world: Any) -> None:
    await world.adopt(contract(KEY, AUTOMATIC, LOOKUP))
    session = world.session()
    route(world, POST=[HANG_UP], GET=[rows("working")])
    call = world.call(session, **POST)
    await world.approve()
    await world.later(10)
    world.broker.agent.session_ended(session.session_id)
    await world.later(40)
    assert call.done()
    assert world.facts(call.result())[1] == "unknown"
    assert world.broker.core.pursuits.of("op-1") is None


@pytest.mark.parametrize("found", [rows("done", "done"), rows("odd")])
async def test_an_anomaly_stops_it(world: Any, found: Any) -> None:
    await world.adopt(contract(KEY, AUTOMATIC, LOOKUP))
    call = await routed(world, POST=[HANG_UP], GET=[found])
    await world.later(40)
    got = await call
    assert world.facts(got)[1:] == ("unknown", "REMOTE_OUTCOME_UNKNOWN", "same_idempotency_key")
    assert world.wire.methods.count("POST") == 1


async def test_a_look_up_that_fails_leaves_the_key(world: Any) -> None:
    """R77: the status endpoint is down while the write endpoint works."""
    await world.adopt(contract(KEY, AUTOMATIC, LOOKUP))
    call = await routed(world, POST=[HANG_UP, answer(201)], GET=[answer(503)])
    await world.later(10)
    assert world.facts(await call)[1] == "committed"
    assert world.wire.methods.count("POST") == 2


async def test_absence_in_its_time_is_a_refusal_and_is_sent_anew(world: Any) -> None:
    await world.adopt(contract(AUTOMATIC, LOOKUP.replace('after = "60s"', 'after = "1s"'), effect=IDEMPOTENT))
    call = await routed(world, POST=[HANG_UP, answer(201)], GET=[rows()])
    await world.later(20)
    got = await call
    assert world.facts(got)[1] == "committed"
    assert world.wire.methods.count("POST") == 2
    first = await world.get(world.session(), got["evidence"]["retry_of"])
    assert world.facts(first)[1] in ("rejected", "unknown")


IDEMPOTENT = 'kind = "write"\nidempotent = true'


async def test_once_an_answer_was_given_only_look_ups_go_on(world: Any) -> None:
    await world.adopt(contract(KEY, AUTOMATIC))
    session = world.session()
    world.script(HANG_UP)
    pending = await world.call(session, **{**POST, "wait_s": 0})
    assert "pending" in pending
    await world.approve()
    await world.settle()
    got = await world.get(session, pending["invocation_id"])
    assert world.facts(got)[1] == "unknown"
    await world.later(120)
    assert world.wire.crossed == 1


async def test_a_call_that_was_answered_pending_is_repeated_for(world: Any) -> None:
    await world.adopt(contract(KEY, AUTOMATIC))
    hang = Hang()
    session = world.session()
    world.script((Cross(), Sent(), hang, *HANG_UP[2:]), answer(201))
    call = world.call(session, **{**POST, "wait_s": 0})
    pending = await call
    assert "pending" in pending
    await world.approve()
    await hang.reached.wait()
    waiting = asyncio.ensure_future(
        world._ended(world.broker.agent.action_wait(session, invocation_id=pending["invocation_id"], wait_s=600))
    )
    await world.settle()
    hang.release.set()
    await world.later(10)
    got = await waiting
    assert world.facts(got)[1] == "committed"
    assert got["evidence"]["retry_of"] == pending["invocation_id"]


async def test_the_same_operation_asked_again_meanwhile_joins(world: Any) -> None:
    await world.adopt(contract(KEY, AUTOMATIC))
    _, call = await asked(world, HANG_UP, answer(201))
    assert not call.done()
    again = world.call(world.session("s-2", program="/usr/bin/other"), **POST)
    await world.later(10)
    assert (await again)["invocation_id"] == (await call)["invocation_id"]
    assert world.wire.crossed == 2


@pytest.mark.parametrize("ends", ["lock", "session", "cancel"])
async def test_it_ends_with_a_lock_with_its_session_and_with_a_cancel(world: Any, ends: str) -> None:
    await world.adopt(contract(KEY, AUTOMATIC))
    hang = Hang()
    session, call = await asked(world, (Cross(), Sent(), hang, *HANG_UP[2:]))
    await hang.reached.wait()
    if ends == "cancel":
        inv = world.broker.core.projection.open()[0]
        await world._ended(world.broker.agent.action_cancel(session, invocation_id=inv.invocation_id, signal=None))
    elif ends == "session":
        world.broker.agent.session_ended(session.session_id)
    else:
        await world.broker.operator.lock(why="test")
    hang.release.set()
    await world.later(60)
    assert world.facts(await call)[1] == "unknown"
    assert world.wire.crossed == 1


async def test_no_allowance_survives_a_lock(world: Any) -> None:
    await world.adopt(contract(KEY, AUTOMATIC))
    session, call = await asked(world, HANG_UP, wait_s=0)
    first = await call
    await world.get(session, first["invocation_id"])
    await world.broker.operator.lock(why="test")
    await world.unlock()
    retry = world.retry(session, first["invocation_id"])
    assert (await world.card()).repeats == 1, "asked again; what is left after it could still be named"
    await world.deny()
    await retry


async def test_an_explicit_repeat_uses_what_the_card_named(world: Any) -> None:
    await world.adopt(contract(KEY, AUTOMATIC))
    session, call = await asked(world, HANG_UP, wait_s=0)
    first = await call
    await world.get(session, first["invocation_id"])
    world.script(answer(201))
    second = await world.retry(session, first["invocation_id"])
    assert world.facts(second)[1] == "committed"
    assert second["evidence"]["authorization"]["means"] == "card"


async def test_an_allowance_covers_the_same_request_only(world: Any) -> None:
    await world.adopt(contract(KEY, AUTOMATIC))
    session, call = await asked(world, HANG_UP, wait_s=0)
    first = await call
    await world.get(session, first["invocation_id"])
    await world.adopt(contract(KEY.replace("24h", "48h"), AUTOMATIC))
    retry = world.retry(session, first["invocation_id"])
    card = await world.card()
    assert card.fingerprint != first["evidence"]["fingerprint"]
    await world.deny()
    await retry
