"""A real broker among hostile peers: what an agent asks on its socket, what a peer did with each of its bytes, and what
the broker's records say of it.

One broker serves all cases of a module. Its targets are ports of loopback that listen from its start; each case plays
its own peer on one of them. Names end in `.test` and are looked up as `RESOLVER` says, for no test may ask a network.
"""

from __future__ import annotations

import asyncio
import secrets
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import trustme
from tests.broker.wire.peer import Call, Peer, Script, listening, server_context
from tests.e2e.rig import LIMIT_S, Broker, Envelope, Home, answer, closed_socket, copy_of, facts, new_operation
from tests.e2e.said import Said, said, unknown

from affidavit.ipc.client import ActionFailed

PINNED, UNKNOWN_NAME, HIDDEN = "pinned.test", "no-such.test", "hidden.test"
"""A name that leads to loopback, one that does not exist, and one that only the proxy may look up."""

RESOLVER = f"""\
import socket

_real = socket.getaddrinfo


def getaddrinfo(host, port, *rest, **named):
    name = host.decode() if isinstance(host, bytes) else host
    if name == {PINNED!r}:
        return _real("127.0.0.1", port, *rest, **named)
    if name.endswith(".test"):
        raise socket.gaierror(socket.EAI_NONAME, "no such name")
    return _real(host, port, *rest, **named)


socket.getaddrinfo = getaddrinfo
"""
"""Stands in the broker's process for the system's resolver, whose answers depend on where the tests run."""

NARROW_BYTES = 16 * 1024
"""What the narrow port takes unread: a body of BIG does not go out to a peer that does not read."""
BIG = 7 * 1024 * 1024

DEADLINE_S = 20.0
"""Of cases that end before it."""
GRACE_S = 2.0
"""By the broker's own records a verdict comes half a second after the deadline at most; a busy machine is given more,
and a broker that waited for its peer would not come near it."""
HURRY = ("tls_handshake_s = 0.3", "proxy_tunnel_s = 0.3")
"""Stage limits of the broker for peers that stall in set-up."""

_CONTRACT = """id = "hostile.{name}"
source = "https://docs.example.com/"
checked = 2026-11-30
[match]
kind = "http"
method = ["POST"]
url = "{url}"
[effect]
kind = "write"
{effect}
[approval]
mode = "never"
{rest}
"""
CONTRACTS = {
    "trusting": ("", '[verdict]\nproxy_status = "trusted"'),
    "refusing": ("", "[verdict]\nrefused = [429, 503]"),
    "keyed": ("", '[idempotency]\nheader = "Idempotency-Key"\nretention = "24h"'),
    "closing": ('completion = "close"', ""),
    "receipt": ('completion = "header:X-Receipt"', ""),
}
"""Contracts by the first segment of the path they are for; everywhere else `default.write` or `default.read` holds."""

LOST = unknown("REMOTE_OUTCOME_UNKNOWN")
CUT = unknown()
LATE = unknown("REMOTE_DEADLINE")
GATEWAY = unknown("GATEWAY_UNCERTAIN")


