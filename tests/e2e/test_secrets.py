"""A planted secret, and the passphrase, are nowhere but in the vault (R12, R31, R62; architecture, Vault and keys).

The target gives back whatever it was sent, in every way that it can; the agent, too, puts the secret where it does not
belong. Then everything that was written, said or shown is searched, the unsealed records included.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote_to_bytes

import paramiko
import pytest
from tests.broker.wire.ssh.peer import HOST_KEY, Access, Peer
from tests.broker.wire.ssh.peer import Call as PeerCall
from tests.e2e.conftest import World
from tests.e2e.hosts import ANYTHING, add_host, adopt
from tests.e2e.needles import Needles, files, forms, process, texts
from tests.e2e.rig import LIMIT_S, Broker, Envelope, Home, answer, facts, new_secret, until
from tests.e2e.target import Call

from affidavit.broker.vault import Vault
from affidavit.broker.wire.ssh.channel import Kind
from affidavit.broker.wire.ssh.fields import string, uint32
from affidavit.broker.wire.ssh.port import HostKey
from affidavit.ipc.cli.audit import journal_key
from affidavit.journal import Opener, Reader, open_database

# -- a target that tells everything


def sent_in(call: Call) -> bytes:
    """The value of whatever carried the credential, as it arrived."""
    for name in ("authorization", "x-api-key"):
        if value := call.arrival.header(name):
            return value.rpartition(" ")[2].encode()
    return unquote_to_bytes(call.arrival.path.rpartition("=")[2])


def echo(call: Call) -> None:
    """Everything back, in body and headers, in every form that is redacted (interface, Results)."""
    value = sent_in(call)
    lines = [form for name, form in forms(value) if name not in ("its first bytes", "UTF-16")]
    body = b"\n".join([call.arrival.head, *lines, json.dumps({"token": value.decode()}).encode()])
    call.answer(200, body, f"X-Echo: {value.decode()}", f"Set-Cookie: s={value.decode()}", f'ETag: "{value.hex()}"')


def unauthorised(call: Call) -> None:
    value = sent_in(call).decode()
    call.answer(401, f"bad token {value}".encode(), f'WWW-Authenticate: Bearer realm="{value}"')


def in_two_parts(call: Call) -> None:
    """The value is cut by the border of two chunks, and comes at different times."""
    value = sent_in(call)
    half = len(value) // 2
    call.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for part in (value[:half], value[half:]):
        call.send(b"%x\r\n%b\r\n" % (len(part), part))
    call.send(b"0\r\n\r\n")


def body_cut(call: Call) -> None:
    call.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\ntoken " + sent_in(call) + b" and then nothing")


def body_cut_inside(call: Call) -> None:
    """The connection ends inside the value."""
    call.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\ntoken " + sent_in(call)[:-3])


def head_cut(call: Call) -> None:
    call.send(b"HTTP/1.1 200 OK\r\nX-Token: " + sent_in(call))


def head_broken(call: Call) -> None:
    call.send(b"HTTP/1.1 200 OK\r\n" + sent_in(call) + b"\r\n\r\n")


def no_http(call: Call) -> None:
    call.send(sent_in(call) + b" is no status line\r\n\r\n")


def at_the_limit(call: Call) -> None:
    """The value lies across the end of what is kept of an incomplete answer (4 KiB)."""
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n"
    value = sent_in(call)
    call.send(head + b"." * (4096 - len(head) - len(value) + 3) + value + b"." * 100)


def over_chunks_cut(call: Call) -> None:
    """The value lies over the border of two chunks of an answer that does not end."""
    value = sent_in(call)
    call.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for part in (value[:12], value[12:]):
        call.send(b"%x\r\n%b\r\n" % (len(part), part))


def coded_cut(call: Call) -> None:
    coded = gzip.compress(b"token " + sent_in(call))
    call.send(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 9999\r\n\r\n" + coded)


def cookie_cut(call: Call) -> None:
    """A secret that the target makes up itself."""
    call.send(b"HTTP/1.1 200 OK\r\nSet-Cookie: s=%b\r\nContent-Length: 9999\r\n\r\nhalf" % COOKIE.encode())


def two_members(call: Call) -> None:
    """What ends in order and decodes only for whoever goes on behind the end of its coding."""
    call.answer(200, gzip.compress(b"token") + gzip.compress(sent_in(call)), "Content-Encoding: gzip")


def cut_coding(call: Call) -> None:
    call.answer(200, gzip.compress(b"token " + sent_in(call))[:-4], "Content-Encoding: gzip")


def late(call: Call) -> None:
    """A receipt long after the caller had its verdict, and a body that breaks off behind it."""
    call.hold()
    call.send(b"HTTP/1.1 200 OK\r\nX-Receipt: r\r\nContent-Length: 9999\r\n\r\ntoken " + sent_in(call))


def gateway(call: Call) -> None:
    call.answer(502, sent_in(call), f'Proxy-Status: p; details="{sent_in(call).decode()}"')


COMPLETE = {"echo": echo, "unauthorised": unauthorised, "in-two-parts": in_two_parts, "gateway": gateway}
BROKEN = {
    "body-cut": body_cut,
    "body-cut-inside": body_cut_inside,
    "head-cut": head_cut,
    "head-broken": head_broken,
    "no-http": no_http,
    "at-the-limit": at_the_limit,
    "over-chunks-cut": over_chunks_cut,
    "coded-cut": coded_cut,
    "cookie-cut": cookie_cut,
}
WITHHELD = {"two-members": two_members, "cut-coding": cut_coding}

COOKIE = new_secret()
RECEIPT = """
id = "target.late"
[match]
kind = "http"
method = ["POST"]
url = "http://127.0.0.1:{port}/bearer/late"
[effect]
kind = "write"
completion = "header:X-Receipt"
[approval]
mode = "never"
"""


GZIP = b"\x1f\x8b\x08"

# -- where it is searched for


def unsealed(home: Home) -> Iterator[tuple[str, bytes]]:
    """Every record's payload, opened with the vault; and every cell of the journal's tables beneath its outer key."""
    key = journal_key(home.places)
    vault = Vault(home.places)
    vault.unlock(bytearray(home.setting.passphrase.encode()))
    try:
        with vault.journal_private_key() as private:
            opener = private.use(lambda lent: Opener(bytes(lent)))
    finally:
        vault.close()
    reader = Reader.open(home.places.journal, bytes(key))
    try:
        for record in reader.records_between(1, reader.head().seq):
            payload = opener.payload(record)
            yield f"record {record.seq} {record.kind}", json.dumps(payload).encode()
            for text in texts_in(payload):
                yield f"record {record.seq} {record.kind}, decoded", decoded(text)
    finally:
        reader.close()
    database = open_database(home.places.journal, bytes(key), read_only=True)
    try:
        for (table,) in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
            for number, row in enumerate(database.execute(f'SELECT * FROM "{table}"').fetchall()):
                for cell in row:
                    yield f"{table} row {number}", cell if isinstance(cell, bytes) else str(cell).encode()
    finally:
        database.close()


def texts_in(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for inner in value.values():
                yield from texts_in(inner)
        case list():
            for inner in value:
                yield from texts_in(inner)


def decoded(text: str) -> bytes:
    """What a text is in base64, and what gzip in that unpacks to; nothing where it is none."""
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError:
        return b""
    return b"\n".join([data, *unpacked(data)])


def unpacked(data: bytes) -> Iterator[bytes]:
    """Of each gzip member in some bytes whatever there is, its end or not."""
    at = data.find(GZIP)
    while at >= 0:
        with suppress(zlib.error):
            yield zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(data[at:])
        at = data.find(GZIP, at + 1)


def told(home: Home) -> Iterator[tuple[str, bytes]]:
    """What commands and brokers said, what agents were answered, with every text of it decoded too, and arguments."""
    yield from texts("output", home.heard)
    for number, said in enumerate(home.heard):
        for word in re.findall(r"[A-Za-z0-9+/=_-]{12,}", said):
            yield f"output {number}, decoded", decoded(word)
    yield from texts("arguments", ("\0".join(argv) for argv in home.argvs))


def look_everywhere(home: Home, *found_by_process: tuple[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """After the end of the broker."""
    yield from files(home.root)
    yield from told(home)
    yield from unsealed(home)
    yield from found_by_process


# -- the run


def ask(home: Home, agent: Any, params: dict[str, Any]) -> Envelope:
    """An agent's call; its whole answer is kept to be searched."""
    found = answer(agent, "http.request", {"wait_s": LIMIT_S, **params})
    home.heard.append(json.dumps(found))
    return found


