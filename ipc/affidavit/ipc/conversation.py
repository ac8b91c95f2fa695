"""One connection to the broker without its I/O: the lines that go out, and what the bytes that come in mean.

`Client` and `AsyncClient` are this and a way to wait. `run` is that way: it plays a flow to its end.
"""

from __future__ import annotations

import json

from affidavit.ipc.verdict import (
    ActionFailed,
    ClientError,
    ConnectionLost,
    RpcError,
    failure,
    new_operation_id,
    verdict,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
    from typing import Any

    from affidavit.ipc.verdict import Envelope, Verdict

    Params = Mapping[str, Any]
    Call = tuple[str, Params | None]
    Flow = Generator[tuple[str, Params], Envelope, Verdict]
    """Yields calls, is sent their results, and returns the verdict."""

ACTION_FAILED = -32001
ANSWER_BYTES = 64 * 1024 * 1024
"""A longer answer is no answer of ours."""
_ACTING = ("http.request", "ssh.exec")


class Conversation:
    """Numbers calls, and finds the answers to them. Owned by its client.

    `on_notification` is called with method and params of each notification that comes in.
    """

    def __init__(self, run: Callable[[Flow], Any]) -> None:
        self.on_notification: Callable[[str, Any], None] | None = None
        self._run = run
        self._buffer = bytearray()
        self._last = 0
        self._waiting: dict[int, Params | None] = {}
        """The calls that have no answer yet, with the params of those that act."""

    # -- calls and answers

    def ask(self, calls: Sequence[Call], *, batch: bool) -> tuple[range, bytearray]:
        """The ids of these calls, and the line that asks for them. A bytearray among the params is sent as text."""
        ids = range(self._last + 1, self._last + 1 + len(calls))
        self._last += len(calls)
        asked = []
        for id_, (method, params) in zip(ids, calls, strict=True):
            asked.append({"jsonrpc": "2.0", "id": id_, "method": method, "params": params or {}})
            self._waiting[id_] = params if method in _ACTING else None
        line = bytearray(json.dumps(asked if batch else asked[0], default=_text, separators=(",", ":")), "utf-8")
        return ids, line + b"\n"

    def give_up(self, ids: Iterable[int]) -> None:
        """Nobody waits for these any more: their answers are dropped."""
        for id_ in ids:
            self._waiting.pop(id_, None)

    def hear(self, data: bytes) -> dict[int | None, Any]:
        """What came in, by the id of its call: a result, or an ActionFailed or RpcError.

        Under None a ClientError that is about the connection, or a line that is no call.
        """
        answers: dict[int | None, Any] = {}
        start = len(self._buffer)
        self._buffer += data
        while (at := self._buffer.find(b"\n", start)) >= 0:
            try:
                self._read(json.loads(bytes(self._buffer[:at])), answers)
            except ValueError:
                answers[None] = ConnectionLost()  # whoever is there does not speak to us
            del self._buffer[: at + 1]
            start = 0
        if len(self._buffer) > ANSWER_BYTES:
            answers[None] = ConnectionLost()
        return answers

    def _read(self, message: Any, answers: dict[int | None, Any]) -> None:
        for each in message if isinstance(message, list) else [message]:
            id_ = each.get("id")
            if "method" in each:
                if self.on_notification is not None:
                    self.on_notification(each["method"], each.get("params"))
            elif id_ is None:
                answers[None] = self._meaning(each, None)
            elif id_ in self._waiting:
                answers[id_] = self._meaning(each, self._waiting.pop(id_))

    def _meaning(self, answer: Mapping[str, Any], request: Params | None) -> Any:
        """An answer's result, or the exception that it stands for."""
        error = answer.get("error")
        if error is None:
            return answer["result"]
        if error["code"] == ACTION_FAILED:
            return failure(error["data"], self.finish, request)
        return RpcError(error["code"], str(error.get("message", "")), error.get("data"))

    # -- actions

    def act(self, method: str, params: Params) -> Any:
        """Run one action to its verdict. The operation's id is made here, where the caller has made none."""
        return self._run(self._act(method, {"operation_id": new_operation_id(), **params}))

    def finish(self, method: str, params: Params) -> Any:
        """Make a call that answers with an envelope, and wait until that is no longer `pending`."""
        return self._run(self._finish(method, params))

    def _act(self, method: str, params: Params) -> Flow:
        try:
            return (yield from self._finish(method, params))
        except ClientError as error:
            if not isinstance(error, ActionFailed):
                error.operation_id = params["operation_id"]
            raise

    def _finish(self, method: str, params: Params) -> Flow:
        """Where another is at work on the same repeat, its verdict is waited for."""
        while True:
            try:
                envelope = yield method, params
            except ActionFailed as failed:
                waited_for = failed.evidence.get("refers_to") if failed.code == "LEASE_LOST" else None
                if waited_for is None:
                    raise
            else:
                if "pending" not in envelope:
                    return verdict(envelope, self.finish)
                waited_for = envelope["invocation_id"]
            method, params = "action.wait", {"invocation_id": waited_for}


def advance(flow: Flow, answer: Any = None) -> tuple[str, Params] | Verdict:
    """Give a flow the answer to what it asked, a result or a ClientError: what it asks next, or its verdict. Raises
    what the flow ends with."""
    try:
        return flow.throw(answer) if isinstance(answer, ClientError) else flow.send(answer)
    except StopIteration as end:
        verdict: Verdict = end.value
        return verdict


def _text(value: Any) -> str:
    if isinstance(value, bytearray):
        return value.decode("utf-8")
    raise TypeError(type(value).__name__)
