"""What a contract is given to read of an answer."""

from __future__ import annotations

import gzip
from typing import Any

import pytest
from tests.broker.recovery import answer, contract, route

SAYS = '[verdict]\nbody = [{ pointer = "/ok", equals = false, outcome = "rejected" }]\n'
DECODED = ("committed", "REMOTE_RESULT")
REFUSED = ("rejected", "REMOTE_REJECTED")
UNDECIDED = ("unknown", "REMOTE_OUTCOME_UNKNOWN")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (gzip.compress(b'{"ok":true}'), DECODED),
        (gzip.compress(b'{"ok":false}'), REFUSED),
        (b'{"ok":true}', UNDECIDED),
        (b'{"ok":false}', UNDECIDED),
        (gzip.compress(b'{"ok":true}')[:-4], UNDECIDED),
    ],
)
async def test_a_body_that_does_not_decode_decides_nothing(world: Any, data: bytes, says: tuple[str, str]) -> None:
    """Raw bytes that happen to be JSON are not what the target said: it called them gzip (verdicts, section 2)."""
    await world.adopt(contract(SAYS))
    route(world, POST=[answer(200, data, content_encoding="gzip")])
    got = await world.ask(world.session(), json={"a": 1})
    assert world.facts(got)[1:3] == says


async def test_without_a_rule_it_is_committed_by_its_status(world: Any) -> None:
    route(world, POST=[answer(200, b'{"ok":false}', content_encoding="gzip")])
    got = await world.ask(world.session(), json={"a": 1})
    assert world.facts(got)[1:3] == DECODED
    assert got["http"]["body"]["undecodable"]
