"""The envelope: what a caller is told of an invocation, in the one shape of `interface` (section 3, Envelope).

A pure function of recorded facts and the clock. Exactly one of `result`, `pending`, `error` holds the five facts; all
fields of `evidence` are always present, null where unknown, not yet set, or sealed. The answer (`http` or `settled`)
stands beside them, and in `result` or `error` as well: readers look in either place (docs/decisions/0002).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from affidavit.broker import advice
from affidavit.broker import events as ev
from affidavit.broker.advice import Operation, Refusal
from affidavit.broker.moment import rfc3339
from affidavit.broker.outcome import (
    CUT_SHORT,
    RESULT_EXPIRED,
    RESULT_LOST,
    RESULT_SEALED,
    RESULT_UNDELIVERED,
    Invocation,
)
from affidavit.broker.sentences import refused, sentence
from affidavit.broker.terms import Code, Kind, Micros, Outcome, Phase, Retry, Source, State


@dataclass(frozen=True, slots=True)
class BodyView:
    """The stored answer as this caller may have it.

    `seal` is None where it may be read, else what is needed (`operator_unlock`, `operator_approval`). `body` is the
    `http.body` object or None. `written`: a frame with it was written whole to a socket (no record of its own). `lost`:
    what was stored cannot be read back.
    """

    seal: str | None = None
    body: Mapping[str, Any] | None = None
    written: bool = False
    lost: bool = False
    job: Invocation | None = None
    """The job of an acceptance, with what was last seen of it."""
    stderr: Mapping[str, Any] | None = None
    """Of a command; `body` is its standard output."""


def envelope(
    inv: Invocation, operation: Operation, now: Micros, view: BodyView, refusal: Refusal | None = None
) -> dict[str, Any]:
    """The envelope of `inv`. `operation` holds it as a member, oldest first. With a `refusal` its code, retry and
    needs stand in place of the record's own."""
    retry = advice.retry_now(inv, operation, now)
    facts = _facts(inv, advice.code_now(inv, operation), retry, view)
    needs, told = view_needs(inv, view), facts["retry"]
    if refusal is not None:
        facts |= {"code": str(refusal.code), "retry": str(refusal.retry)}
        facts["message"] = refused(refusal.code, refusal.needs)
        needs = refusal.needs
    out: dict[str, Any] = {
        "invocation_id": inv.invocation_id,
        "operation_id": inv.operation_id,
        "correlation_id": inv.correlation_id,
    }
    if not inv.finished:
        waiting = inv.code is Code.AWAITING_APPROVAL
        out["pending"] = {
            **facts,
            "state": "awaiting_approval" if waiting else "running",
            "poll_after_s": 2.0 if waiting else 1.0,
        }
    elif inv.outcome is Outcome.COMMITTED and facts["phase"] != Phase.RESULT_DELIVERY:
        answer = _answer(inv, view)
        out |= {"result": {**facts, **answer}, **answer}
    else:
        for name, value in (("field", inv.field), ("needs", needs)):
            if value is not None:
                facts[name] = value
        answer = _answer(inv, view) if facts["phase"] != Phase.RESULT_DELIVERY else {}
        out |= {"error": {**facts, **answer}, **answer}
    out["evidence"] = _evidence(inv, operation, now, told, view)
    if refusal is not None and refusal.refers_to is not None:
        out["evidence"]["refers_to"] = refusal.refers_to
    return out


def view_needs(inv: Invocation, view: BodyView) -> str | None:
    sealed = view.seal is not None and inv.finished and inv.result_record is not None
    return view.seal if sealed else inv.needs


