"""The practice service: its log counts arrivals and effects, also where the answer is lost."""

from __future__ import annotations

import hashlib
import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from affidavit.ipc.demo import practice

TOKEN = "practice-token"
GOOD = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}


class Service:
    def __init__(self, log: Path) -> None:
        self.log = log
        self.server = practice.Practice(0, log, hashlib.sha256(TOKEN.encode()).hexdigest())
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    def call(
        self, method: str, path: str, body: object = None, headers: dict[str, str] = GOOD
    ) -> tuple[int, dict[str, str], Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=10)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            raw = answer.read()
            return answer.status, dict(answer.getheaders()), json.loads(raw) if raw else None
        finally:
            connection.close()

    def arrivals(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def effects(self) -> list[str]:
        return [line["effect"] for line in self.arrivals() if line["effect"] is not None]

    def stop(self) -> None:
        self.server.stopping.set()
        self.server.shutdown()
        self.thread.join(10)
        self.server.server_close()


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    service = Service(tmp_path / "practice.log")
    yield service
    service.stop()


def test_a_read_is_logged_and_has_no_effect(service: Service) -> None:
    status, _, body = service.call("GET", "/v1/account")
    assert status == 200
    assert body["account"] == "practice"
    (line,) = service.arrivals()
    assert (line["method"], line["path"], line["did"], line["authorized"]) == ("GET", "/v1/account", "read", True)
    assert service.effects() == []


@pytest.mark.parametrize("header", [None, "Bearer wrong", f"Basic {TOKEN}", "Bearer"])
def test_without_the_token_nothing_is_done(service: Service, header: str | None) -> None:
    headers = {} if header is None else {"Authorization": header}
    status, answer, _ = service.call("POST", "/v1/transfers", {"amount": 1}, headers)
    assert status == 401
    assert answer["WWW-Authenticate"].startswith("Bearer")
    (line,) = service.arrivals()
    assert (line["authorized"], line["did"], line["effect"]) == (False, "refused", None)


def test_the_token_is_never_in_the_log(service: Service) -> None:
    service.call("POST", "/v1/transfers", {"amount": 1})
    assert TOKEN not in service.log.read_text()


def test_the_arrival_is_on_disk_before_the_answer(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    append, give = practice.ArrivalLog.append, practice.Arrival.give

    def logged(self: practice.ArrivalLog, line: dict[str, Any]) -> None:
        append(self, line)
        order.append("logged")

    def given(self: practice.Arrival, reply: practice.Reply) -> None:
        order.append("answered")
        give(self, reply)

    monkeypatch.setattr(practice.ArrivalLog, "append", logged)
    monkeypatch.setattr(practice.Arrival, "give", given)
    monkeypatch.setattr(practice.os, "fsync", lambda _fd: order.append("synced"))
    service.call("GET", "/v1/account")
    assert order == ["synced", "logged", "answered"]


@pytest.mark.parametrize("mode", ["apply_then_hang_up", "apply_then_cut"])
def test_the_effect_happens_although_the_answer_is_lost(service: Service, mode: str) -> None:
    with pytest.raises((http.client.RemoteDisconnected, http.client.IncompleteRead, ConnectionResetError)):
        service.call("POST", "/v1/transfers", {"amount": 5, "reference": "r-1", "practice": mode})
    assert service.effects() == ["tr_1"]
    _, _, listing = service.call("GET", "/v1/transfers?ref=r-1")
    assert [row["amount"] for row in listing["data"]] == [5]


def test_a_500_after_the_effect(service: Service) -> None:
    status, _, _ = service.call("POST", "/v1/transfers", {"amount": 5, "practice": "apply_then_500"})
    assert status == 500
    assert service.effects() == ["tr_1"]


def head(length: int) -> bytes:
    lines = ("POST /v1/transfers HTTP/1.1", "Host: x", f"Authorization: Bearer {TOKEN}", f"Content-Length: {length}")
    return "\r\n".join((*lines, "", "")).encode()


def test_slow_is_logged_long_before_it_is_answered(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_connection(("127.0.0.1", service.server.port), timeout=10) as connection:
        body = json.dumps({"amount": 5, "practice": "slow", "slow_s": 3600}).encode()
        logged = threading.Event()
        append = service.server.log.append

        def append_and_tell(line: Mapping[str, Any]) -> None:
            append(line)
            logged.set()

        monkeypatch.setattr(service.server.log, "append", append_and_tell)
        connection.sendall(head(len(body)) + body)
        assert logged.wait(10)
        assert service.effects() == ["tr_1"]
        service.server.stopping.set()
        assert connection.recv(64).startswith(b"HTTP/1.1 201")


def test_a_key_is_honoured(service: Service) -> None:
    keyed = GOOD | {"Idempotency-Key": "k-1"}
    first = service.call("POST", "/v1/payments", {"amount": 5}, keyed)
    second = service.call("POST", "/v1/payments", {"amount": 5}, keyed)
    other = service.call("POST", "/v1/payments", {"amount": 6}, keyed)
    assert (first[0], second[0], other[0]) == (201, 201, 422)
    assert first[2] == second[2]
    assert second[1]["Idempotent-Replayed"] == "true"
    assert service.effects() == ["pay_1"]
    assert [line["did"] for line in service.arrivals()] == ["applied", "replayed", "refused"]
    assert service.arrivals()[0]["headers"]["idempotency-key"] == "k-1"


def test_a_key_whose_answer_was_lost_replays_the_whole_answer(service: Service) -> None:
    keyed = GOOD | {"Idempotency-Key": "k-1"}
    lost = {"amount": 5, "practice": "apply_then_hang_up"}
    with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
        service.call("POST", "/v1/payments", lost, keyed)
    status, _, body = service.call("POST", "/v1/payments", lost, keyed)
    assert (status, body["id"], body["amount"]) == (201, "pay_1", 5)
    assert service.effects() == ["pay_1"]


def test_a_key_is_in_use_while_its_first_request_is_in_work() -> None:
    books = practice.Books()
    first = practice.Request("POST", "/v1/payments", {}, {"idempotency-key": "k"}, b'{"amount": 1}', authorized=True)
    assert books.answer(first).did is practice.Did.APPLIED
    assert books.answer(first).status == 409
    books.finished(first)
    assert books.answer(first).did is practice.Did.REPLAYED


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ([1], 400),
        ({"amount": 0}, 422),
        ({"amount": True}, 422),
        ({"amount": "5"}, 422),
        ({"amount": 1, "practice": "explode"}, 422),
        ({"amount": 1, "practice": "refuse"}, 422),
    ],
)
def test_a_refused_write_has_no_effect(service: Service, body: object, status: int) -> None:
    assert service.call("POST", "/v1/transfers", body)[0] == status
    assert service.effects() == []


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/v1/nothing", 404), ("DELETE", "/v1/transfers", 405), ("GET", "/health", 200)],
)
def test_other_paths(service: Service, method: str, path: str, status: int) -> None:
    assert service.call(method, path)[0] == status


def test_a_cut_request_is_an_arrival_without_effect(service: Service) -> None:
    with socket.create_connection(("127.0.0.1", service.server.port), timeout=10) as connection:
        connection.sendall(head(100) + b'{"amount"')
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(10) == b""
    (line,) = service.arrivals()
    assert (line["did"], line["effect"]) == ("incomplete", None)


def test_as_a_process_it_tells_its_port_and_stops_on_sigterm(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-m", "affidavit.ipc.demo.practice", "--log", str(tmp_path / "log")]
    with subprocess.Popen([*command, "--token-sha256", "00"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = json.loads(process.stdout.readline())
        assert told["pid"] == process.pid
        connection = http.client.HTTPConnection("127.0.0.1", told["port"], timeout=10)
        connection.request("GET", "/health")
        assert connection.getresponse().status == 200
        connection.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
