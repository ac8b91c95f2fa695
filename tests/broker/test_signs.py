"""What a contract reads from an answer: one test for each kind of sign, and what may not be moved."""

from __future__ import annotations

import json
from typing import Any

import pytest

from affidavit.broker.contract import Contract, parse
from affidavit.broker.contract.model import Place, PlaceKind
from affidavit.broker.limits import Limits
from affidavit.broker.outcome import Meaning, status_verdict
from affidavit.broker.signs import UNREADABLE, Answer, job_reference, judged, reads_body
from affidavit.broker.target import parse_http
from affidavit.broker.terms import Code, Outcome, Retry

ASKED = parse_http("https://api.example.com/v1/things", Limits())
HEAD = """
id = "test.signs"
source = "https://docs.example.com/"
checked = 2026-11-30
[match]
kind = "http"
url = "https://api.example.com/**"
[effect]
kind = "write"
"""
KEYED = '[idempotency]\nheader = "Idempotency-Key"\n'
IDEMPOTENT = Meaning(idempotent=True, keyed=False)
PLAIN = Meaning(idempotent=False, keyed=False)
WITH_KEY = Meaning(idempotent=False, keyed=True)


def contract(more: str) -> Contract:
    return parse(HEAD + more, file="test.toml")


def said(
    of: Contract, status: int, body: Any = None, meaning: Meaning = PLAIN, headers: dict[str, str] | None = None
) -> tuple[str, str, str]:
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    answer = Answer(status, headers or {}, data)
    verdict = judged(status_verdict(status, headers or {}, meaning), answer, of, meaning)
    return str(verdict.outcome), str(verdict.code), str(verdict.retry)


IN_USE = KEYED + 'in_use = [{ status = 409, pointer = "/error/code", equals = "in_use" }]\n'


def test_a_key_in_use_speaks_about_the_repeat() -> None:
    of = contract(IN_USE)
    busy = {"error": {"code": "in_use"}}
    assert said(of, 409, busy, WITH_KEY) == ("unknown", "REMOTE_IN_PROGRESS", "same_idempotency_key")
    assert said(of, 409, {"error": {"code": "exists"}}, WITH_KEY) == ("rejected", "REMOTE_REJECTED", "after_correction")
    assert said(of, 400, busy, WITH_KEY)[1] == "REMOTE_REJECTED"
    assert said(of, 409, busy, PLAIN)[1] == "REMOTE_REJECTED"


RATE = """
[verdict]
rate_limited = [
  { status = 403, header = "X-RateLimit-Remaining", equals = "0" },
  { status = 200, pointer = "/limited", equals = true },
]
"""


@pytest.mark.parametrize(
    ("meaning", "retry"),
    [(IDEMPOTENT, "backoff"), (WITH_KEY, "same_idempotency_key"), (PLAIN, "reconcile")],
)
def test_a_rate_limit_in_another_dress_is_the_row_of_429(meaning: Meaning, retry: str) -> None:
    of = contract(RATE)
    limited = ("rejected", "REMOTE_RATE_LIMITED", retry)
    assert said(of, 403, b"", meaning, {"x-ratelimit-remaining": "0"}) == limited
    assert said(of, 200, {"limited": True}, meaning) == limited
    assert said(of, 403, b"", meaning, {"x-ratelimit-remaining": "1"})[1] == "REMOTE_REJECTED"
    assert said(of, 200, {"limited": 1}, meaning)[0] == "committed"


def test_a_refused_status_gives_backoff_to_a_dressed_limit() -> None:
    of = contract(RATE.replace("[verdict]", "[verdict]\nrefused = [403]"))
    meaning = Meaning(idempotent=False, keyed=False, refused=frozenset({403}))
    assert said(of, 403, b"", meaning, {"x-ratelimit-remaining": "0"}) == ("rejected", "REMOTE_RATE_LIMITED", "backoff")


