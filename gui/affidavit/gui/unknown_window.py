"""The window of unknown outcomes: what lost its answer, with its evidence, until it is settled (R71)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from PySide6.QtCore import Qt, QTimer, Signal, Slot
from PySide6.QtGui import QHideEvent, QKeySequence, QResizeEvent, QShortcut, QShowEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QStackedWidget, QVBoxLayout, QWidget

from affidavit.broker.api import Json
from affidavit.broker.terms import InvocationId
from affidavit.gui import texts_unknown as texts
from affidavit.gui import theme, unknown_view
from affidavit.gui.bridge import Answer, Bridge, Refused
from affidavit.gui.second_look import SecondLook
from affidavit.gui.status import Status
from affidavit.gui.theme import FocusRing, TextStyle
from affidavit.gui.unknown_detail import UnknownDetail
from affidavit.gui.unknown_list import UnknownList
from affidavit.gui.unknown_view import Draft, Statement
from affidavit.gui.widgets.fit import fitted
from affidavit.gui.widgets.glyph import Glyph
from affidavit.gui.widgets.label import Label
from affidavit.gui.widgets.panel import Panel

_LEAST_WIDTH = 760
_LIST_WIDTH = 272
_LIST_SHARE = 0.36
"""Of the window at most, under large text."""
_TICK_MS = 1000


class UnknownWindow(QWidget):
    """Owned by the main thread. `now` tells the time in the operator's zone."""

    attested = Signal(str)
    """The sentence of an attestation that was recorded."""

    def __init__(self, bridge: Bridge, now: Callable[[], datetime], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._bridge, self._now = bridge, now
        self._envelopes: dict[InvocationId, Json] = {}
        self._drafts: dict[InvocationId, Draft] = {}
        self._shown: InvocationId | None = None
        self._wanted: InvocationId | None = None
        self._asking = self._stale = False
        self._look: SecondLook | None = None
        self.setWindowTitle(texts.UNKNOWN_TITLE)
        self.resize(1180, 640)
        self.setMinimumSize(fitted(self, _LEAST_WIDTH), 480)
        self._count = Label(style=TextStyle.TITLE, token="unknown.text")
        self._list = UnknownList()
        self._detail = UnknownDetail()
        self._empty = _Empty()
        self._done = _DoneNotice()
        self._pages = QStackedWidget()
        self._lay_out()
        self._list.chosen.connect(self._choose)
        self._detail.review_asked.connect(self._review)
        bridge.status_changed.connect(self._status_changed)
        self._timer = QTimer(self)
        self._timer.setInterval(_TICK_MS)
        self._timer.timeout.connect(self._draw)
        self._ring = FocusRing(self)
        QShortcut(QKeySequence.StandardKey.Close, self, self.close)

    def look_at(self, invocation_id: InvocationId) -> None:
        """Show the window with this action selected, as soon as it is in the list."""
        self._wanted = invocation_id
        self.show()
        self.raise_()
        self.activateWindow()
        if self._list.select(invocation_id):
            self._wanted = None
        else:
            self.refresh()

    def refresh(self) -> None:
        """Read the list again; calls that come while one is answered are answered by one more."""
        if self._asking:
            self._stale = True
            return
        self._asking = True
        self._bridge.ask(self, lambda api: api.unknown(), self._got)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._timer.start()
        self.refresh()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._timer.stop()
        self._done.say("")

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._side.setFixedWidth(min(theme.scaled(_LIST_WIDTH), round(self.width() * _LIST_SHARE)))

    def _lay_out(self) -> None:
        side = QWidget()
        column = QVBoxLayout(side)
        column.setContentsMargins(0, 16, 0, 8)
        column.setSpacing(2)
        head = QHBoxLayout()
        head.setContentsMargins(18, 0, 18, 0)
        head.addWidget(Label(texts.UNKNOWN_TITLE, TextStyle.TITLE, wrap=True), 1)
        head.addWidget(self._count)
        column.addLayout(head)
        order = Label(texts.UNKNOWN_ORDER, TextStyle.CAPTION, "ink2", wrap=True)
        order.setContentsMargins(18, 0, 18, 6)
        column.addWidget(order)
        column.addWidget(self._list, 1)
        edge = QFrame()
        edge.setFrameShape(QFrame.Shape.NoFrame)
        edge.setFixedWidth(1)
        edge.setBackgroundRole(edge.palette().ColorRole.Midlight)
        edge.setAutoFillBackground(True)
        self._side, self._edge = side, edge

        self._pages.addWidget(self._empty)
        self._pages.addWidget(self._detail)
        right = QVBoxLayout()
        right.setContentsMargins(0, 0, 0, 0)
        right.setSpacing(0)
        right.addWidget(self._done)
        right.addWidget(self._pages, 1)
        whole = QHBoxLayout(self)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.setSpacing(0)
        whole.addWidget(side)
        whole.addWidget(edge)
        whole.addLayout(right, 1)

    @Slot(object)
    def _status_changed(self, _status: Status) -> None:
        if self.isVisible():
            self.refresh()

    def _got(self, answer: Answer[Sequence[Json]]) -> None:
        self._asking = False
        if isinstance(answer, Refused):
            self._empty.say(unknown_view.refused(answer.code, answer.message, answer.remedy), "")
        else:
            self._envelopes = {InvocationId(e["invocation_id"]): e for e in answer.value}
            self._empty.say(texts.UNKNOWN_EMPTY, texts.UNKNOWN_EMPTY_NEXT)
            self._draw()
            self._check_look()
        if self._stale:
            self._stale = False
            self.refresh()

    @Slot()
    def _draw(self) -> None:
        now = self._now()
        ordered = unknown_view.ordered(tuple(self._envelopes.values()), now)
        self._count.setText(str(len(ordered)) if ordered else "")
        self._side.setVisible(bool(ordered))
        self._edge.setVisible(bool(ordered))
        self._list.show_rows([unknown_view.list_row(e, now) for e in ordered])
        if self._wanted is not None and self._list.select(self._wanted):
            self._wanted = None
        self._show()

    @Slot(object)
    def _choose(self, invocation_id: InvocationId | None) -> None:
        if invocation_id == self._shown:
            return
        if self._shown is not None:
            self._drafts[self._shown] = self._detail.form.draft()
            self._done.say("")
        self._shown = invocation_id
        self._show()

    def _show(self) -> None:
        envelope = self._envelopes.get(self._shown) if self._shown is not None else None
        if envelope is None or self._shown is None:
            self._pages.setCurrentWidget(self._empty)
            return
        draft = self._drafts.get(self._shown, Draft())
        self._detail.show_detail(unknown_view.detail(envelope, self._now()), draft)
        self._pages.setCurrentWidget(self._detail)

    @Slot(object)
    def _review(self, draft: Draft) -> None:
        if self._shown is None or self._look is not None:
            return
        statement = unknown_view.statement(self._envelopes[self._shown], draft, self._now())
        look = SecondLook(statement, self)
        look.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        look.signed.connect(self._sign)
        self._bridge.vault_changed.connect(look.forget)
        look.finished.connect(self._look_closed)
        self._look = look
        look.open()

    def _check_look(self) -> None:
        """Where what is being signed was settled meanwhile, say so first."""
        look = self._look
        if look is None or look.bar.busy:
            return
        statement = look.statement
        if not unknown_view.signable(statement, self._envelopes.get(statement.invocation_id)):
            self._bridge.ask(
                self,
                lambda api: api.action_get(statement.invocation_id),
                lambda answer: self._overtaken(statement, answer),
            )

    def _overtaken(self, statement: Statement, answer: Answer[Json]) -> None:
        look = self._look
        if look is None or look.statement is not statement or look.bar.busy or isinstance(answer, Refused):
            return
        if not unknown_view.signable(statement, answer.value):
            look.overtaken(unknown_view.overtaken(statement, answer.value))

    @Slot()
    def _look_closed(self) -> None:
        self._look = None

    @Slot(object)
    def _sign(self, passphrase: bytearray) -> None:
        look = self._look
        assert look is not None
        statement = look.statement
        self._bridge.ask(
            self,
            lambda api: api.attest(
                statement.invocation_id,
                outcome=statement.outcome.value,
                note=statement.note,
                reference=statement.reference,
                item=statement.item,
                supersedes=None,
                passphrase=passphrase,
            ),
            lambda answer: self._signed(statement, answer),
            secrets=(passphrase,),
        )

    def _signed(self, statement: Statement, answer: Answer[Json]) -> None:
        if isinstance(answer, Refused):
            if self._look is not None:
                self._look.refused(unknown_view.refused(answer.code, answer.message, answer.remedy))
            return
        if self._look is not None:
            self._look.accept()
        self._drafts.pop(statement.invocation_id, None)
        if unknown_view.open_still(answer.value):
            self._envelopes[statement.invocation_id] = answer.value
        else:
            self._envelopes.pop(statement.invocation_id, None)
        sentence = unknown_view.attested(statement, answer.value["record"])
        self._detail.form.show_draft(Draft())
        self._draw()
        self._done.say(sentence)
        self.attested.emit(sentence)
        self.refresh()


class _Empty(QWidget):
    """One sentence, and what will appear here."""

    def __init__(self) -> None:
        super().__init__()
        column = QVBoxLayout(self)
        column.setContentsMargins(40, 24, 40, 24)
        column.setSpacing(8)
        self._first = Label(texts.UNKNOWN_WAITING, TextStyle.STRONG, wrap=True)
        self._second = Label(token="ink2", wrap=True)
        for label in (self._first, self._second):
            label.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        column.addStretch(2)
        column.addWidget(self._first)
        column.addWidget(self._second)
        column.addStretch(3)

    def say(self, first: str, second: str) -> None:
        self._first.setText(first)
        self._second.setText(second)


class _DoneNotice(QWidget):
    """The one sentence after an attestation, with the stamp; it stays until another action is looked at."""

    def __init__(self) -> None:
        super().__init__()
        outer = QVBoxLayout(self)
        outer.setContentsMargins(20, 14, 20, 0)
        panel = Panel()
        row = QHBoxLayout(panel)
        row.setContentsMargins(14, 8, 14, 8)
        row.setSpacing(8)
        row.addWidget(Glyph("attest", 16, "ink"))
        self._text = Label(wrap=True)
        row.addWidget(self._text, 1)
        outer.addWidget(panel)
        self.hide()

    def say(self, sentence: str) -> None:
        self._text.setText(sentence)
        self.setVisible(bool(sentence))
