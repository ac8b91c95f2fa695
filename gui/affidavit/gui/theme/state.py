"""The colours now on the screen. Owned by the Qt main thread; changed by `theme.apply` alone."""

from __future__ import annotations

from affidavit.gui.theme.tokens import Scheme, Tokens, tokens

_current: Tokens = tokens(Scheme.LIGHT)


def current() -> Tokens:
    """The colours that widgets paint with now."""
    return _current


def set_current(tokens: Tokens) -> None:
    """Make `tokens` the current ones; widgets learn of it by QEvent.StyleChange."""
    global _current
    _current = tokens
