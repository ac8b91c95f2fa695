"""Each way to break the chain is named, with the first record that it touches."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from affidavit.journal import (
    DatabaseDamaged,
    DatabaseError,
    DatabaseMissing,
    Fault,
    FormatUnknown,
    Journal,
    WrongKey,
    open_database,
    schema,
    verify,
)
from affidavit.journal.record import encode_header, record_hash

PAGE = 4096


@pytest.fixture
def filled(home, draft, row):
    """A closed journal of 61 records, two segments, and nothing left in the write-ahead log."""
    journal = home.journal()
    for n in range(58):
        if n == 30:
            journal.rotate()
        journal.append([draft("EVENT", f"act_{n % 7}", n=n, text="x" * 200)], lambda s, n=n: [row(f"act_{n % 7}")])
    journal.append([draft("OTHER", None)])
    journal.close()
    return home


@pytest.fixture
def raw(filled):
    """Open without guards, as another program with the key would."""
    connection = open_database(filled.path, filled.key)
    for guard in schema.GUARDS:
        connection.execute(f"DROP TRIGGER {guard}")
    yield connection
    connection.close()


def test_an_intact_chain(filled):
    verdict = verify(filled.path, filled.key)
    assert verdict.intact
    assert (verdict.records, verdict.head.seq) == (61, 61)
    assert verdict.head == filled.reader().head()
    assert "61 records" in verdict.sentence
    assert "Not proven" in verdict.sentence


def test_an_empty_journal(home):
    verdict = verify(home.path, home.key)
    assert (verdict.intact, verdict.records) == (True, 0)
    assert "no records" in verdict.sentence


def test_it_reads_a_live_journal(home, journal, draft):
    journal.append([draft()], barrier=True).wait(30)
    assert verify(home.path, home.key).records == 2
    journal.append([draft()], barrier=True).wait(30)
    assert verify(home.path, home.key).records == 3


COLUMNS = {
    "at": "at + 1",
    "kind": "'FORGED'",
    "invocation_id": "'act_9'",
    "segment": "segment + 1",
    "previous": "previous + 1",
    "tally": "'[]'",
    "sealed": "zeroblob(length(sealed))",
    "hash": "zeroblob(32)",
}


@pytest.mark.parametrize(("column", "value"), COLUMNS.items())
def test_every_column_is_covered(filled, raw, column, value):
    raw.execute(f"UPDATE record SET {column} = {value} WHERE seq = 40")
    verdict = verify(filled.path, filled.key)
    assert verdict.broken is not None
    assert (verdict.broken.seq, verdict.broken.fault) == (40, Fault.CHANGED)
    assert verdict.records == 39
    assert "Record 40 was changed" in verdict.sentence


def test_a_null_is_not_an_empty_text(filled, raw):
    raw.execute("UPDATE record SET invocation_id = '' WHERE seq = 61")
    broken = verify(filled.path, filled.key).broken
    assert broken is not None
    assert (broken.seq, broken.fault) == (61, Fault.CHANGED)


def test_a_record_removed_from_the_middle(filled, raw):
    raw.execute("DELETE FROM record WHERE seq = 12")
    broken = verify(filled.path, filled.key).broken
    assert broken is not None
    assert (broken.seq, broken.fault) == (12, Fault.MISSING)


def test_the_first_record_removed(filled, raw):
    raw.execute("DELETE FROM record WHERE seq = 1")
    broken = verify(filled.path, filled.key).broken
    assert broken is not None
    assert (broken.seq, broken.fault) == (1, Fault.MISSING)


def test_two_records_swapped(filled, raw):
    raw.execute("UPDATE record SET seq = -1 WHERE seq = 20")
    raw.execute("UPDATE record SET seq = 20 WHERE seq = 21")
    raw.execute("UPDATE record SET seq = 21 WHERE seq = -1")
    broken = verify(filled.path, filled.key).broken
    assert broken is not None
    assert (broken.seq, broken.fault) == (20, Fault.DETACHED)


def test_a_forged_record_with_a_hash_of_its_own(filled, raw):
    """Whoever recomputes one hash breaks the next record's link."""
    row = raw.execute(
        "SELECT at, invocation_id, segment, previous, tally, sealed, prev_hash FROM record WHERE seq = 40"
    )
    at, invocation_id, segment, previous, tally, sealed, prev_hash = row.fetchone()
    header = encode_header(at, "FORGED", invocation_id, segment, previous, tally)
    forged = record_hash(40, header, sealed, prev_hash)
    raw.execute("UPDATE record SET kind = 'FORGED', hash = ? WHERE seq = 40", (forged,))
    broken = verify(filled.path, filled.key).broken
    assert broken is not None
    assert (broken.seq, broken.fault) == (41, Fault.DETACHED)


