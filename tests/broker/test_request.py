"""The params of `http.request`: what is taken, and which check refuses first (interface, 3; verdicts, 1)."""

from __future__ import annotations

import base64
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affidavit.broker.contract import DEFAULT_READ, DEFAULT_WRITE, parse
from affidavit.broker.limits import Limits
from affidavit.broker.refusal import Refused
from affidavit.broker.request import (
    BodyGiven,
    HttpAsk,
    check_headers,
    check_method,
    parse_http_request,
)
from affidavit.broker.terms import Code

LIMITS = Limits()
URL = "https://api.example.com/v1/payments"
ACT = "act_01J9ZK3V5N8Q2R4T6W8Y0A1B2C"


def ask(**params: Any) -> HttpAsk:
    return parse_http_request({"method": "POST", "url": URL, **params}, LIMITS)


def refused(**params: Any) -> tuple[Code, str | None]:
    with pytest.raises(Refused) as caught:
        ask(**params)
    return caught.value.code, caught.value.field


def test_the_least() -> None:
    least = parse_http_request({"method": "GET", "url": URL}, LIMITS)
    assert (least.method, least.target.url, least.headers, least.body) == ("GET", URL, (), b"")
    assert least.body_given is BodyGiven.NONE
    assert (least.deadline_s, least.wait_s) == (None, 45.0)
    assert (least.credential, least.operation_id, least.read_for, least.reason) == (None, None, None, None)


def test_everything() -> None:
    full = ask(
        headers={"X-A": " 1 ", "Content-Type": "text/csv"},
        body="é",
        credential="refunds-test",
        operation_id="op_7d5d:4.x-1",
        correlation_id="run_42",
        idempotency_key="req-01J",
        deadline_s=2,
        wait_s=0,
        reason="Order 1187\ncame back",
        read_for="decides_write",
        acknowledge_unresolved=ACT,
    )
    assert full.headers == (("x-a", "X-A", "1"), ("content-type", "Content-Type", "text/csv"))
    assert full.header_pairs == (("x-a", "1"), ("content-type", "text/csv"))
    assert (full.header("content-type"), full.header("x-none")) == ("text/csv", None)
    assert (full.body, full.body_given) == ("é".encode(), BodyGiven.TEXT)
    assert (full.deadline_s, full.wait_s) == (2.0, 0.0)
    assert (full.credential, full.operation_id, full.correlation_id) == ("refunds-test", "op_7d5d:4.x-1", "run_42")
    assert (full.idempotency_key, full.read_for, full.acknowledge_unresolved) == ("req-01J", "decides_write", ACT)


def test_null_is_absent() -> None:
    assert ask(body=None, json=None, credential=None, wait_s=None, headers=None) == ask()


def test_json_is_canonical_and_typed() -> None:
    made = ask(json={"b": 1.0, "a": "é", "c": [True, None]})
    assert made.body == '{"a":"é","b":1,"c":[true,null]}'.encode()
    assert made.headers == (("content-type", "Content-Type", "application/json"),)
    typed = ask(json=[], headers={"content-TYPE": "application/vnd.x+json"})
    assert (typed.body, typed.header("content-type")) == (b"[]", "application/vnd.x+json")
    assert [ask(json=falsy).body for falsy in (0, False, "", {})] == [b"0", b"false", b'""', b"{}"]


def test_base64_body() -> None:
    assert ask(body_base64=base64.b64encode(b"\xff\0").decode()).body == b"\xff\0"


