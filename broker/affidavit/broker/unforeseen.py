"""Exceptions that nobody foresaw are told by type and place alone: their text, like the variables of their frames, may
hold what was sent or a secret (R12)."""

from __future__ import annotations

import asyncio
import logging
import traceback
from typing import Any

_log = logging.getLogger(__name__)


def told(error: BaseException) -> str:
    """`ValueError at FILE:LINE`, where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "nowhere"
    return f"{type(error).__name__} at {place}"


def handler(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """A loop's exception handler, in place of asyncio's, which prints text, traceback and a callback's arguments."""
    error = context.get("exception")
    what = str(context.get("message", "a part of the broker failed")).partition("(")[0]
    _log.error("%s: %s.", what, told(error) if isinstance(error, BaseException) else "no exception was given")
