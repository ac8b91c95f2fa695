"""The application as a process with its own broker: start, a second start, SIGTERM, and homes that cannot be run."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from affidavit.broker.home import Places
from affidavit.gui.app import creator
from affidavit.gui.first_run import Opens
from affidavit.ipc.client import Client, NotReachable

pytestmark = pytest.mark.e2e

PASSPHRASE = b"correct horse"
LIMIT_S = 60


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A home of its own; short, since a socket's path is."""
    kept = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY")}
    return {**kept, "AFFIDAVIT_HOME": str(tmp_path / "h"), "AFFIDAVIT_KEYRING": "off"}


@pytest.fixture
def home(environ: dict[str, str]) -> Places:
    places = Places.from_environment(environ)
    assert creator(places)(bytearray(PASSPHRASE), Opens.FILE) is None
    return places


class Running:
    """`python -m affidavit.gui` until it ends; `wait_open` returns once its operator socket answers."""

    def __init__(self, environ: dict[str, str], *words: str, passphrase: bytes | None = None) -> None:
        pipe: tuple[int, ...] = ()
        if passphrase is not None:
            ours, theirs = os.pipe()
            os.write(theirs, passphrase + b"\n")
            os.close(theirs)
            pipe, words = (ours,), (*words, "--passphrase-fd", str(ours))
        self.environ = environ
        self.process = subprocess.Popen(
            [sys.executable, "-m", "affidavit.gui", *words],
            env=environ,
            pass_fds=pipe,
            stderr=subprocess.PIPE,
            text=True,
        )
        for fd in pipe:
            os.close(fd)

    def wait_open(self) -> Client:
        """A client of the operator socket, once the process listens on it."""
        tick = threading.Event()
        for _ in range(LIMIT_S * 20):
            try:
                return Client.operator(self.environ, timeout_s=LIMIT_S)
            except NotReachable:
                assert self.process.poll() is None, self.process.stderr and self.process.stderr.read()
                tick.wait(0.05)
        raise AssertionError("the application did not open its sockets")

    def end(self) -> tuple[int, str]:
        """Exit status and what was said on stderr."""
        _, said = self.process.communicate(timeout=LIMIT_S)
        return self.process.returncode, said


@pytest.fixture
def running(environ: dict[str, str], home: Places) -> Iterator[Running]:
    made = Running(environ, passphrase=PASSPHRASE)
    yield made
    if made.process.poll() is None:
        made.process.kill()
        made.end()


def test_it_starts_is_raised_by_a_second_start_and_ends_in_order(
    environ: dict[str, str], home: Places, running: Running
) -> None:
    with running.wait_open() as operator:
        assert operator.call("app.raise") == {"raised": True}
        second = Running(environ)
        assert second.end()[0] == 0
        assert operator.call("status")["vault"] in ("locked", "ready")
    running.process.send_signal(signal.SIGTERM)
    status, said = running.end()
    assert status == 0, said
    assert "Traceback" not in said
    assert PASSPHRASE.decode() not in said
    assert not home.operator_socket.exists()


def test_a_second_signal_ends_it_at_once(running: Running) -> None:
    running.wait_open().close()
    running.process.send_signal(signal.SIGINT)
    running.process.send_signal(signal.SIGTERM)
    assert running.end()[0] in (0, -signal.SIGTERM)


def test_without_a_display_it_names_the_other_way(environ: dict[str, str], home: Places) -> None:
    blind = {name: value for name, value in environ.items() if name != "QT_QPA_PLATFORM"}
    status, said = Running(blind).end()
    assert status == 1
    assert "affidavit serve" in said


def test_a_home_that_is_served_without_windows_is_left_alone(environ: dict[str, str], home: Places) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        home.run.mkdir(mode=0o700, exist_ok=True)
        listener.bind(str(home.operator_socket))
        listener.listen()
        served = Running(environ)
        connection, _ = listener.accept()
        with connection:
            assert b'"app.raise"' in connection.recv(65536)
            connection.sendall(b'{"jsonrpc":"2.0","id":1,"result":{"raised":false}}\n')
            status, said = served.end()
    assert status == 1
    assert "affidavit serve" in said


def test_wrong_usage_is_named(environ: dict[str, str]) -> None:
    status, said = Running(environ, "--passphrase-fd", "77").end()
    assert status == 2
    assert "77" in said


PROBE = """
import gc, os, threading
from affidavit.gui import app
async def open_broker(_places):
    print(threading.current_thread().name, gc.isenabled(), flush=True)
    os._exit(0)
app.main([], open_broker=open_broker)
"""


def test_the_brokers_thread_collects_no_garbage(environ: dict[str, str], home: Places) -> None:
    probe = subprocess.run(
        [sys.executable, "-c", PROBE], env=environ, capture_output=True, text=True, timeout=LIMIT_S, check=True
    )
    assert probe.stdout == "affidavit-loop False\n"
