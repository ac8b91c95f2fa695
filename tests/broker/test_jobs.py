"""Playbooks of jobs: acceptance is not completion, polls only delay, and a job is never launched twice (R7, F11)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.broker.recovery import HANG_UP, answer, contract, route

from affidavit.broker.api import OperatorRefused
from affidavit.broker.contract.model import Job
from affidavit.broker.events import JobReference
from affidavit.broker.jobs import found, may_follow
from affidavit.broker.limits import Limits
from affidavit.broker.signs import Answer
from affidavit.broker.target import parse_http
from affidavit.broker.terms import Outcome
from affidavit.broker.wire.scripted import Cross, Hang, Sent

JOB = """
[job]
pointer = "/id"
status_url = "/url"
state = "/state"
states = { done = "committed", failed = "rejected" }
"""
POST = {"json": {"a": 1}, "operation_id": "op-1"}
ACCEPTED = answer(202, {"id": "j1", "url": "/v1/jobs/j1"})


def state(word: str) -> Any:
    return answer(200, {"state": word})


async def accepted(world: Any, *polls: Any, sections: str = JOB, acceptance: Any = ACCEPTED) -> tuple[Any, Any]:
    """A job that was accepted; (session, the acceptance's envelope)."""
    await world.adopt(contract(sections))
    await world.credential()
    route(world, POST=[acceptance], GET=list(polls) or [state("working")])
    session = world.session()
    got = await world.ask(session, **POST)
    return session, got


async def job_of(world: Any, session: Any, got: Any) -> Any:
    operation_id = got["evidence"]["job"]["operation_id"]
    return await world._ended(
        world.broker.agent.action_get(session, invocation_id=None, operation_id=operation_id, events=False)
    )


async def test_an_acceptance_opens_a_job_of_its_own(world: Any) -> None:
    session, got = await accepted(world, state("working"), state("done"))
    assert world.facts(got) == ("remote_execution", "committed", "JOB_ACCEPTED", "never")
    job = got["evidence"]["job"]
    assert (job["id"], job["status_url"], job["state"]) == ("j1", "https://api.example.com/v1/jobs/j1", None)
    assert job["operation_id"] in got["result"]["message"]
    open_job = await job_of(world, session, got)
    assert world.facts(open_job) == ("remote_execution", "unknown", "IN_PROGRESS", "fetch_result")
    assert open_job["evidence"]["refers_to"] == got["invocation_id"]
    assert open_job["evidence"]["dispatch_record"] == got["evidence"]["dispatch_record"]
    assert open_job["evidence"]["dispatch_started"] is True
    await world.later(1)
    seen = await world.get(session, got["invocation_id"])
    assert (seen["evidence"]["job"]["state"], seen["evidence"]["job"]["checked_at"] is not None) == ("working", True)
    await world.later(1)
    done = await job_of(world, session, got)
    assert world.facts(done) == ("remote_execution", "committed", "SETTLED_BY_QUERY", "never")
    assert done["settled"]["source"] == "remote_query"
    assert done["evidence"]["job"]["state"] == "done"
    assert await world.kinds(done["invocation_id"]) == ["JOB_OPENED", "LOOKED_UP", "OUTCOME_SETTLED"]
    assert world.wire.methods == ["POST", "GET", "GET"]
    assert dict(world.wire.requests[1].headers)[b"Authorization"] == b"Bearer planted-secret-9fK2"
    poll = await world.get(session, done["evidence"]["looked_up"]["invocation_id"])
    assert poll["evidence"]["refers_to"] == done["invocation_id"]
    await world.later(600)
    assert len(world.wire.exchanges) == 3


async def test_polls_that_fail_only_delay_and_the_job_is_never_launched_again(world: Any) -> None:
    """F11."""
    session, got = await accepted(world, answer(503), HANG_UP, answer(200, b"<html>"), answer(404), state("done"))
    await world.later(40)
    done = await job_of(world, session, got)
    assert world.facts(done)[1] == "committed"
    assert world.wire.methods == ["POST", "GET", "GET", "GET", "GET", "GET"]
    again = await world.ask(session, **POST)
    assert again["invocation_id"] == got["invocation_id"]
    assert world.facts(await world.retry(session, got["invocation_id"]))[2] == "JOB_ACCEPTED"
    assert world.wire.methods.count("POST") == 1


async def test_a_job_that_failed(world: Any) -> None:
    session, got = await accepted(world, state("failed"))
    await world.later(1)
    assert world.facts(await job_of(world, session, got))[1:] == ("rejected", "SETTLED_BY_QUERY", "after_correction")
    assert world.facts(await world.get(session, got["invocation_id"]))[1] == "committed", "the acceptance stays"


@pytest.mark.parametrize("poll", [state("working"), answer(410)])
async def test_a_job_past_its_recovery_deadline_is_unknown(world: Any, poll: Any) -> None:
    session, got = await accepted(world, poll)
    await world.later(599)
    assert "pending" in await job_of(world, session, got)
    await world.later(2)
    overdue = await job_of(world, session, got)
    assert world.facts(overdue) == ("remote_execution", "unknown", "REMOTE_DEADLINE", "reconcile")
    assert [a["which"] for a in world.broker.core.status()["alerts"]] == ["recovery_deadline"]
    assert [u["invocation_id"] for u in await world.broker.operator.unknown()] == [overdue["invocation_id"]]
    polls = len(world.wire.exchanges)
    await world.later(600)
    assert len(world.wire.exchanges) == polls


async def test_a_job_is_followed_after_a_restart_from_the_record_alone(world: Any) -> None:
    _, got = await accepted(world)
    await world.later(1)
    await world.stop()
    await world.start()
    wire = route(world, GET=[state("done")])
    await world.later(30)
    assert not wire.exchanges, "the vault is locked"
    sealed = await world.get(world.session(), got["invocation_id"])
    assert world.facts(sealed)[1] == "committed"
    await world.unlock()
    await world.later(60)
    done = await job_of(world, world.session(), got)
    assert world.facts(done)[1] == "committed"
    assert wire.methods == ["GET"]


async def test_while_locked_a_jobs_time_runs_on(world: Any) -> None:
    session, got = await accepted(world)
    await world.later(1)
    await world.broker.operator.lock(why="test")
    polls = len(world.wire.exchanges)
    await world.later(700)
    assert len(world.wire.exchanges) == polls
    await world.unlock()
    assert world.facts(await job_of(world, session, got))[2] == "REMOTE_DEADLINE"


async def test_during_a_quit_no_job_is_asked_for(world: Any) -> None:
    session, got = await accepted(world)
    job = await job_of(world, session, got)
    hang = Hang()
    world.wire.scripts["POST"] = [(Cross(), Sent(), hang, *answer(201)[2:])]
    running = world.call(session, json={"a": 2}, operation_id="op-2")
    await world.approve()
    await hang.reached.wait()
    quitting = asyncio.ensure_future(world.broker.shutdown("quit"))
    await world.later(30)
    await world.look(session, job["invocation_id"])
    assert world.wire.methods == ["POST", "POST"]
    hang.release.set()
    await quitting
    assert world.facts(await running)[1] == "committed"


async def test_a_job_is_asked_for_as_soon_as_the_vault_is_open(world: Any) -> None:
    session, got = await accepted(world, state("working"), state("done"))
    await world.later(1)
    await world.broker.operator.lock(why="test")
    await world.later(100)
    await world.unlock()
    await world.settle()
    assert world.facts(await job_of(world, session, got))[1] == "committed"
    assert world.wire.methods == ["POST", "GET", "GET"]


async def test_the_targets_pause_between_polls_is_heard(world: Any) -> None:
    waits = answer(200, {"state": "working"}, retry_after="100")
    session, got = await accepted(world, waits, state("done"))
    await world.later(1)
    await world.later(98)
    assert world.wire.methods == ["POST", "GET"]
    await world.later(2)
    assert world.facts(await job_of(world, session, got))[1] == "committed"


@pytest.mark.parametrize(
    "url", ["https://else.example.net/jobs/1", "http://169.254.169.254/latest", "ftp://x/", "//y/"]
)
async def test_a_status_url_elsewhere_is_shown_and_not_followed(world: Any, url: str) -> None:
    _, got = await accepted(world, acceptance=answer(202, {"id": "j1", "url": url}))
    job = got["evidence"]["job"]
    assert (job["id"], job["operation_id"], job["state"]) == ("j1", None, None)
    assert "not followed" in got["result"]["message"]
    await world.later(600)
    assert world.wire.methods == ["POST"]


async def test_within_the_credentials_targets_it_is_followed(world: Any) -> None:
    await world.adopt(contract(JOB))
    targets = ["https://api.example.com/**", "https://jobs.example.net/v1/**"]
    await world.credential(targets=targets)
    route(world, POST=[answer(202, {"id": 1, "url": "https://jobs.example.net/v1/1"})], GET=[state("done")])
    session = world.session()
    got = await world.ask(session, **POST)
    await world.later(1)
    assert world.facts(await job_of(world, session, got))[1] == "committed"
    assert world.wire.requests[1].host == "jobs.example.net"


async def test_within_the_origin_but_not_the_credentials_targets_it_goes_without(world: Any) -> None:
    await world.adopt(contract(JOB))
    await world.credential(target="https://api.example.com/v1/things")
    route(world, POST=[answer(202, {"id": 1, "url": "/elsewhere"})], GET=[state("done")])
    session = world.session()
    got = await world.ask(session, **POST)
    await world.later(1)
    assert world.facts(await job_of(world, session, got))[1] == "committed"
    assert b"Authorization" not in dict(world.wire.requests[1].headers)


BY_HEADER = JOB.replace('pointer = "/id"\n', "").replace('"/url"', '"header:Location"')


@pytest.mark.parametrize(
    ("sections", "acceptance", "followed"),
    [
        (BY_HEADER, answer(202, {}, location="/v1/jobs/2"), True),
        (JOB, answer(201, {"id": "j", "url": "/v1/j"}), True),
        (JOB, answer(200, {"id": "j", "url": "/v1/j"}), True),
        (JOB, answer(200, {"url": "/v1/j"}), False),
    ],
)
async def test_where_the_reference_may_stand(world: Any, sections: str, acceptance: Any, followed: bool) -> None:
    _, got = await accepted(world, sections=sections, acceptance=acceptance)
    assert (got["evidence"]["job"] is not None) is followed
    assert world.facts(got)[2] == ("JOB_ACCEPTED" if followed else "REMOTE_RESULT")


async def test_a_202_without_a_reference_cannot_be_followed(world: Any) -> None:
    session = world.session()
    world.script(answer(202, {"id": "j"}))
    got = await world.ask(session, **POST)
    assert world.facts(got)[2] == "JOB_ACCEPTED"
    assert got["evidence"]["job"] is None
    assert "cannot be followed" in got["result"]["message"]


async def test_an_acceptance_without_the_id_that_the_contract_names_is_not_followed(world: Any) -> None:
    """Its status URL may be of anything: a job is followed by the reference that was promised, or not at all (R7)."""
    _, got = await accepted(world, acceptance=answer(202, {"url": "/v1/jobs/j1"}))
    assert world.facts(got) == ("remote_execution", "committed", "JOB_ACCEPTED", "never")
    assert got["evidence"]["job"] is None
    assert "cannot be followed" in got["result"]["message"]
    await world.later(60)
    assert world.wire.methods == ["POST"]


BY_ID = JOB.replace('status_url = "/url"', 'url = "/{path}/{result:/id}/state"')


async def test_a_job_whose_answer_holds_an_id_and_no_url(world: Any) -> None:
    session, got = await accepted(world, state("done"), sections=BY_ID, acceptance=answer(200, {"id": "j/1?"}))
    assert got["evidence"]["job"]["status_url"] == "https://api.example.com/v1/things/j%2F1%3F/state"
    await world.later(1)
    assert world.facts(await job_of(world, session, got))[1] == "committed"
    assert world.wire.requests[1].target == b"/v1/things/j%2F1%3F/state"


async def test_an_id_that_would_climb_is_shown_and_not_followed(world: Any) -> None:
    _, got = await accepted(world, sections=BY_ID, acceptance=answer(202, {"id": ".."}))
    job = got["evidence"]["job"]
    assert (job["id"], job["status_url"], job["operation_id"]) == ("..", None, None)
    await world.later(60)
    assert world.wire.methods == ["POST"]


async def test_reconcile_polls_at_once_and_wait_waits(world: Any) -> None:
    session, got = await accepted(world, state("done"))
    job = await job_of(world, session, got)
    waiting = asyncio.ensure_future(
        world.broker.agent.action_wait(session, invocation_id=job["invocation_id"], wait_s=60)
    )
    await world.settle()
    assert not waiting.done()
    settled = await world.look(session, job["invocation_id"])
    assert world.facts(settled)[1] == "committed"
    assert world.facts(await waiting)[1] == "committed"


async def test_a_caller_that_cancels_leaves_the_job_to_be_followed(world: Any) -> None:
    session, got = await accepted(world, state("working"), state("done"))
    job = await job_of(world, session, got)
    left = await world._ended(
        world.broker.agent.action_cancel(session, invocation_id=job["invocation_id"], signal=None)
    )
    assert world.facts(left) == ("remote_execution", "unknown", "CALLER_CANCELLED", "reconcile")
    await world.later(3)
    assert world.facts(await job_of(world, session, got))[1] == "committed"


async def test_a_caller_that_cancels_in_the_last_wait_leaves_a_job_that_ends_as_it_is(world: Any) -> None:
    session, got = await accepted(world)
    job = await job_of(world, session, got)
    await world.later(585)
    await world._ended(world.broker.agent.action_cancel(session, invocation_id=job["invocation_id"], signal=None))
    await world.later(120)
    assert world.facts(await job_of(world, session, got)) == (
        "remote_execution",
        "unknown",
        "CALLER_CANCELLED",
        "reconcile",
    )
    alerts = world.broker.core.status()["alerts"]
    assert [(a["which"], a["invocation_id"]) for a in alerts] == [("recovery_deadline", job["invocation_id"])]


@pytest.mark.parametrize(
    ("attested", "facts", "disputed"),
    [
        ("rejected", ("committed", "SETTLED_BY_QUERY", "never"), True),
        ("committed", ("committed", "SETTLED_BY_OPERATOR", "never"), False),
    ],
)
async def test_a_poll_corrects_what_was_attested_of_a_job(
    world: Any, attested: str, facts: tuple[str, str, str], disputed: bool
) -> None:
    session, got = await accepted(world)
    job = await job_of(world, session, got)
    await world.later(1)

    async def attest(supersedes: int | None) -> None:
        await world.broker.operator.attest(
            job["invocation_id"],
            outcome=attested,
            note="looked at the list of jobs",
            reference=None,
            item=None,
            supersedes=supersedes,
            passphrase=bytearray(b"a passphrase for tests"),
        )

    with pytest.raises(OperatorRefused, match="no attestation"):
        await attest(1)
    await attest(None)
    world.wire.scripts["GET"] = [state("done")]
    await world.later(5)
    now = await job_of(world, session, got)
    assert world.facts(now)[1:] == facts
    assert ("disputed" in now["evidence"]) is disputed
    assert [a["which"] for a in world.broker.core.status()["alerts"]] == ["contradiction"] * disputed


async def test_a_late_acceptance_opens_its_job(world: Any) -> None:
    await world.adopt(contract(JOB))
    hang = Hang()
    route(world, POST=[(Cross(), Sent(), hang, *ACCEPTED[2:])], GET=[state("done")])
    session = world.session()
    got = await world.ask(session, **POST, deadline_s=0.1)
    assert world.facts(got)[2] == "REMOTE_DEADLINE"
    hang.release.set()
    await world.settle()
    late = await world.get(session, got["invocation_id"])
    assert world.facts(late)[1:3] == ("committed", "JOB_ACCEPTED")
    await world.later(1)
    assert world.facts(await job_of(world, session, late))[1] == "committed"


TERMS = Job("/id", None, None, "/state", {"done": Outcome.COMMITTED, "2": Outcome.REJECTED})


@pytest.mark.parametrize(
    ("given", "worth", "outcome"),
    [
        (None, "failed", None),
        (Answer(500, {}, b'{"state":"done"}'), "failed", None),
        (Answer(303, {}, b'{"state":"done"}'), "failed", None),
        (Answer(200, {}, None), "failed", None),
        (Answer(200, {}, b'{"state":{}}'), "failed", None),
        (Answer(200, {}, b'{"state":"running"}'), "pending", None),
        (Answer(200, {}, b'{"state":"done"}'), "settles", "committed"),
        (Answer(200, {}, b'{"state":2}'), "settles", "rejected"),
    ],
)
def test_what_a_poll_proves(given: Answer | None, worth: str, outcome: str | None) -> None:
    finding = found(TERMS, given)
    assert (str(finding.worth), str(finding.outcome) if finding.outcome else None) == (worth, outcome)


@pytest.mark.parametrize(
    ("url", "follows"),
    [
        ("https://api.example.com/x", True),
        ("https://api.example.com:8443/x", False),
        ("http://api.example.com/x", False),
        ("https://api.example.com.evil.net/x", False),
        ("https://user@api.example.com/x", False),
        (None, False),
    ],
)
def test_where_a_status_url_may_lead(url: str | None, follows: bool) -> None:
    asked = parse_http("https://api.example.com/v1/things", Limits())
    assert may_follow(JobReference("j", url), asked, None) is follows
