"""Patterns by which contracts and credentials name targets and commands.

In a URL pattern scheme and port are literal; `*` is any text inside one host label or path segment; `**` is a path
segment of its own and stands for any number of segments, none included. A query in the pattern must be present, each
parameter once and with this value; others are free. Both sides are compared in the one spelling of `target`, and query
parameters decoded, so that an escape cannot lead a request past its contract.

An address is only ever matched by the same address, written out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import parse_qsl

from affidavit.broker.target import (
    DEFAULT_PORTS,
    BadUrl,
    HttpTarget,
    is_hidden,
    normal_host,
    normal_path,
    normal_query,
    split_url,
)

MAX_PATTERN = 8192
"""Bytes of a pattern: as long as the longest URL."""


class BadPattern(ValueError):
    """The text is not a pattern; it says what to write instead."""


class Rank(NamedTuple):
    """How specific a match is; the greater wins, compared from the left."""

    literal_host: bool
    literal_path: int
    """Literal characters of the path, or of the command."""
    fewer_wildcards: int
    """The number of wildcards, negated; `**` counts as two, since it also stands for whatever one `*` does."""
    conditions: int = 0
    """Entries of `where`, and parameters in the pattern's query."""
    named_method: bool = False


@dataclass(frozen=True, slots=True)
class Glob:
    """Text in which `*` stands for any text: the literal pieces between the stars."""

    pieces: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Glob:
        return cls(tuple(text.split("*")))

    @property
    def literal(self) -> bool:
        return len(self.pieces) == 1

    @property
    def text(self) -> str:
        return "*".join(self.pieces)

    @property
    def literal_length(self) -> int:
        return sum(map(len, self.pieces))

    def matches(self, text: str) -> bool:
        """In time linear in both, for any number of stars."""
        if self.literal:
            return text == self.pieces[0]
        first, *middle, last = self.pieces
        if len(text) < len(first) + len(last) or not (text.startswith(first) and text.endswith(last)):
            return False
        at, end = len(first), len(text) - len(last)
        for piece in middle:
            found = text.find(piece, at, end)
            if found < 0:
                return False
            at = found + len(piece)
        return True

    def overlaps(self, other: Glob) -> bool:
        """Whether some text is matched by both."""
        if self.literal:
            return other.matches(self.text)
        if other.literal:
            return self.matches(other.text)
        # With a star in each, only the literal ends can contradict each other.
        heads = (self.pieces[0], other.pieces[0])
        tails = (self.pieces[-1], other.pieces[-1])
        return (heads[0].startswith(heads[1]) or heads[1].startswith(heads[0])) and (
            tails[0].endswith(tails[1]) or tails[1].endswith(tails[0])
        )


Segments = tuple[Glob | None, ...]
"""A path pattern; None stands for `**`."""


