"""A live action: an invocation whose work this run does, and the callers that wait for it.

Its facts live in the projection; this holds only what is not recorded: the request in memory, the waiters, and what
asks it to end. Owned by the broker's loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from affidavit.broker.bound import Bound
from affidavit.broker.moment import End
from affidavit.broker.stop import Stop
from affidavit.broker.terms import InvocationId, Micros, SessionId
from affidavit.broker.work import Exchange, Work
from affidavit.journal import Receipt


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to repeat `of`, for as long as nobody takes the next generation (R47)."""

    of: InvocationId
    generation: int


@dataclass(slots=True)
class Live:
    """One action at work. `stopping` is set at most once and is heeded only before the line."""

    invocation_id: InvocationId
    work: Work
    accepted: Receipt
    sessions: set[SessionId]
    finished: asyncio.Event = field(default_factory=asyncio.Event)
    """The verdict is durable, or can no longer be."""
    stopping: Stop | None = None
    crossed: bool = False
    """DISPATCH_STARTED was appended. From here on nothing stops the recording."""
    cancelled: bool = False
    signal_sent: bool | None = None
    """Whether the signal that a cancel asked for could be sent; None where none was asked for."""
    caller_gone: bool = False
    deadline: float | None = None
    """The loop's time; set when authorisation ends."""
    approved_until: End | None = None
    """The same by the clocks that go on in a suspend: past it the approval covers nothing any more."""
    exchange: Exchange | None = None
    interrupt: Callable[[], object] | None = None
    """Ends what the engine waits for before the line."""
    _watch: asyncio.Future[None] | None = None
    lease: Lease | None = None
    """Of a repeat: looked at again right before its dispatch."""
    lease_until: End | None = None
    """How long the lease is held for a repeat that is authorised and not yet dispatched; set with the authorisation."""
    pause_s: float = 0.0
    """How long a repeat waits before anything else: the target asked for it."""
    until: Micros | None = None
    """A repeat or a hop whose right ends then (its key's window, the recovery deadline) is not dispatched later."""
    hop: Live | None = field(default=None, repr=False, compare=False)
    """What follows this one's redirect, and answers in its place; set before `finished`."""
    follows: Live | None = field(default=None, repr=False, compare=False)
    """Of a hop: whose redirect it follows."""

    @property
    def bound(self) -> Bound:
        return self.work.bound

    def stop(self, stop: Stop) -> bool:
        """Ask for an end before the line; False if the line is crossed or an end was asked for already."""
        if self.crossed or self.stopping is not None or self.finished.is_set():
            return False
        self.stopping = stop
        self.poke()
        if self.interrupt is not None:
            self.interrupt()
        return True

    def watch(self) -> asyncio.Future[None]:
        """Done as soon as the next field changes. Who waits takes one, then looks at the fields, then waits."""
        self._watch = asyncio.get_running_loop().create_future()
        return self._watch

    def poke(self) -> None:
        """A field has changed: whoever watches looks again."""
        if self._watch is not None and not self._watch.done():
            self._watch.set_result(None)

    async def wait(self, seconds: float) -> bool:
        """Whether the action, with the hops that follow it, ended within `seconds`."""
        if self.ended:
            return True
        try:
            async with asyncio.timeout(seconds):
                await self.end()
        except TimeoutError:
            return False
        return True

    async def end(self) -> None:
        """Return once this and every hop that follows it is finished."""
        on: Live | None = self
        while on is not None:
            await on.finished.wait()
            on = on.hop

    @property
    def ended(self) -> bool:
        return self.last.finished.is_set()

    @property
    def first(self) -> Live:
        """The exchange that the agent asked for, of which this is a hop."""
        on = self
        while on.follows is not None:
            on = on.follows
        return on

    @property
    def last(self) -> Live:
        """The newest hop, else this one."""
        on = self
        while on.hop is not None:
            on = on.hop
        return on
