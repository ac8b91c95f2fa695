"""What the unknown window says of each lost answer: the list, the evidence, the statement. Plain data, no Qt.

Input are envelopes with `events` in the shape of `interface`, section 3; `now` is an aware datetime in the zone that
the operator reads. Sealed fields are null while the vault is locked, and every sentence has a form for that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import urlsplit

from affidavit.broker import events
from affidavit.broker.api import Json
from affidavit.broker.terms import Code, InvocationId, Outcome, Source
from affidavit.gui import texts_unknown as texts
from affidavit.gui import timeline_view, times
from affidavit.gui.figures import count
from affidavit.gui.runs import Line, Mark, Run, plain, revealed
from affidavit.gui.texts import OUTCOME, SOURCE
from affidavit.gui.timeline_view import TimelineRow, seen
from affidavit.ipc.methods import NOTE_CHARS

_KEYS_NAMED = 4
"""Keys of unknown items that a sentence names."""
REFERENCE_LIMIT = 1_024
"""Characters, as the operator's socket takes them too."""


@dataclass(frozen=True, slots=True)
class Age:
    """The age bar. `share` is the part of the recovery time that is used, 0 to 1; 1 and `past` once it is over."""

    share: float
    past: bool
    left: str
    right: str

    @property
    def accessible(self) -> str:
        return texts.AGE_ACCESSIBLE.format(left=self.left, right=self.right)


@dataclass(frozen=True, slots=True)
class ListRow:
    """One line of the list."""

    invocation_id: InvocationId
    title: str
    place: str
    age: Age
    note: str

    @property
    def accessible(self) -> str:
        return texts.ROW_ACCESSIBLE.format(
            title=self.title, place=self.place, age=self.age.left, deadline=self.age.right, note=self.note
        )


@dataclass(frozen=True, slots=True)
class Target:
    """What is or was called, in runs to draw. `method` is empty for SSH, whose command is in the lines."""

    method: str
    lines: tuple[Line, ...]

    @property
    def plain(self) -> str:
        """The whole on one line, as a person may copy it."""
        url = "".join(map(plain, self.lines))
        return f"{self.method} {url}" if self.method else url


@dataclass(frozen=True, slots=True)
class ItemRow:
    """One item of a batch. `number` counts from 1; `key` is what it is called, as recorded."""

    number: int
    key: str
    outcome: Outcome
    evidence: str

    @property
    def label(self) -> str:
        return texts.ATTEST_ITEM.format(n=self.number, key=seen(self.key))

    @property
    def accessible(self) -> str:
        return texts.ITEM_ACCESSIBLE.format(
            n=self.number, key=seen(self.key), outcome=OUTCOME[self.outcome], evidence=self.evidence
        )


@dataclass(frozen=True, slots=True)
class Subject:
    """What a statement may be about: one unknown item, or with `item` None the whole request."""

    item: str | None
    label: str


@dataclass(frozen=True, slots=True)
class Detail:
    """One action in full. `query` is the status query, None where none is known or it is sealed.

    Of a batch `items` are all, and `subjects` what may be attested; of another action both are empty.
    """

    invocation_id: InvocationId
    title: str
    target: Target | None
    byline: str
    age: Age
    proven: str
    not_proven: str
    timeline: tuple[TimelineRow, ...]
    records: str
    query: Target | None
    query_note: str
    items: tuple[ItemRow, ...]
    items_counts: str
    items_whole: str
    subjects: tuple[Subject, ...]


def ordered(envelopes: Sequence[Json], now: datetime) -> tuple[Json, ...]:
    """Past the recovery deadline first, the longest past on top; then by the time left. Without a deadline: last."""

    def rank(envelope: Json) -> tuple[bool, float]:
        deadline = _recovery(_evidence(envelope))
        return (deadline is None, (deadline - now).total_seconds() if deadline else 0.0)

    return tuple(sorted(envelopes, key=rank))