def test_repeated_headers_keep_their_order() -> None:
    twice = ask(headers=[["Accept", "a"], ["X", "1"], ["accept", "b"]])
    assert twice.header_pairs == (("accept", "a"), ("x", "1"), ("accept", "b"))
    assert twice.header("accept") == "a, b"


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"method": None}, "method"),
        ({"method": ""}, "method"),
        ({"method": 1}, "method"),
        ({"url": None}, "url"),
        ({"url": 1}, "url"),
        ({"bodi": "x"}, "bodi"),
        ({"": "x"}, "params"),
        ({"body": 1}, "body"),
        ({"body": "\ud800"}, "body"),
        ({"body_base64": "%%"}, "body_base64"),
        ({"body_base64": "YQ"}, "body_base64"),
        ({"body_base64": "Y Q=="}, "body_base64"),
        ({"body_base64": "é"}, "body_base64"),
        ({"body": "x", "json": 1}, "json"),
        ({"body": "x", "body_base64": "eA=="}, "body_base64"),
        ({"json": {"a": [1, math.nan]}}, "json.a[1]"),
        ({"json": {"a": {"b": math.inf}}}, "json.a.b"),
        ({"json": {"amount": 2**53}}, "json.amount"),
        ({"json": {"a": "\ud800"}}, "json.a"),
        ({"json": {"a": {"\ud800": 1}}}, "json.a"),
        ({"headers": "X: 1"}, "headers"),
        ({"headers": [["X"]]}, "headers"),
        ({"headers": [["X", "1", "2"]]}, "headers"),
        ({"headers": {"": "1"}}, "headers"),
        ({"headers": [[1, "1"]]}, "headers"),
        ({"headers": {"X": 1}}, "headers.X"),
        ({"headers": {"X Y": "1"}}, "headers.X Y"),
        ({"headers": {"X:": "1"}}, "headers.X:"),
        ({"headers": {"X": "é"}}, "headers.X"),
        ({"headers": {"X": "\x01"}}, "headers.X"),
        ({"headers": {"X-A": "1", "x-a": "2"}}, "headers.x-a"),
        ({"headers": [["Content-Type", "a"], ["content-type", "b"]]}, "headers.content-type"),
        ({"credential": ""}, "credential"),
        ({"credential": "x" * 129}, "credential"),
        ({"operation_id": ""}, "operation_id"),
        ({"operation_id": "a b"}, "operation_id"),
        ({"operation_id": "x" * 129}, "operation_id"),
        ({"operation_id": "op\n"}, "operation_id"),
        ({"correlation_id": "é"}, "correlation_id"),
        ({"idempotency_key": ""}, "idempotency_key"),
        ({"idempotency_key": "a b"}, "idempotency_key"),
        ({"idempotency_key": "x" * 256}, "idempotency_key"),
        ({"deadline_s": 0.09}, "deadline_s"),
        ({"deadline_s": 3601}, "deadline_s"),
        ({"deadline_s": True}, "deadline_s"),
        ({"deadline_s": "30"}, "deadline_s"),
        ({"deadline_s": math.nan}, "deadline_s"),
        ({"wait_s": -1}, "wait_s"),
        ({"wait_s": 600.1}, "wait_s"),
        ({"reason": 1}, "reason"),
        ({"reason": "\udc00"}, "reason"),
        ({"read_for": "fun"}, "read_for"),
        ({"acknowledge_unresolved": True}, "acknowledge_unresolved"),
        ({"acknowledge_unresolved": "act_1"}, "acknowledge_unresolved"),
    ],
)
def test_wrong_shape(params: dict[str, Any], field: str) -> None:
    assert refused(**params) == (Code.INVALID_REQUEST, field)


def test_params_that_are_no_object() -> None:
    with pytest.raises(Refused) as caught:
        parse_http_request([], LIMITS)  # type: ignore[arg-type]
    assert (caught.value.code, caught.value.field) == (Code.INVALID_REQUEST, "params")


def test_json_without_end() -> None:
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    assert refused(json=deep) == (Code.INVALID_REQUEST, "json")


@pytest.mark.parametrize("method", ["CONNECT", "TRACE", "get", "GE T", "GET\r\n", "\u0394"])
def test_methods_that_are_never_sent(method: str) -> None:
    assert refused(method=method) == (Code.UNSUPPORTED_ACTION, "method")


@pytest.mark.parametrize(
    "name",
    [
        "Authorization",
        "AUTHORIZATION",
        "Proxy-Authorization",
        "proxy-anything",
        "Cookie",
        "Host",
        "Content-Length",
        "Transfer-Encoding",
        "Connection",
        "Upgrade",
        "Expect",
        "TE",
    ],
)
def test_reserved_headers(name: str) -> None:
    for headers in ({name: "x"}, [[name, "x"]]):
        assert refused(headers=headers) == (Code.HEADER_FORBIDDEN, f"headers.{name}")


@pytest.mark.parametrize("value", ["a\r\nHost: evil", "a\n", "\r", "a\0b"])
def test_line_breaks_in_headers(value: str) -> None:
    assert refused(headers={"X-A": value}) == (Code.HEADER_FORBIDDEN, "headers.X-A")
    assert refused(headers={f"X{value}": "1"}) == (Code.HEADER_FORBIDDEN, f"headers.X{value}")


@pytest.mark.parametrize(
    ("params", "code", "field"),
    [
        ({"url": "https://u@api.example.com/"}, Code.INVALID_TARGET, "url"),
        ({"url": "/v1"}, Code.INVALID_TARGET, "url"),
        ({"url": ""}, Code.INVALID_TARGET, "url"),
        ({"url": "https://a\ud800/"}, Code.INVALID_TARGET, "url"),
        ({"url": "https://169.254.169.254/"}, Code.TARGET_BLOCKED, "url"),
        ({"url": "http://8.8.8.8/"}, Code.TARGET_BLOCKED, "url"),
        ({"url": "https://h.example/" + "a" * 8192}, Code.PAYLOAD_LIMIT, "url"),
        ({"body": "x" * (8 * 1024 * 1024 + 1)}, Code.PAYLOAD_LIMIT, "body"),
        ({"headers": {"X": "x" * 65536}}, Code.PAYLOAD_LIMIT, "headers"),
        ({"reason": "x" * 501}, Code.PAYLOAD_LIMIT, "reason"),
    ],
)
def test_target_and_sizes(params: dict[str, Any], code: Code, field: str) -> None:
    assert refused(**params) == (code, field)


