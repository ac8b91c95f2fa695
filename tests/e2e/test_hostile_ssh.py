"""Broken and hostile SSH servers behind the agent socket of a real broker: the verdict of each, how often exec arrived,
and an answer within the action's deadline (R1, R16, R24, R26, R37; verdicts, sections 1 to 3).

What the wire sees of each is tested with the wire; here it is what the agent is told. S and X numbers are the cases'
own names, F numbers are reports from the field; the others are made from RFC 4254.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import paramiko
import pytest
from tests.broker.wire.ssh.peer import HOST_KEY, OTHER_KEY, PASSWORD, Access, Call, Peer, Script
from tests.broker.wire.ssh.test_hostile import VIOLATIONS
from tests.e2e.conftest import World
from tests.e2e.hosts import ANYTHING, add_host, adopt
from tests.e2e.rig import Broker, Envelope, Home, answer, copy_of, facts, new_operation, until
from tests.e2e.said import Said, committed, refused, said, stopped, unknown

from affidavit.broker.wire.ssh.channel import WINDOW, Kind
from affidavit.broker.wire.ssh.fields import string, uint32
from affidavit.broker.wire.ssh.port import HostKey
from affidavit.ipc.client import Client, ConnectionLost

Step = Callable[[Call], object]
DEADLINE_S = 2.0
"""Of an action whose peer goes silent."""
BOUND_S = 12.0
"""An answer that is not there by then was not brought by the deadline: each set-up stage alone has longer."""


TRANSPORT = stopped("SSH_TRANSPORT_FAILED")
DONE = committed()
CUT = committed("REMOTE_RESULT_INCOMPLETE")
BROKEN = unknown()
LATE = unknown("REMOTE_DEADLINE")


# -- what a peer does, step by step


def eof(call: Call) -> None:
    call.send(Kind.EOF)


def close(call: Call) -> None:
    call.send(Kind.CLOSE)


def success(call: Call) -> None:
    call.send(Kind.SUCCESS)


def failure(call: Call) -> None:
    call.send(Kind.FAILURE)


def exits(status: int) -> Step:
    return lambda call: call.status(status)


def prints(data: bytes) -> Step:
    return lambda call: call.data(data)


def says(message: bytes) -> Step:
    return lambda call: call.send_raw(message)


def killed(call: Call) -> None:
    call.request(b"exit-signal", string(b"SEGV") + b"\0" + string(b"") + string(b"en"))


def variable(call: Call) -> None:
    """Whoever asks for a variable waits for the reply: until then nothing more is sent."""
    call.expect_request(b"env")


DISCONNECT = b"\1" + uint32(11) + string(b"bye") + string(b"en")
END = (exits(0), eof, close)
TAKEN = (Call.open, Call.expect_exec)
"""The command has come, and nothing was said of it."""


def plain_packet(payload: bytes) -> bytes:
    """A packet before there are keys (RFC 4253, 6)."""
    padding = 16 - (5 + len(payload)) % 8
    return uint32(1 + len(payload) + padding) + bytes([padding]) + payload + bytes(padding)


def keepalives(call: Call) -> None:
    """Requests that want an answer get one, in order, and none more."""
    call.send_raw(b"\x50" + string(b"keepalive@openssh.com") + b"\1")
    call.expect(82)  # REQUEST_FAILURE
    call.request(b"keepalive@openssh.com", wants_reply=True)
    call.expect(Kind.FAILURE)


def flood(call: Call) -> None:
    """One message of more than the whole window, then as many as are taken."""
    call.data(b"x" * (WINDOW + 1))
    while True:
        call.data(b"x" * 32768)


MARKED = """id = "hosts.marked"
[match]
kind = "ssh"
host = "marked"
command = "run *"
[effect]
kind = "write"
completion = "marker"
marker = "released {operation_id}"
[retry]
setup = 1
[approval]
mode = "never"
"""


def releases(call: Call) -> None:
    """All up to a command that has printed its marker; the operation id is its last word."""
    call.open()
    operation_id = call.expect_exec().split()[-1]
    call.send(Kind.SUCCESS)
    call.data(b"working\nreleased ")
    call.data(operation_id + b"\n")


class Nobody(Access):
    by_password = paramiko.AUTH_FAILED


class Mute(Access):
    """Never says whether the password is right."""

    def __init__(self, peer: Peer) -> None:
        super().__init__()
        self._peer = peer

    def check_auth_password(self, username: str, password: str) -> int:
        self._peer.release.wait(BOUND_S)
        return int(paramiko.AUTH_FAILED)


@dataclass(frozen=True, slots=True)
class Case:
    """What the peer does, and what the agent must hear."""

    steps: tuple[Step, ...]
    said: Said
    silent: bool = False
    """Nothing but the deadline ends it."""
    host: str = "peer"
    asked: Mapping[str, Any] = field(default_factory=dict)
    access: Callable[[Peer], Access] = lambda peer: Access()
    ssh: Mapping[str, Any] = field(default_factory=dict)
    """What the envelope's `ssh` must hold, of exit status, exit signal and text on stdout."""

    @property
    def arrives(self) -> int:
        """How often exec must have arrived."""
        return 0 if self.said[1] == "not_attempted" else 1


