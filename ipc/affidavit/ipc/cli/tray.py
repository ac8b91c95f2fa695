"""`affidavit tray`: the tray application. Its own program, so that the command line never imports Qt."""

from __future__ import annotations

import argparse
import os
import sys

from affidavit.ipc.cli.arguments import Parser, command, example, passphrase_option


def configure(parser: Parser, name: str) -> None:
    parser.description = "The tray application: broker, sockets, cards. If it runs already, its window is raised."
    parser.epilog = example("affidavit tray --minimized")
    parser.add_argument("--minimized", action="store_true", help="start without a window, in the tray")
    passphrase_option(command(parser, tray), "the vault stays locked until it is unlocked")


def tray(args: argparse.Namespace) -> int:
    """Become the tray application. The descriptor of a passphrase goes with it."""
    words = ["-P", "-m", "affidavit.gui"]
    if args.minimized:
        words.append("--minimized")
    if args.passphrase_fd is not None:
        os.set_inheritable(args.passphrase_fd, True)
        words += ["--passphrase-fd", str(args.passphrase_fd)]
    os.execv(sys.executable, [sys.executable, *words])  # noqa: S606 - our own interpreter and module
