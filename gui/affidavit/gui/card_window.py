"""The approval card's window: it draws a CardView and reports what the person did with it.

Rules that hold whatever is drawn: Deny has the focus; Enter never approves; Approve counts only while `arming.missing`
finds nothing, asked anew at the press; losing focus decides nothing. The window takes no focus when it appears, since
the next key was meant for another program, and Deny would take it.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto

from PySide6.QtCore import QEvent, Qt, QTimer, Signal
from PySide6.QtGui import QCloseEvent, QKeyEvent, QShowEvent
from PySide6.QtWidgets import QFrame, QScrollArea, QVBoxLayout, QWidget

from affidavit.broker.card import CardEnd, Decision
from affidavit.broker.terms import Micros
from affidavit.gui import figures, texts, theme
from affidavit.gui.arming import ARM_S, Progress, Step, missing
from affidavit.gui.card_bar import DecisionBar
from affidavit.gui.card_page import MARGIN, CardHead, CardMiddle, Farewell
from affidavit.gui.card_view import STEPS, CardView
from affidavit.gui.widgets import HURRY_S
from affidavit.gui.widgets.alert import AlertWindow, announce

WIDTH, HEIGHT = 600, 740
"""Device-independent pixels, as `theme.scaled` takes them: a larger text makes a larger card."""
_SCREEN_SHARE = 0.92
_BODY_ROWS, _BODY_ROWS_LEAST = 12, 5
_ANNOUNCED_AT = (30, 10)
"""Seconds left at which the time is said again, and no more often."""
END_MS = 4_000
"""How long the sentence stays that says why a card went away."""
_SECOND = 1_000_000


class _Stage(Enum):
    OPEN = auto()
    DECIDED = auto()
    """The decision is with the broker; nothing can be pressed."""
    OVER = auto()
    """The time is over; the broker will say how the card ended."""
    ENDED = auto()


class CardWindow(AlertWindow):
    """One card. Owned by the Qt main thread; it closes by itself and deletes itself then.

    `clock` is the wall clock, for the card's expiry; `monotonic` counts seconds for the arming, where a clock that is
    set must not help. `life_s` is how long a card lives from when it is first shown; the broker tells its end then.
    """

    decided = Signal(str, object)
    """Invocation id, Decision."""
    passphrase_given = Signal(str, object, object)
    """Invocation id, Scope, and the passphrase as a bytearray that the receiver overwrites."""
    shown = Signal(str)
    """Invocation id; once, when the card is on a screen. Its time runs from here."""
    look_at = Signal(str)
    """Invocation id of an unknown outcome that the person wants to see; the card stays."""
    closed = Signal(str)
    """Invocation id; the window is gone and another card may come."""

    def __init__(
        self,
        view: CardView,
        *,
        clock: Callable[[], Micros],
        monotonic: Callable[[], float],
        life_s: float,
        expires_at: Micros | None = None,
    ) -> None:
        super().__init__(
            None,
            Qt.WindowType.Dialog
            | Qt.WindowType.CustomizeWindowHint
            | Qt.WindowType.WindowTitleHint
            | Qt.WindowType.WindowCloseButtonHint
            | Qt.WindowType.WindowStaysOnTopHint,
        )
        self._view, self._clock, self._monotonic, self._life_s = view, clock, monotonic, life_s
        self._expires_at = expires_at
        self._stage = _Stage.OPEN
        self._decision: CardEnd | None = None
        self._was_shown = False
        self._active_since: float | None = None
        self._ticked = self._unread_ticked = self._end_seen = self._other_key = False
        self._refusal = ""
        self._announced: set[int] = set()
        self.setAttribute(Qt.WidgetAttribute.WA_ShowWithoutActivating)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setAttribute(Qt.WidgetAttribute.WA_QuitOnClose, False)
        self.setWindowTitle(texts.CARD_WINDOW)
        self.setAccessibleName(f"{texts.EFFECT_SPOKEN[view.effect]}. {view.title}")
        self.head, self.middle, self.bar = CardHead(view), CardMiddle(view), DecisionBar(view)
        self.farewell = Farewell(view)
        self._scroll = QScrollArea()
        self._beat = _single_shot(self, self.refresh)
        self._goodbye = _single_shot(self, self.close)
        self._goodbye.setInterval(END_MS)
        self._lay_out()
        self._connect()
        self._order_focus()
        self._focus_ring = theme.FocusRing(self)
        self.refresh()
        self._fit()

    # What the broker and the deck say

    def set_queue(self, place: int, count: int) -> None:
        """Say which of how many waiting cards this is."""
        self.head.set_queue(place, count)

    def set_expiry(self, expires_at: Micros, life_s: float) -> None:
        """Follow the broker's own end of this card, and how long it lives from when it was shown."""
        self._expires_at, self._life_s = expires_at, life_s
        self._tell_end(expires_at)
        if self._stage is _Stage.OVER:
            self._stage = _Stage.OPEN
        self.refresh()

    def refuse(self, sentence: str) -> None:
        """The decision was not taken, and why; the card is open again."""
        if self._stage is _Stage.DECIDED:
            self._stage, self._decision, self._refusal = _Stage.OPEN, None, sentence
            self.refresh()
            self._fit()
            announce(self, sentence)

    def end(self, end: CardEnd) -> None:
        """The card has ended. As decided here it closes at once; else it says why, stays for 4 s and closes."""
        self._forget_passphrase()
        self._beat.stop()
        self._stage = _Stage.ENDED
        if end is self._decision:
            self.close()
            return
        for part in (self.head, self._scroll, self.bar):
            part.hide()
        self.farewell.say(self._view.words.ends[end])
        self.farewell.show()
        self._fit()
        announce(self, self._view.words.ends[end])
        self._goodbye.start()

    # What is seen and done

    @property
    def step(self) -> Step | None:
        """The one missing step, by the clock as it is now; None where nothing is missing."""
        passphrase = self.bar.passphrase
        since = self._active_since
        done = Progress(
            ticked=self._ticked,
            other_key=self._other_key,
            end_seen=self._end_seen,
            unread_ticked=self._unread_ticked,
            passphrase_given=passphrase is not None and passphrase.filled,
            active_s=None if since is None else self._monotonic() - since,
        )
        return missing(self._view.needs, done)

    def refresh(self) -> None:
        """See what time it is and what was done, and draw it. The beat calls it; anyone may."""
        if self._stage is _Stage.ENDED:
            return
        self._end_seen = self._end_seen or self.middle.end_on_screen()
        left = self._left_us()
        if left <= 0 and self._stage is _Stage.OPEN:
            self._stage = _Stage.OVER
            self._forget_passphrase()
        seconds = -(-left // _SECOND)
        self.head.ring.set_left(seconds, left / (self._life_s * _SECOND))
        step = self.step
        is_open = self._stage is _Stage.OPEN
        armed = is_open and step is None
        sentence = self._sentence(step, seconds)
        described = self._view.approve_description()
        self.bar.show_state(
            armed=armed,
            enabled=is_open,
            sentence=sentence,
            described=described if armed else texts.APPROVE_UNARMED.format(step=sentence, description=described),
        )
        self._announce_time(seconds)
        if self.isVisible():
            self._beat.start(self._next_beat_ms(left, step))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Escape denies wherever the focus is. Every other key ends here and does nothing."""
        event.accept()
        if event.key() != Qt.Key.Key_Escape or event.isAutoRepeat():
            return
        if self._stage is _Stage.ENDED:
            self.close()
        else:
            self._deny()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.ActivationChange:
            self._activation_changed()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if not self._was_shown:
            self._was_shown = True
            self._first_shown()
        self._beat.start(0)

    def closeEvent(self, event: QCloseEvent) -> None:
        """Closing by the window manager denies, without a reason; closing by us decides nothing.

        A person who closes the card has answered it, and the agent should not wait for the time to run out. It cannot
        count as anything but a denial, and is no slip that costs: nothing was sent. Qt calls a close spontaneous only
        if it came from outside; quitting and `end` close without deciding.
        """
        if event.spontaneous() and self._stage in (_Stage.OPEN, _Stage.DECIDED):
            event.ignore()
            self._deny(with_reason=False)
            return
        self._forget_passphrase()
        self._beat.stop()
        self._goodbye.stop()
        super().closeEvent(event)
        self.closed.emit(self._view.invocation_id)

    # Deciding

    def _approve(self) -> None:
        """A press on Approve counts only if nothing is missing at this moment, whoever sent it."""
        if self._stage is not _Stage.OPEN or self._left_us() <= 0 or self.step is not None:
            self.refresh()
            return
        self._stage, self._decision, self._refusal = _Stage.DECIDED, CardEnd.APPROVED, ""
        scope = self.bar.scope.scope
        if self.bar.passphrase is not None:
            self.passphrase_given.emit(self._view.invocation_id, scope, self.bar.passphrase.take())
        else:
            decision = Decision(approve=True, scope=scope, means="card", by="card", tick=self._ticked)
            self.decided.emit(self._view.invocation_id, decision)
        self.refresh()

    def _deny(self, *, with_reason: bool = True) -> None:
        if self._stage is not _Stage.OPEN:
            return
        self._stage, self._decision, self._refusal = _Stage.DECIDED, CardEnd.DENIED, ""
        self._forget_passphrase()
        reason = self.bar.reason if with_reason else ""
        self.decided.emit(self._view.invocation_id, Decision(approve=False, by="card", reason=reason or None))
        self.refresh()

    def _deny_pressed(self) -> None:
        self._deny()

    def _tick(self, ticked: bool) -> None:
        self._ticked = ticked
        self.refresh()

    def _compared(self, is_other: bool) -> None:
        self._other_key = is_other
        self.refresh()
        self._fit()

    def _tick_unread(self, ticked: bool) -> None:
        self._unread_ticked = ticked
        self.refresh()

    def _bar_changed(self) -> None:
        if self.bar.passphrase is None or self.bar.passphrase.filled:
            self._refusal = ""
        self.refresh()

    def _forget_passphrase(self) -> None:
        if self.bar.passphrase is not None:
            self.bar.passphrase.clear()

    # Time and attention

    def _first_shown(self) -> None:
        if self._expires_at is None:
            self._expires_at = Micros(self._clock() + round(self._life_s * _SECOND))
        self.bar.deny.setFocus()
        self._tell_end(self._expires_at)
        self.raise_alert()
        announce(self, self._view.announced(-(-self._left_us() // _SECOND)))
        self.shown.emit(self._view.invocation_id)

    def _tell_end(self, expires_at: Micros) -> None:
        self.head.ring.setToolTip(self._view.words.ends_at.format(clock=figures.clock(expires_at)))

    def _activation_changed(self) -> None:
        """Each activation starts the pause anew; a card that is not in front keeps no passphrase."""
        if self.isActiveWindow():
            self._active_since = self._monotonic()
            if self.focusWidget() is self.bar.approve:
                self.bar.deny.setFocus()
        else:
            self._active_since = None
            self._forget_passphrase()
        self.refresh()

    def _left_us(self) -> int:
        if self._expires_at is None:
            return round(self._life_s * _SECOND)
        return max(self._expires_at - self._clock(), 0)

    def _next_beat_ms(self, left: int, step: Step | None) -> int:
        """Until the ring steps, or until the pause is over, whichever comes first."""
        second = (left % _SECOND or _SECOND) // 1000 + 1
        if step is Step.PAUSE and self._active_since is not None:
            pause = self._active_since + ARM_S - self._monotonic()
            return min(second, max(round(pause * 1000) + 1, 1))
        return second

    def _sentence(self, step: Step | None, seconds: int) -> str:
        """The line above the buttons: the one missing step, else how it ends, else what the approval covers."""
        if self._stage is _Stage.DECIDED:
            return texts.DECIDED
        if self._stage is _Stage.OVER:
            return texts.TIME_OVER
        if self._refusal and step in (Step.PASSPHRASE, None):
            return self._refusal
        if step is not None:
            return STEPS[step]
        if seconds < HURRY_S:
            return self._view.words.closes_in.format(seconds=seconds)
        return self.bar.scope.sentence if self.bar.passphrase is None else texts.PASSPHRASE_WHY

    def _announce_time(self, seconds: int) -> None:
        if self._was_shown and seconds in _ANNOUNCED_AT and seconds not in self._announced:
            self._announced.add(seconds)
            announce(self, texts.CARD_TIME_ANNOUNCED.format(spoken=figures.spoken(seconds)))

    # Building and fitting

    def _lay_out(self) -> None:
        self._scroll.setFrameShape(QFrame.Shape.NoFrame)
        self._scroll.setWidgetResizable(True)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._inside = QWidget()
        self._inside.setMinimumHeight(1)  # else its words, wrapped at their narrowest, would make it scroll
        self._inside_column = QVBoxLayout(self._inside)
        self._column = QVBoxLayout(self)
        for column in (self._inside_column, self._column):
            column.setContentsMargins(0, 0, 0, 0)
            column.setSpacing(0)
        self._inside_column.addWidget(self.middle)
        self._scroll.setWidget(self._inside)
        self._column.addWidget(self.head)
        self._column.addWidget(self._scroll, 1)
        self._column.addWidget(self.bar)
        self._column.addWidget(self.farewell)
        self.farewell.hide()

    def _connect(self) -> None:
        self.head.look_at.connect(self.look_at)
        self.head.ticked.connect(self._tick)
        self.head.compared.connect(self._compared)
        self._scroll.verticalScrollBar().valueChanged.connect(self.refresh)
        if self.middle.body is not None:
            self.middle.body.end_seen.connect(self.refresh)
            self.middle.body.unread_ticked.connect(self._tick_unread)
        self.bar.approve_pressed.connect(self._approve)
        self.bar.deny_pressed.connect(self._deny_pressed)
        self.bar.changed.connect(self._bar_changed)
        self.bar.grew.connect(self._fit)

    def _order_focus(self) -> None:
        """From top to bottom, Approve last (design, Access)."""
        theme.tab_order([*self.head.controls(), *self.middle.controls(), self._scroll, *self.bar.controls()])

    def _fit(self) -> None:
        """Give the window its size: the body gives way first, then the middle scrolls as one.

        With a very large text, or on a very small screen, the head scrolls too. The size is fixed, because Qt cuts a
        window that is first shown larger than two thirds of the screen, words and all, and heeds no minimum size then.
        """
        screen = self.screen().availableGeometry()
        width = min(theme.scaled(WIDTH), round(screen.width() * _SCREEN_SHARE))
        most = min(theme.scaled(HEIGHT), round(screen.height() * _SCREEN_SHARE))
        if self._stage is _Stage.ENDED:
            self.setFixedSize(width, _wanted_height(self.farewell, width))
            return
        self.bar.turn(width)
        fixed = _wanted_height(self.head, width) + _wanted_height(self.bar, width)
        self._fit_body(width, most - fixed)
        middle = _wanted_height(self.middle, width)
        scrolls = fixed + middle > most
        self._scroll.setFocusPolicy(Qt.FocusPolicy.StrongFocus if scrolls else Qt.FocusPolicy.NoFocus)
        if scrolls and most - fixed < middle // 2:
            self._inside_column.insertWidget(0, self.head)
        self.setFixedSize(width, min(fixed + middle, most))

    def _fit_body(self, width: int, room: int) -> None:
        body = self.middle.body
        if body is None:
            return
        rows = body.rows_at(width - 2 * MARGIN, _BODY_ROWS)
        body.set_rows(rows)
        while rows > _BODY_ROWS_LEAST and _wanted_height(self.middle, width) > room:
            rows -= 1
            body.set_rows(rows)


def _single_shot(window: QWidget, then: Callable[[], object]) -> QTimer:
    timer = QTimer(window)
    timer.setSingleShot(True)
    timer.timeout.connect(then)
    return timer


def _wanted_height(part: QWidget, width: int) -> int:
    """The height that a part's content wants at this width, as it is now and not as layouts remember it."""
    for inner in (*part.findChildren(QWidget), part):
        inner.ensurePolished()
        inner.updateGeometry()
        if (kept := inner.layout()) is not None:
            kept.invalidate()
    layout = part.layout()
    assert layout is not None
    return layout.totalHeightForWidth(width) if layout.hasHeightForWidth() else layout.totalSizeHint().height()
