"""What the page of SSH hosts says: each entry, its way and its keys. Plain data, no Qt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from affidavit.broker.api import Json
from affidavit.gui import texts_unknown as texts
from affidavit.gui.runs import Line, Mark, Run, plain, revealed
from affidavit.gui.unknown_view import with_remedy

SHOWN = 200
"""Entries on the page; `affidavit host list` has them all."""
SKIPPED_SHOWN = 5
"""Skipped lines of an imported file that are named."""


@dataclass(frozen=True, slots=True)
class KeyRow:
    """One pinned key. `fingerprint` is as OpenSSH prints it."""

    algorithm: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class HostRow:
    """One entry. `name` is what the broker knows it by; everything else is what is shown."""

    name: str
    title: str
    policy: str
    way: tuple[Line, ...]
    keys: tuple[KeyRow, ...]
    note: str
    """A sentence where no key is known, or keys were revoked; else empty."""


def hosts(rows: Sequence[Json]) -> tuple[HostRow, ...]:
    """The rows of `hosts`, by name."""
    return tuple(map(_host, rows[:SHOWN]))


def count_line(rows: Sequence[Json]) -> str:
    """How many entries there are, and how many are shown."""
    if len(rows) > SHOWN:
        return texts.HOSTS_CUT.format(shown=SHOWN, n=len(rows))
    return texts.counted(len(rows), *texts.HOSTS_COUNT) if rows else ""


def refused(code: str, message: str, remedy: str | None) -> str:
    """Why no entries are shown: that the vault is locked, or the broker's own words."""
    return texts.HOSTS_LOCKED if code == "locked" else with_remedy(message, remedy)


def imported(found: Json) -> str:
    """What an import did, with the first of what it skipped."""
    parts = [texts.counted(len(found["added"]), *texts.IMPORTED_ADDED)]
    parts.append(texts.counted(len(found["changed"]), *texts.IMPORTED_CHANGED))
    skipped = found["skipped"]
    parts += [
        texts.IMPORTED_SKIPPED.format(line=each["line"], why=plain(revealed(each["why"])))
        for each in skipped[:SKIPPED_SHOWN]
    ]
    if len(skipped) > SKIPPED_SHOWN:
        parts.append(texts.counted(len(skipped) - SKIPPED_SHOWN, *texts.IMPORTED_MORE))
    return " ".join(parts)


def _host(row: Json) -> HostRow:
    keys = tuple(KeyRow(key["algorithm"], key["fingerprint"]) for key in row["host_keys"])
    policy = str(row["policy"])
    notes = [] if keys else [texts.HOST_NO_KEY[policy]]
    if row["revoked"]:
        notes.append(texts.counted(len(row["revoked"]), *texts.HOST_REVOKED))
    return HostRow(
        name=row["name"],
        title=plain(revealed(row["name"])),
        policy=texts.HOST_POLICY.format(policy=policy),
        way=_way(row),
        keys=keys,
        note=" ".join(notes),
    )


def _way(row: Json) -> tuple[Line, ...]:
    address = f"[{row['address']}]" if ":" in row["address"] else row["address"]
    first = (*revealed(f"{row['user']}@"), *revealed(address, Mark.STRONG), *revealed(f":{row['port']}"))
    lines: list[Line] = [first]
    if row["jump"]:
        lines.append((Run(f"{texts.HOST_THROUGH} ", Mark.FAINT), *revealed(row["jump"])))
    lines.append((Run(f"{texts.HOST_WITH} ", Mark.FAINT), *revealed(row["credential"])))
    return tuple(lines)
