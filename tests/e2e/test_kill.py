"""`kill -9` between every pair of durable transitions and at each of R75's points, then a restart (R1, R23, R24, R75).

What is held against each other: what the agent is told after the restart, which records the journal holds, and what the
practice service's own log says arrived.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.conftest import World
from tests.e2e.rig import (
    LIMIT_S,
    Broker,
    Envelope,
    Home,
    Ran,
    answer,
    connected,
    facts,
    new_operation,
    open_ends,
    rest_of,
    temporary,
    until,
)
from tests.e2e.target import Call

import affidavit.broker
from affidavit.broker.home import HomeState
from affidavit.ipc.cli.audit import journal_key
from affidavit.ipc.client import Client, ConnectionLost, NotReachable, RpcError
from affidavit.journal import SEGMENT_OPENED, Reader

AT_ONCE = 2
"""Kills that are played at the same time: one for each processor that may be expected."""


@dataclass(frozen=True, slots=True)
class Flow:
    """One action from its call to its acknowledged result, and the broker's orderly end."""

    name: str
    method: str
    path: str
    body: Mapping[str, Any] | None = None
    card: str | None = None
    """What the operator says to the card; None where nobody is asked."""
    closed: bool = False
    """It goes to a port where nobody listens."""
    passed_by: tuple[str, ...] = ()
    """Named points of the code that are not on its way."""

    @property
    def rpc(self) -> str:
        return "http.request"

    def arrived(self, operation_id: str, world: World) -> int:
        """How often it came to its target, once nothing of a broker that has ended is still to come."""
        return len(world.practice.arrivals(operation_id))

    def params(self, home: Home, operation_id: str) -> dict[str, Any]:
        setting = home.setting
        port = setting.closed_port if self.closed else setting.practice_port
        given: dict[str, Any] = {
            "method": self.method,
            "url": f"http://127.0.0.1:{port}{self.path}",
            "headers": {"X-Operation-Id": operation_id},
            "operation_id": operation_id,
            "wait_s": 0 if self.card else LIMIT_S,
        }
        return given if self.body is None else given | {"json": self.body}


APPROVED = Flow("write approved", "POST", "/v1/transfers", {"amount": 7, "reference": "kill"}, card="approve")
READ = Flow("read", "GET", "/v1/account")
UNKNOWN = Flow(
    "write unknown",
    "POST",
    "/v1/payments",
    {"amount": 7, "reference": "kill", "practice": "apply_then_hang_up"},
    passed_by=("engine:head", "engine:result"),
)
DENIED = Flow("write denied", "POST", "/v1/transfers", {"amount": 7, "reference": "kill"}, card="deny")
CLOSED = Flow("closed port", "GET", "/v1/account", closed=True)

FULL = (APPROVED, READ, UNKNOWN)
"""Each is killed at every record of its own and at every named point of the engine."""
REST = (DENIED, CLOSED)
"""Killed at the records that none of the others writes."""

NAMED = re.compile(r'faultpoint\.reach\("([^"]+)"\)')


def named_points() -> list[str]:
    """Every point that the broker's code names, so that a new one is covered by itself."""
    (room,) = affidavit.broker.__path__
    found = {name for file in Path(room).rglob("*.py") for name in NAMED.findall(file.read_text())}
    return sorted(found)


# -- playing a flow


def play(broker: Broker, flow: Flow, operation_id: str) -> None:
    """All of a flow; ConnectionLost, or NotReachable, where the broker dies on the way."""
    with broker.agent() as agent:
        given = answer(agent, flow.rpc, flow.params(broker.home, operation_id))
        if flow.card is not None:
            decide(broker, given, flow.card)
            given = answer(agent, "action.wait", {"invocation_id": given["invocation_id"], "wait_s": LIMIT_S})
        if "result" in given:
            acknowledge(agent, given)
        agent.call("action.get", {"operation_id": operation_id, "events": True})  # makes all of it durable


