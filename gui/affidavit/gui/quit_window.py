"""What quitting would interrupt, and the offer to wait (architecture, Lock, quit, crash)."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QDialog, QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from affidavit.gui import texts_unknown as texts
from affidavit.gui.headings import Heading
from affidavit.gui.theme import FocusRing, TextStyle
from affidavit.gui.widgets.fit import fit
from affidavit.gui.widgets.label import Label
from affidavit.gui.widgets.panel import Bar


class QuitWindow(QDialog):
    """Asked once for each wish to quit while actions run; closing it stays open."""

    wait_chosen = Signal()
    quit_chosen = Signal()

    def __init__(self, running: int, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(texts.APP)
        body = QVBoxLayout()
        body.setContentsMargins(20, 20, 20, 16)
        body.setSpacing(12)
        body.addWidget(
            Heading(texts.counted(running, *texts.QUIT_TITLE), icon="time", style=TextStyle.TITLE),
        )
        body.addWidget(Label(texts.counted(running, *texts.QUIT_TEXT), wrap=True))
        body.addStretch(1)
        bar = Bar()
        foot = QHBoxLayout(bar)
        foot.setContentsMargins(20, 12, 20, 14)
        foot.setSpacing(12)
        stay, wait, leave = (QPushButton(w) for w in (texts.QUIT_STAY, texts.QUIT_WAIT, texts.QUIT_NOW))
        foot.addWidget(stay)
        foot.addStretch(1)
        foot.addWidget(leave)
        foot.addWidget(wait)
        for button in (stay, wait, leave):
            button.setAutoDefault(False)
        stay.clicked.connect(self.reject)
        wait.clicked.connect(self.wait_chosen)
        wait.clicked.connect(self.accept)
        leave.clicked.connect(self.quit_chosen)
        leave.clicked.connect(self.accept)
        whole = QVBoxLayout(self)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.setSpacing(0)
        whole.addLayout(body, 1)
        whole.addWidget(bar)
        self._ring = FocusRing(self)
        fit(self, 480)
        stay.setFocus()
