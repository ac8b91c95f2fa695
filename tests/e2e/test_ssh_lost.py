"""Commands on a real OpenSSH server that is lost on the way: the network cut or silent, the server killed, at every
stage of set-up and exchange; and what settles them afterwards (R1, R16, R24, R37, R48, R50, R76, R77).

What is held against each other: what the agent is told, and the mark that a command leaves in a file.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.broker.wire.ssh.peer import OTHER_KEY, Call, Peer
from tests.broker.wire.ssh.sshd import USER, Sshd, keygen, public
from tests.e2e.conftest import World
from tests.e2e.hosts import ANYTHING, add_host, adopt
from tests.e2e.relay import Link, Plan, Relay, Way
from tests.e2e.rig import CLI, LIMIT_S, Broker, Envelope, Home, answer, copy_of, facts, new_operation, until

from affidavit.broker.wire.ssh.channel import Kind
from affidavit.broker.wire.ssh.port import HostKey

ENDING = 100
"""Bytes at the end of a connection, either way: behind the reply to exec, before the exit status."""

TOOL = """#!/bin/sh
# A host's own release tool: marks what it does under the operation's id, and takes a lock that can be looked at.
set -eu
trap '' PIPE
state=$(dirname "$0")/state
case "$1" in
deploy)
  if ! mkdir "$state/lock" 2>/dev/null; then
    for holder in "$state"/lock/*; do echo "held by ${holder##*/} until $(cat "$holder")" >&2; done
    exit 75
  fi
  echo "$(($(date +%s) + 600))" > "$state/lock/$RELEASE_ID"
  echo running > "$state/$RELEASE_ID"
  [ "$2" = now ] || read -r _ < "$state/go"
  echo "$RELEASE_ID" >> "$state/effects"
  echo released > "$state/$RELEASE_ID"
  rm -r "$state/lock"
  echo "released $RELEASE_ID"
  ;;
status)
  id=null phase=null
  if [ -e "$state/$2" ]; then id="\\"$2\\"" phase="\\"$(cat "$state/$2")\\""; fi
  printf '{"release_id": %s, "phase": %s}\\n' "$id" "$phase"
  ;;