def list_row(envelope: Json, now: datetime) -> ListRow:
    """The action's line in the list."""
    evidence = _evidence(envelope)
    sent, deadline = _dispatched(evidence), _recovery(evidence)
    share, past = _share(sent, deadline, now)
    if sent is None or deadline is None:
        right = texts.ROW_DEADLINE_NONE
    else:
        right = (texts.ROW_DEADLINE_WAS if past else texts.ROW_DEADLINE).format(deadline=times.length(deadline - sent))
    return ListRow(
        invocation_id=InvocationId(envelope["invocation_id"]),
        title=title(envelope),
        place=_place(evidence),
        age=Age(
            share=share,
            past=past,
            left=texts.ROW_AGE.format(age=times.length(now - sent)) if sent else texts.ROW_AGE_NONE,
            right=right,
        ),
        note=_note(evidence),
    )


def detail(envelope: Json, now: datetime) -> Detail:
    """The action in full."""
    evidence = _evidence(envelope)
    shown = timeline_view.rows(envelope.get("events") or (), now)
    query = _query(evidence)
    items = _items(evidence)
    return Detail(
        invocation_id=InvocationId(envelope["invocation_id"]),
        title=title(envelope),
        target=target(evidence.get("target")),
        byline=_byline(envelope),
        age=_age(evidence, now),
        proven=_proven(envelope, now),
        not_proven=_not_proven(envelope, now),
        timeline=shown,
        records=timeline_view.span(shown),
        query=query,
        query_note=_query_note(evidence, query),
        items=items,
        items_counts=texts.ITEMS_COUNTS.format(**_by_outcome(items)),
        items_whole=texts.ITEMS_WHOLE.format(
            outcome=OUTCOME[Outcome(_facts(envelope)["outcome"])].lower(), record=_verdict_record(envelope)
        )
        if items
        else "",
        subjects=_subjects(envelope, items),
    )


def title(envelope: Json) -> str:
    """The contract's own title; without one the method and host; while sealed the invocation's id."""
    bound = _first(envelope, events.PreflightValidated)
    if bound is not None and bound.title:
        return seen(bound.title)
    target = _evidence(envelope).get("target") or {}
    if target.get("kind") == "http" and target.get("url"):
        return texts.TITLE_HTTP.format(method=target.get("method"), host=seen(urlsplit(target["url"]).netloc))
    if target.get("host"):
        return texts.TITLE_SSH.format(host=seen(str(target["host"])))
    return texts.TITLE_SEALED.format(invocation=envelope["invocation_id"])


def open_still(envelope: Json) -> bool:
    """Whether it still belongs in the list: it is unknown, or an item of it is."""
    items = _items(_evidence(envelope))
    return _facts(envelope).get("outcome") == Outcome.UNKNOWN or _by_outcome(items)["unknown"] > 0


# --- The statement -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Draft:
    """What the operator has filled in so far. `item` is the key of an item, None for the whole request."""

    outcome: Outcome | None = None
    note: str = ""
    reference: str = ""
    item: str | None = None

    def missing(self) -> str | None:
        """The one next step before the statement can be reviewed, or None."""
        if self.outcome is None:
            return texts.ATTEST_NEEDS_OUTCOME
        note, reference = self.note.strip(), self.reference.strip()
        if not note:
            return texts.ATTEST_NEEDS_NOTE
        if len(note) > NOTE_CHARS:
            return texts.ATTEST_NOTE_LONG.format(n=count(len(note)), limit=count(NOTE_CHARS))
        if len(reference) > REFERENCE_LIMIT:
            return texts.ATTEST_REFERENCE_LONG.format(n=count(len(reference)), limit=count(REFERENCE_LIMIT))
        return None


@dataclass(frozen=True, slots=True)
class Consequence:
    """One line under the statement; `changes` is False for what stays as it is."""

    text: str
    changes: bool


