"""The commands' side of the two sockets: the client's answers and errors, in a command's own words."""

from __future__ import annotations

import os

from affidavit.ipc.cli import exits
from affidavit.ipc.cli.refusal import Refusal, usage
from affidavit.ipc.client import Client, ConnectionLost, NotReachable, RpcError, attached, run_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Mapping
    from types import TracebackType
    from typing import Any

    from affidavit.broker.home import HomeRefused, Places

NOT_WHILE_LOCKED = -32002
OPERATOR_REFUSED = -32003
BAD_PARAMS = -32602

_NEEDS = {
    "operator_unlock": "The operator unlocks the vault: affidavit unlock",
    "operator_review": "The operator reviews the journal.",
}


class Lost(Refusal):
    """The connection ended between a call and its answer. It proves nothing about what was asked for."""


class Link:
    """One connection. A command that needs several calls makes them one after the other on it."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @property
    def peer_pid(self) -> int:
        pid: int = self._client.peer_pid
        return pid

    def call(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """The result of one call. Raises ActionFailed, Lost, or another Refusal."""
        try:
            result: dict[str, Any] = self._client.call(method, params)
        except ConnectionLost as lost:
            raise Lost(exits.NOT_REACHABLE, "not_reachable", str(lost), remedy="affidavit status") from None
        except RpcError as error:
            raise refusal_of(error) from None
        return result

    def hear(self, told: Callable[[str, Any], None]) -> None:
        """Call `told` with each notification that comes while an answer is awaited."""
        self._client.on_notification(told)

    def __enter__(self) -> Link:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()


def agent() -> Link:
    """The agent socket: that of `AFFIDAVIT_SOCKET`, else the home's."""
    try:
        return Link(Client.agent())
    except NotReachable as missing:
        raise not_reachable(missing) from None


def stream(invocation_id: str) -> tuple[socket.socket, bytes]:
    """As `client.attached`."""
    try:
        found: tuple[socket.socket, bytes] = attached(invocation_id)
    except RpcError as error:
        raise refusal_of(error) from None
    except NotReachable as missing:
        raise not_reachable(missing) from None
    return found


def operator() -> Link:
    """The operator socket of the home, in a run directory that is ours alone."""
    try:
        return Link(Client.operator())
    except NotReachable as missing:
        raise not_reachable(missing) from None


def not_reachable(missing: NotReachable) -> Refusal:
    """No broker answers, or none that may be trusted. Where there is no vault yet, that comes first."""
    remedy = missing.remedy
    if not os.environ.get("AFFIDAVIT_SOCKET") and not os.path.exists(run_directory(os.environ)):
        from affidavit.broker.home import HomeState

        if places().state is HomeState.ABSENT:
            remedy = "Create the vault: affidavit init"
    return Refusal(exits.NOT_REACHABLE, "not_reachable", str(missing), remedy=remedy)


def refusal_of(error: RpcError) -> Refusal:
    """What a JSON-RPC error means for a command."""
    data = error.data or {}
    if error.code == NOT_WHILE_LOCKED:
        remedy = _NEEDS.get(str(data.get("needs")))
        return Refusal(exits.NOT_OPEN, "locked", error.message or "The vault is locked.", remedy=remedy)
    if error.code == OPERATOR_REFUSED:
        return operator_refused(str(data.get("code", "refused")), error.message, data.get("field"), data.get("remedy"))
    if error.code == BAD_PARAMS:
        return usage(error.message, field=data.get("field"))
    message = f"The broker answered with error {error.code}: {error.message}"
    return Refusal(exits.REFUSED, "protocol", message, remedy=data.get("remedy"))


def operator_refused(code: str, message: str, field: str | None, remedy: str | None) -> Refusal:
    """An OperatorRefused of the broker, whichever way it came."""
    status = exits.NOT_OPEN if code in ("wrong_passphrase", "locked") else exits.REFUSED
    return Refusal(status, code, message, field=field, remedy=remedy)


def places() -> Places:
    """The home that the environment names."""
    from affidavit.broker.home import HomeRefused, Places

    try:
        return Places.from_environment(os.environ)
    except HomeRefused as refused:
        raise home_refused(refused) from None


def home_refused(refused: HomeRefused) -> Refusal:
    return Refusal(exits.REFUSED, refused.code, refused.message, remedy=refused.remedy)
