"""What a credential adds to a request, and what redaction is told to look for."""

import base64
import traceback
from dataclasses import replace
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affidavit.broker.inject import inject, injected_header, method_label, sent_as
from affidavit.broker.secret import Secret
from affidavit.broker.terms import Micros
from affidavit.broker.vault.credentials import Credential, NewCredential, checked

SECRET = b"planted-secret+/=4711"


def credential(
    kind: str, header: str | None = None, template: str | None = None, user: str | None = None
) -> Credential:
    new = NewCredential("n", kind, ("https://api.example.com/",), header=header, format=template, username=user)
    return checked(new, Micros(0))


BEARER = credential("bearer")
BASIC = credential("basic", user="ada")
HEADER = credential("header", "X-Api-Key", "token {secret}!")
QUERY = credential("query", template="api_key={secret}")


@pytest.mark.parametrize(
    ("which", "label", "words", "header"),
    [
        (BEARER, "header:authorization", "Authorization header", "authorization"),
        (BASIC, "header:authorization", "Authorization header", "authorization"),
        (HEADER, "header:x-api-key", "X-Api-Key header", "x-api-key"),
        (QUERY, "query:api_key", "query parameter api_key", None),
    ],
)
def test_what_is_bound_needs_no_secret(which: Credential, label: str, words: str, header: str | None) -> None:
    assert (method_label(which), sent_as(which), injected_header(which)) == (label, words, header)
    assert inject(which, Secret(SECRET)).method == label


def test_bearer() -> None:
    made = inject(BEARER, Secret(SECRET))
    assert made.headers == ((b"Authorization", b"Bearer " + SECRET),)
    assert made.query is None
    assert made.whole == (b"Bearer " + SECRET,)
    assert made.secret == SECRET


def test_basic_as_in_rfc_7617() -> None:
    made = inject(credential("basic", user="Aladdin"), Secret(b"open sesame"))
    assert made.headers == ((b"Authorization", b"Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="),)
    assert made.whole == (b"Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==", b"QWxhZGRpbjpvcGVuIHNlc2FtZQ==")
    assert made.secret == b"open sesame"
    made = inject(credential("basic", user="tëst"), Secret(b"a:b"))
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


def test_an_injection_shows_and_stores_nothing() -> None:
    for which in (BEARER, BASIC, HEADER, QUERY):
        made = inject(which, Secret(SECRET))
        assert "planted" not in repr(made)
        assert base64.b64encode(b"ada:" + SECRET).decode() not in repr(made)


def test_the_secret_is_only_lent() -> None:
    secret = Secret(SECRET)
    inject(BEARER, secret)
    assert secret.use(bytes) == SECRET


def test_a_credential_without_its_header_is_a_defect_that_shows_nothing() -> None:
    with pytest.raises(ValueError, match="no header") as caught:
        inject(replace(BEARER, header=None), Secret(SECRET))
    assert "planted" not in "".join(traceback.format_exception(caught.value))
