from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Sequence

import pytest
from tests.broker.wire.driver import BOUND_S
from tests.broker.wire.peer import Call, Peer, Script, answer
from tests.broker.wire.test_dial import black_hole

from affidavit.broker.terms import Stage
from affidavit.broker.wire import dial
from affidavit.broker.wire.dial import Address
from affidavit.broker.wire.port import AddressCheck, ProxyRoute, SetupFault, SetupLimits, SetupStop, TlsTerms
from affidavit.broker.wire.setup import Abandoned, Setup, Stopped
from affidavit.broker.wire.tls import Contexts
from affidavit.broker.wire.tunnel import Tunnel

V4, V6 = socket.AF_INET, socket.AF_INET6


def setup(
    tls: ssl.SSLContext,
    *,
    host: str = "target.test",
    port: int = 1,
    scheme: str = "http",
    found: Sequence[Address] | OSError = (),
    resolve: dial.Resolver | None = None,
    allow: AddressCheck = lambda address: True,
    limits: SetupLimits | None = None,
    deadline_s: float = BOUND_S,
    tunnel: Tunnel | None = None,
) -> Setup:
    def answers(host: str, port: int) -> Sequence[Address]:
        if isinstance(found, OSError):
            raise found
        return found

    return Setup(
        scheme=scheme,
        host=host,
        port=port,
        allow=allow,
        limits=limits or SetupLimits(BOUND_S, BOUND_S, BOUND_S),
        deadline=asyncio.get_running_loop().time() + deadline_s,
        contexts=Contexts(tls),
        terms=TlsTerms(),
        resolve=resolve or answers,
        tunnel=tunnel,
    )


async def stop_of(tried: Setup) -> SetupStop:
    with pytest.raises(Stopped) as stopped:
        await tried.connect()
    return stopped.value.stop


def hanging(gate: threading.Event) -> dial.Resolver:
    def resolve(host: str, port: int) -> Sequence[Address]:
        gate.wait(BOUND_S)
        return ()

    return resolve


@pytest.mark.parametrize(
    ("number", "system", "fault"),
    [
        (socket.EAI_NONAME, "EAI_NONAME", SetupFault.NOT_FOUND),
        (socket.EAI_NODATA, "EAI_NODATA", SetupFault.NOT_FOUND),
        (socket.EAI_AGAIN, "EAI_AGAIN", SetupFault.TEMPORARY),
        (socket.EAI_FAIL, "EAI_FAIL", SetupFault.TEMPORARY),
        (socket.EAI_SYSTEM, "EAI_SYSTEM", SetupFault.TEMPORARY),
    ],
)
async def test_dns_faults(client_tls: ssl.SSLContext, number: int, system: str, fault: SetupFault) -> None:
    stop = await stop_of(setup(client_tls, found=socket.gaierror(number, "")))
    assert stop == SetupStop(None, Stage.DNS, fault, system)


async def test_an_empty_answer_is_no_name(client_tls: ssl.SSLContext) -> None:
    assert (await stop_of(setup(client_tls))).fault is SetupFault.NOT_FOUND


async def test_one_forbidden_address_blocks_all(client_tls: ssl.SSLContext) -> None:
    asked: list[str] = []

    def allow(address: str) -> bool:
        asked.append(address)
        return address != "10.0.0.7"

    found = [Address(V4, "203.0.113.7", 1), Address(V6, "2001:db8::1", 1), Address(V4, "10.0.0.7", 1)]
    stop = await stop_of(setup(client_tls, found=found, allow=allow))
    assert stop == SetupStop(None, Stage.DNS, SetupFault.BLOCKED, "ADDRESS_BLOCKED", "10.0.0.7")
    assert asked == ["203.0.113.7", "2001:db8::1", "10.0.0.7"]


async def test_a_literal_is_checked_and_not_looked_up(client_tls: ssl.SSLContext) -> None:
    def resolve(host: str, port: int) -> Sequence[Address]:
        raise AssertionError("a literal needs no resolver")

    stop = await stop_of(setup(client_tls, host="127.0.0.1", resolve=resolve, allow=lambda address: False))
    assert stop.fault is SetupFault.BLOCKED
    assert stop.address == "127.0.0.1"


async def test_dns_limit_and_deadline(client_tls: ssl.SSLContext) -> None:
    gate = threading.Event()
    limit = await stop_of(setup(client_tls, resolve=hanging(gate), limits=SetupLimits(dns_s=0.02)))
    deadline = await stop_of(setup(client_tls, resolve=hanging(gate), deadline_s=0.02))
    gate.set()
    assert limit == SetupStop(None, Stage.DNS, SetupFault.LIMIT, "ETIMEDOUT")
    assert deadline == SetupStop(None, Stage.DNS, SetupFault.DEADLINE, "ETIMEDOUT")


