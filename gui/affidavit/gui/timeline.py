"""The timeline: a list of records with marks on a rail, crossed by the dispatch line (design, Components).

It is a QListView with a delegate, so that assistive tools get a row for each record and the keyboard walks them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import (
    QAbstractListModel,
    QModelIndex,
    QPersistentModelIndex,
    QPointF,
    QRect,
    QSize,
    Qt,
)
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter, QPen
from PySide6.QtWidgets import QStyledItemDelegate, QStyleOptionViewItem, QWidget

from affidavit.broker.terms import Outcome
from affidavit.gui import texts_unknown as texts
from affidavit.gui import theme
from affidavit.gui.theme import MonoStyle, TextStyle
from affidavit.gui.timeline_view import Node, TimelineRow
from affidavit.gui.widgets.read_list import SAID, ReadList

Index = QModelIndex | QPersistentModelIndex

_ROW = 40
_LINE = 30
_MOST = 480
"""Height up to which all rows are shown; beyond it the list scrolls."""
_RECORD_RIGHT = 36
"""Where record numbers end; the rail stands 16 to the right of it."""
_RAIL = 52
_TEXT_LEFT = 72
_ICONS = {Node.AUTHORISATION: "grant", Node.QUERY: "query", Node.ATTESTATION: "attest"}
_OUTCOMES = {
    Node.COMMITTED: Outcome.COMMITTED,
    Node.REJECTED: Outcome.REJECTED,
    Node.UNKNOWN: Outcome.UNKNOWN,
    Node.NOT_ATTEMPTED: Outcome.NOT_ATTEMPTED,
}


@dataclass(frozen=True, slots=True)
class _Item:
    """One row of the list: a record, or the dispatch line where `row` is None. `above`: the rail as it comes in."""

    row: TimelineRow | None
    above: bool | None
    below: bool | None
    """None: no rail; True: dotted; False: solid."""


def _items(rows: Sequence[TimelineRow]) -> list[_Item]:
    made: list[_Item] = []
    before: bool | None = None
    for i, row in enumerate(rows):
        last = i == len(rows) - 1
        if row.line_above:
            made.append(_Item(None, before, False))
            before = False
        made.append(_Item(row, before, None if last and not row.open_below else row.open_below))
        before = row.open_below
    return made


class TimelineModel(QAbstractListModel):
    """The rows, each with its accessible sentence."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._items: list[_Item] = []

    def set_rows(self, rows: Sequence[TimelineRow]) -> bool:
        """Show these rows; whether they differ from those on show."""
        items = _items(rows)
        if items == self._items:
            return False
        self.beginResetModel()
        self._items = items
        self.endResetModel()
        return True

    def item(self, index: Index) -> _Item:
        return self._items[index.row()]

    def height(self) -> int:
        """Of all rows together, in device-independent pixels."""
        return sum(map(_height, self._items))

    def rowCount(self, parent: Index | None = None) -> int:
        return 0 if parent is not None and parent.isValid() else len(self._items)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> str | None:
        if role not in SAID:
            return None
        row = self._items[index.row()].row
        return texts.LINE_ACCESSIBLE if row is None else row.accessible


def _height(item: _Item) -> int:
    """Grows with the desktop's text size."""
    return round((_LINE if item.row is None else _ROW) * theme.base_px() / 13)


