"""The operator's side of the broker (`api.OperatorApi`): what a person decides, attests and changes.

Nothing that loosens works without the passphrase, whoever calls (R73). Every change is a record. Owned by the broker's
loop; Argon2id, the keyring and the vault's files are waited for in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

from affidavit.broker import events as ev
from affidavit.broker.adopted import adopting
from affidavit.broker.agent import events_of, list_actions, shown_credential
from affidavit.broker.api import CardWatcher, Json, OperatorRefused
from affidavit.broker.card import Card, Decision, Scope
from affidavit.broker.contract import ContractRefused
from affidavit.broker.core import Core
from affidavit.broker.envelope import BodyView, envelope
from affidavit.broker.moment import rfc3339
from affidavit.broker.outcome import IllegalMove, Invocation, settlement
from affidavit.broker.passphrase import GateFull, PassphraseGate
from affidavit.broker.results import ResultUnreadable
from affidavit.broker.secret import overwrite
from affidavit.broker.settings import SETTINGS, SettingRefused, format_value, parse_value
from affidavit.broker.terms import (
    ApprovalMode,
    InvocationId,
    Kind,
    Outcome,
    Source,
    State,
)
from affidavit.broker.vault.credentials import CAUTIONS, Added, Credential
from affidavit.broker.vault.errors import VaultError, WrongPassphrase
from affidavit.broker.vault.host_edit import HostEdit
from affidavit.broker.vault.host_entry import HostEntry, HostKeyPolicy, NewHost
from affidavit.broker.vault.kinds import NewCredential, shown_options
from affidavit.broker.vault.proxy import Proxy, sends_in_clear
from affidavit.broker.vault.trust import Anchor
from affidavit.broker.wire.ssh.port import HostKey
from affidavit.journal import JournalPoisoned, Receipt

T = TypeVar("T")

PROXY_IN_CLEAR = "The proxy is spoken to without TLS: whoever is on the way to it can read the credential."
HOST_UNKNOWN = (
    "No key of this host is known, and its policy is strict: every action ends HOST_KEY_UNKNOWN until one is imported "
    "from a known_hosts."
)
HOST_MOVED = "Another address or port is another host: the keys pinned for the old one are forgotten."
NOTE_MAX = 4000
REFERENCE_MAX = 512


class OperatorSide:
    """Implements `api.OperatorApi`."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._gate = PassphraseGate(clock=core.loop.time, warn=self._warn)

    # -- vault

    async def unlock(self, passphrase: bytearray, *, program: str) -> Json:
        core = self._core
        opening = partial(self._in_thread, partial(core.vault.unlock, passphrase))
        await self._attempt(lambda: core.unlock(opening, program), passphrase, program)
        return {"vault": "ready", "pending_contracts": len(core.contracts.pending) if core.contracts else 0}

    async def lock(self, *, why: str) -> None:
        await self._core.lock(why)

    async def check_passphrase(self, passphrase: bytearray) -> None:
        await self._attempt(lambda: self._in_thread(lambda: self._core.vault.check(passphrase)), passphrase, "operator")

    async def status(self) -> Json:
        return self._core.status()

    def on_status(self, listener: Callable[[Json], None]) -> Callable[[], None]:
        stop = self._core.on_status(lambda: listener(self._core.status()))
        listener(self._core.status())
        return stop

    # -- cards

    def cards(self) -> Sequence[Card]:
        return self._core.desk.cards()

    def watch_cards(self, watcher: CardWatcher) -> Callable[[], None]:
        return self._core.desk.watch(watcher)

    def card_shown(self, invocation_id: InvocationId) -> None:
        self._core.desk.shown(invocation_id)

    async def decide(self, invocation_id: InvocationId, decision: Decision) -> Json:
        card = self._card(invocation_id)
        if decision.approve:
            if card.mode is ApprovalMode.PASSPHRASE:
                raise OperatorRefused(
                    "wrong_passphrase", "This card takes the passphrase.", remedy="Approve it with the passphrase."
                )
            if card.tick is not None and not decision.tick:
                raise OperatorRefused("invalid", "The tick is missing.", field="tick", remedy="Tick it, or deny.")
            if decision.scope not in card.scopes:
                raise OperatorRefused("invalid", "This card has no such scope.", field="scope", remedy="Approve once.")
            decision = Decision(True, decision.scope, "card", "card", decision.tick)
        return await self._decided(invocation_id, decision)

    async def approve_by_passphrase(
        self, invocation_id: InvocationId, *, scope: str | None, passphrase: bytearray, means: str
    ) -> Json:
        card = self._card(invocation_id)
        await self.check_passphrase(passphrase)
        try:
            chosen = card.preselected if scope is None else Scope(scope)
        except ValueError:
            raise OperatorRefused("invalid", "A scope is once or session.", field="scope") from None
        if chosen not in card.scopes:
            raise OperatorRefused("invalid", "This card has no such scope.", field="scope", remedy="Use --scope once.")
        return await self._decided(invocation_id, Decision(True, chosen, means, "operator", tick=card.tick is not None))

    def _card(self, invocation_id: InvocationId) -> Card:
        card = self._core.desk.card(invocation_id)
        if card is None:
            raise _too_late()
        return card

    async def _decided(self, invocation_id: InvocationId, decision: Decision) -> Json:
        if not self._core.desk.decide(invocation_id, decision):
            raise _too_late()
        self._core.acted()
        return {"invocation_id": invocation_id, "decision": "approved" if decision.approve else "denied"}

    # -- actions

    async def action_get(self, invocation_id: InvocationId) -> Json:
        inv = self._core.projection.get(invocation_id)
        if inv is None:
            raise OperatorRefused("not_known", "No such invocation is recorded here.", field="invocation_id")
        await self._settle_records()
        return self._shown(inv)

    async def action_list(self, *, outcome: str | None, state: str | None, limit: int, before: str | None) -> Json:
        await self._settle_records()
        return await list_actions(
            self._core, program=None, outcome=outcome, state=state, limit=limit, before=before, seen=lambda inv: inv
        )

    async def unknown(self) -> Sequence[Json]:
        await self._settle_records()
        now = self._core.clock.wall()

        def order(inv: Invocation) -> tuple[bool, int]:
            deadline = inv.recovery_deadline or 0
            return deadline > now, deadline

        return [self._shown(inv) for inv in sorted(self._core.unknown_operations(), key=order)]

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
    ) -> Json:
        """Append an attestation beside the attempt (R57): it never rewrites it and never poses as an answer."""
        try:
            settled = _settlement(outcome, note, reference, item, supersedes)
            inv = self._core.projection.get(invocation_id)
            if inv is None:
                raise OperatorRefused("not_known", "No such invocation is recorded here.", field="invocation_id")
        except OperatorRefused:
            overwrite(passphrase)
            raise
        await self.check_passphrase(passphrase)
        self._require_open()
        inv = self._core.projection.get(invocation_id) or inv
        if item is not None and item not in [known.key for known in inv.items or ()]:
            raise OperatorRefused("not_known", "This action has no such item.", field="item")
        try:
            inv, receipt = self._core.projection.record(invocation_id, settled, barrier=True)
            await receipt.durable()
        except IllegalMove:
            raise self._not_attestable(inv, settled) from None
        except JournalPoisoned as poisoned:
            raise OperatorRefused("poisoned", str(poisoned), remedy=poisoned.remedy) from None
        if item is None:
            self._core.spool.drop(invocation_id)
        record = next((known.record for known in inv.items or () if known.key == item), inv.settlement_record)
        return {**self._shown(inv), "record": record}

    def _not_attestable(self, inv: Invocation, attested: ev.OutcomeSettled) -> OperatorRefused:
        """Why not. What contradicts a stronger source is appended beside it, and is an alert (verdicts, section 5)."""
        if attested.supersedes is not None and _never_attested(inv, attested.item):
            return OperatorRefused(
                "conflict",
                "Its outcome is unknown: there is no attestation to correct.",
                field="supersedes",
                remedy="Leave --supersedes out.",
            )
        if attested.item is not None:
            return _item_not_attestable(inv, attested.item)
        settled = inv.state is State.SETTLED and inv.source is not Source.OPERATOR_ATTESTED
        if settled and inv.outcome is not attested.outcome:
            self._core.engine.dispute(inv, f"the operator attests {attested.outcome}: {attested.note}")
        return _not_attestable(inv)

    async def alert_close(self, alert_id: int, passphrase: bytearray) -> Json:
        """Close an alert that was looked into. It stays in the journal."""
        await self.check_passphrase(passphrase)
        alert = self._core.alerts.get(alert_id)
        if alert is None:
            raise OperatorRefused("not_known", "No such alert is open.", field="alert_id")
        self._core.alerts.close(alert.which, alert.says, by="operator")
        try:
            await self._core.projection.flush().durable()
        except JournalPoisoned as poisoned:
            raise OperatorRefused("poisoned", str(poisoned), remedy=poisoned.remedy) from None
        return {"closed": alert_id}

    # -- credentials

    async def credential_add(
        self, params: Json, secret: bytearray, passphrase: bytearray, *, key_passphrase: bytearray | None = None
    ) -> Json:
        await self._proved(passphrase, secret, key_passphrase)
        new = NewCredential.of(params)
        added = await self._change(
            lambda: self._core.vault.credentials.add(new, secret, key_passphrase), secret, key_passphrase
        )
        return await self._credential_changed("added", added)

    async def credential_list(self, passphrase: bytearray | None) -> Json:
        if passphrase is None:
            raise OperatorRefused("wrong_passphrase", "The list takes the passphrase.")
        await self.check_passphrase(passphrase)
        self._require_open()
        return {"credentials": [_shown(c) for c in self._core.vault.credentials.list()]}

    async def credential_rotate(
        self,
        name: str,
        secret: bytearray,
        passphrase: bytearray,
        *,
        certificate: str | None = None,
        key_passphrase: bytearray | None = None,
    ) -> Json:
        await self._proved(passphrase, secret, key_passphrase)
        known = self._core.vault.credentials
        before = next((c.digest for c in known.list() if c.name == name), None)
        added = await self._change(
            lambda: known.rotate(name, secret, certificate=certificate, passphrase=key_passphrase),
            secret,
            key_passphrase,
        )
        return await self._credential_changed("rotated", added, before=before)

    async def credential_remove(self, name: str, passphrase: bytearray) -> Json:
        await self._proved(passphrase)
        removed = await self._change(lambda: self._core.vault.credentials.remove(name))
        await self._recorded(
            self._core.note_change("credential", removed.name, removed.version, "removed", before=removed.digest)
        )
        return {"name": removed.name, "removed": True}

    async def _credential_changed(self, how: str, added: Added, *, before: str | None = None) -> Json:
        credential = added.credential
        await self._recorded(
            self._core.note_change(
                "credential", credential.name, credential.version, how, before=before, after=credential.digest
            )
        )
        return {**_shown(credential), "warnings": [CAUTIONS[c] for c in added.cautions]}

    # -- hosts

    async def host_add(self, params: Json, passphrase: bytearray) -> Json:
        await self._proved(passphrase)
        given = {name: value for name, value in params.items() if value is not None}
        new = NewHost(**{**given, "host_keys": tuple(given.get("host_keys", ()))})
        entry = await self._change(lambda: self._core.vault.hosts.add(new))
        await self._recorded(self._core.note_change("host", entry.name, None, "added", after=entry.digest))
        return {**self._shown_host(entry), "warnings": [HOST_UNKNOWN] if _never_known(entry) else []}

    async def host_edit(self, name: str, params: Json, passphrase: bytearray) -> Json:
        await self._proved(passphrase)
        edit = HostEdit(**{field: value for field, value in params.items() if value is not None})
        before, after = await self._change(lambda: self._core.vault.hosts.edit(name, edit))
        if after != before:
            await self._recorded(
                self._core.note_change("host", name, None, "edited", before=before.digest, after=after.digest)
            )
        keys = _shown_keys(before, after)
        warnings = [HOST_MOVED] if before.host_keys and before.authority != after.authority else []
        warnings += [HOST_UNKNOWN] if _never_known(after) else []
        return {
            **self._shown_host(after),
            "pinned": keys["pinned"],
            "removed": keys["removed"],
            "warnings": warnings,
        }

    async def host_list(self, passphrase: bytearray) -> Json:
        await self._proved(passphrase)
        return {"hosts": list(await self.hosts())}

    async def hosts(self) -> Sequence[Json]:
        self._require_open()
        return [self._shown_host(entry) for entry in self._core.vault.hosts.list()]

    async def host_remove(self, name: str, passphrase: bytearray) -> Json:
        await self._proved(passphrase)
        removed = await self._change(lambda: self._core.vault.hosts.remove(name))
        await self._recorded(self._core.note_change("host", removed.name, None, "removed", before=removed.digest))
        return {"name": removed.name, "removed": True}

    async def host_import(self, text: str, *, credential: str | None, user: str | None, passphrase: bytearray) -> Json:
        await self._proved(passphrase)
        hosts = self._core.vault.hosts
        imported = await self._change(lambda: hosts.import_file(text, credential=credential, user=user))
        note = self._core.note_change
        await self._recorded(
            *(note("host", entry.name, None, "added", after=entry.digest) for entry in imported.added),
            *(
                note("host", after.name, None, "keys changed", before=before.digest, after=after.digest)
                for before, after in imported.changed
            ),
        )
        return {
            "added": [self._shown_host(entry) for entry in imported.added],
            "changed": [_shown_keys(before, after) for before, after in imported.changed],
            "skipped": [{"line": each.line, "what": each.what, "why": each.why} for each in imported.skipped],
            "warnings": [HOST_UNKNOWN] if any(map(_never_known, imported.added)) else [],
        }

    def _shown_host(self, entry: HostEntry) -> dict[str, Any]:
        return {
            "name": entry.name,
            "address": entry.address,
            "port": entry.port,
            "user": entry.user,
            "credential": self._core.vault.credentials.of(entry.credential_id).name,
            "jump": entry.jump,
            "policy": entry.policy.value,
            "host_keys": _shown_host_keys(entry.host_keys),
            "revoked": _shown_host_keys(entry.revoked),
            "added_at": rfc3339(entry.added_at),
            "digest": entry.digest,
        }

    # -- trust and proxy

    async def trust_add(self, name: str, ca: str, targets: Sequence[str], passphrase: bytearray) -> Json:
        await self._proved(passphrase)
        anchor = await self._change(lambda: self._core.vault.trust.add(name, ca, tuple(targets)))
        await self._recorded(self._core.note_change("trust", anchor.name, None, "added", after=anchor.digest))
        return _shown_anchor(anchor)

    async def trust_list(self, passphrase: bytearray) -> Json:
        await self._proved(passphrase)
        return {"trust": [_shown_anchor(anchor) for anchor in self._core.vault.trust.list()]}

    async def trust_remove(self, name: str, passphrase: bytearray) -> Json:
        await self._proved(passphrase)
        removed = await self._change(lambda: self._core.vault.trust.remove(name))
        await self._recorded(self._core.note_change("trust", removed.name, None, "removed", before=removed.digest))
        return {"name": removed.name, "removed": True}

    async def proxy_set(
        self, url: str, *, credential: str | None, no_proxy: Sequence[str], trusted: bool, passphrase: bytearray
    ) -> Json:
        await self._proved(passphrase)
        setting = self._core.vault.proxy
        before, proxy = await self._change(
            lambda: setting.set(url, credential=credential, no_proxy=tuple(no_proxy), trusted=trusted)
        )
        digests = {"before": before.digest if before else None, "after": proxy.digest}
        await self._recorded(self._core.note_change("proxy", proxy.url, None, "set", **digests))
        warnings = [PROXY_IN_CLEAR] if sends_in_clear(proxy) else []
        return {**self._shown_proxy(proxy), "warnings": warnings}

    async def proxy_show(self, passphrase: bytearray) -> Json:
        await self._proved(passphrase)
        return self._shown_proxy(self._core.vault.proxy.get())

    async def proxy_off(self, passphrase: bytearray) -> Json:
        await self._proved(passphrase)
        before = await self._change(self._core.vault.proxy.off)
        if before is not None:
            await self._recorded(self._core.note_change("proxy", before.url, None, "off", before=before.digest))
        return self._shown_proxy(None)

    def _shown_proxy(self, proxy: Proxy | None) -> dict[str, Any]:
        if proxy is None:
            return {"url": None, "credential": None, "no_proxy": [], "trusted": False, "set_at": None}
        known = self._core.vault.credentials
        return {
            "url": proxy.url,
            "credential": known.of(proxy.credential_id).name if proxy.credential_id else None,
            "no_proxy": list(proxy.no_proxy),
            "trusted": proxy.trusted,
            "set_at": rfc3339(proxy.set_at),
        }

    # -- contracts

    async def contract_pending(self) -> Json:
        self._require_open()
        self._core.load_contracts()
        assert self._core.contracts is not None
        return {
            "files": [
                {
                    "file": p.file,
                    "id": p.contract_id,
                    "state": p.state,
                    "difference": p.difference,
                    "problems": list(p.problems),
                    "text": p.text,
                }
                for p in self._core.contracts.pending
            ]
        }

    async def contract_adopt(self, files: Sequence[tuple[str, str]], passphrase: bytearray) -> Json:
        await self._proved(passphrase)
        core = self._core
        in_force = await self._change(core.vault.operator.contracts)
        try:
            checked = adopting(files, in_force)
        except ContractRefused as refused:
            raise OperatorRefused("invalid", " ".join(map(str, refused.problems)), field="files") from None
        except ValueError as conflict:
            raise OperatorRefused("conflict", str(conflict), field="files", remedy="Narrow one of them.") from None
        before = {a.contract_id: a.digest for a in in_force}
        changed = [a for a in checked.adoptions if before.get(a.contract_id) != a.digest]
        await self._change(lambda: core.vault.operator.adopt(list(checked.adoptions)))
        for adoption in changed:
            receipt = core.projection.note(
                Kind.CONTRACT_ADOPTED,
                {
                    "id": adoption.contract_id,
                    "digest": adoption.digest,
                    "file": adoption.file,
                    "digest_before": before.get(adoption.contract_id),
                },
                barrier=True,
            )
            await self._recorded(receipt)
        core.load_contracts()
        core.changed()
        return {"adopted": [{"id": a.contract_id, "digest": a.digest, "file": a.file} for a in changed]}

    async def contract_list(self) -> Json:
        self._require_open()
        assert self._core.contracts is not None
        return {"contracts": self._core.contracts.shown()}

    # -- settings

    async def settings_show(self) -> Json:
        core = self._core
        return {"settings": core.shown_settings()}

    async def settings_set(self, key: str, value: str, passphrase: bytearray) -> Json:
        try:
            parsed = parse_value(key, value)
        except SettingRefused as refused:
            overwrite(passphrase)
            raise OperatorRefused(
                "invalid", refused.message, field="key" if key not in SETTINGS else "value", remedy=refused.remedy
            ) from None
        await self._proved(passphrase)
        text = format_value(parsed)
        before = await self._change(lambda: self._core.vault.operator.set_setting(key, text))
        self._core.apply_settings()
        self._core.load_contracts()
        await self._recorded(
            self._core.note_change("setting", key, None, f"{before if before is not None else 'default'} -> {text}")
        )
        row = next(row for row in self._core.shown_settings() if row["key"] == key)
        return {"key": key, "value": text, "before": before, "in_force": row["value"], "set_by": row["set_by"]}

    # -- inside

    def _require_open(self) -> None:
        if self._core.locked:
            raise OperatorRefused("locked", "The vault is locked.", remedy="Unlock it: affidavit unlock")

    async def _proved(self, passphrase: bytearray, *secrets: bytearray | None) -> None:
        """The passphrase is right and the vault open; else every secret that came along is overwritten."""
        try:
            await self.check_passphrase(passphrase)
            self._require_open()
        except BaseException:
            _overwrite_all(secrets)
            raise

    async def _attempt(self, check: Callable[[], Awaitable[T]], passphrase: bytearray, program: str) -> T:
        try:
            done = await self._gate.attempt(check, program=program)
            self._core.acted()
            return done
        except WrongPassphrase as wrong:
            self._core.projection.note(Kind.PASSPHRASE_REFUSED, {"program": program})
            raise OperatorRefused("wrong_passphrase", wrong.message, remedy=wrong.remedy, field="passphrase") from None
        except GateFull:
            raise OperatorRefused(
                "busy", "Too many programs are trying passphrases.", remedy="Wait a minute, then try again."
            ) from None
        except VaultError as error:
            raise refused(error) from None
        finally:
            overwrite(passphrase)

    async def _change(self, work: Callable[[], T], *secrets: bytearray | None) -> T:
        """Change the vault, unless no record of it could follow: then every secret that came along is overwritten."""
        poisoned = self._core.journal.poisoned
        if poisoned is not None:
            _overwrite_all(secrets)
            raise OperatorRefused("poisoned", poisoned, remedy=JournalPoisoned.remedy)
        try:
            return await self._in_thread(work)
        except VaultError as error:
            raise refused(error) from None

    async def _in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(None, work)

    async def _recorded(self, *receipts: Receipt) -> None:
        """Return once a change of the vault is on record. Where it will not be, whoever asked for it is told so."""
        try:
            for receipt in receipts:
                await receipt.durable()
        except JournalPoisoned as poisoned:
            said = f"{poisoned} The change itself was made."
            raise OperatorRefused("poisoned", said, remedy=poisoned.remedy) from None

    async def _settle_records(self) -> None:
        try:
            await self._core.projection.flush().durable()
        except JournalPoisoned:
            pass

    def _shown(self, inv: Invocation) -> dict[str, Any]:
        core = self._core
        seal = "operator_unlock" if core.locked else None
        body = stderr = None
        if seal is None and inv.body is not None and not inv.expired:
            try:
                body = core.results.view(inv.body, operator=True)
                stderr = core.results.view(inv.stderr, operator=True) if inv.stderr is not None else None
            except ResultUnreadable:
                body = stderr = None
        operation = core.projection.operation_of(inv)
        out = envelope(
            inv, operation, core.now_of(operation), BodyView(seal, body, job=core.job_of(inv), stderr=stderr)
        )
        out["events"] = events_of(core, inv, sealed=core.locked)
        out["title"] = inv.title
        out["agent"] = inv.agent
        return out

    def _warn(self, count: int, program: str) -> None:
        self._core.alert("passphrase", f"{count} wrong passphrases in a row, the last from {program}.")


