"""P2: how many commits an action makes, and what the system calls of the real broker show of their order."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from arena import LIMIT_S, Arena
from effort import Effort, progress
from goals import Finding, Holds

from affidavit.broker.api import ActionError
from affidavit.broker.broker import Broker
from affidavit.broker.card import Decision
from affidavit.broker.home import Places
from affidavit.broker.session import Process, Provenance, Session
from affidavit.broker.terms import SessionId
from affidavit.broker.vault import Vault
from affidavit.broker.vault.keys import KdfParams
from affidavit.broker.wire.dial import Address
from affidavit.broker.wire.exchange import DirectWire
from affidavit.ipc.client import Client, new_operation_id
from affidavit.ipc.demo.stage import CLI
from affidavit.journal import Journal

WANTED = {
    "nobody asked, settled": 2,
    "with a card": 3,
    "answered pending": 3,
    "with a card and answered pending": 3,
    "ends before dispatch": 1,
    "denied on its card": 2,
}
"""Journal commits of one action, one caller (performance, P2)."""

_PASSPHRASE = b"bench"
_CHEAP = KdfParams(memory_kib=64, iterations=1, lanes=1)
_CONTRACT = """id = "bench.{name}"
title = "What is counted"
[match]
kind = "http"
method = ["{method}"]
url = "{origin}/**"
[effect]
kind = "{effect}"
[approval]
mode = "{mode}"
[retry]
setup = 1
"""


def p2(arena: Arena, _: Effort) -> list[Finding]:
    progress("P2, commits per action")
    made = asyncio.run(commits_of_actions(arena.root / "p2", arena.http))
    found = [
        Finding("P2", f"commits: {what}", count, Holds.EXACTLY, WANTED[what], "the journal's counter, exact")
        for what, count in made.items()
    ]
    progress("P2, the order of system calls")
    return [*found, *_order(arena)]


async def commits_of_actions(directory: Path, origin: str) -> dict[str, int]:
    """The journal's commits for each kind of action in WANTED, on a real home in `directory` (not there yet) and the
    real wire to `origin`, an HTTP service on loopback that answers anything with 200."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound and never listening: whoever connects is refused
        nobody = f"http://127.0.0.1:{closed.getsockname()[1]}"
        counting = await _Counting.open(directory, origin, nobody)
        try:
            return await counting.all()
        finally:
            await counting.close()


