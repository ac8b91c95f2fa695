"""Playbooks of redirects: not followed but for a contract; then a dispatch of its own, decided anew (R20).

What the operation came to is read from its records at each turn: a hop that is lost, refused, stopped, or never begun.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from tests.broker.conftest import PASSPHRASE, SECRET
from tests.broker.recovery import AUTOMATIC, HANG_UP, KEY, LOOKUP, REFUSED, answer, contract, rows
from tests.broker.test_advice import record
from tests.broker.test_batch_action import BATCH

from affidavit.broker.advice import Operation, code_now, retry_now
from affidavit.broker.card import NoticeKind
from affidavit.broker.http_work import HttpWork
from affidavit.broker.sink import Kept
from affidavit.broker.terms import Code, Effect, InvocationId, Micros, Outcome, Retry
from affidavit.broker.wire.port import Fault, HttpEvidence
from affidavit.broker.wire.scripted import Broken, Cross, Hang, Head, Sent

FOLLOW = "[redirect]\nfollow = 2\n"
NEVER = '[approval]\nmode = "never"\n'
MANY = 'url = "https://api.example.com/**"'
READ = """
id = "test.read"
[match]
kind = "http"
method = ["GET"]
url = "https://api.example.com/v1/**"
[effect]
kind = "read"
[redirect]
follow = 2
[approval]
mode = "never"
"""
OPEN_READ = READ.replace("test.read", "test.files").replace("api.example.com/v1", "files.example.net")
GET = {"method": "GET", "url": "https://api.example.com/v1/things", "operation_id": "op-1"}
POST = {"json": {"a": 1}, "operation_id": "op-1"}
GIVEN = ("method", "url", "json", "headers", "operation_id")


def write(*sections: str) -> str:
    """A contract of writes to any place of the API."""
    return contract(FOLLOW, NEVER, *sections).replace('url = "https://api.example.com/v1/things"', MANY, 1)


def to(location: str, status: int = 302) -> Any:
    return answer(status, Location=location)


async def begun(world: Any, *contracts: str, **credential: Any) -> Any:
    for n, text in enumerate(contracts):
        await world.adopt(text, f"{n}.toml")
    await world.credential(**credential)
    return world.session()


def sent(world: Any) -> list[tuple[str, str, str, bool]]:
    """Method, host, path and whether a credential went along, of each dispatch."""
    found = []
    for exchange, request in zip(world.wire.exchanges, world.wire.requests, strict=True):
        if exchange.evidence.crossed:
            names = {name.lower() for name, _ in request.headers}
            found.append((request.method, request.host, bytes(request.target).decode(), b"authorization" in names))
    return found


def operation(got: Mapping[str, Any]) -> tuple[str, str | None]:
    said = got["evidence"]["operation"]
    return said["outcome"], said["by"]


# -- whether one is followed


async def test_without_a_contract_a_redirect_is_the_result(world: Any) -> None:
    session = await begun(world)
    world.script(to("/v1/elsewhere"))
    got = await world.ask(session, **GET)
    assert world.facts(got) == ("remote_execution", "committed", "REDIRECT_NOT_FOLLOWED", "never")
    assert got["http"]["headers"]["location"] == "/v1/elsewhere"
    assert "redirect" not in got["evidence"]
    assert len(world.wire.exchanges) == 1


async def test_a_hop_is_an_invocation_of_its_own_in_the_same_operation(world: Any) -> None:
    session = await begun(world, READ)
    world.script(to("/v1/elsewhere"), answer(200, {"id": 1}))
    got = await world.ask(session, **GET)
    assert world.facts(got) == ("remote_execution", "committed", "REMOTE_RESULT", "never")
    evidence = got["evidence"]
    first, hop = evidence["operation"]["invocations"]
    assert (got["invocation_id"], evidence["refers_to"], evidence["retry_of"]) == (hop, first, None)
    assert evidence["target"]["url"] == "https://api.example.com/v1/elsewhere"
    assert operation(got) == ("committed", hop)
    before = await world.get(session, first)
    assert world.facts(before) == ("remote_execution", "committed", "REMOTE_RESULT", "never")
    assert before["result"]["message"] == "Answered completely: status 302, a redirect, which was followed."
    assert before["evidence"]["redirect"] == {
        "url": "https://api.example.com/v1/elsewhere",
        "followed": True,
        "invocation_id": hop,
        "code": None,
        "why": None,
    }
    assert before["evidence"]["fingerprint"] != evidence["fingerprint"]
    assert (before["evidence"]["attempt"], evidence["attempt"], evidence["attempts_left"]) == (1, 1, 2)
    begins = ["ACTION_ACCEPTED", "PREFLIGHT_VALIDATED", "APPROVAL_DECIDED", "CREDENTIAL_AUTHORIZED", "DISPATCH_STARTED"]
    for invocation in (first, hop):
        assert (await world.kinds(invocation))[:5] == begins
    assert evidence["dispatch_record"] > before["evidence"]["result_record"]
    listed = await world.broker.agent.action_list(
        session, scope="mine", outcome=None, state=None, limit=10, before=None
    )
    assert [(row["invocation_id"], row["code"]) for row in listed["rows"]] == [
        (hop, "REMOTE_RESULT"),
        (first, "REMOTE_RESULT"),
    ]
    again = await world.ask(session, **GET)
    assert again["invocation_id"] == hop


async def test_a_verdict_of_the_contract_goes_before_the_redirect(world: Any) -> None:
    session = await begun(world, READ + "[verdict]\napplied = [302]\n")
    world.script(to("/v1/elsewhere"))
    assert world.facts(await world.ask(session, **GET))[2] == "REMOTE_RESULT"


@pytest.mark.parametrize(
    ("location", "code", "why"),
    [
        ("http://api.example.com/x", "TARGET_BLOCKED", "from https:// to http://"),
        ("https://169.254.169.254/latest/meta-data/", "TARGET_BLOCKED", "never allowed"),
        ("https://10.0.0.7/x", "TARGET_BLOCKED", "private address"),
        ("https://127.0.0.1/x", "TARGET_BLOCKED", "loopback address"),
        ("https://api.example.com/v1/things", None, "back to where it came from"),
    ],
)
async def test_what_is_refused_leaves_the_redirect_as_the_result(
    world: Any, location: str, code: str | None, why: str
) -> None:
    session = await begun(world, READ)
    world.script(to(location))
    got = await world.ask(session, **GET)
    assert world.facts(got) == ("remote_execution", "committed", "REDIRECT_NOT_FOLLOWED", "never")
    redirect = got["evidence"]["redirect"]
    assert (redirect["followed"], redirect["invocation_id"], redirect["code"]) == (False, None, code)
    assert why in redirect["why"]
    assert why in got["result"]["message"]
    assert len(got["evidence"]["operation"]["invocations"]) == 1


async def test_limits_and_loops(world: Any) -> None:
    session = await begun(world, READ)
    world.script(*[to(f"/v1/{n}") for n in range(3)])
    got = await world.ask(session, **GET)
    assert world.facts(got)[2] == "REDIRECT_NOT_FOLLOWED"
    assert got["evidence"]["target"]["url"].endswith("/v1/1")
    assert got["evidence"]["redirect"]["why"] == "2 were followed, and no more may be."
    assert [path for _, _, path, _ in sent(world)] == ["/v1/things", "/v1/0", "/v1/1"]
    world.script(to("/v1/a"), to("/v1/things"))
    looped = await world.ask(session, **GET | {"operation_id": "op-2"})
    assert looped["evidence"]["redirect"]["why"] == "It leads back to where it came from."
    assert len(looped["evidence"]["operation"]["invocations"]) == 2


async def test_a_location_that_holds_the_secret_or_stands_twice_is_not_followed(world: Any) -> None:
    session = await begun(world, READ)
    world.script(to(f"/v1/x?token={SECRET.decode()}"))
    got = await world.ask(session, **GET)
    assert got["evidence"]["redirect"]["why"] == "Its Location names no one place that may be kept."
    assert SECRET.decode() not in str(got)
    twice = (Cross(), Sent(), Head(302, (("Location", "/v1/a"), ("Location", "/v1/b"))), *to("/")[3:])
    world.script(twice)
    got = await world.ask(session, **GET | {"operation_id": "op-2"})
    assert got["evidence"]["redirect"]["followed"] is False
    assert world.wire.crossed == 1


# -- credential, contract, approval


async def test_the_credential_stays_where_it_is_bound_and_does_not_come_back(world: Any) -> None:
    session = await begun(world, READ, OPEN_READ)
    await world.broker.operator.credential_add(
        {"name": "other", "kind": "bearer", "targets": ["https://files.example.net/**"]},
        bytearray(b"another-secret"),
        bytearray(PASSPHRASE),
    )
    world.script(to("https://files.example.net/x"), to("https://api.example.com/v1/back"), answer(200))
    got = await world.ask(session, **GET, headers={"X-Api-Key": "mine", "Accept": "text/csv"})
    assert sent(world) == [
        ("GET", "api.example.com", "/v1/things", True),
        ("GET", "files.example.net", "/x", False),
        ("GET", "api.example.com", "/v1/back", False),
    ]
    names = [sorted(name.decode().lower() for name, _ in request.headers) for request in world.wire.requests]
    assert ["x-api-key" in each for each in names] == [True, False, False]
    assert got["evidence"]["authorization"]["means"] == "policy"


async def test_a_credential_that_is_bound_to_both_goes_along(world: Any) -> None:
    session = await begun(
        world, READ, OPEN_READ, targets=["https://api.example.com/**", "https://files.example.net/**"]
    )
    world.script(to("https://files.example.net/x"), answer(200))
    await world.ask(session, **GET)
    assert [credential for *_, credential in sent(world)] == [True, True]


async def test_a_new_host_is_a_new_card_and_denied_the_redirect_is_the_answer(world: Any) -> None:
    session = await begun(world, READ)
    world.script(to("https://files.example.net/x"))
    call = world.call(session, **GET)
    card = await world.card()
    assert (card.url, card.credential) == ("https://files.example.net/x", None)
    assert card.notices[0].kind is NoticeKind.REDIRECTED
    pending = await world.get(session, card.invocation_id)
    assert pending["pending"]["state"] == "awaiting_approval"
    assert card.fingerprint == pending["evidence"]["fingerprint"]
    assert operation(pending) == ("committed", card.notices[0].invocation_id), "the hop counts from its dispatch on"
    first = card.notices[0].invocation_id
    assert world.facts(await world.retry(session, first))[2] == "AWAITING_APPROVAL"
    assert "pending" in await world.call(session, **GET, wait_s=0), "asked again, it joins"
    joined = world.call(session, **GET)
    await world.settle()
    await world.deny("not there")
    got = await call
    assert (await joined)["invocation_id"] == first
    assert got["invocation_id"] == first
    assert world.facts(got) == ("remote_execution", "committed", "REDIRECT_NOT_FOLLOWED", "never")
    assert got["evidence"]["redirect"]["followed"] is False
    assert operation(got) == ("committed", first)
    hop = await world.get(session, card.invocation_id)
    assert world.facts(hop)[1:3] == ("not_attempted", "APPROVAL_DENIED")
    assert hop["evidence"]["attempt"] is None
    again = await world.ask(session, **GET)
    assert (again["invocation_id"], len(world.wire.exchanges)) == (first, 1)


async def test_who_joined_the_redirected_call_waits_for_the_hop_too(world: Any) -> None:
    session, second = await begun(world, READ), world.session("s-2")
    hang = Hang()
    world.script((Cross(), Sent(), hang, *to("https://files.example.net/x")[2:]), answer(200))
    call = world.call(session, **GET)
    await hang.reached.wait()
    joined = world.call(second, **GET)
    await world.settle()
    hang.release.set()
    card = await world.card()
    world.broker.agent.session_ended(session.session_id)
    assert [each.invocation_id for each in world.broker.operator.cards()] == [card.invocation_id]
    await world.approve()
    assert (await joined)["invocation_id"] == (await call)["invocation_id"] == card.invocation_id


async def test_a_hop_that_cannot_connect_leaves_the_redirect_as_the_answer(world: Any) -> None:
    session = await begun(world, READ + "[retry]\nsetup = 1\n")
    world.script(to("/v1/elsewhere"), REFUSED)
    got = await world.ask(session, **GET)
    assert world.facts(got) == ("remote_execution", "committed", "REDIRECT_NOT_FOLLOWED", "never")
    hop = await world.get(session, got["evidence"]["redirect"]["invocation_id"])
    assert world.facts(hop)[1:] == ("not_attempted", "CONNECT_FAILED", "backoff")
    assert world.facts(await world.retry(session, hop["invocation_id"]))[2] == "REDIRECT_NOT_FOLLOWED"
    of = {"invocation_id": None, "operation_id": "op-1", "events": False}
    named = await world.broker.agent.action_get(session, **of)
    assert named["invocation_id"] == got["invocation_id"], "the first request was sent, whatever became of the hop"


async def test_another_contract_at_the_new_place_has_its_own_word(world: Any) -> None:
    elsewhere = OPEN_READ.replace("[redirect]\nfollow = 2\n", "")
    session = await begun(world, READ, elsewhere)
    world.script(to("https://files.example.net/x"), to("/y"))
    got = await world.ask(session, **GET)
    assert got["evidence"]["contract"]["id"] == "test.files"
    assert got["evidence"]["redirect"]["why"] == "1 were followed, and no more may be."


async def test_each_hop_has_its_own_way_out(world: Any) -> None:
    """R21: which observer stood between is recorded of each exchange by itself."""
    session = await begun(world, READ, OPEN_READ)
    await world.broker.operator.proxy_set(
        "https://proxy.example.com:3128",
        credential=None,
        no_proxy=("files.example.net",),
        trusted=False,
        passphrase=bytearray(PASSPHRASE),
    )
    through = Cross(resolved_by="proxy", proxy="https://proxy.example.com:3128")
    world.script((through, *to("https://files.example.net/x")[1:]), answer(200))
    got = await world.ask(session, **GET)
    first = await world.get(session, got["evidence"]["refers_to"])
    assert [way.proxy is None for way in world.wire.ways] == [False, True]
    assert first["evidence"]["resolved_by"] == "proxy"
    assert "resolved_by" not in got["evidence"]


async def test_no_redirect_leads_to_a_token_service(world: Any) -> None:
    session = await begun(world, READ, OPEN_READ)
    words = {"name": "oauth", "kind": "oauth2", "targets": ["https://other.example.com/**"], "client_id": "c-1"}
    await world.broker.operator.credential_add(
        words | {"token_url": "https://files.example.net/token"}, bytearray(b"client-secret"), bytearray(PASSPHRASE)
    )
    world.script(to("https://files.example.net/token"))
    got = await world.ask(session, **GET)
    assert got["evidence"]["redirect"]["code"] == "TARGET_BLOCKED"


async def test_a_read_does_not_become_a_write(world: Any) -> None:
    deed = OPEN_READ.replace("read", "write").replace("test.files", "test.deed")
    session = await begun(world, READ, deed)
    world.script(to("https://files.example.net/launch"))
    got = await world.ask(session, **GET)
    assert (
        got["evidence"]["redirect"]["why"] == "By test.deed a GET there is a write, and the redirect asks for a read."
    )


# -- writes


async def test_a_write_is_sent_once_more_under_its_contract_key_and_credential(world: Any) -> None:
    planted = '[correlation]\noperation = "/op"\n'
    session = await begun(world, write(KEY, planted))
    world.script(to("/v2/things", 307), answer(201, {"id": 1}))
    got = await world.ask(session, **POST)
    assert world.facts(got) == ("remote_execution", "committed", "REMOTE_RESULT", "never")
    one, two = world.wire.requests
    assert (one.method, one.body) == (two.method, two.body)
    key = got["evidence"]["idempotency"]["key"]
    assert dict(one.headers)[b"Idempotency-Key"] == dict(two.headers)[b"Idempotency-Key"] == key.encode()
    assert sent(world)[1] == ("POST", "api.example.com", "/v2/things", True)
    first = await world.get(session, got["evidence"]["refers_to"])
    window = first["evidence"]["idempotency"]["window_open_until"]
    assert got["evidence"]["idempotency"]["window_open_until"] == window
    assert first["evidence"]["idempotency"]["fingerprint"] == got["evidence"]["idempotency"]["fingerprint"]


@pytest.mark.parametrize(
    ("location", "code", "why"),
    [
        ("https://files.example.net/x", None, "test.things does not speak for POST"),
        ("https://api.example.com:8443/x", None, "test.things does not speak for POST"),
    ],
)
async def test_a_write_goes_nowhere_else(world: Any, location: str, code: str | None, why: str) -> None:
    session = await begun(world, write(KEY))
    world.script(to(location, 307))
    got = await world.ask(session, **POST)
    assert world.facts(got)[1:3] == ("committed", "REDIRECT_NOT_FOLLOWED")
    assert (got["evidence"]["redirect"]["code"], why in got["evidence"]["redirect"]["why"]) == (code, True)


async def test_a_write_does_not_go_without_its_credential_its_key_or_its_host(world: Any) -> None:
    wide = write(KEY.replace("header = ", "query = ")).replace(
        'url = "https://api.example.com/**"', 'url = "https://*.example.com/**"', 1
    )
    session = await begun(world, wide)
    world.script(to("https://eu.example.com/v1/things", 307))
    got = await world.ask(session, **POST)
    assert got["evidence"]["redirect"]["code"] == "CREDENTIAL_OUT_OF_SCOPE"
    world.script(to("https://api.example.com/v2/things", 307))
    got = await world.ask(session, **POST | {"operation_id": "op-2", "json": {"a": 2}})
    assert "key does not stand in the request" in got["evidence"]["redirect"]["why"]


async def test_a_key_of_one_host_does_not_leave_it(world: Any) -> None:
    wide = write(KEY + 'scope = "host"\n').replace(MANY, 'url = "https://*.example.com/**"', 1)
    session = await begun(world, wide, targets=["https://*.example.com/**"])
    world.script(to("https://eu.example.com/v1/things", 307))
    got = await world.ask(session, **POST)
    assert got["evidence"]["redirect"]["code"] == "IDEMPOTENCY_MISMATCH"


async def test_a_lost_hop_of_a_write_is_unknown_and_a_repeat_sends_the_hop(world: Any) -> None:
    session = await begun(world, write(KEY))
    world.script(to("/v2/things", 307), HANG_UP, answer(201, {"id": 1}))
    got = await world.ask(session, **POST)
    assert world.facts(got) == ("remote_execution", "unknown", "REMOTE_OUTCOME_UNKNOWN", "same_idempotency_key")
    assert operation(got) == ("unknown", None)
    hop = got["invocation_id"]
    twin = await world.ask(session, **POST | {"operation_id": "op-2"})
    assert world.facts(twin)[2] == "UNRESOLVED_DUPLICATE", "the same effect under another name"
    first = await world.get(session, got["evidence"]["refers_to"])
    assert world.facts(first)[1:3] == ("committed", "REMOTE_RESULT")
    done = await world.retry(session, first["invocation_id"])
    assert world.facts(done)[1] == "committed"
    assert (done["evidence"]["retry_of"], done["evidence"]["attempt"]) == (hop, 2)
    assert [path for _, _, path, _ in sent(world)] == ["/v1/things", "/v2/things", "/v2/things"]
    assert operation(done) == ("committed", done["invocation_id"])


async def test_a_write_that_is_unknown_elsewhere_is_not_reached_by_a_redirect(world: Any) -> None:
    session = await begun(world, write())
    world.script(HANG_UP, to("/v2/things", 307))
    await world.ask(session, **POST | {"url": "https://api.example.com/v2/things"})
    got = await world.ask(session, **POST | {"operation_id": "op-2"})
    assert got["evidence"]["redirect"]["code"] == "UNRESOLVED_DUPLICATE"
    assert world.facts(got)[2] == "REDIRECT_NOT_FOLLOWED"


async def test_a_lost_hop_is_found_as_unresolved_after_a_restart_too(world: Any) -> None:
    session = await begun(world, write())
    world.script(to("/v2/things", 307), HANG_UP)
    got = await world.ask(session, **POST)
    assert world.facts(got)[1:] == ("unknown", "REMOTE_OUTCOME_UNKNOWN", "reconcile")
    await world.restart()
    session = world.session()
    twin = await world.ask(session, **POST | {"operation_id": "op-2"})
    assert world.facts(twin)[2] == "UNRESOLVED_DUPLICATE"
    assert twin["evidence"]["refers_to"] in got["evidence"]["operation"]["invocations"]
    for unsafe in (False, True):
        request = {name: value for name, value in POST.items() if name in GIVEN}
        request |= {"method": "POST", "url": "https://api.example.com/v1/things"}
        world.broker.core.spool.drop(InvocationId(got["invocation_id"]))
        told = await world.retry(session, got["invocation_id"], request=request, unsafe=unsafe)
        assert world.facts(told)[1:3] == ("unknown", "RETRY_REFUSED"), "what was asked is not what would be repeated"
        assert "needs" not in told["error"]


async def test_a_look_up_settles_a_lost_hop(world: Any) -> None:
    session = await begun(world, write('[correlation]\noperation = "/op"\n', LOOKUP))
    world.script(to("/v2/things", 307), HANG_UP, rows("done"))
    got = await world.ask(session, **POST)
    assert got["evidence"]["reconcile"]["available"]
    settled = await world.look(session, got["invocation_id"])
    assert world.facts(settled)[1:3] == ("committed", "SETTLED_BY_QUERY")
    assert operation(settled) == ("committed", got["invocation_id"])


async def test_a_hop_that_is_refused_speaks_for_the_write(world: Any) -> None:
    session = await begun(world, write())
    world.script(to("/v2/things", 307), answer(422))
    got = await world.ask(session, **POST)
    assert world.facts(got)[1:] == ("rejected", "REMOTE_REJECTED", "after_correction")
    assert operation(got) == ("rejected", got["invocation_id"])


async def at_its_hops_card(world: Any, session: Any) -> Any:
    """A call whose redirect waits for its card."""
    world.script(to("/v2/things", 307), answer(201))
    call = world.call(session, **POST)
    await world.approve()
    await world.until(lambda: any(live.follows is not None for live in world.broker.core.lives.values()))
    await world.cards(1)
    return call


async def test_a_window_that_closes_while_the_hops_card_waits_sends_nothing(world: Any) -> None:
    asking = write(KEY.replace("24h", "5m")).replace("never", "always")
    session = await begun(world, asking)
    call = await at_its_hops_card(world, session)
    (card,) = world.broker.operator.cards()
    twin = await world.call(session, **POST | {"operation_id": "op-2"})
    assert world.facts(twin)[2:] == ("UNRESOLVED_DUPLICATE", "fetch_result"), "it is still at work"
    assert twin["evidence"]["refers_to"] == card.invocation_id
    world.clock.move(300)
    await world.approve()
    got = await call
    assert world.facts(got)[2] == "REDIRECT_NOT_FOLLOWED"
    hop = await world.get(session, got["evidence"]["redirect"]["invocation_id"])
    assert world.facts(hop)[1:3] == ("not_attempted", "APPROVAL_EXPIRED")
    assert world.wire.crossed == 1


async def test_a_recovery_deadline_that_passes_while_the_hops_card_waits_sends_nothing(world: Any) -> None:
    session = await begun(world, write('[deadlines]\nrequest = "30s"\nrecovery = "1m"\n').replace("never", "always"))
    call = await at_its_hops_card(world, session)
    world.clock.move(120)
    await world.approve()
    got = await call
    assert world.facts(got)[2] == "REDIRECT_NOT_FOLLOWED"
    hop = await world.get(session, got["evidence"]["redirect"]["invocation_id"])
    assert world.facts(hop)[1:3] == ("not_attempted", "APPROVAL_EXPIRED")
    assert world.wire.crossed == 1


async def test_a_batch_has_its_items_from_the_hop(world: Any) -> None:
    session = await begun(world, write(BATCH))
    world.script(to("/v2/things", 307), answer(200, {"results": [{"id": "a", "status": "created"}]}))
    got = await world.ask(session, json={"items": [{"id": "a"}]}, operation_id="op-1")
    assert [item["outcome"] for item in got["evidence"]["items"]] == ["committed"]
    first = await world.get(session, got["evidence"]["refers_to"])
    assert world.facts(first)[1:] == ("committed", "REMOTE_RESULT", "never")
    assert await world.broker.operator.unknown() == []


# -- a read after a write


async def test_the_read_after_a_write_answers_the_call(world: Any) -> None:
    session = await begun(world, write(KEY), READ)
    world.script(to("/v1/things/1", 303), answer(200, {"id": 1}))
    got = await world.ask(session, **POST)
    assert world.facts(got)[1:] == ("committed", "REMOTE_RESULT", "never")
    assert got["http"]["body"]["text"] == '{"id": 1}'
    request = world.wire.requests[1]
    assert (request.method, request.body) == ("GET", b"")
    assert not {b"Idempotency-Key", b"Content-Type"} & dict(request.headers).keys()
    assert got["evidence"]["contract"]["id"] == "test.read"


async def test_a_read_after_a_write_that_is_lost_leaves_the_whole_unknown_and_is_alone_repeated(world: Any) -> None:
    session = await begun(world, write(), READ)
    world.script(to("/v1/things/1", 303), HANG_UP, answer(200, {"id": 1}))
    got = await world.ask(session, **POST)
    assert world.facts(got)[1:] == ("unknown", "REMOTE_OUTCOME_UNKNOWN", "backoff")
    assert operation(got) == ("unknown", None)
    twin = await world.ask(session, **POST | {"operation_id": "op-2"})
    assert world.facts(twin)[2] == "UNRESOLVED_DUPLICATE"
    done = await world.retry(session, got["invocation_id"])
    assert operation(done) == ("committed", done["invocation_id"])
    assert [method for method, *_ in sent(world)] == ["POST", "GET", "GET"]


async def test_a_read_after_a_write_that_is_refused_does_not_refuse_the_write(world: Any) -> None:
    session = await begun(world, write(), READ)
    world.script(to("/v1/things/1", 303), answer(404))
    got = await world.ask(session, **POST)
    assert world.facts(got)[1:] == ("rejected", "REMOTE_REJECTED", "reconcile")
    assert operation(got) == ("committed", got["evidence"]["refers_to"])
    again = await world.retry(session, got["invocation_id"])
    assert (again["invocation_id"], len(world.wire.exchanges)) == (got["invocation_id"], 2)


async def test_a_repeat_of_a_hop_without_credential_has_none_either(world: Any) -> None:
    session = await begun(world, READ, OPEN_READ)
    world.script(to("https://files.example.net/x"), HANG_UP, answer(200))
    got = await world.ask(session, **GET)
    await world.broker.operator.credential_add(
        {"name": "other", "kind": "bearer", "targets": ["https://files.example.net/**"]},
        bytearray(b"another-secret"),
        bytearray(PASSPHRASE),
    )
    await world.retry(session, got["invocation_id"])
    assert sent(world)[2] == ("GET", "files.example.net", "/x", False)


# -- answers that are not whole, cancels, deadlines, locks, restarts


async def test_a_redirect_that_is_cut_short_is_unknown_and_not_followed(world: Any) -> None:
    session = await begun(world, READ)
    head = Head(302, (("Location", "/v1/elsewhere"), ("Content-Length", "9")))
    world.script((Cross(), Sent(), head, Broken(Fault.FRAMING, "the body was short")))
    got = await world.ask(session, **GET)
    assert world.facts(got)[1:3] == ("unknown", "REMOTE_RESULT_INCOMPLETE")
    assert len(got["evidence"]["operation"]["invocations"]) == 1


async def test_a_late_redirect_settles_and_is_not_followed(world: Any) -> None:
    session = await begun(world, READ)
    hang = Hang()
    world.script((Cross(), Sent(), hang, *to("/v1/elsewhere")[2:]))
    call = world.call(session, **GET)
    await hang.reached.wait()
    (invocation,) = world.broker.core.lives
    cancelled = await world._ended(world.broker.agent.action_cancel(session, invocation_id=invocation, signal=None))
    assert world.facts(cancelled)[1:3] == ("unknown", "CALLER_CANCELLED")
    await call
    hang.release.set()
    await world.settle()
    assert world.facts(await world.get(session, invocation))[1:3] == ("committed", "REDIRECT_NOT_FOLLOWED")
    assert len(world.wire.exchanges) == 1


async def test_a_cancel_by_the_first_name_stops_the_hop(world: Any) -> None:
    session = await begun(world, READ)
    hang = Hang()
    world.script(to("/v1/elsewhere"), (Cross(), Sent(), hang))
    call = world.call(session, **GET)
    await hang.reached.wait()
    (hop,) = (live for live in world.broker.core.lives.values() if live.follows is not None)
    first = hop.follows.invocation_id
    got = await world._ended(world.broker.agent.action_cancel(session, invocation_id=first, signal=None))
    assert (got["invocation_id"], world.facts(got)[1:3]) == (hop.invocation_id, ("unknown", "CALLER_CANCELLED"))
    assert (await call)["invocation_id"] == hop.invocation_id


async def test_a_wait_by_the_first_name_is_answered_by_the_hop(world: Any) -> None:
    session = await begun(world, READ)
    hang = Hang()
    world.script(to("/v1/elsewhere"), (Cross(), Sent(), hang, *answer(200)[2:]))
    await world.call(session, **GET, wait_s=0)
    await hang.reached.wait()
    (hop,) = (live for live in world.broker.core.lives.values() if live.follows is not None)
    first = hop.follows.invocation_id
    again = await world.retry(session, first)
    assert (again["invocation_id"], "pending" in again) == (hop.invocation_id, True)
    wait = asyncio.ensure_future(world.broker.agent.action_wait(session, invocation_id=first, wait_s=5))
    await asyncio.sleep(0)
    hang.release.set()
    got = await wait
    assert (got["invocation_id"], world.facts(got)[1]) == (hop.invocation_id, "committed")
    assert await world.broker.agent.action_wait(session, invocation_id=first, wait_s=0) == got


async def test_nothing_is_followed_for_nobody_or_past_the_deadline(world: Any) -> None:
    session = await begun(world, READ)
    for n, why in enumerate(("Nobody waits for it any more.", "Its deadline is past.")):
        hang = Hang()
        world.script((Cross(), Sent(), hang, *to("/v1/elsewhere")[2:]))
        call = world.call(session, **GET | {"operation_id": f"op-{n}"})
        await hang.reached.wait()
        (first,) = world.broker.core.lives.values()
        if n == 0:
            world.broker.agent.session_ended(session.session_id)
            session = world.session("s-2")
        else:
            first.deadline = asyncio.get_running_loop().time()
        hang.release.set()
        got = await call
        assert world.facts(got)[2] == "REDIRECT_NOT_FOLLOWED"
        assert got["evidence"]["redirect"]["why"] == why


async def test_a_cancel_while_the_redirect_is_stored_follows_nothing(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await begun(world, READ)
    keep, storing, go_on = HttpWork.keep, asyncio.Event(), asyncio.Event()

    async def slow(self: HttpWork, evidence: HttpEvidence) -> Kept:
        storing.set()
        await go_on.wait()
        return await keep(self, evidence)

    monkeypatch.setattr(HttpWork, "keep", slow)
    world.script(to("/v1/elsewhere"))
    call = world.call(session, **GET)
    await storing.wait()
    (first,) = world.broker.core.lives.values()
    cancel = asyncio.ensure_future(
        world._ended(world.broker.agent.action_cancel(session, invocation_id=first.invocation_id, signal=None))
    )
    await world.until(lambda: first.cancelled)
    go_on.set()
    for got in (await call, await cancel):
        assert world.facts(got)[2] == "REDIRECT_NOT_FOLLOWED"
        assert got["evidence"]["redirect"]["why"] == "Nobody waits for it any more."


async def test_one_deadline_holds_over_all(world: Any) -> None:
    session = await begun(world, READ)
    hang, held = Hang(), Hang()
    world.script((Cross(), Sent(), hang, *to("/v1/elsewhere")[2:]), (Cross(), Sent(), held))
    call = world.call(session, **GET, deadline_s=3600)
    await hang.reached.wait()
    (first,) = world.broker.core.lives.values()
    first.deadline -= 1800
    hang.release.set()
    await held.reached.wait()
    hop = first.hop
    assert hop.bound.deadline_s < 1800
    assert abs(hop.deadline - first.deadline) < 60, "what is left of it, from the hop's authorisation on"
    held.release.set()
    await call


async def test_a_vault_that_was_locked_meanwhile_follows_nothing(world: Any) -> None:
    session = await begun(world, READ)
    hang = Hang()
    world.script((Cross(), Sent(), hang, *to("/v1/elsewhere")[2:]))
    call = world.call(session, **GET)
    await hang.reached.wait()
    await world.broker.operator.lock(why="test")
    hang.release.set()
    got = await call
    await world.unlock()
    got = await world.get(session, got["invocation_id"])
    assert got["evidence"]["redirect"]["why"] == "The vault is locked."


async def test_a_hop_on_a_card_ends_with_the_broker_and_the_redirect_stays(world: Any) -> None:
    session = await begun(world, READ)
    world.script(to("https://files.example.net/x"))
    call = world.call(session, **GET)
    card = await world.card()
    await world.stop()
    got = await call
    assert world.facts(got)[2] == "REDIRECT_NOT_FOLLOWED"
    await world.start()
    locked = await world.get(world.session("s-2"), got["invocation_id"])
    assert locked["evidence"]["operation"]["outcome"] == "committed"
    await world.unlock()
    session = world.session("s-3")
    hop = await world.get(session, card.invocation_id)
    assert world.facts(hop)[1:3] == ("not_attempted", "BROKER_RESTARTED")
    again = await world.ask(session, **GET)
    assert (again["invocation_id"], world.facts(again)[2]) == (got["invocation_id"], "REDIRECT_NOT_FOLLOWED")


async def test_a_sealed_hop_still_counts_in_place_of_the_redirect(world: Any) -> None:
    session = await begun(world, write(KEY))
    world.script(to("/v2/things", 307), HANG_UP)
    got = await world.ask(session, **POST)
    await world.stop()
    await world.start()
    locked = await world.get(world.session("s-2"), got["invocation_id"])
    assert operation(locked) == ("unknown", None)
    assert (locked["evidence"]["attempt"], locked["evidence"]["attempts_left"]) == (1, 2)
    first = await world.get(world.session("s-2"), got["evidence"]["refers_to"])
    assert first["evidence"]["operation"]["outcome"] == "unknown"
    assert "redirect" not in first["evidence"], "where it leads is sealed"
    await world.unlock()


async def test_what_the_broker_repeats_by_itself_is_the_hop(world: Any) -> None:
    session = await begun(world, write(KEY, AUTOMATIC))
    world.script(to("/v2/things", 307), HANG_UP, answer(201))
    call = world.call(session, **POST)
    await world.settle()
    await world.later(2)
    got = await call
    assert (world.facts(got)[1], got["evidence"]["attempt"]) == ("committed", 2)
    assert [path for _, _, path, _ in sent(world)] == ["/v1/things", "/v2/things", "/v2/things"]


async def test_what_the_broker_would_repeat_has_the_word_of_its_own_contract(world: Any) -> None:
    session = await begun(world, write(KEY, AUTOMATIC), READ)
    world.script(to("/v1/things/1", 303), HANG_UP, answer(200))
    call = world.call(session, **POST)
    await world.settle()
    await world.later(2)
    assert len(world.wire.exchanges) == 2
    assert world.facts(await call)[1:] == ("unknown", "REMOTE_OUTCOME_UNKNOWN", "backoff")


# -- what an operation with hops came to, from its facts alone


WRITE, READING = {"effect": Effect.WRITE}, {"effect": Effect.READ, "idempotent": "true"}


def chain(*of: Any) -> Operation:
    return Operation(tuple(of))


def test_hops_in_the_place_of_what_they_follow() -> None:
    redirected = record("committed", "never", 0, code=Code.REDIRECT_NOT_FOLLOWED, attempt=1, **WRITE)
    lost = record("unknown", "reconcile", 1, refers_to="act_0", attempt=1, **WRITE)
    both = chain(redirected, lost)
    assert both.outcome() == (Outcome.UNKNOWN, None)
    assert (both.dispatches, both.attempt_of(lost)) == (1, 1)
    assert (code_now(redirected, both), code_now(redirected, chain(redirected))) == (
        Code.REMOTE_RESULT,
        Code.REDIRECT_NOT_FOLLOWED,
    )
    refused = record("rejected", "after_correction", 1, refers_to="act_0", attempt=1, status=422, **WRITE)
    assert chain(redirected, refused).outcome() == (Outcome.REJECTED, "act_1")
    stopped = record("not_attempted", "backoff", 1, refers_to="act_0", **WRITE)
    assert chain(redirected, stopped).outcome() == (Outcome.COMMITTED, "act_0")
    assert chain(redirected, stopped).end_of(redirected) is redirected
    assert chain(redirected, stopped).answering is redirected
    assert chain(redirected, lost).answering is lost
    repeat = record("not_attempted", "fetch_result", 1, retry_of="act_0", refers_to="act_0", **WRITE)
    assert chain(redirected, repeat).answering is repeat, "it lost its lease, and is no hop"


def test_a_read_after_a_write_does_not_speak_for_an_earlier_unknown_write() -> None:
    """Whatever the read says, and however often it is repeated."""
    first = record("unknown", "reconcile", 0, attempt=1, **WRITE)
    again = record("committed", "never", 1, retry_of="act_0", code=Code.REDIRECT_NOT_FOLLOWED, attempt=2, **WRITE)
    read = record("committed", "never", 2, refers_to="act_1", attempt=2, **READING)
    assert chain(first, again, read).outcome() == (Outcome.UNKNOWN, None)
    lost = record("unknown", "backoff", 2, refers_to="act_1", attempt=2, **READING)
    reread = record("committed", "never", 3, retry_of="act_2", attempt=3, **READING)
    assert chain(first, again, lost, reread).outcome() == (Outcome.UNKNOWN, None)
    assert chain(again, lost, reread).outcome() == (Outcome.COMMITTED, "act_3")
    refused = record("rejected", "after_correction", 3, retry_of="act_2", attempt=3, status=404, **READING)
    assert retry_now(refused, chain(again, lost, refused), Micros(0)) is Retry.RECONCILE
    assert chain(again, lost, refused).leads_elsewhere(refused)
    assert not chain(first, again).leads_elsewhere(again)


def test_a_read_through_two_hops_after_a_write() -> None:
    redirected = record("committed", "never", 0, code=Code.REDIRECT_NOT_FOLLOWED, **WRITE)
    one = record("committed", "never", 1, refers_to="act_0", code=Code.REDIRECT_NOT_FOLLOWED, **READING)
    two = record("rejected", "after_correction", 2, refers_to="act_1", status=404, **READING)
    all_three = chain(redirected, one, two)
    assert all_three.reads_after_write(two)
    assert all_three.outcome() == (Outcome.COMMITTED, "act_0")
    assert all_three.end_of(redirected) is two


# -- what the agent gave, told apart from what was planted


async def test_a_key_that_was_planted_crosses_with_a_repeat_and_with_a_second_hop_too(world: Any) -> None:
    """A repeat and a hop are asked with the headers that went out, of which the agent gave none."""
    wide = write(KEY).replace(MANY, 'url = "https://*.example.com/**"', 1)
    await world.adopt(wide)
    await world.credential("https://*.example.com/**")
    session = world.session()
    there, further = to("https://eu.example.com/v1/things", 307), to("https://us.example.com/v1/things", 307)
    world.script(HANG_UP, there, further, answer(200))
    lost = await world.ask(session, **POST)
    again = await world.retry(session, lost["invocation_id"])
    assert world.facts(again) == ("remote_execution", "committed", "REMOTE_RESULT", "never")
    assert [host for _, host, _, _ in sent(world)] == [
        "api.example.com",
        "api.example.com",
        "eu.example.com",
        "us.example.com",
    ]
    keys = {dict(request.headers)[b"Idempotency-Key"] for request in world.wire.requests}
    assert len(keys) == 1


async def test_a_key_that_was_planted_stays_behind_when_a_repeat_becomes_a_read(world: Any) -> None:
    session = await begun(world, write(KEY), READ)
    world.script(HANG_UP, to("/v1/done", 303), answer(200))
    lost = await world.ask(session, **POST)
    await world.retry(session, lost["invocation_id"])
    write_, repeat, read = world.wire.requests
    assert [b"Idempotency-Key" in dict(request.headers) for request in (write_, repeat, read)] == [True, True, False]