ENV = {"env": {"AFFIDAVIT_A": "b"}}

CASES: dict[str, Case] = {
    "S01": Case((), refused("INVALID_REQUEST"), asked={"command": "true\0"}),
    "S02": Case((), refused("PAYLOAD_LIMIT"), asked={"command": "x" * 300_000}),
    "S03": Case((), refused("INVALID_REQUEST"), asked={"command": ""}),
    "S04": Case((), stopped("CONNECT_FAILED"), host="closed"),
    "S06": Case((), TRANSPORT, silent=True),
    "S07": Case((Call.fin,), TRANSPORT),
    "S09": Case((lambda call: call.raw(b"SSH-1.5-old\r\n"),), stopped("SSH_TRANSPORT_FAILED", "after_correction")),
    "S11": Case((lambda call: call.raw(b"SSH-2.0-quiet\r\n"),), TRANSPORT, silent=True),
    "S13": Case((Call.shake,), stopped("HOST_KEY_MISMATCH", "after_correction"), host="other"),
    "S14": Case((Call.shake,), stopped("SSH_AUTH_FAILED", "after_correction"), access=lambda peer: Nobody()),
    "S16": Case((Call.shake,), stopped("SSH_AUTH_FAILED"), silent=True, access=Mute),
    "S17": Case(
        (Call.shake, Call.expect_open, lambda call: call.refuse(1)), stopped("SSH_CHANNEL_REFUSED", "after_correction")
    ),
    "S18": Case((Call.shake, Call.expect_open, lambda call: call.refuse(4)), stopped("SSH_CHANNEL_REFUSED")),
    "S19": Case((Call.shake,), stopped("SSH_CHANNEL_REFUSED"), silent=True),
    "S21": Case((Call.open, Call.begin_keys_and_stall), TRANSPORT, silent=True, asked=ENV),
    "S23": Case((*TAKEN, failure), ("remote_execution", "rejected", "SSH_EXEC_REFUSED", "after_correction")),
    "S24": Case(TAKEN, LATE, silent=True),
    "S25": Case((*TAKEN, Call.fin), BROKEN),
    "S25 reset": Case((*TAKEN, Call.reset), BROKEN),
    "S27": Case((*TAKEN, prints(b"done"), *END), BROKEN),
    "S29": Case((Call.accept, prints(b"out"), *END), DONE, ssh={"exit_status": 0, "exit_signal": None, "text": "out"}),
    "S30": Case((Call.accept, exits(7), eof, close), committed(retry="reconcile"), ssh={"exit_status": 7}),
    "S32": Case((Call.accept, prints(b"out"), exits(0), eof), DONE, ssh={"exit_status": 0, "text": "out"}),
    "S33": Case(
        (Call.accept, killed, eof, close),
        committed(retry="reconcile"),
        ssh={"exit_status": None, "exit_signal": "SEGV"},
    ),
    "S34": Case((Call.accept, prints(b"out"), eof, close), BROKEN),
    "S35": Case((Call.accept, close), BROKEN),
    "S37": Case((Call.accept, prints(b"out"), exits(0)), CUT, silent=True, ssh={"exit_status": 0, "text": None}),
    "S38": Case((Call.accept,), LATE, silent=True),
    "S39": Case((Call.accept, prints(b"half of"), Call.fin), BROKEN),
    "S39 reset": Case((Call.accept, prints(b"half of"), Call.reset), BROKEN),
    "S40": Case((Call.accept, exits(0), prints(b"half of"), Call.fin), CUT, ssh={"exit_status": 0, "text": None}),
    "S42": Case((Call.accept, exits(0), exits(9), eof, close), BROKEN),
    "S44": Case((Call.accept, lambda call: call.request(b"exit-status"), eof, close), BROKEN),
    "S47": Case((Call.accept, success, *END), BROKEN),
    "S49": Case((Call.accept, flood), BROKEN),
    "S50": Case((Call.accept, prints(b"good so far"), Call.garbage), BROKEN),
    "X23": Case((Call.accept, prints(b"working")), LATE, silent=True),
    # The order of exit status, EOF and CLOSE (RFC 4254, 5.3 and 6.10)
    "EOF before the status": Case((Call.accept, eof, exits(0), close), DONE, ssh={"exit_status": 0}),
    "EOF before a status that is not 0": Case((Call.accept, eof, exits(255), close), committed(retry="reconcile")),
    "status, CLOSE and no EOF": Case((Call.accept, exits(0), close), CUT),
    "status and EOF, then the end of TCP": Case((Call.accept, exits(0), eof, Call.fin), DONE),
    "EOF, then the end of TCP": Case((Call.accept, eof, Call.fin), BROKEN),
    "a signal, then a status": Case((Call.accept, killed, *END), BROKEN),
    "CLOSE in place of a reply": Case((*TAKEN, close), BROKEN),
    "refused, then a status": Case((*TAKEN, failure, *END), BROKEN),
    "output after CLOSE": Case((Call.accept, *END, prints(b"late")), DONE, ssh={"text": ""}),
    "stderr after EOF": Case((Call.accept, eof, lambda call: call.stderr(b"late"), exits(0), close), BROKEN),
    "empty output": Case((Call.accept, prints(b""), prints(b""), *END), DONE, ssh={"text": ""}),
    **{
        f"{case}, then an end in order": Case((Call.accept, say, *END), BROKEN) for case, (say, _) in VIOLATIONS.items()
    },
    # A contract's completion marker (R37)
    "marker, EOF, CLOSE": Case((releases, eof, close), DONE, host="marked", ssh={"exit_status": None}),
    "marker, EOF, then the end of TCP": Case((releases, eof, Call.fin), DONE, host="marked"),
    "marker, then the end of TCP": Case((releases, Call.fin), CUT, host="marked", ssh={"text": None}),
    "marker, then silence": Case((releases,), CUT, host="marked", silent=True),
    "marker, then more": Case((releases, prints(b"?"), eof, close), BROKEN, host="marked"),
    "marker, then a status": Case((releases, exits(7), eof, close), committed(retry="reconcile"), host="marked"),
    "marker, then a contradiction": Case((releases, eof, prints(b"?"), close), BROKEN, host="marked"),
    "the marker of another operation": Case(
        (Call.accept, prints(b"released op_1\n"), eof, close), BROKEN, host="marked"
    ),
    "a marker that no contract names": Case((releases, eof, close), BROKEN),
    # Replies and requests (RFC 4254, 4 and 5.4)
    "requests that want a reply": Case((Call.accept, keepalives, *END), DONE),
    "a status that wants a reply": Case(
        (Call.accept, lambda call: call.request(b"exit-status", uint32(0), wants_reply=True), eof, close), DONE
    ),
    "a request that is not known": Case((Call.accept, lambda call: call.request(b"x@example.test"), *END), DONE),
    "a variable refused": Case(
        (Call.open, variable, failure), stopped("SSH_ENV_REFUSED", "after_correction"), asked=ENV
    ),
    "a variable never answered": Case((Call.open, variable), TRANSPORT, silent=True, asked=ENV),
    "CLOSE in place of a variable's reply": Case((Call.open, close, variable), TRANSPORT, asked=ENV),
    # The window (RFC 4254, 5.2)
    "a window that never opens, and an end": Case(
        (Call.shake, Call.expect_open, lambda call: call.confirm(window=0), Call.expect_exec, success, *END),
        DONE,
        asked={"stdin": "input"},
    ),
    "a window that never opens": Case(
        (Call.shake, Call.expect_open, lambda call: call.confirm(window=0), Call.expect_exec, success),
        LATE,
        silent=True,
        asked={"stdin": "input"},
    ),
    # Messages beside the channel (RFC 4253, 11)
    "a message of a kind that is not known": Case((Call.accept, says(b"\xc0?"), *END), DONE),
    "a message to be ignored": Case((Call.accept, says(b"\2" + string(b"?")), *END), DONE),
    "output of a channel that nobody asked for": Case(
        (Call.accept, says(bytes([Kind.DATA]) + uint32(99) + string(b"?")), *END), BROKEN
    ),
    # New keys amid the command (RFC 4253, 9)
    "new keys amid the output": Case(
        (Call.accept, prints(b"one "), Call.new_keys, prints(b"two"), Call.new_keys, *END),
        DONE,
        ssh={"text": "one two"},
    ),
    "new keys that stall amid the output": Case(
        (Call.accept, prints(b"one "), Call.begin_keys_and_stall), LATE, silent=True
    ),
    # A farewell at each stage (RFC 4253, 11.1)
    "disconnected in place of keys": Case(
        (lambda call: call.raw(b"SSH-2.0-bye\r\n" + plain_packet(DISCONNECT)),), TRANSPORT
    ),
    "disconnected in place of a login": Case((Call.shake, says(DISCONNECT)), TRANSPORT),
    "disconnected in place of a channel": Case((Call.shake, Call.expect_open, says(DISCONNECT)), TRANSPORT),
    "disconnected in place of a variable's reply": Case((Call.open, variable, says(DISCONNECT)), TRANSPORT, asked=ENV),
    "disconnected in place of exec's reply": Case((*TAKEN, says(DISCONNECT)), BROKEN),
    "disconnected amid the output": Case((Call.accept, prints(b"half of"), says(DISCONNECT)), BROKEN),
    "disconnected after the status": Case((Call.accept, exits(0), says(DISCONNECT)), CUT),
    "disconnected after status and EOF": Case((Call.accept, exits(0), eof, says(DISCONNECT)), DONE),
}
SILENT = [name for name, case in CASES.items() if case.silent]
PROMPT = [name for name, case in CASES.items() if not case.silent]


