"""Redirects on real processes: what the peers' own logs hold, and what is told after a kill within a hop (R20)."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from tests.e2e.conftest import World
from tests.e2e.rig import LIMIT_S, Broker, Envelope, Home, answer, facts, new_operation, until
from tests.e2e.said import told
from tests.e2e.target import Call, Target

from affidavit.ipc.client import Client, ConnectionLost, NotReachable

AT_ONCE = 2

CONTRACT = """id = "redirects.{name}"
source = "https://docs.example.com/"
checked = 2026-11-30
[match]
kind = "http"
method = ["{method}"]
url = "http://127.0.0.1:{port}/{path}"
[effect]
kind = "{effect}"
[redirect]
follow = {follow}
[approval]
mode = "{mode}"
"""
KEY = '[idempotency]\nheader = "Idempotency-Key"\nretention = "24h"\n'


@pytest.fixture
def other() -> Iterator[Target]:
    """A second origin, to which no credential is bound."""
    target = Target()
    yield target
    target.close()


@pytest.fixture
def go(world: World) -> Iterator[str]:
    """A place of this test alone, below which the contracts follow redirects."""
    name = f"go/{new_operation()}"
    yield f"/{name}"
    for path in [path for path in world.target.scripts if path.startswith(f"/{name}")]:
        del world.target.scripts[path]


def rule(home: Home, other: Target) -> Home:
    """What goes below `/go/` follows two redirects; at the other origin reads are free, but `/asked` has a card."""
    port = home.setting.target_port
    common = {"method": "GET", "port": port, "path": "go/**", "effect": "read", "follow": 2, "mode": "never"}
    made = {
        "read": common,
        "write": common | {"method": "POST", "effect": "write"},
        "other": common | {"port": other.port, "path": "**", "follow": 0},
        "asked": common | {"port": other.port, "path": "asked", "follow": 0, "mode": "always"},
    }
    for name, words in made.items():
        text = CONTRACT.format(name=name, **words) + (KEY if name == "write" else "")
        (home.places.contracts / f"redirects-{name}.toml").write_text(text)
    adopted = home.operate("contract", "adopt", "--all")
    assert adopted.status == 0, adopted
    return home


@pytest.fixture
def ruled(home: Home, other: Target) -> Home:
    return rule(home, other)


def to(location: str, status: int = 302) -> Callable[[Call], None]:
    return lambda call: call.answer(status, b"elsewhere", f"Location: {location}")


def params(home: Home, path: str, operation: str, method: str = "GET", **more: Any) -> dict[str, Any]:
    url = f"http://127.0.0.1:{home.setting.target_port}{path}"
    given = {"method": method, "url": url, "operation_id": operation, "wait_s": LIMIT_S, **more}
    return given if method == "GET" else given | {"json": {"a": 1}}


def ask(broker: Broker, path: str, operation: str | None = None, method: str = "GET", **more: Any) -> Envelope:
    with broker.agent() as agent:
        return answer(agent, "http.request", params(broker.home, path, operation or new_operation(), method, **more))


# -- what the peers see


def test_no_credential_goes_to_another_origin(ruled: Home, world: World, other: Target, go: str) -> None:
    world.target.scripts[go] = to(f"http://127.0.0.1:{other.port}{go}")
    other.scripts[go] = to(f"http://127.0.0.1:{world.target.port}{go}/back")
    secret = ruled.setting.secret
    with ruled.serve() as broker:
        got = ask(broker, go, headers={"X-Api-Key": "mine", "Accept": "text/plain"})
        assert told(got) == ("committed", "REDIRECT_NOT_FOLLOWED", "never"), "the other contract follows none"
        (first,), (hop,) = world.target.arrivals(go), other.arrivals(go)
        assert first.header("Authorization") == f"Bearer {secret}"
        assert first.header("X-Api-Key") == "mine"
        assert hop.header("Authorization") is None
        assert hop.header("X-Api-Key") is None
        assert hop.header("Accept") == "text/plain"
        assert hop.header("Host") == f"127.0.0.1:{other.port}"
        assert secret.encode() not in hop.head
        assert world.target.arrivals(f"{go}/back") == []
        evidence = got["evidence"]
        with broker.agent() as agent:
            before = answer(agent, "action.get", {"invocation_id": evidence["refers_to"]})
        assert before["evidence"]["redirect"]["followed"] is True
        assert before["evidence"]["connection"]["peer"] != evidence["connection"]["peer"]
    assert ruled.intact()


@pytest.mark.parametrize(
    ("location", "code"),
    [
        ("http://169.254.169.254/latest/meta-data/", "TARGET_BLOCKED"),
        ("http://[::ffff:a9fe:a9fe]/latest/meta-data/", "TARGET_BLOCKED"),
        ("https://2852039166/", "TARGET_BLOCKED"),
        ("https://10.0.0.1/", "TARGET_BLOCKED"),
        ("http://user@127.0.0.1/", "INVALID_TARGET"),
    ],
)
def test_addresses_that_a_target_may_not_name(location: str, code: str, ruled: Home, world: World, go: str) -> None:
    world.target.scripts[go] = to(location)
    with ruled.serve() as broker:
        got = ask(broker, go)
    assert told(got) == ("committed", "REDIRECT_NOT_FOLLOWED", "never")
    redirect = got["evidence"]["redirect"]
    assert (redirect["followed"], redirect["code"], redirect["invocation_id"]) == (False, code, None)


def test_a_loopback_port_that_nobody_named_hears_nothing(ruled: Home, world: World, go: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        world.target.scripts[go] = to(f"http://127.0.0.1:{listener.getsockname()[1]}/")
        with ruled.serve() as broker:
            got = ask(broker, go)
        assert got["evidence"]["redirect"]["code"] == "TARGET_BLOCKED"
        with pytest.raises(BlockingIOError):
            listener.accept()


def test_a_loop_and_a_chain_that_is_too_long(ruled: Home, world: World, go: str) -> None:
    world.target.scripts[go] = to(f"{go}/2")
    world.target.scripts[f"{go}/2"] = to(go)
    world.target.scripts[f"{go}/a"] = to(f"{go}/b")
    world.target.scripts[f"{go}/b"] = to(f"{go}/c")
    world.target.scripts[f"{go}/c"] = to(f"{go}/d")
    with ruled.serve() as broker:
        looped, long = ask(broker, go), ask(broker, f"{go}/a")
    assert told(looped)[1] == told(long)[1] == "REDIRECT_NOT_FOLLOWED"
    assert looped["evidence"]["redirect"]["why"] == "It leads back to where it came from."
    assert long["evidence"]["redirect"]["why"] == "2 were followed, and no more may be."
    assert [len(world.target.arrivals(f"{go}{tail}")) for tail in ("", "/2", "/a", "/b", "/c", "/d")] == [1] * 5 + [0]


def asked_for(agent: Client, operation: str) -> bool:
    return facts(answer(agent, "action.get", {"operation_id": operation})).get("state") == "awaiting_approval"


def test_a_place_with_a_card_waits_for_it(ruled: Home, world: World, other: Target, go: str) -> None:
    world.target.scripts[go] = to(f"http://127.0.0.1:{other.port}/asked")
    operation = new_operation()
    with ruled.serve() as broker:
        with broker.agent() as agent:
            answer(agent, "http.request", params(ruled, go, operation, wait_s=0))
            until(lambda: asked_for(agent, operation), "the card of the hop")
            pending = answer(agent, "action.get", {"operation_id": operation})
            assert other.arrivals("/asked") == []
            assert pending["evidence"]["target"]["url"] == f"http://127.0.0.1:{other.port}/asked"
            approved = ruled.operate("approve", pending["invocation_id"])
            assert approved.status == 0, approved
            assert "with a redirect to here. The agent did not name it" in approved.out
            got = answer(agent, "action.wait", {"invocation_id": pending["invocation_id"], "wait_s": LIMIT_S})
        assert told(got) == ("committed", "REMOTE_RESULT", "never")
        assert got["evidence"]["authorization"]["means"] == "cli_passphrase"
    assert len(other.arrivals("/asked")) == 1


def test_the_read_after_a_write(ruled: Home, world: World, go: str) -> None:
    world.target.scripts[go] = to(f"{go}/made", 303)
    with ruled.serve() as broker:
        got = ask(broker, go, method="POST")
    assert told(got) == ("committed", "REMOTE_RESULT", "never")
    (made,) = world.target.arrivals(f"{go}/made")
    assert (made.method, made.body, made.header("Idempotency-Key")) == ("GET", b"", None)


# -- what is lost


def test_the_reply_of_a_write_that_was_sent_once_more_is_lost(ruled: Home, world: World, go: str) -> None:
    world.target.scripts[go] = to(f"{go}/there", 307)
    world.target.scripts[f"{go}/there"] = lambda call: None
    operation = new_operation()
    with ruled.serve() as broker:
        lost = ask(broker, go, operation, "POST")
        assert told(lost) == ("unknown", "REMOTE_OUTCOME_UNKNOWN", "same_idempotency_key")
        assert lost["evidence"]["operation"]["outcome"] == "unknown"
        twin = ask(broker, go, method="POST")
        assert told(twin)[1] == "UNRESOLVED_DUPLICATE"
        world.target.scripts[f"{go}/there"] = lambda call: call.answer(201, b"made")
        ran = ruled.run("action", "retry", operation, "--json")
        assert (ran.status, ran.json["evidence"]["attempt"]) == (0, 2), ran
    (first,), (hop, again) = world.target.arrivals(go), world.target.arrivals(f"{go}/there")
    key = lost["evidence"]["idempotency"]["key"]
    assert {each.header("Idempotency-Key") for each in (first, hop, again)} == {key}
    assert first.body == hop.body == again.body


@pytest.mark.parametrize(
    "head",
    [
        "HTTP/1.1 307 Told\r\nLocation: {go}/there\r\nContent-Le",
        "HTTP/1.1 307 Told\r\nLocation: {go}/there\r\nContent-Length: 10\r\n\r\n12345",
        "HTTP/1.1 307 Told\r\nLocation: {go}/there\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n",
    ],
)
def test_a_redirect_that_is_cut_short_proves_nothing(head: str, ruled: Home, world: World, go: str) -> None:
    world.target.scripts[go] = lambda call: call.send(head.format(go=go).encode())
    with ruled.serve() as broker:
        got = ask(broker, go, method="POST")
    assert told(got) == ("unknown", "REMOTE_RESULT_INCOMPLETE", "same_idempotency_key")
    assert world.target.arrivals(f"{go}/there") == []


# -- kills

POINTS = (
    *(f"before:{kind}@{n}" for kind, n in (("RESULT_COMMITTED", 1), ("RESULT_COMMITTED", 2))),
    *(f"after:{kind}@{n}" for kind, n in (("RESULT_COMMITTED", 1), ("RESULT_COMMITTED", 2))),
    *(f"{moment}:{kind}@2" for moment in ("before", "after") for kind in ("ACTION_ACCEPTED", "DISPATCH_STARTED")),
    *(f"engine:{point}@2" for point in ("credential", "line", "dispatched", "sent", "head", "result")),
    "engine:result@1",
)
"""The redirect's own verdict, and every point of what follows it."""


