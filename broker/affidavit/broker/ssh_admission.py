"""Admission of commands: the checks of `ssh.exec` in their order, and everything that is bound if it passes (R8, R14).

The order is that of `admission`: operation id, state, host entry with its credential, contract, key, effect, limits.
`admit_ssh_repeat` binds a further invocation of the same operation, with what was planted before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from affidavit.broker.admission import (
    TICK,
    Admitted,
    Joined,
    Replayed,
    admitted,
    as_repeat,
    attempts_of,
    check_state,
    earlier,
    idempotent_word,
    notice_of,
    repeats_of,
    unresolved_elsewhere,
    unresolved_write,
)
from affidavit.broker.advice import Operation
from affidavit.broker.approval import mode_of
from affidavit.broker.bound import SshBound
from affidavit.broker.card import SSH, Notice, NoticeKind
from affidavit.broker.contract import Contract, Standing, answers
from affidavit.broker.contract.argument import with_argument
from affidavit.broker.contract.model import PlaceKind
from affidavit.broker.fingerprint import (
    Headers,
    SshEffect,
    SshHopBound,
    SshRequest,
    ssh_effect_digest,
    ssh_request_fingerprint,
)
from affidavit.broker.grants import Scope
from affidavit.broker.inject import method_label
from affidavit.broker.lookup import command
from affidavit.broker.moment import new_operation_id
from affidavit.broker.outcome import ExitMeaning, Invocation, Meaning
from affidavit.broker.push import refs_command
from affidavit.broker.refusal import Refused
from affidavit.broker.session import Session
from affidavit.broker.spool import SpooledCommand
from affidavit.broker.ssh_request import SshAsk
from affidavit.broker.terms import ApprovalMode, Code, Effect, InvocationId, Micros, OperationId
from affidavit.broker.vault.credentials import Credential
from affidavit.broker.vault.errors import Invalid, NotKnown
from affidavit.broker.vault.host_entry import Hop, find, hops_of

if TYPE_CHECKING:
    from affidavit.broker.core import Core


@dataclass(frozen=True, slots=True)
class _Checked:
    """A command that passed the checks up to its effect."""

    ask: SshAsk
    session: Session
    operation_id: OperationId
    before: tuple[Invocation, ...]
    at: Micros
    hops: tuple[Hop, ...]
    contract: Contract
    request_fingerprint: str
    effect_digest: str
    unresolved: Invocation | None
    repeats: Invocation | None = None
    """The record that this repeats."""
    planted: SpooledCommand | None = None
    """Of a repeat: the command as it went out before, the operation id planted."""


def admit_ssh(core: Core, session: Session, ask: SshAsk) -> Admitted | Joined | Replayed:
    """Check and bind. Raises Refused."""
    request = ssh_fingerprint_of(ask)
    before = earlier(core, ask, request)
    if isinstance(before, Joined) and ask.stream:
        return Replayed(before.invocation_id)  # its input is another's: it is told of, and never joined
    if isinstance(before, (Joined, Replayed)):
        return before
    check_state(core)
    assert core.contracts is not None
    hops = _hops(core, ask)
    contract = core.contracts.set.match_command(hops[-1].entry.name, ask.command)
    if ask.idempotency_key is not None:
        raise Refused(
            Code.NO_IDEMPOTENCY_CONTRACT, "idempotency_key", "No contract gives a command a key. Leave it out."
        )
    effect = ssh_effect_digest(SshEffect(hops[-1].entry.name, ask.command, _stdin(ask), ask.env))
    checked = _Checked(
        ask=ask,
        session=session,
        operation_id=OperationId(ask.operation_id) if ask.operation_id else new_operation_id(),
        before=before,
        at=core.clock.wall(),
        hops=hops,
        contract=contract,
        request_fingerprint=request,
        effect_digest=effect,
        unresolved=unresolved_write(core, ask, contract, effect),
    )
    return admitted(core, session, checked.at, _bind(core, checked))


def admit_ssh_repeat(
    core: Core,
    session: Session,
    record: Invocation,
    operation: Operation,
    request: SpooledCommand,
    *,
    unsafe: bool,
    may_ask: bool = True,
) -> tuple[SshAsk, Admitted]:
    """As `admission.admit_repeat`."""
    check_state(core)
    assert core.contracts is not None
    ask = _asked_again(core, record, request)
    hops = _hops(core, ask)
    assert record.operation_id is not None
    checked = _Checked(
        ask=ask,
        session=session,
        operation_id=record.operation_id,
        before=operation.members,
        at=core.clock.wall(),
        hops=hops,
        contract=core.contracts.set.match_command(hops[-1].entry.name, ask.command),
        request_fingerprint=record.request_fingerprint or "",
        effect_digest=record.effect_digest or "",
        unresolved=unresolved_elsewhere(core, record, ask.acknowledge_unresolved),
        repeats=record,
        planted=request,
    )
    bound = as_repeat(_bind(core, checked), record, unsafe=unsafe)
    return ask, admitted(core, session, checked.at, bound, may_ask=may_ask)


def planted_command(core: Core, ask: SshAsk, record: Invocation) -> SpooledCommand:
    """A command that was given again, with what its operation had planted in it. Raises Refused."""
    assert core.contracts is not None
    entry = _hops(core, ask)[-1].entry.name
    contract = core.contracts.set.match_command(entry, ask.command)
    operation_id = record.operation_id or OperationId("")
    command = _with_argument(core, ask.command, contract, operation_id)
    return SpooledCommand(entry, command, _with_id(ask.env, contract, operation_id), ask.stdin)


def way_to(core: Core, record: Invocation) -> tuple[Hop, ...]:
    """The way to the host of a recorded command, with the credential that it had. Raises Refused."""
    host = str((record.target or {}).get("host", ""))
    return _hops(core, _asked_again(core, record, SpooledCommand(host, "", (), b"")))


def hop_bound(hop: Hop) -> SshHopBound:
    """A hop as it is bound: its entry and its credential's version."""
    entry = hop.entry
    return SshHopBound(
        entry=entry.name,
        address=entry.address,
        port=entry.port,
        user=entry.user,
        host_key=entry.host_keys[0].identity if entry.host_keys else None,
        credential_id=hop.credential.credential_id,
        credential_version=hop.credential.version,
    )


