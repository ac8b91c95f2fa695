"""When Approve can be pressed: a decision over plain values, and the one step that is missing until then.

A card that could be approved the moment it appears would be approved by a click or a key that was meant for something
else; so it arms only after it was in front for a while, seen to its end, and given what it asks for.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

ARM_S = 0.7
"""Seconds from each activation until Approve can be pressed: longer than a double click or a key that repeats."""


class Step(Enum):
    """What is missing, in the order in which a person meets it from top to bottom."""

    TICK = auto()
    HOST_KEY = auto()
    BODY_END = auto()
    BODY_UNREAD = auto()
    STREAM = auto()
    PASSPHRASE = auto()
    ACTIVATE = auto()
    PAUSE = auto()


@dataclass(frozen=True, slots=True)
class Needs:
    """What a card asks for before it can be approved.

    `long_body`: a ticked box stands for having read to the end. `streamed`: it must be ticked, for there is more than
    can be read.
    """

    tick: bool
    long_body: bool
    passphrase: bool
    streamed: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    """What was done. `active_s` is the time since the last activation in seconds, None while another window has it."""

    ticked: bool = False
    other_key: bool = False
    """What was pasted beside the host's key is another one."""
    end_seen: bool = False
    unread_ticked: bool = False
    passphrase_given: bool = False
    active_s: float | None = None


def missing(needs: Needs, done: Progress) -> Step | None:
    """The first step that is missing, or None where Approve is armed."""
    if needs.tick and not done.ticked:
        return Step.TICK
    if done.other_key:
        return Step.HOST_KEY
    if not done.end_seen and not (needs.long_body and done.unread_ticked):
        return Step.BODY_UNREAD if needs.long_body else Step.BODY_END
    if needs.streamed and not done.unread_ticked:
        return Step.STREAM
    if needs.passphrase and not done.passphrase_given:
        return Step.PASSPHRASE
    if done.active_s is None:
        return Step.ACTIVATE
    if done.active_s < ARM_S:
        return Step.PAUSE
    return None
