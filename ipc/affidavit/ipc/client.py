"""A client of the two sockets for programs that wait for their answers, and the way to one that does not.

It loads little more than a bare socket client: no dataclasses, no typing, nothing of the broker's, and asyncio only
once `AsyncClient` is asked for. It talks to a process of the same user only, and gives nothing to any other. What calls
mean, and what may be done next, is shared by both clients (`conversation`, `verdict`).
"""

from __future__ import annotations

import os
import socket
import stat
import struct
import time

from affidavit.ipc.conversation import Conversation, advance
from affidavit.ipc.verdict import (
    ActionFailed,
    ClientError,
    ConnectionLost,
    NoAnswer,
    NotReachable,
    Retryable,
    RetryableFailure,
    RpcError,
    Unresolved,
    UnresolvedFailure,
    Verdict,
    new_operation_id,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType
    from typing import Any

    from affidavit.ipc.async_client import AsyncClient
    from affidavit.ipc.conversation import Call, Flow

__all__ = [
    "ActionFailed",
    "AsyncClient",
    "Client",
    "ClientError",
    "ConnectionLost",
    "NoAnswer",
    "NotReachable",
    "Retryable",
    "RetryableFailure",
    "RpcError",
    "Unresolved",
    "UnresolvedFailure",
    "Verdict",
    "agent_socket",
    "attached",
    "connected",
    "new_operation_id",
    "run_directory",
]

_READ_BYTES = 256 * 1024


def __getattr__(name: str) -> Any:
    """`AsyncClient`, which loads asyncio, on its first use."""
    if name != "AsyncClient":
        raise AttributeError(name)
    from affidavit.ipc.async_client import AsyncClient

    return AsyncClient


def run_directory(environ: Mapping[str, str]) -> str:
    """Where the sockets of the home that `environ` names lie: `Places.run`, without what that loads."""
    home = environ.get("AFFIDAVIT_HOME")
    if home:
        return os.path.join(os.path.abspath(home), "run")
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(runtime):
        return os.path.join(runtime, "affidavit")
    state = environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(state):
        state = os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".local", "state")
    return os.path.join(state, "affidavit", "run")


def home_socket(environ: Mapping[str, str], name: str) -> str:
    """The path of a socket in the run directory of the home, which is ours alone. Raises NotReachable."""
    directory = run_directory(environ)
    try:
        found = os.stat(directory)
    except OSError:
        raise NotReachable(f"There is no broker of this home: {directory} does not exist.") from None
    if found.st_uid != os.geteuid():
        raise NotReachable(f"{directory} belongs to user {found.st_uid}. Nothing was sent.", "Do not use it.")
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise NotReachable(f"{directory} is open to other users. Nothing was sent.", f"chmod 700 {directory}")
    return os.path.join(directory, name)


def agent_socket(environ: Mapping[str, str]) -> str:
    """The path of the agent socket: that of `AFFIDAVIT_SOCKET`, else the home's. Raises NotReachable."""
    return environ.get("AFFIDAVIT_SOCKET") or home_socket(environ, "agent.sock")


