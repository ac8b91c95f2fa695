"""The tray application on a real X display with a real panel: cards decided by keys, as a person would."""

from __future__ import annotations

import concurrent.futures
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from tests.e2e import desktop as desk
from tests.e2e.conftest import World
from tests.e2e.desktop import Desktop
from tests.e2e.rig import LIMIT_S, Home, answer, facts, new_operation, readable, until

from affidavit.gui import texts
from affidavit.ipc.client import Client

pytestmark = pytest.mark.skipif(bool(desk.missing()), reason=f"not installed: {', '.join(desk.missing())}")


@pytest.fixture
def desktop() -> Iterator[Desktop]:
    made = Desktop()
    yield made
    made.close()


@pytest.fixture
def tray(home: Home, desktop: Desktop) -> Iterator[subprocess.Popen[str]]:
    """The tray application, unlocked."""
    environment = home.environment | desktop.environment
    with readable(home.setting.passphrase) as fd:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "affidavit.gui", "--passphrase-fd", str(fd)],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            pass_fds=(fd,),
        )
    try:
        until(lambda: vault(home) == "ready", "the tray's vault is open")
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(LIMIT_S)
        assert process.stderr is not None
        process.stderr.close()


def vault(home: Home) -> str | None:
    ran = home.run("status", "--json")
    return ran.json["vault"] if ran.status == 0 else None


def transfer(home: Home, amount: int, operation_id: str) -> Mapping[str, Any]:
    with Client.agent(home.environment, timeout_s=LIMIT_S) as client:
        return answer(
            client,
            "http.request",
            {
                "method": "POST",
                "url": f"http://127.0.0.1:{home.setting.practice_port}/v1/transfers",
                "credential": "practice",
                "headers": {"X-Operation-Id": operation_id},
                "json": {"amount": amount, "reference": operation_id},
                "operation_id": operation_id,
            },
        )


def card(desktop: Desktop) -> str:
    """The card's window, active."""
    until(lambda: desktop.window(texts.CARD_WINDOW) is not None, "a card is on the screen")
    window = desktop.window(texts.CARD_WINDOW)
    assert window is not None
    desktop.activate(window)
    return window


def test_a_card_is_approved_and_another_denied_by_keys(
    world: World, home: Home, desktop: Desktop, tray: subprocess.Popen[str], tmp_path: Any
) -> None:
    until(lambda: "StatusNotifierItem" in desktop.tray_items(), "the icon is in the panel's tray")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        approved = new_operation()
        call = pool.submit(transfer, home, 1200, approved)
        card(desktop)
        desktop.picture(tmp_path / "card.png")
        desktop.press("Return")  # on Deny it would deny: so move first
        got = call.result(LIMIT_S)
        assert facts(got)["code"] == "APPROVAL_DENIED"  # Deny has the focus and takes Enter
        assert world.practice.arrivals(approved) == []

        approved = new_operation()
        call = pool.submit(transfer, home, 1300, approved)
        card(desktop)
        desktop.press("Tab", "Tab")
        desktop.press("Return")  # on Approve, Enter does nothing

        def pressed() -> bool:
            if not call.done():
                desktop.press("space")
            return call.done()

        until(pressed, "Approve is armed and takes the space key")
        got = call.result(LIMIT_S)
    assert facts(got)["outcome"] == "committed"
    assert got["evidence"]["authorization"]["means"] == "card"
    assert [line["did"] for line in world.practice.arrivals(approved)] == ["applied"]

    tray.send_signal(signal.SIGTERM)
    assert tray.wait(LIMIT_S) == 0


def test_a_second_start_raises_the_first(home: Home, desktop: Desktop, tray: subprocess.Popen[str]) -> None:
    second = subprocess.run(
        [sys.executable, "-P", "-m", "affidavit.gui"],
        env=home.environment | desktop.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert second.returncode == 0, second.stderr
    until(lambda: desktop.window("^Affidavit$") is not None, "the first one's window is raised")
    assert tray.poll() is None
