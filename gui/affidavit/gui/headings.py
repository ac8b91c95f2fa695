"""The head of a panel: an icon, a strong word, and at the end of the line what belongs to it."""

from __future__ import annotations

from PySide6.QtWidgets import QHBoxLayout, QWidget

from affidavit.gui.runs import Line
from affidavit.gui.theme import TextStyle
from affidavit.gui.widgets.glyph import Glyph
from affidavit.gui.widgets.label import Label, RunsLabel
from affidavit.gui.widgets.reflow import Reflow


class Heading(QWidget):
    """`icon` is the name of a `ui` icon, tinted `icon_token`; `note` stands in the caption style at the end.

    `text` is ours in `style` and `token`, or foreign text as runs, which is wrapped anywhere.
    """

    def __init__(
        self,
        text: str | Line,
        *,
        icon: str | None = None,
        icon_token: str = "ink2",
        style: TextStyle = TextStyle.STRONG,
        token: str = "ink",
        note: str = "",
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(parent)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(8)
        if icon is not None:
            row.addWidget(Glyph(icon, 16, icon_token))
        words = Label(text, style, token, wrap=True) if isinstance(text, str) else RunsLabel([text])
        self._note = Label(note, TextStyle.CAPTION, "ink2")
        sides = Reflow()
        sides.add(words, 1)
        sides.add(self._note, 0)
        row.addLayout(sides, 1)

    def set_note(self, note: str) -> None:
        """Replace the note at the end."""
        self._note.setText(note)
