"""Every sentence that the windows say, whole, with named placeholders; plain data, no Qt.

Plain, exact, short: who did what, what is proven and by which record, what is not, what comes next. "Sent" is handed to
a connection; "happened" is proven at the target. "Nothing was sent" stands only beside `not_attempted`, "answered" only
for a complete and authentic answer. Sentences are never glued: order and plural differ between languages.
"""

# ruff: noqa: S105, RUF001 - sentences about passphrases are no passphrases, and typographic marks are meant

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from string import Formatter
from types import MappingProxyType
from typing import Final

from affidavit.broker.card import CardEnd
from affidavit.broker.terms import Code, Effect, Outcome, Retry, Source


@dataclass(frozen=True, slots=True)
class Sentence:
    """One way to say a code. It fits where every fact in `when` has that value and every placeholder is known."""

    text: str
    when: Mapping[str, object] = field(default_factory=dict)

    @property
    def placeholders(self) -> frozenset[str]:
        """The facts that the text names."""
        return frozenset(name for _, name, _, _ in Formatter().parse(self.text) if name)

    def fits(self, facts: Mapping[str, object]) -> bool:
        """Whether these facts allow the sentence; a fact that is None is not known."""
        known = {name for name, value in facts.items() if value is not None}
        return self.placeholders <= known and all(facts.get(name) == value for name, value in self.when.items())


def _said(*variants: Sentence | str) -> tuple[Sentence, ...]:
    return tuple(v if isinstance(v, Sentence) else Sentence(v) for v in variants)


_BEFORE = {"outcome": Outcome.NOT_ATTEMPTED}
_BEHIND = {"outcome": Outcome.UNKNOWN}
_REFUSED = {"outcome": Outcome.REJECTED}
_LISTED = {"outcome": Outcome.REJECTED, "idempotent": False}
"""What is not idempotent is refused by such a status only where the contract lists it."""