def retold(home: Home, agent: Any) -> None:
    """Everything that an agent can be told afterwards: each action with its records, each result."""
    rows = agent.call("action.list", {"limit": 200})["rows"]
    assert rows
    for row in rows:
        named = {"invocation_id": row["invocation_id"]}
        found = answer(agent, "action.get", {**named, "events": True})
        home.heard.append(json.dumps(found))
        if "http" in found and not found["http"]["body"].get("withheld") and found["http"]["body"]["complete"]:
            home.heard.append(json.dumps(agent.call("result.fetch", {**named, "chunk": 0})))


KINDS: dict[str, tuple[str, ...]] = {
    "bearer": ("--kind", "bearer"),
    "basic": ("--kind", "basic", "--username", "ada"),
    "header": ("--kind", "header", "--header", "X-Api-Key", "--format", "token {secret}"),
    "query": ("--kind", "query", "--header", "api_key"),
}


def add_kinds(home: Home, world: World, secret: str) -> None:
    for name, options in KINDS.items():
        target = f"http://127.0.0.1:{world.target.port}/{name}/**"
        ran = home.operate("credential", "add", f"of-{name}", *options, "--target", target, secret=secret)
        assert ran.status == 0, ran


@pytest.mark.timeout(240)
def test_the_secret_is_nowhere(home: Home, world: World) -> None:
    secret = new_secret()
    needles = Needles(secret=secret, old=home.setting.secret, passphrase=home.setting.passphrase, cookie=COOKIE)
    (home.places.contracts / "late.toml").write_text(RECEIPT.format(port=world.target.port))
    assert home.operate("contract", "adopt", "--all").status == 0
    with home.serve() as broker:
        pid = broker.pid
        add_kinds(home, world, secret)
        arrived = everything_told_back(home, broker, world)
        assert all(any(needle in head for needle in as_sent(secret)) for head in arrived), "it was sent each time"
        told_back_late(home, broker, world)
        the_agent_leaks_it(home, broker, world, secret)
        the_operator_mistypes(home, secret)
        by_commands(home, world)
        with broker.agent() as agent:
            retold(home, agent)
        shown = list(process(pid))
        assert broker.stop() == 0
    home.heard += broker.said
    assert needles.found(look_everywhere(home, *shown)) == []


