"""The stage of the tour: a throw-away home, the practice service, the real broker, and real commands run against it.

Everything is a process of its own, as in earnest. Every wait has an end, and `close` leaves nothing behind.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from affidavit.broker.home import Places
from affidavit.ipc.client import Client, NotReachable
from affidavit.resources import practice

START_S = 30.0
COMMAND_S = 60.0
PERSON_S = 640.0
"""How long a command may take that waits for a person: a little longer than the longest `wait_s`."""
STOP_S = 15.0
POLL_S = 0.05
PASSPHRASE = "practice"
"""Of a throw-away home; the person who takes the tour is told it."""
CREDENTIAL = "practice"
STALE = "practice-stale"
CLI = (sys.executable, "-P", "-m", "affidavit.ipc.cli")


class StageTrouble(Exception):
    """Something of the stage itself did not come to be or went away; one sentence."""


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended. `shown` is the command line as a person would type it."""

    shown: str
    status: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The one object of `--json`."""
        try:
            value = json.loads(self.out)
        except ValueError:
            raise StageTrouble(f"`{self.shown}` printed no JSON: {self.out[:200]!r} {self.err[:400]!r}") from None
        if not isinstance(value, dict):
            raise StageTrouble(f"`{self.shown}` printed no object.")
        return value


@dataclass(slots=True)
class Running:
    """A command that was started and not waited for."""

    shown: str
    process: subprocess.Popen[str]
    limit_s: float

    def end(self) -> Ran:
        """Wait for it, at most `limit_s`."""
        try:
            out, err = self.process.communicate(timeout=self.limit_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise StageTrouble(f"`{self.shown}` did not end within {self.limit_s:.0f} s.") from None
        return Ran(self.shown, self.process.returncode, out, err)


@dataclass(slots=True)
class Stage:
    """One run of the tour. `windows`: the broker is the tray application, and a person decides on cards."""

    windows: bool
    limit_s: float
    root: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="affidavit-demo-")))
    secret: str = field(default_factory=lambda: f"practice-{secrets.token_hex(16)}", repr=False)
    port: int = 0
    closed_port: int = 0
    heard: list[str] = field(default_factory=list)
    """Everything that commands printed."""
    broker_command: tuple[str, ...] = CLI
    """What starts the broker: `affidavit` itself, or that under a tracer."""
    _closed: socket.socket | None = None
    _practice: subprocess.Popen[str] | None = None
    _broker: subprocess.Popen[bytes] | None = None

    @property
    def home(self) -> Places:
        return Places.at(self.root / "home", named_by="AFFIDAVIT_HOME")

    @property
    def log(self) -> Path:
        """The practice service's own log of arrivals."""
        return self.root / "practice.log"

    @property
    def broker_pid(self) -> int:
        if self._broker is None:
            raise StageTrouble("The broker does not run.")
        return self._broker.pid

    def open(self) -> None:
        """Bring everything up, credentials and contracts included."""
        self._closed = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._closed.bind(("127.0.0.1", 0))  # bound and never listening: whoever connects is refused
        self.closed_port = self._closed.getsockname()[1]
        self._start_practice()
        self.done(self.operator("init"))
        self.start_broker()
        targets = ("--target", f"{self.origin}/v1/**", "--target", f"http://127.0.0.1:{self.closed_port}/v1/**")
        for name, secret in ((CREDENTIAL, self.secret), (STALE, f"{self.secret}-stale")):
            self.done(self.operator("credential", "add", name, "--kind", "bearer", *targets, secret=secret))
        for file, text in practice.contracts(self.port, self.closed_port).items():
            (self.home.contracts / file).write_text(text)
        self.done(self.operator("contract", "adopt", "--all"))

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @staticmethod
    def done(ran: Ran) -> Ran:
        """A command that has to work for the tour to go on."""
        if ran.status != 0:
            raise StageTrouble(f"`{ran.shown}` ended with {ran.status}: {ran.err.strip() or ran.out.strip()}")
        return ran

    # Commands

    def agent(self, *words: str) -> Running:
        """Start an agent's command with `--json`."""
        return self._start([*words, "--json"])

    def operator(self, *words: str, secret: str | None = None, passphrase: bool = True) -> Ran:
        """Run an operator's command with `--json`; passphrase and secret come from one descriptor, in that order."""
        given = PASSPHRASE + "\n" + (secret or "")
        with _readable(given.encode()) as fd:
            options = ["--passphrase-fd", str(fd)] if passphrase else []
            if secret is not None:
                options += ["--secret-fd", str(fd)]
            running = self._start([*words, *options, "--json"], fds=(fd,))
            return self.finish(running)

    def finish(self, running: Running) -> Ran:
        ran = running.end()
        self.heard += [ran.out, ran.err]
        return ran

    def _start(self, words: Sequence[str], fds: Sequence[int] = ()) -> Running:
        process = subprocess.Popen(
            [*CLI, *words],
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            pass_fds=fds,
        )
        hidden = {"--json", "--passphrase-fd", "--secret-fd"}
        shown = [
            word for at, word in enumerate(words) if word not in hidden and words[at - 1] not in hidden - {"--json"}
        ]
        return Running(shlex.join(["affidavit", *shown]), process, self.limit_s)

    def environment(self) -> dict[str, str]:
        """Ours, with the throw-away home and without anything that would lead elsewhere."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("AFFIDAVIT_")}
        return kept | {"AFFIDAVIT_HOME": str(self.root / "home"), "AFFIDAVIT_KEYRING": "off"}

    # What the service saw

    def arrivals(self) -> list[dict[str, Any]]:
        """The practice service's log. A line that is being written is not there yet."""
        if self._practice is None or self._practice.poll() is not None:
            raise StageTrouble("The practice service has ended.")
        whole = self.log.read_text().rpartition("\n")[0]
        return [json.loads(line) for line in whole.splitlines()]

    # Processes

    def _start_practice(self) -> None:
        digest = hashlib.sha256(self.secret.encode()).hexdigest()
        command = [sys.executable, "-P", "-m", "affidavit.ipc.demo.practice", "--log", str(self.log)]
        self._practice = subprocess.Popen(
            [*command, "--token-sha256", digest], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
        )
        assert self._practice.stdout is not None
        first = self._practice.stdout.readline()
        if not first:
            raise StageTrouble("The practice service did not start.")
        self.port = int(json.loads(first)["port"])

    def start_broker(self) -> None:
        """Start the broker with the passphrase, and wait until it answers."""
        command = ["tray", "--minimized"] if self.windows else ["serve"]
        with _readable(PASSPHRASE.encode() + b"\n") as fd, open(self.root / "broker.log", "ab") as log:
            self._broker = subprocess.Popen(
                [*self.broker_command, *command, "--passphrase-fd", str(fd)],
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(fd,),
            )
            self.until(self._ready, "The broker did not answer with an open vault", START_S)

    def _ready(self) -> bool:
        assert self._broker is not None
        if self._broker.poll() is not None:
            said = (self.root / "broker.log").read_text(errors="replace")[-800:]
            raise StageTrouble(f"The broker ended with {self._broker.returncode}: {' '.join(said.split())}")
        try:
            return bool(self._ask("status")["vault"] == "ready")
        except NotReachable:
            return False

    def cards(self) -> list[dict[str, Any]]:
        """The cards that wait, oldest first."""
        found: list[dict[str, Any]] = self._ask("approval.list")["cards"]
        return found

    def whole_card(self, invocation_id: str) -> dict[str, Any]:
        """One card with its body, as `affidavit approve` prints it."""
        passphrase = bytearray(PASSPHRASE, "utf-8")
        found: dict[str, Any] = self._ask("approval.show", invocation_id=invocation_id, passphrase=passphrase)
        return found

    def _ask(self, method: str, **params: Any) -> Any:
        """One look at the broker, without the cost of a command: for what is asked again and again."""
        with Client.operator({"AFFIDAVIT_HOME": str(self.root / "home")}, timeout_s=START_S) as client:
            return client.call(method, params)

    def kill_broker(self) -> None:
        """`kill -9`: no goodbye, nothing flushed."""
        assert self._broker is not None
        self._broker.kill()
        self._broker.wait(STOP_S)

    def stop_broker(self) -> int:
        """End the broker in order; returns its exit status."""
        assert self._broker is not None
        return _stop(self._broker)

    def ended(self) -> int:
        """Wait for a broker that was told to end; its exit status."""
        assert self._broker is not None
        return self._broker.wait(STOP_S)

    def until(self, holds: Callable[[], bool], what: str, limit_s: float | None = None) -> None:
        """Wait until `holds`, at most `limit_s`; StageTrouble with `what` if it does not come."""
        limit = self.limit_s if limit_s is None else limit_s
        end = time.monotonic() + limit
        while not holds():
            if time.monotonic() > end:
                raise StageTrouble(f"{what} within {limit:.0f} s.")
            time.sleep(POLL_S)

    def close(self) -> None:
        """End every process, and remove every file."""
        for process in (self._broker, self._practice):
            if process is not None:
                _stop(process)
        if self._practice is not None and self._practice.stdout is not None:
            self._practice.stdout.close()
        if self._closed is not None:
            self._closed.close()
        shutil.rmtree(self.root, ignore_errors=True)

    def __enter__(self) -> Stage:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # The secret

    def traces(self) -> list[str]:
        """Where the planted secret, or a common form of it, can be found. It should be nowhere but in the vault."""
        return [place for place, content in self._places() if any(form in content for form in forms(self.secret))]

    def _places(self) -> Iterator[tuple[str, bytes]]:
        for path in sorted(self.root.rglob("*")):
            with contextlib.suppress(FileNotFoundError):  # a spool file may go meanwhile
                if path.is_file():
                    yield str(path.relative_to(self.root)), path.read_bytes()
        for number, text in enumerate(self.heard):
            yield f"output {number}", text.encode()
        for name in ("environ", "cmdline"):
            try:
                content = Path(f"/proc/{self.broker_pid}/{name}").read_bytes()
            except PermissionError:
                continue  # the broker closed itself to the user's other processes
            except FileNotFoundError:
                raise StageTrouble("The broker does not run, so its environment cannot be searched.") from None
            yield f"/proc/{self.broker_pid}/{name}", content


def forms(secret: str) -> tuple[bytes, ...]:
    """A secret as it stands, in hex, and in base64 at its three alignments, each without what its neighbours decide."""
    raw = secret.encode()
    encoded = [base64.b64encode(b"\0" * shift + raw)[(0, 2, 3)[shift] :].rstrip(b"=")[:-2] for shift in range(3)]
    return (raw, raw.hex().encode(), *encoded)


@contextlib.contextmanager
def _readable(content: bytes) -> Iterator[int]:
    """A descriptor that gives `content`, for a child to inherit."""
    reading, writing = os.pipe()
    os.write(writing, content)
    os.close(writing)
    try:
        yield reading
    finally:
        os.close(reading)


def _stop(process: subprocess.Popen[Any]) -> int:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    return int(process.returncode)
