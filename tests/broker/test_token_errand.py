"""OAuth2 on the engine: a token call is an errand with a record of its own, and its answer is kept nowhere."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from affidavit.broker.card import Decision, Scope
from affidavit.broker.limits import Limits
from affidavit.broker.vault import VaultState
from affidavit.broker.wire.port import Fault
from affidavit.broker.wire.scripted import Body, Broken, Complete, Cross, Hang, Head, Sent
from affidavit.journal import Receipt

TOKEN, NEXT_TOKEN, REFRESH = "token-of-the-service-4711", "token-of-the-service-4712", "refresh-of-the-service-9"
CLIENT_SECRET = b"client-secret-aT5x"
PASSPHRASE = b"a passphrase for tests"
OK = (Cross(), Sent(), Head(200), Complete())
WRITE = {"method": "POST", "json": {"n": 1}}


def granted(token: str = TOKEN, **more: Any) -> tuple[Any, ...]:
    body = json.dumps({"access_token": token, "token_type": "Bearer", "expires_in": 3600, **more}).encode()
    return (Cross(), Sent(), Head(200, (("content-type", "application/json"),)), Body(body), Complete())


async def added(world: Any, *, refresh: bool = False) -> None:
    params = {
        "name": "crm",
        "kind": "oauth2",
        "targets": ["https://api.example.com/**"],
        "token_url": "https://login.example.com/token",
        "client_id": "4711",
        "refresh": refresh,
    }
    secret = b"first-refresh-token\n" + CLIENT_SECRET if refresh else CLIENT_SECRET
    await world.broker.operator.credential_add(params, bytearray(secret), bytearray(PASSPHRASE))


def sent(world: Any, number: int) -> bytes:
    """The headers and the body of the request number `number` as they went out."""
    request = world.wire.requests[number]
    return b"\n".join([*(name + b": " + value for name, value in request.headers), bytes(request.body)])


def holding(directory: Path, text: str) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


async def rows(world: Any, session: Any) -> list[dict[str, Any]]:
    listed = await world.broker.agent.action_list(session, scope="all", outcome=None, state=None, limit=50, before=None)
    return list(listed["rows"])


async def test_a_token_is_asked_for_once_and_shared(world: Any) -> None:
    await added(world)
    session = world.session()
    world.script(granted(), OK, OK)
    first = await world.ask(session, **WRITE)
    assert world.facts(first)[1:3] == ("committed", "REMOTE_RESULT")
    second = await world.ask(session, method="POST", json={"n": 2})
    assert world.facts(second)[1] == "committed"
    assert len(world.wire.requests) == 3
    call, one, two = (sent(world, n) for n in range(3))
    assert b"grant_type=client_credentials" in call
    assert b"Authorization: Basic " in call
    assert TOKEN.encode() not in call
    assert f"Bearer {TOKEN}".encode() in one
    assert f"Bearer {TOKEN}".encode() in two


async def test_the_token_call_has_a_record_and_its_answer_has_none(world: Any, places: Any) -> None:
    await added(world)
    session = world.session()
    world.script(granted(), OK)
    envelope = await world.ask(session, **WRITE)
    own = [row for row in await rows(world, session) if row["invocation_id"] != envelope["invocation_id"]]
    assert [row["outcome"] for row in own] == ["committed"]
    record = await world.broker.operator.action_get(own[0]["invocation_id"])
    assert record["evidence"]["refers_to"] == envelope["invocation_id"]
    assert TOKEN not in json.dumps(record)
    assert CLIENT_SECRET.decode() not in json.dumps(record)
    assert holding(places.data, TOKEN) == []


@pytest.mark.parametrize(
    ("script", "retry"),
    [
        ((Cross(), Sent(), Head(503), Complete()), "backoff"),
        ((Cross(), Sent(), Head(400), Body(b'{"error": "invalid_client"}'), Complete()), "after_correction"),
        ((Cross(), Sent(), Broken(Fault.RESET)), "backoff"),
    ],
)
async def test_without_a_token_nothing_was_attempted(world: Any, script: tuple[Any, ...], retry: str) -> None:
    await added(world)
    session = world.session()
    world.script(script)
    envelope = await world.ask(session, **WRITE)
    assert world.facts(envelope) == ("credential_injection", "not_attempted", "TOKEN_UNAVAILABLE", retry)
    assert len(world.wire.requests) == 1


async def test_a_token_that_is_refused_is_asked_for_anew(world: Any) -> None:
    await added(world)
    session = world.session()
    world.script(granted(), (Cross(), Sent(), Head(401), Complete()), granted(NEXT_TOKEN), OK)
    refused = await world.ask(session, **WRITE)
    assert world.facts(refused)[1] == "rejected"
    again = await world.ask(session, **WRITE)
    assert world.facts(again)[1] == "committed"
    assert f"Bearer {NEXT_TOKEN}".encode() in sent(world, 3)


async def test_a_token_that_is_refused_is_used_by_nobody_else_after_a_renewal(world: Any) -> None:
    await added(world, refresh=True)
    session = world.session()
    refused = (Cross(), Sent(), Head(401), Complete())
    world.script(granted(refresh_token=REFRESH), refused, granted(NEXT_TOKEN), OK)
    assert world.facts(await world.ask(session, method="POST", json={"n": 1}))[1] == "rejected"
    assert world.facts(await world.ask(session, method="POST", json={"n": 2}))[1] == "committed"
    assert f"Bearer {NEXT_TOKEN}".encode() in sent(world, 3)


async def waiting_over_a_renewal(world: Any) -> tuple[Any, str]:
    """A call whose card waits, while another's token call has renewed the refresh token; and its id."""
    await added(world, refresh=True)
    session = world.session()
    world.script(granted(refresh_token=REFRESH), OK, granted(NEXT_TOKEN), OK)
    late = world.call(session, method="POST", json={"n": "late"}, wait_s=60)
    card = await world.card()
    first = world.call(session, method="POST", json={"n": "first"})
    await world.cards(2)
    (other,) = (c for c in world.broker.operator.cards() if c.invocation_id != card.invocation_id)
    await world.broker.operator.decide(other.invocation_id, Decision(True, Scope.ONCE, tick=True))
    assert world.facts(await first)[1] == "committed"
    return late, card.invocation_id


