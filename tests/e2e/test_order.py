"""The order on the wire, seen from outside the process (R23, R38; performance, P2).

The broker runs under `strace`. Every sync is held up at its end, so that whoever did not wait for it would be seen to
go ahead. Nothing is measured: what is compared is which line of the trace stands before which.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.conftest import World
from tests.e2e.rig import LIMIT_S, Broker, Home, answer, facts, new_operation
from tests.e2e.trace import CALLS, Event, What, events

HELD_UP_US = 50_000


def cannot_trace() -> str | None:
    if shutil.which("strace") is None:
        return "strace is not installed"
    if os.geteuid() != 0:
        return "the broker closes itself to tracers of its own user (PR_SET_DUMPABLE 0); root can look"
    return None


traced = pytest.mark.skipif(cannot_trace() is not None, reason=str(cannot_trace()))


@dataclass(frozen=True, slots=True)
class Action:
    """One action as the trace shows it: from its agent's connection to the last byte of the reply on it."""

    syncs: tuple[Event, ...]
    sent: tuple[Event, ...]
    replied: tuple[Event, ...]

    @property
    def before_first_byte(self) -> int:
        """How many syncs had returned when the first byte of the request was handed over."""
        return sum(sync.ended < self.sent[0].began for sync in self.syncs)

    @property
    def before_reply(self) -> int:
        """How many had returned when the reply was."""
        return sum(sync.ended < self.replied[-1].began for sync in self.syncs)

    @property
    def between(self) -> int:
        """How many began after the request had been handed over, and had returned when the reply was written."""
        return sum(self.sent[-1].ended < sync.began and sync.ended < self.replied[-1].began for sync in self.syncs)


def action(seen: list[Event], nth: int) -> Action:
    """What belongs to the agent's nth connection, where they are made one after the other and another one follows."""
    accepted = [event for event in seen if event.what is What.ACCEPTED]
    start = accepted[nth]
    window = [event for event in seen if start.ended < event.began < accepted[nth + 1].began]
    return Action(
        syncs=tuple(event for event in window if event.what is What.SYNCED),
        sent=tuple(event for event in window if event.what is What.SENT),
        replied=tuple(event for event in window if event.what is What.REPLIED and event.about == start.about),
    )


def check(of: Action, *, syncs: int) -> None:
    """An action with so many syncs: all but the result's return before the first byte leaves, and the result's one
    returns before the reply is written."""
    assert of.sent, "nothing was sent"
    assert of.replied, "nothing was answered"
    assert len(of.syncs) == syncs
    assert of.before_first_byte == syncs - 1, "the request was handed over before its dispatch record was durable"
    assert of.between == 1, "the reply was written before the result was durable"


# -- the real broker


@pytest.fixture
def trace(home: Home, world: World, tmp_path: Path) -> Iterator[tuple[Broker, Path]]:
    log = tmp_path / "trace"
    delay = f"inject=fsync,fdatasync:delay_exit={HELD_UP_US}"
    under = ["strace", "-f", "--seccomp-bpf", "-qq", "-s", "0", "-o", str(log), "-e", f"trace={CALLS}", "-e", delay]
    with home.serve(under=under) as broker:
        yield broker, log


def seen_by(broker: Broker, log: Path, world: World) -> list[Event]:
    """Make one last connection, before which all that belongs to the others has happened; end the broker, and read."""
    with broker.agent() as agent:
        agent.call("status")
    assert broker.stop() == 0
    places = broker.home.places
    return events(
        log.read_text().splitlines(),
        agent_socket=str(places.agent_socket),
        journal=str(places.journal),
        port=world.setting.practice_port,
    )


def ask(broker: Broker, world: World, method: str, path: str, **more: Any) -> None:
    """One action on a connection of its own, to its settled answer. A card is approved."""
    params = {"method": method, "url": f"http://127.0.0.1:{world.setting.practice_port}{path}", "wait_s": LIMIT_S}
    with broker.agent() as agent:
        given = answer(agent, "http.request", {**params, "operation_id": new_operation(), **more})
        if "pending" in given:
            named = {"invocation_id": given["invocation_id"]}
            with broker.operator() as operator:
                operator.call("approval.approve", {**named, "passphrase": world.setting.passphrase})
            given = answer(agent, "action.wait", {**named, "wait_s": LIMIT_S})
        assert facts(given)["outcome"] == "committed", given


