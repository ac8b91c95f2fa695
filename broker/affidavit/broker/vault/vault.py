"""The vault: credentials and operator data in one encrypted file, open only to passphrase and device secret together.

Files, all in the home's data directory: `vault.head` (clear: how the key is made), `vault.db` (SQLCipher), and in
homes without the OS keyring `device.key`. They come into being once, the head last; nothing is ever made anew over one
that is missing, damaged or foreign.

`vault.head` can be replaced by any program of this user, who can also read the device secret. So a head proves nothing:
a passphrase is right only if the key that it gives opens vault.db, or if it fits the head that did.
"""

from __future__ import annotations

import hmac
import secrets
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from affidavit.broker.home import Places, create_private
from affidavit.broker.moment import SystemClock
from affidavit.broker.secret import Secret, overwrite
from affidavit.broker.terms import Micros
from affidavit.broker.vault import credentials, hosts, operator, proxy, trust
from affidavit.broker.vault.credentials import Credentials
from affidavit.broker.vault.device import Device
from affidavit.broker.vault.errors import (
    DeviceSecretUnavailable,
    DeviceTrouble,
    Invalid,
    VaultAbsent,
    VaultDamaged,
    VaultError,
    VaultExists,
    VaultLocked,
    VaultUnavailable,
    WrongPassphrase,
)
from affidavit.broker.vault.head import DeviceMode, VaultHead
from affidavit.broker.vault.hosts import Hosts
from affidavit.broker.vault.keyring_store import KeyringStore
from affidavit.broker.vault.keys import SALT_BYTES, DeviceKeys, KdfParams, device_check, device_keys, vault_keys
from affidavit.broker.vault.operator import OperatorData
from affidavit.broker.vault.proxy import ProxySetting
from affidavit.broker.vault.trust import TrustAnchors
from affidavit.journal.errors import DatabaseError, DatabaseExists, DatabaseMissing, DatabaseUnavailable, DatabaseUnsafe
from affidavit.journal.sqlcipher import Connection, Error, is_damage, open_database, remove_database

T = TypeVar("T")

PASSPHRASE_MAX = 1024
"""Bytes of a passphrase."""

_NOW = SystemClock().wall
_FORMAT = 1
_JOURNAL_PRIVATE = "journal private"
_SCHEMA = """
CREATE TABLE keys (
    name TEXT PRIMARY KEY,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;
"""


class VaultState(StrEnum):
    """What a vault can do now."""

    LOCKED = "locked"
    READY = "ready"


@dataclass(frozen=True, slots=True)
class _Open:
    """An open vault: its database, and the head whose key opened it."""

    database: Connection
    head: VaultHead


