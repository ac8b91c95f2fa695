"""`affidavit trust`: what it sends, and what it prints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.ipc.cli.conftest import Cli, ScriptedBroker

ROW: dict[str, Any] = {
    "name": "corp",
    "targets": ["https://*.corp.example/**"],
    "subjects": ["CN=Corp\x1b root"],
    "expires_at": "2031-01-02T03:04:05.000Z",
    "digest": "sha256:0",
}


def test_add_list_remove(cli: Cli, broker: ScriptedBroker, tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("-----BEGIN CERTIFICATE-----\n")
    broker.answers("trust.add", {"result": ROW})
    broker.answers("trust.list", {"result": {"trust": [ROW]}}, {"result": {"trust": []}})
    broker.answers("trust.remove", {"result": {"name": "corp", "removed": True}})
    targets = ("--target", "https://*.corp.example", "--target", "https://b.example")
    added = cli("trust", "add", "corp", "--ca", str(file), *targets, "--passphrase-fd", cli.fd(b"pw"))
    assert (added.status, added.text.splitlines()) == (
        0,
        [
            "corp is trusted for https://*.corp.example/**",
            "  CN=Corp<U+001B> root",
            "It expires 2031-01-02 03:04:05 UTC.",
        ],
    )
    assert broker.asked("trust.add") == [
        {
            "name": "corp",
            "ca": file.read_text(),
            "targets": ["https://*.corp.example", "https://b.example"],
            "passphrase": "pw",
        }
    ]
    listed = cli("trust", "list", "--passphrase-fd", cli.fd(b"pw")).text
    assert listed.splitlines() == [
        "NAME  EXPIRES              AUTHORITY             TARGETS",
        "corp  2031-01-02 03:04:05  CN=Corp<U+001B> root  https://*.corp.example/**",
    ]
    assert cli("trust", "list", "--passphrase-fd", cli.fd(b"pw")).text == "No private authority is trusted.\n"
    removed = cli("trust", "remove", "corp", "--passphrase-fd", cli.fd(b"pw"))
    assert removed.text == "corp is trusted no longer.\n"
    assert broker.asked("trust.remove") == [{"name": "corp", "passphrase": "pw"}]


def test_json_is_the_brokers_answer(cli: Cli, broker: ScriptedBroker, tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("x")
    for method, words in (
        ("trust.add", ("add", "corp", "--ca", str(file), "--target", "https://a.example")),
        ("trust.list", ("list",)),
        ("trust.remove", ("remove", "corp")),
    ):
        broker.answers(method, {"result": {"answer": method}})
        ran = cli("trust", *words, "--json", "--passphrase-fd", cli.fd(b"pw"))
        assert ran.json == {"answer": method}
