"""SIGTERM, SIGINT and SIGHUP for Qt, whose loop does not let Python's handlers run until something wakes it."""

from __future__ import annotations

import signal
import socket

from PySide6.QtCore import QObject, QSocketNotifier, Signal, Slot

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class UnixSignals(QObject):
    """`asked` once for the first signal; the second one ends the process as if nobody listened. Main thread only."""

    asked = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._ours, theirs = socket.socketpair()
        self._theirs = theirs
        for end in (self._ours, theirs):
            end.setblocking(False)
        self._before = {number: signal.getsignal(number) for number in SIGNALS}
        self._wakeup = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        for number in SIGNALS:
            signal.signal(number, lambda *_: None)
        self._notifier = QSocketNotifier(self._ours.fileno(), QSocketNotifier.Type.Read, self)
        self._notifier.activated.connect(self._woken)

    def close(self) -> None:
        """Give the signals back."""
        self._notifier.setEnabled(False)
        signal.set_wakeup_fd(self._wakeup)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._ours.close()
        self._theirs.close()

    @Slot()
    def _woken(self) -> None:
        numbers = set(self._ours.recv(64))
        if numbers & set(SIGNALS):
            for number in SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            self.asked.emit()
