"""Response headers: how long a target asks to wait, in its three spellings."""

from __future__ import annotations

import pytest

from affidavit.broker.headers import retry_after
from affidavit.broker.terms import Micros

NOW = Micros(1_796_000_000_000_000)  # 2026-11-30 00:53:20 UTC


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("30", 30.0),
        (" 0 ", 0.0),
        ("1.5", 1.5),
        ("Mon, 30 Nov 2026 00:54:20 GMT", 60.0),
        ("Mon, 30 Nov 2026 00:00:00 GMT", 0.0),
        ("999999999", 86_400.0),
        ("soon", None),
        ("-5", None),
        ("", None),
        ("٣", None),
    ],
)
def test_seconds_and_dates(value: str, seconds: float | None) -> None:
    assert retry_after((("Retry-After", value),), NOW) == seconds


@pytest.mark.parametrize(("value", "seconds"), [("1796000045", 45.0), ("1795999999", 0.0), ("x", None)])
def test_an_epoch_in_a_header_that_the_contract_names(value: str, seconds: float | None) -> None:
    headers = (("x-ratelimit-reset", value),)
    assert retry_after(headers, NOW, name="X-RateLimit-Reset", epoch=True) == seconds


def test_absent() -> None:
    assert retry_after((), NOW) is None
