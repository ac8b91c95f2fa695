"""What can be read and told apart: contrast, silhouettes, and icons that are masks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtGui import QImage, QPalette
from PySide6.QtWidgets import QApplication

from affidavit.broker.terms import Outcome
from affidavit.gui import theme
from affidavit.gui.theme import Scheme
from affidavit.gui.theme.tokens import CONTROL_CONTRAST, TEXT_CONTRAST, contrast, with_accent
from affidavit.resources import icons

SURFACES = ("window", "base", "raised", "sunken", "accent_tint")


@pytest.mark.parametrize("scheme", Scheme)
@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("token", ["ink", "ink2", "ink3", "accent"])
def test_text_can_be_read_on_every_surface(scheme: Scheme, surface: str, token: str) -> None:
    colours = theme.tokens(scheme)
    assert contrast(colours.colour(token), colours.colour(surface)) >= TEXT_CONTRAST


@pytest.mark.parametrize("scheme", Scheme)
@pytest.mark.parametrize("outcome", Outcome)
def test_an_outcome_can_be_read_on_its_tint_and_on_panels(scheme: Scheme, outcome: Outcome) -> None:
    colours = theme.tokens(scheme)
    own = colours.outcome[outcome]
    for ground in (own.tint, colours.base, colours.window):
        assert contrast(own.text, ground) >= TEXT_CONTRAST


@pytest.mark.parametrize("scheme", Scheme)
def test_what_acts_and_what_edges_can_be_seen(scheme: Scheme) -> None:
    colours = theme.tokens(scheme)
    assert contrast(colours.on_accent, colours.accent) >= TEXT_CONTRAST
    for ground in (colours.base, colours.window):
        assert contrast(colours.border2, ground) >= CONTROL_CONTRAST
        assert contrast(colours.accent, ground) >= CONTROL_CONTRAST


def test_an_amber_notice_can_be_read() -> None:
    for scheme in Scheme:
        colours = theme.tokens(scheme)
        assert contrast(colours.ink, colours.colour("unknown.tint")) >= TEXT_CONTRAST


def test_contrast_is_that_of_the_guideline() -> None:
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize(
    ("accent", "why"),
    [(None, "none"), ("#ffd400", "unreadable on white"), ("#0a6a4d", "committed's"), ("#b03a0c", "near rejected's")],
)
def test_an_accent_that_misleads_is_not_taken(accent: str | None, why: str) -> None:
    assert with_accent(Scheme.LIGHT, accent) == theme.tokens(Scheme.LIGHT), why


def test_a_readable_accent_of_the_desktop_is_taken() -> None:
    colours = with_accent(Scheme.LIGHT, "#8a1a8a")
    assert colours.accent == "#8a1a8a"
    assert contrast(colours.on_accent, colours.accent) >= TEXT_CONTRAST


def test_no_token_by_another_name() -> None:
    for name in ("no_such", "outcome", "colour", "unknown.glow"):
        with pytest.raises((KeyError, AttributeError)):
            theme.tokens(Scheme.LIGHT).colour(name)


@pytest.mark.parametrize("scheme", Scheme)
def test_the_palette_is_whole(qapp: QApplication, scheme: Scheme) -> None:
    theme.apply(qapp, scheme)
    colours = theme.tokens(scheme)
    palette = qapp.palette()
    assert palette.color(QPalette.ColorRole.Base).name() == colours.base
    assert palette.color(QPalette.ColorRole.ButtonText).name() == colours.ink
    assert palette.color(QPalette.ColorGroup.Disabled, QPalette.ColorRole.Text).name() == colours.ink3
    assert theme.current() is colours


@pytest.mark.parametrize("name", icons.names("ui"))
def test_a_ui_icon_is_tinted_and_nothing_else(qapp: QApplication, name: str) -> None:
    theme.apply(qapp, Scheme.LIGHT)
    image = theme.pixmap(name, 16, "accent", 2.0).toImage()
    assert (image.width(), image.devicePixelRatio()) == (32, 2.0)
    assert _colours_of(image) == {theme.tokens(Scheme.LIGHT).accent}


@pytest.mark.parametrize("outcome", Outcome)
def test_an_outcome_icon_has_its_colour_in_each_scheme(qapp: QApplication, outcome: Outcome) -> None:
    for scheme in Scheme:
        theme.apply(qapp, scheme)
        image = theme.outcome_icon(outcome, 16).pixmap(16, 16).toImage()
        assert _colours_of(image) == {theme.tokens(scheme).outcome[outcome].text}


def test_type_sizes_follow_the_base(qapp: QApplication) -> None:
    base = theme.base_px()
    assert theme.font(theme.TextStyle.TITLE).pixelSize() == base + 4
    assert theme.mono_font(theme.MonoStyle.FINGERPRINT).pixelSize() == base + 2
    assert theme.mono_font().fixedPitch() or theme.mono_font().styleHint() == theme.mono_font().StyleHint.Monospace


@pytest.fixture
def desktop(qapp: QApplication) -> Iterator[QPalette]:
    """The desktop's own palette."""
    qapp.setPalette(QPalette())
    yield QPalette(qapp.palette())
    theme.apply(qapp, Scheme.LIGHT)


