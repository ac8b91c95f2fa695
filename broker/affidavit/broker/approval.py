"""Which approval mode holds for an action: the strictest of those set (interface, Approval). Pure."""

from __future__ import annotations

from dataclasses import dataclass

from affidavit.broker.terms import STRICTNESS, ApprovalMode, Effect


@dataclass(frozen=True, slots=True)
class Borrowed:
    """A decision that was made on another invocation and covers this one, too: its look-up, or a repeat that its card
    named. `means` and `by` are that decision's."""

    means: str | None
    by: str | None
    grant: str | None = None
    repeats_left: int = 0


def mode_of(effect: Effect, *, contract: ApprovalMode | None, credential: ApprovalMode | None) -> ApprovalMode:
    """The mode that holds. If none is set: reads `session`, writes `always`, with or without a credential."""
    given = [m for m in (contract, credential) if m is not None]
    if not given:
        return ApprovalMode.SESSION if effect is Effect.READ else ApprovalMode.ALWAYS
    return max(given, key=STRICTNESS.__getitem__)
