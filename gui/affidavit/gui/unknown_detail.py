"""One unknown outcome in full: what it was, how old, what is proven and what not, the evidence, the two ways on."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QHBoxLayout, QScrollArea, QVBoxLayout, QWidget

from affidavit.broker.terms import Outcome
from affidavit.gui import texts_unknown as texts
from affidavit.gui import theme
from affidavit.gui.age_bar import AgeBar
from affidavit.gui.attest_form import AttestForm
from affidavit.gui.headings import Heading
from affidavit.gui.items_list import ItemsList
from affidavit.gui.theme import MonoStyle, TextStyle
from affidavit.gui.timeline import Timeline
from affidavit.gui.unknown_view import Detail, Draft, Target
from affidavit.gui.widgets.glyph import OutcomeGlyph
from affidavit.gui.widgets.label import Label, MonoLabel, RunsLabel
from affidavit.gui.widgets.panel import Panel, PanelKind
from affidavit.gui.widgets.reflow import Reflow

_REST = 2
"""What is left below the two ways on."""
_SIDE_BY_SIDE = 700
"""At the design's text size: from this width on the evidence stands beside the two ways on; below it, above them."""


class UnknownDetail(QScrollArea):
    """Shows a `Detail`; `review_asked` carries the draft of a statement."""

    review_asked = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._shown: Detail | None = None
        self._wide: bool | None = None
        self._title = Label(style=TextStyle.TITLE, wrap=True)
        self._target = TargetLine()
        self._byline = Label(style=TextStyle.CAPTION, token="ink2", wrap=True)
        self._bar = AgeBar()
        self._since = Label(style=TextStyle.CAPTION, token="ink2")
        self._until = Label(style=TextStyle.CAPTION, token="ink2", wrap=True)
        self._proven = _Claim(texts.PROVEN, PanelKind.SOLID)
        self._not_proven = _Claim(texts.NOT_PROVEN, PanelKind.DASHED)
        self._items = _ItemsPanel()
        self._evidence = _EvidencePanel()
        self._left = QWidget()
        self._query = _QueryPanel()
        self.form = AttestForm()
        self.form.review_asked.connect(self.review_asked)
        self._ways = QWidget()
        self._column = QVBoxLayout(self._ways)
        self._parts = QGridLayout()
        self._lay_out()

    def show_detail(self, detail: Detail, draft: Draft) -> None:
        """Show this action; `draft` is what was written about it before. A newer view of the same keeps the form."""
        changed = self._shown is None or self._shown.invocation_id != detail.invocation_id
        self._shown = detail
        self._title.setText(detail.title)
        self._target.show_target(detail.target)
        self._byline.setText(detail.byline)
        self._bar.show_age(detail.age)
        self._since.setText(detail.age.left)
        self._until.setText(detail.age.right)
        self._proven.show_text(detail.proven)
        self._not_proven.show_text(detail.not_proven)
        self._items.show_detail(detail)
        self._evidence.show_detail(detail)
        self._query.show_detail(detail)
        self.form.set_sealed(detail.target is None)
        self.form.show_subjects(detail.subjects)
        self._column.setStretchFactor(self.form, int(not detail.subjects))  # beside a batch's list it stays in sight
        self._column.setStretch(_REST, int(bool(detail.subjects)))
        if changed:
            self.form.show_draft(draft)
            self.verticalScrollBar().setValue(0)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._place(wide=self.viewport().width() >= theme.scaled(_SIDE_BY_SIDE))

    def _place(self, *, wide: bool) -> None:
        """The evidence beside the two ways on, or above them."""
        if wide == self._wide:
            return
        self._wide = wide
        if wide:
            self._parts.addWidget(self._left, 1, 0)
            self._parts.addWidget(self._ways, 1, 1)
        else:
            self._parts.addWidget(self._left, 1, 0, 1, 2)
            self._parts.addWidget(self._ways, 2, 0, 1, 2)
        self._parts.setRowStretch(1, int(wide))

    def _lay_out(self) -> None:
        body = QWidget()
        column = QVBoxLayout(body)
        column.setContentsMargins(20, 18, 20, 16)
        column.setSpacing(8)
        head = QHBoxLayout()
        head.setSpacing(8)
        head.addWidget(OutcomeGlyph(Outcome.UNKNOWN, 20))
        head.addWidget(self._title, 1)
        column.addLayout(head)
        column.addWidget(self._target)
        column.addWidget(self._byline)
        column.addSpacing(4)
        column.addWidget(self._bar)
        ages = Reflow()
        ages.add(self._since, 0)
        ages.add(self._until, 1)
        self._until.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        column.addLayout(ages)
        left = QVBoxLayout(self._left)
        left.setContentsMargins(0, 0, 0, 0)
        left.setSpacing(12)
        left.addWidget(self._items)
        left.addWidget(self._evidence, 1)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(12)
        self._column.addWidget(self._query)
        self._column.addWidget(self.form, 1)
        self._column.addStretch(0)
        self._parts.setSpacing(12)
        self._parts.addWidget(self._proven, 0, 0)
        self._parts.addWidget(self._not_proven, 0, 1)
        for side in (0, 1):
            self._parts.setColumnStretch(side, 1)
        self._place(wide=True)
        column.addLayout(self._parts, 1)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setWidget(body)


