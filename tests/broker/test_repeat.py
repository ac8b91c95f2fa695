"""Playbooks of `action.retry`: what it sends, what it refuses, under which lease and whose decision."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.broker.recovery import HANG_UP, KEY, LOOKUP, REFUSED, answer, contract

from affidavit.broker.api import BadParam, OperatorRefused
from affidavit.broker.card import Decision, NoticeKind
from affidavit.broker.wire.scripted import Cross, Hang, Sent

POST = {"json": {"a": 1}, "operation_id": "op-1"}
NEVER = "[approval]\nmode = 'never'\n"
REFUSED_429 = "[verdict]\nrefused = [429]\n"
IDEMPOTENT = 'kind = "write"\nidempotent = true'


async def lost(world: Any, *sections: str, effect: str = 'kind = "write"', **more: Any) -> tuple[Any, Any]:
    """A write whose answer was lost; (session, its envelope)."""
    await world.adopt(contract(*sections, effect=effect))
    session = world.session()
    world.script(HANG_UP)
    got = await world.ask(session, **{**POST, **more})
    assert world.facts(got)[1] == "unknown"
    return session, got


async def retried(world: Any, session: Any, got: Any, *scripts: Any, **more: Any) -> Any:
    """A retry that a person approves if a card comes."""
    if scripts:
        world.script(*scripts)
    call = world.retry(session, got["invocation_id"], **more)
    while not call.done():
        if world.broker.operator.cards():
            await world.approve()
        await asyncio.sleep(0)
    return call.result()


async def test_a_repeat_is_an_invocation_of_its_own_with_the_same_key_and_bytes(world: Any) -> None:
    session, first = await lost(world, KEY)
    sent = world.wire.requests[0]
    assert world.facts(first)[3] == "same_idempotency_key"
    second = await retried(world, session, first, answer(201, {"id": 7}))
    assert world.facts(second) == ("remote_execution", "committed", "REMOTE_RESULT", "never")
    assert second["invocation_id"] != first["invocation_id"]
    assert second["operation_id"] == "op-1"
    evidence = second["evidence"]
    assert (evidence["attempt"], evidence["retry_of"], evidence["attempts_left"]) == (2, first["invocation_id"], 1)
    assert evidence["fingerprint"] == first["evidence"]["fingerprint"]
    assert world.wire.requests[0].headers == sent.headers
    assert world.wire.requests[0].body == sent.body
    assert (await world.kinds(first["invocation_id"]))[-1] == "LEASE_TAKEN"
    assert evidence["deadlines"]["recovery"] == first["evidence"]["deadlines"]["recovery"]
    window = first["evidence"]["idempotency"]["window_open_until"]
    assert evidence["idempotency"]["window_open_until"] == window, "never later for a repeat"
    assert evidence["operation"] == {
        "outcome": "committed",
        "by": second["invocation_id"],
        "invocations": [first["invocation_id"], second["invocation_id"]],
    }
    assert world.facts(await world.get(session, first["invocation_id"]))[1] == "unknown", "another one's says nothing"


async def test_the_same_key_after_a_restart(world: Any) -> None:
    """F07: retries replaced the caller's key."""
    session, first = await lost(world, KEY, idempotency_key="mine-1")
    key = dict(world.wire.requests[0].headers)[b"Idempotency-Key"]
    await world.restart()
    session = world.session()
    second = await retried(world, session, first, HANG_UP)
    assert dict(world.wire.requests[0].headers)[b"Idempotency-Key"] == key == b"mine-1"
    assert second["evidence"]["attempt"] == 2
    await world.restart()
    third = await retried(world, world.session(), first, answer(201))
    assert dict(world.wire.requests[0].headers)[b"Idempotency-Key"] == key
    assert (third["evidence"]["attempt"], third["evidence"]["attempts_left"]) == (3, 0)


async def test_a_known_idempotent_write_is_repeated_without_a_key(world: Any) -> None:
    session, first = await lost(world, effect=IDEMPOTENT)
    assert world.facts(first)[3] == "backoff"
    second = await retried(world, session, first, answer(200))
    assert world.facts(second)[1] == "committed"
    assert second["evidence"]["operation"]["outcome"] == "committed"


