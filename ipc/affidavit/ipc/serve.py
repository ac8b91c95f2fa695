"""`affidavit serve`: a home without windows, from start to SIGTERM.

It says on stderr what a person or a script waits for: `serving HOME` once both sockets answer, and with a passphrase
`adopted FILE` or `refused FILE: why` for each contract file that was waiting. Ends with 0 on SIGTERM, SIGINT or SIGHUP,
in order; a second signal ends it at once, and what was dispatched is left to recovery.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping

from affidavit.broker.api import BadParam, OperatorApi, OperatorRefused
from affidavit.broker.hardening import harden
from affidavit.broker.home import HomeBusy, HomeRefused, Places
from affidavit.broker.settings import SettingRefused
from affidavit.broker.vault.errors import VaultError
from affidavit.ipc.cli import exits, link, output, passphrase
from affidavit.ipc.cli.escape import escape
from affidavit.ipc.cli.refusal import Refusal
from affidavit.ipc.host import NotInitialised, OpenBroker, home_name, running
from affidavit.ipc.server import SocketTaken
from affidavit.journal.errors import StorageError

PROGRAM = "affidavit serve"


def serve(
    *, passphrase_fd: int | None, open_broker: OpenBroker | None = None, environ: Mapping[str, str] = os.environ
) -> int:
    """Run the home that `environ` names. Returns 0 after an orderly end; raises Refusal where it cannot start."""
    harden()
    if open_broker is None:
        from affidavit.broker.broker import Broker

        open_broker = Broker.open
    secret = None if passphrase_fd is None else passphrase.from_fd(passphrase_fd, "--passphrase-fd")
    try:
        asyncio.run(_run(Places.from_environment(environ), open_broker, secret))
    except _CANNOT_START as error:
        raise _refusal(error) from None
    finally:
        if secret is not None:
            passphrase.wipe(secret)
    return exits.DONE


_CANNOT_START = (
    HomeRefused,
    HomeBusy,
    NotInitialised,
    SocketTaken,
    OperatorRefused,
    VaultError,
    StorageError,
    SettingRefused,
)


def _refusal(error: Exception) -> Refusal:
    """Why this home cannot run, in a command's words."""
    match error:
        case HomeRefused():
            return link.home_refused(error)
        case HomeBusy():
            return Refusal(exits.REFUSED, "busy", str(error), remedy="Use that one, or stop it first.")
        case NotInitialised():
            return Refusal(exits.REFUSED, "not_initialised", str(error), remedy=error.remedy)
        case OperatorRefused():
            return link.operator_refused(error.code, error.message, error.field, error.remedy)
        case VaultError():
            return link.operator_refused(error.code, error.message, error.field, error.remedy)
        case StorageError():
            return Refusal(exits.REFUSED, "storage", str(error), remedy=error.remedy)
        case SettingRefused():
            return Refusal(exits.REFUSED, "setting", str(error), field=error.key, remedy=error.remedy)
        case _:
            return Refusal(exits.REFUSED, "not_a_socket", str(error))


async def _run(places: Places, open_broker: OpenBroker, secret: bytearray | None) -> None:
    quitting = asyncio.Event()
    loop = asyncio.get_running_loop()

    def quit_(number: int) -> None:
        quitting.set()
        loop.remove_signal_handler(number)  # the second one ends the process

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, quit_, number)
    async with running(places, open_broker=open_broker, program=PROGRAM) as host:
        if secret is not None:
            operator = host.broker.operator
            await operator.unlock(bytearray(secret), program=PROGRAM)
            await adopt_waiting(operator, secret, output.note)
        output.note(f"serving {escape(home_name(places))}")
        await quitting.wait()


async def adopt_waiting(operator: OperatorApi, secret: bytearray, say: Callable[[str], None]) -> None:
    """Adopt the contract files that wait: all together, or where one of them is refused, each that can be by itself."""
    waiting = [(str(file["file"]), str(file["text"])) for file in (await operator.contract_pending())["files"]]
    if not waiting:
        return
    try:
        await operator.contract_adopt(waiting, bytearray(secret))
    except (OperatorRefused, BadParam):
        pass
    else:
        for file, _ in waiting:
            say(f"adopted {escape(file)}")
        return
    for file, text in waiting:
        try:
            await operator.contract_adopt([(file, text)], bytearray(secret))
        except (OperatorRefused, BadParam) as refused:
            say(f"refused {escape(file)}: {escape(refused.message)}")
        else:
            say(f"adopted {escape(file)}")
