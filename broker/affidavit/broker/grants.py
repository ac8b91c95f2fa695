"""Grants: what a session may do without being asked again (interface, Approval).

A grant covers (session, method, origin, route, credential); route is the contract's pattern, else the exact path. It
ends with its session, at its time, at lock, and when the operator ends it. Kept in memory only: no authorisation
survives a restart (R15). Owned by the broker's loop.
"""

from __future__ import annotations

from dataclasses import dataclass

from affidavit.broker.moment import Clock, End
from affidavit.broker.terms import Micros, SessionId


@dataclass(frozen=True, slots=True)
class Scope:
    """What a grant covers."""

    session_id: SessionId
    method: str
    origin: str
    route: str
    credential_id: str | None


@dataclass(frozen=True, slots=True)
class Grant:
    grant_id: str
    scope: Scope
    given_at: Micros
    end: End

    @property
    def expires_at(self) -> Micros:
        return self.end.wall


class Grants:
    """The grants that hold now, by scope."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._held: dict[Scope, Grant] = {}
        self._uses: dict[str, int] = {}
        self._given = 0

    def __len__(self) -> int:
        return len(self._held)

    def give(self, scope: Scope, duration_s: float) -> Grant:
        self._given += 1
        grant = Grant(f"grant-{self._given}", scope, self._clock.wall(), End.after(self._clock, duration_s))
        self._held[scope] = grant
        self._uses[grant.grant_id] = 0
        return grant

    def covers(self, scope: Scope) -> bool:
        grant = self._held.get(scope)
        return grant is not None and not self._over(grant)

    def covering(self, scope: Scope) -> Grant | None:
        """The grant that covers `scope` now, counted as used. The earlier of wall and boot clock ends it."""
        grant = self._held.get(scope)
        if grant is None or self._over(grant):
            return None
        self._uses[grant.grant_id] += 1
        return grant

    def uses(self, grant: Grant) -> int:
        return self._uses.get(grant.grant_id, 0)

    def end_expired(self) -> tuple[Grant, ...]:
        return self._end([g for g in self._held.values() if self._over(g)])

    def end_session(self, session_id: SessionId) -> tuple[Grant, ...]:
        return self._end([g for g in self._held.values() if g.scope.session_id == session_id])

    def end_all(self) -> tuple[Grant, ...]:
        return self._end(list(self._held.values()))

    def _over(self, grant: Grant) -> bool:
        return grant.end.left_s(self._clock) <= 0

    def _end(self, grants: list[Grant]) -> tuple[Grant, ...]:
        for grant in grants:
            self._held.pop(grant.scope, None)
        return tuple(grants)