async def test_a_caller_that_ends_while_its_repeat_is_read_back_sends_nothing(world: Any) -> None:
    session, first = await lost(world, KEY)
    call = world.retry(session, first["invocation_id"])
    await asyncio.sleep(0)
    assert not world.broker.core.lives, "a thread reads it back"
    world.broker.agent.session_ended(session.session_id)
    assert world.facts(await call)[1:3] == ("not_attempted", "CALLER_CANCELLED")
    assert len(world.wire.exchanges) == 1


async def test_what_may_not_be_repeated_is_refused_with_the_records_own_facts(world: Any) -> None:
    session, first = await lost(world)
    refused = await retried(world, session, first)
    assert world.facts(refused) == ("remote_execution", "unknown", "RETRY_REFUSED", "reconcile")
    assert refused["invocation_id"] == first["invocation_id"]
    assert refused["evidence"]["dispatch_record"] == first["evidence"]["dispatch_record"]
    assert len(world.wire.exchanges) == 1
    assert (await world.kinds(first["invocation_id"]))[-1] == "OUTCOME_UNKNOWN", "it accepts no invocation"


@pytest.mark.parametrize("script", [answer(200), answer(422), answer(304), answer(500)])
async def test_a_recorded_result_is_answered_as_it_is(world: Any, script: Any) -> None:
    session = world.session()
    world.script(script)
    got = await world.ask(session, **POST)
    again = await retried(world, session, got)
    assert world.facts(again) == world.facts(got)
    assert again["invocation_id"] == got["invocation_id"]
    assert len(world.wire.exchanges) == 1


async def test_a_denied_action_stops_for_correction_and_what_never_left_is_tried_anew(world: Any) -> None:
    session = world.session()
    call = world.call(session, **POST)
    await world.deny()
    denied = await call
    refused = await retried(world, session, denied)
    assert world.facts(refused) == ("credential_injection", "not_attempted", "RETRY_REFUSED", "never")
    world.script(REFUSED, REFUSED, REFUSED)
    other = await world.ask(session, json={"b": 1}, operation_id="op-2", deadline_s=20)
    assert world.facts(other)[2] == "CONNECT_FAILED"
    second = await retried(world, session, other, answer(201))
    assert world.facts(second)[1] == "committed"
    assert (second["evidence"]["attempt"], second["evidence"]["retry_of"]) == (1, other["invocation_id"])


async def test_whichever_was_named_the_newest_dispatched_counts(world: Any) -> None:
    session, first = await lost(world, KEY)
    second = await retried(world, session, first, answer(201))
    again = await retried(world, session, first)
    assert again["invocation_id"] == second["invocation_id"]
    assert world.facts(again) == ("remote_execution", "committed", "REMOTE_RESULT", "never")


async def test_the_budget_is_spent_and_no_restart_gives_it_back(world: Any) -> None:
    session, first = await lost(world, KEY, "[retry]\nattempts = 2\n")
    second = await retried(world, session, first, HANG_UP)
    assert second["evidence"]["attempts_left"] == 0
    assert second["evidence"]["retry_allowed"] is False
    await world.restart()
    session = world.session()
    spent = await retried(world, session, first)
    assert world.facts(spent) == ("remote_execution", "unknown", "RETRY_BUDGET_EXHAUSTED", "reconcile")
    assert world.facts(await retried(world, session, first, unsafe=True))[2] == "RETRY_BUDGET_EXHAUSTED"
    await world.adopt(contract(KEY, "[retry]\nattempts = 9\n"))
    assert world.facts(await retried(world, session, first))[2] == "RETRY_BUDGET_EXHAUSTED", "it was bound with two"
    assert len(world.wire.exchanges) == 1


async def test_a_budget_is_what_the_first_dispatch_was_bound_to(world: Any) -> None:
    session, first = await lost(world, KEY)
    await world.adopt(contract(KEY, "[retry]\nattempts = 9\n"))
    second = await retried(world, session, first, HANG_UP)
    assert second["evidence"]["attempts_left"] == 1


