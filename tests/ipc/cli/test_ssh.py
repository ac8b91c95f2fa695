"""`affidavit ssh`: what is sent, what is passed on, and what is acknowledged when."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from collections.abc import Iterator
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


class Input:
    """Standard input: descriptor 0, which gives what it is told to."""

    def __init__(self) -> None:
        self._kept = os.dup(0)
        self.gives(b"")

    def gives(self, data: bytes, *, ends: bool = True) -> int:
        """From now on; returns the descriptor by which more may be written, closed if it `ends`."""
        reading, writing = os.pipe()
        os.dup2(reading, 0)
        os.close(reading)
        os.write(writing, data)
        if ends:
            os.close(writing)
        return writing

    def close(self) -> None:
        os.dup2(self._kept, 0)
        os.close(self._kept)


class Terminal:
    """A standard input that is one."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def stdin(monkeypatch: pytest.MonkeyPatch) -> Iterator[Input]:
    given = Input()
    with os.fdopen(0, closefd=False) as opened:
        monkeypatch.setattr("sys.stdin", opened)
        yield given
    given.close()


@pytest.fixture
def acknowledging(broker: ScriptedBroker) -> ScriptedBroker:
    broker.answers("result.ack", {"result": {"delivered": True}})
    return broker


def test_everything_asked_for_is_sent(
    cli: Cli, acknowledging: ScriptedBroker, monkeypatch: pytest.MonkeyPatch, stdin: Input
) -> None:
    acknowledging.answers("ssh.exec", ended(0))
    stdin.gives(b"\x00\xff")
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
            "stream": "output",
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
    cli: Cli, acknowledging: ScriptedBroker, monkeypatch: pytest.MonkeyPatch, stdin: Input, words: tuple[str, ...]
) -> None:
    acknowledging.answers("ssh.exec", ended(0))
    stdin.gives(b"typed", ends=False)
    if not words:
        monkeypatch.setattr("sys.stdin", Terminal())
    cli("ssh", *words, "web", "true")
    (asked,) = acknowledging.asked("ssh.exec")
    assert asked == {"host": "web", "command": "true", "operation_id": asked["operation_id"], "stream": "output"}


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


@pytest.mark.parametrize(
    "words",
    [
        ("git-receive-pack '/r.git'",),
        ("git upload-pack '/r.git'",),
        ("/usr/bin/git-upload-archive", "'/r.git'"),
        ("rsync", "--server", "-logDtpre.iLsfxCIvu", ".", "/there"),
        ("scp", "-v", "-r", "-t", "/there"),
    ],
)
def test_commands_that_answer_their_input_have_it_streamed(
    cli: Cli, acknowledging: ScriptedBroker, words: tuple[str, ...]
) -> None:
    acknowledging.answers("ssh.exec", ended(0))
    cli("ssh", "web", *words)
    (asked,) = acknowledging.asked("ssh.exec")
    assert asked["stream"] is True
    assert "stdin_base64" not in asked


@pytest.mark.parametrize("words", [("scp", "notes", "-t"), ("git-receive-packet",), ("echo", "git-upload-pack")])
def test_others_have_it_bound(cli: Cli, acknowledging: ScriptedBroker, stdin: Input, words: tuple[str, ...]) -> None:
    acknowledging.answers("ssh.exec", ended(0))
    stdin.gives(b"given")
    cli("ssh", "web", *words)
    (asked,) = acknowledging.asked("ssh.exec")
    assert (asked["stream"], asked["stdin_base64"]) == ("output", base64.b64encode(b"given").decode())


def test_input_that_does_not_end_is_streamed(
    cli: Cli, acknowledging: ScriptedBroker, stdin: Input, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("affidavit.ipc.cli.ssh.PATIENCE_S", 0.0)
    acknowledging.answers("ssh.exec", ended(0))
    writing = stdin.gives(b"", ends=False)
    cli("ssh", "web", "cat")
    os.close(writing)
    assert acknowledging.asked("ssh.exec")[0]["stream"] is True


@pytest.mark.parametrize(
    "words",
    [
        ("-4", "-p", "2222", "deploy@web"),
        ("-x", "-q", "-oPermitLocalCommand=no", "-oClearAllForwardings=yes", "-oRemoteCommand=none", "-oRequestTTY=no",
         "-p", "2222", "-l", "deploy", "--", "web"),
    ],
)  # fmt: skip
def test_what_git_rsync_and_scp_say_to_ssh_is_taken(
    cli: Cli, acknowledging: ScriptedBroker, words: tuple[str, ...]
) -> None:
    acknowledging.answers("ssh.exec", ended(0))
    assert cli("ssh", *words, "git-upload-pack '/r'").status == 0
    (asked,) = acknowledging.asked("ssh.exec")
    assert [asked[name] for name in ("host", "user", "port")] == ["web", "deploy", 2222]


def test_a_probe_asks_nobody(cli: Cli, broker: ScriptedBroker) -> None:
    ran = cli("ssh", "-G", "-o", "SendEnv=GIT_PROTOCOL", "-p", "2222", "deploy@web")
    assert (ran.status, ran.out, broker.calls) == (0, b"hostname web\nuser deploy\nport 2222\n", [])


def refusing(variable: str) -> dict[str, Any]:
    facts = {
        "code": "SSH_ENV_REFUSED",
        "phase": "connection_setup",
        "outcome": "not_attempted",
        "retry": "after_correction",
        "field": f"env.{variable}",
    }
    envelope = {"invocation_id": ACT, "error": facts, "evidence": {}}
    return {"error": {"code": -32001, "message": "m", "data": envelope}}


@pytest.mark.parametrize(("variables", "without"), [(("RUN",), "it"), (("RUN", "OTHER"), "any variable")])
def test_variables_that_the_host_refuses_are_left_out_and_that_is_said(
    cli: Cli,
    acknowledging: ScriptedBroker,
    monkeypatch: pytest.MonkeyPatch,
    variables: tuple[str, ...],
    without: str,
) -> None:
    acknowledging.answers("ssh.exec", refusing("RUN"), ended(0))
    for name in variables:
        monkeypatch.setitem(os.environ, name, "seven")
    ran = cli("ssh", "-o", f"SendEnv={' '.join(variables)}", "web", "true")
    said = f"The host refused RUN; asking again without {without}, which may need another approval.\n"
    assert (ran.status, ran.err) == (0, said)
    first, second = acknowledging.asked("ssh.exec")
    assert first["env"] == dict.fromkeys(variables, "seven")
    assert "env" not in second
    assert first["operation_id"] != second["operation_id"]


@pytest.mark.parametrize("words", [(), ("-o", "SendEnv=RUN")])
def test_a_refused_variable_of_the_contract_is_not_asked_for_without_it(
    cli: Cli, broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    broker.answers("ssh.exec", refusing("RELEASE_ID"))
    monkeypatch.setitem(os.environ, "RUN", "seven")
    ran = cli("ssh", *words, "web", "true")
    assert (ran.status, json.loads(ran.err)["error"]["field"]) == (255, "env.RELEASE_ID")
    assert len(broker.asked("ssh.exec")) == 1


def test_a_connection_that_ends_under_a_command_gives_no_status_that_may_be_its_own(
    cli: Cli, broker: ScriptedBroker
) -> None:
    broker.answers("ssh.exec", None)
    ran = cli("ssh", "web", "--", "make")
    assert ran.status == 255
    assert "proves nothing" in ran.err
    assert "next: affidavit action show op_" in ran.err
