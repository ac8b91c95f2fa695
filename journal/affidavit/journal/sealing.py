"""Write-blind sealing: who appends cannot read back (R58).

Payloads and names are AES-256-GCM under a segment's key. That key is sealed to the journal's public key in the record
that opens the segment, and forgotten by the writer when the segment ends. Reading takes the private half, which the
vault holds. A sealed box for each record would cost 60 us; a key for some hundred records costs 1.

A nonce is the purpose and the number of what is sealed, so that none is used twice under one key: a seq, or a name's
integer, is given out once.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from nacl.exceptions import CryptoError
from nacl.public import PrivateKey, PublicKey, SealedBox

from affidavit.journal.encoding import fields, number
from affidavit.journal.errors import CannotUnseal
from affidavit.journal.record import SEGMENT_OPENED, Record

_RECORD_NONCE = b"rec\0"
_NAME_NONCE = b"name"
_CACHED_KEYS = 256


class SegmentKey:
    """The key of one segment, in memory only while needed."""

    __slots__ = ("_aead",)

    def __init__(self, key: bytes) -> None:
        self._aead = AESGCM(key)

    def seal_payload(self, seq: int, header: bytes, payload: bytes) -> bytes:
        return self._aead.encrypt(_RECORD_NONCE + number(seq), payload, header)

    def open_payload(self, seq: int, header: bytes, sealed: bytes) -> bytes:
        """Raises `InvalidTag`."""
        return self._aead.decrypt(_RECORD_NONCE + number(seq), sealed, header)

    def seal_name(self, name: int, kind: str, text: bytes) -> bytes:
        return self._aead.encrypt(_NAME_NONCE + number(name), text, fields(kind.encode()))

    def open_name(self, name: int, kind: str, sealed: bytes) -> bytes:
        """Raises `InvalidTag`."""
        return self._aead.decrypt(_NAME_NONCE + number(name), sealed, fields(kind.encode()))


def new_segment_key(public_key: bytes) -> tuple[SegmentKey, bytes]:
    """A fresh key, and the same sealed to the journal's public key (X25519, libsodium's sealed box)."""
    key = AESGCM.generate_key(256)
    return SegmentKey(key), SealedBox(PublicKey(public_key)).encrypt(key)


@dataclass(frozen=True, slots=True)
class SealedName:
    """One entry of the dictionary, as it lies in the journal."""

    number: int
    kind: str
    segment: int
    sealed: bytes = field(repr=False)
    segment_key: bytes = field(repr=False)


class NameSource(Protocol):
    """What finds a sealed name: a `Reader`."""

    def name(self, name: int) -> SealedName: ...


class Unsealer(ABC):
    """Opens records and names with whatever segment keys it can come by."""

    @abstractmethod
    def _key(self, segment: int, sealed_key: bytes) -> SegmentKey:
        """The segment's key, or `CannotUnseal`."""

    def payload(self, record: Record) -> dict[str, Any]:
        """What the draft held. For SEGMENT_OPENED it is empty: a segment's key is not shown."""
        if record.kind == SEGMENT_OPENED:
            return {}
        try:
            data = self._key(record.segment, record.segment_key).open_payload(record.seq, record.header, record.sealed)
        except InvalidTag:
            raise CannotUnseal(f"record {record.seq} is not what was sealed") from None
        payload: dict[str, Any] = json.loads(data)
        return payload

    def name(self, names: NameSource, name: int) -> str:
        """The text behind the integer in an action's target, agent or contract."""
        entry = names.name(name)
        try:
            data = self._key(entry.segment, entry.segment_key).open_name(entry.number, entry.kind, entry.sealed)
        except InvalidTag:
            raise CannotUnseal(f"name {name} is not what was sealed") from None
        text: str = json.loads(data)
        return text


class Opener(Unsealer):
    """Opens everything, with the journal's private key (X25519, 32 bytes). Belongs to one thread."""

    def __init__(self, private_key: bytes) -> None:
        self._box = SealedBox(PrivateKey(private_key))
        self._keys: OrderedDict[bytes, SegmentKey] = OrderedDict()

    def _key(self, segment: int, sealed_key: bytes) -> SegmentKey:
        key = self._keys.get(sealed_key)
        if key is None:
            try:
                key = SegmentKey(self._box.decrypt(sealed_key))
            except CryptoError:
                raise CannotUnseal(f"the key of segment {segment} does not open with this private key") from None
            self._keys[sealed_key] = key
            if len(self._keys) > _CACHED_KEYS:
                self._keys.popitem(last=False)
        else:
            self._keys.move_to_end(sealed_key)
        return key


class CurrentOpener(Unsealer):
    """Opens the records of the running segment, whose key is still in memory; no vault is needed."""

    def __init__(self, current: Callable[[], tuple[int, SegmentKey] | None]) -> None:
        self._current = current

    def _key(self, segment: int, sealed_key: bytes) -> SegmentKey:
        held = self._current()
        if held is None or held[0] != segment:
            raise CannotUnseal(f"segment {segment} has ended; its key is in the vault's hands alone")
        return held[1]
