"""A record: its draft, its place in the chain, and the hash that binds it (docs/journal-format.md).

The order of records is their `seq`, never a clock (R56).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from affidavit.journal.encoding import fields, number

SEGMENT_OPENED = "SEGMENT_OPENED"
"""The one kind that the journal itself appends: it holds the sealed key of the segment that it begins."""

_GENESIS_DOMAIN = b"affidavit journal genesis v1"
_RECORD_DOMAIN = b"affidavit journal record v1"


@dataclass(frozen=True, slots=True)
class Draft:
    """A record to be. `payload` is JSON and is not changed after it was handed over; `at` is wall time in microseconds.

    `kind` is opaque here. A payload that is not JSON cannot be recorded, and poisons the journal (its seq is given out
    by the time it is encoded).
    """

    kind: str
    invocation_id: str | None
    payload: Mapping[str, Any] = field(repr=False)
    at: int


@dataclass(frozen=True, slots=True)
class Record:
    """A record as it lies in the journal.

    `segment` is the seq of the SEGMENT_OPENED record whose key seals this one, `segment_key` that key, sealed to the
    journal's public key. `previous` links the records of one invocation: the seq of the one before, 0 for its first,
    None where the invocation has no action row, or there is no invocation. `tally` is what the transaction did to the
    counts by phase and outcome (`counts`).
    """

    seq: int
    at: int
    kind: str
    invocation_id: str | None
    segment: int
    previous: int | None
    tally: str | None
    sealed: bytes = field(repr=False)
    prev_hash: bytes
    hash: bytes
    segment_key: bytes = field(repr=False)

    @property
    def header(self) -> bytes:
        """The clear columns as the hash covers them and the seal authenticates them."""
        return encode_header(self.at, self.kind, self.invocation_id, self.segment, self.previous, self.tally)


@dataclass(frozen=True, slots=True)
class Head:
    """The newest record's seq and hash; seq 0 and the genesis hash where there is none."""

    seq: int
    hash: bytes


def encode_header(
    at: int, kind: str, invocation_id: str | None, segment: int, previous: int | None, tally: str | None
) -> bytes:
    """The clear columns of a record, less its seq, as bytes."""
    return fields(
        number(at),
        kind.encode(),
        None if invocation_id is None else invocation_id.encode(),
        number(segment),
        None if previous is None else number(previous),
        None if tally is None else tally.encode(),
    )


def genesis(journal_id: bytes, public_key: bytes) -> bytes:
    """What the first record's `prev_hash` is: it binds the chain to this journal and to the key that reads it."""
    return hashlib.sha256(fields(_GENESIS_DOMAIN, journal_id, public_key)).digest()


def record_hash(seq: int, header: bytes, sealed: bytes, prev_hash: bytes) -> bytes:
    """The link of the chain: SHA-256 over domain, seq, header, ciphertext and the hash before."""
    return hashlib.sha256(fields(_RECORD_DOMAIN, number(seq), header, sealed, prev_hash)).digest()