def _shown(credential: Credential) -> dict[str, Any]:
    return {**shown_credential(credential), "options": shown_options(credential.options)}


def _shown_host_keys(keys: Iterable[HostKey]) -> list[dict[str, str]]:
    return [{"algorithm": key.algorithm, "fingerprint": key.fingerprint} for key in keys]


def _shown_keys(before: HostEntry, after: HostEntry) -> dict[str, Any]:
    """What a change did to the keys of an entry."""
    return {
        "name": after.name,
        "pinned": _shown_host_keys(key for key in after.host_keys if key not in before.host_keys),
        "removed": _shown_host_keys(key for key in before.host_keys if key not in after.host_keys),
        "revoked": _shown_host_keys(key for key in after.revoked if key not in before.revoked),
    }


def _never_known(entry: HostEntry) -> bool:
    return entry.policy is HostKeyPolicy.STRICT and not entry.host_keys


def _shown_anchor(anchor: Anchor) -> dict[str, Any]:
    return {
        "name": anchor.name,
        "targets": list(anchor.targets),
        "subjects": list(anchor.subjects),
        "expires_at": rfc3339(anchor.expires_at),
        "digest": anchor.digest,
    }


def _settlement(
    outcome: str, note: str, reference: str | None, item: str | None, supersedes: int | None
) -> ev.OutcomeSettled:
    if outcome not in (Outcome.COMMITTED, Outcome.REJECTED):
        raise OperatorRefused("invalid", "An attested outcome is committed or rejected.", field="outcome")
    if not note.strip():
        raise OperatorRefused(
            "invalid", "Say what was checked and what it showed.", field="note", remedy="Add --note TEXT."
        )
    if len(note) > NOTE_MAX:
        raise OperatorRefused("invalid", f"The note is longer than {NOTE_MAX} characters.", field="note")
    if reference is not None and len(reference) > REFERENCE_MAX:
        raise OperatorRefused("invalid", f"The reference is longer than {REFERENCE_MAX} characters.", field="reference")
    verdict = settlement(Source.OPERATOR_ATTESTED, Outcome(outcome))
    return ev.OutcomeSettled(
        verdict.outcome,
        verdict.code,
        verdict.retry,
        Source.OPERATOR_ATTESTED,
        item=item,
        note=note,
        reference=reference,
        supersedes=supersedes,
    )


