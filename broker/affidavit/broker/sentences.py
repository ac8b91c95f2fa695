"""One sentence for each verdict, for a person: `message` in the envelope. It is never needed to decide (R2).

The words follow the design's table: "sent" means handed to a connection, "answered" a complete authentic answer, and
"Nothing was sent" stands only beside `not_attempted`.
"""

from __future__ import annotations

from affidavit.broker.outcome import MARKER, Invocation
from affidavit.broker.terms import Code, Outcome, Phase, Retry, Source, State


def sentence(inv: Invocation, *, code: Code | None = None, phase: Phase | None = None) -> str:
    """The sentence of an invocation; `code` and `phase` where delivery or a refusal gives other ones."""
    shown = code or inv.code
    if shown is Code.RESULT_STORAGE_FAILED and inv.result_record is not None:
        return "It is done and recorded. The stored result cannot be read; its status and hash remain in the record."
    if shown in _DELIVERY:
        return _DELIVERY[shown]
    if inv.state in (State.ACCEPTED, State.VALIDATED, State.AUTHORISED, State.OPEN):
        return _open(inv)
    if inv.outcome is Outcome.NOT_ATTEMPTED:
        return _stopped(inv)
    record = f" (record {inv.settlement_record})" if inv.settlement_record is not None else ""
    if inv.source is Source.OPERATOR_ATTESTED:
        return f"The operator attested it as {inv.outcome}{record}."
    if inv.source is Source.REMOTE_QUERY:
        return f"A look-up settled it{record}: the target has it as {inv.outcome}."
    said = _UNKNOWN.get((shown, inv.message)) if inv.outcome is Outcome.UNKNOWN else None
    return said or _answered(inv, shown)


_DELIVERY = {
    Code.RESULT_UNDELIVERED: ("It is done and recorded. The result did not reach the agent; it can still be fetched."),
    Code.RESULT_SEALED: "It is done and recorded. The result is sealed for now.",
    Code.RESULT_STORAGE_FAILED: (
        "An answer came but could not be stored. Free some space; until then it counts as unknown."
    ),
    Code.RESULT_EXPIRED: "The result was deleted after its retention. Status and hash remain in the record.",
}

_UNKNOWN: dict[tuple[Code, str | None], str] = {
    (Code.REMOTE_OUTCOME_UNKNOWN, None): (
        "It was sent. The connection closed before any answer was recorded, so it may or may not have happened."
    ),
    (Code.REMOTE_OUTCOME_UNKNOWN, "answer_before_whole"): (
        "It was sent. The target answered before the request was whole; that proves nothing about the rest."
    ),
    (Code.REMOTE_OUTCOME_UNKNOWN, "answer_before_request"): (
        "It was sent. An answer was there before the request; it answers nothing."
    ),
    (Code.REMOTE_OUTCOME_UNKNOWN, "part"): "Answered completely. The answer says that part of it may have happened.",
    (Code.REMOTE_OUTCOME_UNKNOWN, "unreadable"): (
        "Answered completely, but the part of the answer that decides could not be read."
    ),
    (Code.REMOTE_DEADLINE, None): "It was sent. No answer came within the deadline. It may still be running.",
    (Code.REMOTE_DEADLINE, "job"): "It was accepted. The job had not ended by its recovery deadline.",
    (Code.REMOTE_RESULT_INCOMPLETE, None): ("It was sent. The answer broke off or was malformed, and does not count."),
    (Code.CALLER_CANCELLED, None): "It was sent, then the caller cancelled. That does not undo it.",
    (Code.CALLER_CANCELLED, "caller_ended"): "It was sent, then the caller ended. That does not undo it.",
    (Code.BROKER_RESTARTED, None): "It was sent. Affidavit stopped before an answer was recorded.",
    (Code.REMOTE_IN_PROGRESS, None): (
        "The target says the key is in use. That speaks about the repeat, not about the first attempt."
    ),
    (Code.RESULT_STORAGE_FAILED, None): (
        "An answer came but could not be stored. Free some space; until then it counts as unknown."
    ),
}


