"""`affidavit action`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pytest

from affidavit.ipc.cli import words

if TYPE_CHECKING:
    from tests.ipc.cli.conftest import Cli, ScriptedBroker

ACT = "act_01JEXAMPLE0000000000000000"
FACTS = {
    "code": "REMOTE_OUTCOME_UNKNOWN",
    "phase": "remote_execution",
    "outcome": "unknown",
    "retry": "same_idempotency_key",
    "message": "It was sent.",
}
UNKNOWN: dict[str, Any] = {
    "invocation_id": ACT,
    "operation_id": "op_1",
    "error": FACTS,
    "evidence": {
        "dispatch_started": True,
        "dispatch_record": 40,
        "target": {"kind": "http", "method": "POST", "url": "https://a.example/v1\x1b"},
        "times": {"accepted": "2026-11-30T14:32:07.123Z", "dispatched": "2026-11-30T14:32:09Z", "settled": None},
        "reconcile": {"available": True, "method": "GET", "url": "https://a.example/v1?ref=op_1"},
    },
    "events": [
        {"record": 40, "at": "2026-11-30T14:32:09Z", "kind": "DISPATCH_STARTED", "detail": None},
        {
            "record": 42,
            "at": "2026-11-30T14:32:10Z",
            "kind": "OUTCOME_UNKNOWN",
            "detail": {"code": "X\x1b", "deep": {}},
        },
    ],
}
SHOWN = """\
REMOTE_OUTCOME_UNKNOWN: unknown, in remote execution; may repeat with the same key.
It was sent.
Next: Look first: affidavit action reconcile act_01JEXAMPLE0000000000000000 (it asks GET https://a.example/v1?ref=op_1)

Action:       act_01JEXAMPLE0000000000000000
Operation:    op_1
Target:       POST https://a.example/v1<U+001B>
Accepted:     2026-11-30 14:32:07
Dispatched:   2026-11-30 14:32:09, record 40

Records:
      40  2026-11-30 14:32:09  DISPATCH_STARTED
      42  2026-11-30 14:32:10  OUTCOME_UNKNOWN           code X<U+001B>
"""


@pytest.mark.parametrize(
    ("look_up", "step"),
    [
        ({"available": True, "method": "GET", "url": "https://a.example/1"}, " (it asks GET https://a.example/1)"),
        ({"available": True, "command": "release-status op-1"}, " (it runs release-status op-1)"),
        (
            {"available": True},
            ". While the vault is locked that asks nothing (affidavit unlock). "
            "The query is shown to the program whose action it is, and to the operator: "
            f"affidavit action show --operator {ACT}",
        ),
    ],
)
def test_the_step_after_an_unknown_is_the_look_up(look_up: dict[str, Any], step: str) -> None:
    evidence = {**UNKNOWN["evidence"], "reconcile": look_up}
    assert words.next_step({**UNKNOWN, "evidence": evidence}) == f"Look first: affidavit action reconcile {ACT}{step}"


@pytest.mark.parametrize("retry", ["backoff", "same_idempotency_key"])
@pytest.mark.parametrize("outcome", ["unknown", "rejected", "committed"])
@pytest.mark.parametrize("look_up", [{"available": False}, UNKNOWN["evidence"]["reconcile"]])
def test_where_a_repeat_is_safe_it_is_the_next_step(retry: str, outcome: str, look_up: dict[str, Any]) -> None:
    evidence = {**UNKNOWN["evidence"], "reconcile": look_up, "retry_allowed": True}
    told = {**UNKNOWN, "error": {**FACTS, "outcome": outcome, "retry": retry}, "evidence": evidence}
    assert words.next_step(told) == f"affidavit action retry {ACT}"


def test_what_was_approved_and_never_left_is_repeated_by_its_id() -> None:
    evidence = {"retry_allowed": True, "fingerprint": "sha256:aa"}
    told = {**UNKNOWN, "error": {**FACTS, "outcome": "not_attempted", "retry": "backoff"}, "evidence": evidence}
    assert words.next_step(told) == f"affidavit action retry {ACT}"


@pytest.mark.parametrize(
    ("evidence", "facts"),
    [
        ({"retry_allowed": False}, {}),
        ({"retry_allowed": True}, {"retry": "reconcile"}),
        ({"retry_allowed": True}, {"needs": "request"}),
        ({"retry_allowed": True, "fingerprint": None}, {"outcome": "not_attempted", "retry": "backoff"}),
    ],
)
def test_a_repeat_that_is_not_allowed_is_not_the_next_step(evidence: dict[str, Any], facts: dict[str, Any]) -> None:
    told = {**UNKNOWN, "error": {**FACTS, **facts}, "evidence": {**UNKNOWN["evidence"], **evidence}}
    assert "action retry" not in (words.next_step(told) or "")


ATTEST = "No status query is known for this action; look at the target, then the operator can attest it."
LOOK = "Look at the target before it is asked for again."


@pytest.mark.parametrize(
    ("outcome", "items", "step"),
    [
        ("unknown", None, ATTEST),
        ("committed", [{"key": "a", "outcome": "committed"}, {"key": "b", "outcome": "unknown"}], ATTEST),
        ("committed", [{"key": "a", "outcome": "committed"}], LOOK),
        ("committed", None, LOOK),
        ("rejected", None, LOOK),
        ("not_attempted", None, LOOK),
    ],
)
def test_only_what_is_unknown_can_be_attested(outcome: str, items: list[dict[str, str]] | None, step: str) -> None:
    evidence = {**UNKNOWN["evidence"], "reconcile": {"available": False}, "items": items}
    told = {**UNKNOWN, "error": {**FACTS, "outcome": outcome, "retry": "reconcile"}, "evidence": evidence}
    assert words.next_step(told) == step


def test_the_step_after_a_hop_is_its_own(cli: Cli) -> None:
    """It refers to the exchange whose redirect it follows; its result and its look-up are its own."""
    evidence = {**UNKNOWN["evidence"], "refers_to": "act_before"}
    undelivered = {**FACTS, "phase": "result_delivery", "outcome": "committed", "retry": "fetch_result"}
    assert words.next_step({**UNKNOWN, "error": undelivered, "evidence": evidence}) == f"affidavit result fetch {ACT}"
    looking = {**FACTS, "outcome": "unknown", "retry": "reconcile"}
    step = words.next_step({**UNKNOWN, "error": looking, "evidence": evidence})
    assert step == f"Look first: affidavit action reconcile {ACT} (it asks GET https://a.example/v1?ref=op_1)"
    refused = {**FACTS, "outcome": "rejected", "retry": "reconcile"}
    step = words.next_step({**UNKNOWN, "error": refused, "evidence": evidence})
    assert step == "Look first: affidavit action show act_before"


def failed(envelope: dict[str, Any]) -> dict[str, Any]:
    return {"error": {"code": -32001, "message": "m", "data": envelope}}


def test_show_tells_the_verdict_and_its_records(cli: Cli, broker: ScriptedBroker) -> None:
    broker.answers("action.get", failed(UNKNOWN))
    ran = cli("action", "show", "op_1")
    assert (ran.status, ran.text) == (12, SHOWN)
    assert broker.asked("action.get") == [{"operation_id": "op_1", "events": True}]
    assert cli("action", "show", ACT, "--json").json == UNKNOWN
    assert broker.asked("action.get")[1] == {"invocation_id": ACT, "events": True}


@pytest.mark.parametrize("verb", ["wait", "cancel", "reconcile"])
def test_wait_cancel_and_reconcile_take_an_operation_too(cli: Cli, broker: ScriptedBroker, verb: str) -> None:
    broker.answers("action.get", failed(UNKNOWN))
    broker.answers(f"action.{verb}", failed(UNKNOWN))
    assert cli("action", verb, "op_1").status == 12
    assert broker.asked(f"action.{verb}") == [{"invocation_id": ACT}]
    assert cli("action", verb, ACT).status == 12
    assert len(broker.asked("action.get")) == 1


def test_cancel_passes_the_signal(cli: Cli, broker: ScriptedBroker) -> None:
    broker.answers("action.cancel", failed(UNKNOWN))
    assert cli("action", "cancel", ACT, "--signal", "TERM").status == 12
    assert broker.asked("action.cancel") == [{"invocation_id": ACT, "signal": "TERM"}]


def test_retry_passes_what_was_given_and_nothing_else(cli: Cli, broker: ScriptedBroker) -> None:
    refused = {**UNKNOWN, "error": {**FACTS, "code": "RETRY_REFUSED", "retry": "reconcile", "needs": "request"}}
    broker.answers("action.retry", failed(refused))
    ran = cli("action", "retry", ACT)
    assert (ran.status, ran.text.splitlines()[2]) == (12, "Next: The request is given again.")
    file = cli.home.parent / "request.json"
    file.write_text('{"method": "POST", "url": "https://a.example/v1", "json": {"a": 1}}')
    assert cli("action", "retry", ACT, "--unsafe", "--request", str(file), "--wait", "3").status == 12
    assert broker.asked("action.retry") == [
        {"invocation_id": ACT},
        {
            "invocation_id": ACT,
            "wait_s": 3.0,
            "unsafe": True,
            "request": {"method": "POST", "url": "https://a.example/v1", "json": {"a": 1}},
        },
    ]


@pytest.mark.parametrize("content", [None, "not JSON"])
def test_a_request_file_that_is_none_is_wrong_usage(cli: Cli, broker: ScriptedBroker, content: str | None) -> None:
    file = cli.home.parent / "request.json"
    if content is not None:
        file.write_text(content)
    ran = cli("action", "retry", ACT, "--request", str(file))
    assert ran.status == 2
    assert "request.json" in ran.err
    assert not broker.calls


def test_show_tells_of_look_ups_jobs_and_items(cli: Cli, broker: ScriptedBroker) -> None:
    evidence = {
        **UNKNOWN["evidence"],
        "looked_up": {"at": "2026-11-30T14:33:00Z", "record": 50, "answer": 'its state is "x"', "worth": "other_state"},
        "job": {"id": "j1", "state": None, "operation_id": "op_9", "status_url": "https://a.example/j1"},
        "items": [
            {"key": "a", "outcome": "committed", "evidence": '/status is "created"'},
            {"key": "b", "outcome": "unknown", "evidence": None},
        ],
    }
    broker.answers("action.get", failed({**UNKNOWN, "evidence": evidence}))
    lines = cli("action", "show", ACT).text.splitlines()
    assert 'Look-up:      2026-11-30 14:33:00, record 50: its state is "x"' in lines
    assert "Job:          j1: no state seen yet, operation op_9" in lines
    assert lines[lines.index("Items:") + 1 : lines.index("Items:") + 3] == [
        '       a  committed       /status is "created"',
        "       b  unknown",
    ]


@pytest.mark.parametrize("verb", ["show", "wait", "retry"])
def test_a_command_is_told_as_the_target(cli: Cli, broker: ScriptedBroker, verb: str) -> None:
    target = {"kind": "ssh", "host": "web", "command": "release 7"}
    told = failed({**UNKNOWN, "evidence": {**UNKNOWN["evidence"], "target": target}})
    broker.answers(f"action.{'get' if verb == 'show' else verb}", told)
    assert "Target:       web release 7" in cli("action", verb, ACT).text.splitlines()


def test_a_target_that_is_not_told_has_no_line(cli: Cli, broker: ScriptedBroker) -> None:
    broker.answers("action.get", failed({**UNKNOWN, "evidence": {**UNKNOWN["evidence"], "target": None}}))
    assert "Target:" not in cli("action", "show", ACT).text


@pytest.mark.parametrize(
    ("led", "told"),
    [
        (
            {"url": "https://a.example/x", "followed": True, "invocation_id": ACT},
            f"to https://a.example/x, followed ({ACT})",
        ),
        ({"url": None, "followed": False, "invocation_id": None}, "to no target, not followed"),
    ],
)
def test_show_tells_where_a_redirect_led(cli: Cli, broker: ScriptedBroker, led: Mapping[str, Any], told: str) -> None:
    broker.answers("action.get", failed({**UNKNOWN, "evidence": {**UNKNOWN["evidence"], "redirect": led}}))
    assert f"Redirect:     {told}" in cli("action", "show", ACT).text.splitlines()


def test_wait_passes_its_limit(cli: Cli, broker: ScriptedBroker) -> None:
    pending = {**FACTS, "code": "IN_PROGRESS", "state": "running"}
    broker.answers("action.wait", {"result": {"invocation_id": ACT, "pending": pending}})
    assert cli("action", "wait", ACT, "--wait", "0").status == 14
    assert broker.asked("action.wait") == [{"invocation_id": ACT, "wait_s": 0.0}]


def test_list_asks_what_was_asked_and_names_the_next_page(cli: Cli, broker: ScriptedBroker) -> None:
    row = {"invocation_id": ACT, "operation_id": "op_1", "at": "2026-11-30T14:32:07Z", "state": None, "phase": "x",
           "outcome": "unknown", "code": "REMOTE_DEADLINE", "retry": "reconcile",
           "target": {"method": "POST", "url": "https://a.example/"}}  # fmt: skip
    command = {"kind": "ssh", "host": "web", "command": "uptime"}
    rows = [
        {**row, "sealed": False},
        {**row, "state": "running", "target": None, "sealed": True},
        {**row, "target": None, "sealed": False},
        {**row, "target": command, "sealed": False},
    ]
    broker.answers("action.list", {"result": {"rows": rows, "before": "c1"}}, {"result": {"rows": [], "before": None}})
    ran = cli("action", "list", "--scope", "all", "--outcome", "unknown", "--limit", "2", "--before", "c0")
    assert ran.status == 0
    assert broker.asked("action.list") == [{"scope": "all", "outcome": "unknown", "limit": 2, "before": "c0"}]
    _, first, second, third, fourth, more = ran.text.splitlines()
    assert first == f"{ACT}  2026-11-30 14:32:07  unknown  REMOTE_DEADLINE  look first  POST https://a.example/"
    assert second.endswith("pending  REMOTE_DEADLINE  look first  sealed")
    assert third.endswith("look first  -")
    assert fourth.endswith("look first  web uptime")
    assert more == "More: affidavit action list --before c1"
    assert cli("action", "list").text.startswith("No actions.")


def test_the_operator_sees_what_another_agent_asked_for_and_no_contents(cli: Cli, broker: ScriptedBroker) -> None:
    body = {"bytes": 2, "text": "<>", "withheld": True}
    answer = {"http": {"status": 200, "headers": {"x": "y"}, "body": body}, "title": "Create a refund"}
    broker.answers("action.get", {"result": {**UNKNOWN, **answer}})
    ran = cli("action", "show", "op_1", "--operator")
    assert ran.status == 12
    assert "Title:        Create a refund\n" in ran.out.decode()
    assert "Target:       POST https://a.example/v1<U+001B>\n" in ran.out.decode()
    assert broker.asked("action.get") == [{"operation_id": "op_1"}, {"invocation_id": ACT}]
    shown = json.loads(cli("action", "show", ACT, "--operator", "--json").out)
    assert shown["http"] == {"status": 200, "body": {"bytes": 2, "withheld": True}}