def acknowledge(agent: Client, given: Envelope) -> None:
    """Every part of a result."""
    shown = given.get("http") or given["ssh"]
    for part in ("body", "stdout", "stderr"):
        if part in shown:
            digest = shown[part]["delivered_sha256"] or shown[part]["sha256"]
            agent.call("result.ack", {"invocation_id": given["invocation_id"], "part": part, "sha256": digest})


def decide(broker: Broker, pending: Envelope, decision: str) -> None:
    """As `affidavit approve` and `affidavit deny` do it."""
    assert facts(pending)["state"] == "awaiting_approval", pending
    named: dict[str, Any] = {"invocation_id": pending["invocation_id"]}
    with broker.operator() as operator:
        if decision == "approve":
            operator.call("approval.approve", named | {"passphrase": broker.home.setting.passphrase})
        else:
            operator.call("approval.deny", named | {"reason": "no"})


def records_of(home: Home) -> list[tuple[str, bool]]:
    """Kind of every record in the journal's file, in order, and whether it belongs to an action."""
    key = journal_key(home.places)
    reader = Reader.open(home.places.journal, bytes(key))
    try:
        found = reader.records_between(1, reader.head().seq)
    finally:
        reader.close()
    return [(record.kind, record.invocation_id is not None) for record in found]


@dataclass(frozen=True, slots=True)
class Way:
    """The records that a flow writes when nothing befalls it: `own` of the action, `all` of the whole run."""

    own: tuple[str, ...]
    all: tuple[str, ...]


def unharmed(home: Home, flow: Flow) -> Way:
    before = len(records_of(home))
    with home.serve() as broker:
        play(broker, flow, new_operation())
        assert broker.stop() == 0
    written = records_of(home)[before:]
    kinds = dict.fromkeys(kind for kind, _ in written if kind != SEGMENT_OPENED)
    own = dict.fromkeys(kind for kind, of_action in written if of_action)
    return Way(tuple(own), tuple(kinds))


def around(kinds: Iterable[str]) -> list[str]:
    return [f"{moment}:{kind}" for kind in kinds for moment in ("before", "after")]


# -- what must hold afterwards


@dataclass(frozen=True, slots=True)
class Found:
    """What is there after the restart. `envelope` is None where the operation is not known."""

    envelope: Envelope | None
    kinds: tuple[str, ...]
    arrived: int

    @property
    def dispatched(self) -> bool:
        return "DISPATCH_STARTED" in self.kinds

    @property
    def outcome(self) -> str | None:
        return None if self.envelope is None else str(facts(self.envelope)["outcome"])


NOT_KNOWN = -32602


def look(agent: Client, arrived: int, operation_id: str) -> Found:
    try:
        envelope = answer(agent, "action.get", {"operation_id": operation_id, "events": True})
    except RpcError as refused:
        if refused.code != NOT_KNOWN:
            raise
        return Found(None, (), arrived)
    return Found(envelope, tuple(event["kind"] for event in envelope["events"]), arrived)


def broken_claims(found: Found) -> Iterator[str]:
    """What R1, R23, R24, R38 and R75 forbid, of what was found after a kill; nothing, if all is well."""
    dispatches = found.kinds.count("DISPATCH_STARTED")
    if dispatches > 1:
        yield f"{dispatches} dispatch records of one invocation"
    if found.arrived > dispatches:
        yield f"{found.arrived} requests arrived for {dispatches} dispatch records"
    if found.envelope is None:
        return
    if "pending" in found.envelope:
        yield "it is still pending"
    evidence = found.envelope["evidence"]
    if evidence["dispatch_started"] is not found.dispatched:
        yield f"dispatch_started is {evidence['dispatch_started']}, and the records say {found.dispatched}"
    proven = "not_attempted"
    if found.dispatched:
        proven = "committed" if "RESULT_COMMITTED" in found.kinds else "unknown"
    if found.outcome != proven:
        yield f"it says {found.outcome} where the records prove {proven}"
    if proven == "committed" and not {"http", "ssh"} & found.envelope.keys():
        yield "the committed result is not there"


