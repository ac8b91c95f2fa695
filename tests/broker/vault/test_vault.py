"""The vault opens to both halves together, tells wrong from damaged, and makes nothing anew."""

import json
import os
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from affidavit.broker import home as home_module
from affidavit.broker.home import HomeState, Places
from affidavit.broker.secret import Secret
from affidavit.broker.vault import (
    Adoption,
    Conflict,
    DeviceSecretUnavailable,
    DeviceTrouble,
    Invalid,
    KdfParams,
    KeyringStore,
    NewCredential,
    Vault,
    VaultAbsent,
    VaultDamaged,
    VaultError,
    VaultExists,
    VaultLocked,
    VaultState,
    VaultUnavailable,
    WrongPassphrase,
)
from affidavit.broker.vault import device as device_module
from affidavit.broker.vault import vault as vault_module
from affidavit.broker.vault.head import VaultHead
from affidavit.broker.vault.keys import device_check, device_keys, vault_keys

CHEAP = KdfParams(memory_kib=8, iterations=1, lanes=1)
PLANTED = b"planted-secret-4711"
MemoryKeyring = Any


def right() -> bytearray:
    return bytearray(b"correct horse")


def wrong() -> bytearray:
    return bytearray(b"battery staple")


def reopened(places: Places, store: KeyringStore) -> Vault:
    return Vault(places, store=store)


def plant(vault: Vault) -> None:
    vault.credentials.add(NewCredential("planted", "bearer", ("https://api.example.com/v1/x",)), bytearray(PLANTED))