@dataclass(frozen=True, slots=True)
class Played:
    """One case: what the agent was told, what its peer saw, and the records."""

    envelope: Envelope
    calls: tuple[Call, ...]
    events: tuple[Mapping[str, Any], ...]

    @property
    def said(self) -> Said:
        return said(self.envelope)

    @property
    def kinds(self) -> list[str]:
        return [event["kind"] for event in self.events]

    @property
    def body(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.envelope["http"]["body"]
        return found

    def check(self, verdict: Said, *others: Said, deadline_s: float = DEADLINE_S) -> None:
        """The verdict is one of these, the records carry it, and the peer saw no more than they say."""
        assert self.said in (verdict, *others), self.envelope
        dispatches = self.kinds.count("DISPATCH_STARTED")
        begun = [call for call in self.calls if b"Host: " in call.received and b"CONNECT " not in call.received]
        if self.said[1] == "not_attempted":
            assert dispatches == 0
            assert begun == [], "a byte of the request went out"
        else:
            assert dispatches == 1
            assert len(begun) <= 1, "it arrived more than once"
        if self.said[1] == "not_attempted" or self.said[1:3] == ("unknown", "REMOTE_RESULT_INCOMPLETE"):
            assert self.envelope.get("http") is None, "a part of an answer is no result"
        approved = [event for event in self.events if event["kind"] == "APPROVAL_DECIDED"]
        if approved:
            (last,) = [event for event in self.events if event["kind"] in _VERDICTS]
            assert _elapsed_s(approved[0], last) <= deadline_s + GRACE_S


_VERDICTS = ("ACTION_STOPPED", "RESULT_COMMITTED", "OUTCOME_UNKNOWN")


def _elapsed_s(first: Mapping[str, Any], last: Mapping[str, Any]) -> float:
    return (datetime.fromisoformat(last["at"]) - datetime.fromisoformat(first["at"])).total_seconds()


Ports = Mapping[str, socket.socket]
"""`plain`, `narrow`, `tls`, `proxy`, and `closed`, on which nobody listens."""


def url_of(ports: Ports, at: str, path: str, host: str = "127.0.0.1") -> str:
    return f"{'https' if at == 'tls' else 'http'}://{host}:{ports[at].getsockname()[1]}{path}"


@dataclass(frozen=True, slots=True)
class Ground:
    """Where cases are played."""

    home: Home
    broker: Broker
    ports: Ports
    authority: trustme.CA
    """The broker trusts it for its targets."""
    server_tls: ssl.SSLContext

    def port(self, at: str) -> int:
        return int(self.ports[at].getsockname()[1])

    def url(self, at: str, path: str = "/effect", host: str = "127.0.0.1") -> str:
        return url_of(self.ports, at, path, host)

    def peer(self, script: Script, at: str = "plain", tls: ssl.SSLContext | None = None, **options: Any) -> Peer:
        """A peer on this port, for as long as its context; nobody else listens there meanwhile."""
        if at == "tls":
            tls = tls or self.server_tls
        return Peer(script, tls, listener=self.ports[at], **options)

    def ask(self, *many: Mapping[str, Any]) -> list[Envelope]:
        """An `http.request` for each of these, all at once, on a connection of its own."""
        common = {"method": "POST", "deadline_s": DEADLINE_S, "wait_s": LIMIT_S}
        calls = [("http.request", {**common, "operation_id": new_operation(), **params}) for params in many]
        with self.broker.agent() as agent:
            return [
                found.envelope if isinstance(found, ActionFailed) else found
                for found in agent.batch(calls, timeout_s=LIMIT_S)
            ]

    def look(self, envelope: Envelope) -> Envelope:
        """What is told of an invocation now, with its records, on a connection of its own."""
        with self.broker.agent() as agent:
            return answer(agent, "action.get", {"invocation_id": envelope["invocation_id"], "events": True})

    async def play(
        self, script: Script, at: str = "plain", *, peer: Mapping[str, Any] | None = None, **params: Any
    ) -> Played:
        """Ask for one effect of a peer that plays `script`; `params` go into the request over its defaults."""
        async with self.peer(script, at, **(peer or {})) as playing:
            given = {"url": self.url(at), **params}
            envelope = await self.asked({**given, "url": f"{given['url']}?n={secrets.token_hex(8)}"})
            return await self.seen(envelope, *playing.calls)

    async def asked(self, params: Mapping[str, Any]) -> Envelope:
        body = {} if params.get("method") in ("GET", "HEAD") else {"body": "amount=5"}
        (found,) = await asyncio.to_thread(self.ask, {**body, **params})
        return found

    async def seen(self, envelope: Envelope, *calls: Call) -> Played:
        """The records too, which say to a new connection what the call was told."""
        found = await asyncio.to_thread(self.look, envelope)
        assert facts(found) == facts(envelope)
        return Played(envelope, calls, tuple(found["events"]))


@dataclass(frozen=True, slots=True)
class Prepared:
    """What an operator has set up for all cases. Nothing serves it."""

    home: Home
    ports: Ports
    authority: trustme.CA


@contextmanager
def prepared(template: Home, scratch: Path) -> Iterator[Prepared]:
    with ExitStack() as stack:
        home = copy_of(template)
        stack.callback(home.remove)
        ports = {
            at: stack.enter_context(listening(rcvbuf=NARROW_BYTES if at == "narrow" else None))
            for at in ("plain", "narrow", "tls", "proxy")
        }
        ports["closed"] = stack.enter_context(closed_socket())
        authority = trustme.CA()
        _set_up(home, ports, authority, scratch)
        yield Prepared(home, ports, authority)


@contextmanager
def ground(ready: Prepared, *limits: str) -> Iterator[Ground]:
    """A broker for cases, with these lines among the limits of its settings file."""
    home = copy_of(ready.home)
    home.extra |= ready.home.extra
    home.places.settings.write_text("\n".join(["[limit]", "setup_tries = 2", *limits, ""]))
    try:
        with home.serve() as broker:
            tls = server_context(ready.authority.issue_cert("127.0.0.1"))
            yield Ground(home, broker, ready.ports, ready.authority, tls)
            assert [line for line in broker.said if "Traceback" in line or "failed with" in line] == []
            assert broker.stop() == 0
    finally:
        home.remove()


def _set_up(home: Home, ports: Ports, authority: trustme.CA, scratch: Path) -> None:
    """What an operator does, with the broker's own commands."""
    targets = [url_of(ports, at, "/**") for at in ("plain", "narrow", "closed")]
    secure = [url_of(ports, "tls", "/**", host) for host in ("127.0.0.1", PINNED)]
    secure += [f"https://{host}/**" for host in (UNKNOWN_NAME, HIDDEN)]
    pem = scratch / "authority.pem"
    pem.write_bytes(authority.cert_pem.bytes())
    (scratch / "sitecustomize.py").write_text(RESOLVER)
    before = home.environment.get("PYTHONPATH")
    home.extra["PYTHONPATH"] = f"{scratch}:{before}" if before else str(scratch)
    for name, (effect, rest) in CONTRACTS.items():
        text = _CONTRACT.format(name=name, url=url_of(ports, "plain", f"/{name}/**"), effect=effect, rest=rest)
        (home.places.contracts / f"hostile-{name}.toml").write_text(text)
    bearer = ("credential", "add", "hostile", "--kind", "bearer", "--approval", "never", "--private")
    done = [
        home.operate(*bearer, *_each("--target", *targets, *secure), secret=home.setting.secret),
        home.operate("trust", "add", "hostile", "--ca", str(pem), *_each("--target", *secure)),
        home.operate("proxy", "set", url_of(ports, "proxy", ""), *_each("--no-proxy", PINNED, UNKNOWN_NAME)),
        home.operate("contract", "adopt", "--all"),
        home.operate("settings", "set", "limit.actions_burst", "1000000"),
    ]
    for ran in done:
        assert ran.status == 0, ran


def _each(option: str, *values: str) -> list[str]:
    return [word for value in values for word in (option, value)]
