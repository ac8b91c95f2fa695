"""A broker on real files: a real vault and journal in a home of its own, and a wire that is scripted."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from affidavit.broker.api import ActionError
from affidavit.broker.broker import Broker
from affidavit.broker.card import Card, Decision, Scope
from affidavit.broker.home import Places
from affidavit.broker.limits import Limits
from affidavit.broker.moment import SystemClock
from affidavit.broker.session import Process, Provenance, Session
from affidavit.broker.terms import Micros, SessionId
from affidavit.broker.vault import Vault
from affidavit.broker.vault.keys import KdfParams
from affidavit.broker.wire.scripted import ScriptedWire, Step
from affidavit.journal import Journal

PASSPHRASE = b"a passphrase for tests"
SECRET = b"planted-secret-9fK2"
CHEAP = KdfParams(memory_kib=64, iterations=1, lanes=1)


class ScriptedClock(SystemClock):
    """The system's clock, moved on by `ahead_s`. Its sleepers sleep until it is moved."""

    def __init__(self) -> None:
        self.ahead_s = 0.0
        self.wall_set_s = 0.0
        """By how much somebody set the wall clock."""
        self._asleep: list[tuple[float, asyncio.Event]] = []

    def wall(self) -> Micros:
        return Micros(super().wall() + round((self.ahead_s + self.wall_set_s) * 1_000_000))

    def boot(self) -> float:
        return super().boot() + self.ahead_s

    async def sleep(self, seconds: float) -> None:
        awake = asyncio.Event()
        sleeper = (self.ahead_s + seconds, awake)
        if seconds > 0:
            self._asleep.append(sleeper)
            try:
                await awake.wait()
            finally:
                self._asleep.remove(sleeper)

    @property
    def next_s(self) -> float | None:
        """How long until the first sleeper wakes."""
        return min((until - self.ahead_s for until, _ in self._asleep), default=None)

    def move(self, seconds: float) -> None:
        self.ahead_s += seconds
        for until, awake in list(self._asleep):
            if until <= self.ahead_s + 1e-9:
                awake.set()