def as_sent(secret: str) -> tuple[bytes, ...]:
    return secret.encode(), base64.b64encode(b"ada:" + secret.encode()), quote(secret, safe="").encode()


def everything_told_back(home: Home, broker: Broker, world: World) -> list[bytes]:
    """Every kind of credential, every way of giving it back; what the target was sent."""
    arrived = []
    with broker.agent() as agent:
        for kind in KINDS:
            for name, script in (COMPLETE | BROKEN | WITHHELD).items():
                path = f"/{kind}/{name}"
                world.target.scripts[path] = script
                found = ask(home, agent, {"method": "GET", "url": url(world, path), "credential": f"of-{kind}"})
                last = world.target.arrivals(path)[-1]
                arrived.append(last.head)
                check_told_back(kind, name, found)
    return arrived


def told_back_late(home: Home, broker: Broker, world: World) -> None:
    """After the verdict, and after the action has let go of whatever it needs no more."""
    world.target.scripts["/bearer/late"] = late
    params = {"method": "POST", "url": url(world, "/bearer/late"), "json": {"a": 1}, "credential": "of-bearer"}
    with broker.agent() as agent:
        found = ask(home, agent, {**params, "wait_s": 0})
        named = {"invocation_id": found["invocation_id"]}
        (call,) = world.target.calls("/bearer/late")
        assert call.reached.wait(LIMIT_S)
        assert facts(answer(agent, "action.cancel", named))["outcome"] == "unknown"
        call.release.set()
        until(lambda: facts(answer(agent, "action.get", named))["outcome"] == "committed", "the late receipt")
        settled = answer(agent, "action.get", named)
    home.heard.append(json.dumps(settled))
    assert decoded(settled["evidence"]["diagnostic"]["base64"]).endswith(b"\r\n\r\ntoken [redacted]")


