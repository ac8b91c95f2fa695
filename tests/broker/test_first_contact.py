"""Playbooks of a host whose key nobody knows: probe, card, pin, dispatch, and what may go wrong between them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.broker.test_ssh_exec import HOST_KEY, PASSPHRASE, PASSWORD, asked, scripted

from affidavit.broker.card import NewHostKey, NoticeKind, Scope
from affidavit.broker.secret import SecretWiped
from affidavit.broker.terms import Kind, Stage
from affidavit.broker.vault import HostEdit
from affidavit.broker.wire.port import SetupFault, SetupStop
from affidavit.broker.wire.ssh.port import HostKey, PasswordLogin, Probed
from affidavit.broker.wire.ssh.scripted import ScriptedSshWire, Stop, result
from affidavit.journal import Receipt

PEER = "203.0.113.7:22"
NEVER = """
id = "hosts.anything"
[match]
kind = "ssh"
host = "*"
command = "*"
[effect]
kind = "write"
[approval]
mode = "never"
"""
REFUSED = SetupStop(Stage.DNS, Stage.TCP_CONNECT, SetupFault.REFUSED, "ECONNREFUSED", PEER)


def key(number: int) -> HostKey:
    return HostKey.of(b"\0\0\0\x0bssh-ed25519\0\0\0 " + bytes([number]) * 32)


def found(number: int) -> Probed:
    return Probed(key(number), PEER)


async def add_host(world: Any, name: str, **more: Any) -> None:
    about = {"name": name, "address": f"{name}.example.com", "user": "deploy", "credential": "login", **more}
    await world.broker.operator.host_add({"policy": "accept-new", **about}, bytearray(PASSPHRASE))


@pytest.fixture
async def lax(world: Any) -> Any:
    """A world with a host under `accept-new` of which no key is known."""
    credential = {"name": "login", "kind": "ssh-password", "targets": ["*.example.com"]}
    await world.broker.operator.credential_add(credential, bytearray(PASSWORD), bytearray(PASSPHRASE))
    await add_host(world, "new")
    return world


def probing(world: Any, *probes: Probed, scripts: tuple[Any, ...] = ()) -> ScriptedSshWire:
    wire: ScriptedSshWire = scripted(world, *scripts)
    wire._probes = list(probes)
    return wire


def kinds(world: Any, envelope: Any) -> list[str]:
    return [str(record.kind) for record, _ in world.broker.core.projection.records(envelope["invocation_id"])]


def pinned(world: Any, name: str = "new") -> tuple[HostKey, ...]:
    entry = world.broker.core.vault.hosts.named(name)
    return tuple(entry.host_keys)


async def test_the_card_binds_the_key_that_a_probe_learnt_and_approving_pins_it(lax: Any) -> None:
    wire = probing(lax, found(1), scripts=(result(0, b"up"), result(0)))
    session = lax.session()
    call = asked(lax, session, host="new", command="make")
    card = await lax.card()
    assert card.new_host_key == NewHostKey("new", "new.example.com:22", "ssh-ed25519", key(1).fingerprint)
    assert (card.scopes, card.preselected, card.repeats) == ((Scope.ONCE,), Scope.ONCE, 0)
    assert pinned(lax) == ()
    await lax.approve()
    envelope = await call
    assert lax.facts(envelope)[1:3] == ("committed", "REMOTE_RESULT")
    assert envelope["evidence"]["fingerprint"] == card.fingerprint
    assert envelope["evidence"]["attempts"] == []
    assert pinned(lax) == (key(1),)
    (probed,), (request,) = wire.probed, wire.requests
    assert (probed.host, probed.login) == ("new.example.com", None)
    assert request.target.host_keys == (key(1),)
    told = kinds(lax, envelope)
    assert told[:5] == [
        Kind.ACTION_ACCEPTED,
        Kind.PREFLIGHT_VALIDATED,
        Kind.SETUP_ATTEMPTED,
        Kind.CARD_OPENED,
        Kind.APPROVAL_DECIDED,
    ]
    payloads = [p for _, p in lax.broker.core.projection.records(envelope["invocation_id"])]
    assert payloads[1]["fingerprint"] is None
    assert payloads[2]["identity"] == key(1).identity
    assert key(1).fingerprint in payloads[2]["detail"]
    assert payloads[3]["fingerprint"] == payloads[4]["fingerprint"] == card.fingerprint
    assert payloads[3]["notices"] == [NoticeKind.NEW_HOST_KEY]
    second = asked(lax, session, host="new", command="make again")
    assert (await lax.card()).new_host_key is None
    await lax.approve()
    assert lax.facts(await second)[1] == "committed"
    assert len(wire.probed) == 1


async def test_the_pin_is_recorded_before_the_dispatch(lax: Any) -> None:
    probing(lax, found(1), scripts=(result(0),))
    call = asked(lax, lax.session(), host="new", command="make")
    await lax.card()
    await lax.approve()
    dispatch = (await call)["evidence"]["dispatch_record"]
    core = lax.broker.core
    changes = [
        (record.seq, core.projection.opener.payload(record))
        for record in core.projection.reader.records_between(1, dispatch)
        if record.kind == Kind.OPERATOR_CHANGED
    ]
    seq, payload = changes[-1]
    assert (payload["what"], payload["name"], payload["how"]) == ("host", "new", "key pinned")
    assert payload["digest_after"] == core.vault.hosts.named("new").digest != payload["digest_before"]
    assert seq < dispatch


async def test_the_decision_is_durable_before_the_pin(lax: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    probing(lax, found(1), scripts=(result(0),))
    core = lax.broker.core
    hosts, seen = type(core.vault.hosts), []
    pin = hosts.pin

    def watched(self: Any, entry: Any, host_key: HostKey) -> Any:
        last = core.projection.reader.head().seq
        seen.extend(str(record.kind) for record in core.projection.reader.records_between(1, last))
        return pin(self, entry, host_key)

    monkeypatch.setattr(hosts, "pin", watched)
    call = asked(lax, lax.session(), host="new", command="make")
    await lax.approve()
    assert lax.facts(await call)[1] == "committed"
    assert seen[-3:] == [Kind.SETUP_ATTEMPTED, Kind.CARD_OPENED, Kind.APPROVAL_DECIDED]


async def test_nothing_is_dispatched_on_a_pin_that_could_not_be_recorded(
    lax: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = probing(lax, found(1), scripts=(result(0),))
    lost = Receipt(())
    lost.resolve("The disk is full.")
    monkeypatch.setattr(lax.broker.core, "note_change", lambda *what, **digests: lost)
    call = asked(lax, lax.session(), host="new", command="make")
    await lax.approve()
    assert lax.facts(await call)[1:3] == ("not_attempted", "JOURNAL_UNAVAILABLE")
    assert wire.requests == []


async def test_a_denied_key_is_not_pinned(lax: Any) -> None:
    wire = probing(lax, found(1))
    call = asked(lax, lax.session(), host="new", command="make")
    await lax.deny()
    assert lax.facts(await call)[2] == "APPROVAL_DENIED"
    assert (pinned(lax), wire.requests) == ((), [])


async def test_another_key_at_dispatch_is_a_mismatch_and_never_a_card(lax: Any) -> None:
    stop = SetupStop(Stage.SSH_KEX, Stage.HOST_KEY, SetupFault.HOST_KEY_DIFFERS, "HOST_KEY_DIFFERS", PEER)
    probing(lax, found(1), scripts=((Stop(stop),), (Stop(stop),)))
    session = lax.session()
    for n in (1, 2):
        call = asked(lax, session, host="new", command=f"make {n}")
        card = await lax.approve()
        assert (card.new_host_key is not None) is (n == 1)
        envelope = await call
        assert lax.facts(envelope) == ("connection_setup", "not_attempted", "HOST_KEY_MISMATCH", "after_correction")
        assert [(a["n"], a["stage"]) for a in envelope["evidence"]["attempts"]] == [(1, "host_key")]
        assert pinned(lax) == (key(1),)


async def test_a_revoked_key_is_never_learnt(lax: Any) -> None:
    line = f"@revoked new.example.com {key(1).line}\n"
    await lax.broker.operator.host_import(line, credential=None, user=None, passphrase=bytearray(PASSPHRASE))
    probing(lax, found(1))
    envelope = await asked(lax, lax.session(), host="new", command="make")
    assert lax.facts(envelope) == ("connection_setup", "not_attempted", "HOST_KEY_UNKNOWN", "after_correction")
    assert envelope["evidence"]["attempts"][0]["code"] == "HOST_KEY_REVOKED"
    assert pinned(lax) == ()


async def test_a_probe_is_tried_again_as_any_set_up_and_its_tries_are_told(lax: Any) -> None:
    lax.broker.core.limits = lax.limits
    probing(lax, Probed(stopped=REFUSED), found(1), scripts=((Stop(REFUSED),), result(0)))
    call = asked(lax, lax.session(), host="new", command="make")
    await lax.approve()
    envelope = await call
    assert lax.facts(envelope)[1] == "committed"
    assert [(a["n"], a["code"]) for a in envelope["evidence"]["attempts"]] == [(1, "ECONNREFUSED"), (2, "ECONNREFUSED")]


async def test_a_host_that_cannot_be_probed_is_no_card(lax: Any) -> None:
    garbled = SetupStop(Stage.TCP_CONNECT, Stage.SSH_VERSION, SetupFault.INCOMPATIBLE, "SSH_VERSION", PEER)
    probing(lax, Probed(stopped=garbled))
    envelope = await asked(lax, lax.session(), host="new", command="make")
    assert lax.facts(envelope)[:3] == ("connection_setup", "not_attempted", "SSH_TRANSPORT_FAILED")
    assert kinds(lax, envelope)[-2:] == [Kind.SETUP_ATTEMPTED, Kind.ACTION_STOPPED]


async def test_no_mode_and_no_grant_covers_a_new_key(lax: Any) -> None:
    await lax.adopt(NEVER)
    probing(lax, found(1), scripts=(result(0), result(0)))
    session = lax.session()
    call = asked(lax, session, host="new", command="make")
    assert (await lax.approve()).new_host_key is not None
    assert lax.facts(await call)[1] == "committed"
    assert lax.facts(await asked(lax, session, host="new", command="make again"))[1] == "committed"


async def test_a_new_key_is_approved_for_one_dispatch_whatever_its_contract_offers(lax: Any) -> None:
    offers = NEVER.replace("[effect]", "[effect]\nidempotent = true").replace("never", "session")
    await lax.adopt(f"{offers}[retry]\nautomatic = true\n")
    probing(lax, found(1), scripts=(result(0), result(0)))
    session = lax.session()
    call = asked(lax, session, host="new", command="make")
    card = await lax.approve()
    assert card.new_host_key is not None
    assert (card.scopes, card.preselected, card.grant_until, card.repeats) == ((Scope.ONCE,), Scope.ONCE, None, 0)
    assert lax.facts(await call)[1] == "committed"
    later = asked(lax, session, host="new", command="make")
    card = await lax.approve()
    assert card.new_host_key is None
    assert (Scope.SESSION in card.scopes, card.repeats) == (True, 2), "it is the key that narrows the choice"
    assert lax.facts(await later)[1] == "committed"


async def test_with_approvals_off_nothing_is_probed(lax: Any) -> None:
    await lax.adopt(NEVER)
    await lax.broker.operator.settings_set("approvals", "off", bytearray(PASSPHRASE))
    wire = probing(lax)
    envelope = await asked(lax, lax.session(), host="new", command="make")
    assert lax.facts(envelope)[2] == "APPROVAL_UNAVAILABLE"
    assert wire.probed == []


async def test_two_cards_of_one_new_host_pin_one_key(lax: Any) -> None:
    """The second person's card shows another key than the first one's, which is pinned by then."""
    wire = probing(lax, found(1), found(1), found(2), scripts=(result(0), result(0)))
    session = lax.session()
    calls = [asked(lax, session, host="new", command=f"make {n}") for n in range(3)]
    await lax.cards(3)
    for _ in calls:
        await lax.approve()
    outcomes = [lax.facts(await call)[1:3] for call in calls]
    assert outcomes == [("committed", "REMOTE_RESULT")] * 2 + [("not_attempted", "HOST_KEY_MISMATCH")]
    assert (pinned(lax), len(wire.requests)) == ((key(1),), 2)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda world: world.broker.core.vault.hosts.remove("new"), "HOST_KEY_UNKNOWN"),
        (lambda world: world.broker.core.vault.hosts.edit("new", HostEdit(port=2222)), "HOST_KEY_UNKNOWN"),
        (lambda world: world.broker.core.vault.hosts.edit("new", HostEdit(host_keys=(HOST_KEY,))), "HOST_KEY_MISMATCH"),
    ],
)
async def test_an_entry_that_changed_while_the_card_waited_takes_no_key(
    lax: Any, change: Callable[[Any], object], code: str
) -> None:
    wire = probing(lax, found(1))
    call = asked(lax, lax.session(), host="new", command="make")
    await lax.card()
    change(lax)
    await lax.approve()
    envelope = await call
    assert lax.facts(envelope) == ("connection_setup", "not_attempted", code, "after_correction")
    assert "while the card waited" in envelope["error"]["message"]
    assert wire.requests == []


async def test_a_lock_while_the_host_is_probed_stops_the_action(lax: Any) -> None:
    at_probe = asyncio.Event()

    class Hanging(ScriptedSshWire):
        async def probe(self, *args: Any, **more: Any) -> Probed:
            at_probe.set()
            await asyncio.Event().wait()
            raise AssertionError

    lax.broker.core.ssh_wire = Hanging()
    call = asked(lax, lax.session(), host="new", command="make")
    await at_probe.wait()
    await lax.broker.operator.lock(why="test")
    assert lax.facts(await call)[2] == "VAULT_LOCKED"


async def test_hosts_that_are_probed_count_among_a_sessions_cards(lax: Any) -> None:
    more = asyncio.Event()

    class Slow(ScriptedSshWire):
        async def probe(self, *args: Any, **given: Any) -> Probed:
            await more.wait()
            return await super().probe(*args, **given)

    refused = SetupStop(Stage.DNS, Stage.TCP_CONNECT, SetupFault.BLOCKED, "ADDRESS_BLOCKED", PEER)
    lax.broker.core.ssh_wire = Slow(probes=[Probed(stopped=refused)] * 5 + [found(1)])
    session = lax.session()
    calls = [asked(lax, session, host="new", command=f"make {n}") for n in range(5)]
    await asyncio.sleep(0)
    assert lax.facts(await asked(lax, session, host="new", command="make 5"))[2] == "BUSY"
    more.set()
    assert {lax.facts(await call)[2] for call in calls} == {"TARGET_BLOCKED"}
    later = asked(lax, session, host="new", command="make 6")
    await lax.deny()
    assert lax.facts(await later)[2] == "APPROVAL_DENIED"


async def test_behind_a_known_jump_host_the_target_is_learnt(lax: Any) -> None:
    await add_host(lax, "jump", host_keys=[HOST_KEY])
    await add_host(lax, "inner", jump="jump")
    wire = probing(lax, found(1), scripts=(result(0),))
    call = asked(lax, lax.session(), host="inner", command="make")
    shown = (await lax.approve()).new_host_key
    assert shown is not None
    assert (shown.host, shown.next_host) == ("inner", None)
    assert lax.facts(await call)[1] == "committed"
    (jump,) = wire.requests[0].jumps
    assert jump.host_keys[0].line == HOST_KEY
    assert pinned(lax, "inner") == (key(1),)
    ((passed,),) = wire.probe_jumps
    assert isinstance(passed.login, PasswordLogin)
    with pytest.raises(SecretWiped):
        passed.login.password.use(bytes)


async def test_what_a_jump_host_says_of_a_probe_tells_no_secret(lax: Any) -> None:
    """It was logged in to with its password."""
    await add_host(lax, "jump", host_keys=[HOST_KEY])
    await add_host(lax, "inner", jump="jump")
    said = f"no {PASSWORD.decode()} here"
    refused = SetupStop(Stage.SSH_AUTH, Stage.SSH_CHANNEL, SetupFault.CHANNEL_PROHIBITED, "SSH_OPEN_1", PEER, said)
    probing(lax, Probed(stopped=refused))
    envelope = await asked(lax, lax.session(), host="inner", command="make")
    assert lax.facts(envelope)[1] == "not_attempted"
    records = [payload for _, payload in lax.broker.core.projection.records(envelope["invocation_id"])]
    assert "planted" not in json.dumps([records, envelope])
    assert "no [redacted] here" in json.dumps(records)


async def test_a_new_jump_host_before_a_known_target_is_learnt_and_passed(lax: Any) -> None:
    await add_host(lax, "inner", jump="new", host_keys=[HOST_KEY])
    wire = probing(lax, found(1), scripts=(result(0),))
    call = asked(lax, lax.session(), host="inner", command="make")
    card = await lax.approve()
    envelope = await call
    assert lax.facts(envelope)[1] == "committed"
    assert envelope["evidence"]["fingerprint"] == card.fingerprint
    assert wire.probed[0].host == "new.example.com"
    assert wire.probe_jumps == [()], "nobody logs in to a host whose key nobody has seen"
    assert wire.requests[0].jumps[0].host_keys == (key(1),)
    assert pinned(lax) == (key(1),)


async def test_of_two_new_hosts_each_has_a_card_and_none_is_logged_in_to_unseen(lax: Any) -> None:
    await add_host(lax, "inner", jump="new")
    wire = probing(lax, found(1), found(2), scripts=(result(0),))
    session, given = lax.session(), {"host": "inner", "command": "make", "operation_id": "op-1"}
    call = asked(lax, session, **given)
    shown = (await lax.approve()).new_host_key
    assert (shown.host, shown.next_host) == ("new", "inner")
    envelope = await call
    assert lax.facts(envelope) == ("connection_setup", "not_attempted", "HOST_KEY_UNKNOWN", "after_correction")
    assert "inner, behind it, is new as well" in envelope["error"]["message"]
    assert (pinned(lax), pinned(lax, "inner"), wire.requests) == ((key(1),), (), [])
    again = asked(lax, session, **given)
    shown = (await lax.approve()).new_host_key
    assert (shown.host, shown.next_host) == ("inner", None)
    assert lax.facts(await again)[1] == "committed"
    assert [hop.host for hop in wire.probed] == ["new.example.com", "inner.example.com"]


async def test_a_strict_host_behind_a_new_one_makes_the_probe_pointless(lax: Any) -> None:
    await add_host(lax, "inner", jump="new", policy="strict")
    stop = SetupStop(Stage.SSH_KEX, Stage.HOST_KEY, SetupFault.HOST_KEY_UNKNOWN, "HOST_KEY_UNKNOWN", PEER)
    wire = probing(lax, scripts=((Stop(stop),),))
    call = asked(lax, lax.session(), host="inner", command="make")
    assert (await lax.approve()).new_host_key is None
    assert lax.facts(await call)[2] == "HOST_KEY_UNKNOWN"
    assert wire.probed == []
