"""Open one SQLCipher database, with every setting that durability and encryption rest on set and read back.

The only file that imports sqlcipher3. The key is raw (32 bytes, no derivation): who calls has derived it.

SQLite creates a file for any path it is given, answers a wrong key and a broken first page with the same words, and
takes unknown pragmas in silence. So the path is checked first, a failed first read is looked into page by page, and
no setting is believed before it was read back.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, cast

from sqlcipher3 import dbapi2

from affidavit.journal.errors import (
    DatabaseDamaged,
    DatabaseError,
    DatabaseExists,
    DatabaseMissing,
    DatabaseUnavailable,
    DatabaseUnsafe,
    NotADatabase,
    WrongKey,
)

if TYPE_CHECKING:
    # sqlcipher3 has the shape of the standard module
    from sqlite3 import Connection
    from sqlite3 import DatabaseError as Error
else:
    Connection, Error = dbapi2.Connection, dbapi2.DatabaseError

__all__ = [
    "ALLOW",
    "DENY",
    "KEY_BYTES",
    "Connection",
    "Error",
    "error_name",
    "is_damage",
    "open_database",
    "remove_database",
    "translate",
]

KEY_BYTES = 32
BUSY_TIMEOUT_S = 5.0

ALLOW: int = dbapi2.SQLITE_OK
DENY: int = dbapi2.SQLITE_DENY
INSERT: int = dbapi2.SQLITE_INSERT
UPDATE: int = dbapi2.SQLITE_UPDATE
DELETE: int = dbapi2.SQLITE_DELETE
READ: int = dbapi2.SQLITE_READ
SELECT: int = dbapi2.SQLITE_SELECT
TRANSACTION: int = dbapi2.SQLITE_TRANSACTION

_PAGE = 4096
_SALT = 16
_HMAC = 64
_PROBED_PAGES = 64
"""How many pages are tried before a key is called wrong."""


def open_database(
    path: Path,
    key: bytes,
    *,
    create: bool = False,
    read_only: bool = False,
    busy_timeout_s: float = BUSY_TIMEOUT_S,
) -> Connection:
    """Open the database at `path`; with `create`, make it (mode 0600) where nothing is.

    The connection is in autocommit mode, in WAL with `synchronous=FULL`, and may be used by any thread, one at a time.
    `read_only` refuses every write on this connection; WAL still needs write access to the files beside it.
    Raises a `DatabaseError`; ValueError for a key that is not 32 bytes.
    """
    if len(key) != KEY_BYTES:
        raise ValueError(f"a database key has {KEY_BYTES} bytes")
    path = path.absolute()
    if create:
        _create_file(path)
    else:
        _check_file(path)
    try:
        connection = _connect(path, busy_timeout_s)
    except Error as error:
        raise DatabaseUnavailable(path, error_name(error)) from None
    try:
        _set_up(connection, path, key, read_only=read_only)
    except BaseException:
        connection.close()
        raise
    return connection


def remove_database(path: Path) -> None:
    """Remove a closed database, for one that did not come to be, and what a crash left beside it."""
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def error_name(error: BaseException) -> str:
    """SQLite's own name and sentence for an error, such as `SQLITE_FULL: database or disk is full`."""
    name = getattr(error, "sqlite_errorname", None)
    return f"{name}: {error}" if name else type(error).__name__


def is_damage(error: Error) -> bool:
    """Whether a page failed its check. The connection that saw it answers nothing more and must be opened anew."""
    return getattr(error, "sqlite_errorcode", None) in {dbapi2.SQLITE_CORRUPT, dbapi2.SQLITE_NOTADB}


def translate(path: Path, error: Error) -> DatabaseError:
    """What an error of a later statement means for who holds the file."""
    return (DatabaseDamaged if is_damage(error) else DatabaseUnavailable)(path, error_name(error))


def _create_file(path: Path) -> None:
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        raise DatabaseExists(path) from None
    except OSError as error:
        raise DatabaseUnavailable(path, error.strerror or "") from None
    os.close(descriptor)


def _check_file(path: Path) -> None:
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        raise DatabaseMissing(path) from None
    except OSError as error:
        raise DatabaseUnavailable(path, error.strerror or "") from None
    if not path.is_file():
        raise NotADatabase(path)
    if size == 0:
        raise DatabaseDamaged(path, "it is empty")


def _connect(path: Path, busy_timeout_s: float) -> Connection:
    # mode=rw: if the file vanishes between the check and here, nothing is created in its place
    opened = dbapi2.connect(
        f"{path.as_uri()}?mode=rw",
        uri=True,
        timeout=busy_timeout_s,
        isolation_level=None,
        check_same_thread=False,
    )
    return cast(Connection, opened)


def _set_up(connection: Connection, path: Path, key: bytes, *, read_only: bool) -> None:
    held = {"synchronous": "2", "recursive_triggers": "1", "trusted_schema": "0"}
    if sys.platform == "darwin":  # fsync alone leaves the data in the drive's cache
        held |= {"fullfsync": "1", "checkpoint_fullfsync": "1"}
    if read_only:
        held["query_only"] = "1"
    try:
        if not connection.execute("PRAGMA cipher_version").fetchone():
            raise DatabaseUnsafe(path, "this build of SQLite does not encrypt")
        connection.execute("PRAGMA cipher_log_level=NONE")  # it would write to stderr
        connection.execute(f"PRAGMA key=\"x'{key.hex()}'\"")
        connection.execute("PRAGMA cipher_memory_security=ON")
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if not read_only:
            connection.execute("PRAGMA journal_mode=WAL")
        for pragma, value in held.items():
            connection.execute(f"PRAGMA {pragma}={value}")
        for pragma, value in (held | {"journal_mode": "wal", "cipher_memory_security": "1"}).items():
            row = connection.execute(f"PRAGMA {pragma}").fetchone()
            if row is None or str(row[0]) != value:
                raise DatabaseUnsafe(path, f"{pragma} is not {value}")
    except Error as error:
        raise _diagnose(path, key, error) from None


def _diagnose(path: Path, key: bytes, error: Error) -> DatabaseError:
    """Tell a wrong key from damage: one page that answers to the key proves that the key is right."""
    if not is_damage(error):
        return DatabaseUnavailable(path, error_name(error))
    with path.open("rb") as file:
        first = file.read(_PAGE)
        salt = first[:_SALT]
        if salt == b"SQLite format 3\0":
            return NotADatabase(path, "it is a plain SQLite file")
        page, number = first, 1
        while len(page) == _PAGE and number <= _PROBED_PAGES:
            if _page_is_authentic(page, number, key, salt):
                return DatabaseDamaged(path, "the file was cut or its first page was changed")
            page, number = file.read(_PAGE), number + 1
    if path.stat().st_size % _PAGE:
        return NotADatabase(path)
    return WrongKey(path)


def _page_is_authentic(page: bytes, number: int, key: bytes, salt: bytes) -> bool:
    """SQLCipher 4: a page ends in a 16-byte IV and an HMAC-SHA-512 over what precedes it and the page's number.

    Page 1 begins with the file's salt, which is not covered; the HMAC key is derived from key and salt.
    """
    mac_key = hashlib.pbkdf2_hmac("sha512", key, bytes(byte ^ 0x3A for byte in salt), 2, KEY_BYTES)
    covered = page[_SALT if number == 1 else 0 : _PAGE - _HMAC]
    expected = hmac.digest(mac_key, covered + number.to_bytes(4, "little"), "sha512")
    return hmac.compare_digest(expected, page[_PAGE - _HMAC :])
