"""Results: where the bodies of answers lie, and how they are read back (R31, R38, R41).

`intake` writes them, `retention` deletes them. A body of few bytes is a blob in the journal's file, one of many a file
of chunks; the key of either stands in the sealed payload of its record: with the vault locked nobody reads it back.
"""

from __future__ import annotations

import asyncio
import base64
import secrets
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from affidavit.broker.events import StoredBody
from affidavit.broker.intake import NONCE, Intake
from affidavit.broker.limits import Limits
from affidavit.broker.prepare import Prepared
from affidavit.broker.redact import Forms
from affidavit.broker.sink import Kept, ResultSink
from affidavit.broker.terms import InvocationId
from affidavit.journal import CHUNK, FileDamaged, Reader, ResultFile

T = TypeVar("T")

REMEMBERED = 64
"""Inline results kept in memory for the reply that follows; older ones are read back."""

WORKERS = 4
"""Threads that take in and read results, and as many that write: those of the first kind wait for the second, so they
are not the same. A slow disk holds up other results, never a name look-up or a keyring."""


class ResultUnreadable(Exception):
    """What was stored is gone or is not what was written."""


class Results:
    """Where results lie. `limits` are asked for with each sink, since settings change them. Owned by the loop."""

    def __init__(self, directory: Path, reader: Reader, limits: Callable[[], Limits]) -> None:
        self._directory = directory
        self._reader = reader
        self._limits = limits
        self._remembered: OrderedDict[str, bytes] = OrderedDict()
        """By the stored body's name."""
        self.pool = ThreadPoolExecutor(WORKERS, "affidavit-results")
        self._disk = ThreadPoolExecutor(WORKERS, "affidavit-disk")

    def close(self) -> None:
        """Let the threads end. Blocks until their turns are over."""
        self.pool.shutdown()
        self._disk.shutdown()

    # -- taking in

    def sink(self, invocation_id: InvocationId, prepared: Prepared) -> ResultSink:
        """What takes in the answer to an HTTP request."""
        forms = prepared.forms
        return ResultSink(lambda coding: self.intake(invocation_id, forms, coding), forms, self.pool)

    def intake(
        self, invocation_id: InvocationId, forms: Forms, coding: str | None = None, *, limits: Limits | None = None
    ) -> Intake:
        """What takes in one body of an invocation."""
        name = f"{invocation_id}.{secrets.token_hex(4)}"
        return Intake(self._directory, name, forms, limits or self._limits(), self._disk, coding)

    def remember(self, kept: Kept) -> None:
        for body, inline in ((kept.body, kept.inline), (kept.stderr, kept.inline_stderr)):
            if body is not None and inline is not None:
                self._remembered[body.name] = inline
        while len(self._remembered) > REMEMBERED:
            self._remembered.popitem(last=False)

    def forget(self) -> None:
        """Forget what is in memory: the vault locks."""
        self._remembered.clear()

    # -- reading back

    async def chunk(self, body: StoredBody, index: int) -> bytes:
        """One chunk of what is kept, verified. IndexError, or ResultUnreadable."""
        if not 0 <= index < body.chunks:
            raise IndexError(index)
        if body.place == "file":
            return await self.in_thread(lambda: self._file_chunk(body, index))
        whole = self._inline(body)
        return whole[index * CHUNK : (index + 1) * CHUNK]

    def view(self, body: StoredBody, *, operator: bool = False) -> dict[str, Any]:
        """The `body` object of the envelope; a large one is fetched in chunks. ResultUnreadable.

        What is withheld is shown to the operator alone.
        """
        hidden = body.withheld and (not operator or body.place == "none")
        shown: dict[str, Any] = {
            "bytes": body.bytes,
            "sha256": body.sha256,
            "delivered_sha256": body.delivered_sha256 if differs(body) else None,
            "complete": body.truncated_at is None and not body.cut,
            "inline": body.place != "file" and not hidden and not body.cut,
            "chunks": body.chunks,
            "redactions": body.redactions,
            "truncated_at": body.truncated_at,
        }
        if body.undecodable is not None:
            shown["undecodable"] = body.undecodable
        if body.withheld:
            shown["withheld"] = True
        if body.cut and body.place == "none":
            shown |= {"sha256": None, "delivered_sha256": None}
        if not shown["inline"]:
            return shown
        whole = self._inline(body)
        if body.text:
            return {"text": whole.decode(), **shown}
        return {"base64": base64.b64encode(whole).decode(), **shown}

    # -- deleting

    async def delete(self, *names: str) -> None:
        """Delete files of these names; that one is gone already is no error. Blobs are the journal's to delete."""
        for name in names:
            self._remembered.pop(name, None)
        await self.in_thread(lambda: delete_files(self._directory, names))

    # -- inside

    def _inline(self, body: StoredBody) -> bytes:
        if body.place == "none" or body.stored_bytes == 0:
            return b""
        held = self._remembered.get(body.name)
        if held is not None:
            return held
        sealed = self._reader.blob(body.name)
        if sealed is None:
            raise ResultUnreadable("the stored result is gone")
        try:
            return AESGCM(bytes.fromhex(body.key)).decrypt(sealed[:NONCE], sealed[NONCE:], body.name.encode())
        except InvalidTag:
            raise ResultUnreadable("the stored result is not what was written") from None

    def _file_chunk(self, body: StoredBody, index: int) -> bytes:
        try:
            reader = ResultFile(self._directory, body.name).open(bytes.fromhex(body.key))
            if reader.chunks != body.chunks:
                raise ResultUnreadable("the stored result is cut")
            return reader.chunk(index).data
        except (OSError, FileDamaged) as error:
            raise ResultUnreadable("the stored result is gone or is not what was written") from error

    def in_thread(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Let one of the threads do `work`."""
        return asyncio.get_running_loop().run_in_executor(self.pool, work)


def delete_files(directory: Path, names: Sequence[str]) -> None:
    for name in names:
        ResultFile(directory, name).delete()


def differs(body: StoredBody) -> bool:
    """Whether what is delivered is not what came: redacted, decoded, or stopped at the limit."""
    return body.redactions > 0 or body.delivered_sha256 != body.sha256