CODES: Final[Mapping[Code, tuple[Sentence, ...]]] = MappingProxyType(
    {
        # open
        Code.AWAITING_APPROVAL: _said("Not sent yet. A card is waiting for you."),
        Code.IN_PROGRESS: _said(
            Sentence("Not sent yet. It is being prepared.", _BEFORE),
            "It was sent (record {record}). No answer is recorded yet.",
            Sentence("It was sent. No answer is recorded yet.", _BEHIND),
            "It is open. No answer is recorded yet.",
        ),
        # before dispatch
        Code.INVALID_REQUEST: _said(
            Sentence("Nothing was sent. The field {field} is missing.", {"problem": "missing"}),
            "Nothing was sent. The field {field} is missing or not valid.",
            "Nothing was sent. The request is not valid.",
        ),
        Code.INVALID_TARGET: _said(
            Sentence("Nothing was sent. The URL has a user name in it.", {"problem": "user_info"}),
            "Nothing was sent. The URL is not valid.",
        ),
        Code.UNSUPPORTED_ACTION: _said(
            "Nothing was sent. The host {host} is not set up here.",
            "Nothing was sent. The method {method} is not supported here.",
            "Nothing was sent. This action is not supported here.",
        ),
        Code.PAYLOAD_LIMIT: _said(
            "Nothing was sent. The body is {size}; the limit is {limit}.",
            "Nothing was sent. The field {field} is over its limit.",
            "Nothing was sent. The request is over a limit.",
        ),
        Code.HEADER_FORBIDDEN: _said(
            "Nothing was sent. The agent set {header}; Affidavit sets it.",
            "Nothing was sent. The agent set a header that Affidavit sets.",
        ),
        Code.CREDENTIAL_UNKNOWN: _said("Nothing was sent. The named credential does not exist."),
        Code.CREDENTIAL_OUT_OF_SCOPE: _said("Nothing was sent. The named credential is not bound to this target."),
        Code.TARGET_BLOCKED: _said(
            "Nothing was sent. The name leads to {address}, which is never allowed.",
            "Nothing was sent. The target's address is not allowed.",
        ),
        Code.IDEMPOTENCY_MISMATCH: _said(
            "Nothing was sent. Operation {operation_id} is known with another content.",
            "Nothing was sent. The operation is known with another content.",
        ),
        Code.UNRESOLVED_DUPLICATE: _said(
            Sentence("Nothing was sent. The same write is still running (record {record}).", {"retry": "fetch_result"}),
            Sentence("Nothing was sent. The same write is still running.", {"retry": "fetch_result"}),
            "Nothing was sent. The same write is still unknown (record {record}).",
            "Nothing was sent. The same write is still unknown.",
        ),
        Code.NO_IDEMPOTENCY_CONTRACT: _said("Nothing was sent. No contract says that this target understands a key."),
        Code.REQUEST_LOOP: _said(
            "Nothing was sent. The same invalid request came {count} times.",
            "Nothing was sent. The same invalid request came again and again.",
        ),
        Code.BUSY: _said(
            "Nothing was sent. {count} actions are open; this one may come back later.",
            "Nothing was sent. Too many actions are open; this one may come back later.",
        ),
        Code.FINGERPRINT_CHANGED: _said(
            "Nothing was sent. The request changed after you approved {fingerprint} … It needs a new card.",
            "Nothing was sent. The request changed after it was approved. It needs a new card.",
        ),
        Code.VAULT_LOCKED: _said("Nothing was sent. The vault is locked."),
        Code.VAULT_QUARANTINED: _said(
            "Nothing was sent. The journal does not continue the last checkpoint; please review it."
        ),
        Code.APPROVAL_DENIED: _said(
            "Nothing was sent. You denied it: “{reason}”.",
            "Nothing was sent. You denied it.",
        ),
        Code.APPROVAL_EXPIRED: _said(
            "Nothing was sent. Nobody answered within {limit}.",
            "Nothing was sent. Nobody answered in time.",
        ),
        Code.APPROVAL_UNAVAILABLE: _said("Nothing was sent. No one could be asked."),
        Code.CALLER_CANCELLED: _said(
            Sentence("Nothing was sent. The caller ended.", {"outcome": Outcome.NOT_ATTEMPTED, "caller": "gone"}),
            Sentence("Nothing was sent. The caller cancelled.", _BEFORE),
            Sentence("It was sent, then the caller ended. That does not undo it.", {"caller": "gone"}),
            "It was sent, then the caller cancelled. That does not undo it.",
        ),
        Code.LEASE_LOST: _said("Not sent here. Another worker holds this action; its result will be here."),
        Code.CREDENTIAL_MISSING: _said(
            "Nothing was sent. {credential} has no secret yet.",
            "Nothing was sent. The credential has no secret yet.",
        ),
        Code.INJECTION_UNSUPPORTED: _said(
            Sentence("Nothing was sent. This kind of credential cannot be used for SSH.", {"kind": "ssh"}),
            "Nothing was sent. This kind of credential cannot be used for this target.",
        ),
        Code.KEY_UNUSABLE: _said(
            "Nothing was sent. The key of {credential} cannot be read.",
            "Nothing was sent. The key cannot be read.",
        ),
        Code.TOKEN_UNAVAILABLE: _said(
            "The action was not sent. The token service answered {status}.",
            "The action was not sent. The token service gave no token.",
        ),
        Code.DNS_FAILED: _said(
            Sentence(
                "Nothing was sent. The name {host} could not be looked up just now.", {"retry": Retry.BACKOFF.value}
            ),
            "Nothing was sent. The name {host} was not found.",
            "Nothing was sent. The name was not found.",
        ),
        Code.CONNECT_FAILED: _said(
            Sentence(
                "Nothing was sent. The target refused the connection (ECONNREFUSED), 1 try.",
                {"system_code": "ECONNREFUSED", "tries": 1},
            ),
            Sentence(
                "Nothing was sent. The target refused the connection (ECONNREFUSED), {tries} tries.",
                {"system_code": "ECONNREFUSED"},
            ),
            Sentence("Nothing was sent. No connection was made ({system_code}), 1 try.", {"tries": 1}),
            "Nothing was sent. No connection was made ({system_code}), {tries} tries.",
            "Nothing was sent. No connection was made.",
        ),
        Code.CONNECT_TIMEOUT: _said(
            "Nothing was sent. No connection within {limit}.",
            "Nothing was sent. No connection was made in time.",
        ),
        Code.TLS_FAILED: _said("Nothing was sent. The TLS handshake broke off."),
        Code.CERT_INVALID: _said(
            "Nothing was sent. The certificate expired on {date}.",
            Sentence("Nothing was sent. The certificate has expired.", {"system_code": "CERT_EXPIRED"}),
            "Nothing was sent. The certificate does not prove that this is the target ({system_code}).",
            "Nothing was sent. The certificate does not prove that this is the target.",
        ),
        Code.PROXY_FAILED: _said(
            "Nothing reached the target. The proxy refused the tunnel ({status}).",
            "Nothing reached the target. The proxy opened no tunnel.",
        ),
        Code.SSH_TRANSPORT_FAILED: _said(
            Sentence("No command was sent. The host closed during key exchange.", {"stage": "ssh_kex"}),
            "No command was sent. The SSH transport broke off.",
        ),
        Code.HOST_KEY_UNKNOWN: _said("No command was sent. This host key is new here."),
        Code.HOST_KEY_MISMATCH: _said(
            "No command was sent. The host key differs from the pinned one. Ask its administrator before you change "
            "anything."
        ),
        Code.SSH_AUTH_FAILED: _said(
            "No command was sent. The host did not accept {credential}.",
            "No command was sent. The host did not accept the credential.",
        ),
        Code.SSH_CHANNEL_REFUSED: _said("No command was sent. The host opened no channel."),
        Code.SSH_ENV_REFUSED: _said(
            "No command was sent. The host refused the variable {variable}.",
            "No command was sent. The host refused a variable.",
        ),
        Code.JOURNAL_UNAVAILABLE: _said(
            Sentence(
                "Nothing was sent. The journal cannot be written; nothing is sent until that is mended.",
                {"phase": "validation"},
            ),
            "Nothing was sent. The dispatch could not be recorded.",
        ),
        Code.BROKER_RESTARTED: _said(
            Sentence("Nothing was sent. Affidavit stopped before dispatch.", _BEFORE),
            "It was sent (record {record}). Affidavit stopped before an answer was recorded.",
            "It was sent. Affidavit stopped before an answer was recorded.",
        ),
        # after dispatch, no complete authentic result
        Code.REMOTE_OUTCOME_UNKNOWN: _said(
            Sentence(
                "It was sent. The target answered {status} before the request was whole; that proves nothing about "
                "the rest.",
                {"observation": "answered_early"},
            ),
            Sentence(
                "It was sent. The answer was there before the request; it answers nothing.",
                {"observation": "answered_first"},
            ),
            "It was sent. The connection closed before any answer was recorded, so it may or may not have happened.",
        ),
        Code.REMOTE_DEADLINE: _said(
            "It was sent. No answer came within {limit}. It may still be running.",
            "It was sent. No answer came in time. It may still be running.",
        ),
        Code.REMOTE_RESULT_INCOMPLETE: _said(
            Sentence("It was sent. The command was accepted; no exit status was recorded.", {"kind": "ssh"}),
            "It was sent. The answer broke off after {received} of {expected} bytes and does not count.",
            "It was sent. The answer broke off and does not count.",
        ),
        Code.GATEWAY_UNCERTAIN: _said(
            "It was sent. A gateway answered {status}; that says nothing about the target.",
            "It was sent. A gateway answered; that says nothing about the target.",
        ),
        Code.REMOTE_IN_PROGRESS: _said(
            "The target says the key is in use. That speaks about the repeat, not about the first attempt."
        ),
        # complete and authentic
        Code.REMOTE_RESULT: _said(
            "The command ended with exit {exit_status}.",
            "The command ended by signal {exit_signal}.",
            Sentence(
                "Answered completely: status {status}; what it changed before is not known to us.",
                {"server_error": True},
            ),
            "Answered completely: status {status}.",
            "Answered completely.",
        ),
        Code.JOB_ACCEPTED: _said(
            "Accepted as job {job}. Accepted is not done; Affidavit follows the job.",
            "Accepted without a reference, so it cannot be followed.",
        ),
        Code.REDIRECT_NOT_FOLLOWED: _said(
            "Answered completely: status {status} to {location}. Not followed.",
            "Answered completely: status {status}. Not followed.",
            "Answered completely with a redirect. Not followed.",
        ),
        Code.REMOTE_REJECTED: _said("The target refused it: status {status}.", "The target refused it."),
        Code.REMOTE_RATE_LIMITED: _said(
            "The target asks to wait {wait} ({status}).",
            "The target asks to wait ({status}).",
            "The target asks to wait.",
        ),
        Code.REMOTE_UNAVAILABLE: _said(
            Sentence("Refused before any work, as the contract says ({status}).", _LISTED),
            Sentence("Refused before any work, as the contract says.", _LISTED),
            Sentence(
                "The target is not available now ({status}). A repeat counts as safe, so this is a refusal.",
                _REFUSED,
            ),
            Sentence("The target is not available now. This is a refusal.", _REFUSED),
            "Answered {status}; no contract says that nothing was done.",
            "Answered; no contract says that nothing was done.",
        ),
        Code.GATEWAY_REFUSED: _said("The proxy, which you trust, says it was never forwarded."),
        Code.REMOTE_REFUSED_STREAM: _said("The target proves the request was not processed."),
        Code.SSH_EXEC_REFUSED: _said("The host refused to run the command."),
        # delivery
        Code.RESULT_UNDELIVERED: _said(
            "It is done and recorded. The result did not reach the agent; it can still be fetched."
        ),
        Code.RESULT_SEALED: _said(
            Sentence(
                "It is done and recorded. The result belongs to another session; a card must release it.",
                {"needs": "operator_approval"},
            ),
            "It is done and recorded. The vault is locked; unlock it to read the result.",
        ),
        Code.RESULT_STORAGE_FAILED: _said(
            "An answer came but could not be stored. Free some space; until then it counts as unknown."
        ),
        Code.RESULT_EXPIRED: _said(
            "The result was deleted after {limit}. Status and hash remain in record {result_record}.",
            "The result was deleted. Status and hash remain in record {result_record}.",
            "The result was deleted. Status and hash remain.",
        ),
        # settlement and repeats
        Code.SETTLED_BY_QUERY: _said(
            Sentence(
                "Settled by a look-up (record {settled_record}): the target has it.", {"outcome": Outcome.COMMITTED}
            ),
            Sentence(
                "Settled by a look-up (record {settled_record}): the target does not have it.",
                {"outcome": Outcome.REJECTED, "answer": "absent"},
            ),
            Sentence(
                "Settled by a look-up (record {settled_record}): the target has it as failed.",
                {"outcome": Outcome.REJECTED, "answer": "rejected"},
            ),
            "Settled by a look-up (record {settled_record}).",
            "Settled by a look-up.",
        ),
        Code.SETTLED_BY_OPERATOR: _said(
            Sentence(
                "You attested it as committed (record {settled_record}). The attempt's own record stays beside it.",
                {"outcome": Outcome.COMMITTED},
            ),
            Sentence(
                "You attested it as rejected (record {settled_record}). The attempt's own record stays beside it.",
                {"outcome": Outcome.REJECTED},
            ),
            "You attested it. The attempt's own record stays beside it.",
        ),
        Code.RETRY_BUDGET_EXHAUSTED: _said(
            Sentence("Not sent again. All {attempts} attempts are used; the last outcome is unknown.", _BEHIND),
            Sentence("Not sent again. All attempts are used; the last outcome is unknown.", _BEHIND),
            "Not sent again. All {attempts} attempts are used.",
            "Not sent again. All attempts are used.",
        ),
        Code.RETRY_REFUSED: _said(
            Sentence("Not sent again. The request is no longer kept; it is needed again.", {"needs": "request"}),
            Sentence("Not sent again. The time for recovery is over.", {"recovery": "over"}),
            Sentence("Not sent again. The record advises: look first.", {"retry": Retry.RECONCILE.value}),
            "Not sent again. The record advises against it.",
        ),
    }
)
"""For each code its sentences, the most telling first; the last one fits always."""


