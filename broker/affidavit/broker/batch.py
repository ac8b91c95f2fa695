"""Batches: one transport outcome for the whole, and an outcome for each item (R28). Pure.

Items and results meet by key or by position. What meets nothing, meets twice, or says neither word of the contract is
`unknown`: an item is never guessed from its neighbours.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from affidavit.broker.contract.model import Batch
from affidavit.broker.contract.pointer import MISSING, NotJson, find, load_json, replaced, same
from affidavit.broker.events import Item
from affidavit.broker.signs import UNREADABLE, Answer
from affidavit.broker.terms import Outcome, Source

ITEMS_MAX = 1000
"""Items of one batch; a longer one is refused, for its outcomes could not be told."""
KEY_MAX = 128


class NoItems(ValueError):
    """The request has items that cannot be told apart; the text says why."""


def item_keys(batch: Batch, body: bytes) -> tuple[str, ...] | None:
    """The keys of a request's items, in order: the contract's, or positions from 0. None where it has no such list.

    Raises NoItems where a key is missing, is no plain value, or stands twice, and for more than ITEMS_MAX.
    """
    try:
        rows = find(load_json(body), batch.items)
    except NotJson:
        return None
    if not isinstance(rows, list):
        return None
    if len(rows) > ITEMS_MAX:
        raise NoItems(f"The batch has {len(rows)} items; {ITEMS_MAX} are the most.")
    if batch.key is None:
        return tuple(str(at) for at in range(len(rows)))
    keys = [_key(row, batch.key) for row in rows]
    if None in keys or len(set(keys)) != len(keys):
        raise NoItems(f"Each item of the batch needs a key of its own at {batch.key}, of at most {KEY_MAX} characters.")
    return tuple(key for key in keys if key is not None)


def outcomes(batch: Batch, keys: Sequence[str], outcome: Outcome, answer: Answer) -> tuple[Item, ...]:
    """The items of a batch whose answer is complete; `outcome` is the whole's."""
    if outcome is Outcome.UNKNOWN:
        return tuple(Item(key, Outcome.UNKNOWN, "the answer decides nothing") for key in keys)
    rows = _rows(batch, answer)
    if rows is None:
        if outcome is Outcome.REJECTED:
            return _all(keys, Outcome.REJECTED, f"status {answer.status}")
        unread = answer.document is UNREADABLE
        why = "its part of the answer could not be read" if unread else "the answer has no results"
        return tuple(Item(key, Outcome.UNKNOWN, why) for key in keys)
    items = tuple(_by_key(batch.key, keys, rows) if batch.key is not None else _by_position(keys, rows))
    return _whole(items) if batch.atomic else items


def reduced(batch: Batch, body: bytes, keys: Sequence[str], kept: Collection[str]) -> bytes:
    """The request with those items alone that `kept` names; all else to the letter, white space apart."""
    at = [i for i, key in enumerate(keys) if key in kept]
    return replaced(body, batch.items, lambda rows: [rows[i] for i in at])


def _all(keys: Sequence[str], outcome: Outcome, why: str) -> tuple[Item, ...]:
    return tuple(Item(key, outcome, why, Source.REMOTE_RESPONSE) for key in keys)


@dataclass(frozen=True, slots=True)
class _Row:
    """A result: where it stands in the answer, what it is, and what it says."""

    value: Any
    outcome: Outcome
    why: str

    def item(self, key: str) -> Item:
        return Item(key, self.outcome, self.why, None if self.outcome is Outcome.UNKNOWN else Source.REMOTE_RESPONSE)


def _rows(batch: Batch, answer: Answer) -> list[_Row] | None:
    """The results of an answer; None where it has no list of them. Of two lists one may be left out."""
    if batch.results is not None:
        rows = answer.pointed(batch.results)
        return [_said(batch, row) for row in rows] if isinstance(rows, list) else None
    assert batch.successes is not None, "the results stand in one list or in two"
    assert batch.failures is not None, "the results stand in one list or in two"
    pairs = ((Outcome.COMMITTED, batch.successes), (Outcome.REJECTED, batch.failures))
    lists = [(outcome, pointer, answer.pointed(pointer)) for outcome, pointer in pairs]
    if not any(isinstance(rows, list) for _, _, rows in lists):
        return None
    if any(not isinstance(rows, list) and rows is not MISSING and rows is not None for _, _, rows in lists):
        return None
    return [
        _Row(row, outcome, f"it stands in {pointer}")
        for outcome, pointer, rows in lists
        if isinstance(rows, list)
        for row in rows
    ]


def _said(batch: Batch, row: Any) -> _Row:
    terms = batch.outcome
    assert terms is not None, "results in one list say their outcome"
    state = find(row, terms.pointer)
    for outcome, words in ((Outcome.COMMITTED, terms.committed), (Outcome.REJECTED, terms.rejected)):
        if any(same(state, word) for word in words):
            return _Row(row, outcome, f"{terms.pointer} is {_shown(state)}")
    return _Row(row, Outcome.UNKNOWN, f"{terms.pointer} is {_shown(state)}")


def _by_key(pointer: str, keys: Sequence[str], rows: Sequence[_Row]) -> list[Item]:
    found = [_key(row.value, pointer) for row in rows]
    times = Counter(found)
    by_key = {key: row for key, row in zip(found, rows, strict=True) if key is not None and times[key] == 1}
    return [
        by_key[key].item(key)
        if key in by_key
        else Item(key, Outcome.UNKNOWN, "two results have its key" if times[key] else "no result has its key")
        for key in keys
    ]


def _by_position(keys: Sequence[str], rows: Sequence[_Row]) -> list[Item]:
    if len(rows) > len(keys):
        return [Item(key, Outcome.UNKNOWN, "there are more results than items") for key in keys]
    told = [row.item(key) for key, row in zip(keys, rows, strict=False)]
    return told + [Item(key, Outcome.UNKNOWN, "the results end before it") for key in keys[len(rows) :]]


def _whole(items: tuple[Item, ...]) -> tuple[Item, ...]:
    """All or nothing: items that contradict each other prove nothing."""
    if len({item.outcome for item in items}) <= 1:
        return items
    why = "the answer tells items apart, and the contract says all or nothing"
    return tuple(Item(item.key, Outcome.UNKNOWN, why) for item in items)


def _key(row: Any, pointer: str) -> str | None:
    value = find(row, pointer)
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    return str(value) if 0 < len(str(value)) <= KEY_MAX else None


def _shown(value: Any) -> str:
    if value is MISSING:
        return "missing"
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:80]}..."
