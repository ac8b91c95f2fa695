"""An approval card as the operator socket gives it: JSON-ready, with times in RFC 3339.

Nothing is escaped here: whoever prints a card for a person escapes the agent's text.
"""

from __future__ import annotations

import base64
from typing import Any

from affidavit.broker.card import Answer, Card, Notice
from affidavit.broker.moment import rfc3339
from affidavit.broker.session import Process, Session


def card(shown: Card, *, body: bool) -> dict[str, Any]:
    """A card. `body` is a size and a type always, and the bytes as text or base64 only where asked for: they are what
    an approval is about, and nobody sees them without the passphrase."""
    return {
        "invocation_id": shown.invocation_id,
        "operation_id": shown.operation_id,
        "session": session(shown.session),
        "reason": shown.reason,
        "effect": shown.effect.value,
        "title": shown.title,
        "method": shown.method,
        "url": shown.url,
        "last_url": shown.last_url,
        "headers": [list(pair) for pair in shown.headers],
        "body": _body(shown, whole=body),
        "credential": None
        if shown.credential is None
        else {
            "name": shown.credential.name,
            "version": shown.credential.version,
            "sent_as": shown.credential.sent_as,
        },
        "contract": {
            "id": shown.contract_id,
            "checked": shown.contract_checked,
            "answers": {
                "binds_retries": _answer(shown.answers.binds_retries),
                "lookup": _answer(shown.answers.lookup),
                "on_connection_death": _answer(shown.answers.on_connection_death),
            },
        },
        "fingerprint": shown.fingerprint,
        "fingerprint_groups": list(shown.fingerprint_groups),
        "mode": shown.mode.value,
        "scopes": [scope.value for scope in shown.scopes],
        "preselected": shown.preselected.value,
        "notices": [_notice(notice) for notice in shown.notices],
        "tick": shown.tick,
        "repeats": shown.repeats,
        "asked_at": rfc3339(shown.asked_at),
        "grant_until": rfc3339(shown.grant_until),
        "expires_at": rfc3339(shown.expires_at),
    }


def session(of: Session) -> dict[str, Any]:
    """Who asks: what the kernel says, and apart from it what the caller says of itself."""
    provenance = of.provenance
    return {
        "session_id": of.session_id,
        "uid": provenance.uid,
        "process": _process(provenance.process),
        "peer": _process(provenance.peer),
        "chain": [_process(process) for process in provenance.chain],
        "claim": {"client": of.claim.client, "version": of.claim.version},
    }


def _process(of: Process) -> dict[str, Any]:
    return {"pid": of.pid, "name": of.name, "exe": of.exe, "cwd": of.cwd}


def _answer(of: Answer) -> dict[str, Any]:
    return {"text": of.text, "present": of.present}


def _notice(of: Notice) -> dict[str, Any]:
    key = of.host_key
    return {
        "kind": of.kind.value,
        "invocation_id": of.invocation_id,
        "record": of.record,
        "at": rfc3339(of.at),
        "host_key": None
        if key is None
        else {
            "host": key.host,
            "authority": key.authority,
            "algorithm": key.algorithm,
            "fingerprint": key.fingerprint,
            "next_host": key.next_host,
        },
    }


def _body(shown: Card, *, whole: bool) -> dict[str, Any]:
    about: dict[str, Any] = {"bytes": len(shown.body), "type": shown.body_type}
    if whole:
        try:
            about["text"] = shown.body.decode("utf-8")
        except UnicodeDecodeError:
            about["base64"] = base64.b64encode(shown.body).decode("ascii")
    return about