def content(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


@pytest.fixture
def closed(places: Places, vault: Vault) -> Places:
    """A vault with something in it, closed, so that its database is one file."""
    plant(vault)
    vault.close()
    return places


def test_create_leaves_it_open_and_overwrites_the_passphrase(places: Places, store: KeyringStore) -> None:
    passphrase = right()
    vault = Vault.create(places, passphrase, keyring=True, kdf=CHEAP, store=store)
    assert vault.state is VaultState.READY
    assert not any(passphrase)
    assert vault.credentials.list() == ()
    for path in (places.vault, places.vault_head):
        assert path.stat().st_mode & 0o777 == 0o600
    assert not places.device_key.exists()
    assert places.state is HomeState.PARTIAL
    vault.close()


def test_locks_and_opens_again_with_what_was_in_it(vault: Vault) -> None:
    plant(vault)
    vault.lock()
    vault.lock()
    assert vault.state is VaultState.LOCKED
    passphrase = right()
    vault.unlock(passphrase)
    assert vault.state is VaultState.READY
    assert not any(passphrase)
    (credential,) = vault.credentials.list()
    assert vault.credentials.secret(credential.credential_id, 1).use(bytes) == PLANTED


def test_another_process_opens_it(closed: Places, store: KeyringStore) -> None:
    vault = reopened(closed, store)
    assert vault.state is VaultState.LOCKED
    vault.unlock(right())
    assert [c.name for c in vault.credentials.list()] == ["planted"]
    vault.close()


def test_nothing_is_read_or_changed_while_locked(vault: Vault) -> None:
    plant(vault)
    (credential,) = vault.credentials.list()
    vault.lock()
    calls: list[Callable[[], object]] = [
        vault.credentials.list,
        lambda: vault.credentials.named("planted"),
        lambda: plant(vault),
        lambda: vault.credentials.rotate("planted", bytearray(b"x" * 9)),
        lambda: vault.credentials.remove("planted"),
        lambda: vault.credentials.secret(credential.credential_id, 1),
        vault.operator.contracts,
        lambda: vault.operator.adopt([]),
        lambda: vault.operator.contract_text("sha256:00"),
        vault.operator.settings,
        lambda: vault.operator.setting("k"),
        lambda: vault.operator.set_setting("k", "v"),
        vault.journal_private_key,
        vault.journal_public_key,
    ]
    for call in calls:
        with pytest.raises(VaultLocked):
            call()


def test_a_wrong_passphrase_is_that_and_changes_nothing(closed: Places, store: KeyringStore) -> None:
    before = content(closed.data)
    vault = reopened(closed, store)
    passphrase = wrong()
    for call in (vault.unlock, vault.check):
        with pytest.raises(WrongPassphrase):
            call(passphrase)
        assert not any(passphrase)
        passphrase[:] = wrong()
    assert vault.state is VaultState.LOCKED
    assert content(closed.data) == before


def test_an_open_vault_checks_the_passphrase_and_stays_open(vault: Vault) -> None:
    for call in (vault.check, vault.unlock):
        call(right())
        with pytest.raises(WrongPassphrase):
            call(wrong())
        assert vault.state is VaultState.READY


def test_a_locked_vault_checks_the_passphrase_and_stays_locked(closed: Places, store: KeyringStore) -> None:
    vault = reopened(closed, store)
    vault.check(right())
    assert vault.state is VaultState.LOCKED


@pytest.mark.parametrize("passphrase", [b"", b"x" * 1025])
def test_a_passphrase_has_a_length(places: Places, vault: Vault, passphrase: bytes) -> None:
    with pytest.raises(Invalid) as caught:
        vault.check(bytearray(passphrase))
    assert caught.value.field == "passphrase"
    with pytest.raises(Invalid):
        Vault.create(Places.at(places.data / "other"), bytearray(passphrase), keyring=False, kdf=CHEAP)


def test_neither_half_opens_it_alone(closed: Places, keyring: MemoryKeyring, store: KeyringStore) -> None:
    (entry,) = keyring.entries
    kept = keyring.entries.pop(entry)
    with pytest.raises(DeviceSecretUnavailable) as caught:
        reopened(closed, store).unlock(right())
    assert caught.value.reason is DeviceTrouble.MISSING
    keyring.entries[entry] = "00" * 32
    with pytest.raises(DeviceSecretUnavailable) as caught:
        reopened(closed, store).unlock(right())
    assert caught.value.reason is DeviceTrouble.MISMATCH
    keyring.entries[entry] = kept
    with pytest.raises(WrongPassphrase):
        reopened(closed, store).unlock(wrong())
    vault = reopened(closed, store)
    vault.unlock(right())
    vault.close()


def test_a_keyring_that_came_late_is_asked_again(closed: Places, keyring: MemoryKeyring, store: KeyringStore) -> None:
    vault = reopened(closed, store)
    entries, keyring.entries = keyring.entries, {}
    with pytest.raises(DeviceSecretUnavailable):
        vault.unlock(right())
    keyring.entries = entries
    vault.unlock(right())
    vault.lock()
    asked = len(keyring.calls)
    vault.unlock(right())
    assert len(keyring.calls) == asked
    vault.close()


def test_a_blocking_keyring_is_said_to_block(closed: Places, keyring: MemoryKeyring) -> None:
    keyring.blocked = True
    vault = reopened(closed, KeyringStore(backend=lambda: keyring, wait_s=0.01))
    for call in (lambda: vault.unlock(right()), vault.device_keys):
        with pytest.raises(DeviceSecretUnavailable) as caught:
            call()
        assert caught.value.reason is DeviceTrouble.BLOCKING
        assert "prompt" in caught.value.remedy


def test_the_mode_without_a_keyring(places: Places) -> None:
    vault = Vault.create(places, right(), keyring=False, kdf=CHEAP)
    plant(vault)
    vault.close()
    assert places.device_key.stat().st_mode & 0o777 == 0o600
    vault = Vault(places)
    with pytest.raises(WrongPassphrase):
        vault.unlock(wrong())
    vault.unlock(right())
    vault.close()
    places.device_key.chmod(0o644)
    with pytest.raises(DeviceSecretUnavailable) as caught:
        Vault(places).unlock(right())
    assert caught.value.reason is DeviceTrouble.LAX


@pytest.mark.parametrize("name", ["vault.head", "vault.db"])
def test_a_missing_file_is_named_and_not_made_anew(closed: Places, store: KeyringStore, name: str) -> None:
    (closed.data / name).unlink()
    before = content(closed.data)
    for call in (Vault.unlock, Vault.check):
        with pytest.raises(VaultAbsent) as caught:
            call(reopened(closed, store), right())
        assert name in caught.value.message
    assert content(closed.data) == before


def damage_cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2 + 100])


def damage_first_page(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)


def damage_empty(path: Path) -> None:
    path.write_bytes(b"")


def damage_noise(path: Path) -> None:
    path.write_bytes(b"noise" * 2000)


