"""What the end-to-end tests stand on: a throw-away home, the real programs in processes of their own, the practice
service with its log. Nothing is scripted here and every wait has an end.

A home is made once by the commands that a person types (`Template`), and copied for each test: what costs is the
passphrase's Argon2id, so one start of `serve --passphrase-fd` pays for it and nothing else does.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from affidavit.broker.home import Places
from affidavit.ipc.client import ActionFailed, Client

LIMIT_S = 60.0
"""How long anything may take; on a machine that is not busy it is a hundredth of that."""
_LOOK_S = 0.01
CLI = (sys.executable, "-P", "-m", "affidavit.ipc.cli")

Envelope = Mapping[str, Any]


def until(holds: Callable[[], bool], what: str, limit_s: float = LIMIT_S) -> None:
    """Return once `holds`; AssertionError naming `what` if that does not come."""
    end = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < end, f"{what} within {limit_s:.0f} s"
        time.sleep(_LOOK_S)


def facts(envelope: Envelope) -> Mapping[str, Any]:
    """The five facts, wherever the envelope holds them."""
    (name,) = {"result", "pending", "error"} & envelope.keys()
    found: Mapping[str, Any] = envelope[name]
    return found


def answer(client: Client, method: str, params: Mapping[str, Any], *, limit_s: float = LIMIT_S) -> Envelope:
    """The envelope that a call ends with, whichever of its three shapes it has."""
    try:
        found: Envelope = client.call(method, params, timeout_s=limit_s)
    except ActionFailed as failed:
        return failed.envelope
    return found


@contextlib.contextmanager
def readable(*lines: str) -> Iterator[int]:
    """A descriptor that gives these lines, for a child to inherit. The last line has no end, as a secret has none."""
    reading, writing = os.pipe()
    os.write(writing, "\n".join(lines).encode())
    os.close(writing)
    try:
        yield reading
    finally:
        os.close(reading)


@dataclass(frozen=True, slots=True)
class Ran:
    """A command that has ended."""

    words: tuple[str, ...]
    status: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found


@dataclass(frozen=True, slots=True)
class Setting:
    """What all homes of a test run have in common."""

    passphrase: str
    secret: str
    practice_port: int
    target_port: int
    tls_port: int
    closed_port: int


class Broker:
    """One process of `affidavit serve`, from its start. What it says on stderr is kept in `said`."""

    def __init__(self, home: Home, process: subprocess.Popen[str]) -> None:
        self.home = home
        self.process = process
        self.said: list[str] = []
        self._serving = threading.Event()
        self._silent = threading.Event()
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    def _listen(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line)
            if line.startswith("serving "):
                self._serving.set()
        self._silent.set()
        self._serving.set()

    @property
    def pid(self) -> int:
        """Of the broker itself, which under a tracer is not the process that was started: who serves the socket."""
        with self.operator() as operator:
            pid: int = operator.peer_pid
            return pid

    @property
    def most_memory(self) -> int:
        """Bytes that it has held at most so far."""
        line = re.search(r"VmHWM:\s*(\d+) kB", Path(f"/proc/{self.pid}/status").read_text())
        assert line is not None
        return int(line[1]) * 1024

    @property
    def serving(self) -> bool:
        """Wait for the line that says so; False where the process ended without it."""
        assert self._serving.wait(LIMIT_S), "serving, or the end"
        return any(line.startswith("serving ") for line in self.said)

    def ended(self) -> int:
        """Wait for the end of the process and of all it said; its exit status, negative for a signal."""
        status = self.process.wait(LIMIT_S)
        assert self._silent.wait(LIMIT_S), "the end of stderr"
        return status

    def kill(self) -> None:
        """`kill -9`, of a tracer too."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.ended()

    def stop(self) -> int:
        """SIGTERM, and the exit status."""
        os.kill(self.pid, signal.SIGTERM)
        return self.ended()

    def agent(self) -> Client:
        return Client.agent(self.home.environment, timeout_s=LIMIT_S)

    def operator(self) -> Client:
        return Client.operator(self.home.environment, timeout_s=LIMIT_S)

    def __enter__(self) -> Broker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.ended()
        self._reader.join(LIMIT_S)
        assert self.process.stderr is not None
        self.process.stderr.close()