@traced
def test_each_sync_returns_before_what_rests_on_it(trace: tuple[Broker, Path], world: World) -> None:
    broker, log = trace
    ask(broker, world, "GET", "/v1/account")  # the session's first: a new write-ahead log takes more syncs
    ask(broker, world, "GET", "/v1/account")
    ask(broker, world, "POST", "/v1/payments", json={"amount": 1})
    ask(broker, world, "POST", "/v1/transfers", json={"amount": 1}, wait_s=0)
    seen = seen_by(broker, log, world)
    check(action(seen, 1), syncs=2)
    check(action(seen, 2), syncs=2)
    with_card = action(seen, 3)
    check(with_card, syncs=3)
    first_reply = with_card.replied[0]
    assert with_card.syncs[0].ended < first_reply.began, "`pending` was answered before the acceptance was durable"


# -- the reading itself, on traces made by hand

AGENT, JOURNAL, PORT = "/h/run/agent.sock", "/h/data/journal.db", 8080
BEGINNING = f"""\
1 openat(AT_FDCWD, "{JOURNAL}-wal", O_RDWR|O_CREAT|O_NOFOLLOW|O_CLOEXEC, 0600) = 9
1 bind(14, {{sa_family=AF_UNIX, sun_path="{AGENT}"}}, 20) = 0
1 accept4(14, <unfinished ...>
2 fsync(9)                          = 0
1 <... accept4 resumed>0x7ffd, [110], SOCK_CLOEXEC) = 20
1 connect(15, {{sa_family=AF_INET, sin_port=htons({PORT}), sin_addr=inet_addr("127.0.0.1")}}, 16) = -1 EINPROGRESS (Now)
"""
RIGHT = """\
2 fsync(9 <unfinished ...>
1 sendto(6, ""..., 1, 0, NULL, 0)   = 1
2 <... fsync resumed>)              = 0
1 sendto(15, ""..., 200, 0, NULL, 0) = 200
2 fdatasync(9)                      = 0
1 sendto(20, ""..., 900, 0, NULL, 0) = 900
"""
SENT_TOO_EARLY = """\
2 fsync(9 <unfinished ...>
1 sendto(15, ""..., 200, 0, NULL, 0) = 200
2 <... fsync resumed>)              = 0
2 fdatasync(9)                      = 0
1 sendto(20, ""..., 900, 0, NULL, 0) = 900
"""
ANSWERED_TOO_EARLY = """\
2 fsync(9)                          = 0
1 sendto(15, ""..., 200, 0, NULL, 0) = 200
2 fdatasync(9 <unfinished ...>
1 sendto(20, ""..., 900, 0, NULL, 0 <unfinished ...>
2 <... fdatasync resumed>)          = 0
1 <... sendto resumed>)             = 900
"""
ANOTHER_FILE = RIGHT.replace("fdatasync(9)", "fdatasync(8)")
END = "1 accept4(14, 0x7ffd, [110], SOCK_CLOEXEC) = 21\n"


def by_hand(text: str) -> Action:
    lines = (BEGINNING + text + END).splitlines()
    return action(events(lines, agent_socket=AGENT, journal=JOURNAL, port=PORT), 0)


def test_the_right_order_is_told() -> None:
    check(by_hand(RIGHT), syncs=2)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (SENT_TOO_EARLY, "before its dispatch record was durable"),
        (ANSWERED_TOO_EARLY, "before the result was durable"),
        (ANOTHER_FILE, "1 == 2"),
        (RIGHT + "2 fsync(9) = 0\n", "3 == 2"),
    ],
)
def test_a_wrong_order_is_told(text: str, why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        check(by_hand(text), syncs=2)
