"""Playbooks of one action: what the wire does, what is recorded in which order, what the caller is told."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from dataclasses import replace
from typing import Any

import pytest

from affidavit.broker.api import OperatorRefused
from affidavit.broker.broker import TEND_S
from affidavit.broker.card import Decision, NoticeKind, Scope
from affidavit.broker.engine import Engine
from affidavit.broker.limits import Limits
from affidavit.broker.moment import LOOK_S, SECOND
from affidavit.broker.terms import Stage
from affidavit.broker.vault import NewCredential, VaultState
from affidavit.broker.wire.port import Fault, SetupFault, SetupStop
from affidavit.broker.wire.scripted import Body, Broken, Complete, Cross, Hang, Head, Sent, Stop

OK = (Cross(), Sent(), Head(201, (("content-type", "application/json"),)), Body(b'{"id":1}'), Complete())
HANG_UP = (Cross(), Sent(), Broken(Fault.CLOSED, "closed by peer after request write"))
REFUSED = Stop(SetupStop(Stage.DNS, Stage.TCP_CONNECT, SetupFault.REFUSED, "ECONNREFUSED", "203.0.113.7"))

KEYED = """
id = "test.create"
source = "https://docs.example.com/keys"
checked = 2026-11-30
[match]
kind = "http"
method = ["POST"]
url = "https://api.example.com/v1/things"
[effect]
kind = "write"
[idempotency]
header = "Idempotency-Key"
retention = "24h"
"""


async def test_a_write_is_approved_sent_and_committed_in_this_order(world: Any) -> None:
    world.script(OK)
    session = world.session()
    call = world.call(session, json={"a": 1}, operation_id="op-1")
    card = await world.approve()
    got = await call
    assert world.facts(got) == ("remote_execution", "committed", "REMOTE_RESULT", "never")
    assert got["http"]["status"] == 201
    assert got["http"]["body"]["text"] == '{"id":1}'
    assert got["evidence"]["fingerprint"] == card.fingerprint
    assert await world.kinds(got["invocation_id"]) == [
        "ACTION_ACCEPTED",
        "PREFLIGHT_VALIDATED",
        "CARD_OPENED",
        "APPROVAL_DECIDED",
        "CREDENTIAL_AUTHORIZED",
        "DISPATCH_STARTED",
        "REQUEST_SENT",
        "REMOTE_RESPONSE_STARTED",
        "REMOTE_RESPONSE_COMPLETE",
        "RESULT_COMMITTED",
    ]
    assert world.wire.crossed == 1


@pytest.mark.parametrize(("asked", "commits"), [(False, 2), (True, 3)])
async def test_commits_of_an_action(world: Any, asked: bool, commits: int) -> None:
    """P2: two barriers; a third where a person is asked."""
    world.script(OK, OK)
    session = world.session()
    await world.ask(session, method="GET")  # leaves no grant: the scope was once
    if not asked:
        world.script(OK, OK)
        call = world.call(session, method="GET")
        await world.approve(Scope.SESSION)
        await call
    await world.broker.core.projection.flush().durable()
    before = world.broker.core.journal.counters.commits
    world.script(OK)
    got = await world.ask(session, method="GET")
    assert world.facts(got)[1] == "committed"
    assert world.broker.core.journal.counters.commits - before == commits


async def test_one_commit_where_it_ends_before_the_line(world: Any) -> None:
    await world.adopt(KEYED.replace("[effect]", "[approval]\nmode = 'never'\n[retry]\nsetup = 1\n[effect]"))
    await world.broker.core.projection.flush().durable()
    before = world.broker.core.journal.counters.commits
    world.script((REFUSED,))
    got = await world.ask(world.session(), json={})
    assert world.facts(got) == ("connection_setup", "not_attempted", "CONNECT_FAILED", "backoff")
    assert world.broker.core.journal.counters.commits - before == 1


async def test_denied_on_the_card(world: Any) -> None:
    session = world.session()
    call = world.call(session)
    await world.deny("not without a ticket")
    got = await call
    assert world.facts(got) == ("credential_injection", "not_attempted", "APPROVAL_DENIED", "never")
    assert got["evidence"]["authorization"]["reason"] == "not without a ticket"
    assert "not without a ticket" in got["error"]["message"]
    assert not world.wire.requests


async def test_setup_is_tried_again_and_each_try_is_shown(world: Any) -> None:
    world.script((REFUSED,), (REFUSED,), OK)
    got = await world.ask(world.session(), method="GET", deadline_s=30)
    assert world.facts(got)[1] == "committed"
    tries = got["evidence"]["attempts"]
    assert [(t["n"], t["stage"], t["code"]) for t in tries] == [(n, "tcp_connect", "ECONNREFUSED") for n in (1, 2)]
    assert got["evidence"]["attempt"] == 1
    assert world.wire.crossed == 1


async def test_a_fault_that_no_repeat_helps_is_tried_once(world: Any) -> None:
    expired = Stop(SetupStop(Stage.TLS_HANDSHAKE, Stage.CERTIFICATE, SetupFault.CERTIFICATE, "CERT_EXPIRED"))
    world.script((expired,))
    got = await world.ask(world.session(), method="GET")
    assert world.facts(got) == ("connection_setup", "not_attempted", "CERT_INVALID", "after_correction")


async def test_lost_answer_is_unknown_and_the_same_operation_is_not_sent_again(world: Any) -> None:
    world.script(HANG_UP)
    session = world.session()
    first = await world.ask(session, json={"a": 1}, operation_id="op-1")
    assert world.facts(first) == ("remote_execution", "unknown", "REMOTE_OUTCOME_UNKNOWN", "reconcile")
    assert first["evidence"]["request_complete"] is True
    assert first["evidence"]["source"] == "transport_observed"
    again = await world.ask(session, json={"a": 1}, operation_id="op-1")
    assert again["invocation_id"] == first["invocation_id"]
    assert world.wire.crossed == 1


async def test_look_alike_is_held_back_until_it_is_named_and_ticked(world: Any) -> None:
    world.script(HANG_UP, OK)
    session = world.session()
    first = await world.ask(session, json={"a": 1})
    held = await world.ask(session, json={"a": 1})
    assert world.facts(held) == ("validation", "not_attempted", "UNRESOLVED_DUPLICATE", "reconcile")
    assert held["evidence"]["refers_to"] == first["invocation_id"]
    wrong = await world.ask(session, json={"a": 1}, acknowledge_unresolved="act_" + "0" * 26)
    assert world.facts(wrong)[2] == "UNRESOLVED_DUPLICATE"
    call = world.call(session, json={"a": 1}, acknowledge_unresolved=first["invocation_id"])
    card = await world.card()
    assert card.tick is not None
    assert card.notices[0].kind is NoticeKind.SAME_EFFECT_UNKNOWN
    assert card.notices[0].record == first["evidence"]["dispatch_record"]
    with pytest.raises(OperatorRefused):
        await world.broker.operator.decide(card.invocation_id, Decision(True))
    await world.broker.operator.decide(card.invocation_id, Decision(True, tick=True))
    assert world.facts(await call)[1] == "committed"


async def test_two_equal_calls_at_once_join_by_operation_id_and_are_held_back_without(world: Any) -> None:
    hang = Hang()
    world.script((Cross(), Sent(), hang, Head(200), Complete()))
    session = world.session()
    one = world.call(session, json={"a": 1}, operation_id="op-1")
    two = world.call(session, json={"a": 1}, operation_id="op-1")
    await world.approve()
    await hang.reached.wait()
    three = await world.call(session, json={"a": 1})
    assert world.facts(three) == ("validation", "not_attempted", "UNRESOLVED_DUPLICATE", "fetch_result")
    hang.release.set()
    first, second = await one, await two
    assert first["invocation_id"] == second["invocation_id"]
    assert world.facts(first)[1] == "committed"
    assert world.wire.crossed == 1


async def test_same_operation_with_other_content_is_a_mismatch_also_while_locked(world: Any) -> None:
    world.script(OK)
    session = world.session()
    first = await world.ask(session, json={"a": 1}, operation_id="op-1")
    for _ in range(2):
        other = await world.ask(session, json={"a": 2}, operation_id="op-1")
        assert world.facts(other) == ("validation", "not_attempted", "IDEMPOTENCY_MISMATCH", "after_correction")
        same = await world.ask(session, json={"a": 1}, operation_id="op-1")
        assert same["invocation_id"] == first["invocation_id"]
        await world.broker.operator.lock(why="test")


async def test_a_key_is_made_once_and_sent_the_same_on_a_new_invocation(world: Any) -> None:
    await world.adopt(KEYED)
    world.script((REFUSED,), (REFUSED,), (REFUSED,), HANG_UP)
    session = world.session()
    first = await world.ask(session, json={"a": 1}, operation_id="op-1", deadline_s=20)
    assert world.facts(first)[2] == "CONNECT_FAILED"
    second = await world.ask(session, json={"a": 1}, operation_id="op-1")
    assert second["evidence"]["retry_of"] == first["invocation_id"]
    assert second["evidence"]["attempt"] == 1
    assert world.facts(second)[3] == "same_idempotency_key"
    keys = {dict(r.headers)[b"Idempotency-Key"] for r in world.wire.requests}
    assert keys == {second["evidence"]["idempotency"]["key"].encode()}


async def test_advice_turns_when_the_keys_window_closes(world: Any) -> None:
    await world.adopt(KEYED)
    world.script(HANG_UP)
    session = world.session()
    got = await world.ask(session, json={"a": 1})
    assert got["evidence"]["retry_allowed"] is True
    world.clock.ahead_s = 24 * 3600 * 0.95 + 1
    later = await world.broker.agent.action_get(
        session, invocation_id=got["invocation_id"], operation_id=None, events=False
    )
    assert world.facts(later)[3] == "reconcile"
    assert later["evidence"]["retry_allowed"] is False


async def test_agent_key_known_with_other_content_is_a_mismatch(world: Any) -> None:
    await world.adopt(KEYED)
    world.script(OK)
    session = world.session()
    await world.ask(session, json={"a": 1}, idempotency_key="k-1")
    other = await world.ask(session, json={"a": 2}, idempotency_key="k-1")
    assert world.facts(other)[2] == "IDEMPOTENCY_MISMATCH"


async def test_key_without_a_contract_is_refused(world: Any) -> None:
    got = await world.ask(world.session(), json={}, idempotency_key="k-1")
    assert world.facts(got)[2] == "NO_IDEMPOTENCY_CONTRACT"


async def test_deadline_brings_the_verdict_and_a_late_answer_settles_the_record(world: Any) -> None:
    hang = Hang()
    world.script((Cross(), Sent(), hang, Head(200), Body(b"late"), Complete()))
    session = world.session()
    got = await world.ask(session, json={"a": 1}, deadline_s=0.1)
    assert world.facts(got) == ("remote_execution", "unknown", "REMOTE_DEADLINE", "reconcile")
    settled = asyncio.Event()
    world.broker.core.projection.on_change(lambda inv: settled.set() if inv.settlement is not None else None)
    hang.release.set()
    await settled.wait()
    later = await world.broker.agent.action_get(
        session, invocation_id=got["invocation_id"], operation_id=None, events=True
    )
    assert world.facts(later) == ("remote_execution", "committed", "REMOTE_RESULT", "never")
    assert later["http"]["body"]["text"] == "late"
    assert later["evidence"]["response_sha256"] == f"sha256:{hashlib.sha256(b'late').hexdigest()}"
    kinds = [e["kind"] for e in later["events"]]
    assert kinds[-2:] == ["REMOTE_RESPONSE_STARTED", "OUTCOME_SETTLED"]
    assert kinds.index("OUTCOME_UNKNOWN") < kinds.index("OUTCOME_SETTLED")


async def test_of_the_connections_that_are_read_on_the_oldest_gives_way(world: Any) -> None:
    core = world.broker.core
    core.limits = replace(core.limits, kept_reading=1)
    wire = world.script((Cross(), Sent(), Hang()), (Cross(), Sent(), Hang()))
    session = world.session()
    for n in range(2):
        got = await world.ask(session, json={"a": n}, deadline_s=0.1)
        assert world.facts(got)[2] == "REMOTE_DEADLINE"
    await world.settle()
    assert [each.evidence.fault for each in wire.exchanges] == [Fault.ABANDONED, None]


async def test_a_suspend_does_not_lengthen_the_wait_for_a_late_answer(world: Any) -> None:
    """Both clocks go on while the loop's own stands still; the connection is closed at the recovery deadline."""
    wire = world.script((Cross(), Sent(), Hang()))
    session = world.session()
    got = await world.ask(session, json={"a": 1}, deadline_s=0.1)
    assert world.facts(got)[2] == "REMOTE_DEADLINE"
    await world.later(599)
    assert wire.exchanges[0].evidence.fault is None
    await world.later(2)
    assert wire.exchanges[0].evidence.fault is Fault.ABANDONED
    assert world.facts(await world.get(session, got["invocation_id"]))[1] == "unknown"


