"""A real desktop without a screen: an X server, a window manager, a panel with a tray, a session bus of their own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.e2e.rig import LIMIT_S, until

NEEDED = ("Xvfb", "openbox", "xfce4-panel", "xdotool", "dbus-daemon", "gdbus", "import")


def missing() -> list[str]:
    """Programs that this machine lacks for it."""
    return [name for name in NEEDED if shutil.which(name) is None]


class Desktop:
    """One display. Every program that it starts ends with it."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="aff-desk-"))
        self._processes: list[subprocess.Popen[bytes]] = []
        reading, writing = os.pipe()
        self._start(
            ["Xvfb", "-screen", "0", "1600x1000x24", "-nolisten", "tcp", "-displayfd", str(writing)],
            pass_fds=(writing,),
        )
        os.close(writing)
        with os.fdopen(reading) as told:
            self.display = f":{told.readline().strip()}"
        bus = self._start(["dbus-daemon", "--session", "--nofork", "--print-address=1"], stdout=subprocess.PIPE)
        assert bus.stdout is not None
        self.bus = bus.stdout.readline().decode().strip()
        self.window_manager = self._start(["openbox"])
        self.panel = self._start(["xfce4-panel", "--disable-wm-check"])
        until(self._has_watcher, "a tray that icons register with")

    @property
    def environment(self) -> dict[str, str]:
        return {
            "DISPLAY": self.display,
            "DBUS_SESSION_BUS_ADDRESS": self.bus,
            "QT_QPA_PLATFORM": "xcb",
            "XDG_RUNTIME_DIR": str(self.directory),
            "XDG_CURRENT_DESKTOP": "XFCE",
            "NO_AT_BRIDGE": "1",
        }

    def tray_items(self) -> str:
        """What the panel's watcher says is registered."""
        return self._run(
            [
                "gdbus", "call", "--session", "--dest", "org.kde.StatusNotifierWatcher",
                "--object-path", "/StatusNotifierWatcher", "--method", "org.freedesktop.DBus.Properties.Get",
                "org.kde.StatusNotifierWatcher", "RegisteredStatusNotifierItems",
            ]
        )  # fmt: skip

    def window(self, title: str) -> str | None:
        """The visible window of this title, by its id."""
        found = self._run(["xdotool", "search", "--onlyvisible", "--name", title]).split()
        return found[-1] if found else None

    def activate(self, window: str) -> None:
        self._run(["xdotool", "windowactivate", window])
        until(lambda: self._run(["xdotool", "getactivewindow"]).strip() == window, "the window is active")

    def press(self, *keys: str) -> None:
        self._run(["xdotool", "key", *keys])

    def picture(self, path: Path) -> None:
        """The whole screen as PNG."""
        self._run(["import", "-window", "root", str(path)])

    def close(self) -> None:
        for process in reversed(self._processes):
            process.send_signal(signal.SIGTERM)
        for process in reversed(self._processes):
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(5)
            if process.stdout is not None:
                process.stdout.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _has_watcher(self) -> bool:
        return "StatusNotifierItem" in self.tray_items() or "<" in self.tray_items()

    def _start(
        self, words: Sequence[str], *, pass_fds: Sequence[int] = (), stdout: int = subprocess.DEVNULL
    ) -> subprocess.Popen[bytes]:
        environment = dict(os.environ)
        for name in ("DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS"):
            environment.pop(name, None)
        if hasattr(self, "display"):
            environment["DISPLAY"] = self.display
        if hasattr(self, "bus"):
            environment["DBUS_SESSION_BUS_ADDRESS"] = self.bus
        process = subprocess.Popen(
            words,
            env=environment | {"XDG_RUNTIME_DIR": str(self.directory), "HOME": str(self.directory)},
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.DEVNULL,
            pass_fds=pass_fds,
            start_new_session=True,
        )
        self._processes.append(process)
        return process

    def _run(self, words: Sequence[str]) -> str:
        ended = subprocess.run(
            words,
            env=os.environ | self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        return ended.stdout
