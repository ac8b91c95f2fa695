"""The key and the ids of an operation, put where the contract says (R44, R45, R63)."""

from __future__ import annotations

import re

import pytest

from affidavit.broker.contract import (
    DEFAULT_WRITE,
    Contract,
    Planted,
    carries_key,
    check_key,
    make_key,
    parse,
    plant_ids,
    plant_key,
)
from affidavit.broker.contract.model import PLACEHOLDER, Template
from affidavit.broker.limits import Limits
from affidavit.broker.refusal import Refused
from affidavit.broker.target import HttpTarget, parse_http
from affidavit.broker.terms import Code, Micros

URL = "https://api.example.com/v1/payments"
FIRST = Micros(1_796_047_927_123_456)
TOP = f'id = "a"\nsource = "s"\nchecked = 2026-11-30\n[match]\nkind = "http"\nurl = "{URL}"\n[effect]\nkind = "write"\n'


def contract(rest: str) -> Contract:
    return parse(TOP + rest, file="a.toml")


def plant(rest: str, key: str = "K-1", url: str = URL, body: bytes = b"{}", limits: Limits | None = None) -> Planted:
    terms = contract(f"[idempotency]\n{rest}").idempotency
    assert terms is not None
    limits = limits or Limits()
    headers = (("Accept", "*/*"),)
    target = parse_http(url, Limits())
    return plant_key(terms, key, headers=headers, target=target, body=body, first_asked=FIRST, limits=limits)


def refused(code: Code, field: str, rest: str, **given: object) -> str:
    with pytest.raises(Refused) as caught:
        plant(rest, **given)  # type: ignore[arg-type]
    assert (caught.value.code, caught.value.field) == (code, field)
    return caught.value.message


@pytest.mark.parametrize(("length", "made"), [(255, 36), (36, 36), (35, 32), (32, 32), (16, 16)])
def test_a_key_is_as_long_as_it_may_be(length: int, made: int) -> None:
    terms = contract(f'[idempotency]\nheader = "K"\nmax_length = {length}\n').idempotency
    assert terms is not None
    key = make_key(terms, lambda count: bytes(range(count)))
    assert len(key) == made
    assert re.fullmatch("[0-9a-f-]+", key)
    assert key != make_key(terms, lambda count: bytes(count))


def test_in_a_header() -> None:
    planted = plant('header = "Idempotency-Key"')
    assert planted.headers == (("Accept", "*/*"), ("Idempotency-Key", "K-1"))
    assert (planted.target.url, planted.body) == (URL, b"{}")


def test_quoted() -> None:
    assert plant('header = "K"\nquoted = true').headers[-1] == ("K", '"K-1"')
    assert plant('header = "K"\nquoted = true', key='a"b\\c').headers[-1] == ("K", '"a\\"b\\\\c"')


@pytest.mark.parametrize(
    ("rest", "body"),
    [
        ('header = "Idempotency-Key"', b"{}"),
        ('header = "K"\nquoted = true', b"{}"),
        ('query = "requestId"', b"{}"),
        ('body_field = "/meta/key"', b'{"meta":{}}'),
    ],
)
def test_a_planted_key_is_found_again_and_no_other(rest: str, body: bytes) -> None:
    terms = contract(f"[idempotency]\n{rest}").idempotency
    assert terms is not None
    planted = plant(rest, body=body)
    headers = tuple((name.lower(), value) for name, value in planted.headers)
    request = {"headers": headers, "target": planted.target, "body": planted.body}
    assert carries_key(terms, "K-1", **request)  # type: ignore[arg-type]
    assert not carries_key(terms, "K-2", **request)  # type: ignore[arg-type]
    bare = {"headers": (), "target": parse_http(URL, Limits()), "body": b"no JSON"}
    assert not carries_key(terms, "K-1", **bare)  # type: ignore[arg-type]


def test_companions_carry_the_first_time() -> None:
    planted = plant('header = "K"\ncompanions = ["header:Repeatability-First-Sent"]')
    assert planted.headers[1:] == (("K", "K-1"), ("Repeatability-First-Sent", "Mon, 30 Nov 2026 14:12:07 GMT"))


def test_in_the_body() -> None:
    planted = plant('body_field = "/meta/key"', body=b'{"amount": 1.50}')
    assert planted.body == b'{"amount":1.50,"meta":{"key":"K-1"}}'
    assert planted.headers == (("Accept", "*/*"),)
    assert plant('body_field = "/meta/key"', body=planted.body).body == planted.body


@pytest.mark.parametrize("body", [b"", b"a=b", b'{"a":1,"a":2}'])
def test_a_body_that_is_no_json(body: bytes) -> None:
    assert "must be JSON" in refused(Code.INVALID_REQUEST, "body", 'body_field = "/key"', body=body)


def test_a_body_with_another_value_there() -> None:
    said = refused(Code.INVALID_REQUEST, "body", 'body_field = "/key"', body=b'{"key":"mine"}')
    assert "holds another value" in said


def test_a_body_that_grows_too_long() -> None:
    limits = Limits(body=12)
    assert plant('body_field = "/k"', body=b"{}", limits=limits).body == b'{"k":"K-1"}'
    refused(Code.PAYLOAD_LIMIT, "body", 'body_field = "/kkk"', body=b"{}", limits=limits)


