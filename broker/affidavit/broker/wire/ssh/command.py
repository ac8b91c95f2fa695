"""One command on an open channel: from the exec message to the last thing that the peer says of it.

Three things run side by side on the loop: reading (`_listen`), which alone decides when it is over; sending the command
and its input (`_send`), as far as the peer takes it; and asking a silent peer for a sign of life (`_watch`).
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterable, AsyncIterator

from affidavit.broker.wire.port import Fault, Line
from affidavit.broker.wire.ssh.channel import EXEC, GRANT, CommandChannel, Kind
from affidavit.broker.wire.ssh.fields import string
from affidavit.broker.wire.ssh.pipe import UNSENT_LOW
from affidavit.broker.wire.ssh.port import SshLimits, SshRequest, SshSink, StdinBroken, Stream
from affidavit.broker.wire.ssh.session import End, Session

PART = 256 * 1024
"""The most that a sink is given at one go."""

_DISCONNECTED = (Fault.CLOSED, "disconnected by peer")
_ENDED_BY = {
    End.CLOSED: (Fault.CLOSED, "closed by peer"),
    End.RESET: (Fault.RESET, "reset by peer"),
    End.DISCONNECT: _DISCONNECTED,
    End.GARBLED: (Fault.MALFORMED, "ended by a packet that is not authentic or not SSH"),
    End.VERSION: (Fault.MALFORMED, "ended by a packet out of its place"),
    End.ALGORITHMS: (Fault.MALFORMED, "ended by a key exchange without a common algorithm"),
    End.KEY_NOT_OFFERED: (Fault.MALFORMED, "ended by a key exchange without the pinned host key"),
    End.DEAF: (Fault.ABANDONED, "closed by the broker, as the peer reads nothing of what it asks for,"),
    End.HERE: (Fault.ABANDONED, "closed by the broker"),
}


class Command:
    """Runs once. Its facts may be read at any time; `complete`, `fault` and `observation` are set at the end."""

    def __init__(
        self,
        session: Session,
        channel: CommandChannel,
        request: SshRequest,
        line: Line,
        sink: SshSink,
        limits: SshLimits,
    ) -> None:
        self.channel = channel
        self.sent = False
        """The exec message was handed over."""
        self.stdin_bytes = 0
        self.stdin_complete = False
        self.stdin_broken = False
        self._digest = hashlib.sha256() if not isinstance(request.stdin, bytes) else None
        self.complete = False
        self.fault: Fault | None = None
        self.observation: str | None = None
        self._session = session
        self._request = request
        self._line = line
        self._sink = sink
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._reply_told = False
        self._consumed = 0
        """Output that the sink took and the peer was not granted anew."""
        self._silent = False
        self._failure: Exception | None = None
        """What the stdin stream or the line raised while sending."""
        self._writing: asyncio.Timeout | None = None
        self._abandoned = False
        self._unread = False
        """Output came that the sink did not get."""

    @property
    def stdin_sha256(self) -> str | None:
        """As `SshEvidence.stdin_sha256`."""
        return self._digest.copy().hexdigest() if self._digest is not None else None

    async def run(self) -> None:
        """To the end. What the sink, the stdin stream or the line raises comes through."""
        try:
            if not self._nothing_more:
                await self._converse()
        finally:
            self._conclude()
        if self._failure is not None:
            raise self._failure

    def abandon(self) -> None:
        """Return from `run` now."""
        self._abandoned = True
        if self._writing is not None:
            self._writing.reschedule(self._loop.time())
        self._session.wake()

    def signal(self, name: str) -> bool:
        """Send the command a signal, if it runs."""
        channel = self.channel
        if self._nothing_more or not channel.accepted or channel.exited:
            return False
        self._session.send(channel, Kind.REQUEST, string(b"signal") + b"\0" + string(name.encode("ascii")))
        return True

    def finish(self) -> bool:
        """Close the channel from this side too. True if its transport may serve another command."""
        serves = self.complete and self.channel.closed and self._session.ended is None and self._session.clear
        if serves:
            self._session.close_channel(self.channel)
        return serves

    @property
    def completion(self) -> str | None:
        """As `SshEvidence.completion`."""
        if not self.complete:
            return None
        if self.channel.refused:
            return "refused"
        result = "exit" if self.channel.exit_status is not None else "signal"
        return f"{result}+eof+close" if self.channel.closed else f"{result}+eof"

    async def _converse(self) -> None:
        self.channel.ask(EXEC)
        self._session.execute(self.channel, self._request.command)
        self.sent = self._session.executed
        helpers = [asyncio.ensure_future(self._send()), asyncio.ensure_future(self._watch())]
        try:
            await self._listen()
        finally:
            for helper in helpers:
                helper.cancel()
            await asyncio.gather(*helpers, return_exceptions=True)

    # -- reading

    async def _listen(self) -> None:
        """Pass on what comes until nothing more can come, or nothing more is needed."""
        ends: float | None = None
        while not self._abandoned:
            nothing_more = self._nothing_more
            self._answer()
            if output := self.channel.output():
                for stream, data in output:
                    await self._pass_on(stream, data)
            elif nothing_more:
                return
            else:
                if ends is None and self._decided:
                    ends = self._loop.time() + self._limits.close_grace_s
                    if self.channel.refused:
                        self._session.close_channel(self.channel)
                try:
                    async with asyncio.timeout_at(ends):
                        await self._session.change()
                except TimeoutError:
                    return

    @property
    def _nothing_more(self) -> bool:
        """Nothing that could matter comes any more; what has come may still have to be passed on."""
        channel = self.channel
        return (
            channel.closed
            or channel.violation is not None
            or self._session.ended is not None
            or self._abandoned
            or self._silent
            or self._failure is not None
        )

    @property
    def _decided(self) -> bool:
        """The peer has said all that decides, and only CLOSE, or what contradicts it, may follow."""
        channel = self.channel
        return channel.violation is None and (channel.refused or (channel.exited and channel.eof))

    def _answer(self) -> None:
        """Tell the line of the reply to exec, and the peer that its requests are not known."""
        channel = self.channel
        if not self._reply_told and (channel.accepted or channel.refused):
            self._reply_told = True
            self._line.response_started(None, ())
        for _ in range(channel.take_replies_due()):
            self._session.send(channel, Kind.FAILURE)

    async def _pass_on(self, stream: Stream, data: bytearray) -> None:
        for start in range(0, len(data), PART):
            part = bytes(data[start : start + PART])
            try:
                async with asyncio.timeout(None) as self._writing:
                    await self._sink.write(stream, part)
            except TimeoutError:
                if not self._abandoned:
                    raise
            finally:
                self._writing = None
            if self._abandoned:
                self._unread = True
                return
            self._consumed += len(part)
            if self._consumed >= GRANT and not self._nothing_more:
                consumed, self._consumed = self._consumed, 0
                self._session.consumed(self.channel, consumed)

    # -- sending

    async def _send(self) -> None:
        try:
            await self._session.until(lambda: self._session.executed)
            self.sent = self._session.executed
            await self._session.until(lambda: self.channel.accepted)
            if self.channel.accepted and await self._send_input():
                self._session.send(self.channel, Kind.EOF)
                await self._session.until(lambda: self._session.clear and self._session.pipe.unsent == 0)
                if self._session.ended is None:
                    self.stdin_complete = True
                    self._line.request_sent(len(self._request.command) + self.stdin_bytes)
        except StdinBroken:
            self.stdin_broken = True
            await self._leave()
        except Exception as error:
            self._failure = error
            self._session.wake()

    async def _leave(self) -> None:
        """Its input cannot be completed any more: go, once what the command says to a signal may have come."""
        await asyncio.sleep(self._limits.close_grace_s)
        self.abandon()

    async def _send_input(self) -> bool:
        """All of stdin, as the peer takes it. False once it takes no more."""
        async for part in _parts(self._request.stdin):
            view = memoryview(part)
            while view:
                await self._session.until(lambda: self._room > 0 or self._refuses_input)
                if self._refuses_input:
                    return False
                count = min(len(view), self._room)
                self.channel.spend(count)
                self._session.send(self.channel, Kind.DATA, string(bytes(view[:count])))
                self.stdin_bytes += count
                if self._digest is not None:
                    self._digest.update(view[:count])
                view = view[count:]
                await asyncio.sleep(0)  # A peer that takes all at once is not to hold up everyone else.
        return not self._refuses_input

    @property
    def _room(self) -> int:
        """How much the next data message may hold."""
        if not self._session.clear or self._session.pipe.unsent >= UNSENT_LOW:
            return 0
        return min(self.channel.window, self.channel.packet)

    @property
    def _refuses_input(self) -> bool:
        channel = self.channel
        return channel.deaf or channel.closed or channel.violation is not None or self._session.ended is not None

    # -- silence

    async def _watch(self) -> None:
        """Ask a peer that has been silent for a sign of life, and give it up if it gives none."""
        session = self._session
        while True:
            left_s = self._limits.keepalive_s - session.silent_s
            if left_s > 0:
                await asyncio.sleep(left_s)
                continue
            asked_at = session.ping()
            try:
                async with asyncio.timeout(self._limits.keepalive_answer_s):
                    await session.until(lambda asked_at=asked_at: session.heard_since(asked_at))  # type: ignore[misc]
            except TimeoutError:
                self._silent = True
                session.wake()
                return
            if session.ended is not None:
                return

    # -- the end

    def _conclude(self) -> None:
        """Fix what the end looks like, before the connection is parted with."""
        unread = self._unread or (self._abandoned and bool(self.channel.output()))
        cut_short = unread or (self.channel.refused and self._abandoned and not self.channel.closed)
        if self._decided and not cut_short:
            self.complete = True
            return
        self.fault, what = self._how_ended()
        channel = self.channel
        if channel.violation is not None:
            self.observation = what
        elif not (channel.accepted or channel.refused):
            self.observation = f"{what} before the reply to exec"
        elif channel.exited:
            self.observation = f"{what} after the exit result, before the output's end"
        else:
            self.observation = f"{what} before the command's end"
        self.observation += self._farewell

    def _how_ended(self) -> tuple[Fault, str]:
        if self.channel.violation is not None:
            return Fault.CONTRADICTION, self.channel.violation
        if self.channel.closed:
            return Fault.CLOSED, "channel closed by peer"
        if self._silent:
            return Fault.SILENT, "no sign of life from peer"
        ended = self._session.ended
        if self.stdin_broken and ended is None:
            return Fault.ABANDONED, "closed by the broker, as its input had broken off,"
        if ended is None or self._abandoned:
            return Fault.ABANDONED, "closed by the broker"
        return _ENDED_BY[ended.end]

    @property
    def _farewell(self) -> str:
        """The peer's own words, if those were the end; they come last, for they may have been cut."""
        ended = self._session.ended
        if ended is None or ended.end is not End.DISCONNECT or not ended.detail or self._how_ended() != _DISCONNECTED:
            return ""
        return f": {ended.detail}"


async def _parts(stdin: bytes | AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    if isinstance(stdin, bytes):
        yield stdin
    else:
        async for part in stdin:
            yield part
