"""The newest actions, newest first; read only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, Qt
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QStackedWidget, QTableView, QVBoxLayout, QWidget

from affidavit.broker.api import Json
from affidavit.gui import main_view, theme
from affidavit.gui import texts_unknown as texts
from affidavit.gui.main_view import ActivityRow
from affidavit.gui.theme import MonoStyle, TextStyle
from affidavit.gui.widgets.label import Label

Index = QModelIndex | QPersistentModelIndex

_TIME, _OUTCOME, _TARGET, _OPERATION = range(4)


class _Model(QAbstractTableModel):
    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._rows: tuple[ActivityRow, ...] = ()

    def set_rows(self, rows: tuple[ActivityRow, ...]) -> None:
        if rows != self._rows:
            self.beginResetModel()
            self._rows = rows
            self.endResetModel()

    def rowCount(self, parent: Index | None = None) -> int:
        return 0 if parent is not None and parent.isValid() else len(self._rows)

    def columnCount(self, parent: Index | None = None) -> int:
        return 0 if parent is not None and parent.isValid() else len(texts.ACTIVITY_COLUMNS)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> str | None:
        if orientation is Qt.Orientation.Horizontal and role == Qt.ItemDataRole.DisplayRole:
            return texts.ACTIVITY_COLUMNS[section]
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        row = self._rows[index.row()]
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole):
            return (row.time, row.tag, row.target, row.operation)[index.column()]
        if index.column() == _OUTCOME:
            if role == Qt.ItemDataRole.DecorationRole:
                return theme.outcome_icon(row.outcome, 16)
            if role == Qt.ItemDataRole.ForegroundRole:
                return QColor(theme.current().outcome[row.outcome].text)
            if role == Qt.ItemDataRole.FontRole:
                return theme.font(TextStyle.STRONG)
        elif role == Qt.ItemDataRole.FontRole:
            return theme.mono_font(MonoStyle.MONO)
        return None


class Activity(QWidget):
    """The table, or one sentence while it is empty."""

    def __init__(self, now: Callable[[], datetime], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._now = now
        self._model = _Model(self)
        self._table = QTableView()
        self._table.setModel(self._model)
        self._table.setAccessibleName(texts.NAV_ACTIVITY)
        self._table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self._table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self._table.setTabKeyNavigation(False)
        self._table.setShowGrid(False)
        self._table.setWordWrap(False)
        self._table.verticalHeader().hide()
        self._table.verticalHeader().setDefaultSectionSize(34)
        header = self._table.horizontalHeader()
        header.setHighlightSections(False)
        header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(_TARGET, QHeaderView.ResizeMode.Stretch)
        self._empty = Label(texts.ACTIVITY_EMPTY, token="ink2", wrap=True)
        self._empty.setAlignment(Qt.AlignmentFlag.AlignTop)
        self._pages = QStackedWidget()
        self._pages.addWidget(self._empty)
        self._pages.addWidget(self._table)
        self._shown = Label(style=TextStyle.CAPTION, token="ink2")
        column = QVBoxLayout(self)
        column.setContentsMargins(24, 20, 24, 20)
        column.setSpacing(8)
        column.addWidget(Label(texts.NAV_ACTIVITY, TextStyle.TITLE))
        column.addWidget(self._shown)
        column.addWidget(self._pages, 1)

    def show_rows(self, rows: Sequence[Json]) -> None:
        """Show these rows of `action.list`."""
        self._model.set_rows(main_view.activity(rows, self._now()))
        self._pages.setCurrentWidget(self._table if rows else self._empty)
        self._shown.setText(texts.counted(len(rows), *texts.ACTIVITY_SHOWN) if rows else "")
