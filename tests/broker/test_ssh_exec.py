"""Playbooks of a command: what its card shows, what the wire is told, what the caller is told."""

from __future__ import annotations

import asyncio
import base64
import errno
import itertools
import json
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from affidavit.broker.api import ActionError, BadParam
from affidavit.broker.limits import MIB
from affidavit.broker.secret import SecretWiped
from affidavit.broker.terms import Stage
from affidavit.broker.wire.port import Fault, SetupFault, SetupStop
from affidavit.broker.wire.ssh.port import ExitSignal, PasswordLogin
from affidavit.broker.wire.ssh.scripted import (
    Accept,
    Broken,
    Close,
    Cross,
    Eof,
    Exit,
    Hang,
    Output,
    ScriptedSshWire,
    Stdin,
    Step,
    Stop,
    result,
)
from affidavit.journal import SPOOL_SUFFIX, files

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
                session, {"host": "web", "wait_s": 5, **params}, ready=lambda _: None
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
    assert isinstance(request.target.login, PasswordLogin)
    with pytest.raises(SecretWiped):
        request.target.login.password.use(bytes)


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


TOLD = PASSWORD.decode()
FAREWELL = "disconnected by peer before the command's end: "
REFUSED = SetupStop(Stage.HOST_KEY, Stage.SSH_AUTH, SetupFault.AUTH_REFUSED, "SSH_DISCONNECT_2", "192.0.2.7")
LONG = "X" * 50
ENDS: dict[str, tuple[tuple[Step, ...], str]] = {
    "farewell": ((Cross(), Accept(), Broken(Fault.CLOSED, f"{FAREWELL}no {TOLD} here")), "no [redacted] here"),
    "farewell, cut": ((Cross(), Accept(), Broken(Fault.CLOSED, f"{FAREWELL}no {TOLD[:-3]}...")), "no ..."),
    "signal": (
        (Cross(), Accept(), Exit(signal=ExitSignal("TERM", False, f"by {TOLD}")), Eof(), Close()),
        "by [redacted]",
    ),
    "name": ((Cross(), Accept(), Exit(signal=ExitSignal(TOLD, False, "")), Eof(), Close()), '"[redacted]"'),
    "name, cut": (
        (Cross(), Accept(), Exit(signal=ExitSignal(f"{LONG}{TOLD[:11]}...", False, "")), Eof(), Close()),
        f"{LONG}...",
    ),
    "stop": ((Stop(replace(REFUSED, detail=f"no {TOLD} here")),), "no [redacted] here"),
    "stop, cut": ((Stop(replace(REFUSED, detail=f"no {TOLD[:-3]}...")),), "no ..."),
    "an end by chance": ((Cross(), Accept(), Exit(signal=ExitSignal("TERM", False, "stop")), Eof(), Close()), '"stop"'),
}


@pytest.mark.parametrize("name", ENDS)
async def test_what_a_peer_says_of_an_end_tells_no_secret(host: Any, name: str) -> None:
    """It was sent the password: its own words of an end are redacted like its output, also where they were cut."""
    steps, shown = ENDS[name]
    scripted(host, steps)
    session = host.session()
    call = asked(host, session, command="make")
    await host.approve()
    envelope = await call
    later = await host.get(session, envelope["invocation_id"])
    records = [payload for _, payload in host.broker.core.projection.records(envelope["invocation_id"])]
    for told in (envelope, later, records):
        assert "planted" not in json.dumps(told)
    assert shown in json.dumps(records)


async def test_output_that_broke_off_inside_the_password_tells_none_of_it(host: Any) -> None:
    cut = (Cross(), Accept(), Output(b"password: " + PASSWORD[:-3]), Exit(0), Broken(Fault.RESET))
    scripted(host, cut)
    call = asked(host, host.session(), command="make")
    await host.approve()
    envelope = await call
    assert host.facts(envelope)[1:3] == ("committed", "REMOTE_RESULT_INCOMPLETE")
    assert base64.b64decode(envelope["evidence"]["diagnostic"]["base64"]) == b"password: "


