"""Reads by the decision they support (R66): the stricter purpose holds, and the answer says its version. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from affidavit.broker.contract.model import Eventual, Place, ReadTerms
from affidavit.broker.signs import Answer

REFRESH = "refresh"
DECIDES_WRITE = "decides_write"
VERSION_MAX = 512


def purpose(caller: str | None, terms: ReadTerms | None) -> str | None:
    """What the read is for: `decides_write` if caller or contract says so."""
    given = {caller, terms.purpose if terms is not None else None}
    return DECIDES_WRITE if DECIDES_WRITE in given else REFRESH if REFRESH in given else None


def consistency(caller: str | None, terms: ReadTerms | None, answer: Answer) -> Mapping[str, Any] | str | None:
    """`evidence.consistency` of a complete answer.

    `{by, version}` with the version at the contract's place, null where the answer has none there; `{eventual_s}`;
    `none` where the read decides a write and no rule says which version it saw; else nothing.
    """
    rule = terms.consistency if terms is not None else None
    match rule:
        case Place():
            value = answer.at(rule)
            plain = isinstance(value, str | int | float) and len(str(value)) <= VERSION_MAX
            return {"by": str(rule), "version": value if plain else None}
        case Eventual():
            return {"eventual_s": rule.within_s}
        case None:
            return "none" if purpose(caller, terms) == DECIDES_WRITE else None
