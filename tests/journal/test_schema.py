"""Append-only: each guard is shown to hold by itself."""

from __future__ import annotations

import pytest

from affidavit.journal import open_database, schema
from affidavit.journal.sqlcipher import Error

REPLACE = """
INSERT OR REPLACE INTO record
SELECT 2, at, 'FORGED', invocation_id, segment, previous, tally, x'00', prev_hash, hash FROM record WHERE seq = 2
"""


@pytest.fixture
def raw(home, draft):
    """A connection without the authorizer, as another program with the key would have; one record is there."""
    journal = home.journal()
    journal.append([draft()], barrier=True).wait(30)
    journal.close()
    connection = open_database(home.path, home.key)
    yield connection
    connection.close()


def kind_of_2(connection) -> str:
    return connection.execute("SELECT kind FROM record WHERE seq = 2").fetchone()[0]


def test_replace_is_stopped_by_both(raw):
    with pytest.raises(Error, match="never replaced"):
        raw.execute(REPLACE)
    assert kind_of_2(raw) == "ACTION_ACCEPTED"


def test_replace_is_stopped_by_the_insertion_guard_alone(raw):
    raw.execute("PRAGMA recursive_triggers=OFF")
    raw.execute("DROP TRIGGER record_no_delete")
    with pytest.raises(Error, match="never replaced"):
        raw.execute(REPLACE)
    assert kind_of_2(raw) == "ACTION_ACCEPTED"


def test_replace_is_stopped_by_recursive_triggers_alone(raw):
    raw.execute("DROP TRIGGER record_no_replace")
    with pytest.raises(Error, match="never deleted"):
        raw.execute(REPLACE)
    assert kind_of_2(raw) == "ACTION_ACCEPTED"


def test_without_either_replace_goes_through(raw):
    """What the two guards are for; if this fails they guard nothing."""
    raw.execute("DROP TRIGGER record_no_replace")
    raw.execute("PRAGMA recursive_triggers=OFF")
    raw.execute(REPLACE)
    assert kind_of_2(raw) == "FORGED"


@pytest.mark.parametrize("statement", ["UPDATE record SET kind = 'FORGED'", "DELETE FROM record"])
def test_change_and_deletion_are_stopped_by_triggers(raw, statement):
    with pytest.raises(Error, match="a record is never"):
        raw.execute(statement)
    assert kind_of_2(raw) == "ACTION_ACCEPTED"


FORBIDDEN = [
    "UPDATE record SET kind = 'FORGED'",
    "DELETE FROM record",
    "SELECT sealed FROM record",
    "SELECT seq FROM record",
    "SELECT count(*) FROM record",
    "INSERT INTO record SELECT * FROM record",
    "INSERT INTO record VALUES (9, 1, 'X', NULL, 1, NULL, NULL, (SELECT sealed FROM record), x'', x'')",
    "INSERT INTO record VALUES (9, 1, 'X', NULL, 1, NULL, NULL, x'', x'', x'') RETURNING sealed",
    "INSERT INTO record VALUES (2, 1, 'X', NULL, 1, NULL, NULL, x'', x'', x'') ON CONFLICT DO UPDATE SET kind = 'Y'",
    "DROP TRIGGER record_no_delete",
    "DROP TABLE record",
    "ALTER TABLE record RENAME TO gone",
    "CREATE TABLE other (id INTEGER)",
    "CREATE TRIGGER other AFTER INSERT ON action BEGIN SELECT 1; END",
    "UPDATE meta SET public_key = x''",
    "SELECT public_key FROM meta",
    "DELETE FROM action",
    "SELECT sealed FROM name",
    "UPDATE name SET sealed = x''",
    "SELECT data FROM blob",
    "UPDATE blob SET data = x''",
    "PRAGMA recursive_triggers=OFF",
    "PRAGMA rekey='x'",
    "ATTACH ':memory:' AS other",
]


@pytest.mark.parametrize("statement", FORBIDDEN)
def test_the_writers_authorizer_alone_refuses(raw, statement):
    for trigger in schema.GUARDS:
        if trigger not in statement:
            raw.execute(f"DROP TRIGGER {trigger}")
    raw.set_authorizer(schema.authorize_writer)
    with pytest.raises(Error, match=r"not authorized|prohibited"):
        raw.execute(statement)
    raw.set_authorizer(None)
    assert kind_of_2(raw) == "ACTION_ACCEPTED"


def test_the_writers_own_statements_pass(raw):
    raw.set_authorizer(schema.authorize_writer)
    raw.execute("INSERT INTO record VALUES (9, 1, 'X', NULL, 1, NULL, NULL, x'', x'', x'')")
    with pytest.raises(Error, match="never replaced"):
        raw.execute("INSERT OR REPLACE INTO record VALUES (9, 1, 'Y', NULL, 1, NULL, NULL, x'', x'', x'')")
