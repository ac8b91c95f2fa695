"""The whole tour, on the real product: every check of every scene holds, and nothing is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from affidavit.ipc.demo import tour
from affidavit.ipc.demo.operators import AtCards, AtTerminal, Played

COMMAND = [sys.executable, "-P", "-m", "affidavit.ipc.cli", "demo"]


@pytest.fixture
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a short name: a socket's path has at most 107 bytes."""
    return tmp_path_factory.mktemp("t")


def environment(directory: Path) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(directory)}


@pytest.mark.e2e
@pytest.mark.timeout(300)
def test_unattended_every_check_of_every_scene_holds(short: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "--unattended", "--json"],
        env=environment(short),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    told = json.loads(done.stdout)
    broken = [check for scene in told["scenes"] for check in scene["checks"] if not check["held"]]
    assert (broken, done.returncode) == ([], 0), done.stderr
    assert len(told["scenes"]) == 10
    assert done.stderr.rstrip().endswith(f"{told['passed']} passed, 0 failed")
    assert list(short.iterdir()) == []


@pytest.mark.e2e
def test_a_signal_ends_the_tour_and_everything_with_it(short: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "--unattended"],
        env=environment(short),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert any("practice:" in line for line in process.stdout)
        process.send_signal(signal.SIGTERM)
        process.stdout.read()
        assert process.wait(60) == 130
    assert list(short.iterdir()) == []
    assert not [line for line in running() if str(short) in line]


def running() -> list[str]:
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(each.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return found


@pytest.mark.parametrize(
    ("unattended", "display", "terminal", "who", "windows"),
    [
        (True, True, True, Played, False),
        (False, True, False, AtCards, True),
        (False, False, True, AtTerminal, False),
        (False, False, False, Played, False),
    ],
)
def test_who_plays_the_operator(
    monkeypatch: pytest.MonkeyPatch, unattended: bool, display: bool, terminal: bool, who: type, windows: bool
) -> None:
    monkeypatch.setattr(tour, "has_display", lambda: display)
    monkeypatch.setattr(tour.sys.stdin, "isatty", lambda: terminal, raising=False)
    operator, with_windows, sentence = tour.cast(unattended)
    assert (type(operator), with_windows) == (who, windows)
    assert sentence.endswith(".") or "passphrase" in sentence
