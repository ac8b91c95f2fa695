"""Times and durations as the windows write them (design, Words): hh:mm:ss today, the date before it otherwise."""

from __future__ import annotations

from datetime import datetime, timedelta

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def parse(text: object) -> datetime | None:
    """An RFC 3339 time of an envelope as an aware datetime; None for null, or for what is no such time."""
    if not isinstance(text, str):
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at if at.tzinfo is not None else None


def clock(at: datetime, now: datetime) -> str:
    """`14:02:11` on the day of `now`, `29 Nov 2026, 14:02:11` on any other, in the zone of `now`."""
    local = at.astimezone(now.tzinfo)
    return f"{local:%H:%M:%S}" if local.date() == now.date() else f"{_date(local)}, {local:%H:%M:%S}"


def signed_on(now: datetime) -> str:
    """`30 Nov 2026, 14:16`: a date that stays readable on its own."""
    return f"{_date(now)}, {now:%H:%M}"


def length(of: timedelta) -> str:
    """A duration in one unit, rounded down: `45 s`, `12 min`, `3 h`, `4 d`.

    Minutes go up to two hours and hours up to two days, unless the larger unit says it exactly.
    """
    seconds = max(int(of.total_seconds()), 0)
    for unit, name, least in ((86_400, "d", 172_800), (3_600, "h", 7_200), (60, "min", 60)):
        if seconds >= least or (seconds and seconds % unit == 0):
            return f"{seconds // unit} {name}"
    return f"{seconds} s"


def _date(at: datetime) -> str:
    return f"{at.day} {_MONTHS[at.month - 1]} {at.year}"
