"""Bad input by real sockets and real commands: each gets its code, the field and what to do; the connection and the
program live on, and nothing is lost (R8, R9).

One broker takes all of it, with an action in flight from the first to the last: it must end as if nothing had been.
"""

from __future__ import annotations

import json
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.conftest import World
from tests.e2e.rig import LIMIT_S, Broker, Envelope, Home, answer, copy_of, facts, new_operation, until
from tests.e2e.target import Call

from affidavit.ipc.client import RpcError

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Served:
    """A broker that meets all the bad input of this file."""

    home: Home
    broker: Broker
    world: World

    @property
    def target(self) -> str:
        return f"http://127.0.0.1:{self.world.target.port}"


def held(call: Call) -> None:
    call.hold()
    call.answer(201, b"done")


@pytest.fixture(scope="module")
def served(world: World) -> Iterator[Served]:
    home, operation_id = copy_of(world.template), new_operation()
    path = f"/in-flight/{operation_id}"
    world.target.scripts[path] = held
    params = {"method": "POST", "url": f"http://127.0.0.1:{world.target.port}{path}", "operation_id": operation_id}
    try:
        with home.serve() as broker:
            with broker.agent() as agent:
                begun = answer(agent, "http.request", {**params, "deadline_s": 600, "wait_s": 0})
                assert "pending" in begun
                (call,) = world.target.calls(path)
                yield Served(home, broker, world)
                call.release.set()
                ended = answer(agent, "action.wait", {"invocation_id": begun["invocation_id"], "wait_s": LIMIT_S})
                assert (facts(ended)["outcome"], facts(ended)["code"]) == ("committed", "REMOTE_RESULT")
            assert len(world.target.arrivals(path)) == 1
            assert broker.stop() == 0
            assert [line for line in broker.said if "Traceback" in line or "failed with" in line] == []
        assert home.intact()
    finally:
        home.remove()


# -- lines that are no calls


class Line:
    """One raw connection to a socket: lines out, lines in."""

    def __init__(self, path: Path) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(LIMIT_S)
        self.sock.connect(str(path))
        self._file = self.sock.makefile("rb")

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def hear(self) -> Any:
        """The next line; None where the connection has ended."""
        line = self._file.readline()
        return json.loads(line) if line else None

    def lives(self) -> bool:
        self.send(call("status", id_="alive"))
        heard = self.hear()
        return bool(heard["id"] == "alive" and heard["result"]["vault"] == "ready")

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self.sock.close()


def call(method: str, params: Any = None, id_: Any = 1) -> bytes:
    message = {"jsonrpc": "2.0", "id": id_, "method": method}
    return json.dumps(message if params is None else message | {"params": params}).encode() + b"\n"


NO_CALLS: dict[str, tuple[bytes, int]] = {
    "not JSON": (b"GET / HTTP/1.1\n", -32700),
    "an empty line": (b"\n", -32700),
    "half an object": (b'{"jsonrpc": "2.0"\n', -32700),
    "not UTF-8": (b'{"jsonrpc": "2.0", "id": 1, "method": "\xff"}\n', -32700),
    "NaN": (b'{"jsonrpc": "2.0", "id": 1, "method": "status", "params": {"a": NaN}}\n', -32700),
    "a number": (b"1\n", -32600),
    "no version": (b'{"id": 1, "method": "status"}\n', -32600),
    "another version": (b'{"jsonrpc": "1.0", "id": 1, "method": "status"}\n', -32600),
    "no method": (b'{"jsonrpc": "2.0", "id": 1}\n', -32600),
    "a method that is no text": (b'{"jsonrpc": "2.0", "id": 1, "method": 1}\n', -32600),
    "params that are a text": (b'{"jsonrpc": "2.0", "id": 1, "method": "status", "params": "x"}\n', -32600),
    "an id that is an object": (b'{"jsonrpc": "2.0", "id": {}, "method": "status"}\n', -32600),
    "a name given twice": (b'{"jsonrpc": "2.0", "id": 1, "method": "status", "id": 2}\n', -32600),
    "nested too deep": (call("status", json.loads("[" * 70 + "]" * 70)), -32600),
    "an empty batch": (b"[]\n", -32600),
    "a batch that is too long": (b"[" + b",".join([call("status").strip()] * 33) + b"]\n", -32600),
    "no such method": (call("no.such"), -32601),
    "a method of JSON-RPC's own": (call("rpc.discover"), -32601),
}


