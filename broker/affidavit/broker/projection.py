"""The projection: every invocation as its records prove it, and the one way to append an event.

`record` folds the events and appends records and row in one transaction, so that the journal's clear columns never say
anything that its records do not. Invocations of this run are kept in memory; older ones are read back: whole while the
vault is open, else from their clear columns (`Invocation.partial`). Owned by the broker's loop.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from operator import attrgetter
from typing import Any

from affidavit.broker import events as ev
from affidavit.broker.advice import Operation
from affidavit.broker.moment import Clock
from affidavit.broker.outcome import Confirmed, Invocation, apply
from affidavit.broker.terms import (
    Code,
    Effect,
    InvocationId,
    Kind,
    Micros,
    OperationId,
    Outcome,
    Phase,
    Retry,
    Source,
    State,
)
from affidavit.journal import (
    ActionRow,
    ActionView,
    Blob,
    Draft,
    Journal,
    JournalPoisoned,
    Name,
    Opener,
    Reader,
    Receipt,
    Record,
)

KEPT = 256
"""Finished invocations kept in memory, beside those that are unknown; older ones are read back from the journal."""


JOB_STAGE = str(Kind.JOB_OPENED).lower()
"""The last stage of a job that is followed: look-ups confirm nothing."""

BEGINNINGS = (ev.ActionAccepted, ev.JobOpened)
"""Events of an invocation whose id was just made: nothing of it needs to be looked for."""


@dataclass(frozen=True, slots=True)
class _Clear:
    """What stands in the row in place of an invocation's texts: interned names and digests."""

    target: Name | int | None
    agent: Name | int | None
    contract: Name | int | None
    request: str | None
    effect: str | None
    key: str | None
    program: str | None
    origin: Name | int | None = None
    terms: Name | int | None = None


@dataclass(frozen=True, slots=True)
class _Row:
    """An invocation's row to be (journal.Row)."""

    inv: Invocation
    clear: _Clear

    @property
    def invocation_id(self) -> InvocationId:
        return self.inv.invocation_id

    def columns(self) -> ActionRow:
        return _columns(self.inv, self.clear)


@dataclass(slots=True)
class _Held:
    inv: Invocation
    receipt: Receipt
    clear: _Clear
    deciding: Receipt | None = None
    """Of the newest record with a barrier."""
    firm: Invocation | None = None
    """As it was before that, and before any other whose barrier it did not wait for."""