def playing(case: Case) -> Script:
    def script(call: Call) -> None:
        for step in case.steps:
            step(call)
        call.hold()

    return script


@dataclass(frozen=True, slots=True)
class Reached:
    broker: Broker
    peer: Peer

    def run(self, host: str = "peer", **asked: Any) -> Envelope:
        """One action and its answer, which must come in time. No two have the same command, unless a test says so."""
        operation_id = new_operation()
        params = {"host": host, "operation_id": operation_id, "command": f"run {operation_id}", "wait_s": 60, **asked}
        with self.broker.agent() as agent:
            return answer(agent, "ssh.exec", params, limit_s=BOUND_S)

    def play(self, case: Case) -> Envelope:
        self.peer.play(playing(case), access=case.access(self.peer))
        limit = {"deadline_s": DEADLINE_S} if case.silent else {}
        return self.run(case.host, **limit, **case.asked)

    def arrived(self) -> list[bytes]:
        """Every command that came to the peer, all of whose connections are over."""
        self.peer.part()
        assert self.peer.failures == []
        return [command for call in self.peer.calls for command in call.commands]


def line_of(key: paramiko.PKey) -> str:
    return HostKey.of(key.asbytes()).line


@pytest.fixture(scope="module")
def peer() -> Iterator[Peer]:
    with Peer(Call.hold) as peer:
        yield peer


