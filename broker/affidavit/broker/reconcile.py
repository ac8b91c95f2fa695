"""Reconciliation: asking the target what became of an unknown action, and recording what that proves (R48, R64).

Look-ups follow the verdict on a schedule of their own, until the recovery deadline, and go on after a restart from the
record alone once the vault is open. `action.reconcile` and the broker before a repeat of its own ask at once; whoever
asks while a look-up of the same operation is under way gets that one's answer. What an answer proves is decided in
`lookup`; here it is asked for and recorded, with the look-up's own invocation as its evidence.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from affidavit.broker import events as ev
from affidavit.broker.advice import Operation, retry_now
from affidavit.broker.contract import Contract
from affidavit.broker.contract.model import RESULT_NAME, HttpMatch, Reconcile
from affidavit.broker.contract.pointer import MISSING, NotJson, find, load_json
from affidavit.broker.errands import CommandErrand, Errand, Ran, reach
from affidavit.broker.lookup import Finding, Worth, command, found, names, pauses, pushed, query
from affidavit.broker.outcome import IllegalMove, Invocation, settlement
from affidavit.broker.push import FLUSH, refs_command
from affidavit.broker.refusal import Refused
from affidavit.broker.results import ResultUnreadable
from affidavit.broker.signs import READ_MAX
from affidavit.broker.ssh_admission import way_to
from affidavit.broker.target import parse_http
from affidavit.broker.terms import Micros, OperationId, Outcome, Retry, Source, State

if TYPE_CHECKING:
    from affidavit.broker.core import Core

AT_ONCE = 8
"""Look-ups of different operations that run at the same time."""


class Reconciler:
    """Owned by the broker's loop. Each operation is watched by one task at most."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._watched: set[OperationId] = set()
        self._looking: dict[OperationId, asyncio.Task[Finding | None]] = {}
        self._turns = asyncio.Semaphore(AT_ONCE)
        core.projection.on_change(self._changed)

    def resume(self) -> None:
        """The vault was opened: go on with what is unknown, whichever run left it so."""
        for inv in self._core.projection.unknown():
            self._changed(inv)

    def _changed(self, inv: Invocation) -> None:
        if inv.state is State.UNKNOWN and inv.has_lookup and not inv.is_job and inv.operation_id is not None:
            self._watch(inv.operation_id)

    def _watch(self, operation_id: OperationId) -> None:
        if operation_id not in self._watched and not self._core.stopping:
            self._watched.add(operation_id)
            self._core.spawn(self._follow(operation_id))

    async def _follow(self, operation_id: OperationId) -> None:
        core = self._core
        try:
            for pause_s in pauses():
                await core.clock.sleep(pause_s)
                await core.unlocked.wait()
                operation = core.projection.operation(operation_id)
                if not open_members(operation) or is_over(core, operation):
                    return
                await self.look(operation_id)
        finally:
            self._watched.discard(operation_id)

    # -- one look-up

    async def look(self, operation_id: OperationId) -> Finding | None:
        """Ask now, and record what came of it; None where there is nothing to ask. While locked nothing is asked.

        Never raises for what the target or the way to it does. Not before `unlocked`.
        """
        task = self._looking.get(operation_id)
        if task is None:
            task = self._looking[operation_id] = asyncio.ensure_future(self._look(operation_id))
            task.add_done_callback(lambda _: self._looking.pop(operation_id, None))
            self._core.spawn(_ended(task))
        return await asyncio.shield(task)

    async def _look(self, operation_id: OperationId) -> Finding | None:
        core = self._core
        async with self._turns:
            operation = core.projection.operation(operation_id)
            record = operation.newest_dispatched
            contract = self._contract(record)
            if core.locked or record is None or contract is None or contract.reconcile is None:
                return None
            errand = await self._errand(record, contract, contract.reconcile)
            if errand is None:
                return None
            asked, values = errand
            ages = {m.invocation_id: age_s(core, m) for m in operation.members if m.dispatched}
            ran = await core.errands.run(asked)
            if ran is None or (not ran.invocation.dispatched and (core.locked or core.stopping)):
                return None
            finding = None
            for member in _concerned(core, operation_id):
                age = ages.get(member.invocation_id, 0.0)
                if contract.reconcile.by_refs:
                    finding = pushed(contract.reconcile, member.stdin, ran.answer, age_s=age)
                else:
                    finding = found(contract.reconcile, values, ran.answer, age_s=age)
                self.record(member, finding, ran, contract.digest)
            return finding

    def _contract(self, record: Invocation | None) -> Contract | None:
        """The contract in force of the record's id: a look-up may use a newer text (interface, section 6)."""
        if record is None or record.contract_id is None or self._core.contracts is None:
            return None
        return self._core.contracts.set.get(record.contract_id)

    async def _errand(
        self, record: Invocation, contract: Contract, terms: Reconcile
    ) -> tuple[Errand | CommandErrand, dict[str, str]] | None:
        """The look-up of a record, and the values of its placeholders; None where it cannot be asked."""
        core = self._core
        values = await self._values(record, terms)
        if core.locked:
            return None
        if terms.by_refs:
            asked_for = refs_command(str((record.target or {}).get("command", "")))
            run = self._command(record, contract, asked_for, stdin=FLUSH)
            return (run, values) if run is not None else None
        if terms.command is not None:
            run = self._command(record, contract, command(terms, values))
            return (run, values) if run is not None else None
        private = isinstance(contract.match, HttpMatch) and contract.match.private
        try:
            acted_on = parse_http(str((record.target or {}).get("url")), core.limits)
            asked = query(terms, values, acted_on)
            if asked is None:
                return None
            target, credential, leave = reach(core, record, asked.url, private=private)
            if record.credential_id is not None and credential is None and target.origin == acted_on.origin:
                return None  # a stranger is shown less: what it does not find is not absent
        except Refused:
            return None
        body = (asked.body or "").encode()
        errand = Errand(
            cause=record,
            title=f"Look up: {record.title or contract.id}",
            method=asked.method,
            target=target,
            headers=(("Content-Type", "application/json"),) if asked.body is not None else (),
            body=body,
            credential=credential,
            leave=leave,
            contract_id=contract.id,
            contract_digest=contract.digest,
        )
        return errand, values

    def _command(
        self, record: Invocation, contract: Contract, asked: str | None, *, stdin: bytes = b""
    ) -> CommandErrand | None:
        if asked is None:
            return None
        try:
            way = way_to(self._core, record)
        except Refused:
            return None
        return CommandErrand(
            cause=record,
            title=f"Look up: {record.title or contract.id}",
            command=asked,
            stdin=stdin,
            way=way,
            contract_id=contract.id,
            contract_digest=contract.digest,
        )

    async def _values(self, record: Invocation, terms: Reconcile) -> dict[str, str]:
        given = {
            "operation_id": record.operation_id,
            "idempotency_key": record.key,
            "correlation_id": record.correlation_id,
        }
        values: dict[str, str] = {name: value for name, value in given.items() if value is not None}
        pointers = [name for name in names(terms) if name.startswith(RESULT_NAME)]
        document = await self._answer_of(record) if pointers else MISSING
        for name in pointers:
            value = find(document, name.removeprefix(RESULT_NAME)) if document is not MISSING else MISSING
            if isinstance(value, str | int) and not isinstance(value, bool):
                values[name] = str(value)
        return values

    async def _answer_of(self, record: Invocation) -> Any:
        """The JSON that the action itself was answered, or MISSING."""
        body = record.body
        if body is None or record.expired or body.withheld or body.undecodable or body.stored_bytes > READ_MAX:
            return MISSING
        try:
            results, n = self._core.results, range(body.chunks)
            return load_json(b"".join([await results.chunk(body, at) for at in n]))
        except (ResultUnreadable, NotJson, IndexError):
            return MISSING

    # -- what it is worth

    def record(self, inv: Invocation, finding: Finding, ran: Ran, digest: str) -> None:
        """Append what a look-up, or the poll of a job, proves of one invocation (verdicts, section 5)."""
        core = self._core
        lookup = ran.invocation.invocation_id
        looked = ev.LookedUp(lookup, finding.answer, str(finding.worth), digest, finding.state)
        if finding.worth is Worth.SEVERAL:
            says = f"A look-up of {inv.operation_id} found {finding.count} where one was sent."
            core.alert("several_matches", says, inv.invocation_id)
        try:
            now = core.projection.get(inv.invocation_id) or inv
            if finding.outcome is None:
                core.projection.record(inv.invocation_id, looked)
            elif now.state is not State.SETTLED or now.source is Source.OPERATOR_ATTESTED:
                self._settle(now, finding, looked)
            else:
                self._beside(now, finding, looked)
        except IllegalMove:
            pass  # settled meanwhile by something stronger

    def _settle(self, inv: Invocation, finding: Finding, looked: ev.LookedUp) -> None:
        assert finding.outcome is not None
        core = self._core
        if inv.state is State.SETTLED:
            if inv.outcome is finding.outcome:
                core.projection.record(inv.invocation_id, looked)
                return
            core.engine.dispute(inv, f"a look-up says {finding.outcome}")
        verdict = settlement(Source.REMOTE_QUERY, finding.outcome, absent=finding.absent)
        settled = ev.OutcomeSettled(
            verdict.outcome,
            verdict.code,
            verdict.retry,
            Source.REMOTE_QUERY,
            lookup=looked.invocation,
            answer=looked.answer,
            state=looked.state,
            contract_digest=looked.contract_digest,
        )
        core.projection.record(inv.invocation_id, settled, barrier=True)

    def _beside(self, inv: Invocation, finding: Finding, looked: ev.LookedUp) -> None:
        """A settled outcome stays; one that is contradicted is marked so (verdicts, section 5)."""
        self._core.projection.record(inv.invocation_id, looked)
        if inv.outcome is Outcome.REJECTED and finding.outcome is Outcome.COMMITTED:
            self._core.engine.dispute(inv, f"a look-up says {finding.outcome}")


