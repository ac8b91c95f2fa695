"""SSH keys of the tests' own: private files, public parts, certificates, lines of a known_hosts."""

from __future__ import annotations

import base64
import hmac

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    SSHCertificateBuilder,
    SSHCertificateType,
)

from affidavit.broker.wire.ssh.port import HostKey

Key = ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey

PASSPHRASE = b"planted-passphrase"


def new() -> ed25519.Ed25519PrivateKey:
    return ed25519.Ed25519PrivateKey.generate()


def file(key: Key, passphrase: bytes | None = None) -> bytes:
    """The private key in OpenSSH's form."""
    how: KeySerializationEncryption = NoEncryption() if passphrase is None else BestAvailableEncryption(passphrase)
    return key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, how)


def line(key: Key) -> str:
    """Kind and base64 of the public part."""
    return key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def blob(line: str) -> bytes:
    """The key's bytes in a line."""
    return base64.b64decode(line.split()[1])


def host_key(key: Key) -> HostKey:
    return HostKey.of(blob(line(key)))


def certificate(key: ed25519.Ed25519PrivateKey, *, user: bool = True) -> str:
    """The key's certificate by an authority of its own, with a comment."""
    kind = SSHCertificateType.USER if user else SSHCertificateType.HOST
    builder = SSHCertificateBuilder().public_key(key.public_key()).serial(1).type(kind).key_id(b"test")
    builder = builder.valid_principals([b"deploy"]).valid_after(0).valid_before(2**63)
    return builder.sign(new()).public_bytes().decode() + " a comment\n"


def hashed(name: str, salt: bytes = b"0123456789abcdefghij") -> str:
    """A name as a known_hosts hides it."""
    digest = hmac.digest(salt, name.encode(), "sha1")
    return f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"
