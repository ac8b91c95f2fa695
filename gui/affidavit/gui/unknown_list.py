"""The list of unknown outcomes: each with its age bar and what can be done. A QListView, so that each row is read."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QAbstractListModel, QModelIndex, QPersistentModelIndex, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QListView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from affidavit.broker.terms import InvocationId, Outcome
from affidavit.gui import age_bar, theme
from affidavit.gui import texts_unknown as texts
from affidavit.gui.theme import TextStyle
from affidavit.gui.unknown_view import ListRow
from affidavit.gui.widgets.painted_line import paint_line

Index = QModelIndex | QPersistentModelIndex

_MARGIN = 8
_INSET = 10
_TEXT_LEFT = 34
_BAR = 6
_GAP = 8


class _Model(QAbstractListModel):
    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._rows: tuple[ListRow, ...] = ()

    def set_rows(self, rows: Sequence[ListRow]) -> None:
        """Show these; where only what they say changed, the selection stays."""
        same = [r.invocation_id for r in rows] == [r.invocation_id for r in self._rows]
        if not same:
            self.beginResetModel()
        self._rows = tuple(rows)
        if same:
            self.dataChanged.emit(self.index(0), self.index(len(rows) - 1))
        else:
            self.endResetModel()

    def row(self, index: Index) -> ListRow:
        return self._rows[index.row()]

    def find(self, invocation_id: InvocationId) -> QModelIndex:
        for i, row in enumerate(self._rows):
            if row.invocation_id == invocation_id:
                return self.index(i)
        return QModelIndex()

    def rowCount(self, parent: Index | None = None) -> int:
        return 0 if parent is not None and parent.isValid() else len(self._rows)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> str | None:
        if role == Qt.ItemDataRole.DisplayRole:
            return self._rows[index.row()].title
        if role in (Qt.ItemDataRole.AccessibleTextRole, Qt.ItemDataRole.ToolTipRole):
            return self._rows[index.row()].accessible
        return None


class _Delegate(QStyledItemDelegate):
    def __init__(self, model: _Model, parent: QWidget) -> None:
        super().__init__(parent)
        self._model = model

    def sizeHint(self, _option: QStyleOptionViewItem, _index: Index) -> QSize:
        strong, mono, caption = _fonts()
        heights = [QFontMetrics(f).height() for f in (strong, mono, caption, caption)]
        return QSize(0, sum(heights) + _BAR + 14 + 2 * _INSET + 4)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        row, tokens = self._model.row(index), theme.current()
        strong, mono, caption = _fonts()
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        ground = option.rect.adjusted(_MARGIN, 2, -_MARGIN, -2)
        self._ground(painter, ground, option)
        left, right = ground.left() + _TEXT_LEFT, ground.right() - _INSET
        y = ground.top() + _INSET
        picture = theme.outcome_pixmap(Outcome.UNKNOWN, 16, painter.device().devicePixelRatioF())
        painter.drawPixmap(ground.left() + _INSET, y + (QFontMetrics(strong).height() - 16) // 2, picture)
        y = _text(painter, QRect(left, y, right - left, 0), strong, tokens.ink, row.title)
        y = _text(painter, QRect(left, y + 1, right - left, 0), mono, tokens.ink2, row.place)
        age_bar.paint(painter, QRectF(left, y + 6, right - left, _BAR), row.age)
        y += 6 + _BAR + 5
        _text(painter, QRect(left, y, right - left, 0), caption, tokens.ink2, row.age.right, at_end=True)
        room = right - left - QFontMetrics(caption).horizontalAdvance(row.age.right) - _GAP
        y = _text(painter, QRect(left, y, room, 0), caption, tokens.ink2, row.age.left)
        _text(painter, QRect(left, y + 2, right - left, 0), caption, tokens.ink2, row.note)
        painter.restore()

    @staticmethod
    def _ground(painter: QPainter, rect: QRect, option: QStyleOptionViewItem) -> None:
        tokens = theme.current()
        selected = bool(option.state & QStyle.StateFlag.State_Selected)
        hovered = bool(option.state & QStyle.StateFlag.State_MouseOver)
        if selected or hovered:
            painter.setPen(Qt.PenStyle.NoPen)
            tint = tokens.accent_tint if selected else theme.mixed(tokens.accent_tint, tokens.window, 0.5)
            painter.setBrush(QColor(tint))
            painter.drawRoundedRect(rect, theme.RADIUS_PANEL, theme.RADIUS_PANEL)
        if selected and option.state & QStyle.StateFlag.State_HasFocus:
            painter.setPen(QColor(tokens.accent))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(QRectF(rect).adjusted(0.5, 0.5, -0.5, -0.5), theme.RADIUS_PANEL, theme.RADIUS_PANEL)


def _fonts() -> tuple[QFont, QFont, QFont]:
    return theme.font(TextStyle.STRONG), theme.mono_font(), theme.font(TextStyle.CAPTION)


def _text(painter: QPainter, at: QRect, font: QFont, colour: str, text: str, *, at_end: bool = False) -> int:
    """One line from the top of `at`; returns where the next begins."""
    rect = QRect(at.left(), at.top(), at.width(), QFontMetrics(font).height())
    paint_line(painter, rect, font, colour, text, at_end=at_end)
    return rect.bottom() + 1


class UnknownList(QListView):
    """The list; `chosen` names the action that is now selected, None where the list is empty."""

    chosen = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._model = _Model(self)
        self.setModel(self._model)
        self.setItemDelegate(_Delegate(self._model, self))
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setMouseTracking(True)
        self.setAccessibleName(texts.UNKNOWN_TITLE)
        self.setProperty(theme.PLAIN, True)
        self.viewport().setAutoFillBackground(False)
        self.selectionModel().currentChanged.connect(self._current_changed)

    def show_rows(self, rows: Sequence[ListRow]) -> None:
        """Show these rows and keep the selection; where its row is gone, select the first."""
        before = self.current()
        self._model.set_rows(rows)
        kept = self._model.find(before) if before is not None else QModelIndex()
        if not kept.isValid() and rows:
            kept = self._model.index(0)
        self.setCurrentIndex(kept)
        if not kept.isValid():
            self.chosen.emit(None)

    def select(self, invocation_id: InvocationId) -> bool:
        """Select this action; whether it is in the list."""
        index = self._model.find(invocation_id)
        if index.isValid():
            self.setCurrentIndex(index)
            self.scrollTo(index)
        return index.isValid()

    def current(self) -> InvocationId | None:
        """The selected action."""
        index = self.currentIndex()
        return self._model.row(index).invocation_id if index.isValid() else None

    def _current_changed(self, current: QModelIndex, _before: QModelIndex) -> None:
        if current.isValid():
            self.chosen.emit(self._model.row(current).invocation_id)
