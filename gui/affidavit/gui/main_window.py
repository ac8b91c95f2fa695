"""The main window: sidebar, pages, status strip. Everything the tray offers is here too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from enum import StrEnum

from PySide6.QtCore import QSize, Qt, Signal, Slot
from PySide6.QtGui import QCloseEvent, QColor, QFontMetrics, QKeySequence, QPainter, QPaintEvent, QShortcut, QShowEvent
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QSizePolicy, QStackedWidget, QVBoxLayout, QWidget

from affidavit.broker.api import Json
from affidavit.broker.terms import Outcome
from affidavit.gui import hosts_view, main_view, theme
from affidavit.gui import texts_unknown as texts
from affidavit.gui.activity import Activity
from affidavit.gui.bridge import Answer, Bridge, Done, Refused
from affidavit.gui.hosts_page import HostsPage
from affidavit.gui.overview import Overview
from affidavit.gui.status import Status
from affidavit.gui.theme import FocusRing, TextStyle
from affidavit.gui.widgets.buttons import LinkButton
from affidavit.gui.widgets.glyph import Glyph
from affidavit.gui.widgets.label import Label
from affidavit.gui.widgets.panel import Panel, PanelKind, Rule
from affidavit.gui.widgets.reflow import Reflow


class Page(StrEnum):
    """What the sidebar leads to; the unknown outcomes have a window of their own."""

    OVERVIEW = "overview"
    ACTIVITY = "activity"
    UNKNOWN = "unknown"
    HOSTS = "host"


_SIDE_WIDTH = 184
"""At least: larger text makes a wider sidebar."""
_NAV = (
    (Page.OVERVIEW, texts.NAV_OVERVIEW, "Ctrl+1"),
    (Page.ACTIVITY, texts.NAV_ACTIVITY, "Ctrl+2"),
    (Page.UNKNOWN, texts.NAV_UNKNOWN, "Ctrl+U"),
    (Page.HOSTS, texts.NAV_HOSTS, "Ctrl+8"),
)


class MainWindow(QWidget):
    """Owned by the main thread. What it cannot do itself it asks for by its signals.

    `tray_there` is asked when the person closes the window: without a tray it is the only way back, and only put away.
    """

    unknown_asked = Signal()
    cards_asked = Signal()
    lock_asked = Signal()
    unlock_asked = Signal()
    quit_asked = Signal()

    def __init__(
        self,
        bridge: Bridge,
        now: Callable[[], datetime],
        tray_there: Callable[[], bool],
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        self._bridge = bridge
        self._tray_there = tray_there
        self._asking = self._stale = False
        self.setWindowTitle(texts.APP)
        self.resize(1180, 720)
        self.setMinimumSize(900, 600)
        self._overview = Overview(bridge, now)
        self._overview.unknown_asked.connect(self.unknown_asked)
        self._activity = Activity(now)
        self._pages = QStackedWidget()
        self._pages.addWidget(self._overview)
        self._pages.addWidget(self._activity)
        self._hosts = HostsPage(bridge)
        self._hosts.changed.connect(self.refresh)
        self._pages.addWidget(self._hosts)
        self._shown = {Page.OVERVIEW: self._overview, Page.ACTIVITY: self._activity, Page.HOSTS: self._hosts}
        self._nav = {page: NavButton(page, words) for page, words, _ in _NAV}
        self._vault = _VaultBox()
        self._vault.lock_asked.connect(self.lock_asked)
        self._vault.unlock_asked.connect(self.unlock_asked)
        self._strip = _StatusStrip()
        self._strip.show_asked.connect(self.cards_asked)
        self._vault.quit_asked.connect(self.quit_asked)
        self._banner = _Banner()
        self._lay_out()
        self._ring = FocusRing(self)
        for page, button in self._nav.items():
            button.clicked.connect(lambda _checked=False, page=page: self.go(page))
        for page, _, keys in _NAV:
            QShortcut(QKeySequence(keys), self, lambda page=page: self.go(page))
        QShortcut(QKeySequence("Ctrl+L"), self, self.lock_asked.emit)
        QShortcut(QKeySequence.StandardKey.Close, self, self.close)
        QShortcut(QKeySequence("Ctrl+Q"), self, self.quit_asked.emit)
        bridge.status_changed.connect(self.show_status)
        self.go(Page.OVERVIEW)
        self.show_status(bridge.status)

    def bring(self) -> None:
        """Show the window in front."""
        if self.isMinimized():
            self.showNormal()
        self.show()
        self.raise_()
        self.activateWindow()

    def say(self, sentence: str) -> None:
        """One sentence above the pages; an empty one takes it away."""
        self._banner.say(sentence)

    def go(self, page: Page) -> None:
        """Turn to a page; the unknown outcomes open their window."""
        if page is Page.UNKNOWN:
            self.unknown_asked.emit()
            return
        self._pages.setCurrentWidget(self._shown[page])
        for of, button in self._nav.items():
            button.set_current(of is page)
        self.refresh()

    @Slot(object)
    def show_status(self, status: Status) -> None:
        """Show this status, and read again what the page on show needs."""
        self._overview.show_status(status)
        self._vault.show_box(main_view.vault_box(status))
        self._strip.show_strip(main_view.strip(status))
        self._nav[Page.UNKNOWN].set_count(status.unknown)
        self.refresh()

    def refresh(self) -> None:
        """Read again what the page on show needs; not while nobody sees it."""
        if not self.isVisible():
            return
        if self._asking:
            self._stale = True
            return
        self._asking = True
        if self._pages.currentWidget() is self._activity:
            self._bridge.ask(
                self,
                lambda api: api.action_list(outcome=None, state=None, limit=main_view.ACTIVITY_LIMIT, before=None),
                self._got_activity,
            )
        elif self._pages.currentWidget() is self._hosts:
            self._bridge.ask(self, lambda api: api.hosts(), self._got_hosts)
        else:
            self._bridge.ask(self, lambda api: api.unknown(), self._got_unknown)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.refresh()

    def closeEvent(self, event: QCloseEvent) -> None:
        if event.spontaneous() and not self._tray_there():
            event.ignore()
            self.showMinimized()
        else:
            super().closeEvent(event)

    def _got_activity(self, answer: Answer[Json]) -> None:
        if isinstance(answer, Done):
            self._activity.show_rows(answer.value["rows"])
        self._asked()

    def _got_unknown(self, answer: Answer[Sequence[Json]]) -> None:
        if isinstance(answer, Done):
            self._overview.show_unknown(answer.value)
        self._asked()

    def _got_hosts(self, answer: Answer[Sequence[Json]]) -> None:
        if isinstance(answer, Refused):
            self._hosts.show_hosts((), refused=hosts_view.refused(answer.code, answer.message, answer.remedy))
        else:
            self._hosts.show_hosts(answer.value)
        self._asked()

    def _asked(self) -> None:
        self._asking = False
        if self._stale:
            self._stale = False
            self.refresh()

    def _lay_out(self) -> None:
        side = QWidget()
        side.setMinimumWidth(_SIDE_WIDTH)
        column = QVBoxLayout(side)
        column.setContentsMargins(8, 14, 8, 0)
        column.setSpacing(2)
        brand = QHBoxLayout()
        brand.setContentsMargins(8, 0, 8, 8)
        brand.setSpacing(10)
        brand.addWidget(_AppMark())
        brand.addWidget(Label(texts.APP, TextStyle.STRONG), 1)
        column.addLayout(brand)
        for button in self._nav.values():
            column.addWidget(button)
        column.addStretch(1)
        foot = QVBoxLayout()
        foot.setContentsMargins(0, 0, 0, 0)
        foot.addWidget(Rule())
        foot.addWidget(self._vault)
        left = QVBoxLayout()
        left.setSpacing(0)
        left.addWidget(side, 1)
        left.addLayout(foot)
        edge = Rule()
        edge.setFixedWidth(1)
        edge.setMaximumHeight(1 << 20)
        edge.setMinimumHeight(0)
        edge.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Expanding)
        right = QVBoxLayout()
        right.setSpacing(0)
        right.addWidget(self._banner)
        right.addWidget(self._pages, 1)
        right.addWidget(Rule())
        right.addWidget(self._strip)
        whole = QHBoxLayout(self)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.setSpacing(0)
        whole.addLayout(left)
        whole.addWidget(edge)
        whole.addLayout(right, 1)


class NavButton(QPushButton):
    """One line of the sidebar: icon, word, and a count where there is one."""

    _HEIGHT, _LEFT, _GAP = 32, 12, 10

    def __init__(self, page: Page, words: str) -> None:
        super().__init__(words)
        self._page = page
        self._current = False
        self._count = 0
        self.setAutoDefault(False)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setCheckable(False)

    def set_current(self, current: bool) -> None:
        """Whether this page is on show."""
        self._current = current
        self.setAccessibleDescription(texts.NAV_CURRENT if current else "")
        self.update()

    def set_count(self, count: int) -> None:
        """The number at the end of the line; none for 0."""
        self._count = count
        self.updateGeometry()
        self.setAccessibleDescription(texts.counted(count, *texts.TRAY_UNKNOWN) if count else "")
        self.update()

    def sizeHint(self) -> QSize:
        words, count = QFontMetrics(theme.font()), QFontMetrics(theme.font(TextStyle.STRONG))
        width = 2 * self._LEFT + 16 + self._GAP + words.horizontalAdvance(self.text())
        if self._page is Page.UNKNOWN:
            width += self._GAP + count.horizontalAdvance(str(max(self._count, 99)))
        return QSize(width, max(self._HEIGHT, words.height() + 12))

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def paintEvent(self, _event: QPaintEvent) -> None:
        tokens = theme.current()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if self._current or self.underMouse():
            ground = tokens.accent_tint if self._current else theme.mixed(tokens.accent_tint, tokens.window, 0.5)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(ground))
            painter.drawRoundedRect(self.rect(), theme.RADIUS_CONTROL, theme.RADIUS_CONTROL)
        top, ratio = (self.height() - 16) // 2, self.devicePixelRatioF()
        if self._page is Page.UNKNOWN:
            picture = theme.outcome_pixmap(Outcome.UNKNOWN, 16, ratio)
        else:
            picture = theme.pixmap(self._page.value, 16, "ink2", ratio)
        painter.drawPixmap(self._LEFT, top, picture)
        painter.setFont(theme.font())
        painter.setPen(QColor(tokens.ink))
        words = self.rect().adjusted(self._LEFT + 16 + self._GAP, 0, -self._LEFT, 0)
        painter.drawText(words, Qt.AlignmentFlag.AlignVCenter, self.text())
        if self._count:
            painter.setFont(theme.font(TextStyle.STRONG))
            painter.setPen(QColor(tokens.outcome[Outcome.UNKNOWN].text))
            painter.drawText(words, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight, str(self._count))


class _AppMark(QWidget):
    def __init__(self) -> None:
        super().__init__()
        self.setFixedSize(22, 22)

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
        theme.app_icon().paint(painter, self.rect())


class _VaultBox(QWidget):
    """The vault's state and the one button that changes it."""

    lock_asked = Signal()
    unlock_asked = Signal()
    quit_asked = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._open = False
        self._locked, self._unlocked = Glyph("lock"), Glyph("unlock")
        self._title, self._note = Label(), Label(style=TextStyle.CAPTION, token="ink2")
        self._button = QPushButton(texts.MENU_LOCK)
        self._button.setProperty("kind", theme.SMALL)
        self._button.setAutoDefault(False)
        self._button.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self._button.clicked.connect(self._clicked)
        column = QVBoxLayout(self)
        column.setContentsMargins(16, 12, 12, 14)
        column.setSpacing(8)
        row = QHBoxLayout()
        row.setSpacing(10)
        words = QVBoxLayout()
        words.setSpacing(0)
        words.addWidget(self._title)
        words.addWidget(self._note)
        row.addWidget(self._locked)
        row.addWidget(self._unlocked)
        row.addLayout(words, 1)
        column.addLayout(row)
        leave = LinkButton(texts.MENU_QUIT)
        leave.setProperty("kind", theme.SMALL)
        leave.clicked.connect(self.quit_asked)
        buttons = QHBoxLayout()
        buttons.addWidget(self._button)
        buttons.addStretch(1)
        buttons.addWidget(leave)
        column.addLayout(buttons)

    def show_box(self, box: main_view.VaultBox) -> None:
        self._open = box.open
        self._locked.setVisible(not box.open)
        self._unlocked.setVisible(box.open)
        self._title.setText(box.title)
        self._note.setText(box.note)
        self._button.setText(texts.MENU_LOCK if box.open else texts.MENU_UNLOCK)

    def _clicked(self) -> None:
        (self.lock_asked if self._open else self.unlock_asked).emit()