def refused(code: Code, needs: str | None) -> str:
    """The sentence of a repeat that was refused; nothing was sent."""
    return _REFUSED_NEEDS_REQUEST if needs == "request" else _REFUSED[code]


_REFUSED_NEEDS_REQUEST = "Nothing was sent again. The request is no longer kept here; give it once more."

_REFUSED = {
    Code.RETRY_BUDGET_EXHAUSTED: "Nothing was sent again. All attempts of this operation are used up.",
    Code.LEASE_LOST: "Nothing was sent again. Another repeat of this operation is under way.",
    Code.RETRY_REFUSED: "Nothing was sent again. A repeat is not safe here; look at the target first.",
}


def _open(inv: Invocation) -> str:
    if inv.code is Code.AWAITING_APPROVAL:
        return "Not sent yet. A card is waiting for the operator."
    if inv.dispatched:
        return f"It was sent (record {inv.dispatch_record}). No answer is recorded yet."
    return "Not sent yet. It is being prepared."


_STOPPED: dict[Code, str] = {
    Code.CREDENTIAL_UNKNOWN: "The named credential does not exist, or is not bound to this target.",
    Code.CREDENTIAL_OUT_OF_SCOPE: "The named credential does not exist, or is not bound to this target.",
    Code.IDEMPOTENCY_MISMATCH: "This operation or key is known with another content.",
    Code.UNRESOLVED_DUPLICATE: "The same write is still unknown or still running.",
    Code.NO_IDEMPOTENCY_CONTRACT: "No contract says that this target understands a key.",
    Code.REQUEST_LOOP: "The same invalid request came again and again.",
    Code.BUSY: "Too many actions are open; this one may come back later.",
    Code.FINGERPRINT_CHANGED: "The request changed after it was approved. It needs a new card.",
    Code.VAULT_LOCKED: "The vault is locked; the operator must unlock it.",
    Code.VAULT_QUARANTINED: "The journal does not continue the last checkpoint; the operator must review it.",
    Code.APPROVAL_DENIED: "The operator denied it.",
    Code.APPROVAL_EXPIRED: "Nobody answered the card in time.",
    Code.APPROVAL_UNAVAILABLE: "No one could be asked.",
    Code.CALLER_CANCELLED: "The caller cancelled or ended.",
    Code.LEASE_LOST: "Another worker holds this action; its result will be there.",
    Code.CREDENTIAL_MISSING: "The credential has no secret that can be used.",
    Code.INJECTION_UNSUPPORTED: "This kind of credential cannot be used here.",
    Code.KEY_UNUSABLE: "The credential's key cannot be read.",
    Code.TOKEN_UNAVAILABLE: "The token service gave no token.",
    Code.DNS_FAILED: "The target's name could not be resolved.",
    Code.CONNECT_FAILED: "The target could not be connected to.",
    Code.CONNECT_TIMEOUT: "No connection came about in time.",
    Code.TLS_FAILED: "The TLS handshake broke off.",
    Code.CERT_INVALID: "The target's certificate is not valid for it.",
    Code.PROXY_FAILED: "The proxy opened no tunnel.",
    Code.SSH_TRANSPORT_FAILED: "The connection to the host broke off before a command could be given.",
    Code.HOST_KEY_UNKNOWN: "No key is pinned for this host, or the one that it shows was revoked.",
    Code.HOST_KEY_MISMATCH: "The host key differs from the pinned one. Ask its administrator first.",
    Code.SSH_AUTH_FAILED: "The host did not accept the credential.",
    Code.SSH_CHANNEL_REFUSED: "The host opened no channel.",
    Code.SSH_ENV_REFUSED: "The host refused a variable.",
    Code.JOURNAL_UNAVAILABLE: "The dispatch could not be recorded.",
    Code.BROKER_RESTARTED: "Affidavit stopped before dispatch.",
    Code.TARGET_BLOCKED: "The target's address is not allowed.",
}