def claims_after(point: str, own: Collection[str], found: Found) -> Iterator[str]:
    """The process died where it was told to: what was durable then is there, and what was not, is not."""
    moment, _, kind = point.partition(":")
    if kind not in own or kind in ("ACTION_STOPPED", "OUTCOME_UNKNOWN"):  # which recovery writes too
        return
    if moment == "before" and kind in found.kinds:
        yield f"{kind} is there, though its commit was not made"
    if moment == "after" and kind not in found.kinds:
        yield f"{kind} is lost, though its commit was made"


def sent_again(home: Home, agent: Client, flow: Flow, operation_id: str, found: Found, world: World) -> Iterator[str]:
    """The same operation once more: where it was dispatched, the record answers, and nothing is sent."""
    again = answer(agent, flow.rpc, flow.params(home, operation_id))
    arrived = flow.arrived(operation_id, world)
    if found.dispatched:
        assert found.envelope is not None
        if again["invocation_id"] != found.envelope["invocation_id"]:
            yield "it was accepted anew"
        if facts(again)["outcome"] != found.outcome:
            yield f"it is answered {facts(again)['outcome']}"
        if arrived != found.arrived:
            yield f"{arrived - found.arrived} more arrived"
    else:
        # A refusal for good is the answer again. Anything else is a new invocation: sent where nobody is asked, and
        # waiting for its card where somebody is.
        answered = found.envelope is not None and again["invocation_id"] == found.envelope["invocation_id"]
        final = found.envelope is not None and facts(found.envelope)["retry"] == "never"
        if answered is not final:
            yield f"it is {'answered' if answered else 'accepted anew'}, with retry {'never' if final else 'allowed'}"
        expected = 0 if flow.card or flow.closed else 1
        if arrived != expected:
            yield f"{arrived} arrived for a new invocation, not {expected}"


def restarted(
    home: Home, flow: Flow, operation_id: str, world: World, *, point: str = "", own: Collection[str] = ()
) -> Iterator[str]:
    """Restart without the fault point, and hold all of the above against what is there."""
    arrived = flow.arrived(operation_id, world)
    with home.serve() as broker, broker.agent() as agent:
        found = look(agent, arrived, operation_id)
        yield from broken_claims(found)
        yield from claims_after(point, own, found)
        yield from sent_again(home, agent, flow, operation_id, found, world)
        if not home.intact():
            yield "audit verify does not say intact"


# -- killing it


def killed_at(home: Home, flow: Flow, point: str, own: Collection[str], world: World) -> list[str]:
    """Kill at one point, restart, and tell what does not hold."""
    operation_id = new_operation()
    with home.start(faultpoint=point) as broker:
        try:
            if broker.serving:
                play(broker, flow, operation_id)
                broker.stop()
        except (ConnectionLost, NotReachable):
            pass
        status = broker.ended()
    wrong = [] if status == -9 else [f"it ended with {status}: the point is never reached"]
    wrong += restarted(home, flow, operation_id, world, point=point, own=own)
    return [f"{flow.name}, killed at {point}: {what}" for what in wrong]


def killed_at_each(
    flow: Flow, points: Iterable[str], own: Collection[str], new_home: Callable[[], Home], world: World
) -> list[str]:
    def one(point: str) -> list[str]:
        return killed_at(new_home(), flow, point, own, world)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return [what for found in pool.map(one, points) for what in found]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("flow", FULL, ids=lambda flow: flow.name)
def test_a_kill_at_any_point_leaves_what_the_records_prove(
    flow: Flow, new_home: Callable[[], Home], world: World
) -> None:
    way = unharmed(new_home(), flow)
    assert "DISPATCH_STARTED" in way.own
    # The run's own records are the same in every flow: the first one stands for all.
    records = way.all if flow is FULL[0] else way.own
    named = [point for point in named_points() if point not in flow.passed_by]
    assert killed_at_each(flow, [*around(records), *named], way.own, new_home, world) == []


