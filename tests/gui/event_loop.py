"""Waiting in the tools that take pictures. QTest.qWait is no way to wait for the broker: in PySide6 it holds the
interpreter's lock, so that the broker's thread stands still until it ends."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEventLoop, QTimer

_LOOK_MS = 10
_MOST = 1000
"""Looks, after which whatever is waited for will not come."""


def spin(milliseconds: int) -> None:
    """Let events and other threads run so long."""
    loop = QEventLoop()
    QTimer.singleShot(milliseconds, loop.quit)
    loop.exec()


def until(ready: Callable[[], bool]) -> None:
    """Let events and other threads run until `ready`. TimeoutError after 10 s."""
    for _ in range(_MOST):
        if ready():
            return
        spin(_LOOK_MS)
    raise TimeoutError("the broker does not answer")
