"""A contract's completion marker: the last line that a command prints once all of it is done (R37, R50).

It stands in for an exit status that never came. It is looked for in standard output as it arrives, before redaction and
whatever of it is stored: a whole line, ended by a line feed, that holds nothing else, and after which nothing came. The
line holds the operation id, so that neither the output of another run nor a text that happens to lie there passes for
it. Who can write to the command's standard output can forge it; a contract that names a marker vouches for that.
"""

from __future__ import annotations

LINE_END = b"\n"


class Marker:
    """Watches one output. `line` is the marker without its line feed."""

    def __init__(self, line: bytes) -> None:
        self._line = line + LINE_END
        self._tail = LINE_END
        """The last bytes of the output, behind the end of a line."""

    def feed(self, data: bytes) -> None:
        """The next bytes of the output."""
        longest = len(self._line) + len(LINE_END)
        self._tail = (self._tail + data[-longest:])[-longest:]

    @property
    def last(self) -> bool:
        """Whether the marker is the last line so far."""
        return self._tail == LINE_END + self._line
