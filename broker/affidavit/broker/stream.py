"""A stream: what a caller and its command say to each other while the command runs (interface, Streams).

    caller --feed--> input, at most CREDIT bytes --parts--> wire --> command
    caller <--take-- output, at most CREDIT bytes <--offer-- wire <-- command

It is announced once host, login, channel and environment are ready, and the line is not crossed before the caller is
there: one that never comes proves that nothing was sent. From the line on neither end waits for the other for ever. A
caller that does not read holds the command up, and nothing else, until the action's deadline; one that goes before its
input's end breaks the input off, which never passes for its end. Owned by the broker's loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable

from affidavit.broker.redact import Forms, LiveRedactor
from affidavit.broker.terms import SessionId
from affidavit.broker.wire.ssh.port import StdinBroken, Stream

CREDIT = 1024 * 1024
"""Bytes that may lie here, each way, before the side that they come from has to wait."""

ATTACH_S = 10.0
"""How long the caller is waited for, once it was told that all is ready."""


HELD_S = 0.1
"""How long an end of the output that may be the beginning of a secret is held back where nothing follows it: the other
side may be waiting for an answer to what it has not got."""


class CallerStream:
    """The broker's hold of both ends. `session_id` is the one that asked and may attach."""

    def __init__(self, session_id: SessionId, *, takes_input: bool, announce: Callable[[], None]) -> None:
        """`announce` tells the caller that it may attach now."""
        self.session_id = session_id
        self.takes_input = takes_input
        self.announced = False
        self.taken = False
        """A caller has attached; there is never a second one."""
        self.lost = False
        """That caller is gone."""
        self.whole = False
        """All that the command wrote is in what the caller was given."""
        self._announce = announce
        self._input: deque[bytes] = deque()
        self._input_bytes = 0
        self._input_ended = not takes_input
        self._output: deque[tuple[Stream, bytes]] = deque()
        self._output_bytes = 0
        self.over = False
        """The action has its verdict: the caller gets what lies here, and nothing is waited for."""
        self._changed = asyncio.Event()

    # -- the action's end

    async def attached(self) -> bool:
        """Announce, and wait for the caller; False where it did not come, or is gone already."""
        if not self.announced:
            self.announced = True
            self._announce()
        try:
            async with asyncio.timeout(ATTACH_S):
                await self._until(lambda: self.taken)
        except TimeoutError:
            pass
        return self.taken and not self.lost

    async def parts(self) -> AsyncIterator[bytes]:
        """The input, to its end. Raises StdinBroken where the caller is gone before that, or has its answer."""
        while True:
            await self._until(lambda: bool(self._input) or self._input_ended or self.lost or self.over)
            if not self._input_ended and (self.lost or self.over):
                raise StdinBroken
            if not self._input:
                return
            part = self._input.popleft()
            self._input_bytes -= len(part)
            self._wake()
            yield part

    def offer(self, stream: Stream, data: bytes) -> None:
        """Give the caller a part of the output; dropped where nobody takes it."""
        if data and not (self.lost or self.over):
            self._output.append((stream, data))
            self._output_bytes += len(data)
            self._wake()

    @property
    def unread(self) -> int:
        """Bytes of the output that lie here."""
        return self._output_bytes

    async def ended(self) -> None:
        """Wait for the verdict, or until the caller is gone."""
        await self._until(lambda: self.over or self.lost)

    async def room(self) -> None:
        """Wait until the caller may be given more."""
        await self._until(lambda: self._output_bytes < CREDIT or self.lost or self.over)

    def close(self, *, whole: bool = False) -> None:
        """The verdict is there. With `whole` all that the command wrote was offered. May be repeated."""
        if not self.over:
            self.over = True
            self.whole = whole and not self.lost
            self._wake()

    # -- the caller's end

    def attach(self) -> None:
        """The caller is there: once, and after the announcement."""
        assert self.announced, "nothing is ready yet"
        assert not self.taken, "another is attached"
        self.taken = True
        self._wake()

    async def feed(self, data: bytes) -> None:
        """Give the command a part of its input, and wait until more may be given; dropped once the action is over."""
        assert not self._input_ended, "the input has ended"
        if self.over or not data:
            return
        self._input.append(data)
        self._input_bytes += len(data)
        self._wake()
        await self._until(lambda: self._input_bytes < CREDIT or self.over)

    def end_input(self) -> None:
        """No more follows. After the verdict it is no end: parts were dropped since."""
        if not self.over:
            self._input_ended = True
            self._wake()

    def leave(self) -> None:
        """The caller is gone. May be repeated."""
        if not self.over:
            self.lost = True
            self._output.clear()
            self._wake()

    async def take(self) -> tuple[Stream, bytes] | None:
        """The next part of the output; None once there are no more."""
        await self._until(lambda: bool(self._output) or self.over or self.lost)
        if not self._output:
            return None
        stream, data = self._output.popleft()
        self._output_bytes -= len(data)
        self._wake()
        return stream, data

    # -- inside

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            changed = self._changed
            await changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class LiveOutput:
    """A command's outputs on their way to the caller, redacted. Owned by the loop.

    What may be the beginning of a secret is held back. It is let go once nothing has followed it for HELD_S in which
    more was asked for: between `offer` and `room` what follows may lie unread, and that time does not count.
    """

    def __init__(self, stream: CallerStream, forms: Forms) -> None:
        self._stream = stream
        self._redactors = {each: LiveRedactor(forms) for each in Stream}
        self._left_s: dict[Stream, float] = {}
        """How long each output that holds an end back goes on doing so."""
        self._timers: dict[Stream, asyncio.TimerHandle] = {}

    def offer(self, stream: Stream, data: bytes) -> None:
        """Pass on what came."""
        self._stop()
        redactor = self._redactors[stream]
        self._stream.offer(stream, redactor.feed(data))
        if redactor.holds:
            self._left_s[stream] = HELD_S
        else:
            self._left_s.pop(stream, None)

    async def room(self) -> None:
        """Wait until more may come."""
        await self._stream.room()
        loop = asyncio.get_running_loop()
        self._timers = {each: loop.call_later(left_s, self._let_go, each) for each, left_s in self._left_s.items()}

    def finish(self) -> None:
        """Let go of what is held back: nothing will follow."""
        self._stop()
        for stream in Stream:
            self._let_go(stream)

    def _stop(self) -> None:
        now = asyncio.get_running_loop().time()
        for stream, timer in self._timers.items():
            timer.cancel()
            self._left_s[stream] = timer.when() - now
        self._timers.clear()

    def _let_go(self, stream: Stream) -> None:
        self._timers.pop(stream, None)
        self._left_s.pop(stream, None)
        self._stream.offer(stream, self._redactors[stream].flush())
