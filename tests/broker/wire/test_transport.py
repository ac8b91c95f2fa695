from __future__ import annotations

import asyncio

import httpx
import pytest
import trustme
from tests.broker.wire.driver import BOUND_S, ToldLine
from tests.broker.wire.peer import Call, Peer, answer, replies, replies_and_stays, server_context, serves, tunnels

from affidavit.broker.wire.exchange import DirectWire
from affidavit.broker.wire.port import Fault, ProxyRoute, TlsTerms
from affidavit.broker.wire.transport import EvidenceTransport, NoCompleteAnswer


def request(port: int, line: ToldLine, *, content: bytes = b"amount=5", scheme: str = "http") -> httpx.Request:
    return httpx.Request(
        "POST",
        f"{scheme}://127.0.0.1:{port}/effect?q=1",
        headers={"X-Key": "k"},
        content=content,
        extensions={
            "line": line,
            "allow": lambda address: True,
            "deadline": asyncio.get_running_loop().time() + BOUND_S,
        },
    )


async def test_a_whole_answer_raw(wire: DirectWire) -> None:
    line = ToldLine()
    async with Peer(replies(answer(b"\x1f\x8b not gzip", headers=b"Content-Encoding: gzip\r\n"))) as peer:
        response = await EvidenceTransport(wire).handle_async_request(request(peer.port, line))
        body = b"".join([part async for part in response.aiter_raw()])
        await response.aclose()
        call = await peer.call()
    assert response.status_code == 200
    assert body == b"\x1f\x8b not gzip"
    assert response.headers["content-encoding"] == "gzip"
    assert response.extensions["flight"].evidence.complete
    assert line.told == ["cross", "request_sent", "response_started"]
    assert call.received == (
        b"POST /effect?q=1 HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nX-Key: k\r\nContent-Length: 8\r\n\r\namount=5" % peer.port
    )


async def test_half_a_body_raises_after_what_came(wire: DirectWire) -> None:
    async with Peer(replies(answer(b"half", length=8))) as peer:
        response = await EvidenceTransport(wire).handle_async_request(request(peer.port, ToldLine()))
        parts = response.aiter_raw()
        assert await anext(parts) == b"half"
        with pytest.raises(NoCompleteAnswer) as incomplete:
            await anext(parts)
    assert incomplete.value.evidence.fault is Fault.CLOSED
    assert incomplete.value.evidence.status == 200


async def test_no_head_raises_with_the_evidence(wire: DirectWire) -> None:
    async with Peer(replies(b"")) as peer:
        with pytest.raises(NoCompleteAnswer) as none:
            await EvidenceTransport(wire).handle_async_request(request(peer.port, ToldLine()))
    assert none.value.evidence.crossed
    assert none.value.evidence.observation == str(none.value) == "closed by peer after request write"


async def test_set_up_that_stops_raises_with_the_evidence(wire: DirectWire) -> None:
    async with Peer(Call.hold) as peer:
        port = peer.port
    with pytest.raises(NoCompleteAnswer) as stopped:
        await EvidenceTransport(wire).handle_async_request(request(port, ToldLine()))
    assert stopped.value.evidence.stopped is not None
    assert not stopped.value.evidence.crossed


async def test_the_way_is_named_in_the_extensions(sharing: DirectWire, authority: trustme.CA) -> None:
    private = trustme.CA()
    transport = EvidenceTransport(sharing)
    async with (
        Peer(serves(answer(b"one"), answer(b"two")), server_context(private.issue_cert("127.0.0.1"))) as target,
        Peer(tunnels(target.port)) as proxy,
    ):
        for reused in (False, True):
            asked = request(target.port, ToldLine(), content=b"", scheme="https")
            asked.extensions |= {
                "tls": TlsTerms(private.cert_pem.bytes()),
                "proxy": ProxyRoute("127.0.0.1", proxy.port),
                "reuse": "r",
            }
            response = await transport.handle_async_request(asked)
            await response.aread()
            assert response.extensions["flight"].evidence.connection.reused is reused
        sharing.close_idle()
        assert len(proxy.calls) == 1


async def test_a_response_that_is_closed_unread_closes_the_connection(wire: DirectWire) -> None:
    async def script(call: Call) -> None:
        await call.request()
        await call.send(answer(b"half", length=8))
        await call.read_to_end()

    async with Peer(script) as peer:
        response = await EvidenceTransport(wire).handle_async_request(request(peer.port, ToldLine()))
        await response.aclose()
        await (await peer.call()).over.wait()
    assert response.extensions["flight"].evidence.fault is Fault.ABANDONED


async def test_nothing_goes_without_a_line(wire: DirectWire) -> None:
    async with Peer(replies_and_stays(b"")) as peer:
        with pytest.raises(KeyError):
            await EvidenceTransport(wire).handle_async_request(httpx.Request("GET", f"http://127.0.0.1:{peer.port}/"))
        assert peer.calls == []
