"""A broker for the windows to talk to: real events folded into real envelopes, and answers that a test sets."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from affidavit.broker import events as ev
from affidavit.broker.advice import Operation
from affidavit.broker.api import CardWatcher, Json, OperatorRefused
from affidavit.broker.card import Card, CardEnd, Decision
from affidavit.broker.envelope import BodyView, envelope
from affidavit.broker.moment import SECOND, after, rfc3339
from affidavit.broker.outcome import Invocation, apply
from affidavit.broker.terms import ApprovalMode, Code, Effect, InvocationId, Micros, Outcome, Retry, Source

PASSPHRASE = b"correct horse"
TODAY = datetime(2026, 11, 30, 14, 14, 11, tzinfo=UTC)
"""The `now` of the pictures: Create a refund was sent 12 minutes ago."""
FINGERPRINT = "sha256:8b1f20c4" + "5e0d" * 14
ANSWERS = {
    "binds_retries": "The key req_01J in Idempotency-Key, kept 24 h.",
    "lookup": "GET /v1/refunds?ref=…",
    "on_connection_death": "missing",
}


def micros(at: datetime) -> Micros:
    return Micros(round(at.timestamp() * SECOND))


class Story:
    """One invocation told record by record: an envelope comes out as the broker would give it."""

    def __init__(self, number: int, *, record: int, accepted: datetime) -> None:
        self.invocation_id = InvocationId(f"act_{number:026d}")
        self._record = record
        self._at = micros(accepted)
        self._inv: Invocation | None = None
        self.events: list[dict[str, Any]] = []

    def tell(self, event: ev.Event, *, s: float = 0.0, skip: int = 0) -> Story:
        """Append `event`, `s` seconds after the one before, leaving out `skip` record numbers."""
        self._at = after(self._at, s)
        self._record += skip
        self._inv = apply(self._inv, event, invocation_id=self.invocation_id, seq=self._record, at=self._at)
        told = {
            "record": self._record,
            "at": rfc3339(self._at),
            "kind": str(event.kind),
            "detail": ev.encode(event),
        }
        self.events.append(told)
        self._record += 1
        return self

    def envelope(self, now: datetime = TODAY) -> dict[str, Any]:
        assert self._inv is not None
        made = envelope(self._inv, Operation((self._inv,)), micros(now), BodyView())
        return {**made, "events": list(self.events)}

    def attest(self, outcome: Outcome, note: str, reference: str | None, item: str | None = None) -> dict[str, Any]:
        """The envelope after an attestation, with its record, as the operator's socket gives it."""
        retry = Retry.NEVER if outcome is Outcome.COMMITTED else Retry.AFTER_CORRECTION
        settled = ev.OutcomeSettled(
            outcome=outcome,
            code=Code.SETTLED_BY_OPERATOR,
            retry=retry,
            source=Source.OPERATOR_ATTESTED,
            note=note,
            reference=reference,
            item=item,
        )
        self.tell(settled, s=300, skip=4)
        return {**self.envelope(), "record": self._record - 1}


