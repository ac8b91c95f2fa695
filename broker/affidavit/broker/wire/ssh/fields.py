"""SSH's data types, read strictly (RFC 4251, 5). A field that is cut is an error here; paramiko reads zeros on."""

from __future__ import annotations

CUT = "..."
"""Ends a text that was cut."""


class Malformed(Exception):
    """A message is shorter than its fields say."""


class Fields:
    """Reads the fields of one message in order. Raises Malformed."""

    def __init__(self, payload: bytes | memoryview) -> None:
        self._left = memoryview(payload)

    def uint32(self) -> int:
        return int.from_bytes(self._take(4), "big")

    def boolean(self) -> bool:
        return self._take(1)[0] != 0

    def string(self) -> memoryview:
        """A view of the message, which it keeps alive."""
        return self._take(self.uint32())

    def skip(self, count: int) -> None:
        self._take(count)

    def text(self, longest: int) -> str:
        """A string for a person's eyes: cut to `longest` characters, what is no text or not printable replaced."""
        text = bytes(self.string()[: longest * 4 + 4]).decode("utf-8", "replace")
        return "".join(c if c.isprintable() else "?" for c in shortened(text, longest))

    @property
    def left(self) -> int:
        """How many bytes were not read yet."""
        return len(self._left)

    def _take(self, count: int) -> memoryview:
        if count > len(self._left):
            raise Malformed
        taken, self._left = self._left[:count], self._left[count:]
        return taken


def shortened(text: str, longest: int) -> str:
    """Cut to `longest` characters, so that it can be seen."""
    return text if len(text) <= longest else text[: longest - len(CUT)] + CUT


def string(value: bytes) -> bytes:
    """A string as it goes out."""
    return len(value).to_bytes(4, "big") + value


def uint32(value: int) -> bytes:
    return value.to_bytes(4, "big")
