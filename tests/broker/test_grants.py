"""Grants by themselves, and what a press on a card's button gives."""

from __future__ import annotations

from typing import Any

from affidavit.broker.card import Scope as CardScope
from affidavit.broker.grants import Grant, Grants, Scope
from affidavit.broker.limits import Limits
from affidavit.broker.moment import SECOND, SystemClock, after
from affidavit.broker.terms import Kind, Micros, SessionId
from affidavit.broker.wire.scripted import Complete, Cross, Head, Sent

SCOPE = Scope(SessionId("s-1"), "GET", "https://api.example.com", "/v1/things", None)
OTHER = Scope(SessionId("s-2"), "GET", "https://api.example.com", "/v1/things", None)
OK = (Cross(), Sent(), Head(200), Complete())


class Clock(SystemClock):
    """The system's clock, moved on by `ahead_s`."""

    ahead_s = 0.0

    def wall(self) -> Micros:
        return after(super().wall(), self.ahead_s)

    def boot(self) -> float:
        return super().boot() + self.ahead_s


class Noted:
    """Grants on a scripted clock, and the records that they made."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.records: list[tuple[Kind, dict[str, Any]]] = []
        self.grants = Grants(self.clock, lambda kind, payload: self.records.append((kind, payload)))

    def give(self, scope: Scope = SCOPE, *, shown_s: float = 1800, longest_s: float = 1800) -> Grant | None:
        return self.grants.give(scope, after(self.clock.wall(), shown_s), longest_s)

    def ended(self) -> list[tuple[str, str, int]]:
        return [(said["grant"], said["why"], said["uses"]) for kind, said in self.records if kind is Kind.GRANT_ENDED]


def test_a_grant_ends_at_what_was_shown_or_at_the_limit_whichever_is_earlier() -> None:
    noted = Noted()
    now = noted.clock.wall()
    short, long = noted.give(shown_s=60), noted.give(OTHER, shown_s=3600, longest_s=90)
    assert short is not None
    assert long is not None
    assert abs(short.expires_at - now - 60 * SECOND) < SECOND
    assert abs(long.expires_at - now - 90 * SECOND) < SECOND
    noted.clock.ahead_s += 61
    assert not noted.grants.covers(SCOPE)
    assert noted.grants.covers(OTHER)


def test_nothing_is_granted_when_the_shown_time_is_over() -> None:
    noted = Noted()
    assert noted.give(shown_s=0) is None
    assert not noted.records
    assert len(noted.grants) == 0


def test_a_scope_granted_anew_ends_the_grant_that_held_it() -> None:
    noted = Noted()
    first = noted.give()
    assert first is not None
    assert noted.grants.covering(SCOPE) == first
    second = noted.give()
    assert second is not None
    assert [kind for kind, _ in noted.records] == [Kind.GRANT_GIVEN, Kind.GRANT_ENDED, Kind.GRANT_GIVEN]
    assert noted.ended() == [(first.grant_id, "granted anew", 1)]
    noted.grants.end_all("operator")
    assert noted.ended()[1:] == [(second.grant_id, "operator", 0)]


def test_each_end_is_recorded_with_its_cause_and_its_uses() -> None:
    noted = Noted()
    first, _ = noted.give(shown_s=60), noted.give(OTHER)
    assert first is not None
    for _ in range(3):
        noted.grants.covering(SCOPE)
    noted.grants.end_expired()
    assert not noted.ended()
    noted.clock.ahead_s += 61
    noted.grants.end_expired()
    noted.grants.end_session(SessionId("s-2"))
    assert noted.ended() == [("grant-1", "its time was over", 3), ("grant-2", "session ended", 0)]
    assert len(noted.grants) == 0


async def test_a_grant_lasts_no_longer_than_its_button_said(world: Any) -> None:
    world.limits = Limits(grant_s=300)
    await world.restart()
    world.script(OK, OK)
    session = world.session()
    call = world.call(session, method="GET")
    card = await world.card()
    world.clock.ahead_s += 240  # the card lay there, unseen
    await world.approve(CardScope.SESSION)
    await call
    world.clock.ahead_s += (card.grant_until - world.clock.wall()) / SECOND - 10
    assert world.facts(await world.call(session, method="GET"))[1] == "committed"
    world.clock.ahead_s += 11
    world.script(OK)
    late = world.call(session, method="GET")
    await world.deny()
    assert world.facts(await late)[2] == "APPROVAL_DENIED"


async def test_two_cards_of_one_scope_leave_one_grant(world: Any) -> None:
    world.script(OK, OK)
    session = world.session()
    calls = [world.call(session, method="GET", headers={"X-Page": str(n)}) for n in range(2)]
    await world.cards(2)
    for _ in calls:
        await world.approve(CardScope.SESSION)
    for call in calls:
        assert world.facts(await call)[1] == "committed"
    assert world.broker.core.status()["grants"] == 1
    await world.broker.core.lock("operator")
    core = world.broker.core
    await core.projection.flush().durable()
    kinds = [record.kind for record in core.projection.reader.records_between(1, core.projection.reader.head().seq)]
    assert kinds.count("GRANT_GIVEN") == kinds.count("GRANT_ENDED") == 2
