"""Why Affidavit cannot start, and what to do about it."""

from __future__ import annotations

from PySide6.QtWidgets import QDialog, QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from affidavit.gui import texts_unknown as texts
from affidavit.gui.headings import Heading
from affidavit.gui.runs import revealed
from affidavit.gui.theme import FocusRing, TextStyle
from affidavit.gui.widgets.fit import fit
from affidavit.gui.widgets.label import RunsLabel
from affidavit.gui.widgets.panel import Bar


class RefusalWindow(QDialog):
    """One sentence, the next step, and Quit."""

    def __init__(self, message: str, remedy: str | None, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(texts.APP)
        body = QVBoxLayout()
        body.setContentsMargins(20, 20, 20, 16)
        body.setSpacing(12)
        body.addWidget(Heading(texts.CANNOT_START, icon="warning", style=TextStyle.TITLE))
        body.addWidget(RunsLabel([revealed(message)]))
        if remedy:
            body.addWidget(RunsLabel([revealed(remedy)]))
        body.addStretch(1)
        bar = Bar()
        foot = QHBoxLayout(bar)
        foot.setContentsMargins(20, 12, 20, 14)
        foot.addStretch(1)
        leave = QPushButton(texts.MENU_QUIT)
        leave.clicked.connect(self.accept)
        foot.addWidget(leave)
        whole = QVBoxLayout(self)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.setSpacing(0)
        whole.addLayout(body, 1)
        whole.addWidget(bar)
        self._ring = FocusRing(self)
        fit(self, 520)
