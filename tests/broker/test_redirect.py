"""What a redirect asks for: method, place and headers of what follows, and what is never followed (RFC 9110, 15.4)."""

from __future__ import annotations

from typing import Any

import pytest

from affidavit.broker.limits import Limits
from affidavit.broker.redirect import Asked, NotFollowed, Step, step
from affidavit.broker.refusal import Refused
from affidavit.broker.target import parse_http
from affidavit.broker.terms import Code

LIMITS = Limits()
HERE = "https://api.example.com/v1/things?a=1"


def asked(method: str = "GET", url: str = HERE, **more: Any) -> Asked:
    given: dict[str, Any] = {"headers": (), "has_body": method in ("POST", "PUT"), "writes": method in ("POST", "PUT")}
    headers = more.pop("headers", ())
    named = frozenset(more.pop("named", [name for name, _ in headers]))
    return Asked(method=method, target=parse_http(url, LIMITS), named=named, **{**given, "headers": headers, **more})


def follow(status: int, location: str = "/v2/things", of: Asked | None = None) -> Step:
    return step(status, location, of or asked(), LIMITS)


@pytest.mark.parametrize(
    ("status", "method", "then", "carried"),
    [
        *[(status, "GET", "GET", False) for status in (301, 302, 303, 307, 308)],
        *[(status, "HEAD", "HEAD", False) for status in (301, 302, 303, 307, 308)],
        *[(status, "POST", "GET", False) for status in (301, 302, 303)],
        *[(status, "POST", "POST", True) for status in (307, 308)],
        *[(status, "PUT", "PUT", True) for status in (301, 302, 307, 308)],
        (303, "PUT", "GET", False),
        (303, "DELETE", "GET", False),
        (302, "DELETE", "DELETE", True),
        (307, "OPTIONS", "OPTIONS", False),
    ],
)
def test_the_method_of_what_follows(status: int, method: str, then: str, carried: bool) -> None:
    going = follow(status, of=asked(method))
    assert (going.method, going.carried) == (then, carried)


@pytest.mark.parametrize("status", [300, 304, 305, 306, 399])
def test_statuses_that_do_not_say_where_to_go(status: int) -> None:
    with pytest.raises(NotFollowed, match=f"A {status} does not say"):
        follow(status)


def test_a_read_with_a_body_is_the_same_request_once_more_but_for_303() -> None:
    searching = asked(has_body=True, headers=(("Content-Type", "text/plain"), ("X-Mine", "1")))
    assert follow(307, of=searching).carried
    after = follow(303, of=searching)
    assert (after.carried, after.headers) == (False, (("X-Mine", "1"),))


def test_a_get_that_is_a_write_is_carried() -> None:
    assert follow(302, of=asked(writes=True)).carried


@pytest.mark.parametrize(
    ("location", "url", "crosses"),
    [
        ("/v2/things", "https://api.example.com/v2/things", False),
        ("other?b=2", "https://api.example.com/v1/other?b=2", False),
        ("?b=2", "https://api.example.com/v1/things?b=2", False),
        ("https://api.example.com:443/x#part", "https://api.example.com/x", False),
        ("//files.example.net/x", "https://files.example.net/x", True),
        ("https://api.example.com:8443/x", "https://api.example.com:8443/x", True),
    ],
)
def test_the_place(location: str, url: str, crosses: bool) -> None:
    going = follow(302, location)
    assert (going.target.url, going.crosses) == (url, crosses)


@pytest.mark.parametrize(
    ("location", "code"),
    [
        ("http://api.example.com/x", Code.TARGET_BLOCKED),
        ("http://127.0.0.1/x", Code.TARGET_BLOCKED),
        ("https://169.254.169.254/latest/meta-data/", Code.TARGET_BLOCKED),
        ("https://[::ffff:169.254.169.254]/", Code.TARGET_BLOCKED),
        ("https://2852039166/", Code.TARGET_BLOCKED),
        ("http://10.0.0.1/", Code.TARGET_BLOCKED),
        ("https://user:word@api.example.com/", Code.INVALID_TARGET),
        ("ftp://api.example.com/", Code.INVALID_TARGET),
        ("javascript:alert(1)", Code.INVALID_TARGET),
        ("https://[", Code.INVALID_TARGET),
        ("https://api.example.com/a\\b", Code.INVALID_TARGET),
        ("/" + "x" * 9000, Code.PAYLOAD_LIMIT),
    ],
)
def test_places_that_are_never_gone_to(location: str, code: Code) -> None:
    with pytest.raises(Refused) as refused:
        follow(302, location)
    assert refused.value.code is code


def test_loopback_may_go_from_http_to_https_and_not_back() -> None:
    assert follow(307, "https://127.0.0.1:8443/x", asked(url="http://127.0.0.1:8080/")).target.scheme == "https"
    assert follow(307, "http://127.0.0.1:8081/x", asked(url="http://127.0.0.1:8080/")).target.port == 8081


HEADERS = (("Accept", "text/csv"), ("X-Api-Key", "mine"), ("If-None-Match", '"1"'), ("X-Planted", "op-1"))
NAMED = ("Accept", "X-Api-Key", "If-None-Match")


def test_a_read_leaves_behind_what_was_planted_and_at_another_origin_what_opens_doors() -> None:
    reading = asked(headers=HEADERS, named=NAMED)
    assert [name for name, _ in follow(302, of=reading).headers] == ["Accept", "X-Api-Key", "If-None-Match"]
    elsewhere = follow(302, "https://files.example.net/x", reading)
    assert [name for name, _ in elsewhere.headers] == ["Accept", "If-None-Match"]


def test_a_read_after_a_write_leaves_behind_what_spoke_of_the_write() -> None:
    headers = (*HEADERS, ("Content-Type", "application/json"), ("Content-Language", "en"), ("Digest", "x"))
    writing = asked("POST", headers=headers, named=(*NAMED, "Content-Type", "Content-Language", "Digest"))
    assert [name for name, _ in follow(303, of=writing).headers] == ["Accept", "X-Api-Key"]


def test_what_is_carried_keeps_every_header_or_does_not_go() -> None:
    writing = asked("POST", headers=HEADERS, named=NAMED)
    assert follow(307, of=writing).headers == HEADERS
    with pytest.raises(Refused) as refused:
        follow(307, "https://files.example.net/x", writing)
    assert (refused.value.code, refused.value.field) == (Code.HEADER_FORBIDDEN, "headers.X-Api-Key")
    plain = asked("POST", headers=(("Accept", "a"), ("X-Planted", "op-1")), named=("Accept",))
    assert follow(308, "https://files.example.net/x", plain).headers == plain.headers
