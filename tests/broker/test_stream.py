"""The two ends of a stream: what waits for whom, and what ends the waiting."""

from __future__ import annotations

import asyncio

import pytest

from affidavit.broker import stream as module
from affidavit.broker.redact import Forms
from affidavit.broker.stream import CREDIT, CallerStream, LiveOutput
from affidavit.broker.terms import SessionId
from affidavit.broker.wire.ssh.port import StdinBroken, Stream

PART = bytes(64 * 1024)


class Announced:
    """Counts announcements."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> None:
        self.times += 1


def stream(*, takes_input: bool = True, announced: Announced | None = None) -> CallerStream:
    return CallerStream(SessionId("ses_1"), takes_input=takes_input, announce=announced or Announced())


async def attached(*, takes_input: bool = True) -> CallerStream:
    made = stream(takes_input=takes_input)
    waiting = asyncio.ensure_future(made.attached())
    await turns()
    made.attach()
    assert await waiting
    return made


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def everything(made: CallerStream) -> bytes:
    return b"".join([part async for part in made.parts()])


async def test_it_is_announced_once_and_waits_for_the_caller() -> None:
    announced = Announced()
    made = stream(announced=announced)
    waiting = asyncio.ensure_future(made.attached())
    await turns()
    assert (announced.times, waiting.done()) == (1, False)
    made.attach()
    assert await waiting
    assert await made.attached()
    assert announced.times == 1


async def test_a_caller_that_does_not_come_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ATTACH_S", 0.01)
    assert not await stream().attached()


async def test_a_caller_that_went_again_before_the_line_is_not_there() -> None:
    made = await attached()
    made.leave()
    assert not await made.attached()


async def test_input_waits_for_the_command_once_the_credit_lies_here() -> None:
    made, fed = await attached(), 0

    async def feed() -> None:
        nonlocal fed
        for _ in range(2 * CREDIT // len(PART)):
            await made.feed(PART)
            fed += len(PART)
        made.end_input()

    feeding = asyncio.ensure_future(feed())
    await turns(200)
    assert fed < CREDIT
    assert len(await everything(made)) == 2 * CREDIT
    await feeding


async def test_output_waits_for_the_caller_once_the_credit_lies_here() -> None:
    made = await attached()
    while True:
        made.offer(Stream.STDOUT, PART)
        room = asyncio.ensure_future(made.room())
        await turns()
        if not room.done():
            break
    lying = made._output_bytes
    assert CREDIT <= lying < CREDIT + len(PART) * 2
    assert await made.take() == (Stream.STDOUT, PART)
    await room


async def test_input_that_breaks_off_never_passes_for_its_end() -> None:
    made = await attached()
    await made.feed(b"half")
    parts = made.parts()
    assert await anext(parts) == b"half"
    made.leave()
    with pytest.raises(StdinBroken):
        await anext(parts)


async def test_a_caller_that_leaves_after_its_inputs_end_breaks_nothing() -> None:
    made = await attached()
    await made.feed(b"all")
    made.end_input()
    made.leave()
    assert await everything(made) == b"all"
    made.offer(Stream.STDOUT, PART)
    assert made._output_bytes == 0
    assert await made.take() is None


async def test_outputs_alone_have_no_input() -> None:
    assert await everything(await attached(takes_input=False)) == b""


async def test_after_the_verdict_nobody_waits() -> None:
    made = await attached()
    for _ in range(CREDIT // len(PART)):
        made.offer(Stream.STDERR, PART)
    room = asyncio.ensure_future(made.room())
    feeding = asyncio.ensure_future(made.feed(bytes(2 * CREDIT)))
    await turns()
    assert (room.done(), feeding.done()) == (False, False)
    made.close(whole=True)
    await asyncio.gather(room, feeding)
    await made.feed(PART)
    taken = [part async for part in _taken(made)]
    assert (len(taken), made.whole) == (CREDIT // len(PART), True)


async def _taken(made: CallerStream):  # type: ignore[no-untyped-def]
    while (part := await made.take()) is not None:
        yield part


async def test_a_caller_that_leaves_holds_no_command_up() -> None:
    made = await attached()
    for _ in range(CREDIT // len(PART)):
        made.offer(Stream.STDOUT, PART)
    room = asyncio.ensure_future(made.room())
    await turns()
    assert not room.done()
    made.leave()
    await asyncio.wait_for(room, 5)


async def test_what_a_caller_lost_is_not_whole() -> None:
    made = await attached()
    made.leave()
    made.close(whole=True)
    assert not made.whole


SECRET = b"planted-secret"


def live(made: CallerStream) -> LiveOutput:
    return LiveOutput(made, Forms([SECRET]))


async def passed_on(output: LiveOutput, data: bytes, stream: Stream = Stream.STDOUT) -> None:
    output.offer(stream, data)
    await output.room()


async def given(made: CallerStream) -> bytes:
    """All that the caller is given from now on, of both outputs."""
    made.close()
    return b"".join([data async for _, data in _taken(made)])


async def test_a_secret_is_redacted_wherever_it_is_cut() -> None:
    made = await attached()
    output = live(made)
    for part in (b"a plan", b"ted-sec", b"ret b"):
        await passed_on(output, part)
    output.finish()
    assert await given(made) == b"a [redacted] b"


async def test_what_may_begin_a_secret_goes_out_where_nothing_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller may have to answer it first: git's and rsync's ends would wait for each other."""
    monkeypatch.setattr(module, "HELD_S", 0.001)
    made = await attached()
    output = live(made)
    await passed_on(output, b"ready? pl")
    assert await made.take() == (Stream.STDOUT, b"ready? ")
    async with asyncio.timeout(10):
        assert await made.take() == (Stream.STDOUT, b"pl")


