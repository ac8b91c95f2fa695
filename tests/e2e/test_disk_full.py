"""A disk that is really full: a small file system of its own under the home's data (R23, R43; architecture, Journal).

At the dispatch record nothing is sent; between request and result the outcome is unknown, and stays so after there is
room again; with the ballast the verdict is still recorded.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.conftest import World
from tests.e2e.rig import LIMIT_S, Envelope, Home, answer, facts, new_operation, until
from tests.e2e.target import Call

from affidavit.ipc.client import Client

MIB = 1024 * 1024
SMALL = 16 * MIB
"""Too small for a ballast."""
ROOMY = 160 * MIB
"""Room for the ballast and for what must be free besides."""

Mounted = Callable[[int], Home]


def mount(size: int, where: Path) -> bool:
    """Put an empty file system of `size` bytes there; False where that is not allowed."""
    words = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "tmpfs", str(where)]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


@pytest.fixture
def mounted(home: Home) -> Iterator[Mounted]:
    """Gives the home's data a disk of its own; what the operator keeps free is nothing, so that it can be filled."""
    data = home.places.data

    def on(size: int) -> Home:
        assert home.operate("settings", "set", "limit.free_space", "0").status == 0
        aside = home.root / "aside"
        data.rename(aside)
        data.mkdir(mode=0o700)
        if not mount(size, data):
            pytest.skip("no file system can be mounted here (that takes root)")
        shutil.copytree(aside, data, dirs_exist_ok=True)
        return home

    yield on
    subprocess.run(["umount", "--lazy", str(data)], capture_output=True, check=False)


