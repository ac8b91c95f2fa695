"""Reads by purpose, conditional requests, receipts, and verdicts read from bodies, played through the broker."""

from __future__ import annotations

import asyncio
import base64
import gzip
from typing import Any

import pytest
from tests.broker.conftest import SECRET
from tests.broker.recovery import HANG_UP, answer, contract

from affidavit.broker.terms import Outcome
from affidavit.broker.wire.port import Fault
from affidavit.broker.wire.scripted import Body, Broken, Complete, Cross, Hang, Head, Sent

READ = """
id = "test.read"
[match]
kind = "http"
method = ["GET"]
url = "https://api.example.com/v1/things"
[effect]
kind = "read"
"""


async def test_a_read_says_which_version_it_saw(world: Any) -> None:
    await world.adopt(READ + '[read]\npurpose = "decides_write"\nconsistency = "header:ETag"\n')
    world.script(answer(200, {}, etag='"v7"'))
    got = await world.ask(world.session(), method="GET")
    assert got["evidence"]["consistency"] == {"by": "header:ETag", "version": '"v7"'}


async def test_a_read_that_decides_a_write_without_a_rule_says_none(world: Any) -> None:
    world.script(answer(200), answer(200))
    session = world.session()
    got = await world.ask(session, method="GET", read_for="decides_write")
    assert got["evidence"]["consistency"] == "none"
    got = await world.ask(session, method="GET", read_for="refresh")
    assert "consistency" not in got["evidence"]


async def test_a_version_in_the_body_is_read_there_also_where_the_body_is_large(world: Any) -> None:
    await world.adopt(READ + '[read]\nconsistency = "/version"\n')
    world.script(answer(200, {"version": 3, "pad": "x" * 400_000}))
    got = await world.ask(world.session(), method="GET")
    assert got["http"]["body"]["inline"] is False
    assert got["evidence"]["consistency"] == {"by": "/version", "version": 3}


CONDITIONAL = contract(effect='kind = "write"\nidempotent = "if-match"')


async def test_a_condition_makes_a_write_idempotent_only_where_it_is_given(world: Any) -> None:
    await world.adopt(CONDITIONAL)
    world.script(HANG_UP, HANG_UP)
    session = world.session()
    given = await world.ask(session, json={"a": 1}, headers={"If-Match": '"v1"'})
    assert given["evidence"]["contract"]["idempotent"] == "if-match"
    assert world.facts(given)[3] == "backoff"
    without = await world.ask(session, json={"a": 2})
    assert without["evidence"]["contract"]["idempotent"] is False
    assert world.facts(without)[3] == "reconcile"


SLACK = contract('[verdict]\nbody = [{ pointer = "/ok", equals = false, outcome = "rejected" }]\n')


async def test_a_verdict_in_the_body_is_the_actions(world: Any) -> None:
    await world.adopt(SLACK)
    world.script(answer(200, {"ok": False, "error": "no_such_channel"}), answer(200, {"ok": True}))
    session = world.session()
    got = await world.ask(session, json={"a": 1})
    assert world.facts(got) == ("remote_execution", "rejected", "REMOTE_REJECTED", "after_correction")
    assert got["http"]["status"] == 200
    assert world.facts(await world.ask(session, json={"a": 2}))[1] == "committed"


async def test_where_the_verdict_is_in_the_body_an_undecodable_one_is_unknown(world: Any) -> None:
    await world.adopt(SLACK)
    cut = gzip.compress(b'{"ok":true}')[:-4]
    world.script((Cross(), Sent(), Head(200, (("content-encoding", "gzip"),)), Body(cut), Complete()))
    got = await world.ask(world.session(), json={"a": 1})
    assert world.facts(got) == ("remote_execution", "unknown", "REMOTE_OUTCOME_UNKNOWN", "reconcile")
    assert got["http"]["body"]["undecodable"] == "cut"
    assert "could not be read" in got["error"]["message"]


async def test_without_such_a_contract_an_undecodable_body_is_a_result(world: Any) -> None:
    cut = gzip.compress(b'{"ok":true}')[:-4]
    world.script((Cross(), Sent(), Head(200, (("content-encoding", "gzip"),)), Body(cut), Complete()))
    assert world.facts(await world.ask(world.session(), json={"a": 1}))[1] == "committed"


