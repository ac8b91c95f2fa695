"""The three digests: what they bind, and what they leave out (interface, 4)."""

from __future__ import annotations

import hashlib
from dataclasses import fields, replace
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from affidavit.broker.fingerprint import (
    HttpDispatch,
    HttpEffect,
    HttpRequest,
    digest,
    dispatch_fingerprint,
    effect_digest,
    request_fingerprint,
)

DISPATCH = HttpDispatch(
    method="POST",
    url="https://api.example.com/v1/refunds?expand=charge",
    headers=(("content-type", "application/json"), ("idempotency-key", "req_01J")),
    body=b'{"amount":4900}',
    credential_id="cred_1",
    credential_version=4,
    injection="header:authorization",
    contract_id="example.refunds.create",
    contract_digest="sha256:" + "5d" * 32,
    idempotency_key="req_01J",
    proxy=None,
)
REQUEST = HttpRequest(
    method="POST",
    url="https://api.example.com/v1/refunds?expand=charge",
    headers=(("content-type", "application/json"),),
    body=b'{"amount":4900}',
    credential="refunds-test",
    idempotency_key=None,
)
EFFECT = HttpEffect(
    method="POST",
    url="https://api.example.com/v1/refunds?expand=charge",
    body=b'{"amount":4900}',
    credential_id="cred_1",
)
DIGESTS: dict[str, tuple[Any, Any]] = {
    "dispatch": (dispatch_fingerprint, DISPATCH),
    "request": (request_fingerprint, REQUEST),
    "effect": (effect_digest, EFFECT),
}

BODY = hashlib.sha256(b'{"amount":4900}').hexdigest()


def sha256(document: str) -> str:
    return "sha256:" + hashlib.sha256(document.encode()).hexdigest()


def test_golden_dispatch() -> None:
    document = (
        '{"body":{"length":15,"sha256":"' + BODY + '"},'
        '"contract":{"digest":"sha256:' + "5d" * 32 + '","id":"example.refunds.create"},'
        '"credential":{"id":"cred_1","injection":"header:authorization","version":4},'
        '"digest":"dispatch",'
        '"headers":[["content-type","application/json"],["idempotency-key","req_01J"]],'
        '"idempotency_key":"req_01J","kind":"http","method":"POST","proxy":null,'
        '"url":"https://api.example.com/v1/refunds?expand=charge"}'
    )
    assert dispatch_fingerprint(DISPATCH) == sha256(document)
    assert dispatch_fingerprint(DISPATCH) == "sha256:c40f122d381bd266996591345799b54cd9e0a0d2fc7b40c48cafe1819043705b"


def test_golden_request() -> None:
    document = (
        '{"body":{"length":15,"sha256":"' + BODY + '"},"credential":"refunds-test","digest":"request",'
        '"headers":[["content-type","application/json"]],"idempotency_key":null,"kind":"http","method":"POST",'
        '"url":"https://api.example.com/v1/refunds?expand=charge"}'
    )
    assert request_fingerprint(REQUEST) == sha256(document)
    assert request_fingerprint(REQUEST) == "sha256:c3e32c7a3e45c21e26270ce9d04aee41229758e878166c363c2c8a1686b076ad"


def test_golden_effect() -> None:
    document = (
        '{"body":"' + BODY + '","credential":"cred_1","digest":"effect","kind":"http","method":"POST",'
        '"url":"https://api.example.com/v1/refunds?expand=charge"}'
    )
    assert effect_digest(EFFECT) == sha256(document)
    assert effect_digest(EFFECT) == "sha256:1db32e89aa8a18b995e06be3171f9fb876cd303193062dddd8518c6f7859ff3f"


OTHERS: dict[str, Any] = {
    "method": "PUT",
    "url": "https://api.example.com/v1/refunds",
    "headers": (("content-type", "text/plain"),),
    "body": b'{"amount":4901}',
    "credential_id": "cred_2",
    "credential_version": 5,
    "injection": "query:key",
    "contract_id": "example.other",
    "contract_digest": "sha256:" + "00" * 32,
    "idempotency_key": "req_02J",
    "proxy": "http://proxy.example:3128",
    "credential": "other",
}


@pytest.mark.parametrize(
    ("digest", "name"), [(digest, part.name) for digest, (_, value) in DIGESTS.items() for part in fields(value)]
)
def test_every_bound_value_counts(digest: str, name: str) -> None:
    function, value = DIGESTS[digest]
    assert function(replace(value, **{name: OTHERS[name]})) != function(value)


def test_none_is_not_a_text() -> None:
    for name in ("credential_id", "injection", "idempotency_key", "proxy"):
        given_none = replace(DISPATCH, **{name: None})
        assert dispatch_fingerprint(given_none) != dispatch_fingerprint(replace(DISPATCH, **{name: ""}))


def test_a_request_does_not_know_what_the_table_leaves_out() -> None:
    left_out = {"credential_version", "injection", "contract_id", "contract_digest", "proxy", "credential_id"}
    assert left_out & {part.name for part in fields(HttpRequest)} == set()
    assert {part.name for part in fields(HttpEffect)} == {"method", "url", "body", "credential_id"}


def test_the_three_never_meet() -> None:
    assert len({function(value) for function, value in DIGESTS.values()}) == 3


_NAME = st.text(st.sampled_from("abX-"), min_size=1, max_size=4)
_HEADERS = st.lists(st.tuples(_NAME, st.text(st.sampled_from("abc ,"), max_size=4)), max_size=5)


@given(_HEADERS, st.randoms())
def test_case_and_order_of_headers_do_not_count(headers: list[tuple[str, str]], random: Any) -> None:
    distinct = list({name.lower(): (name, value) for name, value in headers}.values())
    shuffled = [(name.swapcase(), value) for name, value in distinct]
    random.shuffle(shuffled)
    for function, value in (DIGESTS["dispatch"], DIGESTS["request"]):
        assert function(replace(value, headers=tuple(distinct))) == function(replace(value, headers=tuple(shuffled)))


def test_order_of_equal_names_counts() -> None:
    one = replace(REQUEST, headers=(("accept", "a"), ("accept", "b")))
    other = replace(REQUEST, headers=(("accept", "b"), ("Accept", "a")))
    assert request_fingerprint(one) != request_fingerprint(other)


@given(_HEADERS, _HEADERS)
def test_different_headers_differ(one: list[tuple[str, str]], other: list[tuple[str, str]]) -> None:
    def meant(headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
        return sorted(((name.lower(), value) for name, value in headers), key=lambda header: header[0])

    equal = request_fingerprint(replace(REQUEST, headers=tuple(one))) == request_fingerprint(
        replace(REQUEST, headers=tuple(other))
    )
    assert equal is (meant(one) == meant(other))


def test_nothing_of_the_body_is_shown() -> None:
    for _, value in DIGESTS.values():
        assert "4900" not in repr(value)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | TEXTS,
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="ascii")), inner),
)


@given(st.dictionaries(st.text(st.characters(codec="ascii")).filter(lambda name: name != "digest"), VALUES))
def test_digests_are_over_the_canonical_form(document: dict[str, Any]) -> None:
    whole = {"digest": "any", **document}
    assert digest("any", document) == "sha256:" + hashlib.sha256(rfc8785.dumps(whole)).hexdigest()
