"""Patterns by which contracts and credentials name targets (interface, 6)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affidavit.broker.contract.pattern import MAX_PATTERN, BadPattern, CommandPattern, Glob, HostPattern, UrlPattern
from affidavit.broker.limits import Limits
from affidavit.broker.target import parse_http


def matches(pattern: str, url: str) -> bool:
    return UrlPattern.parse(pattern).matches(parse_http(url, Limits()))


@pytest.mark.parametrize(
    ("pattern", "url"),
    [
        ("https://api.example.com/v1/payments", "https://api.example.com/v1/payments"),
        ("https://api.example.com/v1/payments", "https://api.example.com/v1/payments?expand=all"),
        ("https://API.example.com:443/v1/./payments", "https://api.example.com/v1/payments"),
        ("https://api.example.com", "https://api.example.com/"),
        ("https://api.example.com/v1/*", "https://api.example.com/v1/payments"),
        ("https://api.example.com/v1/*", "https://api.example.com/v1/"),
        ("https://api.example.com/v1/*", "https://api.example.com/v1/a%2Fb"),
        ("https://api.example.com/v1/pay*s", "https://api.example.com/v1/payments"),
        ("https://api.example.com/v1/**", "https://api.example.com/v1"),
        ("https://api.example.com/v1/**", "https://api.example.com/v1/a/b/c"),
        ("https://api.example.com/**/token*", "https://api.example.com/a/b/tokens"),
        ("https://api.example.com/**/token*", "https://api.example.com/token"),
        ("https://api.example.com/**/a/**/b", "https://api.example.com/x/a/b"),
        ("https://api.example.com/**", "https://api.example.com/"),
        ("https://*.example.com/", "https://eu.example.com/"),
        ("https://api-*.example.com/", "https://api-eu.example.com/"),
        ("https://bücher.example/é/*", "https://xn--bcher-kva.example/%C3%A9/x"),
        ("http://127.1:8080/*", "http://127.0.0.1:8080/x"),
        ("http://[0:0::1]/", "http://[::1]/"),
        ("https://h.example/?Action=Run", "https://h.example/?x=1&Action=%52un"),
        ("https://h.example/?a=x y".replace(" ", "+"), "https://h.example/?a=x%20y"),
    ],
)
def test_matches(pattern: str, url: str) -> None:
    assert matches(pattern, url)


@pytest.mark.parametrize(
    ("pattern", "url"),
    [
        ("https://api.example.com/v1/payments", "http://api.example.com:443/v1/payments"),
        ("https://api.example.com/v1/payments", "https://api.example.com:8443/v1/payments"),
        ("https://api.example.com/v1/payments", "https://api.example.com/v1/payments/"),
        ("https://api.example.com/v1/payments", "https://api.example.com/V1/payments"),
        ("https://api.example.com/v1/*", "https://api.example.com/v1"),
        ("https://api.example.com/v1/*", "https://api.example.com/v1/a/b"),
        ("https://api.example.com/v1/pay*s", "https://api.example.com/v1/pay"),
        ("https://api.example.com/a*a", "https://api.example.com/a"),
        ("https://api.example.com/**/token*", "https://api.example.com/token/x"),
        ("https://api.example.com/a/**/a", "https://api.example.com/a"),
        ("https://api.example.com/**/a/**/b", "https://api.example.com/b/a"),
        ("https://*.example.com/", "https://a.b.example.com/"),
        ("https://*.example.com/", "https://example.com/"),
        ("https://*/", "https://[::1]/"),
        ("https://*.*.*.*/", "https://1.2.3.4/"),
        ("https://h.example/?Action=Run", "https://h.example/"),
        ("https://h.example/?Action=Run", "https://h.example/?Action=Stop"),
        ("https://h.example/?Action=Run", "https://h.example/?Action=Run&Action=Stop"),
    ],
)
def test_does_not_match(pattern: str, url: str) -> None:
    assert not matches(pattern, url)


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ("api.example.com/*", "The pattern must be absolute"),
        ("*://api.example.com/", "absolute"),
        ("https://api.example.com:*/", "port"),
        ("https://u@api.example.com/", "user name"),
        ("https://**.example.com/", "`**` stands for path segments"),
        ("https://bü*.example/", "ASCII"),
        ("https://*.1/", "IPv4"),
        ("https://h.example/a**", "whole path segment"),
        ("https://h.example/***", "whole path segment"),
        ("https://h.example/../x", "climbs"),
        ("https://h.example/?a=1&a=2", "twice"),
        ("https://h.example/" + "a" * MAX_PATTERN, "longer"),
    ],
)
def test_not_a_pattern(bad: str, says: str) -> None:
    with pytest.raises(BadPattern, match=says.replace("*", r"\*").replace("?", r"\?")):
        UrlPattern.parse(bad)


def test_names_literally() -> None:
    assert UrlPattern.parse("http://127.1:8080/*").names_literally("127.0.0.1")
    assert UrlPattern.parse("http://[::1]/").names_literally("::1")
    assert UrlPattern.parse("http://localhost:1/").names_literally("localhost")
    assert not UrlPattern.parse("http://localhost:1/").names_literally("127.0.0.1")
    assert not UrlPattern.parse("http://127.0.0.1/").names_literally("127.0.0.2")
    assert not UrlPattern.parse("http://internal.example/").names_literally("internal.example")
    assert not UrlPattern.parse("http://*/").names_literally("localhost")


def test_the_more_specific_ranks_higher() -> None:
    rising = [
        "https://*.example.com/v1/payments/list/all",
        "https://api.example.com/**",
        "https://api.example.com/*",
        "https://api.example.com/v1/**",
        "https://api.example.com/v1/*",
        "https://api.example.com/v1/pay*",
        "https://api.example.com/v1/pay/*",
        "https://api.example.com/v1/payments",
        "https://api.example.com/v1/payments?a=1",
    ]
    ranks = [UrlPattern.parse(text).rank for text in rising]
    assert ranks == sorted(ranks)
    assert len(set(ranks)) == len(ranks)


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [
        ("https://h.example/a/*", "https://h.example/*/b", True),
        ("https://h.example/a*", "https://h.example/*b", True),
        ("https://h.example/a*", "https://h.example/b*", False),
        ("https://h.example/**/a", "https://h.example/b/**", True),
        ("https://h.example/**/a", "https://h.example/b/c", False),
        ("https://h.example/a/**/b", "https://h.example/a/b", True),
        ("https://h.example/**", "https://h.example/**", True),
        ("https://h.example/a", "https://h.example/a/*", False),
        ("https://*.example/", "https://h.*/", True),
        ("https://*/", "https://1.2.3.4/", False),
        ("https://h.example/", "http://h.example:443/", False),
        ("https://h.example/?a=1", "https://h.example/?a=2", False),
        ("https://h.example/?a=1", "https://h.example/?b=2", True),
    ],
)
def test_overlap(one: str, other: str, both: bool) -> None:
    a, b = UrlPattern.parse(one), UrlPattern.parse(other)
    assert a.overlaps(b) is both
    assert b.overlaps(a) is both


_PATH = st.lists(st.sampled_from(["a", "b", "ab", "*", "a*", "*b", "**"]), min_size=1, max_size=5).map("/".join)
_PLAIN = st.lists(st.sampled_from(["a", "b", "ab", "ba", ""]), min_size=1, max_size=5).map("/".join)


def _by_definition(pattern: list[str], path: list[str]) -> bool:
    if not pattern:
        return not path
    if pattern[0] == "**":
        return any(_by_definition(pattern[1:], path[n:]) for n in range(len(path) + 1))
    return bool(path) and Glob.parse(pattern[0]).matches(path[0]) and _by_definition(pattern[1:], path[1:])


@given(_PATH, _PLAIN)
def test_matching_agrees_with_its_definition(pattern: str, path: str) -> None:
    assert matches(f"https://h.example/{pattern}", f"https://h.example/{path}") is _by_definition(
        pattern.split("/"), path.split("/")
    )


@given(_PATH, _PATH, _PLAIN)
def test_what_two_patterns_match_they_overlap_in(one: str, other: str, path: str) -> None:
    a, b = UrlPattern.parse(f"https://h.example/{one}"), UrlPattern.parse(f"https://h.example/{other}")
    target = parse_http(f"https://h.example/{path}", Limits())
    assert not (a.matches(target) and b.matches(target)) or a.overlaps(b)


def test_commands() -> None:
    pattern = CommandPattern.parse("web-*", "systemctl restart *")
    assert pattern.matches("web-01", "systemctl restart shop worker\n")
    assert not pattern.matches("db-01", "systemctl restart shop")
    assert not pattern.matches("web-01.example", "systemctl restart shop")
    assert not pattern.matches("web-01", "sudo systemctl restart shop")
    assert pattern.rank < CommandPattern.parse("web-*", "systemctl restart shop-*").rank
    assert pattern.overlaps(CommandPattern.parse("web-01", "* shop"))
    assert not pattern.overlaps(CommandPattern.parse("web-01", "ls*"))


@pytest.mark.parametrize(
    ("host", "command"), [("", "ls"), ("a b", "ls"), ("**", "ls"), ("h", ""), ("h", "a\0b"), ("h", "a" * 9000)]
)
def test_not_a_command_pattern(host: str, command: str) -> None:
    with pytest.raises(BadPattern):
        CommandPattern.parse(host, command)


@pytest.mark.parametrize(
    ("pattern", "address", "matches"),
    [
        ("db.example.com", "db.example.com", True),
        ("DB.example.com", "db.example.com", True),
        ("db.example.com", "db2.example.com", False),
        ("*.example.com", "db.example.com", True),
        ("*.example.com", "a.db.example.com", False),
        ("*.example.com", "example.com", False),
        ("db*.example.com", "db2.example.com", True),
        ("*", "db", True),
        ("*.*.*.*", "192.0.2.7", False),
        ("*", "2001:db8::7", False),
        ("192.0.2.7", "192.0.2.7", True),
        ("192.0.2.7", "192.0.2.8", False),
        ("[2001:DB8::7]", "2001:db8::7", True),
        ("2001:db8::7", "2001:db8::7", True),
    ],
)
def test_hosts(pattern: str, address: str, matches: bool) -> None:
    parsed = HostPattern.parse(pattern)
    assert parsed.matches(address) is matches
    assert HostPattern.parse(parsed.text) == parsed


@pytest.mark.parametrize(
    "text",
    ["", "**.example.com", "ssh://db", "ada@db", "db/x", "db:22", "a b", "db.", "*.1", "ä*", "x" * 9000, "a\u202e"],
)
def test_not_a_host_pattern(text: str) -> None:
    with pytest.raises(BadPattern) as caught:
        HostPattern.parse(text)
    assert "URL" not in str(caught.value)
