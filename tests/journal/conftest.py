"""A journal of its own for each test; time stands still unless a test moves it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from nacl.public import PrivateKey

from affidavit.journal import ActionRow, Draft, Journal, Opener, Reader

KEY = bytes(range(32))
WAIT_S = 30.0


@dataclass
class Clock:
    """Wall microseconds that a test moves."""

    now: int = 1_785_000_000_000_000

    def __call__(self) -> int:
        return self.now


@dataclass
class Home:
    """Where one journal lies, and all that opens it."""

    path: Path
    private_key: PrivateKey
    key: bytes = KEY
    clock: Clock = field(default_factory=Clock)
    _open: list[Journal | Reader] = field(default_factory=list)

    def journal(self, lazy_s: float = 3600.0) -> Journal:
        """Open the journal; lazily appended records wait for a barrier unless told otherwise."""
        journal = Journal.open(self.path, self.key, clock=self.clock, lazy_s=lazy_s)
        self._open.append(journal)
        return journal

    def reader(self) -> Reader:
        reader = Reader.open(self.path, self.key)
        self._open.append(reader)
        return reader

    def opener(self) -> Opener:
        return Opener(bytes(self.private_key))

    def close(self) -> None:
        while self._open:
            self._open.pop().close()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    private_key = PrivateKey.generate()
    made = Home(tmp_path / "journal.db", private_key)
    Journal.create(made.path, made.key, bytes(private_key.public_key))
    yield made
    made.close()


@pytest.fixture
def journal(home: Home) -> Journal:
    return home.journal()


@pytest.fixture
def reader(home: Home, journal: Journal) -> Reader:
    return home.reader()


DraftOf = Callable[..., Draft]
RowOf = Callable[..., ActionRow]


@pytest.fixture
def draft() -> DraftOf:
    def make(kind: str = "ACTION_ACCEPTED", invocation_id: str | None = "act_1", **payload: object) -> Draft:
        return Draft(kind, invocation_id, payload, at=1_785_000_000_000_000)

    return make


@pytest.fixture
def row() -> RowOf:
    def make(invocation_id: str = "act_1", state: str = "open", **facts: object) -> ActionRow:
        facts.setdefault("operation_id", f"op_{invocation_id}")
        return ActionRow(invocation_id=invocation_id, state=state, **facts)  # type: ignore[arg-type]

    return make