async def test_a_card_that_waits_over_a_renewal_still_does_what_it_says(world: Any) -> None:
    late, card = await waiting_over_a_renewal(world)
    world.broker.core.tokens.wipe()  # as when the token is over
    await world.broker.operator.decide(card, Decision(True, Scope.ONCE, tick=True))
    assert world.facts(await late)[1:3] == ("committed", "REMOTE_RESULT")
    assert REFRESH.encode() in sent(world, 2)
    assert f"Bearer {NEXT_TOKEN}".encode() in sent(world, 3)


async def test_a_rotation_stops_what_was_approved_with_the_old_secret(world: Any) -> None:
    late, card = await waiting_over_a_renewal(world)
    await world.broker.operator.credential_rotate("crm", bytearray(b"other\nsecret"), bytearray(PASSPHRASE))
    await world.broker.operator.decide(card, Decision(True, Scope.ONCE, tick=True))
    assert world.facts(await late)[1:3] == ("not_attempted", "CREDENTIAL_MISSING")
    assert len(world.wire.requests) == 2


async def test_a_refresh_token_that_is_replaced_becomes_the_next_version(world: Any) -> None:
    await added(world, refresh=True)
    session = world.session()
    world.script(granted(refresh_token=REFRESH), OK)
    assert world.facts(await world.ask(session, **WRITE))[1] == "committed"
    (credential,) = world.broker.core.vault.credentials.list()
    assert credential.version == 2
    with world.broker.core.vault.credentials.secret(credential.credential_id, 2) as secret:
        assert secret.use(bytes) == REFRESH.encode() + b"\n" + CLIENT_SECRET


