"""CONNECT: what a proxy may answer, what each side learns of the other, and that all of it is set-up."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import trustme
from tests.broker.wire.driver import BOUND_S, Drive, ToldLine, drive, prepared
from tests.broker.wire.peer import (
    Call,
    Peer,
    Script,
    answer,
    replies,
    replies_and_stays,
    server_context,
    serves,
    tunnels,
)
from tests.broker.wire.test_dial import black_hole
from tests.broker.wire.test_hostile import stopped

from affidavit.broker.terms import Stage
from affidavit.broker.wire.dial import Address
from affidavit.broker.wire.exchange import DirectWire
from affidavit.broker.wire.port import Fault, HttpEvidence, ProxyRoute, SetupFault, SetupLimits
from affidavit.broker.wire.tunnel import Tunnel

NAME = "target.test"
AUTHORIZATION = b"Basic " + base64.b64encode(b"user:proxy-pass")


@pytest.fixture(autouse=True, params=range(3))
def nth_time(request: pytest.FixtureRequest) -> int:
    """Each case runs some times: a race shows only now and then."""
    return int(request.param)


@pytest.fixture(scope="session")
def target_cert(authority: trustme.CA) -> trustme.LeafCert:
    return authority.issue_cert(NAME, "127.0.0.1")


@pytest.fixture
def target_tls(target_cert: trustme.LeafCert) -> ssl.SSLContext:
    return server_context(target_cert)


def identity_of(cert: trustme.LeafCert) -> str:
    der = ssl.PEM_cert_to_DER_cert(cert.cert_chain_pems[0].bytes().decode())
    return "sha256:" + hashlib.sha256(der).hexdigest()


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What other programs would follow: nobody listens there."""
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")


def nobody(host: str, port: int) -> Sequence[Address]:
    raise AssertionError(f"{host} was looked up here")


@pytest.fixture
def wire(client_tls: ssl.SSLContext) -> DirectWire:
    return DirectWire(tls=client_tls, resolve=nobody)


def route(peer: Peer, *, tls: bool = False, authorization: bytes | None = None) -> ProxyRoute:
    return ProxyRoute("127.0.0.1", peer.port, tls, authorization)


def by(
    wire: DirectWire,
    proxy: ProxyRoute,
    *,
    host: str = NAME,
    port: int = 443,
    limits: SetupLimits | None = None,
    deadline_s: float = 10.0,
    allow: Callable[[str], bool] = lambda address: False,
    line: ToldLine | None = None,
) -> Drive:
    """A POST by way of a proxy. By default no address is allowed: the proxy's own is not asked about."""
    request = prepared(port, scheme="https", host=host, headers=((b"Authorization", b"Bearer target-token"),))
    return drive(wire, request, proxy=proxy, limits=limits, deadline_s=deadline_s, allow=allow, line=line)


async def stop_by(script: Script, wire: DirectWire, **options: object) -> tuple[HttpEvidence, Call]:
    """How set-up stops where the proxy does this."""
    async with Peer(script) as peer:
        run = by(wire, route(peer, authorization=AUTHORIZATION), **options)  # type: ignore[arg-type]
        evidence = await run.run()
        call = await peer.call()
    assert run.line.told == []
    assert evidence.connection is None
    return evidence, call


def said(status: str, headers: bytes = b"", body: bytes = b"") -> Script:
    """Read CONNECT, answer, close."""

    async def script(call: Call) -> None:
        await call.read_until(b"\r\n\r\n")
        await call.send(answer(body, status, headers=headers))
        await call.fin()
        await call.read_to_end()

    return script


# A tunnel that opens


