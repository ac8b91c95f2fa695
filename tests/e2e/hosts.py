"""Host entries in a home, as its operator makes them, and the contract under which their commands ask nobody."""

from __future__ import annotations

from collections.abc import Iterable

from tests.e2e.rig import Home

ANYTHING = """id = "hosts.anything"
[match]
kind = "ssh"
host = "*"
command = "*"
[effect]
kind = "write"
[approval]
mode = "never"
"""


def add_host(
    home: Home, name: str, address: str, *, port: int, user: str, host_key: str, credential: str = "key"
) -> None:
    """`affidavit host add`."""
    where = ("--address", address, "--port", str(port), "--user", user, "--credential", credential)
    ran = home.operate("host", "add", name, *where, "--host-key", host_key)
    assert ran.status == 0, ran


def adopt(home: Home, contracts: Iterable[str]) -> None:
    """Put contract files into the home, and adopt them."""
    for n, text in enumerate(contracts):
        (home.places.contracts / f"host-{n}.toml").write_text(text)
    ran = home.operate("contract", "adopt", "--all")
    assert ran.status == 0, ran
