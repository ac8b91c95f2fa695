"""What the projection keeps in memory, and what it goes to the journal for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from affidavit.broker import projection
from affidavit.broker.terms import Stage
from affidavit.broker.wire.port import Fault, SetupFault, SetupStop
from affidavit.broker.wire.scripted import Body, Broken, Complete, Cross, Head, Sent, Stop

OK = (Cross(), Sent(), Head(200), Body(b"1"), Complete())
REFUSED = Stop(SetupStop(Stage.DNS, Stage.TCP_CONNECT, SetupFault.REFUSED, "ECONNREFUSED", "203.0.113.7"))
READ = """
id = "test.read"
[match]
kind = "http"
method = ["GET"]
url = "https://api.example.com/**"
[effect]
kind = "read"
[approval]
mode = "never"
[retry]
setup = 1
"""


def asked(world: Any, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Every look into the journal from now on."""
    looks: list[object] = []
    reader = world.broker.core.projection.reader
    ask = reader._ask

    def counted(question: Callable[..., object]) -> object:
        looks.append(question)
        return ask(question)

    monkeypatch.setattr(reader, "_ask", counted)
    return looks


async def test_a_new_action_is_looked_for_once_by_its_operation_id_and_else_not_at_all(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.adopt(READ)
    session = world.session()
    looks = asked(world, monkeypatch)
    for operation_id, expected in (("op-1", 1), (None, 0)):
        world.script(OK)
        got = await world.ask(session, method="GET", operation_id=operation_id)
        assert world.facts(got)[1] == "committed"
        assert len(looks) == expected
        looks.clear()


async def test_an_operation_that_memory_has_let_go_is_found_with_all_its_invocations(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(projection, "KEPT", 3)
    await world.adopt(READ)
    session = world.session()
    world.script((REFUSED,), *[OK] * 6)
    first = await world.ask(session, method="GET", operation_id="op-1")
    assert world.facts(first)[1] == "not_attempted"
    for n in range(5):
        await world.ask(session, method="GET", operation_id=f"op-other-{n}")
    held = world.broker.core.projection
    assert first["invocation_id"] not in held._held
    assert "op-1" not in held._operations
    second = await world.ask(session, method="GET", operation_id="op-1")
    assert second["evidence"]["retry_of"] == first["invocation_id"]
    both = [first["invocation_id"], second["invocation_id"]]
    assert second["evidence"]["operation"]["invocations"] == both
    again = await world.ask(session, method="GET", operation_id="op-1")
    assert again["invocation_id"] == second["invocation_id"]
    assert len(held._held) <= 4


async def test_what_is_unknown_stays_in_memory_however_much_there_is(
    world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each write is compared with all of it: that may not go to the journal once for each."""
    monkeypatch.setattr(projection, "KEPT", 3)
    await world.adopt(READ.replace("GET", "POST").replace('"read"', '"write"'))
    session, held = world.session(), world.broker.core.projection
    unknown = []
    for n in range(8):
        world.script((Cross(), Sent(), Broken(Fault.CLOSED)))
        got = await world.ask(session, method="POST", operation_id=f"op-{n}", body=f"{n}")
        assert world.facts(got)[1] == "unknown"
        unknown.append(got["invocation_id"])
    assert len(held._held) <= 4
    looks = asked(world, monkeypatch)
    for _ in range(2):
        assert [inv.invocation_id for inv in held.unknown()] == unknown
        assert len(world.broker.core.unknown_operations()) == 8
    assert looks == []
    held.opener, opener = None, held.opener
    held.seal()
    assert [inv.partial for inv in held.unknown()] == [True] * 8
    held.seal()
    held.opener = opener
    assert [inv.partial for inv in held.unknown()] == [False] * 8
    assert len(world.broker.core.unknown_operations()) == 8
    looks.clear()
    assert len(world.broker.core.unknown_operations()) == 8
    assert looks == []


async def test_digests_in_the_row_are_those_of_the_invocation_after_every_record(world: Any) -> None:
    await world.adopt(READ)
    world.script(OK)
    got = await world.ask(world.session(), method="GET", operation_id="op-1")
    core = world.broker.core
    await core.projection.flush().durable()
    inv = core.projection.get(got["invocation_id"])
    view = core.projection.reader.action(got["invocation_id"])
    assert view.request_digest == core.journal.digest("request", inv.request_fingerprint.encode())
    assert view.effect_digest == core.journal.digest("effect", inv.effect_digest.encode())
    assert view.program_digest == core.journal.digest("program", inv.program.encode())
    assert view.key_digest is None
    assert view.operation_id == "op-1"
