"""Faults that people met elsewhere, played on real processes; the target counts what it has done.

F07, F11 and F13 are about what outlives a broker (`test_recovery`).
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from tests.e2e.conftest import World
from tests.e2e.ledger import KEY, contract
from tests.e2e.rig import LIMIT_S, Broker, answer, copy_of, new_operation
from tests.e2e.said import told
from tests.e2e.target import Call, read_request

BRIEF = KEY.replace("24h", "1m")
OURS = """[correlation]
operation = "/op"
[reconcile]
url = "/{path}/found?op={operation_id}"
each = "/rows"
where = { pointer = "/op", equals = "{operation_id}" }
"""
RULES = {
    "keyed": ("POST", "keyed", KEY),
    "brief": ("POST", "brief", BRIEF),
    "refusing": ("POST", "refusing", "[verdict]\nrefused = [503]\n"),
    "doubled": ("POST", "doubled", OURS),
    "named": ("PUT", "named/sha256:*", '[reconcile]\nurl = "/{path}"\n'),
}


class Field:
    """A target and a broker, and what one did for the other."""

    def __init__(self, broker: Broker, world: World) -> None:
        self.broker = broker
        self.target = world.target
        self.effects: list[bytes] = []

    def applies(self, path: str, then: Callable[[Call], Any]) -> None:
        """A request for `path` is done, and then answered so."""

        def script(call: Call) -> None:
            self.effects.append(call.arrival.body)
            then(call)

        self.target.scripts[path] = script

    def answers(self, path: str, then: Callable[[Call], Any]) -> None:
        self.target.scripts[path] = then

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.target.port}{path}"

    def ask(self, path: str, method: str = "POST", **more: Any) -> Mapping[str, Any]:
        body = {} if method == "GET" else {"json": {"a": 1}}
        params = {"method": method, "url": self.url(path), "wait_s": LIMIT_S, **body, **more}
        with self.broker.agent() as agent:
            return answer(agent, "http.request", params)

    def at_once(self, *asked: dict[str, Any]) -> list[Mapping[str, Any]]:
        """Several calls, each on a connection of its own, begun together."""
        found: list[Mapping[str, Any]] = [{}] * len(asked)
        together = threading.Barrier(len(asked))

        def one(at: int) -> None:
            together.wait(LIMIT_S)
            found[at] = self.ask(**asked[at])

        threads = [threading.Thread(target=one, args=(at,)) for at in range(len(asked))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(LIMIT_S)
        return found


@pytest.fixture(scope="module")
def served(world: World) -> Iterator[Broker]:
    """One broker for all of them: each has paths, operations and keys of its own."""
    home = copy_of(world.template)
    for name, (method, path, rest) in RULES.items():
        text = contract(name, home.setting.target_port, rest, method=method, path=path)
        (home.places.contracts / f"reports-{name}.toml").write_text(text)
    adopted = home.operate("contract", "adopt", "--all")
    assert adopted.status == 0, adopted
    with home.serve() as broker:
        yield broker
    assert home.intact()
    home.remove()


@pytest.fixture
def field(served: Broker, world: World) -> Iterator[Field]:
    scripts = dict(world.target.scripts)
    yield Field(served, world)
    world.target.scripts.clear()
    world.target.scripts.update(scripts)


def nothing(call: Call) -> None:
    """The connection is closed without a word."""


def hold(call: Call) -> None:
    call.hold()


def status(code: int, body: bytes = b"", *headers: str) -> Callable[[Call], None]:
    return lambda call: call.answer(code, body, *headers)


def test_f01_every_call_sent_twice(field: Field) -> None:
    operation = new_operation()
    field.applies("/f01", status(201, b"made"))
    twice = field.at_once(*[{"path": "/f01", "operation_id": operation}] * 2)
    assert len({envelope["invocation_id"] for envelope in twice}) == 1
    assert [told(envelope) for envelope in twice] == [("committed", "REMOTE_RESULT", "never")] * 2
    assert len(field.effects) == 1

    field.applies("/f01/again", hold)
    without_id = field.at_once(*[{"path": "/f01/again", "deadline_s": 0.5}] * 2)
    assert sorted(told(envelope)[1] for envelope in without_id) == ["REMOTE_DEADLINE", "UNRESOLVED_DUPLICATE"]
    assert len(field.effects) == 2


def test_f02_a_gateway_timed_out_and_the_server_had_finished(field: Field) -> None:
    field.applies("/f02", status(504))
    assert told(field.ask("/f02")) == ("unknown", "GATEWAY_UNCERTAIN", "reconcile")
    field.applies("/keyed", status(504))
    assert told(field.ask("/keyed", json={"by": "f02"})) == ("unknown", "GATEWAY_UNCERTAIN", "same_idempotency_key")
    assert len(field.effects) == 2


def test_f03_a_503_after_the_effect(field: Field) -> None:
    field.applies("/f03", status(503))
    assert told(field.ask("/f03")) == ("committed", "REMOTE_UNAVAILABLE", "reconcile")
    assert len(field.effects) == 1
    field.answers("/refusing", status(503))
    assert told(field.ask("/refusing")) == ("rejected", "REMOTE_UNAVAILABLE", "backoff")


def test_f04_a_read_that_is_limited_leaves_the_creation_alone(field: Field) -> None:
    field.applies("/f04", status(201, b'{"id":7}'))
    field.answers("/f04/7", status(429, b"", "Retry-After: 30"))
    operation = new_operation()
    made = field.ask("/f04", operation_id=operation)
    assert told(made) == ("committed", "REMOTE_RESULT", "never")
    read = field.ask("/f04/7", "GET")
    assert told(read) == ("rejected", "REMOTE_RATE_LIMITED", "backoff")
    assert field.ask("/f04", operation_id=operation)["invocation_id"] == made["invocation_id"]
    assert len(field.effects) == 1


def test_f05_a_time_out_repeats_nothing(field: Field) -> None:
    field.applies("/f05", hold)
    late = field.ask("/f05", deadline_s=2)
    assert told(late) == ("unknown", "REMOTE_DEADLINE", "reconcile")
    assert len(field.target.arrivals("/f05")) == len(field.effects) == 1


def test_f06_a_kept_connection_dies_with_the_second_request(field: Field) -> None:
    second: list[Any] = []

    def keeps(call: Call) -> None:
        call.answer(200, b"one")
        second.append(read_request(call.sock))

    field.answers("/f06", keeps)
    assert told(field.ask("/f06", "GET")) == ("committed", "REMOTE_RESULT", "never")
    died = field.ask("/f06", "GET")
    assert died["evidence"]["connection"]["reused"] is True
    assert told(died) == ("unknown", "REMOTE_OUTCOME_UNKNOWN", "backoff")
    assert [request.path for request in second] == ["/f06"]
    assert len(field.target.arrivals("/f06")) == 1


def test_f08_a_fixed_key_with_another_body_and_past_its_window(field: Field) -> None:
    field.applies("/keyed", status(201))
    before = len(field.target.arrivals("/keyed"))
    assert told(field.ask("/keyed", idempotency_key="object-7"))[0] == "committed"
    other = field.ask("/keyed", idempotency_key="object-7", json={"a": 2})
    assert told(other) == ("not_attempted", "IDEMPOTENCY_MISMATCH", "after_correction")
    assert len(field.target.arrivals("/keyed")) == before + 1
    # A key that is kept for a minute is safe for none: what may have passed on the way is taken off.
    field.applies("/brief", nothing)
    assert told(field.ask("/brief", idempotency_key="object-8")) == ("unknown", "REMOTE_OUTCOME_UNKNOWN", "reconcile")


def test_f09_a_proxy_repeated_it_upstream(field: Field) -> None:
    operation = new_operation()
    field.applies("/doubled", status(504))
    field.answers("/doubled/found", status(200, json.dumps({"rows": [{"op": operation}] * 2}).encode()))
    before = len(field.target.arrivals("/doubled"))
    assert told(field.ask("/doubled", operation_id=operation))[:2] == ("unknown", "GATEWAY_UNCERTAIN")
    looked = field.broker.home.run("action", "reconcile", operation, "--json").json
    assert told(looked)[:2] == ("unknown", "GATEWAY_UNCERTAIN")
    assert looked["evidence"]["looked_up"]["worth"] == "several"
    with field.broker.operator() as operator:
        assert "several_matches" in [alert["which"] for alert in operator.call("status", {})["alerts"]]
    assert len(field.target.arrivals("/doubled")) == before + 1


def test_f10_a_201_that_is_shorter_than_announced(field: Field) -> None:
    head = b"HTTP/1.1 201 Created\r\nContent-Length: 10000\r\n\r\n"
    field.applies("/f10", lambda call: call.send(head + b"fourteen bytes"))
    cut = field.ask("/f10")
    assert told(cut) == ("unknown", "REMOTE_RESULT_INCOMPLETE", "reconcile")
    assert base64.b64decode(cut["evidence"]["diagnostic"]["base64"]) == head + b"fourteen bytes"
    assert "http" not in cut
    assert len(field.effects) == 1


def test_f12_a_publish_that_was_done_and_says_that_it_was_not(field: Field) -> None:
    """503 after the effect, 403 "exists" on the second call; what the content's own name finds is evidence."""
    digest = hashlib.sha256(b'{"a":1}').hexdigest()
    path = f"/named/sha256:{digest}"
    stored: list[bytes] = []

    def registry(call: Call) -> None:
        if call.arrival.method == "GET":
            call.answer(200, stored[0]) if stored else call.answer(404, b"")
        elif stored:
            call.answer(403, b"exists")
        else:
            stored.append(call.arrival.body)
            call.answer(503, b"")

    field.answers(path, registry)
    first = field.ask(path, "PUT")
    assert told(first) == ("committed", "REMOTE_UNAVAILABLE", "reconcile")
    refused = field.ask(path, "PUT", operation_id="again")
    assert told(refused) == ("rejected", "REMOTE_REJECTED", "after_correction")
    with field.broker.agent() as agent:
        named = {"invocation_id": first["invocation_id"]}
        assert told(answer(agent, "action.get", named)) == told(first), "the repeat's refusal says nothing about it"
        looked = answer(agent, "action.reconcile", named)
    assert looked["evidence"]["reconcile"]["url"] == field.url(path)
    assert looked["evidence"]["looked_up"]["worth"] == "settles"
    assert stored == [b'{"a":1}']
