"""The request spool: requests as approved, without secrets, for as long as a repeat may need them (R62).

Sealed files beside the results, each under a key of its own that stands only in the sealed payload of the invocation's
PREFLIGHT_VALIDATED. Not a record, not forced to disk: where it is gone, a repeat needs the request again.

Which are there is known from memory: a tending loop that listed the directory would pay for every stored result.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from affidavit.broker.bound import HttpBound, SshBound
from affidavit.broker.moment import after
from affidavit.broker.outcome import Invocation
from affidavit.broker.terms import InvocationId, Micros, Outcome, Retry
from affidavit.journal import SPOOL_SUFFIX, FileDamaged, FileUnwritable, SpoolFile

AT_ONCE = 64 * 1024
"""Bytes of a body that are spooled on the loop; larger ones in a thread."""


@dataclass(frozen=True, slots=True)
class Spooled:
    """A request as it was approved, less its secret."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class SpooledCommand:
    """A command as it was approved: the host's entry, and what goes out, the operation id planted."""

    host: str
    command: str
    env: tuple[tuple[str, str], ...]
    stdin: bytes = field(repr=False)


Request = Spooled | SpooledCommand


class Spool:
    """Spooled requests in one directory, by invocation. Owned by the loop; `pool` writes what is large."""

    def __init__(self, directory: Path, pool: Executor) -> None:
        """Blocks on one listing of the directory."""
        self._directory = directory
        self._pool = pool
        names = (path.name.removesuffix(SPOOL_SUFFIX) for path in directory.glob(f"act_*{SPOOL_SUFFIX}"))
        self._held = {InvocationId(name) for name in names}
        self._writing: dict[InvocationId, Future[None]] = {}

    def put(self, invocation_id: InvocationId, bound: HttpBound | SshBound) -> dict[str, Any] | None:
        """Spool a request; where it lies and its key, for the sealed record. None where the disk is seen to refuse: a
        repeat then asks for the request again. A streamed command is never repeated, nor spooled."""
        if isinstance(bound, SshBound) and bound.stdin is None:
            return None
        key = secrets.token_bytes(32)
        file = self._file(invocation_id)
        self._held.add(invocation_id)
        head, body = _parts(bound)
        if len(body) > AT_ONCE:
            self._writing[invocation_id] = self._pool.submit(_write, file, key, head, body)
        else:
            try:
                _write(file, key, head, body)
            except FileUnwritable:
                return None
        return {"name": file.name, "key": key.hex()}

    def get(self, held: Mapping[str, Any]) -> Request | None:
        """What `put` spooled, by the mapping that it returned; None where it is gone or damaged. Blocks."""
        try:
            stored = SpoolFile(self._directory, held["name"]).read(bytes.fromhex(held["key"]))
        except (OSError, FileDamaged):
            return None
        head, _, body = stored.partition(b"\n")
        said = json.loads(head)
        if "command" in said:
            return SpooledCommand(said["host"], said["command"], tuple((n, v) for n, v in said["env"]), body)
        return Spooled(said["method"], said["url"], tuple((name, value) for name, value in said["headers"]), body)

    def drop(self, invocation_id: InvocationId) -> bool:
        """Delete one; that it is gone already is no error. False where the disk refuses: it stays held, to be dropped
        again."""
        self._held.discard(invocation_id)
        file, writing = self._file(invocation_id), self._writing.pop(invocation_id, None)
        if writing is not None and not writing.done():
            writing.add_done_callback(lambda _: self._delete(invocation_id, file))
            return True
        return self._delete(invocation_id, file)

    def held(self) -> list[InvocationId]:
        return list(self._held)

    def _delete(self, invocation_id: InvocationId, file: SpoolFile) -> bool:
        try:
            file.delete()
        except OSError:
            self._held.add(invocation_id)
            return False
        return True

    def _file(self, invocation_id: InvocationId) -> SpoolFile:
        return SpoolFile(self._directory, f"{invocation_id}{SPOOL_SUFFIX}")


def _parts(bound: HttpBound | SshBound) -> tuple[dict[str, Any], bytes]:
    if isinstance(bound, SshBound):
        return {"host": bound.host, "command": bound.command, "env": bound.env}, bound.stdin or b""
    return {"method": bound.method, "url": bound.target.url, "headers": bound.headers}, bound.body


def _write(file: SpoolFile, key: bytes, head: dict[str, Any], body: bytes) -> None:
    """A line of JSON, which holds no line end of its own, and the body behind it."""
    file.write(json.dumps(head).encode() + b"\n" + body, key)


def needed(inv: Invocation, now: Micros, recovery_s: float) -> bool:
    """Whether a repeat may still need the request: it is open, or unresolved and its time is not over."""
    if not inv.finished:
        return True
    repeatable = inv.retry in (Retry.BACKOFF, Retry.SAME_IDEMPOTENCY_KEY, Retry.RECONCILE)
    if not repeatable or (inv.outcome is Outcome.COMMITTED and inv.retry is not Retry.BACKOFF):
        return False
    ends = [inv.recovery_deadline or after(inv.accepted_at, recovery_s), inv.window_open_until or Micros(0)]
    return now < max(ends)
