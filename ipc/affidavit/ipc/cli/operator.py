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


class Operator:
    """The way to the operator's methods. Over the socket while a broker runs, else in this process where that is
    possible (`offline` commands); without either, Refusal with exit 3."""

    def __init__(self, *, offline: bool = False) -> None:
        self.home = link.places()
        self._link: link.Link | None = None
        try:
            self._link = link.operator(self.home)
        except Refusal as refusal:
            here = offline and refusal.code == "not_reachable" and self.home.state is not HomeState.ABSENT
            if not here:
                raise

    @contextmanager
    def opened(self, args: argparse.Namespace) -> Iterator[Call]:
        """Take the passphrase now and lend a way to call with it; it is overwritten at the end."""
        secret = passphrase.take(args.passphrase_fd, prompt(self.home, self._peer_pid))
        try:
            yield lambda method, params: self._call(method, params, secret)
        finally:
            passphrase.wipe(secret)

    def call(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """One call that needs no passphrase."""
        return self._call(method, params, None)

    def _call(self, method: str, params: Mapping[str, Any], secret: bytearray | None) -> dict[str, Any]:
        if self._link is None:
            from affidavit.ipc.cli import offline

            return offline.call(self.home, method, params, secret)
        if secret is not None:
            params = {**params, "passphrase": passphrase.text(secret, "--passphrase-fd")}
        return self._link.call(method, params)

    @property
    def _peer_pid(self) -> int | None:
        return None if self._link is None else self._link.peer_pid


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
