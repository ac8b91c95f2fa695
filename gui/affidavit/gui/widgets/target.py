"""Where it goes: method, URL, query and headers, whole and in mono."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QHBoxLayout, QWidget

from affidavit.gui import texts, theme
from affidavit.gui.card_view import TargetView
from affidavit.gui.widgets.label import MonoLabel, RunsLabel


class TargetLines(QWidget):
    """The method, and beside it the lines of the target; the host is the strongest word of them."""

    def __init__(self, target: TargetView, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(14)
        row.addWidget(MonoLabel(target.method, theme.MonoStyle.MONO_STRONG), 0, Qt.AlignmentFlag.AlignTop)
        lines = RunsLabel(target.lines, mono=True)
        lines.setAccessibleDescription(target.changed or texts.TARGET_NAME)
        row.addWidget(lines, 1)
