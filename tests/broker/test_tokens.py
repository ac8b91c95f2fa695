"""Tokens: one call for all who wait, kept until nearly over, gone with the lock, and no refresh token lost."""

import asyncio
import json
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any

import pytest
from tests.broker.bounds import http_bound
from tests.broker.scripted_tokens import ScriptedTokenCaller

from affidavit.broker.oauth2 import TokenFault
from affidavit.broker.secret import Secret
from affidavit.broker.terms import Micros, Retry
from affidavit.broker.tokens import TokenAnswer, Tokens, Unavailable
from affidavit.broker.vault.credentials import Credential, NewCredential, checked
from affidavit.broker.vault.errors import NotKnown, VaultLocked

NOW = Micros(1_796_000_000_000_000)
CAUSE = http_bound("https://api.example.com/v1/a")
BUSY = TokenFault(Retry.BACKOFF, "The token service answered with status 503; it may work later.")


class ScriptedClock:
    def __init__(self) -> None:
        self.at = 1000.0

    def wall(self) -> Micros:
        return NOW

    def boot(self) -> float:
        return self.at


def credential(name: str = "n", **options: Any) -> Credential:
    given = {"token_url": "https://login.example.com/token", "client_id": "4711", **options}
    return checked(NewCredential(name, "oauth2", ("https://api.example.com/**",), **given), NOW)


def answer(token: str, status: int = 200, **more: Any) -> TokenAnswer:
    body = {"access_token": token, "token_type": "bearer", "expires_in": 3600, **more}
    return TokenAnswer(status, (), json.dumps(body).encode())


class World:
    """A cache over a scripted token service and a vault of secrets by name and version."""

    def __init__(self, *script: TokenAnswer | TokenFault | asyncio.Event) -> None:
        self.caller = ScriptedTokenCaller(*script)
        self.clock = ScriptedClock()
        self.secrets = {("n", 1): b"s3cret"}
        self.renewed: list[tuple[int, bytes]] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.tokens = Tokens(self.caller, secrets=self.secret, renew=self.renew, clock=self.clock, spawn=self.spawn)

    def secret(self, which: Credential) -> Secret:
        found = self.secrets.get((which.name, which.version))
        if found is None:
            raise NotKnown("gone", "again")
        return Secret(found)

    async def renew(self, which: Credential, value: bytearray) -> Credential:
        self.renewed.append((which.version, bytes(value)))
        new = replace(which, version=which.version + 1)
        self.secrets = {(new.name, new.version): bytes(value)}
        return new

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(asyncio.ensure_future(work))

    async def token(self, which: Credential) -> bytes:
        with await self.tokens.token(which, CAUSE) as secret:
            return secret.use(bytes)

    @property
    def asked(self) -> list[bytes]:
        return [secret for _, secret in self.caller.asked]