@pytest.mark.parametrize("interactive", [False, True])
async def test_a_password_is_redacted_however_short_it_is(host: Any, interactive: bool) -> None:
    """As a value that was sent whole (interface, Redaction)."""
    more = {"name": "short", "kind": "ssh-password", "targets": ["s.example.com"], "interactive": interactive}
    operator = host.broker.operator
    await operator.credential_add(more, bytearray(b"pw-4711"), bytearray(PASSPHRASE))
    about = {"name": "s", "address": "s.example.com", "user": "deploy", "credential": "short"}
    await operator.host_add({**about, "host_keys": [HOST_KEY]}, bytearray(PASSPHRASE))
    scripted(host, result(0, b"it is pw-4711."))
    call = asked(host, host.session(), host="s", command="make")
    await host.approve()
    assert (await call)["ssh"]["stdout"]["text"] == "it is [redacted]."


TERM = ExitSignal("TERM", False, "")


class Running:
    """A command that hangs where its script says, and whoever cancels it."""

    def __init__(self, host: Any, *before: Step) -> None:
        self.host = host
        self.hang = Hang()
        self.session = host.session()
        self.wire = scripted(host, (Cross(), *before, self.hang, Exit(signal=TERM), Eof(), Close()))
        self.settled = asyncio.Event()
        host.broker.core.projection.on_change(lambda inv: self.settled.set() if inv.settlement is not None else None)
        self.call = asked(host, self.session, command="sleep 60")

    async def begun(self) -> Running:
        await self.host.approve()
        await self.hang.reached.wait()
        (self.invocation_id,) = self.host.broker.core.lives
        return self

    async def cancel(self, signal: str | None) -> Any:
        agent = self.host.broker.agent
        call = agent.action_cancel(self.session, invocation_id=self.invocation_id, signal=signal)
        return await self.host._ended(call)


@pytest.mark.parametrize("refused", [1, 2])
async def test_where_one_output_cannot_be_stored_nothing_is_left_of_the_other(
    host: Any, monkeypatch: pytest.MonkeyPatch, refused: int
) -> None:
    hang, renamed, rename = Hang(), itertools.count(1), os.rename
    *outputs, ended, eof, closed = result(0, bytes(MIB), bytes(MIB))
    scripted(host, (*outputs, hang, ended, eof, closed))
    call = asked(host, host.session(), command="make")
    await host.approve()
    await hang.reached.wait()

    def full(*names: Any) -> None:
        if next(renamed) == refused:
            raise OSError(errno.ENOSPC, "No space left on device")
        rename(*names)

    monkeypatch.setattr(files.os, "rename", full)
    hang.release.set()
    assert host.facts(await call)[:3] == ("result_delivery", "unknown", "RESULT_STORAGE_FAILED")
    assert [path.name for path in host.places.results.iterdir() if path.suffix != SPOOL_SUFFIX] == []


async def test_a_cancel_sends_the_signal_first_and_the_evidence_decides_later(host: Any) -> None:
    running = await Running(host, Accept(), Stdin()).begun()
    cancelled = await running.cancel("TERM")
    assert host.facts(cancelled) == ("remote_execution", "unknown", "CALLER_CANCELLED", "reconcile")
    assert cancelled["evidence"]["transport_observation"] == "the caller cancelled after dispatch; the signal was sent"
    assert running.wire.exchanges[0].signals == ["TERM"]
    assert host.facts(await running.call)[2] == "CALLER_CANCELLED"
    running.hang.release.set()
    await running.settled.wait()
    later = await host.get(running.session, running.invocation_id)
    assert host.facts(later)[1:] == ("committed", "REMOTE_RESULT", "reconcile")
    assert later["ssh"]["exit_signal"] == "TERM"
    shown = await host.broker.operator.action_get(running.invocation_id)
    (asked_for,) = [e["detail"] for e in shown["events"] if e["kind"] == "CANCEL_ASKED"]
    assert asked_for == {"session": running.session.session_id, "signal": "TERM"}