def open_members(operation: Operation) -> list[Invocation]:
    """The invocations that a look-up may settle; none once the operation is not unknown any more."""
    if operation.outcome()[0] is not Outcome.UNKNOWN:
        return []
    return [m for m in operation.members if m.state is State.UNKNOWN]


def is_over(core: Core, operation: Operation) -> bool:
    """Whether the operation's recovery deadline is past (R53)."""
    first = operation.first_dispatched
    if first is None or first.recovery_deadline is None:
        return False
    return core.now_of(operation) >= first.recovery_deadline


def worth_asking(core: Core, inv: Invocation, operation: Operation) -> bool:
    """Whether a look-up could still tell something: the outcome is unknown, was attested, or the advice is to look."""
    if open_members(operation) or inv.source is Source.OPERATOR_ATTESTED:
        return True
    return retry_now(inv, operation, core.now_of(operation)) is Retry.RECONCILE and inv.dispatched


def age_s(core: Core, inv: Invocation) -> float:
    return core.elapsed.at_least_s(inv.dispatched_at or Micros(0), inv.boot, inv.boot_id)


def _concerned(core: Core, operation_id: OperationId) -> list[Invocation]:
    """The invocations that a look-up speaks of: those that are unknown, else the one that gives the outcome."""
    operation = core.projection.operation(operation_id)
    _, by = operation.outcome()
    return open_members(operation) or [m for m in operation.members if m.invocation_id == by]


async def _ended(task: asyncio.Task[Any]) -> None:
    """Own a task to its end, so that the broker's end waits for it and its failure is told."""
    await task
