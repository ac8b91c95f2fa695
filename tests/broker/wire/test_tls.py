from __future__ import annotations

import os
import socket
import ssl

import pytest
import trustme
from tests.broker.wire.peer import server_context

from affidavit.broker.wire.tls import _as_file, answers_certificate_request, build_context


def test_context_takes_nothing_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object, authority: trustme.CA
) -> None:
    for name in ("SSLKEYLOGFILE", "SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.setenv(name, f"{tmp_path}/{name}")
    with authority.cert_pem.tempfile() as file:
        monkeypatch.setenv("SSL_CERT_FILE", file)
        context = build_context()
    assert context.keylog_filename is None
    subjects = [certificate["subject"] for certificate in context.get_ca_certs()]
    assert not [subject for subject in subjects if "trustme" in str(subject)]


def test_context_is_strict(client_tls: ssl.SSLContext) -> None:
    assert client_tls.verify_mode is ssl.CERT_REQUIRED
    assert client_tls.check_hostname
    assert not client_tls.hostname_checks_common_name
    assert client_tls.minimum_version is ssl.TLSVersion.TLSv1_2
    assert not client_tls.options & ssl.OP_IGNORE_UNEXPECTED_EOF
    assert client_tls.options & ssl.OP_NO_RENEGOTIATION


def last_flight(client: ssl.SSLContext, server: ssl.SSLContext) -> tuple[bytes, str | None, str]:
    """The last flight of a handshake in memory, with version and cipher."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    theirs = server.wrap_bio(to_server, to_client, server_side=True)
    flight, done = b"", False
    while not done:
        try:
            ours.do_handshake()
            done = True
        except ssl.SSLWantReadError:
            pass
        written = to_server.read()
        flight = written or flight
        to_server.write(written)
        try:
            theirs.do_handshake()
        except ssl.SSLWantReadError:
            pass
    cipher = ours.cipher()
    assert cipher is not None
    return flight, ours.version(), cipher[0]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("asks", [False, True])
@pytest.mark.parametrize("curve", ["X25519", "prime256v1", "secp384r1"])
def test_asked_for_a_certificate_is_seen_in_our_own_last_flight(
    client_tls: ssl.SSLContext, authority: trustme.CA, version: ssl.TLSVersion, asks: bool, curve: str
) -> None:
    server = server_context(authority.issue_cert("127.0.0.1"))
    server.minimum_version = server.maximum_version = version
    server.set_ecdh_curve(curve)  # Another curve than the client's first makes it say hello twice.
    if asks:
        authority.configure_trust(server)
        server.verify_mode = ssl.CERT_OPTIONAL
    assert answers_certificate_request(*last_flight(client_tls, server)) is asks


@pytest.mark.parametrize(("cipher", "finished"), [("TLS_AES_128_GCM_SHA256", 53), ("TLS_AES_256_GCM_SHA384", 69)])
def test_finished_alone_is_told_from_the_shortest_certificate_before_it(cipher: str, finished: int) -> None:
    change = b"\x14\x03\x03\x00\x01\x01"

    def sealed(length: int) -> bytes:
        return b"\x17\x03\x03" + length.to_bytes(2) + bytes(length)

    assert not answers_certificate_request(change + sealed(finished), "TLSv1.3", cipher)
    assert answers_certificate_request(change + sealed(finished + 8), "TLSv1.3", cipher)
    assert answers_certificate_request(change + sealed(25) + sealed(finished), "TLSv1.3", cipher)
    assert not answers_certificate_request(b"", None, "")


def test_context_trusts_the_system() -> None:
    assert build_context().get_ca_certs()
    assert socket.has_ipv6


def test_a_file_for_openssl_is_nameless_and_overwritten() -> None:
    with _as_file(b"secret") as path:
        assert os.readlink(path).startswith("/memfd:")
        assert not os.get_inheritable(int(path.rpartition("/")[2]))
        kept = open(path, "rb")  # noqa: SIM115 - outlives the file
        assert kept.read() == b"secret"
    with kept:
        kept.seek(0)
        assert kept.read() == bytes(6)
    assert not os.path.exists(path)