@dataclass(frozen=True, slots=True)
class UrlPattern:
    """A parsed URL pattern; `text` is its one spelling."""

    text: str
    scheme: str
    host: tuple[Glob, ...]
    """Labels; an address is one literal glob."""
    host_is_literal: bool
    """The host is an IP address."""
    port: int
    path: Segments
    query: tuple[tuple[str, str], ...]

    @classmethod
    def parse(cls, text: str) -> UrlPattern:
        """Raises BadPattern."""
        if len(text.encode("utf-8", "surrogatepass")) > MAX_PATTERN:
            raise BadPattern(f"The pattern is longer than {MAX_PATTERN} bytes.")
        try:
            parts = split_url(text)
            host, is_literal = _pattern_host(parts.host)
            path = normal_path(parts.path)
        except BadUrl as bad:
            raise BadPattern(str(bad).replace("The URL", "The pattern").replace("the URL", "the pattern")) from bad
        segments = tuple(_segment(segment) for segment in path[1:].split("/"))
        query_text = normal_query(parts.query or "")
        query = tuple(parse_qsl(query_text, keep_blank_values=True))
        if any(count > 1 for count in Counter(name for name, _ in query).values()):
            raise BadPattern("A query parameter stands in the pattern twice; name it once.")
        written = f"[{host}]" if ":" in host else host
        port = "" if parts.port == DEFAULT_PORTS[parts.scheme] else f":{parts.port}"
        spelt = f"{parts.scheme}://{written}{port}{path}" + (f"?{query_text}" if query else "")
        labels = (host,) if is_literal else tuple(host.split("."))
        return cls(spelt, parts.scheme, tuple(map(Glob.parse, labels)), is_literal, parts.port, segments, query)

    def matches(self, target: HttpTarget) -> bool:
        return (
            self.scheme == target.scheme
            and self.port == target.port
            and self._host_matches(target)
            and _path_matches(self.path, target.path[1:].split("/"))
            and self._query_matches(target.query)
        )

    def names_literally(self, host: str) -> bool:
        """Whether this pattern's host is written out and is this host, an address or `localhost` (interface, 2)."""
        return (self.host_is_literal or self.host_text == "localhost") and self.host_text == host

    @property
    def host_is_written_out(self) -> bool:
        """No star stands in the host: `host_text` is the only one that matches."""
        return all(label.literal for label in self.host)

    @property
    def host_text(self) -> str:
        return ".".join(label.text for label in self.host)

    @property
    def rank(self) -> Rank:
        return Rank(
            literal_host=self.host_is_written_out,
            literal_path=len(self.path) + sum(segment.literal_length for segment in self.path if segment),
            fewer_wildcards=-sum(_wildcards(part) for part in (*self.host, *self.path)),
            conditions=len(self.query),
        )

    def overlaps(self, other: UrlPattern) -> bool:
        """Whether some target is matched by both."""
        if (self.scheme, self.port) != (other.scheme, other.port) or self.host_is_literal != other.host_is_literal:
            return False
        if len(self.host) != len(other.host) or not all(map(Glob.overlaps, self.host, other.host)):
            return False
        mine, theirs = dict(self.query), dict(other.query)
        if any(mine[name] != theirs[name] for name in mine.keys() & theirs.keys()):
            return False
        return _paths_overlap(self.path, other.path)

    def _host_matches(self, target: HttpTarget) -> bool:
        if self.host_is_literal or target.is_literal:
            return self.host_is_literal and self.host_text == target.host
        labels = target.host.split(".")
        return len(labels) == len(self.host) and all(map(Glob.matches, self.host, labels))

    def _query_matches(self, query: str | None) -> bool:
        if not self.query:
            return True
        given = parse_qsl(query or "", keep_blank_values=True)
        return all([value for name, value in given if name == wanted] == [equals] for wanted, equals in self.query)


@dataclass(frozen=True, slots=True)
class HostPattern:
    """The hosts that an SSH credential may log in to, by address: a name in which `*` is any text inside one label, or
    an IP address. `text` is its one spelling, IPv6 without brackets."""

    text: str
    labels: tuple[Glob, ...]
    is_literal: bool
    """It is an IP address."""

    @classmethod
    def parse(cls, text: str) -> HostPattern:
        """Raises BadPattern."""
        if len(text) > MAX_PATTERN or any(map(is_hidden, text)) or any(sign in text for sign in "/@"):
            raise BadPattern("An SSH target is a host alone, without scheme, user or path.")
        bare = text.removeprefix("[").removesuffix("]")
        try:
            host, is_literal = _pattern_host(f"[{bare}]" if ":" in bare else bare)
        except BadUrl as bad:
            raise BadPattern(str(bad).replace("in the URL", "in the pattern")) from bad
        return cls(host, tuple(map(Glob.parse, (host,) if is_literal else host.split("."))), is_literal)

    def matches(self, address: str) -> bool:
        """`address` is in the spelling of `target.normal_host`."""
        labels = address.split(".")
        if self.is_literal or ":" in address or labels[-1].isdigit():
            return self.text == address
        return len(labels) == len(self.labels) and all(map(Glob.matches, self.labels, labels))