@pytest.mark.parametrize("damage", [damage_cut, damage_first_page, damage_empty, damage_noise])
@pytest.mark.parametrize("name", ["vault.head", "vault.db"])
def test_damage_is_told_from_a_wrong_passphrase(
    closed: Places, store: KeyringStore, name: str, damage: Callable[[Path], None]
) -> None:
    path = closed.data / name
    if name == "vault.head" and damage is damage_first_page:
        data = bytearray(path.read_bytes())
        at = data.index(b'"verifier": "') + 13
        data[at] = ord("0") if data[at] != ord("0") else ord("1")
        path.write_bytes(data)
    else:
        damage(path)
    before = path.read_bytes()
    for call in (Vault.unlock, Vault.check):
        with pytest.raises(VaultDamaged) as caught:
            call(reopened(closed, store), right())
        assert caught.value.remedy
    assert path.read_bytes() == before


def test_damage_behind_the_first_page_is_seen_when_it_is_read(closed: Places, store: KeyringStore) -> None:
    data = bytearray(closed.vault.read_bytes())
    for page in range(1, len(data) // 4096):
        data[page * 4096 + 50] ^= 1
    closed.vault.write_bytes(data)
    with pytest.raises(VaultDamaged):
        reopened(closed, store).unlock(right())


def test_a_vault_of_another_format_is_refused(closed: Places, store: KeyringStore) -> None:
    vault = reopened(closed, store)
    vault.unlock(right())
    vault.write(lambda database: database.execute("PRAGMA user_version = 2"))
    vault.close()
    with pytest.raises(VaultDamaged) as caught:
        reopened(closed, store).unlock(right())
    assert "newer" in caught.value.remedy


def test_nothing_is_created_over_a_vault_or_a_part_of_one(closed: Places, store: KeyringStore) -> None:
    for missing in ("", "vault.head", "vault.db"):
        if missing:
            shutil.move(closed.data / missing, closed.data / "aside")
        before = content(closed.data)
        passphrase = wrong()
        with pytest.raises(VaultExists):
            Vault.create(closed, passphrase, keyring=True, kdf=CHEAP, store=store)
        assert not any(passphrase)
        assert content(closed.data) == before
        if missing:
            shutil.move(closed.data / "aside", closed.data / missing)


def test_nothing_is_created_over_a_device_key(places: Places) -> None:
    Vault.create(places, right(), keyring=False, kdf=CHEAP).close()
    places.vault.unlink()
    places.vault_head.unlink()
    before = content(places.data)
    with pytest.raises(VaultExists) as caught:
        Vault.create(places, right(), keyring=False, kdf=CHEAP)
    assert "device.key" in caught.value.message
    assert content(places.data) == before


@pytest.mark.parametrize("keyring_mode", [True, False])
@pytest.mark.parametrize(
    ("module", "step"),
    [
        (vault_module, "open_database"),
        (vault_module, "_create_schema"),
        (vault_module, "_set_up"),
        (vault_module, "create_private"),
        (vault_module.Vault, "_publish"),
        (home_module, "sync_directory"),
        (device_module, "create_private"),
        (device_module.Device, "read"),
        (os, "fsync"),
    ],
)
def test_a_creation_that_fails_leaves_nothing(
    places: Places,
    keyring: MemoryKeyring,
    store: KeyringStore,
    monkeypatch: pytest.MonkeyPatch,
    module: Any,
    step: str,
    keyring_mode: bool,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, step, fail)
    if keyring_mode and module is device_module:
        monkeypatch.setattr(vault_module, "open_database", fail)  # a keyring needs no file
    with pytest.raises(VaultUnavailable):
        Vault.create(places, right(), keyring=keyring_mode, kdf=CHEAP, store=store)
    assert content(places.data) == {}
    assert keyring.entries == {}
    monkeypatch.undo()
    Vault.create(places, right(), keyring=keyring_mode, kdf=CHEAP, store=store).close()


def test_a_keyring_that_forgets_at_once_is_not_trusted(places: Places, keyring: MemoryKeyring) -> None:
    keyring.set_password = lambda *_: None
    with pytest.raises(DeviceSecretUnavailable):
        Vault.create(places, right(), keyring=True, kdf=CHEAP, store=KeyringStore(backend=lambda: keyring))
    assert content(places.data) == {}


def test_a_forged_head_does_not_change_the_passphrase(closed: Places, store: KeyringStore) -> None:
    """A program of this user can read the device secret and replace the head by one of its own passphrase."""
    vault = reopened(closed, store)
    vault.unlock(right())
    head = VaultHead.read(closed.vault_head)
    device = Secret(store.get(f"device {head.item}") or b"")
    salt = bytes(16)
    keys = vault_keys(wrong(), device, salt, CHEAP)
    forged = VaultHead(head.created_at, CHEAP, salt, head.mode, head.item, device_check(device), keys.verifier)
    closed.vault_head.write_bytes(forged.dump())
    with pytest.raises(WrongPassphrase):
        vault.check(wrong())
    vault.check(right())
    vault.close()
    for call in (Vault.check, Vault.unlock):
        with pytest.raises(VaultDamaged):
            call(reopened(closed, store), wrong())


def test_the_planted_secret_and_passphrase_are_in_no_file(places: Places, vault: Vault) -> None:
    plant(vault)
    vault.operator.adopt([Adoption("c", "sha256:aa", "c.toml", "planted-contract-text")])
    vault.operator.set_setting("limit.body", "planted-setting")
    needles = [b"planted", b"correct horse", PLANTED.hex().encode(), b"bearer", b"api.example.com", b"CREATE TABLE"]
    for state in ("open", "locked"):
        files = [path for path in places.data.parent.rglob("*") if path.is_file()]
        assert {"vault.db", "vault.head"} <= {path.name for path in files}, state
        for path in files:
            data = path.read_bytes()
            assert not [needle for needle in needles if needle in data], path
        vault.lock()


def test_a_rotated_and_a_removed_secret_are_gone_from_the_open_database(vault: Vault) -> None:
    plant(vault)
    vault.credentials.rotate("planted", bytearray(b"another-secret"))
    assert vault.read(lambda db: db.execute("SELECT version, value IS NULL FROM secrets").fetchall()) == [
        (1, 1),
        (2, 0),
    ]
    vault.credentials.remove("planted")
    assert vault.read(lambda db: db.execute("SELECT count(*) FROM secrets").fetchone()[0]) == 0
    assert vault.read(lambda db: db.execute("PRAGMA secure_delete").fetchone()[0]) == 1


def test_device_keys_need_no_passphrase_and_stay_the_same(closed: Places, store: KeyringStore) -> None:
    first = reopened(closed, store).device_keys()
    vault = reopened(closed, store)
    vault.unlock(right())
    second = vault.device_keys()
    assert first.journal.use(bytes) == second.journal.use(bytes)
    first.wipe()
    assert second.digests.use(bytes) == vault.device_keys().digests.use(bytes)
    vault.close()


def test_device_keys_of_an_absent_vault(places: Places, store: KeyringStore) -> None:
    with pytest.raises(VaultAbsent):
        reopened(places, store).device_keys()


def test_the_journal_key_pair_is_one_pair_for_ever(vault: Vault) -> None:
    from nacl.public import PrivateKey, PublicKey, SealedBox

    private, public = vault.journal_private_key().use(bytes), vault.journal_public_key()
    sealed = SealedBox(PublicKey(public)).encrypt(b"record")
    assert SealedBox(PrivateKey(private)).decrypt(sealed) == b"record"
    vault.lock()
    vault.unlock(right())
    assert vault.journal_private_key().use(bytes) == private
    assert vault.journal_public_key() == public


def test_the_journals_database_opens_with_the_device_key(vault: Vault, places: Places) -> None:
    from affidavit.journal.sqlcipher import open_database

    with vault.device_keys().journal as key:
        made = key.use(lambda lent: open_database(places.journal, bytes(lent), create=True))
    made.execute("CREATE TABLE t (x)")
    made.close()
    vault.lock()
    with vault.device_keys().journal as key:
        key.use(lambda lent: open_database(places.journal, bytes(lent))).close()
    assert places.state is HomeState.INITIALISED


def test_lock_during_an_unlock_wins(closed: Places, store: KeyringStore, monkeypatch: pytest.MonkeyPatch) -> None:
    vault = reopened(closed, store)
    started, go_on = threading.Event(), threading.Event()

    def slow(*arguments: Any) -> Any:
        started.set()
        go_on.wait()
        return vault_keys(*arguments)

    monkeypatch.setattr(vault_module, "vault_keys", slow)
    with ThreadPoolExecutor(1) as pool:
        unlocking = pool.submit(vault.unlock, right())
        started.wait()
        vault.lock()
        go_on.set()
        with pytest.raises(VaultLocked):
            unlocking.result()
    assert vault.state is VaultState.LOCKED


def test_many_threads_at_once(vault: Vault) -> None:
    plant(vault)
    vault.lock()

    def work(number: int) -> None:
        vault.unlock(right())
        name = f"c{number}"
        vault.credentials.add(
            NewCredential(name, "bearer", ("https://a.example/",)), bytearray(f"secret-{number}".encode())
        )
        credential = vault.credentials.named(name)
        assert vault.credentials.secret(credential.credential_id, 1).use(bytes) == f"secret-{number}".encode()

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(work, number) for number in range(24)]:
            done.result()
    assert len(vault.credentials.list()) == 25


