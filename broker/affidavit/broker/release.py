"""Releasing a result: another session may read what is recorded once a person says so (interface, Results).

Nothing is dispatched. The card names the action whose result is asked for; a decision is a RESULT_RELEASED record.
"""

from __future__ import annotations

from affidavit.broker import events as ev
from affidavit.broker.card import Answer, Answers, Card, Decision, Notice, NoticeKind, Scope
from affidavit.broker.core import Core
from affidavit.broker.outcome import IllegalMove, Invocation
from affidavit.broker.session import Session
from affidavit.broker.terms import ApprovalMode, Effect, OperationId


async def ask_release(core: Core, inv: Invocation, session: Session) -> None:
    """Put up a card for this session, unless one waits or approvals are off, and record a decision to release."""
    if core.desk.card(inv.invocation_id) is not None or not core.settings.approvals:
        return
    if core.desk.count(session.session_id) >= core.limits.cards_session:
        return
    answer = await core.desk.ask(_card(core, inv, session))
    if not isinstance(answer, Decision) or not answer.approve:
        return
    try:
        core.projection.record(
            inv.invocation_id, ev.ResultReleased(session.session_id, answer.means, answer.by), barrier=True
        )
    except IllegalMove:
        pass


def _card(core: Core, inv: Invocation, session: Session) -> Card:
    target = inv.target or {}
    said = inv.answers or {}
    return Card(
        invocation_id=inv.invocation_id,
        operation_id=inv.operation_id or OperationId(""),
        session=session,
        reason=None,
        effect=Effect.READ,
        title="Hand a recorded result to another agent",
        method=str(target.get("method", "")),
        url=str(target.get("url", "")),
        headers=(),
        body=b"",
        body_type=None,
        credential=None,
        contract_id=inv.contract_id or "",
        contract_checked=None,
        answers=Answers(
            *(Answer(said.get(name, ""), present=True) for name in ("binds_retries", "lookup", "on_connection_death"))
        ),
        fingerprint=inv.fingerprint or "",
        mode=ApprovalMode.ALWAYS,
        scopes=(Scope.ONCE,),
        preselected=Scope.ONCE,
        notices=(Notice(NoticeKind.RESULT_RELEASE, inv.invocation_id, inv.result_record, inv.settled_at),),
        tick=None,
        asked_at=core.clock.wall(),
        shown_s=core.limits.card_shown_s,
    )
