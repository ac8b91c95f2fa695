"""What an agent is told, in the four facts that it acts on."""

from __future__ import annotations

from tests.e2e.rig import Envelope, facts

Said = tuple[str, str, str, str]
"""Phase, outcome, code, retry."""


def told(envelope: Envelope) -> tuple[str, str, str]:
    """Outcome, code, retry."""
    found = facts(envelope)
    return found["outcome"], found["code"], found["retry"]


def said(envelope: Envelope) -> Said:
    """All four."""
    return facts(envelope)["phase"], *told(envelope)


def refused(code: str, retry: str = "after_correction") -> Said:
    return "validation", "not_attempted", code, retry


def stopped(code: str, retry: str = "backoff") -> Said:
    return "connection_setup", "not_attempted", code, retry


def unknown(code: str = "REMOTE_RESULT_INCOMPLETE", retry: str = "reconcile") -> Said:
    return "remote_execution", "unknown", code, retry


def rejected(code: str = "REMOTE_REJECTED", retry: str = "after_correction") -> Said:
    return "remote_execution", "rejected", code, retry


def committed(code: str = "REMOTE_RESULT", retry: str = "never") -> Said:
    return "remote_execution", "committed", code, retry