def _stopped(inv: Invocation) -> str:
    said = inv.message or _STOPPED.get(inv.code, "The request is not valid.")
    if inv.code is Code.APPROVAL_DENIED and inv.approval is not None and inv.approval.reason:
        said = f'The operator denied it: "{inv.approval.reason}".'
    if inv.attempts and inv.phase is Phase.CONNECTION_SETUP:
        last, tries = inv.attempts[-1], len(inv.attempts)
        return f"Nothing was sent. {said} {last.code} at {last.stage}, {tries} {'try' if tries == 1 else 'tries'}."
    return f"Nothing was sent. {said}"


def _answered(inv: Invocation, code: Code) -> str:
    status = inv.status
    if inv.exit_signal is not None:
        return f"The command was ended by signal {inv.exit_signal['name']}."
    if inv.exit_status is not None:
        cut = " Its output was cut." if code is Code.REMOTE_RESULT_INCOMPLETE else ""
        return f"The command ended with exit {inv.exit_status}.{cut}"
    if inv.completion is not None and inv.completion.startswith(MARKER):
        cut = " The rest of its output was cut." if code is Code.REMOTE_RESULT_INCOMPLETE else ""
        return f"The command gave no exit status, but ended with the marker that its contract names.{cut}"
    if code is Code.SSH_EXEC_REFUSED:
        return "The host refused to run the command."
    if status is None:
        return "Answered completely. The status is sealed."
    match code:
        case Code.JOB_ACCEPTED if inv.job is None:
            return "Accepted without a reference, so it cannot be followed. Accepted is not done."
        case Code.JOB_ACCEPTED if inv.job is not None and inv.job.operation_id is not None:
            return f"Accepted, which is not done. The job is followed as operation {inv.job.operation_id}."
        case Code.JOB_ACCEPTED:
            return "Accepted. Its status URL lies outside of what may be asked, so it is shown and not followed."
        case Code.REMOTE_RESULT_INCOMPLETE:
            return f"The target gave its receipt (status {status}). The rest of its answer broke off and is no result."
        case Code.REDIRECT_NOT_FOLLOWED:
            why = inv.redirect.why if inv.redirect is not None else None
            return f"Answered completely: status {status}, a redirect. Not followed.{f' {why}' if why else ''}"
        case Code.REMOTE_RESULT if inv.code is Code.REDIRECT_NOT_FOLLOWED:
            return f"Answered completely: status {status}, a redirect, which was followed."
        case Code.REMOTE_REJECTED:
            return f"The target refused it: status {status}."
        case Code.REMOTE_RATE_LIMITED:
            wait = f" {inv.retry_after_s:g} s" if inv.retry_after_s is not None else ""
            return f"The target asks to wait{wait} (status {status})."
        case Code.REMOTE_UNAVAILABLE if inv.outcome is Outcome.REJECTED and inv.known_idempotent:
            return f"The target is not available now (status {status}). A repeat counts as safe, so this is a refusal."
        case Code.REMOTE_UNAVAILABLE if inv.outcome is Outcome.REJECTED:
            return f"Refused before any work, as the contract says (status {status})."
        case Code.REMOTE_UNAVAILABLE:
            return f"Answered {status}; no contract says that nothing was done."
        case Code.GATEWAY_REFUSED:
            return "The proxy, which the operator trusts, says it was never forwarded."
        case Code.GATEWAY_UNCERTAIN:
            return f"It was sent. A gateway answered {status}; that says nothing about the target."
        case _ if inv.retry in (Retry.RECONCILE, Retry.BACKOFF) and status is not None and status >= 500:
            return f"Answered completely: status {status}; what it changed before is not known to us."
        case _:
            return f"Answered completely: status {status}."
