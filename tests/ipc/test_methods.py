"""The method table agrees with the functions that answer it, and with the limits it repeats."""

from __future__ import annotations

import inspect

import pytest

from affidavit.broker.api import AgentApi
from affidavit.broker.limits import Limits
from affidavit.broker.terms import Outcome
from affidavit.ipc import methods, params
from affidavit.ipc.methods import AGENT, METHODS, OPERATOR, Method, Param
from affidavit.ipc.operator_calls import OperatorCalls


def names(method: Method) -> set[str]:
    return {param.name.removesuffix("_base64") if param.type == "secret" else param.name for param in method.params}


@pytest.mark.parametrize("method", AGENT, ids=lambda method: method.name)
def test_agent_handlers_take_what_the_table_says(method: Method) -> None:
    handler = inspect.signature(getattr(AgentApi, method.handler))
    if method.raw or method.handler == "hello":
        return
    takes = {name for name, param in handler.parameters.items() if param.kind is param.KEYWORD_ONLY}
    assert takes == names(method)


@pytest.mark.parametrize("method", OPERATOR, ids=lambda method: method.name)
def test_operator_handlers_take_what_the_table_says(method: Method) -> None:
    parameters = inspect.signature(getattr(OperatorCalls, method.handler)).parameters.values()
    takes = {param.name for param in parameters if param.kind is param.KEYWORD_ONLY}
    if any(param.kind is param.VAR_KEYWORD for param in parameters):
        assert takes <= names(method)
    else:
        assert takes == names(method)


def test_no_operator_method_is_on_the_agent_socket() -> None:
    shared = METHODS["agent"].keys() & METHODS["operator"].keys()
    assert shared == {"status", "action.get", "action.list", "credential.list", "contract.list"}
    assert not any(p.type in ("passphrase", "secret") for method in AGENT for p in method.params)


def test_what_loosens_takes_the_passphrase() -> None:
    free = {
        method.name for method in OPERATOR if method.acting and not any(p.type == "passphrase" for p in method.params)
    }
    assert free == {"app.raise", "vault.lock", "approval.deny"}


def test_words_and_limits_are_the_brokers() -> None:
    assert tuple(outcome.value for outcome in Outcome) == tuple(sorted(methods.OUTCOMES, key=list(Outcome).index))  # type: ignore[arg-type]
    assert Limits().wait_max_s == methods.WAIT_MAX_S


def test_every_name_is_there_once() -> None:
    for table, listed in ((METHODS["agent"], AGENT), (METHODS["operator"], OPERATOR)):
        assert len(table) == len(listed)


READ = Method(
    "m",
    "agent",
    "",
    (
        Param("s", "string", "", required=True, least=1, most=3),
        Param("i", "integer", "", default=5, least=0, most=9),
        Param("n", "number", ""),
        Param("b", "boolean", "", default=False),
        Param("c", "string", "", choices=("x", "y")),
        Param("l", "strings", "", most=2),
        Param("f", "files", ""),
        Param("p", "passphrase", ""),
        Param("k_base64", "secret", "", most=4),
    ),
    "",
    "",
)


def test_defaults_are_filled_in() -> None:
    assert params.read(READ, {"s": "a"}) == {
        "s": "a", "i": 5, "n": None, "b": False, "c": None, "l": None, "f": None, "p": None, "k": None,
    }  # fmt: skip


def test_values_come_in_the_handlers_form() -> None:
    given = {"s": "a", "l": ["x"], "f": [{"file": "a", "text": "b"}], "p": "pass", "k_base64": "AAE=", "n": 1.5}
    read = params.read(READ, given)
    assert (read["l"], read["f"], read["p"], read["k"]) == (
        ("x",),
        (("a", "b"),),
        bytearray(b"pass"),
        bytearray(b"\0\1"),
    )
    assert "p" not in given  # taken out, so that nothing else holds it
    assert "k_base64" not in given


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ([], "params"),
        ({}, "s"),
        ({"s": None}, "s"),
        ({"s": ""}, "s"),
        ({"s": "long"}, "s"),
        ({"s": 5}, "s"),
        ({"s": "a", "z": 1}, "z"),
        ({"s": "a", "i": True}, "i"),
        ({"s": "a", "i": 1.0}, "i"),
        ({"s": "a", "i": 10}, "i"),
        ({"s": "a", "n": "1"}, "n"),
        ({"s": "a", "b": 1}, "b"),
        ({"s": "a", "c": "z"}, "c"),
        ({"s": "a", "l": ["x", "y", "z"]}, "l"),
        ({"s": "a", "l": [1]}, "l"),
        ({"s": "a", "f": [{"file": "a"}]}, "f"),
        ({"s": "a", "f": [{"file": "a", "text": 1}]}, "f"),
        ({"s": "a", "p": b"x"}, "p"),
        ({"s": "a", "p": "\ud800"}, "p"),
        ({"s": "a", "k_base64": "?"}, "k_base64"),
        ({"s": "a", "k_base64": "\xe9"}, "k_base64"),
        ({"s": "a", "k_base64": "AAECAwQ="}, "k_base64"),
    ],
)
def test_wrong_params_name_their_field(given: object, field: str) -> None:
    with pytest.raises(params.BadParam) as refused:
        params.read(READ, given)  # type: ignore[arg-type]
    assert refused.value.field == field


def test_exactly_one_of() -> None:
    method = METHODS["agent"]["action.get"]
    assert params.read(method, {"operation_id": "op_1"})["invocation_id"] is None
    for wrong in ({}, {"operation_id": "op_1", "invocation_id": "act_1"}):
        with pytest.raises(params.BadParam):
            params.read(method, wrong)
