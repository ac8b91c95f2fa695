"""Line numbers of keys in TOML, in every spelling it has."""

from __future__ import annotations

import tomllib
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from affidavit.broker.contract.lines import Lines

TEXT = '''# a comment with [brackets] and = signs
id = "a # not a comment"
"quoted key" = 'literal [x]'
'other' . "k\\u0065y" = 1

[match]
kind = "http"   # and = more
method = [
  "GET",  # ], }
  "PUT",
]
where = [{ pointer = "/a", equals = "x, y" },
         { query = "b", equals = true }
        ]
note = """
[not.a.table]
key = "value" \\""" still
""" # end
raw = \'\'\'
a = 1
\'\'\'
after = 2026-11-30 10:00:00
[ verdict . "x" ]
inner.deep = [[1, 2], [3]]
[[rows]]
a = 1
[[rows]]
a = 2
[rows.sub]
b = -1.5e3
[[rows.items]]
c = {}
d = []
'''


def paths(value: Any, path: tuple[str | int, ...] = ()) -> set[tuple[str | int, ...]]:
    found = {path} if path else set()
    if isinstance(value, dict):
        return found.union(*(paths(inner, (*path, key)) for key, inner in value.items()))
    if isinstance(value, list):
        return found.union(*(paths(inner, (*path, at)) for at, inner in enumerate(value)))
    return found


def test_every_key_has_its_line() -> None:
    lines = Lines(TEXT)
    at = {
        ("id",): 2,
        ("quoted key",): 3,
        ("other", "key"): 4,
        ("match",): 6,
        ("match", "method", 0): 9,
        ("match", "method", 1): 10,
        ("match", "where", 0, "equals"): 12,
        ("match", "where", 1): 13,
        ("match", "where", 1, "query"): 13,
        ("match", "where", 1, "equals"): 13,
        ("match", "note"): 15,
        ("match", "raw"): 19,
        ("match", "after"): 22,
        ("verdict", "x"): 23,
        ("verdict", "x", "inner", "deep", 1, 0): 24,
        ("rows", 0, "a"): 26,
        ("rows", 1, "a"): 28,
        ("rows", 1, "sub", "b"): 30,
        ("rows", 1, "items", 0, "c"): 32,
        ("rows", 1, "items", 0, "d"): 33,
    }
    assert {path: lines.of(path) for path in at} == at


def test_no_path_is_left_out() -> None:
    assert paths(tomllib.loads(TEXT)) - set(Lines(TEXT).all) == {("verdict",)}


def test_what_is_not_there_takes_the_line_around_it() -> None:
    lines = Lines(TEXT)
    assert lines.of(("match", "url")) == 6
    assert lines.of(("match", "where", 1, "header")) == 13
    assert lines.of(("absent",)) == 1
    assert lines.of(()) == 1
    assert Lines("").of(("id",)) == 1


def test_crlf_and_no_last_line_break() -> None:
    assert Lines('a = 1\r\n[b]\r\nc = "x"').of(("b", "c")) == 3


_PIECES = [
    "a",
    "b",
    '"c"',
    "'d'",
    ".",
    " = ",
    "\n",
    "[",
    "]",
    "[[",
    "]]",
    "{",
    "}",
    ", ",
    "1",
    "-1.5",
    "true",
    '"x"',
    "#",
]
_PIECES += ["'''", '"""', "\\", '\\"', " ", "2026-11-30", " 10:00:00", "\r\n", "a = 1\n", "[a]\n", "[[b]]\n", '"', "'"]


@given(st.lists(st.sampled_from(_PIECES), max_size=14).map("".join))
@example('a = """"x\\"""y"""""\nb = 1')
@example("a = '''x''y'''''\nb = 1")
@example('a = "\\\\"\nb = [\'x\', """]"""]\n')
def test_whatever_tomllib_takes_is_found(text: str) -> None:
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    lines = Lines(text)
    for path in paths(content):
        assert 1 <= lines.of(path) <= text.count("\n") + 1
    leaves = {
        path for path in paths(content) if not any(other[: len(path)] == path != other for other in paths(content))
    }
    headers = {path for path in leaves if path not in lines.all}
    assert headers == set()
