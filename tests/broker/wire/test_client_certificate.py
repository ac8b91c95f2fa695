"""Terms of TLS for one exchange: a private authority, and a certificate of the client's own (mutual TLS)."""

from __future__ import annotations

import asyncio
import os
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from tests.broker.wire.driver import ToldLine, post, read
from tests.broker.wire.peer import Call, Peer, answer, replies, server_context, serves
from tests.broker.wire.test_hostile import stopped

from affidavit.broker.secret import Secret, SecretWiped
from affidavit.broker.terms import Stage
from affidavit.broker.wire import setup
from affidavit.broker.wire.exchange import DirectWire
from affidavit.broker.wire.port import ClientCertificate, Fault, KeyUnusable, SetupFault, TlsTerms

VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> ssl.TLSVersion:
    version: ssl.TLSVersion = request.param
    return version


@pytest.fixture
def demanding(authority: trustme.CA, clients: trustme.CA, version: ssl.TLSVersion) -> ssl.SSLContext:
    """A target that wants a certificate of the clients' authority."""
    context = server_context(authority.issue_cert("127.0.0.1"))
    clients.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    context.minimum_version = context.maximum_version = version
    return context


@pytest.fixture(scope="session")
def clients() -> trustme.CA:
    """The authority that the target knows its clients by. It is not one that the wire trusts."""
    return trustme.CA()


def terms(authority: trustme.CA, cert: trustme.LeafCert, key: bytes | None = None) -> TlsTerms:
    chain = b"".join(pem.bytes() for pem in cert.cert_chain_pems)
    return TlsTerms(authority.cert_pem.bytes(), ClientCertificate(chain, Secret(key or cert.private_key_pem.bytes())))


# Private authorities


async def test_a_private_authority_counts_beside_the_others_and_for_its_exchange_alone(
    wire: DirectWire, server_tls: ssl.SSLContext
) -> None:
    private = trustme.CA()
    own = TlsTerms(private.cert_pem.bytes())
    async with Peer(replies(answer(b"ok")), server_context(private.issue_cert("127.0.0.1"))) as peer:
        before, _ = await post(wire, peer)
        trusted, _ = await post(wire, peer, tls=own)
        after, _ = await post(wire, peer)
    assert trusted.complete
    for evidence in (before, after):
        assert stopped(evidence) == (Stage.CERTIFICATE, SetupFault.CERTIFICATE, "CERT_UNTRUSTED")
    context = await wire._contexts.get(own)
    assert len(context.get_ca_certs()) == len(DirectWire()._contexts._shared.get_ca_certs()) + 1
    async with Peer(replies(answer(b"ok")), server_tls) as peer:
        assert (await post(wire, peer))[0].complete


async def test_a_private_authority_still_vouches_for_the_name_alone(wire: DirectWire) -> None:
    private = trustme.CA()
    async with Peer(replies(answer(b"ok")), server_context(private.issue_cert("other.test"))) as peer:
        evidence, _ = await post(wire, peer, tls=TlsTerms(private.cert_pem.bytes()))
    assert stopped(evidence) == (Stage.CERTIFICATE, SetupFault.CERTIFICATE, "CERT_NAME")


async def test_contexts_are_kept_by_content(wire: DirectWire) -> None:
    contexts = wire._contexts
    one, two = (trustme.CA().cert_pem.bytes() for _ in range(2))
    first = await contexts.get(TlsTerms(one))
    assert await contexts.get(TlsTerms(bytes(bytearray(one)))) is first
    assert await contexts.get(TlsTerms(two)) is not first
    assert await contexts.get(TlsTerms(one + two)) is not first
    assert await contexts.get(TlsTerms()) is contexts._shared


