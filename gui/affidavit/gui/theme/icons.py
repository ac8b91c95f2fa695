"""Icons as pictures: a mask drawn at the device's pixel ratio and tinted, so that no coloured copy is shipped."""

from __future__ import annotations

from functools import cache

from PySide6.QtCore import QByteArray, QRectF, Qt
from PySide6.QtGui import QColor, QIcon, QPainter, QPixmap
from PySide6.QtSvg import QSvgRenderer

from affidavit.broker.terms import Outcome
from affidavit.gui.theme import state
from affidavit.resources import icons

_RATIOS = (1.0, 2.0, 3.0)
"""A QIcon gets a picture for each; a screen between two of them scales the larger one down."""
_TRAY_SIZES = (16, 22, 24, 32, 48)


def pixmap(name: str, size: int, token: str, ratio: float) -> QPixmap:
    """A `ui` icon, `size` device-independent pixels square, in the current scheme's colour `token`."""
    return _tinted("ui", name, size, state.current().colour(token), ratio)


def outcome_pixmap(outcome: Outcome, size: int, ratio: float) -> QPixmap:
    """An outcome's silhouette in its own text colour."""
    return _tinted("outcome", outcome.value, size, state.current().outcome[outcome].text, ratio)


def icon(name: str, size: int = 16, token: str = "ink2") -> QIcon:
    """A `ui` icon for a button or action in the current scheme. Set it again when the scheme changes."""
    return _icon("ui", name, size, state.current().colour(token))


def outcome_icon(outcome: Outcome, size: int = 16) -> QIcon:
    """An outcome's silhouette for a row or a menu in the current scheme."""
    return _icon("outcome", outcome.value, size, state.current().outcome[outcome].text)


def app_icon() -> QIcon:
    """The program's own icon, in its own colours."""
    return _own_colours("app", "affidavit", (16, 24, 32, 48, 64, 128, 256))


def tray_icon(name: str) -> QIcon:
    """A tray picture such as `idle-on-dark`, in its own colours."""
    return _own_colours("tray", name, _TRAY_SIZES)


def _icon(group: str, name: str, size: int, colour: str) -> QIcon:
    made = QIcon()
    for ratio in _RATIOS:
        made.addPixmap(_tinted(group, name, size, colour, ratio))
    return made


@cache
def _tinted(group: str, name: str, size: int, colour: str, ratio: float) -> QPixmap:
    drawn = _drawn(group, name, size, ratio)
    painter = QPainter(drawn)
    painter.setCompositionMode(QPainter.CompositionMode.CompositionMode_SourceIn)
    painter.fillRect(drawn.rect(), QColor(colour))
    painter.end()
    return drawn


@cache
def _own_colours(group: str, name: str, sizes: tuple[int, ...]) -> QIcon:
    made = QIcon()
    for size in sizes:
        for ratio in _RATIOS:
            made.addPixmap(_drawn(group, name, size, ratio))
    return made


def _drawn(group: str, name: str, size: int, ratio: float) -> QPixmap:
    made = QPixmap(round(size * ratio), round(size * ratio))
    made.setDevicePixelRatio(ratio)
    made.fill(Qt.GlobalColor.transparent)
    painter = QPainter(made)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    QSvgRenderer(QByteArray(icons.svg(group, name))).render(painter, QRectF(0, 0, size, size))
    painter.end()
    return made