async def turn() -> None:
    """Let every task that can run do so."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_one_call_then_the_kept_token() -> None:
    world = World(answer("token-1"))
    which = credential()
    assert [await world.token(which), await world.token(which)] == [b"token-1", b"token-1"]
    assert world.asked == [b"s3cret"]


async def test_all_who_wait_share_one_call() -> None:
    gate = asyncio.Event()
    world = World(gate, answer("token-1"))
    which = credential()
    waiting = [asyncio.ensure_future(world.token(which)) for _ in range(8)]
    await turn()
    assert len(world.caller.asked) == 1
    gate.set()
    assert await asyncio.gather(*waiting) == [b"token-1"] * 8
    assert len(world.tasks) == 1


@pytest.mark.parametrize(("lifetime_s", "usable_s"), [(3600, 3540.0), (120, 90.0), (40, 30.0), (0, 0.0), (None, 240.0)])
async def test_a_token_is_used_until_it_is_nearly_over(lifetime_s: int | None, usable_s: float) -> None:
    world = World(answer("token-1", expires_in=lifetime_s), answer("token-2"))
    which = credential()
    await world.token(which)
    if usable_s:
        world.clock.at += usable_s - 0.001
        assert await world.token(which) == b"token-1"
        world.clock.at += 0.001
    assert await world.token(which) == b"token-2"


async def test_credential_version_and_scope_have_tokens_of_their_own() -> None:
    first, other, scoped = credential(), credential("other"), credential(scope="a")
    rotated = replace(first, version=2)
    scoped = replace(scoped, credential_id=first.credential_id)
    world = World(*(answer(f"token-{n}") for n in range(4)))
    world.secrets = {("n", 1): b"1", ("n", 2): b"2", ("other", 1): b"3"}
    asked = (first, other, scoped, rotated)
    assert [await world.token(which) for which in asked] == [b"token-0", b"token-1", b"token-2", b"token-3"]
    assert [await world.token(which) for which in asked] == [b"token-0", b"token-1", b"token-2", b"token-3"]


@pytest.mark.parametrize("said", [BUSY, answer("", 503)])
async def test_a_fault_is_told_to_all_and_not_kept(said: TokenAnswer | TokenFault) -> None:
    gate = asyncio.Event()
    world = World(gate, said, answer("token-2"))
    which = credential()
    waiting = [asyncio.ensure_future(world.token(which)) for _ in range(3)]
    await turn()
    gate.set()
    found = await asyncio.gather(*waiting, return_exceptions=True)
    assert [error.fault for error in found if isinstance(error, Unavailable)] == [BUSY] * 3
    assert await world.token(which) == b"token-2"


async def test_a_missing_secret_is_the_vaults_own_error() -> None:
    world = World()
    with pytest.raises(NotKnown):
        await world.token(replace(credential(), version=7))
    assert world.asked == []


async def test_a_waiter_who_leaves_does_not_end_the_call() -> None:
    gate = asyncio.Event()
    world = World(gate, answer("token-1", refresh_token="refresh-2"))
    world.secrets = {("n", 1): b"refresh-1"}
    which = credential(refresh=True)
    leaving, staying = (asyncio.ensure_future(world.token(which)) for _ in range(2))
    await turn()
    leaving.cancel()
    await turn()
    gate.set()
    assert await staying == b"token-1"
    assert world.renewed == [(1, b"refresh-2")]
    assert len(world.caller.asked) == 1
    await asyncio.gather(*world.tasks)


async def test_a_new_refresh_token_is_the_next_version_and_both_versions_share_the_token() -> None:
    world = World(answer("token-1", refresh_token="refresh-2"), answer("token-2"))
    world.secrets = {("n", 1): b"refresh-1\nclient secret"}
    which = credential(refresh=True)
    assert await world.token(which) == b"token-1"
    assert world.renewed == [(1, b"refresh-2\nclient secret")]
    newer = replace(which, version=2)
    assert await world.token(newer) == b"token-1"
    assert await world.token(which) == b"token-1"
    world.clock.at += 3600
    assert await world.token(newer) == b"token-2"
    assert world.asked == [b"refresh-1\nclient secret", b"refresh-2\nclient secret"]


async def test_the_same_refresh_token_again_changes_nothing() -> None:
    world = World(answer("token-1", refresh_token="refresh-1"))
    world.secrets = {("n", 1): b"refresh-1"}
    await world.token(credential(refresh=True))
    assert world.renewed == []


async def test_client_credentials_are_never_replaced_by_what_comes_back() -> None:
    world = World(answer("token-1", refresh_token="refresh-2"))
    await world.token(credential())
    assert world.renewed == []


async def test_a_dropped_token_is_asked_for_anew() -> None:
    world = World(answer("token-1"), answer("token-2"))
    which = credential()
    await world.token(which)
    world.tokens.drop(which)
    world.tokens.drop(credential("other"))
    assert await world.token(which) == b"token-2"


async def test_a_token_that_is_refused_is_dropped_for_every_version() -> None:
    world = World(answer("token-1", refresh_token="refresh-2"), answer("token-2"), answer("token-3"))
    which = credential(refresh=True)
    assert await world.token(which) == b"token-1"
    newer = replace(which, version=2)
    world.tokens.drop(which)
    assert await world.token(newer) == b"token-2"
    world.tokens.drop(newer)
    assert await world.token(which) == b"token-3"


async def test_what_was_bound_before_its_service_renewed_it_follows() -> None:
    renewing = [answer(f"token-{n}", refresh_token=f"refresh-{n + 1}") for n in (1, 2, 3)]
    world = World(*renewing)
    which = credential(refresh=True)
    for n in (1, 2, 3):
        assert await world.token(which) == f"token-{n}".encode()
        world.tokens.wipe()
    assert world.asked == [b"s3cret", b"refresh-2", b"refresh-3"]
    assert list(world.secrets) == [("n", 4)]


async def test_a_version_that_the_operator_took_back_gives_no_token_not_even_a_kept_one() -> None:
    world = World(answer("token-1", refresh_token="refresh-2"), answer("token-2", refresh_token="refresh-4"))
    which = credential(refresh=True)
    await world.token(which)
    rotated = replace(which, version=3)
    world.secrets = {("n", 3): b"rotated"}
    for version in (1, 2):
        with pytest.raises(NotKnown):
            await world.token(replace(which, version=version))
    assert await world.token(rotated) == b"token-2"
    assert world.asked == [b"s3cret", b"rotated"]
    for version in (1, 2):
        with pytest.raises(NotKnown):
            await world.token(replace(which, version=version))
    assert await world.token(rotated) == b"token-2", "its service renewed it, and it follows"


async def test_a_rotation_during_the_call_gives_no_token_of_the_old_secret() -> None:
    gate = asyncio.Event()
    world = World(gate, answer("token-1"))
    which = credential()
    waiting = asyncio.ensure_future(world.token(which))
    await turn()
    world.secrets = {("n", 2): b"rotated"}
    gate.set()
    with pytest.raises(NotKnown):
        await waiting


async def test_a_wipe_forgets_and_overwrites() -> None:
    world = World(answer("token-1"), answer("token-2"))
    which = credential()
    await world.token(which)
    (held,) = world.tokens._held.values()
    world.tokens.wipe()
    assert not any(held.value._value)
    assert await world.token(which) == b"token-2"


async def test_a_call_under_way_at_a_wipe_leaves_nothing() -> None:
    gate = asyncio.Event()
    world = World(gate, answer("token-1"), answer("token-2"))
    which = credential()
    waiting = asyncio.ensure_future(world.token(which))
    await turn()
    world.tokens.wipe()
    gate.set()
    with pytest.raises(Unavailable):
        await waiting
    assert world.tokens._held == {}
    assert await world.token(which) == b"token-2"


async def test_settling_waits_for_the_refresh_token_to_be_stored() -> None:
    gate = asyncio.Event()
    world = World(gate, answer("token-1", refresh_token="refresh-2"))
    which = credential(refresh=True)
    waiting = asyncio.ensure_future(world.token(which))
    await turn()
    settling = asyncio.ensure_future(world.tokens.settle())
    await turn()
    assert not settling.done()
    gate.set()
    await settling
    assert world.renewed == [(1, b"refresh-2")]
    assert await waiting == b"token-1"
    await world.tokens.settle()


async def test_a_renewal_that_cannot_be_stored_is_told() -> None:
    world = World(answer("token-1", refresh_token="refresh-2"))

    async def locked(which: Credential, value: bytearray) -> Credential:
        raise VaultLocked

    world.tokens._renew = locked
    with pytest.raises(VaultLocked):
        await world.token(credential(refresh=True))
    assert world.tokens._held == {}


async def test_the_end_of_the_broker_ends_the_call_and_its_waiters() -> None:
    world = World(asyncio.Event())
    waiting = asyncio.ensure_future(world.token(credential()))
    await turn()
    world.tasks[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert world.tokens._calls == {}


async def test_an_answer_shows_nothing() -> None:
    assert "planted" not in repr(answer("planted-token"))