esac
"""

RELEASE = """id = "hosts.release"
[match]
kind = "ssh"
host = "*"
command = "{tool} deploy *"
[effect]
kind = "write"
completion = "marker"
marker = "released {{operation_id}}"
[correlation]
operation = "env:RELEASE_ID"
[[verdict.exit]]
status = 75
outcome = "rejected"
retry = "backoff"
[reconcile]
command = "{tool} status {{operation_id}}"
where = {{ pointer = "/release_id", equals = "{{operation_id}}" }}
state = "/phase"
committed = ["released"]
pending = ["running"]
absent = {{ means = "rejected", after = "1s" }}
[retry]
setup = 1
[approval]
mode = "never"
"""

ARGUMENT = """id = "hosts.argument"
[match]
kind = "ssh"
host = "*"
command = "echo planted *"
[effect]
kind = "write"
[correlation]
operation = "arg:--op="
[approval]
mode = "never"
"""

READ = """id = "hosts.read"
[match]
kind = "ssh"
host = "*"
command = "cat *"
[effect]
kind = "read"
[approval]
mode = "never"
"""


@dataclass(frozen=True, slots=True)
class Stage:
    """A broker and one server, which `web` reaches through the relay and `near` without it."""

    home: Home
    broker: Broker
    sshd: Sshd
    relay: Relay
    scripted: Peer
    marks: Path
    tool: Path

    def run(self, host: str, command: str, **more: Any) -> Envelope:
        with self.broker.agent() as agent:
            return answer(agent, "ssh.exec", {"host": host, "command": command, "wait_s": LIMIT_S, **more})

    def mark(self, operation_id: str, **more: Any) -> Envelope:
        """A command through the relay that leaves a mark."""
        return self.run("web", f"echo {operation_id} >> {self.marks}", operation_id=operation_id, **more)

    def marked(self, operation_id: str) -> int:
        """How many marks there are, once none is still to come."""
        until(lambda: self.sshd.is_done_with(operation_id), "the server and its commands have ended")
        return self.marks.read_text().split().count(operation_id) if self.marks.exists() else 0

    def got(self, envelope: Envelope) -> Envelope:
        with self.broker.agent() as agent:
            return answer(agent, "action.get", {"invocation_id": envelope["invocation_id"], "events": True})


@pytest.fixture(scope="module")
def stage(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    home, path = copy_of(world.template), tmp_path_factory.mktemp("lost")
    with Sshd(path / "sshd", "LogLevel VERBOSE\nAcceptEnv RELEASE_ID") as sshd, Peer(Call.hold) as scripted:
        relay = Relay(sshd.port)
        tool = path / "releasectl"
        tool.write_text(TOOL)
        tool.chmod(0o700)
        (path / "state").mkdir()
        os.mkfifo(path / "state" / "go")
        try:
            _set_up(home, world, sshd, relay, scripted, tool)
            with home.serve() as broker:
                yield Stage(home, broker, sshd, relay, scripted, path / "marks", tool)
                assert [line for line in broker.said if "Traceback" in line or "failed with" in line] == []
                assert broker.stop() == 0
            assert home.intact()
        finally:
            relay.close()
            home.remove()


def _set_up(home: Home, world: World, sshd: Sshd, relay: Relay, scripted: Peer, tool: Path) -> None:
    stranger = keygen(sshd.home / "stranger")
    for name, key in (("key", sshd.user_key), ("stranger", stranger)):
        words = ("credential", "add", name, "--kind", "ssh-key", "--target", "127.0.0.1")
        made = home.operate(*words, secret=key.read_text())
        assert made.status == 0, made
    host_key = public(sshd.host_key).line
    pins = {"web": host_key, "near": host_key, "wrong": HostKey.of(OTHER_KEY.asbytes()).line}
    ports = {"web": relay.port, "near": sshd.port, "wrong": sshd.port, "closed": world.setting.closed_port}
    for name, port in ports.items():
        add_host(home, name, "127.0.0.1", port=port, user=USER, host_key=pins.get(name, host_key))
    add_host(home, "barred", "127.0.0.1", port=sshd.port, user=USER, host_key=host_key, credential="stranger")
    theirs = HostKey.of(scripted.host_keys[0].asbytes()).line
    add_host(home, "refusing", "127.0.0.1", port=scripted.port, user=USER, host_key=theirs)
    adopt(home, [ANYTHING + "[retry]\nsetup = 1\n", READ, ARGUMENT, RELEASE.format(tool=tool)])


# -- cut at any point

POINTS = 20
"""So many cuts over all of the connection, and as many in its last part, where the command is."""
LAST = 700
"""Bytes at the end of a connection, either way, that hold the channel and the command."""


def points(total: int) -> list[int]:
    whole = range(0, total, max(1, total // POINTS))
    last = range(max(0, total - LAST), total, LAST // POINTS)
    return sorted({*whole, *last})


def killing(stage: Stage) -> Callable[[Link], object]:
    return lambda link: stage.sshd.kill_servers()


KILLED = "the server is killed"
"""That its answer is lost with it is shown where the command still runs, by its status command."""
HOW: Mapping[str, Callable[[Stage], Callable[[Link], object]]] = {
    "closed": lambda stage: Link.fin,
    "reset": lambda stage: Link.reset,
    KILLED: killing,
}
STAGES = {"ssh_kex", "ssh_auth", "ssh_channel"}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("way", Way)
def test_a_cut_at_any_point_leaves_what_the_records_prove(stage: Stage, way: Way, how: str) -> None:
    whole = new_operation()
    assert facts(stage.mark(whole))["outcome"] == "committed"
    assert stage.marked(whole) == 1
    seen: set[tuple[str, int]] = set()
    stages: set[str] = set()
    wrong = []
    for after in points(stage.relay.links[-1].passed[way]):
        operation_id = new_operation()
        stage.relay.plan = Plan(way, after, HOW[how](stage))
        envelope = stage.mark(operation_id)
        outcome, marks = facts(envelope)["outcome"], stage.marked(operation_id)
        seen.add((outcome, marks))
        stages |= {each["stage"] for each in envelope["evidence"]["attempts"]}
        wrong += [f"{after} bytes {way}: {claim}" for claim in broken_claims(envelope, marks)]
    assert wrong == []
    if how != KILLED:  # what a killed server had handed to the network still arrives; how much that is, is luck
        assert ("unknown", 1) in seen, "no answer was lost"
    assert {outcome for outcome, _ in seen} >= {"not_attempted", "unknown"}
    assert stages >= STAGES
    if way is Way.TO_SERVER:
        assert ("unknown", 0) in seen, "no command was lost"


def broken_claims(envelope: Envelope, marks: int) -> Iterator[str]:
    said = facts(envelope)
    outcome = said["outcome"]
    if envelope["evidence"]["dispatch_started"] is (outcome == "not_attempted"):
        yield f"dispatched, and {outcome}"
    if marks > 1:
        yield f"the command ran {marks} times"
    match outcome:
        case "not_attempted":
            if marks:
                yield "not attempted, and it ran"
            if (said["phase"], said["code"], said["retry"]) != (
                "connection_setup",
                "SSH_TRANSPORT_FAILED",
                "backoff",
            ):
                yield f"a cut set-up is {said['code']}, {said['retry']}"
        case "committed":
            if marks != 1 or envelope["ssh"]["exit_status"] != 0:
                yield f"committed, with {marks} marks"
        case "unknown":
            if (said["code"], said["retry"]) != ("REMOTE_RESULT_INCOMPLETE", "reconcile"):
                yield f"a cut exchange is {said['code']}, {said['retry']}"
        case other:
            yield f"it is {other}"


def test_a_network_that_goes_silent_is_unknown_at_the_deadline_and_a_late_answer_settles_it(stage: Stage) -> None:
    whole = new_operation()
    stage.mark(whole)
    operation_id = new_operation()
    stage.relay.plan = Plan(Way.TO_CLIENT, stage.relay.links[-1].passed[Way.TO_CLIENT] - ENDING, Link.hold)
    envelope = stage.mark(operation_id, deadline_s=2)
    link = stage.relay.links[-1]
    assert link.reached.is_set()
    assert (facts(envelope)["outcome"], facts(envelope)["code"]) == ("unknown", "REMOTE_DEADLINE"), envelope
    link.release.set()
    until(lambda: facts(stage.got(envelope))["outcome"] == "committed", "the late answer settles it")
    settled = stage.got(envelope)
    assert (settled["evidence"]["source"], settled["ssh"]["exit_status"]) == ("remote_response", 0)
    assert stage.marked(operation_id) == 1


# -- six ends that ssh calls 255


def refusing(call: Call) -> None:
    call.open()
    call.expect_exec()
    call.send(Kind.FAILURE)
    call.hold()


def test_six_ends_that_ssh_calls_255_are_six_verdicts(stage: Stage) -> None:
    """F16: never connected, another host, not let in, exec refused, cut while it ran, ended with 255."""
    whole = new_operation()
    stage.mark(whole)
    stage.scripted.play(refusing)
    stage.relay.plan = Plan(Way.TO_CLIENT, stage.relay.links[-1].passed[Way.TO_CLIENT] - ENDING, Link.fin)
    commands = {"closed": "true", "wrong": "true", "barred": "true", "refusing": "true", "near": "exit 255"}
    said = set()
    for host, command in {**commands, "web": f"echo {whole[::-1]}"}.items():
        ran = subprocess.run(
            [*CLI, "ssh", "-n", "--json", host, command],
            env=stage.home.environment,
            capture_output=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert ran.returncode == 255, (host, ran)
        told = facts(json.loads(ran.stderr))
        said.add((told["phase"], told["outcome"], told["code"], told["retry"]))
    assert said == {
        ("connection_setup", "not_attempted", "CONNECT_FAILED", "backoff"),
        ("connection_setup", "not_attempted", "HOST_KEY_MISMATCH", "after_correction"),
        ("connection_setup", "not_attempted", "SSH_AUTH_FAILED", "after_correction"),
        ("remote_execution", "rejected", "SSH_EXEC_REFUSED", "after_correction"),
        ("remote_execution", "unknown", "REMOTE_RESULT_INCOMPLETE", "reconcile"),
        ("remote_execution", "committed", "REMOTE_RESULT", "reconcile"),
    }


# -- kept transports


def logins(sshd: Sshd) -> int:
    """How many connections have logged in, as the server's own log says."""
    return (sshd.home / "log").read_text().count("Accepted publickey for ")


