"""What the unknown window says: order, words, and nothing that a record does not prove."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from tests.gui.scripted_broker import TODAY, Story, four_unknown, micros, products, refund, sealed

from affidavit.broker import events as ev
from affidavit.broker.terms import Code, Outcome, Retry, Source
from affidavit.gui import unknown_view
from affidavit.gui.unknown_view import Draft, Subject

NOTE = "Refund list in the payments dashboard, filtered by order 1187: one refund of 49.00 EUR."


def test_past_the_deadline_comes_first_then_the_least_time_left() -> None:
    told = [story.envelope() for story in four_unknown()]
    titles = [unknown_view.title(e) for e in unknown_view.ordered(told, TODAY)]
    assert titles == ["Restart shop-worker", "Create a refund", "Import products", "POST to ci.example.com"]


def test_an_action_without_a_deadline_comes_last() -> None:
    without = refund(number=9).envelope()
    without["evidence"]["deadlines"]["recovery"] = None
    last = unknown_view.ordered([without, *(s.envelope() for s in four_unknown())], TODAY)[-1]
    assert last is without


def test_a_list_row_says_age_deadline_and_what_can_be_done() -> None:
    row = unknown_view.list_row(refund().envelope(), TODAY)
    assert (row.title, row.place) == ("Create a refund", "api.example.com")
    assert (row.age.left, row.age.right) == ("12 min old", "deadline 30 min")
    assert row.age.share == pytest.approx(12 / 30)
    assert not row.age.past
    assert row.note == "The target can be asked"
    assert row.accessible == (
        "Create a refund, at api.example.com. Outcome unknown. 12 min old, deadline 30 min. The target can be asked."
    )


def test_a_row_past_its_deadline_is_full_and_needs_a_person() -> None:
    row = unknown_view.list_row(four_unknown()[2].envelope(), TODAY)
    assert row.age.past
    assert row.age.share == 1.0
    assert (row.age.left, row.age.right) == ("3 h old", "deadline was 10 min")
    assert row.note == "No status query: needs you"


def test_the_detail_names_operation_attempt_and_agent() -> None:
    shown = unknown_view.detail(refund().envelope(), TODAY)
    assert shown.byline == "operation op_7d5d4d8e  ·  attempt 1 of 3  ·  asked by node, process 48213"
    assert shown.target is not None
    assert shown.target.plain == "POST https://api.example.com/v1/refunds"
    assert shown.records == "records 36 to 42"


def test_the_age_bar_names_deadline_and_key_window() -> None:
    age = unknown_view.detail(refund().envelope(), TODAY).age
    assert age.left == "12 min since it was sent"
    assert age.right == "recovery stops in 18 min; the key stays valid for 23 h"
    assert age.accessible == f"Age: {age.left}. {age.right}."


@pytest.mark.parametrize(
    ("story", "now", "right"),
    [
        (refund(key=False), TODAY, "recovery stops in 18 min; no key binds a repeat"),
        (refund(key=False), TODAY + timedelta(hours=1), "recovery stopped 42 min ago; no key binds a repeat"),
        (refund(), TODAY + timedelta(hours=1), "recovery stopped 42 min ago; the key stays valid for 22 h"),
        (refund(), TODAY + timedelta(days=2), "recovery stopped 47 h ago; the key is no longer valid"),
        (refund(recovery_s=10**6), TODAY + timedelta(days=2), "recovery stops in 9 d; the key is no longer valid"),
    ],
)
def test_the_right_side_of_the_age_bar(story: Story, now: datetime, right: str) -> None:
    assert unknown_view.detail(story.envelope(now), now).age.right == right


def test_proven_names_its_record() -> None:
    shown = unknown_view.detail(refund().envelope(), TODAY)
    assert shown.proven == (
        "All 117 bytes of the request were handed to the connection with 203.0.113.7:443 at 14:02:11. "
        "Record 41 says so."
    )
    assert shown.not_proven == (
        "Whether “Create a refund” happened. The connection closed before any answer was recorded."
    )


def test_proven_goes_no_further_than_the_dispatch_where_no_more_is_recorded() -> None:
    story = refund()
    short = Story(1, record=36, accepted=datetime(2026, 11, 30, 14, 1, 58, tzinfo=UTC))
    for told in story.events[:5]:
        short.tell(ev.decode(told["kind"], told["detail"]))
    short.tell(
        ev.OutcomeUnknown(
            code=Code.BROKER_RESTARTED, retry=Retry.RECONCILE, source=Source.TRANSPORT_OBSERVED, observation="restart"
        )
    )
    shown = unknown_view.detail(short.envelope(), TODAY)
    assert shown.proven.startswith("Dispatch to 203.0.113.7:443 started at ")
    assert shown.proven.endswith("Record 40 says so.")
    assert "handed" not in shown.proven
    assert shown.not_proven.endswith("Affidavit stopped before an answer was recorded.")


def test_an_answer_that_began_is_proven_and_proves_no_more() -> None:
    shown = unknown_view.detail(refund(message="answer_before_whole").envelope(), TODAY)
    assert "an answer with status 200 began" in shown.proven
    assert shown.not_proven.endswith("that proves nothing about the rest.")


def test_a_gateways_complete_answer_is_proven_and_settles_nothing() -> None:
    story = Story(1, record=36, accepted=datetime(2026, 11, 30, 14, 1, 58, tzinfo=UTC))
    for told in refund().events[:6]:
        story.tell(ev.decode(told["kind"], told["detail"]))
    story.tell(ev.RemoteResponseComplete(completion="content-length", status=504))
    story.tell(
        ev.OutcomeUnknown(
            code=Code.GATEWAY_UNCERTAIN, retry=Retry.RECONCILE, source=Source.REMOTE_RESPONSE, observation="504"
        )
    )
    shown = unknown_view.detail(story.envelope(), TODAY)
    assert "A complete answer with status 504" in shown.proven
    assert shown.not_proven.endswith("A gateway answered 504; that says nothing about the target.")


@pytest.mark.parametrize(
    ("code", "message", "why"),
    [
        (Code.REMOTE_DEADLINE, None, "No answer came by 14:02:41. It may still be running."),
        (Code.REMOTE_RESULT_INCOMPLETE, None, "The answer broke off and does not count."),
        (Code.CALLER_CANCELLED, None, "The caller cancelled after it was sent. That does not undo it."),
        (Code.CALLER_CANCELLED, "caller_ended", "The caller ended after it was sent. That does not undo it."),
        (Code.REMOTE_OUTCOME_UNKNOWN, "answer_before_request", "An answer was there before the request"),
        (Code.REMOTE_IN_PROGRESS, None, "The target says the key is in use."),
    ],
)
def test_why_nothing_decides(code: Code, message: str | None, why: str) -> None:
    assert why in unknown_view.detail(refund(code=code, message=message).envelope(), TODAY).not_proven


def test_without_a_look_up_the_box_says_so() -> None:
    shown = unknown_view.detail(refund(lookup=False).envelope(), TODAY)
    assert shown.query is None
    assert shown.query_note == "No status query is known for this action."


def test_a_look_up_is_shown_as_text_for_the_operator_to_run() -> None:
    shown = unknown_view.detail(refund().envelope(), TODAY)
    assert shown.query is not None
    assert shown.query.plain == "GET https://api.example.com/v1/refunds?ref=op_7d5d4d8e"
    assert "You can run this query at the target" in shown.query_note


def test_sealed_details_leave_ids_times_and_verdict() -> None:
    told = sealed(refund().envelope())
    row, shown = unknown_view.list_row(told, TODAY), unknown_view.detail(told, TODAY)
    assert row.title == f"Action {told['invocation_id']}"
    assert (row.place, row.note) == ("the vault is locked", "Unlock to see what it was")
    assert (shown.target, shown.query) == (None, None)
    assert shown.query_note == "A status query is known for this action. Unlock the vault to read it."
    assert shown.proven.endswith("Record 41 says so.")
    assert shown.not_proven == "Whether it happened. No complete answer was recorded."
    assert [r.text for r in shown.timeline][:2] == ["Accepted", "Checked, and bound to its target"]


def test_a_batch_shows_each_item_under_the_whole_requests_outcome() -> None:
    told = products().envelope()
    assert unknown_view.list_row(told, TODAY).note == "2 of 14 items unknown"
    shown = unknown_view.detail(told, TODAY)
    assert shown.items_counts == "11 committed, 1 rejected, 2 unknown"
    assert shown.items_whole == "The whole request: committed (record 108). Each item has its own outcome."
    assert shown.items[12].accessible == "Item 13, TS-112: Unknown. not in the answer."
    assert "14 items" in shown.byline
    assert shown.proven == "Of 14 items 11 are committed and 1 rejected. Record 108 holds the answer."
    assert shown.not_proven == "What became of 2 items: TS-112, TS-113. No record decides it."
    assert shown.subjects == (Subject("TS-112", "Item 13, TS-112"), Subject("TS-113", "Item 14, TS-113"))


def test_many_unknown_items_are_counted_and_some_named() -> None:
    told = products().envelope()
    told["evidence"]["items"] = [{"key": f"k\u202e{n}", "outcome": "unknown", "evidence": None} for n in range(9)]
    shown = unknown_view.detail(told, TODAY)
    named = ", ".join(f"kU+202E{n}" for n in range(4))
    assert shown.not_proven == f"What became of 9 items: {named} and 5 more. No record decides it."
    one = {**told, "evidence": {**told["evidence"], "items": told["evidence"]["items"][:1]}}
    assert unknown_view.detail(one, TODAY).not_proven == "What became of the item kU+202E0. No record decides it."
    assert unknown_view.detail(one, TODAY).items[0].accessible == "Item 1, kU+202E0: Unknown. none."


def test_a_batch_whose_answer_was_lost_can_be_attested_as_a_whole() -> None:
    told = refund().envelope()
    told["evidence"]["items"] = [{"key": key, "outcome": "unknown", "evidence": "no answer"} for key in "ab"]
    shown = unknown_view.detail(told, TODAY)
    assert [subject.label for subject in shown.subjects] == ["The whole request", "Item 1, a", "Item 2, b"]
    assert shown.proven.endswith("Record 41 says so.")
    assert shown.not_proven.startswith("Whether “Create a refund” happened.")
    made = unknown_view.statement(told, Draft(Outcome.COMMITTED, NOTE), TODAY)
    assert made.item is None
    assert made.consequences[2].text == "The 2 items that are unknown take this outcome, too."


def test_an_action_that_is_no_batch_has_nothing_to_choose() -> None:
    shown = unknown_view.detail(refund().envelope(), TODAY)
    assert (shown.items, shown.subjects, shown.items_whole) == ((), (), "")


# --- The statement ---


@pytest.mark.parametrize(
    ("draft", "missing"),
    [
        (Draft(), "Choose what happened."),
        (Draft(outcome=Outcome.COMMITTED, note="   "), "Say what you checked."),
        (
            Draft(outcome=Outcome.COMMITTED, note="x" * 4001),
            "What you checked is 4,001 characters; the limit is 4,000.",
        ),
        (
            Draft(outcome=Outcome.COMMITTED, note="x", reference="r" * 1025),
            "The reference is 1,025 characters; the limit is 1,024.",
        ),
        (Draft(outcome=Outcome.REJECTED, note="x"), None),
    ],
)
def test_a_draft_names_the_one_step_that_is_missing(draft: Draft, missing: str | None) -> None:
    assert draft.missing() == missing


def test_the_statement_as_it_will_be_sealed() -> None:
    draft = Draft(outcome=Outcome.COMMITTED, note=f" {NOTE} ", reference=" re_5Tq81 ")
    made = unknown_view.statement(refund().envelope(), draft, TODAY)
    assert (made.note, made.reference) == (NOTE, "re_5Tq81")
    assert made.claim == "“Create a refund”, operation op_7d5d4d8e, happened."
    assert made.signed == "Operator of this vault, 30 Nov 2026, 14:14"
    assert [c.changes for c in made.consequences] == [True, True, False]
    assert made.consequences[1].text == "The agent is told: committed, by your word, not by an answer."
    assert made.consequences[2].text == (
        "Record 42 stays as it is. An attestation cannot be erased; a later one, or a proof, is added beside it."
    )


def test_a_statement_is_not_made_of_an_unfinished_draft() -> None:
    with pytest.raises(ValueError, match="needs an outcome"):
        unknown_view.statement(refund().envelope(), Draft(note="x"), TODAY)


def test_a_statement_about_one_item() -> None:
    made = unknown_view.statement(products().envelope(), Draft(Outcome.REJECTED, NOTE, item="TS-112"), TODAY)
    assert made.item == "TS-112"
    assert made.claim == "Item 13, TS-112, of “Import products”, operation op_2c11f0aa, did not happen."
    assert [c.text for c in made.consequences] == [
        "Adds a record, marked “attested by operator”.",
        "The agent is told of this item: rejected, by your word, not by an answer.",
        "Record 108 stays as it is. An attestation cannot be erased; a later one, or a proof, is added beside it.",
    ]


def test_after_the_attestation_one_sentence_names_the_record() -> None:
    whole = unknown_view.statement(refund().envelope(), Draft(Outcome.REJECTED, NOTE), TODAY)
    assert unknown_view.attested(whole, 47) == (
        "You attested it as rejected (record 47). The attempt's own record stays beside it."
    )
    item = unknown_view.statement(products().envelope(), Draft(Outcome.COMMITTED, NOTE, item="TS-112"), TODAY)
    assert unknown_view.attested(item, 113) == (
        "You attested item TS-112 as committed (record 113). The answer's record stays beside it."
    )


def test_what_stays_in_the_list() -> None:
    story = products()
    first = story.attest(Outcome.COMMITTED, NOTE, None, "TS-112")
    assert unknown_view.open_still(first)
    assert unknown_view.detail(first, TODAY).timeline[-1].text == "Item TS-112 attested as committed"
    assert not unknown_view.open_still(story.attest(Outcome.REJECTED, NOTE, None, "TS-113"))
    assert not unknown_view.open_still(refund().attest(Outcome.REJECTED, NOTE, None))


def test_a_refusal_has_our_sentence_and_the_brokers_remedy() -> None:
    assert unknown_view.refused("wrong_passphrase", "no", None) == (
        "The passphrase does not open the vault. Nothing was recorded."
    )
    assert unknown_view.refused("conflict", "It was attested as committed in record 52.", None) == (
        "It was attested as committed in record 52."
    )
    assert unknown_view.refused("other", "It is so.", "Do this.") == "It is so. Do this."


def test_micros_and_stories_agree_with_the_clock() -> None:
    assert micros(TODAY) == 1_796_048_051_000_000
