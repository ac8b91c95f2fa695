"""The vault's secrets for one action: what goes out, what is redacted, and how a missing one stops it."""

from typing import Any

import pytest
from tests.broker.bounds import http_bound
from tests.broker.conftest import PASSPHRASE

from affidavit.broker.home import Places
from affidavit.broker.injection import VaultSecrets
from affidavit.broker.live import Stop
from affidavit.broker.moment import SystemClock
from affidavit.broker.oauth2 import TokenFault
from affidavit.broker.prepare import prepare
from affidavit.broker.redact import redact
from affidavit.broker.secret import Secret
from affidavit.broker.terms import Code, Phase, Retry
from affidavit.broker.tokens import Unavailable
from affidavit.broker.vault import NewCredential, Vault
from affidavit.broker.vault.credentials import Credential

SECRET = b"planted-secret-4711"
URL = "https://api.example.com/v1/a"


@pytest.fixture
def vault(places: Places) -> Any:
    opened = Vault(places)
    opened.unlock(bytearray(PASSPHRASE))
    yield opened
    opened.close()


def added(vault: Vault, kind: str, **options: Any) -> Credential:
    new = NewCredential("n", kind, ("https://api.example.com/**",), **options)
    return vault.credentials.add(new, bytearray(SECRET)).credential


OAUTH2 = {"token_url": "https://login.example.com/token", "client_id": "4711"}


class ScriptedTokens:
    """Gives a token, or raises."""

    def __init__(self, says: bytes | Exception) -> None:
        self.says = says
        self.asked: list[tuple[Any, Any]] = []

    async def token(self, credential: Any, cause: Any) -> Secret:
        self.asked.append((credential, cause))
        if isinstance(self.says, Exception):
            raise self.says
        return Secret(self.says)


async def stopped(secrets: VaultSecrets, credential: Credential) -> Stop:
    with pytest.raises(Stop) as caught:
        await secrets.injection(http_bound(URL, credential))
    assert caught.value.verdict.phase is Phase.CREDENTIAL_INJECTION
    return caught.value


async def test_no_credential_adds_nothing(vault: Vault) -> None:
    assert await VaultSecrets(vault, SystemClock()).injection(http_bound(URL)) is None


async def test_a_signature_is_made_now_of_what_was_approved(vault: Vault) -> None:
    credential = added(vault, "sigv4", access_key="AKID", region="us-east-1", service="s3")
    secrets = VaultSecrets(vault, SystemClock())
    bound = http_bound(URL, credential)
    made = await secrets.injection(bound)
    assert made is not None
    proof = dict(made.headers)[b"Authorization"]
    seen, _ = redact(b"seen: " + proof + b" and " + SECRET, prepare(bound, made).forms)
    assert seen == b"seen: [redacted] and [redacted]"


async def test_a_token_goes_out_and_is_redacted(vault: Vault) -> None:
    credential = added(vault, "oauth2", **OAUTH2)
    tokens = ScriptedTokens(b"token-4711-long")
    secrets = VaultSecrets(vault, SystemClock(), tokens)  # type: ignore[arg-type]
    bound = http_bound(URL, credential)
    made = await secrets.injection(bound)
    assert made is not None
    assert made.headers == ((b"Authorization", b"Bearer token-4711-long"),)
    assert tokens.asked == [(credential, bound)]
    assert redact(b"x token-4711-long y", prepare(bound, made).forms) == (b"x [redacted] y", 1)


@pytest.mark.parametrize("retry", [Retry.BACKOFF, Retry.AFTER_CORRECTION])
async def test_without_a_token_the_action_was_not_attempted(vault: Vault, retry: Retry) -> None:
    fault = TokenFault(retry, "The token service answered with status 400.")
    secrets = VaultSecrets(vault, SystemClock(), ScriptedTokens(Unavailable(fault)))  # type: ignore[arg-type]
    stop = await stopped(secrets, added(vault, "oauth2", **OAUTH2))
    assert (stop.verdict.code, stop.verdict.retry) == (Code.TOKEN_UNAVAILABLE, retry)
    assert stop.message == fault.sentence


async def test_without_a_way_to_get_tokens_the_kind_is_unsupported(vault: Vault) -> None:
    stop = await stopped(VaultSecrets(vault, SystemClock()), added(vault, "oauth2", **OAUTH2))
    assert stop.verdict.code is Code.INJECTION_UNSUPPORTED


async def test_what_the_vault_refuses_has_a_code(vault: Vault) -> None:
    credential = added(vault, "bearer")
    secrets = VaultSecrets(vault, SystemClock())
    vault.credentials.rotate("n", bytearray(b"another secret"))
    assert (await stopped(secrets, credential)).verdict.code is Code.CREDENTIAL_MISSING
    vault.lock()
    assert (await stopped(secrets, credential)).verdict.code is Code.VAULT_LOCKED
