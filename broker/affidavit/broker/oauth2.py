"""What is said to an OAuth2 token service, and what its answers mean (RFC 6749, 4.4, 5 and 6). Pure.

A token call is an exchange of the broker's own, with a record of its own. As with every request, what is approved and
recorded holds nothing secret: `token_request` is that part, and `inject_token` adds the secret to it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote_plus, unquote, urlencode

from affidavit.broker.fingerprint import Headers
from affidavit.broker.headers import Pairs, retry_after
from affidavit.broker.inject import AUTHORIZATION, Injection, basic_token
from affidavit.broker.limits import Limits
from affidavit.broker.secret import Secret
from affidavit.broker.target import HttpTarget, parse_http
from affidavit.broker.terms import Micros, Retry
from affidavit.broker.vault.credentials import Credential
from affidavit.broker.vault.kinds import ClientAuth, OAuth2Options

ANSWER_MAX = 256 * 1024
"""Bytes of a token service's answer."""
TOKEN_MAX = 16 * 1024
"""Bytes of a token: a request's head holds 64 KiB."""


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """A token call without its secret: the part that is bound, recorded and shown."""

    method: str
    target: HttpTarget
    headers: Headers
    body: bytes
    injection: str
    """The method label of what `inject_token` adds: `oauth2:client_credentials`, `oauth2:refresh_token`."""


@dataclass(frozen=True, slots=True, eq=False)
class Token:
    """What a token service gave. Whoever takes it wipes its secrets."""

    value: Secret
    lifetime_s: float | None
    """From the answer's arrival; None where the service does not say."""
    refresh: Secret | None
    """The refresh token that takes the place of the one used, where there is one."""


@dataclass(frozen=True, slots=True)
class TokenFault:
    """Why there is no token. `retry` is `backoff` or `after_correction` (verdicts, TOKEN_UNAVAILABLE)."""

    retry: Retry
    sentence: str
    """For a person; nothing of the service's answer is quoted, which may repeat what it was given."""
    retry_after_s: float | None = None


def token_request(credential: Credential) -> TokenRequest:
    """The call that gets a token for this credential, which is of kind oauth2."""
    options = _options(credential)
    grant = _grant(options)
    form = {"grant_type": grant}
    if options.scope is not None:
        form["scope"] = options.scope
    return TokenRequest(
        method="POST",
        target=parse_http(options.token_url, Limits()),
        headers=(("Content-Type", "application/x-www-form-urlencoded"), ("Accept", "application/json")),
        body=urlencode(form).encode("ascii"),
        injection=f"oauth2:{grant}",
    )


def inject_token(credential: Credential, secret: Secret) -> Injection:
    """What the secret adds to `token_request`: client authentication and, for a refresh, the token."""
    return secret.use(lambda lent: _inject(_options(credential), bytes(lent)))


def _inject(options: OAuth2Options, secret: bytes) -> Injection:
    form: dict[str, str] = {}
    lines = [line.decode("ascii") for line in secret.splitlines()]
    if options.refresh:
        form["refresh_token"] = lines.pop(0)
    client_secret = lines[0] if lines else None
    headers: tuple[tuple[bytes, bytes], ...] = ()
    whole = [value.encode() for value in form.values()]
    if client_secret is not None and options.client_auth is ClientAuth.BASIC:
        # RFC 6749, 2.3.1: both halves are form-encoded first.
        token = basic_token(quote_plus(options.client_id).encode(), quote_plus(client_secret).encode())
        headers = ((AUTHORIZATION.encode(), b"Basic " + token),)
        whole += (b"Basic " + token, token)
    else:
        form["client_id"] = options.client_id
        if client_secret is not None:
            form["client_secret"] = client_secret
    return Injection(
        f"oauth2:{_grant(options)}",
        headers,
        body=f"&{urlencode(form)}".encode("ascii") if form else b"",
        whole=tuple(whole),
        secret=(client_secret or "").encode(),
    )


