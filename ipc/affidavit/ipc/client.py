"""A client of the two sockets, for commands and programs that wait for their answers.

It loads nothing but what a bare socket client loads: no asyncio, no dataclasses, no typing, nothing of the broker's.
It talks to a process of the same user only, and gives nothing to any other.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import struct
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType
    from typing import Any

ACTION_FAILED = -32001
ANSWER_BYTES = 64 * 1024 * 1024
"""A longer answer is no answer of ours."""
_READ_BYTES = 256 * 1024


class ClientError(Exception):
    """What a call ends with other than its result."""


class NotReachable(ClientError):
    """No broker answers here, or not one that may be trusted. `remedy` is the next step."""

    def __init__(self, message: str, remedy: str = "Start the app: affidavit tray, or affidavit serve") -> None:
        super().__init__(message)
        self.remedy = remedy


class ConnectionLost(NotReachable):
    """The connection ended before the answer came. It proves nothing about what was asked."""

    def __init__(self) -> None:
        super().__init__(
            "The connection to the broker ended before it answered. That proves nothing about what was asked.",
            "Ask action.get by the operation id.",
        )


class NoAnswer(ClientError):
    """No answer within the time given. What was asked goes on, and a later answer to it is dropped."""

    def __init__(self, timeout_s: float) -> None:
        super().__init__(
            f"No answer within {timeout_s:g} s. What was asked goes on: ask action.get by the operation id."
        )


class RpcError(ClientError):
    """The call is refused: JSON-RPC error `code`, with `data` as the interface has it."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class ActionFailed(ClientError):
    """The action ended with an envelope that holds `error`. What may be done next stands in it, nowhere else (R68).

    Asked for a result that cannot be read, it may be one that holds `pending` or `result`.
    """

    def __init__(self, envelope: Mapping[str, Any]) -> None:
        facts = next(envelope[name] for name in ("error", "pending", "result") if name in envelope)
        super().__init__(f"{facts['code']}: {facts.get('message', '')}")
        self.envelope = envelope


def new_operation_id() -> str:
    """A durable name for one logical operation: made before the first call, and kept (R63)."""
    return f"op_{os.urandom(12).hex()}"


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


