"""Scripts and contracts that the tests of recovery share."""

from __future__ import annotations

import json
from typing import Any

from affidavit.broker.terms import Stage
from affidavit.broker.wire.port import Fault, PreparedRequest, SetupFault, SetupStop
from affidavit.broker.wire.scripted import (
    Body,
    Broken,
    Complete,
    Cross,
    Head,
    ScriptedExchange,
    ScriptedWire,
    Sent,
    Step,
    Stop,
)

HANG_UP = (Cross(), Sent(), Broken(Fault.CLOSED, "closed by peer after request write"))
REFUSED = (Stop(SetupStop(Stage.DNS, Stage.TCP_CONNECT, SetupFault.REFUSED, "ECONNREFUSED", "203.0.113.7")),)


def answer(status: int, body: Any = None, **headers: str) -> tuple[Step, ...]:
    """A complete answer; `body` as JSON, or as it is where it is bytes."""
    data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return (Cross(), Sent(), Head(status, named), *((Body(data),) if data else ()), Complete())


def contract(*sections: str, effect: str = 'kind = "write"') -> str:
    """A contract of POST to `/v1/things`, with these sections beside the two that are needed."""
    head = f"""
id = "test.things"
source = "https://docs.example.com/"
checked = 2026-11-30
[match]
kind = "http"
method = ["POST"]
url = "https://api.example.com/v1/things"
[effect]
{effect}
"""
    return head + "\n".join(sections)


KEY = '[idempotency]\nheader = "Idempotency-Key"\nretention = "24h"\n'
AUTOMATIC = "[retry]\nautomatic = true\nattempts = 3\n"
LOOKUP = """
[reconcile]
url = "https://api.example.com/v1/things?ref={operation_id}"
each = "/data"
where = { pointer = "/op", equals = "{operation_id}" }
state = "/status"
committed = ["done"]
pending = ["working"]
rejected = ["failed"]
absent = { means = "rejected", after = "60s" }
"""


def rows(*states: str, op: str = "op-1") -> tuple[Step, ...]:
    """A look-up's answer with a row of ours in each of these states."""
    return answer(200, {"data": [{"op": op, "status": state} for state in states]})


class RoutedWire(ScriptedWire):
    """Plays the scripts of each method in order; the last one stays. Look-ups come when they come."""

    def __init__(self, **scripts: list[tuple[Step, ...]]) -> None:
        super().__init__()
        self.scripts = scripts

    def exchange(self, request: PreparedRequest, **more: Any) -> ScriptedExchange:
        of = self.scripts[request.method]
        self._scripts.append(of.pop(0) if len(of) > 1 else of[0])
        return super().exchange(request, **more)

    @property
    def methods(self) -> list[str]:
        return [request.method for request in self.requests]


def route(world: Any, **scripts: list[tuple[Step, ...]]) -> RoutedWire:
    wire = RoutedWire(**scripts)
    world.wire = world.broker.core.wire = wire
    return wire
