"""Free space: counted before dispatch, a ballast for the verdicts, and a disk that is really full (R43, F23)."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.broker.conftest import new_home

from affidavit.broker import space
from affidavit.broker.home import Places
from affidavit.broker.limits import GIB, MIB, Limits
from affidavit.broker.space import HARDLY_ANY, NO_ROOM, Ballast, Seen, Space, kept_free
from affidavit.broker.terms import InvocationId
from affidavit.broker.wire.scripted import Body, Complete, Cross, Hang, Head, Sent
from affidavit.journal import files

ONE, TWO = InvocationId("act_1"), InvocationId("act_2")
OK = (Cross(), Sent(), Head(200), Body(b"done"), Complete())


class Disk:
    """A file system that is as full as a test says; also the clock."""

    def __init__(self, free: int, total: int = 100 * GIB) -> None:
        self.free, self.total, self.looks, self.now = free, total, 0, 0.0

    def look(self, _: Path) -> Seen:
        self.looks += 1
        return Seen(self.free, self.total)


def made(tmp_path: Path, disk: Disk, *, ballast: int = MIB) -> Space:
    return Space(tmp_path, Limits, ballast=ballast, looking=disk.look, now=lambda: disk.now)


@pytest.mark.parametrize(("total", "kept"), [(100 * GIB, 2 * GIB), (40 * GIB, 2 * GIB), (10 * GIB, GIB // 2), (0, 0)])
def test_the_smaller_of_the_two_is_kept_free(total: int, kept: int) -> None:
    assert kept_free(total, Limits()) == kept


def test_what_is_expected_is_counted_until_it_is_released(tmp_path: Path) -> None:
    counted = made(tmp_path, Disk(2 * GIB + 100))
    assert counted.reserve(ONE, 60)
    assert not counted.reserve(TWO, 41)
    assert counted.reserve(TWO, 40)
    counted.release(ONE)
    counted.release(ONE)
    assert counted.lacking(61) == 1


def test_a_dispatch_goes_by_a_look_of_less_than_a_second(tmp_path: Path) -> None:
    disk = Disk(3 * GIB)
    counted = made(tmp_path, disk)
    disk.free = 0
    disk.now = 0.99
    assert counted.reserve(ONE, 0)
    assert disk.looks == 1
    disk.now = 1.0
    assert not counted.reserve(TWO, 0)
    assert disk.looks == 2


def test_the_ballast_holds_blocks_is_private_and_is_made_where_there_is_room(tmp_path: Path) -> None:
    disk = Disk(2 * GIB + HARDLY_ANY + MIB - 1)
    counted = made(tmp_path, disk)
    ballast = tmp_path / "ballast"
    counted.tend()
    assert not ballast.exists()
    disk.free += 1
    counted.tend()
    found = ballast.stat()
    assert (found.st_size, found.st_mode & 0o777) == (MIB, 0o600)
    assert found.st_blocks * 512 >= MIB


def test_the_ballast_is_given_up_when_hardly_anything_is_free_and_made_again(tmp_path: Path) -> None:
    disk = Disk(10 * GIB)
    counted = made(tmp_path, disk)
    counted.tend()
    ballast = tmp_path / "ballast"
    disk.free = HARDLY_ANY
    counted.relieve()
    assert ballast.exists()
    disk.free = HARDLY_ANY - 1
    counted.relieve()
    assert not ballast.exists()
    looks = disk.looks
    counted.relieve()
    assert disk.looks == looks, "where nothing can be given up nothing is looked at"
    disk.free = 10 * GIB
    counted.tend()
    assert ballast.exists()
    counted.give_up()
    assert not ballast.exists()


def test_where_the_ballast_was_given_up_its_room_is_wanted_too(tmp_path: Path) -> None:
    disk = Disk(10 * GIB)
    counted = made(tmp_path, disk)
    counted.give_up()
    assert counted.lacking() == 0, "there was none"
    counted.tend()
    disk.free = 0
    counted.tend()
    disk.free = 2 * GIB + MIB - 1
    counted.tend()
    assert counted.lacking() == 1
    disk.free = 10 * GIB
    counted.tend()
    disk.free = 2 * GIB
    counted.tend()
    assert counted.lacking() == 0


def test_a_ballast_of_another_run_counts_only_if_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "ballast"
    Ballast(path, MIB).make()
    assert Ballast(path, MIB).there
    path.unlink()
    with path.open("wb") as sparse:
        sparse.truncate(MIB)
    found = Ballast(path, MIB)
    assert not found.there
    found.make()
    assert found.there
    assert path.stat().st_blocks * 512 >= MIB


def test_where_zeros_hold_no_blocks_what_cannot_be_packed_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space.os, "posix_fallocate", lambda file, at, size: os.truncate(file, size))
    ballast = Ballast(tmp_path / "ballast", MIB + 5)
    ballast.make()
    assert ballast.there
    assert (tmp_path / "ballast").read_bytes().count(0) < MIB // 2


def test_no_room_for_a_ballast_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(space.os, "posix_fallocate", full)
    ballast = Ballast(tmp_path / "ballast", MIB)
    ballast.make()
    assert not ballast.there
    assert not (tmp_path / "ballast").exists()


# -- the broker


@pytest.fixture
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Places:
    """A home on the small disk where a test asks for one."""
    small = request.getfixturevalue("small_disk").root if "small_disk" in request.fixturenames else tmp_path
    return new_home(small / "home")


EXPECTING = """
id = "test.read"
[match]
kind = "http"
method = ["GET"]
url = "https://api.example.com/v1/big"
[effect]
kind = "read"
[approval]
mode = "never"
[result]
expected = "1MiB"
"""


async def disk_under(world: Any, disk: Disk) -> Space:
    """Let the broker see this disk, once it has looked at the real one and made its ballast there."""
    counted: Space = world.broker.core.space
    while not counted._ballast.there:
        await world.broker.core.results.in_thread(lambda: None)
    counted._looking = disk.look
    counted._now = lambda: disk.now
    counted.tend()
    return counted


@pytest.mark.parametrize(("room", "sent"), [(MIB - 1, False), (MIB, True)])
async def test_too_little_space_for_what_is_expected_stops_before_the_line(world: Any, room: int, sent: bool) -> None:
    await world.adopt(EXPECTING)
    await disk_under(world, Disk(2 * GIB + room))
    world.script(OK)
    got = await world.call(world.session(), method="GET", url="https://api.example.com/v1/big")
    assert world.wire.crossed == sent
    alerts = [(alert.which, alert.says) for alert in world.broker.core.alerts]
    if sent:
        assert world.facts(got)[1] == "committed"
        assert alerts == []
        assert world.broker.core.space.lacking(MIB) == 0, "what was counted is released"
    else:
        assert world.facts(got) == ("connection_setup", "not_attempted", "JOURNAL_UNAVAILABLE", "after_correction")
        assert got["error"]["message"] == f"Nothing was sent. {NO_ROOM}"
        assert got["evidence"]["dispatch_started"] is False
        assert alerts == [("storage", NO_ROOM)]


async def test_the_alert_closes_once_there_is_room(world: Any) -> None:
    disk = Disk(GIB)
    await disk_under(world, disk)
    world.script(OK, OK)
    session = world.session()
    assert world.facts(await world.ask(session, method="GET"))[2] == "JOURNAL_UNAVAILABLE"
    disk.free = 10 * GIB
    await world.broker.core.tend_storage()
    assert list(world.broker.core.alerts) == []
    assert world.facts(await world.ask(session, method="GET"))[1] == "committed"


async def test_what_is_read_on_after_the_deadline_stays_counted(world: Any) -> None:
    await world.adopt(EXPECTING)
    counted = await disk_under(world, Disk(10 * GIB))
    hang = Hang()
    world.script((Cross(), Sent(), hang, Head(200), Complete()))
    call = world.call(world.session(), method="GET", url="https://api.example.com/v1/big", deadline_s=0.1)
    assert world.facts(await call)[2] == "REMOTE_DEADLINE"
    assert list(counted._expected.values()) == [MIB]
    hang.release.set()
    got = await call
    while counted._expected:
        await world.broker.agent.action_get(
            world.session(), invocation_id=got["invocation_id"], operation_id=None, events=True
        )


async def test_an_answer_that_a_quota_refuses_costs_the_ballast(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's quota shows in no count of free space."""
    await disk_under(world, Disk(10 * GIB))
    assert (world.places.data / "ballast").exists()

    def refuse(*_: Any) -> None:
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    monkeypatch.setattr(files.os, "rename", refuse)
    world.script((Cross(), Sent(), Head(200), Body(bytes(MIB)), Complete()))
    got = await world.ask(world.session(), json={"a": 1})
    assert world.facts(got) == ("result_delivery", "unknown", "RESULT_STORAGE_FAILED", "reconcile")
    assert not (world.places.data / "ballast").exists()