class Projection:
    """All invocations. `opener` is None while the vault is locked."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._clock = clock
        self._reader: Reader = journal.reader()
        self._held: OrderedDict[InvocationId, _Held] = OrderedDict()
        self._operations: dict[OperationId, list[InvocationId]] = {}
        self._listeners: list[Callable[[Invocation], None]] = []
        self._unknown: dict[InvocationId, _Held | None] | None = None
        """What has an unknown part, looked up once and kept: this process alone writes the journal, and each write is
        compared with all of it. None in place of what is to be read back."""
        self.opener: Opener | None = None

    # -- writing

    def record(
        self,
        invocation_id: InvocationId,
        *events: ev.Event,
        barrier: bool = False,
        blobs: Sequence[Blob] = (),
        at: Micros | None = None,
        job: tuple[InvocationId, ev.JobOpened] | None = None,
    ) -> tuple[Invocation, Receipt]:
        """Append events of one invocation, in order, as of `at` (now); and, in the same transaction, the beginning of
        the `job` that it accepted. Raises IllegalMove; then nothing changed."""
        at = at if at is not None else self._clock.wall()
        held = None if isinstance(events[0], BEGINNINGS) else self._find(invocation_id)
        before = held.inv if held else None
        folded: list[_Row] = []

        def project(seqs: Sequence[int]) -> Sequence[_Row]:
            inv = before
            for seq, event in zip(seqs, events, strict=False):
                inv = apply(inv, event, invocation_id=invocation_id, seq=seq, at=at)
            assert inv is not None
            folded.append(_Row(inv, self._clear(inv, held)))
            if job is not None:
                opened = apply(None, job[1], invocation_id=job[0], seq=seqs[-1], at=at)
                folded.append(_Row(opened, self._clear(opened, None)))
            return folded

        drafts = [Draft(str(e.kind), invocation_id, ev.encode(e), at) for e in events]
        if job is not None:
            drafts.append(Draft(str(job[1].kind), job[0], ev.encode(job[1]), at))
        receipt = self._journal.append(drafts, project, barrier=barrier, blobs=blobs)
        deciding, firm = _decided(held, receipt, barrier=barrier)
        self._hold(_Held(folded[0].inv, receipt, folded[0].clear, deciding, firm), new=held is None)
        for row in folded[1:]:
            self._hold(_Held(row.inv, receipt, row.clear, receipt), new=True)
        for row in folded:
            for listener in self._listeners:
                listener(row.inv)
        return folded[0].inv, receipt

    def note(
        self,
        kind: Kind,
        payload: dict[str, Any],
        *,
        barrier: bool = False,
        blobs: Callable[[Sequence[int]], Sequence[Blob]] | None = None,
        at: Micros | None = None,
    ) -> Receipt:
        """Append a record that belongs to no invocation, as of `at` (now); `blobs` go with it and may be named by its
        number."""
        draft = Draft(str(kind), None, payload, at if at is not None else self._clock.wall())
        return self._journal.append([draft], barrier=barrier, blobs=blobs or ())

    def noted(self, seq: int) -> tuple[Micros, dict[str, Any]] | None:
        """When a record was appended, and its payload; None where it is sealed to us."""
        record = self._reader.record(seq)
        payload = self._payload(record) if record is not None else None
        return (Micros(record.at), payload) if record is not None and payload is not None else None

    def flush(self) -> Receipt:
        """Make everything that was appended so far durable."""
        return self._journal.flush()

    def overrule(self, inv: Invocation) -> None:
        """Hold what is true in memory where the journal can no longer take a record (poisoned)."""
        held = self._held.get(inv.invocation_id)
        if held is not None:
            held.inv, held.deciding, held.firm = inv, None, None
            self._mark(held)
        for listener in self._listeners:
            listener(inv)

    def on_change(self, listener: Callable[[Invocation], None]) -> None:
        self._listeners.append(listener)

    # -- reading

    def get(self, invocation_id: InvocationId) -> Invocation | None:
        held = self._find(invocation_id)
        return held.inv if held else None

    async def recorded(self, invocation_id: InvocationId) -> Invocation | None:
        """An invocation for who may hear nothing that is not durable (R38).

        One that has ended is told once its newest record with a barrier is on disk, what is open once all of it is;
        where that never will be, as it was before that barrier.
        """
        while (held := self._find(invocation_id)) is not None:  # what comes while one waits is waited for as well
            receipt = self._awaited(held)
            if receipt is None:
                return held.inv
            try:
                await receipt.durable()
            except JournalPoisoned:
                now = self._held.get(invocation_id)
                if now is not None and now.firm is not None:
                    self.overrule(now.firm)
                return self.get(invocation_id)
        return None

    def _awaited(self, held: _Held) -> Receipt | None:
        """What has to be on disk before this may be told; None where all of it is."""
        if held.deciding is not None and not held.deciding.on_disk:
            return held.deciding
        return None if held.inv.finished or held.receipt.done else self.flush()

    def durable(self, invocation_id: InvocationId) -> Receipt | None:
        """The receipt of the newest record of an invocation of this run."""
        held = self._held.get(invocation_id)
        return held.receipt if held else None

    def operation(self, operation_id: OperationId) -> Operation:
        """All bound invocations of an operation, oldest first; none if it is not known."""
        ids = self._operations.get(operation_id)
        if ids is None:  # so none of them is held: those that exist are durable
            ids = [InvocationId(v.invocation_id) for v in reversed(self._reader.actions_of(operation_id))]
        return Operation(tuple(m for m in map(self.get, ids) if m is not None))

    def operation_of(self, inv: Invocation) -> Operation:
        """The operation of an invocation; one that was never bound stands alone."""
        if inv.operation_id is None or not bound(inv):
            return Operation((inv,))
        operation = self.operation(inv.operation_id)
        if any(m.invocation_id == inv.invocation_id for m in operation.members):
            return operation
        return Operation((*operation.members, inv))

    def unresolved_by_effect(self, effect_digest: str, *, besides: OperationId | None = None) -> Invocation | None:
        """A write of this effect that is open, or whose operation is unknown; the newest, `besides` one operation's."""
        found = [h.inv for h in self._held.values() if h.inv.effect_digest == effect_digest]
        known = {i.invocation_id for i in found}
        for view in self._reader.unsettled_by_effect(self._digest("effect", effect_digest)):
            if view.invocation_id not in known:
                older = self.get(InvocationId(view.invocation_id))
                if older is not None:
                    found.append(older)
        for hop in (i for i in (*self.open(), *self.unknown()) if i.refers_to is not None):
            # What was asked is settled by its redirect; what follows from it is not.
            found += [m for m in self.operation_of(hop).members if m.effect_digest == effect_digest]
        for inv in sorted(found, key=lambda i: i.accepted_record, reverse=True):
            if inv.effect is not Effect.WRITE or (besides is not None and inv.operation_id == besides):
                continue
            operation = self.operation_of(inv)
            at_work = next((m for m in operation.members if not m.finished), None)
            if at_work is not None or operation.outcome()[0] is Outcome.UNKNOWN:
                return at_work or inv
        return None

    def by_key(self, key: str) -> Invocation | None:
        """The newest invocation that carries this idempotency key."""
        for held in reversed(self._held.values()):
            if held.inv.key == key:
                return held.inv
        views = self._reader.by_key(self._digest("key", key))
        return self.get(InvocationId(views[0].invocation_id)) if views else None

    def unknown(self) -> list[Invocation]:
        """Invocations whose verdict is recorded and whose own outcome, or an item's, is unknown; oldest first."""
        if self._unknown is None:
            self._unknown = {InvocationId(v.invocation_id): None for v in self._reader.unknown_actions()}
            self._unknown |= {i: h for i, h in self._held.items() if _row_state(h.inv) is State.UNKNOWN}
        for invocation_id in [i for i, held in self._unknown.items() if held is None]:
            self._unknown[invocation_id] = held = self._find(invocation_id)
            if held is not None and held.inv.operation_id is not None and bound(held.inv):
                self._members(held.inv.operation_id)
        found = [held.inv for held in self._unknown.values() if held is not None]
        return sorted((i for i in found if _row_state(i) is State.UNKNOWN), key=lambda i: i.accepted_record)

    def open(self) -> list[Invocation]:
        return [h.inv for h in self._held.values() if not h.inv.finished]

    def open_in_journal(self) -> list[InvocationId]:
        """What recovery looks at: open invocations that an earlier run left."""
        return [InvocationId(v.invocation_id) for v in self._reader.open_actions()]

    def records(self, invocation_id: InvocationId) -> list[tuple[Record, dict[str, Any] | None]]:
        """An invocation's durable records with their payloads; None where they are sealed to us."""
        return [(r, self._payload(r)) for r in self._reader.records(invocation_id)]

    def last_stop_was_clean(self) -> bool:
        """Whether the last run that is recorded ended by BROKER_STOPPED. True for a new journal."""
        last = self.head_record()
        while last > 0:
            for record in reversed(self._reader.records_between(max(1, last - 99), last)):
                if record.kind in (Kind.BROKER_STARTED, Kind.BROKER_STOPPED):
                    return record.kind == Kind.BROKER_STOPPED
            last -= 100
        return True

    def head_record(self) -> int:
        """The number of the newest durable record."""
        return self._reader.head().seq

    @property
    def reader(self) -> Reader:
        return self._reader

    def same_request(self, inv: Invocation, request_fingerprint: str) -> bool:
        """Whether an invocation asked for the same; works on clear columns by digest."""
        if inv.request_fingerprint is not None:
            return inv.request_fingerprint == request_fingerprint
        view = self._reader.action(inv.invocation_id)
        return view is not None and view.request_digest == self._digest("request", request_fingerprint)

    def program_digest(self, program: str) -> str:
        return self._digest("program", program)

    def seal(self) -> None:
        """Forget what only an open vault may show; what still runs is kept."""
        self.opener = None
        for invocation_id in [i for i, h in self._held.items() if h.inv.finished]:
            del self._held[invocation_id]
        if self._unknown is not None:
            self._unknown = dict.fromkeys(self._unknown)
        self._operations = {op: ids for op, ids in self._operations.items() if any(i in self._held for i in ids)}

    # -- inside

    def _digest(self, domain: str, text: str | None) -> str:
        return self._journal.digest(domain, (text or "").encode())

    def _payload(self, record: Record) -> dict[str, Any] | None:
        if self.opener is not None:
            return self.opener.payload(record)
        return None

    def _hold(self, held: _Held, *, new: bool) -> None:
        inv = held.inv
        self._held[inv.invocation_id] = held
        self._mark(held)
        if inv.operation_id is not None and bound(inv):
            first = new and inv.retry_of is None and inv.refers_to is None
            ids = self._operations.setdefault(inv.operation_id, []) if first else self._members(inv.operation_id)
            if inv.invocation_id not in ids:
                ids.append(inv.invocation_id)
        if len(self._held) > KEPT:
            self._evict()

    def _members(self, operation_id: OperationId) -> list[InvocationId]:
        """The bound invocations of an operation, oldest first, from now on by memory."""
        ids = self._operations.get(operation_id)
        if ids is None:
            ids = [m.invocation_id for m in self.operation(operation_id).members]
            self._operations[operation_id] = ids
        return ids

    def _find(self, invocation_id: InvocationId) -> _Held | None:
        held = self._held.get(invocation_id) or (self._unknown or {}).get(invocation_id)
        return held or self._load(invocation_id)

    def _mark(self, held: _Held) -> None:
        if self._unknown is None:
            return
        if _row_state(held.inv) is State.UNKNOWN:
            self._unknown[held.inv.invocation_id] = held
        else:
            self._unknown.pop(held.inv.invocation_id, None)

    def _evict(self) -> None:
        done = (held.inv for held in self._held.values() if held.inv.finished and held.receipt.done)
        for inv in list(islice(done, len(self._held) - KEPT)):
            del self._held[inv.invocation_id]
            if inv.operation_id is not None and inv.operation_id in self._operations:
                ids = self._operations[inv.operation_id]
                if not any(i in self._held or i in (self._unknown or {}) for i in ids):
                    del self._operations[inv.operation_id]

    def _load(self, invocation_id: InvocationId) -> _Held | None:
        view = self._reader.action(invocation_id)
        if view is None:
            return None
        clear = _Clear(
            target=view.target,
            agent=view.agent,
            contract=view.contract,
            request=view.request_digest,
            effect=view.effect_digest,
            key=view.key_digest,
            program=view.program_digest,
            origin=view.origin,
            terms=view.terms,
        )
        receipt = _Durable()
        if self.opener is None:
            return _Held(from_columns(view), receipt, clear)
        inv: Invocation | None = None
        for record, payload in self.records(invocation_id):
            event = ev.decode(Kind(record.kind), payload or {})
            inv = apply(inv, event, invocation_id=invocation_id, seq=record.seq, at=Micros(record.at))
        return _Held(inv, receipt, clear) if inv is not None else None

    def _clear(self, inv: Invocation, before: _Held | None) -> _Clear:
        """What stands for the texts of `inv`: as before where they are as before, or are sealed to us."""
        if before is not None and (inv.partial or _texts(inv) == _texts(before.inv)):
            if inv.dispatched and not before.inv.dispatched:
                return replace(before.clear, origin=origin_name(inv.target), terms=_terms_name(inv))
            return before.clear
        target = None
        if inv.target is not None:
            target = f"{inv.target.get('method', '')} {inv.target.get('url', '').partition('?')[0]}".strip()
        return _Clear(
            target=Name("target", target) if target else None,
            agent=Name("agent", inv.agent.partition(",")[0]) if inv.agent else None,
            contract=Name("contract", inv.contract_id) if inv.contract_id else None,
            request=self._digest("request", inv.request_fingerprint) if inv.request_fingerprint else None,
            effect=self._digest("effect", inv.effect_digest) if inv.effect_digest else None,
            key=self._digest("key", inv.key) if inv.key else None,
            program=self._digest("program", inv.program) if inv.program else None,
            origin=origin_name(inv.target) if inv.dispatched else None,
            terms=_terms_name(inv) if inv.dispatched else None,
        )


