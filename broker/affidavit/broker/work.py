"""Work: what the engine does for one action on one wire, behind one shape for all wires.

The engine keeps the order (authorise, prepare, try set-up, cross the line, watch, verdict, record); a `Work` knows how
a request of its wire is built, taken apart again, sent, judged by the tables of `outcome`, and kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from affidavit.broker import events as ev
from affidavit.broker.bound import Bound
from affidavit.broker.outcome import Verdict
from affidavit.broker.sink import Kept
from affidavit.broker.wire.port import Connection, Fault, Line, SetupStop


class Evidence(Protocol):
    """What every wire's evidence tells the engine; the rest is for `Work` alone."""

    @property
    def crossed(self) -> bool: ...

    @property
    def stopped(self) -> SetupStop | None: ...

    @property
    def connection(self) -> Connection | None: ...

    @property
    def complete(self) -> bool: ...

    @property
    def fault(self) -> Fault | None: ...

    @property
    def observation(self) -> str | None: ...


class Exchange(Protocol):
    """One set-up try and, if it reaches the line, one dispatch."""

    @property
    def evidence(self) -> Evidence: ...

    async def run(self) -> Evidence: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Redirection:
    """A redirect that was answered. `location` is None where it names no one place, or none that may be kept."""

    status: int
    location: str | None


@dataclass(frozen=True, slots=True)
class Findings:
    """What a contract finds in a complete answer beside its verdict. `follow`: the job's status URL may be asked."""

    items: tuple[ev.Item, ...] | None = None
    job: ev.JobReference | None = None
    follow: bool = False
    consistency: Mapping[str, Any] | str | None = None
    redirect: Redirection | None = None


class Work(Protocol):
    """One action's work. Its methods are called on the broker's loop, in the order in which they stand here."""

    @property
    def bound(self) -> Bound: ...

    async def prepare(self) -> None:
        """Build the whole request in a private buffer, secret included. Raises Stop where that cannot be done."""

    def exchange(self, line: Line, deadline: float) -> Exchange:
        """One set-up try, which ends at the loop's time `deadline` at the latest."""

    def recomputed(self) -> str:
        """The fingerprint of what is about to go out, taken from the buffer alone (R15)."""

    def started(self, status: int | None, headers: tuple[tuple[str, str], ...]) -> None:
        """The answer has begun."""

    def deadline_verdict(self, evidence: Any, *, caller_gone: bool) -> Verdict:
        """Of one that still runs at the deadline."""

    async def keep(self, evidence: Any) -> Kept:
        """Make what the answer brought durable, but for blobs, which go with the record. Raises FileUnwritable."""

    def verdict(self, evidence: Any) -> Verdict:
        """Of an exchange that crossed the line and has ended; of a complete one once it was kept."""

    def findings(self, verdict: Verdict) -> Findings:
        """Beside a definite verdict."""

    def completed(self, evidence: Any, kept: Kept) -> ev.RemoteResponseComplete:
        """The record of a complete answer."""

    def retry_after_s(self, evidence: Any) -> float | None:
        """How long the target asks to wait."""

    def diagnostic(self, evidence: Any) -> Mapping[str, Any] | None:
        """What may be kept of an answer that is no result: redacted, marked, at most 4 KiB (R31)."""

    def streamed(self, evidence: Any) -> Mapping[str, Any] | None:
        """What went of streamed input: `bytes`, `sha256`, `complete`. None where it was not streamed."""

    def signal(self, name: str) -> bool:
        """Send a command that runs this signal, such as TERM; False where it has none to take. It proves nothing."""

    async def discard(self) -> None:
        """Drop what was kept of an answer that is no result."""

    def release(self) -> None:
        """The verdict is recorded: the action needs its secret no more."""
