"""`kill -9` of the broker under a command on a real OpenSSH server: at every record of it, at each named point of the
code, and at every stage of set-up and exchange that bytes on the network mark; then a restart (R1, R23, R24, R75).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.broker.wire.ssh.sshd import USER, Sshd, public
from tests.e2e.conftest import World
from tests.e2e.hosts import ANYTHING, add_host, adopt
from tests.e2e.relay import Plan, Relay, Way
from tests.e2e.rig import LIMIT_S, Home, copy_of, new_operation, until
from tests.e2e.test_kill import Flow, around, killed_at_each, named_points, play, restarted, unharmed

from affidavit.ipc.client import ConnectionLost


@dataclass(frozen=True, slots=True)
class Command(Flow):
    """A command that leaves a mark, on the host entry `path`."""

    sshd: Sshd | None = None
    marks: Path = Path()

    @property
    def rpc(self) -> str:
        return "ssh.exec"

    def arrived(self, operation_id: str, world: World) -> int:
        assert self.sshd is not None
        until(lambda: self.sshd.is_done_with(operation_id, alone=True), "the server and its commands have ended")
        return self.marks.read_text().split().count(operation_id) if self.marks.exists() else 0

    def params(self, home: Home, operation_id: str) -> dict[str, Any]:
        command = f"echo {operation_id} >> {self.marks}"
        return {"host": self.path, "command": command, "operation_id": operation_id, "wait_s": LIMIT_S}


@dataclass(frozen=True, slots=True)
class Stage:
    """A home that nobody serves, with the entries `near` and, through a relay, `far`."""

    template: Home
    sshd: Sshd
    relay: Relay
    marks: Path

    def command(self, host: str) -> Command:
        return Command("command", "SSH", host, sshd=self.sshd, marks=self.marks)


@pytest.fixture(scope="module")
def stage(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    home, path = copy_of(world.template), tmp_path_factory.mktemp("kill-ssh")
    with Sshd(path / "sshd") as sshd:
        relay = Relay(sshd.port)
        try:
            words = ("credential", "add", "key", "--kind", "ssh-key", "--target", "127.0.0.1")
            assert home.operate(*words, secret=sshd.user_key.read_text()).status == 0
            for name, port in (("near", sshd.port), ("far", relay.port)):
                add_host(home, name, "127.0.0.1", port=port, user=USER, host_key=public(sshd.host_key).line)
            adopt(home, [ANYTHING + "[retry]\nsetup = 1\n"])
            yield Stage(home, sshd, relay, path / "marks")
        finally:
            relay.close()
            home.remove()


@pytest.fixture
def new_home(stage: Stage) -> Iterator[Callable[[], Home]]:
    made: list[Home] = []

    def make() -> Home:
        made.append(copy_of(stage.template))
        return made[-1]

    yield make
    for home in made:
        home.remove()


@pytest.mark.timeout(600)
def test_a_kill_at_any_point_leaves_what_the_records_prove(
    stage: Stage, new_home: Callable[[], Home], world: World
) -> None:
    flow = stage.command("near")
    way = unharmed(new_home(), flow)
    assert {"DISPATCH_STARTED", "REQUEST_SENT", "REMOTE_RESPONSE_STARTED", "RESULT_DELIVERED"} <= {*way.own}
    assert killed_at_each(flow, [*around(way.own), *named_points()], way.own, new_home, world) == []


KILLS = 6
"""So many over all of the bytes of a connection, either way, and as many in its last part, where the command is."""
LAST = 600


@pytest.mark.timeout(600)
@pytest.mark.parametrize("way", Way)
def test_a_kill_at_any_stage_of_the_connection_leaves_what_the_records_prove(
    stage: Stage, way: Way, new_home: Callable[[], Home], world: World
) -> None:
    flow = stage.command("far")
    with new_home().serve() as broker:
        play(broker, flow, new_operation())
    total = stage.relay.links[-1].passed[way]
    points = sorted({*range(0, total, total // KILLS), *range(total - LAST, total, LAST // KILLS)})

    def one(after: int) -> list[str]:
        home, operation_id = new_home(), new_operation()
        with home.serve() as broker:
            stage.relay.plan = Plan(way, after, lambda link: broker.kill())
            with suppress(ConnectionLost):
                play(broker, flow, operation_id)
            status = broker.ended()
        wrong = [] if status == -9 else [f"it ended with {status}: the stage is never reached"]
        wrong += restarted(home, flow, operation_id, world)
        return [f"killed after {after} bytes {way}: {what}" for what in wrong]

    assert [what for after in points for what in one(after)] == []
