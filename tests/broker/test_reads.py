"""Reads by purpose, and the version that an answer is."""

from __future__ import annotations

import pytest

from affidavit.broker.contract.model import Eventual, Place, PlaceKind, ReadTerms
from affidavit.broker.reads import consistency, purpose
from affidavit.broker.signs import Answer

ETAG = ReadTerms("refresh", Place(PlaceKind.HEADER, "ETag"))


@pytest.mark.parametrize(
    ("caller", "contract", "holds"),
    [
        (None, None, None),
        ("refresh", None, "refresh"),
        ("refresh", "decides_write", "decides_write"),
        ("decides_write", "refresh", "decides_write"),
        (None, "refresh", "refresh"),
    ],
)
def test_the_stricter_purpose_holds(caller: str | None, contract: str | None, holds: str | None) -> None:
    assert purpose(caller, ReadTerms(contract, None)) == holds


def test_the_version_that_an_answer_is() -> None:
    assert consistency(None, ETAG, Answer(200, {"etag": '"v1"'}, b"")) == {"by": "header:ETag", "version": '"v1"'}
    assert consistency(None, ETAG, Answer(200, {}, b"")) == {"by": "header:ETag", "version": None}
    by_pointer = ReadTerms(None, Place(PlaceKind.POINTER, "/version"))
    assert consistency(None, by_pointer, Answer(200, {}, b'{"version":3}')) == {"by": "/version", "version": 3}
    assert consistency(None, by_pointer, Answer(200, {}, b'{"version":{}}')) == {"by": "/version", "version": None}
    assert consistency(None, by_pointer, Answer(200, {}, None)) == {"by": "/version", "version": None}
    assert consistency(None, ReadTerms(None, Eventual(60.0)), Answer(200, {}, b"")) == {"eventual_s": 60.0}


def test_a_read_that_decides_without_a_rule_says_so() -> None:
    answer = Answer(200, {}, b"")
    assert consistency("decides_write", None, answer) == "none"
    assert consistency(None, ReadTerms("decides_write", None), answer) == "none"
    assert consistency("refresh", None, answer) is None
    assert consistency("decides_write", ETAG, answer) == {"by": "header:ETag", "version": None}
