"""The projection of one invocation: its clear columns, as they are written and as they are read.

The journal gives these words and numbers no meaning beyond what its indexes need: which states are open, and which
one is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

OPEN_STATES = ("accepted", "validated", "authorised", "open")
"""The states that recovery looks at (verdicts, section 7)."""

UNKNOWN_STATE = "unknown"


@dataclass(frozen=True, slots=True)
class Name:
    """A name that is clear as a small integer only; its text is sealed once per journal."""

    kind: Literal["target", "agent", "contract"]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionFacts:
    """What row and view share. Times and deadlines are wall microseconds; digests are hex, as `Journal.digest` gives.

    `*_record` are seqs. `idempotent` is a word ("true", "false", "assumed"), `retry` the stored advice.
    """

    invocation_id: str
    operation_id: str
    state: str
    correlation_id: str | None = None
    session_id: str | None = None
    accepted_at: int | None = None
    dispatched_at: int | None = None
    settled_at: int | None = None
    phase: str | None = None
    outcome: str | None = None
    code: str | None = None
    retry: str | None = None
    effect: str | None = None
    idempotent: str | None = None
    needs: str | None = None
    refers_to: str | None = None
    retry_of: str | None = None
    attempt: int | None = None
    generation: int | None = None
    attempts_limit: int | None = None
    accepted_record: int | None = None
    dispatch_record: int | None = None
    last_record: int | None = None
    last_stage: str | None = None
    last_at: int | None = None
    result_record: int | None = None
    window_open_until: int | None = None
    request_deadline: int | None = None
    recovery_deadline: int | None = None
    has_lookup: bool | None = None
    key_kept: bool | None = None
    source: str | None = None
    delivery: str | None = None
    request_digest: str | None = None
    effect_digest: str | None = None
    key_digest: str | None = None
    program_digest: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionRow(ActionFacts):
    """One invocation's row, written whole; the row of the same `invocation_id` before it is replaced."""

    target: Name | int | None = None
    agent: Name | int | None = None
    contract: Name | int | None = None
    """An integer is a name interned before, written back by who cannot read its text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionView(ActionFacts):
    """One invocation's row as read. `number` counts invocations in the order in which they first got a row."""

    number: int
    target: int | None = None
    agent: int | None = None
    contract: int | None = None


INDEXED = ("operation_id", "state", "effect_digest", "key_digest", "program_digest")
"""Columns under an index, besides the id: each is rewritten only when its value changes, or its index page would be."""

NAMES = ("target", "agent", "contract")

COLUMNS = tuple(f.name for f in fields(ActionFacts)) + NAMES
"""Every column that comes from a row, in the order of the table."""

INTEGER_COLUMNS = frozenset(NAMES) | {f.name for f in fields(ActionFacts) if "int" in str(f.type)}
BOOLEAN_COLUMNS = frozenset(f.name for f in fields(ActionFacts) if "bool" in str(f.type))
