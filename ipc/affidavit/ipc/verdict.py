"""What a call to the broker ends with, and what may be done next: the part of the client that knows of actions.

A verdict's class says what its advice allows, and nothing else does: only a `Retryable` has `retry`, only an
`Unresolved` has `reconcile` and `repeat_unsafely` (R68). Nothing here does any I/O: whoever made the verdict lends it
a way to ask on, `finish`, which returns the next verdict, or with an `AsyncClient` an awaitable of it.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Envelope = Mapping[str, Any]
    Finish = Callable[[str, Mapping[str, Any]], Any]
    """Make this call and wait until the action is no longer pending; raises ActionFailed."""

REPEATING = ("backoff", "same_idempotency_key")
"""The only advice on which automation may repeat (R68)."""


def new_operation_id() -> str:
    """A durable name for one logical operation: made before the first call, and kept (R63)."""
    return f"op_{os.urandom(12).hex()}"


class ClientError(Exception):
    """What a call ends with other than its result. `operation_id` is what to ask for later, where it is known."""

    operation_id: str | None = None


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


class Verdict:
    """What an action ended with: the whole `envelope`, and its facts by name. `advice` is the word of `retry`."""

    def __init__(self, envelope: Envelope, finish: Finish, request: Mapping[str, Any] | None = None) -> None:
        self.envelope = envelope
        self._finish = finish
        self._request = request
        """The params of the call that this answers, where that call acts."""

    @property
    def code(self) -> str:
        return str(facts(self.envelope)["code"])

    @property
    def phase(self) -> str:
        return str(facts(self.envelope)["phase"])

    @property
    def outcome(self) -> str:
        return str(facts(self.envelope)["outcome"])

    @property
    def advice(self) -> str:
        return str(facts(self.envelope)["retry"])

    @property
    def evidence(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.envelope.get("evidence") or {}
        return found


class Retryable(Verdict):
    """A repeat is safe, and the record allows one now."""

    @property
    def pause_s(self) -> float | None:
        """The pause that the target asked for; the broker keeps it, too."""
        pause: float | None = self.evidence.get("retry_after_s")
        return pause

    def retry(self) -> Any:
        """Repeat the same operation: its next verdict, or ActionFailed. A person may be asked again."""
        params: dict[str, Any] = {"invocation_id": self.envelope["invocation_id"]}
        if self._request is not None and self.outcome == "not_attempted":
            params["request"] = self._request  # what was refused at once is kept by nobody else
        return self._finish("action.retry", params)


class Unresolved(Verdict):
    """It may have happened. Look first, or let a person look."""

    @property
    def look_up(self) -> Mapping[str, Any] | None:
        """The query that would settle it, None where none is known. While the vault is locked it has no words."""
        found: Mapping[str, Any] = self.evidence.get("reconcile") or {}
        return found if found.get("available") else None

    def reconcile(self) -> Any:
        """Ask the target what became of it: the verdict after the look-up, or ActionFailed."""
        return self._finish("action.reconcile", {"invocation_id": self.envelope["invocation_id"]})

    def repeat_unsafely(self) -> Any:
        """Repeat it although it may happen twice: its next verdict, or ActionFailed.

        A person is shown a card that says so, whatever else is allowed without asking, and must tick it.
        """
        return self._finish("action.retry", {"invocation_id": self.envelope["invocation_id"], "unsafe": True})


class ActionFailed(ClientError, Verdict):
    """The action ended with an envelope that holds `error`. What may be done next stands in it, nowhere else (R68).

    Asked for a result that cannot be read, it may be one that holds `pending` or `result`.
    """

    def __init__(self, envelope: Envelope, finish: Finish, request: Mapping[str, Any] | None = None) -> None:
        said = facts(envelope)
        ClientError.__init__(self, f"{said['code']}: {said.get('message', '')}")
        Verdict.__init__(self, envelope, finish, request)
        self.operation_id = envelope.get("operation_id")


class RetryableFailure(Retryable, ActionFailed):
    """An ActionFailed that has `retry`."""


class UnresolvedFailure(Unresolved, ActionFailed):
    """An ActionFailed that has `reconcile` and `repeat_unsafely`."""


def facts(envelope: Envelope) -> Mapping[str, Any]:
    """The five facts, under whichever of their three names they stand."""
    for name in ("result", "pending", "error"):
        found: Mapping[str, Any] | None = envelope.get(name)
        if found is not None:
            return found
    raise ValueError("an envelope holds one of result, pending, error")


def verdict(envelope: Envelope, finish: Finish) -> Verdict:
    """The verdict of a result."""
    if may_repeat(envelope):
        return Retryable(envelope, finish)
    return Unresolved(envelope, finish) if _unresolved(envelope) else Verdict(envelope, finish)


def failure(envelope: Envelope, finish: Finish, request: Mapping[str, Any] | None = None) -> ActionFailed:
    """The failure that an error stands for; `request` as in Verdict."""
    if may_repeat(envelope):
        return RetryableFailure(envelope, finish, request)
    return (UnresolvedFailure if _unresolved(envelope) else ActionFailed)(envelope, finish, request)


def may_repeat(envelope: Envelope) -> bool:
    """Whether a repeat is safe and the record allows one now, with nothing else needed first."""
    said, evidence = facts(envelope), envelope.get("evidence") or {}
    return said.get("retry") in REPEATING and evidence.get("retry_allowed") is True and said.get("needs") is None


def _unresolved(envelope: Envelope) -> bool:
    """Its own outcome is unknown, or that of its operation, or of an item in it."""
    operation = (envelope.get("evidence") or {}).get("operation") or {}
    said = facts(envelope)
    if said.get("retry") == "fetch_result":
        return False  # somebody is at work on it, or it only has to be fetched
    looks_first = said.get("retry") == "reconcile" and said.get("outcome") != "not_attempted"
    return "unknown" in (said.get("outcome"), operation.get("outcome")) or looks_first
