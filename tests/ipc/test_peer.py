"""Peers by the kernel, with real processes: through shells and launchers, over forks, ends and reused sockets."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from scripted_ipc import Doors, ScriptedBroker

from affidavit.broker.session import Process
from affidavit.ipc import peer, proc
from affidavit.ipc.agent_calls import AgentCalls
from affidavit.ipc.provenance import Ours
from affidavit.ipc.server import Server
from affidavit.ipc.sessions import session_id

CLI = """
    import json, os, socket, sys
    s = socket.socket(socket.AF_UNIX)
    s.connect(sys.argv[1])
    f = s.makefile("rwb")
    def call(method, params={}):
        f.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode() + b"\\n")
        f.flush()
        return json.loads(f.readline() or b"null")
"""
HELLO = (
    CLI
    + """
    print(call("session.hello")["result"]["session_id"], flush=True)
    command = os.pidfd_open(os.getpid())
    if sys.argv[2:] == ["fork"] and os.fork() == 0:
        import select
        select.select([command], [], [])  # until the one that connected has ended
        print(call("http.request", {"method": "GET", "url": "https://x/"}), flush=True)
"""
)
AGENT = (
    HELLO
    + """
    import subprocess
    for line in sys.argv[2:]:
        subprocess.run(line, shell=True, check=True)
    sys.stdin.readline()