async def test_the_rest_of_a_secret_whose_beginning_went_out_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HELD_S", 0.001)
    made = await attached()
    output = live(made)
    for part in (b"so: plan", b"ted-"):
        await passed_on(output, part)
        async with asyncio.timeout(10):
            while output._left_s:
                await made.take()
    await passed_on(output, b"secret, and more")
    output.finish()
    assert await given(made) == b"[redacted], and more"


async def test_what_follows_starts_the_wait_anew() -> None:
    """An end that is held now was not there when the wait for the one before began."""
    made = await attached()
    output = live(made)
    await passed_on(output, b"p")
    first = output._timers[Stream.STDOUT]
    await passed_on(output, b"rint pl")
    second = output._timers[Stream.STDOUT]
    assert first.cancelled()
    assert second.when() > first.when()
    await passed_on(output, b"ain\n")
    assert second.cancelled()
    assert not output._timers
    output.finish()
    assert await given(made) == b"print plain\n"


async def test_the_other_output_does_not_start_it_anew() -> None:
    made = await attached()
    output = live(made)
    await passed_on(output, b"pl")
    due = output._timers[Stream.STDOUT].when()
    await passed_on(output, b"progress\n", Stream.STDERR)
    assert output._timers[Stream.STDOUT].when() == pytest.approx(due)
    output.finish()


async def test_while_the_caller_does_not_read_the_wait_stands_still() -> None:
    """What follows lies unread then."""
    made = await attached()
    output = live(made)
    output.offer(Stream.STDOUT, bytes(CREDIT) + SECRET[:7])
    room = asyncio.ensure_future(output.room())
    await turns()
    assert (room.done(), output._timers) == (False, {})
    assert await made.take() is not None
    await room
    assert list(output._timers) == [Stream.STDOUT]
    await passed_on(output, SECRET[7:])
    assert await given(made) == b"[redacted]"


async def test_input_that_has_ended_goes_out_whole_after_the_verdict_too() -> None:
    made = await attached()
    await made.feed(b"all of it")
    made.end_input()
    made.close()
    assert await everything(made) == b"all of it"


async def test_input_that_has_not_ended_by_the_verdict_is_broken_off() -> None:
    made = await attached()
    await made.feed(b"a part")
    made.close()
    with pytest.raises(StdinBroken):
        await everything(made)


async def test_input_whose_end_comes_after_the_verdict_is_broken_off() -> None:
    """Parts were dropped since, so that what was fed before is not all of it."""
    made = await attached()
    await made.feed(b"a part")
    made.close()
    await made.feed(b"dropped")
    made.end_input()
    with pytest.raises(StdinBroken):
        await everything(made)


async def test_a_part_without_data_is_none() -> None:
    made = await attached()
    for _ in range(3):
        await made.feed(b"")
    assert not made._input
