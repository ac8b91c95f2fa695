"""One message a line: cuts a byte stream at its line feeds, with a limit on what is held.

The lines are bytearrays, so that one that held a passphrase can be overwritten by whoever is done with it. Copies that
the interpreter made on the way are out of reach.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from affidavit.broker.secret import overwrite

READ_BYTES = 64 * 1024

Receive = Callable[[bytearray], Awaitable[int]]
"""Fill the buffer from its start and return how many bytes came; 0 is the end of the stream."""


class LineTooLong(Exception):
    """The line passed the limit. Its beginning was dropped, so nothing after it can be trusted to begin a message."""


class LineUnfinished(Exception):
    """The stream ended inside a line. It may be cut: nothing in it may be acted on."""


class LineReader:
    """Lines of one stream. Holds at most `limit` bytes of an unfinished line, and READ_BYTES besides.

    `wiping`: the reader's own copy of every byte is overwritten once it was handed on.
    """

    def __init__(self, receive: Receive, *, limit: int, wiping: bool = False) -> None:
        self._receive = receive
        self._limit = limit
        self._wiping = wiping
        self._buffer = bytearray(READ_BYTES)
        self._start = 0
        self._end = 0

    async def line(self) -> bytearray | None:
        """The next line without its line feed; None at the end of the stream. Raises LineTooLong, LineUnfinished."""
        line = bytearray()
        while True:
            if self._start == self._end:
                self._start, self._end = 0, await self._receive(self._buffer)
                if self._end == 0:
                    if line:
                        overwrite(line)
                        raise LineUnfinished
                    return None
            feed = self._buffer.find(b"\n", self._start, self._end)
            stop = self._end if feed < 0 else feed
            if len(line) + stop - self._start > self._limit:
                overwrite(line)
                raise LineTooLong
            line += memoryview(self._buffer)[self._start : stop]
            if self._wiping:
                self._buffer[self._start : stop] = bytes(stop - self._start)
            self._start = stop
            if feed >= 0:
                self._start += 1
                return line
