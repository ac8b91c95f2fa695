"""The one style sheet: push buttons, text fields, check and radio indicators, table frame and header.

Combo boxes, spin boxes, menus and scroll areas stay with Fusion and the palette: half-styled they lose their arrows.
A button says what it is by its dynamic property `kind`. Panels are painted by `widgets.Panel`, since dashes of a style
sheet break at round corners; focus is drawn by `focus.FocusRing`.
"""

from __future__ import annotations

from string import Template

from affidavit.gui.theme.tokens import Tokens, mixed

PRIMARY = "primary"
"""`kind` of the one button that acts."""
SMALL = "small"
"""`kind` of a button 26 high instead of 32."""
PAGE = "page"
"""`kind` of a text that is read and not written: it looks like a panel, not like a field."""

_SHEET = Template("""
QPushButton {
  background: $raised; color: $ink; border: 1px solid $border2; border-radius: 6px;
  padding: 0 16px; min-height: 30px; font-weight: 600; outline: none;
}
QPushButton:hover { background: $hover; }
QPushButton:pressed { background: $accent_tint; }
QPushButton:disabled { color: $ink3; border: 1px dashed $border2; background: transparent; }
QPushButton[kind="small"] { min-height: 24px; padding: 0 10px; }
QPushButton[kind="primary"] { background: $accent; color: $on_accent; border: 1px solid $accent; }
QPushButton[kind="primary"]:hover { background: $accent_hover; }
QPushButton[kind="primary"]:pressed { background: $accent_down; }
QPushButton[kind="primary"]:disabled { color: $ink3; border: 1px dashed $border2; background: transparent; }
QLineEdit {
  background: $base; color: $ink; border: 1px solid $border2; border-radius: 6px; padding: 0 9px; min-height: 30px;
  selection-background-color: $accent; selection-color: $on_accent; outline: none;
}
QLineEdit:disabled { color: $ink3; }
QPlainTextEdit {
  background: $base; color: $ink; border: 1px solid $border2; border-radius: 6px; padding: 3px 5px;
  selection-background-color: $accent; selection-color: $on_accent; outline: none;
}
QPlainTextEdit[kind="page"] { border: 1px solid $border; border-radius: 8px; padding: 0; }
QCheckBox, QRadioButton { spacing: 8px; outline: none; }
QCheckBox::indicator, QRadioButton::indicator {
  width: 14px; height: 14px; border: 1px solid $border2; background: $base;
}
QCheckBox::indicator { border-radius: 4px; }
QRadioButton::indicator { border-radius: 8px; }
QCheckBox::indicator:checked { border-color: $accent; background: $accent; }
QRadioButton::indicator:checked {
  width: 6px; height: 6px; border: 5px solid $accent; background: $on_accent;
}
QTableView {
  background: $base; border: 1px solid $border; border-radius: 8px; gridline-color: $border; outline: none;
  selection-background-color: $accent_tint; selection-color: $ink;
}
QTableView::item { padding: 0 8px; }
QHeaderView { background: transparent; }
QHeaderView::section {
  background: transparent; color: $ink3; border: none; border-bottom: 1px solid $border; padding: 6px 8px;
}
""")


def sheet(tokens: Tokens) -> str:
    """The style sheet in these colours."""
    return _SHEET.substitute(
        base=tokens.base,
        raised=tokens.raised,
        border=tokens.border,
        border2=tokens.border2,
        ink=tokens.ink,
        ink3=tokens.ink3,
        accent=tokens.accent,
        on_accent=tokens.on_accent,
        accent_tint=tokens.accent_tint,
        hover=mixed(tokens.accent_tint, tokens.raised, 0.5),
        accent_hover=mixed(tokens.accent, tokens.ink, 0.9),
        accent_down=mixed(tokens.accent, tokens.ink, 0.8),
    )