@pytest.mark.parametrize("proxy_tls", [False, True], ids=["proxy in clear", "proxy over TLS"])
@pytest.mark.parametrize(
    "opened",
    [
        b"HTTP/1.1 200 Connection established\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nProxy-Agent: x\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 204 No\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n",
    ],
)
async def test_through_a_proxy_to_a_name(
    wire: DirectWire,
    target_tls: ssl.SSLContext,
    target_cert: trustme.LeafCert,
    server_tls: ssl.SSLContext,
    proxy_tls: bool,
    opened: bytes,
) -> None:
    names: list[str] = []
    target_tls.sni_callback = lambda _object, name, _context: names.append(name)
    async with (
        Peer(replies(answer(b"done", "201 Created")), target_tls) as target,
        Peer(tunnels(target.port, opened), server_tls if proxy_tls else None) as proxy,
    ):
        run = by(wire, route(proxy, tls=proxy_tls, authorization=AUTHORIZATION))
        evidence = await run.run()
        to_proxy, to_target = await proxy.call(), await target.call()
        await to_target.over.wait()
    head, _, rest = bytes(to_proxy.received).partition(b"\r\n\r\n")
    assert head == (
        b"CONNECT target.test:443 HTTP/1.1\r\nHost: target.test:443\r\nProxy-Authorization: " + AUTHORIZATION
    )
    assert b"target-token" not in to_proxy.received
    assert rest.startswith(b"\x16\x03")  # A TLS handshake, and nothing before it.
    assert to_target.received.startswith(b"POST /effect HTTP/1.1\r\n")
    assert b"roxy" not in to_target.received
    assert names == [NAME]
    assert evidence.complete
    assert run.sink.data == b"done"
    assert run.line.told == ["cross", "request_sent", "response_started"]
    connection = evidence.connection
    assert connection is not None
    assert connection.peer == connection.proxy == f"127.0.0.1:{proxy.port}"
    assert connection.resolved_by == "proxy"
    assert connection.identity == identity_of(target_cert)


async def test_large_bodies_through_tls_in_tls(
    wire: DirectWire, target_tls: ssl.SSLContext, server_tls: ssl.SSLContext
) -> None:
    body = bytes(range(256)) * 8192

    async def script(call: Call) -> None:
        received = await call.request()
        await call.send(answer(received.partition(b"\r\n\r\n")[2]))
        await call.close_notify()
        await call.read_to_end()

    async with Peer(script, target_tls) as target, Peer(tunnels(target.port), server_tls) as proxy:
        run = drive(wire, prepared(443, scheme="https", host=NAME, body=body), proxy=route(proxy, tls=True))
        evidence = await run.run()
    assert evidence.complete
    assert run.sink.data == body


async def test_the_proxys_name_is_looked_up_and_its_certificate_checked(
    client_tls: ssl.SSLContext, authority: trustme.CA, target_tls: ssl.SSLContext
) -> None:
    asked: list[str] = []

    def resolve(host: str, port: int) -> Sequence[Address]:
        asked.append(host)
        return [Address(socket.AF_INET, "127.0.0.1", port)]

    proxy_tls = server_context(authority.issue_cert("proxy.test"))
    async with Peer(replies(answer(b"ok")), target_tls) as target, Peer(tunnels(target.port), proxy_tls) as proxy:
        wire = DirectWire(tls=client_tls, resolve=resolve)
        evidence = await by(wire, ProxyRoute("proxy.test", proxy.port, tls=True)).run()
    assert evidence.complete
    assert asked == ["proxy.test"]
    assert evidence.connection is not None
    assert evidence.connection.proxy == f"proxy.test:{proxy.port}"


async def test_a_private_authority_of_the_proxy_counts_for_the_proxy_alone(
    wire: DirectWire, target_tls: ssl.SSLContext
) -> None:
    private = trustme.CA()
    proxy_tls = server_context(private.issue_cert("127.0.0.1"))
    authorities = private.cert_pem.bytes()
    async with Peer(replies(answer(b"ok")), target_tls) as target, Peer(tunnels(target.port), proxy_tls) as proxy:
        trusted = ProxyRoute("127.0.0.1", proxy.port, True, None, authorities)
        assert (await by(wire, trusted).run()).complete
    impostor = server_context(private.issue_cert(NAME))
    async with Peer(replies(answer()), impostor) as target, Peer(tunnels(target.port), proxy_tls) as proxy:
        trusted = ProxyRoute("127.0.0.1", proxy.port, True, None, authorities)
        evidence = await by(wire, trusted).run()
    assert stopped(evidence) == (Stage.CERTIFICATE, SetupFault.CERTIFICATE, "CERT_UNTRUSTED")


