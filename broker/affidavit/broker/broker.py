"""The broker of one home, put together: journal, vault, recovery, then the two sides that others may call.

`Broker.open` is given a prepared home whose lock the caller holds. Everything runs on the loop that opened it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from affidavit.broker.agent import AgentSide
from affidavit.broker.core import Core
from affidavit.broker.home import Places
from affidavit.broker.limits import Limits
from affidavit.broker.moment import Clock, SystemClock
from affidavit.broker.operator import OperatorSide
from affidavit.broker.recovery import recover
from affidavit.broker.terms import Kind
from affidavit.broker.vault import Vault
from affidavit.broker.wire.exchange import DirectWire
from affidavit.broker.wire.port import HttpWire
from affidavit.journal import Journal, remove_unfinished, result_names
from affidavit.resources import __version__

TEND_S = 15.0
"""How often spooled requests, ended grants, idle time, free space and what is to be deleted are looked at."""


class Broker:
    """A running broker: `agent` for the agent socket, `operator` for everything a person does."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.agent = AgentSide(core)
        self.operator = OperatorSide(core)

    @classmethod
    async def open(
        cls,
        places: Places,
        *,
        mode: str = "serve",
        clock: Clock | None = None,
        wire: HttpWire | None = None,
        vault: Vault | None = None,
        limits: Limits | None = None,
    ) -> Broker:
        """Open the journal (no passphrase needed), recover, and record BROKER_STARTED.

        `mode` is `tray` or `serve`. Raises a VaultError (the device secret), a journal DatabaseError or SettingRefused.
        """
        clock = clock or SystemClock()
        vault = vault or Vault(places)
        loop = asyncio.get_running_loop()
        journal = await loop.run_in_executor(None, lambda: open_journal(places, vault, clock))
        try:
            await loop.run_in_executor(None, remove_unfinished, places.results)
            left = await loop.run_in_executor(None, result_names, places.results)
            core = Core(places, vault, journal, wire or DirectWire(), clock, limits=limits or Limits())
            clean = core.projection.last_stop_was_clean()
            recovered = await loop.run_in_executor(None, recover, core.projection)
            core.projection.note(
                Kind.BROKER_STARTED,
                {"version": __version__, "mode": mode, "clean": clean, "recovered": len(recovered)},
                barrier=True,
            )
        except BaseException:
            journal.close()
            raise
        broker = cls(core)
        core.spawn(core.retention.remove_orphans(left))
        core.jobs.resume()
        core.spawn(broker._tend(idle_lock=mode == "tray"))
        return broker

    @property
    def limits(self) -> Limits:
        return self.core.limits

    async def shutdown(self, why: str) -> None:
        """End what is not dispatched, wait for what is. When it returns, every call has its answer."""
        await self.core.shutdown(why)

    async def close(self) -> None:
        """Close journal and vault. Nothing is called afterwards."""
        await asyncio.get_running_loop().run_in_executor(None, self.core.close)

    async def _tend(self, *, idle_lock: bool) -> None:
        while True:
            if idle_lock:
                with self._going_on():
                    await self.core.lock_if_idle()
            with self._going_on():
                self.core.sweep()
            with self._going_on():
                await self.core.tend_storage()
            await asyncio.sleep(TEND_S)

    @contextmanager
    def _going_on(self) -> Iterator[None]:
        """Whatever goes wrong in here is told, and ends nothing else: the idle lock least of all."""
        try:
            yield
        except Exception as error:
            self.core.loop.call_exception_handler({"message": "tending failed", "exception": error})


def open_journal(places: Places, vault: Vault, clock: Clock) -> Journal:
    """The journal of a home whose lock is held; needs the device secret alone. Blocks on the keyring, bounded."""
    keys = vault.device_keys()
    with keys.journal as key, keys.digests:
        return key.use(lambda lent: Journal.open(places.journal, bytes(lent), clock=clock.wall))
