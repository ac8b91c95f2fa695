"""What the broker offers to the sockets and to the windows: two protocols, and the ways in which a call is refused.

Everything crosses here as frozen values or JSON-ready mappings in the shapes of `interface`. All methods run on the
broker's loop. `AgentApi` cannot approve, attest, unlock, or read or change a secret (R73).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from affidavit.broker.card import Card, CardEnd, Decision
from affidavit.broker.session import Session
from affidavit.broker.stream import CallerStream
from affidavit.broker.terms import InvocationId, SessionId

Json = Mapping[str, Any]
"""A JSON-ready object in a shape of `interface`; it is not changed after it was handed out."""


class ActionError(Exception):
    """The call ends with JSON-RPC error -32001 and an envelope as its data.

    It holds `error`, or where a result was asked for and there is none to read, whichever of the three it has.
    """

    def __init__(self, envelope: Json) -> None:
        self.envelope = envelope
        self.facts: Json = next(envelope[name] for name in ("error", "pending", "result") if name in envelope)
        super().__init__(self.facts["code"])


class BadParam(Exception):
    """A param is wrong, an id is not known, a hash does not match: JSON-RPC error -32602 with `data.field`."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field
        self.message = message


class NotWhileLocked(Exception):
    """JSON-RPC error -32002 with `data.needs`."""

    def __init__(self, needs: str) -> None:
        super().__init__(needs)
        self.needs = needs


