"""The asyncio client against the real server; where both clients promise the same, both are asked."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from scripted_ipc import Doors, envelope

from affidavit.broker.api import ActionError
from affidavit.ipc import conversation
from affidavit.ipc.client import (
    ActionFailed,
    AsyncClient,
    Client,
    ClientError,
    ConnectionLost,
    NoAnswer,
    NotReachable,
    Retryable,
    RpcError,
    Unresolved,
)

REQUEST = {"method": "GET", "url": "https://api.example.com/"}


def environ(doors: Doors) -> dict[str, str]:
    return {"AFFIDAVIT_SOCKET": str(doors.directory / "agent.sock")}


@pytest.fixture
async def client(doors: Doors) -> AsyncIterator[AsyncClient]:
    async with await AsyncClient.agent(environ(doors), timeout_s=20) as made:
        yield made


Do = Callable[[Callable[[], Any]], Awaitable[Any]]
"""Play a step of either client: the blocking one in a thread."""


@pytest.fixture(params=["Client", "AsyncClient"])
async def either(request: pytest.FixtureRequest, doors: Doors) -> AsyncIterator[tuple[Any, Do]]:
    async def awaited(step: Callable[[], Any]) -> Any:
        return await step()

    if request.param == "Client":
        with Client.agent(environ(doors), timeout_s=20) as blocking:
            yield blocking, asyncio.to_thread
    else:
        async with await AsyncClient.agent(environ(doors), timeout_s=20) as made:
            yield made, awaited


def ends(doors: Doors, *replies: dict[str, Any]) -> list[tuple[str, Any]]:
    """Have the broker answer with these in order; what it was asked is noted in the list returned."""
    left, asked = list(replies), []

    def reply(method: str, params: Any) -> dict[str, Any]:
        asked.append((method, {name: value for name, value in params.items() if value is not None}))
        found = left.pop(0)
        if "error" in found:
            raise ActionError(found)
        return found

    doors.broker.reply = reply
    return asked


def unknown(retry: str, **evidence: Any) -> dict[str, Any]:
    facts = {"code": "REMOTE_OUTCOME_UNKNOWN", "phase": "remote_execution", "outcome": "unknown", "retry": retry}
    return envelope("act_1", "error", **facts) | {"evidence": evidence}


DONE = envelope("act_2", outcome="committed", retry="never")


async def test_an_action_is_waited_for(doors: Doors, either: tuple[Any, Do]) -> None:
    client, do = either
    asked = ends(doors, envelope("act_1", "pending"), envelope("act_1", "pending"), DONE)
    verdict = await do(lambda: client.act("http.request", REQUEST))
    assert verdict.envelope == DONE
    assert [method for method, _ in asked] == ["http.request", "action.wait", "action.wait"]
    assert asked[1][1]["invocation_id"] == "act_1"
    assert asked[0][1]["operation_id"].startswith("op_")


async def test_the_callers_own_operation_id_is_kept(doors: Doors, either: tuple[Any, Do]) -> None:
    client, do = either
    asked = ends(doors, DONE)
    await do(lambda: client.act("http.request", {**REQUEST, "operation_id": "invoice-118"}))
    assert asked == [("http.request", {**REQUEST, "operation_id": "invoice-118"})]


async def test_a_safe_repeat_and_its_verdict(doors: Doors, either: tuple[Any, Do]) -> None:
    client, do = either
    asked = ends(doors, unknown("same_idempotency_key", retry_allowed=True), envelope("act_2", "pending"), DONE)
    with pytest.raises(ActionFailed) as failed:
        await do(lambda: client.act("http.request", REQUEST))
    assert isinstance(failed.value, Retryable)
    assert failed.value.operation_id == "op_1"
    assert (await do(failed.value.retry)).envelope == DONE
    assert [method for method, _ in asked] == ["http.request", "action.retry", "action.wait"]
    assert asked[1][1] == {"invocation_id": "act_1", "unsafe": False}


async def test_a_repeat_that_another_is_at_work_on_is_waited_for(doors: Doors, either: tuple[Any, Do]) -> None:
    client, do = either
    lost = unknown("fetch_result", refers_to="act_2", retry_allowed=False)
    lost["error"]["code"] = "LEASE_LOST"
    asked = ends(doors, unknown("backoff", retry_allowed=True), lost, DONE)
    with pytest.raises(ActionFailed) as failed:
        await do(lambda: client.act("http.request", REQUEST))
    assert isinstance(failed.value, Retryable)
    assert (await do(failed.value.retry)).envelope == DONE
    assert (asked[-1][0], asked[-1][1]["invocation_id"]) == ("action.wait", "act_2")


async def test_an_unknown_is_looked_up_or_repeated_by_an_unsafe_name(doors: Doors, either: tuple[Any, Do]) -> None:
    client, do = either
    asked = ends(doors, unknown("reconcile"), unknown("reconcile"), DONE)
    with pytest.raises(ActionFailed) as failed:
        await do(lambda: client.resume("op_1"))
    assert isinstance(failed.value, Unresolved)
    with pytest.raises(ActionFailed) as again:
        await do(failed.value.reconcile)
    assert isinstance(again.value, Unresolved)
    assert (await do(again.value.repeat_unsafely)).envelope == DONE
    assert [(method, params.get("unsafe")) for method, params in asked] == [
        ("action.get", None),
        ("action.reconcile", None),
        ("action.retry", True),
    ]


async def test_what_ends_without_an_answer_names_its_operation(doors: Doors, either: tuple[Any, Do]) -> None:
    client, do = either
    doors.broker.hold = True
    client.timeout_s = 0.05
    with pytest.raises(NoAnswer) as failed:
        await do(lambda: client.act("http.request", REQUEST))
    assert str(failed.value.operation_id).startswith("op_")


async def test_calls_run_at_the_same_time(doors: Doors, client: AsyncClient) -> None:
    doors.broker.hold = True
    doors.broker.reply = lambda method, params: envelope(params["invocation_id"])
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(client.call("action.wait", {"invocation_id": "act_a"}))
        second = tasks.create_task(client.call("action.wait", {"invocation_id": "act_b"}))
        await doors.broker.until(lambda: len(doors.broker.waiting) == 2)
        assert await client.call("status") == {"version": "0", "vault": "locked", "journal": "ok"}
        doors.broker.answer_all()
    assert (first.result(), second.result()) == (envelope("act_a"), envelope("act_b"))


async def test_a_call_that_is_cancelled_leaves_the_client_usable(doors: Doors, client: AsyncClient) -> None:
    doors.broker.hold = True
    task = asyncio.create_task(client.call("http.request", REQUEST))
    await doors.broker.until(lambda: len(doors.broker.waiting) == 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    doors.broker.answer_all()
    assert (await client.call("status"))["vault"] == "locked"


async def test_a_refused_call_and_a_batch(doors: Doors, client: AsyncClient) -> None:
    with pytest.raises(RpcError) as refused:
        await client.call("action.get", {})
    assert refused.value.data == {"field": "invocation_id"}
    found = await client.batch([("status", None), ("no.such", {}), ("http.request", REQUEST)])
    assert found[0]["vault"] == "locked"
    assert isinstance(found[1], RpcError)
    assert found[2] == envelope()
    assert await client.batch([]) == []
    with pytest.raises(RpcError, match="32"):
        await client.batch([("status", None)] * 33)
    assert (await client.call("status"))["vault"] == "locked"


async def test_being_refused_is_said_as_the_server_said_it(doors: Doors) -> None:
    full = [await doors.connect() for _ in range(64)]
    for raw in full:
        await raw.ask("status")
    async with await AsyncClient.agent(environ(doors), timeout_s=20) as one_more:
        with pytest.raises(RpcError, match="64 connections"):
            await one_more.call("status")
    for raw in full:
        raw.close()


async def test_an_endless_answer_is_given_up(
    doors: Doors, client: AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation, "ANSWER_BYTES", 100)
    doors.broker.reply = lambda method, params: envelope() | {"much": "x" * 2_000_000}
    with pytest.raises(ConnectionLost):
        await client.call("http.request", REQUEST)
    with pytest.raises(ConnectionLost):
        await client.call("status")


async def test_notifications(doors: Doors, client: AsyncClient) -> None:
    heard: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
    client.on_notification(lambda method, params: heard.put_nowait((method, params)))
    await client.call("session.hello", {"client": "me"})
    ((listener,),) = doors.broker.listeners.values()
    listener({"invocation_id": "act_1"})
    async with asyncio.timeout(20):
        assert await heard.get() == ("action.changed", {"invocation_id": "act_1"})


async def test_every_call_hears_of_a_connection_that_ends(tmp_path: Path) -> None:
    path = tmp_path / "s"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    with listener:
        async with await AsyncClient.agent({"AFFIDAVIT_SOCKET": str(path)}) as client:
            accepted, _ = listener.accept()
            async with asyncio.timeout(20):
                asked = [asyncio.create_task(client.call("status")) for _ in range(2)]
                accepted.setblocking(False)
                got = b""
                while got.count(b"\n") < 2:
                    got += await asyncio.get_running_loop().sock_recv(accepted, 4096)
                accepted.close()
                ended = await asyncio.gather(*asked, return_exceptions=True)
    assert [type(each) for each in ended] == [ConnectionLost, ConnectionLost]
    assert client.peer_pid


async def test_nobody_there(tmp_path: Path) -> None:
    with pytest.raises(NotReachable, match="does not exist"):
        await AsyncClient.agent({"AFFIDAVIT_HOME": str(tmp_path)})
    with pytest.raises(ClientError):
        await AsyncClient.agent({"AFFIDAVIT_SOCKET": str(tmp_path / "none")})


def test_asyncio_is_loaded_by_those_who_ask_for_it() -> None:
    script = (
        "import sys\nfrom affidavit.ipc import client\nprint('asyncio' in sys.modules)\nclient.AsyncClient\n"
        "print('asyncio' in sys.modules, sorted(m for m in sys.modules if m.startswith('affidavit.')))\n"
        "try:\n    client.no_such\nexcept AttributeError:\n    print('none')"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    ours = [f"affidavit.ipc{name}" for name in ("", ".async_client", ".client", ".conversation", ".verdict")]
    assert done.stdout.splitlines() == ["False", f"True {ours}", "none"]