def sentence(code: Code, facts: Mapping[str, object]) -> str:
    """What the operator reads for a code: the first of its sentences that these facts allow.

    Facts by name: `outcome`, `phase`, `retry`, `field`, `needs`, `record` (of the dispatch), `settled_record`,
    `result_record`, `status`, `exit_status`, `exit_signal`, `system_code`, `stage`, `tries`, `kind` (`http`, `ssh`),
    `method`, `host`, `job`, `location`, `reason`, `limit`, `wait`, `idempotent` (of the contract), and what a
    sentence names besides.
    """
    for variant in CODES[code]:
        if variant.fits(facts):
            return variant.text.format_map(facts)
    raise AssertionError(f"{code} has no sentence that always fits")


def facts(envelope: Mapping[str, object]) -> dict[str, object]:
    """The facts of an envelope (interface, Envelope) by the names that `sentence` takes, without the unknown ones."""
    marks = _part(envelope, "error") or _part(envelope, "pending") or _part(envelope, "result")
    evidence = _part(envelope, "evidence")
    target = _part(evidence, "target")
    http, ssh = _part(envelope, "http"), _part(envelope, "ssh")
    tries = evidence.get("attempts")
    last = tries[-1] if isinstance(tries, list) and tries and isinstance(tries[-1], Mapping) else {}
    status = http.get("status")
    found: dict[str, object] = {
        "outcome": marks.get("outcome"),
        "phase": marks.get("phase"),
        "retry": marks.get("retry"),
        "field": marks.get("field"),
        "needs": marks.get("needs"),
        "operation_id": envelope.get("operation_id"),
        "record": evidence.get("dispatch_record"),
        "settled_record": _part(envelope, "settled").get("record"),
        "result_record": evidence.get("result_record"),
        "kind": target.get("kind"),
        "method": target.get("method"),
        "status": status,
        "server_error": isinstance(status, int) and status >= 500,
        "exit_status": ssh.get("exit_status"),
        "exit_signal": ssh.get("exit_signal"),
        "system_code": last.get("code"),
        "stage": last.get("stage"),
        "tries": len(tries) if isinstance(tries, list) and tries else None,
        "job": _part(evidence, "job").get("id"),
        "reason": _part(evidence, "authorization").get("reason"),
        "idempotent": _part(evidence, "contract").get("idempotent"),
    }
    return {name: value for name, value in found.items() if value is not None}


