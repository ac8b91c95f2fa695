"""Commands on hosts: P7, each beside the same command by plain paramiko; and a push beside the same one by OpenSSH."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from itertools import count

import paramiko
from arena import Arena
from effort import Effort, progress
from goals import Finding, Holds, medians, milliseconds
from side_by_side import side_by_side
from tests.broker.wire.ssh.sshd import USER, Sshd

from affidavit.ipc.client import Client, new_operation_id
from affidavit.ipc.demo.stage import CLI, Stage

KEPT, FIRST, PLAIN = "on a kept transport", "first connect", "plain paramiko"
BROKERED, OPENSSH = "brokered push", "OpenSSH"
PUSH_LIMIT_S = 600.0
_ALLOWED = """id = "bench.{name}"
title = "What the benchmark runs"
[match]
kind = "ssh"
host = "bench"
command = "{command}"
[effect]
kind = "{effect}"
[approval]
mode = "never"
"""
_RUN = {"kept": ("true", "read"), "first": ("exit", "write"), "push": ("git-receive-pack *", "write")}


def p7(arena: Arena, effort: Effort) -> list[Finding]:
    progress("P7, commands and a push")
    with ExitStack() as ending:
        sshd = ending.enter_context(Sshd(arena.root / "sshd"))
        stage = arena.broker("ssh")
        _add_host(stage, sshd)
        agent = arena.agent(stage)
        things: dict[str, Callable[[], None]] = {
            KEPT: lambda: _brokered(agent, "true"),
            FIRST: lambda: _brokered(agent, "exit"),
            PLAIN: lambda: _paramiko(sshd),
        }
        taken = medians(side_by_side(things, rounds=effort.commands, warming=5))
        detail = milliseconds(taken, effort.commands)
        found = [
            Finding("P7", f"{KEPT} / {PLAIN}", taken[KEPT] / taken[PLAIN], Holds.AT_MOST, 0.1, detail),
            Finding("P7", f"{FIRST} / {PLAIN}", taken[FIRST] / taken[PLAIN], Holds.AT_MOST, 0.25, detail),
        ]
        return [*found, _push(arena, stage, sshd, effort)]


def _add_host(stage: Stage, sshd: Sshd) -> None:
    """A host that reaches the server, and contracts under which its commands ask nobody."""
    key = (sshd.home / "user").read_text()
    host_key = " ".join((sshd.home / "host.pub").read_text().split()[:2])
    credential = ("credential", "add", "login", "--kind", "ssh-key", "--target", "127.0.0.1")
    where = ("--address", "127.0.0.1", "--port", str(sshd.port), "--user", USER, "--credential", "login")
    stage.done(stage.operator(*credential, secret=key))
    stage.done(stage.operator("host", "add", "bench", *where, "--host-key", host_key))
    for name, (command, effect) in _RUN.items():
        contract = _ALLOWED.format(name=name, command=command, effect=effect)
        (stage.home.contracts / f"ssh-{name}.toml").write_text(contract)
    stage.done(stage.operator("contract", "adopt", "--all"))


def _brokered(client: Client, command: str) -> None:
    answer = client.call("ssh.exec", {"host": "bench", "command": command, "operation_id": new_operation_id()})
    if answer["ssh"]["exit_status"] != 0:
        raise AssertionError(answer)


def _paramiko(sshd: Sshd) -> None:
    """One command as paramiko's own client runs it."""
    with paramiko.SSHClient() as client:
        client.get_host_keys().add(
            f"[127.0.0.1]:{sshd.port}", "ssh-ed25519", paramiko.Ed25519Key.from_private_key_file(_file(sshd, "host"))
        )
        client.connect(
            "127.0.0.1",
            sshd.port,
            USER,
            key_filename=_file(sshd, "user"),
            allow_agent=False,
            look_for_keys=False,
        )
        _, out, _ = client.exec_command("true")
        if out.channel.recv_exit_status() != 0:
            raise AssertionError("the command failed")


def _file(sshd: Sshd, name: str) -> str:
    return str(sshd.home / name)


def _push(arena: Arena, stage: Stage, sshd: Sshd, effort: Effort) -> Finding:
    what = f"push of {effort.push_bytes // 1024**2} MiB: brokered / {OPENSSH}"
    if shutil.which("git") is None:
        return Finding("P7", what, None, Holds.AT_MOST, 1.25, "git is not installed")
    here = arena.root / "pushed"
    git = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    git |= {f"GIT_{who}_{part}": "bench@example.com" for who in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}
    _git(git, "init", "-q", "-b", "main", str(here))
    (here / "large").write_bytes(os.urandom(effort.push_bytes))
    _git(git, "-C", str(here), "add", ".")
    _git(git, "-C", str(here), "commit", "-qm", "large")
    options = "-F none -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
    plain = f"ssh -i {_file(sshd, 'user')} -p {sshd.port} {options}"
    numbers = count()

    def push(environment: Mapping[str, str], host: str) -> None:
        origin = arena.root / f"origin-{next(numbers)}.git"
        _git(git, "init", "-q", "--bare", str(origin))
        _git({**git, **environment}, "-C", str(here), "push", "-q", f"ssh://{host}{origin}", "main")
        shutil.rmtree(origin)

    through = {**stage.environment(), "GIT_SSH_COMMAND": " ".join((*CLI, "ssh"))}
    pushes = {
        BROKERED: lambda: push(through, "bench"),
        OPENSSH: lambda: push({"GIT_SSH_COMMAND": plain}, f"{USER}@127.0.0.1"),
    }
    taken = medians(side_by_side(pushes, rounds=effort.pushes, warming=1))
    ratio = taken[BROKERED] / taken[OPENSSH]
    return Finding("P7", what, ratio, Holds.AT_MOST, 1.25, milliseconds(taken, effort.pushes))


def _git(environment: Mapping[str, str], *words: str) -> None:
    subprocess.run(["git", *words], env=environment, check=True, stdin=subprocess.DEVNULL, timeout=PUSH_LIMIT_S)
