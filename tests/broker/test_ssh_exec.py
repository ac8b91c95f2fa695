"""Playbooks of a command: what its card shows, what the wire is told, what the caller is told."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from typing import Any

import pytest

from affidavit.broker.api import ActionError
from affidavit.broker.wire.ssh.scripted import ScriptedSshWire, result

PASSPHRASE = b"a passphrase for tests"
PASSWORD = b"planted-password-9fK2"
KEY_BLOB = b"\0\0\0\x0bssh-ed25519\0\0\0 " + bytes(range(32))
HOST_KEY = f"ssh-ed25519 {base64.b64encode(KEY_BLOB).decode()}"
READ = """
id = "web.read"
[match]
kind = "ssh"
host = "web"
command = "uptime*"
[effect]
kind = "read"
"""


@pytest.fixture
async def host(world: Any) -> Any:
    """A world with one host; `script` says what its wire plays."""
    credential = {"name": "login", "kind": "ssh-password", "targets": ["web.example.com"]}
    operator = world.broker.operator
    await operator.credential_add(credential, bytearray(PASSWORD), bytearray(PASSPHRASE))
    about = {"name": "web", "address": "web.example.com", "user": "deploy", "credential": "login"}
    await operator.host_add({**about, "host_keys": [HOST_KEY]}, bytearray(PASSPHRASE))
    return world


def scripted(world: Any, *scripts: Any) -> ScriptedSshWire:
    wire = ScriptedSshWire(*scripts)
    world.broker.core.ssh_wire = wire
    return wire


def asked(world: Any, session: Any, **params: Any) -> asyncio.Task[Mapping[str, Any]]:
    async def envelope() -> Mapping[str, Any]:
        try:
            found: Mapping[str, Any] = await world.broker.agent.ssh_exec(
                session, {"host": "web", "wait_s": 5, **params}
            )
        except ActionError as error:
            return error.envelope
        return found

    return asyncio.ensure_future(envelope())


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"command": "ls"}, b"$ ls"),
        ({"command": "ls\n< y", "stdin": "a\nb"}, b"$ ls\n> < y\n< a\n< b"),
        ({"command": "> x"}, b"$ > x"),
        (
            {"command": "cat", "stdin_base64": "AP8="},
            b"$ cat\n< 2 bytes that are no text, SHA-256 "
            b"06eb7d6a69ee19e5fbdf749018d3d2abfa04bcbd1365db312eb86dc7169389b8",
        ),
    ],
)
async def test_no_command_looks_like_its_input_on_the_card(host: Any, given: dict[str, Any], shown: bytes) -> None:
    scripted(host, result(0))
    call = asked(host, host.session(), **given)
    card = await host.card()
    assert (card.method, card.url) == ("SSH", "ssh://deploy@web.example.com:22")
    assert card.body == shown
    await host.deny()
    assert host.facts(await call)[2] == "APPROVAL_DENIED"


async def test_what_was_approved_goes_out_and_both_outputs_come_back(host: Any) -> None:
    wire = scripted(host, result(3, b"out", b"password: " + PASSWORD))
    call = asked(host, host.session(), command="make", stdin="in", env={"RUN": "7"})
    card = await host.approve()
    envelope = await call
    assert host.facts(envelope)[1:] == ("committed", "REMOTE_RESULT", "reconcile")
    assert envelope["evidence"]["fingerprint"] == card.fingerprint
    ssh = envelope["ssh"]
    assert (ssh["exit_status"], ssh["stdout"]["text"], ssh["stderr"]["text"]) == (3, "out", "password: [redacted]")
    (request,) = wire.requests
    assert (request.command, request.stdin, request.env) == (b"make", b"in", (("RUN", "7"),))
    assert request.target.user == "deploy"


@pytest.mark.parametrize("change", [f"@revoked web.example.com {HOST_KEY}", None])
async def test_an_entry_that_changed_after_it_was_bound_is_not_gone_to(host: Any, change: str | None) -> None:
    wire = scripted(host)
    call = asked(host, host.session(), command="make")
    await host.card()
    operator = host.broker.operator
    if change is None:
        await operator.host_edit("web", {"user": "root"}, bytearray(PASSPHRASE))
    else:
        await operator.host_import(change, credential=None, user=None, passphrase=bytearray(PASSPHRASE))
    await host.approve()
    assert host.facts(await call) == ("validation", "not_attempted", "FINGERPRINT_CHANGED", "after_correction")
    assert wire.requests == []


async def test_reads_may_share_a_transport_and_writes_never_do(host: Any) -> None:
    await host.adopt(READ)
    session, wire = host.session(), scripted(host, result(0), result(0), result(0))
    for command in ("uptime", "uptime -p", "reboot"):
        call = asked(host, session, command=command)
        while not call.done():
            if host.broker.operator.cards():
                await host.approve()
            await asyncio.sleep(0)
        assert host.facts(call.result())[1] == "committed"
    first, second, write = wire.reuses
    assert first is not None
    assert (second, write) == (first, None)