def test_reads_share_a_transport_of_one_credential_version_and_writes_have_their_own(
    stage: Stage, tmp_path: Path
) -> None:
    file = tmp_path / "read"
    file.write_text("here")
    before = logins(stage.sshd)

    def connection(command: str) -> tuple[bool, str]:
        envelope = stage.run("near", command)
        assert facts(envelope)["outcome"] == "committed", envelope
        used = envelope["evidence"]["connection"]
        return used["reused"], used["id"]

    first_reused, first = connection(f"cat {file}")
    assert not first_reused
    assert connection(f"cat {file} {file}") == (True, first)
    assert logins(stage.sshd) == before + 1
    write_reused, write = connection(f"echo more >> {file}")
    assert (write_reused, write != first) == (False, True)
    assert logins(stage.sshd) == before + 2
    assert connection(f"cat {file} -n") == (True, first)
    rotated = stage.home.operate("credential", "rotate", "key", secret=stage.sshd.user_key.read_text())
    assert rotated.status == 0, rotated
    again_reused, again = connection(f"cat {file}")
    assert (again_reused, again != first) == (False, True)
    assert logins(stage.sshd) == before + 3


# -- commands that outlive their connection


def state_of(stage: Stage) -> Path:
    return stage.tool.parent / "state"


def deploy(stage: Stage, operation_id: str, *, what: str, **more: Any) -> Envelope:
    return stage.run("near", f"{stage.tool} deploy {what}", operation_id=operation_id, **more)


