"""Token calls: what is sent, what is kept out of the record, and what answers mean."""

import base64
import json
from typing import Any
from urllib.parse import parse_qs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affidavit.broker.limits import Limits
from affidavit.broker.oauth2 import (
    ANSWER_MAX,
    TOKEN_MAX,
    Token,
    TokenFault,
    inject_token,
    is_token_url,
    read_token,
    renewed_secret,
    token_request,
)
from affidavit.broker.secret import Secret
from affidavit.broker.target import parse_http
from affidavit.broker.terms import Micros, Retry
from affidavit.broker.vault.credentials import Credential, NewCredential, checked

NOW = Micros(1_796_000_000_000_000)
URL = "https://login.example.com/oauth2/token"


def credential(**options: Any) -> Credential:
    given = {"token_url": URL, "client_id": "agent-4711", **options}
    return checked(NewCredential("n", "oauth2", ("https://api.example.com/**",), **given), NOW)


def form(which: Credential, secret: bytes) -> dict[str, list[str]]:
    """The whole body as the token service reads it."""
    body = token_request(which).body + inject_token(which, Secret(secret)).body
    return parse_qs(body.decode("ascii"), strict_parsing=True)


def user_and_password(which: Credential, secret: bytes) -> bytes:
    ((name, value),) = inject_token(which, Secret(secret)).headers
    assert name == b"Authorization"
    return base64.b64decode(value.removeprefix(b"Basic "), validate=True)


def test_client_credentials_as_in_rfc_6749() -> None:
    which = credential(client_id="s6BhdRkqt3")
    asked = token_request(which)
    assert (asked.method, asked.target.url) == ("POST", URL)
    assert dict(asked.headers) == {
        "Content-Type": "application/x-www-form-urlencoded",
        "Accept": "application/json",
    }
    assert asked.body == b"grant_type=client_credentials"
    assert asked.injection == "oauth2:client_credentials"
    made = inject_token(which, Secret(b"gX1fBat3bV"))
    assert made.headers == ((b"Authorization", b"Basic czZCaGRSa3F0MzpnWDFmQmF0M2JW"),)
    assert (made.body, made.method) == (b"", asked.injection)
    assert made.secret == b"gX1fBat3bV"
    assert made.whole == (b"Basic czZCaGRSa3F0MzpnWDFmQmF0M2JW", b"czZCaGRSa3F0MzpnWDFmQmF0M2JW")


def test_scope_and_the_secret_in_the_body() -> None:
    which = credential(scope="a.read b.write", client_auth="body")
    assert token_request(which).body == b"grant_type=client_credentials&scope=a.read+b.write"
    assert inject_token(which, Secret(b"p w&=+")).headers == ()
    assert form(which, b"p w&=+") == {
        "grant_type": ["client_credentials"],
        "scope": ["a.read b.write"],
        "client_id": ["agent-4711"],
        "client_secret": ["p w&=+"],
    }


def test_both_halves_are_form_encoded_before_base64() -> None:
    assert user_and_password(credential(client_id="a:b c"), b"p:w %\n") == b"a%3Ab+c:p%3Aw+%25"


def test_a_refresh_of_a_public_client_names_it() -> None:
    which = credential(refresh=True)
    assert token_request(which).body == b"grant_type=refresh_token"
    assert inject_token(which, Secret(b"tGzv3J")).headers == ()
    assert form(which, b"tGzv3J") == {
        "grant_type": ["refresh_token"],
        "refresh_token": ["tGzv3J"],
        "client_id": ["agent-4711"],
    }


@pytest.mark.parametrize("secret", [b"tGzv3J\ngX1f", b"tGzv3J\r\ngX1f\r\n", b"tGzv3J\rgX1f"])
def test_a_refresh_of_a_confidential_client_proves_it(secret: bytes) -> None:
    which = credential(refresh=True)
    assert form(which, secret) == {"grant_type": ["refresh_token"], "refresh_token": ["tGzv3J"]}
    assert user_and_password(which, secret) == b"agent-4711:gX1f"
    made = inject_token(which, Secret(secret))
    assert made.secret == b"gX1f"
    assert b"tGzv3J" in made.whole
    in_body = form(credential(refresh=True, client_auth="body"), secret)
    assert (in_body["client_id"], in_body["client_secret"]) == (["agent-4711"], ["gX1f"])


@given(secret=st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=8, max_size=64))
def test_what_is_bound_and_recorded_holds_no_secret(secret: str) -> None:
    planted = f"planted-{secret}"
    for options in ({}, {"client_auth": "body"}, {"refresh": True}, {"refresh": True, "scope": "x"}):
        which = credential(**options)
        asked = token_request(which)
        made = inject_token(which, Secret(planted.encode()))
        assert b"planted" not in asked.body
        assert "planted" not in repr(asked) + repr(made)
        carried = b"".join(value for _, value in made.headers) + made.body
        assert carried
        parse_qs((asked.body + made.body).decode("ascii"), strict_parsing=True)


def body(**answer: Any) -> bytes:
    return json.dumps({"access_token": "2YotnFZFEjr1zCsicMWpAA", "token_type": "Bearer", **answer}).encode()


def got(content: bytes, status: int = 200) -> Token:
    token = read_token(status, (), content, NOW)
    assert isinstance(token, Token)
    return token


def fault(content: bytes, status: int = 200, *headers: tuple[str, str]) -> TokenFault:
    found = read_token(status, headers, content, NOW)
    assert isinstance(found, TokenFault)
    assert found.sentence.startswith("The token service ")
    return found


