"""Playbooks of commands that came to be unknown: looked up by a status command, repeated where the contract says so."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.broker.vault import ssh_keys

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
    result,
)

LOST = (Cross(), Accept(), Stdin(), Broken())
CONTRACT = """
id = "test.release"
[match]
kind = "ssh"
host = "db"
command = "release *"
[effect]
kind = "write"
{effect}
[correlation]
operation = "env:OP"
{rest}
"""
LOOKUP = """
[reconcile]
command = "release-status {operation_id} {correlation_id}"
where = { pointer = "/op", equals = "{operation_id}" }
state = "/state"
committed = ["done"]
pending = ["running"]
absent = { means = "rejected", after = "60s" }
"""
ASK = {"host": "db", "command": "release 7", "operation_id": "op-1", "correlation_id": "run-1", "stdin": "notes"}


class Host:
    """A host entry, its scripted wire, and a session."""

    def __init__(self, world: Any) -> None:
        self.world = world
        self.wire = ScriptedSshWire()
        self.session = world.session()

    async def made(self, rest: str = "", effect: str = "") -> Host:
        operator, words = self.world.broker.operator, bytearray(b"a passphrase for tests")
        params = {"name": "login", "kind": "ssh-password", "targets": ["*.example.com"], "username": "deploy"}
        await operator.credential_add(params, bytearray(b"planted-password-1"), words[:])
        entry = {"name": "db", "address": "db.example.com", "user": "deploy", "credential": "login"}
        await operator.host_add({**entry, "host_keys": [ssh_keys.line(ssh_keys.new())]}, words[:])
        await self.adopt(rest, effect)
        return self

    async def adopt(self, rest: str = "", effect: str = "") -> None:
        await self.world.adopt(CONTRACT.format(rest=rest, effect=effect))

    def script(self, *scripts: tuple[Step, ...]) -> None:
        self.wire = self.world.broker.core.ssh_wire = ScriptedSshWire(*scripts)

    async def approved(self, call: Any) -> Any:
        task = asyncio.ensure_future(self.world._ended(call))
        while not task.done():
            if self.world.broker.operator.cards():
                await self.world.approve()
            await asyncio.sleep(0)
        return task.result()

    async def run(self, **more: Any) -> Any:
        return await self.approved(
            self.world.broker.agent.ssh_exec(self.session, {**ASK, "wait_s": 5, **more}, ready=lambda _: None)
        )

    async def retry(self, got: Any, **more: Any) -> Any:
        given = {"wait_s": 5, "unsafe": False, "request": None, **more}
        agent = self.world.broker.agent
        return await self.approved(agent.action_retry(self.session, invocation_id=got["invocation_id"], **given))


async def test_a_lost_command_is_looked_up_by_its_status_command(world: Any) -> None:
    host = await Host(world).made(LOOKUP)
    host.script(LOST, result(0, b'{"op":"op-1","state":"done"}'))
    got = await host.run()
    assert world.facts(got)[1::2] == ("unknown", "reconcile")
    assert got["evidence"]["reconcile"] == {"available": True, "command": "release-status op-1 run-1"}
    settled = await world.look(host.session, got["invocation_id"])
    assert world.facts(settled) == ("remote_execution", "committed", "SETTLED_BY_QUERY", "never")
    asked = host.wire.requests[1]
    assert (asked.command, asked.env) == (b"release-status op-1 run-1", ())
    errand = await world.get(host.session, settled["evidence"]["looked_up"]["invocation_id"])
    assert errand["evidence"]["refers_to"] == got["invocation_id"]
    assert errand["evidence"]["target"]["command"] == "release-status op-1 run-1"


@pytest.mark.parametrize(
    ("script", "worth", "outcome"),
    [
        (result(0, b'{"op":"op-1","state":"running"}'), "pending", "unknown"),
        (result(0, b'{"op":"other","state":"done"}'), "absent", "unknown"),
        (result(1, b'{"op":"op-1","state":"done"}'), "failed", "unknown"),
        (result(0, b"release op-1 is done"), "failed", "unknown"),
        (LOST, "failed", "unknown"),
    ],
)
async def test_what_its_output_is_worth(world: Any, script: Any, worth: str, outcome: str) -> None:
    host = await Host(world).made(LOOKUP)
    host.script(LOST, script)
    got = await host.run()
    looked = await world.look(host.session, got["invocation_id"])
    assert looked["evidence"]["looked_up"]["worth"] == worth
    assert world.facts(looked)[1] == outcome


async def test_a_missing_marker_is_a_refusal_where_the_command_guarantees_it(world: Any) -> None:
    host = await Host(world).made(LOOKUP)
    host.script(LOST, result(0, b'{"op":null}'))
    got = await host.run()
    world.clock.ahead_s += 61
    settled = await world.look(host.session, got["invocation_id"])
    assert world.facts(settled)[1::2] == ("rejected", "backoff")
    host.script(result())
    second = await host.retry(got)
    assert world.facts(second)[1] == "committed"
    assert second["evidence"]["attempt"] == 2


async def test_look_ups_of_commands_go_on_after_a_restart(world: Any) -> None:
    host = await Host(world).made(LOOKUP)
    host.script(LOST)
    got = await host.run()
    await world.restart()
    host.script(result(0, b'{"op":"op-1","state":"done"}'))
    await world.later(1)
    settled = await world.get(world.session(), got["invocation_id"])
    assert world.facts(settled)[2] == "SETTLED_BY_QUERY"


async def test_an_idempotent_command_is_repeated_as_it_was(world: Any) -> None:
    host = await Host(world).made(effect='idempotent = "name"')
    host.script(LOST)
    got = await host.run(env={"TAG": "x"})
    assert world.facts(got)[3] == "backoff"
    first = host.wire.requests[0]
    await world.restart()
    host.session = world.session()
    host.script(result())
    second = await host.retry(got)
    assert world.facts(second)[1] == "committed"
    again = host.wire.requests[0]
    assert (again.command, again.stdin, again.env) == (first.command, first.stdin, first.env)
    assert again.env == (("OP", "op-1"), ("TAG", "x"))
    assert (second["evidence"]["attempt"], second["evidence"]["retry_of"]) == (2, got["invocation_id"])
    assert second["evidence"]["fingerprint"] == got["evidence"]["fingerprint"]


async def test_a_command_that_nothing_binds_is_refused_and_unsafe_takes_a_tick(world: Any) -> None:
    host = await Host(world).made()
    host.script(LOST)
    got = await host.run()
    assert world.facts(await host.retry(got))[2] == "RETRY_REFUSED"
    assert got["evidence"]["reconcile"] == {"available": False}
    host.script(result())
    second = await host.retry(got, unsafe=True)
    assert world.facts(second)[1] == "committed"
    shown = await world.broker.operator.action_get(second["invocation_id"])
    (decided,) = [e["detail"] for e in shown["events"] if e["kind"] == "APPROVAL_DECIDED"]
    assert decided["tick"] is True


async def test_a_command_that_is_no_longer_kept_is_given_again(world: Any) -> None:
    host = await Host(world).made(effect="idempotent = true")
    host.script(LOST)
    got = await host.run()
    first = host.wire.requests[0]
    world.broker.core.spool.drop(got["invocation_id"])
    needed = await host.retry(got)
    assert (world.facts(needed)[2], needed["error"]["needs"]) == ("RETRY_REFUSED", "request")
    other = await host.retry(got, request={**ASK, "command": "release 8"})
    assert world.facts(other)[2] == "IDEMPOTENCY_MISMATCH"
    host.script(result())
    second = await host.retry(got, request=ASK)
    assert world.facts(second)[1] == "committed"
    assert host.wire.requests[0].env == first.env


async def test_automatic_repeats_of_a_command(world: Any) -> None:
    host = await Host(world).made("[retry]\nautomatic = true\n", effect="idempotent = true")
    host.script(LOST, result())
    task = asyncio.ensure_future(
        world._ended(world.broker.agent.ssh_exec(host.session, {**ASK, "wait_s": 600}, ready=lambda _: None))
    )
    card = await world.approve()
    assert card.repeats == 2
    await world.later(10)
    assert world.facts(await task)[1] == "committed"
    assert host.wire.crossed == 2


async def test_a_host_that_is_gone_leaves_the_record_as_it_is(world: Any) -> None:
    host = await Host(world).made(LOOKUP)
    host.script(LOST)
    got = await host.run()
    await world.broker.operator.host_remove("db", bytearray(b"a passphrase for tests"))
    looked = await world.look(host.session, got["invocation_id"])
    assert world.facts(looked) == world.facts(got)
    assert "looked_up" not in looked["evidence"]


MARKED = 'completion = "marker"\nmarker = "released {operation_id}"'
RUNS = (Cross(), Accept(), Stdin())
SAYS = (Output(b"step 1\nreleas"), Output(b"ed op-1\n"))


@pytest.mark.parametrize(
    ("script", "facts", "completion", "whole"),
    [
        ((*RUNS, *SAYS, Eof(), Close()), ("committed", "REMOTE_RESULT", "never"), "marker+eof+close", True),
        ((*RUNS, *SAYS, Broken()), ("committed", "REMOTE_RESULT_INCOMPLETE", "never"), "marker", False),
        ((*RUNS, *SAYS, Exit(3), Eof(), Close()), ("committed", "REMOTE_RESULT", "reconcile"), "exit+eof+close", True),
        ((*RUNS, *SAYS, Exit(0), Broken()), ("committed", "REMOTE_RESULT_INCOMPLETE", "never"), "exit", False),
        (
            (*RUNS, Output(b"released op-2\n"), Eof(), Close()),
            ("unknown", "REMOTE_RESULT_INCOMPLETE", "reconcile"),
            None,
            False,
        ),
        (
            (*RUNS, *SAYS, Output(b"and more"), Eof(), Close()),
            ("unknown", "REMOTE_RESULT_INCOMPLETE", "reconcile"),
            None,
            False,
        ),
    ],
)
async def test_the_contracts_marker_ends_a_command(
    world: Any, script: Any, facts: tuple[str, str, str], completion: str | None, whole: bool
) -> None:
    host = await Host(world).made(effect=MARKED)
    host.script(script)
    got = await host.run()
    assert world.facts(got)[1:] == facts
    evidence = got["evidence"]
    assert (evidence["completion"], evidence["response_complete"]) == (completion, whole)
    if completion is not None:
        assert got["ssh"]["stdout"].get("text") == ("step 1\nreleased op-1\n" if whole else None)
        assert got["ssh"]["stdout"]["complete"] is whole


async def test_a_marker_that_no_contract_names_is_only_output(world: Any) -> None:
    host = await Host(world).made()
    host.script((*RUNS, *SAYS, Output(b"op-1\n"), Eof(), Close()))
    assert world.facts(await host.run())[1] == "unknown"


async def test_a_marker_settles_what_was_cancelled(world: Any) -> None:
    hang = Hang()
    host = await Host(world).made(effect=MARKED)
    host.script((*RUNS, Output(b"working\n"), hang, *SAYS, Eof(), Close()))
    call = asyncio.ensure_future(host.run())
    await hang.reached.wait()
    (running,) = world.broker.core.lives
    cancelled = await world._ended(world.broker.agent.action_cancel(host.session, invocation_id=running, signal=None))
    assert world.facts(cancelled)[1:] == ("unknown", "CALLER_CANCELLED", "reconcile")
    assert world.facts(await call) == world.facts(cancelled)
    settled = asyncio.Event()
    world.broker.core.projection.on_change(lambda inv: settled.set() if inv.settlement is not None else None)
    hang.release.set()
    await settled.wait()
    later = await world.get(host.session, running)
    assert world.facts(later)[1:] == ("committed", "REMOTE_RESULT", "never")
    assert later["evidence"]["completion"] == "marker+eof+close"


async def test_the_operation_id_goes_behind_the_command_and_a_repeat_sends_the_same(world: Any) -> None:
    host = await Host(world).made(effect='idempotent = "name"')
    await world.adopt(CONTRACT.format(rest="", effect='idempotent = "name"').replace("env:OP", "arg:--op"))
    host.script(LOST)
    got = await host.run()
    sent = b"release 7 --op op-1"
    assert (host.wire.requests[0].command, host.wire.requests[0].env) == (sent, ())
    assert got["evidence"]["target"]["command"] == sent.decode()
    again = await host.run()
    assert again["invocation_id"] == got["invocation_id"], "it is the same operation by what was asked"
    await world.restart()
    host.session = world.session()
    host.script(LOST)
    second = await host.retry(got)
    assert second["evidence"]["fingerprint"] == got["evidence"]["fingerprint"]
    assert host.wire.requests[0].command == sent
    world.broker.core.spool.drop(second["invocation_id"])
    host.script(result())
    third = await host.retry(second, request=ASK)
    assert world.facts(third)[1] == "committed"
    assert host.wire.requests[0].command == sent


async def test_a_command_with_no_place_for_the_operation_id_is_refused(world: Any) -> None:
    host = await Host(world).made()
    await world.adopt(CONTRACT.format(rest="", effect="").replace("env:OP", "arg:--op"))
    host.script()
    refused = await host.run(command="release 7; true")
    assert (world.facts(refused)[2], refused["error"]["field"]) == ("INVALID_REQUEST", "command")
