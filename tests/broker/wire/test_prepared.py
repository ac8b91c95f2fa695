from __future__ import annotations

import dataclasses
import traceback

import pytest
from tests.broker.wire.driver import prepared

from affidavit.broker.wire.prepared import serialise


def test_exactly_the_given_headers_go_out() -> None:
    request = prepared(80, target=b"/a/../b?q=%20", headers=((b"X-Mixed-Case", b"v"), (b"a", b"1"), (b"a", b"2")))
    outgoing, _ = serialise(request)
    assert outgoing == (
        b"POST /a/../b?q=%20 HTTP/1.1\r\nHost: target.test\r\nX-Mixed-Case: v\r\na: 1\r\na: 2\r\nContent-Length: 8\r\n"
        b"\r\namount=5"
    )


def test_host_goes_first() -> None:
    request = dataclasses.replace(prepared(80, body=b""), headers=((b"A", b"b"), (b"Host", b"target.test")))
    assert serialise(request)[0] == b"POST /effect HTTP/1.1\r\nHost: target.test\r\nA: b\r\n\r\n"


SECRET = b"s3cr3t-value"


@pytest.mark.parametrize(
    "change",
    [
        {"headers": ((b"Host", b"a"), (b"Authorization", SECRET + b"\r\nX: y"))},
        {"headers": ((b"Host", b"a"), (b"Authorization", SECRET + b"\x00"))},
        {"headers": ((b"Host", b"a"), (b"Bad Name", SECRET))},
        {"headers": ()},
        {"headers": ((b"Host", b"a"), (b"Host", b"b"))},
        {"headers": ((b"Host", b"a"), (b"Transfer-Encoding", b"chunked"))},
        {"headers": ((b"Host", b"a"), (b"Upgrade", b"h2c"))},
        {"headers": ((b"Host", b"a"), (b"Content-Length", b"7"))},
        {"headers": ((b"Host", b"a"), (b"Content-Length", b"9"))},
        {"headers": ((b"Host", b"a"), (b"Content-Length", b"8"), (b"Content-Length", b"8"))},
        {"headers": ((b"Host", b"a"),)},
        {"method": "PO ST"},
        {"method": ""},
        {"method": "CONNECT"},
        {"target": b"https://other.test/"},
        {"target": b"/a b"},
        {"target": b"/a\r\nX: y"},
        {"target": b""},
        {"scheme": "ftp"},
        {"host": ""},
        {"host": "[::1]"},
        {"host": "a@b"},
        {"host": "a\x00b"},
        {"host": "b\u00fccher.test"},
        {"port": 0},
        {"port": 65536},
    ],
)
def test_what_is_not_http_is_refused_before_anything(change: dict[str, object]) -> None:
    request = dataclasses.replace(prepared(80), **change)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"^the |^there ") as refused:
        serialise(request)
    assert SECRET.decode() not in "".join(traceback.format_exception(refused.value))
    assert refused.value.__context__ is None


def test_a_request_shows_no_value() -> None:
    assert SECRET.decode() not in repr(prepared(80, headers=((b"Authorization", SECRET),), body=SECRET))
