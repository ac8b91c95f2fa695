"""Frames: what a connection carries once it has turned into a stream (interface, Streams).

    caller: STDIN as it comes, then END     broker: STDOUT and STDERR as they come, then END

END is empty and ends its sender's direction. Without it that direction was cut, whatever came before. How far one side
may be ahead is what the socket and the broker hold, the latter at most `stream.CREDIT` each way: who is not read waits.
"""

from __future__ import annotations

import asyncio
import select
import socket
from collections.abc import Coroutine, Iterator

from affidavit.broker.stream import CallerStream
from affidavit.broker.wire.ssh.port import Stream
from affidavit.ipc.frame_format import END, FRAME_BYTES, HEAD, STDERR, STDIN, STDOUT

LOOK_S = 1.0
"""How often it is looked whether the caller of a command that takes no input is there still."""
_CHANNELS = {Stream.STDOUT: STDOUT, Stream.STDERR: STDERR}


class BadFrame(Exception):
    """The caller sent what is no frame of its own, or one too long."""


def frames(channel: int, data: bytes) -> Iterator[bytes]:
    """`data` in frames; none for no data."""
    for at in range(0, len(data), FRAME_BYTES):
        part = data[at : at + FRAME_BYTES]
        yield HEAD.pack(channel, len(part)) + part


class FrameBuffer:
    """Cuts a byte stream into frames. Holds at most one, and what was put in at one go."""

    def __init__(self) -> None:
        self._held = bytearray()

    def put(self, data: bytes) -> None:
        self._held += data

    def next(self) -> tuple[int, bytes] | None:
        """The next whole frame; None until more is there. Raises BadFrame for one too long."""
        if len(self._held) < HEAD.size:
            return None
        channel, length = HEAD.unpack_from(self._held)
        if length > FRAME_BYTES:
            raise BadFrame
        end = HEAD.size + length
        if len(self._held) < end:
            return None
        payload = bytes(self._held[HEAD.size : end])
        del self._held[:end]
        return channel, payload


async def carry(sock: socket.socket, stream: CallerStream, begun: bytes, *, stall_s: float) -> None:
    """Carry a stream over an attached connection, to its end or until the caller is gone; `begun` was read already.

    After the verdict the caller still gets what lies here, and is cut off when it takes nothing of it for `stall_s`.
    """
    inward = asyncio.ensure_future(_while_there(stream, _inward(sock, stream, begun)))
    outward = asyncio.ensure_future(_while_there(stream, _outward(sock, stream)))
    try:
        await stream.ended()
        unread = -1
        while not (outward.done() or stream.lost or stream.unread == unread):
            unread = stream.unread
            await asyncio.wait((outward,), timeout=stall_s)
    finally:
        stream.leave()
        for each in (inward, outward):
            each.cancel()
        await asyncio.gather(inward, outward, return_exceptions=True)


async def _while_there(stream: CallerStream, direction: Coroutine[None, None, None]) -> None:
    """One direction. Where it fails, the caller is gone."""
    try:
        await direction
    except Exception:
        stream.leave()
        raise


async def _inward(sock: socket.socket, stream: CallerStream, begun: bytes) -> None:
    """Take the caller's frames. Returns once it sends no more, though it may still read; raises where it is gone."""
    loop, buffer = asyncio.get_running_loop(), FrameBuffer()
    ended = not stream.takes_input
    data = begun
    while True:
        buffer.put(data)
        while (frame := buffer.next()) is not None:
            match frame:
                case (channel, payload) if channel == STDIN and not ended:
                    await _feed(sock, stream, payload)
                case (channel, b"") if channel == END:
                    ended = True
                    stream.end_input()
                case _:
                    raise BadFrame
        data = await loop.sock_recv(sock, FRAME_BYTES + HEAD.size)
        if not data:
            if not ended or hung_up(sock):
                raise ConnectionResetError
            return


async def _feed(sock: socket.socket, stream: CallerStream, data: bytes) -> None:
    """Give the command a part of its input. While it takes none nothing is read, so it is looked whether the caller is
    there still."""
    feeding = asyncio.ensure_future(stream.feed(data))
    try:
        while not (await asyncio.wait({feeding}, timeout=LOOK_S))[0]:
            if hung_up(sock):
                raise ConnectionResetError
    finally:
        feeding.cancel()


async def _outward(sock: socket.socket, stream: CallerStream) -> None:
    """Give the caller what the command writes."""
    loop = asyncio.get_running_loop()
    while (part := await stream.take()) is not None:
        for frame in frames(_CHANNELS[part[0]], part[1]):
            await loop.sock_sendall(sock, frame)
    if stream.whole:
        await loop.sock_sendall(sock, HEAD.pack(END, 0))


def hung_up(sock: socket.socket) -> bool:
    """The other side has closed both directions."""
    poll = select.poll()
    poll.register(sock, 0)
    return any(events & select.POLLHUP for _, events in poll.poll(0))
