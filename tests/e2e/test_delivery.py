"""Delivery on real processes: a reply or an answer is lost at any of its bytes, a caller goes and comes back. The same
bytes are fetched, and nothing is ever sent a second time (R38 to R43).
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import hashlib
import json
import textwrap
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import brotli
import pytest
from tests.broker.wire.peer import Call, Script, answer, replies, replies_and_resets
from tests.e2e import target
from tests.e2e.agent import Agent
from tests.e2e.conftest import World
from tests.e2e.hostile import CUT, LOST, Ground
from tests.e2e.rig import LIMIT_S, Broker, Envelope, Home, connected, new_operation, rest_of, until
from tests.e2e.rig import answer as answered
from tests.e2e.said import Said, committed, rejected, said

from affidavit.ipc.client import Client

# -- the reply to an agent, lost at any byte


class Errand:
    """One write of the target, under an operation id of its own."""

    def __init__(self, home: Home, world: World, body: bytes = b"done") -> None:
        self.home = home
        self.world = world
        self.operation_id = new_operation()
        self.path = f"/delivery/{self.operation_id}"
        self.body = body
        self.params: Mapping[str, Any] = {
            "method": "POST",
            "url": f"http://127.0.0.1:{world.target.port}{self.path}",
            "operation_id": self.operation_id,
            "wait_s": LIMIT_S,
        }
        world.target.scripts[self.path] = lambda call: call.answer(201, body)

    @property
    def arrivals(self) -> int:
        return len(self.world.target.arrivals(self.path))

    def asked(self, count: int | None = None) -> bytes:
        """Ask on a new connection, take `count` bytes of the reply, and go; None: the whole line."""
        return cut_after(self.home, "http.request", self.params, count)

    def again(self, agent: Client) -> Envelope:
        """Ask for the same in the usual way."""
        return answered(agent, "http.request", self.params)


def cut_after(home: Home, method: str, params: Mapping[str, Any], count: int | None) -> bytes:
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode() + b"\n"
    got = b""
    with connected(home) as sock:
        sock.sendall(line)
        while len(got) < count if count is not None else not got.endswith(b"\n"):
            more = sock.recv(65536 if count is None else count - len(got))
            assert more, "the reply broke off"
            got += more
    return got


def fetched(agent: Client, invocation_id: str) -> bytes:
    """The whole result, by its chunks, each held against its hash."""
    data, chunk, last = b"", 0, False
    while not last:
        part = agent.call("result.fetch", {"invocation_id": invocation_id, "chunk": chunk})
        piece = base64.b64decode(part["base64"])
        assert hashlib.sha256(piece).hexdigest() == part["sha256"]
        data, chunk, last = data + piece, chunk + 1, part["last"]
    assert part["complete"]
    return data


def test_a_reply_that_is_lost_after_each_of_its_bytes(home: Home, world: World) -> None:
    errand = Errand(home, world)
    with home.serve() as broker, broker.agent() as agent:
        assert errand.asked(0) == b""
        first = errand.again(agent)
        whole = errand.asked()
        for count in range(len(whole)):
            assert errand.asked(count) == whole[:count]
        assert errand.asked() == whole
        assert fetched(agent, first["invocation_id"]) == errand.body
        digest = hashlib.sha256(errand.body).hexdigest()
        assert agent.call("result.ack", {"invocation_id": first["invocation_id"], "sha256": digest})["delivered"]
        found = errand.again(agent)
        assert said(found) == committed()
        assert found["evidence"]["delivery"] == "acknowledged"
    assert errand.arrivals == 1
    assert home.intact()


CUTS = 48
"""Actions of a session at once are fewer than a hundred."""


def test_a_first_reply_that_is_lost_anywhere(home: Home, world: World) -> None:
    with home.serve() as broker, broker.agent() as agent:
        length = len(Errand(home, world).asked())
        for count in range(0, length, length // CUTS):
            errand = Errand(home, world)
            errand.asked(count)
            found = errand.again(agent)
            assert said(found) in (committed(), UNDELIVERED), found
            assert fetched(agent, found["invocation_id"]) == errand.body
            assert errand.arrivals == 1
    assert home.intact()


UNDELIVERED: Said = ("result_delivery", "committed", "RESULT_UNDELIVERED", "fetch_result")
SEALED: Said = ("result_delivery", "committed", "RESULT_SEALED", "fetch_result")
"""As another session is told of it."""
LARGE = b"\x01" * (200 * 1024)
"""Bytes that JSON writes as six: the reply is longer than what the socket between the two holds."""


def ends_in_order(broker: Broker) -> None:
    assert broker.stop() == 0


def test_a_large_reply_that_is_lost(home: Home, world: World) -> None:
    """It could not be written: the outcome stands, the record says so, and the result is there until it is taken."""
    with home.serve() as broker:
        for count in (0, 1, 1000, 65_536, 500_000):
            errand = Errand(home, world, LARGE)
            undelivered(broker, errand, count)
            taken(broker, errand, UNDELIVERED)
    assert home.intact()


@pytest.mark.parametrize("then", [Broker.kill, ends_in_order], ids=["killed", "ended"])
def test_a_large_reply_that_is_lost_before_a_restart(then: Callable[[Broker], None], home: Home, world: World) -> None:
    errand = Errand(home, world, LARGE)
    with home.serve() as broker:
        undelivered(broker, errand, 65_536)
        then(broker)
    with home.serve() as broker:
        taken(broker, errand, UNDELIVERED, *([committed()] if then is Broker.kill else []))
    assert home.intact()


def undelivered(broker: Broker, errand: Errand, count: int) -> None:
    errand.asked(count)
    with broker.agent() as agent:
        named = {"operation_id": errand.operation_id}
        until(lambda: said(answered(agent, "action.get", named)) == UNDELIVERED, "the failure is recorded")


def taken(broker: Broker, errand: Errand, *expected: Said) -> None:
    """Ask again, fetch, acknowledge; all of it about the one dispatch. A failure's record may go with a kill."""
    with broker.agent() as agent:
        found = errand.again(agent)
        assert said(found) in expected
        assert fetched(agent, found["invocation_id"]) == errand.body
        digest = hashlib.sha256(errand.body).hexdigest()
        agent.call("result.ack", {"invocation_id": found["invocation_id"], "sha256": digest})
        assert said(errand.again(agent)) == committed()
        kinds = kinds_of(answered(agent, "action.get", {"operation_id": errand.operation_id, "events": True}))
    assert kinds.count("DISPATCH_STARTED") == kinds.count("RESULT_COMMITTED") == 1
    assert kinds.index("RESULT_COMMITTED") < kinds.index("RESULT_DELIVERED")
    assert errand.arrivals == 1


