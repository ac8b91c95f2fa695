"""Private keys and user certificates, from the bytes of their files. Nothing is logged, and no error shows a value.

`describe` tells what a key is, for who keeps it; `load` makes it fit to sign a login.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass

import paramiko
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from nacl.signing import SigningKey

from affidavit.broker.wire.ssh.fields import Fields, Malformed
from affidavit.broker.wire.ssh.port import HostKey, KeyFault, SshKeyUnusable

FILE_BYTES = 64 * 1024
"""The longest key file; RSA of 16384 bits in OpenSSH's form takes 13 KiB."""
KDF_ROUNDS = 1024
"""The most rounds of bcrypt: some ten seconds. ssh-keygen's default is 16 (24 since 9.8)."""
RSA_BITS = range(2048, 16385)

_MAGIC = b"openssh-key-v1\0"
_CERTIFICATE = b"-cert-v01@openssh.com"
_USER_CERTIFICATE = 1

Key = ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


@dataclass(frozen=True, slots=True)
class KeyFacts:
    """What may be known of a private key by all."""

    public: HostKey
    """Its public part: kind, blob, fingerprint."""
    encrypted: bool
    """The file asks for a passphrase."""
    bits: int


def describe(file: bytes, passphrase: bytes | None = None) -> KeyFacts:
    """What key this is. Raises SshKeyUnusable; without the passphrase of an encrypted one PASSPHRASE_NEEDED."""
    key = _private(file, passphrase)
    return KeyFacts(HostKey.of(_public(key)), _is_encrypted(file), _bits(key))


def check_certificate(file: bytes, public: HostKey) -> None:
    """Raise SshKeyUnusable unless `file` is an OpenSSH user certificate for the key `public`."""
    _certificate(file, public)


def load(file: bytes, passphrase: bytes | None = None, certificate: bytes | None = None) -> paramiko.PKey:
    """The key as paramiko signs with it. May take a second for an encrypted one. Raises SshKeyUnusable."""
    key = _private(file, passphrase)
    loaded: paramiko.PKey
    match key:
        case ed25519.Ed25519PrivateKey():
            loaded = paramiko.Ed25519Key(data=_public(key))
            loaded._signing_key = SigningKey(key.private_bytes_raw())
        case ec.EllipticCurvePrivateKey():
            loaded = paramiko.ECDSAKey(vals=(key, key.public_key()))
        case rsa.RSAPrivateKey():
            loaded = paramiko.RSAKey(key=key)
    if certificate is not None:
        blob = _certificate(certificate, HostKey.of(_public(key)))
        loaded.load_certificate(paramiko.Message(blob))
    return loaded


def _private(file: bytes, passphrase: bytes | None) -> Key:
    if len(file) > FILE_BYTES:
        raise SshKeyUnusable(KeyFault.MALFORMED)
    encrypted = _is_encrypted(file)
    if encrypted and not passphrase:
        raise SshKeyUnusable(KeyFault.PASSPHRASE_NEEDED)
    secret = passphrase if encrypted else None
    read = serialization.load_ssh_private_key if b"BEGIN OPENSSH" in file else serialization.load_pem_private_key
    try:
        key = read(file, secret)
    except UnsupportedAlgorithm:
        raise SshKeyUnusable(KeyFault.KIND) from None
    except (ValueError, TypeError):
        # A wrong passphrase and a damaged key cannot be told apart: both end in bytes that are no key.
        raise SshKeyUnusable(KeyFault.PASSPHRASE_WRONG if encrypted else KeyFault.MALFORMED) from None
    if not isinstance(key, Key) or not _fit(key):
        raise SshKeyUnusable(KeyFault.KIND)
    return key


def _is_encrypted(file: bytes) -> bool:
    if b"BEGIN OPENSSH" not in file:
        return b"ENCRYPTED" in file
    try:
        body = base64.b64decode(b"".join(file.split(b"-----")[2].split()), validate=True)
        if not body.startswith(_MAGIC):
            raise SshKeyUnusable(KeyFault.MALFORMED)
        fields = Fields(body[len(_MAGIC) :])
        cipher, kdf, options = bytes(fields.string()), bytes(fields.string()), fields.string()
        if kdf == b"bcrypt":
            terms = Fields(options)
            terms.string()  # the salt
            if terms.uint32() > KDF_ROUNDS:
                raise SshKeyUnusable(KeyFault.MALFORMED)
    except (binascii.Error, IndexError, Malformed):
        raise SshKeyUnusable(KeyFault.MALFORMED) from None
    return cipher != b"none"


def _fit(key: Key) -> bool:
    match key:
        case rsa.RSAPrivateKey():
            return key.key_size in RSA_BITS
        case ec.EllipticCurvePrivateKey():
            return isinstance(key.curve, ec.SECP256R1 | ec.SECP384R1 | ec.SECP521R1)
        case _:
            return True


def _bits(key: Key) -> int:
    return 256 if isinstance(key, ed25519.Ed25519PrivateKey) else key.key_size


def _public(key: Key) -> bytes:
    text = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return base64.b64decode(text.split()[1])


def _certificate(file: bytes, public: HostKey) -> bytes:
    """The certificate's blob. It holds a nonce and then the fields of the key that it certifies (PROTOCOL.certkeys)."""
    try:
        blob = base64.b64decode(file[:FILE_BYTES].split()[1], validate=True)
        fields = Fields(blob)
        kind = bytes(fields.string())
        if kind != public.algorithm.encode() + _CERTIFICATE:
            raise SshKeyUnusable(KeyFault.CERTIFICATE)
        fields.string()  # the nonce
        of_key = Fields(public.blob)
        of_key.string()  # the kind, without its suffix
        same = True
        while of_key.left:
            same &= bytes(of_key.string()) == bytes(fields.string())
        fields.skip(8)  # the serial number
        for_user = fields.uint32() == _USER_CERTIFICATE
        fields.string()  # its id
        fields.string()  # principals
        fields.skip(16)  # from when to when
        for _ in range(5):  # critical options, extensions, reserved, the signing key, its signature
            fields.string()
        if not same or not for_user or fields.left:
            raise SshKeyUnusable(KeyFault.CERTIFICATE)
    except (binascii.Error, IndexError, Malformed):
        raise SshKeyUnusable(KeyFault.CERTIFICATE) from None
    return blob