async def test_a_clock_set_ahead_ends_the_wait_for_a_late_answer(world: Any) -> None:
    wire = world.script((Cross(), Sent(), Hang()))
    await world.ask(world.session(), json={"a": 1}, deadline_s=0.1)
    world.clock.wall_set_s = 601.0
    assert wire.exchanges[0].evidence.fault is None
    await world.later(LOOK_S)
    assert wire.exchanges[0].evidence.fault is Fault.ABANDONED


async def test_cancel_before_and_after_the_line(world: Any) -> None:
    session = world.session()
    call = world.call(session, json={"a": 1})
    card = await world.card()
    got: dict[str, Any] = {}
    try:
        await world.broker.agent.action_cancel(session, invocation_id=card.invocation_id, signal=None)
    except Exception as error:
        got = error.envelope  # type: ignore[attr-defined]
    assert world.facts(got) == ("credential_injection", "not_attempted", "CALLER_CANCELLED", "never")
    assert world.facts(await call) == world.facts(got)

    hang = Hang()
    world.script((Cross(), Sent(), hang))
    call = world.call(session, json={"a": 2})
    card = await world.approve()
    await hang.reached.wait()
    try:
        await world.broker.agent.action_cancel(session, invocation_id=card.invocation_id, signal=None)
    except Exception as error:
        got = error.envelope  # type: ignore[attr-defined]
    assert world.facts(got) == ("remote_execution", "unknown", "CALLER_CANCELLED", "reconcile")
    await call


