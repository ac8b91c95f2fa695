"""Our two palettes: the desktop's scheme is read, not trusted, since a half-set palette leaves unreadable controls."""

from __future__ import annotations

from types import MappingProxyType

from PySide6.QtGui import QColor, QPalette

from affidavit.broker.terms import Outcome
from affidavit.gui.theme.tokens import OutcomeColours, Tokens

_ROLES = {
    QPalette.ColorRole.Window: "window",
    QPalette.ColorRole.WindowText: "ink",
    QPalette.ColorRole.Base: "base",
    QPalette.ColorRole.AlternateBase: "window",
    QPalette.ColorRole.Text: "ink",
    QPalette.ColorRole.Button: "raised",
    QPalette.ColorRole.ButtonText: "ink",
    QPalette.ColorRole.BrightText: "ink",
    QPalette.ColorRole.Highlight: "accent",
    QPalette.ColorRole.HighlightedText: "on_accent",
    QPalette.ColorRole.Accent: "accent",
    QPalette.ColorRole.Link: "accent",
    QPalette.ColorRole.LinkVisited: "accent",
    QPalette.ColorRole.PlaceholderText: "ink3",
    QPalette.ColorRole.ToolTipBase: "raised",
    QPalette.ColorRole.ToolTipText: "ink",
    QPalette.ColorRole.Light: "raised",
    QPalette.ColorRole.Midlight: "border",
    QPalette.ColorRole.Mid: "border2",
    QPalette.ColorRole.Dark: "border2",
    QPalette.ColorRole.Shadow: "border2",
}
_DISABLED_TEXT = (QPalette.ColorRole.Text, QPalette.ColorRole.WindowText, QPalette.ColorRole.ButtonText)


def palette(tokens: Tokens) -> QPalette:
    """A palette with every role set from `tokens`."""
    made = QPalette()
    for role, token in _ROLES.items():
        made.setColor(role, QColor(tokens.colour(token)))
    for role in _DISABLED_TEXT:
        made.setColor(QPalette.ColorGroup.Disabled, role, QColor(tokens.ink3))
    return made


def borrowed(system: QPalette) -> Tokens:
    """Tokens that are a high-contrast palette's own colours; outcomes keep their shapes and lose their colours."""

    def of(role: QPalette.ColorRole) -> str:
        return system.color(QPalette.ColorGroup.Active, role).name()

    ink, base = of(QPalette.ColorRole.WindowText), of(QPalette.ColorRole.Base)
    return Tokens(
        window=of(QPalette.ColorRole.Window),
        base=base,
        raised=of(QPalette.ColorRole.Button),
        sunken=of(QPalette.ColorRole.Window),
        trough=base,
        border=ink,
        border2=ink,
        ink=ink,
        ink2=ink,
        ink3=ink,
        accent=of(QPalette.ColorRole.Highlight),
        on_accent=of(QPalette.ColorRole.HighlightedText),
        accent_tint=base,
        outcome=MappingProxyType({outcome: OutcomeColours(ink, ink, base) for outcome in Outcome}),
    )
