"""A real OpenSSH server on loopback, with keys and configuration of its own in a directory of the test's."""

from __future__ import annotations

import base64
import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from affidavit.broker.secret import Secret
from affidavit.broker.wire.ssh.port import HostKey, KeyLogin, SshHop

SSHD = shutil.which("sshd") or "/usr/sbin/sshd"
USER = getpass.getuser()


def keygen(path: Path, *options: str, kind: str = "ed25519", passphrase: str = "") -> Path:
    """A new key pair at `path` and `path`.pub."""
    command = ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", "test", "-f", str(path), *options]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True)
    return path


def public(path: Path) -> HostKey:
    return HostKey.of(base64.b64decode(path.with_name(path.name + ".pub").read_text().split()[1]))


def sign(authority: Path, key: Path, *, user: bool = True, principal: str = USER) -> Path:
    """A certificate for `key` by `authority`, at `key`-cert.pub."""
    options = ["-n", principal] if user else ["-h", "-n", principal]
    command = ["ssh-keygen", "-q", "-s", str(authority), "-I", "test", *options, str(key) + ".pub"]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, capture_output=True)
    return key.with_name(key.name + "-cert.pub")


@dataclass
class Sshd:
    """Listens from `with` to its end. `config` are further lines of sshd_config."""

    home: Path
    config: str = ""
    port: int = 0

    def __enter__(self) -> Self:
        self.home.mkdir(parents=True, exist_ok=True)
        self.host_key = keygen(self.home / "host")
        self.user_key = keygen(self.home / "user")
        authorized = self.home / "authorized_keys"
        shutil.copy(self.home / "user.pub", authorized)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)  # privilege separation wants it
        (self.home / "config").write_text(
            f"{self.config}\n"  # of a keyword's values sshd takes the first
            f"ListenAddress 127.0.0.1:{self.port}\nHostKey {self.host_key}\nPidFile none\nStrictModes no\n"
            f"AuthorizedKeysFile {authorized}\nPermitRootLogin yes\nPasswordAuthentication no\n"
            f"KbdInteractiveAuthentication no\nUsePAM no\nPrintMotd no\nPrintLastLog no\nLogLevel ERROR\n"
            f"MaxStartups 100\nSetEnv HOME={self.home}\n"  # where no start-up file of a shell takes its time
        )
        self._listen()
        return self

    def change_key(self) -> HostKey:
        """Go on at the same port with another host key, which is given back."""
        self.kill()
        self.process.wait()
        for old in (self.host_key, self.host_key.with_name("host.pub")):
            old.unlink()
        keygen(self.host_key)
        self._listen()
        return public(self.host_key)

    def _listen(self) -> None:
        self._others = _all_sshd()
        with (self.home / "log").open("w") as log:
            self.process = subprocess.Popen(
                [SSHD, "-D", "-e", "-f", str(self.home / "config")],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
            )
        self._await_start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._kill([*self.servers(), *_descendants(self.process.pid)])
        self.process.wait()

    def kill(self) -> None:
        """kill -9 of the listener and of every process that serves a connection; commands live on."""
        self._kill(self.servers())

    def kill_servers(self) -> None:
        """kill -9 of every process that serves a connection; the listener and commands live on."""
        for pid in self.servers():
            _kill_9(pid)

    def is_done_with(self, mark: str, *, alone: bool = False) -> bool:
        """No connection is served, and no command runs that has `mark` in its line. `alone`: nobody else has started an
        sshd, so that also what is about to become a command is seen."""
        return (
            not self.servers() and not (alone and self._loose()) and not any(mark in line for line in _command_lines())
        )

    def _loose(self) -> list[int]:
        """Children of a server that has ended, which are not yet the command that they are to be."""
        return [pid for pid in _all_sshd() if pid not in self._others and pid != self.process.pid]

    def servers(self) -> list[int]:
        """The processes that serve connections."""
        return [pid for pid in _descendants(self.process.pid) if _name(pid) == "sshd"]

    def _kill(self, others: list[int]) -> None:
        for pid in (self.process.pid, *others):
            _kill_9(pid)

    def hop(self, **changes: object) -> SshHop:
        facts: dict[str, object] = {
            "host": "127.0.0.1",
            "port": self.port,
            "user": USER,
            "host_keys": (public(self.host_key),),
            "login": KeyLogin(Secret(self.user_key.read_bytes())),
        }
        return SshHop(**(facts | changes))  # type: ignore[arg-type]

    def _await_start(self) -> None:
        """sshd tells nobody when it listens: knock until it opens, or until it has died."""
        while True:
            with socket.socket() as knock:
                if knock.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            if self.process.poll() is not None:
                raise RuntimeError((self.home / "log").read_text())
            time.sleep(0.01)


def _descendants(pid: int) -> list[int]:
    """As long as it lives: of a process that has died nobody knows the children."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            child = int(stat.parent.name)
            found += [child, *_descendants(child)]
    return found


def _all_sshd() -> set[int]:
    pids = {int(comm.parent.name) for comm in Path("/proc").glob("[0-9]*/comm")}
    return {pid for pid in pids if _name(pid) == "sshd"}


def _kill_9(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def _command_lines() -> Iterator[str]:
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield file.read_text(errors="replace")
        except OSError:
            continue


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""