async def test_a_burst_of_calls_raises_no_more_cards_than_a_session_may_have(world: Any) -> None:
    session = world.session()
    calls = [world.call(session, json={"n": n}) for n in range(6)]
    await world.cards(5)
    assert world.facts(await calls.pop())[2] == "BUSY"
    for _ in calls:
        await world.deny()
    assert {world.facts(await call)[2] for call in calls} == {"APPROVAL_DENIED"}


async def test_caller_gone_on_the_card_sends_nothing(world: Any) -> None:
    session = world.session()
    call = world.call(session, json={"a": 1})
    await world.card()
    world.broker.agent.session_ended(session.session_id)
    assert world.facts(await call) == ("credential_injection", "not_attempted", "CALLER_CANCELLED", "never")
    assert not world.wire.requests


async def test_a_stop_that_comes_as_the_line_is_reached_sends_nothing(world: Any, monkeypatch: Any) -> None:
    """The wire has its turn between the stop and the engine's look at it."""
    wire, session, cross = world.script(OK), world.session(), Engine.cross

    async def late(self: Engine, live: Any, connection: Any) -> None:
        world.broker.agent.session_ended(session.session_id)
        await cross(self, live, connection)

    monkeypatch.setattr(Engine, "cross", late)
    call = world.call(session, operation_id="op-1")
    await world.approve()
    assert world.facts(await call)[1:3] == ("not_attempted", "CALLER_CANCELLED")
    assert wire.crossed == 0