def check_told_back(kind: str, name: str, found: Envelope) -> None:
    """The answer that gave it back is there, with something taken out of it."""
    if name in BROKEN:
        assert facts(found)["outcome"] == "unknown", (kind, name, found)
        assert "http" not in found
        return
    assert "http" in found, (kind, name, found)
    body = found["http"]["body"]
    if name in WITHHELD:
        assert body["withheld"], (kind, name)
        assert "base64" not in body
        return
    assert body["redactions"] > 0, (kind, name)
    assert "[redacted]" in body["text"], (kind, name)
    assert "set-cookie" not in found["http"]["headers"]


def url(world: World, path: str) -> str:
    return f"http://127.0.0.1:{world.target.port}{path}"


def the_agent_leaks_it(home: Home, broker: Broker, world: World, secret: str) -> None:
    """An agent that somehow has the secret puts it where it does not belong: refused, and not repeated."""
    good = url(world, "/bearer/echo")
    named = {"credential": "of-bearer"}
    authority = f"127.0.0.1:{world.target.port}"
    tries: list[tuple[str, dict[str, Any]]] = [
        ("INVALID_TARGET", {"url": f"http://ada:{secret}@{authority}/bearer/echo", **named}),
        ("INVALID_TARGET", {"url": f"http://{quote(secret, safe='')}@{authority}/bearer/echo", **named}),
        ("INVALID_TARGET", {"url": f"http://a:{quote(secret, safe='')}@{authority}/bearer/echo", **named}),
        ("CREDENTIAL_UNKNOWN", {"url": good, "credential": secret}),
        ("HEADER_FORBIDDEN", {"url": good, "headers": {"Authorization": f"Bearer {secret}"}, **named}),
        ("HEADER_FORBIDDEN", {"url": good, "headers": {"Cookie": secret}, **named}),
        ("HEADER_FORBIDDEN", {"url": good, "headers": {"X-A": f"a\r\nX-B: {secret}"}, **named}),
        ("NO_IDEMPOTENCY_CONTRACT", {"url": good, "idempotency_key": secret, **named}),
        ("INVALID_REQUEST", {"url": good, "acknowledge_unresolved": secret, **named}),
    ]
    before = len(world.target.arrivals("/bearer/echo"))
    with broker.agent() as agent:
        for code, params in tries:
            found = ask(home, agent, {"method": "GET", **params})
            assert (facts(found)["code"], facts(found)["outcome"]) == (code, "not_attempted"), (code, found)
    assert len(world.target.arrivals("/bearer/echo")) == before
    # A header that an agent may set goes out; the record names it and does not hold its value (R62).
    with broker.agent() as agent:
        found = ask(home, agent, {"method": "GET", "url": good, "headers": {"X-Mine": secret}, **named})
        assert facts(found)["outcome"] == "committed"


def the_operator_mistypes(home: Home, secret: str) -> None:
    """The secret where the passphrase goes, and names and formats that are refused."""
    for words in (("unlock",), ("credential", "list")):
        ran = home.run(*words, lines=(secret,))
        assert ran.status == 4, ran
        assert "passphrase" in ran.err
    with_control = f"{secret}\x01\n{secret}"
    target = "https://api.example.com/v1/*"
    ran = home.operate("credential", "add", "bad", "--kind", "bearer", "--target", target, secret=with_control)
    assert ran.status in (1, 2), ran
    assert "secret" in ran.err