async def test_past_its_window_a_key_is_looked_up_never_repeated(world: Any) -> None:
    """F08: after 24 h the protection was silently gone."""
    session, first = await lost(world, KEY.replace("24h", "10m"), "[deadlines]\nrecovery = '30d'\n")
    assert first["evidence"]["retry_allowed"] is True
    world.clock.ahead_s += 541
    now = await world.get(session, first["invocation_id"])
    assert world.facts(now)[3] == "reconcile"
    assert now["evidence"]["retry_allowed"] is False
    refused = await retried(world, session, first)
    assert world.facts(refused)[2:] == ("RETRY_REFUSED", "reconcile")
    assert len(world.wire.exchanges) == 1


@pytest.mark.parametrize("restarts", [False, True])
async def test_a_wall_clock_that_was_set_back_opens_no_window_again(world: Any, restarts: bool) -> None:
    session, first = await lost(world, KEY.replace("24h", "10m"), "[deadlines]\nrecovery = '30d'\n")
    world.clock.ahead_s += 600
    world.clock.wall_set_s = -3600
    if restarts:
        await world.restart()
        session = world.session()
    refused = await retried(world, session, first)
    assert world.facts(refused)[2:] == ("RETRY_REFUSED", "reconcile")


async def test_a_list_gives_the_advice_that_the_envelope_gives_whatever_the_wall_clock_says(world: Any) -> None:
    session, first = await lost(world, KEY.replace("24h", "10m"), "[deadlines]\nrecovery = '30d'\n")
    world.clock.ahead_s += 600
    world.clock.wall_set_s = -3600
    listed = await world.broker.agent.action_list(session, scope="all", outcome=None, state=None, limit=9, before=None)
    assert world.facts(await world.get(session, first["invocation_id"]))[3] == "reconcile"
    assert [row["retry"] for row in listed["rows"]] == ["reconcile"]


async def test_past_the_recovery_deadline_only_unsafe_goes_on(world: Any) -> None:
    session, first = await lost(world, effect=IDEMPOTENT)
    world.clock.ahead_s += 631
    refused = await retried(world, session, first)
    assert world.facts(refused) == ("remote_execution", "unknown", "RETRY_REFUSED", "backoff")
    assert refused["evidence"]["retry_allowed"] is False
    second = await retried(world, session, first, answer(200), unsafe=True)
    assert world.facts(second)[1] == "committed"


async def test_unsafe_takes_a_card_with_a_tick_whatever_would_allow_it(world: Any) -> None:
    session, first = await lost(world, NEVER)
    world.script(answer(201))
    call = world.retry(session, first["invocation_id"], unsafe=True)
    card = await world.card()
    assert card.tick == "I accept that it may happen twice"
    notice = card.notices[0]
    assert (notice.kind, notice.invocation_id, notice.record) == (
        NoticeKind.SAME_EFFECT_UNKNOWN,
        first["invocation_id"],
        first["evidence"]["dispatch_record"],
    )
    with pytest.raises(OperatorRefused):
        await world.broker.operator.decide(card.invocation_id, Decision(True))
    await world.broker.operator.decide(card.invocation_id, Decision(True, tick=True))
    second = await call
    assert world.facts(second)[1] == "committed"
    assert second["evidence"]["operation"]["outcome"] == "unknown", "no key and no promise speaks for the first"


async def test_unsafe_with_nobody_to_ask_is_unavailable(world: Any) -> None:
    from dataclasses import replace

    session, first = await lost(world)
    world.broker.core.settings = replace(world.broker.core.settings, approvals=False)
    refused = await retried(world, session, first, unsafe=True)
    assert world.facts(refused) == ("credential_injection", "not_attempted", "APPROVAL_UNAVAILABLE", "after_correction")
    assert len(world.wire.exchanges) == 1


async def test_a_repeat_takes_a_new_decision_unless_one_covers_it(world: Any) -> None:
    session, first = await lost(world, KEY)
    call = world.retry(session, first["invocation_id"])
    card = await world.card()
    assert (card.tick, card.fingerprint) == (None, first["evidence"]["fingerprint"])
    await world.deny("not now")
    denied = await call
    assert world.facts(denied)[2] == "APPROVAL_DENIED"
    assert denied["evidence"]["retry_of"] == first["invocation_id"]
    await world.adopt(contract(KEY, NEVER))
    world.script(answer(201))
    assert world.facts(await world.retry(session, first["invocation_id"]))[1] == "committed"