# -- a disk that is full


class SmallDisk:
    """A file system of 192 MiB with a home on it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.filler = root / "filler"

    def fill(self, leave: int = 0) -> None:
        """Leave so many bytes free. The ballast, where there is one, stays."""
        with self.filler.open("ab", buffering=0) as file:
            free = os.statvfs(self.root).f_bavail * os.statvfs(self.root).f_frsize - leave
            while free > 0:
                free -= os.write(file.fileno(), bytes(min(free, MIB)))

    def free_up(self) -> None:
        self.filler.unlink()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[SmallDisk]:
    root = tmp_path / "small"
    root.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=192m,mode=700", "none", str(root)], capture_output=True, text=True
    )
    if mounted.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    try:
        yield SmallDisk(root)
    finally:
        subprocess.run(["umount", "-l", str(root)], check=True)


async def test_a_small_disk_has_a_ballast_and_dispatches(world: Any, small_disk: SmallDisk) -> None:
    await world.broker.core.tend_storage()
    assert (world.places.data / "ballast").stat().st_blocks * 512 >= 64 * MIB
    world.script(OK)
    assert world.facts(await world.ask(world.session(), method="GET"))[1] == "committed"


async def test_a_full_disk_sends_nothing_and_says_so(world: Any, small_disk: SmallDisk) -> None:
    await world.broker.core.tend_storage()
    small_disk.fill()
    world.broker.core.space._seen_at = -10.0
    world.script(OK)
    got = await world.ask(world.session(), json={"a": 1})
    assert world.facts(got) == ("connection_setup", "not_attempted", "JOURNAL_UNAVAILABLE", "after_correction")
    assert not (world.places.data / "ballast").exists()
    assert world.broker.core.journal.poisoned is None, "the proof that nothing was sent is recorded"
    assert (await world.kinds(got["invocation_id"]))[-1] == "ACTION_STOPPED"
    assert [alert.which for alert in world.broker.core.alerts] == ["storage"]


async def test_filled_between_send_and_result_the_verdict_is_recorded_all_the_same(
    world: Any, small_disk: SmallDisk
) -> None:
    await world.broker.core.tend_storage()
    hang = Hang()
    world.script((Cross(), Sent(), hang, Head(201), Body(b"done"), Complete()))
    call = world.call(world.session(), json={"a": 1}, operation_id="op-1")
    await world.approve()
    await hang.reached.wait()
    small_disk.fill()
    hang.release.set()
    got = await call
    assert world.facts(got) == ("remote_execution", "committed", "REMOTE_RESULT", "never")
    await world.restart()
    again = await world.ask(world.session(), json={"a": 1}, operation_id="op-1")
    assert world.facts(again)[1] == "committed"
    assert again["http"]["body"]["text"] == "done"
    assert world.wire.crossed == 1


async def test_a_large_answer_that_finds_no_room_is_unknown_and_never_sent_again(
    world: Any, small_disk: SmallDisk
) -> None:
    await world.broker.core.tend_storage()
    hang = Hang()
    parts = [Body(os.urandom(MIB)) for _ in range(80)]
    world.script((Cross(), Sent(), hang, Head(201), *parts, Complete()))
    call = world.call(world.session(), json={"a": 1}, operation_id="op-1", wait_s=60)
    await world.approve()
    await hang.reached.wait()
    small_disk.fill(leave=40 * MIB)
    hang.release.set()
    got = await call
    assert world.facts(got) == ("result_delivery", "unknown", "RESULT_STORAGE_FAILED", "reconcile")
    assert got["evidence"]["dispatch_started"] is True
    assert [alert.which for alert in world.broker.core.alerts] == ["storage"]
    assert [p.name for p in world.places.results.iterdir() if not p.name.endswith(".spool")] == []
    await world.restart()
    again = await world.ask(world.session(), json={"a": 1}, operation_id="op-1")
    assert world.facts(again) == world.facts(got)
    assert world.wire.crossed == 1


async def test_after_a_full_disk_there_is_a_ballast_again_and_things_are_sent(
    world: Any, small_disk: SmallDisk
) -> None:
    await world.broker.core.tend_storage()
    small_disk.fill()
    await world.broker.core.tend_storage()
    assert not (world.places.data / "ballast").exists()
    small_disk.free_up()
    await world.broker.core.tend_storage()
    assert (world.places.data / "ballast").exists()
    world.script(OK)
    assert world.facts(await world.ask(world.session(), method="GET"))[1] == "committed"


async def test_a_start_on_a_full_disk_still_records(world: Any, small_disk: SmallDisk) -> None:
    """The ballast of the run before is there to be given up."""
    await world.broker.core.tend_storage()
    hang = Hang()
    world.script((Cross(), Sent(), hang))
    call = world.call(world.session(), method="GET", operation_id="op-1")
    await world.approve()
    await hang.reached.wait()
    small_disk.fill()
    world.broker.core.limits = replace(world.broker.core.limits, quit_s=0.0)
    await world.restart()
    call.cancel()
    assert world.broker.core.journal.poisoned is None
    again = await world.broker.agent.action_get(world.session(), invocation_id=None, operation_id="op-1", events=False)
    assert world.facts(again)[1:3] == ("unknown", "BROKER_RESTARTED")


def test_limits_are_asked_for_anew(tmp_path: Path) -> None:
    limits = [Limits()]
    disk = Disk(3 * GIB)
    counted = Space(tmp_path, lambda: limits[0], looking=disk.look)
    assert counted.lacking() == 0
    limits[0] = replace(Limits(), free_space=4 * GIB, free_space_share=0.5)
    assert counted.lacking() == GIB