@pytest.mark.parametrize(
    ("given", "planted"),
    [
        (URL, URL + "?request%20id=K%2F1"),
        (URL + "?", URL + "?request%20id=K%2F1"),
        (URL + "?a=1", URL + "?a=1&request%20id=K%2F1"),
    ],
)
def test_in_the_query(given: str, planted: str) -> None:
    assert plant('query = "request id"', key="K/1", url=given).target.url == planted


def test_a_query_that_has_it_already() -> None:
    refused(Code.INVALID_REQUEST, "url", 'query = "id"', url=URL + "?%69d=2")
    refused(Code.PAYLOAD_LIMIT, "url", 'query = "id"', limits=Limits(url=len(URL)))


def test_keys_of_callers() -> None:
    keyed = contract('[idempotency]\nheader = "K"\nmax_length = 16\n')
    check_key(None, DEFAULT_WRITE)
    check_key("x" * 16, keyed)
    for key, given, code in (
        ("x", DEFAULT_WRITE, Code.NO_IDEMPOTENCY_CONTRACT),
        ("x" * 17, keyed, Code.INVALID_REQUEST),
    ):
        with pytest.raises(Refused) as caught:
            check_key(key, given)
        assert (caught.value.code, caught.value.field) == (code, "idempotency_key")


def ids(rest: str, body: bytes = b"{}", correlation_id: str | None = "run_42") -> tuple[object, bytes]:
    terms = contract(f"[correlation]\n{rest}").correlation
    assert terms is not None
    headers = (("X-Given", "1"),)
    return plant_ids(terms, "op_7d5d", correlation_id, headers=headers, body=body, limits=Limits())


def test_ids() -> None:
    assert ids('header = "X-Correlation-ID"') == ((("X-Given", "1"), ("X-Correlation-ID", "run_42")), b"{}")
    assert ids('header = "X-Correlation-ID"', correlation_id=None) == ((("X-Given", "1"),), b"{}")
    assert ids('operation = "/metadata/op"') == ((("X-Given", "1"),), b'{"metadata":{"op":"op_7d5d"}}')
    assert ids('operation = "header:X-Op"', body=b"") == ((("X-Given", "1"), ("X-Op", "op_7d5d")), b"")


def test_ids_do_not_overrule_the_agent() -> None:
    with pytest.raises(Refused) as caught:
        ids('operation = "header:x-given"')
    assert (caught.value.code, caught.value.field) == (Code.INVALID_REQUEST, "headers.x-given")
    with pytest.raises(Refused, match="operation id has no place"):
        ids('operation = "/op"', body=b'{"op":"mine"}')


ASKED = parse_http("https://api.example.com:444/v1/apps/my%20%2Fweb&x=1/machines?a=b", Limits())


def filled(text: str, asked: HttpTarget = ASKED, **values: str) -> str | None:
    template = Template(text, tuple(PLACEHOLDER.findall(text)))
    return template.fill_url({name.replace("result_", "result:/"): value for name, value in values.items()}, asked)


def test_a_look_up_is_filled_in_as_values() -> None:
    text = "https://h.example/{operation_id}?k={idempotency_key}"
    url = filled(text, operation_id="a/b:c", idempotency_key="k&{operation_id}")
    assert url == "https://h.example/a%2Fb%3Ac?k=k%26%7Boperation_id%7D"
    assert filled(text, operation_id="a") is None


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("/{path}", "https://api.example.com:444/v1/apps/my%20%2Fweb&x=1/machines"),
        ("/{path}/{result:/id}", "https://api.example.com:444/v1/apps/my%20%2Fweb&x=1/machines/7"),
        ("/v2/{path:3}/x", "https://api.example.com:444/v2/my%20%2Fweb%26x%3D1/x"),
        ("/v2?app={path:3}", "https://api.example.com:444/v2?app=my%20%2Fweb%26x%3D1"),
        ("/v2/{path:1}{path:2}", "https://api.example.com:444/v2/v1apps"),
        ("/v2/{path:5}", None),
        ("/v2/{result:/other}", None),
    ],
)
def test_a_url_takes_parts_of_the_actions_own_path(text: str, url: str | None) -> None:
    assert filled(text, result_id="7") == url


@pytest.mark.parametrize("value", ["", ".", "..", "\ud800"])
def test_what_cannot_stand_in_a_url_fills_none(value: str) -> None:
    """A dot segment would climb, an empty one would ask for the list."""
    assert filled("/v1/jobs/{result:/id}", result_id=value) is None
    assert filled("https://api.example.com/v1/jobs/{result:/id}/state", result_id=value) is None


def test_two_values_that_make_a_dot_segment_together() -> None:
    assert filled("/v1/{result:/a}{result:/b}", result_a=".", result_b=".") is None
    assert filled("/v1/x{result:/a}", result_a="..") == "https://api.example.com:444/v1/x.."


def test_a_value_stays_what_it_is() -> None:
    assert filled("/j/{result:/id}", result_id="../?a=b#c{path}%2e") == (
        "https://api.example.com:444/j/..%2F%3Fa%3Db%23c%7Bpath%7D%252e"
    )
    assert filled("/{path:1}", parse_http("https://api.example.com", Limits())) is None
