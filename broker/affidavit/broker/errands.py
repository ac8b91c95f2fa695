"""Errands: exchanges that an action needs beside its own - its look-up, the poll of its job, a token call.

An errand is an invocation like any other, accepted, bound, authorised, dispatched and recorded by the same engine. It
has an operation of the broker's own, stands under the decision that approved its cause, refers to it, and never counts
among its cause's attempts (interface, Operations). Nobody waits for it but the broker, and nothing repeats it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from affidavit.broker import events as ev
from affidavit.broker.address import Binding, Leave, address_check, check_form, check_literal, leave
from affidavit.broker.approval import Borrowed
from affidavit.broker.bound import Bound, HttpBound, SshBound, validated
from affidavit.broker.contract import DEFAULT_READ, answers
from affidavit.broker.contract.pattern import UrlPattern
from affidavit.broker.fingerprint import (
    Headers,
    HttpEffect,
    HttpRequest,
    SshEffect,
    SshRequest,
    effect_digest,
    request_fingerprint,
    ssh_effect_digest,
    ssh_request_fingerprint,
)
from affidavit.broker.grants import Scope
from affidavit.broker.inject import method_label
from affidavit.broker.live import Live
from affidavit.broker.moment import new_invocation_id, new_operation_id
from affidavit.broker.outcome import Invocation, Meaning
from affidavit.broker.prepare import Secrets
from affidavit.broker.signs import Answer
from affidavit.broker.ssh_admission import hop_bound
from affidavit.broker.target import HttpTarget, parse_http
from affidavit.broker.terms import ApprovalMode, Effect, InvocationId, SessionId
from affidavit.broker.vault.credentials import Credential
from affidavit.broker.vault.host_entry import Hop
from affidavit.broker.vault.proxy import route_for

if TYPE_CHECKING:
    from affidavit.broker.core import Core
    from affidavit.broker.http_work import HttpWork
    from affidavit.broker.ssh_work import SshWork

ERRAND_S = 10.0
"""How long an errand may take from its authorisation on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    """What is to be asked. `cause` is the action; `contract_id` and `contract_digest` are of the contract that asks.

    `secrets` are asked for what the credential adds, where that is not what the vault injects. With `stored` false the
    answer's body is held in memory alone: it may hold new secrets.
    """

    cause: Invocation
    refers_to: InvocationId | None = None
    """The invocation that it serves; None: the cause itself."""
    title: str
    target: HttpTarget
    leave: Leave
    contract_id: str
    contract_digest: str
    method: str = "GET"
    headers: Headers = ()
    body: bytes = field(default=b"", repr=False)
    effect: Effect = Effect.READ
    credential: Credential | None = None
    injection: str | None = None
    """The method label; None: the credential's own."""
    secrets: Secrets | None = None
    stored: bool = True
    deadline_s: float = ERRAND_S


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandErrand:
    """A command that is to be run on the cause's host, for its look-up (R50). `way` leads there, jump hosts first."""

    cause: Invocation
    title: str
    command: str
    way: tuple[Hop, ...]
    contract_id: str
    contract_digest: str
    refers_to: InvocationId | None = None
    stdin: bytes = b""
    deadline_s: float = ERRAND_S


@dataclass(frozen=True, slots=True)
class Ran:
    """An errand that has ended: its record, and its answer if a complete one came."""

    invocation: Invocation
    answer: Answer | None = field(repr=False)


