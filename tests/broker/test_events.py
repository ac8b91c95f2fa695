"""Every event survives its journey into the journal and back."""

from __future__ import annotations

import json

import pytest

from affidavit.broker import events as ev
from affidavit.broker.terms import Code, Kind, Micros, Outcome, Retry

BODY = ev.StoredBody(
    place="blob", name="b", key="00", bytes=2, sha256="aa", stored_bytes=2, delivered_sha256="aa", chunks=1
)
SAMPLES = [
    ev.ActionAccepted(session="s", asked={"method": "GET", "url": "https://a.example/"}, retry_of="act_1"),
    ev.ActionStopped(phase="validation", code=Code.BUSY, retry=Retry.BACKOFF, field="url"),
    ev.CardOpened(fingerprint="sha256:f", notices=("first_contact",), ends_at=5),
    ev.ResultCommitted(outcome=Outcome.COMMITTED, code=Code.REMOTE_RESULT, retry=Retry.NEVER, body=BODY),
    ev.OutcomeUnknown(
        code=Code.GATEWAY_UNCERTAIN,
        retry=Retry.RECONCILE,
        source="transport_observed",
        observation="a gateway answered 502",
        diagnostic={"bytes": 2, "base64": "AA==", "note": "cut"},
        body=BODY,
    ),
    ev.ResultExpired(sha256=None, status=None),
    ev.ResultCommitted(
        outcome=Outcome.COMMITTED,
        code=Code.JOB_ACCEPTED,
        retry=Retry.NEVER,
        items=(ev.Item("a", Outcome.UNKNOWN, "no result"), ev.Item("b", Outcome.COMMITTED, record=4)),
        job=ev.JobReference("j1", "https://a.example/j1"),
        consistency={"by": "header:ETag", "version": "1"},
    ),
    ev.JobOpened("op_j", "j1", "https://a.example/j1", 7, Micros(9), "act_1"),
]


@pytest.mark.parametrize("event", SAMPLES, ids=lambda e: str(e.kind))
def test_round_trip(event: ev.Event) -> None:
    payload = json.loads(json.dumps(ev.encode(event)))
    assert ev.decode(event.kind, payload) == event


def test_words_come_back_as_words_of_the_closed_lists() -> None:
    event = ev.decode(Kind.ACTION_STOPPED, {"phase": "validation", "code": "BUSY", "retry": "backoff"})
    assert isinstance(event, ev.ActionStopped)
    assert event.code is Code.BUSY
    assert event.retry is Retry.BACKOFF


def test_what_a_later_version_adds_is_ignored() -> None:
    assert ev.decode(Kind.REQUEST_SENT, {"sent": 3, "later": True}) == ev.RequestSent(sent=3)


@pytest.mark.parametrize("payload", [{}, {"phase": "validation"}])
def test_a_missing_field_is_refused(payload: dict[str, str]) -> None:
    with pytest.raises(TypeError):
        ev.decode(Kind.ACTION_STOPPED, payload)


def test_a_word_outside_the_closed_list_is_refused() -> None:
    with pytest.raises(ValueError, match="maybe"):
        ev.decode(Kind.ACTION_STOPPED, {"phase": "validation", "code": "BUSY", "retry": "maybe"})


def test_a_kind_that_is_no_event_is_refused() -> None:
    with pytest.raises(KeyError):
        ev.decode(Kind.SEGMENT_OPENED, {})