@pytest.mark.timeout(300)
def test_a_kill_at_the_records_of_an_action_that_is_not_sent(new_home: Callable[[], Home], world: World) -> None:
    covered: set[str] = {kind for flow in FULL for kind in unharmed(new_home(), flow).all}
    wrong = []
    for flow in REST:
        fresh = [kind for kind in unharmed(new_home(), flow).own if kind not in covered]
        assert fresh, f"{flow.name} writes nothing of its own any more"
        wrong += killed_at_each(flow, around(fresh), fresh, new_home, world)
        covered.update(fresh)
    assert wrong == []


# -- where the moment is seen from outside


def rest_is_read(call: Call) -> bool:
    """Whether the broker has taken from its socket all that the target sent: seen in the kernel's own table."""
    if any(end.unsent for end in open_ends() if end.remote == call.port):
        return False
    return not any(end.unread for end in open_ends() if end.local == call.port)


def head_and_hold(call: Call) -> None:
    call.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\nX-Half: ")
    call.hold()


def body_and_hold(call: Call) -> None:
    call.send(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345")
    call.hold()


def chunk_and_hold(call: Call) -> None:
    call.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n5\r\n123")
    call.hold()


def large_body_and_hold(call: Call) -> None:
    """More than is kept in memory: a file of the answer is being written."""
    call.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4194304\r\n\r\n" + b"." * (1024 * 1024))
    call.hold()


def silence(call: Call) -> None:
    call.hold()


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    "script",
    [silence, head_and_hold, body_and_hold, chunk_and_hold, large_body_and_hold],
    ids=lambda script: script.__name__,
)
def test_a_kill_inside_the_answer(script: Callable[[Call], None], method: str, home: Home, world: World) -> None:
    """Inside response headers, inside a framed body: dispatched, and what came proves nothing (R31)."""

    def parts() -> list[str]:
        return [path.name for path in home.places.results.iterdir() if not path.name.endswith(".spool")]

    operation_id = new_operation()
    path = f"/kill/{operation_id}"
    world.target.scripts[path] = script
    params = {
        "method": method,
        "url": f"http://127.0.0.1:{world.target.port}{path}",
        "operation_id": operation_id,
        "wait_s": 0,
    }
    with home.serve() as broker, broker.agent() as agent:
        assert "pending" in answer(agent, "http.request", params)
        (call,) = world.target.calls(path)
        assert call.reached.wait(LIMIT_S)
        until(lambda: rest_is_read(call), "the broker has read what was sent")
        if script is large_body_and_hold:
            until(lambda: parts() != [], "a part of it is on the disk")
        broker.kill()
    call.release.set()
    with home.serve() as broker, broker.agent() as agent:
        found = look(agent, len(world.target.arrivals(path)), operation_id)
        assert list(broken_claims(found)) == []
        assert found.outcome == "unknown"
        again = answer(agent, "http.request", {**params, "wait_s": LIMIT_S})
        assert facts(again)["outcome"] == "unknown"
        assert len(world.target.arrivals(path)) == 1
        assert parts() == [], "a part of an answer is no result"
    assert home.intact()


def test_a_kill_during_tls(home: Home, world: World) -> None:
    """The other side has heard our ClientHello and says nothing: not a byte of the request has left (R16)."""
    operation_id = new_operation()
    params = {
        "method": "GET",
        "url": f"https://127.0.0.1:{world.mute.port}/kill",
        "operation_id": operation_id,
        "wait_s": 0,
    }
    with home.serve() as broker, broker.agent() as agent:
        assert "pending" in answer(agent, "http.request", params)
        assert world.mute.heard.wait(LIMIT_S)
        broker.kill()
    assert bytes(world.mute.received).startswith(b"\x16\x03"), "a TLS handshake record, and nothing before it"
    with home.serve() as broker, broker.agent() as agent:
        found = look(agent, 0, operation_id)
        assert list(broken_claims(found)) == []
        assert "DISPATCH_STARTED" not in found.kinds
        assert found.envelope is None or facts(found.envelope)["code"] == "BROKER_RESTARTED"
    assert home.intact()


