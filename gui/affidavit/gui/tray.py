"""The tray icon: state, counts and the short menu. It is a convenience; nothing needs it (design, Tray).

Qt chooses how to reach a tray when the icon is made, and never again: an icon made before a StatusNotifierWatcher
exists stays invisible for ever. So the bus is watched, and an icon that was made without a watcher is made anew once
one appears. (An icon that had one registers again by itself; a second one beside it would show twice.)
"""

from __future__ import annotations

from PySide6.QtCore import QByteArray, QObject, QPointF, QRectF, Qt, Signal, Slot
from PySide6.QtDBus import QDBusConnection, QDBusServiceWatcher
from PySide6.QtGui import QAction, QColor, QIcon, QPainter, QPen, QPixmap
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtWidgets import QMenu, QSystemTrayIcon

from affidavit.broker.terms import Outcome
from affidavit.gui import theme, tray_view
from affidavit.gui.status import Status
from affidavit.gui.theme import Scheme
from affidavit.gui.tray_view import Choice, Face
from affidavit.resources import icons

WATCHER = "org.kde.StatusNotifierWatcher"
_SIZES = (16, 22, 24, 32, 44, 48, 64)
_COUNT_FROM = 22
"""Below this a digit in the corner disc cannot be read; the disc alone says that something waits."""
_ICONS = {
    Choice.REVIEW: "grant",
    Choice.LOCK: "lock",
    Choice.UNLOCK: "unlock",
    Choice.OPEN: "overview",
}


def panel_scheme(desktop: Scheme, session: str) -> Scheme:
    """The scheme of the panel that the icon stands on; `session` is XDG_CURRENT_DESKTOP.

    No desktop tells it. Plasma's and MATE's panels follow the desktop's scheme; those of GNOME, Xfce, Cinnamon and the
    small bars come dark in either.
    """
    follows = {"KDE", "MATE"} & set(session.upper().split(":"))
    return desktop if follows else Scheme.DARK


def picture(face: Face, corner: str | None, panel: Scheme) -> QIcon:
    """The icon of a face on such a panel, with the count painted into its corner disc from 22 px on."""
    svg = QSvgRenderer(QByteArray(icons.svg("tray", f"{face.value}-on-{panel.value}")))
    made = QIcon()
    for size in _SIZES:
        pixmap = QPixmap(size, size)  # a tray counts pixels: no device pixel ratio
        pixmap.fill(Qt.GlobalColor.transparent)
        painter = QPainter(pixmap)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        svg.render(painter, QRectF(0, 0, size, size))
        if corner is not None and size >= _COUNT_FROM:
            _count(painter, size / 32, corner, panel)
        painter.end()
        made.addPixmap(pixmap)
    return made


def _count(painter: QPainter, unit: float, corner: str, panel: Scheme) -> None:
    """Write the count into the disc, `unit` pixels to one of the picture's 32; the plus of ten and more is drawn."""
    disc = QRectF((25 - 6.5) * unit, (7 - 6.5) * unit, 13 * unit, 13 * unit)
    ink = QColor(theme.tokens(panel).on_accent)
    if corner == "+":
        painter.setPen(QPen(ink, max(1.5, 2.2 * unit)))
        middle, arm = disc.center(), 3.6 * unit
        painter.drawLine(middle - QPointF(arm, 0), middle + QPointF(arm, 0))
        painter.drawLine(middle - QPointF(0, arm), middle + QPointF(0, arm))
    else:
        font = theme.font(theme.TextStyle.STRONG)
        font.setPixelSize(max(8, round(11 * unit)))
        painter.setFont(font)
        painter.setPen(ink)
        painter.drawText(disc, Qt.AlignmentFlag.AlignCenter, corner)


class Tray(QObject):
    """The icon and its menu, kept true to the newest status. Owned by the main thread."""

    chosen = Signal(object)
    """A `Choice`; a click on the icon itself is `Choice.OPEN`, or `Choice.REVIEW` while a card waits."""

    def __init__(self, panel: Scheme, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._panel = panel
        self._status = Status()
        self._menu = QMenu()
        self._icon: QSystemTrayIcon | None = None
        self._had_watcher = False
        self._shown: tuple[Face, str | None, Scheme] | None = None
        self._entries: tuple[tuple[tray_view.Entry, ...], ...] | None = None
        bus = QDBusConnection.sessionBus()
        self._watch = QDBusServiceWatcher(WATCHER, bus, QDBusServiceWatcher.WatchModeFlag.WatchForRegistration, self)
        self._watch.serviceRegistered.connect(self._watcher_came)
        self._make()

    @property
    def available(self) -> bool:
        """Whether a tray can be reached now. True proves no more than that: a watcher without a host shows nothing."""
        return QSystemTrayIcon.isSystemTrayAvailable()

    def show_status(self, status: Status) -> None:
        """Draw this status."""
        self._status = status
        self._draw()

    def restyle(self, panel: Scheme) -> None:
        """Fetch pictures again after the scheme changed."""
        self._panel = panel
        self._shown = self._entries = None
        self._draw()

    def hide(self) -> None:
        """Take the icon away."""
        if self._icon is not None:
            self._icon.hide()

    def _make(self) -> None:
        if self._icon is not None:
            self._icon.hide()
            self._icon.deleteLater()
        self._had_watcher = _has_watcher()
        self._icon = QSystemTrayIcon(self)
        self._icon.setContextMenu(self._menu)
        self._icon.activated.connect(self._activated)
        self._shown = self._entries = None
        self._draw()
        self._icon.show()

    def _draw(self) -> None:
        if self._icon is None:
            return
        shown = (tray_view.face(self._status), tray_view.corner(self._status), self._panel)
        if shown != self._shown:
            self._shown = shown
            self._icon.setIcon(picture(*shown))
        self._icon.setToolTip(tray_view.tooltip(self._status))
        entries = tray_view.menu(self._status)
        if entries != self._entries:
            self._entries = entries
            self._fill(entries)

    def _fill(self, groups: tuple[tuple[tray_view.Entry, ...], ...]) -> None:
        self._menu.clear()
        for i, group in enumerate(groups):
            if i:
                self._menu.addSeparator()
            for entry in group:
                action = QAction(self._menu_icon(entry.choice), entry.text, self._menu)
                action.setEnabled(entry.enabled)
                action.setData(entry.choice)
                action.triggered.connect(self._triggered)
                self._menu.addAction(action)

    @staticmethod
    def _menu_icon(choice: Choice) -> QIcon:
        if choice is Choice.UNKNOWN:
            return theme.outcome_icon(Outcome.UNKNOWN)
        return theme.icon(_ICONS[choice]) if choice in _ICONS else QIcon()

    @Slot()
    def _triggered(self) -> None:
        action = self.sender()
        assert isinstance(action, QAction)
        self.chosen.emit(Choice(action.data()))

    @Slot(QSystemTrayIcon.ActivationReason)
    def _activated(self, reason: QSystemTrayIcon.ActivationReason) -> None:
        if reason in (QSystemTrayIcon.ActivationReason.Trigger, QSystemTrayIcon.ActivationReason.DoubleClick):
            self.chosen.emit(Choice.REVIEW if self._status.cards else Choice.OPEN)

    @Slot(str)
    def _watcher_came(self, _service: str) -> None:
        if not self._had_watcher:
            self._make()


def _has_watcher() -> bool:
    bus = QDBusConnection.sessionBus()
    if not bus.isConnected():
        return False
    registered = bus.interface().isServiceRegistered(WATCHER)
    return bool(registered.value())
