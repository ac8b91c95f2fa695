"""Private keys and certificates from their files, good and bad, as ssh-keygen makes them."""

from __future__ import annotations

import base64
import subprocess
from pathlib import Path

import paramiko
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, rsa
from tests.broker.wire.ssh.sshd import keygen, public, sign

from affidavit.broker.wire.ssh import keys
from affidavit.broker.wire.ssh.fields import string, uint32
from affidavit.broker.wire.ssh.port import HostKey, KeyFault, SshKeyUnusable

PHRASE = "correct horse"
KINDS = [
    ("ed25519", (), "ssh-ed25519", 256),
    ("ecdsa", ("-b", "256"), "ecdsa-sha2-nistp256", 256),
    ("ecdsa", ("-b", "521"), "ecdsa-sha2-nistp521", 521),
    ("rsa", ("-b", "2048"), "ssh-rsa", 2048),
    ("rsa", ("-b", "2048", "-m", "PEM"), "ssh-rsa", 2048),
    ("ecdsa", ("-m", "PEM"), "ecdsa-sha2-nistp256", 256),
    ("rsa", ("-b", "2048", "-m", "PKCS8"), "ssh-rsa", 2048),
]


def fault(file: bytes, passphrase: bytes | None = None) -> KeyFault:
    with pytest.raises(SshKeyUnusable) as caught:
        keys.describe(file, passphrase)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return caught.value.fault


@pytest.mark.parametrize(("kind", "options", "algorithm", "bits"), KINDS)
@pytest.mark.parametrize("passphrase", [None, PHRASE])
def test_kinds_and_forms(
    tmp_path: Path, kind: str, options: tuple[str, ...], algorithm: str, bits: int, passphrase: str | None
) -> None:
    path = keygen(tmp_path / "key", *options, kind=kind, passphrase=passphrase or "")
    file, phrase = path.read_bytes(), passphrase.encode() if passphrase else None
    facts = keys.describe(file, phrase)
    assert facts.public == public(path)
    assert (facts.public.algorithm, facts.bits, facts.encrypted) == (algorithm, bits, passphrase is not None)
    key = keys.load(file, phrase)
    name = "rsa-sha2-512" if algorithm == "ssh-rsa" else algorithm
    signature = key.sign_ssh_data(b"data", name)
    checker = paramiko.PKey.from_type_string(algorithm, facts.public.blob)
    assert checker.verify_ssh_sig(b"data", paramiko.Message(signature.asbytes()))


@pytest.mark.parametrize("options", [(), ("-m", "PEM")])
def test_a_passphrase_that_is_missing_or_wrong(tmp_path: Path, options: tuple[str, ...]) -> None:
    file = keygen(tmp_path / "key", *options, kind="rsa", passphrase=PHRASE).read_bytes()
    assert fault(file) is KeyFault.PASSPHRASE_NEEDED
    assert fault(file, b"") is KeyFault.PASSPHRASE_NEEDED
    assert fault(file, b"battery staple") is KeyFault.PASSPHRASE_WRONG


def test_a_passphrase_that_is_not_needed_does_no_harm(tmp_path: Path) -> None:
    file = keygen(tmp_path / "key").read_bytes()
    assert not keys.describe(file, b"anything").encrypted


@pytest.mark.parametrize(
    "file",
    [
        b"",
        b"not a key",
        b"\0" * 100,
        b"-----BEGIN OPENSSH PRIVATE KEY-----",
        b"-----BEGIN OPENSSH PRIVATE KEY-----\n!!!!\n-----END OPENSSH PRIVATE KEY-----\n",
        b"-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----\n",
        b"-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n",
        b"PuTTY-User-Key-File-3: ssh-ed25519\n",
        b"-----BEGIN OPENSSH PRIVATE KEY-----\n" + b"A" * 70_000,
    ],
)
def test_what_is_no_key(file: bytes) -> None:
    assert fault(file) is KeyFault.MALFORMED


def test_a_public_key_is_no_private_key(tmp_path: Path) -> None:
    path = keygen(tmp_path / "key")
    assert fault(path.with_name("key.pub").read_bytes()) is KeyFault.MALFORMED


def test_a_cut_key(tmp_path: Path) -> None:
    lines = keygen(tmp_path / "key").read_bytes().splitlines()
    assert fault(b"\n".join([lines[0], *lines[1:-2], lines[-1]])) is KeyFault.MALFORMED


def pem(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed448.Ed448PrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def test_kinds_that_are_not_taken() -> None:
    assert fault(pem(rsa.generate_private_key(65537, 1024))) is KeyFault.KIND
    assert fault(pem(ec.generate_private_key(ec.SECP256K1()))) is KeyFault.KIND
    assert fault(pem(ed448.Ed448PrivateKey.generate())) is KeyFault.KIND


def test_a_key_derivation_that_would_never_end() -> None:
    options = string(b"s" * 16) + uint32(2**31)
    body = b"openssh-key-v1\0" + string(b"aes256-ctr") + string(b"bcrypt") + string(options) + uint32(1)
    file = b"-----BEGIN OPENSSH PRIVATE KEY-----\n%s\n-----END OPENSSH PRIVATE KEY-----\n" % base64.b64encode(body)
    assert fault(file, b"phrase") is KeyFault.MALFORMED


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
def test_certificates(tmp_path: Path, kind: str) -> None:
    authority = keygen(tmp_path / "authority")
    key, other = keygen(tmp_path / "key", kind=kind), keygen(tmp_path / "other", kind=kind)
    certificate = sign(authority, key).read_bytes()
    keys.check_certificate(certificate, public(key))
    loaded = keys.load(key.read_bytes(), None, certificate)
    assert loaded.public_blob.key_type.endswith("-cert-v01@openssh.com")
    for file, of in (
        (certificate, public(other)),
        (sign(authority, other, user=False).read_bytes(), public(other)),
        (key.with_name("key.pub").read_bytes(), public(key)),
        (b"", public(key)),
        (b"ssh-ed25519-cert-v01@openssh.com AAAA", public(key)),
        (certificate[: len(certificate) // 3], public(key)),
    ):
        with pytest.raises(SshKeyUnusable) as caught:
            keys.check_certificate(file, of)
        assert caught.value.fault is KeyFault.CERTIFICATE


def test_an_error_names_no_value(tmp_path: Path) -> None:
    file = keygen(tmp_path / "key", passphrase=PHRASE).read_bytes()
    with pytest.raises(SshKeyUnusable) as caught:
        keys.describe(file, b"battery staple")
    assert "battery" not in repr(caught.value)
    assert str(caught.value) == "passphrase_wrong"


def test_the_blob_is_what_ssh_keygen_says(tmp_path: Path) -> None:
    path = keygen(tmp_path / "key", kind="rsa")
    said = subprocess.run(["ssh-keygen", "-yf", str(path)], check=True, capture_output=True).stdout
    assert keys.describe(path.read_bytes()).public == HostKey.of(base64.b64decode(said.split()[1]))
