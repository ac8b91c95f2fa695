"""P2: how many commits each kind of action makes. Exact, so it is a gate: a real home, the real wire, no clock."""

from __future__ import annotations

import asyncio
from pathlib import Path

import commit_goals
import peers


async def test_commits_of_an_action_of_each_kind(tmp_path: Path) -> None:
    loop = asyncio.get_running_loop()
    async with await loop.create_server(peers.Target, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        made = await commit_goals.commits_of_actions(tmp_path / "home", f"http://127.0.0.1:{port}")
    assert made == commit_goals.WANTED


def test_what_is_wanted_is_what_the_goal_says() -> None:
    assert commit_goals.WANTED == {
        "nobody asked, settled": 2,
        "with a card": 3,
        "answered pending": 3,
        "with a card and answered pending": 3,
        "ends before dispatch": 1,
        "denied on its card": 2,
    }
