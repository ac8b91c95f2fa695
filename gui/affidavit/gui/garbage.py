"""The collection of garbage, kept to the windows' thread.

The interpreter collects on whichever thread happens to allocate. What dies in a cycle there may be a window, and Qt
lets nothing that it shows be deleted on a thread other than its own: the process would end at a random moment, with
actions in flight. So in a process with windows no thread collects by itself, and a timer of the main thread does.
"""

from __future__ import annotations

import gc

from PySide6.QtCore import QObject, QTimer, Slot

EVERY_MS = 500
OLDER_EVERY = 10
"""So many collections of a generation go before one of the next older, as the interpreter's own thresholds have it."""


class Collector(QObject):
    """Made on the main thread before any other starts. Collection stays off elsewhere until the process ends, since
    windows may outlive this object."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        gc.disable()
        self._young = 0
        self._timer = QTimer(self)
        self._timer.setInterval(EVERY_MS)
        self._timer.timeout.connect(self.look)
        self._timer.start()

    @Slot()
    def look(self) -> None:
        """Collect, where as much was allocated since the last time as the interpreter would have waited for."""
        if gc.get_count()[0] <= gc.get_threshold()[0]:
            return
        self._young += 1
        if self._young % OLDER_EVERY**2 == 0:
            gc.collect()
        elif self._young % OLDER_EVERY == 0:
            gc.collect(1)
        else:
            gc.collect(0)