async def test_the_context_that_was_used_longest_ago_goes_first(
    wire: DirectWire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("affidavit.broker.wire.tls._CONTEXTS", 2)
    contexts = wire._contexts
    pems = [trustme.CA().cert_pem.bytes() for _ in range(3)]
    first, _ = [await contexts.get(TlsTerms(pem)) for pem in pems[:2]]
    await contexts.get(TlsTerms(pems[0]))
    await contexts.get(TlsTerms(pems[2]))
    assert await contexts.get(TlsTerms(pems[0])) is first
    assert len(contexts._kept) == 2


@pytest.mark.parametrize(
    "pem", [b"no certificate", b"\xff", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
)
async def test_authorities_that_are_none_stop_before_anything(wire: DirectWire, pem: bytes) -> None:
    async with Peer(Call.hold) as peer:
        peer.tls = server_context(trustme.CA().issue_cert("127.0.0.1"))
        evidence, _ = await post(wire, peer, tls=TlsTerms(pem))
        assert peer.calls == []
    assert stopped(evidence)[:2] == (Stage.CERTIFICATE, SetupFault.CERTIFICATE)
    assert evidence.stopped is not None
    assert evidence.stopped.reached is None


async def test_terms_take_nothing_from_the_environment(
    wire: DirectWire, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    unwanted = trustme.CA()
    with unwanted.cert_pem.tempfile() as file:
        for name in ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
            monkeypatch.setenv(name, file)
        monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "keys"))
        async with Peer(replies(answer()), server_context(unwanted.issue_cert("127.0.0.1"))) as peer:
            evidence, _ = await post(wire, peer, tls=TlsTerms(trustme.CA().cert_pem.bytes()))
    assert stopped(evidence) == (Stage.CERTIFICATE, SetupFault.CERTIFICATE, "CERT_UNTRUSTED")
    assert not (tmp_path / "keys").exists()


# The client's own certificate


@pytest.mark.parametrize("key_type", trustme.KeyType)
async def test_a_target_sees_the_certificate_and_answers(
    wire: DirectWire,
    authority: trustme.CA,
    clients: trustme.CA,
    demanding: ssl.SSLContext,
    key_type: trustme.KeyType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("TMPDIR", "TEMP", "HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.chdir(tmp_path)
    seen: list[str] = []

    async def script(call: Call) -> None:
        assert call._tls is not None
        seen.append(str(call._tls.getpeercert()))
        await replies(answer(b"hello"))(call)

    issuer = clients.create_child_ca(key_type)
    cert = issuer.issue_cert("client.test", key_type=key_type)
    async with Peer(script, demanding) as peer:
        before = len(os.listdir("/proc/self/fd"))
        evidence, run = await post(wire, peer, tls=terms(authority, cert))
        assert len(os.listdir("/proc/self/fd")) <= before + 1  # The peer's half of the connection may still be open.
    assert evidence.complete
    assert run.sink.data == b"hello"
    assert ["client.test" in text for text in seen] == [True]
    assert os.listdir(tmp_path) == []


async def test_a_context_with_a_key_is_not_kept(wire: DirectWire, authority: trustme.CA, clients: trustme.CA) -> None:
    own = terms(authority, clients.issue_cert("client.test"))
    assert await wire._contexts.get(own) is not await wire._contexts.get(own)
    assert not wire._contexts._kept


@pytest.mark.parametrize("nth", range(5))
async def test_h16_a_certificate_that_is_refused_stops_before_the_line(
    wire: DirectWire, authority: trustme.CA, demanding: ssl.SSLContext, nth: int
) -> None:
    stranger = trustme.CA().issue_cert("client.test")
    async with Peer(replies(answer()), demanding) as peer:
        evidence, run = await post(wire, peer, tls=terms(authority, stranger))
    assert stopped(evidence) == (Stage.TLS_HANDSHAKE, SetupFault.CLIENT_CERTIFICATE, "TLSV1_ALERT_UNKNOWN_CA")
    assert run.line.told == []


@pytest.mark.parametrize("version", VERSIONS[1:], indirect=True)
@pytest.mark.parametrize("with_certificate", [False, True])
@pytest.mark.parametrize("nth", range(5))
async def test_h16_an_alert_after_the_line_is_never_a_set_up_fault(
    wire: DirectWire,
    authority: trustme.CA,
    demanding: ssl.SSLContext,
    monkeypatch: pytest.MonkeyPatch,
    with_certificate: bool,
    nth: int,
) -> None:
    """TLS 1.3 lets a server take its time: it refuses when the request is on its way."""
    monkeypatch.setattr(setup, "PROBE_S", 0)
    loop = asyncio.get_running_loop()
    refuse = asyncio.Event()

    async def script(call: Call) -> None:
        hello = await loop.sock_recv(call._sock, 65536)
        call._in.write(hello)
        assert call._tls is not None
        with pytest.raises(ssl.SSLWantReadError):
            call._tls.do_handshake()
        await call._flush()
        await refuse.wait()
        with pytest.raises(ssl.SSLError):
            await call.handshake()

    async def at_line() -> None:
        refuse.set()

    own = terms(authority, trustme.CA().issue_cert("client.test")) if with_certificate else None
    async with Peer(script, demanding, handshake=False) as peer:
        evidence, run = await post(wire, peer, tls=own, line=ToldLine(at_line))
    assert run.line.told[0] == "cross"
    assert evidence.crossed
    assert evidence.stopped is None
    assert evidence.fault in (Fault.RESET, Fault.WRITE_FAILED)
    assert not evidence.anything_final
    alert = "TLSV1_ALERT_UNKNOWN_CA" if with_certificate else "TLSV13_ALERT_CERTIFICATE_REQUIRED"
    assert evidence.observation is not None
    assert alert in evidence.observation or evidence.fault is Fault.WRITE_FAILED


@pytest.mark.parametrize("version", VERSIONS[1:], indirect=True)
async def test_h17_closed_right_after_the_handshake(
    wire: DirectWire, authority: trustme.CA, clients: trustme.CA, demanding: ssl.SSLContext
) -> None:
    """Seen before the line or after it; after it nothing says that nothing happened."""
    async with Peer(Call.fin, demanding) as peer:
        evidence, run = await post(wire, peer, tls=terms(authority, clients.issue_cert("client.test")))
    assert evidence.crossed is (run.line.told[:1] == ["cross"])
    assert (evidence.stopped is None) is evidence.crossed
    assert not evidence.anything_final


async def test_reads_share_a_connection_that_has_shown_a_certificate(
    sharing: DirectWire, authority: trustme.CA, clients: trustme.CA, demanding: ssl.SSLContext
) -> None:
    own = terms(authority, clients.issue_cert("client.test"))
    async with Peer(serves(answer(b"one"), answer(b"two")), demanding) as peer:
        first, _ = await read(sharing, peer, tls=own)
        second, _ = await read(sharing, peer, tls=own)
        sharing.close_idle()
        assert len(peer.calls) == 1
    assert first.connection is not None
    assert second.connection is not None
    assert second.connection.reused
    assert second.connection.identity == first.connection.identity


def locked(pem: bytes) -> bytes:
    key = load_pem_private_key(pem, None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"passphrase"))


@pytest.mark.parametrize("wrong", ["another's", "encrypted", "not one", "empty", "a certificate"])
async def test_a_key_that_is_unusable_stops_before_anything(
    wire: DirectWire, authority: trustme.CA, clients: trustme.CA, wrong: str
) -> None:
    cert = clients.issue_cert("client.test")
    key = {
        "another's": clients.issue_cert("client.test").private_key_pem.bytes(),
        "encrypted": locked(cert.private_key_pem.bytes()),
        "not one": b"secret-bytes",
        "empty": b"\n",
        "a certificate": cert.cert_chain_pems[0].bytes(),
    }[wrong]
    async with Peer(Call.hold) as peer:
        peer.tls = server_context(cert)
        with pytest.raises(KeyUnusable) as unusable:
            await post(wire, peer, tls=terms(authority, cert, key))
        assert peer.calls == []
    assert unusable.value.system
    assert "secret-bytes" not in repr(unusable.value) + str(unusable.value.__context__)


async def test_a_chain_that_is_none(wire: DirectWire, clients: trustme.CA) -> None:
    key = Secret(clients.issue_cert("client.test").private_key_pem.bytes())
    async with Peer(Call.hold) as peer:
        peer.tls = server_context(clients.issue_cert("127.0.0.1"))
        with pytest.raises(KeyUnusable):
            await post(wire, peer, tls=TlsTerms(b"", ClientCertificate(b"no chain", key)))


async def test_a_key_that_was_wiped_meanwhile(wire: DirectWire, authority: trustme.CA, clients: trustme.CA) -> None:
    own = terms(authority, clients.issue_cert("client.test"))
    assert own.client is not None
    own.client.key.wipe()
    async with Peer(Call.hold) as peer:
        peer.tls = server_context(clients.issue_cert("127.0.0.1"))
        with pytest.raises(SecretWiped):
            await post(wire, peer, tls=own)
        assert peer.calls == []


def test_no_repr_names_the_key(authority: trustme.CA, clients: trustme.CA) -> None:
    assert "PRIVATE" not in repr(terms(authority, clients.issue_cert("client.test")))


LOADS = """
import os, sys
from affidavit.broker.hardening import harden
from affidavit.broker.secret import Secret
from affidavit.broker.wire.port import ClientCertificate
from affidavit.broker.wire.tls import _with_client
chain, key = sys.stdin.buffer.read().split(b"--cut--")
if os.getuid() == 0:
    os.setuid(65534)
harden()
before = os.listdir("/proc/self/fd")
_with_client(b"", ClientCertificate(chain, Secret(key)))
print("loaded" if os.listdir("/proc/self/fd") == before else "left open")
"""


def test_a_process_that_is_not_dumpable_can_still_load_a_key(clients: trustme.CA) -> None:
    cert = clients.issue_cert("client.test")
    given = cert.cert_chain_pems[0].bytes() + b"--cut--" + cert.private_key_pem.bytes()
    done = subprocess.run([sys.executable, "-c", LOADS], input=given, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout == b"loaded\n"


def test_nobody_is_asked_for_a_passphrase_on_a_terminal(clients: trustme.CA, tmp_path: Path) -> None:
    cert = clients.issue_cert("client.test")
    chain, key = tmp_path / "chain", tmp_path / "key"
    chain.write_bytes(cert.cert_chain_pems[0].bytes())
    key.write_bytes(locked(cert.private_key_pem.bytes()))
    ours, theirs = os.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-c", REFUSES, str(chain), str(key)],
            stdin=theirs,
            capture_output=True,
            timeout=20,
            start_new_session=True,
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.stdout == b"refused\n", done.stderr.decode()


REFUSES = """
import fcntl, sys, termios
from pathlib import Path
from affidavit.broker.secret import Secret
from affidavit.broker.wire.port import ClientCertificate, KeyUnusable
from affidavit.broker.wire.tls import _with_client
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
chain, key = (Path(name).read_bytes() for name in sys.argv[1:])
try:
    _with_client(b"", ClientCertificate(chain, Secret(key)))
except KeyUnusable:
    print("refused")
"""
