"""Operator's calls while no broker runs: read by the method table, answered by an OperatorApi of the home itself."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from affidavit.broker.api import OperatorRefused
from affidavit.broker.home import HomeBusy, Places

if TYPE_CHECKING:
    from tests.ipc.cli.conftest import Cli


class ScriptedOperator:
    """Notes each call, overwrites its passphrase as the real one does, and answers or refuses."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.refusal: Exception | None = None

    def _take(self, *call: Any) -> dict[str, Any]:
        self.calls.append(tuple(bytes(part) if isinstance(part, bytearray) else part for part in call))
        for part in call:
            if isinstance(part, bytearray):
                part[:] = bytes(len(part))
        if self.refusal is not None:
            raise self.refusal
        lists: dict[str, Any] = {"credentials": [], "settings": [], "adopted": []}
        return {**lists, "name": "e", "version": 1, "value": "v", "in_force": "v"}

    async def credential_rotate(
        self,
        name: str,
        secret: bytearray,
        passphrase: bytearray,
        *,
        certificate: str | None = None,
        key_passphrase: bytearray | None = None,
    ) -> dict[str, Any]:
        return self._take("rotate", name, secret, passphrase, certificate, key_passphrase)

    async def host_add(self, params: Any, passphrase: bytearray) -> dict[str, Any]:
        about = {"address": "a", "port": 1, "user": "u", "credential": "c", "jump": None, "host_keys": []}
        return {**self._take("host add", dict(params), passphrase), **about, "warnings": []}

    async def host_list(self, passphrase: bytearray) -> dict[str, Any]:
        return {**self._take("host list", passphrase), "hosts": []}

    async def host_remove(self, name: str, passphrase: bytearray) -> dict[str, Any]:
        return self._take("host remove", name, passphrase)

    async def host_import(
        self, text: str, *, credential: str | None, user: str | None, passphrase: bytearray
    ) -> dict[str, Any]:
        answer = self._take("host import", text, credential, user, passphrase)
        return {**answer, "added": [], "changed": [], "skipped": [], "warnings": []}

    async def trust_add(self, name: str, ca: str, targets: Sequence[str], passphrase: bytearray) -> dict[str, Any]:
        answer = self._take("trust add", name, ca, targets, passphrase)
        return {**answer, "targets": [], "subjects": [], "expires_at": None}

    async def trust_list(self, passphrase: bytearray) -> dict[str, Any]:
        return {**self._take("trust list", passphrase), "trust": []}

    async def trust_remove(self, name: str, passphrase: bytearray) -> dict[str, Any]:
        return self._take("trust remove", name, passphrase)

    async def proxy_set(
        self, url: str, *, credential: str | None, no_proxy: Sequence[str], trusted: bool, passphrase: bytearray
    ) -> dict[str, Any]:
        return {**self._take("proxy set", url, credential, no_proxy, trusted, passphrase), "url": None}

    async def proxy_show(self, passphrase: bytearray) -> dict[str, Any]:
        return {**self._take("proxy show", passphrase), "url": None}

    async def proxy_off(self, passphrase: bytearray) -> dict[str, Any]:
        return {**self._take("proxy off", passphrase), "url": None}

    async def credential_add(
        self, params: Any, secret: bytearray, passphrase: bytearray, *, key_passphrase: bytearray | None = None
    ) -> dict[str, Any]:
        return self._take("add", dict(params), secret, passphrase, key_passphrase)

    async def credential_list(self, passphrase: bytearray) -> dict[str, Any]:
        return self._take("list", passphrase)

    async def credential_remove(self, name: str, passphrase: bytearray) -> dict[str, Any]:
        return self._take("remove", name, passphrase)

    async def contract_adopt(self, files: Sequence[tuple[str, str]], passphrase: bytearray) -> dict[str, Any]:
        return self._take("adopt", list(files), passphrase)

    async def settings_show(self) -> dict[str, Any]:
        return self._take("show")

    async def settings_set(self, key: str, value: str, passphrase: bytearray) -> dict[str, Any]:
        return self._take("set", key, value, passphrase)


@pytest.fixture
def api(home: Path, monkeypatch: pytest.MonkeyPatch) -> ScriptedOperator:
    """A home that is there, without a broker, and an operator that opens it."""
    places = Places.at(home)
    places.prepare()
    for path in (places.vault_head, places.vault, places.journal):
        path.touch(0o600)
    api = ScriptedOperator()

    @asynccontextmanager
    async def offline_operator(opened: Places) -> AsyncIterator[ScriptedOperator]:
        assert opened == Places.at(home, named_by="AFFIDAVIT_HOME")
        yield api

    module = ModuleType("affidavit.broker.offline")
    module.offline_operator = offline_operator  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "affidavit.broker.offline", module)
    return api


