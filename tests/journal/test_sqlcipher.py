"""Opening a database: nothing is created by accident, and a wrong key is told from damage."""

from __future__ import annotations

import os
import sqlite3

import pytest

from affidavit.journal import (
    DatabaseDamaged,
    DatabaseError,
    DatabaseExists,
    DatabaseMissing,
    DatabaseUnavailable,
    DatabaseUnsafe,
    NotADatabase,
    WrongKey,
    open_database,
    sqlcipher,
)
from affidavit.journal.sqlcipher import Error

KEY = b"k" * 32
PAGE = 4096


@pytest.fixture
def path(tmp_path):
    made = tmp_path / "some.db"
    connection = open_database(made, KEY, create=True)
    connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, data BLOB)")
    connection.executemany("INSERT INTO t (data) VALUES (?)", [(os.urandom(900),) for _ in range(40)])
    connection.close()
    return made


def change(path, offset: int) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 1]))


def test_it_is_encrypted_private_and_durable(path):
    assert path.stat().st_mode & 0o777 == 0o600
    assert b"SQLite" not in path.read_bytes()
    connection = open_database(path, KEY)
    try:
        pragmas = ["journal_mode", "synchronous", "recursive_triggers", "cipher_memory_security", "trusted_schema"]
        held = {name: str(connection.execute(f"PRAGMA {name}").fetchone()[0]) for name in pragmas}
    finally:
        connection.close()
    assert held == dict(zip(pragmas, ["wal", "2", "1", "1", "0"], strict=True))


def test_a_missing_file_is_not_created(tmp_path):
    with pytest.raises(DatabaseMissing):
        open_database(tmp_path / "none.db", KEY)
    assert list(tmp_path.iterdir()) == []


def test_create_does_not_overwrite(path):
    before = path.read_bytes()
    with pytest.raises(DatabaseExists):
        open_database(path, KEY, create=True)
    assert path.read_bytes() == before


def test_a_key_of_another_length_is_refused(path):
    with pytest.raises(ValueError, match="32 bytes"):
        open_database(path, b"short")


def test_a_wrong_key_is_told(path):
    with pytest.raises(WrongKey):
        open_database(path, b"w" * 32)


@pytest.mark.parametrize("offset", [16, 2000, PAGE - 70, PAGE - 1])
def test_a_changed_first_page_is_damage_not_a_wrong_key(path, offset):
    change(path, offset)
    with pytest.raises(DatabaseDamaged):
        open_database(path, KEY)
    with pytest.raises(WrongKey):
        open_database(path, b"w" * 32)


def test_a_changed_salt_cannot_be_told_from_a_wrong_key(path):
    """No page answers to any key without its salt."""
    change(path, 3)
    with pytest.raises(WrongKey):
        open_database(path, KEY)


@pytest.mark.parametrize("keep", [PAGE * 3 + 100, PAGE + 1, PAGE, PAGE * 5])
def test_a_cut_file_is_damage(path, keep):
    os.truncate(path, keep)

    def read() -> None:
        connection = open_database(path, KEY)
        try:
            connection.execute("SELECT sum(length(data)) FROM t").fetchone()
        except Error as error:
            raise sqlcipher.translate(path, error) from None
        finally:
            connection.close()

    with pytest.raises(DatabaseDamaged):
        read()


def test_a_file_cut_inside_its_first_page(path):
    os.truncate(path, 1000)
    with pytest.raises(NotADatabase):
        open_database(path, KEY)


def test_an_empty_file_is_damage_and_stays_empty(path):
    os.truncate(path, 0)
    with pytest.raises(DatabaseDamaged, match="empty"):
        open_database(path, KEY)
    assert path.stat().st_size == 0


def test_plain_files_and_directories_are_named(tmp_path):
    plain = sqlite3.connect(tmp_path / "plain.db")
    plain.execute("CREATE TABLE t (id)")
    plain.close()
    (tmp_path / "text").write_text("hello " * 1000)
    (tmp_path / "folder").mkdir()
    for name in ("plain.db", "text", "folder"):
        with pytest.raises(NotADatabase):
            open_database(tmp_path / name, KEY)


def test_a_later_page_is_damage_when_it_is_read(path):
    change(path, PAGE * 6 + 100)
    connection = open_database(path, KEY)
    try:
        with pytest.raises(Error) as caught:
            connection.execute("SELECT sum(length(data)) FROM t").fetchone()
    finally:
        connection.close()
    assert sqlcipher.is_damage(caught.value)
    assert isinstance(sqlcipher.translate(path, caught.value), DatabaseDamaged)


def test_read_only_refuses_to_write(path):
    connection = open_database(path, KEY, read_only=True)
    try:
        with pytest.raises(Error) as caught:
            connection.execute("DELETE FROM t")
    finally:
        connection.close()
    assert isinstance(sqlcipher.translate(path, caught.value), DatabaseUnavailable)


def test_a_setting_that_does_not_hold_is_refused(path, monkeypatch):
    """As on a file system where WAL cannot work: SQLite then keeps another mode in silence."""
    real = sqlcipher._connect

    class Deaf:
        def __init__(self, connection) -> None:
            self.connection = connection

        def execute(self, sql: str):
            return self.connection.execute(sql.replace("synchronous=2", "synchronous=1"))

        def close(self) -> None:
            self.connection.close()

    monkeypatch.setattr(sqlcipher, "_connect", lambda *a: Deaf(real(*a)))
    with pytest.raises(DatabaseUnsafe, match="synchronous is not 2"):
        open_database(path, KEY)


def test_a_build_that_does_not_encrypt_is_refused(path, monkeypatch):
    monkeypatch.setattr(sqlcipher, "_connect", lambda *a: sqlite3.connect(":memory:"))
    with pytest.raises(DatabaseUnsafe, match="does not encrypt"):
        open_database(path, KEY)


def test_errors_hold_no_key(path):
    for error in (WrongKey(path), DatabaseDamaged(path, "x"), DatabaseMissing(path)):
        assert isinstance(error, DatabaseError)
        assert error.remedy
        assert KEY.hex() not in repr(error)
