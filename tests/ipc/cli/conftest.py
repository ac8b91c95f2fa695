"""A scripted broker on real sockets, and a way to run commands against it."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from affidavit.ipc.cli.main import main

Answer = Mapping[str, Any] | Callable[[Mapping[str, Any]], Mapping[str, Any]] | None
"""`{"result": ...}` or `{"error": ...}`, or how to make one from the params; None closes the connection instead."""


class ScriptedBroker:
    """Answers each method with what its script says next (the last answer stays), and keeps what was asked."""

    def __init__(self, run: Path) -> None:
        run.mkdir(parents=True, mode=0o700)
        self.calls: list[tuple[str, str, dict[str, Any]]] = []
        self.script: dict[str, list[Answer]] = {}
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        for name in ("agent", "operator"):
            listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            listening.bind(str(run / f"{name}.sock"))
            os.chmod(run / f"{name}.sock", 0o600)
            listening.listen()
            self._sockets.append(listening)
            self._start(self._accept, name, listening)

    def answers(self, method: str, *answers: Answer) -> None:
        self.script[method] = list(answers)

    def asked(self, method: str) -> list[dict[str, Any]]:
        return [params for _, name, params in self.calls if name == method]

    def stop(self) -> None:
        for each in list(self._sockets):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        for thread in list(self._threads):
            thread.join(10)
        for each in self._sockets:
            each.close()

    def _start(self, run: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=run, args=args)
        self._threads.append(thread)
        thread.start()

    def _accept(self, name: str, listening: socket.socket) -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            self._sockets.append(connection)
            self._start(self._serve, name, connection)

    def _serve(self, name: str, connection: socket.socket) -> None:
        with connection.makefile("rb") as lines:
            for line in lines:
                call = json.loads(line)
                params = call.get("params") or {}
                self.calls.append((name, call["method"], params))
                script = self.script.get(call["method"], [None])
                answer = script.pop(0) if len(script) > 1 else script[0]
                if callable(answer):
                    answer = answer(params)
                if answer is None:
                    connection.shutdown(socket.SHUT_RDWR)
                    return
                connection.sendall(json.dumps({"jsonrpc": "2.0", "id": call["id"], **answer}).encode() + b"\n")


@dataclass
class Ran:
    """How one command ended."""

    status: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def json(self) -> Any:
        (line,) = self.text.splitlines()
        return json.loads(line)


@dataclass
class Cli:
    """Runs commands in this process, in the home of the test."""

    home: Path
    capture: pytest.CaptureFixture[bytes]
    _fds: list[int] = field(default_factory=list)

    def __call__(self, *words: str) -> Ran:
        status = main(list(words))
        out, err = self.capture.readouterr()
        return Ran(status, out, err.decode())

    def fd(self, content: bytes) -> str:
        """A descriptor that gives `content`, as an option's value."""
        reading, writing = os.pipe()
        os.write(writing, content)
        os.close(writing)
        self._fds.append(reading)
        return str(reading)

    def close(self) -> None:
        for each in self._fds:
            os.close(each)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AFFIDAVIT_HOME", str(tmp_path / "h"))
    monkeypatch.delenv("AFFIDAVIT_SOCKET", raising=False)
    return tmp_path / "h"


@pytest.fixture
def cli(home: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    # It cannot be taken back, and these commands run in the process of the tests.
    monkeypatch.setattr("affidavit.broker.hardening.harden", lambda: None)
    cli = Cli(home, capfdbinary)
    yield cli
    cli.close()


@pytest.fixture
def broker(home: Path) -> Iterator[ScriptedBroker]:
    broker = ScriptedBroker(home / "run")
    yield broker
    broker.stop()
