"""The buffer and the way back from it to the approved fingerprint, whatever a credential added."""

from dataclasses import replace
from typing import Any

import pytest
from tests.broker.bounds import http_bound
from tests.broker.vault.authority import Authority

from affidavit.broker.bound import HttpBound
from affidavit.broker.inject import inject
from affidavit.broker.oauth2 import inject_token, token_request
from affidavit.broker.prepare import Prepared, prepare, recomputed
from affidavit.broker.secret import Secret
from affidavit.broker.terms import Micros
from affidavit.broker.vault.credentials import Credential, NewCredential, checked

NOW = Micros(1_796_000_000_000_000)
SECRET = b"planted-secret-4711"
CERTIFICATE, KEY = Authority("private", NOW).client("agent-host", NOW)
URL = "https://api.example.com/v1/a?b=c"
HEADERS = (("X-A", "1"), ("X-A", "2"))


def credential(kind: str, **options: Any) -> Credential:
    return checked(NewCredential("n", kind, ("https://api.example.com/**",), **options), NOW)


KINDS = {
    "bearer": credential("bearer"),
    "basic": credential("basic", username="ada"),
    "query": credential("query"),
    "sigv4": credential("sigv4", access_key="AKID", region="us-east-1", service="execute-api"),
    "s3": credential("sigv4", access_key="AKID", region="us-east-1", service="s3"),
    "oauth2": credential("oauth2", token_url="https://login.example.com/token", client_id="4711"),
    "mtls": credential("mtls", certificate=CERTIFICATE),
}


def built(which: Credential, **more: Any) -> tuple[HttpBound, Prepared]:
    more = {"method": "POST", "headers": HEADERS, "body": b"body", "has_body": True, **more}
    bound = http_bound(URL, which, **more)
    secret = KEY.encode() if which.kind == "mtls" else SECRET
    return bound, prepare(bound, inject(which, Secret(secret), bound.approved, NOW))


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_in_the_buffer_is_what_was_approved(kind: str) -> None:
    bound, prepared = built(KINDS[kind])
    assert recomputed(bound, prepared) == bound.fingerprint
    assert "planted" not in repr(prepared)


@pytest.mark.parametrize("kind", KINDS)
def test_a_changed_part_of_the_buffer_is_another_fingerprint(kind: str) -> None:
    bound, prepared = built(KINDS[kind])
    request = prepared.request
    target = request.target.replace(b"/v1/a", b"/v1/b")
    headers = tuple((n, b"9" if n == b"X-A" else v) for n, v in request.headers)
    for other in (
        replace(request, method="PUT"),
        replace(request, target=target),
        replace(request, headers=headers),
        replace(request, headers=((b"X-B", b"1"), *request.headers)),
        replace(request, body=request.body + b"x"),
    ):
        assert recomputed(bound, replace(prepared, request=other)) != bound.fingerprint


def test_the_fingerprint_names_the_method_of_injection_and_never_its_value() -> None:
    bound, _ = built(KINDS["s3"])
    other, _ = built(replace(KINDS["s3"], options=KINDS["sigv4"].options))
    assert bound.fingerprint != other.fingerprint
    again = prepare(bound, inject(KINDS["s3"], Secret(b"another secret key"), bound.approved, Micros(NOW + 1)))
    assert recomputed(bound, again) == bound.fingerprint


def test_signed_headers_go_out_last_and_the_brokers_own_are_not_signed() -> None:
    _, prepared = built(KINDS["s3"])
    names = [name.lower() for name, _ in prepared.request.headers]
    assert names[-3:] == [b"x-amz-date", b"x-amz-content-sha256", b"authorization"]
    assert {b"user-agent", b"accept", b"content-length"} < set(names)
    assert b"SignedHeaders=host;x-a;x-amz-content-sha256;x-amz-date," in prepared.request.headers[-1][1]


def test_a_client_certificate_stays_beside_the_request() -> None:
    _, prepared = built(KINDS["mtls"])
    assert prepared.client is not None
    assert prepared.injected_headers == 0
    assert b"PRIVATE" not in b"".join(v for _, v in prepared.request.headers) + prepared.request.body


@pytest.mark.parametrize("options", [{}, {"client_auth": "body"}, {"refresh": True}, {"refresh": True, "scope": "a"}])
def test_a_token_call_is_bound_without_its_secret(options: dict[str, Any]) -> None:
    which = credential("oauth2", token_url="https://login.example.com/token", client_id="4711", **options)
    asked = token_request(which)
    bound = http_bound(
        asked.target.url,
        which,
        method=asked.method,
        headers=asked.headers,
        body=asked.body,
        has_body=True,
        injection=asked.injection,
    )
    prepared = prepare(bound, inject_token(which, Secret(SECRET)))
    assert recomputed(bound, prepared) == bound.fingerprint
    length = dict(prepared.request.headers)[b"Content-Length"]
    assert length == str(len(prepared.request.body)).encode()
    assert prepared.request.body.startswith(asked.body)
    changed = replace(prepared.request, body=b"x" + prepared.request.body)
    assert recomputed(bound, replace(prepared, request=changed)) != bound.fingerprint


def test_without_a_credential_nothing_is_added() -> None:
    bound = http_bound(URL)
    prepared = prepare(bound, None)
    assert recomputed(bound, prepared) == bound.fingerprint
    assert (prepared.injected_headers, prepared.secret, prepared.whole, prepared.client) == (0, b"", (), None)
