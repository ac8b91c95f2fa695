"""Icons beside words, an outcome with its glyph, and the badge that says what a contract calls an action."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetrics, QPainter, QPaintEvent, QPen, QPixmap
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSizePolicy, QWidget

from affidavit.broker.terms import Effect, Outcome
from affidavit.gui import texts, theme
from affidavit.gui.widgets.label import Label


class Glyph(QWidget):
    """An icon without a name of its own: it stands beside the word that says the same."""

    def __init__(self, name: str, size: int = 16, token: str = "ink2", parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._name, self._size, self._token = name, size, token
        self.setFixedSize(size, size)

    def paintEvent(self, _event: QPaintEvent) -> None:
        QPainter(self).drawPixmap(0, 0, self._picture())

    def _picture(self) -> QPixmap:
        return theme.pixmap(self._name, self._size, self._token, self.devicePixelRatioF())


class OutcomeGlyph(QLabel):
    """An outcome's silhouette; assistive tools read the outcome's name."""

    def __init__(self, outcome: Outcome, size: int = 16, parent: QWidget | None = None) -> None:
        super().__init__(texts.OUTCOME[outcome], parent)
        self._outcome, self._size = outcome, size
        self.setFixedSize(size, size)

    def paintEvent(self, _event: QPaintEvent) -> None:
        picture = theme.outcome_pixmap(self._outcome, self._size, self.devicePixelRatioF())
        QPainter(self).drawPixmap(0, 0, picture)


class OutcomeTag(QWidget):
    """Glyph and word, such as "Committed, status 500"; the addition is given whole in `text`."""

    def __init__(self, outcome: Outcome, text: str | None = None, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(6)
        row.addWidget(OutcomeGlyph(outcome))
        word = texts.OUTCOME[outcome] if text is None else text
        row.addWidget(Label(word, theme.TextStyle.STRONG, f"{outcome.value}.text"))
        row.addStretch(1)


class EffectBadge(QLabel):
    """READ outlined, WRITE filled: what the contract says of the action, whatever its method is called."""

    _HEIGHT, _PADDING, _ICON, _GAP = 24, 8, 14, 5
    _ICONS = {Effect.READ: "read", Effect.WRITE: "write"}

    def __init__(self, effect: Effect, parent: QWidget | None = None) -> None:
        super().__init__(texts.EFFECT[effect], parent)
        self._effect = effect
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self._dress()

    def sizeHint(self) -> QSize:
        word = QFontMetrics(self.font()).horizontalAdvance(self.text())
        height = max(self._HEIGHT, QFontMetrics(self.font()).height() + 6)
        return QSize(2 * self._PADDING + self._ICON + self._GAP + word, height)

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self._dress()

    def paintEvent(self, _event: QPaintEvent) -> None:
        filled = self._effect is Effect.WRITE
        colours = theme.current()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(QColor(colours.ink), 1.5))
        painter.setBrush(QColor(colours.ink) if filled else Qt.BrushStyle.NoBrush)
        frame = QRectF(self.rect()).adjusted(0.75, 0.75, -0.75, -0.75)
        painter.drawRoundedRect(frame, theme.RADIUS_BADGE, theme.RADIUS_BADGE)
        token = "window" if filled else "ink"
        icon = theme.pixmap(self._ICONS[self._effect], self._ICON, token, self.devicePixelRatioF())
        painter.drawPixmap(self._PADDING, (self.height() - self._ICON) // 2, icon)
        painter.setPen(QColor(colours.colour(token)))
        words = self.rect().adjusted(self._PADDING + self._ICON + self._GAP, 0, 0, 0)
        painter.drawText(words, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, self.text())

    def _dress(self) -> None:
        font = theme.font(theme.TextStyle.STRONG)
        font.setPixelSize(font.pixelSize() - 2)
        self.setFont(font)
        self.updateGeometry()
