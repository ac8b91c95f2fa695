"""On which line of a TOML text each key stands, which tomllib does not tell.

Reads only text that tomllib has accepted, so it may rely on the syntax and look for structure alone.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping

Path = tuple[str | int, ...]
"""Keys and, inside lists, places: `("match", "where", 0, "equals")`."""

_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_KEY = re.compile(r"""[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*'""")
_STRING = re.compile(
    r'"""(?:[^"\\]|\\.|"{1,2}(?!"))*"{3,5}'
    r"|'''.*?'{3,5}(?!')"
    r"""|"(?:[^"\\]|\\.)*"|'[^']*'""",
    re.DOTALL,
)
_OTHER = re.compile(r"[^\s,\]}#]+(?: [0-9][^\s,\]}#]*)?")
"""Numbers, booleans, dates; a date and time may hold one space."""


class Lines:
    """Line numbers, from 1, by path."""

    def __init__(self, text: str) -> None:
        """`text` is valid TOML."""
        self._text = text
        self._lines: dict[Path, int] = {}
        self._tables: dict[Path, int] = {}
        """Arrays of tables, and the place of their newest element."""
        self._at = 0
        self._counted = (0, 1)
        self._scan()

    def of(self, path: Path) -> int:
        """The line of this key, or of the nearest thing around it."""
        while path and path not in self._lines:
            path = path[:-1]
        return self._lines.get(path, 1)

    @property
    def all(self) -> Mapping[Path, int]:
        return self._lines

    def _scan(self) -> None:
        table: Path = ()
        self._skip(_BLANK)
        while self._at < len(self._text):
            if self._text.startswith("[", self._at):
                table = self._header()
            else:
                self._pair(table)
            self._skip(_BLANK)

    def _header(self) -> Path:
        is_array = self._text.startswith("[[", self._at)
        line = self._line()
        self._at += 2 if is_array else 1
        self._skip(_SPACE)
        path = self._open(self._keys())
        self._at += 2 if is_array else 1
        if is_array:
            place = self._tables.get(path, -1) + 1
            self._tables[path] = place
            self._lines.setdefault(path, line)
            path = (*path, place)
        self._lines[path] = line
        return path

    def _open(self, keys: list[str]) -> Path:
        """A header's path: inside an array of tables it goes on in the newest element."""
        path: Path = ()
        for at, key in enumerate(keys):
            path = (*path, key)
            if path in self._tables and at < len(keys) - 1:
                path = (*path, self._tables[path])
        return path

    def _pair(self, table: Path) -> None:
        line = self._line()
        path = table
        for key in self._keys():
            path = (*path, key)
            self._lines.setdefault(path, line)
        self._at += 1
        self._skip(_SPACE)
        self._value(path)

    def _value(self, path: Path) -> None:
        opening = self._text[self._at]
        if opening == "[":
            self._at += 1
            place = 0
            while not self._closes("]"):
                self._lines[(*path, place)] = self._line()
                self._value((*path, place))
                place += 1
        elif opening == "{":
            self._at += 1
            while not self._closes("}"):
                self._pair(path)
        else:
            self._skip(_STRING if opening in "\"'" else _OTHER)

    def _closes(self, bracket: str) -> bool:
        """Move to the next item, or over the closing bracket."""
        self._skip(_BLANK)
        if self._text.startswith(",", self._at):
            self._at += 1
            self._skip(_BLANK)
        if self._text.startswith(bracket, self._at):
            self._at += 1
            return True
        return False

    def _keys(self) -> list[str]:
        """A dotted key; leaves off at what follows it."""
        keys = []
        while True:
            key = self._skip(_KEY)
            keys.append(tomllib.loads(f"key = {key}")["key"] if key[0] in "\"'" else key)
            self._skip(_SPACE)
            if not self._text.startswith(".", self._at):
                return keys
            self._at += 1
            self._skip(_SPACE)

    def _skip(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self._text, self._at)
        assert match is not None, "the text was accepted by tomllib"
        self._at = match.end()
        return match[0]

    def _line(self) -> int:
        at, line = self._counted
        line += self._text.count("\n", at, self._at)
        self._counted = (self._at, line)
        return line