@pytest.mark.parametrize("scheme", Scheme)
@pytest.mark.parametrize("setting", ["system", "light", "dark"])
def test_the_setting_is_put_on_and_system_follows_the_desktop(
    qapp: QApplication, desktop: QPalette, monkeypatch: pytest.MonkeyPatch, setting: str, scheme: Scheme
) -> None:
    monkeypatch.setattr(theme, "_desktop_scheme", lambda _app: scheme)
    assert theme.put_on(qapp, setting) is scheme
    wanted = scheme if setting == "system" else Scheme(setting)
    assert theme.current() == theme.tokens(wanted)
    assert qapp.palette().color(QPalette.ColorRole.Window).name() == theme.tokens(wanted).window


def test_the_desktops_accent_outlasts_a_switch(
    qapp: QApplication, desktop: QPalette, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def accent(app: QApplication) -> str:
        asked.append(app.palette().color(QPalette.ColorRole.Accent).name())
        return "#2266ff"

    monkeypatch.setattr(theme, "_desktop_accent", accent)
    theme.put_on(qapp, "light")
    theme.put_on(qapp, "light")
    assert theme.current().accent == "#2266ff"
    theme.put_on(qapp, "dark")
    assert theme.current() == with_accent(Scheme.DARK, "#2266ff")
    assert asked == [desktop.color(QPalette.ColorRole.Accent).name()] * 3, "not our own, which was on"


def test_high_contrast_takes_the_desktops_palette_whole(
    qapp: QApplication, desktop: QPalette, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(theme, "_wants_high_contrast", lambda _app: True)
    theme.apply(qapp, Scheme.DARK)
    theme.put_on(qapp)
    for role in (QPalette.ColorRole.Window, QPalette.ColorRole.Text, QPalette.ColorRole.Highlight):
        assert qapp.palette().color(role) == desktop.color(role)
    ink = desktop.color(QPalette.ColorRole.WindowText).name()
    assert (theme.current().ink2, theme.current().colour("unknown.text")) == (ink, ink)
    theme.put_on(qapp, "dark")
    assert theme.current() == theme.tokens(Scheme.DARK), "the operator's own choice goes before"


def test_a_dark_desktop_that_does_not_say_so_is_told_by_its_window(qapp: QApplication, desktop: QPalette) -> None:
    theme.apply(qapp, Scheme.DARK)
    assert theme.put_on(qapp) is Scheme.LIGHT, "by the desktop's palette, not by ours"


def _colours_of(image: QImage) -> set[str]:
    """The colours of what is opaque; the rounding of half-transparent edges is no colour of its own."""
    found = {
        image.pixelColor(x, y).name()
        for x in range(image.width())
        for y in range(image.height())
        if image.pixelColor(x, y).alpha() == 255
    }
    assert found, "nothing is drawn"
    return found
