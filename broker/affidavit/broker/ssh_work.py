"""One command's work on the SSH wire (`work.Work`)."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from affidavit.broker import events as ev
from affidavit.broker import outcome as oc
from affidavit.broker.bound import SshBound
from affidavit.broker.diagnostic import diagnostic
from affidavit.broker.fingerprint import SshHopBound, ssh_dispatch_fingerprint
from affidavit.broker.hops import Lent, request_for, reuse_key
from affidavit.broker.intake import Intake, Taken
from affidavit.broker.limits import Limits
from affidavit.broker.marker import Marker
from affidavit.broker.outcome import Verdict
from affidavit.broker.push import PushReader
from affidavit.broker.redact import Forms
from affidavit.broker.results import Results
from affidavit.broker.signs import Answer
from affidavit.broker.sink import Kept, Pump
from affidavit.broker.ssh_words import forms_of, redacted
from affidavit.broker.stop import Stop
from affidavit.broker.stream import CallerStream, LiveOutput
from affidavit.broker.terms import Code, Effect, InvocationId, Phase
from affidavit.broker.vault.host_entry import Hop
from affidavit.broker.wire.port import Line
from affidavit.broker.wire.ssh.port import (
    SshEvidence,
    SshExchange,
    SshHop,
    SshKeyUnusable,
    SshLimits,
    SshRequest,
    SshWire,
    StdinBroken,
    Stream,
)
from affidavit.broker.work import Findings
from affidavit.journal import FileUnwritable

TERM = "TERM"

Lend = Callable[[Sequence[Hop]], Awaitable[tuple[Lent, ...]]]
"""The secrets of the whole way, lent for one action. Raises Stop where one cannot be used."""


class SshWork:
    """Owned by the broker's loop; lives as long as its channel is read."""

    def __init__(
        self,
        invocation_id: InvocationId,
        bound: SshBound,
        *,
        wire: Callable[[], SshWire],
        lend: Lend,
        results: Results,
        limits: Callable[[], Limits],
        may_end: Callable[[str], Awaitable[bool]],
        stream: CallerStream | None = None,
    ) -> None:
        """`stream`: the caller reads along, and gives the input where it is not bound. `may_end` records, before that
        is done, that the command is sent a signal."""
        self.bound = bound
        self._invocation_id = invocation_id
        self._wire = wire
        self._lend = lend
        self._results = results
        self._limits = limits
        self._stream = stream
        self._may_end = may_end
        reconcile = bound.contract.reconcile
        self._push = PushReader() if reconcile is not None and reconcile.by_refs else None
        self._lent: tuple[Lent, ...] = ()
        self._request: SshRequest | None = None
        self._exchange: _Keyed | None = None
        self._sink: _Sink | None = None
        self._marker: Marker | None = None
        self._cut = b""
        self._forms: Forms | None = None
        self._answer: Answer | None = None

    @property
    def answer(self) -> Answer | None:
        """What a look-up's command printed, where it ended with 0 and its output is whole and not too long."""
        return self._answer

    async def prepare(self) -> None:
        stream = self._stream
        stdin: bytes | AsyncIterator[bytes]
        if self.bound.stdin is not None:
            stdin = self.bound.stdin
        else:
            assert stream is not None, "streamed input has a caller"
            stdin = self._read_along(stream.parts())
        self._lent = await self._lend(self.bound.way)
        self._request = request_for(
            self.bound.way,
            self._lent,
            self.bound.command.encode(),
            stdin=stdin,
            env=self.bound.env,
            ready=self._attached if stream is not None else None,
        )

    def exchange(self, line: Line, deadline: float) -> _Keyed:
        assert self._request is not None, "prepare comes first"
        limits = self._limits()
        forms = self._forms = forms_of(self.bound.way, self._lent)
        capped = replace(limits, result=limits.ssh_output)
        self._marker = Marker(self.bound.marker.encode()) if self.bound.marker is not None else None
        self._sink = _Sink(
            lambda: self._results.intake(self._invocation_id, forms, limits=capped),
            self._results,
            self._marker,
            LiveOutput(self._stream, forms) if self._stream is not None else None,
        )
        self._exchange = _Keyed(
            self._wire().exchange(
                self._request,
                line=line,
                sink=self._sink,
                allow=lambda address: True,
                limits=SshLimits(dns_s=limits.dns_s, tcp_connect_s=limits.tcp_connect_s),
                deadline=deadline,
                reuse=self._reuse(),
            ),
            forms,
        )
        return self._exchange

    def recomputed(self) -> str:
        assert self._request is not None
        bound, request = self.bound, self._request
        named = (*bound.jumps, bound.hop)
        hops = tuple(
            _sent(hop, as_bound) for hop, as_bound in zip((*request.jumps, request.target), named, strict=True)
        )
        stdin = request.stdin if isinstance(request.stdin, bytes) else None
        command = request.command.decode("utf-8", "surrogateescape")
        return ssh_dispatch_fingerprint(bound.dispatch(hops[-1], hops[:-1], command, stdin, request.env))

    def started(self, status: int | None, headers: tuple[tuple[str, str], ...]) -> None:
        """The exec reply; output goes to the sink."""

    def verdict(self, evidence: SshEvidence) -> Verdict:
        return oc.ssh_verdict(evidence, self.bound.meaning, self.bound.exits, marked=self._marked)

    async def _read_along(self, parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The caller's input; what a push asks for is read as it passes, for its look-up. Where it breaks off the
        command is asked to end: left alone, it would take the part for the whole."""
        try:
            async for part in parts:
                if self._push is not None:
                    self._push.feed(part)
                yield part
        except StdinBroken:
            if await self._may_end(TERM):
                self.signal(TERM)
            raise

    async def _attached(self) -> None:
        """The caller is there. Stop where it is not: nothing was sent."""
        assert self._stream is not None
        if not await self._stream.attached():
            message = "Nobody was at the stream when the command was to be sent. Attach on stream.ready."
            raise Stop(oc.stop(Code.CALLER_CANCELLED, Phase.CONNECTION_SETUP), message=message)

    def findings(self, verdict: Verdict) -> Findings:
        return Findings()

    def deadline_verdict(self, evidence: SshEvidence, *, caller_gone: bool) -> Verdict:
        return oc.ssh_deadline_verdict(
            evidence, self.bound.meaning, self.bound.exits, caller_gone=caller_gone, marked=self._marked
        )

    async def keep(self, evidence: SshEvidence) -> Kept:
        assert self._sink is not None
        kept = await self._sink.finish()
        whole = evidence.complete or (self._marked and evidence.eof)
        if self._stream is not None:
            self._stream.close(whole=whole)
        if whole:
            if evidence.exit_status == 0 and kept.body.truncated_at is None:
                self._answer = Answer(200, {}, kept.inline)
            return kept
        assert kept.stderr is not None
        self._cut = (kept.inline or b"")[: self._limits().diagnostic]
        return replace(kept, body=replace(kept.body, cut=True), stderr=replace(kept.stderr, cut=True))

    def completed(self, evidence: SshEvidence, kept: Kept) -> ev.RemoteResponseComplete:
        signal = evidence.exit_signal
        return ev.RemoteResponseComplete(
            completion=evidence.completion or oc.ssh_completion(evidence),
            length=evidence.stdout_bytes + evidence.stderr_bytes,
            sha256=f"sha256:{kept.body.sha256}",
            exit_status=evidence.exit_status,
            exit_signal={"name": signal.name, "core_dumped": signal.core_dumped, "message": signal.message}
            if signal is not None
            else None,
            stdin=self.streamed(evidence),
        )

    def retry_after_s(self, evidence: SshEvidence) -> float | None:
        return None

    def diagnostic(self, evidence: SshEvidence) -> Mapping[str, Any] | None:
        if not self._cut:
            return None
        assert self._forms is not None, "exchange comes first"
        return diagnostic(self._cut, self._forms, "output that was cut; never a result")

    def streamed(self, evidence: SshEvidence) -> Mapping[str, Any] | None:
        if self.bound.stdin is not None:
            return None
        digest = evidence.stdin_sha256 or hashlib.sha256().hexdigest()
        told = {"bytes": evidence.stdin_bytes, "sha256": f"sha256:{digest}", "complete": evidence.stdin_complete}
        if self._push is None or self._push.updates is None:
            return told
        return {**told, "updates": [[each.ref, each.old, each.new] for each in self._push.updates]}

    def signal(self, name: str) -> bool:
        return self._exchange is not None and self._exchange.signal(name)

    async def discard(self) -> None:
        if self._sink is not None:
            await self._sink.discard()

    def release(self) -> None:
        if self._stream is not None:
            self._stream.close()
        for lent in self._lent:
            lent.wipe()

    @property
    def _marked(self) -> bool:
        """The contract's marker is the last line that came."""
        return self._marker is not None and self._marker.last

    def _reuse(self) -> str | None:
        """Reads and known-idempotent commands share a kept transport of the same way; others have a fresh one."""
        if self.bound.effect is not Effect.READ and not self.bound.meaning.idempotent:
            return None
        return reuse_key(self.bound.way)


def _sent(hop: SshHop, as_bound: SshHopBound) -> SshHopBound:
    """A hop as it is about to be dialled: address, port, user and pin from the buffer, the names as bound."""
    pin = hop.host_keys[0].identity if hop.host_keys else None
    return replace(as_bound, address=hop.host, port=hop.port, user=hop.user, host_key=pin)


class _Keyed:
    """An exchange whose login key may prove unusable: that stops the action, nothing being attempted. What its peers
    say in their own words is redacted."""

    def __init__(self, exchange: SshExchange, forms: Forms) -> None:
        self._exchange = exchange
        self._forms = forms
        self.close = exchange.close
        self.signal = exchange.signal

    @property
    def evidence(self) -> SshEvidence:
        return redacted(self._exchange.evidence, self._forms)

    async def run(self) -> SshEvidence:
        try:
            return redacted(await self._exchange.run(), self._forms)
        except SshKeyUnusable:
            raise Stop(oc.stop(Code.KEY_UNUSABLE, Phase.CREDENTIAL_INJECTION)) from None


class _Sink:
    """Takes both streams as they arrive (`ssh.port.SshSink`). Standard output is shown to the marker."""

    def __init__(
        self, intake: Callable[[], Intake], results: Results, marker: Marker | None, live: LiveOutput | None
    ) -> None:
        self._marker = marker
        self._live = live
        self._results = results
        self._pumps = {stream: Pump(intake(), results.pool) for stream in Stream}

    async def write(self, stream: Stream, data: bytes) -> None:
        if self._marker is not None and stream is Stream.STDOUT:
            self._marker.feed(data)
        if self._live is not None:
            self._live.offer(stream, data)
        await self._pumps[stream].write(data)
        if self._live is not None:
            await self._live.room()

    async def finish(self) -> Kept:
        """Make both durable, but for blobs. Raises FileUnwritable; then nothing is left of either."""
        if self._live is not None:
            self._live.finish()
        taken: list[Taken] = []
        try:
            for pump in self._pumps.values():
                taken.append(await pump.finish())
        except FileUnwritable:
            await self.discard()
            await self._results.delete(*(blob.id for one in taken for blob in one.blobs))
            raise
        stdout, stderr = taken
        return Kept(
            headers=(),
            body=stdout.body,
            blobs=(*stdout.blobs, *stderr.blobs),
            inline=stdout.inline,
            stderr=stderr.body,
            inline_stderr=stderr.inline,
        )

    async def discard(self) -> None:
        for pump in self._pumps.values():
            await pump.discard()
