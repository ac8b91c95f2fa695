"""Who asks: what the kernel shows beside what the caller says of itself, in frames that tell the two apart."""

from __future__ import annotations

from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from affidavit.gui import texts, theme
from affidavit.gui.card_view import CallerView
from affidavit.gui.widgets.glyph import Glyph
from affidavit.gui.widgets.label import Label, RunsLabel
from affidavit.gui.widgets.panel import Panel, PanelKind


class CallerPanel(QWidget):
    """Left: program, process, directory, chain. Right, dashed: name and reason as claimed."""

    def __init__(self, caller: CallerView, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(16)
        row.addWidget(self._seen(caller), 1)
        row.addWidget(self._claimed(caller), 1)

    def _seen(self, caller: CallerView) -> QWidget:
        part = QWidget()
        part.setToolTip(caller.details)
        part.setAccessibleName(texts.KERNEL)
        part.setAccessibleDescription(caller.details)
        column = QVBoxLayout(part)
        column.setContentsMargins(0, 8, 0, 8)
        column.setSpacing(3)
        column.addLayout(_headed("kernel", texts.KERNEL))
        program = QHBoxLayout()
        program.setSpacing(6)
        program.addWidget(RunsLabel([caller.program]))
        program.addWidget(Label(caller.process, token="ink2"), 1)
        column.addLayout(program)
        column.addWidget(RunsLabel([caller.directory], mono=caller.directory_seen))
        column.addWidget(RunsLabel([caller.chain]))
        column.addStretch(1)
        return part

    def _claimed(self, caller: CallerView) -> QWidget:
        panel = Panel(PanelKind.DASHED)
        panel.setAccessibleName(texts.CLAIM)
        column = QVBoxLayout(panel)
        column.setContentsMargins(12, 8, 12, 8)
        column.setSpacing(3)
        column.addLayout(_headed("claim", texts.CLAIM))
        column.addWidget(RunsLabel([caller.client]))
        column.addWidget(RunsLabel([caller.reason]))
        column.addStretch(1)
        return panel


def _headed(icon: str, words: str) -> QHBoxLayout:
    row = QHBoxLayout()
    row.setSpacing(5)
    row.addWidget(Glyph(icon, 14, "ink3"))
    row.addWidget(Label(words, theme.TextStyle.CAPTION, "ink3"), 1)
    return row
