"""How the practice service's other routes treat a key, a job and a batch: against the service as a real process.

Its log is the witness: each arrival, and each effect that it had.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from affidavit.broker.contract import Contract, ContractSet, parse, plant_key
from affidavit.broker.limits import Limits
from affidavit.broker.target import parse_http
from affidavit.broker.terms import Micros
from affidavit.ipc.demo.practice_exchange import Did, Request
from affidavit.ipc.demo.practice_keys import Keys
from affidavit.resources.practice import behaviours

TOKEN = "practice-token"
GOOD = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
LOST = (http.client.RemoteDisconnected, ConnectionResetError)


class Service:
    """The service's process, and its log."""

    def __init__(self, log: Path) -> None:
        self.log = log
        words = [sys.executable, "-P", "-m", "affidavit.ipc.demo.practice", "--log", str(log)]
        digest = hashlib.sha256(TOKEN.encode()).hexdigest()
        self.process = subprocess.Popen([*words, "--token-sha256", digest], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.port = json.loads(self.process.stdout.readline())["port"]

    def call(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, dict[str, str], Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            content = None if body is None else json.dumps(body)
            connection.request(method, path, content, GOOD | dict(headers or {}))
            answer = connection.getresponse()
            raw = answer.read()
            return answer.status, dict(answer.getheaders()), json.loads(raw)
        finally:
            connection.close()

    def post(self, route: str, body: object, key: str | None = None, **headers: str) -> tuple[int, dict[str, str], Any]:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.call("POST", route, body, given | ({} if key is None else {"Idempotency-Key": key}))

    def arrivals(self) -> list[dict[str, Any]]:
        whole = self.log.read_text().rpartition("\n")[0]
        return [json.loads(line) for line in whole.splitlines()]

    def effects(self) -> list[str]:
        return [effect for line in self.arrivals() for effect in line["effects"]]

    def did(self) -> list[str]:
        return [line["did"] for line in self.arrivals()]

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(20) == 0
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    service = Service(tmp_path / "practice.log")
    yield service
    service.stop()


# Keys


def test_a_stored_500_comes_back(service: Service) -> None:
    body = {"amount": 5, "practice": "apply_then_500"}
    answers = [service.post("/v1/keys/replays-errors", body, "k")[0] for _ in range(3)]
    assert answers == [500, 500, 500]
    assert service.effects() == ["key_1"]
    assert service.did() == ["applied", "replayed", "replayed"]
    assert service.post("/v1/keys/replays-errors", {"amount": 6}, "k")[0] == 422


def test_failed_work_is_carried_on_by_a_repeat(service: Service) -> None:
    body = {"amount": 5, "fails": 2}
    answers = [service.post("/v1/keys/redrives", body, "k") for _ in range(4)]
    assert [status for status, _, _ in answers] == [500, 500, 201, 201]
    assert answers[2][2] == answers[3][2]
    assert service.did() == ["failed", "failed", "applied", "replayed"]
    assert service.effects() == ["key_1"]
    assert service.post("/v1/keys/redrives", {"amount": 6}, "k")[0] == 422
    assert service.post("/v1/keys/redrives", {"amount": 6, "fails": -1}, "other")[0] == 422


def test_a_repeat_is_answered_with_the_state_of_now(service: Service) -> None:
    with pytest.raises(LOST):
        service.post("/v1/keys/current-state?request_id=k", {"amount": 5, "practice": "apply_then_hang_up"})
    first = service.call("GET", "/v1/keys")[2]["data"]
    assert [row["status"] for row in first] == ["processing"]
    status, _, row = service.post("/v1/keys/current-state?request_id=k", {"amount": 99})
    assert (status, row["amount"], row["status"]) == (200, 5, "succeeded")
    assert service.effects() == ["key_1"]


def test_a_changed_body_is_dropped_with_success(service: Service) -> None:
    sent = {"amount": 5, "dedup_id": "k", "reference": "first"}
    assert service.post("/v1/keys/drops-changed", sent)[0] == 201
    status, _, answer = service.post("/v1/keys/drops-changed", sent | {"amount": 9, "reference": "second"})
    assert (status, answer) == (200, {"id": "key_1", "accepted": True})
    assert service.did() == ["applied", "dropped"]
    assert service.call("GET", "/v1/keys?ref=second")[2]["data"] == []
    assert service.effects() == ["key_1"]


def test_a_key_is_in_use_while_its_first_request_runs(service: Service) -> None:
    body = {"amount": 5, "practice": "slow", "slow_s": 3600}
    first: list[int] = []
    running = threading.Thread(target=lambda: first.append(service.post("/v1/keys/in-use", body, "k")[0]))
    running.start()
    while service.call("GET", "/v1/keys")[2]["data"] == []:
        pass  # each look is an exchange of its own; the first request is there once it made its row
    status, headers, answer = service.post("/v1/keys/in-use", body, "k")
    assert (status, answer["error"]["code"], headers["Retry-After"]) == (409, "idempotency_key_in_use", "1")
    assert service.post("/v1/keys/release", {})[2] == {"released": 1}
    running.join(20)
    assert first == [201]
    assert service.effects() == ["key_1"]


def test_a_key_in_use_is_answered_from_the_store_once_its_first_request_has_ended() -> None:
    keys = Keys(lambda: 0.0)
    request = Request("POST", "/v1/keys/in-use", {}, {"idempotency-key": "k"}, b'{"amount": 5}', authorized=True)
    assert keys.answer(request).did is Did.APPLIED
    assert keys.answer(request).status == 409
    keys.finished(request)
    assert keys.answer(request).did is Did.REPLAYED


def test_a_key_of_one_route_is_another_on_the_next(service: Service) -> None:
    for route in ("replays-errors", "in-use", "expires", "redrives"):
        assert service.post(f"/v1/keys/{route}", {"amount": 5}, "k")[0] == 201
    assert len(service.effects()) == 4


def test_an_expired_key_makes_a_second_effect(service: Service) -> None:
    body = {"amount": 5}
    for _ in range(2):
        assert service.post("/v1/keys/expires", body, "gone", Practice_Retention="0")[0] == 201
    for _ in range(2):
        assert service.post("/v1/keys/expires", body, "kept", Practice_Retention="3600")[0] == 201
    assert service.did() == ["applied", "applied", "applied", "replayed"]
    assert service.effects() == ["key_1", "key_2", "key_3"]
    assert service.arrivals()[0]["headers"]["practice-retention"] == "0"


@pytest.mark.parametrize(("later_s", "did"), [(59.9, Did.REPLAYED), (60.0, Did.APPLIED)])
def test_a_key_is_forgotten_when_its_time_is_over(later_s: float, did: Did) -> None:
    now = [100.0]
    keys = Keys(lambda: now[0])
    headers = {"idempotency-key": "k", "practice-retention": "60"}
    request = Request("POST", "/v1/keys/expires", {}, headers, b'{"amount": 5}', authorized=True)
    keys.answer(request)
    keys.finished(request)
    now[0] += later_s
    assert keys.answer(request).did is did


@pytest.mark.parametrize("retention", ["-1", "nan", "inf", "soon", "86401"])
def test_a_retention_that_is_none_is_refused(service: Service, retention: str) -> None:
    assert service.post("/v1/keys/expires", {"amount": 5}, "k", Practice_Retention=retention)[0] == 400
    assert service.effects() == []


def test_a_quoted_key_is_taken_and_a_bare_one_is_not(service: Service) -> None:
    body = {"amount": 5}
    for bare in (None, "k", '"k', '"a"b"', '""'):
        assert service.post("/v1/keys/quoted", body, bare)[0] == 400
    assert [service.post("/v1/keys/quoted", body, '"k"')[0] for _ in range(2)] == [201, 201]
    assert service.post("/v1/keys/quoted", {"amount": 6}, '"k"')[0] == 422
    assert service.effects() == ["key_1"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/v1/keys/nothing", 404),
        ("DELETE", "/v1/keys/quoted", 405),
        ("GET", "/v1/keys/release", 405),
        ("PUT", "/v1/jobs", 405),
        ("GET", "/v1/jobs/job_9", 404),
        ("DELETE", "/v1/batches", 405),
        ("POST", "/v1/batches/other", 404),
        ("GET", "/v1/keysmith", 404),
    ],
)
def test_other_paths(service: Service, method: str, path: str, status: int) -> None:
    assert service.call(method, path, {})[0] == status


# Jobs


def polled(service: Service, path: str, times: int) -> list[Any]:
    answers = [service.call("GET", path) for _ in range(times)]
    return [answer.get("state", status) for status, _, answer in answers]


def test_a_job_is_accepted_and_polled_to_its_end(service: Service) -> None:
    status, _, answer = service.post("/v1/jobs", {"polls": 2, "metadata": {"op": "op_1"}})
    assert (status, answer["id"]) == (202, "job_1")
    assert answer["status_url"] == f"http://127.0.0.1:{service.port}/v1/jobs/job_1"
    assert polled(service, "/v1/jobs/job_1", 4) == ["running", "running", "succeeded", "succeeded"]
    assert [row["state"] for row in service.call("GET", "/v1/jobs?ref=op_1")[2]["data"]] == ["succeeded"]
    assert service.effects() == ["job_1"]


@pytest.mark.parametrize(
    ("asked", "seen"),
    [
        ({"polls": 0, "ends": "failed"}, ["failed", "failed", "failed"]),
        ({"polls": 1, "ends": "gone"}, ["running", 404, 404]),
        ({"polls": 0, "ends": "never"}, ["running", "running", "running"]),
        ({"polls": 0, "poll_errors": 2}, [503, 503, "succeeded"]),
    ],
)
def test_jobs_end_as_they_were_asked_to(service: Service, asked: dict[str, Any], seen: list[Any]) -> None:
    service.post("/v1/jobs", asked)
    assert polled(service, "/v1/jobs/job_1", 3) == seen


@pytest.mark.parametrize("accepted_with", [200, 201, 202])
def test_a_job_is_named_in_the_body_in_a_header_or_nowhere(service: Service, accepted_with: int) -> None:
    for named_in, names in (("body", (True, False)), ("header", (False, True)), ("nowhere", (False, False))):
        asked = {"named_in": named_in, "accepted_with": accepted_with}
        status, headers, answer = service.post("/v1/jobs", asked)
        assert status == accepted_with
        assert ("status_url" in answer, "Location" in headers) == names


def test_a_job_whose_acceptance_is_lost_can_be_found(service: Service) -> None:
    with pytest.raises(LOST):
        service.post("/v1/jobs", {"reference": "r-1", "practice": "apply_then_hang_up"})
    assert [row["id"] for row in service.call("GET", "/v1/jobs?ref=r-1")[2]["data"]] == ["job_1"]


@pytest.mark.parametrize(
    "asked", [{"polls": -1}, {"polls": True}, {"poll_errors": 1001}, {"ends": "well"}, {"accepted_with": 204}, []]
)
def test_a_job_that_makes_no_sense_is_refused(service: Service, asked: object) -> None:
    assert service.post("/v1/jobs", asked)[0] in (400, 422)
    assert service.effects() == []


# Batches

ITEMS = [
    {"id": "a", "amount": 1},
    {"id": "b", "amount": 0},
    {"id": "c", "amount": 3, "want": "busy"},
    {"id": "d", "amount": 4, "want": "silent"},
    {"id": "e", "amount": 5},
]


def test_a_batch_tells_of_each_item_by_its_key(service: Service) -> None:
    status, _, answer = service.post("/v1/batches", {"items": ITEMS, "reversed": True})
    assert status == 200
    told = [(each["id"], each["status"], each["object"]) for each in answer["results"]]
    assert told == [("e", "created", "item_3"), ("c", "busy", None), ("b", "invalid", None), ("a", "created", "item_1")]
    assert service.effects() == ["item_1", "item_2", "item_3"]
    assert [row["amount"] for row in service.call("GET", "/v1/batches?ref=d")[2]["data"]] == [4]


def test_a_positional_batch_ends_where_a_result_is_missing(service: Service) -> None:
    _, _, answer = service.post("/v1/batches/positional", {"items": [{**item} for item in ITEMS]})
    assert [each["status"] for each in answer["results"]] == ["created", "invalid", "busy"]
    assert all("id" not in each for each in answer["results"])
    assert len(service.effects()) == 3


def test_an_atomic_batch_is_all_or_nothing(service: Service) -> None:
    _, _, answer = service.post("/v1/batches", {"items": ITEMS[:2], "atomic": True})
    assert [each["status"] for each in answer["results"]] == ["rolled_back", "rolled_back"]
    assert service.effects() == []
    _, _, answer = service.post("/v1/batches", {"items": [ITEMS[0], ITEMS[4]], "atomic": True})
    assert [each["status"] for each in answer["results"]] == ["created", "created"]
    assert len(service.effects()) == 2


def test_a_batch_whose_answer_is_lost_had_its_effects(service: Service) -> None:
    with pytest.raises((*LOST, http.client.IncompleteRead)):
        service.post("/v1/batches", {"items": ITEMS, "practice": "apply_then_cut"})
    (line,) = service.arrivals()
    assert (line["did"], line["effect"], line["effects"]) == ("applied", None, ["item_1", "item_2", "item_3"])


@pytest.mark.parametrize("items", [None, [], [1], [{"amount": 1}], [{"id": "a", "want": "luck"}], [{"id": "a"}] * 1001])
def test_items_that_are_none_are_refused(service: Service, items: object) -> None:
    assert service.post("/v1/batches", {"items": items})[0] == 422
    assert service.effects() == []


# Their contracts


def contracts() -> dict[str, Contract]:
    parsed = [parse(text, file=file) for file, text in behaviours(4711).items()]
    assert sorted(behaviours(4711)) == sorted(f"{contract.id}.toml" for contract in parsed)
    assert ContractSet(parsed).conflicts() == ()
    return {contract.id: contract for contract in parsed}


@pytest.mark.parametrize(
    ("path", "body", "contract_id"),
    [
        *(
            (f"keys/{route}", {}, f"practice.keys.{name}")
            for route, name in (
                ("replays-errors", "replays_errors"),
                ("redrives", "redrives"),
                ("current-state", "current_state"),
                ("drops-changed", "drops_changed"),
                ("in-use", "in_use"),
                ("expires", "expires"),
                ("quoted", "quoted"),
            )
        ),
        ("jobs", {}, "practice.jobs.create"),
        ("jobs", {"named_in": "header"}, "practice.jobs.create.header"),
        ("batches", {}, "practice.batches.create"),
        ("batches", {"atomic": True}, "practice.batches.create.atomic"),
        ("batches/positional", {}, "practice.batches.positional"),
    ],
)
def test_each_route_has_a_contract(path: str, body: object, contract_id: str) -> None:
    target = parse_http(f"http://127.0.0.1:4711/v1/{path}", Limits())
    found = ContractSet(contracts().values()).match("POST", target, (), json.dumps(body).encode())
    assert found.id == contract_id


def test_the_contracts_of_keys_say_what_the_routes_do() -> None:
    keyed = {id_: contract.idempotency for id_, contract in contracts().items() if contract.idempotency is not None}
    said = {
        id_.removeprefix("practice.keys."): (str(terms.at), terms.quoted, terms.mismatch, terms.replays_errors)
        for id_, terms in keyed.items()
    }
    assert said == {
        "replays_errors": ("header:Idempotency-Key", False, "rejected", True),
        "redrives": ("header:Idempotency-Key", False, "rejected", False),
        "current_state": ("query:request_id", False, "ignored", False),
        "drops_changed": ("/dedup_id", False, "ignored", False),
        "in_use": ("header:Idempotency-Key", False, "rejected", False),
        "expires": ("header:Idempotency-Key", False, "rejected", False),
        "quoted": ("header:Idempotency-Key", True, "rejected", True),
    }
    in_use = keyed["practice.keys.in_use"]
    assert [(sign.status, str(sign.at), sign.equals) for sign in in_use.in_use] == [
        (409, "/error/code", "idempotency_key_in_use")
    ]


def test_a_key_planted_as_its_contract_says_is_known_again_by_its_route(service: Service) -> None:
    seen = {}
    for contract_id, contract in contracts().items():
        terms = contract.idempotency
        if terms is None:
            continue
        route = contract_id.removeprefix("practice.keys.").replace("_", "-")
        target = parse_http(f"http://127.0.0.1:{service.port}/v1/keys/{route}", Limits())
        planted = plant_key(
            terms,
            "0b5f9c1e-key-of-36-characters-in-all",
            headers=(),
            target=target,
            body=b'{"amount": 5}',
            first_asked=Micros(0),
            limits=Limits(),
        )
        path = planted.target.url.removeprefix(planted.target.origin)
        for _ in range(2):
            service.call("POST", path, json.loads(planted.body), dict(planted.headers))
        seen[route] = [line["did"] for line in service.arrivals()[-2:]]
    assert seen.pop("drops-changed") == ["applied", "dropped"]
    assert len(seen) == 6
    assert all(did == ["applied", "replayed"] for did in seen.values())
    assert len(service.effects()) == 7
