"""`affidavit credential`: which options become which params, and what is shown of a certificate."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from affidavit.broker.vault.kinds import OPTION_NAMES, CredentialKind
from affidavit.ipc.methods import CREDENTIAL_KINDS, METHODS

if TYPE_CHECKING:
    from tests.ipc.cli.conftest import Cli, ScriptedBroker

TARGET = "https://a.example/*"


def test_the_table_knows_every_kind_and_option() -> None:
    assert tuple(CredentialKind) == CREDENTIAL_KINDS
    params = {param.name for param in METHODS["operator"]["credential.add"].params}
    assert set(OPTION_NAMES) <= params


@pytest.mark.parametrize(
    ("words", "params"),
    [
        (
            ["--kind", "sigv4", "--access-key", "AKID", "--region", "eu-central-1", "--service", "s3"],
            {"kind": "sigv4", "access_key": "AKID", "region": "eu-central-1", "service": "s3"},
        ),
        (
            ["--kind", "oauth2", "--token-url", "https://l.example/token", "--client-id", "4711", "--scope", "a b"],
            {"kind": "oauth2", "token_url": "https://l.example/token", "client_id": "4711", "scope": "a b"},
        ),
        (
            ["--kind", "oauth2", "--token-url", "https://l.example/token", "--client-id", "4711", "--refresh",
             "--client-auth", "body"],
            {"kind": "oauth2", "token_url": "https://l.example/token", "client_id": "4711", "refresh": True,
             "client_auth": "body"},
        ),
    ],
)  # fmt: skip
def test_options_become_params(cli: Cli, broker: ScriptedBroker, words: list[str], params: dict[str, object]) -> None:
    broker.answers("credential.add", {"result": {"name": "e", "version": 1}})
    fd = cli.fd(b"pw\nsecret")
    ran = cli("credential", "add", "e", "--target", TARGET, *words, "--passphrase-fd", fd, "--secret-fd", fd)
    assert (ran.status, ran.text) == (0, "e is added, version 1.\n")
    secret = base64.b64encode(b"secret").decode()
    common = {"name": "e", "targets": [TARGET], "private": False, "secret_base64": secret, "passphrase": "pw"}
    assert broker.asked("credential.add") == [{**common, **params}]


def test_a_certificate_is_read_here_and_its_end_is_shown(cli: Cli, broker: ScriptedBroker, tmp_path: Path) -> None:
    file = tmp_path / "client.pem"
    file.write_text("-----BEGIN CERTIFICATE-----\n")
    options = {"subject": "CN=agent-host", "expires_at": "2027-11-30T14:32:07.000Z"}
    row = {"name": "e", "version": 1, "kind": "mtls", "targets": [TARGET], "options": options}
    broker.answers("credential.add", {"result": row})
    broker.answers("credential.rotate", {"result": {**row, "version": 2}})
    broker.answers("credential.list", {"result": {"credentials": [row]}})
    fd = cli.fd(b"pw\nkey")
    ran = cli("credential", "add", "e", "--kind", "mtls", "--target", TARGET, "--cert", str(file),
              "--passphrase-fd", fd, "--secret-fd", fd)  # fmt: skip
    assert ran.text == "e is added, version 1.\nIts certificate expires 2027-11-30 14:32:07 UTC.\n"
    fd = cli.fd(b"pw\nkey")
    ran = cli("credential", "rotate", "e", "--cert", str(file), "--passphrase-fd", fd, "--secret-fd", fd)
    assert ran.text.startswith("e has a new secret, version 2.\n")
    for method in ("credential.add", "credential.rotate"):
        assert broker.asked(method)[0]["certificate"] == file.read_text()
    listed = cli("credential", "list", "--passphrase-fd", cli.fd(b"pw")).text
    assert listed.splitlines()[1] == f"e     1        mtls  -         2027-11-30 14:32:07  {TARGET}"


@pytest.mark.parametrize("content", [b"\xff", b"x" * (64 * 1024 + 1)])
def test_what_is_no_certificate_file_is_refused_before_anything_is_asked(
    cli: Cli, broker: ScriptedBroker, tmp_path: Path, content: bytes
) -> None:
    file = tmp_path / "client.pem"
    file.write_bytes(content)
    ran = cli("credential", "rotate", "e", "--cert", str(file), "--secret-fd", "0")
    assert ran.status == 2
    assert "field: --cert" in ran.err
    assert broker.calls == []


# -- SSH

KEY = {
    "name": "id",
    "version": 1,
    "options": {"public_key": "ssh-ed25519 AAAA", "fingerprint": "SHA256:x", "expires_at": None},
}
SHOWN = "Its public key: ssh-ed25519 AAAA\nIts fingerprint: SHA256:x\n"
NEEDED = {"code": -32003, "message": "It has a passphrase.", "data": {"code": "invalid", "field": "key_passphrase"}}


def base64_of(value: bytes) -> str:
    return base64.b64encode(value).decode()


def test_one_descriptor_gives_all_three(cli: Cli, broker: ScriptedBroker, tmp_path: Path) -> None:
    file = tmp_path / "id-cert.pub"
    file.write_text("ssh-ed25519-cert-v01@openssh.com AAAA c\n")
    broker.answers("credential.add", {"result": KEY})
    broker.answers("credential.rotate", {"result": KEY})
    for verb, words in (("add", ["--kind", "ssh-key", "--target", "db", "--username", "u"]), ("rotate", [])):
        fd = cli.fd(b"pw\nphrase\n-----BEGIN\nkey\n")
        given = ["--certificate", str(file), "--passphrase-fd", fd, "--key-passphrase-fd", fd, "--secret-fd", fd]
        ran = cli("credential", verb, "id", *words, *given)
        assert ran.status == 0, ran.err
        assert ran.text.endswith(SHOWN)
        (asked,) = broker.asked(f"credential.{verb}")
        assert asked["secret_base64"] == base64_of(b"-----BEGIN\nkey")
        assert asked["key_passphrase_base64"] == base64_of(b"phrase")
        assert asked["certificate"] == file.read_text()
        assert asked["passphrase"] == "pw"
    assert broker.asked("credential.add")[0]["username"] == "u"


def test_a_password_for_a_prompt(cli: Cli, broker: ScriptedBroker) -> None:
    broker.answers("credential.add", {"result": {"name": "p", "version": 1}})
    fd = cli.fd(b"pw\nsecret")
    words = ["--kind", "ssh-password", "--interactive", "--target", "db"]
    assert cli("credential", "add", "p", *words, "--passphrase-fd", fd, "--secret-fd", fd).status == 0
    (asked,) = broker.asked("credential.add")
    assert asked["interactive"] is True
    assert "key_passphrase_base64" not in asked


def test_a_key_is_imported_from_its_file(cli: Cli, broker: ScriptedBroker, tmp_path: Path) -> None:
    file = tmp_path / "id"
    file.write_bytes(b"-----BEGIN\n")
    file.chmod(0o600)
    broker.answers("credential.add", {"result": KEY})
    ran = cli("credential", "import", str(file), "--target", "a", "--target", "b", "--passphrase-fd", cli.fd(b"pw"))
    assert ran.text == f"id is added, version 1.\n{SHOWN}"
    assert "is left as it is" in ran.err
    assert "other users" not in ran.err
    (asked,) = broker.asked("credential.add")
    assert asked == {
        "name": "id",
        "kind": "ssh-key",
        "targets": ["a", "b"],
        "secret_base64": base64_of(b"-----BEGIN\n"),
        "passphrase": "pw",
    }
    file.chmod(0o644)
    fd = cli.fd(b"pw\nphrase\n")
    more = ["--name", "n", "--approval", "always", "--username", "u", "--key-passphrase-fd", fd]
    ran = cli("credential", "import", str(file), "--target", "a", *more, "--passphrase-fd", fd)
    assert "can be read by other users: chmod 600" in ran.err
    asked = broker.asked("credential.add")[1]
    assert (asked["name"], asked["approval"], asked["username"]) == ("n", "always", "u")
    assert asked["key_passphrase_base64"] == base64_of(b"phrase")


def test_the_terminal_is_asked_for_the_passphrase_that_a_key_needs(
    cli: Cli, broker: ScriptedBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = []

    def from_terminal(prompt: str, option: str) -> bytearray:
        prompts.append((prompt, option))
        return bytearray(b"phrase")

    monkeypatch.setattr("affidavit.ipc.cli.passphrase.from_terminal", from_terminal)
    file = tmp_path / "id"
    file.write_bytes(b"-----BEGIN")
    broker.answers("credential.add", {"error": NEEDED}, {"result": KEY}, {"error": NEEDED})
    words = ["credential", "import", str(file), "--target", "a"]
    assert cli(*words, "--passphrase-fd", cli.fd(b"pw")).status == 0
    first, second = broker.asked("credential.add")
    assert "key_passphrase_base64" not in first
    assert second == {**first, "key_passphrase_base64": base64_of(b"phrase")}
    # One that was given and is not the right one is not asked for again.
    fd = cli.fd(b"pw\nwrong\n")
    assert cli(*words, "--passphrase-fd", fd, "--key-passphrase-fd", fd).status == 1
    assert prompts == [("Passphrase of the key's file:", "--key-passphrase-fd")]


@pytest.mark.parametrize("content", [None, b"", b"x" * (64 * 1024 + 1)])
def test_what_is_no_key_file_is_never_sent(
    cli: Cli, broker: ScriptedBroker, tmp_path: Path, content: bytes | None
) -> None:
    file = tmp_path / "id"
    if content is not None:
        file.write_bytes(content)
    ran = cli("credential", "import", str(file), "--target", "a", "--passphrase-fd", cli.fd(b"pw"))
    assert ran.status == 2
    assert "field: FILE" in ran.err
    assert broker.asked("credential.add") == []
