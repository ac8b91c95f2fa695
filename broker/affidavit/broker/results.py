"""Results: how an answer's body is kept as it arrives, and how it is read back (R31, R38, R41).

    raw bytes -> SHA-256 of the original -> content coding undone -> secrets taken out -> stored, sealed

Only the redacted form lies on disk. Up to 256 KiB it goes into the journal's file as a deletable blob, in the
transaction that commits the result; beyond that into a file of chunks, durable before the record. Each result has a key
of its own, kept in the sealed payload of its record: with the vault locked nobody reads it back.

A body whose coding cannot be undone is kept as it came, and only where no form of a secret stands in it.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from affidavit.broker.decode import Decoder
from affidavit.broker.events import StoredBody
from affidavit.broker.headers import Pairs
from affidavit.broker.limits import Limits
from affidavit.broker.outcome import joined
from affidavit.broker.prepare import Prepared
from affidavit.broker.redact import Forms, Redactor, redact_headers
from affidavit.broker.terms import InvocationId
from affidavit.broker.wire.port import HttpEvidence
from affidavit.journal import CHUNK, Blob, FileDamaged, FileUnwritable, Reader, ResultFile, ResultWriter

T = TypeVar("T")

REMEMBERED = 64
"""Inline results kept in memory for the reply that follows; older ones are read back."""

_NONCE = 12


@dataclass(frozen=True, slots=True)
class Kept:
    """What was kept of a complete answer: headers as they may be shown, the body's place, its bytes if small."""

    headers: Pairs
    body: StoredBody
    blobs: tuple[Blob, ...] = ()
    inline: bytes | None = field(default=None, repr=False)


class ResultUnreadable(Exception):
    """What was stored is gone or is not what was written."""


class Results:
    """Where results lie. `limits` are asked for with each sink, since settings change them."""

    def __init__(self, directory: Path, reader: Reader, limits: Callable[[], Limits]) -> None:
        self._directory = directory
        self._reader = reader
        self._limits = limits
        self._remembered: OrderedDict[InvocationId, bytes] = OrderedDict()

    def sink(self, prepared: Prepared) -> ResultSink:
        secret = (prepared.secret,) if prepared.secret else ()
        return ResultSink(self._directory, Forms(secret, prepared.whole), self._limits())

    def remember(self, invocation_id: InvocationId, kept: Kept) -> None:
        if kept.inline is not None:
            self._remembered[invocation_id] = kept.inline
            while len(self._remembered) > REMEMBERED:
                self._remembered.popitem(last=False)

    def forget(self) -> None:
        """Forget what is in memory: the vault locks."""
        self._remembered.clear()

    async def chunk(self, invocation_id: InvocationId, body: StoredBody, index: int) -> bytes:
        """One chunk of what is kept. IndexError, or ResultUnreadable."""
        if not 0 <= index < body.chunks:
            raise IndexError(index)
        if body.place == "file":
            return await _in_thread(lambda: self._file_chunk(body, index))
        whole = self._inline(invocation_id, body)
        return whole[index * CHUNK : (index + 1) * CHUNK]

    def view(self, invocation_id: InvocationId, body: StoredBody) -> dict[str, Any]:
        """The `body` object of the envelope; a large one is fetched in chunks."""
        shown: dict[str, Any] = {
            "bytes": body.bytes,
            "sha256": body.sha256,
            "delivered_sha256": body.delivered_sha256 if body.redactions else None,
            "complete": body.truncated_at is None,
            "inline": body.place != "file",
            "chunks": body.chunks,
            "redactions": body.redactions,
            "truncated_at": body.truncated_at,
        }
        if body.undecodable is not None:
            shown["undecodable"] = body.undecodable
        if body.place == "file":
            return shown
        whole = self._inline(invocation_id, body)
        if body.text:
            return {"text": whole.decode(), **shown}
        return {"base64": base64.b64encode(whole).decode(), **shown}

    def _inline(self, invocation_id: InvocationId, body: StoredBody) -> bytes:
        if body.place == "none" or body.stored_bytes == 0:
            return b""
        held = self._remembered.get(invocation_id)
        if held is not None:
            return held
        sealed = self._reader.blob(body.name)
        if sealed is None:
            raise ResultUnreadable("the stored result is gone")
        try:
            return AESGCM(bytes.fromhex(body.key)).decrypt(sealed[:_NONCE], sealed[_NONCE:], body.name.encode())
        except InvalidTag:
            raise ResultUnreadable("the stored result is not what was written") from None

    def _file_chunk(self, body: StoredBody, index: int) -> bytes:
        try:
            return ResultFile(self._directory, body.name).open(bytes.fromhex(body.key)).chunk(index).data
        except (FileNotFoundError, FileDamaged) as error:
            raise ResultUnreadable("the stored result is gone or is not what was written") from error


