"""How Affidavit looks: colours, palettes, the style sheet, type, icons and the focus ring, for all windows.

`apply` puts a scheme on the application; widgets then ask `current()` while they paint, and take QEvent.StyleChange as
the sign to fetch icons and fonts again. Tinted pictures and colours go by token names (`ink2`, `accent`,
`unknown.text`), never by values.
"""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QApplication, QStyle

from affidavit.gui.theme import palettes, state
from affidavit.gui.theme.focus import PLAIN, RING, FocusRing
from affidavit.gui.theme.fonts import MonoStyle, TextStyle, base_px, font, mono_font
from affidavit.gui.theme.icons import app_icon, icon, outcome_icon, outcome_pixmap, pixmap, tray_icon
from affidavit.gui.theme.sheet import PAGE, PRIMARY, SMALL, sheet
from affidavit.gui.theme.state import current
from affidavit.gui.theme.tokens import OutcomeColours, Scheme, Tokens, contrast, mixed, tokens, with_accent

__all__ = [
    "PAGE",
    "PLAIN",
    "PRIMARY",
    "RADIUS_BADGE",
    "RADIUS_CONTROL",
    "RADIUS_PANEL",
    "RING",
    "SMALL",
    "FocusRing",
    "MonoStyle",
    "OutcomeColours",
    "Scheme",
    "TextStyle",
    "Tokens",
    "app_icon",
    "apply",
    "apply_high_contrast",
    "base_px",
    "contrast",
    "current",
    "desktop_accent",
    "desktop_scheme",
    "font",
    "icon",
    "less_motion",
    "mixed",
    "mono_font",
    "outcome_icon",
    "outcome_pixmap",
    "pixmap",
    "tokens",
    "tray_icon",
    "wants_high_contrast",
]

RADIUS_PANEL, RADIUS_CONTROL, RADIUS_BADGE = 8, 6, 5


def apply(app: QApplication, scheme: Scheme, accent: str | None = None) -> None:
    """Put a scheme on the application: Fusion, our palette, our sheet. `accent` is the desktop's own, if it has one.

    May be called again whenever the desktop's scheme changes.
    """
    colours = with_accent(scheme, accent)
    state.set_current(colours)
    if app.style().objectName().lower() != "fusion":
        app.setStyle("Fusion")
    app.setPalette(palettes.palette(colours))
    app.setStyleSheet(sheet(colours))


def desktop_scheme(app: QApplication) -> Scheme:
    """The desktop's scheme; where it does not say one, that of its window colour. Ask before the first `apply`."""
    said = app.styleHints().colorScheme()
    if said is Qt.ColorScheme.Unknown:
        dark = app.palette().color(QPalette.ColorRole.Window).lightnessF() < 0.5
    else:
        dark = said is Qt.ColorScheme.Dark
    return Scheme.DARK if dark else Scheme.LIGHT


def desktop_accent(app: QApplication) -> str | None:
    """The accent that the desktop chose, `#rrggbb`; None where there is only Qt's own. Ask before the first `apply`."""
    chosen = app.palette().color(QPalette.ColorRole.Accent).name()
    built_in = app.style().standardPalette().color(QPalette.ColorRole.Accent).name()
    return None if chosen == built_in else chosen


def apply_high_contrast(app: QApplication) -> None:
    """Take the desktop's palette whole, and keep only our shapes. For a desktop that wants_high_contrast()."""
    system = app.palette()
    colours = palettes.borrowed(system)
    state.set_current(colours)
    app.setStyle("Fusion")
    app.setPalette(system)
    app.setStyleSheet(sheet(colours))


def wants_high_contrast(app: QApplication) -> bool:
    """Whether the desktop asks for more contrast than our colours promise."""
    hints = getattr(app.styleHints(), "accessibility", None)  # Qt 6.10
    return hints is not None and hints().contrastPreference() is Qt.ContrastPreference.HighContrast


def less_motion() -> bool:
    """Whether the desktop asks for less motion; then nothing fades or fills."""
    return QApplication.style().styleHint(QStyle.StyleHint.SH_Widget_Animation_Duration) == 0
