"""What is bound to an invocation before approval: values that are never edited; a change is a new invocation (R14)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from affidavit.broker import events as ev
from affidavit.broker.card import Answers, Notice
from affidavit.broker.contract import Contract
from affidavit.broker.fingerprint import (
    Headers,
    HttpDispatch,
    SshDispatch,
    SshHopBound,
    dispatch_fingerprint,
    ssh_dispatch_fingerprint,
)
from affidavit.broker.grants import Scope
from affidavit.broker.outcome import ExitMeaning, Meaning
from affidavit.broker.session import Session
from affidavit.broker.target import HttpTarget
from affidavit.broker.terms import ApprovalMode, Effect, InvocationId, OperationId
from affidavit.broker.vault.credentials import Credential
from affidavit.broker.vault.host_entry import Hop, HostKeyPolicy
from affidavit.broker.vault.proxy import ProxyChoice
from affidavit.broker.wire.port import AddressCheck
from affidavit.broker.wire.ssh.port import HostKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """One admitted action, whichever wire it takes: who asked, under which contract and credential, in what time."""

    operation_id: OperationId
    correlation_id: str | None
    session: Session | None
    """Who asked; None of an errand, which asks nobody."""
    reason: str | None
    contract_id: str
    contract_digest: str
    contract_checked: str | None
    title: str
    effect: Effect
    idempotent: str
    answers: Answers
    credential: Credential | None
    injection: str | None
    """The method label, such as `header:authorization`."""
    key: str | None
    key_scope: str | None
    key_retention_s: float | None
    request_fingerprint: str
    effect_digest: str
    mode: ApprovalMode
    meaning: Meaning
    scope: Scope
    deadline_s: float
    recovery_s: float
    attempts_limit: int
    setup_tries: int
    lookup: Mapping[str, Any] | None
    retry_of: InvocationId | None
    notices: tuple[Notice, ...]
    tick: str | None
    """The sentence a person must tick; always a card then, whatever grant or mode would allow."""
    shown: Mapping[str, Any]
    """`evidence.target`."""
    contract: Contract
    """By which the answer is read. Of an errand the default: `contract_id` names the one that sent it."""
    items: tuple[str, ...] | None = None
    """The keys of a batch's items."""
    read_for: str | None = None
    """What the caller says that a read is for."""
    repeats: int = 0
    """How many repeats of exactly this the contract lets the broker make by itself; its card names them."""
    expected: int = 0
    """Bytes that the contract expects of the answer; room for them is counted before dispatch (R43)."""
    fingerprint: str = field(init=False)
    """The dispatch fingerprint: what the card shows and the line recomputes."""

    @property
    def newcomer(self) -> Hop | None:
        """The host whose key must be learnt before a card can be shown; None where every peer is known by itself."""
        return None

    @property
    def credential_id(self) -> str | None:
        return self.credential.credential_id if self.credential else None

    @property
    def credential_version(self) -> int | None:
        return self.credential.version if self.credential else None


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpBound(Bound):
    """An HTTP action as it will go out: ids and key planted, secret not yet injected."""

    method: str
    target: HttpTarget
    headers: Headers
    """The agent's headers and what was planted, names as given."""
    body: bytes = field(repr=False)
    has_body: bool
    allow: AddressCheck
    close_completes: bool = False
    """The contract lets a plain FIN end the answer."""
    proxy: ProxyChoice | None = None
    """By which proxy it goes, as the operator set it when this was bound."""
    reads_body: bool = False
    """Something is read from the answer's body."""
    follow: int = 0
    """How many redirects may be followed from here on."""
    trail: tuple[tuple[str, str], ...] = ()
    """Of a hop: method and URL of each exchange before it, the first one first."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "fingerprint", dispatch_fingerprint(self.approved))

    @property
    def approved(self) -> HttpDispatch:
        """What the fingerprint is of."""
        return self.dispatch(self.method, self.target.url, self.headers, self.body)

    def dispatch(self, method: str, url: str, headers: Headers, body: bytes) -> HttpDispatch:
        """The fingerprint's input with these four parts, the bound rest beside them."""
        return HttpDispatch(
            method=method,
            url=url,
            headers=headers,
            body=body,
            credential_id=self.credential_id,
            credential_version=self.credential_version,
            injection=self.injection,
            contract_id=self.contract_id,
            contract_digest=self.contract_digest,
            idempotency_key=self.key,
            proxy=self.proxy.url if self.proxy is not None else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SshBound(Bound):
    """A command as it will go out: host key pinned, variables planted, secrets not yet lent."""

    host: str
    """The entry's name."""
    hop: SshHopBound
    jumps: tuple[SshHopBound, ...]
    command: str
    stdin: bytes | None = field(repr=False)
    """None for a stream, which cannot be shown."""
    env: Headers
    """Sorted by name."""
    exits: Mapping[int, ExitMeaning]
    marker: str | None
    """The contract's completion marker, its placeholder filled."""
    way: tuple[Hop, ...]
    """The host entries and credentials as they were when this was bound, jump hosts first."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "fingerprint", ssh_dispatch_fingerprint(self.approved))

    @property
    def newcomer(self) -> Hop | None:
        """The first host on the way that has no pinned key and may learn one; None where one behind it may not: then
        the way ends there, whatever is learnt."""
        new = [hop for hop in self.way if not hop.entry.host_keys]
        return new[0] if new and all(hop.entry.policy is HostKeyPolicy.ACCEPT_NEW for hop in new) else None

    def knowing(self, key: HostKey) -> Self:
        """The same command with the newcomer known by this key."""
        place = next(n for n, hop in enumerate(self.way) if hop is self.newcomer)
        met = replace(self.way[place], entry=self.way[place].entry.with_keys(key))
        hops = [*self.jumps, self.hop]
        hops[place] = replace(hops[place], host_key=key.identity)
        way = (*self.way[:place], met, *self.way[place + 1 :])
        return replace(self, way=way, jumps=tuple(hops[:-1]), hop=hops[-1])

    @property
    def approved(self) -> SshDispatch:
        """What the fingerprint is of."""
        return self.dispatch(self.hop, self.jumps, self.command, self.stdin, self.env)

    def dispatch(
        self, hop: SshHopBound, jumps: tuple[SshHopBound, ...], command: str, stdin: bytes | None, env: Headers
    ) -> SshDispatch:
        """The fingerprint's input with these parts, the bound rest beside them."""
        return SshDispatch(
            target=hop,
            jumps=jumps,
            command=command,
            stdin=stdin,
            env=env,
            contract_id=self.contract_id,
            contract_digest=self.contract_digest,
            idempotency_key=self.key,
        )


def validated(bound: Bound, spooled: dict[str, Any] | None = None) -> ev.PreflightValidated:
    """The record of what is bound; `spooled` says where its request is kept."""
    texts = bound.answers
    return ev.PreflightValidated(
        target=bound.shown,
        effect=bound.effect,
        idempotent=bound.idempotent,
        contract_id=bound.contract_id,
        contract_digest=bound.contract_digest,
        effect_digest=bound.effect_digest,
        fingerprint=bound.fingerprint if bound.newcomer is None else None,
        mode=bound.mode,
        attempts_limit=bound.attempts_limit,
        answers={
            "binds_retries": texts.binds_retries.text,
            "lookup": texts.lookup.text,
            "on_connection_death": texts.on_connection_death.text,
        },
        credential_id=bound.credential_id,
        credential_name=bound.credential.name if bound.credential else None,
        credential_version=bound.credential_version,
        injection=bound.injection,
        key=bound.key,
        key_scope=bound.key_scope,
        key_retention_s=bound.key_retention_s,
        lookup=bound.lookup,
        title=bound.title,
        spool=spooled,
        items=bound.items,
    )
