"""The request spool: what was approved comes back, sealed, for as long as a repeat may need it (R62)."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.broker.bounds import http_bound

from affidavit.broker import spool
from affidavit.broker.spool import AT_ONCE, Spool, Spooled
from affidavit.broker.terms import InvocationId
from affidavit.broker.wire.port import Fault
from affidavit.broker.wire.scripted import Broken, Complete, Cross, Head, Sent
from affidavit.journal import FileUnwritable, SpoolFile

HANG_UP = (Cross(), Sent(), Broken(Fault.CLOSED, "closed by peer after request write"))
OK = (Cross(), Sent(), Head(200), Complete())
LARGE = InvocationId("act_" + "0" * 26)
BODY = "line one\nline two é"


def spooled(world: Any, invocation_id: str) -> Spooled | None:
    core = world.broker.core
    held = core.projection.get(invocation_id).spool
    found: Spooled | None = core.spool.get(held)
    return found


async def test_a_request_comes_back_without_its_secret_also_after_a_restart(world: Any) -> None:
    await world.credential()
    world.script(HANG_UP)
    headers = {"X-Note": "a: b", "Content-Type": "text/plain"}
    got = await world.ask(world.session(), headers=headers, body=BODY)
    assert world.facts(got)[1] == "unknown"
    expected = Spooled(
        "POST",
        "https://api.example.com/v1/things",
        (("X-Note", "a: b"), ("Content-Type", "text/plain")),
        BODY.encode(),
    )
    assert spooled(world, got["invocation_id"]) == expected
    await world.restart()
    assert spooled(world, got["invocation_id"]) == expected
    assert world.broker.core.spool.held() == [got["invocation_id"]]
    assert "line one" not in repr(expected)


async def test_its_file_tells_nothing(world: Any) -> None:
    await world.credential()
    world.script(HANG_UP)
    await world.ask(world.session(), body=BODY)
    (path,) = world.places.results.iterdir()
    assert path.stat().st_mode & 0o777 == 0o600
    stored = path.read_bytes()
    assert b"line" not in stored
    assert b"api.example.com" not in stored


async def test_it_goes_when_the_operation_is_settled_or_its_time_is_over(world: Any) -> None:
    world.script(OK, HANG_UP)
    session = world.session()
    await world.ask(session, body="one")
    got = await world.ask(session, body="two")
    core = world.broker.core
    core.sweep()
    assert core.spool.held() == [got["invocation_id"]]
    world.clock.ahead_s = 30 + core.limits.recovery_s + 1
    core.sweep()
    assert core.spool.held() == []
    assert list(world.places.results.iterdir()) == []
    assert spooled(world, got["invocation_id"]) is None


async def test_a_large_one_is_written_by_a_thread(world: Any) -> None:
    world.script(HANG_UP)
    body = "x" * (AT_ONCE + 1)
    got = await world.ask(world.session(), body=body)
    world.broker.core.spool._writing[got["invocation_id"]].result()
    found = spooled(world, got["invocation_id"])
    assert found is not None
    assert found.body == body.encode()


def test_one_that_is_dropped_while_it_is_written_is_gone_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Semaphore(0)
    written = []

    def write(file: SpoolFile, key: bytes, head: Any, body: bytes) -> None:
        assert gate.acquire(timeout=30)
        file.write(b"{}\n", key)
        written.append(file.path)

    monkeypatch.setattr(spool, "_write", write)

    large = http_bound("https://api.example.com/v1/things", method="POST", body=bytes(AT_ONCE + 1), has_body=True)
    with ThreadPoolExecutor(1) as pool:
        held = Spool(tmp_path, pool)
        held.put(LARGE, large)
        held.drop(LARGE)
        gate.release()
    assert written
    assert not written[0].exists()


async def test_a_disk_that_refuses_leaves_the_action_as_it_is(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: SpoolFile, data: bytes, key: bytes) -> None:
        raise FileUnwritable(self.name, 28, "No space left on device")

    monkeypatch.setattr(SpoolFile, "write", full)
    world.script(HANG_UP)
    got = await world.ask(world.session(), body=BODY)
    assert world.facts(got)[1] == "unknown"
    assert world.broker.core.projection.get(got["invocation_id"]).spool is None
