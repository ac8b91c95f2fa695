"""A channel as the peer fills it: its numbers, its windows, and what came on it (RFC 4254, 5 and 6).

Two threads meet here. The reader's (paramiko's own) calls `take` with each message in order; the loop's does all else.
What both touch is guarded by the channel's lock. No paramiko here, and nothing waits.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass
from enum import IntEnum

from affidavit.broker.wire.ssh.fields import Fields, Malformed
from affidavit.broker.wire.ssh.port import ExitSignal, Stream

WINDOW = 2 * 1024 * 1024
"""What the peer may send before it is granted more: OpenSSH's own. It bounds what is held for a slow sink."""
GRANT = 256 * 1024
"""Consumed bytes that are granted anew at one go."""
PACKET = 32 * 1024
"""The most in one data message, either way (RFC 4253, 6.1)."""
WINDOW_MAX = 2**32 - 1

STDERR = 1
"""The one extended data type there is (RFC 4254, 5.2)."""

SHORTAGE = 4
"""SSH_OPEN_RESOURCE_SHORTAGE (RFC 4254, 5.1)."""
CONNECT_FAILED = 2
"""SSH_OPEN_CONNECT_FAILED."""


class Kind(IntEnum):
    """Channel messages (RFC 4254, 9)."""

    OPEN_CONFIRMATION = 91
    OPEN_FAILURE = 92
    WINDOW_ADJUST = 93
    DATA = 94
    EXTENDED_DATA = 95
    EOF = 96
    CLOSE = 97
    REQUEST = 98
    SUCCESS = 99
    FAILURE = 100


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a channel was not opened."""

    reason: int
    text: str


class Channel(ABC):
    """What every channel has."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.number = -1
        """Ours; the session gives it when it asks for the channel."""
        self.peer: int | None = None
        """The peer's number for it; None until it is open."""
        self.refusal: Refusal | None = None
        self.window = 0
        """How many bytes may be sent now."""
        self.packet = PACKET
        self.eof = False
        self.closed = False
        self.dismissed = False
        """Closed from this side; the loop's alone."""
        self.over = False
        """No more messages come."""
        self.violation: str | None = None
        self._granted = WINDOW
        self._received = 0

    @property
    def answered(self) -> bool:
        """Whether the peer has answered the request for it."""
        return self.peer is not None or self.refusal is not None

    def take(self, kind: Kind, fields: Fields) -> None:
        """One message of the peer's, the channel's number already read. After a violation nothing is looked at."""
        with self.lock:
            if self.violation is not None or self.closed:
                return
            try:
                self._take(kind, fields)
            except Malformed:
                self._violate(f"a malformed {kind.name} message")

    def spend(self, count: int) -> None:
        """Bytes were sent."""
        with self.lock:
            self.window -= count

    def grant(self, count: int) -> None:
        """The peer is about to be told that it may send more."""
        with self.lock:
            self._granted += count

    def lost(self) -> None:
        """The session is over. In the reading thread."""
        self.over = True

    def _take(self, kind: Kind, fields: Fields) -> None:
        if (kind in (Kind.OPEN_CONFIRMATION, Kind.OPEN_FAILURE)) is self.answered:
            self._violate(f"an unasked {kind.name} message")
            return
        match kind:
            case Kind.OPEN_CONFIRMATION:
                peer, self.window, packet = fields.uint32(), fields.uint32(), fields.uint32()
                self.packet = min(packet, PACKET)
                self.peer = peer
            case Kind.OPEN_FAILURE:
                self.refusal = Refusal(fields.uint32(), fields.text(200))
            case Kind.WINDOW_ADJUST:
                self.window += fields.uint32()
                if self.window > WINDOW_MAX:
                    self._violate("a window beyond its bounds")
            case Kind.DATA:
                self._count(Stream.STDOUT, fields.string())
            case Kind.EXTENDED_DATA:
                code, data = fields.uint32(), fields.string()
                if code == STDERR:
                    self._count(Stream.STDERR, data)
                else:
                    self._violate("an unknown type of extended data")
            case Kind.EOF:
                self.eof = True
            case Kind.CLOSE:
                self.closed = True
            case Kind.REQUEST:
                name, wants_reply = bytes(fields.string()), fields.boolean()
                self._request(name, wants_reply, fields)
            case Kind.SUCCESS | Kind.FAILURE:
                self._reply(kind is Kind.SUCCESS)

    def _count(self, stream: Stream, data: memoryview) -> None:
        self._received += len(data)
        if self._received > self._granted:
            self._violate("more output than its window allows")
        elif self.eof:
            self._violate("output after its end")
        else:
            self._data(stream, data)

    def _violate(self, what: str) -> None:
        if self.violation is None:
            self.violation = what

    @abstractmethod
    def _data(self, stream: Stream, data: memoryview) -> None:
        """A part of a stream, within the window. The view is good for this call."""

    @abstractmethod
    def _request(self, name: bytes, wants_reply: bool, fields: Fields) -> None: ...

    @abstractmethod
    def _reply(self, success: bool) -> None: ...