def refund(
    *,
    number: int = 1,
    code: Code = Code.REMOTE_OUTCOME_UNKNOWN,
    message: str | None = None,
    accepted: datetime = datetime(2026, 11, 30, 14, 1, 58, tzinfo=UTC),
    recovery_s: float = 1800.0,
    title: str | None = "Create a refund",
    url: str = "https://api.example.com/v1/refunds",
    operation: str = "op_7d5d4d8e",
    agent: str = "node, process 48213",
    key: bool = True,
    lookup: bool = True,
    record: int = 36,
    attempts: int = 3,
    items: Sequence[ev.Item] = (),
) -> Story:
    """The action of the pictures: approved, sent, and the peer closed without an answer."""
    story = Story(number, record=record, accepted=accepted)
    sent_at = after(micros(accepted), 13)
    asked = {"method": "POST", "url": url, "headers": []}
    story.tell(ev.ActionAccepted(session="ses_1", agent=agent, operation_id=operation, asked=asked))
    story.tell(
        ev.PreflightValidated(
            target={"kind": "http", "method": "POST", "url": url},
            effect=Effect.WRITE,
            idempotent="false",
            contract_id="example.refunds.create",
            contract_digest="sha256:5d2",
            effect_digest="sha256:77",
            fingerprint=FINGERPRINT,
            mode=ApprovalMode.ALWAYS,
            attempts_limit=attempts,
            answers=ANSWERS,
            credential_id="cred_1",
            credential_name="refunds-test",
            credential_version=4,
            injection="Authorization header",
            key="req_01J" if key else None,
            key_scope="account" if key else None,
            key_retention_s=86400.0 if key else None,
            lookup={"method": "GET", "url": f"{url}?ref={operation}"} if lookup else None,
            title=title,
            items=tuple(item.key for item in items) or None,
        )
    )
    story.tell(ev.ApprovalDecided(approved=True, means="card", by="card", fingerprint=FINGERPRINT), s=12)
    story.tell(ev.CredentialAuthorized(credential_id="cred_1", version=4, injection="Authorization header"))
    story.tell(
        ev.DispatchStarted(
            fingerprint=FINGERPRINT,
            attempt=1,
            generation=1,
            connection={"id": "c-7", "reused": False, "peer": "203.0.113.7:443", "identity": "sha256:aa"},
            request_deadline=after(sent_at, 30),
            recovery_deadline=after(sent_at, recovery_s),
            window_open_until=after(sent_at, 85000) if key else None,
        ),
        s=1,
    )
    story.tell(ev.RequestSent(sent=117))
    if items:
        story.tell(ev.RemoteResponseComplete(completion="content-length", status=207, length=4210), s=2)
        return story.tell(ev.ResultCommitted(Outcome.COMMITTED, Code.REMOTE_RESULT, Retry.NEVER, items=tuple(items)))
    if message == "answer_before_whole":
        story.tell(ev.RemoteResponseStarted(status=200))
    story.tell(
        ev.OutcomeUnknown(
            code=code,
            retry=Retry.SAME_IDEMPOTENCY_KEY if key else Retry.RECONCILE,
            source=Source.TRANSPORT_OBSERVED,
            observation="closed by peer after request write",
            message=message,
        ),
        s=30,
    )
    return story


def products() -> Story:
    """The batch of the pictures: its answer names twelve items of fourteen."""
    created = [ev.Item(f"TS-{n}", Outcome.COMMITTED, '/status is "created"') for n in range(100, 111)]
    refused = ev.Item("TS-111", Outcome.REJECTED, '/status is "invalid price"')
    unnamed = [ev.Item(f"TS-{n}", Outcome.UNKNOWN, "not in the answer") for n in (112, 113)]
    return refund(
        number=2,
        record=101,
        title="Import products",
        url="https://catalog.example.com/v2/products:batch",
        operation="op_2c11f0aa",
        agent="bash, process 3310",
        accepted=datetime(2026, 11, 30, 13, 55, 58, tzinfo=UTC),
        recovery_s=3600,
        key=False,
        attempts=1,
        items=(*created, refused, *unnamed),
    )


def sealed(told: Json) -> dict[str, Any]:
    """The same envelope as it is read while the vault is locked: details and names are null."""
    evidence = {**told["evidence"], "target": None, "contract": None, "connection": None}
    evidence["reconcile"] = {"available": bool((evidence["reconcile"] or {}).get("available"))}
    return {
        **told,
        "operation_id": told["operation_id"],
        "evidence": evidence,
        "events": [{**e, "detail": None} for e in told["events"]],
    }


def four_unknown() -> list[Story]:
    """The four of the pictures, in no order."""
    return [
        refund(),
        products(),
        refund(
            number=3,
            record=12,
            title="Restart shop-worker",
            url="https://web-01.example.com/restart",
            operation="op_9a",
            accepted=datetime(2026, 11, 30, 11, 10, 0, tzinfo=UTC),
            recovery_s=600,
            key=False,
            lookup=False,
            code=Code.BROKER_RESTARTED,
            attempts=1,
        ),
        refund(
            number=4,
            record=150,
            title=None,
            url="https://ci.example.com/releases",
            operation="op_b1",
            accepted=datetime(2026, 11, 30, 14, 7, 58, tzinfo=UTC),
            recovery_s=7200,
            code=Code.CALLER_CANCELLED,
        ),
    ]


