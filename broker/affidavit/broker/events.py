"""Events of an invocation: frozen facts, each with its place in the journal as a record (R55; `verdicts`, section 8).

An event says what happened, never what it means: `outcome.apply` alone moves an invocation. Payloads hold no secret and
no body. `encode` and `decode` are each other's inverse; unknown payload keys of a later version are ignored, and a
missing one takes its default, so that an old journal stays readable.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from enum import StrEnum
from operator import attrgetter
from typing import Any, ClassVar, Union, get_args, get_origin, get_type_hints

from affidavit.broker.terms import (
    ApprovalMode,
    Code,
    Effect,
    Kind,
    Micros,
    Outcome,
    Phase,
    Retry,
    Source,
)


@dataclass(frozen=True, slots=True)
class ActionAccepted:
    """What was asked, and by whom. `asked` holds method, url and the names of headers: no body, no reserved header."""

    kind: ClassVar[Kind] = Kind.ACTION_ACCEPTED
    session: str
    program: str = ""
    agent: str = ""
    operation_id: str | None = None
    correlation_id: str | None = None
    request_fingerprint: str | None = None
    asked: Mapping[str, Any] = field(default_factory=dict)
    reason: str | None = None
    retry_of: str | None = None
    refers_to: str | None = None


@dataclass(frozen=True, slots=True)
class PreflightValidated:
    """Everything bound to the invocation before approval (R14)."""

    kind: ClassVar[Kind] = Kind.PREFLIGHT_VALIDATED
    target: Mapping[str, Any]
    effect: Effect
    idempotent: str
    """`true`, `false`, `assumed`, `name`, `if-match` or `if-none-match`, as the contract says."""
    contract_id: str
    contract_digest: str
    effect_digest: str
    fingerprint: str | None
    mode: ApprovalMode
    attempts_limit: int
    answers: Mapping[str, str] = field(default_factory=dict)
    credential_id: str | None = None
    credential_name: str | None = None
    credential_version: int | None = None
    injection: str | None = None
    key: str | None = None
    key_scope: str | None = None
    key_retention_s: float | None = None
    lookup: Mapping[str, Any] | None = None
    title: str | None = None
    spool: Mapping[str, Any] | None = None
    """Where the sealed request lies and the key that opens it, while a repeat may need it (R62)."""
    items: tuple[str, ...] | None = None
    """The keys of a batch's items, in order; None where it is no batch (R28)."""


@dataclass(frozen=True, slots=True)
class CardOpened:
    kind: ClassVar[Kind] = Kind.CARD_OPENED
    fingerprint: str
    notices: tuple[str, ...]
    ends_at: Micros


@dataclass(frozen=True, slots=True)
class ApprovalDecided:
    """Authorisation evidence; execution evidence is kept apart (R60)."""

    kind: ClassVar[Kind] = Kind.APPROVAL_DECIDED
    approved: bool
    means: str | None
    by: str | None
    fingerprint: str | None
    expires_at: Micros | None = None
    repeats_left: int = 0
    grant: str | None = None
    tick: bool = False
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class CredentialAuthorized:
    kind: ClassVar[Kind] = Kind.CREDENTIAL_AUTHORIZED
    credential_id: str | None = None
    version: int | None = None
    injection: str | None = None


@dataclass(frozen=True, slots=True)
class SetupAttempted:
    """A set-up try that stopped short: an entry of `evidence.attempts` (R22). Or, with an `identity`, the probe of a
    new host, which got what it was for: `detail` names the host and its key."""

    kind: ClassVar[Kind] = Kind.SETUP_ATTEMPTED
    n: int
    reached: str | None
    stage: str
    code: str
    address: str | None = None
    detail: str = ""
    identity: str | None = None
    """The SHA-256 of the host key that a probe learnt."""


