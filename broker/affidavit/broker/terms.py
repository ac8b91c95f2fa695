"""The vocabulary of evidence: closed lists of protocol 1, one word per concept.

Sources: R3-R5 and R57 for the facts, `verdicts` for codes and record kinds. The wire words are the enum values.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NewType

InvocationId = NewType("InvocationId", str)
"""`act_` and 26 characters, time-ordered. One accepted request; it crosses the line at most once (R24)."""
OperationId = NewType("OperationId", str)
"""The caller's durable name for one logical operation, `[A-Za-z0-9._:-]{1,128}` (R63)."""
SessionId = NewType("SessionId", str)

Micros = NewType("Micros", int)
"""Wall time in microseconds since 1970-01-01 UTC."""


class Phase(StrEnum):
    """Where the broker stopped (R3)."""

    VALIDATION = "validation"
    CREDENTIAL_INJECTION = "credential_injection"
    CONNECTION_SETUP = "connection_setup"
    REMOTE_EXECUTION = "remote_execution"
    RESULT_DELIVERY = "result_delivery"


class Outcome(StrEnum):
    """What may have happened remotely (R4)."""

    NOT_ATTEMPTED = "not_attempted"
    REJECTED = "rejected"
    COMMITTED = "committed"
    UNKNOWN = "unknown"


class Retry(StrEnum):
    """What automation may do now (R5)."""

    NEVER = "never"
    AFTER_CORRECTION = "after_correction"
    BACKOFF = "backoff"
    SAME_IDEMPOTENCY_KEY = "same_idempotency_key"
    RECONCILE = "reconcile"
    FETCH_RESULT = "fetch_result"


class Source(StrEnum):
    """Where confidence in an outcome comes from (R57)."""

    TRANSPORT_OBSERVED = "transport_observed"
    REMOTE_RESPONSE = "remote_response"
    REMOTE_QUERY = "remote_query"
    OPERATOR_ATTESTED = "operator_attested"


class State(StrEnum):
    """Where an invocation stands in the table of moves (`outcome.MOVES`)."""

    ACCEPTED = "accepted"
    VALIDATED = "validated"
    AUTHORISED = "authorised"
    STOPPED = "stopped"
    OPEN = "open"
    UNKNOWN = "unknown"
    SETTLED = "settled"


class Effect(StrEnum):
    """What the contract says of the action, not what the method's name suggests (R54)."""

    READ = "read"
    WRITE = "write"


class ApprovalMode(StrEnum):
    """How an action is authorised; `STRICTNESS` orders them and the strictest of those set holds."""

    NEVER = "never"
    SESSION = "session"
    ALWAYS = "always"
    PASSPHRASE = "passphrase"  # noqa: S105 - the name of a mode


STRICTNESS = {ApprovalMode.NEVER: 0, ApprovalMode.SESSION: 1, ApprovalMode.ALWAYS: 2, ApprovalMode.PASSPHRASE: 3}


class Stage(StrEnum):
    """Stages of connection set-up, in the order in which they come (R16, R19)."""

    DNS = "dns"
    TCP_CONNECT = "tcp_connect"
    PROXY_TUNNEL = "proxy_tunnel"
    TLS_HANDSHAKE = "tls_handshake"
    CERTIFICATE = "certificate"
    SSH_VERSION = "ssh_version"
    SSH_KEX = "ssh_kex"
    HOST_KEY = "host_key"
    SSH_AUTH = "ssh_auth"
    SSH_CHANNEL = "ssh_channel"
    SSH_ENVIRONMENT = "ssh_environment"