def test_a_token() -> None:
    token = got(body(expires_in=3600, refresh_token="tGzv3J"))
    assert token.value.use(bytes) == b"2YotnFZFEjr1zCsicMWpAA"
    assert token.lifetime_s == 3600.0
    assert token.refresh is not None
    assert token.refresh.use(bytes) == b"tGzv3J"
    assert "2Yotn" not in repr(token)


@pytest.mark.parametrize(
    ("answer", "lifetime_s"),
    [
        ({}, None),
        ({"expires_in": "3600"}, 3600.0),
        ({"expires_in": 0}, 0.0),
        ({"expires_in": 12.5}, 12.5),
        ({"expires_in": -1}, None),
        ({"expires_in": True}, None),
        ({"expires_in": "soon"}, None),
        ({"expires_in": None}, None),
        ({"expires_in": float("inf")}, None),
        ({"expires_in": float("nan")}, None),
        ({"token_type": "BEARER"}, None),
        ({"refresh_token": 5}, None),
        ({"refresh_token": ""}, None),
    ],
)
def test_what_is_read_leniently(answer: dict[str, Any], lifetime_s: float | None) -> None:
    token = got(body(**answer))
    assert (token.lifetime_s, token.refresh) == (lifetime_s, None)
    assert got(body(**answer), 201).lifetime_s == lifetime_s


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<html>",
        b"[]",
        b"[" * 100_000,
        b'{"access_token":"x"',
        b"\xff\xfe",
        json.dumps({"token_type": "Bearer"}).encode(),
        body(access_token=""),
        body(access_token="a b"),
        body(access_token="a\r\nX: y"),
        body(access_token="ä"),
        body(access_token=7),
        body(access_token="x" * (TOKEN_MAX + 1)),
        body(token_type="DPoP"),
        body(token_type=None),
        body(extra="x" * ANSWER_MAX),
    ],
)
def test_a_200_without_a_token_wants_a_correction(content: bytes) -> None:
    assert fault(content).retry is Retry.AFTER_CORRECTION


@pytest.mark.parametrize(
    ("status", "retry"),
    [
        (500, Retry.BACKOFF),
        (503, Retry.BACKOFF),
        (429, Retry.BACKOFF),
        (408, Retry.BACKOFF),
        (400, Retry.AFTER_CORRECTION),
        (401, Retry.AFTER_CORRECTION),
        (404, Retry.AFTER_CORRECTION),
        (302, Retry.AFTER_CORRECTION),
    ],
)
def test_other_statuses(status: int, retry: Retry) -> None:
    found = fault(body(), status)
    assert found.retry is retry
    assert str(status) in found.sentence


def test_how_long_to_wait_is_told() -> None:
    assert fault(b"", 503, ("retry-after", "17")).retry_after_s == 17.0
    assert fault(b"", 400, ("retry-after", "17")).retry_after_s is None


def test_known_errors_are_told_in_our_words_and_nothing_is_quoted() -> None:
    answer = {"error": "invalid_grant", "error_description": "planted-secret is expired"}
    found = fault(json.dumps(answer).encode(), 400)
    assert found.sentence == "The token service does not accept the refresh token any more."
    for error in ("planted-secret", 5, None, ["invalid_grant"]):
        found = fault(json.dumps({"error": error, "error_description": "planted-secret"}).encode(), 400)
        assert found.sentence == "The token service answered with status 400."


@pytest.mark.parametrize(
    ("secret", "renewed"),
    [
        (b"old", b"new"),
        (b"old\n", b"new"),
        (b"old\nclient secret", b"new\nclient secret"),
        (b"old\r\nclient secret\r\n", b"new\nclient secret"),
    ],
)
def test_the_next_secret_keeps_the_clients(secret: bytes, renewed: bytes) -> None:
    assert renewed_secret(Secret(secret), Secret(b"new")) == renewed


@pytest.mark.parametrize(
    "url",
    [
        URL,
        f"{URL}?x=y",
        f"{URL}/",
        "https://login.example.com//oauth2/token",
        "https://login.example.com/OAuth2/Token",
        "https://login.example.com/oauth2%2Ftoken",
        "https://login.example.com/oauth2%5Ctoken",
        "https://login.example.com/oauth2%252Ftoken",
        "https://login.example.com/oauth2/token;v=1",
        "https://login.example.com/oauth2/tok%65n",
        "https://login.example.com/a/../oauth2/token",
        "https://LOGIN.example.com:443/oauth2/token",
    ],
)
def test_no_spelling_of_the_token_url_gets_by(url: str) -> None:
    assert is_token_url([credential()], parse_http(url, Limits()))


@pytest.mark.parametrize(
    "url",
    [
        "https://login.example.com/oauth2/tokens",
        "https://login.example.com/oauth2",
        "https://login.example.com/oauth2/token/revoke",
        "https://login.example.com:8443/oauth2/token",
        "https://api.example.com/oauth2/token",
    ],
)
def test_other_targets_are_free(url: str) -> None:
    assert not is_token_url([credential()], parse_http(url, Limits()))


def test_other_kinds_have_no_token_url() -> None:
    bearer = checked(NewCredential("n", "bearer", (URL,)), NOW)
    assert not is_token_url([bearer], parse_http(URL, Limits()))
    with pytest.raises(ValueError, match="no token service"):
        token_request(bearer)
