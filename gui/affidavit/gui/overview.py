"""The first page: what is recorded, by outcome and by where it stopped, and what is unknown, by target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QHBoxLayout, QScrollArea, QVBoxLayout, QWidget

from affidavit.broker.api import Json
from affidavit.broker.terms import Outcome
from affidavit.gui import main_view, theme
from affidavit.gui import texts_unknown as texts
from affidavit.gui.alerts_panel import AlertsPanel
from affidavit.gui.bridge import Bridge
from affidavit.gui.headings import Heading
from affidavit.gui.main_view import ByTarget, Rung, Tile
from affidavit.gui.runs import Run
from affidavit.gui.status import Status
from affidavit.gui.theme import TextStyle
from affidavit.gui.unlock_form import UnlockForm
from affidavit.gui.widgets.buttons import LinkButton
from affidavit.gui.widgets.glyph import OutcomeGlyph, OutcomeTag
from affidavit.gui.widgets.label import Label, RunsLabel
from affidavit.gui.widgets.panel import Panel
from affidavit.gui.widgets.reflow import Reflow

_PLACE_WIDTH = 180
"""A target is not wrapped before its panel is too narrow for this."""


class Overview(QScrollArea):
    """`unknown_asked`: the person wants to see the unknown outcomes."""

    unknown_asked = Signal()

    def __init__(self, bridge: Bridge, now: Callable[[], datetime], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._now = now
        self._tiles = {outcome: _TilePanel(outcome) for outcome in main_view.TILES}
        self._ladder = _LadderPanel()
        self._targets = _TargetsPanel()
        self._targets.open_asked.connect(self.unknown_asked)
        self._empty = _EmptyPanel()
        self._unlock = _UnlockPanel(bridge)
        self._alerts = AlertsPanel(bridge, now)
        self._lay_out()

    def show_status(self, status: Status) -> None:
        """Show the counts; the unlock form stands above them while the vault is locked."""
        self._alerts.show_alerts(status.alerts)
        self._order_focus()
        self._unlock.setVisible(status.vault == "locked")
        anything = main_view.anything_recorded(status)
        self._empty.setVisible(not anything)
        for part in (*self._tiles.values(), self._ladder, self._targets):
            part.setVisible(anything)
        for tile in main_view.tiles(status):
            self._tiles[tile.outcome].show_tile(tile)
        self._ladder.show_rungs(main_view.ladder(status))

    def show_unknown(self, envelopes: Sequence[Json]) -> None:
        """Show which targets hold unknown outcomes."""
        self._targets.show_targets(main_view.by_target(envelopes, self._now()))

    def _order_focus(self) -> None:
        """From top to bottom, also over the alerts that came since."""
        closes = [row.button for row in self._alerts.rows]
        theme.tab_order([self, *closes, *self._unlock.form.controls(), self._targets.open])

    def _lay_out(self) -> None:
        body = QWidget()
        column = QVBoxLayout(body)
        column.setContentsMargins(24, 20, 24, 20)
        column.setSpacing(12)
        column.addWidget(Label(texts.NAV_OVERVIEW, TextStyle.TITLE))
        column.addWidget(self._alerts)
        column.addWidget(self._unlock)
        column.addWidget(self._empty)
        tiles = Reflow()
        for tile in self._tiles.values():
            tiles.add(tile)
        column.addLayout(tiles)
        lower = Reflow()
        lower.add(self._ladder, 3)
        lower.add(self._targets, 2)
        column.addLayout(lower)
        column.addStretch(1)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setWidget(body)


class _TilePanel(Panel):
    def __init__(self, outcome: Outcome) -> None:
        super().__init__()
        column = QVBoxLayout(self)
        column.setContentsMargins(16, 12, 16, 12)
        column.setSpacing(2)
        self._count = Label(style=TextStyle.DISPLAY)
        self._note = Label(style=TextStyle.CAPTION, token="ink2", wrap=True)
        column.addWidget(OutcomeTag(outcome))
        column.addWidget(self._count)
        column.addWidget(self._note)
        column.addStretch(1)

    def show_tile(self, tile: Tile) -> None:
        self._count.setText(tile.count)
        self._note.setText(tile.note)


class _LadderPanel(Panel):
    def __init__(self) -> None:
        super().__init__()
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(16, 14, 16, 14)
        self._column.setSpacing(4)
        self._column.addWidget(Heading(texts.STOPPED_TITLE))
        self._column.addWidget(Label(texts.STOPPED_NOTE, TextStyle.CAPTION, "ink2", wrap=True))
        self._column.addSpacing(4)
        self._rungs: list[QWidget] = []
        self._shown: tuple[Rung, ...] = ()

    def show_rungs(self, rungs: tuple[Rung, ...]) -> None:
        if rungs == self._shown:
            return
        self._shown = rungs
        for old in self._rungs:
            old.deleteLater()
        self._rungs = []
        for before, rung in zip((None, *rungs), rungs, strict=False):
            if rung.behind and before is not None and not before.behind:
                self._add(_LineRule())
            self._add(_rung(rung))

    def _add(self, widget: QWidget) -> None:
        self._rungs.append(widget)
        self._column.addWidget(widget)


class _LineRule(QFrame):
    """The line: above it nothing was handed to a connection."""

    def __init__(self) -> None:
        super().__init__()
        self.setFixedHeight(10)
        self.setAccessibleName(texts.DISPATCH_LINE)

    def paintEvent(self, _event: QPaintEvent) -> None:
        QPainter(self).fillRect(0, 4, self.width(), 2, QColor(theme.current().ink))


def _rung(rung: Rung) -> QWidget:
    made = QWidget()
    made.setAccessibleName(rung.accessible)
    row = QHBoxLayout(made)
    row.setContentsMargins(0, 3, 0, 3)
    row.setSpacing(6)
    row.addWidget(Label(rung.phase, wrap=True), 1)
    for outcome, n in rung.counts:
        row.addSpacing(8)
        row.addWidget(OutcomeGlyph(outcome, 14))
        row.addWidget(Label(n, token=f"{outcome.value}.text"))
    if not rung.counts:
        row.addWidget(Label(texts.STOPPED_NONE, TextStyle.CAPTION, "ink3"))
    return made


class _TargetsPanel(Panel):
    open_asked = Signal()

    def __init__(self) -> None:
        super().__init__()
        column = QVBoxLayout(self)
        column.setContentsMargins(16, 14, 16, 14)
        column.setSpacing(8)
        head = QHBoxLayout()
        head.addWidget(Heading(texts.BY_TARGET), 1)
        self.open = LinkButton(texts.BY_TARGET_OPEN)
        self.open.setAccessibleName(texts.MENU_UNKNOWN_NONE)
        self.open.setProperty("kind", theme.SMALL)
        self.open.clicked.connect(self.open_asked)
        head.addWidget(self.open)
        column.addLayout(head)
        self._none = Label(texts.UNKNOWN_EMPTY, token="ink2", wrap=True)
        column.addWidget(self._none)
        self._grid = QGridLayout()
        self._grid.setHorizontalSpacing(12)
        self._grid.setVerticalSpacing(8)
        self._grid.setColumnStretch(0, 1)
        column.addLayout(self._grid)
        column.addStretch(1)
        self._cells: list[QWidget] = []

    def show_targets(self, targets: Sequence[ByTarget]) -> None:
        for old in self._cells:
            old.deleteLater()
        self._cells = []
        self._none.setVisible(not targets)
        self.open.setVisible(bool(targets))
        for i, target in enumerate(targets):
            place = RunsLabel([(Run(target.place),)], mono=True)
            place.setMinimumWidth(min(place.sizeHint().width(), theme.scaled(_PLACE_WIDTH)))
            cells = (
                place,
                Label(target.age, TextStyle.CAPTION, "ink2", wrap=True),
                Label(str(target.count), TextStyle.STRONG, "unknown.text"),
            )
            for j, cell in enumerate(cells):
                self._grid.addWidget(cell, i, j)
                self._cells.append(cell)


class _EmptyPanel(Panel):
    def __init__(self) -> None:
        super().__init__()
        column = QVBoxLayout(self)
        column.setContentsMargins(16, 14, 16, 14)
        column.setSpacing(6)
        column.addWidget(Label(texts.OVERVIEW_EMPTY, TextStyle.STRONG, wrap=True))
        column.addWidget(Label(texts.OVERVIEW_EMPTY_NEXT, token="ink2", wrap=True))


class _UnlockPanel(Panel):
    def __init__(self, bridge: Bridge) -> None:
        super().__init__()
        column = QVBoxLayout(self)
        column.setContentsMargins(16, 14, 16, 14)
        column.setSpacing(8)
        column.addWidget(Heading(texts.UNLOCK_TITLE, icon="lock"))
        column.addWidget(Label(texts.UNLOCK_WHY, TextStyle.CAPTION, "ink2", wrap=True))
        self.form = UnlockForm(bridge)
        column.addWidget(self.form)