def by_commands(home: Home, world: World) -> None:
    """The same by the commands that people and agents use, with a rotation: as text and as JSON."""
    ok = home.run("http", "GET", url(world, "/bearer/echo"), "--credential", "of-bearer")
    assert ok.status == 0, ok
    assert "[redacted]" in ok.out
    refused = home.run("http", "GET", url(world, "/bearer/unauthorised"), "--credential", "of-bearer", "--json")
    assert refused.status == 11, refused
    cut = home.run("http", "GET", url(world, "/bearer/body-cut"), "--credential", "of-bearer")
    assert cut.status == 12, cut
    hung_up = json.dumps({"amount": 3, "practice": "apply_then_hang_up"})
    lost = home.run(
        "http", "POST", f"http://127.0.0.1:{world.practice.port}/v1/payments", "-d", hung_up, "--json",
        "-H", "Content-Type: application/json",
    )  # fmt: skip
    assert lost.status == 12, lost
    id_ = lost.json["invocation_id"]
    for words in (
        ("attest", id_, "--outcome", "committed", "--note", "It stands in the account."),
        ("credential", "list"),
    ):
        assert home.operate(*words).status == 0, words
    rotated = home.operate("credential", "rotate", "of-bearer", secret=home.setting.secret)
    assert rotated.status == 0, rotated
    assert home.run("http", "GET", url(world, "/bearer/echo"), "--credential", "of-bearer").status == 0
    looks = (
        ("action", "show", id_),
        ("action", "list"),
        ("status",),
        ("approvals",),
        ("audit", "verify"),
        ("contract", "list"),
        ("settings", "show"),
    )
    for look in looks:
        assert home.run(*look).status in (0, 12), look
        assert home.run(*look, "--json").status in (0, 12), look


# -- a host that tells everything


class AnyPassword(Access):
    """Lets in, and keeps what it was told."""

    def __init__(self) -> None:
        self.told = b""

    def check_auth_password(self, username: str, password: str) -> int:
        self.told = password.encode()
        return int(paramiko.AUTH_SUCCESSFUL)


def farewell(text: bytes) -> bytes:
    return b"\1" + uint32(11) + string(text) + string(b"en")


def host_says(access: AnyPassword) -> dict[str, Callable[[PeerCall], None]]:
    """How a command may end with the password in the peer's own words, by the command."""

    def refuses(call: PeerCall) -> None:
        call.shake()
        call.expect_open()
        call.send(Kind.OPEN_FAILURE, uint32(1) + string(b"not " + access.told) + string(b"en"))

    def outputs(call: PeerCall) -> None:
        call.accept()
        call.data(b"password " + access.told)
        call.send_raw(farewell(b"bye " + access.told))

    def is_cut(call: PeerCall) -> None:
        call.accept()
        call.send_raw(farewell(b"x" * 180 + access.told))

    def kills(call: PeerCall) -> None:
        call.accept()
        fields = string(access.told) + b"\0" + string(b"by " + access.told) + string(b"en")
        call.request(b"exit-signal", fields)
        call.send(Kind.EOF)
        call.send(Kind.CLOSE)

    return {"refuses": refuses, "outputs": outputs, "is cut": is_cut, "kills": kills}


def test_a_password_that_its_host_tells_is_nowhere(home: Home) -> None:
    secret, access = new_secret(), AnyPassword()
    ran = home.operate("credential", "add", "key", "--kind", "ssh-password", "--target", "127.0.0.1", secret=secret)
    assert ran.status == 0, ran
    with Peer(PeerCall.hold) as peer:
        line = HostKey.of(HOST_KEY.asbytes()).line
        add_host(home, "peer", "127.0.0.1", port=peer.port, user="someone", host_key=line)
        adopt(home, [ANYTHING + "[retry]\nsetup = 1\n"])
        with home.serve() as broker:
            with broker.agent() as agent:
                for command, script in host_says(access).items():
                    peer.play(script, access=access)
                    found = answer(agent, "ssh.exec", {"host": "peer", "command": command, "wait_s": LIMIT_S})
                    home.heard.append(json.dumps(found))
                    assert access.told == secret.encode()
                    if command != "is cut":
                        assert "[redacted]" in home.run("action", "show", found["invocation_id"], "--json").out, found
                retold(home, agent)
            assert broker.stop() == 0
    home.heard += broker.said
    assert Needles(secret=secret).found(look_everywhere(home)) == []


# -- a bug of our own

BUG = """\
import affidavit.broker.injection as injection


def broken(credential, secret, *more):
    raise ValueError(f"cannot encode {secret.use(bytes)!r}")


injection.inject = broken
"""
"""Planted into the broker's process from outside: an exception that nobody foresaw, with the secret in its text."""


