"""The tray icon: pictures of each face, the menu's choices, and life without a tray."""

from __future__ import annotations

import pytest
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QApplication, QSystemTrayIcon
from pytestqt.qtbot import QtBot
from tests.gui.scripted_broker import READY

from affidavit.gui import theme
from affidavit.gui.status import Status
from affidavit.gui.theme import Scheme
from affidavit.gui.tray import Tray, panel_scheme, picture
from affidavit.gui.tray_view import Choice, Face


def status(**said: object) -> Status:
    return Status.read({**READY, **said})


def image(face: Face, corner: str | None, panel: Scheme, size: int) -> QImage:
    pixmap = picture(face, corner, panel).pixmap(size, size)
    assert pixmap.width() == size
    return pixmap.toImage()


def changed(before: QImage, after: QImage) -> list[tuple[int, int]]:
    """The pixels that differ."""
    assert before.size() == after.size()
    return [
        (x, y) for x in range(before.width()) for y in range(before.height()) if before.pixel(x, y) != after.pixel(x, y)
    ]


def in_disc(x: int, y: int, size: int) -> bool:
    unit = size / 32
    return abs(x + 0.5 - 25 * unit) <= 6.5 * unit + 1 and abs(y + 0.5 - 7 * unit) <= 6.5 * unit + 1


@pytest.fixture(autouse=True)
def dressed(qapp: QApplication) -> None:
    theme.apply(qapp, Scheme.LIGHT)


@pytest.fixture
def tray(qtbot: QtBot) -> Tray:
    return Tray(Scheme.DARK)


def test_every_face_has_its_own_picture_on_either_panel() -> None:
    seen = [
        image(face, None, panel, 32).bits().tobytes()  # type: ignore[union-attr]
        for face in Face
        for panel in Scheme
    ]
    assert len(set(seen)) == len(seen)


@pytest.mark.parametrize("panel", list(Scheme))
def test_the_count_is_drawn_from_22_pixels_on(panel: Scheme) -> None:
    for size, drawn in ((16, False), (22, True), (24, True), (32, True), (44, True), (48, True), (64, True)):
        plain, one, many = (image(Face.WAITING, c, panel, size) for c in (None, "1", "+"))
        for counted in (one, many):
            assert bool(changed(plain, counted)) is drawn
            assert all(in_disc(x, y, size) for x, y in changed(plain, counted))


def test_the_panel_is_dark_where_it_does_not_follow_the_scheme() -> None:
    assert panel_scheme(Scheme.LIGHT, "ubuntu:GNOME") is Scheme.DARK
    assert panel_scheme(Scheme.LIGHT, "XFCE") is Scheme.DARK
    assert panel_scheme(Scheme.LIGHT, "") is Scheme.DARK
    assert panel_scheme(Scheme.LIGHT, "KDE") is Scheme.LIGHT
    assert panel_scheme(Scheme.DARK, "KDE") is Scheme.DARK


def test_tooltip_and_menu_follow_the_status(tray: Tray) -> None:
    tray.show_status(status(cards=2, unknown=1))
    assert tray._icon is not None
    assert tray._icon.toolTip() == "Affidavit: ready\n2 requests wait for you\n1 outcome is unknown"
    words = [a.text() for a in tray._menu.actions() if not a.isSeparator()]
    assert words == [
        "Review 2 waiting requests",
        "1 unknown outcome…",
        "Lock now",
        "Open Affidavit",
        "Quit - 2 cards close",
    ]


def test_the_menu_is_filled_again_only_when_it_says_something_else(tray: Tray) -> None:
    tray.show_status(status(cards=1))
    before = tray._menu.actions()
    tray.show_status(status(cards=1, head={"record": 99}))
    assert tray._menu.actions() == before


def test_choosing_tells_the_choice(tray: Tray, qtbot: QtBot) -> None:
    tray.show_status(status(vault="locked"))
    for words, choice in (("Unlock…", Choice.UNLOCK), ("Open Affidavit", Choice.OPEN), ("Quit", Choice.QUIT)):
        action = next(a for a in tray._menu.actions() if a.text() == words)
        with qtbot.waitSignal(tray.chosen) as chosen:
            action.trigger()
        assert chosen.args == [choice]


def test_a_click_reviews_what_waits_and_opens_else(tray: Tray, qtbot: QtBot) -> None:
    for said, choice in (({"cards": 1}, Choice.REVIEW), ({}, Choice.OPEN)):
        tray.show_status(status(**said))
        assert tray._icon is not None
        with qtbot.waitSignal(tray.chosen) as chosen:
            tray._icon.activated.emit(QSystemTrayIcon.ActivationReason.Trigger)
        assert chosen.args == [choice]


def test_without_a_tray_there_is_none_and_nothing_breaks(tray: Tray) -> None:
    assert not tray.available
    tray.show_status(status(unknown=1))
    tray.restyle(Scheme.LIGHT)
    tray.hide()


def test_an_icon_made_without_a_watcher_is_made_anew_when_one_comes(tray: Tray) -> None:
    tray._had_watcher = False
    before = tray._icon
    tray._watcher_came("org.kde.StatusNotifierWatcher")
    assert tray._icon is not before
    tray._had_watcher = True
    before = tray._icon
    tray._watcher_came("org.kde.StatusNotifierWatcher")
    assert tray._icon is before