def origin_name(target: Mapping[str, Any] | None) -> Name | None:
    """Where a target (`evidence.target`) is: scheme, host and port of a URL, or the entry of an SSH host."""
    if target is None:
        return None
    if target.get("kind") == "ssh":
        return Name("origin", f"ssh://{target['host']}")
    return Name("origin", "/".join(str(target.get("url", "")).split("/", 3)[:3]))


def terms_name(contract_id: str, contract_digest: str) -> Name:
    """A contract as it reads: another text of the same id is another."""
    return Name("terms", f"{contract_id} {contract_digest}")


def _terms_name(inv: Invocation) -> Name | None:
    return terms_name(inv.contract_id, inv.contract_digest) if inv.contract_id and inv.contract_digest else None


_texts = attrgetter("target", "agent", "contract_id", "request_fingerprint", "effect_digest", "key", "program")
"""What `_Clear` stands for."""


def _columns(inv: Invocation, clear: _Clear) -> ActionRow:
    return ActionRow(
        invocation_id=inv.invocation_id,
        operation_id=inv.operation_id if inv.operation_id and bound(inv) else "",
        correlation_id=inv.correlation_id,
        session_id=inv.session_id,
        accepted_at=inv.accepted_at,
        dispatched_at=inv.dispatched_at,
        settled_at=inv.settled_at,
        state=str(_row_state(inv)),
        phase=str(inv.phase),
        outcome=str(inv.outcome),
        code=str(inv.code),
        retry=str(inv.retry),
        effect=str(inv.effect) if inv.effect else None,
        idempotent=inv.idempotent,
        needs=inv.needs,
        refers_to=inv.refers_to,
        retry_of=inv.retry_of,
        attempt=inv.attempt,
        generation=inv.generation,
        attempts_limit=inv.attempts_limit,
        accepted_record=inv.accepted_record,
        dispatch_record=inv.dispatch_record,
        last_record=inv.last.record if inv.last else None,
        last_stage=inv.last.stage if inv.last else None,
        last_at=inv.last.at if inv.last else None,
        result_record=inv.result_record,
        window_open_until=inv.window_open_until,
        request_deadline=inv.request_deadline,
        recovery_deadline=inv.recovery_deadline,
        has_lookup=inv.has_lookup,
        key_kept=inv.key is not None or inv.window_open_until is not None,
        source=str(inv.source) if inv.source else None,
        delivery=inv.delivery,
        expired=inv.expired or None,
        request_digest=clear.request,
        effect_digest=clear.effect,
        key_digest=clear.key,
        program_digest=clear.program,
        target=clear.target,
        agent=clear.agent,
        contract=clear.contract,
        origin=clear.origin,
        terms=clear.terms,
    )


