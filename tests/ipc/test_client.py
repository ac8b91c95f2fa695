"""The client against the real server, run in a thread as commands run it, and against servers that misbehave."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted_ipc import PASSPHRASE, Doors, envelope

from affidavit.broker.api import ActionError
from affidavit.broker.home import Places
from affidavit.ipc import conversation
from affidavit.ipc.client import (
    ActionFailed,
    Client,
    ConnectionLost,
    NoAnswer,
    NotReachable,
    RpcError,
    new_operation_id,
    run_directory,
)

T = TypeVar("T")
REQUEST = {"method": "GET", "url": "https://api.example.com/"}


async def with_client(doors: Doors, use: Callable[[Client], T], name: str = "agent") -> T:
    """Run `use` in a thread, with a client of one of the sockets."""

    def run() -> T:
        with Client(str(doors.directory / f"{name}.sock"), timeout_s=20) as client:
            return use(client)

    return await asyncio.to_thread(run)


async def test_a_call(doors: Doors) -> None:
    assert await with_client(doors, lambda client: client.call("http.request", REQUEST)) == envelope()


async def test_a_refused_call(doors: Doors) -> None:
    with pytest.raises(RpcError) as refused:
        await with_client(doors, lambda client: client.call("action.get", {}))
    assert (refused.value.code, refused.value.data) == (-32602, {"field": "invocation_id"})


async def test_a_failed_action_carries_its_envelope(doors: Doors) -> None:
    def failed(method: str, params: object) -> dict[str, object]:
        raise ActionError(envelope("act_5", "error", code="BUSY", message="Too many."))

    doors.broker.reply = failed
    with pytest.raises(ActionFailed, match=r"BUSY: Too many\.") as raised:
        await with_client(doors, lambda client: client.call("http.request", REQUEST))
    assert raised.value.envelope["invocation_id"] == "act_5"


async def test_a_batch_in_order_with_its_failures_in_place(doors: Doors) -> None:
    answers = await with_client(
        doors, lambda client: client.batch([("status", None), ("no.such", {}), ("http.request", REQUEST)])
    )
    assert answers[0]["vault"] == "locked"
    assert isinstance(answers[1], RpcError)
    assert answers[2] == envelope()
    assert await with_client(doors, lambda client: client.batch([])) == []


async def test_a_batch_that_is_refused_whole(doors: Doors) -> None:
    with pytest.raises(RpcError, match="32"):
        await with_client(doors, lambda client: client.batch([("status", None)] * 33))


async def test_notifications_come_in_between(doors: Doors) -> None:
    heard: list[tuple[str, object]] = []

    def use(client: Client) -> object:
        client.on_notification(lambda method, params: heard.append((method, params)))
        client.call("session.hello", {"client": "me"})
        return client.call("http.request", REQUEST)

    def news(method: str, params: object) -> dict[str, object]:
        for listeners in doors.broker.listeners.values():
            for listener in listeners:
                listener({"invocation_id": "act_1"})
        return envelope()

    doors.broker.reply = news
    doors.broker.hold = True
    asked = asyncio.create_task(with_client(doors, use))
    await doors.broker.until(lambda: len(doors.broker.waiting) == 1)
    ((listener,),) = doors.broker.listeners.values()
    listener({"invocation_id": "act_1"})
    other = await doors.connect()
    await other.ask("status")  # by now the notification is written
    doors.broker.answer_all()
    await asked
    assert heard[0] == ("action.changed", {"invocation_id": "act_1"})
    other.close()


async def test_a_timeout_leaves_the_client_usable(doors: Doors) -> None:
    doors.broker.hold = True

    def use(client: Client) -> object:
        with pytest.raises(NoAnswer, match=r"0\.05 s"):
            client.call("http.request", REQUEST, timeout_s=0.05)
        return client.call("status")  # the late answer to the first call is not taken for this one

    async def release() -> None:
        await doors.broker.until(lambda: len(doors.broker.waiting) == 1)

    answer, _ = await asyncio.gather(with_client(doors, use), release())
    assert answer == {"version": "0", "vault": "locked", "journal": "ok"}


async def test_a_passphrase_is_sent_from_bytes_that_stay_the_callers(doors: Doors) -> None:
    words = bytearray(PASSPHRASE)
    assert await with_client(doors, lambda c: c.call("vault.unlock", {"passphrase": words}), "operator") == {
        "vault": "ready"
    }
    assert words == PASSPHRASE


async def test_what_was_sent_is_overwritten(doors: Doors) -> None:
    frames: list[bytearray] = []

    class Spy(socket.socket):
        def sendall(self, frame: bytearray) -> None:  # type: ignore[override]
            super().sendall(frame)
            frames.append(frame)

    def use(client: Client) -> None:
        client._socket = Spy(fileno=client._socket.detach())
        client.call("vault.unlock", {"passphrase": bytearray(PASSPHRASE)})

    await with_client(doors, use, "operator")
    assert frames == [bytearray(len(frames[0]))]


async def test_being_refused_is_said_as_the_server_said_it(doors: Doors) -> None:
    full = [await doors.connect() for _ in range(64)]
    for raw in full:
        await raw.ask("status")
    with pytest.raises(RpcError, match="64 connections"):
        await with_client(doors, lambda client: client.call("status"))
    for raw in full:
        raw.close()


def served(path: Path, serve: Callable[[socket.socket], None]) -> threading.Thread:
    """A server of one connection."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()

    def run() -> None:
        with listener:
            accepted, _ = listener.accept()
            with accepted:
                serve(accepted)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_a_connection_that_ends_says_that_it_proves_nothing(tmp_path: Path) -> None:
    thread = served(tmp_path / "s", lambda accepted: accepted.recv(1000) and None)
    with Client(str(tmp_path / "s")) as client, pytest.raises(ConnectionLost, match="proves nothing"):
        client.call("http.request", REQUEST)
    thread.join()