def test_lock_while_others_read_ends_them_cleanly(vault: Vault) -> None:
    plant(vault)
    (credential,) = vault.credentials.list()
    reading = threading.Barrier(5)

    def read() -> int:
        reading.wait()
        count = 0
        while True:
            try:
                assert vault.credentials.secret(credential.credential_id, 1).use(bytes) == PLANTED
            except VaultLocked:
                return count
            count += 1

    with ThreadPoolExecutor(4) as pool:
        readers = [pool.submit(read) for _ in range(4)]
        reading.wait()
        vault.lock()
        for reader in readers:
            assert reader.result() >= 0
    with pytest.raises(VaultLocked):
        vault.credentials.list()


def test_close_forgets_the_device_secret(closed: Places, keyring: MemoryKeyring, store: KeyringStore) -> None:
    vault = reopened(closed, store)
    vault.unlock(right())
    vault.close()
    keyring.entries.clear()
    with pytest.raises(DeviceSecretUnavailable):
        vault.device_keys()


def test_no_error_tells_a_secret(closed: Places, store: KeyringStore) -> None:
    vault = reopened(closed, store)
    vault.unlock(right())
    bad = bytearray(PLANTED + b"\n")
    calls: list[Callable[[], object]] = [
        lambda: vault.check(bytearray(PLANTED)),
        lambda: vault.credentials.add(NewCredential("x", "bearer", ("https://a.example/",)), bad),
        lambda: vault.credentials.rotate("planted", bytearray(PLANTED + b"\n")),
        lambda: vault.write(
            lambda db: db.execute("INSERT INTO settings VALUES ('a', ?), ('a', ?)", (PLANTED, PLANTED))
        ),
    ]
    import traceback

    for call in calls:
        with pytest.raises(VaultError) as caught:
            call()
        whole = "".join(traceback.TracebackException.from_exception(caught.value).format())
        assert "planted-secret" not in whole
    assert not any(bad)
    vault.close()


