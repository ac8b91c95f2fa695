"""Where the engine's secrets come from: the vault, late, for one action at a time (interface, Redaction).

An action keeps its secret's forms until its answer has ended, also after a lock, so that a late echo is redacted.
"""

from __future__ import annotations

import asyncio

from affidavit.broker import outcome as oc
from affidavit.broker import sigv4
from affidavit.broker.bound import HttpBound
from affidavit.broker.inject import Injection, inject
from affidavit.broker.live import Stop
from affidavit.broker.moment import Clock
from affidavit.broker.redact import Forms, redact_cut
from affidavit.broker.secret import Secret
from affidavit.broker.terms import Code, Phase
from affidavit.broker.tokens import Tokens, Unavailable
from affidavit.broker.vault import Vault
from affidavit.broker.vault.credentials import Credential
from affidavit.broker.vault.errors import NotKnown, VaultError, VaultLocked
from affidavit.broker.vault.kinds import OAuth2Options, SigV4Options


class VaultSecrets:
    """`prepare.Secrets` over the vault. Forms are kept by the identity of their `Bound`, from `injection` to `release`.

    `tokens` gives the tokens of kind oauth2. Owned by the broker's loop.
    """

    def __init__(self, vault: Vault, clock: Clock, tokens: Tokens | None = None) -> None:
        self._vault = vault
        self._clock = clock
        self._tokens = tokens
        self._forms: dict[int, Forms] = {}

    async def injection(self, bound: HttpBound) -> Injection | None:
        if bound.credential is None:
            return None
        try:
            with await self._secret(bound.credential, bound) as secret:
                injection = inject(bound.credential, secret, bound.approved, self._clock.wall())
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
        self._forms[id(bound)] = Forms((injection.secret,), injection.whole)
        return injection

    async def _secret(self, credential: Credential, bound: HttpBound) -> Secret:
        """What is injected: the version's own secret, or the token that it gets."""
        if isinstance(credential.options, OAuth2Options):
            if self._tokens is None:
                raise _stop(Code.INJECTION_UNSUPPORTED)
            return await self._tokens.token(credential, bound)
        if isinstance(credential.options, SigV4Options):
            await asyncio.to_thread(sigv4.load)
        return self._vault.credentials.secret(credential.credential_id, credential.version)

    def redacted(self, bound: HttpBound, data: bytes) -> bytes:
        """The first bytes of an answer that broke off, which may have ended inside a secret."""
        forms = self._forms.get(id(bound))
        return redact_cut(data, forms) if forms is not None else data

    def release(self, bound: HttpBound) -> None:
        self._forms.pop(id(bound), None)


def _stop(code: Code) -> Stop:
    return Stop(oc.stop(code, Phase.CREDENTIAL_INJECTION))
