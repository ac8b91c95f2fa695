"""A prepared home on this disk and a key derivation that costs next to nothing."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from affidavit.broker.home import Places
from affidavit.broker.vault import KdfParams, KeyringStore, Vault

CHEAP = KdfParams(memory_kib=8, iterations=1, lanes=1)


@dataclass
class MemoryKeyring:
    """A keyring backend in memory. With `blocked` it answers only once `answer` is set."""

    entries: dict[tuple[str, str], str] = field(default_factory=dict)
    fails: Exception | None = None
    blocked: bool = False
    answer: threading.Event = field(default_factory=threading.Event)
    calls: list[str] = field(default_factory=list)

    def _enter(self, call: str) -> None:
        self.calls.append(call)
        if self.blocked:
            self.answer.wait()
        if self.fails is not None:
            raise self.fails

    def get_password(self, service: str, username: str) -> str | None:
        self._enter("get")
        return self.entries.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self._enter("set")
        self.entries[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        self._enter("delete")
        del self.entries[service, username]


@pytest.fixture
def keyring() -> Iterator[MemoryKeyring]:
    backend = MemoryKeyring()
    yield backend
    backend.answer.set()


@pytest.fixture
def store(keyring: MemoryKeyring) -> KeyringStore:
    return KeyringStore(backend=lambda: keyring, wait_s=30)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    found = Places.at(tmp_path / "home")
    found.prepare(file_system=lambda _: None)
    return found


@pytest.fixture
def vault(places: Places, store: KeyringStore) -> Iterator[Vault]:
    made = Vault.create(places, bytearray(b"correct horse"), keyring=True, kdf=CHEAP, store=store)
    yield made
    made.close()