def _decided(held: _Held | None, receipt: Receipt, *, barrier: bool) -> tuple[Receipt | None, Invocation | None]:
    """`deciding` and `firm` after one more record."""
    if held is None:
        return (receipt if barrier else None), None
    waited = held.deciding is None or held.deciding.on_disk
    if not barrier:
        return (None, None) if waited else (held.deciding, held.firm)
    return receipt, held.inv if waited else held.firm


class _Durable(Receipt):
    """The receipt of what was read back: durable already."""

    def __init__(self) -> None:
        super().__init__(())
        self.resolve()


def bound(inv: Invocation) -> bool:
    """Whether the operation id is bound: only from PREFLIGHT_VALIDATED on (interface, Operations)."""
    return Kind.PREFLIGHT_VALIDATED in inv.seen or inv.is_job or (inv.partial and inv.operation_id is not None)


def clear(inv: Invocation) -> Invocation:
    """What every session may know: ids, times, verdicts; sealed details as None (interface, Results)."""
    return replace(
        inv,
        partial=True,
        asked={},
        reason=None,
        request_fingerprint=None,
        target=None,
        title=None,
        contract_id=None,
        contract_digest=None,
        fingerprint=None,
        answers=None,
        stdin=None,
        credential_id=None,
        credential_name=None,
        key=None,
        key_scope=None,
        lookup=None,
        spool=None,
        approval=None,
        attempts=(),
        connection=None,
        completion=None,
        status=None,
        headers={},
        remote_request_id=None,
        response_sha256=None,
        observation=None,
        diagnostic=None,
        message=None,
        items=None,
        items_sealed=inv.has_unknown_items,
        job=None,
        consistency=None,
        redirect=None,
        looked=None,
        settlement=None,
    )