class ResultSink:
    """Takes one answer as it arrives (port.BodySink). Used by one task; disk work happens in a thread."""

    def __init__(self, directory: Path, forms: Forms, limits: Limits) -> None:
        self._forms = forms
        self._limits = limits
        self._digest = hashlib.sha256()
        self._bytes = 0
        self._headers: Pairs = ()
        self._in_headers = 0
        self._name = secrets.token_hex(16)
        self._decoder = Decoder(None, limits.result)
        self._redactor = Redactor(forms)
        self._store = _Store(directory, self._name, limits)
        self._raw: _Store | None = None
        self._raw_redactor = Redactor(forms)

    def start(self, headers: Pairs) -> None:
        """The final head came: its coding decides how the body is read."""
        self._headers, self._in_headers = redact_headers(headers, self._forms)
        coding = joined(headers).get("content-encoding")
        self._decoder = Decoder(coding, self._limits.result)
        if coding is not None and coding.strip().lower() != "identity":
            self._raw = _Store(self._store.directory, f"{self._name}.raw", self._limits)

    async def write(self, data: bytes) -> None:
        """Take body bytes. A disk that refuses is told of by `finish`: the answer is read to its end all the same."""
        self._digest.update(data)
        self._bytes += len(data)
        if self._raw is not None:
            self._raw_redactor.feed(data)
            await self._raw.write(data)
        for piece in self._decoder.feed(data):
            await self._store.write(self._redactor.feed(piece))

    async def finish(self, evidence: HttpEvidence) -> Kept:
        """Make what was kept durable, but for a blob, which goes with the record. FileUnwritable."""
        undecodable = self._decoder.finish()
        redactions = self._redactor.count
        if undecodable is None:
            await self._store.write(self._redactor.finish())
            redactions = self._redactor.count
            if self._raw is not None:
                await self._raw.discard()
            store = self._store
        else:
            await self._store.discard()
            self._raw_redactor.finish()
            store = self._raw or self._store
            redactions = self._raw_redactor.count
            if redactions:
                await store.discard()
                store = _Store(store.directory, self._name, self._limits)
        place, key, blobs, inline = await store.finish()
        body = StoredBody(
            place=place,
            name=store.name,
            key=key.hex(),
            bytes=self._bytes,
            sha256=self._digest.hexdigest(),
            stored_bytes=store.length,
            delivered_sha256=store.sha256,
            chunks=max(1, -(-store.length // CHUNK)),
            redactions=redactions + self._in_headers,
            truncated_at=store.truncated_at,
            text=inline is not None and _is_text(inline),
            undecodable=str(undecodable) if undecodable is not None else None,
        )
        return Kept(self._headers, body, blobs, inline)

    async def discard(self) -> None:
        """Drop what was kept: the answer is no result."""
        await self._store.discard()
        if self._raw is not None:
            await self._raw.discard()


class _Store:
    """Bytes on their way into a blob or, over 256 KiB, into a file; stops at the result limit."""

    def __init__(self, directory: Path, name: str, limits: Limits) -> None:
        self.directory = directory
        self.name = name
        self.length = 0
        self.truncated_at: int | None = None
        self._limits = limits
        self._digest = hashlib.sha256()
        self._held = bytearray()
        self._writer: ResultWriter | None = None
        self._failed: FileUnwritable | None = None

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    async def write(self, data: bytes) -> None:
        if not data or self._failed is not None:
            return
        room = self._limits.result - self.length
        if len(data) > room:
            self.truncated_at = self._limits.result
            data = data[:room]
        self.length += len(data)
        self._digest.update(data)
        if self._writer is None and len(self._held) + len(data) <= self._limits.inline_body:
            self._held += data
            return
        try:
            if self._writer is None:
                self._writer = await _in_thread(ResultFile(self.directory, self.name).create)
            held, self._held = bytes(self._held) + data, bytearray()
            writer = self._writer
            await _in_thread(lambda: writer.write(held))
        except FileUnwritable as error:
            self._failed = error

    async def finish(self) -> tuple[str, bytes, tuple[Blob, ...], bytes | None]:
        """Place, key, blobs for the record's transaction, and the bytes if they are few."""
        if self._failed is not None:
            await self.discard()
            raise self._failed
        if self._writer is not None:
            writer, self._writer = self._writer, None
            await _in_thread(writer.finish)
            return "file", writer.key, (), None
        inline = bytes(self._held)
        if not inline:
            return "none", b"", (), inline
        key = AESGCM.generate_key(256)
        nonce = secrets.token_bytes(_NONCE)
        sealed = nonce + AESGCM(key).encrypt(nonce, inline, self.name.encode())
        return "blob", key, (Blob(self.name, sealed),), inline

    async def discard(self) -> None:
        self._held = bytearray()
        if self._writer is not None:
            writer, self._writer = self._writer, None
            await _in_thread(writer.abandon)


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


async def _in_thread(work: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(None, work)