def test_limits_are_reached_exactly() -> None:
    tight = Limits(body=4, reason_chars=3, request_head=120)
    base = {"method": "POST", "url": URL}
    head = len(f"POST /v1/payments HTTP/1.1\r\nHost: api.example.com\r\nX: {'x'}\r\n\r\n")
    at_limit = {**base, "json": 1234, "reason": "abc"}
    parse_http_request({**base, "body": "1234", "reason": "abc", "headers": {"X": "x" * (121 - head)}}, tight)
    for more in ({"body": "12345"}, {"reason": "abcd"}, {"headers": {"X": "x" * (122 - head)}}):
        with pytest.raises(Refused) as caught:
            parse_http_request({**base, **more}, tight)
        assert caught.value.code is Code.PAYLOAD_LIMIT
    assert parse_http_request(at_limit, tight).body == b"1234"


def test_the_order_of_checks() -> None:
    """Shape, then the target, then sizes: each fault hides those behind it."""
    faults: list[tuple[dict[str, Any], Code]] = [
        ({"bodi": 1}, Code.INVALID_REQUEST),
        ({"method": "CONNECT"}, Code.UNSUPPORTED_ACTION),
        ({"headers": {"Host": "x"}}, Code.HEADER_FORBIDDEN),
        ({"operation_id": "a b"}, Code.INVALID_REQUEST),
        ({"url": "https://h.example/../x"}, Code.INVALID_TARGET),
        ({"reason": "x" * 501}, Code.PAYLOAD_LIMIT),
    ]
    for at, (_, code) in enumerate(faults):
        together = {name: value for params, _ in faults[at:] for name, value in params.items()}
        assert refused(**together)[0] is code


def test_a_credential_is_never_echoed() -> None:
    secret = "sk_live_" + "x" * 200
    with pytest.raises(Refused) as caught:
        ask(credential=secret)
    assert "sk_live" not in str(caught.value.refusal)
    assert "refunds-test" not in repr(ask(credential="refunds-test"))
    assert "topsecretbody" not in repr(ask(body="topsecretbody"))


PURGE = """
id = "example.purge"
[match]
kind = "http"
method = ["PURGE"]
url = "https://api.example.com/**"
[effect]
kind = "write"
"""


def test_unusual_methods_need_a_contract_that_names_them() -> None:
    purge = ask(method="PURGE")
    check_method(purge, parse(PURGE, file="purge.toml"))
    for contract in (DEFAULT_WRITE, parse(PURGE.replace('method = ["PURGE"]', ""), file="purge.toml")):
        with pytest.raises(Refused) as caught:
            check_method(purge, contract)
        assert (caught.value.code, caught.value.field) == (Code.UNSUPPORTED_ACTION, "method")
    for method in ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"):
        check_method(ask(method=method), DEFAULT_READ)


def test_headers_of_credential_and_contract() -> None:
    both = ask(headers={"X-Api-Key": "1", "idempotency-key": "2"})
    check_headers(both, [], None)
    with pytest.raises(Refused, match="credential") as caught:
        check_headers(both, ["x-api-KEY"], "Other")
    assert (caught.value.code, caught.value.field) == (Code.HEADER_FORBIDDEN, "headers.X-Api-Key")
    with pytest.raises(Refused, match="idempotency_key") as caught:
        check_headers(both, ["Authorization"], "Idempotency-Key")
    assert (caught.value.code, caught.value.field) == (Code.HEADER_FORBIDDEN, "headers.idempotency-key")


_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.dictionaries(
        st.sampled_from(
            [
                *("method", "url", "headers", "body", "body_base64", "json", "credential", "operation_id"),
                *("idempotency_key", "deadline_s", "wait_s", "reason", "read_for", "acknowledge_unresolved", "x"),
            ]
        ),
        _JSON,
    )
)
def test_whatever_comes_is_an_ask_or_refused(params: dict[str, Any]) -> None:
    for given_params in (params, {"method": "POST", "url": URL} | params):
        try:
            parse_http_request(given_params, LIMITS)
        except Refused as stopped:
            refusal = stopped.refusal
        else:
            continue
        assert refusal.field
        assert refusal.message
