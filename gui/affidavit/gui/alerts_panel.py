"""The open alerts on the overview, and the small window that closes one (R67)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from PySide6.QtCore import Qt, Slot
from PySide6.QtWidgets import QGridLayout, QPushButton, QVBoxLayout, QWidget

from affidavit.gui import texts_unknown as texts
from affidavit.gui import theme, times
from affidavit.gui.bridge import Bridge
from affidavit.gui.headings import Heading
from affidavit.gui.runs import plain, revealed
from affidavit.gui.sign_window import SignWords
from affidavit.gui.signed_call import SignedCall
from affidavit.gui.status import Alert
from affidavit.gui.widgets.label import Label, MonoLabel, RunsLabel
from affidavit.gui.widgets.panel import Panel, PanelKind

_WORDS = SignWords(
    texts.ALERT_CLOSE, texts.ALERT_CLOSE_ENTER, texts.ALERT_CLOSE_NEEDED, texts.ALERT_CLOSING, icon="end"
)


class AlertsPanel(Panel):
    """Each alert as its sentence, the newest first; programs and targets in it are foreign text."""

    def __init__(self, bridge: Bridge, now: Callable[[], datetime]) -> None:
        super().__init__(PanelKind.SUNKEN)
        self._bridge, self._now = bridge, now
        self._shown: tuple[Alert, ...] = ()
        self._cells: list[QWidget] = []
        self.closing: CloseAlert | None = None
        column = QVBoxLayout(self)
        column.setContentsMargins(16, 14, 16, 14)
        column.setSpacing(8)
        column.addWidget(Heading(texts.ALERTS, icon="warning", icon_token="ink"))
        self._grid = QGridLayout()
        self._grid.setHorizontalSpacing(12)
        self._grid.setVerticalSpacing(8)
        self._grid.setColumnStretch(1, 1)
        column.addLayout(self._grid)
        self.hide()

    def show_alerts(self, alerts: tuple[Alert, ...]) -> None:
        """Show these. Where they are the same as before, nothing is built anew and the focus stays."""
        if alerts == self._shown:
            return
        self._shown = alerts
        for old in self._cells:
            old.deleteLater()
        self._cells = []
        for row, alert in enumerate(reversed(alerts)):
            since = MonoLabel(times.clock(alert.at, self._now()) if alert.at else "")
            close = QPushButton(texts.ALERT_CLOSE_ASK)
            close.setProperty("kind", theme.SMALL)
            close.setAutoDefault(False)
            close.setAccessibleDescription(plain(revealed(alert.says)))
            close.clicked.connect(lambda _checked=False, alert=alert: self.ask(alert))
            for at, cell in enumerate((since, RunsLabel([revealed(alert.says)]), close)):
                self._grid.addWidget(cell, row, at, Qt.AlignmentFlag.AlignVCenter)
                self._cells.append(cell)
        self.setVisible(bool(alerts))

    def ask(self, alert: Alert) -> None:
        """Show the window that closes this alert."""
        self.closing = CloseAlert(alert, self._bridge, self.window())
        self.closing.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.closing.finished.connect(self._closed)
        self.closing.open()

    @Slot()
    def _closed(self) -> None:
        self.closing = None


class CloseAlert(SignedCall):
    """One alert, and what closing it does."""

    def __init__(self, alert: Alert, bridge: Bridge, parent: QWidget | None = None) -> None:
        says = revealed(alert.says)
        body = (RunsLabel([says]), Label(texts.ALERT_CLOSE_WHAT, token="ink2", wrap=True))
        alert_id = alert.alert_id
        super().__init__(
            bridge, _WORDS, body, plain(says), lambda api, passphrase: api.alert_close(alert_id, passphrase), parent
        )
