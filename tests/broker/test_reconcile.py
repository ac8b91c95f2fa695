"""Playbooks of reconciliation: what a look-up is, when it comes, and what it settles."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.broker.recovery import HANG_UP, KEY, LOOKUP, answer, contract, rows

from affidavit.broker.wire.port import Fault
from affidavit.broker.wire.scripted import Broken, Cross, Hang, Sent
from affidavit.journal import result_names

PASSPHRASE = b"a passphrase for tests"
POST = {"json": {"a": 1}, "operation_id": "op-1"}


@pytest.fixture
async def lost(world: Any) -> Any:
    """A write whose answer was lost, under a contract with a look-up; (world, session, its envelope)."""
    await world.adopt(contract(LOOKUP))
    await world.credential()
    session = world.session()
    world.script(HANG_UP)
    got = await world.ask(session, **POST)
    assert world.facts(got) == ("remote_execution", "unknown", "REMOTE_OUTCOME_UNKNOWN", "reconcile")
    return world, session, got


async def test_a_look_up_is_an_invocation_of_its_own_and_settles_by_the_contracts_words(lost: Any) -> None:
    world, session, got = lost
    world.script(rows("done"))
    settled = await world.look(session, got["invocation_id"])
    assert world.facts(settled) == ("remote_execution", "committed", "SETTLED_BY_QUERY", "never")
    assert settled["settled"]["source"] == "remote_query"
    looked = settled["evidence"]["looked_up"]
    errand = await world.get(session, looked["invocation_id"])
    assert errand["operation_id"] != "op-1"
    assert errand["evidence"]["refers_to"] == got["invocation_id"]
    assert errand["evidence"]["authorization"]["means"] == got["evidence"]["authorization"]["means"] == "card"
    assert errand["evidence"]["contract"]["id"] == "test.things"
    assert await world.kinds(looked["invocation_id"]) == [
        "ACTION_ACCEPTED",
        "PREFLIGHT_VALIDATED",
        "APPROVAL_DECIDED",
        "CREDENTIAL_AUTHORIZED",
        "DISPATCH_STARTED",
        "REQUEST_SENT",
        "REMOTE_RESPONSE_STARTED",
        "REMOTE_RESPONSE_COMPLETE",
        "RESULT_COMMITTED",
    ]
    (request,) = world.wire.requests
    assert (request.method, request.target) == ("GET", b"/v1/things?ref=op-1")
    assert dict(request.headers)[b"Authorization"] == b"Bearer planted-secret-9fK2"
    assert (await world.kinds(got["invocation_id"]))[-1] == "OUTCOME_SETTLED"
    assert settled["evidence"]["attempts_left"] == got["evidence"]["attempts_left"] == 2, "a look-up is no attempt"
    assert settled["evidence"]["operation"]["invocations"] == [got["invocation_id"]]


@pytest.mark.parametrize(
    ("script", "facts", "worth"),
    [
        (rows("failed"), ("rejected", "SETTLED_BY_QUERY", "after_correction"), "settles"),
        (rows("working"), ("unknown", "REMOTE_OUTCOME_UNKNOWN", "reconcile"), "pending"),
        (rows("odd"), ("unknown", "REMOTE_OUTCOME_UNKNOWN", "reconcile"), "other_state"),
        (rows(), ("unknown", "REMOTE_OUTCOME_UNKNOWN", "reconcile"), "absent"),
        (rows("done", op="else"), ("unknown", "REMOTE_OUTCOME_UNKNOWN", "reconcile"), "absent"),
        (answer(503), ("unknown", "REMOTE_OUTCOME_UNKNOWN", "reconcile"), "failed"),
        (answer(502), ("unknown", "REMOTE_OUTCOME_UNKNOWN", "reconcile"), "failed"),
        (answer(200, b"<html>"), ("unknown", "REMOTE_OUTCOME_UNKNOWN", "reconcile"), "failed"),
        (HANG_UP, ("unknown", "REMOTE_OUTCOME_UNKNOWN", "reconcile"), "failed"),
    ],
)
async def test_what_a_look_up_is_worth(lost: Any, script: Any, facts: tuple[str, str, str], worth: str) -> None:
    world, session, got = lost
    world.script(script)
    looked = await world.look(session, got["invocation_id"])
    assert world.facts(looked)[1:] == facts
    assert looked["evidence"]["looked_up"]["worth"] == worth
    kind = "OUTCOME_SETTLED" if worth == "settles" else "LOOKED_UP"
    assert (await world.kinds(got["invocation_id"]))[-1] == kind


async def test_several_matches_are_an_anomaly_neither_claimed_nor_hidden(lost: Any) -> None:
    """F09: a proxy repeated the request upstream."""
    world, session, got = lost
    world.script(rows("done", "done"))
    looked = await world.look(session, got["invocation_id"])
    assert world.facts(looked)[1] == "unknown"
    assert looked["evidence"]["looked_up"]["worth"] == "several"
    assert [alert["which"] for alert in world.broker.core.status()["alerts"]] == ["several_matches"]


async def test_absence_is_a_refusal_only_once_the_contracts_time_has_passed(lost: Any) -> None:
    world, session, got = lost
    world.clock.ahead_s += 59
    world.script(rows())
    assert world.facts(await world.look(session, got["invocation_id"]))[1] == "unknown"
    world.clock.ahead_s += 2
    world.script(rows())
    settled = await world.look(session, got["invocation_id"])
    assert world.facts(settled) == ("remote_execution", "rejected", "SETTLED_BY_QUERY", "backoff")


async def test_a_wall_clock_that_was_set_forward_makes_no_absence_older(lost: Any) -> None:
    world, session, got = lost
    world.clock.wall_set_s = 300
    world.script(rows())
    assert world.facts(await world.look(session, got["invocation_id"]))[1] == "unknown"


async def test_look_ups_come_on_their_schedule_until_one_settles(lost: Any) -> None:
    world, _, _ = lost
    world.script(*[rows("working")] * 6, rows("done"))
    came = []
    for seconds in (0.9, 0.1, 1, 3, 5, 19, 1, 59, 1, 59, 1, 600):
        await world.later(seconds)
        came.append(len(world.wire.exchanges))
    assert came == [0, 1, 2, 3, 4, 4, 5, 5, 6, 6, 7, 7], "after 1, 2, 5, 10, 30 s, then each minute"


async def test_look_ups_end_at_the_recovery_deadline_with_an_alert(lost: Any) -> None:
    world, session, got = lost
    world.script(*[rows("working")] * 40)
    await world.later(700)
    asked = len(world.wire.exchanges)
    assert asked == 14, "5 in the first half minute, then one a minute until 630 s"
    await world.later(700)
    assert len(world.wire.exchanges) == asked
    world.broker.core.sweep()
    alerts = world.broker.core.status()["alerts"]
    assert [(a["which"], a["invocation_id"]) for a in alerts] == [("recovery_deadline", got["invocation_id"])]
    world.broker.core.sweep()
    assert len(world.broker.core.status()["alerts"]) == 1
    looked = await world.look(session, got["invocation_id"])
    assert world.facts(looked)[1] == "unknown"
    assert len(world.wire.exchanges) == asked, "the approval covers look-ups until then"


async def test_while_locked_look_ups_wait_and_go_on_after_unlock(lost: Any) -> None:
    world, session, got = lost
    world.script(rows("done"))
    await world.broker.operator.lock(why="test")
    await world.later(30)
    assert not world.wire.exchanges
    sealed = await world.look(session, got["invocation_id"])
    assert (world.facts(sealed)[1], len(world.wire.exchanges)) == ("unknown", 0)
    await world.unlock()
    await world.later(5)
    assert len(world.wire.exchanges) == 1
    assert world.facts(await world.get(session, got["invocation_id"]))[2] == "SETTLED_BY_QUERY"


async def test_during_a_quit_nothing_is_looked_up(lost: Any) -> None:
    world, session, got = lost
    hang = Hang()
    world.script((Cross(), Sent(), hang, *answer(201)[2:]), rows("done"))
    running = world.call(session, json={"a": 2}, url="https://api.example.com/v1/other")
    await world.approve()
    await hang.reached.wait()
    quitting = asyncio.ensure_future(world.broker.shutdown("quit"))
    await world.later(30)
    asked = await world.look(session, got["invocation_id"])
    assert (world.facts(asked)[1], len(world.wire.exchanges)) == ("unknown", 1)
    hang.release.set()
    await quitting
    assert world.facts(await running)[1] == "committed"
    assert (await world.kinds(got["invocation_id"]))[-1] == "OUTCOME_UNKNOWN"


async def test_a_look_up_that_a_quit_stops_before_its_line_has_said_nothing(lost: Any) -> None:
    world, session, got = lost
    before_line = Hang()
    world.script((before_line, *rows("done")))
    looking = asyncio.ensure_future(world.look(session, got["invocation_id"]))
    await before_line.reached.wait()
    await world.broker.shutdown("quit")
    assert world.facts(await looking)[1] == "unknown"
    assert (await world.kinds(got["invocation_id"]))[-1] == "OUTCOME_UNKNOWN"


async def test_after_a_restart_look_ups_go_on_from_the_record_alone(lost: Any) -> None:
    world, _, got = lost
    await world.stop()
    await world.start()
    world.script(rows("done"))
    await world.later(30)
    assert not world.wire.exchanges, "the vault is locked"
    await world.unlock()
    await world.later(1)
    assert len(world.wire.exchanges) == 1
    settled = await world.get(world.session(), got["invocation_id"])
    assert world.facts(settled) == ("remote_execution", "committed", "SETTLED_BY_QUERY", "never")


async def test_who_asks_while_a_look_up_is_under_way_gets_its_answer(lost: Any) -> None:
    world, session, got = lost
    hang = Hang()
    world.script((Cross(), Sent(), hang, *rows("done")[2:]))
    first = asyncio.ensure_future(world.look(session, got["invocation_id"]))
    await hang.reached.wait()
    second = asyncio.ensure_future(world.look(session, got["invocation_id"]))
    await world.settle()
    hang.release.set()
    assert [world.facts(await each)[2] for each in (first, second)] == ["SETTLED_BY_QUERY"] * 2
    assert len(world.wire.exchanges) == 1


async def test_a_late_answer_is_stronger_than_a_look_up_and_a_contradiction_is_shown(world: Any) -> None:
    await world.adopt(contract(LOOKUP))
    hang = Hang()
    world.script((Cross(), Sent(), hang, *answer(201)[2:]), rows("failed"))
    session = world.session()
    got = await world.ask(session, **POST, deadline_s=0.1)
    assert world.facts(got)[2] == "REMOTE_DEADLINE"
    settled = await world.look(session, got["invocation_id"])
    assert world.facts(settled)[1:3] == ("rejected", "SETTLED_BY_QUERY")
    hang.release.set()
    await world.until(lambda: bool(world.broker.core.status()["alerts"]))
    now = await world.get(session, got["invocation_id"])
    assert world.facts(now)[1:3] == ("rejected", "SETTLED_BY_QUERY")
    assert now["evidence"]["disputed"] is True
    assert [a["which"] for a in world.broker.core.status()["alerts"]] == ["contradiction"]


@pytest.mark.parametrize("status", [201, 502])
async def test_of_a_late_answer_that_settles_nothing_no_result_is_left(world: Any, status: int) -> None:
    await world.adopt(contract(LOOKUP))
    hang = Hang()
    world.script((Cross(), Sent(), hang, *answer(status, bytes(2 * 1024 * 1024))[2:]), rows("failed"))
    session = world.session()
    got = await world.ask(session, **POST, deadline_s=0.1)
    await world.look(session, got["invocation_id"])
    (live,) = world.broker.core.engine._reading
    hang.release.set()
    async with asyncio.timeout(20):
        await asyncio.gather(*(t for t in world.broker.core._tasks if t.get_coro().__name__ == "_late"))
    assert not world.broker.core.engine._reading
    assert live.exchange.evidence.body_bytes == 2 * 1024 * 1024
    assert result_names(world.places.results) == []


async def attest(world: Any, got: Any, outcome: str, supersedes: int | None = None) -> Any:
    return await world.broker.operator.attest(
        got["invocation_id"],
        outcome=outcome,
        note="looked at the list",
        reference=None,
        item=None,
        supersedes=supersedes,
        passphrase=bytearray(PASSPHRASE),
    )


async def test_a_look_up_corrects_what_was_attested(lost: Any) -> None:
    world, session, got = lost
    first = await attest(world, got, "committed")
    world.script(rows("failed"))
    looked = await world.look(session, got["invocation_id"])
    assert world.facts(looked)[1:] == ("rejected", "SETTLED_BY_QUERY", "after_correction")
    assert looked["evidence"]["disputed"] is True
    kinds = await world.kinds(got["invocation_id"])
    assert kinds[-3:] == ["OUTCOME_SETTLED", "OUTCOME_DISPUTED", "OUTCOME_SETTLED"]
    alert = world.broker.core.status()["alerts"][0]
    assert (alert["which"], str(first["record"]) in alert["says"]) == ("contradiction", True)


async def test_an_attestation_that_contradicts_a_look_up_is_appended_and_moves_nothing(lost: Any) -> None:
    """R77: an operator resumes what another has settled."""
    from affidavit.broker.api import OperatorRefused

    world, session, got = lost
    world.script(rows("done"))
    settled = await world.look(session, got["invocation_id"])
    record = settled["settled"]["record"]
    with pytest.raises(OperatorRefused, match=f"Record {record} settled it as committed"):
        await attest(world, got, "committed")
    assert "disputed" not in (await world.get(session, got["invocation_id"]))["evidence"]
    with pytest.raises(OperatorRefused, match=f"Record {record} settled it as committed"):
        await attest(world, got, "rejected")
    now = await world.get(session, got["invocation_id"])
    assert world.facts(now)[1] == "committed"
    assert now["evidence"]["disputed"] is True
    assert (await world.kinds(got["invocation_id"]))[-1] == "OUTCOME_DISPUTED"


async def test_an_answer_whose_advice_is_to_look_is_looked_at_and_stays(world: Any) -> None:
    """F12: a 503 was answered after the effect; the look-up is evidence beside it."""
    await world.adopt(contract(LOOKUP))
    world.script(answer(503), rows("done"))
    session = world.session()
    got = await world.ask(session, **POST)
    assert world.facts(got) == ("remote_execution", "committed", "REMOTE_UNAVAILABLE", "reconcile")
    looked = await world.look(session, got["invocation_id"])
    assert world.facts(looked) == world.facts(got)
    assert looked["evidence"]["looked_up"]["answer"] == 'its state is "done"'
    world.script()
    later = await world.later(30)
    assert later is None, "what is settled is not watched"


async def test_what_needs_no_look_up_gets_none(world: Any) -> None:
    await world.adopt(contract(LOOKUP))
    world.script(answer(201))
    session = world.session()
    got = await world.ask(session, **POST)
    assert world.facts(await world.look(session, got["invocation_id"])) == world.facts(got)
    world.script(HANG_UP)
    other = await world.ask(session, json={"b": 1}, url="https://api.example.com/v1/other")
    assert world.facts(await world.look(session, other["invocation_id"])) == world.facts(other)
    assert len(world.wire.exchanges) == 1


async def test_a_look_up_by_what_the_answer_said(world: Any) -> None:
    lookup = (
        '[reconcile]\nurl = "https://api.example.com/v1/things/{result:/id}"\nstate = "/status"\ncommitted = ["done"]\n'
    )
    await world.adopt(contract(lookup))
    world.script(answer(500, {"id": "t/7"}), answer(200, {"status": "done"}))
    session = world.session()
    got = await world.ask(session, **POST)
    assert got["evidence"]["reconcile"] == {"available": False}
    looked = await world.look(session, got["invocation_id"])
    assert world.wire.requests[1].target == b"/v1/things/t%2F7"
    assert looked["evidence"]["looked_up"]["worth"] == "settles"


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_look_up_takes_a_part_of_the_actions_path(world: Any, restarted: bool) -> None:
    """The action's own origin and path are in its record, so a restart asks for the same URL."""
    things = contract('[reconcile]\nurl = "/v2/{path:2}/ours?op={operation_id}"\n')
    await world.adopt(things.replace("/v1/things", "/v1/*"))
    await world.credential()
    session = world.session()
    world.script(HANG_UP)
    got = await world.ask(session, **POST, url="https://api.example.com/v1/t%C3%A9%2F1?x=1")
    asked = "https://api.example.com/v2/t%C3%A9%2F1/ours?op=op-1"
    assert got["evidence"]["reconcile"] == {"available": True, "method": "GET", "url": asked}
    if restarted:
        await world.restart()
        session = world.session()
    world.script(answer(200, {"id": 1}))
    settled = await world.look(session, got["invocation_id"])
    assert world.facts(settled)[1:3] == ("committed", "SETTLED_BY_QUERY")
    assert world.wire.requests[0].target == b"/v2/t%C3%A9%2F1/ours?op=op-1"
    assert dict(world.wire.requests[0].headers)[b"Authorization"] == b"Bearer planted-secret-9fK2"