def test_applied_before_is_committed() -> None:
    of = contract('[verdict]\napplied = [{ status = 409, pointer = "/reason", equals = "AlreadyExists" }]\n')
    assert said(of, 409, {"reason": "AlreadyExists"}) == ("committed", "REMOTE_RESULT", "never")
    assert said(of, 409, {"reason": "Conflict"}) == ("rejected", "REMOTE_REJECTED", "after_correction")
    assert said(contract("[verdict]\napplied = [409]\n"), 409, b"not JSON") == ("committed", "REMOTE_RESULT", "never")


SLACK = '[verdict]\nbody = [{ pointer = "/ok", equals = false, outcome = "rejected" }]\n'
GRAPHQL = '[verdict]\nbody = [{ pointer = "/errors", outcome = "unknown" }]\n'


def test_a_verdict_in_the_body() -> None:
    assert said(contract(SLACK), 200, {"ok": False}) == ("rejected", "REMOTE_REJECTED", "after_correction")
    assert said(contract(SLACK), 200, {"ok": True}) == ("committed", "REMOTE_RESULT", "never")
    assert said(contract(SLACK), 200, {"ok": 0})[0] == "committed"
    part = ("unknown", "REMOTE_OUTCOME_UNKNOWN", "reconcile")
    assert said(contract(GRAPHQL), 200, {"errors": [{}], "data": {}}) == part
    assert said(contract(GRAPHQL), 200, {"errors": None, "data": {}})[0] == "committed"
    done = contract('[verdict]\nbody = [{ pointer = "/state", equals = "done", outcome = "committed" }]\n')
    assert said(done, 422, {"state": "done"}) == ("committed", "REMOTE_RESULT", "never")


def test_a_refusal_that_the_status_tells_better_is_kept() -> None:
    assert said(contract(SLACK), 429, {"ok": False}, IDEMPOTENT) == ("rejected", "REMOTE_RATE_LIMITED", "backoff")
    assert said(contract(SLACK), 401, {"ok": False}) == ("rejected", "REMOTE_REJECTED", "after_correction")


def test_the_first_rule_that_holds_decides() -> None:
    both = '{ pointer = "/errors", outcome = "unknown" }, { pointer = "/ok", equals = false, outcome = "rejected" }'
    assert said(contract(f"[verdict]\nbody = [{both}]\n"), 200, {"ok": False, "errors": [1]})[0] == "unknown"


def test_a_gateways_answer_is_not_moved() -> None:
    of = contract('[verdict]\nbody = [{ pointer = "/ok", equals = true, outcome = "committed" }]\n')
    assert said(of, 502, {"ok": True}) == ("unknown", "GATEWAY_UNCERTAIN", "reconcile")


@pytest.mark.parametrize("more", [SLACK, GRAPHQL, RATE, IN_USE])
def test_what_cannot_be_read_decides_nothing(more: str) -> None:
    status = 409 if more is IN_USE else 200
    meaning = WITH_KEY if more is IN_USE else PLAIN
    assert said(contract(more), status, None, meaning)[:2] == ("unknown", "REMOTE_OUTCOME_UNKNOWN")


def test_unreadable_only_matters_where_the_contract_reads() -> None:
    assert said(contract(""), 200, None) == ("committed", "REMOTE_RESULT", "never")
    assert said(contract(RATE), 404, None) == ("rejected", "REMOTE_REJECTED", "after_correction")


def test_no_json_where_a_verdict_is_read_from_json() -> None:
    assert said(contract(SLACK), 200, b"<html>")[:2] == ("unknown", "REMOTE_OUTCOME_UNKNOWN")
    assert said(contract(SLACK), 204, b"")[0] == "committed"
    assert said(contract(SLACK), 404, b"<html>") == ("rejected", "REMOTE_REJECTED", "after_correction")
    assert said(contract(SLACK), 200, b'{"ok":true,"ok":false}')[0] == "unknown"


def test_a_status_refused_before_any_work() -> None:
    meaning = Meaning(idempotent=False, keyed=False, refused=frozenset({503, 500, 502}))
    verdicts = {status: status_verdict(status, {}, meaning) for status in (503, 500, 502)}
    assert (verdicts[503].outcome, verdicts[503].retry) == (Outcome.REJECTED, Retry.BACKOFF)
    assert (verdicts[500].outcome, verdicts[500].retry) == (Outcome.REJECTED, Retry.BACKOFF)
    assert verdicts[502].outcome is Outcome.UNKNOWN


