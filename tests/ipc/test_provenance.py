"""The walk as a pure function: every tree has one session, and only transparent programs are walked through."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affidavit.broker.session import Process
from affidavit.ipc.provenance import (
    MAX_CHAIN,
    ROLES,
    TRANSPARENT,
    Ours,
    PythonRuns,
    Role,
    Seen,
    closed,
    python_runs,
    role,
    walk,
)

UID = 1000
PYTHON = (1, 100)
SCRIPT = (1, 200)
PACKAGED = (1, 300)
OURS = Ours(frozenset({PACKAGED}), frozenset({PYTHON}), frozenset({SCRIPT}))


def seen(
    pid: int,
    name: str,
    parent: int,
    *argv: str,
    uid: int = UID,
    readable: bool = True,
    started: int | None = None,
    file: tuple[int, int] | None = None,
    script: tuple[int, int] | None = None,
) -> Seen:
    device, inode = file or (9, pid)
    process = Process(pid, pid if started is None else started, name, f"/bin/{name}", "/home/x", device, inode)
    return Seen(process, parent, uid, argv or (name,), readable, script)


def cli(pid: int, parent: int) -> Seen:
    return seen(pid, "python3.11", parent, "python", "/usr/bin/affidavit", "status", file=PYTHON, script=SCRIPT)


def session(*processes: Seen) -> str:
    """The session's process of the last one; the first is the top."""
    tree = {process.process.pid: process for process in processes}
    return walk(tree, processes[-1].process.pid, uid=UID, ours=OURS).process.name


def test_an_agent_that_connects_by_itself() -> None:
    top = seen(10, "systemd", 1)
    assert session(top, seen(20, "claude", 10)) == "claude"


def test_our_command_in_an_agents_shell_belongs_to_the_agent() -> None:
    assert (
        session(
            seen(10, "gnome-terminal-server", 1),
            seen(20, "bash", 10),
            seen(30, "claude", 20),
            seen(40, "bash", 30),
            seen(50, "timeout", 40),
            seen(60, "env", 50),
            cli(70, 60),
        )
        == "claude"
    )


@pytest.mark.parametrize("boundary", ["tmux", "sshd-session", "login", "systemd", "alacritty", "xterm", "su"])
def test_a_command_typed_by_hand_belongs_to_the_shell_below_the_boundary(boundary: str) -> None:
    assert session(seen(10, boundary, 1), seen(20, "zsh", 10), seen(30, "make", 20), cli(40, 30)) == "zsh"


def test_another_user_and_an_unreadable_parent_end_the_walk() -> None:
    assert session(seen(10, "daemon", 1, uid=0), seen(20, "sh", 10), cli(30, 20)) == "sh"
    assert session(seen(10, "hidden", 1, readable=False), seen(20, "sh", 10), cli(30, 20)) == "sh"
    assert session(seen(20, "sh", 10), cli(30, 20)) == "sh"
    assert session(cli(30, 1)) == "python3.11"


def test_the_first_process_is_a_boundary_whatever_its_name() -> None:
    assert session(seen(1, "agent", 0), cli(30, 1)) == "python3.11"


def test_a_younger_parent_is_another_process() -> None:
    assert session(seen(10, "agent", 1, started=99), cli(30, 10)) == "python3.11"


def test_the_chain_says_who_started_the_session_up_to_the_boundary() -> None:
    tree = {
        p.process.pid: p
        for p in (
            seen(5, "systemd", 1),
            seen(10, "konsole", 5),
            seen(20, "bash", 10),
            seen(30, "claude", 20),
            cli(40, 30),
        )
    }
    found = walk(tree, 40, uid=UID, ours=OURS)
    assert (found.peer.pid, found.process.name) == (40, "claude")
    assert [process.name for process in found.chain] == ["bash", "konsole"]


