"""Which addresses an action may go to, by literal and by name (interface, 2; verdicts, TARGET_BLOCKED)."""

from __future__ import annotations

import pytest

from affidavit.broker.address import (
    AddressClass,
    Binding,
    Leave,
    address_check,
    check_form,
    check_literal,
    classify,
    leave,
)
from affidavit.broker.contract.pattern import UrlPattern
from affidavit.broker.limits import Limits
from affidavit.broker.refusal import Refused
from affidavit.broker.target import HttpTarget, parse_http
from affidavit.broker.terms import Code

NONE, LOOPBACK, BOTH = Leave(), Leave(loopback=True), Leave(loopback=True, private=True)


def target(url: str) -> HttpTarget:
    return parse_http(url, Limits())


def binding(pattern: str, *, private: bool = False) -> Binding:
    return Binding(UrlPattern.parse(pattern), private)


@pytest.mark.parametrize(
    ("address", "kind"),
    [
        ("0.0.0.0", "never"),
        ("0.255.255.255", "never"),
        ("1.0.0.0", "public"),
        ("9.255.255.255", "public"),
        ("10.0.0.0", "private"),
        ("10.255.255.255", "private"),
        ("11.0.0.0", "public"),
        ("100.63.255.255", "public"),
        ("100.64.0.0", "private"),
        ("100.127.255.255", "private"),
        ("100.128.0.0", "public"),
        ("126.255.255.255", "public"),
        ("127.0.0.1", "loopback"),
        ("127.255.255.255", "loopback"),
        ("128.0.0.0", "public"),
        ("169.253.255.255", "public"),
        ("169.254.169.254", "never"),
        ("169.255.0.0", "public"),
        ("172.15.255.255", "public"),
        ("172.16.0.0", "private"),
        ("172.31.255.255", "private"),
        ("172.32.0.0", "public"),
        ("192.167.255.255", "public"),
        ("192.168.0.1", "private"),
        ("192.169.0.0", "public"),
        ("223.255.255.255", "public"),
        ("224.0.0.1", "never"),
        ("239.255.255.255", "never"),
        ("255.255.255.255", "never"),
        ("::", "never"),
        ("::1", "loopback"),
        ("fbff::1", "public"),
        ("fc00::1", "private"),
        ("fdff::1", "private"),
        ("fe7f::1", "public"),
        ("fe80::1", "never"),
        ("fe80::1%eth0", "never"),
        ("febf::1", "never"),
        ("fec0::1", "public"),
        ("ff02::1", "never"),
        ("2001:db8::1", "public"),
        # Metadata services outside of the link-local range, and their neighbours.
        ("100.100.100.200", "never"),
        ("100.100.100.201", "private"),
        ("192.0.0.192", "never"),
        ("168.63.129.16", "never"),
        ("168.63.129.17", "public"),
        ("fd00:ec2::254", "never"),
        ("fd00:ec2::23", "never"),
        ("fd00:ec2::253", "private"),
        ("fd20:ce::254", "never"),
        ("::ffff:168.63.129.16", "never"),
        ("64:ff9b::168.63.129.16", "never"),
        # An IPv4 address inside: reached as itself or not at all.
        ("::ffff:8.8.8.8", "public"),
        ("::ffff:127.0.0.1", "never"),
        ("::ffff:10.0.0.1", "never"),
        ("::ffff:169.254.169.254", "never"),
        ("::127.0.0.1", "never"),
        ("::ffff:0:127.0.0.1", "never"),
        ("64:ff9b::8.8.8.8", "public"),
        ("64:ff9b::127.0.0.1", "never"),
        ("64:ff9b::a9fe:a9fe", "never"),
        ("2002:808:808::1", "public"),
        ("2002:7f00:1::", "never"),
        ("2002:a00:1::", "never"),
        ("2002:c0a8:101::1", "never"),
        # Local NAT64, by each prefix length.
        ("64:ff9b:1::8.8.8.8", "public"),
        ("64:ff9b:1::10.0.0.1", "never"),
        ("64:ff9b:1:a00:0:100::", "never"),
        ("64:ff9b:1:808:8:800::", "public"),
        ("64:ff9b:1:a:0:1::", "never"),
        ("64:ff9b:1:8:8:808::", "public"),
        ("64:ff9b:1:1:7f:0:100:0", "never"),
        ("64:ff9b:1:1:8:808:800:0", "public"),
        ("64:ff9b:1::", "never"),
        ("localhost", "never"),
        ("", "never"),
        ("2130706433", "never"),
    ],
)
def test_classes(address: str, kind: str) -> None:
    assert classify(address) == AddressClass(kind)