class Errands:
    """Runs errands on the engine. Owned by the broker's loop."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def run(self, errand: Errand | CommandErrand) -> Ran | None:
        """Send it, and wait for its verdict; None where the broker is stopping and begins nothing any more.

        The vault is open; a lock before the line ends it VAULT_LOCKED.
        """
        core, cause = self._core, errand.cause
        if core.stopping:
            return None
        at = core.clock.wall()
        invocation_id = new_invocation_id(at)
        bound = _bound(core, errand) if isinstance(errand, Errand) else _bound_command(core, errand)
        accepted = ev.ActionAccepted(
            session=cause.session_id,
            program=cause.program or "",
            agent=cause.agent or "",
            operation_id=bound.operation_id,
            correlation_id=bound.correlation_id,
            request_fingerprint=bound.request_fingerprint,
            asked=_asked(bound),
            refers_to=errand.refers_to or cause.invocation_id,
        )
        _, receipt = core.projection.record(invocation_id, accepted, validated(bound), at=at)
        work: HttpWork | SshWork
        if isinstance(errand, Errand):
            assert isinstance(bound, HttpBound)
            work = core.http_work(invocation_id, bound, secrets=errand.secrets, stored=errand.stored)
        else:
            assert isinstance(bound, SshBound)
            work = core.ssh_work(invocation_id, bound)
        live = Live(invocation_id, work, receipt, set())
        core.lives[invocation_id] = live
        core.spawn(core.engine.run(live, _permit(cause)))
        try:
            await live.finished.wait()
        finally:
            core.lives.pop(invocation_id, None)
        inv = core.projection.get(invocation_id)
        assert inv is not None
        return Ran(inv, work.answer)

    def cause_of(self, bound: Bound) -> Invocation | None:
        """The invocation that is at work for what is bound."""
        live = next((live for live in self._core.lives.values() if live.bound is bound), None)
        return self._core.projection.get(live.invocation_id) if live is not None else None


def reach(core: Core, cause: Invocation, url: str, *, private: bool) -> tuple[HttpTarget, Credential | None, Leave]:
    """Where an errand of `cause` goes and what goes with it. Raises Refused.

    The cause's credential goes along only within its own targets. `url` is a contract's or was found to lie within the
    action's reach: it names its host itself, so it gives the leave that a contract's match gives.
    """
    target = parse_http(url, core.limits)
    check_form(target)
    credential = next(
        (
            c
            for c in core.vault.credentials.list()
            if c.credential_id == cause.credential_id and any(UrlPattern.parse(t).matches(target) for t in c.targets)
        ),
        None,
    )
    bindings = [Binding(UrlPattern.parse(f"{target.origin}/**"), private)]
    if credential is not None:
        bindings += [Binding(UrlPattern.parse(text), credential.private) for text in credential.targets]
    allowed = leave(target, bindings)
    check_literal(target, allowed)
    return target, credential, allowed


def _permit(cause: Invocation) -> Borrowed:
    """The decision on the cause covers its errands."""
    approval = cause.approval
    return Borrowed(approval.means, approval.by, approval.grant) if approval is not None else Borrowed(None, None)


def _bound(core: Core, errand: Errand) -> HttpBound:
    credential, target, limits = errand.credential, errand.target, core.limits
    label = errand.injection or (method_label(credential) if credential is not None else None)
    credential_id = credential.credential_id if credential is not None else None
    return HttpBound(
        operation_id=new_operation_id(),
        correlation_id=errand.cause.correlation_id,
        session=None,
        reason=None,
        method=errand.method,
        target=target,
        headers=errand.headers,
        body=errand.body,
        has_body=bool(errand.body),
        contract_id=errand.contract_id,
        contract_digest=errand.contract_digest,
        contract_checked=None,
        title=errand.title,
        effect=errand.effect,
        idempotent="true" if errand.effect is Effect.READ else "false",
        answers=answers(DEFAULT_READ),
        credential=credential,
        injection=label,
        key=None,
        key_scope=None,
        key_retention_s=None,
        request_fingerprint=request_fingerprint(
            HttpRequest(errand.method, target.url, errand.headers, errand.body, None, None)
        ),
        effect_digest=effect_digest(HttpEffect(errand.method, target.url, errand.body, credential_id)),
        mode=errand.cause.mode or ApprovalMode.ALWAYS,
        meaning=Meaning(idempotent=errand.effect is Effect.READ, keyed=False),
        scope=Scope(SessionId(errand.cause.session_id), errand.method, target.origin, target.path, credential_id),
        allow=address_check(target, errand.leave),
        deadline_s=errand.deadline_s,
        recovery_s=0.0,
        attempts_limit=1,
        setup_tries=limits.setup_tries,
        close_completes=False,
        proxy=route_for(core.vault.proxy.get(), target),
        lookup=None,
        retry_of=None,
        notices=(),
        tick=None,
        shown={"kind": "http", "method": errand.method, "url": target.url},
        contract=DEFAULT_READ,
        reads_body=True,
    )


def _bound_command(core: Core, errand: CommandErrand) -> SshBound:
    *jumps, target = map(hop_bound, errand.way)
    credential, cause = errand.way[-1].credential, errand.cause
    return SshBound(
        operation_id=new_operation_id(),
        correlation_id=cause.correlation_id,
        session=None,
        reason=None,
        contract_id=errand.contract_id,
        contract_digest=errand.contract_digest,
        contract_checked=None,
        title=errand.title,
        effect=Effect.READ,
        idempotent="true",
        answers=answers(DEFAULT_READ),
        credential=credential,
        injection=method_label(credential),
        key=None,
        key_scope=None,
        key_retention_s=None,
        request_fingerprint=ssh_request_fingerprint(
            SshRequest(target.entry, errand.command, errand.stdin, (), None, None)
        ),
        effect_digest=ssh_effect_digest(SshEffect(target.entry, errand.command, errand.stdin, ())),
        mode=cause.mode or ApprovalMode.ALWAYS,
        meaning=Meaning(idempotent=True, keyed=False),
        scope=Scope(SessionId(cause.session_id), "SSH", target.entry, errand.command, credential.credential_id),
        deadline_s=errand.deadline_s,
        recovery_s=0.0,
        attempts_limit=1,
        setup_tries=core.limits.setup_tries,
        lookup=None,
        retry_of=None,
        notices=(),
        tick=None,
        shown={"kind": "ssh", "host": target.entry, "command": errand.command},
        contract=DEFAULT_READ,
        host=target.entry,
        hop=target,
        jumps=tuple(jumps),
        command=errand.command,
        stdin=errand.stdin,
        env=(),
        exits={},
        marker=None,
        way=errand.way,
    )


def _asked(bound: HttpBound | SshBound) -> dict[str, Any]:
    """As `launch.asked`."""
    if isinstance(bound, SshBound):
        return {"host": bound.host, "command": bound.command, "env": [], "stdin_bytes": len(bound.stdin or b"")}
    return {
        "method": bound.method,
        "url": bound.target.url,
        "headers": [name for name, _ in bound.headers],
        "body_bytes": len(bound.body),
    }