async def test_a_line_that_is_reached_at_the_deadline_is_not_waited_behind(world: Any) -> None:
    before, after = Hang(), Hang()
    world.script((before, Cross(), Sent(), after))
    call = world.call(world.session(), operation_id="op-1")
    await world.approve()
    await before.reached.wait()
    (live,) = world.broker.core.lives.values()
    live.deadline = asyncio.get_running_loop().time()
    live.poke()
    await world.settle()
    before.release.set()
    assert world.facts(await call)[1:3] == ("unknown", "REMOTE_DEADLINE")


async def test_a_caller_that_ends_while_its_request_is_read_gets_no_card(world: Any) -> None:
    session = world.session()
    call = world.call(session, json={"a": "x" * 200_000})
    await asyncio.sleep(0)
    assert not world.broker.core.lives, "a thread reads it"
    world.broker.agent.session_ended(session.session_id)
    got = await call
    assert world.facts(got)[1:] == ("not_attempted", "CALLER_CANCELLED", "never")
    assert await world.kinds(got["invocation_id"]) == ["ACTION_ACCEPTED", "PREFLIGHT_VALIDATED", "ACTION_STOPPED"]
    assert not world.broker.core.session_actions


async def test_caller_gone_after_the_line_ends_nothing(world: Any) -> None:
    hang = Hang()
    world.script((Cross(), Sent(), hang, Head(200), Complete()))
    session = world.session()
    call = world.call(session, json={"a": 1})
    await world.approve()
    await hang.reached.wait()
    world.broker.agent.session_ended(session.session_id)
    hang.release.set()
    assert world.facts(await call)[1] == "committed"


async def test_lock_ends_what_is_not_dispatched_and_records_what_is(world: Any) -> None:
    hang = Hang()
    world.script((Cross(), Sent(), hang, Head(200), Body(b"done"), Complete()))
    session = world.session()
    running = world.call(session, json={"a": 1}, operation_id="op-1")
    await world.approve()
    await hang.reached.wait()
    waiting = world.call(session, json={"a": 2})
    await world.card()
    await world.broker.operator.lock(why="test")
    got = await waiting
    assert world.facts(got) == ("credential_injection", "not_attempted", "VAULT_LOCKED", "after_correction")
    assert got["error"]["needs"] == "operator_unlock"
    refused = await world.call(session, json={"a": 3})
    assert world.facts(refused)[2] == "VAULT_LOCKED"
    hang.release.set()
    sealed = await running
    assert world.facts(sealed) == ("result_delivery", "committed", "RESULT_SEALED", "fetch_result")
    assert sealed["error"]["needs"] == "operator_unlock"
    assert sealed["evidence"]["target"] is None
    await world.unlock()
    opened = await world.ask(session, json={"a": 1}, operation_id="op-1")
    assert opened["http"]["body"]["text"] == "done"


