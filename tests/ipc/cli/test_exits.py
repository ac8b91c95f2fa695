"""Every exit status of an action, from its envelope."""

from __future__ import annotations

from typing import Any

import pytest

from affidavit.ipc.cli import exits

WHOLE = {"complete": True, "truncated_at": None}


def envelope(kind: str, outcome: str, phase: str = "remote_execution", **more: Any) -> dict[str, Any]:
    return {kind: {"code": "X", "phase": phase, "outcome": outcome, "retry": "never"}, **more}


CUT = {"complete": False, "truncated_at": None}
BOTH = {"stdout": WHOLE, "stderr": WHOLE}
COMMANDS = [
    ({"exit_status": 0, "exit_signal": None, **BOTH}, 0),
    ({"exit_status": None, "exit_signal": None, **BOTH}, 0),
    ({"exit_status": 7, "exit_signal": None, **BOTH}, 9),
    ({"exit_status": None, "exit_signal": "TERM", **BOTH}, 9),
    ({"exit_status": 0, "exit_signal": None, "stdout": CUT, "stderr": CUT}, 9),
    ({"exit_status": None, "exit_signal": None, "stdout": CUT, "stderr": CUT}, 9),
    ({"exit_status": 0, "exit_signal": None, **BOTH, "stderr": {**WHOLE, "truncated_at": 9}}, 9),
]
"""What a command left behind, and the exit status of the action: no exit status at all is the contract's marker."""


@pytest.mark.parametrize(
    ("given", "status"),
    [
        (envelope("result", "committed", http={"status": 200, "body": WHOLE}), 0),
        (envelope("result", "committed", http={"status": 204, "body": None}), 0),
        (envelope("result", "committed", evidence={"source": "remote_query"}), 0),
        (envelope("result", "committed", evidence={"source": "operator_attested"}), 0),
        (envelope("result", "committed", evidence={"source": "remote_response"}), 9),
        (envelope("error", "rejected", settled={"source": "remote_query"}), 11),
        (envelope("result", "committed", http={"status": 500, "body": WHOLE}), 9),
        (envelope("result", "committed", http={"status": 302, "body": WHOLE}), 9),
        (envelope("result", "committed", http={"status": 200, "body": {**WHOLE, "complete": False}}), 9),
        (envelope("result", "committed", http={"status": 200, "body": {**WHOLE, "truncated_at": 10}}), 9),
        (envelope("result", "committed"), 9),
        *((envelope("result", "committed", ssh=ssh), status) for ssh, status in COMMANDS),
        (envelope("error", "not_attempted", "validation"), 10),
        (envelope("error", "rejected", http={"status": 401, "body": WHOLE}), 11),
        (envelope("error", "unknown"), 12),
        (envelope("error", "unknown", "result_delivery"), 12),
        (envelope("error", "committed", "result_delivery"), 13),
        (envelope("error", "rejected", "result_delivery"), 13),
        (envelope("pending", "unknown"), 14),
        (envelope("pending", "not_attempted", "credential_injection"), 14),
    ],
)
def test_an_envelope_has_one_exit_status(given: dict[str, Any], status: int) -> None:
    assert exits.of_envelope(given) == status


def test_an_envelope_without_facts_is_refused() -> None:
    with pytest.raises(ValueError, match="one of result, pending, error"):
        exits.of_envelope({"evidence": {}})