class Vault:
    """One home's vault. The caller holds the home's lock. It needs no event loop.

    Any thread may call. `_guard` gives the database to one call at a time and makes each change of state one step.
    `state`, `credentials.list` and `lock` may be called on an event loop. `create`, `unlock`, `check` and `device_keys`
    take Argon2id's time and may wait for the OS keyring (bounded); these and every change belong in an executor.

    A passphrase handed in is overwritten, whatever comes of the call.
    """

    def __init__(self, places: Places, *, store: KeyringStore | None = None, now: Callable[[], Micros] = _NOW) -> None:
        self._places = places
        self._store = store or KeyringStore()
        self._guard = threading.Lock()
        self._open: _Open | None = None
        self._device: Secret | None = None
        self._locks = 0
        """Counts `lock` calls, so that an unlock begun before one does not end after it."""
        self.credentials = Credentials(self, now)
        self.operator = OperatorData(self, now)
        self.trust = TrustAnchors(self, now)
        self.proxy = ProxySetting(self, now)
        self.hosts = Hosts(self, self.credentials, now)
        self._snapshots = tuple(part.snapshot for part in (self.credentials, self.trust, self.proxy, self.hosts))

    @classmethod
    def create(
        cls,
        places: Places,
        passphrase: bytearray,
        *,
        keyring: bool,
        kdf: KdfParams = KdfParams(),  # noqa: B008 - a frozen value
        store: KeyringStore | None = None,
        now: Callable[[], Micros] = _NOW,
        finish: Callable[[Vault], None] | None = None,
    ) -> Vault:
        """Make a new vault in a prepared home, and leave it open.

        `finish` makes what belongs to it, such as its journal; where that raises, no vault is left either.

        `keyring` chooses where the device secret is kept; `device.GIVES_UP` says what each choice protects.
        It comes to be whole or not at all. VaultExists if any of its files is there; Invalid for an empty passphrase;
        DeviceSecretUnavailable; VaultUnavailable.
        """
        vault = cls(places, store=store, now=now)
        try:
            _check_passphrase(passphrase)
            _check_nothing_there(places)
            mode = DeviceMode.KEYRING if keyring else DeviceMode.FILE
            item = secrets.token_hex(8) if keyring else None
            device = Device(places, mode, item, vault._store)
            secret = device.create()
            try:
                vault._create(passphrase, secret, kdf, mode, item, now(), finish)
            except BaseException:
                # Nobody has used it yet: what this call made may go, and nothing else.
                device.discard()
                raise
            return vault
        except OSError as error:
            raise _unavailable(error) from error
        finally:
            overwrite(passphrase)

    @property
    def state(self) -> VaultState:
        return VaultState.LOCKED if self._open is None else VaultState.READY

    def unlock(self, passphrase: bytearray) -> None:
        """Open the vault; of an open one, check the passphrase.

        WrongPassphrase, DeviceSecretUnavailable, VaultAbsent, VaultDamaged, VaultUnavailable; VaultLocked where `lock`
        was called meanwhile.
        """
        try:
            before = self._locks
            opened = self._prove(passphrase)
            if opened is None:
                return
            with self._guard:
                if self._open is None and self._locks == before:
                    self._publish(opened)
                    return
            opened.database.close()
            if self._locks != before:
                raise VaultLocked
        finally:
            overwrite(passphrase)

    def check(self, passphrase: bytearray) -> None:
        """Raise WrongPassphrase unless this is the passphrase, locked or open; the state stays. Raises as `unlock`."""
        try:
            opened = self._prove(passphrase)
            if opened is not None:
                opened.database.close()
        finally:
            overwrite(passphrase)

    def lock(self) -> None:
        """Close the database and forget what was read; may be repeated. A call that is at the database ends first."""
        with self._guard:
            self._locks += 1
            opened, self._open = self._open, None
            self._unload()
            if opened is not None:
                opened.database.close()

    def close(self) -> None:
        """Lock, and forget the device secret too: for the end of the program."""
        self.lock()
        with self._guard:
            if self._device is not None:
                self._device.wipe()
                self._device = None

    def device_keys(self) -> DeviceKeys:
        """The keys that need no passphrase, while locked too; the caller owns and wipes them.

        VaultAbsent, VaultDamaged, DeviceSecretUnavailable.
        """
        with self._device_secret(self._head()) as secret:
            return device_keys(secret)

    def journal_private_key(self) -> Secret:
        """The X25519 key that unseals the journal, which the caller owns and wipes. VaultLocked."""
        return self.read(_select_journal_key)

    def journal_public_key(self) -> bytes:
        """Its public half, 32 bytes, for the journal's creation. VaultLocked."""
        with self.journal_private_key() as private:
            return private.use(lambda lent: X25519PrivateKey.from_private_bytes(lent).public_key().public_bytes_raw())

    def read(self, work: Callable[[Connection], T]) -> T:
        """One turn at the database, for the parts of the vault (`access.Access`)."""
        with self._guard:
            if self._open is None:
                raise VaultLocked
            return _translated(work, self._open.database)

    def write(self, work: Callable[[Connection], T], took: Callable[[T], None] | None = None) -> T:
        """One transaction, for the parts of the vault (`access.Access`)."""

        def turn(database: Connection) -> T:
            result = _in_transaction(work, database)
            if took is not None:
                took(result)
            return result

        return self.read(turn)

    def _create(
        self,
        passphrase: bytearray,
        secret: Secret,
        kdf: KdfParams,
        mode: DeviceMode,
        item: str | None,
        now: Micros,
        finish: Callable[[Vault], None] | None,
    ) -> None:
        places = self._places
        salt = secrets.token_bytes(SALT_BYTES)
        keys = vault_keys(passphrase, secret, salt, kdf)
        head = VaultHead(now, kdf, salt, mode, item, device_check(secret), keys.verifier)
        with ExitStack() as undo:  # what this call made goes again, unless all of it came to be
            undo.callback(remove_database, places.vault)
            try:
                with keys.database as key:
                    database = key.use(lambda lent: open_database(places.vault, bytes(lent), create=True))
            except DatabaseExists as error:
                undo.pop_all()
                raise _exists(places.vault.name) from error
            except DatabaseError as error:
                raise VaultUnavailable(str(error), error.remedy) from error
            undo.callback(database.close)
            _translated(lambda it: _in_transaction(_create_schema, it), database)
            _translated(_set_up, database)
            try:
                create_private(places.vault_head, head.dump())
            except FileExistsError as error:
                raise _exists(places.vault_head.name) from error
            undo.callback(places.vault_head.unlink, missing_ok=True)
            with self._guard:
                self._publish(_Open(database, head))
                self._device = secret
            undo.callback(self.close)
            if finish is not None:
                finish(self)
            undo.pop_all()

    def _publish(self, opened: _Open) -> None:
        """Become ready, under `_guard`: the last step that can fail comes first."""
        try:
            for snapshot in self._snapshots:
                _translated(snapshot.load, opened.database)
        except BaseException:
            self._unload()
            opened.database.close()
            raise
        self._open = opened

    def _unload(self) -> None:
        for snapshot in self._snapshots:
            snapshot.unload()

    def _prove(self, passphrase: bytearray) -> _Open | None:
        """None if the passphrase fits the head that opened the vault; else open the database with its key."""
        current = self._open
        head = self._head() if current is None else current.head
        _check_passphrase(passphrase)
        with self._device_secret(head) as device:
            keys = vault_keys(passphrase, device, head.salt, head.cost)
        with keys.database as key:
            if not hmac.compare_digest(keys.verifier, head.verifier):
                raise WrongPassphrase
            if current is not None:
                return None
            try:
                database = key.use(lambda lent: open_database(self._places.vault, bytes(lent)))
            except DatabaseMissing as error:
                raise _absent(self._places.vault.name) from error
            except (DatabaseUnavailable, DatabaseUnsafe) as error:
                raise VaultUnavailable(str(error), error.remedy) from error
            except DatabaseError as error:
                # The key is right, by the head's verifier: so the file, or the head, is not what was written.
                raise _damaged(self._places.vault.name) from error
        try:
            _translated(_set_up, database)
        except BaseException:
            database.close()
            raise
        return _Open(database, head)

    def _head(self) -> VaultHead:
        try:
            return VaultHead.read(self._places.vault_head)
        except FileNotFoundError:
            raise _absent(self._places.vault_head.name) from None
        except OSError as error:
            raise _unavailable(error) from error

    def _device_secret(self, head: VaultHead) -> Secret:
        """A copy for the caller to wipe. Read from its place once, and again only while it was not to be had."""
        with self._guard:
            kept = self._device.copy() if self._device is not None else None
        secret = kept or Device(self._places, head.mode, head.item, self._store).read()
        if not hmac.compare_digest(device_check(secret), head.device_check):
            raise DeviceSecretUnavailable(DeviceTrouble.MISMATCH)
        with self._guard:
            if self._device is None:
                self._device = secret.copy()
        return secret