async def test_nothing_is_sent_with_the_token_of_a_renewal_that_could_not_be_recorded(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await added(world, refresh=True)
    lost = Receipt(())
    lost.resolve("The disk is full.")
    monkeypatch.setattr(world.broker.core, "note_change", lambda *what, **digests: lost)
    world.script(granted(refresh_token=REFRESH), OK)
    envelope = await world.ask(world.session(), **WRITE)
    assert world.facts(envelope)[1:3] == ("not_attempted", "JOURNAL_UNAVAILABLE")
    assert len(world.wire.requests) == 1


async def test_lock_waits_for_the_refresh_token_of_a_call_that_went_out(world: Any) -> None:
    await added(world, refresh=True)
    session, hang = world.session(), Hang()
    world.script((Cross(), Sent(), hang, *granted(refresh_token=REFRESH)[2:]))
    call = world.call(session, **WRITE)
    await world.approve()
    await hang.reached.wait()
    lock = asyncio.ensure_future(world.broker.operator.lock(why="test"))
    ended = await call
    assert world.facts(ended)[1:3] == ("not_attempted", "VAULT_LOCKED")
    assert not lock.done()
    hang.release.set()
    await lock
    await world.unlock()
    (credential,) = world.broker.core.vault.credentials.list()
    assert credential.version == 2


async def locking(world: Any) -> tuple[asyncio.Future[None], Hang]:
    """A lock that waits for a token call which went out, and what lets that call end."""
    await added(world, refresh=True)
    hang = Hang()
    world.script((Cross(), Sent(), hang, *granted(refresh_token=REFRESH)[2:]))
    call = world.call(world.session(), **WRITE)
    await world.approve()
    await hang.reached.wait()
    lock = asyncio.ensure_future(world.broker.operator.lock(why="test"))
    assert world.facts(await call)[2] == "VAULT_LOCKED"
    return lock, hang


async def test_an_unlock_during_a_lock_opens_what_that_has_closed(world: Any) -> None:
    lock, hang = await locking(world)
    unlock = asyncio.ensure_future(world.unlock())
    await world.settle()
    hang.release.set()
    await lock
    await unlock
    core = world.broker.core
    assert (core.locked, core.vault.state) == (False, VaultState.READY)
    world.script(granted(), OK)
    assert world.facts(await world.ask(world.session(), **WRITE))[1] == "committed"


async def test_a_second_lock_returns_when_the_first_has_closed_the_vault(world: Any) -> None:
    first, hang = await locking(world)
    second = asyncio.ensure_future(world.broker.operator.lock(why="test"))
    await world.settle()
    assert not second.done()
    hang.release.set()
    await second
    assert world.broker.core.vault.state is VaultState.LOCKED
    await first


async def test_a_quit_ends_a_lock_that_waits_and_what_waits_for_that(world: Any) -> None:
    world.limits = Limits(quit_s=0.0)
    await world.restart()
    lock, _ = await locking(world)
    lock.cancel()
    core = world.broker.core
    for _ in range(2):
        core.spawn(core.lock("idle"))
    await world.settle()
    await world.broker.shutdown("quit")
    assert not core._tasks
    assert core.vault.state is VaultState.READY, "the quit did not wait for the token call"


async def test_a_quit_waits_until_the_refresh_token_of_a_call_that_went_out_is_stored(world: Any) -> None:
    await added(world, refresh=True)
    hang = Hang()
    world.script((Cross(), Sent(), hang, *granted(refresh_token=REFRESH)[2:]))
    call = world.call(world.session(), **WRITE)
    await world.approve()
    await hang.reached.wait()
    vault, storing, may_store = world.broker.core.vault, threading.Event(), threading.Event()
    write = vault.write

    def slow(*work: Any) -> Any:
        storing.set()
        may_store.wait()
        return write(*work)

    vault.write = slow
    try:
        quit_ = asyncio.ensure_future(world.broker.shutdown("quit"))
        assert world.facts(await call)[1] == "not_attempted"
        hang.release.set()
        await world.broker.core.results.in_thread(storing.wait)
        await world.settle()
        assert not quit_.done()
    finally:
        may_store.set()
    await quit_
    await world.broker.close()
    await world.start()
    await world.unlock()
    (credential,) = world.broker.core.vault.credentials.list()
    assert credential.version == 2
    reader = world.broker.core.projection.reader
    changes = [r for r in reader.records_between(1, reader.head().seq) if r.kind == "OPERATOR_CHANGED"]
    assert len(changes) == 2, "the renewal has a record, as the adding has"
