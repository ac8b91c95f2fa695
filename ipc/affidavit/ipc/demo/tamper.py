"""Change one byte of one record in a journal's file, as someone could who holds this machine's key."""

from __future__ import annotations

from affidavit.broker.home import Places
from affidavit.ipc.cli.audit import journal_key
from affidavit.journal import open_database


def change_one_byte(home: Places) -> int:
    """Flip one bit in the sealed payload of a record in the middle of the chain; returns that record's number.

    The guards against changes are triggers in the same file, so whoever can write the file can drop them: they stop
    mistakes. What finds the change is the chain.
    """
    key = journal_key(home)
    connection = open_database(home.journal, bytes(key))
    try:
        for (trigger,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
            connection.execute(f'DROP TRIGGER "{trigger}"')
        sealed = "SELECT seq, sealed FROM record WHERE length(sealed) > 0 ORDER BY seq"
        records = connection.execute(sealed).fetchall()
        seq, payload = records[len(records) // 2]
        changed = bytes([payload[0] ^ 1]) + payload[1:]
        connection.execute("UPDATE record SET sealed = ? WHERE seq = ?", (changed, seq))
    finally:
        connection.close()
        key[:] = bytes(len(key))
    return int(seq)
