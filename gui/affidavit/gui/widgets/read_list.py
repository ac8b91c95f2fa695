"""A list to read: rows are painted, nothing in it can be chosen, and assistive tools get a sentence for each row."""

from __future__ import annotations

from PySide6.QtCore import QAbstractItemModel, Qt
from PySide6.QtWidgets import QAbstractItemView, QFrame, QListView, QStyledItemDelegate, QWidget

SAID = (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole, Qt.ItemDataRole.ToolTipRole)
"""The roles under which a model gives a row's sentence."""


class ReadList(QListView):
    """Shows `model` as `delegate` paints it. The keyboard walks it; a row's whole sentence is its tooltip."""

    def __init__(
        self, model: QAbstractItemModel, delegate: QStyledItemDelegate, name: str, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        model.setParent(self)
        delegate.setParent(self)
        self.setModel(model)
        self.setItemDelegate(delegate)
        self.setSelectionMode(QAbstractItemView.SelectionMode.NoSelection)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setAccessibleName(name)
