"""Where the engine's secrets come from: the vault, late, for one action at a time (interface, Redaction)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from affidavit.broker import outcome as oc
from affidavit.broker import sigv4
from affidavit.broker.bound import HttpBound
from affidavit.broker.hops import Lent, lend
from affidavit.broker.inject import Injection, inject, inject_proxy
from affidavit.broker.moment import Clock
from affidavit.broker.secret import Secret
from affidavit.broker.stop import Stop
from affidavit.broker.terms import Code, Phase
from affidavit.broker.tokens import Tokens, Unavailable
from affidavit.broker.vault import Vault
from affidavit.broker.vault.credentials import Credential
from affidavit.broker.vault.errors import NotKnown, VaultError, VaultLocked
from affidavit.broker.vault.host_entry import Hop
from affidavit.broker.vault.kinds import OAuth2Options, SigV4Options
from affidavit.broker.vault.proxy import ProxyChoice

ENTRY_CHANGED = "The host's entry was changed after this was bound. It needs a new card."


class VaultSecrets:
    """`prepare.Secrets` over the vault, of which nothing is kept here.

    `tokens` gives the tokens of kind oauth2. Owned by the broker's loop.
    """

    def __init__(self, vault: Vault, clock: Clock, tokens: Tokens | None = None) -> None:
        self._vault = vault
        self._clock = clock
        self._tokens = tokens

    async def injection(self, bound: HttpBound) -> Injection | None:
        if bound.credential is None:
            return None
        try:
            with await self._secret(bound.credential, bound) as secret:
                return inject(bound.credential, secret, bound.approved, self._clock.wall())
        except NotKnown:
            raise _stop(Code.CREDENTIAL_MISSING) from None
        except VaultLocked:
            raise _stop(Code.VAULT_LOCKED) from None
        except VaultError:
            raise _stop(Code.KEY_UNUSABLE) from None
        except Unavailable as unavailable:
            fault = unavailable.fault
            verdict = oc.stop(Code.TOKEN_UNAVAILABLE, Phase.CREDENTIAL_INJECTION, retry=fault.retry)
            raise Stop(verdict, message=fault.sentence) from None

    async def lend(self, way: Sequence[Hop]) -> tuple[Lent, ...]:
        """The secrets of the way to a host, for whoever asked to wipe. Raises Stop, also where an entry is no longer
        what was bound: its key may have been revoked since."""
        try:
            if any(hop.entry not in self._vault.hosts.list() for hop in way):
                raise Stop(oc.stop(Code.FINGERPRINT_CHANGED, Phase.VALIDATION), message=ENTRY_CHANGED)
            return lend(self._vault, way)
        except NotKnown:
            raise _stop(Code.CREDENTIAL_MISSING) from None
        except VaultLocked:
            raise _stop(Code.VAULT_LOCKED) from None
        except VaultError:
            raise _stop(Code.KEY_UNUSABLE) from None

    async def proxy(self, choice: ProxyChoice) -> Injection | None:
        """What the proxy asks for; None where it asks for nothing."""
        if choice.credential_id is None:
            return None
        try:
            credential = self._vault.credentials.of(choice.credential_id)
            with self._vault.credentials.secret(credential.credential_id, credential.version) as secret:
                return inject_proxy(credential, secret)
        except NotKnown:
            raise _stop(Code.CREDENTIAL_MISSING) from None
        except VaultLocked:
            raise _stop(Code.VAULT_LOCKED) from None
        except VaultError:
            raise _stop(Code.KEY_UNUSABLE) from None

    async def _secret(self, credential: Credential, bound: HttpBound) -> Secret:
        """What is injected: the version's own secret, or the token that it gets."""
        if isinstance(credential.options, OAuth2Options):
            if self._tokens is None:
                raise _stop(Code.INJECTION_UNSUPPORTED)
            return await self._tokens.token(credential, bound)
        if isinstance(credential.options, SigV4Options):
            await asyncio.to_thread(sigv4.load)
        return self._vault.credentials.secret(credential.credential_id, credential.version)

    def refused(self, bound: HttpBound) -> None:
        if self._tokens is not None and bound.credential is not None:
            self._tokens.drop(bound.credential)


def _stop(code: Code) -> Stop:
    return Stop(oc.stop(code, Phase.CREDENTIAL_INJECTION))
