"""What one part of an open vault holds, in memory: read without waiting for the database."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from affidavit.broker.vault.access import Access
from affidavit.broker.vault.errors import VaultLocked
from affidavit.journal.sqlcipher import Connection

T = TypeVar("T")
V = TypeVar("V")


class Snapshot(Generic[V]):
    """The value that `select` reads, as of the last commit. Any thread may call.

    It is taken over in the vault's own turn, when the vault opens and with each change: no thread puts an older state
    over a newer one.
    """

    def __init__(self, access: Access, select: Callable[[Connection], V]) -> None:
        self._access = access
        self._select = select
        self._held: tuple[V] | None = None

    def get(self) -> V:
        """The value. VaultLocked unless the vault is open."""
        if (held := self._held) is None:
            raise VaultLocked
        return held[0]

    def change(self, work: Callable[[Connection], T]) -> T:
        """One transaction of `access.Access`, and the value that it leaves."""
        return self._access.write(lambda database: (work(database), self._select(database)), self._took)[0]

    def load(self, database: Connection) -> None:
        """For the vault, when it opens."""
        self._held = (self._select(database),)

    def unload(self) -> None:
        """For the vault, when it locks."""
        self._held = None

    def _took(self, changed: tuple[Any, V]) -> None:
        self._held = (changed[1],)