@dataclass(slots=True)
class Home:
    """One home, and everything that commands on it printed."""

    root: Path
    setting: Setting
    heard: list[str] = field(default_factory=list)
    argvs: list[tuple[str, ...]] = field(default_factory=list)
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def places(self) -> Places:
        return Places.at(self.root, named_by="AFFIDAVIT_HOME")

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("AFFIDAVIT_")}
        return kept | {"AFFIDAVIT_HOME": str(self.root), "AFFIDAVIT_KEYRING": "off"} | self.extra

    def start(
        self,
        *,
        faultpoint: str | None = None,
        unlock: bool = True,
        under: Sequence[str] = (),
        before: Callable[[], None] | None = None,
    ) -> Broker:
        """Start `serve`, and do not wait. `under` goes before the command; `before` runs in the child before it."""
        environment = self.environment
        if faultpoint is not None:
            environment["AFFIDAVIT_FAULTPOINT"] = faultpoint
        with readable(self.setting.passphrase) as fd:
            words = (*CLI, "serve", *(("--passphrase-fd", str(fd)) if unlock else ()))
            self.argvs.append(words)
            process = subprocess.Popen(
                [*under, *words],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                errors="surrogateescape",
                cwd=self.root,
                pass_fds=(fd,),
                start_new_session=True,
                preexec_fn=before,
            )
        return Broker(self, process)

    @contextlib.contextmanager
    def serve(
        self,
        *,
        unlock: bool = True,
        under: Sequence[str] = (),
        before: Callable[[], None] | None = None,
    ) -> Iterator[Broker]:
        """Start `serve`, wait until it serves; at the end of the context it is killed if it still runs."""
        with self.start(unlock=unlock, under=under, before=before) as broker:
            assert broker.serving, "".join(broker.said)
            yield broker
        self.heard += broker.said

    def run(
        self, *words: str, lines: Sequence[str] | None = None, secret: str | None = None, under: Sequence[str] = ()
    ) -> Ran:
        """Run a command to its end. `secret`: it is given the passphrase, then this secret, by one descriptor.

        `lines`: what the passphrase's descriptor gives instead.
        """
        given: Sequence[str] | None = lines
        if secret is not None:
            given = (self.setting.passphrase, secret)
        with readable(*(given or ())) as fd:
            options: tuple[str, ...] = ("--passphrase-fd", str(fd)) if given is not None else ()
            if secret is not None:
                options += ("--secret-fd", str(fd))
            argv = (*CLI, *words, *options)
            self.argvs.append(argv)
            ended = subprocess.run(
                [*under, *argv],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="surrogateescape",
                timeout=LIMIT_S,
                pass_fds=(fd,),
                check=False,
            )
        self.heard += [ended.stdout, ended.stderr]
        return Ran(tuple(words), ended.returncode, ended.stdout, ended.stderr)

    def operate(self, *words: str, secret: str | None = None) -> Ran:
        """An operator's command, with the passphrase."""
        if secret is not None:
            return self.run(*words, secret=secret)
        return self.run(*words, lines=(self.setting.passphrase,))

    def intact(self) -> bool:
        """What `audit verify` says."""
        ran = self.run("audit", "verify", "--json")
        return ran.status == 0 and ran.json["intact"] is True

    def remove(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)


def temporary() -> Path:
    """A new directory whose path is short: a socket's path has 107 bytes."""
    return Path(tempfile.mkdtemp(prefix="aff-"))


def copy_of(template: Home) -> Home:
    """A home of its own, with what the template holds."""
    root = temporary()
    shutil.copytree(template.root, root, dirs_exist_ok=True)
    return Home(root, template.setting)