@pytest.fixture(scope="module")
def prepared(world: World, peer: Peer) -> Iterator[Home]:
    """A home that knows the peer. Nothing serves it."""
    home = copy_of(world.template)
    try:
        credential = ("credential", "add", "key", "--kind", "ssh-password", "--target", "127.0.0.1")
        made = [
            home.operate(*credential, "--target", "no-such-name.invalid", secret=PASSWORD.decode()),
            home.operate("settings", "set", "limit.actions_burst", "1000"),
        ]
        assert [ran.status for ran in made] == [0, 0], made
        closed = world.setting.closed_port
        add_host(home, "peer", "127.0.0.1", port=peer.port, user="someone", host_key=line_of(HOST_KEY))
        add_host(home, "marked", "127.0.0.1", port=peer.port, user="third", host_key=line_of(HOST_KEY))
        add_host(home, "other", "127.0.0.1", port=peer.port, user="another", host_key=line_of(OTHER_KEY))
        add_host(home, "closed", "127.0.0.1", port=closed, user="someone", host_key=line_of(HOST_KEY))
        add_host(home, "nowhere", "no-such-name.invalid", port=22, user="someone", host_key=line_of(HOST_KEY))
        adopt(home, [ANYTHING + "[retry]\nsetup = 1\n", MARKED])
        yield home
    finally:
        home.remove()