def killed(home: Home, world: World, path: str, method: str, point: str) -> list[str]:
    """Kill at one point, restart, and tell what does not hold."""
    operation = new_operation()
    with home.start(faultpoint=point) as broker:
        with suppress(ConnectionLost, NotReachable):
            if broker.serving:
                ask(broker, path, operation, method)
                broker.stop()
        wrong = [] if broker.ended() == -9 else ["the point is never reached"]
    arrived = len(world.target.arrivals(path)), len(world.target.arrivals(f"{path}/there"))
    with home.serve() as broker, broker.agent() as agent:
        found = answer(agent, "action.get", {"operation_id": operation, "events": True})
        members = [
            answer(agent, "action.get", {"invocation_id": member, "events": True}) for member in found["invocations"]
        ]
        wrong += claims(members, arrived)
        again = answer(agent, "http.request", params(home, path, operation, method))
        dispatched = [member for member in members if member["evidence"]["dispatch_started"]]
        if again["invocation_id"] != dispatched[-1]["invocation_id"]:
            wrong.append("asked again, it is not the newest dispatch that answers")
        if (len(world.target.arrivals(path)), len(world.target.arrivals(f"{path}/there"))) != arrived:
            wrong.append("asked again, it was sent again")
        if not home.intact():
            wrong.append("audit verify does not say intact")
    return [f"{method} killed at {point}: {what}" for what in wrong]


