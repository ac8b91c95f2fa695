"""`affidavit result fetch`: resumable, verified, acknowledged only when complete."""

from __future__ import annotations

import base64
import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from affidavit.ipc.cli.result import whole_chunks

if TYPE_CHECKING:
    from tests.ipc.cli.conftest import Cli, ScriptedBroker

ACT = "act_01JEXAMPLE0000000000000000"
PARTS = [b"a" * 8, b"b" * 8, b"c" * 3]
WHOLE = b"".join(PARTS)
FACTS = {"code": "REMOTE_RESULT", "phase": "remote_execution", "outcome": "committed", "retry": "never", "message": "m"}


def digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def chunk(params: Any, parts: list[bytes] = PARTS) -> dict[str, Any]:
    number = params["chunk"]
    return {
        "result": {
            "chunk": number,
            "chunks": len(parts),
            "base64": base64.b64encode(parts[number]).decode(),
            "sha256": digest(parts[number]),
            "last": number == len(parts) - 1,
            "complete": True,
        }
    }


def envelope(**more: Any) -> dict[str, Any]:
    body = {
        "bytes": len(WHOLE), "sha256": digest(WHOLE), "delivered_sha256": None, "complete": True, "inline": False,
        "chunks": 3, "redactions": 0, "truncated_at": None, **more,
    }  # fmt: skip
    return {
        "invocation_id": ACT,
        "operation_id": "op_1",
        "result": FACTS,
        "evidence": {},
        "http": {"status": 200, "headers": {}, "body": body},
    }


@pytest.fixture
def stored(broker: ScriptedBroker) -> ScriptedBroker:
    broker.answers("action.get", {"result": envelope()})
    broker.answers("result.fetch", chunk)
    broker.answers("result.ack", {"result": {"delivered": True}})
    return broker


def fetched(broker: ScriptedBroker) -> list[int]:
    return [params["chunk"] for params in broker.asked("result.fetch")]


def test_to_stdout_by_operation_id(cli: Cli, stored: ScriptedBroker) -> None:
    ran = cli("result", "fetch", "op_1")
    assert (ran.status, ran.out) == (0, WHOLE)
    assert stored.asked("action.get") == [{"operation_id": "op_1"}]
    assert stored.asked("result.ack") == [{"invocation_id": ACT, "sha256": digest(WHOLE)}]


def test_to_a_file(cli: Cli, stored: ScriptedBroker, tmp_path: Path) -> None:
    file = tmp_path / "answer"
    ran = cli("result", "fetch", ACT, "-o", str(file), "--json")
    assert ran.status == 0
    assert ran.json == {"invocation_id": ACT, "file": str(file), "bytes": len(WHOLE)}
    assert file.read_bytes() == WHOLE
    assert list(tmp_path.glob("*.part")) == []
    assert len(stored.asked("result.ack")) == 1


@pytest.mark.parametrize(
    ("kept", "asked"),
    [
        (PARTS[0], [0, 1, 2]),
        (PARTS[0] + PARTS[1], [0, 1, 2]),
        (PARTS[0] + PARTS[1] + b"c", [0, 2]),
        (WHOLE, [0, 2]),
        (b"x" * 16, [0, 1, 2]),
        (b"", [0, 1, 2]),
    ],
)
def test_it_goes_on_after_the_last_whole_chunk(
    cli: Cli, stored: ScriptedBroker, tmp_path: Path, kept: bytes, asked: list[int]
) -> None:
    file = tmp_path / "answer"
    file.with_name("answer.part").write_bytes(kept)
    assert cli("result", "fetch", ACT, "-o", str(file)).status == 0
    assert file.read_bytes() == WHOLE
    assert fetched(stored) == asked


def test_an_interrupted_fetch_is_not_acknowledged_and_leaves_what_it_has(
    cli: Cli, stored: ScriptedBroker, tmp_path: Path
) -> None:
    stored.answers("result.fetch", chunk, chunk, None)
    file = tmp_path / "answer"
    ran = cli("result", "fetch", ACT, "-o", str(file))
    assert ran.status == 3
    assert not file.exists()
    assert file.with_name("answer.part").read_bytes() == PARTS[0] + PARTS[1]
    assert stored.asked("result.ack") == []


