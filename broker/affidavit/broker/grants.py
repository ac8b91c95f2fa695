"""Grants: what a session may do without being asked again (interface, Approval).

A grant covers (session, method, origin, route, credential); route is the contract's pattern, else the exact path. It
ends with its session, at its time, at lock, and when the same scope is granted anew. Its beginning and its end are
recorded here. Kept in memory only: no authorisation survives a restart (R15). Owned by the broker's loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from affidavit.broker.moment import SECOND, Clock, End
from affidavit.broker.terms import Kind, Micros, SessionId


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


@dataclass(slots=True)
class _Held:
    grant: Grant
    uses: int = 0


class Grants:
    """The grants that hold now, by scope: one a scope."""

    def __init__(self, clock: Clock, note: Callable[[Kind, dict[str, Any]], object]) -> None:
        """`note` appends a record that belongs to no invocation."""
        self._clock, self._note = clock, note
        self._held: dict[Scope, _Held] = {}
        self._given = 0

    def __len__(self) -> int:
        return len(self._held)

    def give(self, scope: Scope, until: Micros, longest_s: float) -> Grant | None:
        """Grant a scope until the time that the operator was shown, and for `longest_s` at most; None if that is over.

        A grant that holds the scope already ends with it.
        """
        duration_s = min((until - self._clock.wall()) / SECOND, longest_s)
        if duration_s <= 0:
            return None
        if (held := self._held.get(scope)) is not None:
            self._end([held], "granted anew")
        self._given += 1
        grant = Grant(f"grant-{self._given}", scope, self._clock.wall(), End.after(self._clock, duration_s))
        self._held[scope] = _Held(grant)
        self._note(
            Kind.GRANT_GIVEN,
            {
                "grant": grant.grant_id,
                "session": scope.session_id,
                "method": scope.method,
                "origin": scope.origin,
                "route": scope.route,
                "credential": scope.credential_id,
                "expires_at": grant.expires_at,
            },
        )
        return grant

    def covers(self, scope: Scope) -> bool:
        held = self._held.get(scope)
        return held is not None and not self._over(held)

    def covering(self, scope: Scope) -> Grant | None:
        """The grant that covers `scope` now, counted as used. The earlier of wall and boot clock ends it."""
        held = self._held.get(scope)
        if held is None or self._over(held):
            return None
        held.uses += 1
        return held.grant

    def end_expired(self) -> None:
        self._end([held for held in self._held.values() if self._over(held)], "its time was over")

    def end_session(self, session_id: SessionId) -> None:
        self._end([h for h in self._held.values() if h.grant.scope.session_id == session_id], "session ended")

    def end_all(self, why: str) -> None:
        self._end(list(self._held.values()), why)

    def _over(self, held: _Held) -> bool:
        return held.grant.end.left_s(self._clock) <= 0

    def _end(self, ending: Iterable[_Held], why: str) -> None:
        for held in ending:
            del self._held[held.grant.scope]
            self._note(Kind.GRANT_ENDED, {"grant": held.grant.grant_id, "why": why, "uses": held.uses})