def _part(whole: Mapping[str, object], name: str) -> Mapping[str, object]:
    part = whole.get(name)
    return part if isinstance(part, Mapping) else {}


OUTCOME: Final = MappingProxyType(
    {
        Outcome.NOT_ATTEMPTED: "Not attempted",
        Outcome.REJECTED: "Rejected",
        Outcome.COMMITTED: "Committed",
        Outcome.UNKNOWN: "Unknown",
    }
)
OUTCOME_STATUS: Final = "{outcome}, status {status}"
OUTCOME_EXIT: Final = "{outcome}, exit {exit_status}"
RETRY: Final = MappingProxyType(
    {
        Retry.NEVER: "not again",
        Retry.AFTER_CORRECTION: "after a correction",
        Retry.BACKOFF: "may try again after a pause",
        Retry.SAME_IDEMPOTENCY_KEY: "may repeat with the same key",
        Retry.RECONCILE: "look first",
        Retry.FETCH_RESULT: "fetch the result",
    }
)
SOURCE: Final = MappingProxyType(
    {
        Source.TRANSPORT_OBSERVED: "transport observed",
        Source.REMOTE_RESPONSE: "remote response",
        Source.REMOTE_QUERY: "remote query",
        Source.OPERATOR_ATTESTED: "attested by operator",
    }
)
EFFECT: Final = MappingProxyType({Effect.READ: "READ", Effect.WRITE: "WRITE"})
EFFECT_SPOKEN: Final = MappingProxyType({Effect.READ: "Read", Effect.WRITE: "Write"})

