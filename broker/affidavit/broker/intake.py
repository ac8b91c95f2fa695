"""Intake: one body on its way from the wire to its place (R31, R38).

    raw bytes -> SHA-256 of the original -> content coding undone -> secrets taken out -> stored, sealed

Only the redacted form ever meets the disk. Up to 256 KiB it is held in memory and becomes a deletable blob in the
journal's file, in the transaction that commits the result; beyond that it goes into a file of chunks, durable before
the record. Each has a key of its own, kept in the sealed payload of the record.

A coded body is kept twice until its end shows whether it decodes: what cannot be undone is kept as it came, less the
forms of secrets that stand in it openly. It is for the operator alone where there are any in it, or in what did decode,
and where it may hide some: a reader that asks for less than `decode` gets more out of it.

Everything here blocks: on the disk, and on the processor for some ms a MiB. An intake belongs to one thread at a time;
`sink` sees to that. What it hands on to the disk is hashed, sealed and written by another thread, for that half of the
work needs no lock of the interpreter.
"""

from __future__ import annotations

import hashlib
import secrets
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from affidavit.broker.decode import PIECE, Decoder, coding_names
from affidavit.broker.events import StoredBody
from affidavit.broker.limits import Limits
from affidavit.broker.redact import MIN_SECRET, Forms, Redactor, begun
from affidavit.journal import CHUNK, Blob, FileUnwritable, ResultFile, ResultWriter

NONCE = 12
RAW = ".raw"
"""Ends the name of a body that is kept as it came."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A body that was taken in whole. `blobs` go into the transaction of its record; `inline` if it is small."""

    body: StoredBody
    blobs: tuple[Blob, ...] = ()
    inline: bytes | None = field(default=None, repr=False)


class Intake:
    """Takes one body. `name` is the name of its place, which begins with the invocation's id and a dot."""

    def __init__(
        self, directory: Path, name: str, forms: Forms, limits: Limits, disk: Executor, coding: str | None = None
    ) -> None:
        """`disk` has threads of its own; `coding`: the answer's Content-Encoding, repeats joined."""
        self._digest = hashlib.sha256()
        self._bytes = 0
        self._decoder = Decoder(coding, limits.result)
        self._forms = forms
        self._redactor = Redactor(forms)
        self._store = _Store(directory, name, limits, disk)
        self._raw_redactor = Redactor(forms)
        self._raw = _Store(directory, name + RAW, limits, disk) if coding_names(coding) else None

    @property
    def coded(self) -> bool:
        return self._raw is not None

    def take(self, data: bytes) -> None:
        """Take the next bytes. A disk that refuses is told of by `finish`: the body is hashed to its end all the same.

        In pieces, for with each of them the hash lets other threads in.
        """
        for at in range(0, len(data), PIECE):
            self._take(data[at : at + PIECE] if len(data) > PIECE else data)

    def finish(self) -> Taken:
        """The body has ended: make what was kept durable, but for blobs. FileUnwritable; then nothing is left."""
        undecodable = self._decoder.finish()
        end = self._redactor.finish()
        try:
            if undecodable is None:
                self._store.write(end)
                store, redactor = self._store, self._redactor
            else:
                assert self._raw is not None
                self._raw.write(self._raw_redactor.finish())
                store, redactor = self._raw, self._raw_redactor
            kept = store.finish()
        except FileUnwritable:
            self.discard()
            raise
        for other in (self._store, self._raw):
            if other is not None and other is not store:
                other.discard()
        body = StoredBody(
            place=kept.place,
            name=store.name,
            key=kept.key.hex(),
            bytes=self._bytes,
            sha256=self._digest.hexdigest(),
            stored_bytes=kept.length,
            delivered_sha256=kept.sha256,
            chunks=max(1, -(-kept.length // CHUNK)),
            redactions=redactor.count,
            truncated_at=store.truncated_at,
            text=kept.inline is not None and _is_text(kept.inline),
            undecodable=str(undecodable) if undecodable is not None else None,
            withheld=undecodable is not None and self._may_tell(end),
        )
        return Taken(body, kept.blobs, kept.inline)

    def _may_tell(self, end: bytes) -> bool:
        """Whether an undecodable body may tell a secret; `end` is the end of what did decode."""
        forms = self._forms
        seen = self._raw_redactor.count + self._redactor.count > 0
        return seen or begun(end, forms) >= MIN_SECRET or (bool(forms.literals) and self._decoder.hides)

    def discard(self) -> None:
        """Drop what was kept, at any point short of `finish`; once more does nothing."""
        self._store.discard()
        if self._raw is not None:
            self._raw.discard()

    def _take(self, data: bytes) -> None:
        self._digest.update(data)
        self._bytes += len(data)
        if self._raw is not None:
            self._raw.write(self._raw_redactor.feed(data))
        for piece in self._decoder.feed(data):
            self._store.write(self._redactor.feed(piece))


@dataclass(frozen=True, slots=True)
class _Kept:
    """Where bytes came to lie. `sha256` is of all of them, in hex."""

    place: str
    key: bytes = field(repr=False)
    length: int
    sha256: str
    blobs: tuple[Blob, ...] = ()
    inline: bytes | None = field(default=None, repr=False)


class _Store:
    """Bytes on their way into a blob or, where they are many, into a file; stops at the result limit."""

    def __init__(self, directory: Path, name: str, limits: Limits, disk: Executor) -> None:
        self.name = name
        self.truncated_at: int | None = None
        self._directory = directory
        self._limits = limits
        self._disk = disk
        self._length = 0
        self._held = bytearray()
        self._writer: ResultWriter | None = None
        self._writing: Future[None] | None = None
        self._failed: FileUnwritable | None = None

    def write(self, data: bytes) -> None:
        if not data or self._failed is not None or self.truncated_at is not None:
            return
        room = self._limits.result - self._length
        if len(data) > room:
            self.truncated_at = self._limits.result
            data = data[:room]
        self._length += len(data)
        self._held += data
        if self._length <= self._limits.inline_body or (self._writer is not None and len(self._held) < CHUNK):
            return
        try:
            if self._writer is None:
                self._writer = ResultFile(self._directory, self.name).create()
            self._written()
            held, self._held = self._held, bytearray()
            self._writing = self._disk.submit(self._writer.write, held)
        except FileUnwritable as error:
            self.discard()
            self._failed = error

    def finish(self) -> _Kept:
        if self._failed is not None:
            raise self._failed
        if self._writer is not None:
            self._written()
            self._writer.write(self._held)
            stored = self._writer.finish()
            key, self._writer = self._writer.key, None
            # The empty blob is the file's entry in the index by which retention finds what is over.
            return _Kept("file", key, stored.length, stored.sha256, (Blob(self.name, b""),))
        inline = bytes(self._held)
        sha256 = hashlib.sha256(inline).hexdigest()
        if not inline:
            return _Kept("none", b"", 0, sha256, inline=inline)
        key = AESGCM.generate_key(256)
        nonce = secrets.token_bytes(NONCE)
        sealed = nonce + AESGCM(key).encrypt(nonce, inline, self.name.encode())
        return _Kept("blob", key, len(inline), sha256, (Blob(self.name, sealed),), inline)

    def discard(self) -> None:
        self._held.clear()
        with suppress(FileUnwritable):
            self._written()
        if self._writer is not None:
            writer, self._writer = self._writer, None
            writer.abandon()

    def _written(self) -> None:
        """Wait for what was handed to the disk's threads. Raises what it came to."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