async def test_an_edited_contract_is_a_new_fingerprint_of_the_same_operation(world: Any) -> None:
    session, first = await lost(world, KEY)
    await world.adopt(contract(KEY.replace("24h", "48h")))
    second = await retried(world, session, first, answer(201))
    assert world.facts(second)[1] == "committed"
    assert second["evidence"]["fingerprint"] != first["evidence"]["fingerprint"]
    assert second["evidence"]["idempotency"]["fingerprint"] == first["evidence"]["idempotency"]["fingerprint"]


@pytest.mark.parametrize("now", [(), (KEY.replace("Idempotency-Key", "X-Other-Key"),)])
async def test_a_contract_that_binds_no_repeat_any_more_stops_it(world: Any, now: tuple[str, ...]) -> None:
    session, first = await lost(world, KEY)
    await world.adopt(contract(*now))
    refused = await retried(world, session, first)
    assert world.facts(refused)[1:] == ("unknown", "RETRY_REFUSED", "reconcile")
    assert len(world.wire.exchanges) == 1


async def test_a_credential_that_is_gone_refuses_the_repeat_in_validation(world: Any) -> None:
    await world.credential()
    session, first = await lost(world, KEY)
    await world.broker.operator.credential_remove("api", bytearray(b"a passphrase for tests"))
    refused = await retried(world, session, first)
    assert world.facts(refused) == ("validation", "not_attempted", "CREDENTIAL_UNKNOWN", "after_correction")
    assert refused["invocation_id"] != first["invocation_id"]


async def test_a_rotated_credential_repeats_with_its_new_version(world: Any) -> None:
    await world.credential()
    session, first = await lost(world, KEY)
    await world.broker.operator.credential_rotate("api", bytearray(b"rotated-secret-7"), bytearray(PASSPHRASE))
    second = await retried(world, session, first, answer(201))
    assert world.facts(second)[1] == "committed"
    assert dict(world.wire.requests[0].headers)[b"Authorization"] == b"Bearer rotated-secret-7"


PASSPHRASE = b"a passphrase for tests"


async def test_while_locked_the_record_says_so(world: Any) -> None:
    session, first = await lost(world, KEY)
    await world.broker.operator.lock(why="test")
    refused = await retried(world, session, first)
    assert world.facts(refused)[1:] == ("unknown", "REMOTE_OUTCOME_UNKNOWN", "same_idempotency_key")
    assert refused["evidence"]["refused"] == "VAULT_LOCKED"
    assert len(world.wire.exchanges) == 1


# -- the request


async def test_a_request_that_is_gone_is_needed_again_and_must_be_the_same(world: Any) -> None:
    session, first = await lost(world, KEY)
    world.broker.core.spool.drop(first["invocation_id"])
    refused = await retried(world, session, first)
    assert world.facts(refused)[1:] == ("unknown", "RETRY_REFUSED", "same_idempotency_key")
    assert refused["error"]["needs"] == "request"
    given = {"method": "POST", "url": "https://api.example.com/v1/things", **POST}
    other = await retried(world, session, first, request={**given, "json": {"a": 2}})
    assert world.facts(other) == ("validation", "not_attempted", "IDEMPOTENCY_MISMATCH", "after_correction")
    with pytest.raises(BadParam) as bad:
        await retried(world, session, first, request={"method": "POST", "url": "ftp://x/"})
    assert bad.value.field == "request.url"
    assert len(world.wire.exchanges) == 1
    sent = world.wire.requests[0]
    second = await retried(world, session, first, answer(201), request=given)
    assert world.facts(second)[1] == "committed"
    assert (world.wire.requests[0].headers, world.wire.requests[0].body) == (sent.headers, sent.body)


