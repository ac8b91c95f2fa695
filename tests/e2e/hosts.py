"""Host entries in a home, as its operator makes them, the contract under which their commands ask nobody, and
`affidavit ssh` on them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.broker.wire.ssh.sshd import USER, Sshd
from tests.e2e.rig import CLI, LIMIT_S, Broker, Home, copy_of

ANYTHING = """id = "hosts.anything"
[match]
kind = "ssh"
host = "*"
command = "*"
[effect]
kind = "write"
[approval]
mode = "never"
"""


def add_host(
    home: Home, name: str, address: str, *, port: int, user: str, host_key: str, credential: str = "key"
) -> None:
    """`affidavit host add`."""
    where = ("--address", address, "--port", str(port), "--user", user, "--credential", credential)
    ran = home.operate("host", "add", name, *where, "--host-key", host_key)
    assert ran.status == 0, ran


def adopt(home: Home, contracts: Iterable[str]) -> None:
    """Put contract files into the home, and adopt them."""
    for n, text in enumerate(contracts):
        (home.places.contracts / f"host-{n}.toml").write_text(text)
    ran = home.operate("contract", "adopt", "--all")
    assert ran.status == 0, ran


@dataclass(frozen=True, slots=True)
class Reached:
    """A broker with one host that it can log in to."""

    home: Home
    broker: Broker
    sshd: Sshd
    marks: Path

    def run(
        self, *words: str, stdin: bytes = b"", env: Mapping[str, str] | None = None, limit_s: float = LIMIT_S
    ) -> Ran:
        """`affidavit ssh`, as a script calls it."""
        return subprocess.run(
            [*CLI, "ssh", *words],
            env={**self.home.environment, **(env or {})},
            input=stdin,
            capture_output=True,
            timeout=limit_s,
            check=False,
        )

    def marked(self, mark: str) -> int:
        return self.marks.read_text().split().count(mark) if self.marks.exists() else 0


Ran = subprocess.CompletedProcess[bytes]


def home_with_hosts(template: Home, sshd: Sshd, contracts: Mapping[str, str]) -> Home:
    """A copy of `template` whose operator has set up the host `web`, with its key, and `stranger`, without one; with
    these contracts by file name. Nothing serves it."""
    home = copy_of(template)
    host_key = " ".join(sshd.host_key.with_name("host.pub").read_text().split()[:2])
    credential = ("credential", "add", "key", "--kind", "ssh-key", "--target", "127.0.0.1", "--target", "localhost")
    common = ("--port", str(sshd.port), "--user", USER, "--credential", "key")
    made = [
        home.operate(*credential, secret=sshd.user_key.read_text()),
        home.operate("host", "add", "web", "--address", "127.0.0.1", *common, "--host-key", host_key),
        home.operate("host", "add", "stranger", "--address", "localhost", *common),
    ]
    for file, text in contracts.items():
        (home.places.contracts / file).write_text(text)
    made.append(home.operate("contract", "adopt", "--all"))
    for ran in made:
        assert ran.status == 0, ran
    return home


@contextmanager
def prepared_for(template: Home, sshd: Sshd, contracts: Mapping[str, str]) -> Iterator[Home]:
    """`home_with_hosts`, removed at the end."""
    home = home_with_hosts(template, sshd, contracts)
    try:
        yield home
    finally:
        home.remove()


@contextmanager
def reaching(prepared: Home, sshd: Sshd, marks: Path) -> Iterator[Reached]:
    """A broker over a copy of `prepared`, which is found in order at the end."""
    home = copy_of(prepared)
    try:
        with home.serve() as broker:
            yield Reached(home, broker, sshd, marks)
            assert [line for line in broker.said if "Traceback" in line or "failed with" in line] == []
            assert broker.stop() == 0
        assert home.intact()
    finally:
        home.remove()