# The card: title row
CARD_WINDOW: Final = "Affidavit: a card is waiting"
CARD_QUEUE: Final = "{place} of {count} waiting"
CARD_TIME_NAME: Final = "{spoken} left"
CARD_TIME_ENDS: Final = "Closes at {clock}. Nothing is sent then, and the caller is told that it expired."
CARD_ANNOUNCED: Final = "{effect}. {title} at {host}, asked by {program}. Deny is focused. {spoken}."
CARD_TIME_ANNOUNCED: Final = "{spoken} left."

# The card: notices
NOTICE_SAME_EFFECT: Final = "The same request was sent {ago}. Its outcome is unknown."
NOTICE_SAME_EFFECT_UNDATED: Final = "The same request was sent before. Its outcome is unknown."
NOTICE_SAME_EFFECT_PROOF: Final = "Record {record} proves it was sent; no answer is recorded."
NOTICE_SAME_EFFECT_NO_RECORD: Final = "No answer to it is recorded."
NOTICE_SAME_ROUTE: Final = "Another request to this route is unknown; this one differs in its body."
NOTICE_SAME_ROUTE_PROOF: Final = "Record {record} proves that the other was sent {ago}; no answer is recorded."
NOTICE_SAME_ROUTE_NO_RECORD: Final = "No answer to the other is recorded."
NOTICE_FIRST_CONTACT: Final = "First contact: nothing was sent to this target before."
NOTICE_FIRST_CONTACT_MORE: Final = "Compare the host with the one you mean."
NOTICE_NEW_KEY: Final = "First contact: this host key has never been seen."
NOTICE_NEW_KEY_MORE: Final = "Compare it with the value your administrator published. Approving pins it."
NOTICE_NEW_KEY_ABOUT: Final = "{authority}  {algorithm}  SHA256"
NOTICE_NEW_KEY_SPOKEN: Final = "Host key of {about}: {groups}"
NOTICE_NEW_KEY_FIELD: Final = "Published fingerprint"
NOTICE_NEW_KEY_HINT: Final = "Paste the published fingerprint to compare"
NOTICE_NEW_KEY_SAME: Final = "Same as pasted"
NOTICE_NEW_KEY_OTHER: Final = "Not the same as pasted"
NOTICE_CONTRACT_FIRST: Final = "This contract is used for the first time."
NOTICE_CONTRACT_FIRST_MORE: Final = "Its three answers below are what it promises; nothing has tested them here yet."
NOTICE_REDIRECTED: Final = "The target answered with a redirect to this place. The agent did not name it."
NOTICE_REDIRECTED_MORE: Final = "Record {record} is the exchange that was redirected, {ago}."
NOTICE_REDIRECTED_NO_RECORD: Final = "Denied, the redirect stays the answer."
NOTICE_LOOK: Final = "Look at it first"
NOTICE_LOOK_NAMED: Final = "Opens the unknown outcome of record {record}. This card stays."
NOTICE_LOOK_UNNAMED: Final = "Opens the unknown outcome. This card stays."
TICK_DESCRIPTION: Final = "Approve can be pressed only when this is ticked."

