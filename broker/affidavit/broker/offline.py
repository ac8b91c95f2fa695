"""Operator's changes while no broker runs: take the home, open vault and journal, change, record, go.

No recovery, no agents, no wire: what an earlier run left open stays as it is for the next broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from affidavit.broker.api import OperatorRefused
from affidavit.broker.broker import open_journal
from affidavit.broker.core import Core
from affidavit.broker.home import HomeLock, Places
from affidavit.broker.limits import Limits
from affidavit.broker.moment import SystemClock
from affidavit.broker.operator import OperatorSide, refused
from affidavit.broker.settings import SettingRefused
from affidavit.broker.vault import Vault
from affidavit.broker.vault.errors import VaultError
from affidavit.broker.wire.exchange import DirectWire
from affidavit.journal import StorageError

PROGRAM = "affidavit, no broker running"


@asynccontextmanager
async def offline_operator(places: Places) -> AsyncIterator[OperatorSide]:
    """The operator's side of a home that no broker runs. Raises HomeBusy, HomeRefused, OperatorRefused."""
    places.prepare()
    with HomeLock(places, program=PROGRAM):
        core = await _open(places)
        try:
            yield OfflineOperator(core)
        finally:
            await asyncio.get_running_loop().run_in_executor(None, core.close)


class OfflineOperator(OperatorSide):
    """The same calls; the passphrase opens the vault, which closes with the command."""

    async def check_passphrase(self, passphrase: bytearray) -> None:
        await self.unlock(passphrase, program=PROGRAM)


async def _open(places: Places) -> Core:
    vault = Vault(places)
    clock = SystemClock()
    try:
        journal = await asyncio.get_running_loop().run_in_executor(None, open_journal, places, vault, clock)
        return Core(places, vault, journal, DirectWire(), clock, limits=Limits())
    except VaultError as error:
        raise refused(error) from None
    except StorageError as error:
        raise OperatorRefused("unavailable", str(error), remedy=error.remedy) from None
    except SettingRefused as error:
        raise OperatorRefused("invalid", str(error), field=error.key, remedy=error.remedy) from None
