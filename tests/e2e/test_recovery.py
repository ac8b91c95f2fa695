"""From unknown to settled, on real processes: the target counts its effects, and there is exactly one, always (R77).

The target applies what it is asked and loses the answer in the ways that the field knows; what happens next is decided
by the broker's records and the contract, never by hope.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from tests.e2e.conftest import World
from tests.e2e.gate import Gate
from tests.e2e.ledger import KEY, Ledger, contract
from tests.e2e.rig import CLI, LIMIT_S, Broker, Home, answer, facts, new_operation, until
from tests.e2e.said import told

from affidavit.ipc.client import ConnectionLost, NotReachable


def ask(broker: Broker, name: str, operation: str, **more: Any) -> Mapping[str, Any]:
    url = f"http://127.0.0.1:{broker.home.setting.target_port}/{name}"
    params = {"method": "POST", "url": url, "json": {"a": 1}, "operation_id": operation, "wait_s": LIMIT_S, **more}
    with broker.agent() as agent:
        return answer(agent, "http.request", params)


def got(broker: Broker, operation: str) -> Mapping[str, Any]:
    """What a restarted agent knows: its operation id, and the record."""
    with broker.agent() as agent:
        return answer(agent, "action.get", {"operation_id": operation})


def test_a_lost_answer_is_repeated_under_its_key(ruled: Home, world: World, ledger: Ledger) -> None:
    operation = new_operation()
    with ruled.serve() as broker:
        ledger.losing = 1
        lost = ask(broker, "keyed", operation)
        assert told(lost) == ("unknown", "REMOTE_OUTCOME_UNKNOWN", "same_idempotency_key")
        ran = ruled.run("action", "retry", operation, "--json")
        assert ran.status == 0, ran
        assert ran.json["evidence"]["operation"]["outcome"] == "committed"
    keys = {arrival.header("Idempotency-Key") for arrival in world.target.arrivals("/keyed")[-2:]}
    assert keys == {lost["evidence"]["idempotency"]["key"]}
    assert len(ledger.effects) == 1
    assert ruled.intact()


def test_without_a_key_it_is_looked_up_and_never_sent_again(ruled: Home, world: World, ledger: Ledger) -> None:
    operation = new_operation()
    with ruled.serve() as broker:
        ledger.losing = 1
        assert told(ask(broker, "seen", operation)) == ("unknown", "REMOTE_OUTCOME_UNKNOWN", "reconcile")
        refused = ruled.run("action", "retry", operation, "--json")
        assert (refused.status, refused.json["error"]["code"]) == (12, "RETRY_REFUSED")
        ran = ruled.run("action", "reconcile", operation, "--json")
        assert (ran.status, ran.json["result"]["code"]) == (0, "SETTLED_BY_QUERY"), ran
    sent = world.target.arrivals("/seen")[-1]
    assert json.loads(sent.body) == {"a": 1, "op": operation}
    assert len(ledger.effects) == 1


def test_look_ups_come_by_themselves_also_after_a_kill(ruled: Home, world: World, ledger: Ledger) -> None:
    """F13, R65: killed in mid-call; recovery sends nothing again, and goes on from the record."""
    operation = new_operation()
    world.target.scripts["/seen"] = lambda call: (ledger.effects.append(("/seen", operation)), call.hold())
    before = len(world.target.arrivals("/seen"))
    with ruled.serve() as broker:
        pending = ask(broker, "seen", operation, wait_s=0.2, deadline_s=600)
        assert "pending" in pending
        world.target.calls("/seen", before + 1)
        broker.kill()
    with ruled.serve(unlock=False) as broker:
        locked = got(broker, operation)
        assert told(locked) == ("unknown", "BROKER_RESTARTED", "reconcile")
        assert locked["evidence"]["reconcile"] == {"available": True}, "its words are sealed, that it is there is not"
        asked = [arrival for arrival in world.target.arrivals("/found") if operation in arrival.path]
        assert not asked, "the vault is locked"
        assert ruled.operate("unlock").status == 0
        until(lambda: told(got(broker, operation))[1] == "SETTLED_BY_QUERY", "a look-up settles it")
    assert len(world.target.arrivals("/seen")) == before + 1
    assert len(ledger.effects) == 1


def test_two_agent_processes_with_one_operation(ruled: Home, world: World, ledger: Ledger) -> None:
    operation = new_operation()
    url = f"http://127.0.0.1:{ruled.setting.target_port}/plain"
    words = [*CLI, "http", "POST", url, "-d", "x", "--operation-id", operation, "--json"]
    with ruled.serve():
        started = [
            subprocess.Popen(words, env=ruled.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for _ in range(2)
        ]
        ended = [process.communicate(timeout=LIMIT_S) for process in started]
    answers = [json.loads(out) for out, _ in ended]
    assert len({envelope["invocation_id"] for envelope in answers}) == 1
    assert len(ledger.effects) == 1


def test_a_budget_that_no_restart_gives_back(ruled: Home, world: World, ledger: Ledger) -> None:
    """F07: the caller's own key goes out on every attempt, byte by byte."""
    operation, before = new_operation(), len(world.target.arrivals("/twice"))
    ledger.losing = 2
    with ruled.serve() as broker:
        ask(broker, "twice", operation, idempotency_key="agents-own-key")
        broker.kill()
    with ruled.serve() as broker:
        assert ruled.run("action", "retry", operation, "--json").status == 12
        broker.kill()
    with ruled.serve():
        spent = ruled.run("action", "retry", operation, "--json")
    assert spent.status == 12
    assert spent.json["error"]["code"] == "RETRY_BUDGET_EXHAUSTED"
    assert spent.json["error"]["retry"] == "reconcile"
    sent = world.target.arrivals("/twice")[before:]
    assert [(arrival.header("Idempotency-Key"), arrival.body) for arrival in sent] == [
        ("agents-own-key", b'{"a":1}')
    ] * 2
    assert len(ledger.effects) == 1


