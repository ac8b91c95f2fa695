"""Exceptions that nobody caught: logged by type and place, never by message, which may hold what must not be told."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from types import TracebackType

from affidavit.gui.bridge import described

log = logging.getLogger("affidavit.gui")


def install(told: Callable[[str], None]) -> None:
    """Log such exceptions from now on, and tell `told` of those on the main thread. PySide's slots end here too."""

    def hook(_kind: type[BaseException], error: BaseException, _trace: TracebackType | None) -> None:
        what = described(error)
        log.error("nobody caught %s", what)
        told(what)

    def thread_hook(args: threading.ExceptHookArgs) -> None:
        if args.exc_value is not None:
            log.error("nobody caught %s on thread %s", described(args.exc_value), args.thread and args.thread.name)

    sys.excepthook = hook
    threading.excepthook = thread_hook
