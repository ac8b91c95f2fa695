"""A look-up: what is asked, and what its answer proves (R48, R50; verdicts, section 5). Pure.

Only the contract's own words settle: a state that it lists, or absence where it calls the look-up exact, complete and
fresh. Everything else, a failed look-up included, proves nothing and is recorded as that.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from affidavit.broker import push
from affidavit.broker.contract.model import Reconcile, Row, Template
from affidavit.broker.contract.pointer import MISSING, find, same
from affidavit.broker.signs import Answer
from affidavit.broker.target import HttpTarget
from affidavit.broker.terms import Outcome

SHOWN_MAX = 80

OFFSETS_S = (1.0, 2.0, 5.0, 10.0, 30.0)
EACH_S = 60.0
"""Look-ups come so long after a verdict, then each minute until the recovery deadline (interface, section 7)."""


def pauses() -> Iterator[float]:
    """The pause before each look-up."""
    before = 0.0
    for offset in OFFSETS_S:
        yield offset - before
        before = offset
    while True:
        yield EACH_S


class Worth(StrEnum):
    """What a look-up is worth; the words of LOOKED_UP."""

    SETTLES = "settles"
    PENDING = "pending"
    """The target still works on it: look again."""
    ABSENT = "absent"
    """Ours is not there, which the contract does not take for a refusal, or not yet."""
    OTHER = "other_state"
    SEVERAL = "several"
    """More than one is ours: an anomaly (F09)."""
    FAILED = "failed"
    """No complete answer, or not one that the contract can read."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one look-up proves. `outcome` only where it settles; `answer` is for a person."""

    worth: Worth
    answer: str
    outcome: Outcome | None = None
    state: str | None = None
    count: int = 0
    """How many were found, where several were."""
    absent: bool = False
    """It settles by what was not there."""


@dataclass(frozen=True, slots=True)
class Query:
    """A look-up over HTTP, its placeholders filled."""

    method: str
    url: str
    body: str | None = None

    def told(self) -> dict[str, Any]:
        """`evidence.reconcile`, less its `available`."""
        told: dict[str, Any] = {"method": self.method, "url": self.url}
        return told if self.body is None else {**told, "body": self.body}


def query(terms: Reconcile, values: Mapping[str, str], asked: HttpTarget) -> Query | None:
    """The status query of an action that asked `asked`; None while one of its placeholders has no value, and for a
    command."""
    url = terms.url.fill_url(values, asked) if terms.url is not None else None
    body = fill_json(terms.body, values) if terms.body is not None else None
    if url is None or (terms.body is not None and body is None):
        return None
    return Query(terms.method, url, body)


def command(terms: Reconcile, values: Mapping[str, str]) -> str | None:
    """The status command; None while one of its placeholders has no value, and for a query over HTTP.

    A value goes in as one word of a shell, whatever stands in it.
    """
    return terms.command.fill(values, shlex.quote) if terms.command is not None else None


def fill_json(template: Template, values: Mapping[str, str]) -> str | None:
    """A body with each placeholder as the inside of a JSON string, so that no value ends the string it stands in."""
    return template.fill(values, lambda value: json.dumps(value)[1:-1])


def names(terms: Reconcile) -> frozenset[str]:
    """Every placeholder that a look-up uses."""
    equals = terms.where.equals if terms.where is not None else None
    templates = [t for t in (terms.url, terms.body, terms.command, equals) if isinstance(t, Template)]
    return frozenset(name for template in templates for name in template.names)


def pushed(terms: Reconcile, stdin: Mapping[str, Any] | None, answer: Answer | None, *, age_s: float) -> Finding:
    """As `found`, of a push: `stdin` is what its record says of its input, the answer what git-upload-pack said."""
    if answer is None or answer.body is None or (refs := push.refs(answer.body)) is None:
        return Finding(Worth.FAILED, "no complete list of refs came")
    named = (stdin or {}).get("updates")
    if not named:
        return Finding(Worth.FAILED, "what the push asked for was not read to its end")
    updates = [push.Update(*each) for each in named]
    if all(push.where(each, refs) == each.new for each in updates):
        return Finding(Worth.SETTLES, "every ref is where the push wanted it", Outcome.COMMITTED)
    if all(push.where(each, refs) == each.old for each in updates):
        return _absent(terms, age_s)
    away = next(each for each in updates if push.where(each, refs) != each.new)
    state = f"{away.ref} is at {push.where(away, refs)}"[:SHOWN_MAX]
    return Finding(Worth.OTHER, state, state=state)


def found(terms: Reconcile, values: Mapping[str, str], answer: Answer | None, *, age_s: float) -> Finding:
    """What a look-up's answer proves of an action.

    `answer` is None where no complete one came. `age_s`: how much time had surely passed between the action's dispatch
    and the look-up's; younger absence is no refusal.
    """
    if answer is None:
        return Finding(Worth.FAILED, "no complete answer came")
    by_name = terms.each is None
    if by_name and answer.status in (404, 410):
        return _absent(terms, age_s)
    if answer.status // 100 != 2 or answer.status == 202:
        return Finding(Worth.FAILED, f"the look-up was answered {answer.status}")
    rows = [answer.document] if terms.each is None else answer.pointed(terms.each)
    if not isinstance(rows, list) or answer.document is MISSING or answer.body is None:
        return Finding(Worth.FAILED, "its answer could not be read as the contract says")
    ours = [row for row in rows if terms.where is None or _is_ours(terms.where, values, row)]
    if not ours:
        return _absent(terms, age_s)
    if len(ours) > 1:
        return Finding(Worth.SEVERAL, f"{len(ours)} of them are ours, where one was asked for", count=len(ours))
    return _state(terms, ours[0])


def _is_ours(where: Row, values: Mapping[str, str], row: Any) -> bool:
    equals = where.equals
    if isinstance(equals, Template):
        filled = equals.fill(values, str)
        return filled is not None and same(find(row, where.pointer), filled)
    return same(find(row, where.pointer), equals)


def _state(terms: Reconcile, row: Any) -> Finding:
    if terms.state is None:
        return Finding(Worth.SETTLES, "it is there", Outcome.COMMITTED)
    value = find(row, terms.state)
    shown = "missing" if value is MISSING else json.dumps(value)[:SHOWN_MAX]
    state, said = (value if isinstance(value, str) else shown)[:SHOWN_MAX], f"its state is {shown}"
    if any(same(value, word) for word in terms.committed):
        return Finding(Worth.SETTLES, said, Outcome.COMMITTED, state)
    if any(same(value, word) for word in terms.rejected):
        return Finding(Worth.SETTLES, said, Outcome.REJECTED, state)
    if any(same(value, word) for word in terms.pending):
        return Finding(Worth.PENDING, said, state=state)
    return Finding(Worth.OTHER, said, state=state)


def _absent(terms: Reconcile, age_s: float) -> Finding:
    absent = terms.absent
    if absent.means is not Outcome.REJECTED or absent.after_s is None:
        return Finding(Worth.ABSENT, "it is not there, which the contract takes for no proof")
    if age_s < absent.after_s:
        return Finding(Worth.ABSENT, f"it is not there, {max(0.0, age_s):.0f} s after the dispatch: too early to count")
    return Finding(Worth.SETTLES, "it is not there", Outcome.REJECTED, absent=True)
