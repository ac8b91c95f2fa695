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
