"""Certificates of the targets, and a wire that trusts their authority."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator

import pytest
import trustme
from tests.broker.wire.peer import server_context

from affidavit.broker.wire import idle
from affidavit.broker.wire.exchange import DirectWire
from affidavit.broker.wire.tls import build_context


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    """The one that the wire trusts."""
    return trustme.CA()


@pytest.fixture(scope="session")
def client_tls(authority: trustme.CA) -> ssl.SSLContext:
    with authority.cert_pem.tempfile() as file:
        return build_context(file)


@pytest.fixture(scope="session")
def server_tls(authority: trustme.CA) -> ssl.SSLContext:
    return server_context(authority.issue_cert("localhost", "127.0.0.1", "::1"))


@pytest.fixture(scope="session")
def server_tls12(authority: trustme.CA) -> ssl.SSLContext:
    context = server_context(authority.issue_cert("localhost", "127.0.0.1", "::1"))
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    return context


@pytest.fixture
def wire(client_tls: ssl.SSLContext) -> DirectWire:
    return DirectWire(tls=client_tls)


@pytest.fixture
async def sharing(wire: DirectWire, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[DirectWire]:
    """A wire some of whose connections stay open after their exchange, to the test's end and not by their own time."""
    monkeypatch.setattr(idle, "IDLE_S", 3600.0)
    wire._idle = idle.idle_connections()
    yield wire
    wire.close_idle()