async def test_a_command_that_was_not_accepted_yet_takes_no_signal(host: Any) -> None:
    running = await Running(host).begun()
    observed = (await running.cancel("KILL"))["evidence"]["transport_observation"]
    assert observed == "the caller cancelled after dispatch; the command could not be sent the signal"
    assert running.wire.exchanges[0].signals == []


async def test_a_second_cancel_sends_nothing_more(host: Any) -> None:
    running = await Running(host, Accept()).begun()
    first, second = await asyncio.gather(running.cancel(None), running.cancel("TERM"))
    assert host.facts(first) == host.facts(second)
    assert running.wire.exchanges[0].signals == []
    assert host.facts(await running.cancel("TERM"))[2] == "CALLER_CANCELLED"
    assert running.wire.exchanges[0].signals == []


async def test_a_command_that_was_signalled_before_is_cancelled_at_once_all_the_same(host: Any) -> None:
    """Broken input has recorded the one CANCEL_ASKED already."""
    running = await Running(host, Accept()).begun()
    assert await host.broker.core.may_end(running.invocation_id, "TERM")
    cancelled = await running.cancel("TERM")
    assert host.facts(cancelled)[2] == "CALLER_CANCELLED"
    assert running.wire.exchanges[0].signals == []


async def test_at_the_deadline_a_command_whose_exit_is_known_is_not_waited_for(host: Any) -> None:
    hang = Hang()
    scripted(host, (Cross(), Accept(), Stdin(), Output(b"part"), Exit(0), hang))
    call = asked(host, host.session(), command="make")
    await host.approve()
    await hang.reached.wait()
    (live,) = host.broker.core.lives.values()
    live.deadline = asyncio.get_running_loop().time()
    live.poke()
    assert host.facts(await call)[1:3] == ("committed", "REMOTE_RESULT_INCOMPLETE")


async def test_a_signal_whose_record_cannot_be_made_is_not_sent(host: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    running = await Running(host, Accept()).begun()

    def full(batches: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(host.broker.core.journal._ledger, "write", full)
    cancelled = await running.cancel("TERM")
    assert running.wire.exchanges[0].signals == []
    assert host.facts(cancelled)[1] == "unknown"


async def test_a_card_ends_as_ever_and_an_http_action_takes_no_signal(host: Any) -> None:
    session = host.session()
    scripted(host)
    call = asked(host, session, command="sleep 60")
    card = await host.card()
    agent = host.broker.agent
    await host._ended(agent.action_cancel(session, invocation_id=card.invocation_id, signal="TERM"))
    assert host.facts(await call)[1:3] == ("not_attempted", "CALLER_CANCELLED")
    http = host.call(session, json={"a": 1})
    card = await host.card()
    with pytest.raises(BadParam) as refused:
        await agent.action_cancel(session, invocation_id=card.invocation_id, signal="TERM")
    assert refused.value.field == "signal"
    await host.deny()
    await http


async def test_no_key_of_a_stored_output_is_told_with_the_records(host: Any) -> None:
    await host.adopt(READ)
    scripted(host, result(0, b"out", b"err"))
    session = host.session()
    call = asked(host, session, command="uptime")
    await host.approve()
    told = await host.broker.agent.action_get(
        session, invocation_id=(await call)["invocation_id"], operation_id=None, events=True
    )
    details = {each["kind"]: each["detail"] for each in told["events"]}
    stored = [details["RESULT_COMMITTED"]["body"], details["RESULT_COMMITTED"]["stderr"]]
    assert all(each["sha256"] for each in stored)
    assert not [each for each in stored if "key" in each]


async def test_a_part_of_what_has_no_result_is_answered_by_its_envelope(host: Any) -> None:
    session = host.session()
    scripted(host)
    call = asked(host, session, command="uptime")
    await host.deny()
    denied = await call
    with pytest.raises(ActionError) as told:
        await host.broker.agent.result_fetch(session, invocation_id=denied["invocation_id"], chunk=0, part="stdout")
    assert host.facts(told.value.envelope)[2] == "APPROVAL_DENIED"