@dataclass(frozen=True, slots=True)
class ActionStopped:
    """Proof that the line was not crossed (R1)."""

    kind: ClassVar[Kind] = Kind.ACTION_STOPPED
    phase: Phase
    code: Code
    retry: Retry
    field: str | None = None
    needs: str | None = None
    refers_to: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class DispatchStarted:
    """Durable before the first byte meets the transport (R23)."""

    kind: ClassVar[Kind] = Kind.DISPATCH_STARTED
    fingerprint: str
    attempt: int
    generation: int
    connection: Mapping[str, Any]
    request_deadline: Micros
    recovery_deadline: Micros
    window_open_until: Micros | None = None
    boot: float | None = None
    boot_id: str | None = None
    """The boot clock, and which boot: with it a wall clock that was set is noticed (R46)."""


@dataclass(frozen=True, slots=True)
class RequestSent:
    kind: ClassVar[Kind] = Kind.REQUEST_SENT
    sent: int
    stdin: Mapping[str, Any] | None = None
    """As `RemoteResponseComplete.stdin`."""


@dataclass(frozen=True, slots=True)
class RemoteResponseStarted:
    kind: ClassVar[Kind] = Kind.REMOTE_RESPONSE_STARTED
    status: int | None = None


@dataclass(frozen=True, slots=True)
class CancelAsked:
    kind: ClassVar[Kind] = Kind.CANCEL_ASKED
    session: str
    signal: str | None = None
    """What the command is sent first, such as TERM; sent after this record."""


@dataclass(frozen=True, slots=True)
class CallerGone:
    kind: ClassVar[Kind] = Kind.CALLER_GONE
    session: str


@dataclass(frozen=True, slots=True)
class RemoteResponseComplete:
    """A whole, authentic answer: its status, chosen headers, length and hash; never its body (R30)."""

    kind: ClassVar[Kind] = Kind.REMOTE_RESPONSE_COMPLETE
    completion: str
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    remote_request_id: str | None = None
    length: int = 0
    sha256: str | None = None
    exit_status: int | None = None
    exit_signal: Mapping[str, Any] | None = None
    """`name`, `core_dumped`, `message`."""
    stdin: Mapping[str, Any] | None = None
    """What went of streamed input: `bytes`, `sha256`, `complete`; of a push `updates`, each a ref, its old and its new
    place, where its contract looks them up."""


@dataclass(frozen=True, slots=True)
class StoredBody:
    """Where a result lies and how it opens. `sha256` is of the original bytes, `delivered_sha256` of what is kept."""

    place: str
    """`blob` (in the journal's file, deletable), `file` (chunks), or `none` (nothing was kept)."""
    name: str
    key: str
    """Opens the stored result; itself only in sealed payloads."""
    bytes: int
    sha256: str
    stored_bytes: int
    delivered_sha256: str
    chunks: int
    redactions: int = 0
    truncated_at: int | None = None
    text: bool = True
    undecodable: str | None = None
    withheld: bool = False
    """A form of the secret stood in what could not be decoded: kept for the operator, delivered to no agent."""
    cut: bool = False
    """The body broke off behind a head that settled the matter; nothing of it is kept as a result (R31)."""


@dataclass(frozen=True, slots=True)
class Item:
    """One item of a batch and what is proven of it. `record` names the record that settled it apart from the batch."""

    key: str
    outcome: Outcome
    evidence: str | None = None
    source: Source | None = None
    record: int | None = None


@dataclass(frozen=True, slots=True)
class JobReference:
    """What an acceptance says of its job (R7). Not followed, it has no operation of its own."""

    job_id: str | None
    status_url: str | None
    operation_id: str | None = None
    invocation_id: str | None = None


@dataclass(frozen=True, slots=True)
class Redirect:
    """What was decided about a redirect that a contract lets be followed (R20).

    `hop` is the invocation that was accepted to follow it; without one `why` says why not, and `code` where a check
    refused it.
    """

    hop: str | None = None
    url: str | None = None
    """Where it leads; None where that is no target."""
    why: str | None = None
    code: Code | None = None


