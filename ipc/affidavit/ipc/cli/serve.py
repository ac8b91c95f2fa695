"""`affidavit serve`: the broker and its sockets, without windows."""

from __future__ import annotations

import argparse

from affidavit.ipc.cli.arguments import Parser, command, example, passphrase_option


def configure(parser: Parser, name: str) -> None:
    parser.description = (
        "The same broker and sockets as the tray application, without windows: cards are decided with\n"
        "`affidavit approve` and `affidavit deny`. With a passphrase the vault opens at start, and the contract files\n"
        "that lie there are adopted, each named on stderr. Ends on SIGTERM or SIGINT."
    )
    parser.epilog = example("affidavit serve --passphrase-fd 3 3< passphrase.txt")
    passphrase_option(command(parser, serve), "the vault stays locked until it is unlocked")


def serve(args: argparse.Namespace) -> int:
    from affidavit.ipc.serve import serve as run

    return run(passphrase_fd=args.passphrase_fd)
