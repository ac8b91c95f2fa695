"""What the journal costs, as ratios of medians taken side by side in one run (P1, P3, P9).

The units are measured here, too, interleaved with what they are compared with, so that a busy disk is busy for both.
Nothing asserts on these numbers; the exact counts (commits, frames) are gates of the test suite.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from nacl.public import PrivateKey

from affidavit.journal.action import ActionRow, Name
from affidavit.journal.journal import Journal
from affidavit.journal.reader import Reader
from affidavit.journal.record import Draft
from affidavit.journal.sealing import Opener

_PLAIN_BYTES = 720
_WARMING_FRAMES = 1100
"""More than a checkpoint leaves in the write-ahead log: from then on it is reused, not grown."""

_PAYLOAD = {"observation": "closed by peer after request write", "detail": "x" * 300}


@dataclass(frozen=True, slots=True)
class CommitCost:
    """P1. One commit of an event with its row, which enters or leaves the open index, against one plain append."""

    plain_s: float
    """Unit F: append 720 bytes and fdatasync, the median in seconds."""
    commit_s: float
    """Unit C: on the writer thread, from the first statement until COMMIT returned."""
    call_s: float
    """The same as its caller sees it, both thread switches included."""
    frames: float
    """Pages added to the write-ahead log per commit."""

    @property
    def ratio(self) -> float:
        return self.commit_s / self.plain_s

    @property
    def call_ratio(self) -> float:
        return self.call_s / self.plain_s


@dataclass(frozen=True, slots=True)
class GroupCost:
    """P3. Many callers, each waiting for its own barrier, against one caller doing the same number."""

    callers: int
    events: int
    commits_per_event: float
    speedup: float


@dataclass(frozen=True, slots=True)
class RecoveryCost:
    """P9. Opening and reading what is open, against reading and unsealing everything."""

    events: int
    open_actions: int
    recovery_s: float
    replay_s: float

    @property
    def ratio(self) -> float:
        return self.recovery_s / self.replay_s


class Commits:
    """Unit C one at a time, for who takes it by turns with other things. Needs an empty `directory`; it is warmed."""

    def __init__(self, directory: Path) -> None:
        self._journal = _Home(directory).journal()
        self._written: list[float] = []
        ledger = self._journal._ledger
        ledger.write = _timed(ledger.write, self._written)  # type: ignore[method-assign]
        self._done = 0
        for _ in range(_WARMING_FRAMES // 3):
            self.once()

    def once(self) -> float:
        """One commit; its seconds on the writer thread, as in `CommitCost.commit_s`."""
        _settle(self._journal, self._done)
        self._done += 1
        return self._written[-1]

    def close(self) -> None:
        self._journal.close()


def measure_commit(directory: Path, *, commits: int = 400) -> CommitCost:
    """P1, in an empty `directory` on the disk to be measured."""
    home = _Home(directory)
    with closing(home.journal()) as journal, closing(journal.reader()) as reader:
        ledger = journal._ledger
        written: list[float] = []
        write = ledger.write
        ledger.write = _timed(write, written)  # type: ignore[method-assign]
        plain: list[float] = []
        called: list[float] = []
        frames: list[int] = []
        descriptor = os.open(directory / "plain", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        try:
            append = _timed(lambda: _plain_append(descriptor), plain)
            commit = _timed(lambda n: _settle(journal, n), called)
            for n in range(_WARMING_FRAMES // 3):
                append()
                commit(n)
            for kept in (plain, called, written):
                kept.clear()
            for n in range(commits):
                append()
                before = reader.wal_frames()
                commit(n)
                frames.append(reader.wal_frames() - before)
        finally:
            os.close(descriptor)
    grown = [count for count in frames if count > 0]  # less those during which the log began anew
    return CommitCost(
        plain_s=statistics.median(plain),
        commit_s=statistics.median(written),
        call_s=statistics.median(called),
        frames=statistics.mean(grown),
    )


def measure_group(directory: Path, *, callers: int = 32, rounds: int = 20) -> GroupCost:
    """P3: `callers` at once, as on one loop, each with its next barrier as soon as its last is durable."""
    home = _Home(directory)
    events = callers * rounds
    with closing(home.journal()) as journal:
        for n in range(_WARMING_FRAMES // 3):
            _settle(journal, n)

        async def call(caller: int) -> None:
            for n in range(rounds):
                await journal.append(*_event(caller, n), barrier=True).durable()

        async def together() -> None:
            await asyncio.gather(*(call(caller) for caller in range(callers)))

        async def alone() -> None:
            for n in range(events):
                await journal.append(*_event(0, n), barrier=True).durable()

        before = journal.counters.commits
        together_s = _seconds(lambda: asyncio.run(together()))
        commits = journal.counters.commits - before
        alone_s = _seconds(lambda: asyncio.run(alone()))
    return GroupCost(callers, events, commits / events, alone_s / together_s)


def measure_recovery(
    directory: Path, *, events: Sequence[int] = (10_000, 100_000), open_actions: int = 10, rounds: int = 20
) -> list[RecoveryCost]:
    """P9, on a journal of each of these lengths: records of settled actions, five each, and some open ones at its end.

    All are written first, then opened by turns.
    """
    homes = [_lived_in(directory / f"{length}", length, open_actions) for length in events]
    recovered: list[list[float]] = [[] for _ in homes]
    for _ in range(rounds):
        for home, taken in zip(homes, recovered, strict=True):
            taken.append(_seconds(partial(_recover, home, open_actions)))
    return [
        RecoveryCost(length, open_actions, statistics.median(taken), _seconds(partial(_replay, home)))
        for home, length, taken in zip(homes, events, recovered, strict=True)
    ]


class _Home:
    """A new journal with keys of its own."""

    def __init__(self, directory: Path) -> None:
        private_key = PrivateKey.generate()
        self.path = directory / "journal.db"
        self.key = secrets.token_bytes(32)
        self.opener = Opener(bytes(private_key))
        Journal.create(self.path, self.key, bytes(private_key.public_key))

    def journal(self, lazy_s: float = 1.0) -> Journal:
        return Journal.open(self.path, self.key, lazy_s=lazy_s)


def _lived_in(directory: Path, events: int, open_actions: int) -> _Home:
    directory.mkdir()
    home = _Home(directory)
    with closing(home.journal(lazy_s=3600.0)) as journal:
        for n in range(0, events, 5):
            state = "open" if n >= events - 5 * open_actions else "settled"
            row = _row(n, state)
            journal.append([Draft("EVENT", row.invocation_id, _PAYLOAD, n)] * 5, _fixed(row))
            if n % 5000 == 0:
                journal.flush().wait()
    return home


def _recover(home: _Home, open_actions: int) -> None:
    with closing(home.journal()), closing(Reader.open(home.path, home.key)) as reader:
        if len(reader.open_actions()) != open_actions:
            raise AssertionError("recovery did not find what is open")


def _replay(home: _Home) -> None:
    first = 1
    with closing(Reader.open(home.path, home.key)) as reader:
        while records := reader.records_between(first, first + 999):
            for record in records:
                home.opener.payload(record)
            first = records[-1].seq + 1


def _settle(journal: Journal, n: int) -> None:
    """One event that moves the row of its action into or out of the index of open ones."""
    journal.append(*_event(0, n), barrier=True).wait()


def _event(caller: int, n: int) -> tuple[list[Draft], Callable[[object], list[ActionRow]]]:
    row = _row(caller, "open" if n % 2 else "settled")
    return [Draft("EVENT", row.invocation_id, _PAYLOAD, n)], _fixed(row)


def _row(n: int, state: str) -> ActionRow:
    return ActionRow(
        invocation_id=f"act_{n:026}",
        operation_id=f"op_{n:026}",
        state=state,
        phase="remote_execution",
        outcome="unknown" if state == "open" else "committed",
        effect_digest=f"{n:064x}",
        program_digest="0" * 64,
        target=Name("target", "https://pay.example/charges"),
    )


def _fixed(row: ActionRow) -> Callable[[object], list[ActionRow]]:
    return lambda _seqs: [row]


def _plain_append(descriptor: int) -> None:
    os.write(descriptor, bytes(_PLAIN_BYTES))
    os.fdatasync(descriptor)


def _timed(call: Callable[..., None], kept: list[float]) -> Callable[..., None]:
    def timed(*arguments: object) -> None:
        started = time.perf_counter()
        call(*arguments)
        kept.append(time.perf_counter() - started)

    return timed


def _seconds(call: Callable[[], None]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started