async def test_what_was_never_bound_is_asked_for_again_with_its_request(world: Any) -> None:
    session = world.session()
    calls = [world.call(session, json={"n": n}) for n in range(5)]
    await world.cards(5)
    busy = await world.call(session, **POST)
    assert world.facts(busy)[2] == "BUSY"
    for _ in range(5):
        await world.deny()
    await asyncio.gather(*calls)
    refused = await retried(world, session, busy)
    assert (world.facts(refused)[2], refused["error"]["needs"]) == ("RETRY_REFUSED", "request")
    given = {"method": "POST", "url": "https://api.example.com/v1/things", **POST, "wait_s": 5}
    again = await retried(world, session, busy, answer(201), request=given)
    assert world.facts(again)[1] == "committed"
    assert again["operation_id"] == "op-1"


async def test_an_unknown_id_is_a_wrong_param(world: Any) -> None:
    with pytest.raises(BadParam):
        await world.retry(world.session(), "act_" + "0" * 26)


# -- pauses


async def test_a_repeat_waits_as_long_as_the_target_asked(world: Any) -> None:
    session = world.session()
    await world.adopt(contract(REFUSED_429))
    world.script(answer(429, retry_after="30"))
    first = await world.ask(session, **POST)
    assert world.facts(first)[1:] == ("rejected", "REMOTE_RATE_LIMITED", "backoff")
    assert first["evidence"]["retry_after_s"] == 30.0
    world.script(answer(201))
    call = world.retry(session, first["invocation_id"])
    await world.later(29)
    assert not world.broker.operator.cards()
    await world.later(2)
    await world.approve()
    assert world.facts(await call)[1] == "committed"


