"""One message a line: cuts a byte stream at its line feeds, with a limit on what is held. Does no I/O.

The lines are bytearrays, so that one that held a passphrase can be overwritten by whoever is done with it. Copies that
the interpreter made on the way are out of reach.
"""

from __future__ import annotations

from affidavit.broker.secret import overwrite

READ_BYTES = 64 * 1024


class LineTooLong(Exception):
    """The line passed the limit. Its beginning was dropped, so nothing after it can be trusted to begin a message."""


class LineBuffer:
    """The lines of one stream. Holds at most `limit` bytes of an unfinished line, and READ_BYTES besides.

    Fill `space` from its start and say how much to `filled`; then take lines with `line` until there is none. The space
    may be filled again only then. `wiping`: the buffer's own copy of every byte is overwritten once it was handed on.
    """

    def __init__(self, *, limit: int, wiping: bool = False) -> None:
        self.space = bytearray(READ_BYTES)
        self._limit = limit
        self._wiping = wiping
        self._begun = bytearray()
        self._start = 0
        self._end = 0

    @property
    def unfinished(self) -> bool:
        """The stream stopped inside a line. It may be cut: nothing in it may be acted on."""
        return bool(self._begun)

    def filled(self, count: int) -> None:
        self._start, self._end = 0, count

    def rest(self) -> bytes:
        """What was filled in and is no line yet: the stream is no longer one of lines. Nothing is held any more."""
        rest = bytes(self._begun) + bytes(self.space[self._start : self._end])
        self._begun, self._start = bytearray(), self._end
        return rest

    def line(self) -> bytearray | None:
        """The next whole line without its line feed; None until more is there. Raises LineTooLong."""
        feed = self.space.find(b"\n", self._start, self._end)
        stop = self._end if feed < 0 else feed
        if len(self._begun) + stop - self._start > self._limit:
            overwrite(self._begun)
            raise LineTooLong
        with memoryview(self.space) as view:
            self._begun += view[self._start : stop]
        if self._wiping:
            self.space[self._start : stop] = bytes(stop - self._start)
        self._start = stop
        if feed < 0:
            return None
        self._start += 1
        line, self._begun = self._begun, bytearray()
        return line
