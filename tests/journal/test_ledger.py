"""One transaction of many batches: each row is written once, and nothing that is read back shows it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest
from tests.journal.conftest import WAIT_S, DraftOf, Home, RowOf

from affidavit.journal import ActionRow, Draft, Journal, Name, Reader
from affidavit.journal import journal as journal_module

NAMED = {"target": Name("target", "https://pay.example"), "agent": Name("agent", "one")}


def writes_of(journal: Journal) -> list[str]:
    """The statements on rows, from now on, as they are executed."""
    seen: list[str] = []

    def trace(statement: str) -> None:
        if " action " in statement and not statement.startswith("SELECT"):
            seen.append(statement)

    journal._ledger._connection.set_trace_callback(trace)
    return seen


def test_a_row_is_written_once_in_a_transaction(journal: Journal, reader: Reader, draft: DraftOf, row: RowOf) -> None:
    written = writes_of(journal)
    for state in ("accepted", "validated", "authorised"):
        journal.append([draft(state)], lambda _, s=state: [row("act_1", s, outcome="not_attempted", **NAMED)])
    journal.append([draft("other", "act_2")], lambda _: [row("act_2", "accepted", outcome="not_attempted")])
    journal.append([draft("open")], lambda _: [row("act_1", "open", outcome="unknown", **NAMED)], barrier=True).wait(
        WAIT_S
    )
    assert len(written) == 2
    one = reader.action("act_1")
    assert one is not None
    assert (one.state, one.outcome) == ("open", "unknown")
    assert [record.kind for record in reader.records("act_1")] == ["accepted", "validated", "authorised", "open"]
    assert [record.kind for record in reader.records("act_2")] == ["other"]
    assert [found.invocation_id for found in reader.list_actions()] == ["act_2", "act_1"], "newest first"
    assert reader.counts() == {(None, "unknown"): 1, (None, "not_attempted"): 1}
    written.clear()
    journal.append([draft("sent")], lambda _: [row("act_1", "open", outcome="unknown", **NAMED)])
    journal.append([draft("noted")])
    done = [row("act_1", "settled", outcome="committed", **NAMED)]
    journal.append([draft("complete"), draft("committed")], lambda _: done, barrier=True).wait(WAIT_S)
    assert len(written) == 1
    kinds = [record.kind for record in reader.records("act_1")]
    assert kinds[4:] == ["sent", "noted", "complete", "committed"]
    assert reader.counts() == {(None, "committed"): 1, (None, "not_attempted"): 1}


@dataclass
class _AskedRow:
    """A row that says when its columns are asked for."""

    made: ActionRow
    asked: list[str]

    @property
    def invocation_id(self) -> str:
        return self.made.invocation_id

    def columns(self) -> ActionRow:
        self.asked.append(self.made.state)
        return self.made


def test_only_the_last_row_of_a_transaction_is_made(
    journal: Journal, reader: Reader, draft: DraftOf, row: RowOf
) -> None:
    asked: list[str] = []
    for state in ("accepted", "validated"):
        journal.append([draft(state)], lambda _, s=state: [_AskedRow(row("act_1", s), asked)])
    journal.append([draft("open")], lambda _: [_AskedRow(row("act_1", "open"), asked)], barrier=True).wait(WAIT_S)
    assert asked == ["open"]
    one = reader.action("act_1")
    assert one is not None
    assert one.state == "open"


def test_records_after_the_row_in_one_transaction_are_linked_too(
    journal: Journal, reader: Reader, draft: DraftOf, row: RowOf
) -> None:
    journal.append([draft("first")], lambda _: [row()])
    journal.append([draft("second")], lambda _: [row()])
    journal.append([draft("third")])
    journal.append([draft("fourth")], barrier=True).wait(WAIT_S)
    assert [record.kind for record in reader.records("act_1")] == ["first", "second", "third", "fourth"]


def test_counts_hold_where_a_transaction_spans_segments(
    journal: Journal, reader: Reader, row: RowOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "SEGMENT_RECORDS", 3)
    wanted: Counter[tuple[str, str]] = Counter()
    for n in range(20):
        for state, outcome in (("accepted", "not_attempted"), ("open", "unknown"), ("settled", "committed")):
            invocation_id = f"act_{n}"
            draft = Draft(state, invocation_id, {}, at=1_785_000_000_000_000)
            made = row(invocation_id, state, phase="remote_execution", outcome=outcome)
            journal.append([draft], lambda _, made=made: [made])
            if outcome == "unknown" and n % 4 == 0:
                break
        wanted["remote_execution", outcome] += 1
        if n % 7 == 0:
            journal.flush().wait(WAIT_S)
    journal.flush().wait(WAIT_S)
    assert len({record.segment for record in reader.records_between(1, 1000)}) > 10
    assert reader.counts() == wanted


def test_the_standing_is_that_of_the_last_commit(home: Home, reader: Reader, draft: DraftOf, row: RowOf) -> None:
    journal = home.journal()
    assert (journal.standing.head, journal.standing.counts) == (0, {})
    for n, outcome in enumerate(("unknown", "committed", "unknown")):
        made = row(f"act_{n % 2}", phase="remote_execution", outcome=outcome)
        journal.append([draft()], lambda _, made=made: [made], barrier=True).wait(WAIT_S)
        journal.append([draft("later", None)])
    assert journal.standing.head == reader.head().seq
    assert (
        journal.standing.counts
        == reader.counts()
        == {("remote_execution", "unknown"): 1, ("remote_execution", "committed"): 1}
    )
    before = journal.standing
    journal.close()
    assert home.journal().standing.counts == before.counts
    assert home.journal().standing.head == before.head + 1