def _asked_again(core: Core, record: Invocation, request: SpooledCommand) -> SshAsk:
    """What was asked, from its record and the spooled command. The credential is the record's own, by its name now."""
    known = core.vault.credentials.list()
    held = next((c.name for c in known if c.credential_id == record.credential_id), record.credential_name)
    asked = record.asked
    return SshAsk(
        host=request.host,
        user=None,
        port=None,
        command=str(asked.get("command", request.command)),
        stdin=request.stdin,
        has_stdin=bool(request.stdin),
        stream=False,
        live=False,
        env=request.env,
        credential=held,
        operation_id=record.operation_id,
        correlation_id=record.correlation_id,
        idempotency_key=None,
        deadline_s=asked.get("deadline_s"),
        wait_s=core.limits.wait_s,
        reason=record.reason,
        read_for=None,
        acknowledge_unresolved=asked.get("acknowledge_unresolved"),
    )


def ssh_fingerprint_of(ask: SshAsk) -> str:
    """The request fingerprint of what the caller asked."""
    at = f"{ask.user}@" if ask.user is not None else ""
    port = f":{ask.port}" if ask.port is not None else ""
    return ssh_request_fingerprint(
        SshRequest(f"{at}{ask.host}{port}", ask.command, _stdin(ask), ask.env, ask.credential, ask.idempotency_key)
    )


def _stdin(ask: SshAsk) -> bytes | None:
    """The input as it is bound; None for a stream."""
    return None if ask.stream else ask.stdin


def _mode(ask: SshAsk, contract: Contract, credential: Credential) -> ApprovalMode:
    """Of a stream `session` holds only where an adopted contract of that host and command says so: each use of a grant
    would let through what nobody has seen."""
    mode = mode_of(contract.effect, contract=contract.approval, credential=credential.approval)
    given = contract.approval is ApprovalMode.SESSION and contract.standing is Standing.ADOPTED
    return ApprovalMode.ALWAYS if ask.stream and mode is ApprovalMode.SESSION and not given else mode


def _hops(core: Core, ask: SshAsk) -> tuple[Hop, ...]:
    """The way to the host, each entry with the credential that logs in to it."""
    known, entries = core.vault.credentials.list(), core.vault.hosts.list()
    named = _named(known, ask.credential)
    try:
        entry = find(entries, ask.host, port=ask.port, user=ask.user)
        return hops_of(entries, known, entry.name, credential=named)
    except (NotKnown, Invalid) as unfit:
        if unfit.field in ("host", "address", "port", "user"):
            raise Refused(Code.UNSUPPORTED_ACTION, "host", unfit.message) from None
        code = Code.CREDENTIAL_UNKNOWN if isinstance(unfit, NotKnown) else Code.CREDENTIAL_OUT_OF_SCOPE
        message = "The credential of this host is gone, or is not bound to it; the operator must see to it."
        raise Refused(code, "credential", message) from None


def _named(known: tuple[Credential, ...], name: str | None) -> Credential | None:
    if name is None:
        return None
    found = next((c for c in known if c.name == name), None)
    if found is None:
        raise Refused(
            Code.CREDENTIAL_UNKNOWN, "credential", "No credential of that name; leave it out, or name the host's own."
        )
    return found


