"""The request spool: requests as approved, without secrets, for as long as a repeat may need them (R62).

Sealed files beside the results, each under a key of its own that stands only in the sealed payload of the invocation's
PREFLIGHT_VALIDATED. Not a record, not forced to disk: where it is gone, a repeat needs the request again.
"""

from __future__ import annotations

import base64
import json
import secrets
from pathlib import Path
from typing import Any

from affidavit.broker.bound import HttpBound
from affidavit.broker.moment import after
from affidavit.broker.outcome import Invocation
from affidavit.broker.terms import InvocationId, Micros, Outcome, Retry
from affidavit.journal import FileUnwritable, SpoolFile

SUFFIX = ".spool"


class Spool:
    """Spooled requests in one directory, by invocation."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def put(self, invocation_id: InvocationId, bound: HttpBound) -> dict[str, Any] | None:
        """Spool a request; where it lies and its key, for the sealed record. None where the disk refuses: a repeat
        then asks for the request again."""
        key = secrets.token_bytes(32)
        content = {
            "method": bound.method,
            "url": bound.target.url,
            "headers": bound.headers,
            "body": base64.b64encode(bound.body).decode(),
        }
        file = SpoolFile(self._directory, f"{invocation_id}{SUFFIX}")
        try:
            file.write(json.dumps(content).encode(), key)
        except FileUnwritable:
            return None
        return {"name": file.name, "key": key.hex()}

    def drop(self, invocation_id: InvocationId) -> None:
        """Delete one; that it is gone already is no error."""
        SpoolFile(self._directory, f"{invocation_id}{SUFFIX}").delete()

    def held(self) -> list[InvocationId]:
        return [InvocationId(p.name.removesuffix(SUFFIX)) for p in self._directory.glob(f"act_*{SUFFIX}")]


def needed(inv: Invocation, now: Micros, recovery_s: float) -> bool:
    """Whether a repeat may still need the request: it is open, or unresolved and its time is not over."""
    if not inv.finished:
        return True
    repeatable = inv.retry in (Retry.BACKOFF, Retry.SAME_IDEMPOTENCY_KEY, Retry.RECONCILE)
    if not repeatable or (inv.outcome is Outcome.COMMITTED and inv.retry is not Retry.BACKOFF):
        return False
    ends = [inv.recovery_deadline or after(inv.accepted_at, recovery_s), inv.window_open_until or Micros(0)]
    return now < max(ends)
