"""Token calls as errands: what asks a token service for the token of an action's credential (`tokens.TokenCaller`).

The call is an invocation of the broker's own under the action's approval, with a record like any other. Its answer is
held in memory alone, for it holds a secret that no redaction knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from affidavit.broker.address import Binding, Leave, check_form, check_literal, leave
from affidavit.broker.bound import Bound, HttpBound
from affidavit.broker.contract import DEFAULT_READ
from affidavit.broker.contract.pattern import UrlPattern
from affidavit.broker.errands import Errand
from affidavit.broker.inject import Injection
from affidavit.broker.oauth2 import TokenFault, inject_token, token_request
from affidavit.broker.refusal import Refused
from affidavit.broker.secret import Secret
from affidavit.broker.target import HttpTarget
from affidavit.broker.terms import Retry
from affidavit.broker.tokens import TokenAnswer
from affidavit.broker.vault.credentials import Credential
from affidavit.broker.vault.proxy import ProxyChoice

if TYPE_CHECKING:
    from affidavit.broker.core import Core

TOKEN_CALL_S = 10.0
"""How long one token call may take (interface, section 7)."""


class TokenErrands:
    """Owned by the broker's loop."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def call(self, credential: Credential, secret: Secret, cause: Bound) -> TokenAnswer | TokenFault:
        """As `tokens.TokenCaller` has it."""
        inv = self._core.errands.cause_of(cause)
        if inv is None:
            return TokenFault(Retry.BACKOFF, "The action that wanted a token has ended.")
        request = token_request(credential)
        try:
            allowed = _leave(credential, request.target)
        except Refused as refused:
            return TokenFault(Retry.AFTER_CORRECTION, f"The token URL cannot be called. {refused.refusal.message}")
        ran = await self._core.errands.run(
            Errand(
                cause=inv,
                title=f"Get a token for {credential.name}",
                target=request.target,
                leave=allowed,
                contract_id=DEFAULT_READ.id,
                contract_digest=DEFAULT_READ.digest,
                method=request.method,
                headers=request.headers,
                body=request.body,
                credential=credential,
                injection=request.injection,
                secrets=_Lent(self._core, credential, secret),
                stored=False,
                deadline_s=TOKEN_CALL_S,
            )
        )
        if ran is None:
            return TokenFault(Retry.BACKOFF, "Affidavit is stopping.")
        answer = ran.answer
        if answer is None or answer.body is None:
            code = ran.invocation.code
            said = f" ({code})" if code is not None else ""
            return TokenFault(Retry.BACKOFF, f"The token service gave no complete answer{said}.")
        return TokenAnswer(answer.status, tuple(answer.headers.items()), answer.body)

    async def renew(self, credential: Credential, value: bytearray) -> Credential:
        """The credential's next version, with the refresh token that its service gave; recorded. Raises VaultError,
        and JournalPoisoned where it is stored and will have no record."""
        core = self._core
        renewed = await core.loop.run_in_executor(
            None, core.vault.credentials.renewed, credential.credential_id, credential.version, value
        )
        await core.note_change("credential", renewed.name, renewed.version, "renewed").durable()
        return renewed

    def secret_of(self, credential: Credential) -> Secret:
        return self._core.vault.credentials.secret(credential.credential_id, credential.version)


class _Lent:
    """`prepare.Secrets` of one token call: the credential's own secret instead of a token."""

    def __init__(self, core: Core, credential: Credential, secret: Secret) -> None:
        self._core = core
        self._credential = credential
        self._secret = secret

    async def injection(self, bound: HttpBound) -> Injection | None:
        return inject_token(self._credential, self._secret)

    async def proxy(self, choice: ProxyChoice) -> Injection | None:
        return await self._core.secrets.proxy(choice)

    def refused(self, bound: HttpBound) -> None:
        """What a token service says of its client is read from its answer."""


def _leave(credential: Credential, target: HttpTarget) -> Leave:
    """The operator named this URL with the credential, so it gives the leave that a target of it gives."""
    check_form(target)
    allowed = leave(target, [Binding(UrlPattern.parse(f"{target.origin}/**"), credential.private)])
    check_literal(target, allowed)
    return allowed