class _Delegate(QStyledItemDelegate):
    """Draws a record or the line."""

    def __init__(self, model: TimelineModel) -> None:
        super().__init__()
        self._model = model

    def sizeHint(self, _option: QStyleOptionViewItem, index: Index) -> QSize:
        return QSize(0, _height(self._model.item(index)))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        item, rect = self._model.item(index), option.rect
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if item.row is None:
            self._line(painter, rect, item)
        else:
            self._record(painter, rect, item, item.row)
        painter.restore()

    def _line(self, painter: QPainter, rect: QRect, item: _Item) -> None:
        tokens = theme.current()
        middle, x = rect.center().y(), rect.left() + _RAIL
        if item.above is not None:
            _rail(painter, x, rect.top(), middle - 8, item.above)
        _rail(painter, x, middle + 8, rect.bottom() + 1, False)
        font = theme.font(TextStyle.STRONG)
        font.setPixelSize(theme.base_px() - 2)
        painter.setFont(font)
        width = QFontMetrics(font).horizontalAdvance(texts.DISPATCH_LINE)
        left = rect.left() + _TEXT_LEFT + 8
        painter.setPen(QPen(QColor(tokens.ink), 2))
        painter.drawLine(rect.left(), middle, left - 8, middle)
        painter.drawLine(left + width + 8, middle, rect.right(), middle)
        painter.setPen(QColor(tokens.ink))
        painter.drawText(
            QRect(left, rect.top(), width + 4, rect.height()), Qt.AlignmentFlag.AlignVCenter, texts.DISPATCH_LINE
        )

    def _record(self, painter: QPainter, rect: QRect, item: _Item, row: TimelineRow) -> None:
        tokens = theme.current()
        body, caption, mono = theme.font(), theme.font(TextStyle.CAPTION), theme.mono_font(MonoStyle.MONO)
        first = QFontMetrics(body).height()
        top = rect.top() + (rect.height() - first - QFontMetrics(caption).height() - 1) // 2
        line = QRect(rect.left(), top, rect.width(), first)
        node = line.center().y() + 1
        x = rect.left() + _RAIL
        if item.above is not None:
            _rail(painter, x, rect.top(), node - 8, item.above)
        if item.below is not None:
            _rail(painter, x, node + 8, rect.bottom() + 1, item.below)
        self._mark(painter, QPointF(x, node), row.node)

        middle = Qt.AlignmentFlag.AlignVCenter
        painter.setFont(mono)
        painter.setPen(QColor(tokens.ink3))
        painter.drawText(
            QRect(rect.left(), top, _RECORD_RIGHT, first), middle | Qt.AlignmentFlag.AlignRight, str(row.record)
        )
        time_width = QFontMetrics(mono).horizontalAdvance(row.time) + 2
        painter.setPen(QColor(tokens.ink2))
        painter.drawText(
            QRect(rect.right() - time_width + 1, top, time_width, first), middle | Qt.AlignmentFlag.AlignRight, row.time
        )
        left = rect.left() + _TEXT_LEFT
        room = rect.right() - time_width - 8 - left
        painter.setFont(body)
        painter.setPen(QColor(tokens.ink))
        painter.drawText(QRect(left, top, room, first), middle, _fitted(row.text, body, room))
        painter.setFont(caption)
        painter.setPen(QColor(tokens.ink2))
        room = rect.right() - left
        painter.drawText(
            QRect(left, top + first + 1, room, QFontMetrics(caption).height()),
            middle,
            _fitted(row.caption, caption, room),
        )

    def _mark(self, painter: QPainter, at: QPointF, node: Node) -> None:
        tokens = theme.current()
        ratio = painter.device().devicePixelRatioF()
        corner = QPointF(at.x() - 8, at.y() - 8)
        if node in _OUTCOMES:
            painter.drawPixmap(corner, theme.outcome_pixmap(_OUTCOMES[node], 16, ratio))
        elif node in _ICONS:
            painter.drawPixmap(corner, theme.pixmap(_ICONS[node], 16, "ink2", ratio))
        elif node is Node.ASKED:
            painter.setPen(QPen(QColor(tokens.ink2), 1.5))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawEllipse(at, 4, 4)
        else:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(tokens.ink2))
            painter.drawEllipse(at, 4, 4)


def _rail(painter: QPainter, x: int, top: int, bottom: int, dotted: bool) -> None:
    tokens = theme.current()
    if dotted:
        pen = QPen(QColor(tokens.outcome[Outcome.UNKNOWN].text), 1.5)
        pen.setDashPattern([2.0, 2.0])
    else:
        pen = QPen(QColor(tokens.border2), 1.5)
    pen.setCapStyle(Qt.PenCapStyle.FlatCap)
    painter.setPen(pen)
    painter.drawLine(QPointF(x, top), QPointF(x, bottom))


def _fitted(text: str, font: QFont, room: int) -> str:
    return QFontMetrics(font).elidedText(text, Qt.TextElideMode.ElideRight, room)


class Timeline(ReadList):
    """The list of records."""

    def __init__(self, parent: QWidget | None = None) -> None:
        self._model = TimelineModel()
        super().__init__(self._model, _Delegate(self._model), texts.EVIDENCE, parent)

    def show_rows(self, rows: Sequence[TimelineRow]) -> None:
        """Show these rows, the newest in sight where they changed."""
        if self._model.set_rows(rows):
            self.setMinimumHeight(min(self._model.height() + 2, _MOST))
            self.scrollToBottom()