async def test_a_pause_may_be_said_in_a_header_of_the_contracts(world: Any) -> None:
    await world.adopt(contract("[retry]\nafter = 'header:X-RateLimit-Reset;epoch'\n[verdict]\nrefused = [429]\n"))
    reset = str(world.clock.wall() // 1_000_000 + 45)
    world.script(answer(429, x_ratelimit_reset=reset, retry_after="1"))
    got = await world.ask(world.session(), **POST)
    assert 40 < got["evidence"]["retry_after_s"] <= 45
    world.script(answer(429, x_ratelimit_reset=reset, retry_after="90"))
    again = await world.ask(world.session("s-2"), **POST | {"operation_id": "op-2", "json": {"n": 2}})
    assert again["evidence"]["retry_after_s"] == 90.0


async def test_a_key_in_use_is_repeated_under_the_same_key_after_its_pause(world: Any) -> None:
    in_use = 'in_use = [{ status = 409, pointer = "/code", equals = "in_use" }]\n'
    session, first = await lost(world, KEY + in_use)
    second = await retried(world, session, first, answer(409, {"code": "in_use"}, retry_after="5"))
    assert world.facts(second)[1:] == ("unknown", "REMOTE_IN_PROGRESS", "same_idempotency_key")
    assert second["http"]["status"] == 409
    assert second["evidence"]["operation"]["outcome"] == "unknown"
    world.clock.ahead_s += 5
    third = await retried(world, session, second, answer(201))
    assert world.facts(third)[1] == "committed"
    assert third["evidence"]["operation"]["outcome"] == "committed"


async def test_a_refusal_of_the_repeat_speaks_of_the_repeat_only(world: Any) -> None:
    """F12: the repeat answers 403 "exists"."""
    session, first = await lost(world, KEY)
    second = await retried(world, session, first, answer(403))
    assert world.facts(second) == ("remote_execution", "rejected", "REMOTE_REJECTED", "reconcile")
    assert second["evidence"]["operation"]["outcome"] == "unknown"
    assert world.facts(await world.get(session, first["invocation_id"]))[1] == "unknown"
    refused = await retried(world, session, first)
    assert world.facts(refused)[1:] == ("rejected", "RETRY_REFUSED", "reconcile")


async def attested(world: Any, got: Any, outcome: str) -> None:
    await world.broker.operator.attest(
        got["invocation_id"],
        outcome=outcome,
        note="looked at the list",
        reference=None,
        item=None,
        supersedes=None,
        passphrase=bytearray(PASSPHRASE),
    )


async def test_a_refused_repeat_is_not_sent_again_once_the_first_turns_out_committed(world: Any) -> None:
    session, first = await lost(world, REFUSED_429, NEVER)
    second = await retried(world, session, first, answer(429), unsafe=True)
    assert world.facts(second)[1:] == ("rejected", "REMOTE_RATE_LIMITED", "reconcile")
    await attested(world, first, "committed")
    now = await world.get(session, second["invocation_id"])
    assert (world.facts(now)[3], now["evidence"]["retry_allowed"]) == ("reconcile", False)
    again = await retried(world, session, second)
    assert again["invocation_id"] == second["invocation_id"]
    assert again["evidence"]["operation"]["outcome"] == "committed"
    assert world.wire.crossed == 1, "the repeat that was refused, and none after it"


async def test_once_the_first_turns_out_rejected_a_refused_repeat_may_be_sent_again(world: Any) -> None:
    session, first = await lost(world, REFUSED_429, NEVER)
    second = await retried(world, session, first, answer(429), unsafe=True)
    await attested(world, first, "rejected")
    third = await retried(world, session, second, answer(201))
    assert world.facts(third)[1] == "committed"


@pytest.mark.parametrize(
    ("sections", "refusal"),
    [
        (("[verdict]\nrefused = [503]\n",), answer(503)),
        (('[verdict]\nbody = [{ pointer = "/errors/0", outcome = "rejected" }]\n',), answer(200, {"errors": ["used"]})),
    ],
)
async def test_whatever_refuses_a_repeat_says_nothing_of_the_first(world: Any, sections: Any, refusal: Any) -> None:
    session, first = await lost(world, *sections, NEVER)
    second = await retried(world, session, first, refusal, unsafe=True)
    assert (world.facts(second)[1], world.facts(second)[3]) == ("rejected", "reconcile")
    assert second["evidence"]["operation"]["outcome"] == "unknown"
    refused = await retried(world, session, second)
    assert world.facts(refused)[2:] == ("RETRY_REFUSED", "reconcile")
    assert world.wire.crossed == 1


# -- races (R77)


async def test_two_workers_on_one_retry(world: Any) -> None:
    """Either may come first: the request is read back in threads."""
    session, first = await lost(world, KEY)
    other = world.session("s-2", program="/usr/bin/other")
    world.script(answer(201))
    workers = {world.retry(each, first["invocation_id"]) for each in (session, other)}
    (loser,), (winner,) = await asyncio.wait(workers, return_when=asyncio.FIRST_COMPLETED)
    lost_lease = loser.result()
    assert world.facts(lost_lease)[1:] == ("unknown", "LEASE_LOST", "fetch_result")
    await world.approve()
    won = await winner
    assert lost_lease["evidence"]["refers_to"] == won["invocation_id"]
    assert world.facts(won)[1] == "committed"
    assert world.wire.crossed == 1


async def test_a_lease_is_held_until_its_repeat_ends(world: Any) -> None:
    session, first = await lost(world, KEY, NEVER)
    hang = Hang()
    world.script((Cross(), Sent(), hang, *answer(201)[2:]))
    one = world.retry(session, first["invocation_id"])
    await hang.reached.wait()
    world.clock.ahead_s += 300
    two = await world.retry(session, first["invocation_id"], wait_s=0)
    assert "pending" in two, "the newest dispatched invocation is at work itself"
    hang.release.set()
    assert world.facts(await one)[1] == "committed"
    assert world.wire.crossed == 1


@pytest.mark.parametrize("wall_set_s", [0, -3600, 3600])
async def test_an_expired_lease_whose_holder_wakes_sends_nothing(world: Any, wall_set_s: float) -> None:
    """However the wall clock was set before: an hour back ended no lease at once."""
    session, first = await lost(world, KEY, NEVER, "[deadlines]\nrecovery = '30d'\n")
    world.clock.wall_set_s = wall_set_s
    before_line = Hang()
    world.script((before_line, *answer(201)), answer(201))
    sleeper = world.retry(session, first["invocation_id"])
    await before_line.reached.wait()
    busy = await world.retry(session, first["invocation_id"])
    assert world.facts(busy)[2] == "LEASE_LOST"
    world.clock.ahead_s += 61
    other = world.session("s-2", program="/usr/bin/other")
    won = await world.retry(other, first["invocation_id"])
    assert world.facts(won)[1] == "committed"
    before_line.release.set()
    woken = await sleeper
    assert world.facts(woken) == ("connection_setup", "not_attempted", "LEASE_LOST", "fetch_result")
    assert woken["evidence"]["refers_to"] == won["invocation_id"]
    assert woken["evidence"]["dispatch_started"] is False
    assert world.wire.crossed == 1
    fetched = await retried(world, session, woken)
    assert fetched["invocation_id"] == won["invocation_id"]


async def test_a_window_that_closes_while_the_card_waits_sends_nothing(world: Any) -> None:
    session, first = await lost(world, KEY.replace("24h", "10m"), "[deadlines]\nrecovery = '30d'\n")
    world.script(answer(201))
    call = world.retry(session, first["invocation_id"])
    await world.card()
    world.clock.ahead_s += 541
    await world.approve()
    ended = await call
    assert world.facts(ended) == ("credential_injection", "not_attempted", "APPROVAL_EXPIRED", "backoff")
    assert world.wire.crossed == 0


async def test_a_refused_repeats_right_ends_with_the_window_that_it_rests_on(world: Any) -> None:
    session, first = await lost(world, KEY.replace("24h", "10m"), REFUSED_429, "[deadlines]\nrecovery = '30d'\n")
    second = await retried(world, session, first, answer(429))
    assert (world.facts(second)[3], second["evidence"]["retry_allowed"]) == ("backoff", True)
    world.clock.ahead_s += 500
    world.script(answer(201))
    call = world.retry(session, second["invocation_id"])
    await world.card()
    world.clock.ahead_s += 60
    await world.approve()
    assert world.facts(await call)[1:] == ("not_attempted", "APPROVAL_EXPIRED", "backoff")
    assert world.wire.crossed == 0


async def test_what_was_settled_while_the_card_of_its_repeat_waited_is_not_sent_again(world: Any) -> None:
    session, first = await lost(world, KEY)
    world.script(answer(201))
    call = world.retry(session, first["invocation_id"])
    await world.card()
    await attested(world, first, "committed")
    await world.approve()
    ended = await call
    assert world.facts(ended) == ("connection_setup", "not_attempted", "LEASE_LOST", "fetch_result")
    assert "settled" in ended["error"]["message"]
    assert ended["evidence"]["refers_to"] == first["invocation_id"]
    assert world.wire.crossed == 0
    again = await retried(world, session, ended)
    assert (again["invocation_id"], world.facts(again)[1]) == (first["invocation_id"], "committed")


async def test_two_sessions_with_one_operation_id_and_a_retry_between_them(world: Any) -> None:
    session, first = await lost(world, KEY)
    hang = Hang()
    world.script((Cross(), Sent(), hang, *answer(201)[2:]))
    retry = world.retry(session, first["invocation_id"])
    await world.approve()
    await hang.reached.wait()
    other = world.session("s-2", program="/usr/bin/other")
    joined = world.call(other, **POST)
    await world.settle()
    hang.release.set()
    repeated = await retry
    assert (await joined)["invocation_id"] == repeated["invocation_id"]
    assert world.wire.crossed == 1


async def test_a_repeat_that_another_broker_run_left_is_over(world: Any) -> None:
    session, first = await lost(world, KEY)
    call = world.retry(session, first["invocation_id"])
    await world.card()
    await world.restart()
    stopped = await call
    assert world.facts(stopped)[2] == "BROKER_RESTARTED"
    second = await retried(world, world.session(), first, answer(201))
    assert world.facts(second)[1] == "committed"


async def test_where_one_can_look_an_explicit_repeat_is_still_the_callers_choice(world: Any) -> None:
    session, first = await lost(world, KEY, LOOKUP)
    assert world.facts(first)[3] == "same_idempotency_key", "the advice to the caller is unchanged"
    second = await retried(world, session, first, answer(201))
    assert world.facts(second)[1] == "committed"
