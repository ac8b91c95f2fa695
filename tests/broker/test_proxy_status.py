"""The Proxy-Status field: what the next hop says, and texts that say nothing."""

from __future__ import annotations

import pytest

from affidavit.broker.proxy_status import LIMIT, error_of_next_hop


@pytest.mark.parametrize(
    ("field", "error"),
    [
        ("proxy.example; error=dns_error", "dns_error"),
        ('"a proxy, of ours" ;error=dns_error', None),  # no space may stand before a semicolon
        ('"a proxy, of ours";error=dns_error', "dns_error"),
        ('a; error=dns_error, b; error="connection_refused"', "connection_refused"),
        (
            "a; error=dns_error,\tb; error=connection_refused; rcode=3; x=?1; y=:aGk=:; z=1.5; at=@17",
            "connection_refused",
        ),
        (
            'a; error=http_protocol_error; details="as was said, b; error=connection_refused"',
            "http_protocol_error",
        ),
        ("a; error=dns_error; error=connection_refused", "connection_refused"),  # the last of a name holds
    ],
)
def test_the_last_member_is_the_next_hop(field: str, error: str | None) -> None:
    assert error_of_next_hop(field) == error


@pytest.mark.parametrize(
    "field",
    [
        "",
        "a; error=dns_error, b",
        "a; error",
        'a; details="it said \\"no\\", b; error=connection_refused"',
        'a; details="never closed; error=connection_refused',
        "a; error=connection_refused; received-status=503",
        "a; error=connection_refused,",
        "a; error=connection_refused b",
        "a; Error=connection_refused",
        'a; error=connection_refused; details="\x7f"',
        "(a b); error=connection_refused",
        "3; error=connection_refused",
        "a" * LIMIT + "; error=connection_refused",
    ],
)
def test_what_is_no_such_list_or_names_no_error_proves_nothing(field: str) -> None:
    assert error_of_next_hop(field) is None
