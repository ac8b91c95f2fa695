"""`affidavit http`: what is sent, what is printed, and what is acknowledged when."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.ipc.cli.conftest import Cli, ScriptedBroker

ACT = "act_01JEXAMPLE0000000000000000"


def body(data: bytes, **more: Any) -> dict[str, Any]:
    digest = "sha256:" + hashlib.sha256(data).hexdigest()
    about = {"bytes": len(data), "sha256": digest, "delivered_sha256": None, "complete": True, "inline": True}
    return {**about, "text": data.decode(), "chunks": 1, "redactions": 0, "truncated_at": None, **more}


def answered(status: int, shown: Mapping[str, Any] | None, outcome: str = "committed") -> dict[str, Any]:
    facts = {
        "code": "REMOTE_RESULT",
        "phase": "remote_execution",
        "outcome": outcome,
        "retry": "never",
        "message": f"Answered completely: status {status}.",
    }
    kind = "result" if outcome == "committed" else "error"
    http = {"status": status, "headers": {}, "body": shown}
    return {"invocation_id": ACT, "operation_id": "op_1", kind: facts, "evidence": {}, "http": http}


def failed(**facts: str) -> dict[str, Any]:
    envelope = {"invocation_id": ACT, "operation_id": "op_1", "error": facts, "evidence": {}}
    return {"error": {"code": -32001, "message": facts["message"], "data": envelope}}


@pytest.fixture
def acknowledging(broker: ScriptedBroker) -> ScriptedBroker:
    broker.answers("result.ack", {"result": {"delivered": True}})
    return broker


def test_everything_asked_for_is_sent(cli: Cli, acknowledging: ScriptedBroker, tmp_path: Any) -> None:
    acknowledging.answers("http.request", {"result": answered(201, body(b"{}"))})
    data = tmp_path / "body"
    data.write_bytes(b"\x00\xff")
    ran = cli(
        "http", "POST", "https://api.example.com/v1", "-H", "Content-Type: application/json", "-H", "X-A:b:c",
        "-d", f"@{data}", "--credential", "example", "--operation-id", "op_1", "--idempotency-key", "k", "--deadline",
        "2.5", "--wait", "1", "--correlation-id", "run_1", "--reason", "because", "--acknowledge-unresolved", "act_2",
    )  # fmt: skip
    assert ran.status == 0
    assert acknowledging.asked("http.request") == [
        {
            "method": "POST",
            "url": "https://api.example.com/v1",
            "headers": [["Content-Type", "application/json"], ["X-A", "b:c"]],
            "body_base64": base64.b64encode(b"\x00\xff").decode(),
            "credential": "example",
            "operation_id": "op_1",
            "idempotency_key": "k",
            "deadline_s": 2.5,
            "wait_s": 1.0,
            "correlation_id": "run_1",
            "reason": "because",
            "acknowledge_unresolved": "act_2",
        }
    ]
    assert acknowledging.calls[0][0] == "agent"


def test_what_is_not_given_is_left_out(cli: Cli, acknowledging: ScriptedBroker) -> None:
    acknowledging.answers("http.request", {"result": answered(200, body(b""))})
    cli("http", "GET", "https://api.example.com/")
    (asked,) = acknowledging.asked("http.request")
    assert set(asked) == {"method", "url", "operation_id"}


def test_the_body_is_printed_and_then_acknowledged(cli: Cli, acknowledging: ScriptedBroker) -> None:
    acknowledging.answers("http.request", {"result": answered(200, body("grün".encode()))})
    ran = cli("http", "GET", "https://api.example.com/")
    assert (ran.status, ran.out) == (0, "grün".encode())
    first, *rest = ran.err.splitlines()
    assert re.fullmatch(r"op_[0-9a-f]{24}", first)
    assert first == acknowledging.asked("http.request")[0]["operation_id"]
    assert rest == [
        "REMOTE_RESULT: committed, in remote execution; not again.",
        "Answered completely: status 200.",
    ]
    digest = "sha256:" + hashlib.sha256("grün".encode()).hexdigest()
    assert acknowledging.asked("result.ack") == [{"invocation_id": ACT, "sha256": digest}]


def test_a_redacted_body_is_acknowledged_by_the_hash_of_what_came(cli: Cli, acknowledging: ScriptedBroker) -> None:
    came = "sha256:" + hashlib.sha256(b"[redacted]").hexdigest()
    shown = body(b"[redacted]", sha256="sha256:00", delivered_sha256=came, redactions=1)
    acknowledging.answers("http.request", {"result": answered(200, shown)})
    assert cli("http", "GET", "https://api.example.com/").status == 0
    assert acknowledging.asked("result.ack")[0]["sha256"] == came


def test_a_decoded_body_is_acknowledged_by_the_hash_of_what_came(cli: Cli, acknowledging: ScriptedBroker) -> None:
    came = "sha256:" + hashlib.sha256(b"decoded").hexdigest()
    shown = body(b"decoded", sha256="sha256:00", delivered_sha256=came)
    acknowledging.answers("http.request", {"result": answered(200, shown)})
    assert cli("http", "GET", "https://api.example.com/").status == 0
    assert acknowledging.asked("result.ack")[0]["sha256"] == came


def test_a_withheld_body_of_an_unknown_action_says_nothing_of_a_delivery(cli: Cli, broker: ScriptedBroker) -> None:
    shown = body(b"x", inline=False, text=None, withheld=True, undecodable="coding")
    unknown = {**answered(500, shown)}
    unknown["error"] = {**unknown.pop("result"), "outcome": "unknown", "code": "REMOTE_OUTCOME_UNKNOWN"}
    broker.answers("http.request", {"error": {"code": -32001, "message": "m", "data": unknown}})
    ran = cli("http", "GET", "https://api.example.com/")
    assert ran.status == 12
    assert "withheld" not in ran.err


def test_a_withheld_body_is_said_to_be(cli: Cli, acknowledging: ScriptedBroker) -> None:
    shown = body(b"x", inline=False, text=None, withheld=True, undecodable="coding")
    acknowledging.answers("http.request", {"result": answered(200, shown)})
    ran = cli("http", "GET", "https://api.example.com/")
    assert (ran.status, ran.out) == (13, b"")
    assert "withheld: it does not decode" in ran.err
    assert acknowledging.asked("result.fetch") == acknowledging.asked("result.ack") == []


def test_a_large_body_comes_in_verified_chunks(cli: Cli, acknowledging: ScriptedBroker) -> None:
    parts = [b"a" * 10, b"b" * 10, b"c"]
    whole = b"".join(parts)
    shown = body(whole, inline=False, text=None, chunks=3)
    acknowledging.answers("http.request", {"result": answered(200, shown)})
    acknowledging.answers("result.fetch", lambda params: {"result": chunk(parts, params["chunk"])})
    ran = cli("http", "GET", "https://api.example.com/")
    assert (ran.status, ran.out) == (0, whole)
    assert [asked["chunk"] for asked in acknowledging.asked("result.fetch")] == [0, 1, 2]
    assert len(acknowledging.asked("result.ack")) == 1


def chunk(parts: list[bytes], number: int) -> dict[str, Any]:
    return {
        "chunk": number,
        "chunks": len(parts),
        "base64": base64.b64encode(parts[number]).decode(),
        "sha256": "sha256:" + hashlib.sha256(parts[number]).hexdigest(),
        "last": number == len(parts) - 1,
        "complete": True,
    }


@pytest.mark.parametrize("damage", ["chunk", "whole"])
def test_a_damaged_result_is_not_acknowledged(cli: Cli, acknowledging: ScriptedBroker, damage: str) -> None:
    shown = body(b"ab", inline=False, text=None)
    fetched = chunk([b"ab" if damage == "chunk" else b"xx"], 0)
    if damage == "chunk":
        fetched["base64"] = base64.b64encode(b"xx").decode()
    acknowledging.answers("http.request", {"result": answered(200, shown)})
    acknowledging.answers("result.fetch", {"result": fetched})
    ran = cli("http", "GET", "https://api.example.com/")
    assert ran.status == 13
    assert f"affidavit result fetch {ACT}" in ran.err
    assert acknowledging.asked("result.ack") == []


def test_with_json_the_envelope_is_the_one_object_and_is_acknowledged(cli: Cli, acknowledging: ScriptedBroker) -> None:
    envelope = answered(200, body(b"x\x1b"))
    acknowledging.answers("http.request", {"result": envelope})
    ran = cli("http", "GET", "https://api.example.com/", "--json")
    assert (ran.status, ran.json) == (0, envelope)
    assert b"\x1b" not in ran.out
    assert len(acknowledging.asked("result.ack")) == 1


def test_with_json_a_body_that_is_not_in_the_envelope_stays_unacknowledged(cli: Cli, broker: ScriptedBroker) -> None:
    broker.answers("http.request", {"result": answered(200, body(b"xy", inline=False, text=None))})
    assert cli("http", "GET", "https://api.example.com/", "--json").status == 0
    assert broker.asked("result.ack") == []


def test_a_rejection_shows_its_body_too(cli: Cli, acknowledging: ScriptedBroker) -> None:
    envelope = answered(422, body(b"why"), "rejected")
    acknowledging.answers("http.request", {"error": {"code": -32001, "message": "m", "data": envelope}})
    ran = cli("http", "POST", "https://api.example.com/", "-d", "{}")
    assert (ran.status, ran.out) == (11, b"why")
    assert len(acknowledging.asked("result.ack")) == 1


def test_an_unknown_outcome_says_to_look_first(cli: Cli, broker: ScriptedBroker) -> None:
    broker.answers(
        "http.request",
        failed(code="REMOTE_OUTCOME_UNKNOWN", phase="remote_execution", outcome="unknown", retry="reconcile",
               message="It was sent. \x1b[2J"),
    )  # fmt: skip
    ran = cli("http", "POST", "https://api.example.com/", "-d", "{}")
    assert (ran.status, ran.out) == (12, b"")
    assert "It was sent. <U+001B>[2J" in ran.err
    assert "No status query is known" in ran.err
    assert broker.asked("result.ack") == []


def test_pending_says_not_to_send_it_again(cli: Cli, broker: ScriptedBroker) -> None:
    facts = {
        "code": "AWAITING_APPROVAL",
        "phase": "credential_injection",
        "outcome": "not_attempted",
        "retry": "fetch_result",
        "message": "Not sent yet. A card is waiting for you.",
        "state": "awaiting_approval",
        "poll_after_s": 5,
    }
    broker.answers("http.request", {"result": {"invocation_id": ACT, "operation_id": "op_1", "pending": facts}})
    ran = cli("http", "POST", "https://api.example.com/", "-d", "{}")
    assert ran.status == 14
    assert f"affidavit action wait {ACT}" in ran.err


def test_the_operation_id_is_told_although_nothing_answers(cli: Cli) -> None:
    ran = cli("http", "GET", "https://api.example.com/")
    assert ran.status == 3
    assert ran.err.splitlines()[0].startswith("op_")
    ran = cli("http", "GET", "https://api.example.com/", "--operation-id", "op_mine", "--json")
    assert ran.status == 3
    assert ran.json["operation_id"] == "op_mine"
    assert ran.json["error"]["code"] == "not_reachable"
    assert ran.err.splitlines()[0] == "op_mine"


def test_a_connection_that_ends_proves_nothing(cli: Cli, broker: ScriptedBroker) -> None:
    broker.answers("http.request", None)
    ran = cli("http", "POST", "https://api.example.com/", "--operation-id", "op_mine")
    assert ran.status == 3
    assert "proves nothing" in ran.err
    assert "affidavit action show op_mine" in ran.err


def test_a_failed_acknowledgement_changes_nothing(cli: Cli, broker: ScriptedBroker) -> None:
    broker.answers("http.request", {"result": answered(200, body(b"x"))})
    broker.answers("result.ack", None)
    ran = cli("http", "GET", "https://api.example.com/")
    assert (ran.status, ran.out) == (0, b"x")
    assert "stays fetchable" in ran.err


def test_stdin_is_the_body(cli: Cli, acknowledging: ScriptedBroker, home: Any) -> None:
    acknowledging.answers("http.request", {"result": answered(200, body(b"x"))})
    command = [sys.executable, "-P", "-m", "affidavit.ipc.cli", "http", "POST", "https://api.example.com/", "-d", "-"]
    done = subprocess.run(command, input=b"from stdin", capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, b"x")
    assert acknowledging.asked("http.request")[0]["body_base64"] == base64.b64encode(b"from stdin").decode()


def test_a_body_over_the_limit_is_refused_by_the_name_of_its_option(cli: Cli, broker: ScriptedBroker) -> None:
    file = cli.home.parent / "large"
    for size, said in ((8 * 1024 * 1024 + 1, True), (9_000_000, True), (8 * 1024 * 1024, False)):
        file.write_bytes(bytes(size))
        ran = cli("http", "POST", "https://api.example.com/", "-d", f"@{file}", "--operation-id", "op_1")
        assert ("The body is over 8388608 bytes" in ran.err) is said
        assert ("-d/--data" in ran.err) is said
        assert (ran.status == 2) is said
    assert len(broker.asked("http.request")) == 1


def test_a_reader_that_went_away_leaves_the_result_unacknowledged(cli: Cli, acknowledging: ScriptedBroker) -> None:
    acknowledging.answers("http.request", {"result": answered(200, body(b"x" * 100))})
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-P", "-m", "affidavit.ipc.cli", "http", "GET", "https://api.example.com/"]
    # With Python's own buffer in between, only the flush finds out.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(command, env=env, stdout=writing, stderr=subprocess.PIPE, timeout=60, check=False)
    os.close(writing)
    assert done.returncode == 13
    assert b"not acknowledged" in done.stderr
    assert b"Traceback" not in done.stderr
    assert acknowledging.asked("result.ack") == []


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (("-H", "no-colon"), "-H/--header"),
        (("-d", "@/nowhere/at/all"), "-d/--data"),
        (("--deadline", "soon"), "--deadline"),
    ],
)
def test_wrong_usage_names_the_option(cli: Cli, words: tuple[str, str], field: str) -> None:
    ran = cli("http", "GET", "https://api.example.com/", *words)
    assert ran.status == 2
    assert f"field: {field}" in ran.err