@pytest.fixture(scope="module")
def reached(prepared: Home, peer: Peer) -> Iterator[Reached]:
    home = copy_of(prepared)
    try:
        with home.serve() as broker:
            yield Reached(broker, peer)
            assert [line for line in broker.said if "Traceback" in line or "failed with" in line] == []
            assert broker.stop() == 0
        assert home.intact()
    finally:
        home.remove()


def check(reached: Reached, name: str) -> None:
    case = CASES[name]
    envelope = reached.play(case)
    assert said(envelope) == case.said, envelope
    assert len(reached.arrived()) == case.arrives
    evidence = envelope.get("evidence", {})
    assert evidence.get("dispatch_started", False) is (case.arrives == 1)
    ssh = envelope.get("ssh")
    assert (ssh is not None) is (case.said[1] in ("committed", "rejected"))
    if ssh is not None:
        found = {"exit_status": ssh["exit_status"], "exit_signal": ssh["exit_signal"]}
        found["text"] = ssh["stdout"].get("text")
        assert {key: found[key] for key in case.ssh} == case.ssh


@pytest.mark.parametrize("nth", range(3))
@pytest.mark.parametrize("name", PROMPT)
def test_a_peer_that_says_something(reached: Reached, name: str, nth: int) -> None:
    check(reached, name)


@pytest.mark.parametrize("nth", range(2))
@pytest.mark.parametrize("name", SILENT)
def test_a_peer_that_goes_silent(reached: Reached, name: str, nth: int) -> None:
    check(reached, name)


def signalled(call: Call) -> None:
    """The next request must be a signal; it ends the command by it."""
    fields = call.expect_request(b"signal")
    assert not call.wanted_reply
    assert bytes(fields.string()) == b"TERM"
    call.request(b"exit-signal", string(b"TERM") + b"\0" + string(b"") + string(b"en"))