class World:
    """One home, its broker, an agent's session, and a person who decides as told."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self.clock = ScriptedClock()
        self.limits = Limits()
        self.wire = ScriptedWire()
        self.broker: Broker = None  # type: ignore[assignment]

    async def start(self) -> None:
        self.broker = await Broker.open(
            self.places, clock=self.clock, wire=self.wire, vault=Vault(self.places), limits=self.limits
        )

    async def unlock(self) -> None:
        await self.broker.operator.unlock(bytearray(PASSPHRASE), program="tests")

    async def stop(self) -> None:
        await self.broker.shutdown("test")
        await self.broker.close()

    async def restart(self) -> None:
        await self.stop()
        await self.start()
        await self.unlock()

    def script(self, *scripts: tuple[Step, ...]) -> ScriptedWire:
        """What the wire plays from now on, one script an exchange."""
        self.wire = ScriptedWire(*scripts)
        self.broker.core.wire = self.wire
        return self.wire

    def session(self, name: str = "s-1", *, program: str = "/usr/bin/agent", cwd: str = "/src") -> Session:
        process = Process(os.getpid(), 1, "agent", program, cwd, 1, abs(hash(program)) % 10_000)
        session = Session(SessionId(name), Provenance(os.getuid(), process, process))
        self.broker.agent.session_started(session)
        return session

    async def credential(self, target: str = "https://api.example.com/**", **more: Any) -> None:
        params = {"name": "api", "kind": "bearer", "targets": [target], **more}
        await self.broker.operator.credential_add(params, bytearray(SECRET), bytearray(PASSPHRASE))

    async def adopt(self, text: str, file: str = "test.toml") -> None:
        await self.broker.operator.contract_adopt([(file, text)], bytearray(PASSPHRASE))

    def call(self, session: Session, **params: Any) -> asyncio.Task[Mapping[str, Any]]:
        """An `http.request` at work; its envelope, whichever way it ends."""
        given = {"method": "POST", "url": "https://api.example.com/v1/things", "wait_s": 5, **params}

        async def envelope() -> Mapping[str, Any]:
            try:
                return await self.broker.agent.http_request(session, given)
            except ActionError as error:
                return error.envelope

        return asyncio.ensure_future(envelope())

    async def card(self) -> Card:
        """The oldest card that waits, once there is one."""
        await self.cards(1)
        return self.broker.operator.cards()[0]

    async def cards(self, count: int) -> None:
        """Return once so many cards wait."""
        enough = asyncio.Event()

        def look(status: Mapping[str, Any]) -> None:
            if status["cards"] >= count:
                enough.set()

        stop = self.broker.operator.on_status(look)
        try:
            await enough.wait()
        finally:
            stop()

    async def approve(self, scope: Scope = Scope.ONCE) -> Card:
        card = await self.card()
        await self.broker.operator.decide(card.invocation_id, Decision(True, scope, tick=True))
        return card

    async def deny(self, reason: str | None = None) -> Card:
        card = await self.card()
        await self.broker.operator.decide(card.invocation_id, Decision(False, reason=reason))
        return card

    async def ask(self, session: Session, **params: Any) -> Mapping[str, Any]:
        """A call that a person approves if a card comes."""
        call = self.call(session, **params)
        while not call.done():
            if self.broker.operator.cards():
                await self.approve()
            await asyncio.sleep(0)
        return call.result()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Return once `holds`, at a change of the broker's state; the clock stands still."""
        changed = asyncio.Event()
        stop = self.broker.core.on_status(changed.set)
        try:
            while not holds():
                await changed.wait()
                changed.clear()
        finally:
            stop()

    async def settle(self) -> None:
        """Let everything run that needs no clock: until nothing was recorded in three turns of journal and threads."""
        core, quiet, before = self.broker.core, 0, -1
        while quiet < 3:
            for _ in range(20):
                await asyncio.sleep(0)
            await core.results.in_thread(lambda: None)
            await core.projection.flush().durable()
            records = core.journal.counters.records
            quiet = quiet + 1 if records == before else 0
            before = records

    async def later(self, seconds: float) -> None:
        """Move the clock on, sleeper by sleeper, as far as `seconds` lead."""
        end = self.clock.ahead_s + seconds
        await self.settle()
        while (step := self.clock.next_s) is not None and self.clock.ahead_s + step <= end + 1e-9:
            self.clock.move(max(0.0, step))
            await self.settle()
        self.clock.move(max(0.0, end - self.clock.ahead_s))
        await self.settle()

    async def look(self, session: Session, invocation_id: str) -> Mapping[str, Any]:
        """An `action.reconcile`; its envelope, whichever way it ends."""
        return await self._ended(self.broker.agent.action_reconcile(session, invocation_id=invocation_id))

    def retry(self, session: Session, invocation_id: str, **more: Any) -> asyncio.Task[Mapping[str, Any]]:
        """An `action.retry` at work; its envelope, whichever way it ends."""
        given = {"wait_s": 5, "unsafe": False, "request": None, **more}
        return asyncio.ensure_future(
            self._ended(self.broker.agent.action_retry(session, invocation_id=invocation_id, **given))
        )

    async def get(self, session: Session, invocation_id: str) -> Mapping[str, Any]:
        return await self.broker.agent.action_get(session, invocation_id=invocation_id, operation_id=None, events=False)

    @staticmethod
    async def _ended(call: Awaitable[Mapping[str, Any]]) -> Mapping[str, Any]:
        try:
            return await call
        except ActionError as error:
            return error.envelope

    @staticmethod
    def facts(envelope: Mapping[str, Any]) -> tuple[str, str, str, str]:
        """(phase, outcome, code, retry) of whichever of result, pending, error is there; exactly one is."""
        blocks = [envelope[name] for name in ("result", "pending", "error") if name in envelope]
        assert len(blocks) == 1
        block = blocks[0]
        return block["phase"], block["outcome"], block["code"], block["retry"]

    async def kinds(self, invocation_id: str) -> list[str]:
        """The kinds of an invocation's records, in order."""
        got = await self.broker.operator.action_get(invocation_id)  # type: ignore[arg-type]
        return [e["kind"] for e in got["events"]]


def new_home(root: Path) -> Places:
    """A home below `root`, with an empty vault and journal."""
    home = Places.at(root, named_by="AFFIDAVIT_HOME")
    home.prepare()
    vault = Vault.create(home, bytearray(PASSPHRASE), keyring=False, kdf=CHEAP)
    with vault.device_keys().journal as key:
        key.use(lambda lent: Journal.create(home.journal, bytes(lent), vault.journal_public_key()))
    vault.close()
    return home


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return new_home(tmp_path / "home")


@pytest.fixture
async def world(places: Places) -> AsyncIterator[World]:
    made = World(places)
    await made.start()
    await made.unlock()
    yield made
    await made.stop()
