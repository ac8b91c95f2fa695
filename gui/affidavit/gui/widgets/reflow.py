"""Panels side by side where they fit, else in rows: nothing is cut, and nothing scrolls sideways, whatever the text
size."""

from __future__ import annotations

from itertools import accumulate, pairwise

from PySide6.QtCore import QRect, QSize, Qt
from PySide6.QtWidgets import QLayout, QLayoutItem, QWidget, QWidgetItem

GAP = 12


class Reflow(QLayout):
    """The fewest rows in which each widget has its least width, with as many in each row as goes; equal heights in a
    row. Hidden widgets take no room."""

    def __init__(self) -> None:
        super().__init__()
        self._items: list[QLayoutItem] = []
        self._shares: list[int] = []
        self.setContentsMargins(0, 0, 0, 0)

    def add(self, widget: QWidget, share: int = 1) -> None:
        """`share`: how much of its row's width it gets, beside the others'; with 0 no more than it needs."""
        self.addChildWidget(widget)
        self._shares.append(share)
        self.addItem(QWidgetItem(widget))

    def addItem(self, item: QLayoutItem) -> None:
        self._items.append(item)
        self.invalidate()

    def count(self) -> int:
        return len(self._items)

    def itemAt(self, index: int) -> QLayoutItem | None:
        return self._items[index] if 0 <= index < len(self._items) else None

    def takeAt(self, index: int) -> QLayoutItem | None:
        if not 0 <= index < len(self._items):
            return None
        del self._shares[index]
        return self._items.pop(index)

    def expandingDirections(self) -> Qt.Orientation:
        return Qt.Orientation.Horizontal

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        return self._place(QRect(0, 0, width, 0), move=False)

    def minimumSize(self) -> QSize:
        least = [item.minimumSize() for item, _ in self._shown()]
        return QSize(max((size.width() for size in least), default=0), max((s.height() for s in least), default=0))

    def sizeHint(self) -> QSize:
        hints = [item.sizeHint() for item, _ in self._shown()]
        width = sum(hint.width() for hint in hints) + GAP * max(len(hints) - 1, 0)
        return QSize(width, max((hint.height() for hint in hints), default=0))

    def setGeometry(self, rect: QRect) -> None:
        super().setGeometry(rect)
        self._place(rect, move=True)

    def _shown(self) -> list[tuple[QLayoutItem, int]]:
        return [(item, share) for item, share in zip(self._items, self._shares, strict=True) if not item.isEmpty()]

    def _place(self, rect: QRect, *, move: bool) -> int:
        """The height that is taken; `move`: put the widgets there."""
        top = rect.top()
        for row in self._rows(rect.width()):
            widths = _widths(row, rect.width())
            height = max(_height(item, width) for (item, _), width in zip(row, widths, strict=True))
            left = rect.left()
            for (item, _), width in zip(row, widths, strict=True):
                if move:
                    item.setGeometry(QRect(left, top, width, height))
                left += width + GAP
            top += height + GAP
        return max(top - GAP - rect.top(), 0)

    def _rows(self, width: int) -> list[list[tuple[QLayoutItem, int]]]:
        shown = self._shown()
        for count in range(1, len(shown)):
            each = -(-len(shown) // count)
            rows = [shown[at : at + each] for at in range(0, len(shown), each)]
            if all(_least(row) <= width for row in rows):
                return rows
        return [[one] for one in shown]


def _least(row: list[tuple[QLayoutItem, int]]) -> int:
    return sum(item.minimumSize().width() for item, _ in row) + GAP * (len(row) - 1)


def _widths(row: list[tuple[QLayoutItem, int]], width: int) -> list[int]:
    """By share; where that is too little for one of them, by share of what is left above the least widths."""
    room, shares = width - GAP * (len(row) - 1), [share for _, share in row]
    least = [item.minimumSize().width() for item, _ in row]
    fair = _shared(room, shares)
    if all(a >= b for a, b in zip(fair, least, strict=True)):
        return fair
    over = _shared(max(room - sum(least), 0), shares)
    return [a + b for a, b in zip(least, over, strict=True)]


def _shared(pixels: int, shares: list[int]) -> list[int]:
    """To the last pixel, unless nobody has a share."""
    whole, ends = max(sum(shares), 1), [0, *accumulate(shares)]
    return [pixels * b // whole - pixels * a // whole for a, b in pairwise(ends)]


def _height(item: QLayoutItem, width: int) -> int:
    return item.heightForWidth(width) if item.hasHeightForWidth() else item.sizeHint().height()