@dataclass(frozen=True, slots=True)
class Statement:
    """The second look: what will be sealed, word for word, and what follows from it."""

    invocation_id: InvocationId
    outcome: Outcome
    note: str
    reference: str | None
    item: str | None
    claim: str
    signed: str
    consequences: tuple[Consequence, ...]


def statement(envelope: Json, draft: Draft, now: datetime) -> Statement:
    """The statement of a draft from which nothing is missing."""
    if draft.outcome is None or draft.missing() is not None:
        raise ValueError("a statement needs an outcome and what was checked")
    record = _verdict_record(envelope)
    stays = texts.STAYS.format(record=record, never=texts.NEVER_ERASED) if record else None
    items = _items(_evidence(envelope))
    item = next((row for row in items if row.key == draft.item), None)
    claim, told = (texts.CLAIMS, texts.AGENT_TOLD) if item is None else (texts.CLAIMS_ITEM, texts.AGENT_TOLD_ITEM)
    named = {"n": item.number, "key": seen(item.key)} if item is not None else {}
    open_items = sum(row.outcome is Outcome.UNKNOWN for row in items) if item is None else 0
    follow = (Consequence(texts.counted(open_items, *texts.ITEMS_FOLLOW), changes=True),) if open_items else ()
    return Statement(
        invocation_id=InvocationId(envelope["invocation_id"]),
        outcome=draft.outcome,
        note=draft.note.strip(),
        reference=draft.reference.strip() or None,
        item=draft.item,
        claim=claim[draft.outcome].format(title=title(envelope), operation=envelope.get("operation_id"), **named),
        signed=texts.SIGNED.format(on=times.signed_on(now)),
        consequences=(
            Consequence(texts.ADDS, changes=True),
            Consequence(told[draft.outcome], changes=True),
            *follow,
            Consequence(stays or texts.STAYS_UNNAMED.format(never=texts.NEVER_ERASED), changes=False),
        ),
    )


def attested(signed: Statement, record: int) -> str:
    """The one sentence after an attestation, which is in this record."""
    if signed.item is not None:
        return texts.ATTEST_DONE_ITEM[signed.outcome].format(item=seen(signed.item), record=record)
    return texts.ATTEST_DONE[signed.outcome].format(record=record)


def signable(statement: Statement, envelope: Json | None) -> bool:
    """Whether what the statement is about is still unknown; `envelope` is its newest, None where it left the list."""
    if envelope is None:
        return False
    if statement.item is None:
        return bool(_facts(envelope).get("outcome") == Outcome.UNKNOWN)
    unknown = [row.key for row in _items(_evidence(envelope)) if row.outcome is Outcome.UNKNOWN]
    return statement.item in unknown


def overtaken(statement: Statement, envelope: Json) -> str:
    """The sentence where another source was faster: what it says, before anybody signs (R77)."""
    evidence, facts = _evidence(envelope), _facts(envelope)
    if statement.item is not None:
        outcome = next(row.outcome for row in _items(evidence) if row.key == statement.item)
        return texts.OVERTAKEN_ITEM.format(outcome=OUTCOME[outcome].lower())
    return texts.OVERTAKEN.format(
        outcome=OUTCOME[Outcome(facts["outcome"])].lower(),
        source=SOURCE[Source(evidence["source"])],
        record=(facts.get("settled") or {}).get("record") or evidence.get("result_record"),
    )


def refused(code: str, message: str, remedy: str | None) -> str:
    """The sentence for a refused call: ours where the code has one, with the broker's next step behind it."""
    return with_remedy(texts.REFUSED.get(code, message), remedy)


def with_remedy(message: str, remedy: str | None) -> str:
    """A sentence and the next step, where there is one."""
    return texts.REFUSED_WITH_REMEDY.format(message=message, remedy=remedy) if remedy else message


# --- Reading the envelope ------------------------------------------------------------------------------------------


def _evidence(envelope: Json) -> Mapping[str, Any]:
    evidence: Mapping[str, Any] = envelope.get("evidence") or {}
    return evidence