def test_the_broker_repeats_by_itself_where_the_contract_says_so(ruled: Home, world: World, ledger: Ledger) -> None:
    operation = new_operation()
    ledger.losing = 1
    with ruled.serve() as broker:
        done = ask(broker, "own", operation)
    assert told(done) == ("committed", "REMOTE_RESULT", "never")
    assert done["evidence"]["attempt"] == 2
    assert len(world.target.arrivals("/own")) == 2
    assert len(ledger.effects) == 1


def test_a_job_whose_polls_fail_is_followed_and_never_launched_again(ruled: Home, world: World, ledger: Ledger) -> None:
    """F11."""
    operation = new_operation()
    with ruled.serve() as broker:
        accepted = ask(broker, "jobs", operation)
        assert told(accepted) == ("committed", "JOB_ACCEPTED", "never")
        job = accepted["evidence"]["job"]["operation_id"]
        broker.kill()
    with ruled.serve() as broker:
        until(lambda: told(got(broker, job))[1] == "SETTLED_BY_QUERY", "the job is done")
        assert told(got(broker, job))[0] == "committed"
        assert ask(broker, "jobs", operation)["invocation_id"] == accepted["invocation_id"]
    assert ledger.polls >= 3
    assert len(ledger.effects) == 1


def test_what_was_interrupted_before_its_acceptance_is_asked_for_again_under_its_id(
    ruled: Home, world: World, ledger: Ledger
) -> None:
    operation, before = new_operation(), len(world.target.arrivals("/plain"))
    with ruled.start(faultpoint="before:ACTION_ACCEPTED") as broker:
        assert broker.serving
        with pytest.raises((ConnectionLost, NotReachable)):
            ask(broker, "plain", operation)
        assert broker.ended() == -9
    assert len(world.target.arrivals("/plain")) == before
    with ruled.serve() as broker:
        assert told(ask(broker, "plain", operation)) == ("committed", "REMOTE_RESULT", "never")
        again = ask(broker, "plain", operation)
    assert told(again) == ("committed", "REMOTE_RESULT", "never")
    assert len(world.target.arrivals("/plain")) == before + 1
    assert len(ledger.effects) == 1