async def test_a_lock_stops_at_once_and_closes_once_a_passphrase_was_tried(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    core, begun, go = world.broker.core, threading.Event(), threading.Event()
    unlock = core.vault.unlock

    def slowly(passphrase: bytearray) -> None:
        begun.set()
        go.wait()
        unlock(passphrase)

    monkeypatch.setattr(core.vault, "unlock", slowly)
    call = world.call(world.session(), json={"a": 1})
    await world.card()
    trying = asyncio.ensure_future(world.unlock())
    await asyncio.to_thread(begun.wait)
    lock = asyncio.ensure_future(world.broker.operator.lock(why="test"))
    try:
        assert world.facts(await call)[1:3] == ("not_attempted", "VAULT_LOCKED")
    finally:
        go.set()
    await trying
    await lock
    assert (core.locked, core.vault.state) == (True, VaultState.LOCKED)


class SlowUnlock:
    """An unlock whose thread waits, as for Argon2id, until it may `go`."""

    def __init__(self, vault: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun, self.go, self.ended = threading.Event(), threading.Event(), threading.Event()
        prove = vault._prove

        def slowly(passphrase: bytearray) -> Any:
            found = prove(passphrase)
            self.begun.set()
            self.go.wait()
            return found

        unlock = vault.unlock

        def unlocking(passphrase: bytearray) -> None:
            try:
                unlock(passphrase)
            finally:
                self.ended.set()

        monkeypatch.setattr(vault, "_prove", slowly)
        monkeypatch.setattr(vault, "unlock", unlocking)


async def test_a_lock_during_an_unlock_locks_in_the_end(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    core = world.broker.core
    await world.broker.operator.lock(why="test")
    slow = SlowUnlock(core.vault, monkeypatch)
    trying = asyncio.ensure_future(world.unlock())
    await asyncio.to_thread(slow.begun.wait)
    lock = asyncio.ensure_future(world.broker.operator.lock(why="test"))
    await asyncio.sleep(0)
    slow.go.set()
    await trying
    await lock
    assert (core.locked, core.vault.state, core.projection.opener) == (True, VaultState.LOCKED, None)


async def test_an_unlock_that_was_given_up_opens_nothing_later(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    core = world.broker.core
    await world.broker.operator.lock(why="test")
    slow = SlowUnlock(core.vault, monkeypatch)
    passphrase = bytearray(b"a passphrase for tests")
    trying = asyncio.ensure_future(core.unlock(lambda: asyncio.to_thread(core.vault.unlock, passphrase), "test"))
    await asyncio.to_thread(slow.begun.wait)
    trying.cancel()
    with pytest.raises(asyncio.CancelledError):
        await trying
    slow.go.set()
    await asyncio.to_thread(slow.ended.wait)
    assert (core.locked, core.vault.state) == (True, VaultState.LOCKED)


@pytest.mark.parametrize("step", ["apply_settings", "load_contracts", "changed"])
async def test_what_cannot_be_opened_whole_is_locked_again(
    world: Any, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    core = world.broker.core
    await world.broker.operator.lock(why="test")
    right = getattr(core, step)

    def once(**more: Any) -> None:
        monkeypatch.setattr(core, step, right)
        raise RuntimeError("unforeseen")

    monkeypatch.setattr(core, step, once)
    with pytest.raises(RuntimeError):
        await world.unlock()
    assert (core.locked, core.vault.state, core.projection.opener) == (True, VaultState.LOCKED, None)
    assert not core.unlocked.is_set()
    await world.unlock()
    assert (core.locked, core.vault.state) == (False, VaultState.READY)


@pytest.mark.parametrize("idle", [True, False])
async def test_a_lock_closes_a_vault_that_the_broker_takes_for_locked(world: Any, idle: bool) -> None:
    core = world.broker.core
    await world.broker.operator.lock(why="test")
    core.vault.unlock(bytearray(b"a passphrase for tests"))
    assert (core.locked, core.vault.state) == (True, VaultState.READY)
    if idle:
        world.clock.ahead_s += 7200
        await core.lock_if_idle()
    else:
        await world.broker.operator.lock(why="test")
    assert core.vault.state is VaultState.LOCKED


async def test_restart_between_dispatch_and_result_is_unknown_and_never_sent_again(world: Any) -> None:
    hang = Hang()
    world.limits = world.broker.core.limits = world.broker.core.limits.__class__(quit_s=0.01)
    world.script((Cross(), Sent(), hang))
    session = world.session()
    call = world.call(session, json={"a": 1}, operation_id="op-1")
    await world.approve()
    await hang.reached.wait()
    waiting = world.call(session, json={"a": 9}, operation_id="op-2")
    await world.card()
    await world.restart()
    call.cancel()
    assert world.facts(await waiting) == ("credential_injection", "not_attempted", "BROKER_RESTARTED", "backoff")
    session = world.session()
    got = await world.ask(session, json={"a": 1}, operation_id="op-1")
    assert world.facts(got) == ("remote_execution", "unknown", "BROKER_RESTARTED", "reconcile")
    assert world.wire.crossed == 1


async def test_changed_bytes_between_approval_and_line_are_never_sent(world: Any, monkeypatch: Any) -> None:
    from affidavit.broker import http_work
    from affidavit.broker.prepare import prepare

    def tampered(bound: Any, injection: Any) -> Any:
        made = prepare(bound, injection)
        from dataclasses import replace

        return replace(made, request=replace(made.request, body=made.request.body + b" "))

    monkeypatch.setattr(http_work, "prepare", tampered)
    world.script(OK)
    got = await world.ask(world.session(), json={"a": 1})
    assert world.facts(got) == ("validation", "not_attempted", "FINGERPRINT_CHANGED", "after_correction")
    assert world.wire.crossed == 0


async def test_credential_is_injected_at_the_end_and_never_told(world: Any) -> None:
    await world.credential()
    world.script(
        (
            Cross(),
            Sent(),
            Head(200, (("x-echo", "Bearer planted-secret-9fK2"),)),
            Body(b"x planted-secret-9fK2 y"),
            Complete(),
        )
    )
    got = await world.ask(world.session(), json={"a": 1})
    assert dict(world.wire.requests[0].headers)[b"Authorization"] == b"Bearer planted-secret-9fK2"
    assert got["http"]["body"]["text"] == "x [redacted] y"
    assert got["http"]["headers"]["x-echo"] == "[redacted]"
    assert got["http"]["body"]["redactions"] == 2
    assert "planted-secret" not in str(got)


async def test_a_credential_out_of_scope_or_unknown_is_refused_without_its_name(world: Any) -> None:
    await world.credential("https://other.example.com/**")
    session = world.session()
    for name, code in (("api", "CREDENTIAL_OUT_OF_SCOPE"), ("sk_live_oops", "CREDENTIAL_UNKNOWN")):
        got = await world.ask(session, json={}, credential=name)
        assert world.facts(got) == ("validation", "not_attempted", code, "after_correction")
        assert got["error"]["field"] == "credential"
        assert name not in str(got["error"]["message"])


async def test_a_credential_that_logs_in_to_hosts_stands_in_no_requests_way(world: Any) -> None:
    new = NewCredential("login", "ssh-password", ("api.example.com",))
    world.broker.core.vault.credentials.add(new, bytearray(b"planted-password"))
    world.script(OK)
    session = world.session()
    got = await world.ask(session, json={"a": 1})
    assert got["http"]["status"] == 201
    assert b"planted" not in b"".join(value for _, value in world.wire.requests[0].headers)
    got = await world.ask(session, json={"a": 2}, credential="login")
    assert world.facts(got) == ("validation", "not_attempted", "CREDENTIAL_OUT_OF_SCOPE", "after_correction")


async def test_another_session_sees_verdicts_and_gets_the_result_after_a_card(world: Any) -> None:
    world.script(OK)
    mine = world.session()
    got = await world.ask(mine, json={"a": 1}, operation_id="op-1")
    other = world.session("s-2", program="/usr/bin/other", cwd="/elsewhere")
    sealed = await world.call(other, json={"a": 1}, operation_id="op-1")
    assert world.facts(sealed) == ("result_delivery", "committed", "RESULT_SEALED", "fetch_result")
    assert sealed["error"]["needs"] == "operator_approval"
    assert "http" not in sealed
    with pytest.raises(Exception, match="RESULT_SEALED"):
        await world.broker.agent.result_fetch(other, invocation_id=got["invocation_id"], chunk=0, part="body")
    card = await world.approve()
    assert card.invocation_id == got["invocation_id"]
    await world.broker.core.projection.flush().durable()
    released = await world.call(other, json={"a": 1}, operation_id="op-1")
    assert released["http"]["body"]["text"] == '{"id":1}'
    later = world.session("s-3")
    assert (await world.call(later, json={"a": 1}, operation_id="op-1"))["http"]["status"] == 201


async def test_pending_after_wait_s_and_the_verdict_later(world: Any) -> None:
    world.script(OK)
    session = world.session()
    got = await world.call(session, json={"a": 1}, wait_s=0)
    assert world.facts(got) == ("credential_injection", "not_attempted", "AWAITING_APPROVAL", "fetch_result")
    assert got["pending"]["state"] == "awaiting_approval"
    assert world.broker.core.projection.reader.action(got["invocation_id"]) is not None
    waiting = asyncio.ensure_future(
        world.broker.agent.action_wait(session, invocation_id=got["invocation_id"], wait_s=5)
    )
    await world.approve()
    assert world.facts(await waiting)[1] == "committed"


async def test_results_in_chunks_and_acknowledged_by_hash(world: Any) -> None:
    big = bytes(range(256)) * 3000
    world.script(
        (Cross(), Sent(), Head(200), *(Body(big[i : i + 50_000]) for i in range(0, len(big), 50_000)), Complete())
    )
    session = world.session()
    got = await world.ask(session, json={"a": 1})
    body = got["http"]["body"]
    assert (body["inline"], body["chunks"], body["bytes"]) == (False, 3, len(big))
    import base64

    parts = []
    for n in range(3):
        chunk = await world.broker.agent.result_fetch(session, invocation_id=got["invocation_id"], chunk=n, part="body")
        parts.append(base64.b64decode(chunk["base64"]))
    assert b"".join(parts) == big
    assert (chunk["last"], chunk["complete"]) == (True, True)
    with pytest.raises(Exception, match="hash"):
        await world.broker.agent.result_ack(session, invocation_id=got["invocation_id"], sha256="00", part="body")
    done = await world.broker.agent.result_ack(
        session, invocation_id=got["invocation_id"], sha256=body["sha256"], part="body"
    )
    assert done == {"delivered": True}
    assert (await world.kinds(got["invocation_id"]))[-1] == "RESULT_DELIVERED"


async def test_undelivered_keeps_the_outcome(world: Any) -> None:
    world.script(OK)
    session = world.session()
    got = await world.ask(session, json={"a": 1}, operation_id="op-1")
    world.broker.agent.delivered(got["invocation_id"], session.session_id, whole=False)
    again = await world.ask(session, json={"a": 1}, operation_id="op-1")
    assert world.facts(again) == ("result_delivery", "committed", "RESULT_UNDELIVERED", "fetch_result")
    assert again["evidence"]["delivery"] == "failed"
    await world.broker.agent.result_ack(
        session, invocation_id=got["invocation_id"], sha256=got["http"]["body"]["sha256"], part="body"
    )
    again = await world.ask(session, json={"a": 1}, operation_id="op-1")
    assert world.facts(again)[2] == "REMOTE_RESULT"


async def test_an_attestation_is_added_and_corrected_by_name(world: Any) -> None:
    world.script(HANG_UP)
    session = world.session()
    got = await world.ask(session, json={"a": 1}, operation_id="op-1")

    async def attest(outcome: str, supersedes: int | None = None, secret: bytes = b"a passphrase for tests") -> Any:
        return await world.broker.operator.attest(
            got["invocation_id"],
            outcome=outcome,
            note="looked at the list",
            reference="re_1",
            item=None,
            supersedes=supersedes,
            passphrase=bytearray(secret),
        )

    with pytest.raises(OperatorRefused, match="passphrase"):
        await attest("committed", secret=b"wrong")
    with pytest.raises(OperatorRefused, match="no attestation") as refused:
        await attest("committed", supersedes=got["evidence"]["dispatch_record"])
    assert (refused.value.field, refused.value.remedy) == ("supersedes", "Leave --supersedes out.")
    first = await attest("committed")
    assert world.facts(first) == ("remote_execution", "committed", "SETTLED_BY_OPERATOR", "never")
    assert first["settled"] == {"source": "operator_attested", "record": first["record"], "reference": "re_1"}
    with pytest.raises(OperatorRefused, match=f"record {first['record']}"):
        await attest("rejected")
    second = await attest("rejected", supersedes=first["record"])
    assert world.facts(second)[1] == "rejected"
    kinds = await world.kinds(got["invocation_id"])
    assert kinds[-3:] == ["OUTCOME_UNKNOWN", "OUTCOME_SETTLED", "OUTCOME_SETTLED"]


async def test_the_same_invalid_request_is_a_loop_by_the_fifth(world: Any, monkeypatch: Any) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    from affidavit.broker import agent

    monkeypatch.setattr(agent.asyncio, "sleep", sleep)
    session = world.session()
    got = [await world.call(session, url="ftp://api.example.com/", operation_id=f"op_{n}") for n in range(7)]
    assert [world.facts(g)[2] for g in got[:4]] == ["INVALID_TARGET"] * 4
    assert {world.facts(g)[2:] for g in got[4:]} == {("REQUEST_LOOP", "never")}
    assert len({g["invocation_id"] for g in got[4:]}) == 1
    assert [s for s in slept if 1 <= s < TEND_S] == [1.0, 2.0, 4.0]


async def test_cards_and_open_actions_of_one_session_are_bounded(world: Any) -> None:
    session = world.session()
    calls = [world.call(session, json={"n": n}) for n in range(5)]
    await world.cards(5)
    sixth = await world.call(session, json={"n": 6})
    assert world.facts(sixth) == ("validation", "not_attempted", "BUSY", "backoff")
    for _ in range(5):
        await world.deny()
    await asyncio.gather(*calls)


async def test_a_card_that_nobody_answers_expires(world: Any) -> None:
    world.broker.core.desk.limits = world.broker.core.limits.__class__(card_headless_s=0.01)
    got = await world.call(world.session(), json={"a": 1})
    assert world.facts(got) == ("credential_injection", "not_attempted", "APPROVAL_EXPIRED", "backoff")


async def test_a_card_whose_time_passed_in_a_suspend_approves_nothing(world: Any) -> None:
    """Both clocks went on while the loop's own stood still; the click comes before the loop has looked (F18)."""
    world.script(OK)
    call = world.call(world.session(), json={"a": 1})
    card = await world.card()
    world.clock.ahead_s += 601
    with pytest.raises(OperatorRefused, match="expired"):
        await world.broker.operator.decide(card.invocation_id, Decision(True))
    assert world.facts(await call) == ("credential_injection", "not_attempted", "APPROVAL_EXPIRED", "backoff")
    assert world.wire.crossed == 0


async def test_an_approval_ends_with_the_actions_deadline_also_in_a_suspend(world: Any) -> None:
    before_line = Hang()
    world.script((before_line, *OK))
    call = world.call(world.session(), json={"a": 1}, deadline_s=20)
    await world.approve()
    await before_line.reached.wait()
    world.clock.ahead_s += 21
    before_line.release.set()
    assert world.facts(await call) == ("credential_injection", "not_attempted", "APPROVAL_EXPIRED", "backoff")
    assert world.wire.crossed == 0


async def test_passphrase_mode_takes_the_passphrase(world: Any) -> None:
    await world.credential(approval="passphrase")
    world.script(OK)
    call = world.call(world.session(), json={"a": 1})
    card = await world.card()
    with pytest.raises(OperatorRefused):
        await world.broker.operator.decide(card.invocation_id, Decision(True))
    await world.broker.operator.approve_by_passphrase(
        card.invocation_id, scope=None, passphrase=bytearray(b"a passphrase for tests"), means="cli_passphrase"
    )
    got = await call
    assert got["evidence"]["authorization"] == {
        "decision": "approved",
        "means": "cli_passphrase",
        "by": "operator",
        "reason": None,
        "record": got["evidence"]["authorization"]["record"],
    }


async def test_journal_that_takes_no_record_sends_nothing(world: Any, monkeypatch: Any) -> None:
    world.script(OK)
    call = world.call(world.session(), json={"a": 1})
    card = await world.card()
    core = world.broker.core

    def full(batches: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(core.journal._ledger, "write", full)
    await world.broker.operator.decide(card.invocation_id, Decision(True))
    got = await call
    assert world.facts(got) == ("connection_setup", "not_attempted", "JOURNAL_UNAVAILABLE", "after_correction")
    assert world.wire.crossed == 0
    refused = await world.call(world.session(), json={"a": 2})
    assert world.facts(refused) == ("validation", "not_attempted", "JOURNAL_UNAVAILABLE", "after_correction")


async def test_what_was_not_sent_is_told_also_where_that_cannot_be_recorded(world: Any, monkeypatch: Any) -> None:
    call = world.call(world.session(), json={"a": 1})
    card = await world.card()

    def full(batches: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(world.broker.core.journal._ledger, "write", full)
    await world.broker.operator.decide(card.invocation_id, Decision(False))
    assert world.facts(await call)[1:3] == ("not_attempted", "APPROVAL_DENIED")


async def test_a_caller_that_ends_after_a_line_that_could_not_be_recorded_changes_nothing(
    world: Any, monkeypatch: Any
) -> None:
    """The wire closes its connection meanwhile."""
    world.script(OK)
    session, cross = world.session(), Engine.cross

    def full(batches: Any) -> None:
        raise OSError(28, "No space left on device")

    async def refused(self: Engine, live: Any, connection: Any) -> None:
        monkeypatch.setattr(world.broker.core.journal._ledger, "write", full)
        try:
            await cross(self, live, connection)
        finally:
            world.broker.agent.session_ended(session.session_id)

    monkeypatch.setattr(Engine, "cross", refused)
    call = world.call(session, json={"a": 1})
    await world.approve()
    assert world.facts(await call)[1:3] == ("not_attempted", "JOURNAL_UNAVAILABLE")
    assert world.wire.crossed == 0


@pytest.mark.parametrize("code", ["REMOTE_OUTCOME_UNKNOWN", "CALLER_CANCELLED"])
async def test_an_unknown_outcome_that_cannot_be_recorded_keeps_its_name(
    world: Any, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    hang = Hang()
    world.script((Cross(), Sent(), hang, *HANG_UP[2:]))
    session = world.session()
    call = world.call(session, json={"a": 1})
    card = await world.approve()
    await hang.reached.wait()

    def full(batches: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(world.broker.core.journal._ledger, "write", full)
    if code == "CALLER_CANCELLED":
        await world._ended(world.broker.agent.action_cancel(session, invocation_id=card.invocation_id, signal=None))
    else:
        hang.release.set()
    assert world.facts(await call) == ("remote_execution", "unknown", code, "reconcile")
    assert world.facts(await world.get(session, card.invocation_id))[1:3] == ("unknown", code)
    await world.until(lambda: bool(world.broker.core.status()["alerts"]))  # told by the journal's thread
    assert [alert["which"] for alert in world.broker.core.status()["alerts"]] == ["journal"], "no answer came"


async def test_result_that_cannot_be_recorded_is_unknown(world: Any, monkeypatch: Any) -> None:
    hang = Hang()
    world.script((Cross(), Sent(), hang, Head(200), Complete()))
    call = world.call(world.session(), json={"a": 1})
    await world.approve()
    await hang.reached.wait()

    def full(batches: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(world.broker.core.journal._ledger, "write", full)
    hang.release.set()
    got = await call
    assert world.facts(got) == ("result_delivery", "unknown", "RESULT_STORAGE_FAILED", "reconcile")
    assert any(a["which"] == "storage" for a in world.broker.core.status()["alerts"])


async def test_asking_while_locked_wants_the_unlock_window_once_a_minute(world: Any) -> None:
    await world.broker.operator.lock(why="test")
    session = world.session()
    for _ in range(3):
        await world.call(session, json={"a": 1})
    assert world.broker.core.status()["unlock_wanted"] == 1
    world.clock.ahead_s += 61
    await world.call(session, json={"a": 1})
    assert world.broker.core.status()["unlock_wanted"] == 2


async def test_the_operation_id_is_planted_where_the_contract_says_and_looked_up_by_it(world: Any) -> None:
    await world.adopt(
        KEYED
        + '[correlation]\noperation = "/metadata/op"\n[reconcile]\nmethod = "GET"\n'
        + 'url = "https://api.example.com/v1/things?ref={operation_id}"\neach = "/data"\nstate = "/status"\n'
        + 'where = { pointer = "/metadata/op", equals = "{operation_id}" }\ncommitted = ["done"]\n'
    )
    world.script(HANG_UP)
    got = await world.ask(world.session(), json={"a": 1}, operation_id="op-1")
    assert world.wire.requests[0].body == b'{"a":1,"metadata":{"op":"op-1"}}'
    assert got["evidence"]["reconcile"] == {
        "available": True,
        "method": "GET",
        "url": "https://api.example.com/v1/things?ref=op-1",
    }
    again = await world.ask(world.session(), json={"a": 1}, operation_id="op-1")
    assert again["invocation_id"] == got["invocation_id"]


async def test_the_refusal_of_one_more_card_says_how_many_wait(world: Any) -> None:
    world.limits = Limits(cards_session=2)
    await world.restart()
    session = world.session()
    for n in range(2):
        world.call(session, json={"n": n})
    await world.cards(2)
    refused = await world.call(session, json={"n": 2})
    assert world.facts(refused)[2] == "BUSY"
    assert refused["error"]["message"].startswith("Nothing was sent. 2 cards of this agent are waiting")


async def test_a_card_says_how_long_it_lives_on_a_screen(world: Any) -> None:
    world.limits = Limits(card_shown_s=30)
    await world.restart()
    call = world.call(world.session(), json={"n": 1})
    card = await world.card()
    assert card.shown_s == 30
    world.broker.core.desk.limits = Limits(card_shown_s=45)
    now = world.clock.wall()
    world.broker.operator.card_shown(card.invocation_id)
    shown = await world.card()
    assert shown.shown_s == 45
    assert shown.expires_at is not None
    assert 45 * SECOND <= shown.expires_at - now < 60 * SECOND
    await world.deny()
    await call


async def test_a_row_names_what_was_asked_for_as_the_envelope_does(world: Any) -> None:
    """Also of a request that was refused; sealed is only what the lock seals."""
    session = world.session()
    refused = await world.call(session, credential="unheard-of")
    unread = await world.call(session, url="ftp://api.example.com/")
    asked = {"kind": "http", "method": "POST", "url": "https://api.example.com/v1/things"}
    assert refused["evidence"]["target"] == asked

    async def rows() -> dict[str, tuple[Any, bool]]:
        page = await world.broker.agent.action_list(
            session, scope="all", outcome=None, state=None, limit=10, before=None
        )
        return {row["invocation_id"]: (row["target"], row["sealed"]) for row in page["rows"]}

    listed = await rows()
    assert listed[refused["invocation_id"]] == (asked, False)
    assert listed[unread["invocation_id"]] == (None, False)
    await world.broker.operator.lock(why="test")
    assert set((await rows()).values()) == {(None, True)}


async def test_a_row_of_another_programs_action_names_no_target(world: Any) -> None:
    """Sealed details are for the session that asked (interface, Results)."""
    world.script(OK)
    got = await world.ask(world.session(), method="GET")
    other = world.session("s-2", program="/usr/bin/other")
    page = await world.broker.agent.action_list(other, scope="all", outcome=None, state=None, limit=10, before=None)
    (row,) = page["rows"]
    assert (row["invocation_id"], row["outcome"]) == (got["invocation_id"], "committed")
    assert (row["target"], row["sealed"]) == (None, True)
    (shown,) = (await world.broker.operator.action_list(outcome=None, state=None, limit=10, before=None))["rows"]
    assert (shown["target"]["method"], shown["sealed"]) == ("GET", False)
