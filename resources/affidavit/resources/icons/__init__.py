"""The icons: SVG text by group and name, as they lie in this folder.

Groups: `app` (the program's own icon, and its symbolic form), `outcome` (one silhouette per outcome), `tray` (one per
state and panel), `ui` (16 grid, black, meant as masks that the windows tint).
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

GROUPS = ("app", "outcome", "tray", "ui")


class IconUnknown(LookupError):
    """No icon has this group and name: a mistake of ours, never of what a user or an agent sent."""


@cache
def names(group: str) -> tuple[str, ...]:
    """The names of one group, sorted. Raises IconUnknown for a group that does not exist."""
    if group not in GROUPS:
        raise IconUnknown(group)
    entries = (files("affidavit.resources.icons") / group).iterdir()
    return tuple(sorted(entry.name.removesuffix(".svg") for entry in entries if entry.name.endswith(".svg")))


@cache
def svg(group: str, name: str) -> bytes:
    """One icon's SVG text. Raises IconUnknown for a group or name that does not exist."""
    if name not in names(group):
        raise IconUnknown(f"{group}/{name}")
    return (files("affidavit.resources.icons") / group / f"{name}.svg").read_bytes()
