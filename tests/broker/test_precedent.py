"""What a card says of calls before: by the records, of this run and of earlier ones."""

from __future__ import annotations

from typing import Any

import pytest
from tests.broker.recovery import REFUSED, answer

from affidavit.broker import precedent
from affidavit.broker.card import NoticeKind, Scope

CONTRACT = """
id = "test.things"
[match]
kind = "http"
method = ["POST", "GET"]
url = "https://api.example.com/v1/things/**"
[effect]
kind = "write"
"""
FIRST, USE = NoticeKind.FIRST_CONTACT, NoticeKind.CONTRACT_FIRST_USE


async def asked(world: Any, **given: Any) -> Any:
    """The card of one call, which is approved and sent."""
    call = world.call(world.session(), **given)
    card = await world.approve()
    await call
    return card


def kinds(card: Any) -> list[NoticeKind]:
    return [notice.kind for notice in card.notices]


async def test_the_first_dispatch_to_an_origin_is_marked_and_no_later_one(world: Any) -> None:
    world.script(REFUSED, REFUSED, REFUSED, answer(200), answer(200), answer(200))
    assert kinds(await asked(world)) == [FIRST]
    assert kinds(await asked(world)) == [FIRST], "nothing was sent by the one before"
    assert kinds(await asked(world, url="https://api.example.com/v1/other")) == []
    assert kinds(await asked(world, url="https://api.example.com:8443/v1/things")) == [FIRST]


async def test_what_was_sent_before_a_restart_counts(world: Any) -> None:
    world.script(answer(200))
    assert kinds(await asked(world)) == [FIRST]
    await world.restart()
    world.script(answer(200))
    assert kinds(await asked(world)) == []


async def test_a_contract_is_new_until_something_was_sent_under_its_text(world: Any) -> None:
    await world.adopt(CONTRACT)
    world.script(answer(200), answer(200), answer(200), answer(200))
    url = "https://api.example.com/v1/things/1"
    assert kinds(await asked(world, url=url)) == [FIRST, USE]
    assert kinds(await asked(world, url=url + "2")) == []
    await world.adopt(CONTRACT + "[deadlines]\nrequest = '20s'\n")
    assert kinds(await asked(world, url=url + "3")) == [USE]
    assert kinds(await asked(world, url=url + "4")) == []


async def test_the_record_of_a_card_names_its_notices(world: Any) -> None:
    world.script(answer(200))
    call = world.call(world.session())
    await world.approve()
    events = world.broker.core.projection.records((await call)["invocation_id"])
    assert [p["notices"] for record, p in events if record.kind == "CARD_OPENED"] == [[FIRST]]


async def test_the_last_approved_url_is_of_the_same_route(world: Any) -> None:
    await world.adopt(CONTRACT)
    world.script(*[answer(200)] * 9)
    base = "https://api.example.com/v1"
    assert (await asked(world, url=f"{base}/plain?a=1")).last_url is None
    assert (await asked(world, url=f"{base}/plain?a=2")).last_url == f"{base}/plain?a=1"
    assert (await asked(world, url=f"{base}/other?a=2")).last_url is None
    assert (await asked(world, url=f"{base}/plain?a=3", method="PUT")).last_url is None
    assert (await asked(world, url=f"{base}/things/1")).last_url is None
    assert (await asked(world, url=f"{base}/things/2?x")).last_url == f"{base}/things/1"
    assert (await asked(world, url=f"{base}/things/3", method="GET")).last_url is None
    assert (await asked(world, url=f"{base}/plain?a=4")).last_url == f"{base}/plain?a=2"


async def test_only_what_a_person_approved_is_compared_with(world: Any) -> None:
    world.script(*[answer(200)] * 4)
    url = "https://api.example.com/v1/things"
    session = world.session()
    denied = world.call(session, url=f"{url}?a=0")
    await world.deny()
    await denied
    first = world.call(session, url=f"{url}?a=1", method="GET")
    assert (await world.approve(Scope.SESSION)).last_url is None
    await first
    by_grant = await world.call(session, url=f"{url}?a=2", method="GET")
    assert by_grant["evidence"]["authorization"]["means"] == "grant"
    elsewhere = world.call(world.session("s-2"), url=f"{url}?a=3", method="GET")
    assert (await world.approve()).last_url == f"{url}?a=1"
    await elsewhere
    assert (await asked(world, url=url)).last_url is None


async def test_what_lies_too_far_back_is_not_looked_for(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    world.script(*[answer(200)] * 4)
    url = "https://api.example.com/v1/things"
    await asked(world, url=f"{url}?a=1")
    await asked(world, url=f"{url}/other")
    monkeypatch.setattr(precedent, "AMONG", 1)
    assert (await asked(world, url=f"{url}?a=2")).last_url is None
    monkeypatch.setattr(precedent, "AMONG", 2)
    assert (await asked(world, url=f"{url}?a=3")).last_url == f"{url}?a=2"