NOTICE_RELEASE: Final = "Nothing is sent: another agent asks to read a recorded result."
NOTICE_RELEASE_MORE: Final = "The result is that of record {record}, {ago}. It belongs to another session."
NOTICE_RELEASE_NO_RECORD: Final = "The result belongs to another session."
NOTICE_TICK: Final = "This goes beyond what the records support."
NOTICE_TICK_MORE: Final = "Approve it only if you accept the sentence below."

# The card: caller
KERNEL: Final = "Seen by the kernel"
KERNEL_PROCESS: Final = "process {pid}"
KERNEL_STARTED_BY: Final = "started by {chain}"
KERNEL_UNSEEN: Final = "not visible to us"
KERNEL_UNSEEN_DIRECTORY: Final = "directory not visible to us"
KERNEL_UNSEEN_CHAIN: Final = "started by: not visible to us"
KERNEL_DETAILS: Final = "Program file {exe}. Started {started} clock ticks after boot. Device {device}, inode {inode}."
CHAIN_ARROW: Final = "  ‹  "
CLAIM: Final = "Claimed by the caller, not verified"
CLAIM_REASON: Final = "“{reason}”"
CLAIM_NO_CLIENT: Final = "It gave no name."
CLAIM_NO_REASON: Final = "It gave no reason."

