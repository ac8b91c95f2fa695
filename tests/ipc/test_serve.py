"""`serve` as a process: what it says, how it ends, what it exits with."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from affidavit.broker.home import HomeLock, Places
from affidavit.ipc.client import Client, NotReachable

MAIN = """
import sys
sys.path.insert(0, sys.argv[1])
from scripted_ipc import ScriptedHostBroker
from affidavit.ipc.cli import output
from affidavit.ipc.cli.refusal import Refusal
from affidavit.ipc.serve import serve

async def open_broker(places):
    broker = ScriptedHostBroker()
    broker.operator.pending_files = [{"file": name, "text": "id = 1"} for name in ("a.toml", "b\\x1b.toml")]
    broker.operator.refused_files = set(sys.argv[3:])
    return broker

try:
    status = serve(passphrase_fd=int(sys.argv[2]) if sys.argv[2] else None, open_broker=open_broker)
    print("modules", [name for name in ("PySide6", "httpx", "paramiko") if name in sys.modules])
    sys.exit(status)
except Refusal as refusal:
    sys.exit(output.refused(refusal, as_json=False))
"""


def initialised(directory: Path) -> Places:
    places = Places.at(directory, named_by="AFFIDAVIT_HOME")
    places.data.mkdir(parents=True, mode=0o700)
    for path in (places.vault, places.vault_head, places.journal):
        path.touch(mode=0o600)
    return places


Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start `serve` in a process of its own, with a passphrase on a descriptor; ended with the test, if it was not."""
    started: list[subprocess.Popen[str]] = []

    def start(home: Path, passphrase: bytes | None = None, *refused: str) -> subprocess.Popen[str]:
        fds: list[int] = []
        if passphrase is not None:
            read, write = os.pipe()
            os.write(write, passphrase + b"\n")
            os.close(write)
            fds = [read]
        words = [str(fds[0]) if fds else "", *refused]
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", MAIN, str(Path(__file__).parent), *words],
            env={**os.environ, "AFFIDAVIT_HOME": str(home)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            pass_fds=fds,
        )
        for fd in fds:
            os.close(fd)
        started.append(process)
        return process

    yield start
    for process in started:
        if process.returncode is None:
            process.kill()
            process.communicate()


def until_serving(process: subprocess.Popen[str]) -> list[str]:
    """What it said until it served, that line included."""
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line.rstrip("\n"))
        if line.startswith("serving "):
            return said
    raise AssertionError(said)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_it_serves_until_a_signal(start: Start, tmp_path: Path, number: int) -> None:
    initialised(tmp_path)
    process = start(tmp_path)
    assert until_serving(process) == [f"serving {tmp_path}"]
    environ = {"AFFIDAVIT_HOME": str(tmp_path)}
    with Client.agent(environ, timeout_s=20) as client:
        assert client.call("status")["journal"] == "ok"
        assert client.peer_pid == process.pid
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (0, "modules []\n", "")
    with pytest.raises(NotReachable):
        Client.agent(environ)


def test_it_is_closed_to_other_programs_of_the_user(start: Start, tmp_path: Path) -> None:
    initialised(tmp_path)
    process = start(tmp_path)
    until_serving(process)
    limits = Path(f"/proc/{process.pid}/limits").read_text()
    assert limits.split("Max core file size")[1].split()[:2] == ["0", "0"]
    process.terminate()
    process.communicate(timeout=30)


def test_with_a_passphrase_it_opens_and_adopts(start: Start, tmp_path: Path) -> None:
    initialised(tmp_path)
    process = start(tmp_path, b"correct horse")
    said = until_serving(process)
    assert said[:2] == ["adopted a.toml", "adopted b<U+001B>.toml"]
    process.terminate()
    assert process.communicate(timeout=30)[1] == ""


def test_a_refused_file_is_named_and_left_out(start: Start, tmp_path: Path) -> None:
    initialised(tmp_path)
    process = start(tmp_path, b"correct horse", "a.toml")
    said = until_serving(process)
    assert said[:2] == ["refused a.toml: a.toml line 1: unknown key.", "adopted b<U+001B>.toml"]
    process.terminate()
    process.communicate(timeout=30)


def test_a_wrong_passphrase_ends_it(start: Start, tmp_path: Path) -> None:
    places = initialised(tmp_path)
    process = start(tmp_path, b"wrong words")
    _, err = process.communicate(timeout=30)
    assert process.returncode == 4
    assert "The passphrase is wrong." in err
    assert "wrong words" not in err
    assert not places.agent_socket.exists()


def test_before_init(start: Start, tmp_path: Path) -> None:
    process = start(tmp_path / "none")
    _, err = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "affidavit init" in err


def test_a_second_instance(start: Start, tmp_path: Path) -> None:
    places = initialised(tmp_path)
    with HomeLock(places, program="the first"):
        process = start(tmp_path)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 1
    assert f"the first (pid {os.getpid()})" in err


def test_a_lax_home(start: Start, tmp_path: Path) -> None:
    initialised(tmp_path).data.chmod(0o755)
    process = start(tmp_path)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 1
    assert f"chmod 700 {tmp_path}/data" in err
