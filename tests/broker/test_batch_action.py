"""Playbooks of batches: an outcome for each item, attested one by one, repeated only where that is allowed (R28)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from tests.broker.recovery import HANG_UP, KEY, answer, contract

from affidavit.broker.api import OperatorRefused

BATCH = """
[batch]
by = "key"
items = "/items"
results = "/results"
key = "/id"
outcome = { pointer = "/status", committed = ["created"], rejected = ["invalid"] }
"""
IDEMPOTENT = 'kind = "write"\nidempotent = true'
THREE = {"json": {"items": [{"id": "a"}, {"id": "b"}, {"id": "c"}], "note": 1}, "operation_id": "op-1"}


def results(**statuses: str) -> Any:
    return answer(200, {"results": [{"id": key, "status": status} for key, status in statuses.items()]})


def items(envelope: Any) -> dict[str, str]:
    return {item["key"]: item["outcome"] for item in envelope["evidence"]["items"]}


async def sent(world: Any, script: Any, *sections: str, effect: str = 'kind = "write"', **more: Any) -> tuple[Any, Any]:
    await world.adopt(contract(BATCH, *sections, effect=effect))
    session = world.session()
    world.script(script)
    return session, await world.ask(session, **{**THREE, **more})


async def attest(world: Any, got: Any, item: str | None, outcome: str = "committed", supersedes: Any = None) -> Any:
    return await world.broker.operator.attest(
        got["invocation_id"],
        outcome=outcome,
        note="looked",
        reference=None,
        item=item,
        supersedes=supersedes,
        passphrase=bytearray(b"a passphrase for tests"),
    )


async def test_a_whole_batch(world: Any) -> None:
    _, got = await sent(world, results(a="created", b="created", c="invalid"))
    assert world.facts(got) == ("remote_execution", "committed", "REMOTE_RESULT", "never")
    assert items(got) == {"a": "committed", "b": "committed", "c": "rejected"}
    assert got["evidence"]["items"][0]["evidence"] == '/status is "created"'
    assert await world.broker.operator.unknown() == []


async def test_with_any_item_unknown_the_advice_is_to_look_and_it_stands_in_the_unknown_window(world: Any) -> None:
    _, got = await sent(world, results(a="created"))
    assert world.facts(got) == ("remote_execution", "committed", "REMOTE_RESULT", "reconcile")
    assert items(got) == {"a": "committed", "b": "unknown", "c": "unknown"}
    (listed,) = await world.broker.operator.unknown()
    assert items(listed) == items(got)
    await world.restart()
    (listed,) = await world.broker.operator.unknown()
    assert listed["invocation_id"] == got["invocation_id"]
    await world.broker.operator.lock(why="test")
    (sealed,) = await world.broker.operator.unknown()
    assert sealed["invocation_id"] == got["invocation_id"]
    foreign = await world.get(world.session("s-9", program="/usr/bin/other"), got["invocation_id"])
    assert foreign["evidence"]["items"] is None
    assert world.facts(foreign)[1] == "committed"


async def test_a_cut_answer_makes_batch_and_items_unknown(world: Any) -> None:
    _, got = await sent(world, HANG_UP)
    assert world.facts(got)[1:] == ("unknown", "REMOTE_OUTCOME_UNKNOWN", "reconcile")
    assert items(got) == {"a": "unknown", "b": "unknown", "c": "unknown"}


async def test_a_refused_batch_refused_each_item(world: Any) -> None:
    _, got = await sent(world, answer(422, {}))
    assert world.facts(got)[1] == "rejected"
    assert set(items(got).values()) == {"rejected"}


async def test_items_are_attested_one_by_one(world: Any) -> None:
    _, got = await sent(world, results(a="created"))
    with pytest.raises(OperatorRefused, match="no attestation") as refused:
        await attest(world, got, "b", "committed", got["evidence"]["result_record"])
    assert (refused.value.field, refused.value.remedy) == ("supersedes", "Leave --supersedes out.")
    first = await attest(world, got, "b")
    assert items(first) == {"a": "committed", "b": "committed", "c": "unknown"}
    assert world.facts(first)[3] == "reconcile"
    with pytest.raises(OperatorRefused, match=f"record {first['record']}"):
        await attest(world, got, "b", "rejected")
    corrected = await attest(world, got, "b", "rejected", first["record"])
    assert items(corrected)["b"] == "rejected"
    with pytest.raises(OperatorRefused, match="answer says committed"):
        await attest(world, got, "a", "rejected")
    with pytest.raises(OperatorRefused, match="no such item"):
        await attest(world, got, "z")
    last = await attest(world, got, "c", "rejected")
    assert world.facts(last) == ("remote_execution", "committed", "REMOTE_RESULT", "never")
    assert await world.broker.operator.unknown() == []
    await world.restart()
    assert items(await world.get(world.session(), got["invocation_id"])) == items(last)


async def retried(world: Any, session: Any, got: Any, *scripts: Any, **more: Any) -> Any:
    world.script(*scripts)
    call = world.retry(session, got["invocation_id"], **more)
    while not call.done():
        if world.broker.operator.cards():
            await world.approve()
        await asyncio.sleep(0)
    return call.result()


async def test_a_repeat_holds_only_what_is_unknown(world: Any) -> None:
    session, got = await sent(world, HANG_UP, effect=IDEMPOTENT)
    await attest(world, got, "a")
    await attest(world, got, "b", "rejected")
    second = await retried(world, session, got, results(c="created"))
    assert json.loads(world.wire.requests[0].body) == {"items": [{"id": "c"}], "note": 1}
    assert items(second) == {"c": "committed"}
    assert second["evidence"]["fingerprint"] != got["evidence"]["fingerprint"]
    assert second["evidence"]["idempotency"]["fingerprint"] == got["evidence"]["idempotency"]["fingerprint"]


async def test_a_repeat_of_what_was_left_is_told_apart_from_the_whole(world: Any) -> None:
    session, got = await sent(world, HANG_UP, effect=IDEMPOTENT)
    await attest(world, got, "a")
    second = await retried(world, session, got, HANG_UP)
    assert items(second) == {"b": "unknown", "c": "unknown"}
    await attest(world, second, "b")
    world.broker.core.spool.drop(second["invocation_id"])
    given = {"method": "POST", "url": "https://api.example.com/v1/things", **THREE}
    third = await retried(world, session, second, results(c="created"), request=given)
    assert json.loads(world.wire.requests[0].body) == {"items": [{"id": "c"}], "note": 1}
    assert items(third) == {"c": "committed"}


async def test_under_a_key_the_whole_batch_goes_out_again(world: Any) -> None:
    session, got = await sent(world, HANG_UP, KEY)
    await attest(world, got, "a")
    first = world.wire.requests[0]
    second = await retried(world, session, got, results(a="created", b="created", c="created"))
    assert (world.wire.requests[0].body, world.wire.requests[0].headers) == (first.body, first.headers)
    assert set(items(second).values()) == {"committed"}


async def test_an_atomic_batch_is_repeated_as_a_whole_or_not_at_all(world: Any) -> None:
    atomic = BATCH + "atomic = true\n"
    await world.adopt(contract(atomic, effect=IDEMPOTENT))
    session = world.session()
    world.script(HANG_UP)
    got = await world.ask(session, **THREE)
    await attest(world, got, "a")
    body = world.wire.requests[0].body
    await retried(world, session, got, results(a="created", b="created", c="created"))
    assert world.wire.requests[0].body == body


async def test_unsafe_repeats_what_is_unknown_with_a_tick(world: Any) -> None:
    session, got = await sent(world, HANG_UP)
    await attest(world, got, "a")
    refused = await retried(world, session, got)
    assert world.facts(refused)[2] == "RETRY_REFUSED"
    second = await retried(world, session, got, results(b="created", c="created"), unsafe=True)
    assert json.loads(world.wire.requests[0].body)["items"] == [{"id": "b"}, {"id": "c"}]
    assert items(second) == {"b": "committed", "c": "committed"}


async def test_a_batch_answered_in_two_lists(world: Any) -> None:
    """What stands in neither list is unknown; the answer is there, so nothing is sent again, and a person attests."""
    two = BATCH.partition("results =")[0] + 'key = "/id"\nsuccesses = "/done"\nfailures = "/failed"\n'
    await world.adopt(contract(two))
    session = world.session()
    world.script(answer(200, {"done": [{"id": "c"}], "failed": [{"id": "a"}]}))
    got = await world.ask(session, **THREE)
    assert world.facts(got)[1:] == ("committed", "REMOTE_RESULT", "reconcile")
    assert items(got) == {"a": "rejected", "b": "unknown", "c": "committed"}
    assert await retried(world, session, got) == got
    assert world.wire.requests == []
    assert world.facts(await attest(world, got, "b"))[3] == "never"


async def test_items_that_cannot_be_told_apart_are_not_sent(world: Any) -> None:
    await world.adopt(contract(BATCH))
    got = await world.ask(world.session(), json={"items": [{"id": "a"}, {"id": "a"}]})
    assert world.facts(got) == ("validation", "not_attempted", "INVALID_REQUEST", "after_correction")
    assert got["error"]["field"] == "body"


async def test_what_settles_the_batch_settles_its_items(world: Any) -> None:
    _, got = await sent(world, HANG_UP)
    settled = await attest(world, got, None, "rejected")
    assert set(items(settled).values()) == {"rejected"}