def claims(members: list[Envelope], arrived: tuple[int, int]) -> Iterator[str]:
    """What must hold of the redirected exchange and, where it was accepted, of its hop."""
    first, *hops = members
    if arrived[0] != 1 or len(hops) > 1:
        yield f"{arrived[0]} arrived, and {len(hops)} hops were accepted"
    hop = hops[0] if hops else None
    dispatched = hop is not None and hop["evidence"]["dispatch_started"]
    if arrived[1] > dispatched:
        yield "a hop arrived that has no dispatch record"
    for member in members:
        kinds = [event["kind"] for event in member["events"]]
        proven = "not_attempted"
        if "DISPATCH_STARTED" in kinds:
            proven = "committed" if "RESULT_COMMITTED" in kinds else "unknown"
        if facts(member)["outcome"] != proven:
            yield f"it says {facts(member)['outcome']} where the records prove {proven}"
    counts = hop if dispatched else first
    operation = first["evidence"]["operation"]["outcome"]
    if operation != facts(counts)["outcome"]:
        yield f"the operation is {operation}, and what counts is {facts(counts)['outcome']}"
    if hop is not None and hop["evidence"].get("refers_to") != first["invocation_id"]:
        yield "the hop does not say what it follows"
    if first["evidence"].get("redirect", {}).get("followed", False) is not dispatched:
        yield "the redirect's record says otherwise"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_kill_at_any_point_of_a_hop(
    method: str, new_home: Callable[[], Home], world: World, other: Target, go: str
) -> None:
    def one(n: int) -> list[str]:
        path = f"{go}/{n}"
        world.target.scripts[path] = to(f"{path}/there", 307)
        return killed(rule(new_home(), other), world, path, method, POINTS[n])

    with ThreadPoolExecutor(AT_ONCE) as pool:
        assert [what for found in pool.map(one, range(len(POINTS))) for what in found] == []
