"""The two sockets as a client meets them: real connections, a scripted broker behind them."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scripted_ipc import PASSPHRASE, Doors, ScriptedBroker, card, envelope

from affidavit.broker.api import ActionError, NotWhileLocked
from affidavit.ipc import connection, jsonrpc
from affidavit.ipc.server import SocketTaken

REQUEST = {"method": "GET", "url": "https://api.example.com/"}


def code_of(answer: dict[str, object]) -> object:
    error = answer["error"]
    assert isinstance(error, dict)
    return error["code"]


async def test_a_call_is_answered_and_its_result_counts_as_written(doors: Doors) -> None:
    client = await doors.connect()
    answer = await client.ask("http.request", REQUEST, id="x")
    assert answer == {"jsonrpc": "2.0", "id": "x", "result": envelope()}
    await doors.broker.until(lambda: doors.broker.deliveries == [("act_1", True)])
    client.close()


async def test_sockets_are_ours_alone(doors: Doors) -> None:
    for name in ("agent.sock", "operator.sock"):
        assert stat.S_IMODE((doors.directory / name).stat().st_mode) == 0o600


async def test_errors_keep_the_connection(doors: Doors) -> None:
    client = await doors.connect()
    await client.send(b"nonsense")
    assert code_of(await client.recv()) == -32700
    await client.send(b"{}")
    assert code_of(await client.recv()) == -32600
    assert code_of(await client.ask("no.such")) == -32601
    assert code_of(await client.ask("vault.unlock", {"passphrase": "x"})) == -32601
    answer = await client.ask("action.get", {"invocation_id": "act_none"})
    assert (code_of(answer), answer["error"]["data"]) == (-32602, {"field": "invocation_id"})
    answer = await client.ask("action.wait", {"invocation_id": "a", "wait_s": 601})
    assert (code_of(answer), answer["error"]["data"]) == (-32602, {"field": "wait_s"})
    answer = await client.ask("http.request", {})
    assert (code_of(answer), answer["error"]["data"]["error"]["field"]) == (-32001, "method")
    assert code_of(await client.ask("http.request", [1])) == -32001
    assert (await client.ask("status"))["result"]["vault"] == "locked"
    client.close()


async def test_what_the_broker_refuses(doors: Doors) -> None:
    client = await doors.connect()

    def locked(method: str, params: object) -> dict[str, object]:
        raise NotWhileLocked("operator_unlock")

    doors.broker.reply = locked
    answer = await client.ask("credential.list")
    assert (code_of(answer), answer["error"]["data"]) == (-32002, {"needs": "operator_unlock"})

    def broken(method: str, params: object) -> dict[str, object]:
        raise RuntimeError("secret words")

    doors.broker.reply = broken
    answer = await client.ask("credential.list")
    assert code_of(answer) == -32603
    assert "secret words" not in json.dumps(answer)
    doors.broker.reply = lambda method, params: {"invocation_id": "act_1", "x": float("nan")}
    assert code_of(await client.ask("action.cancel", {"invocation_id": "act_1"})) == -32603

    def unfit(method: str, params: object) -> dict[str, object]:
        raise ActionError({"error": {"code": "BUSY"}, "invocation_id": "act_1", "x": object()})

    doors.broker.reply = unfit
    assert code_of(await client.ask("action.cancel", {"invocation_id": "act_1"})) == -32603
    client.close()


async def test_a_failed_call_is_logged_without_its_words(doors: Doors, caplog: pytest.LogCaptureFixture) -> None:
    client = await doors.connect()

    def broken(method: str, params: object) -> dict[str, object]:
        raise RuntimeError("secret words")

    doors.broker.reply = broken
    await client.ask("credential.list")
    assert "RuntimeError" in caplog.text
    assert "secret words" not in caplog.text
    client.close()


async def test_notifications_do_nothing(doors: Doors) -> None:
    client = await doors.connect()
    call = {"jsonrpc": "2.0", "method": "http.request", "params": REQUEST}
    await client.send(json.dumps(call).encode(), json.dumps([call, call]).encode())
    assert "result" in await client.ask("status")
    assert doors.broker.log == []
    client.close()


async def test_batch_is_one_array_in_order_after_the_slowest(doors: Doors) -> None:
    client = await doors.connect()
    doors.broker.hold = True
    calls = [
        {"jsonrpc": "2.0", "id": "slow", "method": "http.request", "params": REQUEST},
        {"jsonrpc": "2.0", "method": "status"},
        {"jsonrpc": "2.0", "id": "quick", "method": "status"},
        7,
        {"jsonrpc": "2.0", "id": "other", "method": "action.wait", "params": {"invocation_id": "act_2"}},
    ]
    await client.send(json.dumps(calls).encode())
    await doors.broker.until(lambda: len(doors.broker.waiting) == 2)  # both run at once
    assert (await client.ask("status"))["result"]  # and nothing of the batch came before
    doors.broker.answer_all()
    answers = await client.recv()
    assert [answer["id"] for answer in answers] == ["slow", "quick", None, "other"]
    assert code_of(answers[2]) == -32600
    await doors.broker.until(lambda: len(doors.broker.deliveries) == 2)
    client.close()


async def test_batch_limits(doors: Doors) -> None:
    client = await doors.connect()
    call = {"jsonrpc": "2.0", "id": 1, "method": "status"}
    await client.send(json.dumps([call] * 32).encode())
    assert len(await client.recv()) == 32
    await client.send(json.dumps([call] * 33).encode())
    assert code_of(await client.recv()) == -32600
    await client.send(b"[]")
    assert code_of(await client.recv()) == -32600
    client.close()


async def test_an_oversized_line_is_answered_then_closed(broker: ScriptedBroker, tmp_path: Path) -> None:
    doors = Doors(broker, tmp_path, line=100_000)
    doors.start()
    client = await doors.connect()
    other = await doors.connect()
    await client.send(b"x" * 3_000_000)
    assert code_of(await client.recv()) == -32600
    client.sock.shutdown(socket.SHUT_WR)
    assert await client.recv() is None
    assert "result" in await other.ask("status")
    client.close()
    other.close()
    await doors.close()


async def test_a_line_of_megabytes_is_read(doors: Doors) -> None:
    client = await doors.connect()
    body = "x," * 4_000_000
    answer = await client.ask("http.request", REQUEST | {"body": body})
    assert "result" in answer
    assert doors.broker.log[0][1]["body"] == body
    client.close()


async def test_an_unfinished_line_is_not_acted_on(doors: Doors) -> None:
    client = await doors.connect()
    await client.loop.sock_sendall(client.sock, client.line("http.request", REQUEST))
    client.sock.shutdown(socket.SHUT_WR)
    assert code_of(await client.recv()) == -32700
    assert await client.recv() is None
    assert doors.broker.log == []
    client.close()


async def test_a_half_closed_connection_still_gets_its_answer(doors: Doors) -> None:
    client = await doors.connect()
    doors.broker.hold = True
    await client.send(client.line("http.request", REQUEST))
    client.sock.shutdown(socket.SHUT_WR)
    await doors.broker.until(lambda: len(doors.broker.waiting) == 1)
    doors.broker.answer_all()
    assert (await client.recv())["result"] == envelope()
    assert await client.recv() is None
    client.close()


async def test_a_dropped_connection_cancels_no_action_and_gives_up_what_only_reads(doors: Doors) -> None:
    client = await doors.connect()
    doors.broker.hold = True
    await client.send(client.line("http.request", REQUEST), client.line("action.wait", {"invocation_id": "act_9"}))
    await doors.broker.until(lambda: len(doors.broker.waiting) == 2)
    client.close()
    await doors.broker.until(lambda: doors.broker.given_up == 1)
    acting = [future for future in doors.broker.waiting if not future.cancelled()]
    assert len(acting) == 1
    doors.broker.answer_all()
    await doors.broker.until(lambda: doors.broker.deliveries == [("act_1", False)])


async def test_pending_is_no_result(doors: Doors) -> None:
    client = await doors.connect()
    doors.broker.reply = lambda method, params: envelope(part="pending")
    assert "pending" in (await client.ask("http.request", REQUEST))["result"]
    assert doors.broker.deliveries == []
    client.close()


async def test_a_failed_action_counts_as_written_too(doors: Doors) -> None:
    client = await doors.connect()

    def failed(method: str, params: object) -> dict[str, object]:
        raise ActionError(envelope("act_7", "error", message="No."))

    doors.broker.reply = failed
    answer = await client.ask("http.request", REQUEST)
    assert (answer["error"]["message"], answer["error"]["data"]["invocation_id"]) == ("No.", "act_7")
    await doors.broker.until(lambda: doors.broker.deliveries == [("act_7", True)])
    client.close()


async def test_connections_over_the_limit_are_told_and_places_come_back(doors: Doors) -> None:
    clients = [await doors.connect() for _ in range(64)]
    for client in clients:
        assert "result" in await client.ask("status")
    extra = await doors.connect()
    answer = await extra.recv()
    assert (answer["id"], code_of(answer)) == (None, -32000)
    await extra.send(extra.line("status"))  # what is sent all the same meets no broken pipe
    assert await extra.recv() is None
    extra.close()
    operator = await doors.connect("operator")
    assert "result" in await operator.ask("status")  # agents cannot take the operator's places
    operator.close()
    clients.pop().close()
    while True:
        again = await doors.connect()
        await again.send(again.line("status"))
        answer = await again.recv()
        if "result" in answer:
            break
        again.close()
    for client in [*clients, again]:
        client.close()


async def test_a_killed_client_gives_its_place_back_while_its_action_runs(doors: Doors) -> None:
    doors.broker.hold = True
    clients = [await doors.connect() for _ in range(64)]
    for client in clients:
        await client.send(client.line("http.request", REQUEST))
    await doors.broker.until(lambda: len(doors.broker.waiting) == 64)
    for client in clients:
        client.close()
    while True:
        fresh = await doors.connect()
        if "result" in await fresh.ask("status"):
            break
        fresh.close()
    assert not any(future.done() for future in doors.broker.waiting)
    fresh.close()


async def test_a_slow_reader_blocks_nobody_else(doors: Doors) -> None:
    big = "x" * 300_000
    doors.broker.reply = lambda method, params: envelope() | {"text": big}
    slow = await doors.connect()
    slow.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    await slow.send(*(slow.line("http.request", REQUEST) for _ in range(50)))
    quick = await doors.connect()
    assert "result" in await quick.ask("http.request", REQUEST)
    for _ in range(50):
        assert len((await slow.recv())["result"]["text"]) == 300_000
    await doors.broker.until(lambda: len(doors.broker.deliveries) == 51)
    slow.close()
    quick.close()


async def test_a_reader_that_takes_nothing_is_cut_off(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "STALL_S", 0.01)
    doors.broker.reply = lambda method, params: envelope() | {"text": "x" * 3_000_000}
    client = await doors.connect()
    await client.send(client.line("http.request", REQUEST))
    await doors.broker.until(lambda: doors.broker.deliveries == [("act_1", False)])
    client.close()


async def test_calls_in_flight_are_bounded(doors: Doors) -> None:
    doors.broker.hold = True
    client = await doors.connect()
    waits = [client.line("action.wait", {"invocation_id": f"act_{n}"}) for n in range(connection.IN_FLIGHT + 20)]
    await client.send(*waits)
    await doors.broker.until(lambda: len(doors.broker.waiting) == connection.IN_FLIGHT)
    other = await doors.connect()
    assert "result" in await other.ask("status")
    assert len(doors.broker.waiting) == connection.IN_FLIGHT
    doors.broker.answer_all()
    ids = {(await client.recv())["id"] for _ in waits}
    assert ids == set(range(1, len(waits) + 1))
    client.close()
    other.close()


async def test_hello_subscribes_to_the_sessions_own_actions(doors: Doors) -> None:
    client = await doors.connect()
    silent = await doors.connect()
    assert "result" in await silent.ask("status")
    hello = await client.ask("session.hello", {"client": "tester", "version": "1", "protocol": 1})
    await client.ask("session.hello")
    session_id = hello["result"]["session_id"]
    (listener,) = doors.broker.listeners[session_id]
    assert doors.broker.sessions[session_id].claim.client == "tester"
    listener({"invocation_id": "act_1", "state": "running"})
    told = await client.recv()
    assert (told["method"], told["params"]["state"]) == ("action.changed", "running")
    assert "id" not in told
    client.close()
    await doors.broker.until(lambda: doors.broker.listeners[session_id] == [])
    assert "result" in await silent.ask("status")  # was told nothing in between
    silent.close()


async def test_another_protocol_is_a_wrong_param(doors: Doors) -> None:
    client = await doors.connect()
    answer = await client.ask("session.hello", {"protocol": 2})
    assert (code_of(answer), answer["error"]["data"]["field"]) == (-32602, "protocol")
    client.close()


async def test_passphrases_reach_the_broker_as_bytes_and_are_overwritten(doors: Doors) -> None:
    client = await doors.connect("operator")
    answer = await client.ask("vault.unlock", {"passphrase": PASSPHRASE.decode()})
    assert answer["result"] == {"vault": "ready"}
    answer = await client.ask("vault.unlock", {"passphrase": "wrong"})
    assert code_of(answer) == -32003
    assert answer["error"]["data"] == {"code": "wrong_passphrase", "field": "passphrase", "remedy": "Again."}
    assert [bytes(seen) for seen in doors.operator_broker.seen_bytes] == [bytes(13), bytes(5)]
    client.close()


async def test_lines_of_the_operator_socket_are_overwritten(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[bytes | bytearray] = []
    decode = jsonrpc.decode

    def spy(line: bytes | bytearray) -> jsonrpc.Message:
        lines.append(line)
        return decode(line)

    monkeypatch.setattr(jsonrpc, "decode", spy)
    operator, agent = await doors.connect("operator"), await doors.connect()
    await operator.ask("vault.unlock", {"passphrase": PASSPHRASE.decode()})
    await agent.ask("status")
    assert lines[0] == bytes(len(lines[0]))
    assert b"status" in lines[1]
    operator.close()
    agent.close()


async def test_a_wrong_param_echoes_no_secret(doors: Doors) -> None:
    client = await doors.connect("operator")
    for params in (
        {"passphrase": ["hunter2"]},
        {"passphrase": "hunter2" * 1000},
        {"passphrase": "hunter2", "other": "hunter2"},
        {"passphrase": "hunter2\ud800"},
    ):
        answer = await client.ask("vault.unlock", params)
        assert code_of(answer) == -32602
        assert "hunter2" not in json.dumps(answer)
    client.close()


async def test_a_card_shows_its_body_only_for_the_passphrase(doors: Doors) -> None:
    doors.operator_broker.waiting_cards = [card()]
    client = await doors.connect("operator")
    (listed,) = (await client.ask("approval.list"))["result"]["cards"]
    assert listed["body"] == {"bytes": 12, "type": "application/json"}
    assert listed["fingerprint_groups"][0] == "0123"
    asked = {"invocation_id": "act_1"}
    assert code_of(await client.ask("approval.show", asked | {"passphrase": "x"})) == -32003
    shown = await client.ask("approval.show", asked | {"passphrase": PASSPHRASE.decode()})
    assert shown["result"]["body"]["text"] == '{"amount":5}'
    gone = await client.ask("approval.show", {"invocation_id": "act_2", "passphrase": PASSPHRASE.decode()})
    assert gone["error"]["data"]["code"] == "too_late"
    client.close()


async def test_operator_calls_reach_the_broker(doors: Doors) -> None:
    client = await doors.connect("operator")
    hello = (await client.ask("operator.hello"))["result"]
    assert (hello["pid"], hello["home"], hello["vault"]) == (os.getpid(), "/home/x", "locked")
    with_words = {"passphrase": PASSPHRASE.decode()}
    added = {"name": "n", "kind": "bearer", "targets": ["https://a/*"], "secret_base64": "czNjcjN0"}
    assert (await client.ask("credential.add", added | with_words))["result"]["version"] == 1
    assert doors.operator_broker.log[-1] == (
        "credential_add",
        {
            "name": "n",
            "kind": "bearer",
            "targets": ("https://a/*",),
            "private": False,
            "refresh": False,
            "interactive": False,
        },
        b"s3cr3t",
    )
    files = {"files": [{"file": "a.toml", "text": "id = 1"}]}
    await client.ask("contract.adopt", files | with_words)
    assert doors.operator_broker.log[-1] == ("adopt", (("a.toml", "id = 1"),))
    await client.ask("approval.deny", {"invocation_id": "act_1", "reason": "no"})
    assert doors.operator_broker.log[-1][2].reason == "no"
    await client.ask("approval.approve", {"invocation_id": "act_1"} | with_words)
    assert doors.operator_broker.log[-1] == ("approve", "act_1", None, "cli_passphrase")
    assert (await client.ask("vault.lock"))["result"] == {"vault": "locked"}
    assert (await client.ask("app.raise"))["result"] == {"raised": False}
    assert (await client.ask("unknown.list"))["result"]["rows"][0]["invocation_id"] == "act_1"
    client.close()


LIVES = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@LIVES
@given(
    garbage=st.lists(
        st.binary(max_size=80).map(lambda b: b.replace(b"\n", b" "))
        | st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=8),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
        ).map(lambda value: json.dumps(value).encode())
        | st.fixed_dictionaries(
            {
                "jsonrpc": st.just("2.0"),
                "id": st.integers(),
                "method": st.sampled_from(["status", "action.get", "session.hello", "http.request", "x"]),
                "params": st.dictionaries(
                    st.sampled_from(["invocation_id", "client", "limit", "events", "method"]),
                    st.none() | st.integers() | st.text(max_size=4) | st.lists(st.integers(), max_size=2),
                ),
            }
        ).map(lambda value: json.dumps(value).encode()),
        max_size=8,
    )
)
async def test_garbage_leaves_connection_and_server_alive(
    tmp_path_factory: pytest.TempPathFactory, garbage: list[bytes]
) -> None:
    doors = Doors(ScriptedBroker(), tmp_path_factory.mktemp("s"))
    doors.start()
    client = await doors.connect()
    await client.send(*garbage)
    await client.send(client.line("status", id="alive"))
    while True:
        answer = await client.recv()
        answers = answer if isinstance(answer, list) else [answer]
        assert all(a["jsonrpc"] == "2.0" and ("result" in a) != ("error" in a) for a in answers)
        assert all(a["error"]["code"] != jsonrpc.INTERNAL_ERROR for a in answers if "error" in a)
        if any(a["id"] == "alive" for a in answers):
            break
    client.close()
    await doors.close()


async def test_closing_lets_answers_out_and_removes_the_socket(broker: ScriptedBroker, tmp_path: Path) -> None:
    doors = Doors(broker, tmp_path)
    doors.start()
    client = await doors.connect()
    broker.hold = True
    await client.send(client.line("http.request", REQUEST), client.line("action.wait", {"invocation_id": "act_1"}))
    await broker.until(lambda: len(broker.waiting) == 2)
    doors.agent.stop_accepting()
    assert not (doors.directory / "agent.sock").exists()
    broker.waiting[0].set_result(None)
    await doors.close(grace_s=0.2)
    assert (await client.recv())["result"] == envelope()
    assert await client.recv() is None
    client.close()


async def test_a_stale_socket_is_replaced_and_anything_else_is_not(broker: ScriptedBroker, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(tmp_path / "agent.sock"))
    doors = Doors(broker, tmp_path)
    doors.start()
    client = await doors.connect()
    assert "result" in await client.ask("status")
    client.close()
    await doors.close()
    (tmp_path / "agent.sock").write_text("not a socket")
    with pytest.raises(SocketTaken, match="not a socket"):
        Doors(broker, tmp_path).agent.start()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
async def test_another_user_is_refused(broker: ScriptedBroker, tmp_path: Path) -> None:
    doors = Doors(broker, tmp_path)
    doors.start()
    path = doors.directory / "agent.sock"
    for directory in (path, *[p for p in path.parents if p != p.parent]):
        if directory.stat().st_uid == os.geteuid() and "pytest" in str(directory):
            directory.chmod(0o777)
    script = (
        "import socket,sys\ns=socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\n"
        's.sendall(b\'{"jsonrpc":"2.0","id":1,"method":"status"}\\n\')\nprint(s.makefile().readline())'
    )
    process = await asyncio.create_subprocess_exec(
        "setpriv", "--reuid", "65534", "--clear-groups", "/usr/bin/env", "python3", "-I", "-c", script, str(path),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    out, err = await asyncio.wait_for(process.communicate(), 30)
    assert "another user" in out.decode(), err.decode()
    assert code_of(json.loads(out)) == -32000
    assert broker.log == []
    await doors.close()
