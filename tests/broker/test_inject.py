"""What a credential adds to a request, and what redaction is told to look for."""

import base64
from typing import Any
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.broker.vault.authority import Authority

from affidavit.broker.fingerprint import HttpDispatch
from affidavit.broker.inject import Injection, inject_proxy, injected_headers, method_label, sent_as
from affidavit.broker.inject import inject as inject_into
from affidavit.broker.secret import Secret
from affidavit.broker.terms import Micros
from affidavit.broker.vault.credentials import Credential, NewCredential, checked

SECRET = b"planted-secret+/=4711"
NOW = Micros(1_440_938_160_000_000)
"""2015-08-30 12:36:00 UTC"""
DISPATCH = HttpDispatch(
    "GET", "https://api.example.com/v1/a?b=c", (("X-A", "1"),), b"", "cred_1", 1, "i", "c", "sha256:d", None
)
CERTIFICATE, KEY = Authority("private", NOW).client("agent-host", NOW)


def credential(kind: str, **options: Any) -> Credential:
    return checked(NewCredential("n", kind, ("https://api.example.com/",), **options), NOW)


def inject(which: Credential, secret: Secret) -> Injection:
    return inject_into(which, secret, DISPATCH, NOW)


BEARER = credential("bearer")
BASIC = credential("basic", username="ada")
HEADER = credential("header", header="X-Api-Key", format="token {secret}!")
QUERY = credential("query", format="api_key={secret}")
SIGV4 = credential("sigv4", access_key="AKIDEXAMPLE", region="us-east-1", service="s3")
OAUTH2 = credential("oauth2", token_url="https://login.example.com/token", client_id="4711")
MTLS = credential("mtls", certificate=CERTIFICATE)

SSH_KEY = checked(NewCredential("n", "ssh-key", ("db",)), NOW)
SSH_PASSWORD = checked(NewCredential("n", "ssh-password", ("db",)), NOW)
SSH_ANSWER = checked(NewCredential("n", "ssh-password", ("db",), interactive=True), NOW)


@pytest.mark.parametrize(
    ("which", "label", "words", "headers"),
    [
        (BEARER, "header:authorization", "Authorization header", ("authorization",)),
        (BASIC, "header:authorization", "Authorization header", ("authorization",)),
        (HEADER, "header:x-api-key", "X-Api-Key header", ("x-api-key",)),
        (QUERY, "query:api_key", "query parameter api_key", ()),
        (
            SIGV4,
            "sigv4:us-east-1/s3",
            "AWS signature for s3 in us-east-1",
            ("authorization", "x-amz-date", "x-amz-content-sha256", "x-amz-security-token"),
        ),
        (OAUTH2, "oauth2:authorization", "OAuth2 token in the Authorization header", ("authorization",)),
        (MTLS, "mtls", "TLS client certificate", ()),
    ],
)
def test_what_is_bound_needs_no_secret(which: Credential, label: str, words: str, headers: tuple[str, ...]) -> None:
    assert (method_label(which), sent_as(which), injected_headers(which)) == (label, words, headers)
    made = inject(which, Secret(SECRET))
    assert made.method == label
    assert {name.decode().lower() for name, _ in made.headers} <= set(headers)


def test_bearer() -> None:
    made = inject(BEARER, Secret(SECRET))
    assert made.headers == ((b"Authorization", b"Bearer " + SECRET),)
    assert made.query is None
    assert made.whole == (b"Bearer " + SECRET,)
    assert made.secret == SECRET


