"""Pictures of these windows, light and dark, for the eye: `python tests/gui/shots_unknown.py DIR [SCALE]`.

Not a test; run from the project's root.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

SCREEN = {"screens": [{"name": "shot", "x": 0, "y": 0, "width": 2560, "height": 1600, "logicalDpi": 96, "dpr": 1}]}


def prepare(scale: str) -> None:
    """Choose the platform; before any Qt import."""
    file = Path(tempfile.mkdtemp()) / "offscreen.json"
    file.write_text(json.dumps(SCREEN), encoding="utf-8")
    os.environ["QT_QPA_PLATFORM"] = f"offscreen:configfile={file}"
    os.environ["QT_SCALE_FACTOR"] = scale


def main(out: Path) -> None:
    from PySide6.QtGui import QFont
    from PySide6.QtWidgets import QApplication, QWidget
    from tests.gui.event_loop import spin, until
    from tests.gui.scripted_broker import HOST, NEW_HOST, TODAY, ScriptedBroker, four_unknown, products, refund

    from affidavit.broker.api import OperatorApi
    from affidavit.broker.terms import Outcome
    from affidavit.gui import theme, unknown_view
    from affidavit.gui.bridge import Bridge
    from affidavit.gui.first_run import FirstRun, Opens
    from affidavit.gui.main_window import MainWindow, Page
    from affidavit.gui.quit_window import QuitWindow
    from affidavit.gui.refusal_window import RefusalWindow
    from affidavit.gui.second_look import SecondLook
    from affidavit.gui.theme import Scheme
    from affidavit.gui.unknown_view import Draft
    from affidavit.gui.unknown_window import UnknownWindow
    from affidavit.gui.unlock_window import UnlockWindow

    app = QApplication(sys.argv[:1])
    app.setFont(QFont("Inter", 10))
    out.mkdir(parents=True, exist_ok=True)
    broker = ScriptedBroker(four_unknown())

    @asynccontextmanager
    async def opened() -> AsyncIterator[OperatorApi]:
        yield broker

    bridge = Bridge()
    bridge.start(opened)

    def tell(**status: Any) -> None:
        """Change the broker's status, and wait until the windows know."""
        heard: list[object] = []
        told = bridge.status_changed.connect(heard.append)
        bridge.tell(lambda _api: broker.tell(**status))
        until(lambda: bool(heard))
        bridge.status_changed.disconnect(told)

    def shoot(widget: QWidget, name: str, scheme: Scheme) -> None:
        widget.ensurePolished()
        widget.show()
        spin(80)
        widget.grab().save(str(out / f"{name}-{scheme.value}.png"))

    draft = Draft(
        Outcome.COMMITTED,
        "Refund list in the payments dashboard, filtered by order 1187: one refund of 49.00 EUR, 14:02.",
        "re_5Tq81",
    )
    for scheme in Scheme:
        theme.apply(app, scheme)
        window = UnknownWindow(bridge, lambda: TODAY)
        window.show()
        until(lambda w=window: w._list.current() is not None)  # type: ignore[misc]
        window.look_at(refund().invocation_id)
        shoot(window, "unknown", scheme)
        window._detail.form.show_draft(draft)
        shoot(window, "unknown-attest", scheme)
        look = SecondLook(unknown_view.statement(refund().envelope(), draft, TODAY), window)
        look.bar.passphrase._add("correct horse")
        shoot(look, "unknown-second-look", scheme)
        look.refused("The passphrase does not open the vault. Nothing was recorded.")
        shoot(look, "unknown-second-look-refused", scheme)
        look.close()
        window.look_at(products().invocation_id)
        until(lambda w=window: w._shown == products().invocation_id)  # type: ignore[misc]
        shoot(window, "unknown-batch", scheme)
        item = Draft(Outcome.COMMITTED, "Catalogue, searched for TS-112: it is there since 13:56.", "", "TS-112")
        look = SecondLook(unknown_view.statement(products().envelope(), item, TODAY), window)
        shoot(look, "unknown-batch-second-look", scheme)
        look.close()
        window._list.setCurrentIndex(window._list.model().index(0, 0))
        window.resize(760, 700)
        shoot(window, "unknown-narrow", scheme)
        window.close()
        main = MainWindow(bridge, lambda: TODAY, lambda: True)
        broker.told |= {
            "vault": "ready",
            "cards": 2,
            "sessions": 2,
            "counts": {
                "validation": {"not_attempted": 61},
                "credential_injection": {"not_attempted": 148},
                "connection_setup": {"not_attempted": 73},
                "remote_execution": {"committed": 1412, "rejected": 158, "unknown": 19},
                "result_delivery": {"committed": 12},
            },
        }
        broker.rows = [
            {
                "invocation_id": s.invocation_id,
                "operation_id": e["operation_id"],
                "at": e["evidence"]["times"]["accepted"],
            }
            | {"outcome": o, "code": c, "target": e["evidence"]["target"]}
            for s, o, c in zip(
                broker.stories,
                ("unknown", "committed", "rejected", "not_attempted"),
                ("REMOTE_DEADLINE", "REMOTE_RESULT", "REMOTE_REJECTED", "APPROVAL_DENIED"),
                strict=True,
            )
            for e in (s.envelope(),)
        ]
        main.show()
        tell()
        until(lambda m=main: not m._asking)  # type: ignore[misc]
        shoot(main, "main-overview", scheme)
        broker.entries = [HOST, {**NEW_HOST, "revoked": HOST["host_keys"]}]
        main.go(Page.HOSTS)
        until(lambda m=main: len(m._hosts._shown) == 2)  # type: ignore[misc]
        shoot(main, "main-hosts", scheme)
        row = main._hosts._shown[0]
        main._hosts.ask_forget(row, row.keys[0])
        assert main._hosts.signing is not None
        shoot(main._hosts.signing, "host-forget", scheme)
        main._hosts.signing.close()
        main.go(Page.OVERVIEW)
        alert = {
            "id": 1,
            "says": "Operation op_7d5d4d8e is unknown past its recovery deadline; a person must look.",
            "at": "2026-11-30T14:02:11Z",
        }
        other = {"id": 2, "says": "Record 41 is contradicted: the target has it.", "at": "2026-11-30T14:12:00Z"}
        tell(alerts=[alert, other])
        shoot(main, "main-alerts", scheme)
        main._overview._alerts.ask(bridge.status.alerts[0])
        assert main._overview._alerts.closing is not None
        shoot(main._overview._alerts.closing, "alert-close", scheme)
        main._overview._alerts.closing.close()
        tell(alerts=[])
        main.go(Page.ACTIVITY)
        until(lambda m=main: m._activity._model.rowCount() > 0)  # type: ignore[misc]
        shoot(main, "main-activity", scheme)
        main.go(Page.OVERVIEW)
        tell(vault="locked", counts={}, cards=0, unknown=0)
        shoot(main, "main-locked-empty", scheme)
        main.close()
        first = FirstRun(lambda _secret, _opens: None, Opens.KEYRING)
        first._first._add("correct horse")
        first._second._add("correct horse")
        shoot(first, "firstrun", scheme)
        first.close()
        leave = QuitWindow(2)
        shoot(leave, "quit", scheme)
        leave.close()
        refusal = RefusalWindow(
            "/home/user/affidavit is open to other users (mode 0755).", "chmod 700 /home/user/affidavit"
        )
        shoot(refusal, "refusal", scheme)
        refusal.close()
        unlock = UnlockWindow(bridge)
        shoot(unlock, "unlock", scheme)
        unlock.close()
        tell(vault="ready", counts={}, cards=0, unknown=4)
    bridge.stop()
    bridge.join(5)


if __name__ == "__main__":
    prepare(sys.argv[2] if len(sys.argv) > 2 else "1")
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    main(Path(sys.argv[1]))
