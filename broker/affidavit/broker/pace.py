"""Pace: how many new actions a session may bring, and how invalid requests that repeat are slowed (R10).

Both are pure of I/O; the clock is passed in as seconds since boot. Owned by the broker's loop.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from affidavit.broker.limits import Limits
from affidavit.broker.terms import InvocationId, SessionId


class Rate:
    """A token bucket for each session: `actions_per_s` after a burst of `actions_burst`."""

    def __init__(self, limits: Limits, boot: Callable[[], float]) -> None:
        self.limits = limits
        self._boot = boot
        self._buckets: dict[SessionId, tuple[float, float]] = {}

    def take(self, session_id: SessionId) -> bool:
        now = self._boot()
        left, at = self._buckets.get(session_id, (float(self.limits.actions_burst), now))
        left = min(float(self.limits.actions_burst), left + (now - at) * self.limits.actions_per_s)
        allowed = left >= 1
        self._buckets[session_id] = (left - 1 if allowed else left, now)
        return allowed

    def forget(self, session_id: SessionId) -> None:
        self._buckets.pop(session_id, None)


@dataclass(slots=True)
class _Loop:
    times: list[float] = field(default_factory=list)
    invocation_id: InvocationId | None = None
    """Of the request that made it a loop: later ones carry it."""
    later: int = 0
    delay_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Looping:
    """The same invalid request came again and again. `invocation_id` is None for the one that makes it a loop."""

    invocation_id: InvocationId | None
    delay_s: float


@dataclass(frozen=True, slots=True)
class LoopEnded:
    session_id: SessionId
    digest: str
    invocation_id: InvocationId
    count: int


class LoopGuard:
    """Recognises the same invalid request of one session: the 5th within a minute, and those that follow."""

    KEPT = 1024
    """Digests remembered at most; the longest unseen one is forgotten first."""

    def __init__(self, limits: Limits, boot: Callable[[], float]) -> None:
        self.limits = limits
        self._boot = boot
        self._seen: OrderedDict[tuple[SessionId, str], _Loop] = OrderedDict()

    def invalid(self, session_id: SessionId, digest: str) -> Looping | None:
        """Count one invalid request; Looping if it is part of a loop."""
        now = self._boot()
        key = (session_id, digest)
        loop = self._seen.setdefault(key, _Loop())
        self._seen.move_to_end(key)
        loop.times = [t for t in loop.times if now - t < self.limits.loop_window_s] + [now]
        while len(self._seen) > self.KEPT:
            self._seen.popitem(last=False)
        if len(loop.times) < self.limits.loop_count:
            loop.invocation_id, loop.delay_s = None, 0.0
            return None
        loop.times = loop.times[-self.limits.loop_count :]
        loop.delay_s = min(self.limits.loop_delay_max_s, loop.delay_s * 2 or self.limits.loop_delay_s)
        if loop.invocation_id is not None:
            loop.later += 1
        return Looping(loop.invocation_id, loop.delay_s)

    def began(self, session_id: SessionId, digest: str, invocation_id: InvocationId) -> None:
        """Name the invocation that made it a loop."""
        self._seen[session_id, digest].invocation_id = invocation_id

    def ended(self) -> tuple[LoopEnded, ...]:
        """Loops that stopped, each to be counted in one record."""
        now = self._boot()
        over = []
        for (session_id, digest), loop in list(self._seen.items()):
            if now - loop.times[-1] < max(self.limits.loop_window_s, loop.delay_s * 2):
                continue
            del self._seen[session_id, digest]
            if loop.invocation_id is not None and loop.later:
                over.append(LoopEnded(session_id, digest, loop.invocation_id, loop.later))
        return tuple(over)