class Client:
    """One connection. Calls are made one after the other; use one client in one thread.

    `on_notification` is called with method and params of each notification that is read while an answer is awaited.
    """

    def __init__(self, path: str, *, timeout_s: float | None = None) -> None:
        """Connect to the socket `path`, which a process of this user must serve. Raises NotReachable."""
        self.timeout_s = timeout_s
        self.on_notification: Callable[[str, Any], None] | None = None
        self._buffer = bytearray()
        self._last = 0
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.settimeout(timeout_s)
            self._socket.connect(path)
            credentials = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
            self.peer_pid, uid, _ = struct.unpack("3i", credentials)
        except OSError as error:
            self._socket.close()
            why = os.strerror(error.errno) if error.errno else str(error)
            raise NotReachable(f"No broker answers on {path} ({why}).") from None
        if uid != os.geteuid():
            self._socket.close()
            raise NotReachable(f"{path} is served by user {uid}, not by you. Nothing was sent.", "Do not use it.")

    @classmethod
    def agent(cls, environ: Mapping[str, str] = os.environ, *, timeout_s: float | None = None) -> Client:
        """The agent socket: that of `AFFIDAVIT_SOCKET`, else the home's. Raises NotReachable."""
        named = environ.get("AFFIDAVIT_SOCKET")
        return cls(named, timeout_s=timeout_s) if named else cls._of_home(environ, "agent.sock", timeout_s)

    @classmethod
    def operator(cls, environ: Mapping[str, str] = os.environ, *, timeout_s: float | None = None) -> Client:
        """The operator socket of the home, never another. Raises NotReachable."""
        return cls._of_home(environ, "operator.sock", timeout_s)

    @classmethod
    def _of_home(cls, environ: Mapping[str, str], name: str, timeout_s: float | None) -> Client:
        directory = run_directory(environ)
        try:
            found = os.stat(directory)
        except OSError:
            raise NotReachable(f"There is no broker of this home: {directory} does not exist.") from None
        if found.st_uid != os.geteuid():
            raise NotReachable(f"{directory} belongs to user {found.st_uid}. Nothing was sent.", "Do not use it.")
        if stat.S_IMODE(found.st_mode) & 0o077:
            raise NotReachable(f"{directory} is open to other users. Nothing was sent.", f"chmod 700 {directory}")
        return cls(os.path.join(directory, name), timeout_s=timeout_s)

    def call(self, method: str, params: Mapping[str, Any] | None = None, *, timeout_s: float | None = None) -> Any:
        """The result of one call. A bytearray among the params is sent as text and left as it is.

        Raises ActionFailed, RpcError, NoAnswer, ConnectionLost.
        """
        (answer,) = self._exchange([(method, params)], timeout_s, batch=False)
        if isinstance(answer, ClientError):
            raise answer
        return answer

    def batch(
        self, calls: Sequence[tuple[str, Mapping[str, Any] | None]], *, timeout_s: float | None = None
    ) -> list[Any]:
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

    def _exchange(
        self, calls: Sequence[tuple[str, Mapping[str, Any] | None]], timeout_s: float | None, *, batch: bool
    ) -> list[Any]:
        limit_s = self.timeout_s if timeout_s is None else timeout_s
        until = None if limit_s is None else time.monotonic() + limit_s
        ids = range(self._last + 1, self._last + 1 + len(calls))
        self._last += len(calls)
        asked = [
            {"jsonrpc": "2.0", "id": id_, "method": method, "params": params or {}}
            for id_, (method, params) in zip(ids, calls, strict=True)
        ]
        frame = bytearray(json.dumps(asked if batch else asked[0], default=_text, separators=(",", ":")), "utf-8")
        frame += b"\n"
        try:
            try:
                self._socket.settimeout(_left(until))
                self._socket.sendall(frame)
            except (BrokenPipeError, ConnectionResetError):
                pass  # what the broker said before it closed can still be read
            except TimeoutError:
                self._socket.close()  # half a line is out: nothing more can follow it
                raise
            answers = self._answers(ids, until)
        except TimeoutError:
            raise NoAnswer(limit_s or 0) from None
        except OSError:
            raise ConnectionLost from None
        finally:
            frame[:] = bytes(len(frame))  # it may have held a passphrase
        return [_read(answers[id_]) for id_ in ids]

    def _answers(self, ids: Sequence[int], until: float | None) -> dict[int, dict[str, Any]]:
        """The answers with these ids. Others are late ones, to calls that were given up."""
        while True:
            message = json.loads(self._line(until))
            for answer in message if isinstance(message, list) else [message]:
                if "method" in answer:
                    if self.on_notification is not None:
                        self.on_notification(answer["method"], answer.get("params"))
                elif answer.get("id") is None:
                    raise _read(answer)  # about the connection, or a line that is no call
            if isinstance(message, list):
                found = {answer.get("id"): answer for answer in message}
            else:
                found = {message.get("id"): message}
            if found.keys() >= set(ids):
                return found

    def _line(self, until: float | None) -> bytes:
        while True:
            at = self._buffer.find(b"\n")
            if at >= 0:
                line = bytes(self._buffer[:at])
                del self._buffer[: at + 1]
                return line
            self._socket.settimeout(_left(until))
            piece = self._socket.recv(_READ_BYTES)
            if not piece or len(self._buffer) + len(piece) > ANSWER_BYTES:
                raise ConnectionResetError
            self._buffer += piece


def _read(answer: Mapping[str, Any]) -> Any:
    """An answer's result, or the exception that it stands for."""
    error = answer.get("error")
    if error is None:
        return answer["result"]
    if error["code"] == ACTION_FAILED:
        return ActionFailed(error["data"])
    return RpcError(error["code"], str(error.get("message", "")), error.get("data"))


def _left(until: float | None) -> float | None:
    """Seconds left, for a socket; raises TimeoutError when there are none."""
    if until is None:
        return None
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _text(value: Any) -> str:
    if isinstance(value, bytearray):
        return value.decode("utf-8")
    raise TypeError(type(value).__name__)
