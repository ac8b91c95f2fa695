"""A request's body as lines to read, in two forms: as it goes out, and with its JSON fields on lines of their own.

Both forms hold every character of the body; the pretty one moves white space between tokens and nothing else, so that
duplicate keys, spellings of numbers and escapes are seen as the target will see them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from affidavit.broker.limits import KIB
from affidavit.gui import texts
from affidavit.gui.runs import Line, Mark, Run, revealed

LONG_LINES = 500
"""Over this many lines nobody is asked to scroll to the end; size and digest are named and a box is ticked."""
_PRETTY_BYTES = 256 * KIB
"""Over this a body is shown as it goes out only: laying out fields takes time that the window does not have."""
_PIECE = 1_000
"""Characters in one drawn line; a longer one goes on in the next, marked as such."""
_HEX_ROW = 16
_INDENT = "  "
_INDENTS = 40
"""Steps of indentation that are drawn; deeper nesting stays at this one."""


@dataclass(frozen=True, slots=True)
class BodyLine:
    runs: Line
    continues: bool = False
    """Whether it goes on with the line before, without a line break in the body."""


@dataclass(frozen=True, slots=True)
class Body:
    """`digest` is the SHA-256 of the bytes in hex. `pretty` is None where the body is no JSON, or too large for it."""

    size: int
    digest: str
    kind: str
    raw: tuple[BodyLine, ...]
    pretty: tuple[BodyLine, ...] | None
    streamed: bool = False
    """There is more than this, which nobody can be shown."""

    @property
    def first(self) -> tuple[BodyLine, ...]:
        """The form that a card starts with."""
        return self.raw if self.pretty is None else self.pretty

    @property
    def is_long(self) -> bool:
        return len(self.first) > LONG_LINES


def body(content: bytes) -> Body:
    """The two forms of a body that is not empty."""
    digest = hashlib.sha256(content).hexdigest()
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return Body(len(content), digest, texts.BODY_BINARY, tuple(_hex_rows(content)), None)
    raw = tuple(_raw_lines(text))
    pretty = tuple(_pretty_lines(text)) if len(content) <= _PRETTY_BYTES and _is_json(text) else None
    return Body(len(content), digest, texts.BODY_TEXT if pretty is None else texts.BODY_JSON, raw, pretty)


def _raw_lines(text: str) -> Iterator[BodyLine]:
    lines = text.split("\n")
    for n, line in enumerate(lines):
        ended = n < len(lines) - 1
        yield from _pieces(revealed(line[:-1] if ended and line.endswith("\r") else line))


def _hex_rows(content: bytes) -> Iterator[BodyLine]:
    for at in range(0, len(content), _HEX_ROW):
        row = content[at : at + _HEX_ROW]
        drawn = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in row)
        digits = row.hex(" ").ljust(3 * _HEX_ROW - 1)
        yield BodyLine((Run(f"{at:08x}  ", Mark.FAINT), Run(digits, Mark.STRONG), Run(f"  {drawn}", Mark.SECOND)))


def _pieces(runs: Line) -> Iterator[BodyLine]:
    piece: list[Run] = []
    room, continues = _PIECE, False
    for run in runs:
        rest = run.text
        while rest:
            if room < (len(rest) if run.mark is Mark.CHIP else 1):
                yield BodyLine(tuple(piece), continues)
                piece, room, continues = [], _PIECE, True
            piece.append(Run(rest[:room], run.mark))
            taken = min(len(rest), room)
            rest, room = rest[taken:], room - taken
    yield BodyLine(tuple(piece), continues)


_LEXEME = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_CLOSING = {"{": "}", "[": "]"}


def _is_json(text: str) -> bool:
    """Whether the text is JSON by RFC 8259: Python's reader takes `NaN` besides, and gives up on deep nesting."""
    try:
        json.loads(text, parse_int=str, parse_float=str, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse(word: str) -> object:
    raise ValueError(word)


def _pretty_lines(text: str) -> Iterator[BodyLine]:
    """Valid JSON with one member or element on a line; tokens are taken over as they are spelled."""
    lexemes = _LEXEME.findall(text)
    line: list[Run] = []
    depth = 0
    for n, lexeme in enumerate(lexemes):
        after = lexemes[n + 1] if n + 1 < len(lexemes) else ""
        before = lexemes[n - 1] if n else ""
        if lexeme in ("}", "]") and _CLOSING.get(before) != lexeme:
            yield from _pieces(tuple(line))
            depth -= 1
            line = _indented(depth)
        line.extend(_lexeme_runs(lexeme, is_key=after == ":"))
        if lexeme in _CLOSING and after != _CLOSING[lexeme]:
            yield from _pieces(tuple(line))
            depth += 1
            line = _indented(depth)
        elif lexeme == ",":
            yield from _pieces(tuple(line))
            line = _indented(depth)
        elif lexeme == ":":
            line.append(Run(" ", Mark.SECOND))
    yield from _pieces(tuple(line))


def _indented(depth: int) -> list[Run]:
    return [Run(_INDENT * min(depth, _INDENTS), Mark.SECOND)] if depth > 0 else []


def _lexeme_runs(lexeme: str, *, is_key: bool) -> Line:
    if lexeme.startswith('"'):
        inner = revealed(lexeme[1:-1], Mark.SECOND if is_key else Mark.STRONG)
        return (Run('"', Mark.SECOND), *inner, Run('"', Mark.SECOND))
    if lexeme in "{}[],:":
        return (Run(lexeme, Mark.SECOND),)
    return (Run(lexeme, Mark.STRONG),)
