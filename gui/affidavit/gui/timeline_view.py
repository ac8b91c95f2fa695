"""The evidence of one action as rows, in record order (design, Timeline; R56, R60). Plain data, no Qt.

A row says what its record says and no more. While the vault is locked a record's detail is sealed: the row then names
the kind of record alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from affidavit.broker import events
from affidavit.broker.api import Json
from affidavit.broker.terms import Kind, Outcome, Source
from affidavit.gui import texts_unknown as texts
from affidavit.gui import times
from affidavit.gui.runs import plain, revealed
from affidavit.gui.texts import OUTCOME, SOURCE


class Node(StrEnum):
    """The mark on the rail: who or what speaks in this record."""

    ASKED = "asked"
    AUTHORISATION = "authorisation"
    EXECUTION = "execution"
    QUERY = "query"
    ATTESTATION = "attestation"
    COMMITTED = "committed"
    REJECTED = "rejected"
    UNKNOWN = "unknown"
    NOT_ATTEMPTED = "not_attempted"


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """One record. `line_above` is set on the record of the dispatch; `open_below`: from here on it is unknown."""

    record: int
    node: Node
    text: str
    caption: str
    time: str
    line_above: bool = False
    open_below: bool = False

    @property
    def accessible(self) -> str:
        """The row as one sentence for a screen reader."""
        return texts.EVENT_ACCESSIBLE.format(record=self.record, at=self.time, text=self.text, caption=self.caption)


def rows(told: Sequence[Json], now: datetime) -> tuple[TimelineRow, ...]:
    """The rows of an envelope's `events`, by record number; times in the zone of `now`."""
    made: list[TimelineRow] = []
    bound: events.PreflightValidated | None = None
    unknown = False
    for item in sorted(told, key=lambda item: int(item["record"])):
        kind, event = str(item["kind"]), opened(item)
        if isinstance(event, events.PreflightValidated):
            bound = event
        said = _PLAIN.get(kind, _Said(Node.EXECUTION, kind, texts.CAPTION_BROKER))
        if event is not None:
            said = _said(event, bound, said)
        unknown = _stays_unknown(kind, event, unknown)
        at = times.parse(item.get("at"))
        made.append(
            TimelineRow(
                record=int(item["record"]),
                node=said.node,
                text=said.text,
                caption=said.caption,
                time=times.clock(at, now) if at else "",
                line_above=kind == Kind.DISPATCH_STARTED,
                open_below=unknown,
            )
        )
    return tuple(made)


def span(shown: Sequence[TimelineRow]) -> str:
    """`records 36 to 47`."""
    if not shown:
        return texts.EVIDENCE_NONE
    first, last = shown[0].record, shown[-1].record
    if first == last:
        return texts.EVIDENCE_RECORD.format(first=first)
    return texts.EVIDENCE_RECORDS.format(first=first, last=last)


def opened(item: Json) -> events.Event | None:
    """The event of one entry of `events`; None while its detail is sealed, or where this version does not know it."""
    detail = item.get("detail")
    if not isinstance(detail, Mapping):
        return None
    try:
        return events.decode(item["kind"], detail)
    except (KeyError, TypeError, ValueError):
        return None


def seen(text: str) -> str:
    """Foreign text as one line of plain text in which nothing hides: `U+202E` stands for what would not be seen."""
    return plain(revealed(text))


# --- One record ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Said:
    node: Node
    text: str
    caption: str


_OBSERVED = SOURCE[Source.TRANSPORT_OBSERVED]
_ANSWERED = SOURCE[Source.REMOTE_RESPONSE]

