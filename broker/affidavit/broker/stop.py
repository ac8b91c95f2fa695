"""A stop: what ends an action before the line, with the verdict that it proves."""

from __future__ import annotations

from affidavit.broker.outcome import Verdict
from affidavit.broker.terms import InvocationId


class Stop(Exception):
    """Ends an action before the line, with its verdict (never after DISPATCH_STARTED)."""

    def __init__(
        self,
        verdict: Verdict,
        *,
        field: str | None = None,
        message: str | None = None,
        refers_to: InvocationId | None = None,
    ) -> None:
        super().__init__(verdict.code)
        self.verdict = verdict
        self.field = field
        self.message = message
        self.refers_to = refers_to
