"""Response headers: what is kept and shown, and what a target says of waiting and of its own request id. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from affidavit.broker.outcome import joined
from affidavit.broker.redact import HIDDEN_HEADERS
from affidavit.broker.terms import Micros

Pairs = tuple[tuple[str, str], ...]

REQUEST_ID_HEADERS = (
    "request-id",
    "x-request-id",
    "x-amzn-requestid",
    "x-amz-request-id",
    "x-github-request-id",
    "x-ms-request-id",
    "x-correlation-id",
    "cf-ray",
)
"""Names under which targets give the id of their own record, the most specific habit first."""

_NUMBER = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,9})?")

RETRY_AFTER_MAX_S = 86_400.0
"""A longer wait is shown as this: it is advice, not evidence."""


def chosen(headers: Pairs) -> dict[str, str]:
    """Headers that are kept and shown: an object of lower-case names, repeats joined, cookies left out."""
    return {name: value for name, value in joined(headers).items() if name not in HIDDEN_HEADERS}


def only_location(received: Pairs, kept: Pairs) -> str | None:
    """The one Location of an answer; None where there are several, or where redaction changed it: it holds a secret."""
    of = [[value.strip() for name, value in headers if name.lower() == "location"] for headers in (received, kept)]
    return of[0][0] if of[0] == of[1] and len(of[0]) == 1 else None


def remote_request_id(headers: Pairs) -> str | None:
    found: Mapping[str, str] = joined(headers)
    return next((found[name][:256] for name in REQUEST_ID_HEADERS if found.get(name)), None)


def retry_after(headers: Pairs, now: Micros, *, name: str = "retry-after", epoch: bool = False) -> float | None:
    """How long the target asks to wait, in seconds from now: a number, a date (RFC 9110, 10.2.3), or with `epoch` the
    second since 1970 from which on it may be asked again. None where absent or not readable."""
    value = joined(headers).get(name.lower(), "").strip()
    if _NUMBER.fullmatch(value):
        seconds = float(value) - (now / 1_000_000 if epoch else 0)
    else:
        try:
            at = parsedate_to_datetime(value)
        except (ValueError, TypeError):
            return None
        if at.tzinfo is None:
            at = at.replace(tzinfo=UTC)
        seconds = (at - datetime.fromtimestamp(now / 1_000_000, UTC)).total_seconds()
    return min(max(0.0, round(seconds, 3)), RETRY_AFTER_MAX_S)