def test_a_chunk_that_is_lost_after_any_of_its_bytes(home: Home, world: World) -> None:
    body = b"".join(hashlib.sha256(b"%d" % n).digest() for n in range(20_000))
    errand = Errand(home, world, body)
    with home.serve() as broker, broker.agent() as agent:
        found = errand.again(agent)
        assert found["http"]["body"]["inline"] is False
        for chunk in range(found["http"]["body"]["chunks"]):
            params = {"invocation_id": found["invocation_id"], "chunk": chunk}
            whole = cut_after(home, "result.fetch", params, None)
            for count in (*range(0, len(whole), len(whole) // 40), len(whole) - 1):
                assert cut_after(home, "result.fetch", params, count) == whole[:count]
            assert cut_after(home, "result.fetch", params, None) == whole
        assert fetched(agent, found["invocation_id"]) == body
    assert errand.arrivals == 1


def test_an_agent_that_has_closed_its_own_half_gets_its_reply(home: Home, world: World) -> None:
    errand = Errand(home, world)
    with home.serve(), connected(home) as sock:
        line = {"jsonrpc": "2.0", "id": 1, "method": "http.request", "params": errand.params}
        sock.sendall(json.dumps(line).encode() + b"\n")
        sock.shutdown(1)
        reply = json.loads(rest_of(sock))
    assert said(reply["result"]) == committed()
    assert errand.arrivals == 1


# -- the answer of a target, lost at any byte

EARLY = b"HTTP/1.1 103 Early Hints\r\n\r\n"
CHUNKS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nyes\r\n0\r\nA: b\r\n\r\n"
ANSWERS: dict[str, tuple[bytes, bytes, Said]] = {
    "created": (b"", answer(b"yes", "201 Created"), committed()),
    "refused": (EARLY, answer(b"no", "400 Bad Request"), rejected()),
    "chunked": (b"", CHUNKS, committed()),
}
"""What stands before the final answer, the answer, and what it comes to when it is whole."""


@pytest.mark.parametrize("end", [replies, replies_and_resets], ids=["closes", "resets"])
@pytest.mark.parametrize("name", ANSWERS)
async def test_an_answer_that_is_lost_after_each_of_its_bytes(
    here: Ground, name: str, end: Callable[[bytes], Script]
) -> None:
    before, final, whole = ANSWERS[name]
    data = before + final
    for count in range(len(data) + 1):
        played = await here.play(end(data[:count]))
        if count == len(data):
            played.check(whole)
        elif count in (0, len(before)):
            played.check(LOST)
        elif count < len(before):
            played.check(LOST, CUT)
        else:
            played.check(CUT)
        assert len(played.calls) == 1


def cut_beneath_tls(pieces: tuple[bytes, ...], count: int, end: str) -> Script:
    """Send each piece in a record of its own, of all of which only the first bytes come."""

    async def script(call: Call) -> None:
        await call.request()
        call.stops_after(count)
        with contextlib.suppress(ConnectionError):
            for piece in pieces:
                await call.send(piece)
        if end == "resets":
            await call.reset()
        else:
            await call.fin()
            await call.drain()

    return script


@pytest.mark.parametrize("end", ["closes", "resets"])
async def test_a_tls_stream_that_is_cut_anywhere(here: Ground, end: str) -> None:
    head, _, body = answer(b"not now", "425 Too Early").partition(b"\r\n\r\n")
    pieces = (head[:20], head[20:] + b"\r\n\r\n", body[:3], body[3:])
    sealed = [len(piece) + 22 for piece in pieces]
    for count in (*range(0, sum(sealed), 5), sum(sealed) - 1, sum(sealed)):
        played = await here.play(cut_beneath_tls(pieces, count, end), "tls")
        if count == sum(sealed):
            played.check(rejected(retry="backoff"))
        else:
            played.check(LOST if count < sealed[0] else CUT)
        assert len(played.calls) == 1


# -- a caller that goes, and comes back

CODE = textwrap.dedent(
    """
    import base64, hashlib, sys
    from affidavit.ipc.client import ActionFailed, Client
    with Client.agent() as broker:
        params = {"method": "POST", "url": sys.argv[1], "operation_id": sys.argv[2], "wait_s": 60}
        try:
            found = broker.call("http.request", params)
        except ActionFailed as failed:
            found = failed.envelope
        chunk = broker.call("result.fetch", {"invocation_id": found["invocation_id"], "chunk": 0})
        print(found["invocation_id"], hashlib.sha256(base64.b64decode(chunk["base64"])).hexdigest())
    """
)


@pytest.mark.parametrize("then", [None, Broker.kill, ends_in_order], ids=["", "killed", "ended"])
def test_a_caller_that_is_gone_and_back(then: Callable[[Broker], None] | None, home: Home, world: World) -> None:
    """It ends in mid-call; the answer comes while nobody waits, and is there for the next one of the same program."""
    errand = Errand(home, world)
    url = str(errand.params["url"])

    def held(call: target.Call) -> None:
        call.hold()
        call.answer(201, errand.body)

    world.target.scripts[errand.path] = held
    named = {"operation_id": errand.operation_id, "events": True}
    with contextlib.ExitStack() as running:
        broker = running.enter_context(home.serve())
        gone = Agent(home, CODE, url, errand.operation_id)
        (call,) = world.target.calls(errand.path)
        gone.kill()
        with broker.agent() as other:

            def told() -> Envelope:
                return answered(other, "action.get", named)

            until(lambda: "CALLER_GONE" in kinds_of(told()), "it is seen that the caller is gone")
            assert "pending" in told(), "that ends nothing"
            call.release.set()
            until(lambda: "pending" not in told(), "the verdict")
            assert said(told()) == SEALED
            invocation_id = told()["invocation_id"]
        if then is not None:
            then(broker)
            running.enter_context(home.serve())
        back = Agent(home, CODE, url, errand.operation_id)
        assert back.said() == [invocation_id, hashlib.sha256(errand.body).hexdigest()]
    assert errand.arrivals == 1
    assert home.intact()


def kinds_of(envelope: Envelope) -> list[str]:
    return [event["kind"] for event in envelope["events"]]


# -- to a person's terminal


CODINGS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
}


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("large", [False, True], ids=["inline", "in-chunks"])
def test_a_decoded_answer_is_printed_fetched_and_acknowledged(
    coding: str, large: bool, home: Home, world: World, tmp_path: Path
) -> None:
    body = "".join(f"line {n} of the answer\n" for n in range(200_000 if large else 5)).encode()
    coded = CODINGS[coding](body)
    path = f"/coded/{new_operation()}"
    world.target.scripts[path] = lambda call: call.answer(200, coded, f"Content-Encoding: {coding}")
    with home.serve() as broker:
        ran = home.run("http", "GET", f"http://127.0.0.1:{world.target.port}{path}")
        assert (ran.status, ran.out.encode() == body) == (0, True), ran.err
        operation_id = ran.err.splitlines()[0]
        file = tmp_path / "answer"
        assert home.run("result", "fetch", operation_id, "-o", str(file)).status == 0
        with broker.agent() as agent:
            assert (
                answered(agent, "action.get", {"operation_id": operation_id})["evidence"]["delivery"] == "acknowledged"
            )
    assert file.read_bytes() == body
    assert len(world.target.arrivals(path)) == 1
