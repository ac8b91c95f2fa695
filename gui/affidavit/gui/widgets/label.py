"""Labels: our own sentences in one style, and foreign text in runs. Both are plain text; nothing is ever parsed."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QPointF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QPainter, QPaintEvent, QPalette, QTextCharFormat, QTextLayout, QTextOption
from PySide6.QtWidgets import QLabel, QSizePolicy, QWidget

from affidavit.gui import theme
from affidavit.gui.runs import Line, Mark, Run, plain

_COLOURS = {
    Mark.TEXT: "ink",
    Mark.SECOND: "ink2",
    Mark.FAINT: "ink3",
    Mark.STRONG: "ink",
    Mark.VALUE: "accent",
    Mark.CHIP: "base",
}
_STRONG = {Mark.STRONG}


class Label(QLabel):
    """One sentence or word of ours. `token` names its colour, which follows the scheme."""

    def __init__(
        self,
        text: str = "",
        style: theme.TextStyle = theme.TextStyle.BODY,
        token: str = "ink",
        *,
        wrap: bool = False,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(text, parent)
        self._style, self._token = style, token
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setWordWrap(wrap)
        self._dress()

    def set_token(self, token: str) -> None:
        """Give the text another colour."""
        self._token = token
        self._dress()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self._dress()

    def _dress(self) -> None:
        palette = self.palette()
        palette.setColor(QPalette.ColorRole.WindowText, QColor(theme.current().colour(self._token)))
        self.setPalette(palette)
        self.setFont(theme.font(self._style))


class MonoLabel(Label):
    """A word of ours in mono, such as a method or a time."""

    def __init__(self, text: str, style: theme.MonoStyle = theme.MonoStyle.MONO, token: str = "ink") -> None:
        self._mono = style
        super().__init__(text, token=token)

    def _dress(self) -> None:
        super()._dress()
        self.setFont(theme.mono_font(self._mono))


class RunsLabel(QLabel):
    """Foreign text in runs, on one or more lines, wrapped anywhere and never elided.

    It is a QLabel so that assistive tools find its text; what is drawn is laid out here, run by run.
    """

    _GAP = 2

    def __init__(self, lines: Sequence[Line] = (), *, mono: bool = False, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._mono = mono
        self._lines: tuple[Line, ...] = ()
        self.setTextFormat(Qt.TextFormat.PlainText)
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        self.set_lines(lines)

    def set_lines(self, lines: Sequence[Line]) -> None:
        """Show these lines in place of those before."""
        self._lines = tuple(lines)
        self.setText("\n".join(plain(line) for line in self._lines))
        self.updateGeometry()
        self.update()

    def heightForWidth(self, width: int) -> int:
        return round(sum(layout.boundingRect().height() for layout in self._laid_out(width)) + self._gaps())

    def hasHeightForWidth(self) -> bool:
        return True

    def sizeHint(self) -> QSize:
        layouts = self._laid_out(1 << 20)
        width = max((layout.lineAt(0).naturalTextWidth() for layout in layouts), default=0.0)
        height = sum(layout.boundingRect().height() for layout in layouts) + self._gaps()
        return QSize(round(width + 1), round(height))

    def minimumSizeHint(self) -> QSize:
        return QSize(min(80, self.sizeHint().width()), self.sizeHint().height())

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self.updateGeometry()
            self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        top = 0.0
        for layout in self._laid_out(self.width()):
            layout.draw(painter, QPointF(0, top))
            top += layout.boundingRect().height() + self._GAP

    def _gaps(self) -> int:
        return self._GAP * max(len(self._lines) - 1, 0)

    def _font(self) -> QFont:
        return theme.mono_font() if self._mono else theme.font()

    def _laid_out(self, width: int) -> list[QTextLayout]:
        return [laid_out(line, self._font(), width) for line in self._lines]


def laid_out(line: Line, font: QFont, width: int) -> QTextLayout:
    """One line of runs, wrapped to `width` pixels at words where that goes and inside them where it does not."""
    layout = QTextLayout(plain(line) or " ", font)
    layout.setFormats(formats(line))
    option = QTextOption()
    option.setWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
    layout.setTextOption(option)
    layout.beginLayout()
    top = 0.0
    while (row := layout.createLine()).isValid():
        row.setLineWidth(max(width, 1))
        row.setPosition(QPointF(0, top))
        top += row.height()
    layout.endLayout()
    return layout


def formats(line: Line) -> list[QTextLayout.FormatRange]:
    """The looks of a line's runs in the current scheme."""
    ranges = []
    at = 0
    for run in line:
        ranges.append(_range(run, at))
        at += _utf16(run.text)
    return ranges


def _range(run: Run, at: int) -> QTextLayout.FormatRange:
    colours = theme.current()
    looks = QTextCharFormat()
    looks.setForeground(QColor(colours.colour(_COLOURS[run.mark])))
    if run.mark is Mark.CHIP:
        looks.setBackground(QColor(colours.ink))
    if run.mark in _STRONG:
        looks.setFontWeight(QFont.Weight.DemiBold)
    if run.changed:
        looks.setFontUnderline(True)
    made = QTextLayout.FormatRange()
    made.start, made.length, made.format = at, _utf16(run.text), looks
    return made


def _utf16(text: str) -> int:
    """Length in QChars: Qt counts a character outside the basic plane as two."""
    return len(text.encode("utf-16-le")) // 2