READY: dict[str, Any] = {
    "version": "0.1.0",
    "home": "/home/user/.local/share/affidavit",
    "pid": 4711,
    "vault": "ready",
    "journal": "ok",
    "journal_reason": None,
    "head": {"record": 48211},
    "approver": True,
    "cards": 0,
    "running": 0,
    "open": 0,
    "unknown": 0,
    "unknown_past_deadline": 0,
    "counts": {},
    "sessions": 0,
    "grants": 0,
    "allowed_without_asking": 0,
    "pending_contracts": 0,
}


HOST: dict[str, Any] = {
    "name": "web-01",
    "address": "web-01.example.com",
    "port": 22,
    "user": "deploy",
    "credential": "deploy-key",
    "jump": "bastion",
    "policy": "strict",
    "host_keys": [
        {"algorithm": "ssh-ed25519", "fingerprint": "SHA256:7Qm4kV0xPz2r9sLhaT6EwB1dYc8NuJ3fLk2Re5XnGt4"},
        {"algorithm": "ssh-rsa", "fingerprint": "SHA256:aT6EwB1dYc8NuJ3fLk2Re5XnGt47Qm4kV0xPz2r9sLh"},
    ],
    "revoked": [],
}
NEW_HOST = {**HOST, "name": "web-02", "address": "2001:db8::7", "jump": None, "policy": "accept-new", "host_keys": []}


