"""Recovery at start: what an earlier run left open is brought to rest by the table of moves; nothing is sent.

Needs no vault; its work is proportional to open actions, not to history (verdicts, section 7, "At start"; R75).
"""

from __future__ import annotations

from affidavit.broker import events as ev
from affidavit.broker.outcome import Invocation, Meaning, advice_unknown, stop
from affidavit.broker.projection import Projection
from affidavit.broker.terms import Code, InvocationId, Source, State


def recover(projection: Projection) -> list[InvocationId]:
    """Close every invocation that an earlier run left open, in one barrier; returns their ids."""
    found: list[InvocationId] = []
    last = None
    for invocation_id in projection.open_in_journal():
        inv = projection.get(invocation_id)
        if inv is None or inv.finished or inv.is_job:
            continue  # a job stays open: it is followed
        _, last = projection.record(invocation_id, at_rest(inv))
        found.append(invocation_id)
    if last is not None:
        projection.flush().wait()
    return found


def at_rest(inv: Invocation) -> ev.ActionStopped | ev.OutcomeUnknown:
    """The event that ends an open invocation after a stop of the broker."""
    if inv.state is not State.OPEN:
        verdict = stop(Code.BROKER_RESTARTED, inv.phase)
        return ev.ActionStopped(phase=verdict.phase, code=verdict.code, retry=verdict.retry)
    meaning = Meaning(idempotent=inv.known_idempotent, keyed=inv.window_open_until is not None)
    return ev.OutcomeUnknown(
        code=Code.BROKER_RESTARTED,
        retry=advice_unknown(meaning),
        source=Source.TRANSPORT_OBSERVED,
        observation="the broker stopped before an answer was recorded",
    )
