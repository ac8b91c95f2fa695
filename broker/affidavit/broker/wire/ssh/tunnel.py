"""The way through a jump host: a channel of one session as the stream of the next (RFC 4254, 7.2)."""

from __future__ import annotations

import asyncio
import threading

from affidavit.broker.wire.ssh.channel import GRANT, Channel, Kind
from affidavit.broker.wire.ssh.fields import Fields, string, uint32
from affidavit.broker.wire.ssh.pipe import TICK_S, UNSENT_LOW, UNSENT_MAX, Pipe
from affidavit.broker.wire.ssh.port import Stream
from affidavit.broker.wire.ssh.session import Session


def target(host: str, port: int) -> bytes:
    """The fields by which a jump host is asked to connect. Where the request came from is none of its business."""
    return string(host.encode("ascii")) + uint32(port) + string(b"127.0.0.1") + uint32(0)


class TunnelChannel(Channel):
    """A direct-tcpip channel. The outer session's thread fills it, the inner one's empties it."""

    def __init__(self) -> None:
        super().__init__()
        self.ready = threading.Condition(self.lock)
        self._buffer = bytearray()

    @property
    def ended(self) -> bool:
        return self.eof or self.closed or self.over or self.violation is not None

    def receive(self) -> bytearray | None:
        """What has come, after waiting for a tick at most; nothing at the end, None if there is nothing yet."""
        with self.ready:
            if not self._buffer and not self.ended:
                self.ready.wait(TICK_S)
            if not self._buffer:
                return self._buffer if self.ended else None
            taken, self._buffer = self._buffer, bytearray()
            return taken

    def take(self, kind: Kind, fields: Fields) -> None:
        super().take(kind, fields)
        self.wake()

    def lost(self) -> None:
        super().lost()
        self.wake()

    def wake(self) -> None:
        """Let the reader look again. From any thread."""
        with self.ready:
            self.ready.notify_all()

    def _data(self, stream: Stream, data: memoryview) -> None:
        if stream is Stream.STDOUT:
            self._buffer += data
        else:
            self._violate("a second stream in a tunnel")

    def _request(self, name: bytes, wants_reply: bool, fields: Fields) -> None:
        if wants_reply:
            self._violate("a request in a tunnel")

    def _reply(self, success: bool) -> None:
        self._violate("a reply that nobody asked for")


class TunnelPipe(Pipe):
    """A tunnel as the pipe of the next session. It does not outlive the session that carries it."""

    def __init__(self, outer: Session, channel: TunnelChannel, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._outer = outer
        self._channel = channel
        self._loop = loop
        self._lock = threading.Lock()
        self._unsent = bytearray()
        self._flushing = False
        """A flush is due on the loop."""
        self._shut = False
        self._consumed = 0
        outer.listeners.append(self._flush)

    @property
    def closed(self) -> bool:
        return self._shut

    @property
    def unsent(self) -> int:
        return len(self._unsent) + self._outer.pipe.unsent

    def send(self, data: bytes) -> int:
        with self._lock:
            if self._shut:
                raise BrokenPipeError
            if len(self._unsent) + len(data) > UNSENT_MAX:
                self.ending = "ENOBUFS"
                raise BrokenPipeError
            self._unsent += data
            if not self._flushing:
                self._flushing = True
                self._loop.call_soon_threadsafe(self._flush)
        return len(data)

    def close(self) -> None:
        self._shut = True
        self._channel.wake()

    def release(self) -> None:
        self.close()
        if self._flush in self._outer.listeners:
            self._outer.listeners.remove(self._flush)

    def stop_reading(self) -> None:
        """Nothing is held for the reader alone."""

    def _receive(self) -> bytes:
        if self._shut:
            self.ending = self.ending or "EOF"
            return b""
        data = self._channel.receive()
        if data is None:
            raise TimeoutError
        if not data:
            self.ending = self.ending or "EOF"
        self._consumed += len(data)
        if self._consumed >= GRANT:
            consumed, self._consumed = self._consumed, 0
            self._loop.call_soon_threadsafe(self._outer.consumed, self._channel, consumed)
        return bytes(data)

    def _flush(self) -> None:
        """Hand on what the outer session takes now; it calls again when it may take more."""
        with self._lock:
            self._flushing = False
            while self._unsent and not self._shut and self._outer.clear and self._outer.pipe.unsent < UNSENT_LOW:
                count = min(len(self._unsent), self._channel.window, self._channel.packet)
                if count <= 0 or self._channel.ended:
                    break
                data = bytes(self._unsent[:count])
                del self._unsent[:count]
                self._channel.spend(count)
                self._outer.send(self._channel, Kind.DATA, string(data))
        if self.unsent < UNSENT_LOW:
            self.drained()
