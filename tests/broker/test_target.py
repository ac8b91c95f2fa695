"""One spelling per target, and clear refusals for the rest (R8, R14)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affidavit.broker.limits import Limits
from affidavit.broker.refusal import Refused
from affidavit.broker.target import HttpTarget, is_hidden, parse_http
from affidavit.broker.terms import Code

LIMITS = Limits()


def target(url: str) -> HttpTarget:
    return parse_http(url, LIMITS)


@pytest.mark.parametrize(
    ("given_url", "normalised"),
    [
        ("https://api.example.com", "https://api.example.com/"),
        ("HTTPS://API.Example.COM/v1/Payments", "https://api.example.com/v1/Payments"),
        ("https://api.example.com:443/", "https://api.example.com/"),
        ("http://api.example.com:80/", "http://api.example.com/"),
        ("https://api.example.com:0443/", "https://api.example.com/"),
        ("https://api.example.com:8443/", "https://api.example.com:8443/"),
        ("https://h.example/a/./b/../c", "https://h.example/a/c"),
        ("https://h.example/a/..", "https://h.example/"),
        ("https://h.example/a/.", "https://h.example/a/"),
        ("https://h.example/%7euser/%41%2d", "https://h.example/~user/A-"),
        ("https://h.example/a%2fb%5cc", "https://h.example/a%2Fb%5Cc"),
        ("https://h.example/file%2Etxt", "https://h.example/file.txt"),
        ("https://h.example/a//b/", "https://h.example/a//b/"),
        ("https://h.example//", "https://h.example//"),
        ("https://h.example/p?a=%7e&b=%2f&&c", "https://h.example/p?a=%7e&b=%2f&&c"),
        ("https://h.example/p?q=100%", "https://h.example/p?q=100%"),
        ("https://h.example/p?", "https://h.example/p?"),
        ("https://h.example?x=/../y", "https://h.example/?x=/../y"),
        ("https://h.example/é?q=ü", "https://h.example/%C3%A9?q=%C3%BC"),
        ('https://h.example/{a}"<b>^`|', "https://h.example/%7Ba%7D%22%3Cb%3E%5E%60%7C"),
        ("https://h.example/a[0]?page[size]=1&s=it's", "https://h.example/a[0]?page[size]=1&s=it's"),
        ("https://bücher.example/", "https://xn--bcher-kva.example/"),
        ("https://BÜCHER.example/", "https://xn--bcher-kva.example/"),
        ("https://a。example/", "https://a.example/"),
        ("https://my_service.r3---sn.example/", "https://my_service.r3---sn.example/"),
        ("http://2130706433/", "http://127.0.0.1/"),
        ("http://0x7f000001/", "http://127.0.0.1/"),
        ("http://0x7F.1/", "http://127.0.0.1/"),
        ("http://017700000001/", "http://127.0.0.1/"),
        ("http://127.1:81/", "http://127.0.0.1:81/"),
        ("http://127.0.1/", "http://127.0.0.1/"),
        ("http://0177.0.0.01/", "http://127.0.0.1/"),
        ("http://\uff11\uff12\uff17.0.0.1/", "http://127.0.0.1/"),
        ("http://0/", "http://0.0.0.0/"),
        ("http://[::1]:8080/x", "http://[::1]:8080/x"),
        ("https://[2001:DB8:0:0::0001]/", "https://[2001:db8::1]/"),
        ("https://[::ffff:7f00:1]/", "https://[::ffff:127.0.0.1]/"),
    ],
)
def test_one_spelling(given_url: str, normalised: str) -> None:
    assert target(given_url).url == normalised


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ("", "absolute"),
        ("api.example.com/v1", "absolute"),
        ("/v1", "absolute"),
        ("//api.example.com/v1", "absolute"),
        ("ftp://api.example.com/", "absolute"),
        ("https:/api.example.com/", "absolute"),
        ("javascript://x/", "absolute"),
        ("https://user@h.example/", "user name"),
        ("https://user:pw@h.example/", "user name"),
        ("https://h.example:80@evil.example/", "user name"),
        ("https:///path", "no host"),
        ("https://:443/", "no host"),
        ("https://?q", "no host"),
        ("https://h.example:/", "port"),
        ("https://h.example:0/", "port"),
        ("https://h.example:65536/", "port"),
        ("https://h.example:x/", "port"),
        ("https://h.example:-1/", "port"),
        ("https://h.example:\u0661/", "port"),
        ("https://h.example:443:443/", "port"),
        ("https://h.example/a\r\nX: y", "U+000D"),
        ("https://h.example/a\nb", "U+000A"),
        ("https://h.example/a\0", "U+0000"),
        ("https://h.example/a b", "U+0020"),
        (" https://h.example/", "U+0020"),
        ("https://h.example/\u202egpj", "U+202E"),
        ("https://h.\u200bexample/", "U+200B"),
        ("https://h.example/\u00a0", "U+00A0"),
        ("https://h.example/\u3164", "U+3164"),
        ("https://h.example/\ud800", "U+D800"),
        ("https://h.example\\@evil.example/", "backslash"),
        ("https://h.example/#top", "fragment"),
        ("https://h.example/../a", "climbs"),
        ("https://h.example/a/../../b", "climbs"),
        ("https://h.example/a/%2e%2e/b", "escapes"),
        ("https://h.example/a/.%2E/b", "escapes"),
        ("https://h.example/%2e/b", "escapes"),
        ("https://h.example/a/..%2Fb", "behind"),
        ("https://h.example/a%2f%2e%2e", "behind"),
        ("https://h.example/a/..%5cb", "behind"),
        ("https://h.example/a/%252e%252E/b", "behind"),
        ("https://h.example/a/..%25252fb", "behind"),
        ("https://h.example/a/..;x=1/b", "behind"),
        ("https://h.example/a%zz", "hexadecimal"),
        ("https://h.example/a%", "hexadecimal"),
        ("https://h.example./", "dot"),
        ("https://h..example/", "not a host name"),
        ("https://h%2eexample/", "not a host name"),
        ("https://h!.example/", "not a host name"),
        ("https://" + "a" * 64 + ".example/", "not a host name"),
        ("https://" + "a." * 130 + "example/", "253"),
        ("https://xn--a-.example/", "xn--"),
        ("https://\U0001f4a9.example/", "international"),
        ("https://1.2.3.256/", "IPv4"),
        ("https://1.2.3.4.5/", "IPv4"),
        ("https://08.1.1.1/", "IPv4"),
        ("https://a.1/", "IPv4"),
        ("https://256.1/", "IPv4"),
        ("https://4294967296/", "IPv4"),
        ("https://99999999999999999999/", "IPv4"),
        ("https://[::1/", "brackets"),
        ("https://[::1]x/", "brackets"),
        ("https://[]/", "IPv6"),
        ("https://[1.2.3.4]/", "IPv6"),
        ("https://[fe80::1%25eth0]/", "zone"),
    ],
)
def test_not_a_target(bad: str, says: str) -> None:
    with pytest.raises(Refused) as refused:
        target(bad)
    assert (refused.value.code, refused.value.field) == (Code.INVALID_TARGET, "url")
    assert says in refused.value.message


def test_length_counts_bytes_before_and_after_encoding() -> None:
    limits = Limits(url=64)
    assert len(parse_http("https://h.example/" + "a" * 46, limits).url) == 64
    for too_long in ("https://h.example/" + "a" * 47, "https://h.example/" + "é" * 20):
        with pytest.raises(Refused) as refused:
            parse_http(too_long, limits)
        assert (refused.value.code, refused.value.field) == (Code.PAYLOAD_LIMIT, "url")


def test_parts() -> None:
    t = target("https://BÜCHER.example:8443/a?b=c")
    assert (t.scheme, t.host, t.host_shown, t.port) == ("https", "xn--bcher-kva.example", "bücher.example", 8443)
    assert (t.path, t.query, t.origin, t.is_literal) == ("/a", "b=c", "https://xn--bcher-kva.example:8443", False)
    assert (t.authority, t.origin_form) == ("xn--bcher-kva.example:8443", b"/a?b=c")


def test_literals() -> None:
    six = target("http://[::1]:8080/x")
    assert (six.host, six.host_shown, six.authority, six.is_literal) == ("::1", "::1", "[::1]:8080", True)
    assert target("http://127.1/").is_literal
    assert not target("http://localhost/").is_literal


def test_empty_query_is_not_no_query() -> None:
    assert target("https://h.example/p?").query == ""
    assert target("https://h.example/p").query is None


def test_a_label_with_something_invisible_in_it_is_shown_as_it_is() -> None:
    with_non_joiner = "xn--mgba3gch31f060k.example"
    assert target(f"https://{with_non_joiner}/").host_shown == with_non_joiner


_SEGMENT = st.text(st.sampled_from("ab.%/2eEfF5cC;~é{"), max_size=20)


@given(_SEGMENT, st.text(st.characters(codec="utf-8"), max_size=10))
def test_normalising_twice_changes_nothing(path: str, query: str) -> None:
    try:
        once = target(f"https://h.example/{path}?{query}")
    except Refused:
        return
    assert target(once.url) == once
    assert once.url.isascii()
    assert ".." not in once.path.split("/")


@given(st.text(max_size=40))
def test_any_text_is_a_target_or_refused(text: str) -> None:
    for url in (text, f"https://{text}", f"https://h.example/{text}"):
        try:
            t = target(url)
        except Refused:
            continue
        assert not any(map(is_hidden, t.url))