def read_token(status: int, headers: Pairs, body: bytes, now: Micros) -> Token | TokenFault:
    """What a complete answer of a token service means. `now` is the wall clock, for a Retry-After that is a date."""
    if status == 429 or status == 408 or status >= 500:
        wait_s = retry_after(headers, now)
        return TokenFault(Retry.BACKOFF, f"The token service answered with status {status}; it may work later.", wait_s)
    if not 200 <= status <= 299:
        return _refused(status, body)
    answer = _object(body)
    if answer is None:
        return _wrong("answered with something else than a JSON object; check the token URL")
    kind, token = answer.get("token_type", "bearer"), _printed(answer.get("access_token"))
    if not isinstance(kind, str) or kind.lower() != "bearer":
        return _wrong("gave a token of a type that Affidavit does not send; it sends bearer tokens")
    if token is None:
        return _wrong("gave no access token that a header can carry")
    return Token(Secret(token), _lifetime(answer.get("expires_in")), _secret(answer.get("refresh_token")))


def renewed_secret(secret: Secret, refresh: Secret) -> bytearray:
    """The credential's next secret: the new refresh token, and the client's secret beside it as before."""

    def join(lent: memoryview) -> bytearray:
        return bytearray(b"\n").join([refresh.use(bytes), *bytes(lent).splitlines()[1:]])

    return secret.use(join)


def is_token_url(credentials: Iterable[Credential], target: HttpTarget) -> bool:
    """Whether this target is the token URL of some credential, in whatever spelling a server may read as the same.

    Such a request is refused as TARGET_BLOCKED: the answer would hold a secret that redaction cannot know.
    """
    place = (target.host, target.port)
    path = _loosely(target.path)
    for credential in credentials:
        if isinstance(credential.options, OAuth2Options):
            token = parse_http(credential.options.token_url, Limits())
            if (token.host, token.port) == place and _loosely(token.path) == path:
                return True
    return False


def _options(credential: Credential) -> OAuth2Options:
    if not isinstance(credential.options, OAuth2Options):
        raise ValueError("this credential has no token service")
    return credential.options


def _grant(options: OAuth2Options) -> str:
    return "refresh_token" if options.refresh else "client_credentials"


def _loosely(path: str) -> tuple[str, ...]:
    """A path as the most lenient server reads it: any case, escapes undone, no empty segments, no `;` parameters."""
    while (plain := unquote(path)) != path:
        path = plain
    segments = (segment.partition(";")[0] for segment in path.replace("\\", "/").lower().split("/"))
    return tuple(segment for segment in segments if segment)


_ERRORS = {
    "invalid_request": "says that the call is not as it wants it",
    "invalid_client": "does not accept the client id or its secret",
    "invalid_grant": "does not accept the refresh token any more",
    "unauthorized_client": "does not let this client get tokens in this way",
    "unsupported_grant_type": "does not give tokens in this way",
    "invalid_scope": "does not accept the scope",
}
"""RFC 6749, 5.2."""


def _refused(status: int, body: bytes) -> TokenFault:
    error = (_object(body) or {}).get("error")
    said = _ERRORS.get(error) if isinstance(error, str) else None
    return _wrong(said or f"answered with status {status}")


def _wrong(what: str) -> TokenFault:
    return TokenFault(Retry.AFTER_CORRECTION, f"The token service {what}.")


def _object(body: bytes) -> dict[str, Any] | None:
    if len(body) > ANSWER_MAX:
        return None
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return answer if isinstance(answer, dict) else None


def _printed(value: Any) -> bytes | None:
    """A token that a header carries: printable ASCII without white space, 1 to TOKEN_MAX (RFC 6749, appendix A.12)."""
    if not isinstance(value, str) or not 1 <= len(value) <= TOKEN_MAX:
        return None
    return value.encode() if all("!" <= character <= "~" for character in value) else None


def _secret(value: Any) -> Secret | None:
    token = _printed(value)
    return None if token is None else Secret(token)


def _lifetime(value: Any) -> float | None:
    """Seconds; some services write the number as text."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value[:12])
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        return None
    return float(value)
