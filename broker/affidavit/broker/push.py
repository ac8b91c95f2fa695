"""What a git push asks for, read from the stream that passes, and what a repository's refs say of it (R48, R50).

git-receive-pack's input begins with its updates, a line each: `old new ref` (gitprotocol-pack(5), Reference Update).
git-upload-pack, asked for nothing, says where every ref is: what `git ls-remote` prints. Both are lines with their
length before them (gitprotocol-common(5), pkt-line). A ref that is where the push wanted it is the push's effect, for a
name of git's is the hash of what it names. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

FLUSH = b"0000"
"""Ends a list; as the only input of git-upload-pack it asks for nothing."""
READ_MAX = 16 * 1024
"""Bytes of a push's beginning that are looked at."""

_RECEIVE = re.compile(r"((?:\S*/)?git[- ])receive-pack(\s.*)", re.S)
_UPDATE = re.compile(r"([0-9a-f]{40}(?:[0-9a-f]{24})?) ([0-9a-f]{40}(?:[0-9a-f]{24})?) (refs/\S+)")
_REF = re.compile(r"([0-9a-f]{40}(?:[0-9a-f]{24})?) (\S+)")


class NotLines(Exception):
    """This is no list of pkt-lines, or not a whole one."""


@dataclass(frozen=True, slots=True)
class Update:
    """One ref, where it was for the one who pushed, and where it is to be. A name of zeros: not there."""

    ref: str
    old: str
    new: str


def refs_command(command: str) -> str | None:
    """The command that tells the refs of the repository that `command` pushes to; None where that is no push."""
    found = _RECEIVE.fullmatch(command)
    return f"{found[1]}upload-pack{found[2]}" if found is not None else None


class PushReader:
    """Reads a push's updates from its input as that passes."""

    def __init__(self) -> None:
        self._held: bytearray | None = bytearray()
        self.updates: tuple[Update, ...] | None = None
        """None until all were seen, and for ever where they cannot be read."""

    def feed(self, data: bytes) -> None:
        if self._held is None:
            return
        self._held += data[: READ_MAX + 1 - len(self._held)]
        try:
            lines = list(_lines(bytes(self._held)))
        except NotLines:
            if len(self._held) > READ_MAX:
                self._held = None
            return
        self._held = None
        self.updates = _updates(lines)


def _updates(lines: Sequence[bytes]) -> tuple[Update, ...] | None:
    updates = []
    for line in lines:
        text = line.partition(b"\0")[0].decode("utf-8", "replace").rstrip("\n")
        found = _UPDATE.fullmatch(text)
        if found is not None:
            updates.append(Update(found[3], found[1], found[2]))
        elif not text.startswith("shallow "):
            return None
    return tuple(updates) or None


def refs(advertised: bytes) -> Mapping[str, str] | None:
    """Where each ref is, of what git-upload-pack says first; None for anything else."""
    try:
        lines = list(_lines(advertised))
    except NotLines:
        return None
    found = {}
    for line in lines:
        ref = _REF.fullmatch(line.partition(b"\0")[0].decode("utf-8", "replace").rstrip("\n"))
        if ref is None:
            return None
        found[ref[2]] = ref[1]
    return found


def where(update: Update, found: Mapping[str, str]) -> str:
    """Where an update's ref is; a name of zeros where there is none."""
    return found.get(update.ref, "0" * len(update.new))


def _lines(data: bytes) -> Iterator[bytes]:
    """The lines up to the first flush. Raises NotLines where there is none in order."""
    at = 0
    while True:
        head = data[at : at + 4]
        if head == FLUSH:
            return
        if not re.fullmatch(rb"[0-9a-f]{4}", head) or (length := int(head, 16)) <= 4 or at + length > len(data):
            raise NotLines
        yield data[at + 4 : at + length]
        at += length
