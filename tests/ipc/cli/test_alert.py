"""`affidavit alert`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.ipc.cli.conftest import Cli, ScriptedBroker

ALERTS = [
    {
        "id": 1,
        "which": "contradiction",
        "says": "Record 41 is contradicted\x1b.",
        "at": "2026-11-30T14:32:09Z",
        "invocation_id": "act_01JEXAMPLE0000000000000000",
    },
    {"id": 12, "which": "storage", "says": "No room.", "at": "2026-11-30T15:00:00Z", "invocation_id": None},
]
LISTED = """\
ID  SINCE                ACTION                          WHAT TO LOOK INTO
1   2026-11-30 14:32:09  act_01JEXAMPLE0000000000000000  Record 41 is contradicted<U+001B>.
12  2026-11-30 15:00:00  -                               No room.
"""


def test_the_open_alerts(cli: Cli, broker: ScriptedBroker) -> None:
    open_, none, sealed = ({"alerts": a, "alerts_sealed": n} for a, n in ((ALERTS, 0), ([], 0), ([], 2)))
    broker.answers("status", *({"result": found} for found in (open_, none, sealed, open_)))
    assert cli("alert", "list").text == LISTED
    assert cli("alert", "list").text == "No alert is open.\n"
    assert cli("alert", "list").text == (
        "From an earlier run: 2, sealed until the vault is open. Next: affidavit unlock\n"
    )
    assert cli("alert", "list", "--json").json == open_


def test_closing_one_takes_the_passphrase(cli: Cli, broker: ScriptedBroker) -> None:
    broker.answers("alert.close", {"result": {"closed": 12}})
    ran = cli("alert", "close", "12", "--passphrase-fd", cli.fd(b"pw"))
    assert (ran.status, ran.text) == (0, "Alert 12 is closed. It stays in the journal.\n")
    assert broker.asked("alert.close") == [{"alert_id": 12, "passphrase": "pw"}]


def test_an_alert_that_is_not_open(cli: Cli, broker: ScriptedBroker) -> None:
    said = {"code": -32003, "message": "No such alert is open.", "data": {"code": "not_known", "field": "alert_id"}}
    broker.answers("alert.close", {"error": said})
    ran = cli("alert", "close", "12", "--passphrase-fd", cli.fd(b"pw"))
    assert ran.status == 1
    assert ran.err == "affidavit: No such alert is open.\n  field: alert_id\n"
