"""How the parts of the vault reach its open database."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from affidavit.journal.sqlcipher import Connection

T = TypeVar("T")


class Access(Protocol):
    """One turn at the database, alone. VaultLocked if it is not open; VaultDamaged or VaultUnavailable from below."""

    def read(self, work: Callable[[Connection], T]) -> T: ...

    def write(self, work: Callable[[Connection], T], took: Callable[[T], None] | None = None) -> T:
        """In one transaction: committed and on the disk when this returns, and undone if `work` raises.

        `took` is called with the result after the commit, in the same turn.
        """