async def test_a_path_that_is_shorter_than_its_look_up_has_none(world: Any) -> None:
    await world.adopt(contract('[reconcile]\nurl = "/v2/{path:3}"\n'))
    session = world.session()
    world.script(HANG_UP)
    got = await world.ask(session, **POST)
    assert got["evidence"]["reconcile"] == {"available": False}
    assert world.facts(await world.look(session, got["invocation_id"]))[1] == "unknown"
    assert len(world.wire.requests) == 1


async def test_a_look_up_elsewhere_goes_without_the_credential(world: Any) -> None:
    lookup = '[reconcile]\nmethod = "POST"\nurl = "https://audit.example.net/q"\nbody = \'{"op":"{operation_id}"}\'\n'
    await world.adopt(contract(lookup))
    await world.credential()
    world.script(HANG_UP, answer(200, {}))
    session = world.session()
    got = await world.ask(session, **POST)
    assert got["evidence"]["reconcile"]["body"] == '{"op":"op-1"}'
    settled = await world.look(session, got["invocation_id"])
    assert world.facts(settled)[1] == "committed"
    request = world.wire.requests[1]
    assert (request.host, request.body) == ("audit.example.net", b'{"op":"op-1"}')
    assert b"Authorization" not in dict(request.headers)


@pytest.mark.parametrize("gone", ["removed", "narrowed"])
async def test_a_look_up_at_the_actions_own_origin_never_goes_without_its_credential(lost: Any, gone: str) -> None:
    """What a stranger is not shown is not absent."""
    world, session, got = lost
    operator = world.broker.operator
    await operator.credential_remove("api", bytearray(PASSPHRASE))
    if gone == "narrowed":
        await world.credential("https://api.example.com/v2/**")
    world.clock.ahead_s += 61
    world.script(rows())
    looked = await world.look(session, got["invocation_id"])
    assert world.facts(looked)[1:] == ("unknown", "REMOTE_OUTCOME_UNKNOWN", "reconcile")
    assert not world.wire.exchanges