JOB = '[job]\npointer = "/id"\nstatus_url = "/url"\nstate = "/state"\nstates = { done = "committed" }\n'
BY_ID = JOB.replace('status_url = "/url"', 'url = "/{path:1}/jobs/{result:/id}"')
BY_HEADER = JOB.replace('pointer = "/id"\n', "").replace('"/url"', '"header:Location"')


@pytest.mark.parametrize(
    ("more", "status", "body", "headers", "job"),
    [
        (JOB, 202, {"id": "j1", "url": "/jobs/j1"}, {}, ("j1", "https://api.example.com/jobs/j1")),
        (JOB, 201, {"id": 7, "url": "https://else.example/7"}, {}, ("7", "https://else.example/7")),
        (JOB, 200, {"id": "j1"}, {}, ("j1", None)),
        (JOB, 200, {"url": "/jobs/j1"}, {}, None),
        (JOB, 202, {"url": "/jobs/j1"}, {}, None),
        (JOB, 202, {}, {}, None),
        (JOB, 202, b"text", {}, None),
        (JOB, 202, {"id": True, "url": ""}, {}, None),
        (JOB, 202, {"id": "x" * 300}, {}, None),
        (JOB, 409, {"id": "j1", "url": "/jobs/j1"}, {}, None),
        (JOB, 202, {"id": "j1", "url": "//["}, {}, ("j1", "//[")),
        (BY_ID, 201, {"id": "j/1", "url": "/other"}, {}, ("j/1", "https://api.example.com/v1/jobs/j%2F1")),
        (BY_ID, 202, {"id": 7}, {}, ("7", "https://api.example.com/v1/jobs/7")),
        (BY_ID, 202, {"id": ".."}, {}, ("..", None)),
        (BY_ID, 202, {"other": 7}, {}, None),
        (BY_HEADER, 202, {}, {"location": "../j/2"}, (None, "https://api.example.com/j/2")),
        (BY_HEADER, 200, {}, {"location": "/j/2"}, None),
    ],
)
def test_the_reference_of_a_job(
    more: str, status: int, body: Any, headers: dict[str, str], job: tuple[str | None, str | None] | None
) -> None:
    of = contract(more)
    assert of.job is not None
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    found = job_reference(of.job, Answer(status, headers, data), ASKED)
    assert (None if found is None else (found.job_id, found.status_url)) == job


@pytest.mark.parametrize(("first", "second"), [("unknown", "rejected"), ("rejected", "unknown")])
def test_of_several_entries_the_first_that_fits_holds(first: str, second: str) -> None:
    of = contract(
        "[verdict]\nbody = [\n"
        '  { pointer = "/other", equals = true, outcome = "committed" },\n'
        f'  {{ pointer = "/error", equals = "e", outcome = "{first}" }},\n'
        f'  {{ pointer = "/ok", equals = false, outcome = "{second}" }},\n]\n'
    )
    assert said(of, 200, {"ok": False, "error": "e"})[0] == first
    assert said(of, 200, {"ok": False, "error": "f"})[0] == second


def test_a_job_is_an_acceptance_on_any_2xx() -> None:
    accepted = ("committed", "JOB_ACCEPTED", "never")
    assert said(contract(JOB), 200, {"id": "j1", "url": "/j"}) == accepted
    assert said(contract(JOB), 202, {}) == accepted
    assert said(contract(JOB), 200, {}) == ("committed", str(Code.REMOTE_RESULT), "never")


def test_what_is_read_from_a_body() -> None:
    assert not reads_body(contract(""))
    assert not reads_body(contract("[verdict]\napplied = [409]\n"))
    assert all(reads_body(contract(more)) for more in (SLACK, RATE, IN_USE, JOB))


def test_places_of_an_answer() -> None:
    answer = Answer(200, {"etag": '"1"'}, b'{"a":[1]}')
    assert answer.at(Place(PlaceKind.HEADER, "ETag")) == '"1"'
    assert answer.at(Place(PlaceKind.POINTER, "/a/0")) == 1
    assert Answer(200, {}, None).pointed("/a") is UNREADABLE
