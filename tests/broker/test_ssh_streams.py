"""Playbooks of a streamed command: what is bound and shown, who may attach, and what each end's end proves."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from typing import Any

import pytest
from tests.broker.test_ssh_exec import host, scripted

from affidavit.broker import stream as module
from affidavit.broker.api import ActionError, BadParam
from affidavit.broker.card import Scope
from affidavit.broker.stream import CallerStream
from affidavit.broker.terms import InvocationId, Outcome
from affidavit.broker.wire.ssh.port import ExitSignal, Stream
from affidavit.broker.wire.ssh.scripted import (
    Accept,
    Broken,
    Close,
    Cross,
    Eof,
    Exit,
    Hang,
    Output,
    Stdin,
    result,
)

__all__ = ["host"]

NEVER = """
id = "web.any"
[match]
kind = "ssh"
host = "web"
command = "*"
[effect]
kind = "write"
[approval]
mode = "{mode}"
"""


class Call:
    """An `ssh.exec` at work, and its stream once that is ready."""

    def __init__(self, world: Any, session: Any, **params: Any) -> None:
        self.world, self.session = world, session
        self.ready: asyncio.Future[InvocationId] = asyncio.get_running_loop().create_future()
        given = {"host": "web", "command": "git-receive-pack 'r'", "stream": True, **params}
        call = world.broker.agent.ssh_exec(session, given, ready=self.ready.set_result)
        self.task: asyncio.Task[Mapping[str, Any]] = asyncio.ensure_future(world._ended(call))

    async def attach(self, session: Any = None) -> CallerStream:
        agent = self.world.broker.agent
        attached: CallerStream = await agent.stream_attach(session or self.session, invocation_id=await self.ready)
        return attached


@pytest.fixture
async def allowed(host: Any) -> Any:
    """A world with a host whose commands nobody is asked about."""
    await host.adopt(NEVER.format(mode="never"))
    return host


async def outputs(stream: CallerStream) -> dict[Stream, bytes]:
    got = dict.fromkeys(Stream, b"")
    while (part := await stream.take()) is not None:
        got[part[0]] += part[1]
    return got


async def test_the_card_says_that_input_cannot_be_shown_and_offers_no_grant(host: Any) -> None:
    await host.adopt(NEVER.format(mode="session").replace('mode = "session"', 'mode = "always"'))
    wire = scripted(host, result(0))
    call = Call(host, host.session())
    card = await host.card()
    assert card.body == b"$ git-receive-pack 'r'\n< Input is streamed and cannot be shown"
    assert (card.scopes, card.streamed, call.ready.done()) == ((Scope.ONCE,), True, False)
    await host.approve()
    stream = await call.attach()
    await stream.feed(b"pack")
    stream.end_input()
    envelope = await call.task
    assert host.facts(envelope)[1:3] == ("committed", "REMOTE_RESULT")
    assert envelope["evidence"]["fingerprint"] == card.fingerprint
    assert envelope["evidence"]["stdin"] == {
        "bytes": 4,
        "sha256": f"sha256:{hashlib.sha256(b'').hexdigest()}",  # the scripted wire hashes nothing
        "complete": True,
    }
    assert bytes(wire.exchanges[0].stdin) == b"pack"


@pytest.mark.parametrize(
    ("kind", "mode", "scopes"),
    [("read", None, 1), ("write", "session", 2), ("read", "session", 2)],
)
async def test_a_grant_needs_the_operators_word_for_that_host_and_command(
    host: Any, kind: str, mode: str | None, scopes: int
) -> None:
    text = NEVER.format(mode=mode).replace('"write"', f'"{kind}"')
    await host.adopt(text if mode else text.partition("[approval]")[0])
    call = Call(host, host.session())
    assert len((await host.card()).scopes) == scopes
    await host.deny()
    assert host.facts(await call.task)[2] == "APPROVAL_DENIED"


async def test_both_outputs_come_redacted_while_it_runs(allowed: Any) -> None:
    hang = Hang()
    scripted(
        allowed,
        (Cross(), Accept(), Output(b"password: planted-password-9fK2\n"), hang, Stdin(), Exit(3), Eof(), Close()),
    )
    call = Call(allowed, allowed.session())
    stream = await call.attach()
    assert await stream.take() == (Stream.STDOUT, b"password: [redacted]\n")
    await hang.reached.wait()
    assert not call.task.done()
    hang.release.set()
    stream.end_input()
    envelope = await call.task
    assert (envelope["ssh"]["exit_status"], envelope["ssh"]["stdout"]["text"]) == (3, "password: [redacted]\n")
    assert (await outputs(stream), stream.whole) == ({Stream.STDOUT: b"", Stream.STDERR: b""}, True)


async def test_nothing_is_sent_before_the_caller_is_there(allowed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ATTACH_S", 0.01)
    wire = scripted(allowed, result(0))
    call = Call(allowed, allowed.session())
    envelope = await call.task
    assert allowed.facts(envelope) == ("connection_setup", "not_attempted", "CALLER_CANCELLED", "never")
    assert wire.crossed == 0
    with pytest.raises(BadParam):
        await call.attach()


async def test_who_may_attach(allowed: Any) -> None:
    hang = Hang()
    scripted(allowed, (Cross(), Accept(), hang, Exit(0), Eof(), Close()))
    session, other = allowed.session(), allowed.session("s-2")
    call = Call(allowed, session)
    for wrong in (other, allowed.session("s-3", program="/usr/bin/other")):
        with pytest.raises(BadParam, match="another session"):
            await call.attach(wrong)
    await call.attach()
    with pytest.raises(BadParam, match="already"):
        await call.attach()
    with pytest.raises(BadParam):
        await allowed.broker.agent.stream_attach(session, invocation_id="act_none")
    hang.release.set()
    await call.task


async def test_the_same_operation_is_told_of_and_never_joined(allowed: Any) -> None:
    hang = Hang()
    wire = scripted(allowed, (Cross(), Accept(), hang, Exit(0), Eof(), Close()))
    session = allowed.session()
    first = Call(allowed, session, operation_id="op-1")
    await first.attach()
    again = Call(allowed, session, operation_id="op-1")
    async with asyncio.timeout(10):
        assert allowed.facts(await again.task)[2:] == ("IN_PROGRESS", "fetch_result")
    assert not again.ready.done()
    hang.release.set()
    await first.task
    third = await Call(allowed, session, operation_id="op-1").task
    assert third["invocation_id"] == (await first.task)["invocation_id"]
    assert len(wire.exchanges) == 1


async def test_a_stream_is_never_repeated(allowed: Any) -> None:
    scripted(allowed, (Cross(), Accept(), Broken()))
    session = allowed.session()
    call = Call(allowed, session)
    await call.attach()
    envelope = await call.task
    assert allowed.facts(envelope)[1:] == ("unknown", "REMOTE_RESULT_INCOMPLETE", "reconcile")
    assert envelope["evidence"]["stdin"]["complete"] is False
    assert (envelope["evidence"]["attempts_left"], envelope["evidence"]["retry_allowed"]) == (0, False)
    request = {"host": "web", "command": "git-receive-pack 'r'", "stream": True}
    for more in ({}, {"unsafe": True}, {"unsafe": True, "request": request}):
        refused = await allowed.retry(session, envelope["invocation_id"], **more)
        assert allowed.facts(refused)[2] == "RETRY_BUDGET_EXHAUSTED"
    twin = await Call(allowed, session).task
    assert allowed.facts(twin)[2] == "UNRESOLVED_DUPLICATE"


async def test_one_that_was_not_sent_may_be_asked_for_anew(allowed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    await allowed.broker.operator.lock(why="tests")
    session = allowed.session()
    locked = await Call(allowed, session, operation_id="op-1").task
    assert allowed.facts(locked)[2] == "VAULT_LOCKED"
    await allowed.unlock()
    scripted(allowed, result(0))
    call = Call(allowed, session, operation_id="op-1")
    (await call.attach()).end_input()
    assert allowed.facts(await call.task)[1] == "committed"


async def test_a_caller_that_does_not_read_is_let_go_at_the_deadline(allowed: Any) -> None:
    part = bytes(256 * 1024)
    scripted(allowed, (Cross(), Accept(), *(Output(part) for _ in range(12)), Exit(0), Eof(), Close()))
    call = Call(allowed, allowed.session(), deadline_s=0.5)
    stream = await call.attach()
    envelope = await call.task
    assert allowed.facts(envelope)[1:3] == ("unknown", "REMOTE_DEADLINE")
    got = await outputs(stream)
    assert 0 < len(got[Stream.STDOUT]) < 12 * len(part)
    assert not stream.whole
    projection, invocation_id = allowed.broker.core.projection, envelope["invocation_id"]
    async with asyncio.timeout(20):
        await allowed.until(lambda: projection.get(invocation_id).outcome is Outcome.COMMITTED)
    late = await allowed.get(call.session, envelope["invocation_id"])
    assert (allowed.facts(late)[1], late["ssh"]["stdout"]["bytes"]) == ("committed", 12 * len(part))


async def test_outputs_alone_leave_the_input_bound(host: Any) -> None:
    wire = scripted(host, result(0, b"out", b"err"))
    call = Call(host, host.session(), stream="output", stdin="given")
    card = await host.approve()
    assert (card.body, card.streamed) == (b"$ git-receive-pack 'r'\n< given", False)
    stream = await call.attach()
    envelope = await call.task
    assert await outputs(stream) == {Stream.STDOUT: b"out", Stream.STDERR: b"err"}
    assert (bytes(wire.exchanges[0].stdin), envelope["ssh"]["stdout"]["text"]) == (b"given", "out")
    assert "stdin" not in envelope["evidence"]


@pytest.mark.parametrize(
    ("given", "field"), [({"stream": "input"}, "stream"), ({"stream": 1}, "stream"), ({"stdin": "x"}, "stdin")]
)
async def test_wrong_params_are_named(allowed: Any, given: dict[str, Any], field: str) -> None:
    given = {"host": "web", "command": "x", "stream": True, **given}
    with pytest.raises(ActionError) as refused:
        await allowed.broker.agent.ssh_exec(allowed.session(), given, ready=lambda _: None)
    assert refused.value.envelope["error"]["field"] == field


async def test_a_caller_that_breaks_its_input_off_has_the_command_asked_to_end(allowed: Any) -> None:
    """What the command says to that decides; that it was asked is recorded before it is."""
    hang, ended = Hang(), Exit(None, ExitSignal("TERM", False, ""))
    wire = scripted(allowed, (Cross(), Accept(), hang, Stdin(), ended, Eof(), Close()))
    call = Call(allowed, allowed.session())
    stream = await call.attach()
    await stream.feed(b"half")
    await hang.reached.wait()
    stream.leave()
    hang.release.set()
    envelope = await call.task
    assert wire.exchanges[0].signals == ["TERM"]
    assert (allowed.facts(envelope)[1:], envelope["ssh"]["exit_signal"]) == (
        ("committed", "REMOTE_RESULT", "reconcile"),
        "TERM",
    )
    assert envelope["evidence"]["stdin"]["complete"] is False
    kinds = await allowed.kinds(envelope["invocation_id"])
    assert kinds.index("DISPATCH_STARTED") < kinds.index("CANCEL_ASKED") < kinds.index("RESULT_COMMITTED")