def _row_state(inv: Invocation) -> State:
    """The row's state: what has an unknown part stands in the index of what is unknown."""
    return State.UNKNOWN if inv.state is State.SETTLED and inv.has_unknown_items else inv.state


def from_columns(view: ActionView) -> Invocation:
    """What the clear columns alone say of an invocation."""
    in_part = view.state == State.UNKNOWN and view.outcome != Outcome.UNKNOWN
    return Invocation(
        invocation_id=InvocationId(view.invocation_id),
        state=State.SETTLED if in_part else State(view.state),
        items_sealed=in_part,
        partial=True,
        seen=frozenset({Kind.JOB_OPENED}) if view.last_stage == JOB_STAGE else frozenset(),
        accepted_at=Micros(view.accepted_at or 0),
        accepted_record=view.accepted_record or 0,
        phase=Phase(view.phase or Phase.VALIDATION),
        outcome=Outcome(view.outcome or Outcome.NOT_ATTEMPTED),
        code=Code(view.code or Code.IN_PROGRESS),
        retry=Retry(view.retry or Retry.FETCH_RESULT),
        session_id=view.session_id or "",
        operation_id=OperationId(view.operation_id) if view.operation_id else None,
        correlation_id=view.correlation_id,
        effect=Effect(view.effect) if view.effect else None,
        idempotent=view.idempotent,
        needs=view.needs,
        refers_to=view.refers_to,
        retry_of=view.retry_of,
        attempt=view.attempt,
        generation=view.generation or 0,
        attempts_limit=view.attempts_limit,
        dispatch_record=view.dispatch_record,
        dispatched_at=Micros(view.dispatched_at) if view.dispatched_at is not None else None,
        settled_at=Micros(view.settled_at) if view.settled_at is not None else None,
        last=Confirmed(view.last_stage, Micros(view.last_at or 0), view.last_record)
        if view.last_stage is not None and view.last_record is not None
        else None,
        result_record=view.result_record,
        window_open_until=Micros(view.window_open_until) if view.window_open_until is not None else None,
        request_deadline=Micros(view.request_deadline) if view.request_deadline is not None else None,
        recovery_deadline=Micros(view.recovery_deadline) if view.recovery_deadline is not None else None,
        has_lookup=bool(view.has_lookup),
        source=Source(view.source) if view.source else None,
        delivery=view.delivery,
        expired=bool(view.expired),
    )