def test_every_offline_command_reaches_its_call(cli: Cli, api: ScriptedOperator, tmp_path: Path) -> None:
    def secrets() -> list[str]:
        fd = cli.fd(b"pw\nsecret")
        return ["--passphrase-fd", fd, "--secret-fd", fd]

    contract = tmp_path / "c.toml"
    contract.write_text(
        'id = "c"\n[match]\nkind = "http"\nmethod = ["GET"]\nurl = "https://a.example/*"\n[effect]\nkind = "read"\n'
    )
    ca = tmp_path / "ca.pem"
    ca.write_text("-----BEGIN")
    target = "https://a.example/*"
    host = ["--address", "a", "--user", "u", "--credential", "c"]
    for words in (
        ["credential", "add", "e", "--kind", "bearer", "--target", target, *secrets()],
        ["credential", "list", "--passphrase-fd", cli.fd(b"pw")],
        ["credential", "rotate", "e", *secrets()],
        ["credential", "rotate", "e", "--cert", str(ca), *secrets()],
        ["credential", "remove", "e", "--passphrase-fd", cli.fd(b"pw")],
        ["host", "add", "db", *host, "--passphrase-fd", cli.fd(b"pw")],
        ["host", "list", "--passphrase-fd", cli.fd(b"pw")],
        ["host", "remove", "db", "--passphrase-fd", cli.fd(b"pw")],
        ["host", "import", str(ca), "--user", "u", "--passphrase-fd", cli.fd(b"pw")],
        ["trust", "add", "corp", "--ca", str(ca), "--target", target, "--passphrase-fd", cli.fd(b"pw")],
        ["trust", "list", "--passphrase-fd", cli.fd(b"pw")],
        ["trust", "remove", "corp", "--passphrase-fd", cli.fd(b"pw")],
        ["proxy", "set", "http://p:1", "--no-proxy", "a", "--no-proxy", "b", "--passphrase-fd", cli.fd(b"pw")],
        ["proxy", "set", "http://p:1", "--credential", "e", "--trusted", "--passphrase-fd", cli.fd(b"pw")],
        ["proxy", "show", "--passphrase-fd", cli.fd(b"pw")],
        ["proxy", "off", "--passphrase-fd", cli.fd(b"pw")],
        ["contract", "adopt", str(contract), "--passphrase-fd", cli.fd(b"pw")],
        ["settings", "show"],
        ["settings", "set", "k", "v", "--passphrase-fd", cli.fd(b"pw")],
    ):
        ran = cli(*words)
        assert ran.status == 0, (words, ran.err)
    (_, added, secret, passphrase, key_passphrase), *rest = api.calls
    assert {name: value for name, value in added.items() if value is not None} == {
        "name": "e",
        "kind": "bearer",
        "targets": (target,),
        "private": False,
        "refresh": False,
        "interactive": False,
    }
    assert (secret, passphrase, key_passphrase) == (b"secret", b"pw", None)
    assert rest == [
        ("list", b"pw"),
        ("rotate", "e", b"secret", b"pw", None, None),
        ("rotate", "e", b"secret", b"pw", "-----BEGIN", None),
        ("remove", "e", b"pw"),
        (
            "host add",
            {
                "name": "db",
                "address": "a",
                "port": 22,
                "user": "u",
                "credential": "c",
                "jump": None,
                "host_keys": (),
                "policy": "strict",
            },
            b"pw",
        ),
        ("host list", b"pw"),
        ("host remove", "db", b"pw"),
        ("host import", "-----BEGIN", None, "u", b"pw"),
        ("trust add", "corp", "-----BEGIN", (target,), b"pw"),
        ("trust list", b"pw"),
        ("trust remove", "corp", b"pw"),
        ("proxy set", "http://p:1", None, ("a", "b"), False, b"pw"),
        ("proxy set", "http://p:1", "e", (), True, b"pw"),
        ("proxy show", b"pw"),
        ("proxy off", b"pw"),
        ("adopt", [("c.toml", contract.read_text())], b"pw"),
        ("show",),
        ("set", "k", "v", b"pw"),
    ]


@pytest.mark.parametrize(
    ("refusal", "status", "said"),
    [
        (
            OperatorRefused("wrong_passphrase", "Not this one.", field="passphrase", remedy="Try again."),
            4,
            "Try again.",
        ),
        (OperatorRefused("conflict", "There is one."), 1, "There is one."),
        (HomeBusy(7, "affidavit tray"), 1, "affidavit tray (pid 7)"),
    ],
)
def test_a_refusal_is_the_same_as_on_the_socket(
    cli: Cli, api: ScriptedOperator, refusal: Exception, status: int, said: str
) -> None:
    api.refusal = refusal
    ran = cli("credential", "remove", "e", "--passphrase-fd", cli.fd(b"pw"))
    assert ran.status == status
    assert said in ran.err


def test_what_needs_the_running_app_says_so(cli: Cli, api: ScriptedOperator) -> None:
    for words in (["lock"], ["approvals"], ["unlock", "--passphrase-fd", cli.fd(b"pw")]):
        assert cli(*words).status == 3
    assert api.calls == []
