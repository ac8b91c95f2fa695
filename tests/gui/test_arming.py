"""Approve waits for every step, and names the first that is missing."""

from __future__ import annotations

import itertools

import pytest

from affidavit.gui.arming import ARM_S, Needs, Progress, Step, missing
from affidavit.gui.card_view import STEPS

READY = Progress(ticked=True, end_seen=True, unread_ticked=True, passphrase_given=True, active_s=ARM_S)
EVERYTHING = Needs(tick=True, long_body=True, passphrase=True)


@pytest.mark.parametrize(
    ("needs", "done", "step"),
    [
        (Needs(False, False, False), Progress(), Step.BODY_END),
        (Needs(False, True, False), Progress(), Step.BODY_UNREAD),
        (Needs(False, True, False), Progress(unread_ticked=True, active_s=1), None),
        (Needs(False, True, False), Progress(end_seen=True, active_s=1), None),
        (Needs(False, False, False), Progress(unread_ticked=True, active_s=1), Step.BODY_END),
        (Needs(False, False, False, streamed=True), Progress(end_seen=True, active_s=1), Step.STREAM),
        (Needs(False, True, False, streamed=True), Progress(unread_ticked=True, active_s=1), None),
        (Needs(False, False, False, streamed=True), Progress(end_seen=True, unread_ticked=True, active_s=1), None),
        (Needs(True, False, True), Progress(), Step.TICK),
        (Needs(True, False, True), Progress(ticked=True, end_seen=True), Step.PASSPHRASE),
        (Needs(True, False, False), Progress(other_key=True), Step.TICK),
        (Needs(False, False, False), Progress(other_key=True, end_seen=True, active_s=1), Step.HOST_KEY),
        (Needs(False, False, False), Progress(end_seen=True), Step.ACTIVATE),
        (Needs(False, False, False), Progress(end_seen=True, active_s=ARM_S - 0.001), Step.PAUSE),
        (Needs(False, False, False), Progress(end_seen=True, active_s=ARM_S), None),
        (EVERYTHING, READY, None),
    ],
)
def test_the_missing_step(needs: Needs, done: Progress, step: Step | None) -> None:
    assert missing(needs, done) is step


def test_armed_means_that_nothing_asked_for_is_missing() -> None:
    flags = (False, True)
    for tick, long_body, passphrase in itertools.product(flags, repeat=3):
        for ticked, seen, unread, given in itertools.product(flags, repeat=4):
            for active in (None, 0.0, ARM_S):
                done = Progress(ticked, False, seen, unread, given, active)
                armed = missing(Needs(tick, long_body, passphrase), done) is None
                assert armed == (
                    (ticked or not tick)
                    and (seen or (long_body and unread))
                    and (given or not passphrase)
                    and active == ARM_S
                )


def test_every_step_has_its_sentence() -> None:
    assert set(STEPS) == set(Step)
    assert len(set(STEPS.values())) == len(Step)
