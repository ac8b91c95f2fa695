"""Streams on a real OpenSSH server: git, rsync and scp over the broker, large outputs, and what breaks off midway.

Sizes are small by default, with the same bound on the broker's memory; `AFFIDAVIT_FULL_SIZES=1` takes the full ones.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.broker.wire.ssh.sshd import Sshd
from tests.e2e.conftest import World
from tests.e2e.hosts import ANYTHING, Reached, home_with_hosts, prepared_for, reaching
from tests.e2e.rig import CLI, LIMIT_S, Broker, Home, answer, copy_of, facts, until

from affidavit.ipc.client import ConnectionLost, attached
from affidavit.ipc.frame_format import END, HEAD, STDERR, STDIN, STDOUT

FULL = os.environ.get("AFFIDAVIT_FULL_SIZES") == "1"
MIB = 1024 * 1024
OUTPUT = 1024 * MIB if FULL else 96 * MIB
PUSH = 200 * MIB if FULL else 48 * MIB
STDERR_BYTES = 64 * MIB
GROWTH = 48 * MIB
"""What the broker's memory may grow by, whatever the size: windows, credits, the results that are being written."""
LONG_S = 600.0 if FULL else LIMIT_S
IDENTITY = {f"GIT_{who}_{what}": "t@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


@pytest.fixture(scope="module")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    with Sshd(tmp_path_factory.mktemp("sshd"), "AcceptEnv GIT_PROTOCOL") as server:
        yield server


@pytest.fixture(scope="module")
def prepared(world: World, sshd: Sshd) -> Iterator[Home]:
    with prepared_for(world.template, sshd, {"any.toml": ANYTHING}) as home:
        yield home


@pytest.fixture(scope="module")
def reached(prepared: Home, sshd: Sshd, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reached]:
    with reaching(prepared, sshd, tmp_path_factory.mktemp("ssh") / "marks") as made:
        yield made


def git(home: Home, *words: str, limit_s: float = LONG_S, **env: str) -> subprocess.CompletedProcess[str]:
    """git with the broker in the place of ssh."""
    through = {"GIT_SSH_COMMAND": " ".join((*CLI, "ssh")), "GIT_CONFIG_GLOBAL": os.devnull, **IDENTITY, **env}
    return subprocess.run(
        ["git", *words],
        env={**home.environment, **through},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )


def done(ran: subprocess.CompletedProcess[str]) -> str:
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def launched(home: Home, *words: str, stdin: Any) -> subprocess.Popen[bytes]:
    """`affidavit ssh` at work."""
    return subprocess.Popen(
        [*CLI, "ssh", *words],
        env=home.environment,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def peak(broker: Broker) -> int:
    """The most memory that the broker has held, in bytes."""
    status = Path(f"/proc/{broker.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


@contextlib.contextmanager
def growth(broker: Broker) -> Iterator[list[int]]:
    """How far the broker's memory grew above what it held at the beginning."""
    pid, grown = broker.pid, [0]
    Path(f"/proc/{pid}/clear_refs").write_text("5")  # the mark of the most that was held begins anew
    before = peak(broker)
    yield grown
    grown[0] = peak(broker) - before


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a repository `origin.git`, of one commit, and a clone `here` of it."""
    root = tmp_path_factory.mktemp("git")
    run = {"check": True, "capture_output": True, "env": {**os.environ, **IDENTITY}}
    for words in (
        ("init", "-q", "--bare", "-b", "main", str(root / "origin.git")),
        ("init", "-q", "-b", "main", str(root / "here")),
    ):
        subprocess.run(["git", *words], **run)  # type: ignore[call-overload]
    (root / "here" / "first").write_bytes(os.urandom(3 * MIB))
    for here_words in (("add", "."), ("commit", "-qm", "first"), ("push", "-q", str(root / "origin.git"), "main")):
        subprocess.run(["git", "-C", str(root / "here"), *here_words], **run)  # type: ignore[call-overload]
    return root


def commit(home: Home, repository: Path, name: str, size: int) -> str:
    (repository / name).write_bytes(os.urandom(size))
    done(git(home, "-C", str(repository), "add", "."))
    done(git(home, "-C", str(repository), "commit", "-qm", name))
    return done(git(home, "-C", str(repository), "rev-parse", "HEAD")).strip()


def head(home: Home, repository: Path) -> str:
    return done(git(home, "-C", str(repository), "rev-parse", "main")).strip()


def newest(reached: Reached, command: str) -> Mapping[str, Any]:
    """The newest action whose command begins so, as the operator sees it: git is a session of its own."""
    with reached.broker.operator() as operator:
        rows = operator.call("action.list", {})["rows"]
        row = next(r for r in rows if r["target"] and r["target"]["command"].startswith(command))
        return answer(operator, "action.get", {"invocation_id": row["invocation_id"]})


@pytest.mark.parametrize("protocol", ["2", "0"])
def test_git_clones_fetches_and_pushes(reached: Reached, work: Path, tmp_path: Path, protocol: str) -> None:
    home, origin, clone = reached.home, work / "origin.git", tmp_path / "clone"
    config = ("-c", f"protocol.version={protocol}")
    done(git(home, *config, "clone", "-q", f"ssh://web{origin}", str(clone)))
    assert head(home, clone) == head(home, origin)
    assert (clone / "first").read_bytes() == (work / "here" / "first").read_bytes()
    pushed = commit(home, clone, f"second-{protocol}", 2 * MIB)
    done(git(home, *config, "-C", str(clone), "push", "-q", "origin", "main"))
    assert head(home, origin) == pushed
    done(git(home, "-C", str(origin), "fsck", "--full", "--strict"))
    done(git(home, *config, "-C", str(work / "here"), "fetch", "-q", f"web:{origin}", "main"))
    assert done(git(home, "-C", str(work / "here"), "rev-parse", "FETCH_HEAD")).strip() == pushed
    push = newest(reached, "git-receive-pack")
    assert (facts(push)["outcome"], push["ssh"]["exit_status"]) == ("committed", 0)
    stdin = push["evidence"]["stdin"]
    assert stdin["complete"] is True
    assert stdin["bytes"] > 2 * MIB
    kinds = [event["kind"] for event in push["events"]]
    assert (kinds.count("DISPATCH_STARTED"), kinds.count("RESULT_COMMITTED")) == (1, 1)


def test_git_says_what_went_wrong_in_its_own_way(reached: Reached, tmp_path: Path) -> None:
    ran = git(reached.home, "clone", "-q", "ssh://web/nowhere.git", str(tmp_path / "clone"))
    assert ran.returncode == 128
    assert "does not appear to be a git repository" in ran.stderr


def test_a_push_of_many_bytes_needs_little_memory(reached: Reached, work: Path, tmp_path: Path) -> None:
    origin, clone = tmp_path / "origin.git", tmp_path / "clone"
    done(git(reached.home, "clone", "-q", "--bare", str(work / "origin.git"), str(origin)))
    done(git(reached.home, "clone", "-q", str(origin), str(clone)))
    pushed = commit(reached.home, clone, "large", PUSH)
    with growth(reached.broker) as grown:
        done(git(reached.home, "-C", str(clone), "push", "-q", f"ssh://web{origin}", "main"))
    assert head(reached.home, origin) == pushed
    done(git(reached.home, "-C", str(origin), "fsck", "--full", "--strict"))
    assert newest(reached, "git-receive-pack")["evidence"]["stdin"]["bytes"] > PUSH
    assert grown[0] < GROWTH, f"the broker grew by {grown[0] / MIB:.0f} MiB"


def zeros_digest(size: int) -> str:
    digest, part = hashlib.sha256(), bytes(MIB)
    for _ in range(size // MIB):
        digest.update(part)
    return digest.hexdigest()


def test_a_large_output_passes_whole_to_a_live_caller(reached: Reached) -> None:
    digest, count = hashlib.sha256(), 0
    with growth(reached.broker) as grown:
        ran = launched(reached.home, "web", f"head -c {OUTPUT} /dev/zero; exit 3", stdin=subprocess.DEVNULL)
        assert ran.stdout is not None
        while part := ran.stdout.read(MIB):
            digest.update(part)
            count += len(part)
        err = ran.communicate(timeout=LONG_S)[1]
    assert (ran.returncode, count, err) == (3, OUTPUT, b"")
    assert digest.hexdigest() == zeros_digest(OUTPUT)
    assert grown[0] < GROWTH, f"the broker grew by {grown[0] / MIB:.0f} MiB"
    stdout = newest(reached, f"head -c {OUTPUT} ")["ssh"]["stdout"]
    assert (stdout["bytes"], stdout["truncated_at"]) == (OUTPUT, 32 * MIB)
    assert stdout["sha256"] == digest.hexdigest()


def test_stderr_alone(reached: Reached) -> None:
    ran = reached.run("-n", "web", f"head -c {STDERR_BYTES} /dev/zero >&2", limit_s=LONG_S)
    assert (ran.returncode, ran.stdout, len(ran.stderr)) == (0, b"", STDERR_BYTES)


def test_a_command_may_end_with_255(reached: Reached) -> None:
    ran = reached.run("web", "echo out; echo err >&2; exit 255")
    assert (ran.returncode, ran.stdout) == (255, b"out\n")
    said, envelope = ran.stderr.splitlines()
    assert (said, json.loads(envelope)["ssh"]["exit_status"]) == (b"err", 255)


def test_outputs_come_while_the_command_runs(reached: Reached, tmp_path: Path) -> None:
    """Both ways at once: the command answers each line, and the next is only then sent."""
    echo = 'while read line; do echo "<$line>"; done; exit 7'
    with launched(reached.home, "--stream", "web", echo, stdin=subprocess.PIPE) as ran:
        assert ran.stdin is not None
        assert ran.stdout is not None
        for line in (b"one", b"two", b"three"):
            ran.stdin.write(line + b"\n")
            ran.stdin.flush()
            assert ran.stdout.readline() == b"<" + line + b">\n"
        ran.stdin.close()
        assert ran.wait(LIMIT_S) == 7


def test_input_that_does_not_end_soon_is_streamed(reached: Reached) -> None:
    """Nobody needs to close an input that the command does not read to its end."""
    reading, writing = os.pipe()
    os.write(writing, b"abcdef")
    with (
        open(reading, "rb") as given,
        open(writing, "wb"),
        launched(reached.home, "web", "head -c 3", stdin=given) as ran,
    ):
        assert (ran.communicate(timeout=LIMIT_S)[0], ran.returncode) == (b"abc", 0)


def test_more_input_than_is_bound_is_streamed(reached: Reached) -> None:
    data = os.urandom(9 * MIB)
    ran = reached.run("web", "sha256sum", stdin=data)
    assert (ran.returncode, ran.stdout.split()[0].decode()) == (0, hashlib.sha256(data).hexdigest())
    stdin = newest(reached, "sha256sum")["evidence"]["stdin"]
    assert stdin == {"bytes": len(data), "sha256": f"sha256:{hashlib.sha256(data).hexdigest()}", "complete": True}


def test_a_variable_that_the_host_refuses_is_no_hindrance(reached: Reached) -> None:
    ran = reached.run("-o", "SendEnv=NOT_TAKEN", "web", "echo ${NOT_TAKEN-none}", env={"NOT_TAKEN": "given"})
    assert (ran.returncode, ran.stdout) == (0, b"none\n")


@pytest.mark.skipif(shutil.which("rsync") is None, reason="needs rsync")
def test_rsync(reached: Reached, tmp_path: Path) -> None:
    there, back, source = tmp_path / "there", tmp_path / "back", tmp_path / "source"
    source.mkdir()
    for name in ("a", "b"):
        (source / name).write_bytes(os.urandom(2 * MIB))
    shell = " ".join((*CLI, "ssh"))
    for words in ((f"{source}/", f"web:{there}/"), (f"web:{there}/", f"{back}/")):
        subprocess.run(["rsync", "-a", "-e", shell, *words], env=reached.home.environment, check=True, timeout=LIMIT_S)
    for name in ("a", "b"):
        assert (back / name).read_bytes() == (source / name).read_bytes()


@pytest.mark.skipif(shutil.which("scp") is None, reason="needs scp")
def test_scp_in_its_old_form(reached: Reached, tmp_path: Path) -> None:
    program = tmp_path / "ssh"
    program.write_text(f'#!/bin/sh\nexec {" ".join(CLI)} ssh "$@"\n')
    program.chmod(0o755)
    (tmp_path / "a").write_bytes(os.urandom(2 * MIB))
    for words in ((str(tmp_path / "a"), f"web:{tmp_path}/b"), (f"web:{tmp_path}/b", str(tmp_path / "c"))):
        subprocess.run(
            ["scp", "-O", "-q", "-S", str(program), *words],
            env=reached.home.environment, check=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    assert (tmp_path / "c").read_bytes() == (tmp_path / "a").read_bytes()


class Streamed:
    """An `ssh.exec` with `stream` at work on one connection, attached to on another by whoever holds this."""

    def __init__(self, broker: Broker, command: str, **more: Any) -> None:
        self.ended: Mapping[str, Any] | None = None
        self.invocation_id = ""
        self._ready = threading.Event()
        self._asking = broker.agent()
        self._asking.on_notification(self._told)
        params = {"host": "web", "command": command, "stream": True, **more}
        self._call = threading.Thread(target=self._ask, args=(params,))
        self._call.start()
        assert self._ready.wait(LIMIT_S), self.ended
        self.sock, self._begun = attached(self.invocation_id, broker.home.environment, timeout_s=LIMIT_S)

    def _told(self, method: str, params: Mapping[str, Any]) -> None:
        assert method == "stream.ready"
        self.invocation_id = params["invocation_id"]
        self._ready.set()

    def _ask(self, params: Mapping[str, Any]) -> None:
        with contextlib.suppress(ConnectionLost):
            self.ended = answer(self._asking, "ssh.exec", params)
        self._ready.set()

    def send(self, channel: int, data: bytes = b"") -> None:
        self.sock.sendall(HEAD.pack(channel, len(data)) + data)

    def receive(self) -> tuple[int, bytes] | None:
        head = self._exactly(HEAD.size)
        if head is None:
            return None
        channel, length = HEAD.unpack(head)
        return channel, self._exactly(length) or b""

    def _exactly(self, count: int) -> bytes | None:
        while len(self._begun) < count:
            part = self.sock.recv(1 << 16)
            if not part:
                return None
            self._begun += part
        taken, self._begun = self._begun[:count], self._begun[count:]
        return taken

    def answered(self) -> Mapping[str, Any]:
        self._call.join(LIMIT_S)
        assert self.ended is not None
        return self.ended

    def __enter__(self) -> Streamed:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()
        self._call.join(LIMIT_S)
        self._asking.close()


def test_frames_by_hand(reached: Reached) -> None:
    with Streamed(reached.broker, "cat; echo aside >&2") as streamed:
        streamed.send(STDIN, b"\x00one")
        assert streamed.receive() == (STDOUT, b"\x00one")
        streamed.send(END)
        assert streamed.receive() == (STDERR, b"aside\n")
        assert streamed.receive() == (END, b"")
        envelope = streamed.answered()
    assert (envelope["ssh"]["exit_status"], envelope["ssh"]["stdout"]["bytes"]) == (0, 4)
    digest = hashlib.sha256(b"\x00one").hexdigest()
    assert envelope["evidence"]["stdin"] == {"bytes": 4, "sha256": f"sha256:{digest}", "complete": True}


def test_a_caller_that_dies_before_its_inputs_end_has_the_command_ended(reached: Reached, tmp_path: Path) -> None:
    """OpenSSH passes signals on only where it separates privileges, which it does not for root."""
    mark = tmp_path / "mark"
    with Streamed(reached.broker, f"cat > {mark}.part && mv {mark}.part {mark}") as streamed:
        streamed.send(STDIN, b"half")
        until(lambda: (tmp_path / "mark.part").exists(), "the command reads")
        streamed.sock.shutdown(socket.SHUT_RDWR)
        envelope = streamed.answered()
    stdin = envelope["evidence"]["stdin"]
    assert (stdin["bytes"], stdin["complete"]) == (4, False)
    if os.geteuid() != 0:
        assert (facts(envelope)["outcome"], envelope["ssh"]["exit_signal"]) == ("committed", "TERM")
        assert not mark.exists()
    else:
        assert (facts(envelope)["outcome"], facts(envelope)["retry"]) == ("unknown", "reconcile")
        assert "input had broken off" in envelope["evidence"]["transport_observation"]


def test_a_command_that_does_not_let_itself_be_ended_is_left_and_unknown(reached: Reached) -> None:
    with Streamed(reached.broker, "trap '' TERM; echo on; sleep 600 </dev/null") as streamed:
        assert streamed.receive() == (STDOUT, b"on\n")
        streamed.sock.shutdown(socket.SHUT_RDWR)
        envelope = streamed.answered()
    assert (facts(envelope)["outcome"], facts(envelope)["code"]) == ("unknown", "REMOTE_RESULT_INCOMPLETE")
    assert "input had broken off" in envelope["evidence"]["transport_observation"]


def test_a_caller_that_does_not_read_costs_little_and_holds_nobody_up(reached: Reached) -> None:
    command = f"head -c {OUTPUT} /dev/zero"
    with growth(reached.broker) as grown, Streamed(reached.broker, command, deadline_s=6) as streamed:
        assert reached.run("-n", "web", "echo other").stdout == b"other\n"
        envelope = streamed.answered()
    assert (facts(envelope)["outcome"], facts(envelope)["code"]) == ("unknown", "REMOTE_DEADLINE")
    assert grown[0] < GROWTH, f"the broker grew by {grown[0] / MIB:.0f} MiB"


@contextlib.contextmanager
def pushing(
    home: Home, work: Path, tmp_path: Path, hook_name: str = "pre-receive"
) -> Iterator[tuple[subprocess.Popen[str], Path, str]]:
    """A push that has begun and cannot end: the server's side waits, with all of it received, before it answers.

    In `pre-receive` no ref has moved yet, in `post-receive` all have.
    """
    origin, clone, gate = tmp_path / "origin.git", tmp_path / "clone", tmp_path / "gate"
    done(git(home, "clone", "-q", "--bare", str(work / "origin.git"), str(origin)))
    done(git(home, "clone", "-q", str(origin), str(clone)))
    hook = origin / "hooks" / hook_name
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/there\nread wait < {gate}\n")
    hook.chmod(0o755)
    os.mkfifo(gate)
    pushed = commit(home, clone, "more", 2 * MIB)
    with subprocess.Popen(
        ["git", "-C", str(clone), "push", "-q", f"ssh://web{origin}", "main"],
        env={**home.environment, "GIT_SSH_COMMAND": " ".join((*CLI, "ssh")), "GIT_CONFIG_GLOBAL": os.devnull},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as push:
        until((tmp_path / "there").exists, "the push has arrived")
        yield push, origin, pushed
    with open(gate, "w"):
        pass  # let the hook go on: it outlived the connection


PUSHES = """id = "git.push"
[match]
kind = "ssh"
host = "*"
command = "git-receive-pack *"
[effect]
kind = "write"
[reconcile]
command = "git ls-remote"
[approval]
mode = "never"
"""


@pytest.mark.parametrize(("hook", "moved"), [("pre-receive", False), ("post-receive", True)])
def test_a_push_whose_server_dies_is_settled_by_the_refs_alone(
    world: World, work: Path, tmp_path: Path, hook: str, moved: bool
) -> None:
    with Sshd(tmp_path / "sshd") as sshd:
        home = home_with_hosts(world.template, sshd, {"push.toml": PUSHES})
        try:
            with home.serve() as broker, pushing(home, work, tmp_path, hook) as (push, origin, pushed):
                before = head(home, work / "origin.git")
                for pid in sshd.servers():
                    os.kill(pid, signal.SIGKILL)
                assert push.wait(LIMIT_S) == 128
                reached = Reached(home, broker, sshd, tmp_path)
                until(lambda: "looked_up" in newest(reached, "git-receive-pack")["evidence"], "a look-up")
                found = newest(reached, "git-receive-pack")
                assert found["evidence"]["reconcile"]["command"] == f"git-upload-pack '{origin}'"
                assert found["evidence"]["stdin"]["updates"] == [["refs/heads/main", before, pushed]]
                assert (head(home, origin) == pushed) is moved
                told = (facts(found)["outcome"], facts(found)["code"], found["evidence"]["looked_up"]["worth"])
                if moved:
                    assert told == ("committed", "SETTLED_BY_QUERY", "settles")
                else:
                    assert told == ("unknown", "REMOTE_RESULT_INCOMPLETE", "absent")
        finally:
            home.remove()


def test_a_push_whose_broker_dies_is_unknown(prepared: Home, work: Path, tmp_path: Path) -> None:
    home = copy_of(prepared)
    try:
        with home.serve() as broker, pushing(home, work, tmp_path) as (push, _, __):
            broker.kill()
            assert push.wait(LIMIT_S) == 128
        with home.serve() as broker:
            found = newest(Reached(home, broker, None, tmp_path), "git-receive-pack")  # type: ignore[arg-type]
            assert (facts(found)["outcome"], facts(found)["code"]) == ("unknown", "BROKER_RESTARTED")
        assert home.intact()
    finally:
        home.remove()


def test_a_broker_that_is_stopped_under_a_stream_leaves_it_to_recovery(prepared: Home, tmp_path: Path) -> None:
    home, command = copy_of(prepared), "echo on; exec sleep 100"
    try:
        with home.serve() as broker, launched(home, "--stream", "web", command, stdin=subprocess.PIPE) as ran:
            assert ran.stdout is not None
            assert ran.stdout.readline() == b"on\n"
            assert broker.stop() == 0
            assert ran.stdin is not None
            ran.stdin.close()
            assert ran.wait(LIMIT_S) == 255
        with home.serve() as broker:
            found = newest(Reached(home, broker, None, tmp_path), "echo on")  # type: ignore[arg-type]
            assert (facts(found)["outcome"], facts(found)["code"]) == ("unknown", "BROKER_RESTARTED")
        assert home.intact()
    finally:
        home.remove()
