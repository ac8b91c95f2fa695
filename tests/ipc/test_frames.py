"""Frames, and what becomes of a connection that carries them."""

from __future__ import annotations

import asyncio

import pytest
from scripted_ipc import Doors, RawClient

from affidavit.broker.stream import CREDIT, CallerStream
from affidavit.broker.terms import SessionId
from affidavit.broker.wire.ssh.port import StdinBroken, Stream
from affidavit.ipc import connection
from affidavit.ipc import frames as module
from affidavit.ipc.frame_format import END, FRAME_BYTES, HEAD, STDERR, STDIN, STDOUT
from affidavit.ipc.frames import BadFrame, FrameBuffer, frames

ATTACH = {"invocation_id": "act_1"}


def frame(channel: int, data: bytes = b"") -> bytes:
    return HEAD.pack(channel, len(data)) + data


@pytest.fixture
def stream(doors: Doors) -> CallerStream:
    """A stream of the scripted broker, which was announced."""
    made = doors.broker.stream = CallerStream(SessionId("ses_1"), takes_input=True, announce=lambda: None)
    made.announced = True
    return made


async def attached(doors: Doors) -> RawClient:
    client = await doors.connect()
    assert (await client.ask("stream.attach", ATTACH))["result"] == {"attached": True}
    return client


async def read(client: RawClient, count: int) -> bytes:
    async with asyncio.timeout(20):
        while len(client.buffer) < count:
            piece = await client.loop.sock_recv(client.sock, 1 << 20)
            assert piece, "the stream ended early"
            client.buffer += piece
    taken, client.buffer = client.buffer[:count], client.buffer[count:]
    return taken


async def at_end(client: RawClient) -> bool:
    async with asyncio.timeout(20):
        return client.buffer == b"" and await client.loop.sock_recv(client.sock, 1) == b""


async def write(client: RawClient, data: bytes) -> None:
    async with asyncio.timeout(20):
        await client.loop.sock_sendall(client.sock, data)


async def the_input(stream: CallerStream) -> bytes:
    async with asyncio.timeout(20):
        return b"".join([part async for part in stream.parts()])


@pytest.mark.parametrize("cut", [1, 3, 5, 7, 1000])
def test_frames_come_out_as_they_went_in(cut: int) -> None:
    sent = [(STDIN, b"one"), (STDERR, bytes(FRAME_BYTES)), (END, b"")]
    stream = b"".join(frame(*each) for each in sent)
    buffer, got = FrameBuffer(), []
    for at in range(0, len(stream), cut):
        buffer.put(stream[at : at + cut])
        while (one := buffer.next()) is not None:
            got.append(one)
    assert got == sent


def test_data_is_cut_into_frames() -> None:
    assert [len(each) - HEAD.size for each in frames(STDOUT, bytes(FRAME_BYTES + 1))] == [FRAME_BYTES, 1]
    assert list(frames(STDOUT, b"")) == []


def test_a_frame_that_is_too_long_is_seen_by_its_head() -> None:
    buffer = FrameBuffer()
    buffer.put(HEAD.pack(STDIN, FRAME_BYTES + 1))
    with pytest.raises(BadFrame):
        buffer.next()


async def test_both_directions_are_carried_to_their_ends(doors: Doors, stream: CallerStream) -> None:
    client = await doors.connect()
    line = client.line("stream.attach", ATTACH)
    await write(client, line + b"\n" + frame(STDIN, b"in"))  # what follows the line is a frame already
    assert (await client.recv())["result"] == {"attached": True}
    stream.offer(Stream.STDOUT, b"out")
    stream.offer(Stream.STDERR, b"err")
    expected = frame(STDOUT, b"out") + frame(STDERR, b"err")
    assert await read(client, len(expected)) == expected
    await write(client, frame(STDIN, b"put") + frame(END))
    assert await the_input(stream) == b"input"
    stream.offer(Stream.STDOUT, b"last")
    stream.close(whole=True)
    expected = frame(STDOUT, b"last") + frame(END)
    assert await read(client, len(expected)) == expected
    assert await at_end(client)
    client.close()


async def test_without_all_of_it_there_is_no_end_frame(doors: Doors, stream: CallerStream) -> None:
    client = await attached(doors)
    stream.offer(Stream.STDOUT, b"part")
    stream.close()
    assert await read(client, 9) == frame(STDOUT, b"part")
    assert await at_end(client)
    client.close()


async def test_a_caller_that_closes_midway_breaks_its_input_off(doors: Doors, stream: CallerStream) -> None:
    client = await attached(doors)
    await write(client, frame(STDIN, b"half"))
    client.close()
    with pytest.raises(StdinBroken):
        await the_input(stream)