def test_the_chain_is_bound_to_its_journal_and_key(filled, raw):
    raw.execute("UPDATE meta SET public_key = zeroblob(32)")
    broken = verify(filled.path, filled.key).broken
    assert broken is not None
    assert (broken.seq, broken.fault) == (1, Fault.DETACHED)


def test_a_cut_tail_is_not_claimed_to_be_seen(filled, raw):
    """Without a checkpoint nothing tells; the sentence says so."""
    raw.execute("DELETE FROM record WHERE seq > 50")
    verdict = verify(filled.path, filled.key)
    assert (verdict.intact, verdict.records) == (True, 50)
    assert "nothing was cut off after the newest" in verdict.sentence


def pages_of_records(home) -> dict[int, int]:
    """The first seq on each page of the record table, learned by breaking the file's pages one by one."""
    found = {}
    original = home.path.read_bytes()
    for page in range(2, len(original) // PAGE + 1):
        change(home.path, (page - 1) * PAGE + 1234)
        try:
            verdict = verify(home.path, home.key)
        except DatabaseDamaged:
            pass  # it held the schema or the journal's identity
        else:
            if verdict.broken is not None:
                assert verdict.broken.fault is Fault.UNREADABLE
                found[page] = verdict.broken.seq
        home.path.write_bytes(original)
    return found


def change(path, offset: int) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 0x80]))


def test_one_byte_changed_in_the_file_names_the_first_record_of_its_page(filled):
    broken = pages_of_records(filled)
    assert len(broken) > 5  # the leaves, and what leads to them
    starts = sorted(set(broken.values()))
    assert starts[0] == 1
    assert max(starts) > 50
    change(filled.path, (max(broken, key=broken.__getitem__) - 1) * PAGE + 99)
    verdict = verify(filled.path, filled.key)
    assert verdict.broken is not None
    assert verdict.records == verdict.broken.seq - 1 == verdict.head.seq
    assert f"Record {verdict.broken.seq} cannot be read" in verdict.sentence


def test_what_is_no_journal(home, tmp_path):
    with pytest.raises(DatabaseMissing):
        verify(tmp_path / "none.db", home.key)
    with pytest.raises(WrongKey):
        verify(home.path, b"w" * 32)
    open_database(tmp_path / "vault.db", home.key, create=True).close()
    with pytest.raises(FormatUnknown):
        verify(tmp_path / "vault.db", home.key)
    with pytest.raises(FormatUnknown):
        Journal.open(tmp_path / "vault.db", home.key)


def test_a_journal_of_a_later_format_is_refused(home):
    connection = open_database(home.path, home.key)
    connection.execute("PRAGMA user_version=2")
    connection.close()
    with pytest.raises(FormatUnknown, match="format 2"):
        home.journal()


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(position=st.integers(min_value=0), bit=st.integers(0, 7))
def test_no_flipped_bit_is_read_as_something_else(filled, position, bit):
    """Any bit of the file: the records are verified unchanged, or the break is named, or the file is refused."""
    original = filled.path.read_bytes()
    intact = verify(filled.path, filled.key)
    at = position % len(original)
    changed = bytearray(original)
    changed[at] ^= 1 << bit
    filled.path.write_bytes(changed)
    try:
        verdict = verify(filled.path, filled.key)
        assert verdict == intact or verdict.broken is not None
    except DatabaseError:
        pass
    finally:
        filled.path.write_bytes(original)
        for suffix in ("-wal", "-shm"):
            assert not os.path.exists(f"{filled.path}{suffix}")
