"""The broker's state, in one place: what the agents' side and the operator's side share.

Everything here is owned by the broker's loop. Locking the vault empties what only an open vault may show.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from functools import partial
from typing import Any

from affidavit.broker import events as ev
from affidavit.broker import outcome as oc
from affidavit.broker import unforeseen
from affidavit.broker.adopted import Contracts
from affidavit.broker.advice import Operation
from affidavit.broker.alerts import Alerts
from affidavit.broker.allowance import Allowances
from affidavit.broker.api import Json
from affidavit.broker.bound import Bound, HttpBound, SshBound
from affidavit.broker.card import CardEnd
from affidavit.broker.desk import Desk
from affidavit.broker.egress import Egress, egress_of
from affidavit.broker.engine import Engine
from affidavit.broker.errands import Errands
from affidavit.broker.grants import Grants
from affidavit.broker.home import Places
from affidavit.broker.http_work import HttpWork
from affidavit.broker.inject import Injection
from affidavit.broker.injection import VaultSecrets
from affidavit.broker.jobs import Jobs
from affidavit.broker.limits import Limits
from affidavit.broker.live import Live
from affidavit.broker.metrics import Metrics
from affidavit.broker.moment import Clock, Elapsed, rfc3339
from affidavit.broker.outcome import Invocation
from affidavit.broker.pace import LoopGuard, Rate
from affidavit.broker.prepare import Secrets
from affidavit.broker.projection import Projection
from affidavit.broker.pursuit import Pursuits
from affidavit.broker.reconcile import Reconciler, is_over
from affidavit.broker.redirects import Redirects
from affidavit.broker.repeat import Repeats
from affidavit.broker.results import Results
from affidavit.broker.retention import Retention
from affidavit.broker.session import Session
from affidavit.broker.settings import SETTINGS, Value, effective, format_value, parse_value, read_file
from affidavit.broker.space import NO_ROOM, Space
from affidavit.broker.spool import Spool, needed
from affidavit.broker.ssh_work import SshWork
from affidavit.broker.stop import Stop
from affidavit.broker.stream import CallerStream
from affidavit.broker.terms import Code, InvocationId, Kind, Micros, Outcome, Phase, SessionId, State
from affidavit.broker.token_errand import TokenErrands
from affidavit.broker.tokens import Tokens
from affidavit.broker.vault import Vault, VaultState
from affidavit.broker.vault.errors import VaultLocked
from affidavit.broker.wire.port import ClientCertificate, HttpWire
from affidavit.broker.wire.ssh.port import SshWire
from affidavit.broker.work import Work
from affidavit.journal import Journal, JournalPoisoned, Opener, Receipt
from affidavit.resources import __version__

UNLOCK_WANTED_S = 60.0
UNTENDED = (
    "The data directory cannot be read or written as it should; what is over may still lie there. It is tried again."
)


class Core:
    """State and lifecycle. `spawn` starts a task that `shutdown` awaits."""

    def __init__(
        self, places: Places, vault: Vault, journal: Journal, wire: HttpWire, clock: Clock, *, limits: Limits
    ) -> None:
        self.places = places
        self.vault = vault
        self.journal = journal
        self.clock = clock
        self.loop = asyncio.get_running_loop()
        self.loop.set_exception_handler(unforeseen.handler)
        self._defaults = limits
        self._file_settings: dict[str, Value] = read_file(places.settings)
        self.limits, self.settings = effective(limits, self._file_settings, {})
        self.projection = Projection(journal, clock)
        self.desk = Desk(clock, self.limits, self.loop)
        self.grants = Grants(clock, self.projection.note)
        self.results = Results(places.results, self.projection.reader, lambda: self.limits)
        self.wire = wire
        self._ssh_wire: SshWire | None = None
        self.spool = Spool(places.results, self.results.pool)
        self.space = Space(places.data, lambda: self.limits)
        self.retention = Retention(self.projection, journal, self.results, lambda: self.limits, clock)
        self.rate = Rate(self.limits, clock.boot)
        self.loops = LoopGuard(self.limits, clock.boot)
        self.elapsed = Elapsed(clock, self._newest_record_at())
        self.allowances = Allowances()
        self.errands = Errands(self)
        caller = TokenErrands(self)
        self.tokens = Tokens(
            caller, secrets=caller.secret_of, renew=caller.renew, clock=clock, spawn=lambda work: self.spawn(work)
        )
        self.secrets = VaultSecrets(vault, clock, self.tokens)
        self.jobs = Jobs(self)
        self.metrics = Metrics(clock.wall())
        self.contracts: Contracts | None = None
        """The contracts in force; None while the vault is locked."""
        self.unlocked = asyncio.Event()
        self._door = asyncio.Lock()
        """Held while the vault is being opened or closed: neither is begun inside the other."""
        self.sessions: dict[SessionId, Session] = {}
        self.session_actions: dict[SessionId, int] = {}
        self.lives: dict[InvocationId, Live] = {}
        self.streams: dict[InvocationId, CallerStream] = {}
        self.alerts = Alerts(self.projection, journal, clock, self.changed)
        self.stopping = False
        self.unlock_wanted = 0
        """How often the operator's window should have been raised: agents asked while the vault was locked."""
        self._unlock_wanted_at: float | None = None
        self.operator_acted = self.last_used = clock.boot()
        """When the operator acted; when that, or a dispatch under a grant, last happened. Seconds since boot."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._status_listeners: list[Callable[[], None]] = []
        self._telling = False
        self._change_listeners: dict[SessionId, list[Callable[[Json], None]]] = {}
        self._finishing: dict[InvocationId, asyncio.Event] = {}
        self.engine = Engine(
            projection=self.projection,
            desk=self.desk,
            grants=self.grants,
            results=self.results,
            space=self.space,
            allowances=self.allowances,
            limits=lambda: self.limits,
            clock=clock,
            elapsed=self.elapsed,
            spawn=self.spawn,
            alert=self.alert,
            job_opened=self.jobs.follow,
            plan=Redirects(self).plan,
        )
        self.projection.on_change(self._invocation_changed)
        self.projection.on_change(self.metrics.changed)
        self.reconciler = Reconciler(self)
        self.repeats = Repeats(self)
        self.pursuits = Pursuits(self)
        self.desk.on_change(self.changed)
        journal.on_poisoned(self._poisoned_by_writer)
        journal.before_commit(self.space.relieve)

    # -- what holds now

    @property
    def locked(self) -> bool:
        return self.contracts is None

    def now_of(self, operation: Operation) -> Micros:
        """The latest that it may be now, by both clocks, as far as an operation's times go (R46)."""
        first = operation.first_dispatched
        if first is None or first.dispatched_at is None:
            return self.elapsed.now()
        return self.elapsed.now_since(first.dispatched_at, first.boot, first.boot_id)

    def _newest_record_at(self) -> Micros:
        newest = self.projection.reader.record(self.projection.head_record())
        return Micros(newest.at) if newest is not None else Micros(0)

    def job_of(self, inv: Invocation) -> Invocation | None:
        """The job that an acceptance opened, with what was last seen of it."""
        named = inv.job.invocation_id if inv.job is not None and not inv.is_job else None
        return self.projection.get(InvocationId(named)) if named is not None else None

    @property
    def ssh_wire(self) -> SshWire:
        """The SSH wire, made when the first command needs it: paramiko takes its time to load."""
        if self._ssh_wire is None:
            from affidavit.broker.wire.ssh.exchange import ParamikoWire

            self._ssh_wire = ParamikoWire()
        return self._ssh_wire

    @ssh_wire.setter
    def ssh_wire(self, wire: SshWire) -> None:
        self._ssh_wire = wire

    def close_idle(self) -> None:
        """Keep no connection for later: at lock and quit."""
        self.wire.close_idle()
        if self._ssh_wire is not None:
            self._ssh_wire.close_idle()

    def work(self, invocation_id: InvocationId, bound: Bound) -> Work:
        """The work of an admitted action, by its wire."""
        match bound:
            case HttpBound():
                return self.http_work(invocation_id, bound)
            case SshBound():
                return self.ssh_work(invocation_id, bound)
            case _:
                raise TypeError("no wire carries this")

    def ssh_work(self, invocation_id: InvocationId, bound: SshBound) -> SshWork:
        return SshWork(
            invocation_id,
            bound,
            wire=lambda: self.ssh_wire,
            lend=self.secrets.lend,
            results=self.results,
            limits=lambda: self.limits,
            stream=self.streams.get(invocation_id),
            may_end=partial(self.may_end, invocation_id),
        )

    async def may_end(self, invocation_id: InvocationId, signal: str) -> bool:
        """Record that a command is sent a signal, as its input broke off; whether that is recorded and may be done."""
        inv = self.projection.get(invocation_id)
        if inv is None or inv.cancel_asked:
            return False
        try:
            _, receipt = self.projection.record(invocation_id, ev.CancelAsked(inv.session_id, signal), barrier=True)
            await receipt.durable()
        except (JournalPoisoned, oc.IllegalMove):
            return False
        return True

    def http_work(
        self, invocation_id: InvocationId, bound: HttpBound, *, secrets: Secrets | None = None, stored: bool = True
    ) -> HttpWork:
        return HttpWork(
            invocation_id,
            bound,
            wire=lambda: self.wire,
            secrets=secrets or self.secrets,
            results=self.results,
            egress=self._egress,
            limits=lambda: self.limits,
            clock=self.clock,
            stored=stored,
        )

    def _egress(self, bound: HttpBound, client: ClientCertificate | None, asked: Injection | None) -> Egress:
        try:
            return egress_of(bound, self.vault.trust.list(), client, asked)
        except VaultLocked:
            raise Stop(oc.stop(Code.VAULT_LOCKED, Phase.CREDENTIAL_INJECTION)) from None

    # -- tasks and listeners

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._task_done)

    def _task_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.loop.call_exception_handler({"message": "a broker task failed", "exception": task.exception()})

    def changed(self) -> None:
        """Tell the listeners, once for all changes of this turn of the loop."""
        if self._status_listeners and not self._telling:
            self._telling = True
            self.loop.call_soon(self._tell)

    def _tell(self) -> None:
        self._telling = False
        for listener in list(self._status_listeners):
            listener()

    def on_status(self, listener: Callable[[], None]) -> Callable[[], None]:
        self._status_listeners.append(listener)
        return lambda: self._status_listeners.remove(listener) if listener in self._status_listeners else None

    def on_change(self, session_id: SessionId, listener: Callable[[Json], None]) -> Callable[[], None]:
        listeners = self._change_listeners.setdefault(session_id, [])
        listeners.append(listener)

        def stop() -> None:
            if listener in listeners:
                listeners.remove(listener)

        return stop

    async def finished_within(self, invocation_id: InvocationId, seconds: float) -> None:
        """Return once an invocation that no live action works on, such as a job, is finished; or after `seconds`."""
        finished = self._finishing.setdefault(invocation_id, asyncio.Event())
        try:
            async with asyncio.timeout(seconds):
                await finished.wait()
        except TimeoutError:
            pass

    def _invocation_changed(self, inv: Invocation) -> None:
        if inv.finished and inv.invocation_id in self._finishing:
            self._finishing.pop(inv.invocation_id).set()
        live = self.lives.get(inv.invocation_id)
        sessions = live.sessions if live is not None else {SessionId(inv.session_id)}
        listeners = [tell for session_id in sessions for tell in self._change_listeners.get(session_id, ())]
        if listeners and inv.finished:
            self.spawn(self._tell_end(inv.invocation_id, listeners))
        elif listeners:
            _tell(inv, listeners)
        self.changed()

    async def _tell_end(self, invocation_id: InvocationId, listeners: Sequence[Callable[[Json], None]]) -> None:
        """Tell of an end once it is durable: what is told has happened (R38)."""
        inv = await self.projection.recorded(invocation_id)
        assert inv is not None, "it has changed"
        _tell(inv, listeners)

    def alert(self, which: str, says: str, invocation_id: InvocationId | None = None) -> None:
        """Raise an alert: shown, and recorded where the journal still takes records (R67)."""
        self.alerts.raise_(which, says, invocation_id)

    def note_change(
        self,
        what: str,
        name: str,
        version: int | None,
        how: str,
        *,
        before: str | None = None,
        after: str | None = None,
    ) -> Receipt:
        """Record a change of operator data: `before` and `after` are digests of what is not secret, None where there is
        nothing. It is answered as done once the receipt says so."""
        payload = {"what": what, "name": name, "version": version, "how": how}
        digests = {"digest_before": before, "digest_after": after}
        receipt = self.projection.note(Kind.OPERATOR_CHANGED, {**payload, **digests}, barrier=True)
        self.changed()
        return receipt

    def calm(self, which: str, says: str) -> None:
        """Close an alert whose cause is gone."""
        self.alerts.close(which, says, by="broker")

    def alert_overdue(self) -> None:
        """Raise an alert for each operation that is unknown past its recovery deadline, once (R67)."""
        for inv in self.unknown_operations():
            if inv.recovery_deadline is not None and is_over(self, self.projection.operation_of(inv)):
                says = f"Operation {inv.operation_id} is unknown past its recovery deadline; a person must look."
                self.alerts.raise_("recovery_deadline", says, inv.invocation_id, lasting=True)

    def _poisoned_by_writer(self, reason: str) -> None:
        """On the journal's thread."""
        self.loop.call_soon_threadsafe(self._poisoned, reason)

    def _poisoned(self, reason: str) -> None:
        for live in list(self.lives.values()):
            live.stop(Stop(oc.stop(Code.JOURNAL_UNAVAILABLE, Phase.CONNECTION_SETUP)))
        self.alert("journal", reason)

    # -- vault

    def opened(self, means: str) -> None:
        """The vault is open: read what it holds. Recorded as VAULT_OPENED."""
        with self.vault.journal_private_key() as private:
            opener = private.use(lambda lent: Opener(bytes(lent)))
        self.projection.seal()
        self.projection.opener = opener
        self.apply_settings(opening=True)
        self.load_contracts(opening=True)
        self.alerts.restore()
        self.projection.note(Kind.VAULT_OPENED, {"means": means}, barrier=True)
        self.unlocked.set()
        self.reconciler.resume()
        self.changed()

    def load_contracts(self, *, opening: bool = False) -> None:
        """Read the contracts anew: at unlock, and after an adoption or a changed setting."""
        if opening or not self.locked:
            self.contracts = Contracts.load(self.vault, self.places, assume_reads=self.settings.assume_reads)

    def apply_settings(self, *, opening: bool = False) -> None:
        stored = self.vault.operator.settings() if opening or not self.locked else {}
        operator = {key: parse_value(key, value) for key, value in stored.items()}
        self.limits, self.settings = effective(self._defaults, self._file_settings, operator)
        self.desk.limits = self.rate.limits = self.loops.limits = self.limits

    def shown_settings(self) -> list[dict[str, Any]]:
        """Every setting with the value in force, its default, and who gave it."""
        stored = self.vault.operator.settings() if not self.locked else {}
        plain: dict[str, Value] = {
            "approvals": self.settings.approvals,
            "assume_reads": self.settings.assume_reads,
            "lock.idle_s": self.settings.idle_lock_s,
            "lock.most_s": self.settings.idle_lock_most_s,
            "look.theme": self.settings.theme,
        }
        rows = []
        for key, setting in SETTINGS.items():
            value = plain[key] if key in plain else getattr(self.limits, key.removeprefix("limit."))
            by = [name for name, has in (("operator", key in stored), ("file", key in self._file_settings)) if has]
            rows.append(
                {
                    "key": key,
                    "value": format_value(value),
                    "default": format_value(setting.default),
                    "set_by": by,
                    "what": setting.what,
                }
            )
        return rows

    async def unlock(self, attempt: Callable[[], Awaitable[None]], means: str) -> None:
        """Open the vault by `attempt`, which raises a VaultError where it cannot be; after a lock that is under way.

        What does not come to be open whole is locked again.
        """
        async with self._door:
            was_locked = self.locked
            try:
                await attempt()
            except BaseException:
                if was_locked:
                    self.vault.lock()  # whoever gave up the attempt: its thread comes too late
                raise
            if was_locked:
                try:
                    self.opened(means)
                except Exception:
                    await self._close_vault("failed")
                    raise

    async def lock(self, why: str) -> None:
        """Lock: what is not dispatched ends VAULT_LOCKED, at once; dispatched actions go on recording (R15).

        Returns when the vault is closed: after another lock or an unlock that is under way.
        """
        self._stop_for_lock()
        async with self._door:
            if self.vault.state is VaultState.READY:
                await self._close_vault(why)

    def _stop_for_lock(self) -> None:
        self.contracts = None
        self.unlocked.clear()
        self.allowances.end_all()
        self.desk.end_all(CardEnd.VAULT_LOCKED)
        for live in self.lives.values():
            live.stop(Stop(oc.stop(Code.VAULT_LOCKED, Phase.CREDENTIAL_INJECTION)))

    async def _close_vault(self, why: str) -> None:
        self._stop_for_lock()  # once more: an unlock may have ended meanwhile
        for live in [live for live in self.lives.values() if not live.crossed]:
            await live.finished.wait()
        self.grants.end_all(why)
        self.close_idle()
        # A token call that has gone out uses up a refresh token; the next one in its answer must still be stored.
        await self.tokens.settle()
        self.tokens.wipe()
        await self.loop.run_in_executor(None, self.vault.lock)
        self.results.forget()
        receipt = self.projection.note(Kind.VAULT_CLOSED, {"why": why}, barrier=True)
        try:
            await receipt.durable()
            self.projection.seal()
            await self.journal.rotate().durable()
        except JournalPoisoned:
            self.projection.seal()
        self.apply_settings()
        self.changed()

    def want_unlock(self) -> None:
        """An agent asked while locked: raise the unlock window, once a minute at most (interface, Approval)."""
        now = self.clock.boot()
        if self._unlock_wanted_at is None or now - self._unlock_wanted_at >= UNLOCK_WANTED_S:
            self._unlock_wanted_at = now
            self.unlock_wanted += 1
            self.changed()

    def acted(self) -> None:
        """The operator did something: idle time begins anew."""
        self.operator_acted = self.last_used = self.clock.boot()

    async def lock_if_idle(self) -> None:
        """The tray's idle lock (interface, section 7)."""
        now = self.clock.boot()
        idle = now - self.last_used >= self.settings.idle_lock_s
        if self.vault.state is VaultState.READY and (
            idle or now - self.operator_acted >= self.settings.idle_lock_most_s
        ):
            await self.lock("idle")

    # -- sessions

    def session_started(self, session: Session) -> None:
        known = session.session_id in self.sessions
        self.sessions[session.session_id] = session
        if not known:
            process = session.provenance.process
            self.projection.note(
                Kind.SESSION_STARTED,
                {
                    "session": session.session_id,
                    "uid": session.provenance.uid,
                    "pid": process.pid,
                    "started": process.started,
                    "name": process.name,
                    "exe": process.exe,
                    "cwd": process.cwd,
                    "chain": [[p.pid, p.name] for p in session.provenance.chain],
                },
            )
            self.changed()

    def session_ended(self, session_id: SessionId) -> None:
        """The session's process has ended: its grants end, and actions that nobody else asked for stop (R27)."""
        if self.sessions.pop(session_id, None) is None:
            return
        self.grants.end_session(session_id)
        self.rate.forget(session_id)
        self._change_listeners.pop(session_id, None)
        for live in list(self.lives.values()):
            if session_id not in live.sessions or self.has_caller(live):
                continue
            if self.desk.end(live.invocation_id, CardEnd.CALLER_GONE) or self.stop_for_caller(live):
                continue
            inv = self.projection.get(live.invocation_id)
            if live.crossed and inv is not None and not inv.finished and not live.caller_gone:
                live.caller_gone = True
                self.projection.record(live.invocation_id, ev.CallerGone(session_id))
        self.projection.note(
            Kind.SESSION_ENDED, {"session": session_id, "actions": self.session_actions.pop(session_id, 0)}
        )
        self.changed()

    def has_caller(self, live: Live) -> bool:
        """Whether any session that asked for it still runs."""
        return any(each in self.sessions for each in live.sessions)

    def stop_for_caller(self, live: Live) -> bool:
        """Stop an action before its line, for its caller has ended; False where that is too late."""
        return live.stop(Stop(oc.stop(Code.CALLER_CANCELLED, self._phase(live)), message="The caller ended."))

    def _phase(self, live: Live) -> Phase:
        inv = self.projection.get(live.invocation_id)
        return inv.phase if inv is not None else Phase.VALIDATION

    def sweep(self) -> None:
        """Delete spooled requests that no repeat can need any more, and end grants whose time is over."""
        self.grants.end_expired()
        self.alert_overdue()
        now = self.clock.wall()
        for invocation_id in self.spool.held():
            inv = self.projection.get(invocation_id)
            over = inv is None or not needed(inv, now, self.limits.recovery_s)
            if over and not self.spool.drop(invocation_id):
                self.alerts.raise_("storage", UNTENDED, lasting=True)

    async def tend_storage(self) -> None:
        """See to the free space, its ballast and its alert; delete results whose time is over."""
        try:
            await self.results.in_thread(self.space.tend)
            if self.space.lacking() == 0:
                self.calm("storage", NO_ROOM)
            await self.retention.clean()
        except OSError:
            self.alerts.raise_("storage", UNTENDED, lasting=True)

    # -- status

    def status(self) -> dict[str, Any]:
        counts: dict[str, dict[str, int]] = {}
        standing = self.journal.standing
        for (phase, outcome), count in standing.counts.items():
            counts.setdefault(str(phase), {})[str(outcome)] = count
        unknown = self.unknown_operations()
        now = self.clock.wall()
        past = sum(1 for inv in unknown if inv.recovery_deadline is not None and inv.recovery_deadline <= now)
        running = [live for live in self.lives.values() if not live.finished.is_set()]
        return {
            "version": __version__,
            "home": str(self.places.data.parent if self.places.named_by else self.places.data),
            "vault": "locked" if self.locked else "ready",
            "journal": "poisoned" if self.journal.poisoned else "ok",
            "journal_reason": self.journal.poisoned,
            "head": {"record": standing.head},
            "approver": self.settings.approvals,
            "cards": len(self.desk.cards()),
            "running": sum(live.crossed for live in running),
            "open": len(running),
            "unknown": len(unknown),
            "unknown_past_deadline": past,
            "counts": counts,
            "sessions": len(self.sessions),
            "grants": len(self.grants),
            "allowed_without_asking": len(self.grants),
            "pending_contracts": len(self.contracts.pending) if self.contracts is not None else 0,
            "unlock_wanted": self.unlock_wanted,
            "theme": self.settings.theme,
            "alerts": self.alerts.shown(),
            "alerts_sealed": self.alerts.sealed,
            "metrics_since": rfc3339(self.metrics.since),
            "metrics": self.metrics.shown() if not self.locked else None,
        }

    def unknown_operations(self) -> list[Invocation]:
        """The newest unknown invocation of each operation that is unknown now, or has an unknown item."""
        newest: dict[str, Invocation] = {}
        for inv in self.projection.unknown():
            operation = self.projection.operation_of(inv)
            items = inv.has_unknown_items and not operation.replaced(inv)
            unknown = items or operation.outcome()[0] is Outcome.UNKNOWN
            if unknown and not self._is_errand(inv):
                newest[inv.operation_id or inv.invocation_id] = inv
        return list(newest.values())

    def _is_errand(self, inv: Invocation) -> bool:
        """Whether it only served another operation's invocation: nobody needs to attest a look-up. A job has a
        reference, too, and no attempt of its own."""
        if inv.refers_to is None or inv.attempt is None:
            return False
        served = self.projection.get(InvocationId(inv.refers_to))
        return served is not None and served.operation_id != inv.operation_id

    # -- the end

    async def shutdown(self, why: str) -> None:
        """Stop in order: nothing new; what is not dispatched ends; what is, and a token call, gets `quit_s`; then the
        last record."""
        self.stopping = True
        self.desk.end_all(CardEnd.BROKER_STOPPED)
        for live in list(self.lives.values()):
            live.stop(Stop(oc.stop(Code.BROKER_RESTARTED, self._phase(live))))
        # A token call that went out outlasts its own record: the refresh token in its answer must still be stored.
        at_work = (*(live.finished.wait() for live in self.lives.values()), self.tokens.settle())
        _, unfinished = await asyncio.wait(
            [self.loop.create_task(each) for each in at_work], timeout=self.limits.quit_s
        )
        for waiting in unfinished:
            waiting.cancel()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.close_idle()
        self.tokens.wipe()
        self.grants.end_all(why)
        try:
            await self.projection.note(Kind.BROKER_STOPPED, {"why": why}, barrier=True).durable()
        except JournalPoisoned:
            pass

    def close(self) -> None:
        """Close the files. Blocks; nothing is called afterwards."""
        self.results.close()
        self.projection.reader.close()
        self.journal.close()
        self.vault.close()


def shown_state(inv: Invocation) -> str | None:
    """`state` of the envelope and of rows: null unless pending."""
    if inv.finished:
        return None
    return "awaiting_approval" if inv.code is Code.AWAITING_APPROVAL and inv.state is State.VALIDATED else "running"


def _tell(inv: Invocation, listeners: Iterable[Callable[[Json], None]]) -> None:
    change = {
        "invocation_id": inv.invocation_id,
        "operation_id": inv.operation_id,
        "state": shown_state(inv),
        "code": str(inv.code),
        "phase": str(inv.phase),
        "outcome": str(inv.outcome),
        "retry": str(inv.retry),
    }
    for tell in listeners:
        tell(change)