async def test_reads_share_a_tunnel(wire: DirectWire, target_tls: ssl.SSLContext) -> None:
    async with (
        Peer(serves(answer(b"one"), answer(b"two")), target_tls) as target,
        Peer(tunnels(target.port)) as proxy,
    ):
        ended = []
        for _ in range(2):
            request = prepared(443, scheme="https", host=NAME, method="GET", body=b"")
            ended.append(await drive(wire, request, proxy=route(proxy), reuse="r").run())
        wire.close_idle()
        assert len(proxy.calls) == len(target.calls) == 1
    first, second = ended[0].connection, ended[1].connection
    assert first is not None
    assert second is not None
    assert second.reused
    assert (second.identity, second.proxy, second.resolved_by) == (first.identity, first.proxy, "proxy")


async def test_a_key_that_is_too_wide_still_keeps_ways_apart(wire: DirectWire, target_tls: ssl.SSLContext) -> None:
    async with (
        Peer(serves(answer(b"one"), answer(b"two")), target_tls) as target,
        Peer(tunnels(target.port)) as proxy,
    ):
        ways = []
        for by_way in (route(proxy), None):
            request = prepared(target.port, scheme="https", host="127.0.0.1", method="GET", body=b"")
            evidence = await drive(wire, request, proxy=by_way, reuse="r").run()
            assert evidence.connection is not None
            ways.append((evidence.connection.proxy, evidence.connection.reused))
        wire.close_idle()
    assert ways == [(f"127.0.0.1:{proxy.port}", False), (None, False)]


# Literals are checked here, names there


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_a_literal_target_is_checked_here(wire: DirectWire, host: str) -> None:
    asked: list[str] = []

    def allow(address: str) -> bool:
        asked.append(address)
        return False

    async with Peer(Call.hold) as proxy:
        evidence = await by(wire, route(proxy), host=host, allow=allow).run()
        assert proxy.calls == []
    assert stopped(evidence) == (Stage.DNS, SetupFault.BLOCKED, "ADDRESS_BLOCKED")
    assert evidence.stopped is not None
    assert evidence.stopped.address == host
    assert asked == [host]


async def test_a_literal_target_needs_no_resolver(wire: DirectWire, target_tls: ssl.SSLContext) -> None:
    async with Peer(replies(answer(b"ok")), target_tls) as target, Peer(tunnels(target.port)) as proxy:
        evidence = await by(wire, route(proxy), host="127.0.0.1", allow=lambda address: address == "127.0.0.1").run()
    assert evidence.complete
    assert evidence.connection is not None
    assert evidence.connection.resolved_by is None
    assert evidence.connection.proxy is not None


async def test_an_ipv6_literal_is_written_in_brackets(wire: DirectWire) -> None:
    evidence, call = await stop_by(said("403 Forbidden"), wire, host="2001:db8::1", allow=lambda address: True)
    assert call.received.startswith(b"CONNECT [2001:db8::1]:443 HTTP/1.1\r\nHost: [2001:db8::1]:443\r\n")
    assert stopped(evidence)[1] is SetupFault.PROXY_REFUSED


# A tunnel that does not


@pytest.mark.parametrize(
    ("status", "fault"),
    [
        ("h19 407 Proxy Authentication Required", SetupFault.PROXY_REFUSED),
        ("h20 502 Bad Gateway", SetupFault.PROXY_ERROR),
        ("h21 302 Found", SetupFault.PROXY_REFUSED),
        ("403 Forbidden", SetupFault.PROXY_REFUSED),
        ("404 Not Found", SetupFault.PROXY_REFUSED),
        ("429 Too Many Requests", SetupFault.PROXY_REFUSED),
        ("304 Not Modified", SetupFault.PROXY_REFUSED),
        ("500 Internal Server Error", SetupFault.PROXY_ERROR),
        ("503 Service Unavailable", SetupFault.PROXY_ERROR),
        ("504 Gateway Timeout", SetupFault.PROXY_ERROR),
    ],
)
async def test_h19_h20_h21_other_answers(wire: DirectWire, status: str, fault: SetupFault) -> None:
    line = status.partition(" ")[2] if status.startswith("h") else status
    headers = (
        b"Location: https://portal.test/\r\nProxy-Status: squid; error=destination_unavailable\r\nProxy-Status: b\r\n"
    )
    evidence, call = await stop_by(said(line, headers, b"<html>why</html>"), wire)
    assert stopped(evidence) == (Stage.PROXY_TUNNEL, fault, f"HTTP_{line[:3]}")
    assert evidence.stopped is not None
    assert evidence.stopped.reached is Stage.TCP_CONNECT
    assert evidence.stopped.address == "127.0.0.1"
    assert evidence.stopped.detail == "squid; error=destination_unavailable, b"
    assert call.received.count(b"CONNECT") == 1
    assert b"target-token" not in call.received