EXEC = "exec"


class CommandChannel(Channel):
    """A session channel with one command."""

    def __init__(self) -> None:
        super().__init__()
        self.accepted = False
        self.refused = False
        self.refused_variable: str | None = None
        self.exit_status: int | None = None
        self.exit_signal: ExitSignal | None = None
        self.deaf = False
        """The command reads no more input (OpenSSH's `eow@openssh.com`)."""
        self.bytes = dict.fromkeys(Stream, 0)
        self.replies_due = 0
        """Requests of the peer's that want an answer and have none yet."""
        self._asked: deque[str] = deque()
        self._output = {stream: bytearray() for stream in Stream}

    def ask(self, what: str) -> None:
        """A request with want-reply is about to go: a variable's name with `=` before it, or EXEC."""
        with self.lock:
            self._asked.append(what)

    @property
    def awaits_reply(self) -> bool:
        return bool(self._asked)

    @property
    def exited(self) -> bool:
        return self.exit_status is not None or self.exit_signal is not None

    def output(self) -> list[tuple[Stream, bytearray]]:
        """Take what has come. The streams' order among each other is not kept, as SSH does not promise it either."""
        with self.lock:
            taken = [(stream, data) for stream, data in self._output.items() if data]
            for stream, _ in taken:
                self._output[stream] = bytearray()
        return taken

    def take_replies_due(self) -> int:
        with self.lock:
            due, self.replies_due = self.replies_due, 0
        return due

    def _data(self, stream: Stream, data: memoryview) -> None:
        if not self.accepted:
            self._violate("output though exec was refused" if self.refused else "output without a reply to exec")
            return
        self.bytes[stream] += len(data)
        self._output[stream] += data

    def _reply(self, success: bool) -> None:
        if not self._asked:
            refused_late = self.accepted and not success
            self._violate("exec refused after it was accepted" if refused_late else "a reply that nobody asked for")
            return
        what = self._asked.popleft()
        if what == EXEC:
            self.accepted = success
            self.refused = not success
        elif not success and self.refused_variable is None:
            self.refused_variable = what[1:]

    def _request(self, name: bytes, wants_reply: bool, fields: Fields) -> None:
        if wants_reply:
            self.replies_due += 1
        match name:
            case b"exit-status":
                if fields.left != 4:
                    self._violate("an exit status without its value")
                elif self._may_exit("an exit status"):
                    self.exit_status = fields.uint32()
            case b"exit-signal":
                signal = ExitSignal(_ascii(fields.text(64)), fields.boolean(), fields.text(1024))
                fields.string()  # the language
                if self._may_exit("an exit signal"):
                    self.exit_signal = signal
            case b"eow@openssh.com":
                self.deaf = True
            case _:
                pass

    def _may_exit(self, what: str) -> bool:
        if not self.accepted:
            self._violate(f"{what} though exec was refused" if self.refused else f"{what} without a reply to exec")
        elif self.exited:
            self._violate(f"{what} after an exit result")
        return self.violation is None


def _ascii(text: str) -> str:
    return text.encode("ascii", "replace").decode("ascii")
