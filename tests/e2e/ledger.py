"""A target that counts what it has done, and contracts that say what it promises about repeats, look-ups and jobs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from tests.e2e.target import Call

if TYPE_CHECKING:
    from tests.e2e.conftest import World

CONTRACT = """id = "recovery.{name}"
source = "https://docs.example.com/"
checked = 2026-11-30
[match]
kind = "http"
method = ["{method}"]
url = "http://127.0.0.1:{port}/{path}"
[effect]
kind = "write"
[approval]
mode = "never"
{rest}
"""
KEY = '[idempotency]\nheader = "Idempotency-Key"\nretention = "24h"\n'
LOOKUP = """
[correlation]
operation = "/op"
[reconcile]
url = "http://127.0.0.1:{port}/found?op={{operation_id}}"
each = "/rows"
where = {{ pointer = "/op", equals = "{{operation_id}}" }}
"""
JOB = """
[job]
pointer = "/id"
status_url = "/url"
state = "/state"
states = {{ done = "committed" }}
"""
RULES = {
    "keyed": KEY,
    "twice": KEY + "[retry]\nattempts = 2\n",
    "plain": "",
    "seen": LOOKUP,
    "jobs": JOB,
    "slow": JOB.replace('status_url = "/url"', 'url = "/working/{{result:/id}}"') + "[deadlines]\nrecovery = '5s'\n",
    "own": KEY + "[retry]\nautomatic = true\n",
}


def contract(name: str, port: int, rest: str, *, method: str = "POST", path: str | None = None) -> str:
    """A contract that asks nobody: of writes to `/NAME`, or to another path, with the sections `rest`."""
    return CONTRACT.format(name=name, port=port, rest=rest, method=method, path=path or name)


class Ledger:
    """What the target has done, by path: one effect for each key or, without one, for each request."""

    def __init__(self, world: World) -> None:
        self.effects: list[tuple[str, str]] = []
        self.losing = 0
        """How many more answers are lost, after the effect."""
        self.polls = 0
        scripts = world.target.scripts
        for name in RULES:
            scripts[f"/{name}"] = self.apply
        scripts["/found"] = self.found
        scripts["/job"] = self.job
        scripts["/working/j2"] = lambda call: call.answer(200, b'{"state":"working"}')

    def apply(self, call: Call) -> None:
        key = call.arrival.header("Idempotency-Key")
        effect = (call.arrival.path, key or f"request {len(self.effects)}")
        if effect not in self.effects:
            self.effects.append(effect)
        if self.losing:
            self.losing -= 1
            return
        if call.arrival.path == "/jobs":
            call.answer(202, b'{"id":"j1","url":"/job"}')
        elif call.arrival.path == "/slow":
            call.answer(200, b'{"id":"j2"}')
        else:
            call.answer(201, b'{"id":1}')

    def found(self, call: Call) -> None:
        (operation,) = parse_qs(urlsplit(call.arrival.path).query)["op"]
        rows = [{"op": operation}] if self.effects else []
        call.answer(200, json.dumps({"rows": rows}).encode())

    def job(self, call: Call) -> None:
        self.polls += 1
        if self.polls <= 2:
            call.answer(503, b"")
        else:
            call.answer(200, b'{"state":"done"}')