@pytest.mark.parametrize(
    ("process", "expected"),
    [
        (cli(9, 1), Role.OURS),
        (seen(9, "affidavit", 1, file=PACKAGED), Role.OURS),
        (seen(9, "python3", 1, "python", "-m", "affidavit.ipc.cli", "status", file=PYTHON), Role.OURS),
        (seen(9, "python3", 1, "python", "-Im", "affidavit", file=PYTHON), Role.OURS),
        # A name alone makes nobody ours: another interpreter, another script, another module.
        (seen(9, "affidavit", 1), Role.PROGRAM),
        (seen(9, "python3", 1, "python", "/usr/bin/affidavit", script=SCRIPT), Role.PROGRAM),
        (seen(9, "python3", 1, "python", "/tmp/affidavit", file=PYTHON, script=(1, 999)), Role.PROGRAM),
        (seen(9, "python3", 1, "python", "/gone/affidavit", file=PYTHON), Role.PROGRAM),
        (seen(9, "python3", 1, "python", "-m", "affidavit_evil", file=PYTHON), Role.PROGRAM),
        (seen(9, "python3", 1, "python", "-c", "affidavit", file=PYTHON), Role.PROGRAM),
        (seen(9, "python3", 1, "python", "agent.py", "-m", "affidavit", file=PYTHON), Role.PROGRAM),
        (seen(9, "ksh93", 1), Role.SHELL),
        (seen(9, "zsh-5.9", 1), Role.SHELL),
        (seen(9, "bash", 1, "-bash"), Role.SHELL),
        (seen(9, "busybox", 1, "sh", "-c", "x"), Role.SHELL),
        (seen(9, "busybox", 1, "/bin/busybox", "timeout", "5"), Role.LAUNCHER),
        (seen(9, "busybox", 1, "wget"), Role.PROGRAM),
        (seen(9, "coreutils", 1, "env", "x"), Role.LAUNCHER),
        (seen(9, "node", 1, "node", "/usr/bin/npx", "thing"), Role.LAUNCHER),
        (seen(9, "node", 1, "node", "/usr/lib/npm/bin/npm-cli.js"), Role.LAUNCHER),
        (seen(9, "node", 1, "npm exec thing"), Role.LAUNCHER),
        (seen(9, "node", 1, "claude"), Role.PROGRAM),
        (seen(9, "node", 1, "node", "/opt/tmux"), Role.BOUNDARY),
        (seen(9, "python3.11", 1, "/usr/bin/python3", "/usr/bin/terminator"), Role.BOUNDARY),
        (seen(9, "python3.11", 1, "/usr/bin/python3", "/home/x/bash"), Role.PROGRAM),
        (seen(9, "tmux", 1, "tmux: server"), Role.BOUNDARY),
        (seen(9, "i3", 1), Role.BOUNDARY),
        (seen(9, "run0", 1), Role.BOUNDARY),
        (seen(9, "", 1), Role.PROGRAM),
    ],
)
def test_roles(process: Seen, expected: Role) -> None:
    assert role(process, OURS) is expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("python", None),
        ("python -", None),
        ("python -c code", None),
        ("python -I", None),
        ("python a.py -m b", PythonRuns("a.py", module=False)),
        ("python -I -B a.py", PythonRuns("a.py", module=False)),
        ("python -IB -X dev -W error a.py", PythonRuns("a.py", module=False)),
        ("python -Xdev -Werror a.py", PythonRuns("a.py", module=False)),
        ("python -- a.py", PythonRuns("a.py", module=False)),
        ("python -m a.b c", PythonRuns("a.b", module=True)),
        ("python -ma.b", PythonRuns("a.b", module=True)),
        ("python -Ima.b", PythonRuns("a.b", module=True)),
        ("python -m", None),
    ],
)
def test_python_command_lines(line: str, expected: PythonRuns | None) -> None:
    assert python_runs(tuple(line.split())) == expected


NAMES = st.sampled_from([*ROLES, "claude", "node", "python3.11", "busybox", "agent"])


@st.composite
def trees(draw: st.DrawFn) -> dict[int, Seen]:
    """Any processes with any parents, cycles and strangers included."""
    pids = draw(st.lists(st.integers(1, 40), min_size=1, max_size=12, unique=True))
    return {
        pid: seen(
            pid,
            draw(NAMES),
            draw(st.integers(0, 40)),
            *draw(st.lists(st.sampled_from(["sh", "npx", "-m", "affidavit", "x.py", ""]), max_size=3)),
            uid=draw(st.sampled_from([UID, UID, UID, 0])),
            readable=draw(st.integers(0, 4)) > 0,
            started=draw(st.integers(1, 5)),
            file=draw(st.sampled_from([None, PYTHON, PACKAGED])),
            script=draw(st.sampled_from([None, SCRIPT])),
        )
        for pid in pids
    }


@given(trees(), st.data())
def test_every_walk_ends_where_the_rules_say(tree: dict[int, Seen], data: st.DataObject) -> None:
    peer = data.draw(st.sampled_from(sorted(tree)))
    found = walk(tree, peer, uid=UID, ours=OURS)
    line = [tree[peer]]  # the way up, by definition
    while line[-1].process.pid != found.process.pid:
        line.append(tree[line[-1].parent])
        assert len(line) <= MAX_CHAIN
    for below in line[:-1]:
        assert role(below, OURS) in TRANSPARENT
    for above in line[1:]:
        assert not closed(above, uid=UID, ours=OURS)
        assert above.uid == UID
    top = line[-1]
    if role(top, OURS) in TRANSPARENT and (over := tree.get(top.parent)) is not None and len(line) < MAX_CHAIN:
        assert closed(over, uid=UID, ours=OURS) or over.process.started > top.process.started or over in line
    assert len(found.chain) < MAX_CHAIN


@given(trees(), st.data())
def test_a_lying_peer_gets_only_itself_or_an_ancestor(tree: dict[int, Seen], data: st.DataObject) -> None:
    """Whatever a process says of itself, its session is its own or one above it: never a sibling's, never a child's."""
    peer = data.draw(st.sampled_from(sorted(tree)))
    found = walk(tree, peer, uid=UID, ours=OURS)
    ancestors, at = {peer}, tree[peer]
    while at.parent in tree and at.parent not in ancestors:
        at = tree[at.parent]
        ancestors.add(at.process.pid)
    assert found.process.pid in ancestors