# The card: target and body
TARGET_NAME: Final = "Target"
TARGET_CHANGED: Final = "Target, underlined where it differs from the last approved call of this route: {parts}"
TARGET_DECODED: Final = "shown as {decoded}"
BODY_NAME: Final = "Body"
BODY_NONE: Final = "No body"
BODY_FOOTER: Final = "Body {size} · {kind} · sha256 {digest}…"
BODY_FOOTER_NAME: Final = "Body of {size}, {kind}, sha256 {digest}"
BODY_ALL_SHOWN: Final = "all shown"
BODY_LINES_BELOW: Final = "{below} of {lines} lines below"
BODY_LINES_SEEN: Final = "{lines} of {lines} lines seen"
BODY_PRETTY: Final = "Pretty"
BODY_RAW: Final = "Raw"
BODY_PRETTY_DESCRIPTION: Final = "The body with its fields on lines of their own; nothing is left out."
BODY_RAW_DESCRIPTION: Final = "The body as it goes out."
BODY_JSON: Final = "JSON"
BODY_TEXT: Final = "text"
BODY_COMMAND: Final = "a command and its input, as shown"
BODY_BINARY: Final = "not text, shown in hexadecimal"
BODY_UNREAD: Final = "I have not read all of it: {size}, sha256 {digest}…"
BODY_STREAMED: Final = "I have not read all of it: the input is streamed, beside {size}, sha256 {digest}…"
BODY_STREAMED_DESCRIPTION: Final = "Approve can be pressed when this is ticked: the input cannot be shown."
BODY_UNREAD_DESCRIPTION: Final = "Approve can be pressed when this is ticked or the end of the body was reached."

# The card: credential and contract
CREDENTIAL_VERSION: Final = "version {version}"
CREDENTIAL_SENT_AS: Final = "sent as {sent_as}"
CREDENTIAL_NONE: Final = "No credential is sent."
CREDENTIAL_NAME: Final = "Credential {name}, version {version}, sent as {sent_as}"
CONTRACT: Final = "Contract {contract_id}"
CONTRACT_READ: Final = "read {date}"
CONTRACT_UNDATED: Final = "no date of reading given"
CONTRACT_NONE_READ: Final = "No contract: treated as a read"
CONTRACT_NONE_READ_MORE: Final = "repeatable is assumed, not documented"
CONTRACT_NONE_WRITE: Final = "No contract: treated as a write"
CONTRACT_NONE_WRITE_MORE: Final = "if the answer is lost, you will be asked"
ANSWER_BINDS: Final = "A repeat is bound by"
ANSWER_LOOKUP: Final = "Outcome can be looked up"
ANSWER_DEATH: Final = "Left if the connection dies"
ANSWER_PRESENT_NAME: Final = "{question}: {text}"
ANSWER_MISSING_NAME: Final = "{question}, missing: {text}"

# The card: fingerprint and decision
FINGERPRINT: Final = "Fingerprint of this dispatch"
FINGERPRINT_SPOKEN: Final = "Fingerprint of this dispatch: {groups}"
COPY: Final = "Copy"
COPY_FINGERPRINT: Final = "Copies the whole fingerprint, sha256 and 64 digits."
COPIED: Final = "Copied"
SCOPE_NAME: Final = "What the approval covers"
SCOPE_ONCE: Final = "Covers this one dispatch. Nothing is remembered."
SCOPE_SESSION: Final = "The grant ends at that time, with this process, or when the vault locks."
SCOPE_CHOICE_ONCE: Final = "Only this request"
SCOPE_CHOICE_UNTIL: Final = "{method} on this route, by this process, until {clock}"
SCOPE_RELEASE: Final = "Lets this session read the result. Nothing is sent."
SCOPE_CHOICE_RELEASE: Final = "This session may read the result"
APPROVE_RELEASE: Final = "Let it read the result"
DENY: Final = "Deny"
DENY_DESCRIPTION: Final = "Nothing is sent, and the caller is told that you denied it."
DENY_RELEASE_DESCRIPTION: Final = "The result stays with the session that it belongs to."
DENY_REASON: Final = "with a reason…"
DENY_REASON_FIELD: Final = "Reason"
DENY_REASON_HINT: Final = "The agent reads this"
DENY_REASON_DESCRIPTION: Final = "One line for the agent. Enter denies with this reason."
APPROVE_ONCE: Final = "Approve once"
APPROVE_REPEATS: Final = "Approve with up to {repeats}"
REPEAT: Final = "1 repeat"
REPEATS: Final = "{count} repeats"
SCOPE_REPEATS: Final = "This request, and up to {repeats} of just this one if its answer is lost. Each is recorded."
APPROVE_PIN: Final = "Pin key and approve once"
SCOPE_PIN: Final = "Covers this one dispatch and pins this host key."
APPROVE_PIN_ONLY: Final = "Pin key"
SCOPE_PIN_ONLY: Final = (
    "Pins this host key. Nothing is sent yet: {host}, behind it, is new as well and has its own card."
)
APPROVE_UNTIL: Final = "Approve until {clock}"
APPROVE_DESCRIPTION: Final = (
    "{effect}. {title} at {host}. Fingerprint {groups}. Space or a click approves; Enter does not."
)
APPROVE_UNARMED: Final = "Cannot be pressed yet. {step} {description}"
PASSPHRASE: Final = "Vault passphrase"
PASSPHRASE_WHY: Final = "A program running as you can press a button. It does not know your passphrase."
PASSPHRASE_DESCRIPTION: Final = "Enter moves on to Approve. What you type is not read aloud."
PASSPHRASE_EMPTY: Final = "Empty"
PASSPHRASE_FILLED: Final = "Filled"