def test_a_job_past_its_deadline_is_unknown_and_never_launched_again(ruled: Home, world: World, ledger: Ledger) -> None:
    """R77: its target works on, its time is over; a restart, a repeat and a second call change nothing about that."""
    operation, before = new_operation(), len(world.target.arrivals("/slow"))
    with ruled.serve() as broker:
        accepted = ask(broker, "slow", operation)
        assert told(accepted) == ("committed", "JOB_ACCEPTED", "never")
        job = accepted["evidence"]["job"]["operation_id"]
        world.target.calls("/working/j2")
        until(lambda: told(got(broker, job))[1] == "REMOTE_DEADLINE", "its recovery deadline")
        assert told(got(broker, job)) == ("unknown", "REMOTE_DEADLINE", "reconcile")
        with broker.operator() as operator:
            assert [alert["which"] for alert in operator.call("status", {})["alerts"]] == ["recovery_deadline"]
        broker.kill()
    with ruled.serve() as broker:
        assert told(got(broker, job)) == ("unknown", "REMOTE_DEADLINE", "reconcile")
        assert told(got(broker, operation)) == ("committed", "JOB_ACCEPTED", "never")
        assert ruled.run("action", "retry", operation, "--json").json["result"]["code"] == "JOB_ACCEPTED"
        assert ask(broker, "slow", operation)["invocation_id"] == accepted["invocation_id"]
        job_id = got(broker, job)["invocation_id"]
        noted = ("--note", "its own log says done", "--outcome", "committed")
        assert ruled.operate("attest", job_id, *noted).status == 0
        assert told(got(broker, job))[:2] == ("committed", "SETTLED_BY_OPERATOR")
    assert len(world.target.arrivals("/slow")) == before + 1
    assert len(ledger.effects) == 1


def test_the_status_endpoint_is_down_while_the_write_endpoint_works(ruled: Home, world: World, ledger: Ledger) -> None:
    """R77: look-ups that fail prove nothing and are no reason to write again; the first that works settles it."""
    operation, before = new_operation(), len(world.target.arrivals("/seen"))
    asked = len(world.target.arrivals("/found"))
    world.target.scripts["/found"] = lambda call: call.answer(503, b"")
    ledger.losing = 1
    with ruled.serve() as broker:
        assert told(ask(broker, "seen", operation)) == ("unknown", "REMOTE_OUTCOME_UNKNOWN", "reconcile")
        failed = ruled.run("action", "reconcile", operation, "--json")
        assert (failed.status, failed.json["evidence"]["looked_up"]["worth"]) == (12, "failed")
        assert told(ask(broker, "seen", new_operation(), json={"a": 2}))[0] == "committed"
        world.target.scripts["/found"] = ledger.found
        until(lambda: told(got(broker, operation))[1] == "SETTLED_BY_QUERY", "a look-up that works")
    assert len(world.target.arrivals("/found")) > asked + 1
    assert len(world.target.arrivals("/seen")) == before + 2
    assert len(ledger.effects) == 2


def test_a_person_who_resumes_what_was_reconciled_already(ruled: Home, world: World, ledger: Ledger) -> None:
    """R77: the first to look settles it; whoever comes after repeats nothing, and a contradiction is kept beside it."""
    operation, before = new_operation(), len(world.target.arrivals("/seen"))
    ledger.losing = 1
    with ruled.serve() as broker:
        lost = ask(broker, "seen", operation)
        assert ruled.run("action", "reconcile", operation, "--json").json["result"]["code"] == "SETTLED_BY_QUERY"
        late = ruled.run("action", "retry", "--unsafe", operation, "--json")
        assert (late.status, late.json["result"]["code"]) == (0, "SETTLED_BY_QUERY")
        noted = ("--note", "I saw nothing", "--outcome", "rejected")
        attested = ruled.operate("attest", lost["invocation_id"], *noted)
        found = got(broker, operation)
    assert told(found)[:2] == ("committed", "SETTLED_BY_QUERY")
    assert (attested.status, found["evidence"]["disputed"]) == (1, True)
    assert len(world.target.arrivals("/seen")) == before + 1
    assert len(ledger.effects) == 1
    assert ruled.intact()


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.close()