def _bind(core: Core, checked: _Checked) -> SshBound:
    ask, contract = checked.ask, checked.contract
    *jumps, target = map(hop_bound, checked.hops)
    credential = checked.hops[-1].credential
    command = _command(core, checked)
    idempotent = contract.idempotent()
    attempts = 1 if ask.stream else attempts_of(core, checked.before, contract)
    return SshBound(
        operation_id=checked.operation_id,
        correlation_id=ask.correlation_id,
        session=checked.session,
        reason=ask.reason,
        contract_id=contract.id,
        contract_digest=contract.digest,
        contract_checked=contract.checked.isoformat() if contract.checked else None,
        title=contract.title or f"Run a command on {target.entry}",
        effect=contract.effect,
        idempotent=idempotent_word(idempotent, contract),
        answers=answers(contract),
        credential=credential,
        injection=method_label(credential),
        key=None,
        key_scope=None,
        key_retention_s=None,
        request_fingerprint=checked.request_fingerprint,
        effect_digest=checked.effect_digest,
        mode=_mode(ask, contract, credential),
        meaning=Meaning(idempotent=bool(idempotent), keyed=False),
        scope=Scope(
            session_id=checked.session.session_id,
            method=SSH,
            origin=target.entry,
            route=ask.command,
            credential_id=credential.credential_id,
        ),
        deadline_s=ask.deadline_s or contract.deadlines.request_s or core.limits.deadline_ssh_s,
        recovery_s=contract.deadlines.recovery_s or core.limits.recovery_s,
        attempts_limit=attempts,
        setup_tries=contract.retry.setup or core.limits.setup_tries,
        lookup=_lookup(checked),
        retry_of=_before(checked),
        notices=_notices(core, checked),
        tick=TICK if checked.unresolved is not None else None,
        shown={"kind": "ssh", "host": target.entry, "command": command},
        contract=contract,
        read_for=ask.read_for,
        repeats=0 if ask.live else repeats_of(checked.before, contract, attempts, safe=idempotent is True),
        host=target.entry,
        hop=target,
        jumps=tuple(jumps),
        command=command,
        stdin=_stdin(ask),
        env=_env(checked),
        exits={each.status: ExitMeaning(each.outcome, each.retry) for each in contract.verdict.exit},
        marker=_marker(checked),
        way=checked.hops,
    )


def _before(checked: _Checked) -> InvocationId | None:
    if checked.repeats is not None:
        return checked.repeats.invocation_id
    return checked.before[-1].invocation_id if checked.before else None


def _lookup(checked: _Checked) -> dict[str, Any] | None:
    """The status command that would settle an unknown outcome, for a person or an agent to read (R64)."""
    terms = checked.contract.reconcile
    if terms is None:
        return None
    if terms.by_refs:
        asked = refs_command(checked.ask.command)
        return {"command": asked} if asked is not None else None
    values = {"operation_id": str(checked.operation_id)}
    if checked.ask.correlation_id is not None:
        values["correlation_id"] = checked.ask.correlation_id
    asked = command(terms, values)
    return {"command": asked} if asked is not None else None


def _marker(checked: _Checked) -> str | None:
    marker = checked.contract.effect_terms.completion.marker
    return marker.fill({"operation_id": str(checked.operation_id)}, str) if marker is not None else None


def _command(core: Core, checked: _Checked) -> str:
    """The command that goes out."""
    if checked.planted is not None:
        return checked.planted.command
    return _with_argument(core, checked.ask.command, checked.contract, checked.operation_id)


def _with_argument(core: Core, command: str, contract: Contract, operation_id: OperationId) -> str:
    """The command, and behind it the operation id where the contract names an option for it (R63)."""
    place = contract.correlation.operation if contract.correlation else None
    if place is None or place.kind is not PlaceKind.ARG:
        return command
    return with_argument(command, place.name, operation_id, core.limits)


def _env(checked: _Checked) -> Headers:
    """The variables that go out."""
    if checked.planted is not None:
        return checked.planted.env
    return _with_id(checked.ask.env, checked.contract, checked.operation_id)


def _with_id(env: Headers, contract: Contract, operation_id: OperationId) -> Headers:
    """The agent's variables, and the operation id where the contract names one for it (R63)."""
    place = contract.correlation.operation if contract.correlation else None
    if place is None or place.kind is not PlaceKind.ENV:
        return env
    if any(name == place.name for name, _ in env):
        raise Refused(
            Code.INVALID_REQUEST,
            f"env.{place.name}",
            f"The contract carries the operation id in {place.name}; leave the variable out.",
        )
    return tuple(sorted((*env, (place.name, str(operation_id)))))


def _notices(core: Core, checked: _Checked) -> tuple[Notice, ...]:
    if checked.contract.effect is not Effect.WRITE:
        return ()
    notices = []
    if checked.unresolved is not None:
        notices.append(notice_of(NoticeKind.SAME_EFFECT_UNKNOWN, checked.unresolved))
    for inv in core.unknown_operations():
        same = inv.target is not None and inv.target.get("host") == checked.hops[-1].entry.name
        if inv.effect is Effect.WRITE and same and inv.effect_digest != checked.effect_digest:
            notices.append(notice_of(NoticeKind.SAME_ROUTE_UNKNOWN, inv))
            break
    return tuple(notices)