@dataclass(frozen=True, slots=True)
class ResultCommitted:
    """A definite result became durable (R38, R40)."""

    kind: ClassVar[Kind] = Kind.RESULT_COMMITTED
    outcome: Outcome
    code: Code
    retry: Retry
    source: Source = Source.REMOTE_RESPONSE
    body: StoredBody | None = None
    """Of a command its standard output."""
    stderr: StoredBody | None = None
    diagnostic: Mapping[str, Any] | None = None
    """Output that was cut: marked, never a result (R31)."""
    needs: str | None = None
    hop: str | None = None
    retry_after_s: float | None = None
    items: tuple[Item, ...] | None = None
    job: JobReference | None = None
    consistency: Mapping[str, Any] | str | None = None
    """Of a read: the version that the answer is, how old it may be, or `none` (R66)."""
    redirect: Redirect | None = None


@dataclass(frozen=True, slots=True)
class OutcomeUnknown:
    kind: ClassVar[Kind] = Kind.OUTCOME_UNKNOWN
    code: Code
    retry: Retry
    source: Source
    observation: str
    diagnostic: Mapping[str, Any] | None = None
    body: StoredBody | None = None
    """A complete answer that decides nothing (a gateway's 502) is kept and shown."""
    hop: str | None = None
    retry_after_s: float | None = None
    message: str | None = None
    stdin: Mapping[str, Any] | None = None
    """As `RemoteResponseComplete.stdin`, so far."""


@dataclass(frozen=True, slots=True)
class OutcomeSettled:
    """Later evidence about an unknown outcome, with its source (R57)."""

    kind: ClassVar[Kind] = Kind.OUTCOME_SETTLED
    outcome: Outcome
    code: Code
    retry: Retry
    source: Source
    item: str | None = None
    note: str | None = None
    reference: str | None = None
    supersedes: int | None = None
    body: StoredBody | None = None
    stderr: StoredBody | None = None
    exit_status: int | None = None
    exit_signal: Mapping[str, Any] | None = None
    stdin: Mapping[str, Any] | None = None
    completion: str | None = None
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    remote_request_id: str | None = None
    needs: str | None = None
    hop: str | None = None
    retry_after_s: float | None = None
    items: tuple[Item, ...] | None = None
    job: JobReference | None = None
    consistency: Mapping[str, Any] | str | None = None
    diagnostic: Mapping[str, Any] | None = None
    lookup: str | None = None
    """The look-up's invocation."""
    answer: str | None = None
    """What the look-up found, in words."""
    state: str | None = None
    contract_digest: str | None = None


@dataclass(frozen=True, slots=True)
class OutcomeDisputed:
    kind: ClassVar[Kind] = Kind.OUTCOME_DISPUTED
    contradicts: int
    what: str


@dataclass(frozen=True, slots=True)
class LookedUp:
    """A look-up that settled nothing. `worth`: why not (`reconcile.Worth`); `state`: what the target calls it."""

    kind: ClassVar[Kind] = Kind.LOOKED_UP
    invocation: str
    answer: str
    worth: str
    contract_digest: str | None = None
    state: str | None = None


@dataclass(frozen=True, slots=True)
class JobOpened:
    """A job begins: an operation of its own, of whoever asked for the acceptance `refers_to` (R7)."""

    kind: ClassVar[Kind] = Kind.JOB_OPENED
    operation_id: str
    job_id: str | None
    status_url: str
    acceptance: int
    """The acceptance's dispatch record."""
    recovery_deadline: Micros
    refers_to: str
    session: str = ""
    program: str = ""
    agent: str = ""
    correlation_id: str | None = None
    contract_id: str | None = None
    contract_digest: str | None = None
    title: str | None = None


@dataclass(frozen=True, slots=True)
class LeaseTaken:
    kind: ClassVar[Kind] = Kind.LEASE_TAKEN
    generation: int
    repeat: str
    expires_at: Micros


@dataclass(frozen=True, slots=True)
class ResultReleased:
    kind: ClassVar[Kind] = Kind.RESULT_RELEASED
    session: str
    means: str | None
    by: str | None


@dataclass(frozen=True, slots=True)
class ResultDelivered:
    kind: ClassVar[Kind] = Kind.RESULT_DELIVERED
    session: str
    sha256: str


@dataclass(frozen=True, slots=True)
class DeliveryFailed:
    kind: ClassVar[Kind] = Kind.DELIVERY_FAILED
    session: str
    how_far: str


