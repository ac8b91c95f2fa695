"""Time as the broker sees it, passed in everywhere so that tests move it (R46: wall and boot clock)."""

from __future__ import annotations

import asyncio
import secrets
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Protocol

from affidavit.broker.terms import InvocationId, Micros, OperationId

SECOND = 1_000_000
LOOK_S = 15.0
"""How often a wait for a deadline looks at the clocks again: the loop's own clock stands still in a suspend."""


class Clock(Protocol):
    """`wall` in microseconds since 1970 UTC; `boot` in seconds since boot, suspend included."""

    def wall(self) -> Micros: ...

    def boot(self) -> float: ...

    def boot_id(self) -> str | None:
        """Which boot it is: `boot` of two times can be compared only within one."""

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    def wall(self) -> Micros:
        return Micros(time.time_ns() // 1000)

    def boot(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def boot_id(self) -> str | None:
        return _boot_id()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


@cache
def _boot_id() -> str | None:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None


class Elapsed:
    """What two clocks say together: whatever must not last too long ends by the later, whatever must have lasted long
    enough has done so by the earlier. So neither a set clock nor a suspend opens a window again (R46)."""

    def __init__(self, clock: Clock, not_before: Micros) -> None:
        """`not_before`: the newest time that is on record."""
        self._clock = clock
        self._wall = Micros(max(clock.wall(), not_before))
        self._boot = clock.boot()

    def now(self) -> Micros:
        """The latest that it may be now."""
        return Micros(max(self._clock.wall(), after(self._wall, self._clock.boot() - self._boot)))

    def now_since(self, at: Micros, boot: float | None, boot_id: str | None) -> Micros:
        """The same, by a time that is on record with its boot clock, too."""
        now = self.now()
        if boot is None or boot_id is None or boot_id != self._clock.boot_id():
            return now
        return Micros(max(now, after(at, self._clock.boot() - boot)))

    async def until(
        self, end: Micros, at: Micros | None = None, boot: float | None = None, boot_id: str | None = None
    ) -> None:
        """Return once `now_since` has reached `end`; after a suspend or a set clock within LOOK_S."""
        while (left_s := (end - self.now_since(at or Micros(0), boot, boot_id)) / SECOND) > 0:
            await self._clock.sleep(min(left_s, LOOK_S))

    def at_least_s(self, at: Micros, boot: float | None, boot_id: str | None) -> float:
        """How many seconds have surely passed since `at`."""
        by_wall = (self._clock.wall() - at) / SECOND
        if boot is None or boot_id is None or boot_id != self._clock.boot_id():
            return by_wall
        return min(by_wall, self._clock.boot() - boot)


@dataclass(frozen=True, slots=True)
class End:
    """A moment by both clocks, of this run: whichever shows it first has reached it."""

    wall: Micros
    boot: float

    @classmethod
    def after(cls, clock: Clock, seconds: float) -> End:
        return cls(after(clock.wall(), seconds), clock.boot() + seconds)

    def left_s(self, clock: Clock) -> float:
        """Seconds until it is reached; not above 0 once it is."""
        return min((self.wall - clock.wall()) / SECOND, self.boot - clock.boot())


def after(at: Micros, seconds: float) -> Micros:
    return Micros(at + round(seconds * SECOND))


def rfc3339(at: Micros | None) -> str | None:
    """RFC 3339 in UTC with milliseconds, such as `2026-11-30T14:02:11.083Z`."""
    if at is None:
        return None
    whole, part = divmod(at, SECOND)
    return f"{datetime.fromtimestamp(whole, UTC).isoformat()[:19]}.{part // 1000:03d}Z"


_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def _base32(number: int, digits: int) -> str:
    return "".join(_CROCKFORD[(number >> (5 * i)) & 31] for i in reversed(range(digits)))


def new_invocation_id(now: Micros) -> InvocationId:
    """`act_`, 48 bits of milliseconds and 80 random bits in Crockford's base 32: sorts by time."""
    return InvocationId(f"act_{_base32(now // 1000, 10)}{_base32(secrets.randbits(80), 16)}")


def first_invocation_id(at: Micros) -> str:
    """Sorts after every invocation id that was made in a millisecond before `at`, and before all others."""
    return f"act_{_base32(max(0, at) // 1000, 10)}"


def new_operation_id() -> OperationId:
    return OperationId(f"op_{secrets.token_hex(12)}")
