"""Following redirects: what a redirect asks for is accepted as the next invocation of its operation (R20).

A redirect is the complete result of its exchange and is recorded as that. Where its contract lets it be followed, the
hop is planned before, so that the record says what became of it, and accepted in the same turn of the loop: a hop is
never lost between two records, and nobody is told that the operation has ended. It is decided anew: checks, contract,
card or grant, deadline. A hop that is stopped before its line leaves the redirect as the answer, not followed.

What a redirect asks for is decided in `redirect`, what binds it in `admission`. Owned by the broker's loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from affidavit.broker import events as ev
from affidavit.broker.admission import Admitted, admit_hop
from affidavit.broker.bound import HttpBound
from affidavit.broker.launch import launch_hop
from affidavit.broker.live import Live
from affidavit.broker.outcome import Invocation
from affidavit.broker.redirect import Asked, NotFollowed, Step, step
from affidavit.broker.refusal import Refused
from affidavit.broker.request import HttpAsk
from affidavit.broker.terms import Effect, Micros
from affidavit.broker.work import Redirection

if TYPE_CHECKING:
    from affidavit.broker.core import Core


@dataclass(frozen=True, slots=True)
class Plan:
    """What was decided about a redirect, and what begins once that is recorded."""

    redirect: ev.Redirect
    begin: Callable[[], object]


class Redirects:
    """Owned by the broker's loop."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def plan(self, live: Live, found: Redirection) -> Plan | None:
        """Decide whether the redirect of `live` is followed; None where its contract says nothing of redirects."""
        bound = live.bound
        inv = self._core.projection.get(live.invocation_id)
        assert isinstance(bound, HttpBound)
        assert inv is not None
        if bound.follow == 0 and not bound.trail:
            return None
        url = None
        try:
            self._check_wanted(live)
            going = self._step(bound, inv, found)
            url = going.target.url
            _check_trail(bound, going)
            ask, admitted = admit_hop(self._core, bound, inv, going, deadline_s=_left_s(live))
        except NotFollowed as why:
            return Plan(ev.Redirect(url=url, why=f"{why}"), _nothing)
        except Refused as refused:
            return Plan(ev.Redirect(url=url, why=refused.message, code=refused.code), _nothing)
        return Plan(ev.Redirect(hop=admitted.invocation_id, url=url), lambda: self._begin(live, inv, ask, admitted))

    def _check_wanted(self, live: Live) -> None:
        """Whether anybody still wants it followed, and may."""
        if live.cancelled or live.caller_gone:
            raise NotFollowed("Nobody waits for it any more.")
        if self._core.locked:
            raise NotFollowed("The vault is locked.")
        if _left_s(live) <= 0:
            raise NotFollowed("Its deadline is past.")

    def _step(self, bound: HttpBound, inv: Invocation, found: Redirection) -> Step:
        if found.location is None:
            raise NotFollowed("Its Location names no one place that may be kept.")
        asked = Asked(
            method=bound.method,
            target=bound.target,
            headers=bound.headers,
            named=self._agents_headers(inv),
            has_body=bound.has_body,
            writes=bound.effect is Effect.WRITE,
        )
        return step(found.status, found.location, asked, self._core.limits)

    def _agents_headers(self, inv: Invocation) -> frozenset[str]:
        """The headers that the agent gave, as the operation's first invocation was asked: a repeat and a hop are asked
        with what was planted then."""
        first = self._core.projection.operation_of(inv).members[0]
        return frozenset(first.asked.get("headers", ()))

    def _begin(self, live: Live, inv: Invocation, ask: HttpAsk, admitted: Admitted) -> None:
        """However long a card takes: no later than the recovery deadline and, under a key, its window allow."""
        first = self._core.projection.operation_of(inv).first_dispatched
        ends = [first.recovery_deadline if first is not None else None]
        if admitted.bound.key is not None:
            ends.append(inv.window_open_until)
        launch_hop(self._core, live, ask, admitted, until=_earliest(ends))


def _check_trail(bound: HttpBound, going: Step) -> None:
    """A limit on hops, and no place twice."""
    if bound.follow == 0:
        raise NotFollowed(f"{len(bound.trail)} were followed, and no more may be.")
    if (going.method, going.target.url) in (*bound.trail, (bound.method, bound.target.url)):
        raise NotFollowed("It leads back to where it came from.")


def _earliest(ends: list[Micros | None]) -> Micros | None:
    return min((end for end in ends if end is not None), default=None)


def _left_s(live: Live) -> float:
    assert live.deadline is not None, "it was dispatched"
    return live.deadline - asyncio.get_running_loop().time()


def _nothing() -> None:
    """Nothing follows."""