@pytest.mark.parametrize("echoed", [AUTHORIZATION, AUTHORIZATION.removeprefix(b"Basic "), b"proxy-pass"])
async def test_a_proxy_status_that_repeats_the_credentials_is_withheld(wire: DirectWire, echoed: bytes) -> None:
    headers = b"Proxy-Status: p; error=proxy_internal_error; details=" + b'"' + echoed + b'"\r\n'
    evidence, _ = await stop_by(said("502 Bad Gateway", headers), wire)
    assert evidence.stopped is not None
    assert evidence.stopped.detail.startswith("(withheld")
    assert "proxy-pass" not in repr(evidence)


async def test_a_proxy_status_is_kept_to_its_limit(wire: DirectWire) -> None:
    evidence, _ = await stop_by(said("502 Bad Gateway", b"Proxy-Status: " + b"p" * 5000 + b"\r\n"), wire)
    assert evidence.stopped is not None
    assert evidence.stopped.detail == "p" * 1024


async def _silent(call: Call) -> None:
    await call.read_until(b"\r\n\r\n")
    await call.hold()


async def _drips(call: Call) -> None:
    await call.read_until(b"\r\n\r\n")
    while not call.over.is_set():
        await call.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        for _ in range(100):
            await asyncio.sleep(0)


@pytest.mark.parametrize("script", [_silent, _drips, Call.hold])
async def test_h24_never_answers(wire: DirectWire, script: Script) -> None:
    evidence, _ = await stop_by(script, wire, limits=SetupLimits(proxy_tunnel_s=0.05))
    assert stopped(evidence) == (Stage.PROXY_TUNNEL, SetupFault.LIMIT, "ETIMEDOUT")


async def test_deadline_while_the_proxy_is_silent(wire: DirectWire) -> None:
    evidence, _ = await stop_by(_silent, wire, deadline_s=0.1, limits=SetupLimits(proxy_tunnel_s=2 * BOUND_S))
    assert stopped(evidence) == (Stage.PROXY_TUNNEL, SetupFault.DEADLINE, "ETIMEDOUT")