def connected(path: str, timeout_s: float | None) -> tuple[socket.socket, int]:
    """A connection to the socket `path`, and the pid of this user's process that serves it. Raises NotReachable."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout_s)
        connection.connect(path)
        pid, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    except OSError as error:
        connection.close()
        why = os.strerror(error.errno) if error.errno else str(error)
        raise NotReachable(f"No broker answers on {path} ({why}).") from None
    if uid != os.geteuid():
        connection.close()
        raise NotReachable(f"{path} is served by user {uid}, not by you. Nothing was sent.", "Do not use it.")
    return connection, pid


def attached(
    invocation_id: str, environ: Mapping[str, str] = os.environ, *, timeout_s: float | None = None
) -> tuple[socket.socket, bytes]:
    """A connection that carries a command's stream from here on, and what was read of its frames already.

    Raises NotReachable, RpcError, ConnectionLost.
    """
    conversation = Conversation(lambda flow: None)
    connection, _ = connected(agent_socket(environ), timeout_s)
    try:
        _, line = conversation.ask([("stream.attach", {"invocation_id": invocation_id})], batch=False)
        connection.sendall(line)
        heard = b""
        while b"\n" not in heard:
            piece = connection.recv(_READ_BYTES)
            if not piece:
                raise ConnectionLost
            heard += piece
        answer, _, begun = heard.partition(b"\n")
        for meant in conversation.hear(answer + b"\n").values():
            if isinstance(meant, ClientError):
                raise meant
    except OSError:
        connection.close()
        raise ConnectionLost from None
    except BaseException:
        connection.close()
        raise
    return connection, begun


class Client:
    """One connection. Calls are made one after the other; use one client in one thread."""

    def __init__(self, path: str, *, timeout_s: float | None = None) -> None:
        """Connect to the socket `path`, which a process of this user must serve. Raises NotReachable."""
        self.timeout_s = timeout_s
        self._conversation = Conversation(self._run)
        self._socket, self.peer_pid = connected(path, timeout_s)

    @classmethod
    def agent(cls, environ: Mapping[str, str] = os.environ, *, timeout_s: float | None = None) -> Client:
        """The agent socket: that of `AFFIDAVIT_SOCKET`, else the home's. Raises NotReachable."""
        return cls(agent_socket(environ), timeout_s=timeout_s)

    @classmethod
    def operator(cls, environ: Mapping[str, str] = os.environ, *, timeout_s: float | None = None) -> Client:
        """The operator socket of the home, never another. Raises NotReachable."""
        return cls(home_socket(environ, "operator.sock"), timeout_s=timeout_s)

    def on_notification(self, listener: Callable[[str, Any], None]) -> None:
        """Have `listener` called with method and params of each notification that is read while a call waits."""
        self._conversation.on_notification = listener

    def act(self, method: str, params: Mapping[str, Any]) -> Verdict:
        """Run one action, `http.request` or `ssh.exec`, to its verdict. Asked again under its operation id it is
        answered from its record and not sent again.

        Raises ActionFailed, RpcError, NoAnswer, ConnectionLost; the last two with the operation's id.
        """
        verdict: Verdict = self._conversation.act(method, params)
        return verdict

    def resume(self, operation_id: str) -> Verdict:
        """The verdict of an operation from its record alone, once it is no longer pending. Raises as `act` does."""
        verdict: Verdict = self._conversation.finish("action.get", {"operation_id": operation_id})
        return verdict

    def call(self, method: str, params: Mapping[str, Any] | None = None, *, timeout_s: float | None = None) -> Any:
        """The result of one call. A bytearray among the params is sent as text and left as it is.

        Raises ActionFailed, RpcError, NoAnswer, ConnectionLost.
        """
        (answer,) = self._exchange([(method, params)], timeout_s, batch=False)
        if isinstance(answer, ClientError):
            raise answer
        return answer

    def batch(self, calls: Sequence[Call], *, timeout_s: float | None = None) -> list[Any]:
        """Run calls concurrently; their results in order, an ActionFailed or RpcError in the place of each that failed.

        Raises NoAnswer, ConnectionLost; RpcError where the batch as a whole is refused.
        """
        return self._exchange(calls, timeout_s, batch=True) if calls else []

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, flow: Flow) -> Verdict:
        step = advance(flow)
        while isinstance(step, tuple):
            try:
                answer = self.call(*step)
            except ClientError as error:
                answer = error
            step = advance(flow, answer)
        return step

    def _exchange(self, calls: Sequence[Call], timeout_s: float | None, *, batch: bool) -> list[Any]:
        limit_s = self.timeout_s if timeout_s is None else timeout_s
        until = None if limit_s is None else time.monotonic() + limit_s
        ids, line = self._conversation.ask(calls, batch=batch)
        try:
            try:
                self._socket.settimeout(_left(until))
                self._socket.sendall(line)
            except (BrokenPipeError, ConnectionResetError):
                pass  # what the broker said before it closed can still be read
            except TimeoutError:
                self._socket.close()  # half a line is out: nothing more can follow it
                raise
            answers: dict[int | None, Any] = {}
            while not answers.keys() >= set(ids):
                if None in answers:
                    raise answers[None]
                self._socket.settimeout(_left(until))
                piece = self._socket.recv(_READ_BYTES)
                if not piece:
                    raise ConnectionLost
                answers |= self._conversation.hear(piece)
        except TimeoutError:
            raise NoAnswer(limit_s or 0) from None
        except OSError:
            raise ConnectionLost from None
        finally:
            self._conversation.give_up(ids)
            line[:] = bytes(len(line))  # it may have held a passphrase
        return [answers[id_] for id_ in ids]


def _left(until: float | None) -> float | None:
    """Seconds left, for a socket; raises TimeoutError when there are none."""
    if until is None:
        return None
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