async def test_tcp_limit_and_deadline_are_for_all_addresses_together(
    client_tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dial, "STAGGER_S", 0)
    with black_hole("127.0.0.2") as port:
        found = [Address(V4, "127.0.0.2", port)] * 4
        limit = await stop_of(setup(client_tls, found=found, limits=SetupLimits(tcp_connect_s=0.02)))
        deadline = await stop_of(setup(client_tls, found=found, deadline_s=0.02))
    assert limit == SetupStop(Stage.DNS, Stage.TCP_CONNECT, SetupFault.LIMIT, "ETIMEDOUT", "127.0.0.2")
    assert deadline == SetupStop(Stage.DNS, Stage.TCP_CONNECT, SetupFault.DEADLINE, "ETIMEDOUT", "127.0.0.2")


async def test_a_deadline_that_is_past_stops_before_anything(client_tls: ssl.SSLContext) -> None:
    stop = await stop_of(setup(client_tls, host="127.0.0.1", deadline_s=-1))
    assert stop == SetupStop(None, Stage.DNS, SetupFault.DEADLINE, "ETIMEDOUT")


@pytest.mark.parametrize("over_tls", [False, True])
@pytest.mark.parametrize(("act", "system"), [(Call.reset, "ECONNRESET"), (Call.fin, "EOF")], ids=["reset", "closed"])
async def test_a_peer_that_is_gone_right_before_the_line(
    client_tls: ssl.SSLContext, server_tls: ssl.SSLContext, over_tls: bool, act: Script, system: str
) -> None:
    async with Peer(act, server_tls if over_tls else None) as peer:
        tried = setup(client_tls, host="127.0.0.1", port=peer.port, scheme="https" if over_tls else "http")
        link, _ = await tried.connect()
        await (await peer.call()).over.wait()
        with pytest.raises(Stopped) as stopped:
            tried.last_look(link)
        link.close()
    reached = Stage.CERTIFICATE if over_tls else Stage.TCP_CONNECT
    assert stopped.value.stop == SetupStop(reached, Stage.TCP_CONNECT, SetupFault.REFUSED, system, "127.0.0.1")


async def test_what_is_there_before_the_line_is_handed_on(client_tls: ssl.SSLContext) -> None:
    async def script(call: Call) -> None:
        await call.send(answer(b"early"))
        call.over.set()
        await call.hold()

    async with Peer(script) as peer:
        tried = setup(client_tls, host="127.0.0.1", port=peer.port)
        link, address = await tried.connect()
        await (await peer.call()).over.wait()
        assert tried.last_look(link).data == answer(b"early")
        assert address.peer == f"127.0.0.1:{peer.port}"
        link.close()


async def test_what_an_open_connection_may_be_used_for(client_tls: ssl.SSLContext) -> None:
    def allow(address: str) -> bool:
        return address == "203.0.113.7"

    tunnel = Tunnel(ProxyRoute("10.0.0.1", 3128), "target.test", 443)
    assert setup(client_tls, allow=allow).permits("203.0.113.7")
    assert not setup(client_tls, allow=allow).permits("10.0.0.7")
    assert not setup(client_tls, allow=allow, deadline_s=0).permits("203.0.113.7")
    assert setup(client_tls, allow=allow, tunnel=tunnel).permits("10.0.0.1")
    assert setup(client_tls, allow=allow, host="203.0.113.7", tunnel=tunnel).permits("10.0.0.1")
    assert not setup(client_tls, allow=allow, host="10.0.0.7", tunnel=tunnel).permits("10.0.0.1")
    abandoned = setup(client_tls, allow=allow)
    abandoned.abandon()
    assert not abandoned.permits("203.0.113.7")


async def test_abandoned_during_dns(client_tls: ssl.SSLContext) -> None:
    gate = threading.Event()
    await _abandoned(setup(client_tls, resolve=hanging(gate)))
    gate.set()


async def test_abandoned_during_connect(client_tls: ssl.SSLContext) -> None:
    with black_hole("127.0.0.2") as port:
        await _abandoned(setup(client_tls, host="127.0.0.2", port=port))


async def test_abandoned_during_the_handshake(client_tls: ssl.SSLContext, server_tls: ssl.SSLContext) -> None:
    async with Peer(Call.hold, server_tls, handshake=False) as peer:
        tried = setup(client_tls, host="127.0.0.1", port=peer.port, scheme="https")
        task = asyncio.ensure_future(tried.connect())
        await peer.call()
        await asyncio.sleep(0)
        tried.abandon()
        with pytest.raises(Abandoned):
            await task


async def test_abandoned_before_it_began(client_tls: ssl.SSLContext) -> None:
    tried = setup(client_tls, host="127.0.0.1")
    tried.abandon()
    with pytest.raises(Abandoned):
        await tried.connect()


async def _abandoned(tried: Setup) -> None:
    task = asyncio.ensure_future(tried.connect())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not task.done()
    tried.abandon()
    async with asyncio.timeout(BOUND_S):
        with pytest.raises(Abandoned):
            await task
