"""How an action leaves: private authorities, a proxy, and connections that only reads share."""

from __future__ import annotations

from typing import Any

import pytest
import trustme

from affidavit.broker.wire.scripted import Complete, Cross, Head, Sent

OK = (Cross(), Sent(), Head(200), Complete())
PASSPHRASE = b"a passphrase for tests"


@pytest.fixture(scope="module")
def authority() -> str:
    return trustme.CA().cert_pem.bytes().decode()


async def test_reads_share_connections_by_origin_and_credential_version_and_writes_do_not(world: Any) -> None:
    await world.credential()
    session = world.session()
    world.script(OK, OK, OK, OK)
    await world.ask(session, method="GET")
    await world.ask(session, method="GET", url="https://api.example.com/other")
    await world.ask(session, method="GET", url="https://api.example.com:8443/other", credential=None)
    await world.ask(session, method="POST", json={})
    first, second, other, write = (way.reuse for way in world.wire.ways)
    assert first is not None
    assert first == second
    assert other not in (None, first)
    assert write is None
    await world.broker.operator.credential_rotate("api", bytearray(b"the next secret"), bytearray(PASSPHRASE))
    world.script(OK)
    await world.ask(session, method="GET")
    assert world.wire.ways[0].reuse not in (None, first)


async def test_lock_closes_what_is_kept(world: Any) -> None:
    await world.broker.operator.lock(why="test")
    assert world.wire.closed_idle == 1


async def test_a_private_authority_is_trusted_for_its_targets_alone(world: Any, authority: str) -> None:
    await world.broker.operator.trust_add("corp", authority, ["https://api.example.com/**"], bytearray(PASSPHRASE))
    world.script(OK, OK)
    session = world.session()
    await world.ask(session, method="GET")
    await world.ask(session, method="GET", url="https://elsewhere.example.com/")
    ours, elsewhere = (way.tls.authorities for way in world.wire.ways)
    assert b"BEGIN CERTIFICATE" in ours
    assert elsewhere == b""


async def test_a_proxy_is_bound_at_approval_and_asked_with_its_own_credential(world: Any) -> None:
    session = world.session()
    world.script(OK, OK)
    direct = await world.ask(session, method="GET")
    await world.broker.operator.credential_add(
        {"name": "proxy", "kind": "basic", "targets": ["https://proxy.example.com:3128/**"], "username": "ada"},
        bytearray(b"proxy-secret-1"),
        bytearray(PASSPHRASE),
    )
    await world.broker.operator.proxy_set(
        "https://proxy.example.com:3128",
        credential="proxy",
        no_proxy=("intern.example.com",),
        trusted=False,
        passphrase=bytearray(PASSPHRASE),
    )
    through = await world.ask(session, method="GET")
    way = world.wire.ways[1].proxy
    assert (way.host, way.port, way.tls) == ("proxy.example.com", 3128, True)
    assert way.authorization.startswith(b"Basic ")
    assert direct["evidence"]["fingerprint"] != through["evidence"]["fingerprint"]
    assert b"Proxy-Authorization" not in dict(world.wire.requests[1].headers)
    world.script(OK)
    await world.ask(session, method="GET", url="https://intern.example.com/")
    assert world.wire.ways[0].proxy is None


@pytest.mark.parametrize(
    ("trusted", "ends_tls", "code"),
    [
        (True, True, "GATEWAY_REFUSED"),
        (True, False, "GATEWAY_UNCERTAIN"),  # into a tunnel the proxy cannot write: it is another's word
        (False, True, "GATEWAY_UNCERTAIN"),
    ],
)
async def test_a_trusted_proxy_proves_something_where_it_ends_tls_itself(
    world: Any, authority: str, trusted: bool, ends_tls: bool, code: str
) -> None:
    if ends_tls:
        await world.broker.operator.trust_add("corp", authority, ["https://api.example.com/**"], bytearray(PASSPHRASE))
    await world.broker.operator.proxy_set(
        "http://proxy.example.com:3128", credential=None, no_proxy=(), trusted=trusted, passphrase=bytearray(PASSPHRASE)
    )
    said = (("proxy-status", "corp; error=connection_refused"),)
    world.script((Cross(), Sent(), Head(502, said), Complete()))
    assert world.facts(await world.ask(world.session(), json={}))[2] == code


async def test_no_agent_calls_a_token_service(world: Any) -> None:
    await world.broker.operator.credential_add(
        {
            "name": "oauth",
            "kind": "oauth2",
            "targets": ["https://api.example.com/**"],
            "token_url": "https://login.example.com/token",
            "client_id": "c-1",
        },
        bytearray(b"client-secret-1"),
        bytearray(PASSPHRASE),
    )
    got = await world.ask(world.session(), method="POST", url="https://login.example.com/token", body="a=b")
    assert world.facts(got) == ("validation", "not_attempted", "TARGET_BLOCKED", "after_correction")