def reconciled(stage: Stage, envelope: Envelope) -> Envelope:
    with stage.broker.agent() as agent:
        return answer(agent, "action.reconcile", {"invocation_id": envelope["invocation_id"]})


def test_a_command_that_outlives_its_connection_is_settled_by_its_status_command(stage: Stage) -> None:
    """Killed under it, the server tells nothing; the marks that the command keeps do, and its lock keeps others out."""
    operation_id, other = new_operation(), new_operation()
    begun = deploy(stage, operation_id, what="a", wait_s=0)
    until((state_of(stage) / "lock" / operation_id).exists, "the command has its lock")
    stage.sshd.kill_servers()
    with stage.broker.agent() as agent:
        lost = answer(agent, "action.wait", {"invocation_id": begun["invocation_id"], "wait_s": LIMIT_S})
    assert (facts(lost)["outcome"], facts(lost)["retry"]) == ("unknown", "reconcile"), lost
    assert lost["evidence"]["reconcile"]["command"] == f"{stage.tool} status {operation_id}"
    running = reconciled(stage, lost)
    assert (facts(running)["outcome"], running["evidence"]["looked_up"]["worth"]) == ("unknown", "pending"), running
    kept_out = deploy(stage, other, what="b")
    assert (facts(kept_out)["outcome"], facts(kept_out)["retry"]) == ("rejected", "backoff"), kept_out
    assert f"held by {operation_id} until " in kept_out["ssh"]["stderr"]["text"]
    with (state_of(stage) / "go").open("w") as go:
        go.write("go\n")
    until(lambda: facts(reconciled(stage, lost))["outcome"] == "committed", "its status command says so")
    settled = stage.got(lost)
    assert (facts(settled)["code"], facts(settled)["retry"]) == ("SETTLED_BY_QUERY", "never")
    assert settled["evidence"]["source"] == "remote_query"
    assert deploy(stage, operation_id, what="a")["invocation_id"] == lost["invocation_id"]
    assert effects(stage) == [operation_id]


def effects(stage: Stage) -> list[str]:
    return (state_of(stage) / "effects").read_text().split()


def test_the_operation_id_reaches_the_command_as_an_option(stage: Stage) -> None:
    operation_id = new_operation()
    envelope = stage.run("near", "echo planted 'a  b'", operation_id=operation_id)
    assert envelope["ssh"]["stdout"]["text"] == f"planted a  b --op={operation_id}\n"
    assert envelope["evidence"]["target"]["command"] == f"echo planted 'a  b' --op={operation_id}"
    refused = facts(stage.run("near", "echo planted a | cat"))
    assert (refused["code"], refused["field"]) == ("INVALID_REQUEST", "command")


def test_a_missing_mark_permits_a_start_where_the_command_guarantees_what_it_means(stage: Stage) -> None:
    """The command is cut on its way there. Its absence counts only once it is old enough."""
    operation_id, command = new_operation(), f"{stage.tool} deploy now"
    whole = stage.run("web", command)
    assert facts(whole)["outcome"] == "committed", whole
    # Only the ends of input and channel follow the command, so this is amid it.
    stage.relay.plan = Plan(Way.TO_SERVER, stage.relay.links[-1].passed[Way.TO_SERVER] - ENDING, Link.fin)
    lost = stage.run("web", command, operation_id=operation_id)
    assert facts(lost)["outcome"] == "unknown", lost
    assert not (state_of(stage) / operation_id).exists()
    until(lambda: facts(reconciled(stage, lost))["outcome"] == "rejected", "absence is old enough")
    absent = stage.got(lost)
    assert (facts(absent)["code"], facts(absent)["retry"]) == ("SETTLED_BY_QUERY", "backoff")
    with stage.broker.agent() as agent:
        repeat = answer(agent, "action.retry", {"invocation_id": lost["invocation_id"], "wait_s": LIMIT_S})
    assert (facts(repeat)["outcome"], repeat["evidence"]["attempt"]) == ("committed", 2), repeat
    assert repeat["ssh"]["stdout"]["text"].endswith(f"released {operation_id}\n")
    assert effects(stage).count(operation_id) == 1