def _facts(inv: Invocation, code: Code, retry: Retry, view: BodyView) -> dict[str, Any]:
    """code, phase, outcome, retry, message: what delivery adds does not touch the outcome (R38)."""
    phase = inv.phase
    definite = inv.outcome in (Outcome.COMMITTED, Outcome.REJECTED) and inv.result_record is not None
    if definite and inv.expired:
        phase, code, retry = RESULT_EXPIRED
    elif definite and view.seal is not None:
        phase, code, retry = RESULT_SEALED
    elif definite and view.lost:
        phase, code, retry = RESULT_LOST
    elif definite and inv.delivery == "failed":
        phase, code, retry = RESULT_UNDELIVERED
    return {
        "code": str(code),
        "phase": str(phase),
        "outcome": str(inv.outcome),
        "retry": str(retry),
        "message": sentence(inv, code=code, phase=phase),
    }


def _answer(inv: Invocation, view: BodyView) -> dict[str, Any]:
    """`http` where a complete answer was recorded, `settled` where it was settled otherwise."""
    if inv.settlement is not None and inv.source is not Source.REMOTE_RESPONSE:
        return {
            "settled": {
                "source": str(inv.source),
                "record": inv.settlement_record,
                "reference": inv.settlement.reference,
            }
        }
    if inv.completion is not None and not inv.partial and (inv.target or {}).get("kind") == "ssh":
        signal = inv.exit_signal
        return {
            "ssh": {
                "exit_status": inv.exit_status,
                "exit_signal": signal["name"] if signal is not None else None,
                "core_dumped": bool(signal["core_dumped"]) if signal is not None else None,
                "stdout": view.body,
                "stderr": view.stderr,
            }
        }
    if inv.completion is None or inv.status is None or inv.partial:
        return {}
    return {"http": {"status": inv.status, "headers": dict(inv.headers), "body": view.body}}


def _evidence(inv: Invocation, operation: Operation, now: Micros, retry: str, view: BodyView) -> dict[str, Any]:
    outcome, by = operation.outcome()
    complete = inv.completion is not None and inv.completion not in CUT_SHORT
    evidence: dict[str, Any] = {
        "dispatch_started": inv.dispatched,
        "dispatch_record": inv.dispatch_record,
        "request_complete": inv.bytes_sent is not None,
        "response_headers_received": inv.completion is not None or Kind.REMOTE_RESPONSE_STARTED in inv.seen,
        "response_complete": complete,
        "completion": inv.completion,
        "attempt": inv.attempt,
        "retry_of": inv.retry_of,
        "attempts": [
            {"n": a.n, "reached": a.reached, "stage": a.stage, "outcome": str(Outcome.NOT_ATTEMPTED), "code": a.code}
            for a in inv.attempts
        ],
        "operation": {
            "outcome": str(outcome),
            "by": by,
            "invocations": [m.invocation_id for m in operation.members],
        },
        "target": target_of(inv),
        "times": {
            "accepted": rfc3339(inv.accepted_at),
            "dispatched": rfc3339(inv.dispatched_at),
            "settled": rfc3339(inv.settled_at),
        },
        "fingerprint": inv.fingerprint,
        "source": str(inv.source) if inv.source is not None and inv.outcome is not Outcome.NOT_ATTEMPTED else None,
        "transport_observation": inv.observation,
        "last_confirmed": {"stage": inv.last.stage, "at": rfc3339(inv.last.at), "record": inv.last.record}
        if inv.last
        else None,
        "idempotency": _idempotency(inv),
        "contract": _contract(inv),
        "reconcile": {"available": inv.has_lookup, **(inv.lookup or {})},
        "retry_allowed": advice.retry_allowed(Retry(retry), inv, operation, now),
        "retry_after_s": inv.retry_after_s,
        "attempts_left": advice.attempts_left(inv, operation),
        "connection": dict(inv.connection) if inv.connection is not None else None,
        "authorization": _authorization(inv),
        "deadlines": {"request": rfc3339(inv.request_deadline), "recovery": rfc3339(inv.recovery_deadline)},
        "remote_request_id": inv.remote_request_id,
        "response_sha256": inv.response_sha256,
        "result_record": inv.result_record,
        "delivery": inv.delivery or ("written" if view.written else None),
        "diagnostic": dict(inv.diagnostic) if inv.diagnostic is not None else None,
        "job": _job(inv, view.job),
        "items": _items(inv),
    }
    if inv.refers_to is not None:
        evidence["refers_to"] = inv.refers_to
    if inv.redirect is not None:
        evidence["redirect"] = _redirect(inv.redirect, operation.hop(inv))
    if inv.hop is not None:
        evidence["hop"] = inv.hop
    if inv.connection is not None and "resolved_by" in inv.connection:
        evidence["resolved_by"] = inv.connection["resolved_by"]
    if inv.consistency is not None:
        evidence["consistency"] = inv.consistency
    if inv.looked is not None:
        evidence["looked_up"] = {
            "invocation_id": inv.looked.invocation_id,
            "at": rfc3339(inv.looked.at),
            "record": inv.looked.record,
            "answer": inv.looked.answer,
            "worth": inv.looked.worth,
        }
    if inv.stdin is not None:
        evidence["stdin"] = dict(inv.stdin)
    if inv.disputed:
        evidence["disputed"] = True
    return evidence


