"""The stream that paramiko takes for a socket: reads wait, writes never do, and both end when it is closed."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator

import pytest

from affidavit.broker.wire.ssh.pipe import LONGEST, UNSENT_LOW, UNSENT_MAX, Overlong, SocketPipe


@pytest.fixture
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    yield ours, theirs
    theirs.close()


def released(pipe: SocketPipe) -> None:
    pipe.release()
    pipe.stop_reading()


async def test_reads_give_no_more_than_is_asked_for(sockets: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = sockets
    pipe = SocketPipe(ours, asyncio.get_running_loop())
    theirs.send(b"abcdef")
    assert pipe.recv(2) == b"ab"
    assert pipe.recv(3) == b"cde"
    assert pipe.recv(100) == b"f"
    with pytest.raises(TimeoutError):
        pipe.recv(1)
    theirs.close()
    assert pipe.recv(1) == b""
    assert pipe.ending == "EOF"
    released(pipe)


async def test_a_packet_that_is_too_long_is_not_read(sockets: tuple[socket.socket, socket.socket]) -> None:
    pipe = SocketPipe(sockets[0], asyncio.get_running_loop())
    with pytest.raises(Overlong):
        pipe.recv(LONGEST + 1)
    released(pipe)


async def test_writes_never_wait_and_come_out_in_order(sockets: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = sockets
    pipe = SocketPipe(ours, asyncio.get_running_loop())
    drained = asyncio.Event()
    pipe.drained = drained.set
    sent = bytearray()
    for n in range(256):
        part = bytes([n]) * 4096
        assert pipe.send(part) == len(part)
        sent += part
        if pipe.unsent > UNSENT_LOW:
            break
    assert pipe.unsent > UNSENT_LOW
    assert not drained.is_set()
    got = bytearray()

    def read() -> None:
        while len(got) < len(sent):
            got.extend(theirs.recv(65536))

    reader = threading.Thread(target=read)
    reader.start()
    async with asyncio.timeout(10):
        await drained.wait()
        await asyncio.to_thread(reader.join)
    assert got == sent
    assert pipe.unsent == 0
    released(pipe)


async def test_what_is_unsent_has_a_bound(sockets: tuple[socket.socket, socket.socket]) -> None:
    pipe = SocketPipe(sockets[0], asyncio.get_running_loop())
    while pipe.unsent <= UNSENT_MAX - 65536:
        pipe.send(bytes(65536))
    with pytest.raises(BrokenPipeError):
        pipe.send(bytes(65537))
    assert pipe.unsent <= UNSENT_MAX
    assert pipe.ending == "ENOBUFS"
    released(pipe)


async def test_after_a_failed_write_what_was_said_before_is_still_read(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = sockets
    pipe = SocketPipe(ours, asyncio.get_running_loop())
    theirs.send(b"farewell")
    theirs.close()
    for _ in range(3):
        assert pipe.send(b"x") == 1
    assert pipe.recv(100) == b"farewell"
    released(pipe)


async def test_closing_ends_a_read_that_waits(sockets: tuple[socket.socket, socket.socket]) -> None:
    pipe = SocketPipe(sockets[0], asyncio.get_running_loop())
    got: list[bytes] = []

    def read() -> None:
        while not got:
            try:
                got.append(pipe.recv(1))
            except TimeoutError:
                pass

    reader = threading.Thread(target=read)
    reader.start()
    pipe.close()
    pipe.close()
    await asyncio.to_thread(reader.join, 10)
    assert got == [b""]
    assert pipe.closed
    with pytest.raises(BrokenPipeError):
        pipe.send(b"x")
    released(pipe)
    released(pipe)
