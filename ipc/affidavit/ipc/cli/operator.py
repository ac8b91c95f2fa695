"""The operator's calls: through the running broker, or, for what needs no broker, by opening the home here.

Every passphrase prompt says which home it is for, where that name comes from, and which process will get it.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from affidavit.broker.home import HomeState, Places
from affidavit.ipc.cli import link, passphrase
from affidavit.ipc.cli.escape import escape
from affidavit.ipc.cli.refusal import Refusal

Call = Callable[[str, Mapping[str, Any]], dict[str, Any]]
"""One operator's call: method and params to its result; raises Refusal."""


def call(method: str, params: Mapping[str, Any], *, offline: bool = False) -> dict[str, Any]:
    """One call that needs no passphrase. Over the socket while a broker runs, else, for `offline` calls, in this
    process; without either, Refusal with exit 3."""
    with _way(offline) as (home, broker):
        return _call(home, broker, method, params, None)


@contextmanager
def opened(args: argparse.Namespace, *, offline: bool = False) -> Iterator[Call]:
    """Take the passphrase now and lend a way to call with it; it is overwritten at the end."""
    with _way(offline) as (home, broker):
        secret = passphrase.take(args.passphrase_fd, prompt(home, None if broker is None else broker.peer_pid))
        try:
            yield lambda method, params: _call(home, broker, method, params, secret)
        finally:
            passphrase.wipe(secret)


def call_with_passphrase(
    args: argparse.Namespace, method: str, params: Mapping[str, Any], *, offline: bool = False
) -> dict[str, Any]:
    """One call that takes the passphrase."""
    with opened(args, offline=offline) as open_call:
        return open_call(method, params)


@contextmanager
def _way(offline: bool) -> Iterator[tuple[Places, link.Link | None]]:
    home = link.places()
    try:
        broker = link.operator()
    except Refusal:
        if not offline or home.state is HomeState.ABSENT:
            raise
        yield home, None
        return
    with broker:
        yield home, broker


def _call(
    home: Places, broker: link.Link | None, method: str, params: Mapping[str, Any], secret: bytearray | None
) -> dict[str, Any]:
    if broker is None:
        from affidavit.ipc.cli import offline

        return offline.call(home, method, params, secret)
    if secret is not None:
        params = {**params, "passphrase": secret}
    return broker.call(method, params)


def prompt(home: Places, broker_pid: int | None) -> str:
    """`Passphrase for HOME-DIR (from AFFIDAVIT_HOME), broker pid 4711 PROGRAM:`"""
    named = f" (from {home.named_by})" if home.named_by else ""
    holder = "no broker running" if broker_pid is None else f"broker pid {broker_pid} {program(broker_pid)}"
    return f"Passphrase for {escape(str(home_dir(home)))}{named}, {holder}:"


def home_dir(home: Places) -> Path:
    """The one directory of a home that was named; of the XDG ones that with the vault in it."""
    return home.data.parent if home.named_by else home.data


def program(pid: int) -> str:
    """The program file of a process; the kernel's short name where the file is not visible (a broker hides its own)."""
    try:
        return escape(os.readlink(f"/proc/{pid}/exe"))
    except OSError:
        pass
    try:
        return escape(Path(f"/proc/{pid}/comm").read_text(errors="replace").strip())
    except OSError:
        return "not visible to us"