def test_a_failed_write_is_undone_and_the_vault_goes_on(vault: Vault) -> None:
    def half(database: Any) -> None:
        database.execute("INSERT INTO settings VALUES ('a', 'b')")
        raise RuntimeError("half way")

    with pytest.raises(RuntimeError):
        vault.write(half)
    assert vault.operator.settings() == {}
    vault.operator.set_setting("a", "c")
    assert vault.operator.settings() == {"a": "c"}


def test_the_head_holds_what_was_chosen(closed: Places) -> None:
    fields = json.loads(closed.vault_head.read_text())
    assert fields["device"]["mode"] == "keyring"
    assert fields["kdf"]["memory_kib"] == CHEAP.memory_kib
    assert set(fields) == {"format", "created_at", "kdf", "device", "verifier", "digest"}


def test_device_keys_derive_from_the_device_secret_alone(closed: Places, store: KeyringStore) -> None:
    item = VaultHead.read(closed.vault_head).item
    expected = device_keys(Secret(store.get(f"device {item}") or b""))
    assert reopened(closed, store).device_keys().journal.use(bytes) == expected.journal.use(bytes)


def test_a_vault_that_cannot_be_read_whole_shows_nothing(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(database: object) -> None:
        raise Conflict("no", "no")

    vault.lock()
    monkeypatch.setattr(vault.proxy.snapshot, "load", broken)
    with pytest.raises(Conflict):
        vault.unlock(bytearray(b"correct horse"))
    assert vault.state is VaultState.LOCKED
    for shown in (vault.credentials.list, vault.trust.list, vault.proxy.get, vault.hosts.list):
        with pytest.raises(VaultLocked):
            shown()
