"""Wrong passphrases are slow, over all callers; a right one is not, and hanging up does not help."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from affidavit.broker.passphrase import LONGEST_PAUSE_S, WAITING_MAX, WARN_FROM, GateFull, PassphraseGate
from affidavit.broker.vault.errors import DeviceSecretUnavailable, DeviceTrouble, WrongPassphrase


class Clock:
    """Time that moves only by sleeping."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


class Gate:
    def __init__(self) -> None:
        self.clock = Clock()
        self.warned: list[tuple[int, str]] = []
        self.gate = PassphraseGate(
            clock=self.clock, sleep=self.clock.sleep, warn=lambda count, program: self.warned.append((count, program))
        )

    async def guess(self, program: str = "guesser") -> None:
        with pytest.raises(WrongPassphrase):
            await self.gate.attempt(wrong, program=program)


async def wrong() -> None:
    raise WrongPassphrase


async def right() -> str:
    return "open"


@pytest.fixture
def at() -> Gate:
    return Gate()


async def test_a_right_one_passes_at_once(at: Gate) -> None:
    assert await at.gate.attempt(right, program="affidavit") == "open"
    assert at.clock.slept == []


async def test_the_pause_doubles_from_one_to_sixty_seconds(at: Gate) -> None:
    for _ in range(10):
        await at.guess()
    assert at.clock.slept == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert at.gate.pause_s == LONGEST_PAUSE_S
    assert at.gate.wrong == 10


async def test_the_pause_is_for_every_caller_and_ends_with_a_right_one(at: Gate) -> None:
    await at.guess("one")
    await at.guess("two")
    assert await at.gate.attempt(right, program="three") == "open"
    assert at.clock.slept == [1, 2]
    assert (at.gate.wrong, at.gate.pause_s) == (0, 0)
    await at.guess("one")
    assert at.gate.pause_s == 1


async def test_a_pause_that_has_passed_is_not_waited_for(at: Gate) -> None:
    await at.guess()
    at.clock.now += 0.25
    assert at.gate.pause_s == 0.75
    at.clock.now += 5
    await at.guess()
    assert at.clock.slept == []


async def test_a_sleep_that_ends_early_does_not_open_the_gate(at: Gate) -> None:
    whole = at.clock.sleep

    async def short(seconds: float) -> None:
        await whole(seconds / 2 if seconds > 0.1 else seconds)

    at.gate = PassphraseGate(clock=at.clock, sleep=short, warn=lambda *_: None)
    await at.guess()
    tried_at: list[float] = []

    async def check() -> None:
        tried_at.append(at.clock.now)

    await at.gate.attempt(check, program="x")
    assert tried_at == [1001.0]


async def test_from_the_fifth_on_the_program_is_named(at: Gate) -> None:
    for number in range(WARN_FROM + 1):
        await at.guess(f"program {number}")
    assert at.warned == [(5, "program 4"), (6, "program 5")]
    await at.gate.attempt(right, program="person")
    for _ in range(WARN_FROM - 1):
        await at.guess()
    assert len(at.warned) == 2


async def test_other_errors_come_through_and_do_not_count(at: Gate) -> None:
    async def locked() -> None:
        raise DeviceSecretUnavailable(DeviceTrouble.LOCKED)

    await at.guess()
    with pytest.raises(DeviceSecretUnavailable):
        await at.gate.attempt(locked, program="x")
    assert at.gate.wrong == 1


async def test_one_at_a_time_in_order(at: Gate) -> None:
    running, most, order = 0, 0, []

    def numbered(number: int) -> Callable[[], Awaitable[None]]:
        async def check() -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0)
            order.append(number)
            running -= 1

        return check

    await asyncio.gather(*(at.gate.attempt(numbered(n), program="x") for n in range(5)))
    assert most == 1
    assert order == [0, 1, 2, 3, 4]


async def test_a_guess_counts_though_its_caller_hung_up(at: Gate) -> None:
    started, go_on, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        started.set()
        await go_on.wait()
        ended.set()
        raise WrongPassphrase

    caller = asyncio.create_task(at.gate.attempt(slow, program="x"))
    await started.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    go_on.set()
    await ended.wait()
    await at.gate.attempt(right, program="y")
    assert at.clock.slept == [1]


async def test_a_queue_of_guesses_has_an_end(at: Gate) -> None:
    go_on = asyncio.Event()

    async def slow() -> None:
        await go_on.wait()

    waiting = [asyncio.create_task(at.gate.attempt(slow, program="x")) for _ in range(WAITING_MAX)]
    await asyncio.sleep(0)
    with pytest.raises(GateFull):
        await at.gate.attempt(right, program="y")
    go_on.set()
    await asyncio.gather(*waiting)
    assert await at.gate.attempt(right, program="y") == "open"