class _Banner(QWidget):
    """What the person should know now, whatever page is on show."""

    def __init__(self) -> None:
        super().__init__()
        outer = QVBoxLayout(self)
        outer.setContentsMargins(24, 14, 24, 0)
        panel = Panel(PanelKind.SUNKEN)
        row = QHBoxLayout(panel)
        row.setContentsMargins(14, 8, 14, 8)
        row.setSpacing(8)
        row.addWidget(Glyph("warning"))
        self._text = Label(wrap=True)
        row.addWidget(self._text, 1)
        outer.addWidget(panel)
        self.hide()

    def say(self, sentence: str) -> None:
        self._text.setText(sentence)
        self.setVisible(bool(sentence))


class _StatusStrip(QWidget):
    """Record, agents, cards waiting."""

    show_asked = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._record = Label(style=TextStyle.CAPTION, token="ink2", wrap=True)
        self._agents = Label(style=TextStyle.CAPTION, token="ink2")
        self._cards = Label(style=TextStyle.CAPTION)
        self._show = LinkButton(texts.STRIP_SHOW)
        self._show.setAccessibleName(texts.STRIP_SHOW_NAME)
        self._show.setProperty("kind", theme.SMALL)
        self._show.clicked.connect(self.show_asked)
        parts = Reflow()
        parts.add(_beside(Glyph("chain", 14), self._record), 1)
        parts.add(_beside(Glyph("connected", 14), self._agents), 0)
        parts.add(_beside(self._cards, self._show), 0)
        around = QVBoxLayout(self)
        around.setContentsMargins(24, 2, 16, 2)
        around.addLayout(parts)
        self.setMinimumHeight(31)

    def show_strip(self, strip: main_view.Strip) -> None:
        self._record.setText(strip.record)
        self._agents.setText(strip.agents)
        self._cards.setText(strip.cards)
        self._show.setVisible(strip.show)


def _beside(first: QWidget, second: QWidget) -> QWidget:
    made = QWidget()
    row = QHBoxLayout(made)
    row.setContentsMargins(0, 0, 0, 0)
    row.setSpacing(8)
    row.addWidget(first)
    row.addWidget(second, 1)
    return made
