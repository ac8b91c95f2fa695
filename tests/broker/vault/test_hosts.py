"""Host entries in a vault: how they are kept, changed, and held by what uses them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.broker.vault import ssh_keys

from affidavit.broker.vault import (
    Conflict,
    HostEdit,
    HostKeyPolicy,
    Invalid,
    NewCredential,
    NewHost,
    NotKnown,
    Vault,
    VaultLocked,
)
from affidavit.broker.vault import hosts as module

LINE = ssh_keys.line(ssh_keys.new())
NEW = NewHost("db", "db.example.com", "deploy", "key")


@pytest.fixture
def keyed(vault: Vault) -> Vault:
    """A vault with one SSH key, for example.com."""
    new = NewCredential("key", "ssh-key", ("*.example.com",))
    vault.credentials.add(new, bytearray(ssh_keys.file(ssh_keys.new())))
    return vault


def test_add_list_remove(keyed: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = keyed.hosts
    assert hosts.list() == ()
    db = hosts.add(replace(NEW, host_keys=(LINE,), policy="accept-new", port=2222))
    app = hosts.add(replace(NEW, name="app", jump="db"))
    assert hosts.list() == (app, db)
    assert hosts.named("app") == app
    monkeypatch.setattr(module, "HOSTS_MAX", 2)
    with pytest.raises(Invalid, match="at most"):
        hosts.add(replace(NEW, name="third"))
    keyed.lock()
    with pytest.raises(VaultLocked):
        hosts.list()
    with pytest.raises(VaultLocked):
        hosts.import_file(f"db.example.com {LINE}")
    keyed.unlock(bytearray(b"correct horse"))
    assert hosts.list() == (app, db)
    with pytest.raises(Conflict, match="app is reached through it"):
        hosts.remove("db")
    assert hosts.remove("app") == app
    assert hosts.remove("db") == db
    for gone in (hosts.named, hosts.remove):
        with pytest.raises(NotKnown):
            gone("db")


def test_a_credential_stays_while_a_host_uses_it(keyed: Vault) -> None:
    keyed.hosts.add(NEW)
    with pytest.raises(Conflict, match="host db"):
        keyed.credentials.remove("key")
    keyed.credentials.rotate("key", bytearray(ssh_keys.file(ssh_keys.new())))
    assert keyed.credentials.of(keyed.hosts.named("db").credential_id).version == 2
    keyed.hosts.remove("db")
    keyed.credentials.remove("key")


def test_a_new_key_is_pinned_once(keyed: Vault) -> None:
    key, other = ssh_keys.host_key(ssh_keys.new()), ssh_keys.host_key(ssh_keys.new())
    db = keyed.hosts.add(NEW)
    lax = keyed.hosts.add(replace(NEW, name="lax", policy="accept-new"))
    with pytest.raises(Conflict):
        keyed.hosts.pin(db, key)
    pinned = keyed.hosts.pin(lax, key)
    assert pinned.host_keys == (key,)
    assert keyed.hosts.named("lax") == keyed.hosts.pin(lax, key) == pinned
    for entry in (lax, pinned):
        with pytest.raises(Conflict):
            keyed.hosts.pin(entry, other)
    with pytest.raises(NotKnown):
        keyed.hosts.pin(replace(lax, name="nobody"), key)


def test_a_key_is_not_pinned_for_an_entry_that_has_changed(keyed: Vault) -> None:
    key = ssh_keys.host_key(ssh_keys.new())
    lax = keyed.hosts.add(replace(NEW, policy="accept-new"))
    for edit in (HostEdit(port=2222), HostEdit(port=22, policy="strict")):
        keyed.hosts.edit("db", edit)
        with pytest.raises(Conflict, match="was changed"):
            keyed.hosts.pin(lax, key)
    assert keyed.hosts.named("db").host_keys == ()


def test_an_edit_is_kept(keyed: Vault) -> None:
    keyed.hosts.add(replace(NEW, name="gate"))
    added = keyed.hosts.add(replace(NEW, host_keys=(LINE,)))
    changes = HostEdit(user="root", jump="gate", policy="accept-new")
    before, after = keyed.hosts.edit("db", changes)
    assert before == added
    assert after == replace(added, user="root", jump="gate", policy=HostKeyPolicy.ACCEPT_NEW)
    keyed.lock()
    keyed.unlock(bytearray(b"correct horse"))
    assert keyed.hosts.named("db") == after
    with pytest.raises(NotKnown):
        keyed.hosts.edit("nobody", changes)
    with pytest.raises(Invalid):
        keyed.hosts.edit("gate", HostEdit(jump="db"))
    assert keyed.hosts.named("gate").jump is None


def test_a_revoked_key_is_not_learnt(keyed: Vault) -> None:
    key = ssh_keys.new()
    keyed.hosts.add(replace(NEW, policy="accept-new"))
    keyed.hosts.import_file(f"@revoked * {ssh_keys.line(key)}")
    with pytest.raises(Conflict):
        keyed.hosts.pin(keyed.hosts.named("db"), ssh_keys.host_key(key))
    assert keyed.hosts.named("db").revoked == (ssh_keys.host_key(key),)


def test_import_is_kept(keyed: Vault) -> None:
    hosts = keyed.hosts
    text = "Host gate app\nHostName %h.example.com\nUser u\nIdentityFile ~/.ssh/key\nHost app\nProxyJump gate"
    made = hosts.import_file(text)
    assert [entry.name for entry in made.added] == ["gate", "app"]
    keys = hosts.import_file(f"gate.example.com {LINE}\nnonsense")
    assert [(before.name, len(after.host_keys)) for before, after in keys.changed] == [("gate", 1)]
    keyed.lock()
    keyed.unlock(bytearray(b"correct horse"))
    assert hosts.named("app") == made.added[1]
    assert hosts.named("gate") == keys.changed[0][1]
    assert hosts.named("gate").policy is HostKeyPolicy.STRICT


def test_an_import_that_does_not_fit_leaves_nothing(keyed: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HOSTS_MAX", 1)
    with pytest.raises(Invalid):
        keyed.hosts.import_file("Host a b\nHostName %h.example.com\nUser u\nIdentityFile key")
    assert keyed.hosts.list() == ()
