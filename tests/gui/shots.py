"""Pictures of the card for a person to look at: `python tests/gui/shots.py DIR [SCALE]`. No test reads them.

The scale is 2 as in the design's pictures; every card is drawn light and dark.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))


def _prepare(folder: Path, scale: float) -> None:
    screen = {"name": "shots", "x": 0, "y": 0, "width": 2560, "height": 1600, "logicalDpi": 96, "dpr": 1}
    file = folder / "offscreen.json"
    file.write_text(json.dumps({"screens": [screen]}), encoding="utf-8")
    os.environ["QT_SCALE_FACTOR"] = str(scale)
    os.environ["QT_QPA_PLATFORM"] = f"offscreen:configfile={file}"


def main(folder: Path, scale: float) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    _prepare(folder, scale)
    from PySide6.QtGui import QFont
    from PySide6.QtTest import QTest
    from PySide6.QtWidgets import QApplication, QLineEdit
    from tests.gui import cards
    from tests.gui.event_loop import spin

    from affidavit.broker.card import Card, CardEnd
    from affidavit.broker.terms import Micros
    from affidavit.gui import theme
    from affidavit.gui.card_view import card_view
    from affidavit.gui.card_window import CardWindow

    app = QApplication([])
    face = QFont("Inter")
    face.setPointSizeF(10)
    app.setFont(face)

    def passphrase(window: CardWindow) -> None:
        field = window.bar.passphrase
        assert field is not None
        field.setFocus()
        QTest.keyClicks(field, "correct horse")

    def reason(window: CardWindow) -> None:
        window.bar.open_reason()

    def pasted(window: CardWindow) -> None:
        (field,) = window.head.findChildren(QLineEdit)
        field.setText("SHA256:7Qm4kV0xPz2r9sLhaT6EwB1dYc8NuJ3fLk2Re5XnGt5")

    scenes: dict[str, tuple[Card, float, Callable[[CardWindow], object] | None]] = {
        "write": (cards.WRITE, 102, None),
        "write-unarmed": (cards.LONGER, 118, None),
        "write-twin": (cards.TWIN, 91, None),
        "write-twins": (cards.TWINS, 91, None),
        "read": (cards.READ, 72, None),
        "passphrase": (cards.PASSPHRASE, 80, passphrase),
        "changed": (cards.CHANGED, 102, None),
        "newkey": (cards.NEW_KEY, 110, None),
        "newkey-other": (cards.NEW_KEY, 110, pasted),
        "expiring": (cards.WRITE, 9, None),
        "hostile": (cards.NO_CONTRACT, 60, None),
        "long": (cards.LONG, 60, None),
        "reason": (cards.WRITE, 60, reason),
        "ended": (cards.WRITE, 60, lambda window: window.end(CardEnd.CALLER_GONE)),
    }
    seconds = [0.0]
    for scheme in theme.Scheme:
        theme.apply(app, scheme)
        for name, (card, left, touch) in scenes.items():
            view = card_view(card, now=cards.NOW, home=cards.HOME)
            window = CardWindow(
                view,
                clock=lambda: cards.NOW,
                monotonic=lambda: seconds[0],
                life_s=120,
                expires_at=Micros(cards.NOW + round(left * cards.SECOND)),
            )
            window.set_queue(1, 3)
            window.show()
            window.activateWindow()
            app.processEvents()
            seconds[0] += 1
            if touch is not None:
                touch(window)
            window.refresh()
            window.repaint()
            app.processEvents()
            spin(200)
            window.grab().save(str(folder / f"{name}-{scheme.value}.png"))
            window.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 2.0)