def test_an_exception_that_nobody_foresaw_does_not_tell_it(home: Home, world: World, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(BUG)
    before = os.environ.get("PYTHONPATH", "")
    home.extra["PYTHONPATH"] = f"{tmp_path}:{before}" if before else str(tmp_path)
    params = {"method": "GET", "url": url(world, "/bug"), "operation_id": "op_bug"}
    with home.serve() as broker:
        with broker.agent() as agent:
            found = ask(home, agent, params)
            assert "pending" not in found, "nobody works on it any more"
            assert facts(found)["outcome"] == "not_attempted", found
            assert agent.call("status")["vault"] == "ready"
        assert broker.stop() == 0
    home.heard += broker.said
    assert any("ValueError" in line for line in broker.said), "it is told by type and place"
    needles = Needles(secret=home.setting.secret, passphrase=home.setting.passphrase)
    assert needles.found(look_everywhere(home)) == []
    assert world.target.arrivals("/bug") == []


# -- the process is closed


def of_the_same_user() -> list[str]:
    """What makes a command one of an ordinary program of this user: root without what makes it root."""
    return ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []


LOOK = """\
import ctypes, sys
pid = int(sys.argv[1])
refused = []
for name in ("environ", "mem", "maps", "stack", "auxv"):
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            if name != "mem":
                file.read(1)
    except PermissionError:
        refused.append(name)
libc = ctypes.CDLL(None, use_errno=True)
PTRACE_SEIZE = 0x4206
if libc.ptrace(PTRACE_SEIZE, pid, 0, 0) != 0 and ctypes.get_errno() == 1:
    refused.append("ptrace")
print(" ".join(refused))
"""


def refused_of(pid: int) -> set[str]:
    """What an ordinary program of the same user may not do with a process."""
    looked = subprocess.run(
        [*of_the_same_user(), sys.executable, "-I", "-c", LOOK, str(pid)], capture_output=True, text=True, check=True
    )
    return set(looked.stdout.split())


@pytest.mark.skipif(os.geteuid() == 0 and shutil.which("setpriv") is None, reason="setpriv is not installed")
def test_no_other_program_of_the_user_can_look_into_the_broker(home: Home) -> None:
    closed = {"environ", "mem", "maps", "auxv", "ptrace"}
    waiting = [*of_the_same_user(), sys.executable, "-I", "-c", "print(1, flush=True); import sys; sys.stdin.read()"]
    with subprocess.Popen(waiting, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as ordinary:
        assert ordinary.stdout is not None
        assert ordinary.stdout.readline() == b"1\n"
        assert refused_of(ordinary.pid) & closed == set(), "these are open where a process does not close itself"
        ordinary.communicate(timeout=LIMIT_S)
    with home.serve(under=of_the_same_user()) as broker:
        assert closed <= refused_of(broker.pid)
        status = Path(f"/proc/{broker.pid}/status").read_text()
        assert re.search(r"^NoNewPrivs:\t1$", status, re.MULTILINE)


def most_core() -> None:
    """In a child: as large a core file as the system allows."""
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))


def test_the_broker_leaves_no_core_file(home: Home) -> None:
    with home.serve(before=most_core) as broker:
        limits = Path(f"/proc/{broker.pid}/limits").read_text()
        assert re.search(r"^Max core file size +0 +0 ", limits, re.MULTILINE)
        os.kill(broker.pid, signal.SIGABRT)
        assert broker.ended() == -signal.SIGABRT
    assert [path.name for path in home.root.iterdir() if path.name.startswith("core")] == []


# -- the search itself can find


@pytest.mark.parametrize("form", range(len(list(forms(b"0123456789")))))
def test_the_search_finds_each_form(form: int, tmp_path: Path) -> None:
    secret = new_secret()
    name, planted = list(forms(secret.encode()))[form]
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "file").write_bytes(b"\0before" + planted + b"after\xff")
    found = Needles(mine=secret, other=new_secret()).found(files(tmp_path))
    assert f"mine in deep/file, as {name}" in found
    assert all(place.startswith("mine ") for place in found)


def test_the_search_finds_what_is_encoded_beside_other_text() -> None:
    secret = new_secret()
    for before in range(6):
        text = base64.b64encode(b"x" * before + secret.encode() + b"tail")
        assert Needles(it=secret).found([("here", text)])