async def test_a_coded_body_is_judged_as_it_decodes(world: Any) -> None:
    await world.adopt(SLACK)
    coded = gzip.compress(b'{"ok":false}')
    world.script((Cross(), Sent(), Head(200, (("content-encoding", "gzip"),)), Body(coded), Complete()))
    assert world.facts(await world.ask(world.session(), json={"a": 1}))[1] == "rejected"


RECEIPT = contract(effect='kind = "write"\ncompletion = "header:X-Receipt"')
RECEIPTED = (Cross(), Sent(), Head(200, (("x-receipt", "r-9"),)), Body(b'{"id":'))


async def test_a_receipt_settles_it_and_the_cut_body_is_no_result(world: Any) -> None:
    await world.adopt(RECEIPT)
    cut = Broken(Fault.CLOSED, "closed by peer in the body", (("diagnostic", b'{"id":'),))
    world.script((*RECEIPTED, cut))
    session = world.session()
    got = await world.ask(session, json={"a": 1}, operation_id="op-1")
    assert world.facts(got) == ("remote_execution", "committed", "REMOTE_RESULT_INCOMPLETE", "never")
    body = got["http"]["body"]
    assert (body["complete"], body["inline"], body["bytes"], body["sha256"]) == (False, False, 6, None)
    assert "text" not in body
    assert "base64" not in body
    assert got["evidence"]["response_complete"] is False
    assert got["evidence"]["completion"] == "receipt"
    assert got["evidence"]["diagnostic"]["base64"] == "eyJpZCI6"
    assert "receipt" in got["result"]["message"]
    again = await world.ask(session, json={"a": 1}, operation_id="op-1")
    assert again["invocation_id"] == got["invocation_id"]


async def test_a_receipt_counts_at_the_deadline(world: Any) -> None:
    await world.adopt(RECEIPT)
    world.script((*RECEIPTED, Hang()))
    got = await world.ask(world.session(), json={"a": 1}, deadline_s=0.1)
    assert world.facts(got)[1:] == ("committed", "REMOTE_RESULT_INCOMPLETE", "never")


async def test_a_late_cut_answer_tells_no_secret_either(world: Any) -> None:
    """The verdict came before: what the action used must still be looked for (R31)."""
    await world.credential()
    await world.adopt(RECEIPT)
    told = b"HTTP/1.1 200 OK\r\nX-Receipt: r-9\r\n\r\nBearer " + SECRET + b", once more " + SECRET[:-1]
    hang, cut = Hang(), Broken(Fault.CLOSED, "closed by peer in the body", (("diagnostic", told),))
    world.script((Cross(), Sent(), hang, *RECEIPTED[2:], cut))
    session = world.session()
    asked = asyncio.ensure_future(world.ask(session, json={"a": 1}, credential="api"))
    await hang.reached.wait()
    (invocation_id,) = world.broker.core.lives
    await world._ended(world.broker.agent.action_cancel(session, invocation_id=invocation_id, signal=None))
    assert world.facts(await asked)[1] == "unknown"
    hang.release.set()
    projection = world.broker.core.projection
    async with asyncio.timeout(20):
        await world.until(lambda: projection.get(invocation_id).outcome is Outcome.COMMITTED)
    shown = await world.broker.operator.action_get(invocation_id)
    told = base64.b64decode(shown["evidence"]["diagnostic"]["base64"])
    assert told == b"HTTP/1.1 200 OK\r\nX-Receipt: r-9\r\n\r\n[redacted], once more "


async def test_a_whole_body_behind_a_receipt_is_a_result(world: Any) -> None:
    await world.adopt(RECEIPT)
    world.script((*RECEIPTED, Body(b"1}"), Complete()))
    got = await world.ask(world.session(), json={"a": 1})
    assert world.facts(got)[2] == "REMOTE_RESULT"
    assert got["http"]["body"]["text"] == '{"id":1}'


@pytest.mark.parametrize("script", [answer(409, {"reason": "AlreadyExists"}), answer(200, {})])
async def test_applied_before_is_a_commit(world: Any, script: Any) -> None:
    sign = '[verdict]\napplied = [{ status = 409, pointer = "/reason", equals = "AlreadyExists" }]\n'
    await world.adopt(contract(sign))
    world.script(script)
    got = await world.ask(world.session(), json={"a": 1})
    assert world.facts(got) == ("remote_execution", "committed", "REMOTE_RESULT", "never")