def test_a_part_file_of_another_result_is_found_out(cli: Cli, stored: ScriptedBroker, tmp_path: Path) -> None:
    file = tmp_path / "answer"
    file.with_name("answer.part").write_bytes(PARTS[0] + b"x" * 8 + b"y")
    ran = cli("result", "fetch", ACT, "-o", str(file))
    assert ran.status == 13
    assert not file.exists()
    assert not file.with_name("answer.part").exists()
    assert stored.asked("result.ack") == []


def test_a_place_that_cannot_be_written(cli: Cli, stored: ScriptedBroker, tmp_path: Path) -> None:
    ran = cli("result", "fetch", ACT, "-o", str(tmp_path / "missing" / "answer"))
    assert ran.status == 1
    assert "field: -o/--output" in ran.err


def test_a_sealed_result_says_why(cli: Cli, broker: ScriptedBroker) -> None:
    facts = {
        **FACTS,
        "code": "RESULT_SEALED",
        "phase": "result_delivery",
        "retry": "fetch_result",
        "needs": "operator_approval",
    }
    sealed = {"invocation_id": ACT, "error": facts, "evidence": {}}
    broker.answers("action.get", {"error": {"code": -32001, "message": "m", "data": sealed}})
    broker.answers("result.fetch", {"error": {"code": -32001, "message": "m", "data": sealed}})
    ran = cli("result", "fetch", ACT)
    assert ran.status == 13
    assert f"affidavit approve {ACT}" in ran.err
    assert fetched(broker) == [0]


def command_ended(stdout: list[bytes], stderr: list[bytes], **more: Any) -> dict[str, Any]:
    shown = [
        {**envelope()["http"]["body"], "bytes": len(b"".join(parts)), "sha256": digest(b"".join(parts)), **more}
        for parts in (stdout, stderr)
    ]
    ssh = {"exit_status": 0, "exit_signal": None, "stdout": shown[0], "stderr": shown[1]}
    told = {**envelope(), "evidence": {"target": {"kind": "ssh", "host": "web", "command": "true"}}, "ssh": ssh}
    del told["http"]
    return told


@pytest.fixture
def command(broker: ScriptedBroker) -> ScriptedBroker:
    """A command that has ended; its outputs have other bytes and are fetched by their names alone."""
    kept = {"stdout": PARTS, "stderr": [b"aside"]}
    broker.answers("action.get", {"result": command_ended(PARTS, [b"aside"])})
    broker.answers("result.fetch", lambda params: chunk(params, kept[params["part"]]))
    broker.answers("result.ack", {"result": {"delivered": False}})
    return broker


@pytest.mark.parametrize(
    ("words", "part", "data"),
    [
        ((), "stdout", WHOLE),
        (("--part", "stdout"), "stdout", WHOLE),
        (("--part", "stderr"), "stderr", b"aside"),
    ],
)
@pytest.mark.parametrize("to_file", [False, True])
def test_an_output_of_a_command(
    cli: Cli, command: ScriptedBroker, tmp_path: Path, words: tuple[str, ...], part: str, data: bytes, to_file: bool
) -> None:
    file = tmp_path / "answer"
    ran = cli("result", "fetch", ACT, *words, *(("-o", str(file)) if to_file else ()))
    assert ran.status == 0
    assert (file.read_bytes() if to_file else ran.out) == data
    assert command.asked("result.ack") == [{"invocation_id": ACT, "part": part, "sha256": digest(data)}]


def test_a_part_that_the_result_does_not_have(cli: Cli, command: ScriptedBroker) -> None:
    ran = cli("result", "fetch", ACT, "--part", "body")
    assert ran.status == 2
    assert "it has stdout and stderr" in ran.err
    assert "field: --part" in ran.err
    command.answers("action.get", {"result": envelope()})
    assert "it has body" in cli("result", "fetch", ACT, "--part", "stdout").err
    assert fetched(command) == []


