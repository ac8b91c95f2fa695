"""What is read is what was written, at a cost that does not grow with history."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from affidavit.journal import ActionRow, DatabaseDamaged, Draft, Name, ledger, open_database

WAIT_S = 30.0
PAGE = 4096


def put(journal, *rows: ActionRow, barrier: bool = True, kind: str = "EVENT"):
    drafts = [Draft(kind, row.invocation_id, {}, 5) for row in rows]
    receipt = journal.append(drafts, lambda seqs: rows, barrier=barrier)
    if barrier:
        receipt.wait(WAIT_S)
    return receipt.seqs


def ids(views) -> list[str]:
    return [view.invocation_id for view in views]


def test_a_row_comes_back_whole(journal, reader, home):
    full = ActionRow(
        invocation_id="act_1",
        operation_id="op_1",
        state="unknown",
        correlation_id="run_42",
        session_id="ses_1",
        accepted_at=1,
        dispatched_at=2,
        settled_at=3,
        phase="remote_execution",
        outcome="unknown",
        code="REMOTE_DEADLINE",
        retry="reconcile",
        effect="write",
        idempotent="false",
        needs="operator_unlock",
        refers_to="act_0",
        retry_of="act_00",
        attempt=1,
        generation=2,
        attempts_limit=3,
        accepted_record=4,
        dispatch_record=5,
        last_record=6,
        last_stage="tls_handshake",
        last_at=7,
        result_record=8,
        window_open_until=9,
        request_deadline=10,
        recovery_deadline=11,
        has_lookup=True,
        key_kept=False,
        source="transport_observed",
        delivery="written",
        request_digest="a" * 64,
        effect_digest="b" * 64,
        key_digest="c" * 64,
        program_digest="d" * 64,
        target=Name("target", "https://pay.example/charges?x=\u2713"),
        agent=Name("agent", "Claude Code"),
        contract=Name("contract", "acme.charge"),
    )
    put(journal, full)
    view = reader.action("act_1")
    assert view is not None
    for name in ActionRow.__dataclass_fields__:
        if name not in {"target", "agent", "contract"}:
            assert getattr(view, name) == getattr(full, name), name
    opener = home.opener()
    assert opener.name(reader, view.target) == "https://pay.example/charges?x=\u2713"
    assert opener.name(reader, view.agent) == "Claude Code"
    assert opener.name(reader, view.contract) == "acme.charge"


def test_an_empty_row_comes_back_empty(journal, reader, row):
    put(journal, row(state="accepted"))
    view = reader.action("act_1")
    assert view is not None
    assert {getattr(view, n) for n in ActionRow.__dataclass_fields__} == {None, "act_1", "op_act_1", "accepted"}
    assert reader.action("act_2") is None


def test_a_row_is_replaced_whole_and_keeps_its_number(journal, reader, row):
    put(journal, row(code="IN_PROGRESS", effect_digest="e1", key_digest="k"))
    put(journal, row("act_2"))
    put(journal, row(state="settled", operation_id="op_2", effect_digest="e2", program_digest="p"))
    view = reader.action("act_1")
    assert view is not None
    assert (view.number, view.state, view.code, view.operation_id) == (1, "settled", None, "op_2")
    assert ids(reader.by_effect("e2")) == ["act_1"]
    assert ids(reader.list_actions(program_digest="p")) == ["act_1"]
    assert reader.by_effect("e1") == reader.by_key("k") == reader.actions_of("op_act_1") == ()


def test_open_and_unknown_follow_the_state(journal, reader, row):
    for state in ("accepted", "validated", "authorised", "open"):
        put(journal, row(state=state))
        assert ids(reader.open_actions()) == ["act_1"]
    put(journal, row(state="unknown"))
    assert (reader.open_actions(), ids(reader.unknown_actions())) == ((), ["act_1"])
    put(journal, row(state="settled"))
    assert reader.open_actions() == reader.unknown_actions() == ()


def test_operations_effects_and_keys_newest_first(journal, reader, row):
    for n, state in enumerate(["unknown", "settled", "open", "stopped"]):
        put(journal, row(f"act_{n}", state, operation_id="op", effect_digest="e", key_digest="k"))
    newest_first = ["act_3", "act_2", "act_1", "act_0"]
    assert ids(reader.actions_of("op")) == newest_first
    assert ids(reader.by_effect("e")) == ids(reader.by_key("k")) == newest_first
    assert ids(reader.by_effect("e", limit=1)) == ids(reader.by_key("k", limit=1)) == ["act_3"]
    assert ids(reader.unsettled_by_effect("e")) == ["act_2", "act_0"]
    assert reader.unsettled_by_effect("other") == ()


def test_a_list_is_read_window_by_window(journal, reader, row):
    for n in range(10):
        facts = {"program_digest": "p" if n % 2 else "q", "outcome": "committed" if n < 5 else "unknown"}
        put(journal, row(f"act_{n}", "open" if n > 7 else "settled" if n > 3 else "unknown", **facts), barrier=False)
    journal.flush().wait(WAIT_S)
    seen: list[str] = []
    before = None
    while window := reader.list_actions(limit=4, before=before):
        seen += ids(window)
        before = window[-1].number
    assert seen == [f"act_{n}" for n in reversed(range(10))]
    assert ids(reader.list_actions(program_digest="p", limit=2)) == ["act_9", "act_7"]
    assert ids(reader.list_actions(program_digest="p", outcome="committed")) == ["act_3", "act_1"]
    assert ids(reader.list_actions(state="unknown", before=3)) == ["act_1", "act_0"]
    assert ids(reader.list_actions(state="open")) == ["act_9", "act_8"]
    assert ids(reader.list_actions(state="settled", limit=1)) == ["act_7"]


def test_the_records_of_an_invocation(journal, reader, row, draft):
    """Linked through the row where there is one, found by their own index where there is none yet."""
    early = journal.append([draft("EARLY"), draft("OTHER", "act_2")], barrier=True)
    early.wait(WAIT_S)
    orphan = early.seqs
    first = put(journal, row())
    put(journal, row("act_2"))
    several = journal.append([draft("A"), draft("B", "act_2"), draft("C"), draft("D", None)]).seqs
    last = put(journal, row(state="settled"))
    expected = [orphan[0], *first, several[0], several[2], *last]
    records = reader.records("act_1")
    assert [r.seq for r in records] == expected
    assert [r.previous for r in records] == [None, 0, *expected[1:-1]]
    assert [r.kind for r in reader.records("act_2")] == ["OTHER", "EVENT", "B"]
    assert reader.records("act_3") == ()


def test_a_row_may_change_without_a_record_of_its_own(journal, reader, row, draft):
    put(journal, row("act_1"))
    journal.append(
        [draft("LEASE_TAKEN", "act_2")], lambda s: [row("act_2"), row("act_1", "settled")], barrier=True
    ).wait(WAIT_S)
    assert [r.kind for r in reader.records("act_1")] == ["EVENT"]
    assert [r.kind for r in reader.records("act_2")] == ["LEASE_TAKEN"]
    assert ids(reader.open_actions()) == ["act_2"]


def test_single_records(journal, reader, draft):
    journal.append([draft("A", None, n=1)], barrier=True).wait(WAIT_S)
    record = reader.record(2)
    assert record is not None
    assert (record.seq, record.kind, record.invocation_id, record.segment) == (2, "A", None, 1)
    assert reader.record(3) is None
    assert reader.head().hash == record.hash
    assert [r.seq for r in reader.records_between(2, 2)] == [2]


PLACES = st.tuples(
    st.integers(0, 5),
    st.sampled_from([None, "validation", "remote_execution"]),
    st.sampled_from([None, "unknown", "committed"]),
    st.sampled_from(["append", "rotate", "restart"]),
)


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(moves=st.lists(PLACES, min_size=1, max_size=30))
def test_counts_are_those_of_the_rows(home, row, moves):
    """Through changes, segments and restarts, the kept totals equal a count of all rows."""
    journal = home.journal()
    for n, phase, outcome, also in moves:
        put(journal, row(f"act_{n}", phase=phase, outcome=outcome), barrier=False)
        if also == "rotate":
            journal.rotate().wait(WAIT_S)
        elif also == "restart":
            journal.close()
            journal = home.journal()
    journal.flush().wait(WAIT_S)
    raw = open_database(home.path, home.key, read_only=True)
    counted = raw.execute("SELECT phase, outcome, count(*) FROM action GROUP BY 1, 2").fetchall()
    raw.close()
    assert home.reader().counts() == {(phase, outcome): n for phase, outcome, n in counted}
    home.close()


def test_names_are_interned_once_also_after_a_restart(home, row):
    target = Name("target", "https://one.example")
    for _ in range(2):
        journal = home.journal()
        put(journal, row("act_1", target=target, agent=Name("agent", target.text)))
        put(journal, row("act_2", target=target, agent=Name("agent", "other")))
        journal.close()
    reader = home.reader()
    one, two = reader.action("act_1"), reader.action("act_2")
    assert one is not None
    assert two is not None
    assert one.target == two.target
    assert len({one.target, one.agent, two.agent}) == 3
    with pytest.raises(KeyError):
        reader.name(99)


def test_a_name_that_a_row_had_is_found_and_no_other(journal, reader, row):
    origin = Name("origin", "https://one.example \u2713")
    assert reader.name_id(origin) is None
    put(journal, row(origin=origin, terms=Name("terms", "a b")))
    view = reader.action("act_1")
    assert view is not None
    assert (reader.name_id(origin), reader.name_id(Name("terms", "a b"))) == (view.origin, view.terms)
    assert view.origin != view.terms
    assert reader.name_id(Name("target", origin.text)) is None
    assert reader.name_id(Name("origin", "https://one.example")) is None


def test_the_newest_under_a_contract_among_the_newest_of_all(journal, reader, row):
    for n in range(8):
        put(journal, row(f"act_{n}", contract=Name("contract", "odd" if n % 2 else "even")), barrier=False)
    journal.flush().wait(WAIT_S)
    even = reader.name_id(Name("contract", "even"))
    assert ids(reader.newest_under(even, among=100, limit=3)) == ["act_6", "act_4", "act_2"]
    assert ids(reader.newest_under(even, among=3, limit=3)) == ["act_6"]
    assert reader.newest_under(99, among=100, limit=3) == ()


def test_nothing_is_newest_in_an_empty_journal(journal, reader):
    assert reader.newest_under(1, among=100, limit=3) == ()


def test_a_name_may_be_written_back_as_its_integer(journal, reader, row):
    """By who has only the view, while its text is sealed."""
    put(journal, row(target=Name("target", "https://one.example")))
    view = reader.action("act_1")
    assert view is not None
    put(journal, row(state="settled", target=view.target))
    again = reader.action("act_1")
    assert again is not None
    assert (again.state, again.target) == ("settled", view.target)


def test_rows_are_found_again_beyond_what_the_writer_remembers(journal, reader, row, monkeypatch):
    monkeypatch.setattr(ledger, "_CACHED_ROWS", 2)
    for _ in range(2):
        for n in range(5):
            put(journal, row(f"act_{n}", effect_digest="e"), barrier=False)
    journal.flush().wait(WAIT_S)
    assert ids(reader.by_effect("e")) == [f"act_{n}" for n in reversed(range(5))]
    assert all(len(reader.records(f"act_{n}")) == 2 for n in range(5))


def test_a_reader_leaves_no_transaction_behind(journal, reader, draft):
    """Else the write-ahead log could never be used anew: it would grow past what a checkpoint leaves of it."""
    frames = []
    for _ in range(500):
        journal.append([draft(text="x" * 3000)], barrier=True).wait(WAIT_S)
        reader.records_between(1, 5)
        frames.append(reader.wal_frames())
    assert max(frames) < 1100
    assert frames[-1] < max(frames)


def test_a_reader_goes_on_after_it_met_a_broken_page(home, journal, draft, row):
    for n in range(60):
        journal.append([draft(n=n, text="x" * 900)], lambda s: [row()])
    journal.close()
    size = home.path.stat().st_size
    reader = home.reader()
    found = False
    for page in range(size // PAGE, 2, -1):
        with home.path.open("r+b") as file:
            file.seek((page - 1) * PAGE + 500)
            kept = file.read(1)
            file.seek(-1, 1)
            file.write(bytes([kept[0] ^ 1]))
            file.flush()
            try:
                reader.close()  # drops what it has cached
                reader.records_between(1, 100)
            except DatabaseDamaged:
                found = True
            file.seek((page - 1) * PAGE + 500)
            file.write(kept)
            file.flush()
        if found:
            break
    assert found
    assert len(reader.records_between(1, 100)) == 61
