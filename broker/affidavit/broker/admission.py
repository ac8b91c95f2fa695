"""Admission: the checks of a request in their order, and everything that is bound if it passes (R8, R14).

`admit` runs without a pause on the broker's loop, from the look at the operation id to the answer, so two equal calls
cannot both be new. The first check that fails wins and decides the code (interface, Order of checks): shape and form
(done by `request`), operation id, journal and vault, credential, contract and leave, key, effect, limits.

`admit_repeat` binds a further invocation of the same operation: what was planted before goes out again, byte by byte,
and everything else is checked as it is now (R14, R44).
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from affidavit.broker import events as ev
from affidavit.broker.address import Binding, Leave, address_check, check_literal, leave
from affidavit.broker.advice import Operation
from affidavit.broker.approval import Borrowed, mode_of
from affidavit.broker.batch import NoItems, item_keys, reduced
from affidavit.broker.bound import Bound, HttpBound, SshBound, validated
from affidavit.broker.card import SSH, Card, CredentialShown, Notice, NoticeKind
from affidavit.broker.card import Scope as CardScope
from affidavit.broker.contract import (
    Contract,
    HttpMatch,
    answers,
    carries_key,
    check_key,
    make_key,
    plant_ids,
    plant_key,
)
from affidavit.broker.contract.model import CompletionKind
from affidavit.broker.contract.pattern import UrlPattern
from affidavit.broker.egress import speaks_for_itself
from affidavit.broker.fingerprint import Headers, HttpEffect, HttpRequest, effect_digest, request_fingerprint
from affidavit.broker.grants import Grant, Scope
from affidavit.broker.inject import injected_headers, method_label, sent_as
from affidavit.broker.lookup import query
from affidavit.broker.moment import after, new_invocation_id, new_operation_id
from affidavit.broker.oauth2 import is_token_url
from affidavit.broker.outcome import Invocation, Meaning
from affidavit.broker.precedent import firsts, last_url
from affidavit.broker.redirect import NotFollowed, Step
from affidavit.broker.refusal import Refused
from affidavit.broker.request import BodyGiven, Header, HttpAsk, check_headers, check_method
from affidavit.broker.session import Session
from affidavit.broker.signs import reads_body
from affidavit.broker.spool import Spooled
from affidavit.broker.target import HttpTarget, parse_http
from affidavit.broker.terms import ApprovalMode, Code, Effect, InvocationId, Micros, OperationId, Outcome, Retry
from affidavit.broker.vault.credentials import Credential
from affidavit.broker.vault.kinds import SSH_KINDS
from affidavit.broker.vault.proxy import route_for

if TYPE_CHECKING:
    from affidavit.broker.core import Core


class Ask(Protocol):
    """What the checks of any wire's request look at."""

    @property
    def operation_id(self) -> str | None: ...

    @property
    def acknowledge_unresolved(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class Admitted:
    """A new invocation. `asks`: a person must be asked first; else `permit` covers it, or (None) policy does."""

    invocation_id: InvocationId
    at: Micros
    """When it is accepted."""
    bound: Bound
    validated: ev.PreflightValidated
    asks: bool
    permit: Grant | Borrowed | None


@dataclass(frozen=True, slots=True)
class Joined:
    """The operation is at work: this call waits for the same invocation."""

    invocation_id: InvocationId


@dataclass(frozen=True, slots=True)
class Replayed:
    """The operation has a recorded answer, which is given again; nothing is sent."""

    invocation_id: InvocationId


@dataclass(frozen=True, slots=True)
class _Checked:
    """A request that passed the checks up to its effect, with what they found."""

    ask: HttpAsk
    session: Session
    operation_id: OperationId
    before: tuple[Invocation, ...]
    """The operation's earlier invocations, oldest first; of a new request none of them was dispatched."""
    at: Micros
    contract: Contract
    credential: Credential | None
    leave: Leave
    key: str | None
    request_fingerprint: str
    effect_digest: str
    unresolved: Invocation | None
    """A write of the same effect that is unknown, acknowledged by name."""
    repeats: Invocation | None = None
    """The record that this repeats."""
    planted: bool = False
    """Everything is planted already: it goes out as it stands."""


def admit(core: Core, session: Session, ask: HttpAsk) -> Admitted | Joined | Replayed:
    """Check and bind. Raises Refused."""
    request = fingerprint_of(ask)
    before = earlier(core, ask, request)
    if isinstance(before, (Joined, Replayed)):
        return before
    check_state(core)
    credential = _credential(core, ask)
    contract, allowed = _permitted(core, ask, credential)
    key = _key(core, ask, contract, request, before)
    effect = effect_digest(
        HttpEffect(ask.method, ask.target.url, ask.body, credential.credential_id if credential else None)
    )
    checked = _Checked(
        ask=ask,
        session=session,
        operation_id=OperationId(ask.operation_id) if ask.operation_id else new_operation_id(),
        before=before,
        at=core.clock.wall(),
        contract=contract,
        credential=credential,
        leave=allowed,
        key=key,
        request_fingerprint=request,
        effect_digest=effect,
        unresolved=unresolved_write(core, ask, contract, effect),
    )
    return admitted(core, session, checked.at, _bind(core, checked))


def _permitted(
    core: Core, ask: HttpAsk, credential: Credential | None, *, planted: bool = False
) -> tuple[Contract, Leave]:
    """The contract in force, and the leave to go to the target with this credential. `planted`: the key stands in its
    header already. Raises Refused."""
    assert core.contracts is not None
    contract = core.contracts.set.match(ask.method, ask.target, ask.header_pairs, ask.body)
    check_method(ask, contract)
    check_headers(ask, injected_headers(credential) if credential else (), None if planted else contract.key_header)
    _check_no_token_url(core, ask.target)
    allowed = _leave(ask.target, contract, credential)
    check_literal(ask.target, allowed)
    return contract, allowed


def admitted(core: Core, session: Session, at: Micros, bound: Bound, *, may_ask: bool = True) -> Admitted:
    """What is bound, past the limits and with what permits it. Raises Refused."""
    asks = _asks(core, bound)
    if asks and not may_ask:
        raise Refused(Code.APPROVAL_UNAVAILABLE, None, "No decision covers this, and nobody is to be asked.")
    _check_limits(core, session, asks=asks)
    permit: Grant | Borrowed | None = None
    if not asks:
        permit = core.allowances.take(bound)
        if permit is None and bound.mode is ApprovalMode.SESSION:
            permit = core.grants.covering(bound.scope)
    if permit is not None:
        core.last_used = core.clock.boot()
    invocation_id = new_invocation_id(at)
    spooled = core.spool.put(invocation_id, bound) if isinstance(bound, HttpBound | SshBound) else None
    return Admitted(invocation_id, at, bound, validated(bound, spooled), asks, permit)


# -- repeats


def admit_repeat(
    core: Core,
    session: Session,
    record: Invocation,
    operation: Operation,
    request: Spooled,
    *,
    unsafe: bool,
    may_ask: bool = True,
) -> tuple[HttpAsk, Admitted]:
    """Bind one more invocation of `operation`, which repeats `record` with what was planted in `request`.

    The vault is open and a repeat is allowed (`advice.refusal`). `unsafe` always takes a card with a tick. Raises
    Refused; RETRY_REFUSED where a repeat would no longer be bound as the record's was.
    """
    check_state(core)
    ask = _asked_again(core, record, request)
    credential = None
    if record.credential_id is not None or not operation.leads_elsewhere(record):
        credential = _credential_again(core, record, ask)
    contract, allowed = _permitted(core, ask, credential, planted=True)
    key = record.key if record.key is not None and _still_keyed(contract, record.key, ask) else None
    ask = _remaining(contract, record, ask, key)
    assert record.operation_id is not None
    checked = _Checked(
        ask=ask,
        session=session,
        operation_id=record.operation_id,
        before=operation.members,
        at=core.clock.wall(),
        contract=contract,
        credential=credential,
        leave=allowed,
        key=key,
        request_fingerprint=record.request_fingerprint or "",
        effect_digest=record.effect_digest or "",
        unresolved=unresolved_elsewhere(core, record, ask.acknowledge_unresolved),
        repeats=record,
        planted=True,
    )
    bound = as_repeat(_bind(core, checked), record, unsafe=unsafe)
    return ask, admitted(core, session, checked.at, bound, may_ask=may_ask)


AnyBound = TypeVar("AnyBound", HttpBound, SshBound)


def as_repeat(bound: AnyBound, record: Invocation, *, unsafe: bool) -> AnyBound:
    """What is bound, as a repeat of `record`: with a tick where it is unsafe. Refused (RETRY_REFUSED) where nothing
    binds it to what is unknown any more."""
    meaning = bound.meaning
    if not unsafe and record.outcome is Outcome.UNKNOWN and not (meaning.idempotent or meaning.keyed):
        raise Refused(
            Code.RETRY_REFUSED,
            None,
            "The contract in force binds no repeat any more. Look at the target first.",
            refers_to=record.invocation_id,
        )
    if not unsafe:
        return bound
    notice = notice_of(NoticeKind.SAME_EFFECT_UNKNOWN, record)
    return replace(bound, tick=TICK, notices=(notice, *bound.notices), repeats=0)


def planted(core: Core, ask: HttpAsk, record: Invocation, operation: Operation) -> Spooled:
    """A request that was given again, with what its operation had planted in it. Raises Refused."""
    assert core.contracts is not None
    contract = core.contracts.set.match(ask.method, ask.target, ask.header_pairs, ask.body)
    target, headers, body = _plant(
        core,
        ask,
        contract,
        operation_id=record.operation_id or OperationId(""),
        key=record.key,
        first_asked=operation.members[0].accepted_at,
    )
    return Spooled(ask.method, target.url, headers, body)


def _asked_again(core: Core, record: Invocation, request: Spooled) -> HttpAsk:
    """What was asked, from its record and the spooled request."""
    asked = record.asked
    return HttpAsk(
        method=request.method,
        target=parse_http(request.url, core.limits),
        headers=tuple(Header(name.lower(), name, value) for name, value in request.headers),
        body=request.body,
        body_given=BodyGiven.NONE,
        credential=record.credential_name,
        operation_id=record.operation_id,
        correlation_id=record.correlation_id,
        idempotency_key=record.key,
        deadline_s=asked.get("deadline_s"),
        wait_s=core.limits.wait_s,
        reason=record.reason,
        read_for=asked.get("read_for"),
        acknowledge_unresolved=asked.get("acknowledge_unresolved"),
    )


def _credential_again(core: Core, record: Invocation, ask: HttpAsk) -> Credential | None:
    """The record's own credential in its newest version, still bound to the target; none where it had none."""
    if record.credential_id is None:
        return _credential(core, replace(ask, credential=None))
    held = next((c for c in core.vault.credentials.list() if c.credential_id == record.credential_id), None)
    if held is None:
        raise Refused(Code.CREDENTIAL_UNKNOWN, "credential", "The credential that this operation used is gone.")
    if not _covers(held, ask.target):
        raise Refused(Code.CREDENTIAL_OUT_OF_SCOPE, "credential", "The credential is no longer bound to this target.")
    return held


def _still_keyed(contract: Contract, key: str, ask: HttpAsk) -> bool:
    """Whether the contract in force reads the operation's key where it stands in the request."""
    terms = contract.idempotency
    return terms is not None and carries_key(terms, key, headers=ask.header_pairs, target=ask.target, body=ask.body)


def _remaining(contract: Contract, record: Invocation, ask: HttpAsk, key: str | None) -> HttpAsk:
    """The request with those items of a batch alone that may be repeated: the ones that are unknown (R28).

    Under a key, and where the target takes all or nothing, the whole goes out again.
    """
    batch, keys = contract.batch, _items(contract, ask.body)
    if batch is None or keys is None or record.items is None or key is not None or batch.atomic:
        return ask
    open_keys = {item.key for item in record.items if item.outcome is Outcome.UNKNOWN}
    if not open_keys or open_keys.issuperset(keys):
        return ask
    return replace(ask, body=reduced(batch, ask.body, keys, open_keys))


def unresolved_elsewhere(core: Core, record: Invocation, acknowledged: str | None) -> Invocation | None:
    """A write of the same effect under another operation, acknowledged when this one was asked; else Refused."""
    if record.effect is not Effect.WRITE or record.effect_digest is None:
        return None
    found = core.projection.unresolved_by_effect(record.effect_digest, besides=record.operation_id)
    if found is not None and found.invocation_id != acknowledged:
        raise _duplicate(found)
    return found


# -- redirects


def admit_hop(
    core: Core, followed: HttpBound, record: Invocation, step: Step, *, deadline_s: float
) -> tuple[HttpAsk, Admitted]:
    """Bind what the redirect of `record` asks for, decided anew as if it were asked for now (R20).

    The credential of `followed` goes along where it is bound to the new place; no other does. A write goes only where
    the contract that was approved speaks for it. `deadline_s` is what is left of the one deadline over all. Raises
    NotFollowed or Refused.
    """
    check_state(core)
    assert followed.session is not None
    assert record.operation_id is not None
    credential = _carried(core, followed.credential, step.target)
    ask = _asked_elsewhere(followed, record, step)
    contract, allowed = _permitted(core, ask, credential, planted=step.carried)
    if step.carried:
        _check_carried(followed, contract, credential, ask, crosses=step.crosses)
    elif contract.effect is Effect.WRITE:
        raise NotFollowed(f"By {contract.id} a {ask.method} there is a write, and the redirect asks for a read.")
    effect = effect_digest(
        HttpEffect(ask.method, ask.target.url, ask.body, credential.credential_id if credential else None)
    )
    found = core.projection.unresolved_by_effect(effect, besides=record.operation_id)
    if contract.effect is Effect.WRITE and found is not None:
        raise _duplicate(found)
    checked = _Checked(
        ask=ask,
        session=followed.session,
        operation_id=record.operation_id,
        before=core.projection.operation_of(record).members,
        at=core.clock.wall(),
        contract=contract,
        credential=credential,
        leave=allowed,
        key=followed.key if step.carried else None,
        request_fingerprint=record.request_fingerprint or "",
        effect_digest=effect,
        unresolved=None,
        planted=step.carried,
    )
    left = followed.follow - 1
    same = (contract.id, contract.digest) == (followed.contract_id, followed.contract_digest)
    bound = _bind(core, checked)
    bound = replace(
        bound,
        retry_of=None,
        deadline_s=deadline_s,
        notices=(notice_of(NoticeKind.REDIRECTED, record), *bound.notices),
        follow=left if same or contract.is_default else min(left, contract.redirects),
        trail=(*followed.trail, (followed.method, followed.target.url)),
    )
    return ask, admitted(core, followed.session, checked.at, bound)


def _asked_elsewhere(followed: HttpBound, record: Invocation, step: Step) -> HttpAsk:
    """What the redirect asks for, in the shape of an agent's request."""
    kept = step.carried and followed.has_body
    return HttpAsk(
        method=step.method,
        target=step.target,
        headers=tuple(Header(name.lower(), name, value) for name, value in step.headers),
        body=followed.body if kept else b"",
        body_given=BodyGiven.TEXT if kept else BodyGiven.NONE,
        credential=None,
        operation_id=record.operation_id,
        correlation_id=record.correlation_id,
        idempotency_key=followed.key if step.carried else None,
        deadline_s=record.asked.get("deadline_s"),
        wait_s=0,
        reason=followed.reason,
        read_for=record.asked.get("read_for"),
        acknowledge_unresolved=None,
    )


def _carried(core: Core, credential: Credential | None, target: HttpTarget) -> Credential | None:
    """The credential in its newest version, if it is bound to this target too; it never goes anywhere else."""
    if credential is None:
        return None
    held = next((c for c in core.vault.credentials.list() if c.credential_id == credential.credential_id), None)
    return held if held is not None and _covers(held, target) else None


def _check_carried(
    followed: HttpBound, contract: Contract, credential: Credential | None, ask: HttpAsk, *, crosses: bool
) -> None:
    """What is sent once more stands under the same contract, credential and key, or is another request."""
    if (contract.id, contract.digest) != (followed.contract_id, followed.contract_digest):
        raise NotFollowed(f"{followed.contract_id} does not speak for {ask.method} where the redirect leads.")
    if followed.credential is not None and credential is None:
        raise Refused(Code.CREDENTIAL_OUT_OF_SCOPE, "credential", "The credential is not bound to where it leads.")
    if followed.key is None:
        return
    if not _still_keyed(contract, followed.key, ask):
        raise NotFollowed("The idempotency key does not stand in the request where the redirect leads.")
    if crosses and followed.key_scope == "host":
        raise Refused(
            Code.IDEMPOTENCY_MISMATCH, "idempotency_key", "The key holds for one host, and the redirect leaves it."
        )


# -- operation id


def fingerprint_of(ask: HttpAsk) -> str:
    """The request fingerprint: what the caller asked."""
    return request_fingerprint(
        HttpRequest(ask.method, ask.target.url, ask.header_pairs, ask.body, ask.credential, ask.idempotency_key)
    )


def earlier(core: Core, ask: Ask, request: str) -> Joined | Replayed | tuple[Invocation, ...]:
    """What a known operation id answers, also while locked; else the invocations that a new one follows."""
    if ask.operation_id is None:
        return ()
    members = core.projection.operation(OperationId(ask.operation_id)).members
    if not members:
        return ()
    if not core.projection.same_request(members[-1], request):
        raise Refused(
            Code.IDEMPOTENCY_MISMATCH,
            "operation_id",
            "This operation is known with another content. Use a new operation_id for another operation.",
            refers_to=members[-1].invocation_id,
        )
    pending = next((m for m in reversed(members) if not m.finished), None)
    if pending is not None and pending.invocation_id in core.lives:
        return Joined(pending.invocation_id)
    dispatched = next((m for m in reversed(members) if m.dispatched), None)
    if dispatched is not None:
        return Replayed(dispatched.invocation_id)
    return Replayed(members[-1].invocation_id) if members[-1].retry is Retry.NEVER else members


# -- state, credential, contract


def check_state(core: Core) -> None:
    if core.stopping:
        raise Refused(Code.BROKER_RESTARTED, None, "Affidavit is stopping; ask again when it runs.")
    if core.journal.poisoned is not None:
        raise Refused(
            Code.JOURNAL_UNAVAILABLE, None, "The journal cannot be written; nothing is sent until that is mended."
        )
    if core.locked:
        core.want_unlock()
        raise Refused(
            Code.VAULT_LOCKED, None, "The vault is locked; the operator must unlock it.", needs="operator_unlock"
        )


def _credential(core: Core, ask: HttpAsk) -> Credential | None:
    """The credential as named, or the one bound to the target; none: the call is made without."""
    known = core.vault.credentials.list()
    if ask.credential is not None:
        named = next((c for c in known if c.name == ask.credential), None)
        if named is None:
            raise Refused(
                Code.CREDENTIAL_UNKNOWN, "credential", "No credential of that name; credential.list has them all."
            )
        if not _covers(named, ask.target):
            raise Refused(
                Code.CREDENTIAL_OUT_OF_SCOPE, "credential", "The named credential is not bound to this target."
            )
        return named
    fitting = [c for c in known if _covers(c, ask.target)]
    if len(fitting) > 1:
        raise Refused(
            Code.INVALID_REQUEST,
            "credential",
            "Several credentials are bound to this target; name one of: " + ", ".join(c.name for c in fitting) + ".",
        )
    return fitting[0] if fitting else None


_pattern = lru_cache(maxsize=4096)(UrlPattern.parse)
"""Of a credential's target, which is looked at with every request and changes hardly ever."""


def _covers(credential: Credential, target: HttpTarget) -> bool:
    return credential.kind not in SSH_KINDS and any(_pattern(text).matches(target) for text in credential.targets)


def _leave(target: HttpTarget, contract: Contract, credential: Credential | None) -> Leave:
    bindings = []
    if credential is not None:
        bindings += [Binding(_pattern(text), credential.private) for text in credential.targets]
    if isinstance(contract.match, HttpMatch):
        bindings.append(Binding(contract.match.url, contract.match.private))
    return leave(target, bindings)


def _check_no_token_url(core: Core, target: HttpTarget) -> None:
    if is_token_url(core.vault.credentials.list(), target):
        raise Refused(Code.TARGET_BLOCKED, "url", "This is a token service of a credential; no agent can call it.")


# -- key and effect


def _key(core: Core, ask: HttpAsk, contract: Contract, request: str, before: tuple[Invocation, ...]) -> str | None:
    """The idempotency key that goes out: the caller's, the operation's own, or a new one (R44, R45)."""
    check_key(ask.idempotency_key, contract)
    terms = contract.idempotency
    if terms is None:
        return None
    if ask.idempotency_key is None:
        held = next((m.key for m in before if m.key is not None), None)
        return held or make_key(terms, secrets.token_bytes)
    known = core.projection.by_key(ask.idempotency_key)
    if known is not None and not core.projection.same_request(known, request):
        raise Refused(
            Code.IDEMPOTENCY_MISMATCH,
            "idempotency_key",
            "This key is known with another content. Use a new key for another operation.",
            refers_to=known.invocation_id,
        )
    return ask.idempotency_key


def unresolved_write(core: Core, ask: Ask, contract: Contract, effect: str) -> Invocation | None:
    """A write of the same effect that is open or unknown, if it was acknowledged by name; else Refused."""
    acknowledged = ask.acknowledge_unresolved
    found = core.projection.unresolved_by_effect(effect) if contract.effect is Effect.WRITE else None
    if found is None:
        if acknowledged is not None:
            raise Refused(
                Code.INVALID_REQUEST,
                "acknowledge_unresolved",
                "No unresolved write of the same effect has this id. Leave the field out.",
            )
        return None
    if acknowledged == found.invocation_id and found.finished:
        return found
    raise _duplicate(found)


def _duplicate(found: Invocation) -> Refused:
    record = found.dispatch_record or found.accepted_record
    state = "unknown" if found.finished else "running"
    return Refused(
        Code.UNRESOLVED_DUPLICATE,
        None,
        f"The same write is still {state} (record {record}). Look at it first; if it must be sent all the same, name "
        "it in acknowledge_unresolved, and a person is asked.",
        refers_to=found.invocation_id,
    )


# -- binding


def _bind(core: Core, checked: _Checked) -> HttpBound:
    """Everything that the invocation is bound to, ids and key planted."""
    ask, contract, credential = checked.ask, checked.contract, checked.credential
    limits = core.limits
    target, headers, body = _planted(core, checked)
    proxy = route_for(core.vault.proxy.get(), target)
    idempotent = contract.idempotent([h.name for h in ask.headers])
    completion = contract.effect_terms.completion
    receipt = completion.header.lower() if completion.header is not None else None
    attempts = attempts_of(core, checked.before, contract)
    terms = contract.idempotency if checked.key is not None else None
    retention = None
    if terms is not None:
        retention = terms.retention_s if terms.retention_s is not None else limits.key_window_s
    return HttpBound(
        operation_id=checked.operation_id,
        correlation_id=ask.correlation_id,
        session=checked.session,
        reason=ask.reason,
        method=ask.method,
        target=target,
        headers=headers,
        body=body,
        has_body=bool(body) or ask.body_given is not BodyGiven.NONE,
        contract_id=contract.id,
        contract_digest=contract.digest,
        contract_checked=contract.checked.isoformat() if contract.checked else None,
        title=contract.title or f"{ask.method} {target.host_shown}{target.path}",
        effect=contract.effect,
        idempotent=idempotent_word(idempotent, contract),
        answers=answers(contract),
        credential=credential,
        injection=method_label(credential) if credential else None,
        key=checked.key,
        key_scope=terms.scope if terms is not None else None,
        key_retention_s=retention,
        request_fingerprint=checked.request_fingerprint,
        effect_digest=checked.effect_digest,
        mode=mode_of(
            contract.effect, contract=contract.approval, credential=credential.approval if credential else None
        ),
        meaning=Meaning(
            idempotent=bool(idempotent),
            keyed=checked.key is not None,
            refused=frozenset(contract.verdict.refused),
            trusted_gateway=contract.verdict.proxy_status == "trusted"
            or speaks_for_itself(proxy, core.vault.trust.list(), target),
            receipt=receipt,
        ),
        scope=Scope(
            session_id=checked.session.session_id,
            method=ask.method,
            origin=target.origin,
            route=_route(contract, target),
            credential_id=credential.credential_id if credential else None,
        ),
        allow=address_check(target, checked.leave),
        deadline_s=ask.deadline_s or contract.deadlines.request_s or limits.deadline_http_s,
        recovery_s=contract.deadlines.recovery_s or limits.recovery_s,
        attempts_limit=attempts,
        setup_tries=contract.retry.setup or limits.setup_tries,
        close_completes=completion.kind is CompletionKind.CLOSE,
        proxy=proxy,
        lookup=_lookup(checked),
        retry_of=_before(checked),
        notices=_notices(core, checked),
        tick=TICK if checked.unresolved is not None else None,
        shown={"kind": "http", "method": ask.method, "url": target.url},
        expected=contract.expected_result or 0,
        contract=contract,
        items=_items(contract, body),
        read_for=ask.read_for,
        repeats=repeats_of(checked.before, contract, attempts, safe=idempotent is True or checked.key is not None),
        reads_body=reads_body(contract),
        follow=contract.redirects,
    )


TICK = "I accept that it may happen twice"


def _before(checked: _Checked) -> InvocationId | None:
    if checked.repeats is not None:
        return checked.repeats.invocation_id
    return checked.before[-1].invocation_id if checked.before else None


def attempts_of(core: Core, before: Sequence[Invocation], contract: Contract) -> int:
    """Dispatches of the operation at most: what its first invocation was bound to, whatever the contract says now."""
    first = next((m.attempts_limit for m in before if m.attempts_limit is not None), None)
    return first or contract.retry.attempts or core.limits.attempts


def repeats_of(before: tuple[Invocation, ...], contract: Contract, attempts: int, *, safe: bool) -> int:
    """Repeats that the broker may make by itself: only on a contract's word, and only of what a repeat is safe for."""
    if not contract.retry.automatic or not safe:
        return 0
    return max(0, attempts - 1 - Operation(before).dispatches)


def _items(contract: Contract, body: bytes) -> tuple[str, ...] | None:
    if contract.batch is None:
        return None
    try:
        return item_keys(contract.batch, body)
    except NoItems as bad:
        raise Refused(Code.INVALID_REQUEST, "body", f"{bad}") from None


def _planted(core: Core, checked: _Checked) -> tuple[HttpTarget, Headers, bytes]:
    """The request as it will go out, less the secret."""
    ask = checked.ask
    if checked.planted:
        return ask.target, tuple((h.shown, h.value) for h in ask.headers), ask.body
    return _plant(
        core,
        ask,
        checked.contract,
        operation_id=checked.operation_id,
        key=checked.key,
        first_asked=checked.before[0].accepted_at if checked.before else checked.at,
    )


def _plant(
    core: Core, ask: HttpAsk, contract: Contract, *, operation_id: OperationId, key: str | None, first_asked: Micros
) -> tuple[HttpTarget, Headers, bytes]:
    """Both ids and the key, where the contract names a place (R63)."""
    target, body = ask.target, ask.body
    headers: Headers = tuple((h.shown, h.value) for h in ask.headers)
    if contract.correlation is not None:
        headers, body = plant_ids(
            contract.correlation,
            operation_id,
            ask.correlation_id,
            headers=headers,
            body=body,
            limits=core.limits,
        )
    if key is not None and contract.idempotency is not None:
        made = plant_key(
            contract.idempotency,
            key,
            headers=headers,
            target=target,
            body=body,
            first_asked=first_asked,
            limits=core.limits,
        )
        target, headers, body = made.target, made.headers, made.body
    return target, headers, body


def idempotent_word(idempotent: bool | str, contract: Contract) -> str:
    if isinstance(idempotent, str):
        return idempotent
    named = contract.effect_terms.idempotent.value
    if idempotent:
        return named if named in ("name", "if-match", "if-none-match") else "true"
    return "false"


def _route(contract: Contract, target: HttpTarget) -> str:
    return contract.match.url.text if isinstance(contract.match, HttpMatch) else target.path


def _lookup(checked: _Checked) -> dict[str, Any] | None:
    """The exact status query that would settle an unknown outcome, for a person or an agent to read (R64)."""
    look = checked.contract.reconcile
    if look is None:
        return None
    values = {
        "operation_id": checked.operation_id,
        "idempotency_key": checked.key,
        "correlation_id": checked.ask.correlation_id,
    }
    asked = query(look, {name: value for name, value in values.items() if value is not None}, checked.ask.target)
    return asked.told() if asked is not None else None


def _notices(core: Core, checked: _Checked) -> tuple[Notice, ...]:
    contract = checked.contract
    if contract.effect is not Effect.WRITE:
        return ()
    notices = []
    if checked.unresolved is not None:
        notices.append(notice_of(NoticeKind.SAME_EFFECT_UNKNOWN, checked.unresolved))
    for inv in core.unknown_operations():
        if inv.effect is Effect.WRITE and inv.effect_digest != checked.effect_digest and _same_route(inv, checked):
            notices.append(notice_of(NoticeKind.SAME_ROUTE_UNKNOWN, inv))
            break
    return tuple(notices)


def _same_route(inv: Invocation, checked: _Checked) -> bool:
    """Whether an unknown write went to the same method and route: the contract's pattern, else the exact path."""
    target = checked.ask.target
    if inv.target is None or inv.contract_id != checked.contract.id or inv.target.get("method") != checked.ask.method:
        return False
    return not checked.contract.is_default or str(inv.target["url"]).partition("?")[0] == target.origin + target.path


def notice_of(kind: NoticeKind, inv: Invocation) -> Notice:
    return Notice(kind, inv.invocation_id, inv.dispatch_record, inv.dispatched_at)


# -- limits


def _asks(core: Core, bound: Bound) -> bool:
    """Whether a person must be asked; APPROVAL_UNAVAILABLE where one must and none is attached."""
    if bound.tick is None and bound.newcomer is None:
        if bound.mode is ApprovalMode.NEVER or core.allowances.covers(bound):
            return False
        if bound.mode is ApprovalMode.SESSION and core.grants.covers(bound.scope):
            return False
    if not core.settings.approvals:
        raise Refused(
            Code.APPROVAL_UNAVAILABLE, None, "No one could be asked: approvals are off. The operator can turn them on."
        )
    return True


def _check_limits(core: Core, session: Session, *, asks: bool) -> None:
    open_now = [live for live in core.lives.values() if not live.finished.is_set()]
    mine = sum(session.session_id in live.sessions for live in open_now)
    if len(open_now) >= core.limits.open_actions or mine >= core.limits.open_actions_session:
        raise Refused(Code.BUSY, None, f"{len(open_now)} actions are open; this one may come back later.")
    cards = core.desk.count(session.session_id)
    if asks and cards >= core.limits.cards_session:
        wait = "1 card of this agent is waiting" if cards == 1 else f"{cards} cards of this agent are waiting"
        raise Refused(Code.BUSY, None, f"{wait}; this one may come back later.")
    if not core.rate.take(session.session_id):
        raise Refused(Code.BUSY, None, "Too many new actions at once; this one may come back later.")


# -- what is recorded and shown


def card_of(core: Core, invocation_id: InvocationId, bound: Bound) -> Card:
    """What the operator is shown of an action that needs a decision."""
    assert bound.session is not None, "an errand asks nobody"
    session_scope = bound.mode is ApprovalMode.SESSION and bound.tick is None
    now = core.clock.wall()
    shown = _shown(bound)
    return Card(
        invocation_id=invocation_id,
        operation_id=bound.operation_id,
        session=bound.session,
        reason=bound.reason,
        effect=bound.effect,
        title=bound.title,
        method=shown.method,
        url=shown.url,
        headers=shown.headers,
        body=shown.body,
        body_type=shown.body_type,
        credential=CredentialShown(bound.credential.name, bound.credential.version, sent_as(bound.credential))
        if bound.credential
        else None,
        contract_id=bound.contract_id,
        contract_checked=bound.contract_checked,
        answers=bound.answers,
        fingerprint=bound.fingerprint,
        mode=bound.mode,
        scopes=(CardScope.ONCE, CardScope.SESSION) if session_scope else (CardScope.ONCE,),
        preselected=CardScope.SESSION if session_scope and bound.effect is Effect.READ else CardScope.ONCE,
        notices=(*bound.notices, *firsts(core.projection, bound)),
        tick=bound.tick,
        asked_at=now,
        shown_s=core.limits.card_shown_s,
        last_url=last_url(core.projection, bound),
        grant_until=after(now, core.limits.grant_s) if session_scope else None,
        repeats=bound.repeats,
        streamed=isinstance(bound, SshBound) and bound.stdin is None,
    )


@dataclass(frozen=True, slots=True)
class _Shown:
    """The part of a card that each wire fills in its own way."""

    method: str
    url: str
    headers: Headers
    body: bytes = field(repr=False)
    body_type: str | None


def _shown(bound: Bound) -> _Shown:
    match bound:
        case HttpBound():
            body_type = next((v for n, v in bound.headers if n.lower() == "content-type"), None)
            return _Shown(bound.method, bound.target.url, bound.headers, bound.body, body_type)
        case SshBound():
            way = "".join(f" via {jump.user}@{jump.address}:{jump.port}" for jump in bound.jumps)
            hop = bound.hop
            place = f"ssh://{hop.user}@{hop.address}:{hop.port}{way}"
            return _Shown(SSH, place, bound.env, _text_of(bound), "a command and its input")
        case _:
            raise TypeError("no wire carries this")


STREAMED = "Input is streamed and cannot be shown"
"""Stands on a card where the input would (interface, Streams)."""


def _text_of(bound: SshBound) -> bytes:
    """The command, and what its standard input is given. Each line has its mark before it, so that no command can look
    as if its end were its input: `$` where the command begins, `>` where it goes on, `<` for input."""
    lines = _marked(b"> ", bound.command.encode())
    shown = [b"$ " + lines[0][2:], *lines[1:]]
    if bound.stdin is None:
        shown.append(b"< " + STREAMED.encode())
    elif bound.stdin:
        shown += _marked(b"< ", bound.stdin) if _is_text(bound.stdin) else [_unreadable(bound.stdin)]
    return b"\n".join(shown)


def _marked(mark: bytes, text: bytes) -> list[bytes]:
    return [mark + line for line in text.split(b"\n")]


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return b"\0" not in data


def _unreadable(data: bytes) -> bytes:
    return f"< {len(data):,} bytes that are no text, SHA-256 {hashlib.sha256(data).hexdigest()}".encode()