class Code(StrEnum):
    """Every code there is. Each stands in a row of a verdict table."""

    # open
    AWAITING_APPROVAL = "AWAITING_APPROVAL"
    IN_PROGRESS = "IN_PROGRESS"
    # before dispatch
    INVALID_REQUEST = "INVALID_REQUEST"
    INVALID_TARGET = "INVALID_TARGET"
    UNSUPPORTED_ACTION = "UNSUPPORTED_ACTION"
    PAYLOAD_LIMIT = "PAYLOAD_LIMIT"
    HEADER_FORBIDDEN = "HEADER_FORBIDDEN"
    CREDENTIAL_UNKNOWN = "CREDENTIAL_UNKNOWN"
    CREDENTIAL_OUT_OF_SCOPE = "CREDENTIAL_OUT_OF_SCOPE"
    TARGET_BLOCKED = "TARGET_BLOCKED"
    IDEMPOTENCY_MISMATCH = "IDEMPOTENCY_MISMATCH"
    UNRESOLVED_DUPLICATE = "UNRESOLVED_DUPLICATE"
    NO_IDEMPOTENCY_CONTRACT = "NO_IDEMPOTENCY_CONTRACT"
    REQUEST_LOOP = "REQUEST_LOOP"
    BUSY = "BUSY"
    FINGERPRINT_CHANGED = "FINGERPRINT_CHANGED"
    VAULT_LOCKED = "VAULT_LOCKED"
    VAULT_QUARANTINED = "VAULT_QUARANTINED"
    APPROVAL_DENIED = "APPROVAL_DENIED"
    APPROVAL_EXPIRED = "APPROVAL_EXPIRED"
    APPROVAL_UNAVAILABLE = "APPROVAL_UNAVAILABLE"
    CALLER_CANCELLED = "CALLER_CANCELLED"
    LEASE_LOST = "LEASE_LOST"
    CREDENTIAL_MISSING = "CREDENTIAL_MISSING"
    INJECTION_UNSUPPORTED = "INJECTION_UNSUPPORTED"
    KEY_UNUSABLE = "KEY_UNUSABLE"
    TOKEN_UNAVAILABLE = "TOKEN_UNAVAILABLE"  # noqa: S105 - a code
    DNS_FAILED = "DNS_FAILED"
    CONNECT_FAILED = "CONNECT_FAILED"
    CONNECT_TIMEOUT = "CONNECT_TIMEOUT"
    TLS_FAILED = "TLS_FAILED"
    CERT_INVALID = "CERT_INVALID"
    PROXY_FAILED = "PROXY_FAILED"
    SSH_TRANSPORT_FAILED = "SSH_TRANSPORT_FAILED"
    HOST_KEY_UNKNOWN = "HOST_KEY_UNKNOWN"
    HOST_KEY_MISMATCH = "HOST_KEY_MISMATCH"
    SSH_AUTH_FAILED = "SSH_AUTH_FAILED"
    SSH_CHANNEL_REFUSED = "SSH_CHANNEL_REFUSED"
    SSH_ENV_REFUSED = "SSH_ENV_REFUSED"
    JOURNAL_UNAVAILABLE = "JOURNAL_UNAVAILABLE"
    BROKER_RESTARTED = "BROKER_RESTARTED"
    # after dispatch, no complete authentic result
    REMOTE_OUTCOME_UNKNOWN = "REMOTE_OUTCOME_UNKNOWN"
    REMOTE_DEADLINE = "REMOTE_DEADLINE"
    REMOTE_RESULT_INCOMPLETE = "REMOTE_RESULT_INCOMPLETE"
    GATEWAY_UNCERTAIN = "GATEWAY_UNCERTAIN"
    REMOTE_IN_PROGRESS = "REMOTE_IN_PROGRESS"
    # complete and authentic
    REMOTE_RESULT = "REMOTE_RESULT"
    JOB_ACCEPTED = "JOB_ACCEPTED"
    REDIRECT_NOT_FOLLOWED = "REDIRECT_NOT_FOLLOWED"
    REMOTE_REJECTED = "REMOTE_REJECTED"
    REMOTE_RATE_LIMITED = "REMOTE_RATE_LIMITED"
    REMOTE_UNAVAILABLE = "REMOTE_UNAVAILABLE"
    GATEWAY_REFUSED = "GATEWAY_REFUSED"
    REMOTE_REFUSED_STREAM = "REMOTE_REFUSED_STREAM"
    SSH_EXEC_REFUSED = "SSH_EXEC_REFUSED"
    # delivery
    RESULT_UNDELIVERED = "RESULT_UNDELIVERED"
    RESULT_SEALED = "RESULT_SEALED"
    RESULT_STORAGE_FAILED = "RESULT_STORAGE_FAILED"
    RESULT_EXPIRED = "RESULT_EXPIRED"
    # settlement and repeats
    SETTLED_BY_QUERY = "SETTLED_BY_QUERY"
    SETTLED_BY_OPERATOR = "SETTLED_BY_OPERATOR"
    RETRY_BUDGET_EXHAUSTED = "RETRY_BUDGET_EXHAUSTED"
    RETRY_REFUSED = "RETRY_REFUSED"