def test_basic_as_in_rfc_7617() -> None:
    made = inject(credential("basic", username="Aladdin"), Secret(b"open sesame"))
    assert made.headers == ((b"Authorization", b"Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),)
    assert made.whole == (b"Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==", b"QWxhZGRpbjpvcGVuIHNlc2FtZQ==")
    assert made.secret == b"open sesame"
    made = inject(credential("basic", username="tëst"), Secret(b"a:b"))
    assert base64.b64decode(made.headers[0][1].removeprefix(b"Basic ")) == "tëst:a:b".encode()


def test_header_with_a_format() -> None:
    made = inject(HEADER, Secret(SECRET))
    assert made.headers == ((b"X-Api-Key", b"token " + SECRET + b"!"),)
    assert made.whole == (b"token " + SECRET + b"!",)


def test_a_secret_that_looks_like_the_placeholder_is_not_filled_again() -> None:
    assert inject(BEARER, Secret(b"{secret}{secret}")).headers[0][1] == b"Bearer {secret}{secret}"


@given(secret=st.binary(min_size=1, max_size=64))
def test_a_query_value_cannot_leave_its_parameter(secret: bytes) -> None:
    made = inject(QUERY, Secret(secret))
    assert made.query is not None
    assert made.headers == ()
    name, _, encoded = made.query.partition(b"=")
    assert name == b"api_key"
    assert not set(encoded) & set(b"&=#? +;/\r\n\0")
    assert parse_qsl(made.query.decode(), encoding="latin-1") == [("api_key", secret.decode("latin-1"))]
    assert made.whole == (made.query, encoded)


def test_a_signature_proves_the_approved_request_and_the_key_stays_here() -> None:
    made = inject(SIGV4, Secret(SECRET))
    assert [name for name, _ in made.headers] == [b"X-Amz-Date", b"X-Amz-Content-Sha256", b"Authorization"]
    proof = made.headers[-1][1]
    assert proof.startswith(b"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/s3/aws4_request, ")
    assert b"SignedHeaders=host;x-a;x-amz-content-sha256;x-amz-date, " in proof
    assert made.whole == (proof, proof.rpartition(b"=")[2])
    assert made.secret == SECRET
    assert not any(SECRET in value for _, value in made.headers)


def test_a_token_goes_out_as_bearer() -> None:
    made = inject(OAUTH2, Secret(b"token-4711"))
    assert made.headers == ((b"Authorization", b"Bearer token-4711"),)
    assert (made.whole, made.secret) == ((b"Bearer token-4711",), b"token-4711")


def test_a_client_certificate_adds_nothing_to_the_request() -> None:
    made = inject(MTLS, Secret(KEY.encode()))
    assert (made.headers, made.query, made.body, made.whole, made.secret) == ((), None, b"", (), b"")
    assert made.client is not None
    assert made.client.chain == CERTIFICATE.encode()
    assert made.client.key.use(bytes) == KEY.encode()


def test_a_proxy_is_told_in_its_own_header() -> None:
    made = inject_proxy(BASIC, Secret(b"pw"))
    assert made.headers == ((b"Proxy-Authorization", b"Basic YWRhOnB3"),)
    made = inject_proxy(BEARER, Secret(SECRET))
    assert made.headers == ((b"Proxy-Authorization", b"Bearer " + SECRET),)
    assert (made.method, made.whole) == ("header:proxy-authorization", (b"Bearer " + SECRET,))
    with pytest.raises(ValueError, match="no header"):
        inject_proxy(QUERY, Secret(SECRET))


def test_an_injection_shows_and_stores_nothing() -> None:
    for which in (BEARER, BASIC, HEADER, QUERY, SIGV4, OAUTH2, MTLS):
        made = inject(which, Secret(SECRET))
        assert "planted" not in repr(made)
        assert base64.b64encode(b"ada:" + SECRET).decode() not in repr(made)
        assert "Signature" not in repr(made)


def test_the_secret_is_only_lent() -> None:
    secret = Secret(SECRET)
    inject(BEARER, secret)
    assert secret.use(bytes) == SECRET


@pytest.mark.parametrize(
    ("which", "label", "words"),
    [
        (SSH_KEY, "ssh:publickey", "SSH key"),
        (SSH_PASSWORD, "ssh:password", "SSH password"),
        (SSH_ANSWER, "ssh:keyboard-interactive", "SSH password"),
    ],
)
def test_no_http_request_carries_what_logs_in_to_hosts(which: Credential, label: str, words: str) -> None:
    assert (method_label(which), sent_as(which), injected_headers(which)) == (label, words, ())
    with pytest.raises(ValueError, match="SSH hosts"):
        inject(which, Secret(SECRET))
    with pytest.raises(ValueError, match="no header"):
        inject_proxy(which, Secret(SECRET))