async def test_a_caller_that_goes_while_the_command_takes_no_input_is_missed(
    doors: Doors, stream: CallerStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOK_S", 0.01)
    client = await attached(doors)
    for _ in range(CREDIT // FRAME_BYTES):
        await write(client, frame(STDIN, bytes(FRAME_BYTES)))
    async with asyncio.timeout(20):
        await stream._until(lambda: stream._input_bytes >= CREDIT)
        client.close()
        await stream._until(lambda: stream.lost)


async def test_a_half_closed_connection_without_an_end_is_broken_off_too(doors: Doors, stream: CallerStream) -> None:
    client = await attached(doors)
    client.sock.shutdown(1)
    with pytest.raises(StdinBroken):
        await the_input(stream)
    client.close()


async def test_a_caller_may_close_its_direction_after_the_end(doors: Doors, stream: CallerStream) -> None:
    client = await attached(doors)
    await write(client, frame(END))
    client.sock.shutdown(1)
    assert await the_input(stream) == b""
    stream.offer(Stream.STDOUT, b"out")
    stream.close(whole=True)
    assert await read(client, 13) == frame(STDOUT, b"out") + frame(END)
    client.close()


@pytest.mark.parametrize(
    "wrong",
    [
        HEAD.pack(STDIN, FRAME_BYTES + 1),
        frame(STDOUT, b"x"),
        frame(7),
        frame(END, b"x"),
        frame(END) + frame(STDIN, b"late"),
    ],
)
async def test_what_is_no_frame_of_the_callers_ends_the_connection(
    doors: Doors, stream: CallerStream, wrong: bytes
) -> None:
    client = await attached(doors)
    await write(client, wrong)
    assert await at_end(client)
    assert stream.lost
    client.close()


async def test_outputs_alone_take_no_input(doors: Doors, stream: CallerStream) -> None:
    stream.takes_input = False
    client = await attached(doors)
    await write(client, frame(STDIN, b"x"))
    assert await at_end(client)
    client.close()


async def test_a_reader_that_takes_nothing_holds_up_its_own_command_alone(doors: Doors, stream: CallerStream) -> None:
    client = await attached(doors)
    while stream._output_bytes < CREDIT:
        stream.offer(Stream.STDOUT, bytes(FRAME_BYTES))
        await asyncio.sleep(0)
    waiting = asyncio.ensure_future(stream.room())
    other = await doors.connect()
    assert "result" in await other.ask("status")
    assert not waiting.done()
    client.close()
    async with asyncio.timeout(20):
        await waiting
    other.close()


async def test_a_refused_attachment_leaves_a_connection_of_lines(doors: Doors, stream: CallerStream) -> None:
    client = await doors.connect()
    refused = await client.ask("stream.attach", {"invocation_id": "act_none"})
    assert (refused["error"]["code"], refused["error"]["data"]) == (-32602, {"field": "invocation_id"})
    assert "result" in await client.ask("status")
    assert (await client.ask("stream.attach", ATTACH))["result"] == {"attached": True}
    client.close()


async def test_it_stands_alone(doors: Doors, stream: CallerStream) -> None:
    client = await doors.connect()
    batch = b"[" + client.line("stream.attach", ATTACH) + b"]"
    await client.send(batch)
    assert (await client.recv())[0]["error"]["code"] == -32600
    doors.broker.hold = True
    await client.send(client.line("action.wait", ATTACH))
    await doors.broker.until(lambda: bool(doors.broker.waiting))
    refused = await client.ask("stream.attach", ATTACH)
    assert (refused["error"]["code"], stream.taken) == (-32602, False)
    client.close()


async def test_no_news_comes_among_frames(doors: Doors, stream: CallerStream) -> None:
    client = await doors.connect()
    await client.ask("session.hello")
    assert (await client.ask("stream.attach", ATTACH))["result"] == {"attached": True}
    (listener,) = next(iter(doors.broker.listeners.values()))
    listener({"invocation_id": "act_1"})
    await asyncio.sleep(0)
    stream.offer(Stream.STDOUT, b"out")
    stream.close(whole=True)
    assert await read(client, 13) == frame(STDOUT, b"out") + frame(END)
    client.close()


async def test_readiness_is_told_to_the_connection_that_asked(doors: Doors, stream: CallerStream) -> None:
    client, doors.broker.hold = await doors.connect(), True
    await client.send(client.line("ssh.exec", {"host": "web", "command": "x", "stream": True}))
    told = await client.recv()
    assert (told["method"], told["params"]) == ("stream.ready", ATTACH)
    doors.broker.answer_all()
    assert "result" in await client.recv()
    client.close()


async def test_after_the_verdict_a_caller_that_takes_nothing_is_cut_off(
    doors: Doors, stream: CallerStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "STALL_S", 0.01)
    client = await attached(doors)
    while stream.unread < CREDIT:
        stream.offer(Stream.STDOUT, bytes(FRAME_BYTES))
    stream.close(whole=True)
    _, still = await asyncio.wait(doors.agent._connections.values(), timeout=20)
    assert not still
    client.close()