@pytest.mark.parametrize(
    ("url", "bindings", "given"),
    [
        ("http://127.0.0.1:81/x", [binding("http://127.0.0.1:81/**")], LOOPBACK),
        ("http://127.1:81/x", [binding("http://0x7f000001:81/**")], LOOPBACK),
        ("http://localhost:81/x", [binding("http://localhost:81/**")], LOOPBACK),
        ("https://10.0.0.5/x", [binding("https://10.0.0.5/*")], Leave(private=True)),
        ("https://[fd00::5]/x", [binding("https://[fd00::5]/*")], Leave(private=True)),
        ("https://in.example/x", [binding("https://in.example/*", private=True)], BOTH),
        ("https://in.example/x", [binding("https://in.example/*")], NONE),
        ("https://in.example/x", [], NONE),
        # What gives leave must cover this very target.
        ("http://127.0.0.1:82/x", [binding("http://127.0.0.1:81/**")], NONE),
        ("http://127.0.0.1:81/y", [binding("http://127.0.0.1:81/x")], NONE),
        ("http://localhost:81/x", [binding("http://127.0.0.1:81/**")], NONE),
        ("https://in.example/x", [binding("https://other.example/*", private=True)], NONE),
        ("https://8.8.8.8/", [binding("https://8.8.8.8/**")], NONE),
    ],
)
def test_leave(url: str, bindings: list[Binding], given: Leave) -> None:
    assert leave(target(url), bindings) == given


@pytest.mark.parametrize(
    ("url", "given", "passes", "blocked"),
    [
        ("https://h.example/", NONE, ["8.8.8.8", "2001:db8::1"], ["127.0.0.1", "10.0.0.1", "::1", "fd00::1"]),
        ("https://h.example/", LOOPBACK, ["8.8.8.8", "127.0.0.1", "::1"], ["10.0.0.1", "fd00::1"]),
        ("https://h.example/", BOTH, ["8.8.8.8", "127.0.0.1", "10.0.0.1", "fd00::1"], ["169.254.1.1", "0.0.0.0"]),
        ("http://localhost/", LOOPBACK, ["127.0.0.1", "::1"], ["8.8.8.8", "10.0.0.1"]),
        ("http://in.example/", BOTH, ["127.0.0.1"], ["8.8.8.8", "10.0.0.1", "fd00::1", "::ffff:127.0.0.1"]),
        ("http://localhost/", NONE, [], ["127.0.0.1", "::1"]),
    ],
)
def test_resolved_addresses(url: str, given: Leave, passes: list[str], blocked: list[str]) -> None:
    check = address_check(target(url), given)
    assert [address for address in passes if not check(address)] == []
    assert [address for address in blocked if check(address)] == []


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://169.254.169.254/latest", "169.254.169.254 is never allowed"),
        ("https://0/", "0.0.0.0 is never allowed"),
        ("https://[::ffff:127.0.0.1]/", "never allowed"),
        ("https://[64:ff9b::7f00:1]/", "never allowed"),
        ("http://8.8.8.8/", "loopback only"),
        ("http://10.0.0.1/", "loopback only"),
    ],
)
def test_literals_that_no_leave_allows(url: str, says: str) -> None:
    with pytest.raises(Refused, match=says) as refused:
        check_form(target(url))
    assert (refused.value.code, refused.value.field) == (Code.TARGET_BLOCKED, "url")


@pytest.mark.parametrize(
    "url", ["https://8.8.8.8/", "https://10.0.0.1/", "http://127.0.0.1/", "http://h.example/", "http://localhost/"]
)
def test_the_form_alone_blocks_no_other(url: str) -> None:
    check_form(target(url))


def test_literals_need_leave() -> None:
    check_literal(target("https://8.8.8.8/"), NONE)
    check_literal(target("https://in.example/"), NONE)
    check_literal(target("http://127.0.0.1/"), LOOPBACK)
    check_literal(target("https://10.0.0.1/"), BOTH)
    for url, given in (("http://127.0.0.1/", NONE), ("https://10.0.0.1/", LOOPBACK), ("https://[::1]/", NONE)):
        with pytest.raises(Refused, match="needs a credential or contract") as refused:
            check_literal(target(url), given)
        assert refused.value.code is Code.TARGET_BLOCKED