class TargetLine(QWidget):
    """Method and URL, or host and command; in mono, wrapped anywhere, never elided."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        grid = QGridLayout(self)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setHorizontalSpacing(14)
        grid.setColumnStretch(1, 1)
        self._method = MonoLabel("", MonoStyle.MONO_STRONG)
        self._url = RunsLabel(mono=True)
        grid.addWidget(self._method, 0, 0, Qt.AlignmentFlag.AlignTop)
        grid.addWidget(self._url, 0, 1)

    def show_target(self, target: Target | None) -> None:
        """Show this target; nothing where it is sealed or not known."""
        self.setVisible(target is not None)
        if target is not None:
            self._method.setText(target.method)
            self._method.setVisible(bool(target.method))
            self._url.set_lines(target.lines)


class _Claim(Panel):
    """What is proven stands in a solid frame, what is not in a dashed one."""

    def __init__(self, heading: str, kind: PanelKind) -> None:
        super().__init__(kind)
        known = kind is PanelKind.SOLID
        column = QVBoxLayout(self)
        column.setContentsMargins(14, 10, 14, 12)
        column.setSpacing(4)
        icon, token = ("answer-present", "ink") if known else ("answer-missing", "unknown.text")
        column.addWidget(Heading(heading, icon=icon, icon_token=token, style=TextStyle.CAPTION, token="ink2"))
        self._text = Label(wrap=True)
        column.addWidget(self._text)
        column.addStretch(1)
        self.setAccessibleName(heading)

    def show_text(self, text: str) -> None:
        self._text.setText(text)
        self.setAccessibleDescription(text)


class _ItemsPanel(Panel):
    """The items of a batch with their own outcomes; it is not there for another action."""

    def __init__(self) -> None:
        super().__init__()
        column = QVBoxLayout(self)
        column.setContentsMargins(14, 12, 14, 10)
        column.setSpacing(8)
        self._heading = Heading(texts.ITEMS, icon="batch")
        self._list = ItemsList()
        self._whole = Label(style=TextStyle.CAPTION, token="ink2", wrap=True)
        for widget in (self._heading, self._list, self._whole):
            column.addWidget(widget)

    def show_detail(self, detail: Detail) -> None:
        self._heading.set_note(detail.items_counts)
        self._list.show_rows(detail.items)
        self._whole.setText(detail.items_whole)
        self.setVisible(bool(detail.items))


class _EvidencePanel(Panel):
    def __init__(self) -> None:
        super().__init__()
        column = QVBoxLayout(self)
        column.setContentsMargins(14, 12, 14, 8)
        column.setSpacing(8)
        self._heading = Heading(texts.EVIDENCE)
        self._timeline = Timeline()
        column.addWidget(self._heading)
        column.addWidget(self._timeline, 1)

    def show_detail(self, detail: Detail) -> None:
        self._heading.set_note(detail.records)
        self._timeline.show_rows(detail.timeline)


class _QueryPanel(Panel):
    """The look-up as text. It stays where none is known, and says so."""

    def __init__(self) -> None:
        super().__init__()
        column = QVBoxLayout(self)
        column.setContentsMargins(14, 12, 14, 12)
        column.setSpacing(6)
        self._heading = Heading(texts.ASK, icon="query")
        self._target = TargetLine()
        self._note = Label(style=TextStyle.CAPTION, token="ink2", wrap=True)
        for widget in (self._heading, self._target, self._note):
            column.addWidget(widget)

    def show_detail(self, detail: Detail) -> None:
        self._heading.set_note(texts.ASK_READS if detail.query else "")
        self._target.show_target(detail.query)
        self._note.setText(detail.query_note)
