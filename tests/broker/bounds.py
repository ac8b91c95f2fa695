"""Bound actions as admission makes them, for tests of what comes after."""

from typing import Any

from affidavit.broker.bound import HttpBound
from affidavit.broker.card import Answer, Answers
from affidavit.broker.contract import DEFAULT_READ
from affidavit.broker.grants import Scope
from affidavit.broker.inject import method_label
from affidavit.broker.limits import Limits
from affidavit.broker.outcome import Meaning
from affidavit.broker.session import Process, Provenance, Session
from affidavit.broker.target import parse_http
from affidavit.broker.terms import ApprovalMode, Effect, OperationId, SessionId
from affidavit.broker.vault.credentials import Credential

_PROCESS = Process(7, 1, "agent", "/usr/bin/agent", "/src", 1, 1)
_NO_ANSWER = Answer("missing", False)


def http_bound(url: str, credential: Credential | None = None, **more: Any) -> HttpBound:
    """A read of `url`, unless `more` says otherwise."""
    target = parse_http(url, Limits())
    fields: dict[str, Any] = {
        "operation_id": OperationId("op_1"),
        "correlation_id": None,
        "session": Session(SessionId("s-1"), Provenance(1000, _PROCESS, _PROCESS)),
        "reason": None,
        "contract_id": "default",
        "contract_digest": "sha256:0",
        "contract_checked": None,
        "title": "GET",
        "effect": Effect.READ,
        "idempotent": "true",
        "answers": Answers(_NO_ANSWER, _NO_ANSWER, _NO_ANSWER),
        "credential": credential,
        "injection": method_label(credential) if credential else None,
        "key": None,
        "key_scope": None,
        "key_retention_s": None,
        "request_fingerprint": "sha256:1",
        "effect_digest": "sha256:2",
        "mode": ApprovalMode.NEVER,
        "meaning": Meaning(idempotent=True, keyed=False, refused=frozenset(), trusted_gateway=False),
        "scope": Scope(SessionId("s-1"), "GET", target.origin, target.path, None),
        "deadline_s": 30.0,
        "recovery_s": 600.0,
        "attempts_limit": 3,
        "setup_tries": 3,
        "lookup": None,
        "retry_of": None,
        "notices": (),
        "tick": None,
        "shown": {},
        "contract": DEFAULT_READ,
        "method": "GET",
        "target": target,
        "headers": (),
        "body": b"",
        "has_body": False,
        "allow": lambda address: True,
        "close_completes": False,
    }
    return HttpBound(**{**fields, **more})