@pytest.mark.parametrize("name", NO_CALLS)
def test_a_line_that_is_no_call(name: str, served: Served) -> None:
    line, code = NO_CALLS[name]
    with Line(served.home.places.agent_socket) as connection:
        connection.send(line)
        error = connection.hear()["error"]
        assert error["code"] == code, error
        assert error["message"].endswith(".")
        assert connection.lives()


OPERATORS = ("vault.unlock", "vault.lock", "approval.approve", "approval.list", "attest", "credential.add", "unlock")


@pytest.mark.parametrize("method", OPERATORS)
def test_no_method_of_the_operator_is_on_the_agents_socket(method: str, served: Served) -> None:
    """R73."""
    with Line(served.home.places.agent_socket) as connection:
        connection.send(call(method, {"passphrase": served.home.setting.passphrase}))
        assert connection.hear()["error"]["code"] == -32601
        assert connection.lives()


WRONG_PARAMS: dict[str, tuple[str, Any, str]] = {
    "by position": ("status", [1], "params"),
    "an unknown one": ("status", {"more": 1}, "more"),
    "neither id": ("action.get", {}, "invocation_id"),
    "both ids": ("action.get", {"invocation_id": "act_1", "operation_id": "op_1"}, "invocation_id"),
    "an id that is not known": ("action.get", {"invocation_id": "act_00000000000000000000000000"}, "invocation_id"),
    "an operation that is not known": ("action.wait", {"invocation_id": "act_no"}, "invocation_id"),
    "an id of the wrong type": ("action.get", {"invocation_id": 7}, "invocation_id"),
    "another protocol": ("session.hello", {"protocol": 2}, "protocol"),
    "no such part": ("result.fetch", {"invocation_id": "act_no", "part": "head"}, "part"),
    "a wait that is too long": ("action.wait", {"invocation_id": "act_no", "wait_s": 601}, "wait_s"),
    "no such outcome": ("action.list", {"outcome": "perhaps"}, "outcome"),
    "a URL that is none": ("contract.explain", {"method": "GET", "url": "example"}, "url"),
}


@pytest.mark.parametrize("name", WRONG_PARAMS)
def test_wrong_params(name: str, served: Served) -> None:
    method, params, field = WRONG_PARAMS[name]
    with Line(served.home.places.agent_socket) as connection:
        connection.send(call(method, params))
        error = connection.hear()["error"]
        assert (error["code"], error["data"]["field"]) == (-32602, field), error
        assert error["message"].endswith(".")
        assert connection.lives()


def test_a_wrong_entry_of_a_batch_leaves_the_others(served: Served) -> None:
    batch = [
        json.loads(call("status", id_=1)),
        7,
        json.loads(call("no.such", id_=2)),
        json.loads(call("status", id_=3)),
    ]
    with Line(served.home.places.agent_socket) as connection:
        connection.send(json.dumps(batch).encode() + b"\n")
        heard = connection.hear()
        assert [(one["id"], one.get("error", {}).get("code")) for one in heard] == [
            (1, None),
            (None, -32600),
            (2, -32601),
            (3, None),
        ]
        assert connection.lives()


def write_to(served: Served, path: str, **more: Any) -> dict[str, Any]:
    return {"method": "POST", "url": f"{served.target}{path}", "wait_s": LIMIT_S, **more}


def test_a_notification_dispatches_nothing(served: Served) -> None:
    line = {"jsonrpc": "2.0", "method": "http.request", "params": write_to(served, "/notified")}
    with Line(served.home.places.agent_socket) as connection:
        connection.send(json.dumps(line).encode() + b"\n")
        assert connection.lives()
    assert served.world.target.arrivals("/notified") == []


def test_a_line_that_is_too_long_ends_its_connection_alone(served: Served) -> None:
    long = call("http.request", write_to(served, "/too-long", body="x" * 16 * MIB))
    with Line(served.home.places.agent_socket) as other, Line(served.home.places.agent_socket) as connection:
        connection.send(long)
        error = connection.hear()["error"]
        assert error["code"] == -32600
        assert "16,777,216" in error["message"]
        assert connection.hear() is None
        assert other.lives()
    assert served.world.target.arrivals("/too-long") == []


def test_a_line_that_is_cut_is_not_acted_on(served: Served) -> None:
    with Line(served.home.places.agent_socket) as connection:
        connection.send(call("http.request", write_to(served, "/cut")).rstrip(b"\n"))
        connection.sock.shutdown(socket.SHUT_WR)
        assert connection.hear()["error"]["code"] == -32700
        assert connection.hear() is None
    assert served.world.target.arrivals("/cut") == []


