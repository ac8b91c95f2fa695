"""`affidavit result fetch`: resumable, verified, acknowledged only when complete."""

from __future__ import annotations

import base64
import hashlib
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
