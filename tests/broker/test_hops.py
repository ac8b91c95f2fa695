"""From host entries and lent secrets to the wire's hops: the right login for each, and nothing left of the secrets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.broker.vault import ssh_keys
from tests.broker.vault.conftest import CHEAP, MemoryKeyring

from affidavit.broker import hops
from affidavit.broker.home import Places
from affidavit.broker.secret import SecretWiped
from affidavit.broker.vault import Hop, KeyringStore, NewCredential, NewHost, NotKnown, Vault, VaultLocked, hops_of
from affidavit.broker.wire.ssh import keys
from affidavit.broker.wire.ssh.port import InteractiveLogin, KeyLogin, PasswordLogin

KEY = ssh_keys.new()
FILE = ssh_keys.file(KEY, ssh_keys.PASSPHRASE)
HOST_KEY = ssh_keys.new()


@pytest.fixture
def vault(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vault]:
    """Three hosts in a row: by password, by answer, by an encrypted key with a certificate."""
    places = Places.at(tmp_path_factory.mktemp("home"))
    places.prepare(file_system=lambda _: None)
    backend = MemoryKeyring()
    store = KeyringStore(backend=lambda: backend, wait_s=30)
    made = Vault.create(places, bytearray(b"pw"), keyring=True, kdf=CHEAP, store=store)
    password = NewCredential("password", "ssh-password", ("*",))
    answer = NewCredential("answer", "ssh-password", ("*",), interactive=True)
    key = NewCredential("key", "ssh-key", ("*",), certificate=ssh_keys.certificate(KEY))
    made.credentials.add(password, bytearray(b"planted-password"))
    made.credentials.add(answer, bytearray(b"planted-answer"))
    made.credentials.add(key, bytearray(FILE), bytearray(ssh_keys.PASSPHRASE))
    made.hosts.add(NewHost("outer", "outer", "a", "password", host_keys=(ssh_keys.line(HOST_KEY),)))
    made.hosts.add(NewHost("inner", "inner", "b", "answer", port=2222, jump="outer"))
    made.hosts.add(NewHost("db", "db", "c", "key", jump="inner"))
    yield made
    made.close()


def way(vault: Vault, name: str = "db") -> tuple[Hop, ...]:
    return hops_of(vault.hosts.list(), vault.credentials.list(), name)


def test_each_hop_has_its_own_login(vault: Vault) -> None:
    lent = hops.lend(vault, way(vault))
    request = hops.request_for(way(vault), lent, b"true", stdin=b"x", env=(("A", "b"),))
    assert (request.command, request.stdin, request.env) == (b"true", b"x", (("A", "b"),))
    outer, inner = request.jumps
    assert [(hop.authority, hop.user) for hop in (outer, inner, request.target)] == [
        ("outer:22", "a"),
        ("inner:2222", "b"),
        ("db:22", "c"),
    ]
    assert outer.host_keys == (ssh_keys.host_key(HOST_KEY),)
    assert isinstance(outer.login, PasswordLogin)
    assert isinstance(inner.login, InteractiveLogin)
    assert isinstance(request.target.login, KeyLogin)
    assert outer.login.password.use(bytes) == b"planted-password"
    assert inner.login.password.use(bytes) == b"planted-answer"
    assert request.target.login.key.use(bytes) == FILE
    assert request.target.login.passphrase is not None
    assert request.target.login.passphrase.use(bytes) == ssh_keys.PASSPHRASE
    certificate = request.target.login.certificate or b""
    assert certificate.split()[0] == b"ssh-ed25519-cert-v01@openssh.com"
    keys.check_certificate(certificate, ssh_keys.host_key(KEY))
    assert "planted" not in repr(request)
    assert "planted" not in repr(lent)
    for each in lent:
        each.wipe()
    for secret in (outer.login.password, request.target.login.key, request.target.login.passphrase):
        with pytest.raises(SecretWiped):
            secret.use(bytes)


def test_a_version_that_was_replaced_lends_nothing(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    bound = way(vault)
    vault.credentials.rotate("key", bytearray(ssh_keys.file(KEY)))
    taken = []
    secret = vault.credentials.secret
    monkeypatch.setattr(vault.credentials, "secret", lambda *bound: taken.append(secret(*bound)) or taken[-1])
    with pytest.raises(NotKnown):
        hops.lend(vault, bound)
    assert len(taken) == 2
    for each in taken:
        with pytest.raises(SecretWiped):
            each.use(bytes)


def test_a_key_without_a_passphrase_has_none(vault: Vault) -> None:
    vault.credentials.rotate("key", bytearray(ssh_keys.file(KEY)))
    (*_, lent) = hops.lend(vault, way(vault))
    assert lent.passphrase is None
    lent.wipe()


def test_a_locked_vault_lends_nothing(vault: Vault) -> None:
    bound = way(vault)
    vault.lock()
    with pytest.raises(VaultLocked):
        hops.lend(vault, bound)


def test_a_transport_serves_the_same_way_alone(vault: Vault) -> None:
    first = hops.reuse_key(way(vault))
    assert hops.reuse_key(way(vault)) == first
    assert hops.reuse_key(way(vault, "inner")) != first
    vault.credentials.rotate("password", bytearray(b"planted-other"))
    assert hops.reuse_key(way(vault)) != first