def _redirect(redirect: ev.Redirect, hop: Invocation | None) -> dict[str, Any]:
    """Where a redirect led, and whether anything went there."""
    return {
        "url": redirect.url,
        "followed": hop is not None and hop.dispatched,
        "invocation_id": redirect.hop,
        "code": str(redirect.code) if redirect.code is not None else None,
        "why": redirect.why,
    }


def _job(inv: Invocation, job: Invocation | None) -> dict[str, Any] | None:
    """What is known of the job that an acceptance names, or that `inv` is."""
    named = inv.job
    if named is None:
        return None
    looked = inv.looked if inv.is_job else job.looked if job is not None else None
    return {
        "operation_id": named.operation_id,
        "id": named.job_id,
        "status_url": named.status_url,
        "state": looked.state if looked is not None else None,
        "checked_at": rfc3339(looked.at) if looked is not None else None,
    }


def _items(inv: Invocation) -> list[dict[str, Any]] | None:
    if inv.items is None:
        return None
    return [{"key": item.key, "outcome": str(item.outcome), "evidence": item.evidence} for item in inv.items]


def target_of(inv: Invocation) -> dict[str, Any] | None:
    """What is bound as the target, or of what was refused before that, what was asked for; None where none is told."""
    if inv.target is not None:
        return dict(inv.target)
    if "command" in inv.asked:
        return {"kind": "ssh", "host": inv.asked.get("host"), "command": inv.asked["command"]}
    if "url" not in inv.asked:
        return None
    return {"kind": "http", "method": inv.asked.get("method"), "url": inv.asked["url"]}


def _idempotency(inv: Invocation) -> dict[str, Any] | None:
    if inv.state is State.ACCEPTED or (inv.partial and inv.request_fingerprint is None):
        return None
    return {
        "key": inv.key,
        "scope": inv.key_scope,
        "fingerprint": inv.request_fingerprint,
        "remote_contract": "configured" if inv.key is not None else "none",
        "window_open_until": rfc3339(inv.window_open_until),
    }


def _contract(inv: Invocation) -> dict[str, Any] | None:
    if inv.contract_id is None:
        return None
    idempotent = {"true": True, "false": False}.get(inv.idempotent or "", inv.idempotent)
    return {
        "id": inv.contract_id,
        "digest": inv.contract_digest,
        "effect": str(inv.effect) if inv.effect else None,
        "idempotent": idempotent,
        "answers": dict(inv.answers) if inv.answers is not None else None,
    }


def _authorization(inv: Invocation) -> dict[str, Any] | None:
    if inv.approval is None:
        return None
    return {
        "decision": "approved" if inv.approval.approved else "denied",
        "means": inv.approval.means,
        "by": inv.approval.by,
        "reason": inv.approval.reason,
        "record": inv.approval_record,
    }
