"""What a short command loads (performance, P14): exact, so it is a gate."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.ipc.cli.conftest import ScriptedBroker

HEAVY = [
    "asyncio",
    "httpx",
    "h11",
    "paramiko",
    "mcp",
    "keyring",
    "PySide6",
    "cryptography",
    "nacl",
    "sqlcipher3",
    "platformdirs",
    "dataclasses",
    "typing",
    "affidavit.broker",
    "affidavit.journal",
    "affidavit.gui",
]
PROBE = """
import sys
from affidavit.ipc.cli.main import main
status = main(["status", "--json"])
print(*sorted(set(sys.argv[1:]) & set(sys.modules)), file=sys.stderr)
raise SystemExit(status)
"""


def test_status_loads_little_more_than_a_bare_socket_client(broker: ScriptedBroker) -> None:
    broker.answers("status", {"result": {"vault": "ready"}})
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROBE, *HEAVY], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, '{"vault":"ready"}\n')
    assert done.stderr.split() == []
