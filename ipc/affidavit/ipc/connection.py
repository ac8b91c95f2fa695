"""One connection: reads lines, runs the calls in them concurrently, writes each answer whole.

A connection is only a way to ask. When it drops, calls that act go on to their end, and only those that read are given
up; what became of an action is asked for by its id, on any connection (interface, section 3, Time).

Answers never block another connection: a reader that is slow holds up its own calls, first by their number, and is
cut off when it takes nothing for STALL_S. Nothing here knows what a call means; that is `Calls`.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from affidavit.broker.api import ActionError, BadParam, Json
from affidavit.broker.secret import overwrite
from affidavit.broker.stream import CallerStream
from affidavit.ipc import errors, frames, jsonrpc
from affidavit.ipc.framing import LineBuffer, LineTooLong
from affidavit.ipc.jsonrpc import Batch, Call, Failure, Message
from affidavit.ipc.methods import Method
from affidavit.ipc.peer import PeerRefused

IN_FLIGHT = 64
"""Calls of one connection that run at a time; further lines are not read until one is answered."""
UNHEARD = 256
"""Notifications kept for a slow reader; the oldest is dropped first. Each is news of what `action.get` tells."""
STALL_S = 60.0
OFF_LOOP_BYTES = 1024 * 1024
"""A longer line is parsed in a thread. The interpreter is shared, so `jsonrpc.MAX_VALUES` bounds what one may cost."""
LINGER_S = 5.0
LINGER_BYTES = 64 * 1024 * 1024
_WRITE_BYTES = 64 * 1024

Tell = Callable[[str, Json], None]
"""Say a notification on a connection: its method and params. Never blocks."""

C = TypeVar("C")


class CallerGone(Exception):
    """The process that connected, or its session's, has ended. Whoever holds its socket now gets no answer."""