def test_an_endless_answer_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "ANSWER_BYTES", 100_000)

    def endless(accepted: socket.socket) -> None:
        try:
            while True:
                accepted.sendall(b"x" * 10_000)
        except OSError:
            pass

    thread = served(tmp_path / "s", endless)
    with Client(str(tmp_path / "s")) as client, pytest.raises(ConnectionLost):
        client.call("status")
    thread.join()


def test_nobody_there(tmp_path: Path) -> None:
    with pytest.raises(NotReachable, match="does not exist"):
        Client.agent({"AFFIDAVIT_HOME": str(tmp_path)})
    (tmp_path / "run").mkdir(mode=0o700)
    with pytest.raises(NotReachable, match="No such file"):
        Client.operator({"AFFIDAVIT_HOME": str(tmp_path)})


def test_a_lax_run_directory_is_given_nothing(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run").chmod(0o755)
    with pytest.raises(NotReachable, match="open to other users") as refused:
        Client.operator({"AFFIDAVIT_HOME": str(tmp_path)})
    assert refused.value.remedy == f"chmod 700 {tmp_path}/run"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_another_users_server_is_given_nothing(tmp_path: Path) -> None:
    for directory in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        directory.chmod(0o777)
    script = (
        "import socket,sys\nl=socket.socket(socket.AF_UNIX)\nl.bind(sys.argv[1])\nl.listen()\nprint('up',flush=True)\n"
        "print(l.accept()[0].recv(100))"
    )
    server = subprocess.Popen(
        [
            "setpriv",
            "--reuid",
            "65534",
            "--clear-groups",
            "/usr/bin/env",
            "python3",
            "-I",
            "-c",
            script,
            tmp_path / "s",
        ],
        stdout=subprocess.PIPE,
    )
    assert server.stdout is not None
    assert server.stdout.readline() == b"up\n"
    with pytest.raises(NotReachable, match="served by user 65534"):
        Client(str(tmp_path / "s"))
    assert server.communicate(timeout=20)[0] == b"b''\n"
    (tmp_path / "run").mkdir(mode=0o700)
    os.chown(tmp_path / "run", 65534, 65534)
    with pytest.raises(NotReachable, match="belongs to user 65534"):
        Client.agent({"AFFIDAVIT_HOME": str(tmp_path)})


async def test_affidavit_socket_is_for_the_agent_socket_alone(doors: Doors, tmp_path: Path) -> None:
    environ = {"AFFIDAVIT_SOCKET": str(doors.directory / "agent.sock"), "AFFIDAVIT_HOME": str(tmp_path / "none")}

    def use() -> object:
        with Client.agent(environ, timeout_s=20) as client:
            return client.call("status")

    assert (await asyncio.to_thread(use))["vault"] == "locked"  # type: ignore[index]
    with pytest.raises(NotReachable):
        Client.operator(environ)


PATHS = st.sampled_from(["", "/a", "/a/b", "relative", "/with space"])


@given(st.dictionaries(st.sampled_from(["XDG_RUNTIME_DIR", "XDG_STATE_HOME", "HOME", "XDG_DATA_HOME"]), PATHS))
def test_the_run_directory_is_that_of_the_home(environ: dict[str, str]) -> None:
    assert run_directory(environ) == str(Places.from_environment(environ).run)


@pytest.mark.parametrize("home", ["/h", "h", "/h/../i", "./h/"])
def test_the_run_directory_of_a_named_home(home: str) -> None:
    environ = {"AFFIDAVIT_HOME": home, "XDG_RUNTIME_DIR": "/run/user/0"}
    assert run_directory(environ) == str(Places.from_environment(environ).run)


def test_operation_ids_are_unique_and_well_formed() -> None:
    made = {new_operation_id() for _ in range(1000)}
    assert len(made) == 1000
    assert all(id_.startswith("op_") and len(id_) == 27 for id_ in made)


def test_it_loads_nothing_more_than_a_bare_client() -> None:
    script = (
        "import sys, socket, json, stat, struct\nbefore = set(sys.modules)\nimport affidavit.ipc.client\n"
        "print(sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    ours = ["affidavit", "affidavit.ipc", *(f"affidavit.ipc.{name}" for name in ("client", "conversation", "verdict"))]
    assert done.stdout.strip() == str(["__future__", *ours])
