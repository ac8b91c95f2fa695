"""The three answers in words (R70), and which of them are missing."""

from __future__ import annotations

import pytest

from affidavit.broker.contract import DEFAULT_READ, DEFAULT_WRITE, ContractSet, answers, explain, parse, told
from affidavit.broker.limits import Limits
from affidavit.broker.target import parse_http

HEAD = 'id = "example.refunds.create"\nsource = "s"\nchecked = 2026-11-30\n[match]\nkind = "http"\n'
WRITE = HEAD + 'url = "https://api.example.com/v1/refunds"\n[effect]\nkind = "write"\n'
READ = HEAD + 'url = "https://api.example.com/v1/refunds"\n[effect]\nkind = "read"\n'
SSH = 'id = "d"\n[match]\nkind = "ssh"\nhost = "web"\ncommand = "deploy *"\n[effect]\nkind = "write"\n'
KEY = '[idempotency]\nheader = "Idempotency-Key"\nretention = "24h"\n'
JOB = '[job]\nstatus_url = "/u"\nstate = "/s"\nstates = { a = "committed" }\n'


def look_up(url: str, rest: str = "") -> str:
    return f'[reconcile]\nurl = "{url}"\n{rest}'


def three(text: str) -> list[tuple[str, bool]]:
    given = answers(parse(text, file="a.toml"))
    return [(answer.text, answer.present) for answer in (given.binds_retries, given.lookup, given.on_connection_death)]


def test_a_write_with_all_three() -> None:
    assert three(WRITE + KEY + look_up("https://api.example.com/v1/refunds?ref={operation_id}")) == [
        ("Idempotency-Key, same key for 24 h", True),
        ("GET /v1/refunds by our operation id", True),
        ("Record that the request was sent; the key replays the first answer", True),
    ]


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("/{path}", "GET the same URL"),
        ("/{path}?op={operation_id}", "GET the same URL by our operation id"),
        ("/v1/apps/{path:3}/machines?op={operation_id}", "GET /v1/apps/{path:3}/machines by our operation id"),
        ("/{path}/{operation_id}", "GET /{path}/{operation_id}"),
    ],
)
def test_a_look_up_at_the_actions_own_origin(url: str, says: str) -> None:
    assert three(WRITE + look_up(url))[1] == (says, True)


def test_a_write_with_none() -> None:
    nothing = [("Nothing", False), ("Nothing", False), ("Only the record that the request was sent", False)]
    assert three(WRITE) == nothing
    given = answers(DEFAULT_WRITE)
    assert [given.binds_retries.present, given.lookup.present, given.on_connection_death.present] == [False] * 3


def test_reads() -> None:
    sent = ("Only the record that the request was sent", False)
    assert three(READ) == [("Not needed: a read may be repeated", True), ("Not needed: nothing changes", True), sent]
    given = answers(DEFAULT_READ)
    assert given.binds_retries.text == "Assumed: a read may be repeated"
    assert given.lookup.text == "Not needed: nothing changes"


@pytest.mark.parametrize(
    ("rest", "text"),
    [
        ('[idempotency]\nbody_field = "/key"\nretention = "7d"\n', "Body field /key, same key for 7 days"),
        ('[idempotency]\nquery = "requestId"\nretention = "90m"\n', "Query parameter requestId, same key for 90 min"),
        ('[idempotency]\nheader = "K"\nretention = "90s"\n', "K, same key for 90 s"),
        ('[idempotency]\nheader = "K"\n', "K, same key; how long is not documented"),
        ("idempotent = true\n", "The request itself: a repeat changes nothing more"),
        ('idempotent = "name"\n', "The name that the caller gives the object"),
        ('idempotent = "if-match"\n', "If-Match: the object's version"),
        ('idempotent = "if-none-match"\n', "If-None-Match: the object must not exist yet"),
    ],
)
def test_what_binds_a_repeat(rest: str, text: str) -> None:
    assert three(WRITE + rest)[0] == (text, True)


@pytest.mark.parametrize(
    ("rest", "text"),
    [
        (look_up("https://api.example.com/v1/refunds/{operation_id}"), "GET /v1/refunds/{operation_id}"),
        (look_up("https://api.example.com/v1/refunds"), "GET /v1/refunds"),
        (look_up("https://api.example.com?ref={correlation_id}"), "GET / by the correlation id"),
        (KEY + look_up("https://api.example.com/v1/r?k={idempotency_key}"), "GET /v1/r by the key"),
        (
            look_up("https://api.example.com/search", 'method = "POST"\nbody = \'{"q": "{operation_id}"}\'\n'),
            "POST /search by our operation id",
        ),
        (
            look_up("https://status.example.com/v1?ref={operation_id}"),
            "GET https://status.example.com/v1 by our operation id",
        ),
    ],
)
def test_where_the_outcome_can_be_looked_up(rest: str, text: str) -> None:
    assert three(WRITE + rest)[1] == (text, True)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (WRITE + '[answers]\non_connection_death = "The version shows it."\n' + KEY, "The version shows it."),
        (WRITE + look_up("https://a.b/"), "Record that the request was sent; the look-up shows the rest"),
        (WRITE + JOB, "Record that the request was sent; the job shows the rest"),
        (
            SSH + '[reconcile]\ncommand = "status {operation_id}"\n',
            "Record that the command was sent; the look-up shows the rest",
        ),
    ],
)
def test_what_is_left(text: str, left: str) -> None:
    assert three(text)[2] == (left, True)


def test_ssh() -> None:
    assert three(SSH)[2] == ("Only the record that the command was sent", False)
    assert three(SSH + '[reconcile]\ncommand = "status {operation_id}"\n')[1] == (
        "Command: status {operation_id}",
        True,
    )


def test_a_job_alone_is_no_look_up() -> None:
    """If the acceptance is lost, so is the job's id."""
    assert three(WRITE + JOB)[1] == ("Nothing", False)


def test_told_as_json() -> None:
    contract = parse(WRITE + KEY + '[approval]\nmode = "passphrase"\n', file="a.toml")
    assert told(contract) == {
        "contract": {
            "id": "example.refunds.create",
            "title": None,
            "source": "s",
            "checked": "2026-11-30",
            "digest": contract.digest,
            "standing": "adopted",
        },
        "effect": "write",
        "idempotent": False,
        "approval": "passphrase",
        "redirects": 0,
        "answers": {
            "binds_retries": "Idempotency-Key, same key for 24 h",
            "lookup": "Nothing",
            "on_connection_death": "Record that the request was sent; the key replays the first answer",
        },
        "missing": ["lookup"],
    }
    assert told(DEFAULT_READ)["idempotent"] == "assumed"
    assert told(parse(WRITE + 'idempotent = "name"\n', file="a.toml"))["idempotent"] == "name"


def test_explain() -> None:
    target = parse_http("https://api.example.com/v1/refunds?x=1", Limits())
    given = explain(ContractSet(), "DELETE", target)
    assert (given["method"], given["url"], given["unless"]) == ("DELETE", target.url, [])
    assert given["contract"]["id"] == "default.write"
    assert given["missing"] == ["binds_retries", "lookup", "on_connection_death"]
