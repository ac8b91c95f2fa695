"""The approval desk: cards that wait for a person, and who may decide them. The approver port of the broker.

The first decision wins. A card lives until it is decided, expires, its caller is gone or cancels, or the vault locks;
then it is closed with the reason, and a later click decides nothing (R15, F18). Owned by the broker's loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from affidavit.broker.api import CardWatcher
from affidavit.broker.card import Card, CardEnd, Decision
from affidavit.broker.limits import Limits
from affidavit.broker.moment import LOOK_S, Clock, End
from affidavit.broker.terms import InvocationId, SessionId


@dataclass(slots=True)
class _Waiting:
    card: Card
    answer: asyncio.Future[Decision | CardEnd]
    end: End
    timer: asyncio.TimerHandle | None = None


class Desk:
    """Waiting cards in the order in which they were asked."""

    def __init__(self, clock: Clock, limits: Limits, loop: asyncio.AbstractEventLoop) -> None:
        self._clock = clock
        self.limits = limits
        self._loop = loop
        self._waiting: dict[InvocationId, _Waiting] = {}
        self._promised: dict[InvocationId, SessionId] = {}
        """Cards that are about to be put up: something is recorded or learnt before."""
        self._watchers: list[CardWatcher] = []
        self._changed: Callable[[], None] = lambda: None

    def on_change(self, listener: Callable[[], None]) -> None:
        self._changed = listener

    def cards(self) -> Sequence[Card]:
        return tuple(w.card for w in self._waiting.values())

    def card(self, invocation_id: InvocationId) -> Card | None:
        waiting = self._waiting.get(invocation_id)
        return waiting.card if waiting else None

    def count(self, session_id: SessionId) -> int:
        """The cards of a session that wait or are promised."""
        waiting = sum(w.card.session.session_id == session_id for w in self._waiting.values())
        return waiting + sum(promised == session_id for promised in self._promised.values())

    def promise(self, invocation_id: InvocationId, session_id: SessionId) -> None:
        """A card will be asked for: it counts from now on, until `withdraw` at the latest."""
        self._promised[invocation_id] = session_id

    def withdraw(self, invocation_id: InvocationId) -> None:
        """The action is over; a card that was promised and never came counts no more."""
        self._promised.pop(invocation_id, None)

    def longest_s(self) -> float:
        """How long a card may wait at most, from when it is asked."""
        if self._watchers:
            return self.limits.card_unshown_s + self.limits.card_shown_s
        return self.limits.card_headless_s

    def watch(self, watcher: CardWatcher) -> Callable[[], None]:
        """Attach a screen: it is told of all cards that wait now and of each later one."""
        self._watchers.append(watcher)
        for waiting in self._waiting.values():
            watcher.card_opened(waiting.card)

        def detach() -> None:
            if watcher in self._watchers:
                self._watchers.remove(watcher)

        return detach

    async def ask(self, card: Card) -> Decision | CardEnd:
        """Put up a card and wait for what becomes of it."""
        self.withdraw(card.invocation_id)
        limit_s = self.limits.card_unshown_s if self._watchers else self.limits.card_headless_s
        waiting = _Waiting(card, self._loop.create_future(), End.after(self._clock, limit_s))
        self._waiting[card.invocation_id] = waiting
        self._look(waiting)
        for watcher in list(self._watchers):
            watcher.card_opened(waiting.card)
        self._changed()
        try:
            return await waiting.answer
        finally:
            self._close(card.invocation_id, CardEnd.CALLER_CANCELLED)

    def shown(self, invocation_id: InvocationId) -> None:
        """The card is on a screen: from the first time on, it has `card_shown_s` left."""
        waiting = self._waiting.get(invocation_id)
        if waiting is None or waiting.card.expires_at is not None:
            return
        waiting.end = End.after(self._clock, self.limits.card_shown_s)
        waiting.card = replace(waiting.card, expires_at=waiting.end.wall, shown_s=self.limits.card_shown_s)
        self._look(waiting)
        for watcher in list(self._watchers):
            watcher.card_opened(waiting.card)

    def decide(self, invocation_id: InvocationId, decision: Decision) -> bool:
        """Whether this was the decision. False: decided elsewhere, expired, or gone."""
        waiting = self._waiting.get(invocation_id)
        if waiting is not None and waiting.end.left_s(self._clock) <= 0:
            self.end(invocation_id, CardEnd.EXPIRED)
            return False
        return self._answer(invocation_id, decision, CardEnd.APPROVED if decision.approve else CardEnd.DENIED)

    def end(self, invocation_id: InvocationId, end: CardEnd) -> bool:
        """Close a card that nobody decided."""
        return self._answer(invocation_id, end, end)

    def end_all(self, end: CardEnd) -> None:
        for invocation_id in list(self._waiting):
            self.end(invocation_id, end)

    def _look(self, waiting: _Waiting) -> None:
        """Close a card whose time is over; else look again, for the loop's clock stands still in a suspend."""
        if waiting.timer is not None:
            waiting.timer.cancel()
        left_s = waiting.end.left_s(self._clock)
        if left_s > 0:
            waiting.timer = self._loop.call_later(min(left_s, LOOK_S), self._look, waiting)
        else:
            self.end(waiting.card.invocation_id, CardEnd.EXPIRED)

    def _answer(self, invocation_id: InvocationId, answer: Decision | CardEnd, end: CardEnd) -> bool:
        waiting = self._waiting.get(invocation_id)
        if waiting is None or waiting.answer.done():
            return False
        waiting.answer.set_result(answer)
        self._close(invocation_id, end)
        return True

    def _close(self, invocation_id: InvocationId, end: CardEnd) -> None:
        waiting = self._waiting.pop(invocation_id, None)
        if waiting is None:
            return
        if waiting.timer is not None:
            waiting.timer.cancel()
        for watcher in list(self._watchers):
            watcher.card_closed(invocation_id, end)
        self._changed()
