"""Appending: order, durability, group commit, segments, poison."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

import pytest

from affidavit.journal import (
    ActionRow,
    Blob,
    CannotUnseal,
    DatabaseExists,
    DatabaseUnavailable,
    Journal,
    JournalClosed,
    JournalPoisoned,
    verify,
)
from affidavit.journal.journal import SEGMENT_RECORDS, SEGMENT_S
from affidavit.journal.sqlcipher import dbapi2

WAIT_S = 30.0


def test_create_never_overwrites(home):
    with pytest.raises(DatabaseExists):
        Journal.create(home.path, home.key, bytes(home.private_key.public_key))


def test_create_is_whole_or_not_at_all(home, tmp_path):
    (tmp_path / "other.db.new").write_bytes(b"what a crash left")
    Journal.create(tmp_path / "other.db", home.key, bytes(home.private_key.public_key))
    assert verify(tmp_path / "other.db", home.key).intact
    assert sorted(p.name for p in tmp_path.iterdir()) == ["journal.db", "other.db"]
    with pytest.raises(ValueError, match="32 bytes"):
        Journal.create(tmp_path / "third.db", home.key, b"short")


@pytest.mark.parametrize(
    ("where", "error", "said"),
    [
        ("schema.create_schema", dbapi2.OperationalError("database or disk is full"), "disk is full|OperationalError"),
        ("sync_directory", OSError(5, "Input/output error"), "Input/output error"),
        ("open_database", OSError(28, "No space left on device"), "No space left"),
    ],
)
def test_a_creation_that_fails_is_told_and_leaves_nothing(home, tmp_path, monkeypatch, where, error, said):
    def failing(*_, **__):
        raise error

    with monkeypatch.context() as broken:
        broken.setattr(f"affidavit.journal.journal.{where}", failing)
        with pytest.raises(DatabaseUnavailable, match=said):
            Journal.create(tmp_path / "other.db", home.key, bytes(home.private_key.public_key))
    assert [p.name for p in tmp_path.iterdir()] == ["journal.db"]
    Journal.create(tmp_path / "other.db", home.key, bytes(home.private_key.public_key))


def test_files_are_for_the_owner_alone(home, journal, draft):
    journal.append([draft()], barrier=True).wait(WAIT_S)
    for path in home.path.parent.iterdir():
        assert path.stat().st_mode & 0o077 == 0, path


def test_seqs_are_given_at_once_and_leave_room_for_the_segment(journal, draft):
    assert journal.append([draft(), draft()]).seqs == (2, 3)  # 1 opens the segment
    assert journal.append([draft()]).seqs == (4,)


def test_an_append_needs_a_draft(journal):
    with pytest.raises(ValueError, match="at least one draft"):
        journal.append([])


def test_a_lazy_record_waits_for_the_next_barrier(journal, reader, draft):
    lazy = journal.append([draft("REQUEST_SENT")])
    with pytest.raises(TimeoutError):
        lazy.wait(0)
    assert reader.head().seq == 0
    journal.append([draft("RESULT_COMMITTED")], barrier=True).wait(WAIT_S)
    lazy.wait(0)
    assert [r.kind for r in reader.records_between(1, 9)] == ["SEGMENT_OPENED", "REQUEST_SENT", "RESULT_COMMITTED"]
    assert journal.counters.commits == 1


def test_a_lazy_record_is_committed_when_its_time_is_up(home, draft):
    journal = home.journal(lazy_s=0.01)
    journal.append([draft()]).wait(WAIT_S)
    assert home.reader().head().seq == 2


def test_flush_commits_what_is_queued_and_nothing_otherwise(journal, draft):
    journal.flush().wait(WAIT_S)
    assert journal.counters.commits == 0
    lazy = journal.append([draft()])
    journal.flush().wait(WAIT_S)
    lazy.wait(0)
    assert journal.counters.commits == 1


async def test_a_receipt_is_awaited_in_a_loop(journal, draft):
    receipt = journal.append([draft()], barrier=True)
    await asyncio.wait_for(receipt.durable(), WAIT_S)
    await receipt.durable()  # and again


async def test_giving_up_waiting_takes_nothing_back(journal, reader, draft):
    receipt = journal.append([draft()])
    waiting = asyncio.create_task(receipt.durable())
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await asyncio.wait_for(journal.flush().durable(), WAIT_S)
    assert reader.head().seq == 2


def test_a_receipt_outlives_the_loop_that_waited(journal, draft):
    receipt = journal.append([draft()])
    loop = asyncio.new_event_loop()
    waiting = loop.create_task(receipt.durable())
    loop.run_until_complete(asyncio.sleep(0))
    waiting.cancel()
    loop.run_until_complete(asyncio.gather(waiting, return_exceptions=True))
    loop.close()
    journal.flush().wait(WAIT_S)
    receipt.wait(0)


def test_project_gets_the_seqs_and_its_rows_are_in_the_same_commit(journal, reader, draft, row):
    seen: list[tuple[int, ...]] = []

    def project(seqs: Sequence[int]) -> list[ActionRow]:
        seen.append(tuple(seqs))
        return [row(dispatch_record=seqs[0])]

    journal.append([draft("DISPATCH_STARTED")], project, barrier=True).wait(WAIT_S)
    assert seen == [(2,)]
    view = reader.action("act_1")
    assert view is not None
    assert view.dispatch_record == 2
    assert journal.counters.commits == 1


def test_a_projection_that_refuses_uses_up_no_seq(journal, draft):
    def refuse(seqs: Sequence[int]) -> list[ActionRow]:
        raise LookupError(seqs)

    with pytest.raises(LookupError):
        journal.append([draft()], refuse)
    assert journal.append([draft()], barrier=True).seqs == (2,)


def test_blobs_come_with_their_record_and_can_be_deleted(journal, reader, draft):
    journal.append([draft()], blobs=[Blob("r1", b"sealed"), Blob("r2", b"")], barrier=True).wait(WAIT_S)
    assert (reader.blob("r1"), reader.blob("r2"), reader.blob("r3")) == (b"sealed", b"", None)
    journal.delete_blob("r1")
    journal.delete_blob("never there")
    journal.flush().wait(WAIT_S)
    assert reader.blob("r1") is None
    assert reader.head().seq == 2


def test_a_blob_may_be_named_by_its_record(journal, reader, draft):
    receipt = journal.append([draft()], blobs=lambda seqs: [Blob(f"mark_{seqs[0]}", b"")], barrier=True)
    receipt.wait(WAIT_S)
    assert reader.blob_ids("mark_", "mark_~") == (f"mark_{receipt.seqs[0]}",)


def test_ids_of_blobs_come_in_order_a_window_at_a_time(journal, reader, draft):
    names = ["b.2", "a.1", "c.3", "b.1"]
    journal.append([draft()], blobs=[Blob(name, b"") for name in names], barrier=True).wait(WAIT_S)
    assert reader.blob_ids("a", "c") == ("a.1", "b.1", "b.2")
    assert reader.blob_ids("a.1\0", "d", 2) == ("b.1", "b.2")
    assert reader.blob_ids("c.3", "c.3") == ()
    plan = reader._rows("EXPLAIN QUERY PLAN SELECT id FROM blob WHERE id >= ? AND id < ? ORDER BY id", "a", "c")
    assert "COVERING INDEX blob_id (id>? AND id<?)" in plan[0][-1]


def test_before_each_commit_a_call_may_make_room(journal, reader, draft):
    seen = []
    journal.before_commit(lambda: seen.append((threading.current_thread().name, reader.head().seq)))
    journal.append([draft()])
    journal.append([draft()], barrier=True).wait(WAIT_S)
    journal.append([draft()], barrier=True).wait(WAIT_S)
    assert seen == [("affidavit-journal", 0), ("affidavit-journal", 3)]


def test_seqs_go_on_after_reopening(home, draft):
    first = home.journal()
    first.append([draft()])
    first.close()  # commits what is queued
    second = home.journal()
    receipt = second.append([draft()], barrier=True)
    receipt.wait(WAIT_S)
    assert receipt.seqs == (4,)  # 3 opens a segment: every start has a key of its own
    assert verify(home.path, home.key).head.seq == 4


def test_a_closed_journal_refuses(home, draft):
    journal = home.journal()
    journal.close()
    journal.close()
    for call in (lambda: journal.append([draft()]), journal.flush, journal.rotate, lambda: journal.delete_blob("x")):
        with pytest.raises(JournalClosed):
            call()


def test_digests_differ_by_domain_and_key(home, journal, tmp_path):
    assert journal.digest("effect", b"x") == journal.digest("effect", b"x")
    others = {journal.digest("effect", b"x"), journal.digest("key", b"x"), journal.digest("effec", b"tx")}
    Journal.create(tmp_path / "other.db", b"o" * 32, bytes(home.private_key.public_key))
    other = Journal.open(tmp_path / "other.db", b"o" * 32)
    others.add(other.digest("effect", b"x"))
    other.close()
    assert len(others) == 4
    assert all(len(digest) == 64 for digest in others)


# -- segments


def segments(reader) -> list[int]:
    return [r.seq for r in reader.records_between(1, 10**9) if r.kind == "SEGMENT_OPENED"]


def test_a_segment_ends_after_so_many_records(journal, reader, draft):
    journal.append([draft()] * (SEGMENT_RECORDS - 1))
    journal.append([draft()])
    journal.flush().wait(WAIT_S)
    assert segments(reader) == [1, SEGMENT_RECORDS + 1]


def test_a_segment_ends_in_time_and_when_the_clock_is_set_back(home, journal, reader, draft):
    journal.append([draft()])
    home.clock.now += int(SEGMENT_S * 1e6) - 1
    journal.append([draft()])
    home.clock.now += 1
    journal.append([draft()])
    home.clock.now -= 1
    journal.append([draft()])
    journal.flush().wait(WAIT_S)
    assert segments(reader) == [1, 4, 6]


def test_rotate_forgets_the_key_and_the_next_append_opens_a_segment(home, journal, reader, draft):
    journal.append([draft(secret=1)])
    journal.flush().wait(WAIT_S)
    current = journal.current_opener()
    record = reader.record(2)
    assert current.payload(record) == {"secret": 1}
    journal.append([draft(secret=2)])
    journal.rotate().wait(WAIT_S)
    for seq in (2, 3):
        with pytest.raises(CannotUnseal):
            current.payload(reader.record(seq))
    journal.append([draft(secret=3)], barrier=True).wait(WAIT_S)
    assert current.payload(reader.record(5)) == {"secret": 3}
    with pytest.raises(CannotUnseal):
        current.payload(reader.record(2))
    assert [home.opener().payload(reader.record(seq)) for seq in (2, 3, 5)] == [{"secret": n} for n in (1, 2, 3)]


def test_an_idle_segments_key_is_forgotten_on_time(home, journal, reader, draft):
    journal.append([draft()], barrier=True).wait(WAIT_S)
    assert journal._ledger.segment() is not None
    home.clock.now += int(SEGMENT_S * 1e6)
    journal.flush().wait(WAIT_S)  # wakes the writer, which then finds nothing to do
    forgotten = threading.Event()
    for _ in range(100):
        if journal._ledger.segment() is None:
            forgotten.set()
            break
        journal.flush().wait(WAIT_S)
    assert forgotten.is_set()
    with pytest.raises(CannotUnseal):
        journal.current_opener().payload(reader.record(2))


# -- poison


class Breaking:
    """A write connection that fails at the n-th statement of a kind, as a full disk does."""

    def __init__(self, real, prefix: str) -> None:
        self.real = real
        self.prefix = prefix

    def execute(self, sql: str, *values: object):
        if sql.startswith(self.prefix):
            raise OSError(28, "No space left on device")
        return self.real.execute(sql, *values)

    def close(self) -> None:
        self.real.close()


@pytest.mark.parametrize("statement", ["BEGIN", "INSERT OR ROLLBACK INTO record", "COMMIT"])
async def test_a_failed_write_poisons_for_good(home, draft, statement):
    journal = home.journal()
    journal.append([draft()], barrier=True).wait(WAIT_S)
    told: list[str] = []
    called = threading.Event()
    journal.on_poisoned(lambda reason: (told.append(reason), called.set()))
    journal._ledger._connection = Breaking(journal._ledger._connection, statement)
    lazy = journal.append([draft("REQUEST_SENT")])
    barrier = journal.append([draft("DISPATCH_STARTED")], barrier=True)
    for receipt in (lazy, barrier):
        with pytest.raises(JournalPoisoned, match="could not be written"):
            await asyncio.wait_for(receipt.durable(), WAIT_S)
    assert called.wait(WAIT_S)
    assert told == [journal.poisoned]
    later = journal.append([draft()], barrier=True)
    with pytest.raises(JournalPoisoned):
        await later.durable()
    with pytest.raises(JournalPoisoned):
        journal.flush().wait(0)
    journal.on_poisoned(told.append)
    assert told == [journal.poisoned] * 2
    journal.close()
    verdict = verify(home.path, home.key)
    assert verdict.intact
    assert verdict.head.seq == 2  # nothing of the failed transaction


def test_a_payload_that_is_not_json_poisons_and_is_not_repeated_in_the_reason(home, draft):
    journal = home.journal()
    receipt = journal.append([draft(token={b"hunter2"})], barrier=True)
    with pytest.raises(JournalPoisoned):
        receipt.wait(WAIT_S)
    assert "hunter2" not in str(journal.poisoned)


def test_a_second_writer_poisons_itself_and_harms_nothing(home, draft):
    first, second = home.journal(), home.journal()
    first.append([draft()], barrier=True).wait(WAIT_S)
    with pytest.raises(JournalPoisoned):
        second.append([draft()], barrier=True).wait(WAIT_S)
    first.append([draft()], barrier=True).wait(WAIT_S)
    assert first.poisoned is None
    verdict = verify(home.path, home.key)
    assert (verdict.intact, verdict.head.seq) == (True, 3)


# -- counts that are exact, and so are gates (P1-P3)


def test_the_commits_of_an_action(journal, draft, row):
    """P2: two barriers, two commits, whatever rides along."""
    journal.append([draft("ACTION_ACCEPTED")], lambda s: [row(state="accepted")])
    journal.append([draft("PREFLIGHT_VALIDATED")], lambda s: [row(state="validated")])
    journal.append([draft("CREDENTIAL_AUTHORIZED")], lambda s: [row(state="authorised")])
    journal.append([draft("DISPATCH_STARTED")], lambda s: [row(state="open")], barrier=True).wait(WAIT_S)
    assert (journal.counters.commits, journal.counters.records) == (1, 5)
    journal.append([draft("REQUEST_SENT")], lambda s: [row(state="open")])
    journal.append([draft("REMOTE_RESPONSE_STARTED")], lambda s: [row(state="open")])
    complete = [draft("REMOTE_RESPONSE_COMPLETE"), draft("RESULT_COMMITTED")]
    journal.append(complete, lambda s: [row(state="settled")], barrier=True).wait(WAIT_S)
    assert (journal.counters.commits, journal.counters.records, journal.counters.largest) == (2, 9, 5)


def test_frames_of_a_commit(journal, reader, draft, row):
    """P1: an event, its row and the open index are at most four pages, taken over many."""
    payload = {"observation": "x" * 300}

    def settle(n: int) -> None:
        # each commit moves the row into or out of the index of open actions, and from one count to another
        facts = {"state": "open", "outcome": "unknown"} if n % 2 else {"state": "settled", "outcome": "committed"}
        project = lambda s: [row(phase="remote_execution", effect_digest="e" * 64, **facts)]  # noqa: E731
        journal.append([draft("EVENT", **payload)], project, barrier=True).wait(WAIT_S)

    for n in range(20):
        settle(n)
    before = reader.wal_frames()
    for n in range(100):
        settle(n)
    assert reader.wal_frames() - before <= 4 * 100


def test_frames_of_an_event_that_changes_no_state(journal, reader, draft, row):
    """The index of open actions is left alone: record and row, two pages, and now and then a new one."""
    project = lambda s: [row(last_record=s[0])]  # noqa: E731
    for _ in range(120):
        journal.append([draft("EVENT", observation="x" * 300)], project, barrier=True).wait(WAIT_S)
    assert reader.wal_frames() <= 3 * 120


def test_group_commit_of_many_callers(home, draft):
    """P3: while one commit is on its way, all who come meanwhile share the next."""
    journal = home.journal()
    journal.append([draft()], barrier=True).wait(WAIT_S)
    real, gate, entered = journal._ledger.write, threading.Event(), threading.Event()

    def held(batches) -> None:
        entered.set()
        assert gate.wait(WAIT_S)
        real(batches)

    journal._ledger.write = held  # the disk is slow, as far as the first of them is concerned
    receipts = [journal.append([draft()], barrier=True)]
    assert entered.wait(WAIT_S)
    receipts += [journal.append([draft()], barrier=True) for _ in range(31)]
    gate.set()
    for receipt in receipts:
        receipt.wait(WAIT_S)
    commits = journal.counters.commits - 1
    assert commits == 2
    assert commits / 32 <= 1 / 8


def test_many_threads_get_each_seq_once_and_a_whole_chain(home, draft):
    journal = home.journal(lazy_s=0.001)
    seqs: list[int] = []

    def work(n: int) -> None:
        for i in range(50):
            receipt = journal.append([draft(n=n, i=i)] * (1 + i % 3), barrier=i % 5 == 0)
            seqs.extend(receipt.seqs)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    journal.flush().wait(WAIT_S)
    assert len(seqs) == len(set(seqs))
    verdict = verify(home.path, home.key)
    assert verdict.intact
    assert verdict.records == len(seqs) + 1