@pytest.mark.parametrize(
    ("data", "system"),
    [
        (b"SSH-2.0-OpenSSH\r\n", "HTTP_MALFORMED"),
        (b"HTTP/2.0 200 OK\r\n\r\n", "HTTP_MALFORMED"),
        (b"HTTP/1.1 999 Odd\r\n\r\n", "HTTP_MALFORMED"),
        (b"HTTP/1.1 200 OK\nProxy-Agent: x\n\n", "HTTP_MALFORMED"),
        (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", "HTTP_MALFORMED"),
        (b"HTTP/1.1 200 OK\r\nA: " + b"a" * 70_000, "HTTP_MALFORMED"),
        (b"HTTP/1.1 200 OK\r\n\r\n<html>", "HTTP_EXCESS"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + answer(b"poison"), "HTTP_EXCESS"),
    ],
)
@pytest.mark.parametrize("stays", [False, True])
async def test_h23_garbled(wire: DirectWire, data: bytes, system: str, stays: bool) -> None:
    async def script(call: Call) -> None:
        await call.read_until(b"\r\n\r\n")
        await call.send(data)
        if stays:
            await call.hold()

    evidence, _ = await stop_by(script, wire)
    assert stopped(evidence) == (Stage.PROXY_TUNNEL, SetupFault.PROXY_GARBLED, system)


@pytest.mark.parametrize("data", [b"", b"HTTP/1.1 2", b"HTTP/1.1 200 OK\r\nProxy-Ag"])
@pytest.mark.parametrize(("act", "system"), [(Call.fin, "EOF"), (Call.reset, "ECONNRESET")])
async def test_closed_in_place_of_an_answer(wire: DirectWire, data: bytes, act: Script, system: str) -> None:
    async def script(call: Call) -> None:
        await call.read_until(b"\r\n\r\n")
        await call.send(data)
        await act(call)

    evidence, _ = await stop_by(script, wire)
    assert stopped(evidence) == (Stage.PROXY_TUNNEL, SetupFault.REFUSED, system)


async def test_reset_before_it_was_asked(wire: DirectWire) -> None:
    evidence, _ = await stop_by(Call.reset, wire)
    stage, fault, _system = stopped(evidence)
    assert (stage, fault) == (Stage.PROXY_TUNNEL, SetupFault.REFUSED)


async def test_h22_closed_after_it_opened(wire: DirectWire) -> None:
    async def script(call: Call) -> None:
        await call.read_until(b"\r\n\r\n")
        await call.send(b"HTTP/1.1 200 OK\r\n\r\n")
        await call.fin()
        await call.read_to_end()

    evidence, _ = await stop_by(script, wire)
    assert stopped(evidence) == (Stage.TLS_HANDSHAKE, SetupFault.HANDSHAKE, "EOF")
    assert evidence.stopped is not None
    assert evidence.stopped.reached is Stage.PROXY_TUNNEL


async def test_h18_a_proxy_that_answers_in_the_targets_place(wire: DirectWire) -> None:
    async def script(call: Call) -> None:
        await call.read_until(b"\r\n\r\n")
        await call.send(b"HTTP/1.1 200 OK\r\n\r\n")
        await call.read_until(b"\x16\x03")
        await call.send(answer(b"not the target"))
        await call.hold()

    evidence, call = await stop_by(script, wire)
    assert stopped(evidence) == (Stage.TLS_HANDSHAKE, SetupFault.HANDSHAKE, "WRONG_VERSION_NUMBER")
    assert b"target-token" not in call.received


async def test_h13_through_a_proxy_the_certificate_is_checked_on_the_targets_name(
    wire: DirectWire, server_tls: ssl.SSLContext
) -> None:
    async with Peer(replies(answer()), server_tls) as target, Peer(tunnels(target.port)) as proxy:
        evidence = await by(wire, route(proxy)).run()
    assert stopped(evidence) == (Stage.CERTIFICATE, SetupFault.CERTIFICATE, "CERT_NAME")


async def test_a_tunnel_cut_after_the_line_is_no_set_up_fault(wire: DirectWire, target_tls: ssl.SSLContext) -> None:
    async with Peer(replies(b""), target_tls) as target, Peer(tunnels(target.port)) as proxy:
        run = by(wire, route(proxy))
        evidence = await run.run()
    assert evidence.crossed
    assert evidence.stopped is None
    assert evidence.fault in (Fault.RAGGED, Fault.RESET)
    assert not evidence.anything_final


@pytest.mark.parametrize(
    ("act", "fault"), [(Call.fin, Fault.RAGGED), (Call.close_notify, Fault.RAGGED), (Call.reset, Fault.RESET)]
)
async def test_a_proxy_that_ends_its_own_stream_ends_no_answer(
    wire: DirectWire, target_tls: ssl.SSLContext, server_tls: ssl.SSLContext, act: Script, fault: Fault
) -> None:
    """However orderly the proxy goes, it proves no end of what the target was sending."""
    evidence = await cut_by_proxy(wire, target_tls, server_tls, act)
    assert evidence.fault is fault


async def test_records_of_the_proxy_that_are_not_authentic(
    wire: DirectWire, target_tls: ssl.SSLContext, server_tls: ssl.SSLContext
) -> None:
    async def forge(call: Call) -> None:
        await call.raw(b"\x17\x03\x03\x00\x20" + bytes(32))

    evidence = await cut_by_proxy(wire, target_tls, server_tls, forge)
    assert evidence.fault is Fault.RESET


async def cut_by_proxy(
    wire: DirectWire, target_tls: ssl.SSLContext, server_tls: ssl.SSLContext, act: Script
) -> HttpEvidence:
    """The target's answer has a head and ends with the stream; then the proxy does this."""

    async def proxy_script(call: Call) -> None:
        passing = asyncio.ensure_future(tunnels(target.port)(call))
        await run.sink.first.wait()
        await act(call)
        passing.cancel()

    async with (
        Peer(replies_and_stays(b"HTTP/1.1 200 OK\r\n\r\nwhole?"), target_tls) as target,
        Peer(proxy_script, server_tls) as proxy,
    ):
        run = by(wire, route(proxy, tls=True))
        evidence = await run.run()
    assert evidence.status == 200
    assert not evidence.complete
    return evidence


async def test_a_tunnel_gone_before_the_line(wire: DirectWire, target_tls: ssl.SSLContext) -> None:
    """The look before the line sees it, or the record was there first: never both."""
    async with Peer(Call.reset, target_tls) as target, Peer(tunnels(target.port)) as proxy:
        run = by(wire, route(proxy))
        evidence = await run.run()
    assert evidence.crossed is (run.line.told[:1] == ["cross"])
    assert (evidence.stopped is None) is evidence.crossed
    assert not evidence.anything_final


# A proxy that is not reached


async def test_refused_by_the_proxys_machine(wire: DirectWire) -> None:
    async with Peer(Call.hold) as peer:
        gone = route(peer)
    evidence = await by(wire, gone).run()
    assert stopped(evidence) == (Stage.TCP_CONNECT, SetupFault.PROXY_UNREACHABLE, "ECONNREFUSED")


async def test_no_connection_within_the_limit(wire: DirectWire) -> None:
    with black_hole("127.0.0.2") as port:
        evidence = await by(wire, ProxyRoute("127.0.0.2", port), limits=SetupLimits(tcp_connect_s=0.02)).run()
        late = await by(wire, ProxyRoute("127.0.0.2", port), deadline_s=0.02).run()
    assert stopped(evidence) == (Stage.TCP_CONNECT, SetupFault.PROXY_UNREACHABLE, "ETIMEDOUT")
    assert stopped(late) == (Stage.TCP_CONNECT, SetupFault.DEADLINE, "ETIMEDOUT")


@pytest.mark.parametrize(("number", "system"), [(socket.EAI_NONAME, "EAI_NONAME"), (socket.EAI_AGAIN, "EAI_AGAIN")])
async def test_the_proxys_name_is_not_found(client_tls: ssl.SSLContext, number: int, system: str) -> None:
    def resolve(host: str, port: int) -> Sequence[Address]:
        raise socket.gaierror(number, "")

    evidence = await by(DirectWire(tls=client_tls, resolve=resolve), ProxyRoute("proxy.test", 3128)).run()
    assert stopped(evidence) == (Stage.DNS, SetupFault.PROXY_UNREACHABLE, system)


async def test_the_proxys_certificate_is_not_trusted(wire: DirectWire) -> None:
    other = server_context(trustme.CA().issue_cert("127.0.0.1"))
    async with Peer(Call.hold, other) as peer:
        evidence = await by(wire, route(peer, tls=True, authorization=AUTHORIZATION)).run()
        assert (await peer.call()).received == b""
    assert stopped(evidence) == (Stage.PROXY_TUNNEL, SetupFault.CERTIFICATE, "CERT_UNTRUSTED")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_proxy_that_wants_a_client_certificate(
    wire: DirectWire, authority: trustme.CA, version: ssl.TLSVersion
) -> None:
    wants = server_context(authority.issue_cert("127.0.0.1"))
    authority.configure_trust(wants)
    wants.verify_mode = ssl.CERT_REQUIRED
    wants.minimum_version = wants.maximum_version = version
    async with Peer(Call.hold, wants) as peer:
        evidence = await by(wire, route(peer, tls=True)).run()
    assert stopped(evidence)[:2] == (Stage.PROXY_TUNNEL, SetupFault.CLIENT_CERTIFICATE)


async def test_a_proxy_that_speaks_no_tls(wire: DirectWire) -> None:
    async def script(call: Call) -> None:
        await call.read_at_least(1)
        await call.send(answer(b"", "400 Bad Request"))
        await call.hold()

    async with Peer(script) as peer:
        evidence = await by(wire, route(peer, tls=True)).run()
    assert stopped(evidence) == (Stage.PROXY_TUNNEL, SetupFault.HANDSHAKE, "WRONG_VERSION_NUMBER")


async def test_authorities_of_the_proxy_that_are_none(wire: DirectWire) -> None:
    evidence = await by(wire, ProxyRoute("127.0.0.1", 1, True, None, b"no certificate")).run()
    assert stopped(evidence)[:2] == (Stage.PROXY_TUNNEL, SetupFault.CERTIFICATE)


async def test_closed_while_the_proxy_is_silent(wire: DirectWire) -> None:
    async with Peer(_silent) as peer:
        run = by(wire, route(peer))
        task = asyncio.ensure_future(run.run())
        await (await peer.call()).read_until(b"\r\n\r\n")
        run.exchange.close()
        evidence = await task
    assert evidence.fault is Fault.ABANDONED
    assert not evidence.crossed
    assert run.line.told == []


# What cannot be asked


async def test_only_https_goes_through_a_proxy(wire: DirectWire) -> None:
    with pytest.raises(ValueError, match="only https"):
        drive(wire, prepared(80, host=NAME), proxy=ProxyRoute("127.0.0.1", 3128))


def test_an_authorization_that_is_no_header_is_refused_without_naming_it() -> None:
    with pytest.raises(ValueError, match="not valid") as refused:
        Tunnel(ProxyRoute("127.0.0.1", 3128, False, b"Basic x\r\nX: proxy-pass"), NAME, 443)
    assert refused.value.__context__ is None
    assert "proxy-pass" not in repr(ProxyRoute("127.0.0.1", 3128, False, b"proxy-pass"))


# A proxy as it is in the field


@pytest.fixture
def tinyproxy(tmp_path: Path) -> Iterator[Callable[[str], int]]:
    """Starts one with these further lines of configuration; returns its port once it listens."""
    program = shutil.which("tinyproxy")
    if program is None:
        pytest.skip("tinyproxy is not installed")
    started: list[subprocess.Popen[bytes]] = []

    def start(lines: str) -> int:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            port: int = unused.getsockname()[1]
        config = tmp_path / "tinyproxy.conf"
        config.write_text(
            f'Port {port}\nListen 127.0.0.1\nTimeout 20\nMaxClients 10\nLogFile "{tmp_path}/log"\n{lines}\n'
        )
        started.append(subprocess.Popen([program, "-d", "-c", str(config)], stdout=subprocess.DEVNULL))
        while True:
            assert started[-1].poll() is None, (tmp_path / "log").read_text()
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return port
            os.sched_yield()

    yield start
    for process in started:
        process.terminate()
        process.wait(10)


async def test_tinyproxy(
    wire: DirectWire, target_tls: ssl.SSLContext, tinyproxy: Callable[[str], int], nth_time: int
) -> None:
    async with Peer(replies(answer(b"done", "201 Created")), target_tls) as target:
        port = tinyproxy(f"BasicAuth user proxy-pass\nConnectPort {target.port}")

        async def ask(authorization: bytes | None, to: int) -> HttpEvidence:
            proxy = ProxyRoute("127.0.0.1", port, False, authorization)
            return await by(wire, proxy, host="127.0.0.1", port=to, allow=lambda address: True).run()

        assert stopped(await ask(None, target.port)) == (Stage.PROXY_TUNNEL, SetupFault.PROXY_REFUSED, "HTTP_407")
        assert stopped(await ask(AUTHORIZATION, 1)) == (Stage.PROXY_TUNNEL, SetupFault.PROXY_REFUSED, "HTTP_403")
        assert target.calls == []
        evidence = await ask(AUTHORIZATION, target.port)
        call = await target.call()
    assert evidence.complete
    assert evidence.status == 201
    assert b"roxy" not in call.received
