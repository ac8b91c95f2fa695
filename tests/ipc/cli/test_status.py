"""`affidavit status`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.ipc.cli.conftest import Cli, ScriptedBroker

STATUS = {
    "version": "1",
    "counts": {"remote_execution": {"committed": 2}},
    "alerts": [{"id": 1, "which": "mismatch", "says": "It was asked again\x1b."}],
    "metrics_since": "2026-11-30T08:00:00Z",
    "metrics": [
        {
            "target": "https://a.example",
            "contract": "default.write",
            "phases": {"remote_execution": 2},
            "outcomes": {"committed": 1, "unknown": 1},
        }
    ],
}


def test_alerts_and_counts_by_target_are_told_in_lines(cli: Cli, broker: ScriptedBroker) -> None:
    broker.answers("status", {"result": STATUS}, {"result": {**STATUS, "alerts": [], "metrics": None}})
    ran = cli("status")
    assert ran.status == 0
    assert ran.text.splitlines() == [
        "version:                          1",
        "actions in remote_execution:      committed 2",
        "alerts:                           It was asked again<U+001B>.",
        "actions by target, since:         2026-11-30 08:00:00",
        "https://a.example (default.write): committed 1, unknown 1, in remote_execution 2",
    ]
    assert "alerts:                           none" in cli("status").text.splitlines()