def connected(home: Home) -> socket.socket:
    """A bare connection to the agent socket."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.settimeout(LIMIT_S)
    sock.connect(str(home.places.agent_socket))
    return sock


def rest_of(sock: socket.socket) -> bytes:
    """What is still to come before the other side ends it, in whatever way."""
    got = b""
    with contextlib.suppress(ConnectionResetError):
        while more := sock.recv(65536):
            got += more
    return got


class Practice:
    """The practice service, in a process of its own, and its log."""

    def __init__(self, directory: Path, secret: str) -> None:
        self._log = directory / "practice.log"
        digest = hashlib.sha256(secret.encode()).hexdigest()
        words = [sys.executable, "-P", "-m", "affidavit.ipc.demo.practice", "--log", str(self._log)]
        self._process = subprocess.Popen(
            [*words, "--token-sha256", digest], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.port = int(json.loads(self._process.stdout.readline())["port"])

    def arrivals(self, operation_id: str) -> list[dict[str, Any]]:
        """What arrived under an `X-Operation-Id`, once nothing of a broker that has ended is still to come.

        The service writes its line before it answers, and closes a connection that a broker's end has closed after the
        last line from it.
        """
        assert self._process.poll() is None, f"the practice service ended with {self._process.returncode}"
        until(
            lambda: not any(end.half_closed for end in open_ends() if end.local == self.port),
            "the practice service is done with the connections of brokers that have ended",
        )
        return [line for line in self.log() if line["headers"].get("x-operation-id") == operation_id]

    def log(self) -> list[dict[str, Any]]:
        whole = self._log.read_text().rpartition("\n")[0]
        return [json.loads(line) for line in whole.splitlines()]

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(LIMIT_S)
        assert self._process.stdout is not None
        self._process.stdout.close()


@dataclass(frozen=True, slots=True)
class Tcp:
    """One end of an open IPv4 connection as the kernel shows it: what it has sent unacknowledged and not yet read."""

    local: int
    remote: int
    unsent: int
    unread: int
    half_closed: bool
    """The other side has closed it, and this one has not."""


_ESTABLISHED, _CLOSE_WAIT = "01", "08"


def open_ends() -> list[Tcp]:
    """Both ends of every connection on this machine that one side at least holds open."""
    found = []
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        words = line.split()
        if words[3] in (_ESTABLISHED, _CLOSE_WAIT):
            local, remote = (int(words[n].rpartition(":")[2], 16) for n in (1, 2))
            unsent, _, unread = words[4].partition(":")
            found.append(Tcp(local, remote, int(unsent, 16), int(unread, 16), words[3] == _CLOSE_WAIT))
    return found


def closed_socket() -> socket.socket:
    """Bound and never listening: whoever connects is refused."""
    closed = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    closed.bind(("127.0.0.1", 0))
    return closed


QUIET = "quiet"
"""Credential of the practice service; its contracts ask nobody."""
ASKED = "asked"
"""Path of a write that opens a card."""

_CONTRACT = """id = "{id}"
[match]
kind = "http"
method = [{methods}]
url = "{url}"
[effect]
kind = "{effect}"
[approval]
mode = "{mode}"
"""


def contracts(setting: Setting) -> dict[str, str]:
    """Contract texts by file name. Transfers and payments are the same kind of write; only transfers open a card."""
    practice, target = (f"http://127.0.0.1:{port}" for port in (setting.practice_port, setting.target_port))
    rows = [
        ("practice.account", ["GET"], f"{practice}/v1/account", "read", "never"),
        ("practice.transfers", ["POST"], f"{practice}/v1/transfers", "write", "always"),
        ("practice.payments", ["POST"], f"{practice}/v1/payments", "write", "never"),
        ("target.read", ["GET"], f"{target}/**", "read", "never"),
        ("target.write", ["POST"], f"{target}/**", "write", "never"),
        ("tls.read", ["GET"], f"https://127.0.0.1:{setting.tls_port}/**", "read", "never"),
        ("closed.read", ["GET"], f"http://127.0.0.1:{setting.closed_port}/**", "read", "never"),
    ]
    return {
        f"{id_}.toml": _CONTRACT.format(
            id=id_, methods=", ".join(f'"{m}"' for m in methods), url=url, effect=effect, mode=mode
        )
        for id_, methods, url, effect, mode in rows
    }


def make_template(root: Path, setting: Setting) -> Home:
    """Make a home as a person would: init, a credential for each target, the contracts adopted."""
    home = Home(root, setting)
    made = [home.operate("init")]
    for name, port in (("practice", setting.practice_port), ("target", setting.target_port)):
        words = ("credential", "add", name, "--kind", "bearer", "--target", f"http://127.0.0.1:{port}/**")
        made.append(home.operate(*words, secret=setting.secret))
    for file, text in contracts(setting).items():
        (home.places.contracts / file).write_text(text)
    made.append(home.operate("contract", "adopt", "--all"))
    for ran in made:
        assert ran.status == 0, ran
    return home


def new_passphrase() -> str:
    return secrets.token_hex(16)


def new_secret() -> str:
    """Random from its first byte on, with characters that every encoding has to do something about."""
    return f'{secrets.token_hex(8)}/+"<~%{secrets.token_hex(8)}'


def new_operation() -> str:
    return f"op_{secrets.token_hex(8)}"
