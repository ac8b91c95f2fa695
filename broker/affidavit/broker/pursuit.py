"""Pursuits: an operation that the broker repeats by itself, as its contract allows (interface, Approval).

Only with `automatic = true`, only under a decision that covers the repeat already, looking first where one can, and
only while the call that asked is unanswered or was answered `pending`. Once an envelope with `result` or `error` was
given the pursuit is over: only look-ups go on. It ends with a lock, a quit, or its session.
"""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from affidavit.broker.advice import Repeat, decide
from affidavit.broker.first_of import first_of
from affidavit.broker.live import Live
from affidavit.broker.lookup import Worth
from affidavit.broker.outcome import Invocation
from affidavit.broker.refusal import Refused
from affidavit.broker.session import Session
from affidavit.broker.terms import InvocationId, OperationId, Outcome

if TYPE_CHECKING:
    from affidavit.broker.core import Core

PAUSE_S = 1.0
PAUSE_MAX_S = 30.0
"""Before the first repeat, then doubled, with a jitter of a half either way; a target that says how long is heard."""

REPEATABLE = (Repeat.RETRY_NEW_ATTEMPT, Repeat.RETRY_SAME_KEY, Repeat.RETRY_WHEN_ALLOWED)


class Pursuit:
    """One operation at work, through its repeats. `newest` is the invocation whose envelope answers."""

    def __init__(self, session: Session, live: Live) -> None:
        self.session = session
        self.live = live
        self.answered = asyncio.Event()
        """Somebody was given a result or an error: nothing more is repeated."""
        self.done = asyncio.Event()

    @property
    def newest(self) -> InvocationId:
        return self.live.invocation_id

    async def wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self.done.wait()
        except TimeoutError:
            pass


class Pursuits:
    """Owned by the broker's loop."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._at_work: dict[OperationId, Pursuit] = {}

    def begin(self, session: Session, live: Live) -> None:
        """Pursue what was launched, where its contract says so."""
        bound = live.bound
        if bound.contract.retry.automatic and bound.repeats and self.of(bound.operation_id) is None:
            pursuit = self._at_work[bound.operation_id] = Pursuit(session, live)
            self._core.spawn(self._pursue(bound.operation_id, pursuit))

    def of(self, operation_id: OperationId | None) -> Pursuit | None:
        """The pursuit of an operation that may still repeat it."""
        pursuit = self._at_work.get(operation_id) if operation_id is not None else None
        return pursuit if pursuit is not None and not pursuit.answered.is_set() else None

    async def _pursue(self, operation_id: OperationId, pursuit: Pursuit) -> None:
        try:
            n = 0
            while True:
                await pursuit.live.end()
                inv = self._newest(pursuit)
                if inv is None or not self._may_repeat(pursuit, inv):
                    return
                await self._pause(pursuit, inv, n)
                following = await self._repeat(pursuit, inv)
                if following is None:
                    return
                pursuit.live = following
                n += 1
        finally:
            if self._at_work.get(operation_id) is pursuit:
                del self._at_work[operation_id]
            pursuit.done.set()

    def _newest(self, pursuit: Pursuit) -> Invocation | None:
        """What the newest invocation came to, where a redirect was followed that of its last hop."""
        inv = self._core.projection.get(pursuit.newest)
        return self._core.projection.operation_of(inv).end_of(inv) if inv is not None else None

    def _may_repeat(self, pursuit: Pursuit, inv: Invocation) -> bool:
        """Whether the broker goes on by itself: a dispatch that ended in what may be repeated."""
        core = self._core
        gone = pursuit.session.session_id not in core.sessions
        if pursuit.answered.is_set() or core.locked or core.stopping or gone or not inv.dispatched:
            return False
        bound = pursuit.live.last.bound
        if pursuit.live.hop is not None and not (bound.contract.retry.automatic and bound.repeats):
            return False  # what a redirect led to has a contract of its own
        operation = core.projection.operation_of(inv)
        standing = core.repeats.standing(inv, unsafe=False)
        return standing.answered is None and decide(inv, operation, core.now_of(operation)) in REPEATABLE

    async def _pause(self, pursuit: Pursuit, inv: Invocation, n: int) -> None:
        """The backoff before a repeat, cut short where somebody is answered meanwhile."""
        jitter = random.uniform(0.5, 1.5)  # noqa: S311 - spreads repeats, guards nothing
        pause_s = max(min(PAUSE_S * 2**n, PAUSE_MAX_S) * jitter, self._core.repeats.pause_s(inv))
        await first_of(self._core.clock.sleep(pause_s), pursuit.answered.wait())

    async def _repeat(self, pursuit: Pursuit, inv: Invocation) -> Live | None:
        """Look first where one can; then repeat, if that is still allowed and covered by a decision."""
        core = self._core
        now = core.projection.get(inv.invocation_id)
        if now is not None and now.has_lookup and core.projection.operation_of(now).outcome()[0] is Outcome.UNKNOWN:
            if not await self._looked(pursuit, now):
                return None
            now = core.projection.get(inv.invocation_id)
        if now is None or not self._may_repeat(pursuit, now):
            return None
        standing = core.repeats.standing(now, unsafe=False)
        request = await core.repeats.request_of(standing.record)
        if request is None or not self._may_repeat(pursuit, now):
            return None
        try:
            live = core.repeats.launch(pursuit.session, standing, request, unsafe=False, may_ask=False)
        except Refused:
            return None
        return live if isinstance(live, Live) else None

    async def _looked(self, pursuit: Pursuit, inv: Invocation) -> bool:
        """Whether a look-up leaves room for a repeat. While the target still works on it, it is looked at again, for as
        long as a repeat could follow."""
        core = self._core
        assert inv.operation_id is not None
        n = 1
        while self._may_repeat(pursuit, core.projection.get(inv.invocation_id) or inv):
            finding = await core.reconciler.look(inv.operation_id)
            if finding is None or finding.worth is not Worth.PENDING:
                return finding is None or finding.worth not in (Worth.SEVERAL, Worth.OTHER)
            await self._pause(pursuit, inv, n)
            n += 1
        return False