"""
)


class Agents:
    """Runs programs against an agent socket whose broker takes `cli.py` for one of ours."""

    def __init__(self, directory: Path, broker: ScriptedBroker) -> None:
        self.directory = directory
        self.cli = self.write("cli.py", HELLO)
        script = self.cli.stat()
        ours = Ours(interpreters=proc.ours().interpreters, scripts=frozenset({(script.st_dev, script.st_ino)}))
        self.doors = Doors(broker, directory)
        self.server = Server(
            directory / "ours.sock", AgentCalls(broker, self.doors.sessions, ours), connections=64, line=1 << 20
        )
        self.server.start()
        self.socket = directory / "ours.sock"
        self.processes: list[asyncio.subprocess.Process] = []

    def write(self, name: str, text: str) -> Path:
        path = self.directory / name
        path.write_text(textwrap.dedent(text))
        return path

    @property
    def command(self) -> str:
        return f"{sys.executable} -I {self.cli} {self.socket}"

    async def start(self, *words: str) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            *words, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        self.processes.append(process)
        return process

    async def agent(self, *lines: str) -> asyncio.subprocess.Process:
        """An agent that connects, then runs these shell lines, then waits for a line of input."""
        script = self.write("agent.py", AGENT)
        return await self.start(sys.executable, "-I", str(script), str(self.socket), *lines)

    async def close(self) -> None:
        for process in self.processes:
            if process.returncode is None:
                process.kill()
            await process.communicate()
        await self.server.close(grace_s=0)
        self.doors.sessions.close()


@pytest.fixture
async def agents(broker: ScriptedBroker, tmp_path: Path) -> AsyncIterator[Agents]:
    made = Agents(tmp_path, broker)
    try:
        yield made
    finally:
        await made.close()


async def word(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    return (await asyncio.wait_for(process.stdout.readline(), 30)).decode().strip()


async def test_our_command_has_the_session_of_the_agent_that_started_it(agents: Agents) -> None:
    agent = await agents.agent(
        agents.command,
        f"sh -c 'env A=1 timeout 20 nice {agents.command}; true'",
        f"bash -c '(exec nohup {agents.command}) 2>/dev/null; true'",
    )
    own = await word(agent)
    assert own == session_id(proc.read(agent.pid, Ours()).process, proc.boot_id())
    assert [await word(agent) for _ in range(3)] == [own] * 3
    (session,) = agents.doors.broker.sessions.values()
    assert session.provenance.process.pid == agent.pid
    assert session.provenance.process.cwd == os.getcwd()


async def test_another_script_under_our_interpreter_is_an_agent_of_its_own(agents: Agents) -> None:
    other = agents.write("affidavit", HELLO)
    agent = await agents.agent(f"{sys.executable} -I {other} {agents.socket}")
    assert await word(agent) != await word(agent)
    assert len(agents.doors.broker.sessions) == 2


async def test_a_session_ends_with_its_process_not_with_its_connection(agents: Agents) -> None:
    broker = agents.doors.broker
    agent = await agents.agent(agents.command)
    own = await word(agent)
    await word(agent)
    assert broker.ended == []  # the command's connection has come and gone
    agent.kill()
    await broker.until(lambda: broker.ended == [own])


async def test_a_child_that_kept_its_dead_parents_socket_is_nobody(agents: Agents) -> None:
    script = agents.write(
        "fork.py",
        CLI
        + """
    print(call("session.hello")["result"]["session_id"], flush=True)
    if os.fork() == 0:
        sys.stdin.readline()
        print(call("http.request", {"method": "GET", "url": "https://x/"}), flush=True)
    os._exit(0)
    """,
    )
    parent = await agents.start(sys.executable, "-I", str(script), str(agents.socket))
    await word(parent)
    broker = agents.doors.broker
    await broker.until(lambda: len(broker.ended) == 1)
    assert parent.stdin is not None
    parent.stdin.write(b"go\n")
    assert await word(parent) == "None"
    assert broker.log == []


async def test_nor_is_the_child_of_a_command_whose_agent_still_lives(agents: Agents) -> None:
    agent = await agents.agent(f"{agents.command} fork")
    own = await word(agent)
    assert await word(agent) == own
    assert await word(agent) == "None"
    assert agents.doors.broker.log == []
    assert agents.doors.broker.ended == []


async def test_who_asked_nothing_left_no_record(agents: Agents) -> None:
    silent = agents.write("silent.py", CLI + "    sys.stdin.readline()\n")
    process = await agents.start(sys.executable, "-I", str(silent), str(agents.socket))
    agent = await agents.agent()
    own = await word(agent)
    await process.communicate(b"end\n")
    agent.kill()
    await agents.doors.broker.until(lambda: bool(agents.doors.broker.ended))
    assert agents.doors.broker.ended == [own]


def test_a_parent_that_is_not_confirmed_by_its_child_is_no_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    real, asked = proc._stat, list[int]()

    def adopted_meanwhile(pid: int) -> tuple[int, int, str]:
        parent, started, name = real(pid)
        asked.append(pid)
        return (1 if asked.count(pid) > 1 else parent), started, name

    assert len(proc.tree(os.getpid(), uid=os.geteuid(), ours=Ours())) > 1
    monkeypatch.setattr(proc, "_stat", adopted_meanwhile)
    assert list(proc.tree(os.getpid(), uid=os.geteuid(), ours=Ours())) == [os.getpid()]


async def test_a_session_is_the_same_for_a_restarted_broker(agents: Agents) -> None:
    process = Process(5, 77, "agent")
    first = session_id(process, "boot")
    assert first == session_id(Process(5, 77, "renamed", exe="/other"), "boot")
    assert len({first, session_id(Process(5, 78, "x"), "boot"), session_id(process, "other boot")}) == 3


async def test_a_dead_peer_is_refused(tmp_path: Path) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "s"))
    listener.listen()
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-c", f"import socket; socket.socket(socket.AF_UNIX).connect({str(tmp_path / 's')!r})"
    )
    await child.wait()
    accepted, _ = listener.accept()
    with listener, accepted, pytest.raises(peer.PeerRefused, match="ended"):
        peer.identify(accepted, Ours())


def test_without_a_pidfd_from_the_socket_the_pid_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer, "_SO_PEERPIDFD", 9999)  # as on a kernel that does not know it
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        found = peer.identify(ours, Ours())
        assert found.provenance.peer.pid == os.getpid()
        assert found.alive
        found.close()
        found.close()


def test_identifying_leaks_no_descriptor() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX)
    with ours, theirs:
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(5):
            peer.identify(ours, Ours()).close()
        assert len(os.listdir("/proc/self/fd")) == before


async def test_any_name_can_stand_in_a_stat_line(tmp_path: Path) -> None:
    odd = tmp_path / "a) S 1 1 1"
    odd.symlink_to(os.readlink("/proc/self/exe"))
    process = await asyncio.create_subprocess_exec(
        odd, "-I", "-S", "-c", "import sys; sys.stdin.read()", stdin=asyncio.subprocess.PIPE
    )
    assert proc.read(process.pid, Ours()).parent == os.getpid()
    process.kill()
    await process.communicate()
    with pytest.raises(proc.Gone):
        proc.read(process.pid, Ours())


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
async def test_another_users_process_ends_the_walk() -> None:
    process = await asyncio.create_subprocess_exec(
        "setpriv", "--reuid", "65534", "--clear-groups", "cat", stdin=asyncio.subprocess.PIPE, stdout=-1
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"x")
    await process.stdout.read(1)  # cat runs: the change of user is done
    assert proc.read(process.pid, Ours()).uid == 65534
    process.kill()
    await process.communicate()


def test_the_interpreter_and_the_script_beside_it_are_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    found = proc.ours()
    real = os.stat(os.path.realpath(sys.executable))
    assert found.interpreters == {(real.st_dev, real.st_ino)}
    assert len(found.scripts) == 1
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert proc.ours().programs == {(real.st_dev, real.st_ino)}


def test_a_hardened_process_reads_its_callers_and_hides_from_them() -> None:
    """Not as root, which nothing is hidden from."""
    script = (
        "import os, subprocess, sys\n"
        "from affidavit.broker.hardening import harden\n"
        "from affidavit.ipc import proc\n"
        "from affidavit.ipc.provenance import Ours\n"
        "child = subprocess.Popen(['cat'], stdin=subprocess.PIPE)\n"
        "harden()\n"
        "hidden = os.fork()\n"
        "if not hidden:\n"
        "    sys.stdin.read()\n"
        "    os._exit(0)\n"
        "other = subprocess.run(['readlink', f'/proc/{os.getpid()}/exe'], capture_output=True).returncode\n"
        "print(proc.read(child.pid, Ours()).readable, proc.read(hidden, Ours()).readable, other)\n"
        "child.communicate()\n"
    )
    become = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"] if os.geteuid() == 0 else []
    done = subprocess.run(
        [*become, sys.executable, "-P", "-c", script], input="", capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "True False 1\n", done.stderr