def test_one_connection_too_many(served: Served) -> None:
    with served.broker.agent() as agent:
        most = agent.call("session.hello")["limits"]["connections"]
    with ExitStack() as stack:
        open_ones: list[Line] = []

        def full() -> bool:
            open_ones.append(stack.enter_context(Line(served.home.places.agent_socket)))
            open_ones[-1].send(call("status"))
            heard = open_ones[-1].hear()
            return "error" in heard and heard["error"]["code"] == -32000

        until(full, "a connection is refused")
        assert len(open_ones) <= most + 1
        assert all(line.lives() for line in open_ones[:-1])
    until(lambda: free_again(served), "a connection is taken again")


def free_again(served: Served) -> bool:
    with Line(served.home.places.agent_socket) as connection:
        connection.send(call("status"))
        return "result" in connection.hear()


# -- requests that are refused


BODY_MOST = 8 * MIB
FORBIDDEN = (
    "Authorization", "authorization", "Proxy-Authorization", "Proxy-Connection", "Cookie", "Host", "Content-Length",
    "Transfer-Encoding", "Connection", "Upgrade", "Expect", "TE",
)  # fmt: skip

REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "no URL": ({"url": None}, "INVALID_REQUEST", "url"),
    "an unknown field": ({"uri": "x"}, "INVALID_REQUEST", "uri"),
    "two bodies": ({"body": "x", "json": 1}, "INVALID_REQUEST", "json"),
    "a body that is no base64": ({"body_base64": "%"}, "INVALID_REQUEST", "body_base64"),
    "a number that JSON cannot carry": ({"json": {"n": [2**60]}}, "INVALID_REQUEST", "json.n[0]"),
    "half of a surrogate pair": ({"json": "\ud800"}, "INVALID_REQUEST", "json"),
    "an operation id with a space": ({"operation_id": "op 1"}, "INVALID_REQUEST", "operation_id"),
    "a deadline of nothing": ({"deadline_s": 0}, "INVALID_REQUEST", "deadline_s"),
    "a wait that is too long": ({"wait_s": 601}, "INVALID_REQUEST", "wait_s"),
    "a reason that is too long": ({"reason": "x" * 501}, "PAYLOAD_LIMIT", "reason"),
    "headers that are a text": ({"headers": "A: b"}, "INVALID_REQUEST", "headers"),
    "a name that is no header's": ({"headers": {"X A": "b"}}, "INVALID_REQUEST", "headers.X A"),
    "a value beyond ASCII": ({"headers": {"X-A": "\u0410"}}, "INVALID_REQUEST", "headers.X-A"),
    "a header twice": ({"headers": {"X-A": "b", "x-a": "c"}}, "INVALID_REQUEST", "headers.x-a"),
    "a line break in a value": ({"headers": {"X-A": "b\r\nX-B: c"}}, "HEADER_FORBIDDEN", "headers.X-A"),
    "a line break in a name": ({"headers": {"X-A: b\r\nX-B": "c"}}, "HEADER_FORBIDDEN", "headers.X-A: b\r\nX-B"),
    "a bare line feed": ({"headers": [["X-A", "b\nX-B: c"]]}, "HEADER_FORBIDDEN", "headers.X-A"),
    "NUL in a value": ({"headers": {"X-A": "b\0"}}, "HEADER_FORBIDDEN", "headers.X-A"),
    "CONNECT": ({"method": "CONNECT"}, "UNSUPPORTED_ACTION", "method"),
    "TRACE": ({"method": "TRACE"}, "UNSUPPORTED_ACTION", "method"),
    "a method in small letters": ({"method": "post"}, "UNSUPPORTED_ACTION", "method"),
    "a method with a line break": ({"method": "GET / HTTP/1.1\r\nX: y"}, "UNSUPPORTED_ACTION", "method"),
    "a method that no contract names": ({"method": "PURGE"}, "UNSUPPORTED_ACTION", "method"),
    "a body that is too large": ({"body": "x" * (BODY_MOST + 1)}, "PAYLOAD_LIMIT", "body"),
    "a head that is too large": ({"headers": {"X-A": "b" * 65536}}, "PAYLOAD_LIMIT", "headers"),
    "a credential that is not there": ({"credential": "another"}, "CREDENTIAL_UNKNOWN", "credential"),
    "a credential of another target": ({"credential": "practice"}, "CREDENTIAL_OUT_OF_SCOPE", "credential"),
    "a key where none is documented": ({"idempotency_key": "k"}, "NO_IDEMPOTENCY_CONTRACT", "idempotency_key"),
    "an unresolved id of nothing": (
        {"acknowledge_unresolved": "act_1"},
        "INVALID_REQUEST",
        "acknowledge_unresolved",
    ),
    **{f"the header {name}": ({"headers": {name: "x"}}, "HEADER_FORBIDDEN", f"headers.{name}") for name in FORBIDDEN},
}

