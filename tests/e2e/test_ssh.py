"""Commands on a real OpenSSH server, by the socket that agents use and by `affidavit ssh` (R49-R53).

The server keeps no log of its own here that a test could trust; each command leaves a mark in a file instead.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.broker.wire.ssh.sshd import USER, Sshd
from tests.e2e.conftest import World
from tests.e2e.hosts import ANYTHING, Reached, prepared_for, reaching
from tests.e2e.rig import CLI, LIMIT_S, Home, answer, copy_of, facts, new_operation, until

_CONTRACT = (
    ANYTHING
    + """[[verdict.exit]]
status = 75
outcome = "rejected"
retry = "backoff"
"""
)


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with Sshd(tmp_path_factory.mktemp("sshd"), "AcceptEnv AFFIDAVIT_*") as server:
        yield server


@pytest.fixture(scope="module")
def prepared(world: World, sshd: Sshd) -> Iterator[Home]:
    with prepared_for(world.template, sshd, {"web.toml": _CONTRACT}) as home:
        yield home


@pytest.fixture(scope="module")
def reached(prepared: Home, sshd: Sshd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reached]:
    with reaching(prepared, sshd, tmp_path_factory.mktemp("ssh") / "marks") as made:
        yield made


def test_an_agent_gets_both_outputs_and_the_status(reached: Reached) -> None:
    operation_id = new_operation()
    params = {"host": "web", "operation_id": operation_id, "command": "tr a-z A-Z; echo aside >&2", "stdin": "loud"}
    with reached.broker.agent() as agent:
        envelope = answer(agent, "ssh.exec", params)
        assert (facts(envelope)["code"], facts(envelope)["outcome"]) == ("REMOTE_RESULT", "committed")
        ssh = envelope["ssh"]
        assert (ssh["exit_status"], ssh["exit_signal"]) == (0, None)
        assert (ssh["stdout"]["text"], ssh["stderr"]["text"]) == ("LOUD", "aside\n")
        assert envelope["evidence"]["target"] == {"kind": "ssh", "host": "web", "command": params["command"]}
        named = {"invocation_id": envelope["invocation_id"]}
        first = agent.call("result.ack", {**named, "part": "stdout", "sha256": ssh["stdout"]["sha256"]})
        assert first == {"delivered": False}
        both = agent.call("result.ack", {**named, "part": "stderr", "sha256": ssh["stderr"]["sha256"]})
        assert both == {"delivered": True}
        again = answer(agent, "ssh.exec", params)
        assert again["invocation_id"] == envelope["invocation_id"]


@pytest.mark.parametrize(
    ("command", "outcome", "retry", "exit_status", "signal"),
    [
        ("true", "committed", "never", 0, None),
        ("exit 3", "committed", "reconcile", 3, None),
        ("exit 75", "rejected", "backoff", 75, None),
        ("kill -TERM $$", "committed", "reconcile", None, "TERM"),
    ],
)
def test_the_end_of_a_command_decides(
    reached: Reached, command: str, outcome: str, retry: str, exit_status: int | None, signal: str | None
) -> None:
    with reached.broker.agent() as agent:
        envelope = answer(agent, "ssh.exec", {"host": "web", "command": command})
    assert (facts(envelope)["outcome"], facts(envelope)["retry"]) == (outcome, retry), envelope
    assert (envelope["ssh"]["exit_status"], envelope["ssh"]["exit_signal"]) == (exit_status, signal)


@pytest.mark.parametrize(("full", "empty", "where"), [("stdout", "stderr", ""), ("stderr", "stdout", " >&2")])
def test_output_over_the_cap_is_drained_to_its_end(reached: Reached, full: str, empty: str, where: str) -> None:
    """F15: all on one stream, nothing on the other."""
    sent, kept = 64 * 1024 * 1024, 32 * 1024 * 1024
    with reached.broker.agent() as agent:
        envelope = answer(agent, "ssh.exec", {"host": "web", "command": f"head -c {sent} /dev/zero{where}"})
    assert (facts(envelope)["code"], envelope["ssh"]["exit_status"]) == ("REMOTE_RESULT", 0), envelope
    body = envelope["ssh"][full]
    assert (body["bytes"], body["truncated_at"], body["complete"]) == (sent, kept, False)
    assert body["sha256"] == hashlib.sha256(bytes(sent)).hexdigest()
    assert (envelope["ssh"][empty]["bytes"], envelope["ssh"][empty]["complete"]) == (0, True)
    assert envelope["evidence"]["completion"] == "exit+eof+close"


def test_a_repeat_of_an_operation_runs_nothing(reached: Reached) -> None:
    operation_id = new_operation()
    params = {"host": "web", "operation_id": operation_id, "command": f"echo {operation_id} >> {reached.marks}"}
    with reached.broker.agent() as agent:
        first = answer(agent, "ssh.exec", params)
        assert facts(first)["outcome"] == "committed", first
        assert answer(agent, "ssh.exec", params)["invocation_id"] == first["invocation_id"]
        other = answer(agent, "ssh.exec", {**params, "command": "true"})
    assert facts(other)["code"] == "IDEMPOTENCY_MISMATCH"
    assert reached.marked(operation_id) == 1


def test_a_server_that_dies_under_a_command_leaves_it_unknown(reached: Reached) -> None:
    """The command runs on: nobody can say from here what became of it."""
    operation_id = new_operation()
    command = f"echo {operation_id} >> {reached.marks}; sleep 30"
    with reached.broker.agent() as agent:
        begun = answer(
            agent, "ssh.exec", {"host": "web", "operation_id": operation_id, "command": command, "wait_s": 0}
        )
        until(lambda: reached.marked(operation_id) == 1, "the command runs")
        for pid in reached.sshd.servers():
            subprocess.run(["kill", "-9", str(pid)], check=False)
        ended = answer(agent, "action.wait", {"invocation_id": begun["invocation_id"], "wait_s": LIMIT_S})
        assert (facts(ended)["outcome"], facts(ended)["phase"]) == ("unknown", "remote_execution"), ended
        again = answer(agent, "ssh.exec", {"host": "web", "command": command})
        assert facts(again)["code"] == "UNRESOLVED_DUPLICATE"
    assert reached.marked(operation_id) == 1


def test_a_broker_killed_under_a_command_says_unknown_afterwards(prepared: Home, tmp_path: Path) -> None:
    home, operation_id, mark = copy_of(prepared), new_operation(), tmp_path / "mark"
    command = f"touch {mark}; sleep 30"
    try:
        with home.serve() as broker, broker.agent() as agent:
            answer(agent, "ssh.exec", {"host": "web", "operation_id": operation_id, "command": command, "wait_s": 0})
            until(mark.exists, "the command runs")
            broker.kill()
        with home.serve() as broker, broker.agent() as agent:
            found = answer(agent, "action.get", {"operation_id": operation_id})
            assert facts(found)["outcome"] == "unknown", found
        assert home.intact()
    finally:
        home.remove()


@pytest.mark.parametrize(
    ("given", "code", "field"),
    [
        ({"host": "elsewhere", "command": "true"}, "UNSUPPORTED_ACTION", "host"),
        ({"host": "web", "command": " "}, "INVALID_REQUEST", "command"),
        ({"host": "root@web", "command": "true"}, "INVALID_REQUEST", "host"),
        ({"host": "web", "command": "true", "port": 1}, "UNSUPPORTED_ACTION", "host"),
        ({"host": "web", "command": "true", "idempotency_key": "k"}, "NO_IDEMPOTENCY_CONTRACT", "idempotency_key"),
        ({"host": "web", "command": "true", "credential": "practice"}, "CREDENTIAL_OUT_OF_SCOPE", "credential"),
        ({"host": "web", "command": "x" * 32_001}, "PAYLOAD_LIMIT", "command"),
    ],
)
def test_what_cannot_be_run_is_refused_by_field(
    reached: Reached, given: dict[str, object], code: str, field: str
) -> None:
    with reached.broker.agent() as agent:
        refused = facts(answer(agent, "ssh.exec", given))
    assert (refused["code"], refused["field"], refused["outcome"]) == (code, field, "not_attempted")


def test_a_host_whose_key_nobody_pinned_is_not_logged_in_to(reached: Reached) -> None:
    with reached.broker.agent() as agent:
        refused = facts(answer(agent, "ssh.exec", {"host": "stranger", "command": "true"}))
    assert (refused["code"], refused["outcome"]) == ("HOST_KEY_UNKNOWN", "not_attempted"), refused


def test_the_command_line_is_as_transparent_as_ssh(reached: Reached) -> None:
    ran = reached.run("-T", f"{USER}@web", "--", "cat; echo aside >&2; exit 7", stdin=b"\x00\xffraw\n")
    assert (ran.returncode, ran.stdout, ran.stderr) == (7, b"\x00\xffraw\n", b"aside\n")
    large = reached.run("127.0.0.1", "head", "-c", "3000000", "/dev/zero")
    assert (large.returncode, len(large.stdout), large.stderr) == (0, 3_000_000, b"")


def test_the_outputs_of_a_command_are_fetched_each_by_its_name(reached: Reached) -> None:
    operation_id = new_operation()
    params = {"host": "web", "operation_id": operation_id, "command": "head -c 600000 /dev/zero; echo aside >&2"}
    with reached.broker.agent() as agent:
        answer(agent, "ssh.exec", params)
        fetch = ("result", "fetch", operation_id)
        assert reached.home.run(*fetch).out == "\0" * 600_000
        assert reached.home.run(*fetch, "--part", "stderr").out == "aside\n"
        delivery = answer(agent, "action.get", {"operation_id": operation_id})["evidence"]["delivery"]
    assert delivery == "acknowledged"


def test_the_command_line_says_255_and_why_where_there_is_no_status(reached: Reached) -> None:
    ran = reached.run("elsewhere", "true")
    assert (ran.returncode, ran.stdout) == (255, b"")
    assert json.loads(ran.stderr)["error"]["code"] == "UNSUPPORTED_ACTION"
    signalled = reached.run("web", "echo before; kill -TERM $$")
    assert (signalled.returncode, signalled.stdout) == (255, b"before\n")
    assert json.loads(signalled.stderr)["ssh"]["exit_signal"] == "TERM"
    usage = reached.run("-o", "ProxyCommand=evil", "web", "true")
    assert usage.returncode == 2
    assert b"SendEnv" in usage.stderr


def test_a_variable_that_the_host_refuses_is_named(reached: Reached) -> None:
    params = {"host": "web", "command": "true", "env": {"AFFIDAVIT_RUN": "7", "LD_PRELOAD": "x"}}
    with reached.broker.agent() as agent:
        said = answer(agent, "ssh.exec", params)["error"]
    assert (said["code"], said["outcome"], said["field"]) == ("SSH_ENV_REFUSED", "not_attempted", "env.LD_PRELOAD")


def test_the_command_line_sends_variables_that_the_host_takes(reached: Reached) -> None:
    ran = subprocess.run(
        [*CLI, "ssh", "-n", "-o", "SendEnv=AFFIDAVIT_RUN", "web", "echo $AFFIDAVIT_RUN"],
        env=reached.home.environment | {"AFFIDAVIT_RUN": "seven"},
        capture_output=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert (ran.returncode, ran.stdout) == (0, b"seven\n"), ran.stderr


def test_the_command_line_asks_again_without_what_the_host_refuses_and_says_so(reached: Reached) -> None:
    ran = reached.run("-o", "SendEnv=GIT_PROTOCOL", "web", "echo got${GIT_PROTOCOL}", env={"GIT_PROTOCOL": "version=2"})
    said = b"The host refused GIT_PROTOCOL; asking again without it, which may need another approval.\n"
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"got\n", said)
