"""Where it is measured: a throw-away home, the real broker, an echo and a target, each a process of its own."""

from __future__ import annotations

import datetime
import ipaddress
import json
import os
import re
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from peers import LINE

from affidavit.ipc.client import Client
from affidavit.ipc.demo.stage import CLI, Stage

LIMIT_S = 120.0
SECRET = "bench-secret-0123456789"
LIFTED = ("actions_per_s", "actions_burst", "open_actions", "open_actions_session")
"""Per-session limits that would slow down a benchmark; the operator sets them, as anybody would."""
MOST_ACTIONS = {"actions_per_s": "1000000", "actions_burst": "1000000"}
_HERE = Path(__file__).parent

_CONTRACT = """id = "bench.{name}"
title = "What the benchmark reads"
[match]
kind = "http"
method = ["GET"]
url = "{origin}/**"
[effect]
kind = "read"
[approval]
mode = "never"
"""


@contextmanager
def directory(parent: Path | None) -> Iterator[Path]:
    """A directory that is gone afterwards. On a disk: where syncing costs nothing, half of this measures nothing."""
    made = Path(tempfile.mkdtemp(prefix="affidavit-bench-", dir=parent))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def file_system(path: Path) -> str:
    """The type of the file system that holds `path`, as `/proc/mounts` names it."""
    found = ("", "unknown")
    for line in Path("/proc/mounts").read_text().splitlines():
        mounted, kind = line.split(" ")[1:3]
        if path.is_relative_to(mounted) and len(mounted) >= len(found[0]):
            found = mounted, kind
    return found[1]


@contextmanager
def peer(*words: str) -> Iterator[str]:
    """A process of `peers.py`; the line it says once it is ready."""
    process = subprocess.Popen(
        [sys.executable, "-P", str(_HERE / "peers.py"), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        if not select.select([process.stdout], [], [], LIMIT_S)[0]:
            raise TimeoutError(f"{words[0]} did not start")
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.wait(LIMIT_S)
        process.stdout.close()


@contextmanager
def mitmproxy(program: Path, home: Path, upstream: str, authority: Path) -> Iterator[str]:
    """A reverse proxy to `upstream` that adds the header of the benchmark's credential: mitmproxy at its quickest, for
    its client needs no TLS and both of its connections are kept. Its origin, once it listens."""
    words = ("--mode", f"reverse:{upstream}@127.0.0.1:0", "--modify-headers", f"/~q/Authorization/Bearer {SECRET}")
    settings = (f"confdir={home}", "flow_detail=0", f"ssl_verify_upstream_trusted_ca={authority}")
    log = home / "log"
    with log.open("wb") as out:
        command = [str(program), *words, *(word for setting in settings for word in ("--set", setting))]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT)
    try:
        until = time.monotonic() + LIMIT_S
        while (listening := re.search(r"listening at \S*?:(\d+)", log.read_text())) is None:
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"mitmproxy did not start: {log.read_text()[-400:]}")
            time.sleep(0.05)
        yield f"http://127.0.0.1:{listening[1]}"
    finally:
        process.terminate()
        process.wait(LIMIT_S)


class Echo:
    """Unit E: 1 KB to a bare asyncio echo over a Unix socket and back, on one connection."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(str(path))

    def once(self) -> None:
        self._socket.sendall(LINE)
        left = len(LINE)
        while left:
            left -= len(self._socket.recv(left))

    def close(self) -> None:
        self._socket.close()


class Arena:
    """Everything that measurements need, brought up when asked for and ended with the context."""

    def __init__(self, root: Path, mitmdump: Path | None = None) -> None:
        self.root = root
        self._mitmdump = mitmdump
        self._ending = ExitStack()
        certificate = root / "target.pem"
        certificate.write_bytes(_certificate())
        self.authority = certificate
        """The target's certificate, which vouches for itself; its private key stands in the same file."""
        self.injected = root / "injected"
        """A file with the header line of the benchmark's credential."""
        self.injected.write_text(f"Authorization: Bearer {SECRET}\n")
        ports = json.loads(self._ending.enter_context(peer("target", str(certificate))))
        self.http = f"http://127.0.0.1:{ports['http']}"
        self.https = f"https://127.0.0.1:{ports['https']}"
        self.http_port = int(ports["http"])
        self._ending.enter_context(peer("echo", str(root / "echo.sock")))

    def echo(self) -> Echo:
        echo = Echo(self.root / "echo.sock")
        self._ending.callback(echo.close)
        return echo

    def broker(self, name: str, *, command: tuple[str, ...] = CLI) -> Stage:
        """A broker on a home of its own: limits lifted, a credential and a contract for the target, nobody asked."""
        home = self.root / name
        home.mkdir()
        stage = Stage(windows=False, limit_s=LIMIT_S, root=home, broker_command=command)
        self._ending.callback(stage.close)
        stage.done(stage.operator("init"))
        stage.start_broker()
        for limit in LIFTED:
            stage.done(stage.operator("settings", "set", f"limit.{limit}", MOST_ACTIONS.get(limit, "4096")))
        origins = {"http": self.http, "https": self.https}
        targets = [word for origin in origins.values() for word in ("--target", f"{origin}/**")]
        stage.done(stage.operator("credential", "add", "bench", "--kind", "bearer", *targets, secret=SECRET))
        for scheme, origin in origins.items():
            (stage.home.contracts / f"{scheme}.toml").write_text(_CONTRACT.format(name=scheme, origin=origin))
        stage.done(stage.operator("contract", "adopt", "--all"))
        return stage

    def mitmproxy(self, upstream: str) -> str | None:
        """The origin of a mitmproxy that adds a header and asks `upstream`; None where there is none to start."""
        if self._mitmdump is None:
            return None
        home = self.root / f"mitmproxy-{len(list(self.root.glob('mitmproxy-*')))}"
        home.mkdir()
        return self._ending.enter_context(mitmproxy(self._mitmdump, home, upstream, self.authority))

    def agent(self, stage: Stage) -> Client:
        client = Client.agent(stage.environment(), timeout_s=LIMIT_S)
        self._ending.callback(client.close)
        return client

    def close(self) -> None:
        self._ending.close()

    def __enter__(self) -> Arena:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _certificate() -> bytes:
    """A certificate for 127.0.0.1 that vouches for itself, and its key, in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Benchmark target")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.IPv4Address("127.0.0.1"))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private + certificate.public_bytes(serialization.Encoding.PEM)


def load() -> str:
    """How busy the machine is: cores and load averages."""
    return f"{os.cpu_count()} cores, load {' '.join(f'{value:.1f}' for value in os.getloadavg())}"