def _facts(envelope: Json) -> Mapping[str, Any]:
    facts: Mapping[str, Any] = envelope.get("error") or envelope.get("pending") or envelope.get("result") or {}
    return facts


def _dispatched(evidence: Mapping[str, Any]) -> datetime | None:
    return times.parse((evidence.get("times") or {}).get("dispatched"))


def _recovery(evidence: Mapping[str, Any]) -> datetime | None:
    return times.parse((evidence.get("deadlines") or {}).get("recovery"))


def _share(sent: datetime | None, deadline: datetime | None, now: datetime) -> tuple[float, bool]:
    if sent is None or deadline is None:
        return 0.0, False
    if now >= deadline:
        return 1.0, True
    whole = (deadline - sent).total_seconds()
    return (min(1.0, max(0.0, (now - sent).total_seconds() / whole)) if whole > 0 else 1.0), False


def _age(evidence: Mapping[str, Any], now: datetime) -> Age:
    sent, deadline = _dispatched(evidence), _recovery(evidence)
    share, past = _share(sent, deadline, now)
    left = texts.AGE_SENT.format(age=times.length(now - sent)) if sent else texts.AGE_SENT_NONE
    if deadline is None:
        return Age(share, past, left, texts.AGE_NO_DEADLINE)
    window = times.parse((evidence.get("idempotency") or {}).get("window_open_until"))
    if window is None:
        form = texts.AGE_STOPPED if past else texts.AGE_STOPS
    elif window > now:
        form = texts.AGE_STOPPED_KEY if past else texts.AGE_STOPS_KEY
    else:
        form = texts.AGE_STOPPED_KEY_OVER if past else texts.AGE_STOPS_KEY_OVER
    key = times.length(window - now) if window else ""
    return Age(
        share, past, left, form.format(left=times.length(deadline - now), ago=times.length(now - deadline), key=key)
    )


def _place(evidence: Mapping[str, Any]) -> str:
    target = evidence.get("target") or {}
    if target.get("url"):
        return seen(urlsplit(str(target["url"])).netloc)
    return seen(str(target["host"])) if target.get("host") else texts.PLACE_SEALED


def _note(evidence: Mapping[str, Any]) -> str:
    items = _items(evidence)
    open_items = _by_outcome(items)["unknown"]
    if open_items:
        return texts.ROW_ITEMS.format(n=open_items, total=len(items))
    if evidence.get("target") is None:
        return texts.ROW_SEALED
    return texts.ROW_QUERY if _query(evidence) else texts.ROW_NO_QUERY


def target(told: object) -> Target | None:
    """The target of an envelope or of a row of `action.list`; None while it is sealed."""
    if not isinstance(told, Mapping):
        return None
    if told.get("url"):
        return _http_target(str(told.get("method") or ""), str(told["url"]))
    if told.get("host"):
        host = revealed(str(told["host"]), Mark.STRONG)
        return Target("", (host, revealed(str(told.get("command") or ""))))
    return None


def _http_target(method: str, url: str) -> Target:
    """Scheme, host and path on one line; the query, if any, on its own."""
    parts = urlsplit(url)
    first = (
        Run(f"{parts.scheme}://", Mark.FAINT),
        *revealed(parts.netloc, Mark.STRONG),
        *revealed(parts.path),
    )
    return Target(method, (first, _query_line(parts.query)) if parts.query else (first,))


def _query_line(query: str) -> Line:
    """`?key=value&key=value`: keys in the second ink, values in the accent."""
    runs: list[Run] = []
    for i, part in enumerate(query.split("&")):
        key, equals, value = part.partition("=")
        runs += (Run("&" if i else "?", Mark.SECOND), *revealed(key + equals, Mark.SECOND))
        runs += revealed(value, Mark.VALUE)
    return tuple(runs)


def _query(evidence: Mapping[str, Any]) -> Target | None:
    told = evidence.get("reconcile") or {}
    if not told.get("available"):
        return None
    if told.get("url"):
        return _http_target(str(told.get("method") or "GET"), str(told["url"]))
    return Target("", (revealed(str(told["command"])),)) if told.get("command") else None


