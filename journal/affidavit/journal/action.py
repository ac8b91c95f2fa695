"""The projection of one invocation: its clear columns, as they are written and as they are read.

The journal gives these words and numbers no meaning beyond what its indexes need: which states are open, and which
one is unknown.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, Protocol

OPEN_STATES = ("accepted", "validated", "authorised", "open")
"""The states that recovery looks at (verdicts, section 7)."""

UNKNOWN_STATE = "unknown"


@dataclass(frozen=True, slots=True)
class Name:
    """A name that is clear as a small integer only; its text is sealed once per journal."""

    kind: Literal["target", "agent", "contract", "origin", "terms"]
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
    expired: bool | None = None
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
    origin: Name | int | None = None
    """Where it was dispatched to; none before. So a name that is known is a place that something went to."""
    terms: Name | int | None = None
    """Under which contract's text it was dispatched; none before."""

    def columns(self) -> ActionRow:
        """Itself: a row that is made already (`Row`)."""
        return self


class Row(Protocol):
    """A row to be. Frozen: the writer's thread asks for the columns of the last one of an invocation in a transaction,
    and for those of no other."""

    @property
    def invocation_id(self) -> str: ...

    def columns(self) -> ActionRow:
        """What is written. It must not raise: the journal would be poisoned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionView(ActionFacts):
    """One invocation's row as read. `number` counts invocations in the order in which they first got a row."""

    number: int
    target: int | None = None
    agent: int | None = None
    contract: int | None = None
    origin: int | None = None
    terms: int | None = None


NAMES = ("target", "agent", "contract", "origin", "terms")

CHANGING = ("operation_id", "state", "effect_digest", "key_digest", "program_digest")
"""Columns under an index, besides the id: each is rewritten only when its value changes, or its index page would be."""

COLUMNS = ("invocation_id", *CHANGING, "phase", "outcome")
"""What has a column of its own: whatever a query asks by."""

FACTS = tuple(f.name for f in fields(ActionRow) if f.name not in COLUMNS)
"""All else: one JSON object, in one column, absent where None. Fewer values to bind make a commit a third cheaper."""


def encode_facts(facts: Mapping[str, Any]) -> str:
    """The facts that are not None, as compact JSON."""
    return json.dumps({name: value for name, value in facts.items() if value is not None}, separators=(",", ":"))


def view(number: int, *values: Any, facts: str) -> ActionView:
    """The view of a row: its number, the values of `COLUMNS`, and its facts."""
    return ActionView(number=number, **dict(zip(COLUMNS, values, strict=True)), **json.loads(facts))
