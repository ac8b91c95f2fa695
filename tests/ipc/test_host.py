"""A running home: what it takes before it starts, and the order in which it ends."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import sys
from pathlib import Path

import pytest
from scripted_ipc import RawClient, ScriptedHostBroker, envelope

from affidavit.broker.home import HomeBusy, HomeLock, HomeRefused, Places
from affidavit.ipc.client import Client
from affidavit.ipc.host import SWITCH_S, NotInitialised, home_name, running


def initialised(directory: Path) -> Places:
    """A home whose files are there; nothing in this room reads them."""
    places = Places.at(directory, named_by="AFFIDAVIT_HOME")
    places.data.mkdir(parents=True, mode=0o700)
    for path in (places.vault, places.vault_head, places.journal):
        path.touch(mode=0o600)
    return places


class Opened:
    """An `open_broker` that remembers what it opened."""

    def __init__(self) -> None:
        self.broker = ScriptedHostBroker()
        self.times = 0

    async def __call__(self, places: Places) -> ScriptedHostBroker:
        self.times += 1
        return self.broker


async def test_it_serves_while_it_runs_and_leaves_nothing(tmp_path: Path) -> None:
    places = initialised(tmp_path)
    opened = Opened()
    async with running(places, open_broker=opened, program="testing", raise_window=lambda: True):  # type: ignore[arg-type]
        environ = {"AFFIDAVIT_HOME": str(tmp_path)}

        def use() -> list[object]:
            with Client.agent(environ, timeout_s=20) as agent, Client.operator(environ, timeout_s=20) as operator:
                return [agent.call("status"), operator.call("operator.hello"), operator.call("app.raise")]

        status, hello, raised = await asyncio.to_thread(use)
        assert status == {"version": "0", "vault": "locked", "journal": "ok"}
        assert isinstance(hello, dict)
        assert (hello["home"], hello["home_from"], hello["program"]) == (str(tmp_path), "AFFIDAVIT_HOME", "testing")
        assert hello["pid"] == os.getpid()
        assert raised == {"raised": True}
        with pytest.raises(HomeBusy, match="testing"):
            async with running(places, open_broker=opened, program="testing"):  # type: ignore[arg-type]
                pass
    assert opened.times == 1
    assert opened.broker.steps == ["shutdown quit", "close"]
    assert list(places.run.iterdir()) == []
    HomeLock(places, program="after").acquire()


async def test_calls_get_their_answers_before_the_sockets_close(tmp_path: Path) -> None:
    places = initialised(tmp_path)
    opened = Opened()
    opened.broker.agent.hold = True
    async with running(places, open_broker=opened, program="testing"):  # type: ignore[arg-type]
        client = RawClient(socket.socket(socket.AF_UNIX))
        client.sock.setblocking(False)
        await client.loop.sock_connect(client.sock, str(places.agent_socket))
        await client.send(client.line("http.request", {"method": "GET"}))
        await opened.broker.agent.until(lambda: len(opened.broker.agent.waiting) == 1)
    assert (await client.recv())["result"] == envelope()
    assert await client.recv() is None
    assert opened.broker.agent.deliveries == [("act_1", True)]
    client.close()


async def test_the_interpreter_is_set_for_two_threads_while_it_runs(tmp_path: Path) -> None:
    before = sys.getswitchinterval(), gc.get_freeze_count()
    async with running(initialised(tmp_path), open_broker=Opened(), program="testing"):  # type: ignore[arg-type]
        assert sys.getswitchinterval() == pytest.approx(SWITCH_S)
        assert gc.get_freeze_count() > before[1]
    assert (sys.getswitchinterval(), gc.get_freeze_count()) == before


async def test_before_init_there_is_nothing(tmp_path: Path) -> None:
    places = Places.at(tmp_path / "home")
    with pytest.raises(NotInitialised) as missing:
        async with running(places, open_broker=Opened(), program="testing"):  # type: ignore[arg-type]
            pass
    assert "affidavit init" in missing.value.remedy
    assert not (tmp_path / "home").exists()


async def test_half_a_home_is_not_made_anew(tmp_path: Path) -> None:
    places = initialised(tmp_path)
    places.vault.unlink()
    with pytest.raises(NotInitialised, match="missing"):
        async with running(places, open_broker=Opened(), program="testing"):  # type: ignore[arg-type]
            pass


async def test_a_lax_run_directory_is_refused(tmp_path: Path) -> None:
    places = initialised(tmp_path)
    places.run.mkdir()
    places.run.chmod(0o755)
    with pytest.raises(HomeRefused, match="chmod 700"):
        async with running(places, open_broker=Opened(), program="testing"):  # type: ignore[arg-type]
            pass


async def test_what_fails_inside_comes_out_as_it_is_after_an_orderly_end(tmp_path: Path) -> None:
    opened = Opened()
    with pytest.raises(LookupError, match="inside"):
        async with running(initialised(tmp_path), open_broker=opened, program="testing"):  # type: ignore[arg-type]
            raise LookupError("inside")
    assert opened.broker.steps == ["shutdown quit", "close"]


async def test_a_broker_that_does_not_open_leaves_the_home_free(tmp_path: Path) -> None:
    places = initialised(tmp_path)

    async def broken(places: Places) -> ScriptedHostBroker:
        raise LookupError("journal")

    with pytest.raises(LookupError):
        async with running(places, open_broker=broken, program="testing"):  # type: ignore[arg-type]
            pass
    HomeLock(places, program="after").acquire()
    assert not places.agent_socket.exists()


def test_a_home_is_called_by_the_directory_that_was_named(tmp_path: Path) -> None:
    assert home_name(Places.at(tmp_path, named_by="AFFIDAVIT_HOME")) == str(tmp_path)
    assert home_name(Places.from_environment({"HOME": "/h"})) == "/h/.local/share/affidavit"
