"""Qt without a screen: the offscreen platform with one large display, so that no window is cut to two thirds of 800.

What dies in a cycle is collected between these tests, on the main thread, and never while one runs: the suite is one
process, in which threads of other rooms' tests live on, and a window that is collected on one of them ends it.
"""

from __future__ import annotations

import gc
import json
import os
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

SCREEN = {"screens": [{"name": "test", "x": 0, "y": 0, "width": 2560, "height": 1600, "logicalDpi": 96, "dpr": 1}]}


def _offscreen() -> str:
    file = Path(tempfile.mkdtemp(prefix="affidavit-qpa-")) / "offscreen.json"
    file.write_text(json.dumps(SCREEN), encoding="utf-8")
    return f"offscreen:configfile={file}"


# Before any Qt import: the platform is chosen when the application is made.
os.environ["QT_QPA_PLATFORM"] = _offscreen()
os.environ.pop("QT_QPA_PLATFORMTHEME", None)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Called for the tests of all rooms."""
    if not _is_here(item):
        return (yield)
    gc.disable()
    gc.freeze()  # the thousands of other tests need no second look
    try:
        return (yield)
    finally:
        gc.collect()
        if nextitem is None or not _is_here(nextitem):
            gc.unfreeze()
            gc.collect()
            gc.enable()


def _is_here(item: pytest.Item) -> bool:
    return Path(__file__).parent in item.path.parents