async def test_a_look_up_after_a_refused_repeat_speaks_of_the_one_that_counts(world: Any) -> None:
    """The first was committed; that the repeat was refused is no contradiction."""
    await world.adopt(contract(LOOKUP, "[approval]\nmode = 'never'\n"))
    session = world.session()
    world.script(HANG_UP, answer(429))
    first = await world.ask(session, **POST)
    retry = world.retry(session, first["invocation_id"], unsafe=True)
    await world.approve()
    second = await retry
    world.script(rows("done"), rows("done"))
    assert world.facts(await world.look(session, first["invocation_id"]))[1:3] == ("committed", "SETTLED_BY_QUERY")
    looked = await world.look(session, second["invocation_id"])
    assert world.facts(looked)[1:] == ("rejected", "REMOTE_RATE_LIMITED", "reconcile")
    assert "disputed" not in looked["evidence"]
    assert not world.broker.core.status()["alerts"]
    assert (await world.kinds(first["invocation_id"]))[-2:] == ["OUTCOME_SETTLED", "LOOKED_UP"]


async def test_a_look_up_may_go_to_loopback_only_where_the_contract_names_it(world: Any) -> None:
    lookup = '[reconcile]\nurl = "http://127.0.0.1:9/q?op={operation_id}"\n'
    await world.adopt(contract(lookup))
    world.script(HANG_UP, answer(200, {}))
    session = world.session()
    got = await world.ask(session, **POST)
    settled = await world.look(session, got["invocation_id"])
    assert world.facts(settled)[2] == "SETTLED_BY_QUERY"
    assert world.wire.requests[1].host == "127.0.0.1"


async def test_both_unknown_dispatches_of_an_operation_are_looked_up_together(world: Any) -> None:
    await world.adopt(contract(KEY, LOOKUP))
    world.script(HANG_UP, HANG_UP)
    session = world.session()
    first = await world.ask(session, **POST)
    retry = world.retry(session, first["invocation_id"])
    await world.approve()
    second = await retry
    assert world.facts(second)[1] == "unknown"
    world.script(rows("done"))
    await world.look(session, first["invocation_id"])
    for each in (first, second):
        assert world.facts(await world.get(session, each["invocation_id"]))[1] == "committed"
    assert len(world.wire.exchanges) == 1


async def test_a_failed_look_up_is_nothing_to_attest(lost: Any) -> None:
    world, session, got = lost
    world.script((Cross(), Sent(), Broken(Fault.RESET, "reset")))
    await world.look(session, got["invocation_id"])
    unknown = await world.broker.operator.unknown()
    assert [each["invocation_id"] for each in unknown] == [got["invocation_id"]]
    await world.broker.operator.lock(why="test")
    assert [each["invocation_id"] for each in await world.broker.operator.unknown()] == [got["invocation_id"]]
