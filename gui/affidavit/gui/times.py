"""Times and durations as the windows write them (design, Words): hh:mm:ss today, the date before it otherwise."""

from __future__ import annotations

from datetime import datetime, timedelta

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MINUTE, _HOUR, _DAY = 60, 3600, 86400


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
    """`14:02:11` on the day of `now`, `29 Nov 14:02:11` in its year, else `29 Nov 2025 14:02:11`; in `now`'s zone."""
    local = at.astimezone(now.tzinfo)
    time = f"{local:%H:%M:%S}"
    if local.date() == now.date():
        return time
    return f"{day(at, now)} {time}"


def day(at: datetime, now: datetime) -> str:
    """`29 Nov`, with the year where it is not that of `now`."""
    local = at.astimezone(now.tzinfo)
    date = f"{local.day} {_MONTHS[local.month - 1]}"
    return date if local.year == now.year else f"{date} {local.year}"


def signed_on(now: datetime) -> str:
    """`30 Nov 2026, 14:16`: a date that stays readable on its own."""
    return f"{now.day} {_MONTHS[now.month - 1]} {now.year}, {now:%H:%M}"


def span(length: timedelta) -> str:
    """A duration, rounded down: `45 s`, `12 min`, `3 h`, `4 d`. Minutes go up to two hours, hours up to two days."""
    seconds = max(0, int(length.total_seconds()))
    if seconds < _MINUTE:
        return f"{seconds} s"
    if seconds < 2 * _HOUR:
        return f"{seconds // _MINUTE} min"
    if seconds < 2 * _DAY:
        return f"{seconds // _HOUR} h"
    return f"{seconds // _DAY} d"