def _query_note(evidence: Mapping[str, Any], query: Target | None) -> str:
    if query is not None:
        return texts.ASK_BY_HAND
    return texts.ASK_SEALED if (evidence.get("reconcile") or {}).get("available") else texts.ASK_NONE


def _items(evidence: Mapping[str, Any]) -> tuple[ItemRow, ...]:
    return tuple(
        ItemRow(n, str(item["key"]), Outcome(item["outcome"]), seen(str(item.get("evidence") or texts.STOPPED_NONE)))
        for n, item in enumerate(evidence.get("items") or (), 1)
    )


def _by_outcome(items: Sequence[ItemRow]) -> dict[str, int]:
    return {outcome.value: sum(row.outcome is outcome for row in items) for outcome in Outcome}


def _subjects(envelope: Json, items: Sequence[ItemRow]) -> tuple[Subject, ...]:
    """The whole only while nothing decides it; an item is attested by itself."""
    if not items:
        return ()
    unknown = _facts(envelope).get("outcome") == Outcome.UNKNOWN
    whole = (Subject(None, texts.ATTEST_WHOLE),) if unknown else ()
    return whole + tuple(Subject(row.key, row.label) for row in items if row.outcome is Outcome.UNKNOWN)


def _byline(envelope: Json) -> str:
    evidence = _evidence(envelope)
    parts = [texts.BYLINE_OPERATION.format(operation=envelope.get("operation_id"))]
    attempt, left = evidence.get("attempt"), evidence.get("attempts_left")
    if attempt is not None and left is not None:
        parts.append(texts.BYLINE_ATTEMPT.format(n=attempt, total=attempt + left))
    elif attempt is not None:
        parts.append(texts.BYLINE_ATTEMPT_ONLY.format(n=attempt))
    items = evidence.get("items")
    if items:
        parts.append(texts.counted(len(items), *texts.BYLINE_ITEMS))
    accepted = _first(envelope, events.ActionAccepted)
    if accepted is not None and accepted.agent:
        parts.append(texts.BYLINE_ASKED.format(agent=seen(accepted.agent)))
    return "  ·  ".join(parts)


_E = TypeVar("_E", bound=events.Event)


def _first(envelope: Json, kind: type[_E]) -> _E | None:
    """The first event of this kind whose detail can be read."""
    told = map(timeline_view.opened, envelope.get("events") or ())
    return next((event for event in told if isinstance(event, kind)), None)


def _proven(envelope: Json, now: datetime) -> str:
    """The strongest thing a record proves, and which record: the last confirmed one that is not the verdict itself."""
    evidence = _evidence(envelope)
    items = _items(evidence)
    decided = _by_outcome(items)
    if decided["committed"] or decided["rejected"]:
        return texts.PROVEN_ITEMS.format(total=len(items), record=_verdict_record(envelope), **decided)
    last = evidence.get("last_confirmed") or {}
    stage, record = last.get("stage"), last.get("record")
    if record is None:
        dispatch = evidence.get("dispatch_record")
        return texts.PROVEN_UNNAMED.format(record=dispatch) if dispatch is not None else texts.PROVEN_NOTHING
    at = times.parse(last.get("at"))
    known = {
        "peer": (evidence.get("connection") or {}).get("peer") or texts.PEER_UNNAMED,
        "at": times.clock(at, now) if at else texts.AT_UNNAMED,
        "record": record,
    }
    match stage:
        case "request_sent":
            sent = _first(envelope, events.RequestSent)
            return (
                texts.counted(sent.sent, *texts.PROVEN_SENT, **known)
                if sent
                else _filled(texts.PROVEN_SENT_WHOLE, known)
            )
        case "remote_response_started":
            started = _first(envelope, events.RemoteResponseStarted)
            status = started.status if started else None
            return _filled(texts.PROVEN_STARTED if status else texts.PROVEN_STARTED_PLAIN, known, status)
        case "remote_response_complete":
            complete = _first(envelope, events.RemoteResponseComplete)
            status = complete.status if complete else None
            return _filled(texts.PROVEN_COMPLETE if status else texts.PROVEN_COMPLETE_PLAIN, known, status)
        case _:
            return _filled(texts.PROVEN_DISPATCHED, known)


