"""Where the engine's secrets come from: the vault, late, for one action at a time (interface, Redaction).

An action keeps its secret's forms until its answer has ended, also after a lock, so that a late echo is redacted.
"""

from __future__ import annotations

from affidavit.broker import outcome as oc
from affidavit.broker.bound import HttpBound
from affidavit.broker.inject import Injection, inject
from affidavit.broker.live import Stop
from affidavit.broker.redact import Forms, redact
from affidavit.broker.terms import Code, Phase
from affidavit.broker.vault import Vault
from affidavit.broker.vault.errors import NotKnown, VaultError, VaultLocked


class VaultSecrets:
    """`prepare.Secrets` over the vault. Forms are kept by the identity of their `Bound`, from `injection` to `release`.

    Owned by the broker's loop.
    """

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._forms: dict[int, Forms] = {}

    async def injection(self, bound: HttpBound) -> Injection | None:
        if bound.credential is None:
            return None
        try:
            with self._vault.credentials.secret(bound.credential.credential_id, bound.credential.version) as secret:
                injection = inject(bound.credential, secret)
        except NotKnown:
            raise _stop(Code.CREDENTIAL_MISSING) from None
        except VaultLocked:
            raise _stop(Code.VAULT_LOCKED) from None
        except VaultError:
            raise _stop(Code.KEY_UNUSABLE) from None
        self._forms[id(bound)] = Forms((injection.secret,), injection.whole)
        return injection

    def redacted(self, bound: HttpBound, data: bytes) -> bytes:
        forms = self._forms.get(id(bound))
        return redact(data, forms)[0] if forms is not None else data

    def release(self, bound: HttpBound) -> None:
        self._forms.pop(id(bound), None)


def _stop(code: Code) -> Stop:
    return Stop(oc.stop(code, Phase.CREDENTIAL_INJECTION))
