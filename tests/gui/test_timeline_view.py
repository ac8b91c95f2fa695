"""The evidence as rows: record order, sources, the line, and a stamp that never turns into an answer."""

from __future__ import annotations

from tests.gui.scripted_broker import TODAY, refund, sealed

from affidavit.broker import events as ev
from affidavit.broker.terms import Code, Kind, Outcome, Retry, Source
from affidavit.gui import timeline_view
from affidavit.gui.timeline_view import Node


def test_rows_come_in_record_order_with_text_source_and_time() -> None:
    told = refund().envelope()["events"]
    rows = timeline_view.rows(list(reversed(told)), TODAY)
    assert [(r.record, r.node, r.text, r.caption, r.time) for r in rows] == [
        (36, Node.ASKED, "Accepted from node, process 48213", "agent", "14:01:58"),
        (
            37,
            Node.AUTHORISATION,
            "Checked, and bound to its target",
            "authorisation · for 8b1f 20c4 … · refunds-test version 4",
            "14:01:58",
        ),
        (
            38,
            Node.AUTHORISATION,
            "Approved on the card",
            "authorisation · for 8b1f 20c4 … · refunds-test version 4",
            "14:02:10",
        ),
        (39, Node.AUTHORISATION, "refunds-test version 4 authorised", "authorisation", "14:02:10"),
        (40, Node.EXECUTION, "Dispatch started", "execution · durable before the first byte", "14:02:11"),
        (41, Node.EXECUTION, "Request sent, all 117 bytes", "transport observed", "14:02:11"),
        (
            42,
            Node.UNKNOWN,
            "The connection ended, no answer",
            "transport observed · outcome unknown",
            "14:02:41",
        ),
    ]


def test_the_line_stands_above_the_dispatch_and_nowhere_else() -> None:
    rows = timeline_view.rows(refund().envelope()["events"], TODAY)
    assert [r.record for r in rows if r.line_above] == [40]


def test_the_rail_is_open_from_the_unknown_verdict_until_it_is_settled() -> None:
    story = refund()
    story.attest(Outcome.COMMITTED, "looked", "re_5Tq81")
    rows = timeline_view.rows(story.envelope()["events"], TODAY)
    assert [r.record for r in rows if r.open_below] == [42]
    assert rows[-1].node is Node.ATTESTATION
    assert rows[-1].text == "Attested as committed"
    assert rows[-1].caption == "attested by operator · re_5Tq81"


def test_sealed_details_leave_the_kind_of_each_record() -> None:
    rows = timeline_view.rows(sealed(refund().envelope())["events"], TODAY)
    assert [r.text for r in rows] == [
        "Accepted",
        "Checked, and bound to its target",
        "A decision was recorded",
        "Authorised",
        "Dispatch started",
        "Request sent",
        "No complete answer",
    ]
    assert rows[-1].node is Node.UNKNOWN


def test_every_kind_of_an_invocations_record_has_a_sentence() -> None:
    for number, kind in enumerate(ev.EVENTS):
        (row,) = timeline_view.rows([{"record": number, "at": None, "kind": str(kind), "detail": None}], TODAY)
        assert row.text != str(kind)
        assert "_" not in row.text


def test_a_kind_of_a_later_version_is_named_and_not_hidden() -> None:
    (row,) = timeline_view.rows([{"record": 7, "at": None, "kind": "WITNESSED", "detail": {"by": "x"}}], TODAY)
    assert (row.text, row.time) == ("WITNESSED", "")


def test_means_of_authorisation_are_named() -> None:
    def text(**said: object) -> str:
        detail = ev.encode(ev.ApprovalDecided(by=None, fingerprint=None, **said))  # type: ignore[arg-type]
        item = {"record": 1, "at": None, "kind": str(Kind.APPROVAL_DECIDED), "detail": detail}
        return timeline_view.rows([item], TODAY)[0].text

    assert text(approved=True, means="card_passphrase") == "Approved with the passphrase"
    assert text(approved=True, means="grant", grant="12") == "Allowed by grant 12"
    assert text(approved=True, means="policy") == "Allowed by policy"
    assert text(approved=False, means="card") == "Denied by the operator"


def test_each_source_of_a_settlement_keeps_its_own_mark() -> None:
    def row(source: Source) -> timeline_view.TimelineRow:
        event = ev.OutcomeSettled(
            outcome=Outcome.COMMITTED, code=Code.SETTLED_BY_QUERY, retry=Retry.NEVER, source=source
        )
        item = {"record": 1, "at": None, "kind": str(event.kind), "detail": ev.encode(event)}
        return timeline_view.rows([item], TODAY)[0]

    assert row(Source.OPERATOR_ATTESTED).node is Node.ATTESTATION
    assert row(Source.REMOTE_QUERY).node is Node.QUERY
    assert row(Source.REMOTE_RESPONSE).node is Node.COMMITTED


def test_a_row_reads_as_one_sentence() -> None:
    row = timeline_view.rows(refund().envelope()["events"], TODAY)[5]
    assert row.accessible == "Record 41, 14:02:11: Request sent, all 117 bytes. transport observed."


def test_the_span_of_records() -> None:
    rows = timeline_view.rows(refund().envelope()["events"], TODAY)
    assert timeline_view.span(rows) == "records 36 to 42"
    assert timeline_view.span(rows[:1]) == "record 36"
    assert timeline_view.span(()) == "No record can be shown."


def test_a_look_up_says_what_it_is_worth_and_hides_no_character() -> None:
    event = ev.LookedUp(invocation="act_2", answer="0 found\u202e", worth="under 60 s old, proves nothing")
    item = {"record": 44, "at": None, "kind": str(event.kind), "detail": ev.encode(event)}
    (row,) = timeline_view.rows([item], TODAY)
    assert (row.node, row.text) == (Node.QUERY, "Looked up: 0 foundU+202E")
    assert row.caption == "remote query · under 60 s old, proves nothing"


def test_a_probe_says_which_key_it_learnt_and_a_try_where_it_stopped() -> None:
    probe = ev.SetupAttempted(1, "ssh_kex", "ssh_kex", "", detail="web: ssh-ed25519 SHA256:7Qm4", identity="sha256:00")
    short = ev.SetupAttempted(2, "dns", "tcp_connect", "ECONNREFUSED")
    told = [
        {"record": n, "at": None, "kind": str(event.kind), "detail": ev.encode(event)}
        for n, event in enumerate((probe, short))
    ]
    assert [row.text for row in timeline_view.rows(told, TODAY)] == [
        "A probe learnt the key of web: ssh-ed25519 SHA256:7Qm4",
        "Set-up try 2 stopped at tcp_connect: ECONNREFUSED",
    ]
