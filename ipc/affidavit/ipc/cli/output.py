"""Where commands print: stdout for what was asked, stderr for what is said about it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping

from affidavit.ipc.cli import exits
from affidavit.ipc.cli.escape import escape
from affidavit.ipc.cli.refusal import Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def say(line: str = "") -> None:
    """One line of the answer. The caller has escaped what came from outside."""
    print(line)


def note(line: str) -> None:
    """One line about the answer, on stderr at once."""
    print(line, file=sys.stderr, flush=True)


def one_line(value: Mapping[str, Any]) -> str:
    """One JSON object on one line. ASCII, so that no terminal is moved by what a target sent."""
    return json.dumps(value, separators=(",", ":"))


def say_json(value: Mapping[str, Any]) -> None:
    """The one object of `--json`."""
    say(one_line(value))


def answer(found: Mapping[str, Any], lines: Iterable[str], *, as_json: bool) -> int:
    """What a command that is done prints, and its exit status: the object that it found, or these lines of it."""
    if as_json:
        say_json(found)
    else:
        for line in lines:
            say(line)
        warn(found)
    return exits.DONE


def warn(found: Mapping[str, Any]) -> None:
    """The warnings that came with an answer, each a note."""
    for warning in found.get("warnings") or ():
        note(f"Note: {escape(str(warning))}")


def write_bytes(data: bytes) -> None:
    """Bytes of a result, as they are."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)


def flush() -> None:
    """Hand everything over to whoever reads stdout. OSError where they are gone."""
    sys.stdout.flush()


def refused(refusal: Refusal, *, as_json: bool, aside: bool = False) -> int:
    """Print why a command ended; returns its exit status. `aside`: stdout is another program's and gets nothing."""
    if as_json:
        (note if aside else say)(one_line(refusal.json()))
        return refusal.status
    note(f"affidavit: {escape(refusal.message)}")
    if refusal.field is not None:
        note(f"  field: {escape(refusal.field)}")
    if refusal.remedy is not None:
        note(f"  next: {escape(refusal.remedy)}")
    return refusal.status


def reader_gone() -> int:
    """Whoever read stdout went away: nothing more can be printed, and the interpreter must not try at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return exits.REFUSED