class Filler:
    """A file that takes whatever is free."""

    def __init__(self, home: Home) -> None:
        self._path = home.places.data / "filler"

    def fill(self, but: int = 0) -> None:
        """Leave `but` bytes free."""
        file = os.open(self._path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        try:
            for size in (MIB, 4096):
                block = bytes(size)
                while free(self._path) - size >= but:
                    os.write(file, block)
        finally:
            os.close(file)
        assert free(self._path) < but + 4096

    def free(self) -> None:
        self._path.unlink()


def free(path: Path) -> int:
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize


def params(world: World, path: str, operation_id: str, **more: Any) -> dict[str, Any]:
    url = f"http://127.0.0.1:{world.target.port}{path}"
    return {"method": "POST", "url": url, "operation_id": operation_id, "wait_s": LIMIT_S, **more}


def told(found: Envelope) -> tuple[str, str]:
    return facts(found)["outcome"], facts(found)["code"]


def alerts(agent: Client) -> set[str]:
    return {alert["which"] for alert in agent.call("status")["alerts"]}


def test_full_at_the_dispatch_record(mounted: Mounted, world: World) -> None:
    home, operation_id = mounted(SMALL), new_operation()
    path = f"/full/{operation_id}"
    filler = Filler(home)
    with home.serve() as broker, broker.agent() as agent:
        filler.fill()
        found = answer(agent, "http.request", params(world, path, operation_id))
        assert told(found) == ("not_attempted", "JOURNAL_UNAVAILABLE")
        assert facts(found)["retry"] == "after_correction"
        assert found["evidence"]["dispatch_started"] is False
        assert agent.call("status")["journal"] == "poisoned"
        until(lambda: "journal" in alerts(agent), "the operator is told")
        after = answer(agent, "http.request", params(world, path, new_operation()))
        assert told(after) == ("not_attempted", "JOURNAL_UNAVAILABLE")
        assert world.target.arrivals(path) == []
        broker.stop()
    filler.free()
    with home.serve() as broker, broker.agent() as agent:
        assert agent.call("status")["journal"] == "ok"
        again = answer(agent, "http.request", params(world, path, operation_id))
        assert told(again) == ("committed", "REMOTE_RESULT")
        assert len(world.target.arrivals(path)) == 1
    assert home.intact()


def hold_then(*, body: bytes) -> Callable[[Call], None]:
    def script(call: Call) -> None:
        call.hold()
        call.answer(201, body)

    return script


def sent(world: World, agent: Client, path: str, operation_id: str) -> Call:
    """A write that has arrived and waits for its answer."""
    pending = answer(agent, "http.request", params(world, path, operation_id, wait_s=0))
    assert "pending" in pending, pending
    (call,) = world.target.calls(path)
    assert call.reached.wait(LIMIT_S)
    return call


def waited(agent: Client, operation_id: str) -> Envelope:
    known = answer(agent, "action.get", {"operation_id": operation_id})
    return answer(agent, "action.wait", {"invocation_id": known["invocation_id"], "wait_s": LIMIT_S})


def unknown_for_good(home: Home, world: World, path: str, operation_id: str, code: str) -> None:
    """After a restart with room again: unknown, and not sent again."""
    with home.serve() as broker, broker.agent() as agent:
        assert agent.call("status")["journal"] == "ok"
        assert agent.call("status")["unknown"] == 1
        found = answer(agent, "action.get", {"operation_id": operation_id})
        assert told(found) == ("unknown", code)
        assert found["evidence"]["dispatch_started"] is True
        again = answer(agent, "http.request", params(world, path, operation_id))
        assert again["invocation_id"] == found["invocation_id"]
        assert told(again) == ("unknown", code)
        assert len(world.target.arrivals(path)) == 1
    assert home.intact()


@pytest.mark.parametrize("size", [10, MIB], ids=["small answer", "large answer"])
def test_full_between_request_and_result(size: int, mounted: Mounted, world: World) -> None:
    home, operation_id = mounted(SMALL), new_operation()
    path = f"/full/{operation_id}"
    world.target.scripts[path] = hold_then(body=b"." * size)
    filler = Filler(home)
    with home.serve() as broker, broker.agent() as agent:
        call = sent(world, agent, path, operation_id)
        filler.fill()
        call.release.set()
        found = waited(agent, operation_id)
        assert told(found) == ("unknown", "RESULT_STORAGE_FAILED")
        assert (facts(found)["phase"], facts(found)["retry"]) == ("result_delivery", "reconcile")
        assert agent.call("status")["journal"] == "poisoned"
        until(lambda: {"storage", "journal"} <= alerts(agent), "the operator is told")
        again = answer(agent, "http.request", params(world, path, operation_id))
        assert told(again) == ("unknown", "RESULT_STORAGE_FAILED")
        other = answer(agent, "http.request", params(world, path, new_operation(), body="another"))
        assert told(other) == ("not_attempted", "JOURNAL_UNAVAILABLE")
        assert len(world.target.arrivals(path)) == 1
        broker.stop()
    filler.free()
    unknown_for_good(home, world, path, operation_id, "BROKER_RESTARTED")


def test_room_for_the_record_and_none_for_the_answer(mounted: Mounted, world: World) -> None:
    home, operation_id = mounted(SMALL), new_operation()
    path = f"/full/{operation_id}"
    world.target.scripts[path] = hold_then(body=b"." * (2 * MIB))
    filler = Filler(home)
    with home.serve() as broker, broker.agent() as agent:
        call = sent(world, agent, path, operation_id)
        filler.fill(but=MIB)
        call.release.set()
        found = waited(agent, operation_id)
        assert told(found) == ("unknown", "RESULT_STORAGE_FAILED")
        assert agent.call("status")["journal"] == "ok"
        assert "storage" in alerts(agent)
        broker.stop()
    filler.free()
    unknown_for_good(home, world, path, operation_id, "RESULT_STORAGE_FAILED")


def test_the_ballast_keeps_room_for_a_verdict(mounted: Mounted, world: World) -> None:
    home, operation_id = mounted(ROOMY), new_operation()
    path = f"/full/{operation_id}"
    world.target.scripts[path] = hold_then(body=b"done")
    filler, ballast = Filler(home), home.places.data / "ballast"
    with home.serve() as broker, broker.agent() as agent:
        until(ballast.exists, "a ballast is made")
        call = sent(world, agent, path, operation_id)
        filler.fill()
        call.release.set()
        found = waited(agent, operation_id)
        assert told(found) == ("committed", "REMOTE_RESULT")
        assert not ballast.exists()
        # A dispatch may go by a look at the disk that is a second old; then it is refused.
        until(lambda: refused_now(world, agent), "nothing is sent any more")
        assert "storage" in alerts(agent)
        assert len(world.target.arrivals(path)) == 1
        broker.kill()
    filler.free()
    with home.serve() as broker, broker.agent() as agent:
        assert told(answer(agent, "action.get", {"operation_id": operation_id})) == ("committed", "REMOTE_RESULT")
        assert not refused_now(world, agent)
        assert len(world.target.arrivals(path)) == 1
    assert home.intact()


def refused_now(world: World, agent: Client) -> bool:
    """Whether another write is refused for want of room; else it is sent and answered."""
    operation_id = new_operation()
    found = told(answer(agent, "http.request", params(world, f"/room/{operation_id}", operation_id)))
    assert found in (("not_attempted", "JOURNAL_UNAVAILABLE"), ("committed", "REMOTE_RESULT"))
    assert len(world.target.arrivals(f"/room/{operation_id}")) == (found[0] == "committed")
    return found[0] == "not_attempted"
