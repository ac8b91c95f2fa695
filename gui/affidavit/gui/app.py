"""`python -m affidavit.gui`: from the command line to the running tray application and out again."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from PySide6.QtWidgets import QApplication, QDialog

from affidavit.broker.api import OperatorApi
from affidavit.broker.hardening import harden
from affidavit.broker.home import HomeRefused, HomeState, Places
from affidavit.gui import faults, theme
from affidavit.gui import texts_unknown as texts
from affidavit.gui.bridge import Refused
from affidavit.gui.first_run import FirstRun, Opens
from affidavit.gui.garbage import Collector
from affidavit.gui.refusal_window import RefusalWindow
from affidavit.gui.second_start import raise_running
from affidavit.gui.tray_app import OpenHome, Start, TrayApp
from affidavit.gui.unix_signals import UnixSignals
from affidavit.ipc.cli import init, output, passphrase
from affidavit.ipc.cli.refusal import Refusal
from affidavit.ipc.host import OpenBroker, running

DESKTOP_FILE = "dev.affidavit.Affidavit"
PROGRAM = "affidavit tray"
JOIN_S = 15.0
"""How long the end of the broker's thread is waited for after the last window: more than a quit's bound of 10 s."""


def main(argv: Sequence[str] | None = None, *, open_broker: OpenBroker | None = None) -> int:
    """Run the tray application. Returns its exit status: 0 done, or the running one was raised; 1 it could not start;
    2 wrong usage."""
    args = _arguments(sys.argv[1:] if argv is None else argv)
    harden()
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(name)s: %(message)s")
    raised = raise_running(os.environ)
    if raised is not None:
        if not raised:
            output.note(texts.HELD_WITHOUT_WINDOW)
        return 0 if raised else 1
    if not has_display(os.environ):
        output.note(texts.NO_DISPLAY)
        return 1
    try:
        secret = None
        if args.passphrase_fd is not None:
            secret = passphrase.from_fd(args.passphrase_fd, "--passphrase-fd")
    except Refusal as refusal:
        output.note(str(refusal))
        return refusal.status
    return _run(minimized=args.minimized, secret=secret, open_broker=open_broker or _default_broker())


def has_display(environ: Mapping[str, str]) -> bool:
    """Whether Qt will find a display; without one it would end the process."""
    return bool(
        environ.get("DISPLAY")
        or environ.get("WAYLAND_DISPLAY")
        or environ.get("QT_QPA_PLATFORM")
        or not sys.platform.startswith("linux")
    )


def hosted(places: Places, open_broker: OpenBroker) -> OpenHome:
    """The home as the bridge opens it: lock, broker and both sockets."""

    @asynccontextmanager
    async def opened(ask_raise: Callable[[], None]) -> AsyncIterator[OperatorApi]:
        def raise_window() -> bool:
            ask_raise()
            return True

        async with running(places, open_broker=open_broker, raise_window=raise_window, program=PROGRAM) as host:
            yield host.broker.operator

    def open_home(ask_raise: Callable[[], None]) -> AbstractAsyncContextManager[OperatorApi]:
        return opened(ask_raise)

    return open_home


def creator(places: Places) -> Callable[[bytearray, Opens], Refused | None]:
    """Makes vault and journal of an absent home, as `affidavit init` does."""

    def create(secret: bytearray, opens: Opens) -> Refused | None:
        try:
            with init.owned(places):
                init.create(places, secret, keyring=opens is Opens.KEYRING)
        except Refusal as refusal:
            return Refused(refusal.code, refusal.message, refusal.field, refusal.remedy)
        finally:
            passphrase.wipe(secret)
        return None

    return create


def _arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog=PROGRAM, description=texts.HELP_TRAY, allow_abbrev=False)
    parser.add_argument("--passphrase-fd", type=int, metavar="N", help=texts.HELP_PASSPHRASE_FD)
    parser.add_argument("--minimized", action="store_true", help=texts.HELP_MINIMIZED)
    return parser.parse_args(words)


def _default_broker() -> OpenBroker:
    from affidavit.broker.broker import Broker  # not before it is clear that this process will own the home

    return Broker.open


def _run(*, minimized: bool, secret: bytearray | None, open_broker: OpenBroker) -> int:
    app = QApplication([PROGRAM])
    Collector(app)
    app.setApplicationName(texts.APP)
    app.setDesktopFileName(DESKTOP_FILE)
    app.setQuitOnLastWindowClosed(False)
    theme.put_on(app)
    app.setWindowIcon(theme.app_icon())
    signals = UnixSignals()
    try:
        try:
            places = Places.from_environment(os.environ)
        except HomeRefused as refused:
            RefusalWindow(refused.message, refused.remedy).exec()
            return 1
        first = places.state is HomeState.ABSENT
        if first:
            secret = _first_run(places, signals)
            if secret is None:
                return 0
        tray = TrayApp(app, hosted(places, open_broker), Start(first=first, minimized=minimized), passphrase=secret)
        faults.install(lambda what: tray.say(texts.DEFECT.format(what=what)))
        signals.asked.connect(tray.leave)
        tray.left.connect(app.exit)
        tray.begin()
        status = app.exec()
        tray.bridge.stop()
        tray.bridge.join(JOIN_S)
        return status
    finally:
        signals.close()


def _first_run(places: Places, signals: UnixSignals) -> bytearray | None:
    """Create vault and journal; the passphrase to open them with, or None where the person closed the window."""
    created: list[bytearray] = []
    preselected = Opens.FILE if os.environ.get("AFFIDAVIT_KEYRING") == "off" else Opens.KEYRING
    window = FirstRun(creator(places), preselected)
    window.created.connect(created.append)
    signals.asked.connect(window.reject)
    if window.exec() != QDialog.DialogCode.Accepted:
        return None
    return created[0]