class OperatorRefused(Exception):
    """An operator's call is refused; `code` is a lower-case word, `remedy` the next step for a person.

    Codes: `wrong_passphrase`, `busy`, `locked`, `too_late`, `not_known`, `conflict`, `invalid`, `poisoned`, and the
    vault's own: `absent`, `exists`, `damaged`, `unavailable`, `keyring`.
    """

    def __init__(self, code: str, message: str, *, field: str | None = None, remedy: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.field = field
        self.remedy = remedy


class AgentApi(Protocol):
    """The agent socket's methods. `session` is the caller by the kernel."""

    def session_started(self, session: Session) -> None:
        """Record a session once; a second call with the same id updates only its claim."""

    def session_ended(self, session_id: SessionId) -> None:
        """The session's process has ended (R27: the caller is gone)."""

    def hello(self, session: Session) -> Json: ...

    async def http_request(self, session: Session, params: Json) -> Json:
        """Raw params; the broker checks them in full, so that a refusal has an invocation id. An envelope with
        `result` or `pending`, else ActionError."""

    async def ssh_exec(self, session: Session, params: Json, *, ready: Callable[[InvocationId], None]) -> Json:
        """As `http_request`, of one command on an SSH host. `ready` is called once a stream may be attached to."""

    async def stream_attach(self, session: Session, *, invocation_id: str) -> CallerStream:
        """The caller's end of a stream that is ready; its holder calls `leave` at the end."""

    async def action_get(
        self, session: Session, *, invocation_id: str | None, operation_id: str | None, events: bool
    ) -> Json: ...

    async def action_wait(self, session: Session, *, invocation_id: str, wait_s: float | None) -> Json: ...

    async def action_list(
        self,
        session: Session,
        *,
        scope: str,
        outcome: str | None,
        state: str | None,
        limit: int,
        before: str | None,
    ) -> Json: ...

    async def action_retry(
        self, session: Session, *, invocation_id: str, wait_s: float | None, unsafe: bool, request: Json | None
    ) -> Json:
        """Repeat an operation, or say why not. `request` are the raw params of `http.request`, where they are needed
        again; `unsafe` shows a card with a tick."""

    async def action_reconcile(self, session: Session, *, invocation_id: str) -> Json: ...

    async def action_cancel(self, session: Session, *, invocation_id: str, signal: str | None) -> Json: ...

    async def result_fetch(self, session: Session, *, invocation_id: str, chunk: int, part: str) -> Json: ...

    async def result_ack(self, session: Session, *, invocation_id: str, sha256: str, part: str) -> Json: ...

    async def credential_list(self, session: Session) -> Json: ...

    async def contract_list(self, session: Session) -> Json: ...

    async def contract_explain(self, session: Session, *, method: str, url: str) -> Json: ...

    async def status(self) -> Json: ...

    def delivered(self, invocation_id: InvocationId, session_id: SessionId, *, whole: bool) -> None:
        """The frame with this action's result was written whole to a socket, or could not be (R42)."""

    def on_change(self, session_id: SessionId, listener: Callable[[Json], None]) -> Callable[[], None]:
        """Call `listener` with each `action.changed` of this session's actions; returns how to stop."""


class CardWatcher(Protocol):
    """Who shows cards. Called on the broker's loop; must not block."""

    def card_opened(self, card: Card) -> None: ...

    def card_closed(self, invocation_id: InvocationId, end: CardEnd) -> None: ...


class OperatorApi(Protocol):
    """The operator's methods, for `operator.sock`, the windows and commands that open the vault by themselves.

    A `passphrase` is a bytearray, overwritten by the callee. Whoever calls without one where one is needed gets
    OperatorRefused("wrong_passphrase"). Wrong ones are tried one at a time with a pause that doubles (interface,
    Operator commands).
    """

    async def unlock(self, passphrase: bytearray, *, program: str) -> Json: ...

    async def lock(self, *, why: str) -> None: ...

    async def check_passphrase(self, passphrase: bytearray) -> None:
        """Return where it is the vault's, locked or not; else OperatorRefused("wrong_passphrase")."""

    async def status(self) -> Json: ...

    def cards(self) -> Sequence[Card]:
        """Waiting cards, oldest first."""

    def watch_cards(self, watcher: CardWatcher) -> Callable[[], None]:
        """Attach an approver with a screen; returns how to detach it."""

    def card_shown(self, invocation_id: InvocationId) -> None:
        """The card is on a screen now; its time runs from here."""

    async def decide(self, invocation_id: InvocationId, decision: Decision) -> Json:
        """Decide a card. OperatorRefused("too_late") where it is decided, expired or gone; nothing is sent then."""

    async def approve_by_passphrase(
        self, invocation_id: InvocationId, *, scope: str | None, passphrase: bytearray, means: str
    ) -> Json:
        """Decide with the passphrase; `means` is `card_passphrase` or `cli_passphrase`. It stands for the tick."""

    async def attest(
        self,
        invocation_id: InvocationId,
        *,
        outcome: str,
        note: str,
        reference: str | None,
        item: str | None,
        supersedes: int | None,
        passphrase: bytearray,
    ) -> Json: ...

    async def action_get(self, invocation_id: InvocationId) -> Json:
        """The envelope with `events`, whoever asked for the action."""

    async def action_list(self, *, outcome: str | None, state: str | None, limit: int, before: str | None) -> Json: ...

    async def unknown(self) -> Sequence[Json]:
        """Envelopes with `events` of the newest unknown invocation of each operation that is unknown now; past their
        recovery deadline first, then by time left."""

    async def alert_close(self, alert_id: int, passphrase: bytearray) -> Json:
        """Close an alert that was looked into; it stays in the journal."""

    async def credential_add(
        self, params: Json, secret: bytearray, passphrase: bytearray, *, key_passphrase: bytearray | None = None
    ) -> Json:
        """`key_passphrase` only for kind ssh-key: that of the key's file."""

    async def credential_list(self, passphrase: bytearray | None) -> Json: ...

    async def credential_rotate(
        self,
        name: str,
        secret: bytearray,
        passphrase: bytearray,
        *,
        certificate: str | None = None,
        key_passphrase: bytearray | None = None,
    ) -> Json:
        """`certificate` only for kinds mtls and ssh-key: the one that the new key belongs to."""

    async def credential_remove(self, name: str, passphrase: bytearray) -> Json: ...

    async def host_add(self, params: Json, passphrase: bytearray) -> Json:
        """Add an SSH host: the fields of `vault.NewHost`."""

    async def host_edit(self, name: str, params: Json, passphrase: bytearray) -> Json:
        """Change an SSH host: the fields of `vault.HostEdit`."""

    async def host_list(self, passphrase: bytearray) -> Json: ...

    async def hosts(self) -> Sequence[Json]:
        """The rows of `host_list`, for the windows of this process."""

    async def host_remove(self, name: str, passphrase: bytearray) -> Json: ...

    async def host_import(self, text: str, *, credential: str | None, user: str | None, passphrase: bytearray) -> Json:
        """Take what can be taken from the text of a `known_hosts` or `ssh_config`, and name what is skipped."""

    async def trust_add(self, name: str, ca: str, targets: Sequence[str], passphrase: bytearray) -> Json:
        """Trust the authorities of a PEM text for these targets."""

    async def trust_list(self, passphrase: bytearray) -> Json: ...

    async def trust_remove(self, name: str, passphrase: bytearray) -> Json: ...

    async def proxy_set(
        self, url: str, *, credential: str | None, no_proxy: Sequence[str], trusted: bool, passphrase: bytearray
    ) -> Json: ...

    async def proxy_show(self, passphrase: bytearray) -> Json: ...

    async def proxy_off(self, passphrase: bytearray) -> Json: ...

    async def contract_pending(self) -> Json:
        """Contract files that are new or changed and match nothing until adopted, with their difference."""

    async def contract_adopt(self, files: Sequence[tuple[str, str]], passphrase: bytearray) -> Json:
        """Adopt (file name, text) pairs; all or none."""

    async def contract_list(self) -> Json: ...

    async def settings_show(self) -> Json: ...

    async def settings_set(self, key: str, value: str, passphrase: bytearray) -> Json: ...

    def on_status(self, listener: Callable[[Json], None]) -> Callable[[], None]:
        """Call `listener` with `status` now and after every change; returns how to stop."""
