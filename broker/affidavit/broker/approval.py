"""Which approval mode holds for an action: the strictest of those set (interface, Approval). Pure."""

from __future__ import annotations

from affidavit.broker.terms import STRICTNESS, ApprovalMode, Effect


def mode_of(effect: Effect, *, contract: ApprovalMode | None, credential: ApprovalMode | None) -> ApprovalMode:
    """The mode that holds. If none is set: reads `session`, writes `always`, with or without a credential."""
    given = [m for m in (contract, credential) if m is not None]
    if not given:
        return ApprovalMode.SESSION if effect is Effect.READ else ApprovalMode.ALWAYS
    return max(given, key=STRICTNESS.__getitem__)
