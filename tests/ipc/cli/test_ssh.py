"""`affidavit ssh`: what is sent, what is passed on, and what is acknowledged when."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.ipc.cli.conftest import Cli, ScriptedBroker

ACT = "act_01JEXAMPLE0000000000000000"


def output(data: bytes, **more: Any) -> dict[str, Any]:
    digest = "sha256:" + hashlib.sha256(data).hexdigest()
    about = {"bytes": len(data), "sha256": digest, "delivered_sha256": digest, "complete": True, "inline": True}
    return {**about, "text": data.decode(), "chunks": 1, "redactions": 0, "truncated_at": None, **more}


def ended(exit_status: int | None, stdout: bytes = b"", stderr: bytes = b"", **more: Any) -> dict[str, Any]:
    facts = {"code": "REMOTE_RESULT", "phase": "remote_execution", "outcome": "committed", "retry": "never"}
    ssh = {"exit_status": exit_status, "exit_signal": None, "stdout": output(stdout), "stderr": output(stderr), **more}
    return {"result": {"invocation_id": ACT, "operation_id": "op_1", "result": facts, "evidence": {}, "ssh": ssh}}


def with_stdout(shown: dict[str, Any]) -> dict[str, Any]:
    answer = ended(0)
    answer["result"]["ssh"]["stdout"] = shown
    return answer


PENDING = {"result": {"invocation_id": ACT, "pending": {"state": "awaiting_approval"}, "evidence": {}}}


class Input(io.TextIOWrapper):
    """Standard input that gives `data`; a terminal gives none."""

    def __init__(self, data: bytes, *, terminal: bool = False) -> None:
        super().__init__(io.BytesIO(data))
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@pytest.fixture(autouse=True)
def stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Input(b""))


@pytest.fixture
def acknowledging(broker: ScriptedBroker) -> ScriptedBroker:
    broker.answers("result.ack", {"result": {"delivered": True}})
    return broker


def test_everything_asked_for_is_sent(cli: Cli, acknowledging: ScriptedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    acknowledging.answers("ssh.exec", ended(0))
    monkeypatch.setattr("sys.stdin", Input(b"\x00\xff"))
    monkeypatch.setitem(os.environ, "RUN", "seven")
    ran = cli(
        "ssh", "-T", "-p", "2222", "-o", "SendEnv=RUN", "-o", "SendEnv NOT_SET", "--credential", "key",
        "--operation-id", "op_1", "--deadline", "2.5", "--correlation-id", "run_1", "--reason", "because",
        "--acknowledge-unresolved", "act_2", "deploy@web", "--", "ls", "-l", "--json",
    )  # fmt: skip
    assert ran.status == 0
    assert acknowledging.asked("ssh.exec") == [
        {
            "host": "web",
            "user": "deploy",
            "port": 2222,
            "command": "ls -l --json",
            "stdin_base64": base64.b64encode(b"\x00\xff").decode(),
            "env": {"RUN": "seven"},
            "operation_id": "op_1",
            "credential": "key",
            "deadline_s": 2.5,
            "correlation_id": "run_1",
            "reason": "because",
            "acknowledge_unresolved": "act_2",
        }
    ]


@pytest.mark.parametrize("words", [("-n",), ()])
def test_a_terminal_and_n_give_no_input(
    cli: Cli, acknowledging: ScriptedBroker, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    acknowledging.answers("ssh.exec", ended(0))
    monkeypatch.setattr("sys.stdin", Input(b"typed", terminal=not words))
    cli("ssh", *words, "web", "true")
    (asked,) = acknowledging.asked("ssh.exec")
    assert set(asked) == {"host", "command", "operation_id"}


def test_outputs_and_status_are_the_commands_own_and_each_output_is_acknowledged(
    cli: Cli, acknowledging: ScriptedBroker
) -> None:
    acknowledging.answers("ssh.exec", ended(7, b"out\n", b"err\n"))
    ran = cli("ssh", "web", "true")
    assert (ran.status, ran.out, ran.err) == (7, b"out\n", "err\n")
    acknowledged = [(asked["part"], asked["sha256"]) for asked in acknowledging.asked("result.ack")]
    assert acknowledged == [("stdout", output(b"out\n")["sha256"]), ("stderr", output(b"err\n")["sha256"])]


def test_it_waits_until_nothing_is_pending(cli: Cli, acknowledging: ScriptedBroker) -> None:
    acknowledging.answers("ssh.exec", PENDING)
    acknowledging.answers("action.wait", PENDING, PENDING, ended(0, b"out"))
    ran = cli("ssh", "web", "true")
    assert (ran.status, ran.out) == (0, b"out")
    assert len(acknowledging.asked("action.wait")) == 3
    assert len(acknowledging.asked("ssh.exec")) == 1


def test_with_json_the_envelope_follows_on_stderr(cli: Cli, acknowledging: ScriptedBroker) -> None:
    answer = ended(0, b"out")
    acknowledging.answers("ssh.exec", answer)
    ran = cli("ssh", "--json", "web", "true")
    assert (ran.status, ran.out, json.loads(ran.err)) == (0, b"out", answer["result"])


def test_without_a_status_it_ends_with_255_and_the_envelope(cli: Cli, acknowledging: ScriptedBroker) -> None:
    answer = ended(None, b"out", exit_signal="TERM")
    acknowledging.answers("ssh.exec", answer)
    ran = cli("ssh", "web", "true")
    assert (ran.status, ran.out, json.loads(ran.err)) == (255, b"out", answer["result"])


def test_a_refused_command_ends_with_255_and_the_envelope(cli: Cli, broker: ScriptedBroker) -> None:
    facts = {"code": "HOST_KEY_MISMATCH", "phase": "connection_setup", "outcome": "not_attempted", "retry": "never"}
    envelope = {"invocation_id": ACT, "error": facts, "evidence": {}}
    broker.answers("ssh.exec", {"error": {"code": -32001, "message": "m", "data": envelope}})
    ran = cli("ssh", "web", "true")
    assert (ran.status, ran.out, json.loads(ran.err)) == (255, b"", envelope)


def test_an_output_that_was_cut_is_no_success(cli: Cli, acknowledging: ScriptedBroker) -> None:
    cut = output(b"", text=None, complete=False, truncated_at=33_554_432)
    acknowledging.answers("ssh.exec", with_stdout(cut))
    ran = cli("ssh", "web", "true")
    assert ran.status == 255
    assert "cut at 33554432 bytes" in ran.err
    assert [asked["part"] for asked in acknowledging.asked("result.ack")] == ["stderr"]


def test_an_output_with_another_hash_is_not_acknowledged(cli: Cli, acknowledging: ScriptedBroker) -> None:
    wrong = output(b"out", sha256="sha256:" + "0" * 64, delivered_sha256="sha256:" + "0" * 64)
    acknowledging.answers("ssh.exec", with_stdout(wrong))
    ran = cli("ssh", "web", "true")
    assert ran.status == 255
    assert [asked["part"] for asked in acknowledging.asked("result.ack")] == ["stderr"]


@pytest.mark.parametrize(
    ("words", "field"),
    [(("web",), "COMMAND"), (("@web", "true"), "HOST"), (("-o", "ProxyCommand=x", "web", "true"), "-o")],
)
def test_wrong_usage_names_the_field_and_sends_nothing(
    cli: Cli, broker: ScriptedBroker, words: tuple[str, ...], field: str
) -> None:
    ran = cli("ssh", *words)
    assert ran.status == 2
    assert f"field: {field}" in ran.err
    assert broker.calls == []