class Calls(Protocol[C]):
    """One socket's methods, and who may call them."""

    @property
    def methods(self) -> Mapping[str, Method]:
        """By name."""

    @property
    def wiping(self) -> bool:
        """Lines hold passphrases: they are overwritten as soon as they are read."""

    def admit(self, sock: socket.socket, tell: Tell) -> C:
        """Who connected. Raises PeerRefused."""

    def leave(self, caller: C) -> None:
        """The connection is over and all its calls are answered or given up."""

    async def call(self, caller: C, method: Method, given: dict[str, Any] | list[Any] | None) -> Json | CallerStream:
        """Answer one call; a stream only where `method.frames`. Raises CallerGone, or what `errors.failure` knows."""

    def delivered(self, caller: C, invocation_id: str, *, whole: bool) -> None:
        """The frame with this settled envelope was handed to the kernel whole, or could not be."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """An encoded answer, and the invocation whose settled envelope it is, if it is one."""

    frame: bytes
    settled: str | None = None


class Connection(Generic[C]):
    """Owned by the broker's loop, and owns its socket. `open` turns False when the other side is gone for good.

    Lines are read as the loop finds them, while there is room for their calls; each line's calls are one task.
    """

    def __init__(self, sock: socket.socket, calls: Calls[C], *, line: int) -> None:
        self.open = True
        self._sock = sock
        self._calls = calls
        self._lines = LineBuffer(limit=line, wiping=calls.wiping)
        self._most = line
        self._loop = asyncio.get_running_loop()
        self._input: asyncio.Future[Failure | None] = self._loop.create_future()
        """Done when no more is read; with what is wrong, where the input ended in the wrong way."""
        self._caller: C
        """Set before anything is read."""
        self._tasks = asyncio.TaskGroup()
        self._watching = False
        self._in_flight = 0
        self._parsing = False
        self._turning = False
        """A call is at work that turns this connection into a stream: no line is read after it."""
        self._framed = False
        self._writing = asyncio.Lock()
        self._reads: set[asyncio.Task[Any]] = set()
        self._unheard: deque[tuple[str, Json]] = deque(maxlen=UNHEARD)
        self._news = asyncio.Event()

    async def run(self) -> None:
        """From accept to close. Raises nothing but CancelledError, unless we are at fault."""
        try:
            try:
                self._caller = self._calls.admit(self._sock, self._tell)
            except PeerRefused as refused:
                await self.refuse(str(refused))
                return
            try:
                async with asyncio.TaskGroup() as both:
                    telling = both.create_task(self._tell_all())
                    async with self._tasks:
                        self._go_on()
                        wrong = await self._input
                        if wrong is not None:
                            await self._write(jsonrpc.error(wrong))
                            await self._linger()
                    telling.cancel()
            finally:
                self._calls.leave(self._caller)
        finally:
            self._close()

    async def refuse(self, why: str) -> None:
        """Say why there is no connection, and close."""
        try:
            await self._write(jsonrpc.error(Failure(jsonrpc.REFUSED, why)))
            await self._linger()
        finally:
            self._close()

    def stop_reading(self) -> None:
        """Take no further calls; those that run are still answered."""
        self._end_input(None)

    def _go_on(self) -> None:
        """Start what the lines that are here ask for, and read on while there is room."""
        while not self._input.done() and self._in_flight < IN_FLIGHT and not (self._parsing or self._turning):
            try:
                line = self._lines.line()
            except LineTooLong:
                self._end_input(Failure(jsonrpc.INVALID_REQUEST, f"A line has at most {self._most:,} bytes."))
                return
            if line is None:
                self._watch(True)
                return
            self._start(line)
        self._watch(False)

    def _watch(self, watching: bool) -> None:
        if watching and not self._watching:
            self._loop.add_reader(self._sock, self._readable)
        elif self._watching and not watching:
            self._loop.remove_reader(self._sock)
        self._watching = watching

    def _readable(self) -> None:
        try:
            count = self._sock.recv_into(self._lines.space)
        except BlockingIOError:
            return
        except OSError:
            count = 0
        if count:
            self._lines.filled(count)
            self._go_on()
        elif self._lines.unfinished:
            cut = "The last line has no line feed, so it may be cut. Nothing was done."
            self._end_input(Failure(jsonrpc.PARSE_ERROR, cut))
        else:
            self._end_input(None)
            if frames.hung_up(self._sock):
                self._abandon()

    def _end_input(self, wrong: Failure | None) -> None:
        self._watch(False)
        if not self._input.done():
            self._input.set_result(wrong)

    def _start(self, line: bytearray) -> None:
        """Start the task of one line. A long one is parsed first, elsewhere, and holds up those after it."""
        if len(line) > OFF_LOOP_BYTES:
            self._parsing = True
            self._tasks.create_task(self._parse(line))
        else:
            self._begin(self._decode(line))

    async def _parse(self, line: bytearray) -> None:
        message = await asyncio.to_thread(self._decode, line)
        self._parsing = False
        self._begin(message)
        self._go_on()

    def _decode(self, line: bytearray) -> Message:
        message = jsonrpc.decode(line)
        if self._calls.wiping:
            overwrite(line)
        return message

    def _begin(self, message: Message) -> None:
        if isinstance(message, Call) and not message.notification:
            method = self._calls.methods.get(message.method)
            if method is not None and method.frames:
                self._turning = True
                self._tasks.create_task(self._turn(message, method))
                return
        held = len(message.entries) if isinstance(message, Batch) else 1
        self._in_flight += held
        self._tasks.create_task(self._answer(message, held))

    async def _turn(self, call: Call, method: Method) -> None:
        """Make this connection a stream, and carry it to its end; where that is refused, go on with lines."""
        try:
            if self._in_flight:
                raise BadParam("invocation_id", "Other calls are at work here. Attach on a connection of its own.")
            stream = await self._calls.call(self._caller, method, call.params)
        except CallerGone:
            self._abandon()
        except Exception as error:
            await self._write(jsonrpc.error(errors.failure(call.id, error)))
            self._turning = False
            self._go_on()
        else:
            assert isinstance(stream, CallerStream), "a method that turns its connection gives a stream"
            self._framed = True
            try:
                await self._write(jsonrpc.result(call.id, {"attached": True}))
                await frames.carry(self._sock, stream, self._lines.rest(), stall_s=STALL_S)
            finally:
                stream.leave()
            await self._linger()
            self._end_input(None)

    async def _answer(self, message: Message, held: int) -> None:
        """Run what one line asks for and write its answer. A notification has none, so nothing is done for it."""
        try:
            if isinstance(message, Batch):
                answers = await self._all(message)
                frame = jsonrpc.batch([answer.frame for answer in answers])
            else:
                answers = [answer] if (answer := await self._one(message)) else []
                frame = answers[0].frame if answers else b""
            if not answers:
                return
            whole = await self._write(frame)
            for answer in answers:
                if answer.settled is not None:
                    self._calls.delivered(self._caller, answer.settled, whole=whole)
        finally:
            self._in_flight -= held
            if not self._watching:
                self._go_on()

    async def _all(self, batch: Batch) -> list[_Answer]:
        """The answers of a batch in the order of its calls, once the slowest is there."""
        answers: list[_Answer | None] = [None] * len(batch.entries)

        async def one(at: int, entry: Call | Failure) -> None:
            answers[at] = await self._one(entry)

        async with asyncio.TaskGroup() as tasks:
            for at, entry in enumerate(batch.entries):
                tasks.create_task(one(at, entry))
        return [answer for answer in answers if answer is not None]

    async def _one(self, entry: Call | Failure) -> _Answer | None:
        """Run one call to its encoded answer; None where there is nobody to answer."""
        if isinstance(entry, Failure):
            return _Answer(jsonrpc.error(entry))
        if entry.notification:
            return None
        method = self._calls.methods.get(entry.method)
        if method is None:
            return _Answer(jsonrpc.error(Failure(jsonrpc.METHOD_NOT_FOUND, "There is no such method.", entry.id)))
        if method.frames:
            alone = f"{entry.method} stands alone: in no batch."
            return _Answer(jsonrpc.error(Failure(jsonrpc.INVALID_REQUEST, alone, entry.id)))
        task = asyncio.current_task()
        assert task is not None
        if not method.acting:
            self._reads.add(task)
        try:
            answer = await self._calls.call(self._caller, method, entry.params)
            assert isinstance(answer, Mapping), "no stream is given here"
            return _Answer(jsonrpc.result(entry.id, answer), _settled(method, answer))
        except CallerGone:
            self._abandon()
            return None
        except Exception as error:
            settled = _settled(method, error.envelope) if isinstance(error, ActionError) else None
            try:
                return _Answer(jsonrpc.error(errors.failure(entry.id, error)), settled)
            except (TypeError, ValueError) as unfit:  # the envelope itself is not JSON
                return _Answer(jsonrpc.error(errors.failure(entry.id, unfit)))
        finally:
            self._reads.discard(task)

    def _tell(self, method: str, params: Json) -> None:
        self._unheard.append((method, params))
        self._news.set()

    async def _tell_all(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            while self._unheard:
                await self._write(jsonrpc.notification(*self._unheard.popleft()), news=True)

    async def _write(self, frame: bytes, *, news: bool = False) -> bool:
        """Write one line; True once the kernel has all of it, False where the other side is gone, or takes no news."""
        async with self._writing:
            if not self.open or (news and self._framed):
                return False
            rest = memoryview(frame + b"\n")
            try:
                try:
                    rest = rest[self._sock.send(rest) :]
                except BlockingIOError:
                    pass
                while rest:
                    async with asyncio.timeout(STALL_S):
                        await self._loop.sock_sendall(self._sock, rest[:_WRITE_BYTES])
                    rest = rest[_WRITE_BYTES:]
            except (OSError, TimeoutError):
                self._abandon()
                return False
        return True

    async def _linger(self) -> None:
        """Read and drop what is still being sent, so that the sender gets to our answer instead of a broken pipe."""
        dropped = 0
        try:
            if not self._in_flight:
                self._sock.shutdown(socket.SHUT_WR)
            async with asyncio.timeout(LINGER_S):
                while dropped < LINGER_BYTES and (
                    count := await self._loop.sock_recv_into(self._sock, self._lines.space)
                ):
                    dropped += count
        except (OSError, TimeoutError):
            pass

    def _abandon(self) -> None:
        """Nobody listens any more: end reading, give up the calls that only read."""
        if self.open:
            self.open = False
            self._end_input(None)
            try:
                self._sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            for task in self._reads - {asyncio.current_task()}:
                task.cancel()

    def _close(self) -> None:
        self.open = False
        self._end_input(None)
        self._sock.close()


def _settled(method: Method, answer: Json) -> str | None:
    """The invocation whose settled envelope this answer is."""
    if not method.envelope or "pending" in answer:
        return None
    return str(answer["invocation_id"])
