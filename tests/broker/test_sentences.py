"""The sentences of verdicts."""

from __future__ import annotations

import pytest

from affidavit.broker.outcome import Invocation
from affidavit.broker.sentences import sentence
from affidavit.broker.terms import Code, InvocationId, Micros, Outcome, Phase, Retry, State

SAFE = "The target is not available now (status 503). A repeat counts as safe, so this is a refusal."


@pytest.mark.parametrize(
    ("idempotent", "said"),
    [
        ("assumed", SAFE),
        ("true", SAFE),
        ("name", SAFE),
        ("false", "Refused before any work, as the contract says (status 503)."),
    ],
)
def test_the_contract_is_named_only_where_it_lists_the_status(idempotent: str, said: str) -> None:
    """What is not idempotent is refused by a 503 only where its contract lists it (verdicts)."""
    inv = Invocation(
        invocation_id=InvocationId("act_0"),
        state=State.SETTLED,
        accepted_at=Micros(1),
        accepted_record=1,
        phase=Phase.REMOTE_EXECUTION,
        outcome=Outcome.REJECTED,
        code=Code.REMOTE_UNAVAILABLE,
        retry=Retry.BACKOFF,
        session_id="s",
        status=503,
        idempotent=idempotent,
    )
    assert sentence(inv) == said
