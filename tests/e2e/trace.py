"""Reads a trace of the broker's system calls: which file or connection each one is about, and what came before what.

A trace is the text of `strace -f`. A call stands on one line where nothing came between its beginning and its end; else
it has two, and those of other threads stand between. So line numbers give an order, and it is the order of causes: the
tracer stops a thread at both ends of a call, and the thread does not go on before the line is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum, auto

CALLS = (
    "openat,close,bind,connect,accept,accept4,fsync,fdatasync,sync_file_range,msync,"
    "write,writev,pwritev,sendto,sendmsg,sendmmsg,sendfile,splice"
)
"""What is traced: whatever gives a descriptor its meaning, makes data durable, or hands bytes to a socket."""

_LINE = re.compile(r"(?P<thread>\d+) +(?P<text>.*)")
_RESUMED = re.compile(r"<\.\.\. (?P<name>\w+) resumed>(?P<rest>.*)")
_UNFINISHED = " <unfinished ...>"
_CALL = re.compile(r"(?P<name>\w+)\((?P<arguments>.*)\) += (?P<result>-?\d+|\?)")
_SENDING = frozenset({"write", "writev", "pwritev", "sendto", "sendmsg", "sendmmsg", "sendfile", "splice"})
_SYNCING = frozenset({"fsync", "fdatasync", "sync_file_range", "msync"})


class What(Enum):
    ACCEPTED = auto()
    """An agent's connection; `about` names it."""
    REPLIED = auto()
    """Bytes to an agent's connection."""
    CONNECTED = auto()
    """A connection to the service was begun."""
    SENT = auto()
    """Bytes to the service."""
    SYNCED = auto()
    """The journal was made durable."""


@dataclass(frozen=True, slots=True)
class Event:
    """One system call that matters: the lines on which it began and ended. `about`: the descriptor's own number."""

    what: What
    about: int
    began: int
    ended: int


@dataclass(frozen=True, slots=True)
class _Call:
    name: str
    arguments: str
    result: int
    began: int
    ended: int

    @property
    def descriptor(self) -> int:
        found = re.match(r"(-?\d+)", self.arguments)
        return int(found[1]) if found else -1


def calls(lines: Iterable[str]) -> Iterator[_Call]:
    """Every call that has ended, in the order of its end."""
    open_calls: dict[str, tuple[int, str]] = {}
    for number, line in enumerate(lines):
        found = _LINE.match(line)
        if found is None:
            continue
        thread, text = found["thread"], found["text"]
        if text.endswith(_UNFINISHED):
            open_calls[thread] = number, text.removesuffix(_UNFINISHED)
            continue
        began = number
        if resumed := _RESUMED.match(text):
            began, beginning = open_calls.pop(thread)
            text = beginning + resumed["rest"]
        if (call := _CALL.match(text)) and call["result"] != "?":
            yield _Call(call["name"], call["arguments"], int(call["result"]), began, number)


def events(lines: Iterable[str], *, agent_socket: str, journal: str, port: int) -> list[Event]:
    """What happened between the agent's socket, the journal's files and the service on loopback at `port`.

    `journal` is the path of the database; its write-ahead log counts as it does.
    """
    listening: set[int] = set()
    meaning: dict[int, What] = {}
    number: dict[int, int] = {}
    found: list[Event] = []
    for call in calls(lines):
        fd = call.descriptor
        match call.name:
            case "openat" if call.result >= 0:
                path = call.arguments.split('"')[1]
                meaning.pop(call.result, None)
                if path in (journal, f"{journal}-wal"):
                    meaning[call.result] = What.SYNCED
                    number[call.result] = 0
            case "close":
                meaning.pop(fd, None)
                listening.discard(fd)
            case "bind" if f'sun_path="{agent_socket}"' in call.arguments:
                listening.add(fd)
            case "accept" | "accept4" if call.result >= 0 and fd in listening:
                meaning[call.result] = What.REPLIED
                number[call.result] = len(found)
                found.append(Event(What.ACCEPTED, len(found), call.began, call.ended))
            case "connect" if f"sin_port=htons({port})" in call.arguments:
                meaning[fd] = What.SENT
                number[fd] = len(found)
                found.append(Event(What.CONNECTED, len(found), call.began, call.ended))
            case name if name in _SENDING and meaning.get(fd) in (What.SENT, What.REPLIED) and call.result > 0:
                found.append(Event(meaning[fd], number[fd], call.began, call.ended))
            case name if name in _SYNCING and meaning.get(fd) is What.SYNCED:
                found.append(Event(What.SYNCED, 0, call.began, call.ended))
    return found
