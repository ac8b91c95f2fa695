"""What an approval card shows, decided here in plain data; the GUI and the terminal only draw it (R15, R71).

A card is a frozen value. It shows the dispatch fingerprint that will be recomputed before the first write.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from affidavit.broker.session import Session
from affidavit.broker.terms import ApprovalMode, Effect, InvocationId, Micros, OperationId


class NoticeKind(StrEnum):
    """Why a card carries a notice above the caller."""

    SAME_EFFECT_UNKNOWN = "same_effect_unknown"
    """The same effect was sent and is unknown; shown only after it was acknowledged by name. Needs the tick."""
    SAME_ROUTE_UNKNOWN = "same_route_unknown"
    """Another body to the same method and route is unknown."""
    FIRST_CONTACT = "first_contact"
    CONTRACT_FIRST_USE = "contract_first_use"
    NEW_HOST_KEY = "new_host_key"
    """An SSH host showed a key that was never seen; approving pins it."""
    REDIRECTED = "redirected"
    """A target's redirect leads here; the agent did not ask for this place."""
    RESULT_RELEASE = "result_release"
    """Nothing is sent: another session asks to read a result that is recorded already."""


@dataclass(frozen=True, slots=True)
class NewHostKey:
    """The key of an SSH host that nothing was sent to before."""

    host: str
    """Its entry's name."""
    authority: str
    """Address and port."""
    algorithm: str
    fingerprint: str
    """As OpenSSH prints it: `SHA256:` and base64."""
    next_host: str | None = None
    """Another host on the way whose key is not known: then approving pins this one's, and nothing is sent yet."""


@dataclass(frozen=True, slots=True)
class Notice:
    """One notice. `record` and `at` name the dispatch it speaks of, where there is one."""

    kind: NoticeKind
    invocation_id: InvocationId | None = None
    record: int | None = None
    at: Micros | None = None
    host_key: NewHostKey | None = None
    """Of NEW_HOST_KEY."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One of a contract's three answers (R70). `present` is False where the contract has none."""

    text: str
    present: bool


@dataclass(frozen=True, slots=True)
class Answers:
    binds_retries: Answer
    lookup: Answer
    on_connection_death: Answer


@dataclass(frozen=True, slots=True)
class CredentialShown:
    """A credential as a card names it: never its secret (R12)."""

    name: str
    version: int
    sent_as: str
    """Such as "Authorization header" or "query parameter key"."""


SSH = "SSH"
"""The `method` of a command's card: its body is the command and its input, line by line and marked."""


class Scope(StrEnum):
    """What an approval covers beyond its one dispatch."""

    ONCE = "once"
    SESSION = "session"


@dataclass(frozen=True, slots=True)
class Card:
    """Everything a person needs to decide on one dispatch.

    `scopes` holds more than ONCE only where a grant may be given; `preselected` is the scope the card starts with.
    `tick` is the sentence a person must tick before Approve arms, or None. `expires_at` is None until the card was
    first shown.
    """

    invocation_id: InvocationId
    operation_id: OperationId
    session: Session
    reason: str | None
    effect: Effect
    title: str
    method: str
    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    body_type: str | None
    credential: CredentialShown | None
    contract_id: str
    contract_checked: str | None
    answers: Answers
    fingerprint: str
    """`sha256:` and 64 hex digits."""
    mode: ApprovalMode
    scopes: tuple[Scope, ...]
    preselected: Scope
    notices: tuple[Notice, ...]
    tick: str | None
    asked_at: Micros
    shown_s: float
    """How long it may be decided from when it is first shown; the desk says anew what holds then."""
    grant_until: Micros | None = None
    """Where a grant may be given: when it ends at the latest, whenever the card is decided."""
    expires_at: Micros | None = None
    last_url: str | None = None
    """Of the last call of this route that a person approved."""
    repeats: int = 0
    """How many repeats of the same request this decision approves with it; the button names them."""
    streamed: bool = False
    """Of a command: its input comes later, and nobody can be shown it."""

    @property
    def new_host_key(self) -> NewHostKey | None:
        """The key that approving this card pins."""
        return next((notice.host_key for notice in self.notices if notice.host_key is not None), None)

    @property
    def fingerprint_groups(self) -> tuple[str, ...]:
        """The first 32 hex digits in eight groups of four, as every card shows them."""
        digits = self.fingerprint.removeprefix("sha256:")[:32]
        return tuple(digits[i : i + 4] for i in range(0, 32, 4))


class CardEnd(StrEnum):
    """Why a card went away; each has its own sentence."""

    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    CALLER_GONE = "caller_gone"
    CALLER_CANCELLED = "caller_cancelled"
    VAULT_LOCKED = "vault_locked"
    BROKER_STOPPED = "broker_stopped"


@dataclass(frozen=True, slots=True)
class Decision:
    """What an operator decided about one card. `means` is a word of `evidence.authorization.means` or None for deny."""

    approve: bool
    scope: Scope = Scope.ONCE
    means: str | None = None
    by: str | None = None
    tick: bool = False
    reason: str | None = None
