"""`affidavit audit verify`: walk the live journal's chain over ciphertext, with this machine's key alone.

It reads the file by itself, whether a broker runs or not, and needs neither the vault nor its passphrase (R58).
"""

from __future__ import annotations

import argparse

from affidavit.broker.home import HomeRefused, HomeState, Places
from affidavit.ipc.cli import exits, link, output
from affidavit.ipc.cli.arguments import Parser, example, family
from affidavit.ipc.cli.refusal import Refusal


def configure(parser: Parser, name: str) -> None:
    parser.description = "The journal's chain."
    parser.epilog = example("affidavit audit verify")
    add = family(parser)
    add(
        "verify",
        verify,
        "check that no record was changed, removed or inserted; names the first that was",
        epilog=example("affidavit audit verify --json"),
    )


def verify(args: argparse.Namespace) -> int:
    home = link.places()
    if home.state is HomeState.ABSENT:
        raise Refusal(exits.REFUSED, "absent", f"There is no journal in {home.data}.", remedy="affidavit init")
    from affidavit.journal import DatabaseError
    from affidavit.journal import verify as walk

    key = journal_key(home)
    try:
        verdict = walk(home.journal, bytes(key))
    except DatabaseError as error:
        raise Refusal(exits.REFUSED, "unreadable", str(error)) from None
    finally:
        key[:] = bytes(len(key))
    broken = verdict.broken
    if args.json:
        output.say_json(
            {
                "intact": verdict.intact,
                "records": verdict.records,
                "head": {"record": verdict.head.seq, "hash": f"sha256:{verdict.head.hash.hex()}"},
                "broken": None if broken is None else {"record": broken.seq, "fault": broken.fault.value},
                "message": verdict.sentence,
            }
        )
    else:
        output.say(verdict.sentence)
    return exits.DONE if verdict.intact else exits.REFUSED


def journal_key(home: Places) -> bytearray:
    """The key of the journal's outer layer, which needs no passphrase."""
    from affidavit.broker.vault import Vault, VaultError

    vault = Vault(home)
    try:
        home.prepare()
        keys = vault.device_keys()
        try:
            return keys.journal.use(bytearray)
        finally:
            keys.wipe()
    except HomeRefused as refused:
        raise link.home_refused(refused) from None
    except VaultError as error:
        raise Refusal(exits.REFUSED, error.code, error.message, field=error.field, remedy=error.remedy) from None
    finally:
        vault.close()