LARGE = 200 * 1024


def test_a_kill_during_delivery(home: Home, world: World) -> None:
    """The agent has a part of the reply when the broker dies. The outcome stands, and the result can be fetched."""
    operation_id = new_operation()
    path = f"/kill/{operation_id}"
    # Bytes that JSON writes as six: the reply is longer than what the socket between the two holds.
    body = b"\x01" * LARGE
    world.target.scripts[path] = lambda call: call.answer(200, body)
    params = {
        "method": "POST",
        "url": f"http://127.0.0.1:{world.target.port}{path}",
        "operation_id": operation_id,
        "wait_s": LIMIT_S,
    }
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "http.request", "params": params}).encode() + b"\n"
    with home.serve() as broker, connected(home) as sock:
        sock.sendall(line)
        begun = sock.recv(1)
        broker.kill()
        begun += rest_of(sock)
    assert begun.startswith(b'{"jsonrpc"')
    assert not begun.endswith(b"\n"), "the whole reply was out"
    with home.serve() as broker, broker.agent() as agent:
        found = look(agent, len(world.target.arrivals(path)), operation_id)
        assert list(broken_claims(found)) == []
        assert found.outcome == "committed"
        assert found.envelope is not None
        fetched = agent.call("result.fetch", {"invocation_id": found.envelope["invocation_id"], "chunk": 0})
        assert base64.b64decode(fetched["base64"]) == body
        again = answer(agent, "http.request", params)
        assert again["invocation_id"] == found.envelope["invocation_id"]
        assert len(world.target.arrivals(path)) == 1
    assert home.intact()


# -- many at once


CALLERS = 16


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "point",
    [
        "before:DISPATCH_STARTED@7",
        "after:DISPATCH_STARTED@7",
        "engine:dispatched@9",
        "engine:sent@12",
        "before:RESULT_COMMITTED@5",
        "after:RESULT_COMMITTED@5",
        "engine:result@8",
    ],
)
def test_a_kill_while_many_actions_are_in_flight(point: str, home: Home, world: World) -> None:
    """Reads, writes that are answered and writes that lose their answer, all at once; each is checked alike."""
    flows = [replace(FLOWS_AT_ONCE[n % len(FLOWS_AT_ONCE)], name=f"caller {n}") for n in range(CALLERS)]
    operations = [new_operation() for _ in flows]
    ready = threading.Barrier(CALLERS)

    def call(broker: Broker, flow: Flow, operation_id: str) -> None:
        with broker.agent() as agent:
            ready.wait(LIMIT_S)
            with suppress(ConnectionLost):
                answer(agent, "http.request", amount(flow.params(home, operation_id), operation_id))

    with home.start(faultpoint=point) as broker:
        assert broker.serving
        with ThreadPoolExecutor(CALLERS) as pool:
            list(pool.map(call, [broker] * CALLERS, flows, operations))
        assert broker.ended() == -9, "the point is never reached"
    wrong = []
    dispatched = 0
    arrived = [len(world.practice.arrivals(operation_id)) for operation_id in operations]
    with home.serve() as broker, broker.agent() as agent:
        for flow, operation_id, count in zip(flows, operations, arrived, strict=True):
            found = look(agent, count, operation_id)
            dispatched += found.dispatched
            again = answer(agent, "http.request", amount(flow.params(home, operation_id), operation_id))
            now = len(world.practice.arrivals(operation_id))
            claims = list(broken_claims(found))
            if now != (found.arrived if found.dispatched else 1):
                claims.append(f"{now} arrived in all, {found.arrived} before")
            if found.dispatched and facts(again)["outcome"] != found.outcome:
                claims.append(f"the same operation is answered {facts(again)['outcome']}")
            wrong += [f"{flow.name}: {claim}" for claim in claims]
    assert wrong == []
    assert home.intact()
    if not point.startswith("before:DISPATCH_STARTED"):
        assert dispatched > 1, "nothing was in flight"


