"""Launching an admitted action: its first records, its place among the live ones, and its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from affidavit.broker import events as ev
from affidavit.broker.admission import Admitted, card_of
from affidavit.broker.advice import STREAM
from affidavit.broker.first_contact import FirstContact
from affidavit.broker.live import Lease, Live
from affidavit.broker.moment import after
from affidavit.broker.outcome import Invocation
from affidavit.broker.request import HttpAsk
from affidavit.broker.session import Session
from affidavit.broker.spool import needed
from affidavit.broker.ssh_request import SshAsk
from affidavit.broker.ssh_work import SshWork
from affidavit.broker.terms import Micros

if TYPE_CHECKING:
    from affidavit.broker.core import Core
    from affidavit.broker.engine import Permit


def launch(core: Core, session: Session, ask: HttpAsk | SshAsk, admitted: Admitted) -> Live:
    """Record the acceptance and start the action."""
    live = _accepted(core, session, ask, admitted)
    _count(core, session)
    core.spawn(_act(core, live, _permit(core, live, admitted)))
    return live


def launch_hop(core: Core, followed: Live, ask: HttpAsk, admitted: Admitted, *, until: Micros | None) -> Live:
    """Record the acceptance of what follows a redirect, and start it (R20). Whoever waits for `followed` waits for it.

    It is not dispatched from `until` on.
    """
    session = admitted.bound.session
    assert session is not None, "an errand follows no redirect"
    hop = _accepted(core, session, ask, admitted, follows=followed)
    hop.until = until
    followed.hop = hop
    core.spawn(_act(core, hop, _permit(core, hop, admitted)))
    return hop


def launch_repeat(
    core: Core,
    session: Session,
    ask: HttpAsk | SshAsk,
    admitted: Admitted,
    record: Invocation,
    *,
    pause_s: float,
    until: Micros | None,
) -> Live:
    """Record a repeat's acceptance and, on the invocation that it repeats, its lease; then start it (R47).

    It waits `pause_s` first, and is not dispatched from `until` on.
    """
    live = _accepted(core, session, ask, admitted)
    _count(core, session)
    held_s = core.limits.lease_s + pause_s + (core.desk.longest_s() if admitted.asks else 0.0)
    lease = ev.LeaseTaken(record.generation + 1, live.invocation_id, after(admitted.at, held_s))
    core.projection.record(record.invocation_id, lease)
    live.lease = Lease(record.invocation_id, lease.generation)
    live.pause_s, live.until = pause_s, until
    core.spawn(_act(core, live, _permit(core, live, admitted)))
    return live


def _accepted(
    core: Core, session: Session, ask: HttpAsk | SshAsk, admitted: Admitted, *, follows: Live | None = None
) -> Live:
    bound = admitted.bound
    invocation_id = admitted.invocation_id
    accepted = ev.ActionAccepted(
        session=session.session_id,
        program=session.program,
        agent=agent_name(session),
        operation_id=bound.operation_id,
        correlation_id=bound.correlation_id,
        request_fingerprint=bound.request_fingerprint,
        asked=asked(ask),
        reason=bound.reason,
        retry_of=bound.retry_of,
        refers_to=follows.invocation_id if follows is not None else None,
    )
    _, receipt = core.projection.record(invocation_id, accepted, admitted.validated, at=admitted.at)
    sessions = follows.sessions if follows is not None else {session.session_id}
    live = Live(invocation_id, core.work(invocation_id, bound), receipt, sessions, follows=follows)
    core.lives[invocation_id] = live
    if not core.has_caller(live):  # it ended while a thread read what it asks for
        core.stop_for_caller(live)
    return live


def _count(core: Core, session: Session) -> None:
    if session.session_id in core.sessions:
        core.session_actions[session.session_id] = core.session_actions.get(session.session_id, 0) + 1


def _permit(core: Core, live: Live, admitted: Admitted) -> Permit:
    if not admitted.asks:
        return admitted.permit
    assert admitted.bound.session is not None
    core.desk.promise(live.invocation_id, admitted.bound.session.session_id)
    newcomer = admitted.bound.newcomer
    if newcomer is not None:
        assert isinstance(live.work, SshWork)
        return FirstContact(core, live.invocation_id, live.work, newcomer)
    return card_of(core, admitted.invocation_id, admitted.bound)


async def _act(core: Core, live: Live, permit: Permit) -> None:
    try:
        await core.engine.run(live, permit)
    finally:
        core.desk.withdraw(live.invocation_id)
        core.loop.call_soon(_retire, core, live)  # after those who wait have answered


def _retire(core: Core, live: Live) -> None:
    core.lives.pop(live.invocation_id, None)
    core.streams.pop(live.invocation_id, None)
    inv = core.projection.get(live.invocation_id)
    if inv is None or not needed(inv, core.clock.wall(), core.limits.recovery_s):
        core.spool.drop(live.invocation_id)
    core.changed()


def agent_name(session: Session) -> str:
    """The asking program as records name it, by the kernel: `node, process 48213`."""
    process = session.provenance.process
    return f"{process.name}, process {process.pid}"


def asked(ask: HttpAsk | SshAsk) -> dict[str, Any]:
    """What was asked, as the record keeps it: no body, no header values, no values of variables (R62)."""
    if isinstance(ask, SshAsk):
        return {
            "host": ask.host,
            "command": ask.command,
            "env": [name for name, _ in ask.env],
            **({"stdin": STREAM} if ask.stream else {"stdin_bytes": len(ask.stdin)}),
            "deadline_s": ask.deadline_s,
            "acknowledge_unresolved": ask.acknowledge_unresolved,
        }
    return {
        "method": ask.method,
        "url": ask.target.url,
        "headers": [h.shown for h in ask.headers],
        "body_bytes": len(ask.body),
        "deadline_s": ask.deadline_s,
        "read_for": ask.read_for,
        "acknowledge_unresolved": ask.acknowledge_unresolved,
    }
