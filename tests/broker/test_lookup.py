"""Look-ups: only the contract's own words settle."""

from __future__ import annotations

import json
from typing import Any

import pytest

from affidavit.broker.contract import parse
from affidavit.broker.contract.model import Reconcile
from affidavit.broker.limits import Limits
from affidavit.broker.lookup import Worth, found, names, query
from affidavit.broker.outcome import settlement
from affidavit.broker.signs import Answer
from affidavit.broker.target import parse_http
from affidavit.broker.terms import Source

HEAD = """
id = "test.lookup"
source = "https://docs.example.com/"
checked = 2026-11-30
[match]
kind = "http"
url = "https://api.example.com/v1/things"
[effect]
kind = "write"
[idempotency]
header = "Idempotency-Key"
[reconcile]
"""
LIST = """
url = "https://api.example.com/v1/things?ref={operation_id}"
each = "/data"
where = { pointer = "/meta/op", equals = "op:{operation_id}" }
state = "/status"
committed = ["done"]
pending = ["working"]
rejected = ["failed"]
"""
BY_NAME = 'url = "https://api.example.com/v1/things/{operation_id}"\n'
SURE = 'absent = { means = "rejected", after = "60s" }\n'
ASKED = parse_http("https://api.example.com/v1/things?x=1", Limits())
VALUES = {"operation_id": "op-1", "idempotency_key": "k"}


def terms(more: str) -> Reconcile:
    made = parse(HEAD + more, file="t.toml").reconcile
    assert made is not None
    return made


def said(of: str, status: int | None, body: Any = None, age_s: float = 3600.0) -> tuple[str, str | None, str]:
    answer = None
    if status is not None:
        answer = Answer(status, {}, body if isinstance(body, bytes) else json.dumps(body).encode())
    got = found(terms(of), VALUES, answer, age_s=age_s)
    if got.outcome is None:
        return str(got.worth), None, "reconcile"
    return str(got.worth), str(got.outcome), str(settlement(Source.REMOTE_QUERY, got.outcome, absent=got.absent).retry)


def row(status: str, op: str = "op:op-1") -> dict[str, Any]:
    return {"meta": {"op": op}, "status": status}


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([row("done")], ("settles", "committed", "never")),
        ([row("x", "op:other"), row("failed")], ("settles", "rejected", "after_correction")),
        ([row("working")], ("pending", None, "reconcile")),
        ([row("strange")], ("other_state", None, "reconcile")),
        ([row("done"), row("done")], ("several", None, "reconcile")),
        ([row("done"), row("failed")], ("several", None, "reconcile")),
        ([], ("absent", None, "reconcile")),
        ([row("done", "op-1"), "odd", None], ("absent", None, "reconcile")),
    ],
)
def test_rows(rows: Any, says: tuple[str, str | None, str]) -> None:
    assert said(LIST, 200, {"data": rows}) == says


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (None, None),
        (503, {}),
        (404, {"data": []}),
        (202, {"data": []}),
        (200, b"<html>"),
        (200, {}),
        (200, {"data": {}}),
    ],
)
def test_a_look_up_that_fails_proves_nothing(status: int | None, body: Any) -> None:
    assert said(LIST, status, body) == ("failed", None, "reconcile")


def test_a_body_that_cannot_be_read_proves_nothing() -> None:
    assert found(terms(LIST), VALUES, Answer(200, {}, None), age_s=0).worth is Worth.FAILED


def test_by_name() -> None:
    assert said(BY_NAME, 200, {"id": 1}) == ("settles", "committed", "never")
    assert said(BY_NAME, 404, {}) == ("absent", None, "reconcile")
    assert said(BY_NAME, 401, {}) == ("failed", None, "reconcile")
    of = BY_NAME + 'where = { pointer = "/sha", equals = "abc" }\n'
    assert said(of, 200, {"sha": "abc"})[0] == "settles"
    assert said(of, 200, {"sha": "other"})[0] == "absent"


@pytest.mark.parametrize(("age_s", "outcome"), [(59.9, None), (60.0, "rejected")])
def test_absence_is_a_refusal_only_by_the_contract_and_in_its_time(age_s: float, outcome: str | None) -> None:
    assert said(LIST + SURE, 200, {"data": []}, age_s)[1] == outcome
    assert said(BY_NAME + SURE, 404, {}, age_s)[1] == outcome
    assert said(BY_NAME, 404, {}, age_s)[1] is None
    if outcome:
        assert said(BY_NAME + SURE, 404, {}, age_s) == ("settles", "rejected", "backoff")


def test_the_query_is_filled_whole_or_not_at_all() -> None:
    made = query(terms(LIST), {"operation_id": "a b/c"}, ASKED)
    assert made is not None
    assert made.told() == {"method": "GET", "url": "https://api.example.com/v1/things?ref=a%20b%2Fc"}
    assert query(terms(LIST), {}, ASKED) is None
    post = 'method = "POST"\nurl = "https://api.example.com/q"\n'
    with_body = terms(post + 'body = \'{"key":"{idempotency_key}"}\'\n')
    assert query(with_body, {}, ASKED) is None
    made = query(with_body, {"idempotency_key": 'a"b'}, ASKED)
    assert made is not None
    assert made.told() == {"method": "POST", "url": "https://api.example.com/q", "body": '{"key":"a\\"b"}'}
    assert names(with_body) == {"idempotency_key"}
    assert names(terms(LIST)) == {"operation_id"}


def test_a_query_at_the_actions_own_origin() -> None:
    made = query(terms('url = "/v2/{path:2}?op={operation_id}"\n'), {"operation_id": "op-1"}, ASKED)
    assert made is not None
    assert made.url == "https://api.example.com/v2/things?op=op-1"
    made = query(terms('url = "/{path}"\n'), {}, ASKED)
    assert made is not None
    assert made.url == "https://api.example.com/v1/things"


def test_a_value_that_would_climb_is_no_query() -> None:
    assert query(terms(BY_NAME), {"operation_id": ".."}, ASKED) is None
