"""Sinks: how an answer's bytes get from the wire, which is the loop's, to an intake, which blocks (P12, P13).

What is small is taken in at once: a thread's turn would cost more than the work. From then on a worker thread takes in
what came, in order and one turn at a time, while the loop reads the next bytes. The wire waits once `AHEAD` bytes lie
here, and through it the peer does: memory stays the same however much comes and however slow the disk is.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from affidavit.broker.decode import coding_names
from affidavit.broker.events import StoredBody
from affidavit.broker.headers import Pairs
from affidavit.broker.intake import Intake, Taken
from affidavit.broker.outcome import joined
from affidavit.broker.prepare import Prepared
from affidavit.broker.redact import Forms, redact_headers
from affidavit.journal import Blob

T = TypeVar("T")

AT_ONCE = 64 * 1024
"""Bytes of an uncoded body that are taken in on the loop: a fifth of a millisecond. Coded ones may be bombs."""

TURN = 64 * 1024
"""Bytes that are worth a thread's turn."""

AHEAD = 512 * 1024
"""Bytes that may lie here before the wire has to wait."""


class Pump:
    """Moves one body into its intake (port.BodySink). Used by one task of the loop; turns of `pool` do the work."""

    def __init__(self, intake: Intake, pool: Executor) -> None:
        self._intake = intake
        self._pool = pool
        self._bytes = 0
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._turn: asyncio.Future[None] | None = None
        """The turn at work or the last one; None while everything was taken in at once."""

    async def write(self, data: bytes) -> None:
        self._bytes += len(data)
        if self._at_once:
            self._intake.take(data)
            return
        self._waiting.append(data)
        self._waiting_bytes += len(data)
        if self._turn is not None and not self._turn.done():
            if self._waiting_bytes < AHEAD:
                return
            await self._idle()
        if self._waiting_bytes >= TURN:
            self._turn = self._in_thread(partial(self._take_all, self._taken_over()))

    async def finish(self) -> Taken:
        """As `Intake.finish`."""
        await self._idle()
        if self._at_once:
            return self._intake.finish()
        waiting = self._taken_over()

        def rest() -> Taken:
            self._take_all(waiting)
            return self._intake.finish()

        return await self._in_thread(rest)

    async def discard(self) -> None:
        """As `Intake.discard`, once the turn at work has ended."""
        await self._idle()
        self._waiting.clear()
        if self._at_once:
            self._intake.discard()
        else:
            await self._in_thread(self._intake.discard)

    @property
    def _at_once(self) -> bool:
        return self._bytes <= AT_ONCE and not self._intake.coded

    async def _idle(self) -> None:
        """Wait for the turn at work, and raise what it raised. A cancelled wait leaves it at work."""
        if self._turn is not None:
            await asyncio.wait((self._turn,))
            self._turn.result()

    def _taken_over(self) -> Sequence[bytes]:
        waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
        return waiting

    def _take_all(self, waiting: Sequence[bytes]) -> None:
        for data in waiting:
            self._intake.take(data)

    def _in_thread(self, work: Callable[[], T]) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._pool, work)


@dataclass(frozen=True, slots=True)
class Kept:
    """What was kept of a complete answer: headers as they may be shown, the body's place, its bytes if small."""

    headers: Pairs
    body: StoredBody
    """Of a command its standard output."""
    blobs: tuple[Blob, ...] = ()
    inline: bytes | None = field(default=None, repr=False)
    stderr: StoredBody | None = None
    inline_stderr: bytes | None = field(default=None, repr=False)


class ResultSink:
    """Takes one HTTP answer as it arrives (port.BodySink). `intake` is given the answer's Content-Encoding."""

    def __init__(self, intake: Callable[[str | None], Intake], forms: Forms, pool: Executor) -> None:
        self._intake = intake
        self._forms = forms
        self._pool = pool
        self._headers: Pairs = ()
        self._in_headers = 0
        self._pump: Pump | None = None

    def start(self, headers: Pairs) -> None:
        """The final head came: its coding decides how the body is read."""
        self._headers, self._in_headers = redact_headers(headers, self._forms)
        self._pump = Pump(self._intake(joined(headers).get("content-encoding")), self._pool)

    async def write(self, data: bytes) -> None:
        await self._begun.write(data)

    async def finish(self) -> Kept:
        """Make what was kept durable, but for blobs, which go with the record. Raises FileUnwritable."""
        taken = await self._begun.finish()
        body = taken.body
        if self._in_headers:
            body = replace(body, redactions=body.redactions + self._in_headers)
        return Kept(self._headers, body, taken.blobs, taken.inline)

    async def cut(self, received: int) -> Kept:
        """Drop the body of an answer that broke off behind a head that settled the matter."""
        await self.discard()
        return Kept(self._headers, _nothing(received, cut=True))

    async def discard(self) -> None:
        """Drop what was kept: the answer is no result."""
        if self._pump is not None:
            await self._pump.discard()

    @property
    def _begun(self) -> Pump:
        assert self._pump is not None, "the head comes first"
        return self._pump


MEMORY_MAX = 1024 * 1024
"""Bytes of an answer that are held in memory alone; of a longer one nothing is."""


class MemorySink:
    """Takes an answer that may hold new secrets: its body is held here, for one reader, and kept nowhere."""

    def __init__(self, prepared: Prepared) -> None:
        self._forms = prepared.forms
        self._headers: Pairs = ()
        self._digest = hashlib.sha256()
        self._bytes = 0
        self._held: bytearray | None = bytearray()
        self._plain = True

    @property
    def body(self) -> bytes | None:
        """What came, uncoded; None where it was longer than MEMORY_MAX, or coded, which nobody asked for."""
        return bytes(self._held) if self._held is not None and self._plain else None

    def start(self, headers: Pairs) -> None:
        self._headers, _ = redact_headers(headers, self._forms)
        self._plain = not coding_names(joined(headers).get("content-encoding"))

    async def write(self, data: bytes) -> None:
        self._digest.update(data)
        self._bytes += len(data)
        if self._held is not None and self._bytes <= MEMORY_MAX:
            self._held += data
        else:
            self._held = None

    async def finish(self) -> Kept:
        return Kept(self._headers, replace(_nothing(self._bytes), sha256=self._digest.hexdigest(), withheld=True))

    async def cut(self, received: int) -> Kept:
        await self.discard()
        return Kept(self._headers, _nothing(received, cut=True))

    async def discard(self) -> None:
        self._held = None


def _nothing(received: int, *, cut: bool = False) -> StoredBody:
    """A body of which nothing is kept."""
    empty = hashlib.sha256(b"").hexdigest()
    return StoredBody(
        place="none",
        name="",
        key="",
        bytes=received,
        sha256=empty,
        stored_bytes=0,
        delivered_sha256=empty,
        chunks=0 if cut else 1,
        text=False,
        cut=cut,
    )