class _Counting:
    """A broker in this process, an agent's session, and an operator who decides as told."""

    def __init__(self, broker: Broker, origin: str, nobody: str, resolved: threading.Event) -> None:
        self._broker = broker
        self._resolved = resolved
        self._read = {"method": "GET", "url": f"{origin}/v1/account"}
        self._slow = {"method": "GET", "url": f"{_named(origin)}/v1/account"}
        """Waits for its look-up, so that `pending` is answered while nothing is sent yet."""
        self._write = {"method": "POST", "url": f"{origin}/v1/payments"}
        self._refused = {"method": "GET", "url": f"{nobody}/v1/account"}
        process = Process(os.getpid(), 1, "bench", "/usr/bin/bench", "/", 1, 1)
        self._session = Session(SessionId("bench"), Provenance(os.getuid(), process, process))
        broker.agent.session_started(self._session)

    @classmethod
    async def open(cls, directory: Path, origin: str, nobody: str) -> _Counting:
        home = Places.at(directory, named_by="AFFIDAVIT_HOME")
        home.prepare()
        vault = Vault.create(home, bytearray(_PASSPHRASE), keyring=False, kdf=_CHEAP)
        with vault.device_keys().journal as key:
            key.use(lambda lent: Journal.create(home.journal, bytes(lent), vault.journal_public_key()))
        vault.close()
        resolved = threading.Event()
        broker = await Broker.open(home, wire=DirectWire(resolve=partial(_resolve, resolved)))
        broker.core.journal._lazy_s = 3600.0  # a slow machine must not turn what rides along into a commit of its own
        await broker.operator.unlock(bytearray(_PASSPHRASE), program="bench")
        asked = (
            ("read", "GET", "read", "never", origin),
            ("slow", "GET", "read", "never", _named(origin)),
            ("write", "POST", "write", "always", origin),
            ("refused", "GET", "read", "never", nobody),
        )
        for name, method, effect, mode, at in asked:
            text = _CONTRACT.format(name=name, method=method, effect=effect, mode=mode, origin=at)
            await broker.operator.contract_adopt([(f"{name}.toml", text)], bytearray(_PASSPHRASE))
        return cls(broker, origin, nobody, resolved)

    async def close(self) -> None:
        await self._broker.shutdown("bench")
        await self._broker.close()

    async def all(self) -> dict[str, int]:
        plays: dict[str, Callable[[], Awaitable[None]]] = {
            "nobody asked, settled": lambda: self._settles(self._read),
            "with a card": lambda: self._decided(self._write, approve=True),
            "answered pending": lambda: self._settles(self._slow, wait_s=0),
            "with a card and answered pending": lambda: self._decided(self._write, approve=True, wait_s=0),
            "ends before dispatch": lambda: self._settles(self._refused),
            "denied on its card": lambda: self._decided(self._write, approve=False),
        }
        return {what: await self._counted(play) for what, play in plays.items()}

    async def _counted(self, play: Callable[[], Awaitable[None]]) -> int:
        await self._broker.core.projection.flush().durable()
        before = self._broker.core.journal.counters.commits
        await play()
        return self._broker.core.journal.counters.commits - before

    async def _settles(self, request: Mapping[str, Any], **more: Any) -> None:
        self._resolved.clear()
        given = await self._ask({**request, **more})
        self._resolved.set()
        if "pending" in given:
            await self._wait(given["invocation_id"])

    async def _decided(self, request: Mapping[str, Any], *, approve: bool, **more: Any) -> None:
        asking = asyncio.ensure_future(self._ask({**request, **more}))
        card = await self._card()
        given = await asking if "wait_s" in more else None
        await self._broker.operator.decide(card, Decision(approve))
        given = given or await asking
        if "pending" in given:
            await self._wait(given["invocation_id"])

    async def _ask(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            return await self._broker.agent.http_request(self._session, {"wait_s": 60, **params})
        except ActionError as ended:
            return ended.envelope

    async def _wait(self, invocation_id: str) -> None:
        try:
            await self._broker.agent.action_wait(self._session, invocation_id=invocation_id, wait_s=60)
        except ActionError:
            pass

    async def _card(self) -> Any:
        """The invocation whose card waits, once there is one."""
        there = asyncio.Event()
        stop = self._broker.operator.on_status(lambda status: there.set() if status["cards"] else None)
        try:
            await there.wait()
        finally:
            stop()
        return self._broker.operator.cards()[0].invocation_id


def _named(origin: str) -> str:
    """The same origin by a name that has to be looked up."""
    return origin.replace("127.0.0.1", "localhost")


def _resolve(resolved: threading.Event, _host: str, port: int) -> Sequence[Address]:
    if not resolved.wait(LIMIT_S):
        raise TimeoutError
    return [Address(socket.AF_INET, "127.0.0.1", port)]


def _order(arena: Arena) -> list[Finding]:
    """What `strace` sees of a read that nobody is asked about, on the real broker."""
    what = "syncs before the first byte; in all before the reply"
    if shutil.which("strace") is None:
        return [Finding("P2", what, None, Holds.EXACTLY, 2, "strace is not installed")]
    if os.geteuid() != 0:
        return [Finding("P2", what, None, Holds.EXACTLY, 2, "the broker closes itself to tracers: only root can look")]
    from tests.e2e.trace import CALLS, Event, What, events

    log = arena.root / "trace"
    tracer = ("strace", "-f", "--seccomp-bpf", "-qq", "-s", "0", "-o", str(log), "-e", f"trace={CALLS}")
    stage = arena.broker("traced", command=(*tracer, *CLI))
    for _ in range(3):  # the first of a session records more, and a new log takes more syncs
        with Client.agent(stage.environment()) as agent:
            url = f"{arena.http}/v1/account"
            agent.call("http.request", {"method": "GET", "url": url, "operation_id": new_operation_id()})
    with Client.operator(stage.environment()) as operator:
        os.kill(operator.call("operator.hello")["pid"], signal.SIGTERM)
    stage.ended()
    home = stage.home
    lines = log.read_text().splitlines()
    seen = events(lines, agent_socket=str(home.agent_socket), journal=str(home.journal), port=arena.http_port)
    start = [event for event in seen if event.what is What.ACCEPTED][-1]
    own = [event for event in seen if event.began > start.ended]

    def first(kind: What) -> Event:
        return next(event for event in own if event.what is kind)

    synced = [event for event in own if event.what is What.SYNCED]
    before_send = sum(sync.ended < first(What.SENT).began for sync in synced)
    before_reply = sum(sync.ended < first(What.REPLIED).began for sync in synced)
    return [
        Finding(
            "P2", "syncs that returned before the first byte", before_send, Holds.EXACTLY, 1, "strace, real broker"
        ),
        Finding("P2", "syncs that returned before the reply", before_reply, Holds.EXACTLY, 2, "strace, real broker"),
    ]
