"""`affidavit init`: create the vault and the journal of a home."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager

from affidavit.broker.home import HomeBusy, HomeLock, HomeRefused, HomeState, Places
from affidavit.ipc.cli import exits, link, operator, output, passphrase
from affidavit.ipc.cli.arguments import Parser, command, example, passphrase_option
from affidavit.ipc.cli.refusal import Refusal


def configure(parser: Parser, name: str) -> None:
    parser.description = (
        "Create the vault and the journal. The vault's key is made from your passphrase and from a secret of this\n"
        "machine that lies in the OS keyring; AFFIDAVIT_KEYRING=off keeps that secret in a file beside the vault\n"
        "instead. There is no way back from a forgotten passphrase."
    )
    parser.epilog = example("affidavit init")
    passphrase_option(command(parser, init))


def init(args: argparse.Namespace) -> int:
    from affidavit.broker.hardening import harden

    harden()
    home = link.places()
    keyring = os.environ.get("AFFIDAVIT_KEYRING") != "off"
    with owned(home):
        secret = chosen(home, args.passphrase_fd)
        try:
            given_up = create(home, secret, keyring=keyring)
        finally:
            passphrase.wipe(secret)
    where = str(operator.home_dir(home))
    if args.json:
        mode = "keyring" if keyring else "file"
        output.say_json({"home": where, "device_secret": mode, "gives_up": given_up})
        return exits.DONE
    output.say(f"Created the vault and the journal in {where}.")
    output.say(given_up)
    output.say("Next: affidavit tray (or affidavit serve), then affidavit credential add --help")
    return exits.DONE


@contextmanager
def owned(home: Places) -> Iterator[None]:
    """A home that is private, local and nobody else's while it is made."""
    if home.state is not HomeState.ABSENT:
        raise Refusal(
            exits.REFUSED,
            "exists",
            f"There is a vault, or a part of one, in {home.data}. Nothing is made over it.",
            remedy=f"To begin anew, move {home.data} away.",
        )
    try:
        home.prepare()
        with HomeLock(home, program="affidavit init"):
            yield
    except HomeRefused as refused:
        raise link.home_refused(refused) from None
    except HomeBusy as busy:
        raise Refusal(exits.REFUSED, "busy", str(busy), remedy="Stop it, or choose another AFFIDAVIT_HOME.") from None


def chosen(home: Places, fd: int | None) -> bytearray:
    """The new passphrase: from `fd` once, on a terminal twice."""
    if fd is not None:
        return passphrase.from_fd(fd, "--passphrase-fd")
    named = f" (from {home.named_by})" if home.named_by else ""
    first = passphrase.from_terminal(f"New passphrase for {operator.home_dir(home)}{named}:", "--passphrase-fd")
    second = passphrase.from_terminal("The same once more:", "--passphrase-fd")
    try:
        if first != second:
            passphrase.wipe(first)
            raise Refusal(
                exits.REFUSED, "differ", "The two passphrases differ; nothing was created.", remedy="affidavit init"
            )
        return first
    finally:
        passphrase.wipe(second)


def create(home: Places, secret: bytearray, *, keyring: bool) -> str:
    """Make both or neither; returns what the chosen mode protects and gives up. Raises Refusal."""
    from affidavit.broker.vault import GIVES_UP, DeviceMode, Vault, VaultError
    from affidavit.journal import DatabaseError, Journal

    def journal_of(vault: Vault) -> None:
        keys = vault.device_keys()
        try:
            Journal.create(home.journal, keys.journal.use(bytes), vault.journal_public_key())
        finally:
            keys.wipe()

    try:
        Vault.create(home, secret, keyring=keyring, finish=journal_of).close()
    except VaultError as error:
        raise Refusal(exits.REFUSED, error.code, error.message, field=error.field, remedy=error.remedy) from None
    except DatabaseError as error:
        raise Refusal(exits.REFUSED, "journal", str(error), remedy=error.remedy) from None
    return GIVES_UP[DeviceMode.KEYRING if keyring else DeviceMode.FILE]
