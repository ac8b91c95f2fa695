"""How Affidavit looks: colours, palettes, the style sheet, type, icons and the focus ring, for all windows.

`put_on` reads the desktop and the operator's setting and puts on what they ask for; `apply` puts on one scheme. Widgets
then ask `current()` while they paint, and take QEvent.StyleChange as the sign to fetch icons and fonts again. Tinted
pictures and colours go by token names (`ink2`, `accent`, `unknown.text`), never by values.
"""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtGui import QPalette
from PySide6.QtWidgets import QApplication, QStyle

from affidavit.gui.theme import palettes, state
from affidavit.gui.theme.focus import PLAIN, RING, FocusRing, tab_order
from affidavit.gui.theme.fonts import MonoStyle, TextStyle, base_px, font, mono_font, scaled
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
    "SYSTEM",
    "FocusRing",
    "MonoStyle",
    "OutcomeColours",
    "Scheme",
    "TextStyle",
    "Tokens",
    "app_icon",
    "apply",
    "base_px",
    "contrast",
    "current",
    "font",
    "icon",
    "less_motion",
    "mixed",
    "mono_font",
    "on_desktop_change",
    "outcome_icon",
    "outcome_pixmap",
    "pixmap",
    "put_on",
    "scaled",
    "tab_order",
    "tokens",
    "tray_icon",
]

RADIUS_PANEL, RADIUS_CONTROL, RADIUS_BADGE = 8, 6, 5
SYSTEM = "system"
"""The setting that follows the desktop."""


def put_on(app: QApplication, setting: str = SYSTEM) -> Scheme:
    """Put on the colours that `look.theme` asks for: `system`, `light` or `dark`. Returns the desktop's own scheme.

    For the start, a change of the setting and a change of the desktop. `system` follows the desktop: its scheme, or its
    palette whole where it asks for more contrast. Its accent is taken under either scheme.
    """
    _fusion(app)
    app.setPalette(QPalette())  # the desktop's again, which ours hides
    desktop = _desktop_scheme(app)
    if setting == SYSTEM and _wants_high_contrast(app):
        colours = palettes.borrowed(app.palette())
        state.set_current(colours)
        app.setStyleSheet(sheet(colours))
    else:
        apply(app, desktop if setting == SYSTEM else Scheme(setting), _desktop_accent(app))
    return desktop


def on_desktop_change(app: QApplication, then: Callable[[], object]) -> None:
    """Have `then` called whenever the desktop changed its scheme or its contrast."""
    hints = app.styleHints()
    hints.colorSchemeChanged.connect(then)
    if hasattr(hints, "accessibility"):  # Qt 6.10
        hints.accessibility().contrastPreferenceChanged.connect(then)


def apply(app: QApplication, scheme: Scheme, accent: str | None = None) -> None:
    """Put a scheme on the application: Fusion, our palette, our sheet. `accent` is the desktop's own, if it has one."""
    colours = with_accent(scheme, accent)
    state.set_current(colours)
    _fusion(app)
    app.setPalette(palettes.palette(colours))
    app.setStyleSheet(sheet(colours))


def _fusion(app: QApplication) -> None:
    if app.style().objectName().lower() != "fusion":
        app.setStyle("Fusion")


def _desktop_scheme(app: QApplication) -> Scheme:
    """The desktop's scheme; where it does not say one, that of its window colour."""
    said = app.styleHints().colorScheme()
    if said is Qt.ColorScheme.Unknown:
        dark = app.palette().color(QPalette.ColorRole.Window).lightnessF() < 0.5
    else:
        dark = said is Qt.ColorScheme.Dark
    return Scheme.DARK if dark else Scheme.LIGHT


def _desktop_accent(app: QApplication) -> str | None:
    """The accent that the desktop chose, `#rrggbb`; None where there is only Qt's own."""
    chosen = app.palette().color(QPalette.ColorRole.Accent).name()
    built_in = app.style().standardPalette().color(QPalette.ColorRole.Accent).name()
    return None if chosen == built_in else chosen


def _wants_high_contrast(app: QApplication) -> bool:
    """Whether the desktop asks for more contrast than our colours promise."""
    hints = app.styleHints()
    if not hasattr(hints, "accessibility"):  # Qt 6.10
        return False
    return hints.accessibility().contrastPreference() is Qt.ContrastPreference.HighContrast


def less_motion() -> bool:
    """Whether the desktop asks for less motion; then nothing fades or fills."""
    return QApplication.style().styleHint(QStyle.StyleHint.SH_Widget_Animation_Duration) == 0
