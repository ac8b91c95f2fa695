"""A contract as the broker uses it: frozen values, checked when the file was parsed.

Fields are named after the keys of the file (`docs/contracts.md`); durations end in `_s` and are seconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Literal
from urllib.parse import quote, unquote_to_bytes

from affidavit.broker.contract.pattern import CommandPattern, UrlPattern
from affidavit.broker.contract.pointer import Scalar
from affidavit.broker.target import HttpTarget
from affidavit.broker.terms import ApprovalMode, Effect, Outcome, Retry

METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")
"""Spoken without a contract; others only if a contract names them."""
NEVER_METHODS = ("CONNECT", "TRACE")
READ_METHODS = ("GET", "HEAD", "OPTIONS")
"""What `default.read` covers."""

RESERVED_HEADERS = frozenset(
    {
        "authorization",
        "connection",
        "content-length",
        "cookie",
        "expect",
        "host",
        "te",
        "transfer-encoding",
        "upgrade",
    }
)
"""Set by the broker alone, in lower case; so is every `Proxy-*` (verdicts, section 1)."""


def is_reserved_header(name: str) -> bool:
    """Whether neither an agent nor a contract may set this header, in any case."""
    lowered = name.lower()
    return lowered in RESERVED_HEADERS or lowered.startswith("proxy-")


class Standing(StrEnum):
    """Where a contract comes from; an adopted one goes before a built-in one."""

    BUILT_IN = "built_in"
    ADOPTED = "adopted"


class PlaceKind(StrEnum):
    POINTER = "pointer"
    HEADER = "header"
    QUERY = "query"
    ENV = "env"
    ARG = "arg"
    """An option behind a command."""


@dataclass(frozen=True, slots=True)
class Place:
    """Somewhere in a request or an answer: a JSON pointer, or the name of a header, parameter, variable or option."""

    kind: PlaceKind
    name: str

    def __str__(self) -> str:
        return self.name if self.kind is PlaceKind.POINTER else f"{self.kind}:{self.name}"


@dataclass(frozen=True, slots=True)
class Where:
    """A condition: this value stands at this place."""

    at: Place
    equals: Scalar


@dataclass(frozen=True, slots=True)
class Sign:
    """An answer with this status and, where `at` is set, this value there; with any but null if `equals` is None."""

    status: int
    at: Place | None = None
    equals: Scalar | None = None


@dataclass(frozen=True, slots=True)
class HttpMatch:
    method: tuple[str, ...] | None
    """None: every method of METHODS."""
    url: UrlPattern
    where: tuple[Where, ...]
    private: bool

    def names_method(self, method: str) -> bool:
        return method in (METHODS if self.method is None else self.method)


@dataclass(frozen=True, slots=True)
class SshMatch:
    pattern: CommandPattern


class Idempotent(StrEnum):
    """Whether a repeat changes nothing more, and by what (R33, R49)."""

    NO = "no"
    YES = "yes"
    NAME = "name"
    """The caller names the object."""
    IF_MATCH = "if-match"
    """With that condition in the request."""
    IF_NONE_MATCH = "if-none-match"
    ASSUMED = "assumed"
    """By the method alone: `default.read`, and nothing else."""


class CompletionKind(StrEnum):
    BODY = "body"
    CLOSE = "close"
    """A plain FIN ends the body."""
    HEADER = "header"
    """A complete 2xx head with this receipt."""
    EXIT_STATUS = "exit_status"
    MARKER = "marker"
    """A last line of standard output stands in for an exit status that did not come."""


@dataclass(frozen=True, slots=True)
class Completion:
    kind: CompletionKind
    header: str | None = None
    marker: Template | None = None
    """The line of MARKER, with `operation_id` as its one placeholder."""


@dataclass(frozen=True, slots=True)
class EffectTerms:
    kind: Effect
    idempotent: Idempotent
    completion: Completion


@dataclass(frozen=True, slots=True)
class Correlation:
    header: str | None
    operation: Place | None


@dataclass(frozen=True, slots=True)
class Eventual:
    within_s: float


@dataclass(frozen=True, slots=True)
class ReadTerms:
    purpose: str | None
    """`refresh` or `decides_write` (R66)."""
    consistency: Place | Eventual | None


@dataclass(frozen=True, slots=True)
class IdempotencyTerms:
    at: Place
    """A header, a pointer into the body, or a query parameter."""
    quoted: bool
    max_length: int
    scope: str
    """`endpoint`, `account`, `host` or `named`."""
    retention_s: float | None
    """None: not documented; the operator's cautious window applies."""
    mismatch: str
    """`rejected` or `ignored`."""
    replays_errors: bool
    companions: tuple[str, ...]
    """Header names."""
    in_use: tuple[Sign, ...]


@dataclass(frozen=True, slots=True)
class BodyVerdict:
    pointer: str
    equals: Scalar | None
    """None: any value but null."""
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class ExitVerdict:
    status: int
    outcome: Outcome
    retry: Retry | None


@dataclass(frozen=True, slots=True)
class Verdict:
    refused: tuple[int, ...] = ()
    applied: tuple[Sign, ...] = ()
    rate_limited: tuple[Sign, ...] = ()
    body: tuple[BodyVerdict, ...] = ()
    exit: tuple[ExitVerdict, ...] = ()
    proxy_status: str | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """`status_url` is where the answer gives the URL, `url` how it is made from the answer; one of them is there."""

    pointer: str | None
    status_url: Place | None
    url: Template | None
    state: str
    states: Mapping[str, Outcome]


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    pointer: str
    committed: tuple[Scalar, ...]
    rejected: tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class Batch:
    """Results stand in one list, `results`, and say their `outcome`; or in two, `successes` and `failures`, by key."""

    by: str
    """`key` or `position`."""
    items: str
    results: str | None
    key: str | None
    outcome: BatchOutcome | None
    atomic: bool
    successes: str | None = None
    failures: str | None = None


PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*(?::[^{}]*)?)\}")
PATH = "path"
"""In a URL: the path of the action's own URL without its first slash; `path:3` is its third segment."""
RESULT_NAME = "result:"
"""Begins the placeholders that are filled from the action's own answer."""
OWN_URL = f"/{{{PATH}}}"
"""The template of the action's own URL, less its query."""


@dataclass(frozen=True, slots=True)
class Template:
    """Text with placeholders; `names` are those in it, in order, such as `operation_id` or `result:/id`."""

    text: str
    names: tuple[str, ...]

    def fill(self, values: Mapping[str, str], written: Callable[[str], str]) -> str | None:
        """The text with each value as `written` puts it; None while a placeholder has no value."""
        if any(name not in values for name in self.names):
            return None
        return PLACEHOLDER.sub(lambda match: written(values[match[1]]), self.text)

    @property
    def is_own(self) -> bool:
        """A URL at the action's own origin, written without it."""
        return self.text.startswith("/")

    def fill_url(self, values: Mapping[str, str], asked: HttpTarget) -> str | None:
        """The URL with each placeholder percent-encoded as one segment or value, for an action that asked `asked`.

        None while a placeholder has no value that can stand in a URL: an empty one and a dot segment cannot.
        """
        encoded = {name: _encoded(name, values, asked) for name in self.names}
        filled = self.fill({name: value for name, value in encoded.items() if value}, str)
        if filled is None or any(segment in (".", "..") for segment in filled.partition("?")[0].split("/")):
            return None
        return asked.origin + filled if self.is_own else filled


def _encoded(name: str, values: Mapping[str, str], asked: HttpTarget) -> str | None:
    if name == PATH:
        return asked.path[1:]
    if name.startswith(f"{PATH}:"):
        segment = asked.path.split("/")[int(name.partition(":")[2]) :][:1]
        return quote(unquote_to_bytes(segment[0]), safe="") if segment else None
    try:
        return quote(values[name], safe="") if name in values else None
    except UnicodeEncodeError:
        return None


@dataclass(frozen=True, slots=True)
class Row:
    """Which row of a look-up's answer is ours."""

    pointer: str
    equals: Template | Scalar


@dataclass(frozen=True, slots=True)
class Absent:
    means: Outcome
    """UNKNOWN or REJECTED."""
    after_s: float | None = None


LS_REMOTE = "git ls-remote"
"""The look-up of a contract for `git-receive-pack`: where the refs are that the push was to move."""


@dataclass(frozen=True, slots=True)
class Reconcile:
    """The look-up. HTTP has `url`; SSH has `command`."""

    method: str
    url: Template | None
    body: Template | None
    command: Template | None
    each: str | None
    where: Row | None
    state: str | None
    committed: tuple[Scalar, ...]
    pending: tuple[Scalar, ...]
    rejected: tuple[Scalar, ...]
    absent: Absent

    @property
    def by_refs(self) -> bool:
        """It asks the repository of a push where its refs are."""
        return self.command is not None and self.command.text == LS_REMOTE


@dataclass(frozen=True, slots=True)
class Deadlines:
    request_s: float | None = None
    recovery_s: float | None = None


@dataclass(frozen=True, slots=True)
class RetryAfter:
    header: str
    epoch: bool


@dataclass(frozen=True, slots=True)
class RetryTerms:
    attempts: int | None = None
    automatic: bool = False
    setup: int | None = None
    after: RetryAfter | None = None


@dataclass(frozen=True, slots=True)
class Contract:
    """One contract. `match` is None only for the two defaults, which cover what no other does."""

    id: str
    digest: str
    """`sha256:` over the RFC 8785 form of the file's content."""
    standing: Standing
    match: HttpMatch | SshMatch | None
    effect_terms: EffectTerms
    title: str | None = None
    source: str | None = None
    checked: date | None = None
    correlation: Correlation | None = None
    read: ReadTerms | None = None
    idempotency: IdempotencyTerms | None = None
    verdict: Verdict = Verdict()
    on_connection_death: str | None = None
    job: Job | None = None
    batch: Batch | None = None
    reconcile: Reconcile | None = None
    deadlines: Deadlines = Deadlines()
    retry: RetryTerms = RetryTerms()
    redirects: int = 0
    """How many to follow."""
    expected_result: int | None = None
    """Bytes."""
    approval: ApprovalMode | None = None

    @property
    def effect(self) -> Effect:
        return self.effect_terms.kind

    @property
    def is_default(self) -> bool:
        return self.match is None

    @property
    def key_header(self) -> str | None:
        """The header in which the idempotency key goes, where it goes in one."""
        at = self.idempotency.at if self.idempotency else None
        return at.name if at and at.kind is PlaceKind.HEADER else None

    def idempotent(self, headers: Collection[str] = ()) -> bool | Literal["assumed"]:
        """Whether a request with these header names (in lower case) is known to be idempotent; `assumed` is told apart
        because the broker itself repeats only on a contract's word (verdicts)."""
        terms = self.effect_terms.idempotent
        if terms is Idempotent.ASSUMED:
            return "assumed"
        if terms in (Idempotent.IF_MATCH, Idempotent.IF_NONE_MATCH):
            return terms.value in headers
        return terms is not Idempotent.NO