def _never_attested(inv: Invocation, key: str | None) -> bool:
    """Whether a first attestation of the action, or of the item `key`, could be added."""
    if key is None:
        return inv.state is State.UNKNOWN or (inv.state is State.OPEN and inv.is_job)
    unknown = [known.key for known in inv.items or () if known.outcome is Outcome.UNKNOWN]
    return inv.state is not State.OPEN and key in unknown


def _not_attestable(inv: Invocation) -> OperatorRefused:
    if inv.state is State.SETTLED and inv.source is Source.OPERATOR_ATTESTED:
        return OperatorRefused(
            "conflict",
            f"It was attested as {inv.outcome} in record {inv.settlement_record}.",
            field="supersedes",
            remedy=f"To correct it, name that record: --supersedes {inv.settlement_record}",
        )
    if inv.state is State.SETTLED:
        record = inv.settlement_record or inv.result_record
        return OperatorRefused(
            "conflict", f"Record {record} settled it as {inv.outcome}; an attestation is weaker.", field="invocation_id"
        )
    if inv.state is State.STOPPED:
        return OperatorRefused(
            "conflict", "Nothing was sent, and that is proven: there is nothing to attest.", field="invocation_id"
        )
    return OperatorRefused(
        "conflict",
        "It is still running; its outcome may yet be recorded.",
        field="invocation_id",
        remedy="Wait for its deadline, or cancel it.",
    )


def _item_not_attestable(inv: Invocation, key: str) -> OperatorRefused:
    item = next((known for known in inv.items or () if known.key == key), None)
    if item is None or inv.state is State.OPEN:
        return OperatorRefused(
            "conflict", "It is still running.", field="invocation_id", remedy="Wait for its deadline."
        )
    if item.source is Source.OPERATOR_ATTESTED:
        return OperatorRefused(
            "conflict",
            f"It was attested as {item.outcome} in record {item.record}.",
            field="supersedes",
            remedy=f"To correct it, name that record: --supersedes {item.record}",
        )
    return OperatorRefused("conflict", f"The target's answer says {item.outcome} of this item.", field="item")


def _overwrite_all(secrets: Iterable[bytearray | None]) -> None:
    for secret in secrets:
        if secret is not None:
            overwrite(secret)


def _too_late() -> OperatorRefused:
    return OperatorRefused(
        "too_late",
        "This card is gone: decided elsewhere, expired, or its caller ended. Nothing was done.",
        field="invocation_id",
        remedy="affidavit approvals lists what waits.",
    )


def refused(error: VaultError) -> OperatorRefused:
    return OperatorRefused(error.code, error.message, field=error.field, remedy=error.remedy)