BAD_URLS: dict[str, tuple[str, str]] = {
    "nothing": ("", "INVALID_TARGET"),
    "relative": ("/v1/payments", "INVALID_TARGET"),
    "another scheme": ("ftp://example.com/", "INVALID_TARGET"),
    "a file": ("file:///etc/passwd", "INVALID_TARGET"),
    "no host": ("http:///v1", "INVALID_TARGET"),
    "a user": ("http://ada@127.0.0.1/", "INVALID_TARGET"),
    "a port that is none": ("http://127.0.0.1:99999/", "INVALID_TARGET"),
    "port 0": ("http://127.0.0.1:0/", "INVALID_TARGET"),
    "a space": ("http://127.0.0.1/a b", "INVALID_TARGET"),
    "a line break": ("http://127.0.0.1/a\r\nX-A: b", "INVALID_TARGET"),
    "an invisible character": ("http://127.0.0.1/a\u200bb", "INVALID_TARGET"),
    "a path that climbs": ("http://127.0.0.1/a/../../b", "INVALID_TARGET"),
    "a path that climbs, encoded": ("http://127.0.0.1/a/%2e%2e/b", "INVALID_TARGET"),
    "too long": ("http://127.0.0.1/" + "a" * 9000, "PAYLOAD_LIMIT"),
    "plain http to elsewhere": ("http://93.184.216.34/", "TARGET_BLOCKED"),
    "the cloud's own address": ("http://169.254.169.254/latest", "TARGET_BLOCKED"),
    "the same, mapped": ("https://[::ffff:169.254.169.254]/latest", "TARGET_BLOCKED"),
    "unspecified": ("https://0.0.0.0/", "TARGET_BLOCKED"),
    "a private address without leave": ("https://10.0.0.1/", "TARGET_BLOCKED"),
    "loopback without leave": ("http://127.0.0.1:9/", "TARGET_BLOCKED"),
}


def check_refusal(found: Envelope, code: str, field: str) -> None:
    said = facts(found)
    assert (said["code"], said["outcome"]) == (code, "not_attempted"), said
    assert (said["phase"], said["retry"]) == ("validation", "after_correction"), said
    assert said["field"] == field, said
    assert len(said["message"].split()) > 4, "a sentence that names the remedy"
    assert found["evidence"]["dispatch_started"] is False


@pytest.mark.parametrize("name", REFUSED)
def test_a_request_that_is_refused(name: str, served: Served) -> None:
    more, code, field = REFUSED[name]
    params = write_to(served, "/refused", **more)
    given = {key: value for key, value in params.items() if value is not None}
    with served.broker.agent() as agent:
        found = answer(agent, "http.request", given)
        check_refusal(found, code, field)
        if code.startswith("CREDENTIAL_"):
            assert more["credential"] not in json.dumps(found), "R9: it may be a secret in the wrong place"
        recorded = answer(agent, "action.get", {"invocation_id": found["invocation_id"]})
        assert facts(recorded)["code"] == code
    assert served.world.target.arrivals("/refused") == []


@pytest.mark.parametrize("name", BAD_URLS)
def test_a_bad_url(name: str, served: Served) -> None:
    url, code = BAD_URLS[name]
    with served.broker.agent() as agent:
        check_refusal(answer(agent, "http.request", {"method": "GET", "url": url}), code, "url")
        assert agent.call("status")["vault"] == "ready"


def test_the_same_mistake_again_and_again_is_slowed(served: Served) -> None:
    """R10."""
    params = {"method": "GET", "url": f"ftp://loop-{new_operation()}/"}
    with served.broker.agent() as agent:
        found = [answer(agent, "http.request", params) for _ in range(6)]
    codes = [facts(one)["code"] for one in found]
    assert codes == ["INVALID_TARGET"] * 4 + ["REQUEST_LOOP"] * 2
    assert facts(found[4])["retry"] == "never"
    assert found[5]["invocation_id"] == found[4]["invocation_id"]


