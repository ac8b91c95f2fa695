"""What is spoken, and which key a host is held to."""

from __future__ import annotations

import re

import paramiko

from affidavit.broker.wire.ssh import algorithms
from affidavit.broker.wire.ssh.port import HostKey
from affidavit.broker.wire.ssh.session import Session

WEAK = re.compile("3des|cbc|md5|sha1|hmac-sha-|group1-|ssh-rsa$|dss|none|exchange")


def test_nothing_weak_is_offered() -> None:
    offered = (*algorithms.KEX, *algorithms.CIPHERS, *algorithms.MACS, *algorithms.ALL_SIGNATURES)
    assert not [name for name in offered if WEAK.search(name)]
    assert Session._preferred_ciphers == algorithms.CIPHERS
    assert Session._preferred_macs == algorithms.MACS
    assert Session._preferred_pubkeys == algorithms.ALL_SIGNATURES
    assert Session._preferred_compression == ("none",)


def test_paramiko_knows_every_name() -> None:
    known = paramiko.Transport
    assert set(algorithms.CIPHERS) <= set(known._cipher_info)
    assert set(algorithms.MACS) <= set(known._mac_info)
    assert set(algorithms.ALL_SIGNATURES) <= set(known._key_info)
    assert set(algorithms.KEX) - {"mlkem768x25519-sha256"} <= set(known._kex_info)
    assert "curve25519-sha256@libssh.org" in Session._preferred_kex


def key(kind: str, tail: bytes = b"x") -> HostKey:
    return HostKey(kind, tail)


def test_the_best_kind_that_is_pinned_is_the_only_one() -> None:
    rsa, ecdsa, first, second = key("ssh-rsa"), key("ecdsa-sha2-nistp256"), key("ssh-ed25519"), key("ssh-ed25519", b"y")
    assert algorithms.pinned((rsa, ecdsa, first, second)) == (first, second)
    assert algorithms.pinned((rsa, ecdsa)) == (ecdsa,)
    assert algorithms.pinned((rsa,)) == (rsa,)
    assert algorithms.pinned((key("ssh-dss"),)) == ()
    assert algorithms.pinned(()) == ()
