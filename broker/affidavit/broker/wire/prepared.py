"""From a prepared request to the bytes that go out, checked before the line (R13)."""

from __future__ import annotations

import re

import h11

from affidavit.broker.wire.answer import HEAD_LIMIT
from affidavit.broker.wire.port import PreparedRequest

_HOST = re.compile(r"[A-Za-z0-9._-]+|[0-9A-Fa-f:.]+")


def serialise(request: PreparedRequest) -> tuple[bytes, h11.Connection]:
    """The whole request as it goes out, and the connection state that will read its answer.

    Exactly the given headers go out, Host first whatever its place. Raises ValueError, which names no value: a request
    that cannot be sent is found out here, while nothing has been attempted.
    """
    _check(request)
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_LIMIT)
    outgoing: list[bytes | None] = []
    try:
        head = h11.Request(method=request.method, target=request.target, headers=list(request.headers))
        outgoing = [connection.send(event) for event in (head, h11.Data(data=request.body), h11.EndOfMessage())]
    except h11.LocalProtocolError:
        pass
    if not outgoing:
        # Outside the handler: the error of h11 quotes the value it refuses, which may be a secret.
        raise ValueError("the request head is not valid HTTP/1.1, or its Content-Length is not that of the body")
    return b"".join(part or b"" for part in outgoing), connection


def _check(request: PreparedRequest) -> None:
    if request.scheme not in ("http", "https"):
        raise ValueError("the scheme must be http or https")
    if request.method == "CONNECT":
        raise ValueError("the method must not be CONNECT, which is said to a proxy alone")
    if not _HOST.fullmatch(request.host):
        raise ValueError("the host must be an A-label name or a literal, IPv6 without brackets")
    if not 0 < request.port < 65536:
        raise ValueError("the port must be between 1 and 65535")
    if not request.target.startswith(b"/") and request.target != b"*":
        raise ValueError("the target must be in origin form")
    names = [name.lower() for name, _ in request.headers]
    if b"transfer-encoding" in names or b"upgrade" in names:
        raise ValueError("the headers must not name a transfer coding or an upgrade")
    if names.count(b"content-length") > 1:
        raise ValueError("there must be at most one Content-Length")
