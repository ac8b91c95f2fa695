"""Qt without a screen: the offscreen platform with one large display, so that no window is cut to two thirds of 800."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

SCREEN = {"screens": [{"name": "test", "x": 0, "y": 0, "width": 2560, "height": 1600, "logicalDpi": 96, "dpr": 1}]}


def _offscreen() -> str:
    file = Path(tempfile.mkdtemp(prefix="affidavit-qpa-")) / "offscreen.json"
    file.write_text(json.dumps(SCREEN), encoding="utf-8")
    return f"offscreen:configfile={file}"


# Before any Qt import: the platform is chosen when the application is made.
os.environ["QT_QPA_PLATFORM"] = _offscreen()
os.environ.pop("QT_QPA_PLATFORMTHEME", None)