def test_one_operation_id_with_two_bodies(served: Served) -> None:
    operation_id = new_operation()
    path = f"/mismatch/{operation_id}"
    with served.broker.agent() as agent:
        first = answer(agent, "http.request", write_to(served, path, operation_id=operation_id, body="a"))
        assert facts(first)["outcome"] == "committed"
        other = answer(agent, "http.request", write_to(served, path, operation_id=operation_id, body="b"))
        check_refusal(other, "IDEMPOTENCY_MISMATCH", "operation_id")
        assert other["evidence"]["refers_to"] == first["invocation_id"]
        ack = {"invocation_id": first["invocation_id"], "sha256": "0" * 64}
        with pytest.raises(RpcError) as wrong_hash:
            agent.call("result.ack", ack)
        assert (wrong_hash.value.code, wrong_hash.value.data["field"]) == (-32602, "sha256")
        with pytest.raises(RpcError) as no_chunk:
            agent.call("result.fetch", {"invocation_id": first["invocation_id"], "chunk": 1})
        assert (no_chunk.value.code, no_chunk.value.data["field"]) == (-32602, "chunk")
    assert len(served.world.target.arrivals(path)) == 1


# -- the operator's side


def test_a_wrong_passphrase(served: Served) -> None:
    """It is told from a broken vault, nothing is opened by it, and the right one works afterwards."""
    for words in (("unlock",), ("credential", "list"), ("approve", "act_1")):
        ran = served.home.run(*words, lines=("not the passphrase",))
        assert ran.status in ((4,) if words[0] != "approve" else (1, 4)), ran
        assert "next: " in ran.err, ran
    assert served.home.operate("unlock").status == 0
    with served.broker.operator() as operator:
        with pytest.raises(RpcError) as missing:
            operator.call("credential.list")
        assert (missing.value.code, missing.value.data["field"]) == (-32602, "passphrase")
        assert operator.call("status")["vault"] == "ready"


def test_a_second_instance(served: Served) -> None:
    ran = served.home.run("serve", lines=(served.home.setting.passphrase,))
    assert ran.status == 1
    assert f"pid {served.broker.pid}" in ran.err
    assert "next: " in ran.err
    assert served.home.run("init", lines=("another",)).status == 1
    with served.broker.agent() as agent:
        assert agent.call("status")["vault"] == "ready"


# -- a home that cannot be used


def refused_start(home: Home, *words: str) -> str:
    """What `serve` says where it does not start: exit 1, and a remedy."""
    with home.start(unlock=False) as broker:
        assert not broker.serving
        assert broker.ended() == 1
    said = "".join(broker.said)
    assert "Traceback" not in said, said
    assert "next: " in said, said
    for word in words:
        assert word in said, said
    return said


def test_before_init(world: World, tmp_path: Path) -> None:
    home = Home(tmp_path, world.setting)
    refused_start(home, "affidavit init")
    for words in (("status",), ("action", "list"), ("http", "GET", "http://127.0.0.1:1/")):
        ran = home.run(*words)
        assert ran.status == 3, ran
        assert "affidavit init" in ran.err, ran


LAX: dict[str, Callable[[Home], Path]] = {
    "the sockets' directory": lambda home: home.places.run,
    "the data directory": lambda home: home.places.data,
    "the vault": lambda home: home.places.vault,
    "the device secret": lambda home: home.places.device_key,
    "the journal": lambda home: home.places.journal,
}


@pytest.mark.parametrize("name", LAX)
def test_a_home_that_others_can_read(name: str, home: Home) -> None:
    path = LAX[name](home)
    before = path.stat().st_mode
    path.chmod(0o755 if path.is_dir() else 0o644)
    said = refused_start(home, str(path), "chmod ")
    (remedy,) = [line.split("next: ")[1] for line in said.splitlines() if "next: " in line]
    subprocess.run(remedy, shell=True, check=True)
    assert path.stat().st_mode == before
    with home.serve(unlock=False) as broker:
        assert broker.stop() == 0


def test_a_client_trusts_no_directory_that_others_can_write(home: Home) -> None:
    with home.serve() as broker:
        home.places.run.chmod(0o777)
        for words in (("status",), ("approvals",)):
            ran = home.run(*words)
            assert ran.status == 3, ran
            assert "chmod 700" in ran.err, ran
        home.places.run.chmod(0o700)
        assert home.run("status").status == 0
        assert broker.stop() == 0


def test_something_else_lies_where_a_socket_goes(home: Home) -> None:
    home.places.agent_socket.write_text("mine")
    home.places.agent_socket.chmod(0o600)
    with home.start(unlock=False) as broker:
        assert broker.ended() == 1
    assert "is not a socket" in "".join(broker.said)
    assert home.places.agent_socket.read_text() == "mine"