def test_two_workers_one_lease_and_the_first_wakes_late(home: Home, gate: Gate) -> None:
    """R47, R77: the first worker's repeat hangs in its connect for longer than its lease; the second takes the next
    generation. Then both connections are made, in whichever order: the stale holder sends nothing."""
    (home.places.contracts / "gate.toml").write_text(contract("gate", gate.port, KEY))
    for words in (("contract", "adopt", "--all"), ("settings", "set", "limit.lease_s", "1")):
        assert home.operate(*words).status == 0
    operation = new_operation()
    with home.serve() as broker:
        url = f"http://127.0.0.1:{gate.port}/gate"
        with broker.agent() as agent:
            params = {"method": "POST", "url": url, "body": "x", "operation_id": operation, "wait_s": LIMIT_S}
            lost = answer(agent, "http.request", params)
        assert told(lost) == ("unknown", "REMOTE_OUTCOME_UNKNOWN", "same_idempotency_key")
        words = [*CLI, "action", "retry", operation, "--json"]
        first = subprocess.Popen(words, env=home.environment, stdout=subprocess.PIPE, text=True)
        until(lambda: got(broker, operation)["invocation_id"] != lost["invocation_id"], "the first worker's repeat")
        held = got(broker, operation)["invocation_id"]
        with broker.agent() as agent:
            named = {"invocation_id": lost["invocation_id"], "wait_s": 0}
            refused = answer(agent, "action.retry", named)
            assert (facts(refused)["code"], refused["evidence"]["refers_to"]) == ("LEASE_LOST", held)
            until(lambda: "pending" in answer(agent, "action.retry", named), "the second worker's repeat")
            second = got(broker, operation)["invocation_id"]
            assert second != held
            assert gate.effects == {lost["evidence"]["idempotency"]["key"]}
            gate.open()
            won = answer(agent, "action.wait", {"invocation_id": second, "wait_s": LIMIT_S})
        out, _ = first.communicate(timeout=LIMIT_S)
        woken = json.loads(out)
    assert told(won) == ("committed", "REMOTE_RESULT", "never")
    assert (told(woken), woken["invocation_id"]) == (("not_attempted", "LEASE_LOST", "fetch_result"), held)
    assert woken["evidence"]["refers_to"] == second
    assert woken["evidence"]["dispatch_started"] is False
    assert len(gate.arrivals) == 2
    assert len(gate.effects) == 1
    assert home.intact()


def test_an_alert_outlives_a_kill_until_the_operator_closes_it(ruled: Home, world: World, ledger: Ledger) -> None:
    """R67: one operation id with two contents; listed on the terminal, closed with the passphrase."""
    operation = new_operation()
    with ruled.serve() as broker:
        ask(broker, "plain", operation)
        assert told(ask(broker, "plain", operation, json={"a": 2}))[1] == "IDEMPOTENCY_MISMATCH"
        ruled.run("action", "list", "--json")  # whatever was appended is durable now
        broker.kill()
    with ruled.serve():
        (alert,) = ruled.run("alert", "list", "--json").json["alerts"]
        assert alert["which"] == "mismatch"
        assert ruled.run("alert", "close", str(alert["id"]), lines=("wrong",)).status == 4
        assert ruled.operate("alert", "close", str(alert["id"])).status == 0
        assert ruled.run("alert", "list").out == "No alert is open.\n"
    assert len(ledger.effects) == 1
    assert ruled.intact()
