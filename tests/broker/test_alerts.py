"""Alerts: raised once, recorded, closed by the operator; and what is counted by target and contract."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from tests.broker.recovery import HANG_UP, REFUSED, answer

from affidavit.broker.alerts import KEPT
from affidavit.broker.api import OperatorRefused
from affidavit.broker.metrics import PLACES, Metrics
from affidavit.broker.moment import SECOND, rfc3339
from affidavit.broker.outcome import Invocation
from affidavit.broker.terms import Code, InvocationId, Micros, Outcome, Phase, Retry, State


def alerts(world: Any) -> list[tuple[str, str | None]]:
    return [(a["which"], a["invocation_id"]) for a in world.broker.core.status()["alerts"]]


async def test_one_operation_id_with_two_contents_is_an_alert(world: Any) -> None:
    world.script(answer(201))
    session = world.session()
    got = await world.ask(session, json={"a": 1}, operation_id="op-1")
    for _ in range(2):
        await world.ask(session, json={"a": 2}, operation_id="op-1")
    assert alerts(world) == [("mismatch", got["invocation_id"])]


async def test_an_unknown_past_its_deadline_is_an_alert_also_without_a_look_up_and_while_locked(world: Any) -> None:
    world.script(HANG_UP)
    got = await world.ask(world.session(), json={"a": 1})
    world.broker.core.sweep()
    assert alerts(world) == [], "not on every time-out"
    await world.broker.operator.lock(why="test")
    world.clock.ahead_s += 631
    world.broker.core.sweep()
    assert alerts(world) == [("recovery_deadline", got["invocation_id"])]
    await world.stop()
    await world.start()
    assert world.broker.core.status()["alerts_sealed"] == 0, "it is found out anew, and counted once"
    world.broker.core.sweep()
    assert alerts(world) == [("recovery_deadline", got["invocation_id"])], "still true in the next run"
    await world.unlock()
    assert alerts(world) == [("recovery_deadline", got["invocation_id"])]


async def test_the_operator_closes_an_alert_with_the_passphrase(world: Any) -> None:
    world.broker.core.alert("storage", "The disk is full.")
    (alert,) = world.broker.core.status()["alerts"]
    with pytest.raises(OperatorRefused):
        await world.broker.operator.alert_close(alert["id"], bytearray(b"wrong"))
    assert len(alerts(world)) == 1
    closed = await world.broker.operator.alert_close(alert["id"], bytearray(b"a passphrase for tests"))
    assert closed == {"closed": alert["id"]}
    assert alerts(world) == []
    with pytest.raises(OperatorRefused, match="No such alert"):
        await world.broker.operator.alert_close(alert["id"], bytearray(b"a passphrase for tests"))
    core = world.broker.core
    await core.projection.flush().durable()
    head = core.projection.head_record()
    kinds = [r.kind for r in core.projection.reader.records_between(max(1, head - 20), head)]
    assert [k for k in kinds if k.startswith("ALERT")] == ["ALERT_RAISED", "ALERT_CLOSED"]


async def marks(world: Any) -> int:
    """How many alerts the journal holds open."""
    core = world.broker.core
    await core.projection.flush().durable()
    return len(core.projection.reader.blob_ids("alert_", "alert_~", 2 * KEPT))


async def close(world: Any, which: str) -> None:
    (alert_id,) = [a["id"] for a in world.broker.core.status()["alerts"] if a["which"] == which]
    await world.broker.operator.alert_close(alert_id, bytearray(b"a passphrase for tests"))


async def test_what_is_open_outlives_a_restart_and_what_was_closed_does_not(world: Any) -> None:
    world.script(answer(201))
    session = world.session()
    got = await world.ask(session, json={"a": 1}, operation_id="op-1")
    await world.ask(session, json={"a": 2}, operation_id="op-1")
    world.broker.core.alert("storage", "The disk was full.")
    shown = world.broker.core.status()["alerts"]
    await close(world, "storage")
    assert await marks(world) == 1
    for again in range(2):
        await world.stop()
        await world.start()
        assert alerts(world) == [], "what it says is sealed"
        assert world.broker.core.status()["alerts_sealed"] == 1 + again
        world.broker.core.alert("passphrase", "Five wrong ones.")
        await world.unlock()
        assert alerts(world) == [("mismatch", got["invocation_id"]), ("passphrase", None)], "the older first"
        assert world.broker.core.status()["alerts"][0] | {"id": 1} == shown[0]
        assert world.broker.core.status()["alerts_sealed"] == 0
        assert await marks(world) == 2, "the same one, raised again while locked, stands once"
    await world.broker.operator.lock(why="test")
    await world.unlock()
    assert len(alerts(world)) == 2
    await close(world, "mismatch")
    await close(world, "passphrase")
    await world.restart()
    assert alerts(world) == []


async def test_an_alert_about_what_lasts_stays_closed_and_one_about_an_event_comes_again(world: Any) -> None:
    world.script(HANG_UP)
    session = world.session()
    await world.ask(session, json={"a": 1}, operation_id="op-1")
    world.clock.ahead_s += 631
    await world.ask(session, json={"a": 2}, operation_id="op-1")
    for _ in range(2):
        world.broker.core.sweep()
        assert sorted(which for which, _ in alerts(world)) == ["mismatch", "recovery_deadline"]
    await close(world, "recovery_deadline")
    await close(world, "mismatch")
    world.broker.core.sweep()
    await world.ask(session, json={"a": 2}, operation_id="op-1")
    assert [which for which, _ in alerts(world)] == ["mismatch"]


async def overdue(world: Any, a: int = 1) -> None:
    """An operation that is unknown past its deadline, and its alert."""
    world.script(HANG_UP)
    await world.ask(world.session(), json={"a": a})
    world.clock.ahead_s += 631
    world.broker.core.sweep()


async def test_an_alert_has_the_time_of_its_record(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    wall, looks = world.clock.wall, itertools.count()
    monkeypatch.setattr(world.clock, "wall", lambda: Micros(wall() + next(looks) * SECOND))
    core = world.broker.core
    core.alert("storage", "It is full.")
    (shown,) = core.status()["alerts"]
    await core.projection.flush().durable()
    (mark,) = core.projection.reader.blob_ids("alert_", "alert_~", 9)
    record = core.projection.reader.record(int(mark.removeprefix("alert_")))
    assert shown["at"] == rfc3339(Micros(record.at))


async def test_an_alert_about_what_lasts_keeps_its_time_over_a_restart(world: Any) -> None:
    await overdue(world)
    (first,) = world.broker.core.status()["alerts"]
    for _ in range(2):
        await world.stop()
        world.clock.ahead_s += 100
        await world.start()
        world.broker.core.sweep()
        assert world.broker.core.status()["alerts"] == [first], "while it is locked, too"
        await world.unlock()
        assert world.broker.core.status()["alerts"] == [first]
        assert await marks(world) == 1


async def test_an_unknown_operation_that_the_operator_has_seen_is_no_alert_in_later_runs(world: Any) -> None:
    await overdue(world)
    await close(world, "recovery_deadline")
    for _ in range(2):
        await world.stop()
        await world.start()
        world.broker.core.sweep()
        assert alerts(world) == [], "while it is locked, too"
        await world.unlock()
        world.broker.core.sweep()
        assert alerts(world) == []
    await overdue(world, 2)
    assert [which for which, _ in alerts(world)] == ["recovery_deadline"], "that of another operation is new"


async def test_what_lasts_and_is_nobody_s_invocation_is_told_anew_in_each_run(world: Any) -> None:
    for _ in range(2):
        world.broker.core.alerts.raise_("storage", "It cannot be tended.", lasting=True)
        assert alerts(world) == [("storage", None)]
        await close(world, "storage")
        world.broker.core.alerts.raise_("storage", "It cannot be tended.", lasting=True)
        assert alerts(world) == []
        await world.restart()


async def test_an_alert_raised_again_while_locked_has_the_time_of_the_first_and_both_are_closed_as_one(
    world: Any,
) -> None:
    world.broker.core.alert("passphrase", "Five wrong ones.")
    (first,) = world.broker.core.status()["alerts"]
    for closed in (False, True):
        await world.stop()
        world.clock.ahead_s += 100
        await world.start()
        world.broker.core.alert("passphrase", "Five wrong ones.")
        if closed:
            await close(world, "passphrase")
        await world.unlock()
        assert [a["at"] for a in world.broker.core.status()["alerts"]] == [] if closed else [first["at"]]
    assert await marks(world) == 0


async def test_a_closed_alert_stays_closed_when_the_vault_is_unlocked_at_once(world: Any) -> None:
    world.broker.core.alert("contradiction", "Record 7 is contradicted.")
    await world.broker.core.projection.flush().durable()
    world.broker.core.calm("contradiction", "Record 7 is contradicted.")
    await world.broker.operator.lock(why="test")
    await world.unlock()
    assert alerts(world) == []


async def test_an_alert_is_closed_durably_before_that_is_said(world: Any) -> None:
    world.broker.core.alert("contradiction", "Record 7 is contradicted.")
    await world.broker.core.projection.flush().durable()
    await close(world, "contradiction")
    assert world.broker.core.projection.reader.blob_ids("alert_", "alert_~") == ()


async def test_the_oldest_alerts_give_way(world: Any) -> None:
    for n in range(KEPT + 2):
        world.broker.core.alert("storage", f"Number {n}.")
    shown = world.broker.core.status()["alerts"]
    assert (len(shown), shown[0]["says"]) == (KEPT, "Number 2.")
    assert await marks(world) == KEPT


async def test_metrics_count_phase_and_outcome_apart_and_move_with_later_evidence(world: Any) -> None:
    world.script(answer(201), HANG_UP, REFUSED, REFUSED, REFUSED)
    session = world.session()
    await world.ask(session, json={"a": 1})
    lost = await world.ask(session, json={"a": 2})
    await world.ask(session, json={"a": 3}, deadline_s=20)
    place = {"target": "https://api.example.com", "contract": "default.write"}
    assert world.broker.core.status()["metrics"] == [
        {
            **place,
            "phases": {"remote_execution": 2, "connection_setup": 1},
            "outcomes": {"committed": 1, "unknown": 1, "not_attempted": 1},
        }
    ]
    await world.broker.operator.attest(
        lost["invocation_id"],
        outcome="rejected",
        note="n",
        reference=None,
        item=None,
        supersedes=None,
        passphrase=bytearray(b"a passphrase for tests"),
    )
    (counted,) = world.broker.core.status()["metrics"]
    assert world.broker.core.status()["metrics_since"] == rfc3339(world.broker.core.metrics.since)
    assert counted["outcomes"] == {"committed": 1, "rejected": 1, "not_attempted": 1}
    await world.broker.operator.lock(why="test")
    assert world.broker.core.status()["metrics"] is None


DONE = Invocation(
    invocation_id=InvocationId("act_0"),
    state=State.SETTLED,
    accepted_at=Micros(1),
    phase=Phase.REMOTE_EXECUTION,
    outcome=Outcome.COMMITTED,
    code=Code.REMOTE_RESULT,
    retry=Retry.NEVER,
    session_id="s",
    contract_id="c",
    target={"url": "https://a.example/v1?x=1"},
)


def test_metrics_are_bounded() -> None:
    metrics = Metrics(Micros(0))
    for n in range(PLACES + 10):
        metrics.changed(replace(DONE, invocation_id=InvocationId(f"act_{n}"), contract_id=f"c{n}"))
    shown = metrics.shown()
    assert len(shown) == PLACES + 1
    assert shown[-1] == {
        "target": "others",
        "contract": "others",
        "phases": {"remote_execution": 10},
        "outcomes": {"committed": 10},
    }


def test_an_invocation_counts_once() -> None:
    metrics = Metrics(Micros(0))
    metrics.changed(replace(DONE, state=State.OPEN))
    assert metrics.shown() == []
    metrics.changed(DONE)
    metrics.changed(replace(DONE, delivery="acknowledged"))
    assert metrics.shown()[0]["outcomes"] == {"committed": 1}
