"""The commands' side of the two sockets: one call, one answer, and refusals in a command's own words."""

from __future__ import annotations

import itertools
import json
import os
import socket
import struct
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from affidavit.broker.home import HomeRefused, HomeState, Places
from affidavit.ipc.cli import exits
from affidavit.ipc.cli.refusal import Refusal, usage

ACTION_ERROR = -32001
NOT_WHILE_LOCKED = -32002
OPERATOR_REFUSED = -32003
BAD_PARAMS = -32602

_NEEDS = {
    "operator_unlock": "The operator unlocks the vault: affidavit unlock",
    "operator_review": "The operator reviews the journal.",
}


class Ended(Exception):
    """The call ended with an envelope that holds `error`; its exit status is the envelope's."""

    def __init__(self, envelope: Mapping[str, Any]) -> None:
        super().__init__(envelope["error"]["code"])
        self.envelope = envelope


class Lost(Refusal):
    """The connection ended between a call and its answer. It proves nothing about what was asked for."""

    def __init__(self) -> None:
        super().__init__(
            exits.NOT_REACHABLE,
            "not_reachable",
            "The connection to the broker ended before it answered. That proves nothing about what was asked.",
            remedy="affidavit status",
        )


class Link:
    """One connection. A command that needs several calls makes them one after the other on it."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        try:
            self._socket.connect(str(path))
            pid, uid, _ = struct.unpack("3i", self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            if uid != os.geteuid():
                raise Refusal(
                    exits.REFUSED,
                    "foreign_peer",
                    f"{path} is served by user {uid}, not by you. Nothing was sent to it.",
                )
        except BaseException:
            self._socket.close()
            raise
        self.peer_pid = pid
        self._reader = self._socket.makefile("rb")
        self._ids = itertools.count(1)

    def call(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """The result of one call. Raises Ended, Lost, or another Refusal."""
        number = next(self._ids)
        request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        try:
            self._socket.sendall(json.dumps(request, separators=(",", ":")).encode() + b"\n")
            answer = json.loads(self._line())
        except OSError:
            raise Lost from None
        if "error" in answer:
            raise refusal_of(answer["error"])
        result: dict[str, Any] = answer["result"]
        return result

    def _line(self) -> bytes:
        line = self._reader.readline()
        if not line.endswith(b"\n"):
            raise ConnectionResetError
        return line

    def close(self) -> None:
        self._reader.close()
        self._socket.close()

    def __enter__(self) -> Link:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def refusal_of(error: Mapping[str, Any]) -> Exception:
    """What a JSON-RPC error means for a command."""
    code, message = error["code"], str(error.get("message", ""))
    data = error.get("data") or {}
    if code == ACTION_ERROR:
        return Ended(data)
    if code == NOT_WHILE_LOCKED:
        needs = str(data.get("needs"))
        return Refusal(exits.NOT_OPEN, "locked", message or "The vault is locked.", remedy=_NEEDS.get(needs))
    if code == OPERATOR_REFUSED:
        return operator_refused(str(data.get("code", "refused")), message, data.get("field"), data.get("remedy"))
    if code == BAD_PARAMS:
        return usage(message, field=data.get("field"))
    return Refusal(exits.REFUSED, "protocol", f"The broker answered with error {code}: {message}")


def operator_refused(code: str, message: str, field: str | None, remedy: str | None) -> Refusal:
    """An OperatorRefused of the broker, whichever way it came."""
    status = exits.NOT_OPEN if code in ("wrong_passphrase", "locked") else exits.REFUSED
    return Refusal(status, code, message, field=field, remedy=remedy)


def places() -> Places:
    """The home that the environment names."""
    try:
        return Places.from_environment(os.environ)
    except HomeRefused as refused:
        raise home_refused(refused) from None


def home_refused(refused: HomeRefused) -> Refusal:
    return Refusal(exits.REFUSED, refused.code, refused.message, remedy=refused.remedy)


def agent() -> Link:
    """The agent socket: that of `AFFIDAVIT_SOCKET`, else the home's."""
    named = os.environ.get("AFFIDAVIT_SOCKET")
    if named:
        return _open(Path(named), None)
    home = places()
    return _open(home.agent_socket, home)


def operator(home: Places) -> Link:
    """The operator socket of the home, in a run directory that is ours alone."""
    return _open(home.operator_socket, home)


def _open(path: Path, home: Places | None) -> Link:
    try:
        if home is not None and home.run.exists():
            home.check_run()
        return Link(path)
    except HomeRefused as refused:
        raise home_refused(refused) from None
    except OSError as error:
        raise not_reachable(path, home, error) from None


def not_reachable(path: Path, home: Places | None, error: OSError) -> Refusal:
    """No broker answers on `path`; the next step depends on whether there is a home."""
    remedy = "Start the app: affidavit tray, or affidavit serve"
    if home is not None and home.state is HomeState.ABSENT:
        remedy = "Create the vault: affidavit init"
    why = os.strerror(error.errno) if error.errno else str(error)
    return Refusal(exits.NOT_REACHABLE, "not_reachable", f"No broker answers on {path} ({why}).", remedy=remedy)
