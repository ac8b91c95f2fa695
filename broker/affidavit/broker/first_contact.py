"""First contact with an SSH host under `accept-new`: a probe learns its key, a card shows it, approving it pins it.

The probe ends before the login: no secret of the new host is touched. Where the host is reached through others, those
are known already and are logged in to. From the pin on the command goes the way of every other: a host that shows
another key at dispatch is not logged in to. A way with several new hosts takes a card for each, and runs the command
under the last one: a host whose key nobody has seen is not logged in to, not even to look behind it (docs/decisions,
0010).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from affidavit.broker import outcome as oc
from affidavit.broker.admission import card_of
from affidavit.broker.card import Card, NewHostKey, Notice, NoticeKind, Scope
from affidavit.broker.hops import nameless, ssh_hop
from affidavit.broker.ssh_words import forms_of, redacted_stop
from affidavit.broker.stop import Stop
from affidavit.broker.terms import Code, InvocationId, Phase, Stage
from affidavit.broker.vault.errors import VaultError, VaultLocked
from affidavit.broker.vault.host_entry import Hop
from affidavit.broker.wire.port import SetupFault, SetupStop
from affidavit.broker.wire.ssh.port import HostKey, Probed, SshKeyUnusable, SshLimits

if TYPE_CHECKING:
    from affidavit.broker.core import Core
    from affidavit.broker.ssh_work import SshWork

REVOKED = "HOST_KEY_REVOKED"
"""In `evidence.attempts`: the host showed a key that was revoked for it, which is never learnt."""


class FirstContact:
    """What one action does before its card. Owned by the broker's loop. Its methods are called in their order."""

    def __init__(self, core: Core, invocation_id: InvocationId, work: SshWork, newcomer: Hop) -> None:
        self._core = core
        self._invocation_id = invocation_id
        self._work = work
        self._newcomer = newcomer
        self._key: HostKey | None = None

    async def probe(self, deadline: float) -> Probed:
        """Try to learn the host's key, until the loop's time `deadline`. Raises Stop where a jump host's login cannot
        be made ready."""
        core, entry = self._core, self._newcomer.entry
        way, limits = self._work.bound.way, core.limits
        jumps = way[: way.index(self._newcomer)]
        lent = await core.secrets.lend(jumps)
        try:
            forms = forms_of(jumps, lent)
            probed = await core.ssh_wire.probe(
                nameless(entry),
                allow=lambda address: True,
                limits=SshLimits(dns_s=limits.dns_s, tcp_connect_s=limits.tcp_connect_s),
                deadline=deadline,
                jumps=tuple(map(ssh_hop, jumps, lent)),
            )
        except SshKeyUnusable:
            raise Stop(oc.stop(Code.KEY_UNUSABLE, Phase.CREDENTIAL_INJECTION)) from None
        finally:
            for each in lent:
                each.wipe()
        if probed.stopped is not None:
            return Probed(stopped=redacted_stop(probed.stopped, forms))
        key = self._key = probed.host_key
        if key is None or entry.may_learn(key):
            return probed
        return Probed(stopped=_at_key(SetupFault.HOST_KEY_UNKNOWN, REVOKED, probed.peer, key.fingerprint))

    @property
    def learnt(self) -> str:
        """The host and its key, for the record."""
        assert self._key is not None
        return f"{self._newcomer.entry.name}: {self._key.algorithm} {self._key.fingerprint}"

    def card(self) -> Card:
        """What is bound, with the new key in it, for a person to decide on. It offers this one dispatch alone."""
        assert self._key is not None
        bound = self._work.bound = self._work.bound.knowing(self._key)
        card = card_of(self._core, self._invocation_id, bound)
        entry = self._newcomer.entry
        shown = NewHostKey(
            host=entry.name,
            authority=entry.authority,
            algorithm=self._key.algorithm,
            fingerprint=self._key.fingerprint,
            next_host=bound.newcomer.entry.name if bound.newcomer is not None else None,
        )
        is_target = entry.name == bound.host
        notices = [each for each in card.notices if not is_target or each.kind is not NoticeKind.FIRST_CONTACT]
        return replace(
            card,
            scopes=(Scope.ONCE,),
            preselected=Scope.ONCE,
            grant_until=None,
            repeats=0,
            notices=(*notices, Notice(NoticeKind.NEW_HOST_KEY, host_key=shown)),
        )

    async def pin(self) -> None:
        """The key was approved: pin it. The decision is durable before, the pin before anything is dispatched. Raises
        Stop where the entry no longer takes it, and where another host on the way is new as well; JournalPoisoned."""
        core, entry, key = self._core, self._newcomer.entry, self._key
        assert key is not None
        await core.projection.flush().durable()
        try:
            before = core.vault.hosts.named(entry.name)
            after = await core.loop.run_in_executor(None, core.vault.hosts.pin, entry, key)
        except VaultLocked:
            raise Stop(oc.stop(Code.VAULT_LOCKED, Phase.CREDENTIAL_INJECTION)) from None
        except VaultError:
            raise self._untaken(key) from None
        if after != before:
            noted = core.note_change("host", entry.name, None, "key pinned", before=before.digest, after=after.digest)
            await noted.durable()
        following = self._work.bound.newcomer
        if following is not None:
            stopped = _at_key(SetupFault.HOST_KEY_UNKNOWN, "HOST_KEY_UNKNOWN", None, "")
            behind = f"The key of {entry.name} is pinned. {following.entry.name}, behind it, is new as well: ask again."
            raise Stop(oc.setup_verdict(stopped), message=behind)

    def _untaken(self, key: HostKey) -> Stop:
        """The entry changed while the card waited: another key was pinned, or none is to be learnt any more."""
        entries = (entry for entry in self._core.vault.hosts.list() if entry.name == self._newcomer.entry.name)
        differs = any(entry.host_keys for entry in entries)
        fault = SetupFault.HOST_KEY_DIFFERS if differs else SetupFault.HOST_KEY_UNKNOWN
        said = "The host's entry was changed while the card waited, and does not take the key that it showed."
        return Stop(oc.setup_verdict(_at_key(fault, fault.name, None, key.fingerprint)), message=said)


def _at_key(fault: SetupFault, system: str, peer: str | None, detail: str) -> SetupStop:
    return SetupStop(Stage.SSH_KEX, Stage.HOST_KEY, fault, system, peer, detail)
