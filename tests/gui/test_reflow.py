"""Side by side where that fits, else in rows."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from affidavit.gui.widgets.reflow import GAP, Reflow

Box = tuple[int, int, int]
"""Left, top and width."""


class Page(QWidget):
    """Parts of 20 pixels height, in a reflow."""

    def __init__(self, *least: int, shares: tuple[int, ...] = ()) -> None:
        super().__init__()
        self.flow = Reflow()
        self.setLayout(self.flow)
        self.parts = []
        for at, width in enumerate(least):
            part = QWidget()
            part.setMinimumSize(width, 20)
            part.setMaximumHeight(20)
            self.flow.add(part, shares[at] if shares else 1)
            self.parts.append(part)

    def boxes(self, width: int) -> list[Box]:
        self.resize(width, self.heightForWidth(width))
        self.flow.activate()
        return [(p.x(), p.y(), p.width()) for p in self.parts if p.isVisible()]


def page(qtbot: QtBot, *least: int, shares: tuple[int, ...] = ()) -> Page:
    made = Page(*least, shares=shares)
    qtbot.addWidget(made)
    made.show()
    return made


@pytest.mark.parametrize(
    ("width", "columns", "rows"), [(500, 4, 1), (4 * 100 + 3 * GAP, 4, 1), (435, 2, 2), (212, 2, 2), (211, 1, 4)]
)
def test_as_many_in_each_row_as_fit_and_rows_alike(qtbot: QtBot, width: int, columns: int, rows: int) -> None:
    made = page(qtbot, 100, 100, 100, 100)
    boxes = made.boxes(width)
    assert len({left for left, _, _ in boxes}) == columns
    assert sorted({top for _, top, _ in boxes}) == [n * (20 + GAP) for n in range(rows)]
    assert made.heightForWidth(width) == rows * 20 + (rows - 1) * GAP
    for left, _, wide in boxes:
        assert wide >= min(100, width)
        assert left + wide <= width
    assert max(left + wide for left, _, wide in boxes) == width, "to the last pixel"


def test_by_share_and_never_under_the_least_width(qtbot: QtBot) -> None:
    assert page(qtbot, 50, 50, shares=(3, 2)).boxes(500 + GAP) == [(0, 0, 300), (300 + GAP, 0, 200)]
    assert page(qtbot, 50, 240, shares=(3, 2)).boxes(500 + GAP) == [(0, 0, 176), (176 + GAP, 0, 324)]
    assert page(qtbot, 50, 60, shares=(1, 0)).boxes(200) == [(0, 0, 128), (128 + GAP, 0, 60)]
    assert page(qtbot, 60, shares=(0,)).boxes(200) == [(0, 0, 60)]


def test_what_is_hidden_takes_no_room(qtbot: QtBot) -> None:
    made = page(qtbot, 100, 100, 100)
    made.parts[0].hide()
    assert made.boxes(212) == [(0, 0, 100), (100 + GAP, 0, 100)]
    for part in made.parts:
        part.hide()
    assert made.heightForWidth(212) == 0
    assert made.flow.minimumSize().width() == 0


def test_its_least_width_is_that_of_its_widest_part(qtbot: QtBot) -> None:
    made = page(qtbot, 100, 140)
    assert made.flow.minimumSize().width() == 140
    assert made.flow.sizeHint().width() >= 140
    assert made.flow.takeAt(0) is not None
    assert (made.flow.count(), made.flow.itemAt(1), made.flow.takeAt(1)) == (1, None, None)