def test_a_cut_output_is_not_fetched(cli: Cli, command: ScriptedBroker) -> None:
    command.answers("action.get", {"result": command_ended(PARTS, [b"aside"], complete=False, truncated_at=4)})
    ran = cli("result", "fetch", ACT)
    assert (ran.status, ran.out) == (1, b"")
    assert command.asked("result.ack") == []


def test_a_damaged_output_is_fetched_again_by_its_name(cli: Cli, command: ScriptedBroker, tmp_path: Path) -> None:
    command.answers("result.fetch", lambda params: chunk(params, [b"other"]))
    for words in ((), ("-o", str(tmp_path / "answer"))):
        ran = cli("result", "fetch", ACT, "--part", "stderr", *words)
        assert ran.status == 13
        assert f"affidavit result fetch {ACT} --part stderr" in ran.err
    assert command.asked("result.ack") == []


def test_a_sealed_output_is_asked_for_by_its_name(cli: Cli, broker: ScriptedBroker) -> None:
    facts = {**FACTS, "code": "RESULT_SEALED", "phase": "result_delivery", "retry": "fetch_result"}
    evidence = {"target": {"kind": "ssh", "host": "web", "command": "true"}}
    sealed = {
        "error": {"code": -32001, "message": "m", "data": {"invocation_id": ACT, "error": facts, "evidence": evidence}}
    }
    broker.answers("action.get", sealed)
    broker.answers("result.fetch", sealed)
    ran = cli("result", "fetch", ACT)
    assert ran.status == 13
    assert f"Next: affidavit result fetch {ACT} --part stdout" in ran.err
    assert [asked["part"] for asked in broker.asked("result.fetch")] == ["stdout"]


@pytest.mark.parametrize(
    ("begin", "head", "size", "kept"),
    [
        (b"", b"", 0, 0),
        (b"x", b"y", 9, 0),
        (b"y", b"y", 1, 1),
        (b"yy", b"yy", 3, 1),
        (b"yy", b"yy", 4, 1),
        (b"yy", b"yy", 7, 3),
    ],
)
def test_whole_chunks(begin: bytes, head: bytes, size: int, kept: int) -> None:
    assert whole_chunks(begin, head, size) == kept


def test_what_was_decoded_is_acknowledged_by_the_hash_of_what_came(cli: Cli, stored: ScriptedBroker) -> None:
    decoded = envelope(sha256="sha256:" + "0" * 64, delivered_sha256=digest(WHOLE))
    stored.answers("action.get", {"result": decoded})
    ran = cli("result", "fetch", ACT)
    assert (ran.status, ran.out) == (0, WHOLE)
    assert stored.asked("result.ack") == [{"invocation_id": ACT, "sha256": digest(WHOLE)}]


def test_what_is_withheld_is_not_asked_for(cli: Cli, stored: ScriptedBroker) -> None:
    stored.answers("action.get", {"result": envelope(withheld=True, undecodable="coding")})
    ran = cli("result", "fetch", ACT)
    assert (ran.status, ran.out, fetched(stored)) == (13, b"", [])
    assert "withheld: it does not decode" in ran.err


def test_a_file_behind_a_link_is_written_through(cli: Cli, stored: ScriptedBroker, tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_bytes(b"old")
    link.symlink_to(target)
    assert cli("result", "fetch", ACT, "-o", str(link)).status == 0
    assert link.is_symlink()
    assert target.read_bytes() == WHOLE


def test_what_is_no_regular_file_is_not_replaced(cli: Cli, stored: ScriptedBroker, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for what in (pipe, tmp_path):
        ran = cli("result", "fetch", ACT, "-o", str(what))
        assert ran.status == 2
        assert "-o/--output" in ran.err
    assert pipe.is_fifo()
    assert fetched(stored) == []