@pytest.mark.parametrize(
    ("heeds", "outcome"), [((signalled, eof, close), "committed"), ((), "unknown")], ids=["heeded", "ignored"]
)
@pytest.mark.parametrize("nth", range(3))
def test_a_cancel_sends_a_signal_first(reached: Reached, heeds: tuple[Step, ...], outcome: str, nth: int) -> None:
    """The cancel's own answer is the same either way; what the command's end proves settles the record later."""
    runs = threading.Event()
    reached.peer.play(playing(Case((Call.accept, prints(b"x"), lambda call: runs.set(), *heeds), DONE)))
    begun = reached.run(wait_s=0)
    named = {"invocation_id": begun["invocation_id"]}
    assert runs.wait(BOUND_S)
    with reached.broker.agent() as agent:
        until(lambda: "REMOTE_RESPONSE_STARTED" in kinds(agent, begun), "the broker knows that it runs")
        cancelled = answer(agent, "action.cancel", {**named, "signal": "TERM"}, limit_s=BOUND_S)
        assert said(cancelled) == unknown("CALLER_CANCELLED")
        assert cancelled["evidence"]["transport_observation"].endswith("; the signal was sent")
        if outcome == "committed":
            until(lambda: "OUTCOME_SETTLED" in kinds(agent, begun), "its end settles the record")
        found = answer(agent, "action.get", named)
    assert facts(found)["outcome"] == outcome
    assert found.get("ssh", {}).get("exit_signal") == ("TERM" if outcome == "committed" else None)
    assert len(reached.arrived()) == 1
    assert signals(reached.peer) == 1


def signals(peer: Peer) -> int:
    """How many signals came to a peer, all of whose connections are over."""
    requests = [payload for call in peer.calls for kind, payload in call.said if kind == Kind.REQUEST]
    return sum(b"signal" in payload for payload in requests)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_kill_at_the_record_of_a_signal(prepared: Home, peer: Peer, moment: str) -> None:
    """The record goes before its effect: while it is not known to be durable no signal leaves."""
    home, runs = copy_of(prepared), threading.Event()
    peer.play(playing(Case((Call.accept, lambda call: runs.set()), DONE)))
    try:
        with home.start(faultpoint=f"{moment}:CANCEL_ASKED") as broker:
            assert broker.serving
            begun = Reached(broker, peer).run(wait_s=0)
            assert runs.wait(BOUND_S)
            named = {"invocation_id": begun["invocation_id"]}
            with broker.agent() as agent, suppress(ConnectionLost):
                until(lambda: "REMOTE_RESPONSE_STARTED" in kinds(agent, begun), "the broker knows that it runs")
                answer(agent, "action.cancel", {**named, "signal": "TERM"})
            assert broker.ended() == -9
        assert len(Reached(broker, peer).arrived()) == 1
        assert signals(peer) == 0
        with home.serve() as broker, broker.agent() as agent:
            assert said(answer(agent, "action.get", named)) == unknown("BROKER_RESTARTED")
            assert ("CANCEL_ASKED" in kinds(agent, begun)) is (moment == "after")
        assert home.intact()
    finally:
        home.remove()


def kinds(agent: Client, envelope: Envelope) -> list[str]:
    found = answer(agent, "action.get", {"invocation_id": envelope["invocation_id"], "events": True})
    return [event["kind"] for event in found["events"]]


def test_s05_a_name_that_is_not_found(reached: Reached) -> None:
    """What the system's resolver says decides between the two rows of the table."""
    with pytest.raises(socket.gaierror) as raised:
        socket.getaddrinfo("no-such-name.invalid", 22)
    for_good = raised.value.errno in (socket.EAI_NONAME, socket.EAI_NODATA)
    expected = stopped("DNS_FAILED", "after_correction" if for_good else "backoff")
    assert said(reached.run("nowhere")) == expected


def test_s49_a_flood_takes_bounded_memory(reached: Reached) -> None:
    before = highest_memory(reached.broker)
    assert said(reached.play(CASES["S49"])) == BROKEN
    assert highest_memory(reached.broker) - before < 64 * 1024


def highest_memory(broker: Broker) -> int:
    """The most that the broker ever held, in KiB."""
    status = Path(f"/proc/{broker.pid}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1])
