"""The contracts that come with the program: what well-known services promise, each promise with its source and date.

One TOML file a contract, named for its id; `docs/contracts.md` is their grammar, `docs/contract-library.md` their list.
What was not confirmed is left out: its absence makes an outcome unknown, not wrong.
"""

from __future__ import annotations

from importlib.resources import files


def texts() -> dict[str, str]:
    """Every built-in contract's text by file name, in the order of the names."""
    found = (entry for entry in files(__name__).iterdir() if entry.name.endswith(".toml"))
    return {entry.name: entry.read_text(encoding="utf-8") for entry in sorted(found, key=lambda entry: entry.name)}
