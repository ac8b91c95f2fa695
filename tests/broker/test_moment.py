"""Two clocks together: what must not last too long, and what must have lasted long enough (R46)."""

from __future__ import annotations

from affidavit.broker.moment import LOOK_S, SECOND, Elapsed, End, SystemClock, after
from affidavit.broker.terms import Micros


class Clock:
    """A wall and a boot clock that are set apart."""

    def __init__(self) -> None:
        self.at_s = 0.0
        self.set_s = 0.0
        self.boots = "one"

    def wall(self) -> Micros:
        return Micros(round((1_000 + self.at_s + self.set_s) * SECOND))

    def boot(self) -> float:
        return 50 + self.at_s

    def boot_id(self) -> str | None:
        return self.boots

    async def sleep(self, seconds: float) -> None:
        self.at_s += seconds


def wall(seconds: float) -> Micros:
    return Micros(round(seconds * SECOND))


def test_now_is_never_behind_what_has_passed() -> None:
    clock = Clock()
    elapsed = Elapsed(clock, Micros(0))
    clock.at_s = 100
    assert elapsed.now() == wall(1_100)
    clock.set_s = -500
    assert elapsed.now() == wall(1_100), "set back, it is no earlier"
    clock.set_s = 500
    assert elapsed.now() == wall(1_600), "set forward, it may be later"


def test_what_is_on_record_is_not_undone_by_a_restart() -> None:
    clock = Clock()
    clock.set_s = -900
    elapsed = Elapsed(clock, wall(1_000))
    assert elapsed.now() == wall(1_000)
    clock.at_s = 7
    assert elapsed.now() == wall(1_007)


def test_a_recorded_boot_clock_counts_within_its_boot() -> None:
    clock = Clock()
    at, boot = clock.wall(), clock.boot()
    clock.at_s, clock.set_s = 300, -1_000
    elapsed = Elapsed(clock, at)
    assert elapsed.now_since(at, boot, "one") == after(at, 300)
    assert elapsed.now_since(at, boot, "another") == at
    assert elapsed.now_since(at, None, None) == at


def test_what_must_have_lasted_is_told_by_the_earlier_clock() -> None:
    clock = Clock()
    at, boot = clock.wall(), clock.boot()
    elapsed = Elapsed(clock, Micros(0))
    clock.at_s, clock.set_s = 10, 500
    assert elapsed.at_least_s(at, boot, "one") == 10
    assert elapsed.at_least_s(at, boot, "another") == 510
    clock.set_s = -5
    assert elapsed.at_least_s(at, boot, "one") == 5


def test_the_systems_boot_has_a_name() -> None:
    assert SystemClock().boot_id() == SystemClock().boot_id()


def test_an_end_is_reached_by_whichever_clock_is_first() -> None:
    clock = Clock()
    end = End.after(clock, 30)
    assert end.left_s(clock) == 30
    clock.at_s = 10
    assert end.left_s(clock) == 20
    clock.set_s = 25
    assert end.left_s(clock) == -5
    clock.set_s = -1_000
    assert end.left_s(clock) == 20, "set back, it is no later"


async def test_a_wait_ends_by_either_clock() -> None:
    clock = Clock()
    elapsed, at, boot = Elapsed(clock, Micros(0)), clock.wall(), clock.boot()
    await elapsed.until(after(at, 40), at, boot, "one")
    assert clock.at_s == 40
    clock.set_s = 50
    await elapsed.until(after(at, 90), at, boot, "one")
    assert clock.at_s == 40, "set forward, it is over at once"


async def test_a_suspend_is_seen_within_a_look() -> None:
    clock = Clock()
    elapsed, at, boot = Elapsed(clock, Micros(0)), clock.wall(), clock.boot()
    slept: list[float] = []

    async def suspended(seconds: float) -> None:
        slept.append(seconds)
        clock.at_s += 1_000

    clock.sleep = suspended  # type: ignore[method-assign]
    await elapsed.until(after(at, 600), at, boot, "one")
    assert slept == [LOOK_S]
