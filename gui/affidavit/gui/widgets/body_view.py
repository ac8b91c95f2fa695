"""The body as it can be read: pretty or raw, wrapped anywhere, with what lies below said in words."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QPoint, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFontMetrics, QPainter, QPaintEvent, QPen, QResizeEvent, QTextOption
from PySide6.QtWidgets import (
    QButtonGroup,
    QFrame,
    QHBoxLayout,
    QPlainTextEdit,
    QRadioButton,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from affidavit.gui import figures, texts, theme
from affidavit.gui.body_lines import Body, BodyLine
from affidavit.gui.runs import Mark, plain
from affidavit.gui.widgets.buttons import TickBox
from affidavit.gui.widgets.label import Label, formats
from affidavit.gui.widgets.panel import edge_pen

_DIGEST_SHOWN = 8
"""Hex digits of the digest in the footer; the whole one is in its tooltip."""


class BodyView(QWidget):
    """The page, its footer, and the box that stands for not having read a long body to its end."""

    end_seen = Signal()
    """The end of the body was on the screen; sent once."""
    unread_ticked = Signal(bool)

    def __init__(self, body: Body, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._body = body
        self._seen = False
        self._switches: list[QWidget] = []
        digest = f"{body.digest[:4]} {body.digest[4:_DIGEST_SHOWN]}"
        size = figures.size(body.size)
        self.page = _Page(body.first)
        self.page.setAccessibleName(texts.BODY_NAME)
        self.page.moved.connect(self.look)
        self._footer = Label(
            texts.BODY_FOOTER.format(size=size, kind=body.kind, digest=digest), theme.TextStyle.CAPTION, "ink3"
        )
        self._footer.setToolTip(f"sha256 {body.digest}")
        self._footer.setAccessibleName(
            texts.BODY_FOOTER_NAME.format(size=size, kind=body.kind, digest=" ".join(body.digest))
        )
        self._below = Label("", theme.TextStyle.CAPTION, "ink2")
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(6)
        column.addWidget(self.page)
        row = QHBoxLayout()
        row.setSpacing(8)
        row.addWidget(self._footer, 1)
        row.addWidget(self._below)
        if body.pretty is not None:
            forms = _Forms()
            forms.chosen.connect(self._show_form)
            self._switches += forms.halves
            row.addWidget(forms)
        column.addLayout(row)
        if body.is_long or body.streamed:
            unread, why = texts.BODY_UNREAD, texts.BODY_UNREAD_DESCRIPTION
            if body.streamed:
                unread, why = texts.BODY_STREAMED, texts.BODY_STREAMED_DESCRIPTION
            self._unread = TickBox(unread.format(size=size, digest=digest))
            self._unread.setAccessibleDescription(why)
            self._unread.toggled.connect(self.unread_ticked)
            self._switches.append(self._unread)
            column.addWidget(self._unread)

    @property
    def seen(self) -> bool:
        """Whether the end of the body has been on the screen."""
        return self._seen

    def controls(self) -> list[QWidget]:
        """What takes the focus, in order."""
        return [self.page, *self._switches]

    def rows_at(self, width: int, most: int) -> int:
        """Rows that the body takes at a width in pixels; `most` where there are more."""
        return self.page.rows_at(width - 2, most)

    def set_rows(self, rows: int) -> None:
        """Make the page so many rows high."""
        self.page.setFixedHeight(self.page.height_of(rows))

    def look(self) -> None:
        """See what of the body is on the screen now. Call it whenever something around the view has moved."""
        below = self.page.lines_below()
        if below == 0 and not self._seen:
            self._seen = True
            self.end_seen.emit()
        lines = self.page.lines
        if self.page.shows_all():
            said = texts.BODY_ALL_SHOWN
        elif below:
            said = texts.BODY_LINES_BELOW.format(below=figures.count(below), lines=figures.count(lines))
        else:
            said = texts.BODY_LINES_SEEN.format(lines=figures.count(lines))
        self._below.setText(said)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.look()

    def _show_form(self, pretty: bool) -> None:
        lines = self._body.pretty if pretty and self._body.pretty is not None else self._body.raw
        self.page.set_lines(lines)
        self.look()


class _Page(QPlainTextEdit):
    """Read-only lines. Long ones wrap anywhere; a mark in the gutter says that a row goes on with the one above."""

    moved = Signal()
    _MARGIN = 8
    _EDGES = 4
    """The frame above and below, and two pixels without which Qt scrolls a page that just fits."""

    def __init__(self, lines: Sequence[BodyLine]) -> None:
        super().__init__()
        self.setProperty("kind", theme.PAGE)
        self.setReadOnly(True)
        self.setUndoRedoEnabled(False)
        self.setTabChangesFocus(True)
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.setWordWrapMode(QTextOption.WrapMode.WrapAnywhere)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.document().setDocumentMargin(self._MARGIN)
        self.viewport().setAutoFillBackground(False)
        self.verticalScrollBar().valueChanged.connect(self.moved)
        self._shown: tuple[BodyLine, ...] = ()
        self._looks: tuple[object, ...] = ()
        self.set_lines(lines)

    @property
    def lines(self) -> int:
        return len(self._shown)

    def set_lines(self, lines: Sequence[BodyLine]) -> None:
        """Show another form of the body, from its beginning."""
        self._shown = tuple(lines)
        self.setPlainText("\n".join(plain(line.runs) for line in self._shown))
        self._dress()
        self.verticalScrollBar().setValue(0)

    def height_of(self, lines: int) -> int:
        """The height in pixels at which so many rows are whole."""
        return lines * QFontMetrics(theme.mono_font()).lineSpacing() + 2 * self._MARGIN + self._EDGES

    def rows_at(self, width: int, most: int) -> int:
        """Rows that the lines take at a width in pixels, wrapped ones counted; `most` where there are more."""
        columns = max((width - 2 * self._MARGIN) // QFontMetrics(theme.mono_font()).horizontalAdvance("0"), 1)
        rows = 0
        for line in self._shown:
            rows += max(-(-len(plain(line.runs)) // columns), 1)
            if rows >= most:
                return most
        return rows

    def shows_all(self) -> bool:
        """Whether no line needs scrolling in this page."""
        return self.verticalScrollBar().maximum() == 0

    def lines_below(self) -> int:
        """Lines whose end is not on the screen, by what the windows around this page leave visible of it."""
        shown = self.viewport().visibleRegion().boundingRect()
        if shown.isEmpty():
            return self.lines
        block = self.firstVisibleBlock()
        last = block.blockNumber() - 1
        bottom = self.blockBoundingGeometry(block).translated(self.contentOffset()).top()
        while block.isValid():
            bottom += self.blockBoundingRect(block).height()
            if bottom > shown.bottom() + 1:
                break
            last = block.blockNumber()
            block = block.next()
        return self.lines - 1 - last

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self._dress()

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        painter = QPainter(self.viewport())
        painter.setPen(QPen(QColor(theme.current().ink3), 1))
        block = self.firstVisibleBlock()
        while block.isValid():
            place = self.blockBoundingGeometry(block).translated(self.contentOffset())
            if place.top() > event.rect().bottom():
                break
            layout = block.layout()
            continues = self._shown[block.blockNumber()].continues
            for n in range(0 if continues else 1, layout.lineCount()):
                row = layout.lineAt(n)
                self._draw_mark(painter, place.top() + row.y() + row.height() / 2)
            block = block.next()

    @staticmethod
    def _draw_mark(painter: QPainter, middle: float) -> None:
        painter.drawPolyline([QPointF(2, middle - 4), QPointF(2, middle), QPointF(6, middle)])

    def _dress(self) -> None:
        """Fonts and colours of the scheme, once for each; lines in one plain run need no formats of their own."""
        looks = (theme.current(), theme.base_px(), self._shown)
        if looks == self._looks:
            return
        self._looks = looks
        self.setFont(theme.mono_font())
        document = self.document()
        for n, line in enumerate(self._shown):
            if any(run.mark is not Mark.TEXT for run in line.runs):
                document.findBlockByNumber(n).layout().setFormats(formats(line.runs))
        document.markContentsDirty(0, document.characterCount())


class _Forms(QFrame):
    """Pretty or raw: two halves of one control, one of them chosen."""

    chosen = Signal(bool)
    """True for pretty."""

    def __init__(self) -> None:
        super().__init__()
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(0)
        pretty = _Half(texts.BODY_PRETTY, texts.BODY_PRETTY_DESCRIPTION)
        raw = _Half(texts.BODY_RAW, texts.BODY_RAW_DESCRIPTION)
        self.halves = (pretty, raw)
        self._group = QButtonGroup(self)
        for half in self.halves:
            self._group.addButton(half)
            row.addWidget(half)
        pretty.setChecked(True)
        pretty.toggled.connect(self.chosen)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(edge_pen("border2", dashed=False))
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 5, 5)


class _Half(QRadioButton):
    """One half: a radio button to keyboard and assistive tools, drawn as part of a switch."""

    def __init__(self, text: str, description: str) -> None:
        super().__init__(text)
        self.setAccessibleDescription(description)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def sizeHint(self) -> QSize:
        metrics = QFontMetrics(theme.font(theme.TextStyle.CAPTION))
        return QSize(metrics.horizontalAdvance(self.text()) + 18, metrics.height() + 6)

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def hitButton(self, place: QPoint) -> bool:
        return self.rect().contains(place)

    def paintEvent(self, _event: QPaintEvent) -> None:
        colours = theme.current()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if self.isChecked():
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(colours.accent_tint))
            painter.drawRoundedRect(QRectF(self.rect()).adjusted(1, 1, -1, -1), 4, 4)
        painter.setFont(theme.font(theme.TextStyle.CAPTION))
        painter.setPen(QColor(colours.ink if self.isChecked() else colours.ink2))
        painter.drawText(self.rect(), Qt.AlignmentFlag.AlignCenter, self.text())