@dataclass(frozen=True, slots=True)
class ResultExpired:
    kind: ClassVar[Kind] = Kind.RESULT_EXPIRED
    sha256: str | None
    status: int | None


Event = (
    ActionAccepted
    | PreflightValidated
    | CardOpened
    | ApprovalDecided
    | CredentialAuthorized
    | SetupAttempted
    | ActionStopped
    | DispatchStarted
    | RequestSent
    | RemoteResponseStarted
    | CancelAsked
    | CallerGone
    | RemoteResponseComplete
    | ResultCommitted
    | OutcomeUnknown
    | OutcomeSettled
    | OutcomeDisputed
    | LookedUp
    | JobOpened
    | LeaseTaken
    | ResultReleased
    | ResultDelivered
    | DeliveryFailed
    | ResultExpired
)

EVENTS: dict[Kind, type[Any]] = {cls.kind: cls for cls in get_args(Event)}
"""Every kind of record that belongs to an invocation."""


def encode(event: Event) -> dict[str, Any]:
    """The record's payload: a JSON-ready object; a field at its default is left out."""
    return _plain(event)


def decode(kind: Kind, payload: Mapping[str, Any]) -> Event:
    """The event that `encode` wrote. Raises KeyError for a kind that is no event, TypeError for a missing field."""
    decoded: Event = _build(EVENTS[kind], payload)
    return decoded


def _plain(value: Any) -> dict[str, Any]:
    out: dict[str, Any] = {}
    shape = _shape(type(value))
    for name, default, v in zip(shape.names, shape.defaults, shape.values(value), strict=True):
        if v == default:
            continue
        if type(v) in _AS_IT_IS:
            pass
        elif isinstance(v, StrEnum):
            v = str(v)
        elif is_dataclass(v):
            v = _plain(v)
        elif isinstance(v, tuple):
            v = [_plain(x) if is_dataclass(x) else x for x in v]
        elif isinstance(v, Mapping):
            v = dict(v)
        out[name] = v
    return out


_AS_IT_IS = frozenset({str, int, float, bool})
"""Types that JSON has, by far the most frequent; looked for first."""


@dataclass(frozen=True, slots=True)
class _Shape:
    """The fields of an event."""

    names: tuple[str, ...]
    defaults: tuple[Any, ...]
    """MISSING, which equals no value, where there is none."""
    values: Callable[[Any], tuple[Any, ...]]


_SHAPES: dict[type[Any], _Shape] = {}


def _shape(cls: type[Any]) -> _Shape:
    found = _SHAPES.get(cls)
    if found is None:
        given = fields(cls)
        names = tuple(f.name for f in given)
        defaults: tuple[Any, ...] = tuple({} if f.default_factory is dict else f.default for f in given)
        values = attrgetter(*names) if len(names) > 1 else lambda event: (getattr(event, names[0]),)
        found = _SHAPES[cls] = _Shape(names, defaults, values)
    return found


_PARTS = (StoredBody, Item, JobReference, Redirect)
"""Dataclasses that stand inside events."""

_READERS: dict[type[Any], dict[str, Any]] = {}


def _readers(cls: type[Any]) -> dict[str, Any]:
    found = _READERS.get(cls)
    if found is None:
        hints = get_type_hints(cls)
        found = _READERS[cls] = {f.name: _reader(hints[f.name]) for f in fields(cls)}
    return found


def _reader(hint: Any) -> Any:
    """How a JSON value of this annotation is read back; None: as it is."""
    if get_origin(hint) in (Union, types.UnionType):
        inner = [_reader(a) for a in get_args(hint) if a is not type(None)]
        return next((r for r in inner if r is not None), None)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return hint
    if hint in _PARTS:
        return lambda v: _build(hint, v)
    if get_origin(hint) is tuple:
        part = _reader(get_args(hint)[0])
        return tuple if part is None else lambda values: tuple(map(part, values))
    return None


def _build(cls: type[Any], payload: Mapping[str, Any]) -> Any:
    values = {}
    for name, read in _readers(cls).items():
        if name in payload:
            v = payload[name]
            values[name] = read(v) if read is not None and v is not None else v
    return cls(**values)