class ScriptedBroker:
    """An OperatorApi that keeps a few stories. Owned by the loop it runs on.

    Every call is kept in `calls` as (name, arguments without secrets). Passphrases are overwritten, as by the real one.
    """

    def __init__(self, stories: Sequence[Story] = (), **status: Any) -> None:
        self.stories = list(stories)
        self.settled: list[Story] = []
        self.told: dict[str, Any] = {**READY, "unknown": len(self.stories), **status}
        self.calls: list[tuple[str, tuple[Any, ...]]] = []
        self.waiting: list[Card] = []
        self.watchers: list[CardWatcher] = []
        self.listeners: list[Callable[[Json], None]] = []
        self.rows: list[Json] = []
        self.entries: list[Any] = []
        """Rows of `hosts`."""

    # --- what a test does on the loop ---

    def tell(self, **status: Any) -> None:
        """Change the status; every listener hears of it."""
        self.told = {**self.told, **status}
        for listener in list(self.listeners):
            listener(self.told)

    def open_card(self, card: Card) -> None:
        self.waiting.append(card)
        for watcher in list(self.watchers):
            watcher.card_opened(card)
        self.tell(cards=len(self.waiting))

    def close_card(self, invocation_id: InvocationId, end: CardEnd) -> None:
        self.waiting = [card for card in self.waiting if card.invocation_id != invocation_id]
        for watcher in list(self.watchers):
            watcher.card_closed(invocation_id, end)
        self.tell(cards=len(self.waiting))

    # --- OperatorApi ---

    def _check(self, passphrase: bytearray) -> None:
        right = bytes(passphrase) == PASSPHRASE
        passphrase[:] = bytes(len(passphrase))
        if not right:
            raise OperatorRefused("wrong_passphrase", "The passphrase does not open the vault.")

    async def unlock(self, passphrase: bytearray, *, program: str) -> Json:
        self.calls.append(("unlock", (program,)))
        self._check(passphrase)
        self.tell(vault="ready")
        return {"vault": "ready"}

    async def lock(self, *, why: str) -> None:
        self.calls.append(("lock", (why,)))
        self.tell(vault="locked")

    async def status(self) -> Json:
        return self.told

    def cards(self) -> Sequence[Card]:
        return tuple(self.waiting)

    def watch_cards(self, watcher: CardWatcher) -> Callable[[], None]:
        self.watchers.append(watcher)
        return lambda: self.watchers.remove(watcher)

    def card_shown(self, invocation_id: InvocationId) -> None:
        self.calls.append(("card_shown", (invocation_id,)))

    async def decide(self, invocation_id: InvocationId, decision: Decision) -> Json:
        self.calls.append(("decide", (invocation_id, decision)))
        if not any(card.invocation_id == invocation_id for card in self.waiting):
            raise OperatorRefused("too_late", "This card is decided, expired or gone.")
        self.close_card(invocation_id, CardEnd.APPROVED if decision.approve else CardEnd.DENIED)
        return {}

    async def approve_by_passphrase(
        self, invocation_id: InvocationId, *, scope: str | None, passphrase: bytearray, means: str
    ) -> Json:
        self.calls.append(("approve_by_passphrase", (invocation_id, scope, means)))
        self._check(passphrase)
        self.close_card(invocation_id, CardEnd.APPROVED)
        return {}

    async def attest(
        self,
        invocation_id: InvocationId,
        *,
        outcome: str,
        note: str,
        reference: str | None,
        item: str | None,
        supersedes: int | None,
        passphrase: bytearray,
    ) -> Json:
        self.calls.append(("attest", (invocation_id, outcome, note, reference, item, supersedes)))
        self._check(passphrase)
        story = next(s for s in self.stories if s.invocation_id == invocation_id)
        answer = story.attest(Outcome(outcome), note, reference, item)
        if not any(known["outcome"] == "unknown" for known in answer["evidence"]["items"] or ()):
            self.stories.remove(story)
        self.tell(unknown=len(self.stories))
        return answer

    async def alert_close(self, alert_id: int, passphrase: bytearray) -> Json:
        self.calls.append(("alert_close", (alert_id,)))
        self._check(passphrase)
        self.tell(alerts=[alert for alert in self.told.get("alerts", []) if alert["id"] != alert_id])
        return {"closed": alert_id}

    async def action_get(self, invocation_id: InvocationId) -> Json:
        for story in (*self.stories, *self.settled):
            if story.invocation_id == invocation_id:
                return story.envelope()
        raise OperatorRefused("not_known", "There is no such action.")

    async def action_list(self, *, outcome: str | None, state: str | None, limit: int, before: str | None) -> Json:
        return {"rows": self.rows[:limit], "before": None}

    async def unknown(self) -> Sequence[Json]:
        envelopes = [story.envelope() for story in self.stories]
        return envelopes if self.told["vault"] == "ready" else [sealed(e) for e in envelopes]

    async def hosts(self) -> Sequence[Json]:
        if self.told["vault"] != "ready":
            raise OperatorRefused("locked", "The vault is locked.")
        return copy.deepcopy(self.entries)

    async def host_add(self, params: Json, passphrase: bytearray) -> Json:
        raise NotImplementedError

    async def host_list(self, passphrase: bytearray) -> Json:
        raise NotImplementedError

    async def host_edit(self, name: str, params: Json, passphrase: bytearray) -> Json:
        self.calls.append(("host_edit", (name, dict(params))))
        self._check(passphrase)
        for row in self.entries:
            if row["name"] == name:
                row["host_keys"] = [k for k in row["host_keys"] if k["fingerprint"] not in params["forget_keys"]]
        return {}

    async def host_remove(self, name: str, passphrase: bytearray) -> Json:
        self.calls.append(("host_remove", (name,)))
        self._check(passphrase)
        self.entries = [row for row in self.entries if row["name"] != name]
        return {}

    async def host_import(self, text: str, *, credential: str | None, user: str | None, passphrase: bytearray) -> Json:
        self.calls.append(("host_import", (text,)))
        self._check(passphrase)
        skipped = [{"line": 2, "what": "*", "why": "A pattern: only literal names are taken."}]
        return {"added": [HOST], "changed": [], "skipped": skipped, "warnings": []}

    async def credential_add(self, params: Json, secret: bytearray, passphrase: bytearray) -> Json:
        raise NotImplementedError

    async def credential_list(self, passphrase: bytearray | None) -> Json:
        raise NotImplementedError

    async def credential_rotate(self, name: str, secret: bytearray, passphrase: bytearray) -> Json:
        raise NotImplementedError

    async def credential_remove(self, name: str, passphrase: bytearray) -> Json:
        raise NotImplementedError

    async def contract_pending(self) -> Json:
        raise NotImplementedError

    async def contract_adopt(self, files: Sequence[tuple[str, str]], passphrase: bytearray) -> Json:
        raise NotImplementedError

    async def contract_list(self) -> Json:
        raise NotImplementedError

    async def settings_show(self) -> Json:
        raise NotImplementedError

    async def settings_set(self, key: str, value: str, passphrase: bytearray) -> Json:
        raise NotImplementedError

    def on_status(self, listener: Callable[[Json], None]) -> Callable[[], None]:
        self.listeners.append(listener)
        listener(self.told)
        return lambda: self.listeners.remove(listener)
