"""The open alerts on the overview, and the small window that closes one (R67)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QVBoxLayout, QWidget

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
from affidavit.gui.widgets.reflow import Reflow

_WORDS = SignWords(
    texts.ALERT_CLOSE, texts.ALERT_CLOSE_ENTER, texts.ALERT_CLOSE_NEEDED, texts.ALERT_CLOSING, icon="end"
)

_SAYS_WIDTH = 180
"""Where a sentence would have less, it stands under its time."""


class AlertsPanel(Panel):
    """Each alert as its sentence, the newest first; programs and targets in it are foreign text."""

    def __init__(self, bridge: Bridge, now: Callable[[], datetime]) -> None:
        super().__init__(PanelKind.SUNKEN)
        self._bridge, self._now = bridge, now
        self._shown: tuple[Alert, ...] = ()
        self.rows: list[AlertRow] = []
        self.closing: CloseAlert | None = None
        column = QVBoxLayout(self)
        column.setContentsMargins(16, 14, 16, 14)
        column.setSpacing(8)
        column.addWidget(Heading(texts.ALERTS, icon="warning", icon_token="ink"))
        self._list = QVBoxLayout()
        self._list.setSpacing(8)
        column.addLayout(self._list)
        self.hide()

    def show_alerts(self, alerts: tuple[Alert, ...]) -> None:
        """Show these. Where they are the same as before, nothing is built anew and the focus stays."""
        if alerts == self._shown:
            return
        self._shown = alerts
        for old in self.rows:
            self._list.removeWidget(old)
            old.deleteLater()
        self.rows = [AlertRow(alert, self._now()) for alert in reversed(alerts)]
        widest = max((row.since.sizeHint().width() for row in self.rows), default=0)
        for row in self.rows:
            row.since.setMinimumWidth(widest)
            row.close_asked.connect(self.ask)
            self._list.addWidget(row)
        self.setVisible(bool(alerts))

    @Slot(object)
    def ask(self, alert: Alert) -> None:
        """Show the window that closes this alert."""
        self.closing = CloseAlert(alert, self._bridge, self.window())
        self.closing.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.closing.finished.connect(self._closed)
        self.closing.open()

    @Slot()
    def _closed(self) -> None:
        self.closing = None


class AlertRow(QWidget):
    """One alert: since when, above its sentence where they do not stand side by side, and the button."""

    close_asked = Signal(object)
    """The alert."""

    def __init__(self, alert: Alert, now: datetime) -> None:
        super().__init__()
        self.since = MonoLabel(times.clock(alert.at, now) if alert.at else "")
        self.says = RunsLabel([revealed(alert.says)])
        self.says.setMinimumWidth(theme.scaled(_SAYS_WIDTH))
        self.button = QPushButton(texts.ALERT_CLOSE_ASK)
        self.button.setProperty("kind", theme.SMALL)
        self.button.setAutoDefault(False)
        self.button.setAccessibleDescription(plain(revealed(alert.says)))
        self.button.clicked.connect(lambda _checked=False: self.close_asked.emit(alert))
        said, words = QWidget(), Reflow()
        said.setLayout(words)
        words.add(self.since, 0)
        words.add(self.says)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(12)
        row.addWidget(said, 1, Qt.AlignmentFlag.AlignVCenter)
        row.addWidget(self.button, 0, Qt.AlignmentFlag.AlignVCenter)


class CloseAlert(SignedCall):
    """One alert, and what closing it does."""

    def __init__(self, alert: Alert, bridge: Bridge, parent: QWidget | None = None) -> None:
        says = revealed(alert.says)
        body = (RunsLabel([says]), Label(texts.ALERT_CLOSE_WHAT, token="ink2", wrap=True))
        alert_id = alert.alert_id
        super().__init__(
            bridge, _WORDS, body, plain(says), lambda api, passphrase: api.alert_close(alert_id, passphrase), parent
        )
