"""The Proxy-Status field (RFC 9209), read as the structured field that it is (RFC 9651, 4.2.1).

It can prove that a request was never forwarded, so a text that is not exactly such a list proves nothing at all: a
comma or a semicolon inside of a quoted string, which may repeat what somebody else wrote, is no part of the syntax.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

LIMIT = 8192
"""Characters of a field that are read; a longer one proves nothing."""

_WORD = r"[A-Za-z*][!#$%&'*+\-.^_`|~0-9A-Za-z:/]*"
_STRING = r'"(?:[ !#-\[\]-~]|\\["\\])*"'
_OTHER = r'-?[0-9]{1,15}(?:\.[0-9]{1,3})?|:[A-Za-z0-9+/=]*:|\?[01]|@-?[0-9]{1,15}|%"[ !#-~]*"'
_NAME = re.compile(f"(?:{_WORD}|{_STRING})")
_PARAMETER = re.compile(f";[ ]*(?P<key>[a-z*][a-z0-9_\\-.*]*)(?:=(?P<value>{_WORD}|{_STRING}|{_OTHER}))?")
_COMMA = re.compile(r"[ \t]*,[ \t]*")


def error_of_next_hop(field: str) -> str | None:
    """The `error` of the last member, which is the hop next to us (RFC 9209, 2).

    None where there is none, or where that hop also says with which status it was answered: then it had forwarded the
    request, whatever it calls the error.
    """
    last = (_members(field) or [{}])[-1]
    error = None if "received-status" in last else last.get("error")
    return error.strip('"') if error else None


def _members(field: str) -> list[Mapping[str, str | None]]:
    """The parameters of each member as they are written; none if the field is not a list of named hops."""
    text = field.strip(" ")
    members: list[Mapping[str, str | None]] = []
    at = 0
    while len(text) <= LIMIT and (name := _NAME.match(text, at)):
        at = name.end()
        parameters: dict[str, str | None] = {}
        while parameter := _PARAMETER.match(text, at):
            at = parameter.end()
            parameters[parameter["key"]] = parameter["value"]
        members.append(parameters)
        if at == len(text):
            return members
        comma = _COMMA.match(text, at)
        if comma is None:
            break
        at = comma.end()
    return []