def _check_passphrase(passphrase: bytearray) -> None:
    if not 1 <= len(passphrase) <= PASSPHRASE_MAX:
        raise Invalid(f"A passphrase has 1 to {PASSPHRASE_MAX} bytes.", "Give another.", field="passphrase")


def _check_nothing_there(places: Places) -> None:
    for path in (places.vault_head, places.vault):
        if path.exists():
            raise _exists(path.name)


def _create_schema(database: Connection) -> None:
    parts = (credentials.SCHEMA, operator.SCHEMA, trust.SCHEMA, proxy.SCHEMA, hosts.SCHEMA)
    for statement in (_SCHEMA + "".join(parts)).split(";"):
        database.execute(statement)
    private = bytearray(X25519PrivateKey.generate().private_bytes_raw())
    database.execute("INSERT INTO keys (name, value) VALUES (?, ?)", (_JOURNAL_PRIVATE, private))
    overwrite(private)
    database.execute(f"PRAGMA user_version = {_FORMAT}")


def _set_up(database: Connection) -> None:
    """What holds for every connection: removed values are overwritten, and references hold."""
    if database.execute("PRAGMA user_version").fetchone()[0] != _FORMAT:
        raise VaultDamaged(
            "The vault is of a format that this program does not know.",
            "Use the version of Affidavit that wrote it, or a newer one.",
        )
    database.execute("PRAGMA secure_delete = ON")
    database.execute("PRAGMA foreign_keys = ON")


def _select_journal_key(database: Connection) -> Secret:
    row = database.execute("SELECT value FROM keys WHERE name = ?", (_JOURNAL_PRIVATE,)).fetchone()
    if row is None:
        raise _damaged("vault.db")
    return Secret(row[0])


def _in_transaction(work: Callable[[Connection], T], database: Connection) -> T:
    database.execute("BEGIN IMMEDIATE")
    try:
        result = work(database)
        database.execute("COMMIT")
    except BaseException:
        with suppress(Error):  # A failed COMMIT may have ended the transaction by itself.
            database.execute("ROLLBACK")
        raise
    return result


def _translated(work: Callable[[Connection], T], database: Connection) -> T:
    """Call `work`; SQLite's errors become the vault's. Their text may quote a value, so it is not kept."""
    try:
        return work(database)
    except Error as error:
        raise (_damaged("vault.db") if is_damage(error) else _unavailable(error)) from None


def _exists(name: str) -> VaultError:
    return VaultExists(
        f"There is a vault here already (data/{name}). It was not touched.",
        "Use it: affidavit unlock. Or move the data directory away and run affidavit init again.",
    )


def _absent(name: str) -> VaultError:
    return VaultAbsent(f"There is no data/{name}.", "Run affidavit init; if there was a vault, restore its files.")


def _damaged(name: str) -> VaultError:
    return VaultDamaged(
        f"The vault (data/{name}) is damaged, or is not the one that its head belongs to. It was not touched.",
        "Restore vault.db and vault.head from one backup.",
    )


def _unavailable(error: Exception) -> VaultError:
    name = getattr(error, "sqlite_errorname", None) or getattr(error, "strerror", None) or type(error).__name__
    return VaultUnavailable(f"The vault's files cannot be used ({name}).", "Check the disk and the rights on it.")
