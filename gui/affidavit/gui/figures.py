"""Numbers, sizes and what is left of a card's time, as a person reads them; `times` has dates and durations."""

from __future__ import annotations

from datetime import datetime, tzinfo

from affidavit.broker.limits import GIB, KIB, MIB
from affidavit.broker.terms import Micros

_SECOND = 1_000_000


def count(number: int) -> str:
    """A whole number with commas: `10,000`."""
    return f"{number:,}"


def size(number: int) -> str:
    """A number of bytes: in MiB, KiB or GiB where that is exact, else in bytes."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if number and number % unit == 0:
            return f"{count(number // unit)} {name}"
    return f"{count(number)} bytes" if number != 1 else "1 byte"


def spoken(seconds: float) -> str:
    """A length of time in whole words, for a screen reader: `1 minute 42 seconds`."""
    minutes, rest = divmod(max(int(seconds), 0), 60)
    parts = []
    if minutes:
        parts.append("1 minute" if minutes == 1 else f"{minutes} minutes")
    if rest or not minutes:
        parts.append("1 second" if rest == 1 else f"{rest} seconds")
    return " ".join(parts)


def countdown(seconds: int) -> str:
    """What is left, as on a watch: `1:42`."""
    minutes, rest = divmod(max(seconds, 0), 60)
    return f"{minutes}:{rest:02d}"


def moment(at: Micros, zone: tzinfo | None = None) -> datetime:
    """Wall time as a datetime in `zone`, the machine's own where None."""
    return datetime.fromtimestamp(at / _SECOND, tz=zone).astimezone(zone)


def clock(at: Micros, zone: tzinfo | None = None) -> str:
    """Hours and minutes: `14:32`."""
    return f"{moment(at, zone):%H:%M}"


def ago(at: Micros, now: Micros) -> str:
    """How long ago in words: `12 minutes ago`; under a minute in seconds."""
    whole = max((now - at) // _SECOND, 0)
    for unit, name in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if whole >= unit:
            n = whole // unit
            return f"1 {name} ago" if n == 1 else f"{count(n)} {name}s ago"
    return "1 second ago" if whole == 1 else f"{whole} seconds ago"