WRITTEN = Flow("write", "POST", "/v1/payments", {"amount": 7})
FLOWS_AT_ONCE = (READ, WRITTEN, UNKNOWN)


def amount(params: dict[str, Any], operation_id: str) -> dict[str, Any]:
    """Make every write another effect: equal ones would be held back."""
    if "json" in params:
        params["json"] = {**params["json"], "reference": operation_id}
    return params


# -- init


STEPS = "fsync,fdatasync,rename,renameat,renameat2,unlink,unlinkat"
"""What makes something durable or changes its name."""


def traced_init(home: Home, log: Path, kill_at: str | None = None) -> Ran:
    how = ["strace", "-f", "-y", "-qq", "-o", str(log), "-e", f"trace={STEPS}"]
    if kill_at is not None:
        how += ["-e", f"inject={kill_at}"]
    return home.run("init", lines=(home.setting.passphrase,), under=how)


def steps_of(log: Path) -> Iterator[str]:
    """Every change of a name and the first sync of each file, in order, as what makes the tracer kill right there.

    The tracer counts each system call by itself.
    """
    counted: Counter[str] = Counter()
    synced: set[str] = set()
    for line in log.read_text().splitlines():
        name, _, arguments = line.split(maxsplit=1)[1].partition("(")
        counted[name] += 1
        if name.endswith("sync"):
            if arguments in synced:
                continue
            synced.add(arguments)
        yield f"{name}:signal=SIGKILL:when={counted[name]}"


@pytest.mark.timeout(300)
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_a_kill_during_init(world: World, tmp_path: Path) -> None:
    """After a kill at any of its steps a home is whole, or is not used: what is left is named, with what to do."""
    reference = Home(temporary(), world.setting)
    whole = traced_init(reference, tmp_path / "whole")
    reference.remove()
    assert whole.status == 0, whole
    steps = list(steps_of(tmp_path / "whole"))
    assert len(steps) > 10

    def one(step: str) -> list[str]:
        home = Home(temporary(), world.setting)
        try:
            return [f"killed at {step}: {what}" for what in init_killed(home, tmp_path / "cut", step)]
        finally:
            home.remove()

    with ThreadPoolExecutor(AT_ONCE) as pool:
        assert [what for found in pool.map(one, steps) for what in found] == []


def init_killed(home: Home, log: Path, step: str) -> Iterator[str]:
    cut = traced_init(home, log, kill_at=step)
    if cut.status not in (-9, 137):
        yield f"init ended with {cut.status}"
    if home.places.state is HomeState.INITIALISED:
        with home.start() as broker:
            if not broker.serving:
                yield f"it looks whole and does not serve: {broker.said}"
        return
    with home.start() as broker:
        if broker.serving or broker.ended() != 1:
            yield "half a home is served"
        elif "next: " not in "".join(broker.said):
            yield f"serve names no remedy: {broker.said}"
    again = home.operate("init")
    if again.status != 0:
        if "next: " not in again.err:
            yield f"init names no remedy: {again.err}"
        home.places.data.rename(home.root / "old")
        again = home.operate("init")
    if again.status != 0:
        yield f"init after the remedy: {again.err}"


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.parametrize("call", ["bind", "chmod", "listen"])
@pytest.mark.parametrize("nth", [1, 2], ids=["agent socket", "operator socket"])
def test_a_kill_while_a_socket_is_made(call: str, nth: int, home: Home, tmp_path: Path) -> None:
    """What is left of a socket must not look like one that was opened to others: the next start is not refused."""
    tracer = ["strace", "-f", "-qq", "-o", str(tmp_path / "log"), "-e", f"trace={call}"]
    with home.start(unlock=False, under=[*tracer, "-e", f"inject={call}:signal=SIGKILL:when={nth}"]) as broker:
        assert not broker.serving
        assert broker.ended() in (-9, 137)
    with home.serve(unlock=False) as broker:
        assert broker.stop() == 0