# The card: the one missing step
STEP_TICK: Final = "Tick the box above, then Approve can be pressed."
STEP_HOST_KEY: Final = "The pasted fingerprint is another one. Ask the host's administrator, or deny."
STEP_BODY_END: Final = "Scroll to the end of the body, then Approve can be pressed."
STEP_BODY_UNREAD: Final = "Scroll to the end of the body or tick the box below it, then Approve can be pressed."
STEP_STREAM: Final = "Tick that the input cannot be read, then Approve can be pressed."
STEP_PASSPHRASE: Final = "Enter the vault passphrase, then Approve can be pressed."
STEP_ACTIVATE: Final = "Click this card, then Approve can be pressed."
STEP_PAUSE: Final = "Approve can be pressed in a moment."
CLOSES_IN: Final = "Closes in {seconds} s. Nothing will be sent, and the caller is told it expired."
CLOSES_IN_RELEASE: Final = "Closes in {seconds} s. The result will not be handed over."
CARD_TIME_ENDS_RELEASE: Final = "Closes at {clock}. The result is not handed over then."
TIME_OVER: Final = "The time is over. Nothing can be decided on this card any more."
DECIDED: Final = "Your decision is on its way."

CARD_ENDS: Final[Mapping[CardEnd, str]] = MappingProxyType(
    {
        CardEnd.APPROVED: "Approved elsewhere. This card decides nothing any more.",
        CardEnd.DENIED: "Denied elsewhere. Nothing was sent.",
        CardEnd.EXPIRED: "Nobody answered in time. Nothing was sent.",
        CardEnd.CALLER_GONE: "The caller ended. Nothing was sent.",
        CardEnd.CALLER_CANCELLED: "The caller cancelled. Nothing was sent.",
        CardEnd.VAULT_LOCKED: "The vault was locked. Nothing was sent.",
        CardEnd.BROKER_STOPPED: "Affidavit stopped. Nothing was sent.",
    }
)
CARD_ENDS_RELEASE: Final[Mapping[CardEnd, str]] = MappingProxyType(
    {
        CardEnd.APPROVED: "Approved elsewhere. This card decides nothing any more.",
        CardEnd.DENIED: "Denied elsewhere. The result was not handed over.",
        CardEnd.EXPIRED: "Nobody answered in time. The result was not handed over.",
        CardEnd.CALLER_GONE: "The caller ended. The result was not handed over.",
        CardEnd.CALLER_CANCELLED: "The caller cancelled. The result was not handed over.",
        CardEnd.VAULT_LOCKED: "The vault was locked. The result was not handed over.",
        CardEnd.BROKER_STOPPED: "Affidavit stopped. The result was not handed over.",
    }
)
"""The ends of a card that would release a result: there is a dispatch behind it, so it cannot say that none was."""