_PLAIN: Mapping[str, _Said] = {
    Kind.ACTION_ACCEPTED: _Said(Node.ASKED, texts.EVENT_ACCEPTED_PLAIN, texts.CAPTION_AGENT),
    Kind.PREFLIGHT_VALIDATED: _Said(Node.AUTHORISATION, texts.EVENT_CHECKED, texts.CAPTION_AUTHORISATION),
    Kind.CARD_OPENED: _Said(Node.AUTHORISATION, texts.EVENT_CARD, texts.CAPTION_AUTHORISATION),
    Kind.APPROVAL_DECIDED: _Said(Node.AUTHORISATION, texts.EVENT_DECIDED, texts.CAPTION_AUTHORISATION),
    Kind.CREDENTIAL_AUTHORIZED: _Said(Node.AUTHORISATION, texts.EVENT_CREDENTIAL_PLAIN, texts.CAPTION_AUTHORISATION),
    Kind.SETUP_ATTEMPTED: _Said(Node.EXECUTION, texts.EVENT_SETUP_PLAIN, _OBSERVED),
    Kind.ACTION_STOPPED: _Said(Node.NOT_ATTEMPTED, texts.EVENT_STOPPED, texts.CAPTION_BROKER),
    Kind.DISPATCH_STARTED: _Said(Node.EXECUTION, texts.EVENT_DISPATCH, texts.CAPTION_EXECUTION),
    Kind.REQUEST_SENT: _Said(Node.EXECUTION, texts.EVENT_SENT_PLAIN, _OBSERVED),
    Kind.REMOTE_RESPONSE_STARTED: _Said(Node.EXECUTION, texts.EVENT_ANSWER_STARTED_PLAIN, _OBSERVED),
    Kind.REMOTE_RESPONSE_COMPLETE: _Said(Node.EXECUTION, texts.EVENT_ANSWER_COMPLETE_PLAIN, _ANSWERED),
    Kind.CANCEL_ASKED: _Said(Node.ASKED, texts.EVENT_CANCEL, texts.CAPTION_AGENT),
    Kind.CALLER_GONE: _Said(Node.ASKED, texts.EVENT_GONE, texts.CAPTION_AGENT),
    Kind.RESULT_COMMITTED: _Said(Node.EXECUTION, texts.EVENT_RESULT_PLAIN, _ANSWERED),
    Kind.OUTCOME_UNKNOWN: _Said(Node.UNKNOWN, texts.EVENT_UNKNOWN_PLAIN, texts.CAPTION_UNKNOWN),
    Kind.JOB_OPENED: _Said(Node.EXECUTION, texts.EVENT_JOB, _ANSWERED),
    Kind.LOOKED_UP: _Said(Node.QUERY, texts.EVENT_LOOKED_UP_PLAIN, SOURCE[Source.REMOTE_QUERY]),
    Kind.OUTCOME_SETTLED: _Said(Node.EXECUTION, texts.EVENT_SETTLED_PLAIN, texts.CAPTION_LATER),
    Kind.OUTCOME_DISPUTED: _Said(Node.QUERY, texts.EVENT_DISPUTED_PLAIN, texts.CAPTION_LATER),
    Kind.LEASE_TAKEN: _Said(Node.AUTHORISATION, texts.EVENT_LEASE, texts.CAPTION_AUTHORISATION),
    Kind.RESULT_RELEASED: _Said(Node.AUTHORISATION, texts.EVENT_RELEASED, texts.CAPTION_AUTHORISATION),
    Kind.RESULT_DELIVERED: _Said(Node.EXECUTION, texts.EVENT_DELIVERED, texts.CAPTION_DELIVERY),
    Kind.DELIVERY_FAILED: _Said(Node.EXECUTION, texts.EVENT_DELIVERY_FAILED, texts.CAPTION_DELIVERY),
    Kind.RESULT_EXPIRED: _Said(Node.EXECUTION, texts.EVENT_EXPIRED, texts.CAPTION_DELIVERY),
}
"""What each kind of record says by itself, its detail unread."""

_OUTCOME_NODES = {
    Outcome.COMMITTED: Node.COMMITTED,
    Outcome.REJECTED: Node.REJECTED,
    Outcome.UNKNOWN: Node.UNKNOWN,
    Outcome.NOT_ATTEMPTED: Node.NOT_ATTEMPTED,
}
_MEANS = {
    "card": texts.EVENT_APPROVED_CARD,
    "card_passphrase": texts.EVENT_APPROVED_PASSPHRASE,
    "cli_passphrase": texts.EVENT_APPROVED_PASSPHRASE,
    "grant": texts.EVENT_ALLOWED_GRANT_PLAIN,
    "policy": texts.EVENT_ALLOWED_POLICY,
}