@dataclass(frozen=True, slots=True)
class CommandPattern:
    """A host entry and a command, in both of which `*` is any text (in the host: inside one label)."""

    host: tuple[Glob, ...]
    command: Glob

    @classmethod
    def parse(cls, host: str, command: str) -> CommandPattern:
        """Raises BadPattern."""
        if not host or "**" in host or any(map(is_hidden, host)):
            raise BadPattern("The host must be the name of a host entry; `*` is any text inside one label.")
        if not command or "\0" in command:
            raise BadPattern("The command must not be empty, nor hold a NUL.")
        if len(command.encode("utf-8", "surrogatepass")) > MAX_PATTERN:
            raise BadPattern(f"The command is longer than {MAX_PATTERN} bytes.")
        return cls(tuple(map(Glob.parse, host.split("."))), Glob.parse(command))

    def matches(self, host: str, command: str) -> bool:
        labels = host.split(".")
        return (
            len(labels) == len(self.host)
            and all(map(Glob.matches, self.host, labels))
            and self.command.matches(command)
        )

    @property
    def rank(self) -> Rank:
        return Rank(
            literal_host=all(label.literal for label in self.host),
            literal_path=self.command.literal_length,
            fewer_wildcards=-sum(_wildcards(part) for part in (*self.host, self.command)),
        )

    def overlaps(self, other: CommandPattern) -> bool:
        return (
            len(self.host) == len(other.host)
            and all(map(Glob.overlaps, self.host, other.host))
            and self.command.overlaps(other.command)
        )


def _pattern_host(host: str) -> tuple[str, bool]:
    if "*" not in host:
        return normal_host(host)
    if "**" in host:
        raise BadPattern("`**` stands for path segments; in a host `*` is any text inside one label.")
    # A star is not a host character: check the name with a letter in its place.
    _, is_literal = normal_host(host.replace("*", "x"))
    if is_literal or not host.isascii():
        raise BadPattern("A host with `*` must be a name in ASCII.")
    return host.lower(), False


def _segment(segment: str) -> Glob | None:
    if segment == "**":
        return None
    if "**" in segment:
        raise BadPattern("`**` must be a whole path segment; inside a segment write `*`.")
    return Glob.parse(segment)


def _wildcards(part: Glob | None) -> int:
    return 2 if part is None else len(part.pieces) - 1


def _path_matches(pattern: Segments, segments: Sequence[str]) -> bool:
    """Runs of segments between the `**`: the first and the last are anchored, each other is found leftmost."""
    first, *others = _runs(pattern)
    if not others:
        return len(first) == len(segments) and _run_matches(first, segments, 0)
    *middle, last = others
    at, end = len(first), len(segments) - len(last)
    if end < at or not (_run_matches(first, segments, 0) and _run_matches(last, segments, end)):
        return False
    for run in middle:
        places = range(at, end - len(run) + 1)
        found = next((place for place in places if _run_matches(run, segments, place)), None)
        if found is None:
            return False
        at = found + len(run)
    return True


def _runs(pattern: Segments) -> list[list[Glob]]:
    runs: list[list[Glob]] = [[]]
    for segment in pattern:
        if segment is None:
            runs.append([])
        else:
            runs[-1].append(segment)
    return runs


def _run_matches(run: Sequence[Glob], segments: Sequence[str], at: int) -> bool:
    return all(glob.matches(segments[at + offset]) for offset, glob in enumerate(run))


def _paths_overlap(mine: Segments, theirs: Segments) -> bool:
    """Whether some path is matched by both. `row[j]` says so of the rest of `mine` and `theirs[j:]`, from the end."""
    end = len(theirs)
    row = [all(segment is None for segment in theirs[j:]) for j in range(end + 1)]
    for segment in reversed(mine):
        below, row = row, [False] * (end + 1)
        row[end] = segment is None and below[end]
        for j in range(end - 1, -1, -1):
            other = theirs[j]
            if segment is None or other is None:
                row[j] = below[j] or row[j + 1]
            else:
                row[j] = below[j + 1] and segment.overlaps(other)
    return row[0]