def test_a_home_whose_sockets_would_have_too_long_a_path(world: World, tmp_path: Path) -> None:
    deep = Home(tmp_path / ("d" * 100), world.setting)
    deep.root.mkdir()
    ran = deep.run("init", lines=("a passphrase",))
    assert ran.status == 1
    assert "107" in ran.err
    assert "next: " in ran.err
    assert not deep.places.data.exists()


def test_a_home_that_is_a_file(world: World, tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    home = Home(tmp_path, world.setting)
    home.extra["AFFIDAVIT_HOME"] = str(tmp_path / "home")
    ran = home.run("init", lines=("a passphrase",))
    assert ran.status == 1, ran
    assert "Traceback" not in ran.err
    assert "next: " in ran.err


def test_a_home_that_is_named_by_nothing(home: Home) -> None:
    home.extra["AFFIDAVIT_HOME"] = ""
    ran = home.run("serve")
    assert ran.status == 1, ran
    assert "AFFIDAVIT_HOME is empty" in ran.err


def test_a_home_on_a_disk_that_cannot_be_written(home: Home) -> None:
    data = home.places.data
    mounted = (
        subprocess.run(["mount", "--bind", str(data), str(data)], capture_output=True, check=False).returncode == 0
    )
    if not mounted:
        pytest.skip("no file system can be mounted here (that takes root)")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", str(data)], capture_output=True, check=True)
        refused_start(home, "Read-only file system")
    finally:
        subprocess.run(["umount", "--lazy", str(data)], capture_output=True, check=False)
    with home.serve(unlock=False) as broker:
        assert broker.stop() == 0


# -- files that are wrong


CONTRACT = """\
id = "bad.one"
[match]
kind = "http"
method = ["GET"]
url = "https://api.example.com/v1/*"
[effect]
kind = "read"
idempotence = true
"""


def test_a_contract_with_an_unknown_key(home: Home) -> None:
    """It is named with file, line and fix; it is left out, and all else goes on."""
    bad = home.places.contracts / "bad.one.toml"
    bad.write_text(CONTRACT)
    good = home.places.contracts / "good.toml"
    good.write_text(CONTRACT.replace("idempotence", "idempotent").replace("bad.one", "good.one").replace("v1", "v2"))
    ran = home.run("contract", "check", str(bad), "--json")
    assert ran.status == 1
    (problem,) = ran.json["problems"]
    assert (problem["line"], problem["key"]) == (8, "effect.idempotence")
    assert "idempotent" in problem["fix"]
    with home.serve() as broker:
        said = "".join(broker.said)
        assert "refused bad.one.toml" in said
        assert "adopted good.toml" in said
        refused = home.operate("contract", "adopt", str(bad))
        assert refused.status == 1
        assert "bad.one.toml:8" in refused.err
        ids = {each["contract"]["id"] for each in home.run("contract", "list", "--json").json["contracts"]}
        assert "good.one" in ids
        assert "bad.one" not in ids
        assert broker.stop() == 0


def test_a_settings_file_that_loosens_or_is_wrong(home: Home) -> None:
    settings = home.places.settings
    for text, what in (
        ("[limit]\nactions_per_s = 1\nno_such = 1\n", "line 3"),
        ("[limit]\nactions_per_s = 1000\n", "loosen"),
        ("approvals = \n", "TOML"),
    ):
        settings.write_text(text)
        settings.chmod(0o600)
        refused_start(home, str(settings), what)
    settings.write_text("[limit]\nactions_per_s = 1\n")
    with home.serve(unlock=False) as broker:
        assert broker.stop() == 0


# -- commands that are wrong


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (("no-such",), "COMMAND"),
        (("http", "GET"), "URL"),
        (("http", "GET", "http://127.0.0.1:1/", "-H", "no colon"), "-H/--header"),
        (("http", "POST", "http://127.0.0.1:1/", "-d", "@/no/such/file"), "-d/--data"),
        (("attest", "act_1", "--outcome", "perhaps", "--note", "x"), "--outcome"),
        (("unlock", "--passphrase-fd", "99"), "--passphrase-fd"),
    ],
)
def test_a_command_that_is_wrong(words: tuple[str, ...], field: str, served: Served) -> None:
    ran = served.home.run(*words)
    assert ran.status == 2, ran
    assert "Traceback" not in ran.err
    as_json = served.home.run(*words, "--json")
    assert as_json.status == 2
    assert field in as_json.out + as_json.err