def _filled(form: str, known: Mapping[str, object], status: int | None = None) -> str:
    return form.format(status=status, **known)


def _not_proven(envelope: Json, now: datetime) -> str:
    keys = [seen(row.key) for row in _items(_evidence(envelope)) if row.outcome is Outcome.UNKNOWN]
    if keys and _facts(envelope).get("outcome") != Outcome.UNKNOWN:
        more = len(keys) - _KEYS_NAMED
        if more > 0:
            named = ", ".join(keys[:_KEYS_NAMED])
            return texts.NOT_PROVEN_ITEMS_MORE.format(n=count(len(keys)), keys=named, more=count(more))
        return texts.counted(len(keys), *texts.NOT_PROVEN_ITEMS, keys=", ".join(keys))
    why = _why(envelope, now)
    if _evidence(envelope).get("target") is None:
        return texts.NOT_PROVEN_SEALED.format(why=why)
    return texts.NOT_PROVEN_WHETHER.format(title=title(envelope), why=why)


_WHY: Mapping[str, str] = {
    Code.REMOTE_RESULT_INCOMPLETE: texts.WHY_INCOMPLETE,
    Code.CALLER_CANCELLED: texts.WHY_CANCELLED,
    Code.BROKER_RESTARTED: texts.WHY_RESTARTED,
    Code.REMOTE_IN_PROGRESS: texts.WHY_KEY_IN_USE,
    Code.RESULT_STORAGE_FAILED: texts.WHY_STORAGE,
    Code.IN_PROGRESS: texts.WHY_OPEN,
}
_WHY_CLOSED: Mapping[str | None, str] = {
    None: texts.WHY_NO_ANSWER,
    "answer_before_whole": texts.WHY_NOT_WHOLE,
    "answer_before_request": texts.WHY_BEFORE,
}
"""REMOTE_OUTCOME_UNKNOWN covers three observations, told apart by the record's `message`."""


def _why(envelope: Json, now: datetime) -> str:
    """Why no answer decides, as one sentence."""
    facts = _facts(envelope)
    code = str(facts.get("code"))
    verdict = _first(envelope, events.OutcomeUnknown)
    if code == Code.REMOTE_DEADLINE:
        deadline = times.parse((_evidence(envelope).get("deadlines") or {}).get("request"))
        return texts.WHY_DEADLINE.format(at=times.clock(deadline, now)) if deadline else texts.WHY_DEADLINE_PLAIN
    if code == Code.GATEWAY_UNCERTAIN:
        status = (facts.get("http") or {}).get("status")
        return texts.WHY_GATEWAY.format(status=status) if status else texts.WHY_GATEWAY_PLAIN
    if code == Code.REMOTE_OUTCOME_UNKNOWN and verdict is not None:
        return _WHY_CLOSED.get(verdict.message, texts.WHY_CUT)
    if code == Code.CALLER_CANCELLED and verdict is not None and verdict.message == "caller_ended":
        return texts.WHY_CALLER_ENDED
    return _WHY.get(code, texts.WHY_CUT)


def _verdict_record(envelope: Json) -> int | None:
    """The record of the attempt's own verdict, else that of the dispatch."""
    kinds = ("OUTCOME_UNKNOWN", "RESULT_COMMITTED")
    verdicts = [e["record"] for e in envelope.get("events") or () if e["kind"] in kinds]
    if verdicts:
        return int(verdicts[-1])
    dispatch = _evidence(envelope).get("dispatch_record")
    return int(dispatch) if dispatch is not None else None
