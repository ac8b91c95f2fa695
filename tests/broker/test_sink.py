"""Sinks: in order, off the loop, no more than so much in memory (P12, P13)."""

from __future__ import annotations

import asyncio
import hashlib
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from affidavit.broker.intake import Taken
from affidavit.broker.prepare import Prepared
from affidavit.broker.redact import Forms
from affidavit.broker.sink import AHEAD, AT_ONCE, MEMORY_MAX, TURN, MemorySink, Pump, ResultSink
from affidavit.broker.wire.port import PreparedRequest

PIECE = 64 * 1024


class ScriptedIntake:
    """Keeps what it is given and in which thread; a turn waits until it may go on."""

    def __init__(self, *, coded: bool = False) -> None:
        self.coded = coded
        self.taken: list[bytes] = []
        self.threads: list[int] = []
        self.ended: list[str] = []
        self.may = threading.Event()
        self.may.set()
        self.fault: Exception | None = None

    def take(self, data: bytes) -> None:
        assert self.may.wait(30)
        if self.fault is not None:
            raise self.fault
        self.taken.append(data)
        self.threads.append(threading.get_ident())

    def finish(self) -> Any:
        self.ended.append("finished")
        self.threads.append(threading.get_ident())
        return Taken.__new__(Taken)

    def discard(self) -> None:
        self.ended.append("discarded")
        self.threads.append(threading.get_ident())


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as made:
        yield made


async def test_what_is_small_is_taken_in_at_once(pool: ThreadPoolExecutor) -> None:
    intake = ScriptedIntake()
    pump = Pump(intake, pool)  # type: ignore[arg-type]
    await pump.write(bytes(AT_ONCE - 1))
    await pump.write(b"x")
    await pump.finish()
    assert set(intake.threads) == {threading.get_ident()}
    assert sum(map(len, intake.taken)) == AT_ONCE


@pytest.mark.parametrize("coded", [False, True])
async def test_what_is_large_or_coded_never_runs_on_the_loop(pool: ThreadPoolExecutor, coded: bool) -> None:
    intake = ScriptedIntake(coded=coded)
    pump = Pump(intake, pool)  # type: ignore[arg-type]
    pieces = [os.urandom(TURN) for _ in range(20)]
    for piece in pieces:
        await pump.write(piece)
    await pump.finish()
    assert intake.taken == pieces
    on_the_loop = intake.threads.count(threading.get_ident())
    assert on_the_loop == (0 if coded else 1)
    assert intake.ended == ["finished"]


async def test_the_wire_waits_once_enough_lies_here(pool: ThreadPoolExecutor) -> None:
    intake = ScriptedIntake(coded=True)
    intake.may.clear()
    pump = Pump(intake, pool)  # type: ignore[arg-type]
    written = 0

    async def writes() -> None:
        nonlocal written
        for _ in range(200):
            await pump.write(bytes(PIECE))
            written += PIECE

    writing = asyncio.ensure_future(writes())
    for _ in range(1000):
        await asyncio.sleep(0)
    assert AHEAD <= written + PIECE <= AHEAD + 3 * PIECE
    assert not writing.done()
    intake.may.set()
    await writing
    await pump.finish()
    assert sum(map(len, intake.taken)) == 200 * PIECE


async def test_a_cancelled_write_leaves_its_turn_at_work_and_discard_waits_for_it(pool: ThreadPoolExecutor) -> None:
    intake = ScriptedIntake(coded=True)
    intake.may.clear()
    pump = Pump(intake, pool)  # type: ignore[arg-type]

    async def writes() -> None:
        while True:
            await pump.write(bytes(PIECE))

    writing = asyncio.ensure_future(writes())
    for _ in range(100):
        await asyncio.sleep(0)
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)
    discarding = asyncio.ensure_future(pump.discard())
    for _ in range(100):
        await asyncio.sleep(0)
    assert intake.ended == []
    intake.may.set()
    await discarding
    assert intake.ended == ["discarded"]
    assert threading.get_ident() not in intake.threads


async def test_what_a_turn_raises_comes_out(pool: ThreadPoolExecutor) -> None:
    intake = ScriptedIntake(coded=True)
    intake.fault = RuntimeError("a fault of ours")
    pump = Pump(intake, pool)  # type: ignore[arg-type]
    await pump.write(bytes(TURN))
    with pytest.raises(RuntimeError, match="ours"):
        await pump.finish()


async def test_the_coding_comes_from_the_head_and_echoes_in_it_are_counted(pool: ThreadPoolExecutor) -> None:
    codings: list[str | None] = []

    def intake(coding: str | None) -> Any:
        codings.append(coding)
        return ScriptedIntake()

    sink = ResultSink(intake, Forms((b"planted-secret",)), pool)
    await sink.discard()  # before the head there is nothing to drop
    sink.start((("Content-Encoding", "gzip"), ("content-encoding", "br"), ("x-echo", "planted-secret"), ("a", "b")))
    assert codings == ["gzip, br"]
    assert sink._headers[2:] == (("x-echo", "[redacted]"), ("a", "b"))
    assert sink._in_headers == 1
    await sink.discard()


def memory() -> MemorySink:
    request = PreparedRequest("POST", "https", "a.example", 443, b"/", (), b"")
    return MemorySink(Prepared(request, whole=(b"Basic secret-9",), secret=b"secret-9"))


async def test_what_may_hold_new_secrets_is_held_in_memory_alone() -> None:
    sink = memory()
    sink.start((("x-echo", "Basic secret-9"), ("content-type", "application/json")))
    await sink.write(b'{"a":')
    await sink.write(b"1}")
    kept = await sink.finish()
    assert sink.body == b'{"a":1}'
    assert dict(kept.headers)["x-echo"] == "[redacted]"
    assert (kept.body.place, kept.body.bytes, kept.body.withheld, kept.inline) == ("none", 7, True, None)
    assert kept.body.sha256 == hashlib.sha256(b'{"a":1}').hexdigest()


@pytest.mark.parametrize(("coding", "length"), [("gzip", 10), (None, MEMORY_MAX + 1)])
async def test_of_what_is_too_long_or_coded_nothing_is_held(coding: str | None, length: int) -> None:
    sink = memory()
    sink.start((("content-encoding", coding),) if coding else ())
    for _ in range(2):
        await sink.write(bytes(length // 2 + 1))
    kept = await sink.finish()
    assert sink.body is None
    assert kept.body.bytes == 2 * (length // 2 + 1)


async def test_a_cut_answer_leaves_nothing() -> None:
    sink = memory()
    sink.start(())
    await sink.write(b"beginning")
    kept = await sink.cut(9)
    assert (sink.body, kept.body.cut, kept.body.bytes, kept.body.chunks) == (None, True, 9, 0)
