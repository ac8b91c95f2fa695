"""OAuth2 tokens in memory: each is asked for once, shared until it is nearly over, and wiped when the vault locks.

The call to the token service is not made here: whoever owns the engine runs it as an exchange with a record of its own
(`TokenCaller`). Once begun it is not cancelled with the action that wanted it, for a refresh token is used up by it and
its successor stands in the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Protocol

from affidavit.broker.bound import Bound
from affidavit.broker.headers import Pairs
from affidavit.broker.moment import Clock
from affidavit.broker.oauth2 import Token, TokenFault, read_token, renewed_secret
from affidavit.broker.secret import Secret, overwrite
from affidavit.broker.terms import Retry
from affidavit.broker.vault.credentials import Credential, CredentialId
from affidavit.broker.vault.kinds import OAuth2Options

UNSAID_LIFETIME_S = 300.0
"""How long a token is used whose service does not say how long it lives."""
MARGIN_S = 60.0
"""A token is not used in its last minute, or in the last quarter of a shorter life: set-up takes time."""


@dataclass(frozen=True, slots=True)
class TokenAnswer:
    """A complete answer of a token service. The body holds a secret and is kept nowhere."""

    status: int
    headers: Pairs
    body: bytes = field(repr=False)


class TokenCaller(Protocol):
    """Makes one token call."""

    async def call(self, credential: Credential, secret: Secret, cause: Bound) -> TokenAnswer | TokenFault:
        """Send `oauth2.token_request` with `oauth2.inject_token` added, recorded as an invocation that refers to
        `cause`'s, within 10 s. A fault where no complete answer came, `backoff` then. `secret` is lent.
        """


class Unavailable(Exception):
    """There is no token; `fault` says why. A wiped cache gives `backoff`."""

    def __init__(self, fault: TokenFault) -> None:
        super().__init__(fault.sentence)
        self.fault = fault


Secrets = Callable[[Credential], Secret]
"""The secret of this version of a credential, for the caller to wipe. Raises VaultError."""
Renew = Callable[[Credential, bytearray], Awaitable[Credential]]
"""Make this the credential's next version and record that; gives the new version. Raises VaultError."""

_Key = tuple[CredentialId, int, str | None]


@dataclass(frozen=True, slots=True, eq=False)
class _Held:
    value: Secret
    until: float
    """Seconds since boot."""


@dataclass(frozen=True, slots=True)
class _Renewals:
    """Versions of one credential in a row, each made of the one before by its service, in this run."""

    first: int
    newest: Credential


class Tokens:
    """The tokens of one vault. `spawn` starts a task that the broker awaits at its end. Owned by the broker's loop."""

    def __init__(
        self,
        caller: TokenCaller,
        *,
        secrets: Secrets,
        renew: Renew,
        clock: Clock,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._caller = caller
        self._secrets = secrets
        self._renew = renew
        self._clock = clock
        self._spawn = spawn
        self._held: dict[_Key, _Held] = {}
        self._calls: dict[_Key, asyncio.Future[Secret]] = {}
        self._renewals: dict[CredentialId, _Renewals] = {}
        self._wipes = 0
        """Counts `wipe` calls, so that a call begun before one puts nothing back."""

    async def token(self, credential: Credential, cause: Bound) -> Secret:
        """A token for this credential, of kind oauth2, which the caller owns and wipes.

        One call to the service serves all who wait for it. What was bound before its service renewed it follows the
        renewal; what the operator has rotated or removed since gives no token, not even a kept one. Raises Unavailable,
        or VaultError from `secrets`.
        """
        newest = self._newest(credential)
        key = _key(newest)
        held = self._held.get(key)
        if held is not None and self._clock.boot() < held.until:
            value = held.value
        else:
            call = self._calls.get(key)
            if call is None:
                call = self._calls[key] = asyncio.get_running_loop().create_future()
                self._spawn(self._get(key, newest, cause, call))
            # Whoever waits may be cancelled; the call goes on for the others, and for the refresh token in its answer.
            value = await asyncio.shield(call)
        with self._secrets(self._newest(credential)):
            return value.copy()

    def drop(self, credential: Credential) -> None:
        """Forget this credential's tokens, of whichever version: the target refused one."""
        for key in [key for key in self._held if key[0] == credential.credential_id]:
            self._held.pop(key).value.wipe()

    async def settle(self) -> None:
        """Wait until no call is under way: before the vault locks, so that a new refresh token can be stored.

        A quit waits too, as long as it waits for anything.
        """
        while self._calls:
            await asyncio.wait(list(self._calls.values()))

    def wipe(self) -> None:
        """Forget every token: the vault locks. Calls under way end as unavailable."""
        self._wipes += 1
        for held in self._held.values():
            held.value.wipe()
        self._held.clear()

    async def _get(self, key: _Key, credential: Credential, cause: Bound, call: asyncio.Future[Secret]) -> None:
        wipes = self._wipes
        try:
            value = await self._asked(credential, cause)
            if self._wipes != wipes:
                value.wipe()
                raise Unavailable(TokenFault(Retry.BACKOFF, "The vault was locked meanwhile."))
            call.set_result(value)
        except asyncio.CancelledError:
            call.cancel()
            raise
        except Exception as error:  # every waiter is told, whatever it was
            call.set_exception(error)
            call.exception()
        finally:
            del self._calls[key]

    async def _asked(self, credential: Credential, cause: Bound) -> Secret:
        """Call the service; keep what it gave, for the version that a renewal made where it made one."""
        wipes = self._wipes
        with self._secrets(credential) as secret:
            answer = await self._caller.call(credential, secret, cause)
            if isinstance(answer, TokenFault):
                raise Unavailable(answer)
            token = read_token(answer.status, answer.headers, answer.body, self._clock.wall())
            if isinstance(token, TokenFault):
                raise Unavailable(token)
            renewed = await self._renewed(credential, secret, token)
        if self._wipes == wipes:
            until = self._clock.boot() + _usable_s(token.lifetime_s)
            self._hold(_key(renewed), _Held(token.value.copy(), until))
        return token.value

    async def _renewed(self, credential: Credential, secret: Secret, token: Token) -> Credential:
        """The credential with the refresh token that took the place of the one used, where the service gave one."""
        if token.refresh is None or not isinstance(credential.options, OAuth2Options):
            return credential
        with token.refresh:
            if not credential.options.refresh:
                return credential
            value = renewed_secret(secret, token.refresh)
            if secret.use(lambda lent: bytes(lent) == value):
                overwrite(value)
                return credential
            renewed = await self._renew(credential, value)
            known = self._renewals.get(renewed.credential_id)
            follows = known is not None and known.newest.version == credential.version
            first = known.first if known is not None and follows else credential.version
            self._renewals[renewed.credential_id] = _Renewals(first, renewed)
            return renewed

    def _newest(self, credential: Credential) -> Credential:
        """The version that this run's renewals made of this one."""
        known = self._renewals.get(credential.credential_id)
        made = known is not None and known.first <= credential.version < known.newest.version
        return known.newest if known is not None and made else credential

    def _hold(self, key: _Key, held: _Held) -> None:
        before = self._held.pop(key, None)
        if before is not None:
            before.value.wipe()
        self._held[key] = held


def _key(credential: Credential) -> _Key:
    options = credential.options
    return credential.credential_id, credential.version, options.scope if isinstance(options, OAuth2Options) else None


def _usable_s(lifetime_s: float | None) -> float:
    lifetime = UNSAID_LIFETIME_S if lifetime_s is None else lifetime_s
    return lifetime - min(MARGIN_S, lifetime / 4)
