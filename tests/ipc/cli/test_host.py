"""`affidavit host`: what it sends, and what it prints."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from affidavit.broker.vault import HostKeyPolicy
from affidavit.ipc.methods import HOST_KEY_POLICIES

if TYPE_CHECKING:
    from tests.ipc.cli.conftest import Cli, ScriptedBroker

PINNED = {"algorithm": "ssh-ed25519", "fingerprint": "SHA256:abc"}
ROW: dict[str, Any] = {
    "name": "db",
    "address": "db.example.com",
    "port": 2222,
    "user": "deploy",
    "credential": "id_ed25519",
    "jump": "gate",
    "policy": "strict",
    "host_keys": [PINNED],
    "revoked": [],
    "added_at": "2027-01-02T03:04:05.000Z",
    "digest": "sha256:0",
    "warnings": [],
}
SIX = {**ROW, "name": "six", "address": "2001:db8::7", "port": 22, "jump": None, "host_keys": []}
WORDS = ("--address", "db.example.com", "--user", "deploy", "--credential", "id_ed25519")


def test_the_table_knows_every_policy() -> None:
    assert tuple(HostKeyPolicy) == HOST_KEY_POLICIES


def test_add(cli: Cli, broker: ScriptedBroker) -> None:
    broker.answers("host.add", {"result": ROW}, {"result": {**SIX, "warnings": ["No key\x1b."]}})
    more = ("--port", "2222", "--jump", "gate", "--host-key", "ssh-ed25519 A", "--host-key", "ssh-rsa B")
    added = cli("host", "add", "db", *WORDS, *more, "--host-key-policy", "accept-new", "--passphrase-fd", cli.fd(b"pw"))
    assert (added.status, added.text.splitlines(), added.err) == (
        0,
        ["db is added: deploy@db.example.com:2222 through gate, with id_ed25519.", "  ssh-ed25519 SHA256:abc"],
        "",
    )
    added = cli("host", "add", "six", *WORDS, "--passphrase-fd", cli.fd(b"pw"))
    assert added.text == "six is added: deploy@[2001:db8::7]:22, with id_ed25519.\n"
    assert added.err == "Note: No key<U+001B>.\n"
    common = {"address": "db.example.com", "user": "deploy", "credential": "id_ed25519", "passphrase": "pw"}
    assert broker.asked("host.add") == [
        {
            **common,
            "name": "db",
            "port": 2222,
            "jump": "gate",
            "host_keys": ["ssh-ed25519 A", "ssh-rsa B"],
            "policy": "accept-new",
        },
        {**common, "name": "six", "port": 22, "host_keys": [], "policy": "strict"},
    ]


def test_edit(cli: Cli, broker: ScriptedBroker) -> None:
    other = {**PINNED, "fingerprint": "SHA256:old"}
    broker.answers(
        "host.edit",
        {"result": {**ROW, "pinned": [PINNED], "removed": [other], "warnings": ["Gone\x1b."]}},
        {"result": {**SIX, "pinned": [], "removed": []}},
    )
    more = ("--port", "2222", "--jump", "gate", "--host-key", "ssh-ed25519 A", "--forget-key", "SHA256:old")
    ran = cli("host", "edit", "db", *WORDS, *more, "--host-key-policy", "strict", "--passphrase-fd", cli.fd(b"pw"))
    assert (ran.status, ran.text.splitlines(), ran.err) == (
        0,
        [
            "db is now: deploy@db.example.com:2222 through gate, with id_ed25519, strict.",
            "db: pinned ssh-ed25519 SHA256:abc",
            "db: removed ssh-ed25519 SHA256:old",
        ],
        "Note: Gone<U+001B>.\n",
    )
    assert cli("host", "edit", "six", "--no-jump", "--passphrase-fd", cli.fd(b"pw")).status == 0
    assert broker.asked("host.edit") == [
        {
            "name": "db",
            "address": "db.example.com",
            "port": 2222,
            "user": "deploy",
            "credential": "id_ed25519",
            "jump": "gate",
            "host_keys": ["ssh-ed25519 A"],
            "forget_keys": ["SHA256:old"],
            "policy": "strict",
            "passphrase": "pw",
        },
        {"name": "six", "jump": "", "host_keys": [], "forget_keys": [], "passphrase": "pw"},
    ]
    assert cli("host", "edit", "db", "--no-jump", "--jump", "x", "--passphrase-fd", cli.fd(b"pw")).status == 2


def test_list_and_remove(cli: Cli, broker: ScriptedBroker) -> None:
    broker.answers("host.list", {"result": {"hosts": [ROW, SIX]}}, {"result": {"hosts": []}})
    broker.answers("host.remove", {"result": {"name": "db", "removed": True}})
    assert cli("host", "list", "--passphrase-fd", cli.fd(b"pw")).text.splitlines() == [
        "NAME  LOGIN                       CREDENTIAL  JUMP  POLICY  KEYS",
        "db    deploy@db.example.com:2222  id_ed25519  gate  strict  ssh-ed25519 SHA256:abc",
        "six   deploy@[2001:db8::7]:22     id_ed25519  -     strict  -",
    ]
    assert cli("host", "list", "--passphrase-fd", cli.fd(b"pw")).text.startswith("No hosts yet.")
    assert cli("host", "remove", "db", "--passphrase-fd", cli.fd(b"pw")).text == "db is removed.\n"
    assert broker.asked("host.remove") == [{"name": "db", "passphrase": "pw"}]


def test_import_tells_what_was_taken_and_what_was_not(cli: Cli, broker: ScriptedBroker, tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_bytes(b"db \xff\n")
    changed = {
        "name": "gate",
        "pinned": [PINNED],
        "removed": [PINNED],
        "revoked": [{**PINNED, "fingerprint": "SHA256:r"}],
    }
    skipped = [{"line": 3, "what": "*.x\u202e", "why": "A pattern."}]
    broker.answers(
        "host.import",
        {"result": {"added": [ROW], "changed": [changed], "skipped": skipped, "warnings": ["Look."]}},
        {"result": {"added": [], "changed": [], "skipped": [], "warnings": []}},
    )
    ran = cli("host", "import", str(file), "--credential", "k", "--user", "u", "--passphrase-fd", cli.fd(b"pw"))
    assert ran.status == 0
    assert ran.text.splitlines() == [
        "db is added: deploy@db.example.com:2222 through gate, with id_ed25519.",
        "gate: pinned ssh-ed25519 SHA256:abc",
        "gate: removed ssh-ed25519 SHA256:abc",
        "gate: revoked ssh-ed25519 SHA256:r",
    ]
    assert ran.err.splitlines() == ["Skipped, line 3: *.x<U+202E>: A pattern.", "Note: Look."]
    assert cli("host", "import", str(file), "--passphrase-fd", cli.fd(b"pw")).text == "Nothing is changed.\n"
    assert broker.asked("host.import") == [
        {"text": "db \ufffd\n", "credential": "k", "user": "u", "passphrase": "pw"},
        {"text": "db \ufffd\n", "passphrase": "pw"},
    ]


def test_json_is_the_brokers_answer(cli: Cli, broker: ScriptedBroker, tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text("x")
    for method, words in (
        ("host.add", ("add", "db", *WORDS)),
        ("host.edit", ("edit", "db", "--user", "u")),
        ("host.list", ("list",)),
        ("host.remove", ("remove", "db")),
        ("host.import", ("import", str(file))),
    ):
        broker.answers(method, {"result": {"answer": method}})
        ran = cli("host", *words, "--json", "--passphrase-fd", cli.fd(b"pw"))
        assert ran.json == {"answer": method}


@pytest.mark.parametrize("size", [0, 256 * 1024 + 1])
def test_a_file_that_is_empty_or_too_long_is_not_sent(
    cli: Cli, broker: ScriptedBroker, tmp_path: Path, size: int
) -> None:
    file = tmp_path / "known_hosts"
    file.write_bytes(b"x" * size)
    ran = cli("host", "import", str(file), "--passphrase-fd", cli.fd(b"pw"))
    assert ran.status == 2
    assert "field: FILE" in ran.err
    assert broker.calls == []
