"""The contracts in force, built-in and adopted, and the files that wait to be adopted (architecture, Vault and keys).

A file under `config/contracts` that is new or changed matches nothing: its id falls back to the text adopted last.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from affidavit.broker.contract import Contract, ContractRefused, ContractSet, Standing, parse, told
from affidavit.broker.home import Places
from affidavit.broker.vault import Vault
from affidavit.broker.vault.operator import Adopted, Adoption
from affidavit.resources import contracts as library

FILE_MAX = 256 * 1024
"""Bytes of one contract file."""
FILES_MAX = 500


@dataclass(frozen=True, slots=True)
class Pending:
    """A contract file that matches nothing until it is adopted. `problems` are why it cannot be, if it cannot."""

    file: str
    text: str
    contract_id: str | None
    state: str
    """`new`, `changed`, or `refused`."""
    difference: str
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Contracts:
    """A snapshot, taken at unlock and after each adoption."""

    set: ContractSet
    adopted: tuple[Adopted, ...]
    pending: tuple[Pending, ...]

    @classmethod
    def load(cls, vault: Vault, places: Places, *, assume_reads: bool) -> Contracts:
        """Raises VaultLocked. Texts in the vault were checked when they were adopted."""
        adopted = vault.operator.contracts()
        contracts = [*built_in(), *(parse(a.text, file=a.file) for a in adopted)]
        return cls(ContractSet(contracts, assume_reads=assume_reads), adopted, pending(places.contracts, adopted))

    def shown(self) -> list[dict[str, Any]]:
        """`contract.list`: each contract with its effect and the three answers."""
        return [told(contract) for contract in self.set]


@cache
def built_in() -> tuple[Contract, ...]:
    """The contracts that come with the program, parsed once a process."""
    texts = library.texts()
    return tuple(parse(text, file=file, standing=Standing.BUILT_IN) for file, text in texts.items())


def pending(directory: Path, adopted: Sequence[Adopted]) -> tuple[Pending, ...]:
    """Files that are new or changed against what was adopted, by name."""
    texts = {a.file: a for a in adopted}
    found = []
    for path in sorted(directory.glob("*.toml"))[:FILES_MAX]:
        text = _read(path)
        before = texts.get(path.name)
        if text is None:
            found.append(Pending(path.name, "", None, "refused", "", (f"{path.name} is not readable UTF-8 text.",)))
            continue
        if before is not None and before.text == text:
            continue
        found.append(_pending(path.name, text, before, {a.contract_id: a for a in adopted}))
    return tuple(found)


def _pending(file: str, text: str, before: Adopted | None, by_id: Mapping[str, Adopted]) -> Pending:
    try:
        contract = parse(text, file=file)
    except ContractRefused as refused:
        return Pending(file, text, None, "refused", "", tuple(map(str, refused.problems)))
    before = before or by_id.get(contract.id)
    old = before.text.splitlines(keepends=True) if before else []
    lines = difflib.unified_diff(old, text.splitlines(keepends=True), "adopted", file)
    return Pending(file, text, contract.id, "changed" if before else "new", "".join(lines))


def _read(path: Path) -> str | None:
    try:
        with path.open("rb") as opened:
            content = opened.read(FILE_MAX + 1)
        return content.decode() if len(content) <= FILE_MAX else None
    except (OSError, UnicodeDecodeError):
        return None


@dataclass(frozen=True, slots=True)
class Adopting:
    """What an adoption would put in force; checked whole."""

    adoptions: tuple[Adoption, ...]
    contracts: tuple[Contract, ...]


def adopting(files: Iterable[tuple[str, str]], in_force: Sequence[Adopted]) -> Adopting:
    """Check (file name, text) pairs against what is in force. Raises ContractRefused, or ValueError for conflicts."""
    given = tuple(files)
    contracts = tuple(parse(text, file=file) for file, text in given)
    adoptions = tuple(
        Adoption(contract.id, contract.digest, file, text)
        for contract, (file, text) in zip(contracts, given, strict=True)
    )
    ids = {c.id for c in contracts}
    kept = [parse(a.text, file=a.file) for a in in_force if a.contract_id not in ids]
    conflicts = ContractSet([*kept, *contracts]).conflicts()
    if conflicts:
        raise ValueError(" ".join(c.message for c in conflicts))
    return Adopting(adoptions, contracts)
