"""Which transports wait, for whom, and for how long."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from affidavit.broker.secret import Secret
from affidavit.broker.wire.port import Connection
from affidavit.broker.wire.ssh import idle
from affidavit.broker.wire.ssh.idle import KEPT, KEPT_OF_KEY, Key, idle_transports
from affidavit.broker.wire.ssh.port import HostKey, PasswordLogin, SshHop
from affidavit.broker.wire.ssh.setup import Way


class ScriptedSession:
    """As far as a way needs one."""

    ended: object | None = None

    def __init__(self) -> None:
        self.closed = asyncio.Event()

    def end(self) -> None:
        self.closed.set()


def way(name: str, *sessions: ScriptedSession) -> Way:
    made: Any = sessions or (ScriptedSession(),)
    return Way(made, Connection(name, "127.0.0.1:22"), "127.0.0.1")


def closed(way: Way) -> bool:
    sessions: Any = way.sessions
    return all(session.closed.is_set() for session in sessions)


HOP = SshHop("h", 22, "u", (HostKey("ssh-ed25519", b"k"),), PasswordLogin(Secret(b"x")))
KEY = Key.of("k", (HOP,))


def every(way: Way) -> bool:
    return True


async def test_the_last_one_comes_first_and_is_marked_as_reused() -> None:
    waiting = idle_transports()
    lease = waiting.lease(KEY)
    lease.give(way("a"))
    lease.give(way("b"))
    taken = lease.take(every)
    assert taken is not None
    assert (taken.connection.id, taken.connection.reused) == ("b", True)
    assert lease.take(every) is not None
    assert lease.take(every) is None
    waiting.close()


@pytest.mark.parametrize(
    "other",
    [
        Key.of("other", (HOP,)),
        Key.of("k", (replace(HOP, port=23),)),
        Key.of("k", (replace(HOP, user="v"),)),
        Key.of("k", (replace(HOP, host_keys=()),)),
        Key.of("k", (HOP, HOP)),
    ],
)
async def test_nobody_else_gets_it(other: Key) -> None:
    waiting = idle_transports()
    waiting.lease(KEY).give(way("a"))
    assert waiting.lease(other).take(every) is None
    waiting.close()


async def test_what_is_not_permitted_is_closed() -> None:
    waiting = idle_transports()
    lease = waiting.lease(KEY)
    kept = way("a")
    lease.give(kept)
    assert lease.take(lambda way: False) is None
    assert closed(kept)


async def test_what_has_ended_is_not_kept() -> None:
    waiting = idle_transports()
    dead, alive = ScriptedSession(), ScriptedSession()
    dead.ended = object()
    kept = way("a", alive, dead)
    waiting.lease(KEY).give(kept)
    assert closed(kept)
    assert waiting.lease(KEY).take(every) is None


async def test_close_reaches_those_in_use_too() -> None:
    waiting = idle_transports()
    lease = waiting.lease(KEY)
    idle_one, used = way("a"), way("b")
    lease.give(idle_one)
    waiting.close()
    assert closed(idle_one)
    lease.give(used)
    assert closed(used)
    later = way("c")
    waiting.lease(KEY).give(later)
    assert not closed(later)
    waiting.close()


async def test_there_are_bounds() -> None:
    waiting = idle_transports()
    ways = [way(f"a{n}") for n in range(KEPT_OF_KEY + 1)]
    for one in ways:
        waiting.lease(KEY).give(one)
    assert [closed(one) for one in ways] == [True] + [False] * KEPT_OF_KEY
    others = [way(f"b{n}") for n in range(KEPT)]
    for n, one in enumerate(others):
        waiting.lease(Key.of(str(n), (HOP,))).give(one)
    assert all(closed(one) for one in ways)
    assert not [one for one in others if closed(one)]
    waiting.close()


async def test_it_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle, "IDLE_S", 0.01)
    waiting = idle_transports()
    session = ScriptedSession()
    waiting.lease(KEY).give(way("a", session))
    async with asyncio.timeout(10):
        await session.closed.wait()
    assert waiting.lease(KEY).take(every) is None