class Kind(StrEnum):
    """Every kind of record. A new one is written into `verdicts` first."""

    ACTION_ACCEPTED = "ACTION_ACCEPTED"
    PREFLIGHT_VALIDATED = "PREFLIGHT_VALIDATED"
    CARD_OPENED = "CARD_OPENED"
    APPROVAL_DECIDED = "APPROVAL_DECIDED"
    CREDENTIAL_AUTHORIZED = "CREDENTIAL_AUTHORIZED"
    SETUP_ATTEMPTED = "SETUP_ATTEMPTED"
    ACTION_STOPPED = "ACTION_STOPPED"
    DISPATCH_STARTED = "DISPATCH_STARTED"
    REQUEST_SENT = "REQUEST_SENT"
    REMOTE_RESPONSE_STARTED = "REMOTE_RESPONSE_STARTED"
    CANCEL_ASKED = "CANCEL_ASKED"
    CALLER_GONE = "CALLER_GONE"
    REMOTE_RESPONSE_COMPLETE = "REMOTE_RESPONSE_COMPLETE"
    RESULT_COMMITTED = "RESULT_COMMITTED"
    OUTCOME_UNKNOWN = "OUTCOME_UNKNOWN"
    JOB_OPENED = "JOB_OPENED"
    LOOKED_UP = "LOOKED_UP"
    OUTCOME_SETTLED = "OUTCOME_SETTLED"
    OUTCOME_DISPUTED = "OUTCOME_DISPUTED"
    RESULT_RELEASED = "RESULT_RELEASED"
    RESULT_DELIVERED = "RESULT_DELIVERED"
    DELIVERY_FAILED = "DELIVERY_FAILED"
    RESULT_EXPIRED = "RESULT_EXPIRED"
    LEASE_TAKEN = "LEASE_TAKEN"
    GRANT_GIVEN = "GRANT_GIVEN"
    GRANT_ENDED = "GRANT_ENDED"
    SESSION_STARTED = "SESSION_STARTED"
    SESSION_ENDED = "SESSION_ENDED"
    BROKER_STARTED = "BROKER_STARTED"
    BROKER_STOPPED = "BROKER_STOPPED"
    VAULT_OPENED = "VAULT_OPENED"
    VAULT_CLOSED = "VAULT_CLOSED"
    VAULT_REVIEWED = "VAULT_REVIEWED"
    OPERATOR_CHANGED = "OPERATOR_CHANGED"
    CONTRACT_ADOPTED = "CONTRACT_ADOPTED"
    PASSPHRASE_REFUSED = "PASSPHRASE_REFUSED"  # noqa: S105 - a record kind
    LOOP_COUNTED = "LOOP_COUNTED"
    ALERT_RAISED = "ALERT_RAISED"
    ALERT_CLOSED = "ALERT_CLOSED"
    SEGMENT_OPENED = "SEGMENT_OPENED"
    CHECKPOINT_SIGNED = "CHECKPOINT_SIGNED"
