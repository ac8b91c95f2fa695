"""Puts the scripted broker within reach of the tests beside it; each test has sockets in a directory of its own."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from scripted_ipc import Doors, ScriptedBroker


@pytest.fixture
def broker() -> ScriptedBroker:
    return ScriptedBroker()


@pytest.fixture
async def doors(broker: ScriptedBroker, tmp_path: Path) -> AsyncIterator[Doors]:
    """Both sockets, open."""
    opened = Doors(broker, tmp_path)
    opened.start()
    try:
        yield opened
    finally:
        broker.answer_all()
        await asyncio.wait_for(opened.close(), 20)
