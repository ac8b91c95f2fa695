"""The small window that asks for the vault's passphrase."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from affidavit.gui import texts_unknown as texts
from affidavit.gui.bridge import Bridge
from affidavit.gui.headings import Heading
from affidavit.gui.theme import FocusRing, TextStyle
from affidavit.gui.unlock_form import UnlockForm
from affidavit.gui.widgets.fit import fit
from affidavit.gui.widgets.label import Label
from affidavit.gui.widgets.panel import Bar

WIDTH = 440


class UnlockWindow(QDialog):
    """Closes by itself once the vault is open."""

    def __init__(self, bridge: Bridge, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(texts.UNLOCK_TITLE)
        self.setWindowFlag(Qt.WindowType.Dialog)
        self.form = UnlockForm(bridge)
        later = QPushButton(texts.UNLOCK_LATER)
        later.setAutoDefault(False)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        body = QVBoxLayout()
        body.setContentsMargins(20, 20, 20, 16)
        body.setSpacing(12)
        body.addWidget(Heading(texts.UNLOCK_TITLE, icon="lock", style=TextStyle.TITLE))
        body.addWidget(Label(texts.UNLOCK_WHY, token="ink2", wrap=True))
        body.addWidget(self.form)
        column.addLayout(body, 1)
        bar = Bar()
        foot = QHBoxLayout(bar)
        foot.setContentsMargins(20, 12, 20, 14)
        foot.addWidget(later)
        foot.addStretch(1)
        column.addWidget(bar)
        later.clicked.connect(self.reject)
        self.form.unlocked.connect(self.accept)
        self._ring = FocusRing(self)
        fit(self, WIDTH)
        self.form.setFocus()

    def ask(self) -> None:
        """Show the window in front."""
        self.show()
        self.raise_()
        self.activateWindow()
        self.form.setFocus()
