"""Parts of the stage that can be looked at without a broker."""

from __future__ import annotations

import base64
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from affidavit.ipc.demo.stage import Ran, Running, Stage, StageTrouble, forms


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(windows=False, limit_s=10, root=tmp_path / "stage")
    (stage.root / "home" / "data").mkdir(parents=True)
    stage._broker = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield stage
    assert stage._broker.stdin is not None
    stage._broker.stdin.close()
    stage.close()
    assert not stage.root.exists()


@pytest.mark.parametrize("shift", range(4))
def test_a_secret_is_found_in_each_of_its_forms(shift: int) -> None:
    secret = f"practice-{secrets.token_hex(16)}"
    around = b"\xff" * shift + secret.encode() + b"\xff" * (3 - shift)
    for text in (around, around.hex().encode(), base64.b64encode(around)):
        assert any(form in text for form in forms(secret))
    assert not any(form in base64.b64encode(b"other" * 20) for form in forms(secret))


def test_traces_name_the_place(stage: Stage) -> None:
    assert stage.traces() == []
    (stage.root / "home" / "data" / "journal.db").write_bytes(b"\0" + stage.secret.encode() + b"\0")
    stage.heard.append(base64.b64encode(b"x" + stage.secret.encode()).decode())
    assert stage.traces() == ["home/data/journal.db", "output 0"]


def test_a_secret_in_the_brokers_arguments_is_found(stage: Stage) -> None:
    stage.secret = "input()"
    assert stage.traces() == [f"/proc/{stage.broker_pid}/cmdline"]


def test_a_wait_has_an_end(stage: Stage) -> None:
    with pytest.raises(StageTrouble, match="It did not come within 0 s"):
        stage.until(lambda: False, "It did not come", 0)


def test_a_command_that_does_not_end_is_killed() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(600)"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with pytest.raises(StageTrouble, match="did not end within 0 s"):
        Running("affidavit x", process, 0.0).end()
    assert process.returncode == -9


@pytest.mark.parametrize("out", ["", "no json", "[1]"])
def test_output_that_is_no_object_is_trouble(out: str) -> None:
    with pytest.raises(StageTrouble, match="affidavit x"):
        _ = Ran("affidavit x", 0, out, "").json


def test_the_environment_leads_nowhere_else(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFFIDAVIT_SOCKET", "/elsewhere")
    assert {name: value for name, value in stage.environment().items() if name.startswith("AFFIDAVIT_")} == {
        "AFFIDAVIT_HOME": str(stage.root / "home"),
        "AFFIDAVIT_KEYRING": "off",
    }
