"""Lines and their answers, without a socket."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from affidavit.ipc import conversation
from affidavit.ipc.conversation import Conversation
from affidavit.ipc.verdict import ConnectionLost, RetryableFailure, RpcError


def talking() -> Conversation:
    return Conversation(lambda flow: flow)


def line(*messages: Any) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


def answer(id_: int | None, result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id_, "result": result}


def test_calls_are_numbered_and_a_passphrase_goes_out_as_text() -> None:
    talk = talking()
    ids, first = talk.ask([("status", None)], batch=False)
    more, second = talk.ask([("a", {"passphrase": bytearray(b"x y")}), ("b", {})], batch=True)
    assert (list(ids), list(more)) == ([1], [2, 3])
    assert json.loads(first) == {"jsonrpc": "2.0", "id": 1, "method": "status", "params": {}}
    assert [(call["id"], call["params"]) for call in json.loads(second)] == [(2, {"passphrase": "x y"}), (3, {})]
    assert second.endswith(b"\n")
    with pytest.raises(TypeError, match="object"):
        talk.ask([("a", {"b": object()})], batch=False)


@given(st.lists(st.integers(1, 40)))
def test_lines_are_found_wherever_they_are_cut(cuts: list[int]) -> None:
    talk = talking()
    talk.ask([("a", None), ("b", None), ("c", None)], batch=True)
    data = line(answer(1, "one")) + line([answer(2, "two"), answer(3, "three")])
    found: dict[int | None, Any] = {}
    for cut in cuts:
        found |= talk.hear(data[:cut])
        data = data[cut:]
    found |= talk.hear(data)
    assert found == {1: "one", 2: "two", 3: "three"}


def test_what_nobody_waits_for_is_dropped() -> None:
    talk = talking()
    ids, _ = talk.ask([("a", None)], batch=False)
    talk.give_up(ids)
    talk.ask([("b", None)], batch=False)
    assert talk.hear(line(answer(1, "late"), answer(2, "in time"), answer(2, "twice"), answer(9, "of nobody"))) == {
        2: "in time"
    }


def test_notifications_are_told_and_are_no_answers() -> None:
    talk, heard = talking(), []
    news = line({"method": "action.changed", "params": {"a": 1}})
    assert talk.hear(news) == {}
    talk.on_notification = lambda method, params: heard.append((method, params))
    assert talk.hear(news) == {}
    assert heard == [("action.changed", {"a": 1})]


def test_failures_know_the_request_that_they_answer() -> None:
    talk = talking()
    request = {"method": "GET", "url": "https://api.example.com/"}
    talk.ask([("http.request", request), ("action.get", {"invocation_id": "act_1"})], batch=True)
    facts = {"code": "BUSY", "outcome": "not_attempted", "retry": "backoff"}
    failed = {"invocation_id": "act_1", "error": facts, "evidence": {"retry_allowed": True}}
    found = talk.hear(line([{"id": id_, "error": {"code": -32001, "data": failed}} for id_ in (1, 2)]))
    assert all(isinstance(each, RetryableFailure) for each in found.values())
    assert [each._request for each in found.values()] == [request, None]


def test_what_is_about_the_connection() -> None:
    talk = talking()
    talk.ask([("a", None)], batch=False)
    found = talk.hear(line(answer(1, "one"), {"id": None, "error": {"code": -32600, "message": "64 connections"}}))
    assert found[1] == "one"
    assert isinstance(found[None], RpcError)


def test_a_line_that_is_no_json_is_no_answer() -> None:
    talk = talking()
    talk.ask([("a", None)], batch=False)
    assert isinstance(talk.hear(b"HTTP/1.1 200 OK\r\n")[None], ConnectionLost)


def test_an_endless_line_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversation, "ANSWER_BYTES", 100)
    talk = talking()
    assert talk.hear(b"x" * 100) == {}
    assert isinstance(talk.hear(b"x")[None], ConnectionLost)
