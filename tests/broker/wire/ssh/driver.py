"""The engine's side of a command, for tests: a sink that keeps or counts, and one exchange with its line."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterable, Awaitable, Callable
from dataclasses import dataclass

from tests.broker.wire.driver import BOUND_S, ToldLine, turns

from affidavit.broker.wire.port import AddressCheck
from affidavit.broker.wire.ssh.exchange import CommandExchange, ParamikoWire
from affidavit.broker.wire.ssh.port import SshEvidence, SshHop, SshLimits, SshRequest, Stream

QUICK = SshLimits(stage_s=10.0, close_grace_s=0.2, keepalive_s=30.0)


class KeptOutput:
    """Keeps output, or only its length and hash where it is large."""

    def __init__(self, *, keep: bool = True) -> None:
        self.data = {stream: bytearray() for stream in Stream}
        self.length = dict.fromkeys(Stream, 0)
        self.sha256 = {stream: hashlib.sha256() for stream in Stream}
        self.largest = 0
        self.first = asyncio.Event()
        self._keep = keep

    async def write(self, stream: Stream, data: bytes) -> None:
        self.length[stream] += len(data)
        self.largest = max(self.largest, len(data))
        self.sha256[stream].update(data)
        if self._keep:
            self.data[stream] += data
        self.first.set()

    @property
    def stdout(self) -> bytes:
        return bytes(self.data[Stream.STDOUT])

    @property
    def stderr(self) -> bytes:
        return bytes(self.data[Stream.STDERR])


@dataclass
class Drive:
    """One exchange and what it told."""

    exchange: CommandExchange
    line: ToldLine
    sink: KeptOutput

    async def run(self, bound_s: float = BOUND_S) -> SshEvidence:
        async with asyncio.timeout(bound_s):
            return await self.exchange.run()

    async def until(self, ready: Callable[[SshEvidence], bool]) -> None:
        """Return once the evidence of an exchange that runs is `ready`."""
        async with asyncio.timeout(BOUND_S):
            while not ready(self.exchange.evidence):
                await turns(1)


def drive(
    wire: ParamikoWire,
    target: SshHop,
    command: bytes = b"true",
    *,
    stdin: bytes | AsyncIterable[bytes] = b"",
    env: tuple[tuple[str, str], ...] = (),
    jumps: tuple[SshHop, ...] = (),
    ready: Callable[[], Awaitable[None]] | None = None,
    line: ToldLine | None = None,
    sink: KeptOutput | None = None,
    allow: AddressCheck = lambda address: True,
    limits: SshLimits = QUICK,
    deadline_s: float = 15.0,
    reuse: str | None = None,
) -> Drive:
    line = line or ToldLine()
    sink = sink or KeptOutput()
    exchange = wire.exchange(
        SshRequest(target, command, stdin, env, jumps, ready),
        line=line,
        sink=sink,
        allow=allow,
        limits=limits,
        deadline=asyncio.get_running_loop().time() + deadline_s,
        reuse=reuse,
    )
    return Drive(exchange, line, sink)