def _said(event: events.Event, bound: events.PreflightValidated | None, plain: _Said) -> _Said:
    """What the record says with its detail read; `bound` is what this invocation was bound to."""
    match event:
        case events.ActionAccepted(agent=agent) if agent:
            return _Said(plain.node, texts.EVENT_ACCEPTED.format(agent=seen(agent)), plain.caption)
        case events.PreflightValidated():
            return _Said(plain.node, plain.text, _for(event))
        case events.ApprovalDecided():
            return _Said(plain.node, _decided(event), _for(bound))
        case events.CredentialAuthorized(credential_id=None):
            return _Said(plain.node, texts.EVENT_CREDENTIAL_NONE, plain.caption)
        case events.CredentialAuthorized(version=version) if bound and bound.credential_name:
            text = texts.EVENT_CREDENTIAL.format(credential=seen(bound.credential_name), version=version)
            return _Said(plain.node, text, plain.caption)
        case events.SetupAttempted(identity=str(), detail=learnt):
            return _Said(plain.node, texts.EVENT_PROBED.format(learnt=seen(learnt)), plain.caption)
        case events.SetupAttempted(n=n, stage=stage, code=code):
            return _Said(plain.node, texts.EVENT_SETUP.format(n=n, stage=stage, code=code), plain.caption)
        case events.RequestSent(sent=sent):
            return _Said(plain.node, texts.counted(sent, *texts.EVENT_SENT), plain.caption)
        case events.RemoteResponseStarted(status=int() as status):
            return _Said(plain.node, texts.EVENT_ANSWER_STARTED.format(status=status), plain.caption)
        case events.RemoteResponseComplete(status=int() as status):
            return _Said(plain.node, texts.EVENT_ANSWER_COMPLETE.format(status=status), plain.caption)
        case events.ResultCommitted(outcome=outcome, source=source):
            text = texts.EVENT_RESULT.format(outcome=_word(outcome))
            return _Said(_OUTCOME_NODES[outcome], text, SOURCE[source])
        case events.OutcomeUnknown(code=code, source=source, message=message):
            text = texts.EVENT_UNKNOWN.get((code, message), plain.text)
            return _Said(plain.node, text, texts.CAPTION_SOURCE_UNKNOWN.format(source=SOURCE[source]))
        case events.LookedUp(answer=answer, worth=worth):
            caption = texts.CAPTION_QUERY_WORTH.format(worth=seen(worth))
            return _Said(plain.node, texts.EVENT_LOOKED_UP.format(answer=seen(answer)), caption)
        case events.OutcomeSettled():
            return _settled(event)
        case events.OutcomeDisputed(contradicts=record):
            return _Said(plain.node, texts.EVENT_DISPUTED.format(record=record), plain.caption)
        case _:
            return plain


def _decided(event: events.ApprovalDecided) -> str:
    if not event.approved:
        return texts.EVENT_DENIED
    if event.means == "grant" and event.grant:
        return texts.EVENT_ALLOWED_GRANT.format(grant=event.grant)
    return _MEANS.get(event.means or "", texts.EVENT_APPROVED)


def _settled(event: events.OutcomeSettled) -> _Said:
    """The stamp and the lens stay what they are: an attestation never poses as an answer (R57)."""
    word, caption = _word(event.outcome), SOURCE[event.source]
    match event.source:
        case Source.OPERATOR_ATTESTED:
            if event.reference:
                caption = texts.CAPTION_REFERENCE.format(reference=seen(event.reference))
            if event.item is not None:
                text = texts.EVENT_SETTLED_ATTESTED_ITEM.format(item=seen(event.item), outcome=word)
            else:
                text = texts.EVENT_SETTLED_ATTESTED.format(outcome=word)
            return _Said(Node.ATTESTATION, text, caption)
        case Source.REMOTE_QUERY:
            return _Said(Node.QUERY, texts.EVENT_SETTLED_QUERY.format(outcome=word), caption)
        case _:
            text = texts.EVENT_SETTLED_ANSWER.format(outcome=word)
            return _Said(_OUTCOME_NODES[event.outcome], text, caption)


def _stays_unknown(kind: str, event: events.Event | None, before: bool) -> bool:
    """Whether the rail is open after this record; an item's settlement settles that item alone."""
    if kind == Kind.OUTCOME_UNKNOWN:
        return True
    if kind == Kind.OUTCOME_SETTLED:
        return before and isinstance(event, events.OutcomeSettled) and event.item is not None
    return before


def _word(outcome: Outcome) -> str:
    return OUTCOME[outcome].lower()


def _for(bound: events.PreflightValidated | None) -> str:
    """What was authorised: the fingerprint's first two groups, and the credential that goes with it."""
    if bound is None or bound.fingerprint is None:
        return texts.CAPTION_AUTHORISATION
    digits = bound.fingerprint.removeprefix("sha256:")
    groups = f"{digits[:4]} {digits[4:8]}"
    if bound.credential_name is None:
        return texts.CAPTION_FOR.format(fingerprint=groups)
    return texts.CAPTION_FOR_CREDENTIAL.format(
        fingerprint=groups, credential=seen(bound.credential_name), version=bound.credential_version
    )
