"""Results through the agents' side, over real connections: kept whole, fetched again, never sent again (R38-R42)."""

from __future__ import annotations

import asyncio
import base64
import gzip
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.broker.conftest import SECRET

from affidavit.broker.api import ActionError, BadParam
from affidavit.broker.wire.exchange import DirectWire
from affidavit.journal import CHUNK


class Peer:
    """A target on loopback that plays given bytes to each request and counts what arrived."""

    def __init__(self) -> None:
        self.port = 0
        self.answers: list[bytes] = []
        self.arrived = 0
        self.hold = asyncio.Event()
        """An answer's part behind HOLD goes once this is set."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        first, _, rest = self.answers[min(self.arrived, len(self.answers) - 1)].partition(HOLD)
        self.arrived += 1
        writer.write(first)
        try:
            await writer.drain()
            if rest:
                await self.hold.wait()
                writer.write(rest)
                await writer.drain()
        except ConnectionError:
            pass
        writer.close()


HOLD = b"<hold>"


def reply(body: bytes, *headers: str, status: int = 200) -> bytes:
    head = "".join(f"{header}\r\n" for header in (*headers, f"Content-Length: {len(body)}"))
    return f"HTTP/1.1 {status} OK\r\n{head}\r\n".encode() + body


@asynccontextmanager
async def target(world: Any, *answers: bytes) -> AsyncIterator[Peer]:
    """A peer that a credential is bound to, and the real wire."""
    peer = Peer()
    peer.answers = list(answers)
    server = await asyncio.start_server(peer.serve, "127.0.0.1", 0, limit=1 << 20)
    peer.port = server.sockets[0].getsockname()[1]
    world.wire = world.broker.core.wire = DirectWire()
    await world.credential(target=f"http://127.0.0.1:{peer.port}/**")
    try:
        yield peer
    finally:
        peer.hold.set()
        server.close()
        await server.wait_closed()


async def ask(world: Any, peer: Peer, session: Any = None, **more: Any) -> Any:
    params = {"method": "GET", "url": f"http://127.0.0.1:{peer.port}/thing", **more}
    return await world.ask(session or world.session(), **params)


async def fetch(world: Any, invocation_id: str, chunk: int, session: Any = None) -> bytes:
    """One chunk, verified by its hash."""
    got = await world.broker.agent.result_fetch(
        session or world.session(), invocation_id=invocation_id, chunk=chunk, part="body"
    )
    data = base64.b64decode(got["base64"])
    assert got["sha256"] == hashlib.sha256(data).hexdigest()
    assert got["last"] == (chunk == got["chunks"] - 1)
    assert got["complete"] == got["last"]
    return data


MULTIPART = b"--b\r\nContent-Type: text/plain\r\n\r\nfield\r\n--b\r\n\r\n\x00\xff\r\n\r\n--b--\r\n"
BODIES = {
    "empty": b"",
    "text": "päper".encode(),
    "every byte": bytes(range(256)) * 3,
    "multipart": MULTIPART,
    "line ends": b"\r\n\r\n\n\r\0",
    "as large as one chunk": os.urandom(CHUNK),
    "more than one chunk": os.urandom(CHUNK + 1),
    "many chunks": os.urandom(5 * CHUNK + 77),
}


@pytest.mark.parametrize("framing", ["length", "chunked"])
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
async def test_every_body_comes_back_as_it_was(world: Any, body: bytes, framing: str) -> None:
    if framing == "length":
        answer = reply(body, "Content-Type: multipart/form-data; boundary=b")
    else:
        parts = [body[at : at + 50_000] for at in range(0, len(body), 50_000)]
        answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        answer += b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
    async with target(world, answer) as peer:
        got = await ask(world, peer)
    shown = got["http"]["body"]
    digest = hashlib.sha256(body).hexdigest()
    assert (shown["bytes"], shown["sha256"], shown["complete"]) == (len(body), digest, True)
    assert (shown["redactions"], shown["delivered_sha256"], shown["truncated_at"]) == (0, None, None)
    assert shown["inline"] == (len(body) <= CHUNK)
    if shown["inline"]:
        assert (shown["text"].encode() if "text" in shown else base64.b64decode(shown["base64"])) == body
    else:
        assert "text" not in shown
        assert "base64" not in shown
    for _ in range(2):
        whole = b"".join([await fetch(world, got["invocation_id"], n) for n in range(shown["chunks"])])
        assert whole == body
        await world.restart()


async def test_a_fetch_goes_on_where_it_was_after_a_restart_and_nothing_is_sent_again(world: Any) -> None:
    body = os.urandom(4 * CHUNK)
    async with target(world, reply(body)) as peer:
        got = await ask(world, peer, method="POST", body="x", operation_id="op-1")
        have = await fetch(world, got["invocation_id"], 0) + await fetch(world, got["invocation_id"], 1)
        await world.restart()
        world.broker.core.wire = DirectWire()
        await world.broker.operator.lock(why="test")
        with pytest.raises(ActionError) as locked:
            await fetch(world, got["invocation_id"], 2)
        assert world.facts(locked.value.envelope) == ("result_delivery", "committed", "RESULT_SEALED", "fetch_result")
        await world.unlock()
        have += await fetch(world, got["invocation_id"], 2) + await fetch(world, got["invocation_id"], 3)
        again = await ask(world, peer, method="POST", body="x", operation_id="op-1")
        assert again["invocation_id"] == got["invocation_id"]
        assert peer.arrived == 1
    assert have == body
    with pytest.raises(BadParam):
        await fetch(world, got["invocation_id"], 4)
    with pytest.raises(BadParam):
        await fetch(world, got["invocation_id"], -1)


@pytest.mark.parametrize("large", [False, True])
async def test_a_reply_that_did_not_arrive_is_fetched_and_acknowledged(world: Any, large: bool) -> None:
    body = os.urandom(2 * CHUNK if large else 100)
    session = world.session()
    async with target(world, reply(body)) as peer:
        got = await ask(world, peer, session, method="POST", body="x", operation_id="op-1")
        world.broker.agent.delivered(got["invocation_id"], session.session_id, whole=False)
        undelivered = await ask(world, peer, session, method="POST", body="x", operation_id="op-1")
        assert world.facts(undelivered) == (
            "result_delivery",
            "committed",
            "RESULT_UNDELIVERED",
            "fetch_result",
        )
        chunks = -(-len(body) // CHUNK)
        assert b"".join([await fetch(world, got["invocation_id"], n) for n in range(chunks)]) == body
        ack = {"invocation_id": got["invocation_id"], "part": "body"}
        with pytest.raises(BadParam):
            await world.broker.agent.result_ack(session, sha256=hashlib.sha256(b"?").hexdigest(), **ack)
        digest = hashlib.sha256(body).hexdigest()
        assert await world.broker.agent.result_ack(session, sha256=digest, **ack) == {"delivered": True}
        after = await ask(world, peer, session, method="POST", body="x", operation_id="op-1")
        assert world.facts(after) == ("remote_execution", "committed", "REMOTE_RESULT", "never")
        assert after["evidence"]["delivery"] == "acknowledged"
        assert peer.arrived == 1


@pytest.mark.parametrize("harm", ["changed", "cut", "gone", "longer"])
async def test_a_damaged_result_is_said_to_be_lost_and_the_outcome_stays(world: Any, harm: str) -> None:
    body = os.urandom(3 * CHUNK)
    async with target(world, reply(body, status=201)) as peer:
        got = await ask(world, peer)
    (path,) = [p for p in world.places.results.iterdir() if p.suffix != ".spool"]
    do_harm(path, harm)
    with pytest.raises(ActionError) as lost:
        await fetch(world, got["invocation_id"], 1)
    said = lost.value.envelope
    assert world.facts(said) == ("result_delivery", "committed", "RESULT_STORAGE_FAILED", "reconcile")
    assert "cannot be read" in said["error"]["message"]
    assert said["evidence"]["response_sha256"] == f"sha256:{hashlib.sha256(body).hexdigest()}"
    assert [alert.which for alert in world.broker.core.alerts] == ["storage"]
    if harm == "changed":
        assert await fetch(world, got["invocation_id"], 0) == body[:CHUNK]


def do_harm(path: Path, harm: str) -> None:
    whole = path.read_bytes()
    middle = len(whole) // 2
    match harm:
        case "changed":
            path.write_bytes(whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :])
        case "cut":
            path.write_bytes(whole[: len(whole) - CHUNK - 16])
        case "longer":
            path.write_bytes(whole + whole[-CHUNK:])
        case "gone":
            path.unlink()


async def test_an_inline_result_whose_blob_is_gone_is_said_to_be_lost(world: Any) -> None:
    async with target(world, reply(b"small")) as peer:
        got = await ask(world, peer)
    core = world.broker.core
    name = core.projection.get(got["invocation_id"]).body.name
    core.journal.delete_blob(name)
    await core.projection.flush().durable()
    core.results.forget()
    now = await world.broker.operator.action_get(got["invocation_id"])
    assert now["evidence"]["response_complete"] is True
    with pytest.raises(ActionError) as lost:
        await world.broker.agent.action_wait(world.session(), invocation_id=got["invocation_id"], wait_s=0)
    assert world.facts(lost.value.envelope)[1:3] == ("committed", "RESULT_STORAGE_FAILED")


async def test_there_is_nothing_to_fetch_of_what_is_open(world: Any) -> None:
    call = world.call(world.session(), url="https://api.example.com/v1/things")
    card = await world.card()
    with pytest.raises(ActionError) as nothing:
        await fetch(world, card.invocation_id, 0)
    assert world.facts(nothing.value.envelope)[2] == "AWAITING_APPROVAL"
    await world.deny()
    await call


# -- redaction


async def test_no_form_of_the_secret_lies_on_disk_or_reaches_the_agent(world: Any) -> None:
    """Echoed small and large, in headers, encoded and coded; looked for in every file, opened and as it lies."""
    forms = [SECRET, SECRET.hex().encode(), base64.b64encode(SECRET), base64.b64encode(b"x" + SECRET)]
    echo = b" ".join(forms)
    large = os.urandom(CHUNK - 30) + echo + os.urandom(CHUNK) + echo
    answers = (
        reply(echo, f"X-Echo: Bearer {SECRET.decode()}", f"Set-Cookie: s={SECRET.decode()}"),
        reply(large),
        reply(gzip.compress(large), "Content-Encoding: gzip"),
        reply(large, "Content-Encoding: zzz"),
    )
    session = world.session()
    async with target(world, *answers) as peer:
        got = [await ask(world, peer, session) for _ in answers]
    assert [g["http"]["body"]["redactions"] for g in got] == [5, 8, 8, 8]
    assert got[0]["http"]["headers"]["x-echo"] == "[redacted]"
    assert "set-cookie" not in got[0]["http"]["headers"]
    fetched = []
    for envelope in got[:3]:
        shown = envelope["http"]["body"]
        data = b"".join([await fetch(world, envelope["invocation_id"], n) for n in range(shown["chunks"])])
        assert hashlib.sha256(data).hexdigest() == shown["delivered_sha256"]
        fetched.append(data)
    assert fetched[1] == fetched[2]
    assert got[1]["http"]["body"]["sha256"] == hashlib.sha256(large).hexdigest()
    core = world.broker.core
    opened = [json.dumps(envelope).encode() for envelope in got]
    for envelope in got:
        opened += [json.dumps(payload).encode() for _, payload in core.projection.records(envelope["invocation_id"])]
        body = core.projection.get(envelope["invocation_id"]).body
        opened += [await core.results.chunk(body, n) for n in range(body.chunks)]
    await world.stop()
    raw = [path.read_bytes() for path in world.places.data.rglob("*") if path.is_file() and path.name != "ballast"]
    await world.start()
    await world.unlock()
    assert len(opened) > 20
    for form in forms:
        assert not any(form in data for data in (*opened, *fetched, *raw))


async def test_what_cannot_be_decoded_and_holds_the_secret_is_for_the_operator_alone(world: Any) -> None:
    session = world.session()
    async with target(world, reply(b"<" + SECRET + b">", "Content-Encoding: zzz")) as peer:
        got = await ask(world, peer, session)
    assert world.facts(got)[1:3] == ("committed", "REMOTE_RESULT")
    shown = got["http"]["body"]
    assert (shown["undecodable"], shown["withheld"]) == ("coding", True)
    assert "text" not in shown
    assert "base64" not in shown
    with pytest.raises(ActionError) as withheld:
        await fetch(world, got["invocation_id"], 0, session)
    assert world.facts(withheld.value.envelope) == ("result_delivery", "committed", "RESULT_SEALED", "fetch_result")
    seen = await world.broker.operator.action_get(got["invocation_id"])
    assert seen["http"]["body"]["text"] == "<[redacted]>"


async def test_what_cannot_be_decoded_is_delivered_where_no_form_stands_in_it(world: Any) -> None:
    odd = b"\x1f\x8bodd"
    async with target(world, reply(odd, "Content-Encoding: gzip")) as peer:
        got = await ask(world, peer)
    shown = got["http"]["body"]
    assert shown["undecodable"] == "malformed"
    assert base64.b64decode(shown["base64"]) == odd == await fetch(world, got["invocation_id"], 0)


async def test_decoded_bytes_are_delivered_with_their_own_hash_and_either_acknowledges(world: Any) -> None:
    coded = gzip.compress(b"decoded")
    session = world.session()
    async with target(world, reply(coded, "Content-Encoding: gzip"), reply(coded, "Content-Encoding: gzip")) as peer:
        got = [await ask(world, peer, session), await ask(world, peer, session)]
    for envelope, name in zip(got, ("sha256", "delivered_sha256"), strict=True):
        shown = envelope["http"]["body"]
        assert shown["text"] == "decoded"
        assert shown["sha256"] == hashlib.sha256(coded).hexdigest()
        assert shown["delivered_sha256"] == hashlib.sha256(b"decoded").hexdigest()
        assert await world.broker.agent.result_ack(
            session, invocation_id=envelope["invocation_id"], sha256=shown[name], part="body"
        ) == {"delivered": True}


async def test_where_something_was_taken_out_the_original_hash_does_not_acknowledge(world: Any) -> None:
    session = world.session()
    async with target(world, reply(b"<" + SECRET + b">")) as peer:
        got = await ask(world, peer, session)
    shown = got["http"]["body"]
    ack = {"invocation_id": got["invocation_id"], "part": "body"}
    with pytest.raises(BadParam):
        await world.broker.agent.result_ack(session, sha256=shown["sha256"], **ack)
    await world.broker.agent.result_ack(session, sha256="sha256:" + shown["delivered_sha256"], **ack)


# -- streams of events, limits, size


EVENTS = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


async def test_a_stream_of_events_is_kept_with_its_end(world: Any) -> None:
    async with target(world, EVENTS + b"9\r\ndata: 1\n\n\r\n" + HOLD + b"9\r\ndata: 2\n\n\r\n0\r\n\r\n") as peer:
        peer.hold.set()
        got = await ask(world, peer)
    assert got["http"]["body"]["text"] == "data: 1\n\ndata: 2\n\n"
    assert (got["http"]["body"]["complete"], got["evidence"]["completion"]) == (True, "chunked")


async def test_a_stream_that_is_cut_by_the_deadline_is_no_result_and_settles_when_it_ends(world: Any) -> None:
    session = world.session()
    async with target(world, EVENTS + b"9\r\ndata: 1\n\n\r\n" + HOLD + b"0\r\n\r\n") as peer:
        got = await ask(world, peer, session, deadline_s=0.3)
        assert world.facts(got)[1:3] == ("unknown", "REMOTE_RESULT_INCOMPLETE")
        assert "http" not in got
        changed = asyncio.Event()
        stop = world.broker.agent.on_change(session.session_id, lambda _: changed.set())
        peer.hold.set()
        await changed.wait()
        stop()
    late = await world.broker.agent.action_wait(session, invocation_id=got["invocation_id"], wait_s=5)
    assert world.facts(late)[1:3] == ("committed", "REMOTE_RESULT")
    assert late["http"]["body"]["text"] == "data: 1\n\n"


async def test_over_the_limit_the_answer_counts_and_says_where_storing_stopped(world: Any) -> None:
    body = os.urandom(3 * CHUNK)
    world.broker.core.limits = replace(world.broker.core.limits, result=CHUNK + 5)
    async with target(world, reply(body)) as peer:
        got = await ask(world, peer)
    assert world.facts(got)[1:3] == ("committed", "REMOTE_RESULT")
    shown = got["http"]["body"]
    assert (shown["bytes"], shown["truncated_at"], shown["complete"]) == (len(body), CHUNK + 5, False)
    assert shown["sha256"] == hashlib.sha256(body).hexdigest()
    last = await world.broker.agent.result_fetch(
        world.session(), invocation_id=got["invocation_id"], chunk=1, part="body"
    )
    assert (last["last"], last["complete"]) == (True, False)
    assert base64.b64decode(last["base64"]) == body[CHUNK : CHUNK + 5]


def test_256_mib_take_no_memory_and_hold_nobody_up(tmp_path: Path) -> None:
    program = [sys.executable, "-m", "tests.broker.large_result", str(tmp_path), "256"]
    ran = subprocess.run(program, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=110)
    assert ran.returncode == 0, ran.stderr
    seen = json.loads(ran.stdout)
    assert seen["whole"]
    assert seen["chunks"] == 1024
    assert seen["grown"] < 32 << 20
    assert seen["others"] >= 3
