"""Every code has a sentence that always fits, and no sentence says more than its outcome allows."""

from __future__ import annotations

import re

import pytest

from affidavit.broker.card import CardEnd
from affidavit.broker.terms import Code, Effect, Outcome, Retry, Source
from affidavit.gui import texts

SENTENCES = [(code, variant) for code, variants in texts.CODES.items() for variant in variants]
NEVER_SENT = (
    Code.INVALID_REQUEST, Code.VAULT_LOCKED, Code.APPROVAL_DENIED, Code.DNS_FAILED, Code.CONNECT_FAILED,
    Code.CERT_INVALID, Code.FINGERPRINT_CHANGED, Code.JOURNAL_UNAVAILABLE,
)  # fmt: skip
MAY_HAVE_HAPPENED = (
    Code.REMOTE_OUTCOME_UNKNOWN, Code.REMOTE_DEADLINE, Code.REMOTE_RESULT_INCOMPLETE, Code.GATEWAY_UNCERTAIN,
)  # fmt: skip


@pytest.mark.parametrize("code", Code)
def test_every_code_has_a_sentence_that_needs_no_fact(code: Code) -> None:
    last = texts.CODES[code][-1]
    assert not last.placeholders
    assert not last.when
    assert texts.sentence(code, {})


def test_every_word_of_the_closed_lists_is_said() -> None:
    assert set(texts.OUTCOME) == set(Outcome)
    assert set(texts.RETRY) == set(Retry)
    assert set(texts.SOURCE) == set(Source)
    assert set(texts.EFFECT) == set(texts.EFFECT_SPOKEN) == set(Effect)
    assert set(texts.CARD_ENDS) == set(CardEnd)


@pytest.mark.parametrize(("code", "variant"), SENTENCES)
def test_a_sentence_is_whole_and_in_the_house_voice(code: Code, variant: texts.Sentence) -> None:
    text = variant.text
    assert text[0].isupper() or text[0] == "{"
    assert text.endswith(".")
    assert "!" not in text
    assert not re.search(r"\b(probably|seems|oops|sorry|failed to|successfully|please try)\b", text, re.I), code


@pytest.mark.parametrize("code", NEVER_SENT)
def test_before_dispatch_it_says_that_nothing_was_sent(code: Code) -> None:
    for variant in texts.CODES[code]:
        assert variant.text.startswith("Nothing was sent.")


@pytest.mark.parametrize("code", MAY_HAVE_HAPPENED)
def test_after_dispatch_it_never_says_that_nothing_was_sent(code: Code) -> None:
    for variant in texts.CODES[code]:
        assert variant.text.startswith("It was sent")


@pytest.mark.parametrize("code", [Code.CALLER_CANCELLED, Code.BROKER_RESTARTED, Code.IN_PROGRESS])
def test_a_code_of_both_sides_of_the_line_follows_the_outcome(code: Code) -> None:
    before = texts.sentence(code, {"outcome": Outcome.NOT_ATTEMPTED, "record": None})
    behind = texts.sentence(code, {"outcome": Outcome.UNKNOWN, "record": 40})
    assert not re.search(r"\bIt was sent\b", before)
    assert behind.startswith("It was sent")
    assert "Nothing was sent" not in behind


@pytest.mark.parametrize("end", set(CardEnd) - {CardEnd.APPROVED})
def test_a_card_that_ends_undecided_says_that_nothing_was_sent(end: CardEnd) -> None:
    assert texts.CARD_ENDS[end].endswith("Nothing was sent.")


def test_nothing_is_said_of_sending_when_it_was_approved_elsewhere() -> None:
    assert "sent" not in texts.CARD_ENDS[CardEnd.APPROVED]


def test_the_most_telling_sentence_wins_and_unknown_facts_are_not_invented() -> None:
    refused = {"system_code": "ECONNREFUSED", "tries": 3}
    assert texts.sentence(Code.CONNECT_FAILED, refused) == (
        "Nothing was sent. The target refused the connection (ECONNREFUSED), 3 tries."
    )
    assert texts.sentence(Code.CONNECT_FAILED, {**refused, "tries": 1}).endswith("(ECONNREFUSED), 1 try.")
    assert texts.sentence(Code.CONNECT_FAILED, {"system_code": None, "tries": 3}).endswith("No connection was made.")
    assert "{" not in texts.sentence(Code.CONNECT_FAILED, {})


@pytest.mark.parametrize("idempotent", [True, "assumed", "name", False])
def test_a_503_is_put_down_to_the_contract_only_where_it_lists_it(idempotent: bool | str) -> None:
    envelope = {
        "error": {"code": "REMOTE_UNAVAILABLE", "outcome": "rejected"},
        "evidence": {"contract": {"id": "c", "idempotent": idempotent}},
        "http": {"status": 503},
    }
    for facts in (texts.facts(envelope), texts.facts({**envelope, "http": None})):
        assert ("the contract says" in texts.sentence(Code.REMOTE_UNAVAILABLE, facts)) is (idempotent is False)


def test_the_facts_of_an_envelope() -> None:
    envelope = {
        "operation_id": "op_7d5d4d8e",
        "error": {"code": "REMOTE_RESULT", "phase": "result_delivery", "outcome": "committed", "retry": "reconcile"},
        "evidence": {
            "dispatch_record": 40,
            "target": {"kind": "http", "method": "POST"},
            "attempts": [{"n": 1, "stage": "dns", "code": "EAI_AGAIN"}, {"n": 2, "stage": "tcp_connect", "code": None}],
            "authorization": None,
            "job": None,
        },
        "http": {"status": 500},
    }
    facts = texts.facts(envelope)
    assert facts["record"] == 40
    assert facts["tries"] == 2
    assert facts["stage"] == "tcp_connect"
    assert "system_code" not in facts
    assert texts.sentence(Code.REMOTE_RESULT, facts) == (
        "Answered completely: status 500; what it changed before is not known to us."
    )
    assert texts.facts({})["server_error"] is False
