"""The items of a batch: number, key, what the answer says, outcome."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QAbstractListModel, QModelIndex, QPersistentModelIndex, QPointF, QRect, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter
from PySide6.QtWidgets import QStyledItemDelegate, QStyleOptionViewItem, QWidget

from affidavit.broker.terms import Outcome
from affidavit.gui import texts_unknown as texts
from affidavit.gui import theme
from affidavit.gui.texts import OUTCOME
from affidavit.gui.theme import MonoStyle, TextStyle
from affidavit.gui.timeline_view import seen
from affidavit.gui.unknown_view import ItemRow
from affidavit.gui.widgets.painted_line import paint_line
from affidavit.gui.widgets.read_list import SAID, ReadList

Index = QModelIndex | QPersistentModelIndex

_ROW = 34
_MOST = 7
"""Rows on show; beyond them the list scrolls."""
_NUMBER = 30
_GLYPH, _GAP = 16, 6


class _Model(QAbstractListModel):
    def __init__(self) -> None:
        super().__init__()
        self.rows: tuple[ItemRow, ...] = ()

    def set_rows(self, rows: Sequence[ItemRow]) -> bool:
        """Show these rows; whether they differ from those on show."""
        if tuple(rows) == self.rows:
            return False
        self.beginResetModel()
        self.rows = tuple(rows)
        self.endResetModel()
        return True

    def rowCount(self, parent: Index | None = None) -> int:
        return 0 if parent is not None and parent.isValid() else len(self.rows)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> str | None:
        return self.rows[index.row()].accessible if role in SAID else None


class _Delegate(QStyledItemDelegate):
    def __init__(self, model: _Model) -> None:
        super().__init__()
        self._model = model

    def sizeHint(self, _option: QStyleOptionViewItem, _index: Index) -> QSize:
        return QSize(0, _height())

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        row, rect, tokens = self._model.rows[index.row()], option.rect, theme.current()
        caption, mono, strong = theme.font(TextStyle.CAPTION), theme.mono_font(MonoStyle.MONO), _strong()
        word = max(QFontMetrics(strong).horizontalAdvance(said) for said in OUTCOME.values())
        painter.save()
        if index.row():
            painter.fillRect(rect.left(), rect.top(), rect.width(), 1, QColor(tokens.border))
        right = rect.right() - word
        glyph = QPointF(right - _GAP - _GLYPH, rect.center().y() - _GLYPH / 2 + 1)
        picture = theme.outcome_pixmap(row.outcome, _GLYPH, painter.device().devicePixelRatioF())
        painter.drawPixmap(glyph, picture)
        paint_line(
            painter, _part(rect, right, rect.right()), strong, tokens.outcome[row.outcome].text, OUTCOME[row.outcome]
        )
        paint_line(painter, _part(rect, rect.left(), rect.left() + _NUMBER), caption, tokens.ink3, str(row.number))
        left, end = rect.left() + _NUMBER, round(glyph.x()) - 2 * _GAP
        key = seen(row.key)
        wide = min(QFontMetrics(mono).horizontalAdvance(key) + 2, (end - left) * 2 // 3)
        paint_line(painter, _part(rect, left, left + wide), mono, tokens.ink, key)
        paint_line(painter, _part(rect, left + wide + 2 * _GAP, end), caption, tokens.ink2, row.evidence, at_end=True)
        painter.restore()


def _height() -> int:
    """Grows with the desktop's text size."""
    return round(_ROW * theme.base_px() / 13)


def _strong() -> QFont:
    return theme.font(TextStyle.STRONG)


def _part(rect: QRect, left: int, right: int) -> QRect:
    return QRect(left, rect.top(), max(0, right - left), rect.height())


class ItemsList(ReadList):
    """The items in the order of the request, the first unknown one in sight."""

    def __init__(self, parent: QWidget | None = None) -> None:
        self._model = _Model()
        super().__init__(self._model, _Delegate(self._model), texts.ITEMS, parent)

    def show_rows(self, rows: Sequence[ItemRow]) -> None:
        """Show these items."""
        if self._model.set_rows(rows):
            self.setFixedHeight(min(len(rows), _MOST) * _height() + 2)
            first = next((i for i, row in enumerate(rows) if row.outcome is Outcome.UNKNOWN), 0)
            self.scrollTo(self._model.index(first))
