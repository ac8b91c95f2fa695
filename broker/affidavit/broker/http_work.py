"""One HTTP action's work on the HTTP wire (`work.Work`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from affidavit.broker import events as ev
from affidavit.broker import outcome as oc
from affidavit.broker.batch import outcomes
from affidavit.broker.bound import HttpBound
from affidavit.broker.diagnostic import diagnostic, readable
from affidavit.broker.egress import Egress
from affidavit.broker.headers import chosen, only_location, remote_request_id, retry_after
from affidavit.broker.inject import Injection
from affidavit.broker.jobs import may_follow
from affidavit.broker.limits import Limits
from affidavit.broker.moment import Clock
from affidavit.broker.outcome import Verdict
from affidavit.broker.prepare import Prepared, Secrets, prepare, recomputed
from affidavit.broker.reads import consistency
from affidavit.broker.results import Results, ResultUnreadable
from affidavit.broker.signs import READ_MAX, Answer, job_reference, judged
from affidavit.broker.sink import Kept, MemorySink, ResultSink
from affidavit.broker.stop import Stop
from affidavit.broker.terms import Code, Effect, InvocationId, Phase
from affidavit.broker.wire.port import (
    ClientCertificate,
    Exchange,
    HttpEvidence,
    HttpWire,
    KeyUnusable,
    Line,
    SetupLimits,
)
from affidavit.broker.work import Findings, Redirection

UNAUTHORIZED = 401
"""RFC 9110, 15.5.2."""

EgressOf = Callable[[HttpBound, ClientCertificate | None, Injection | None], Egress]
"""The way out of a bound action, with what the target is shown and what its proxy asks for. Raises Stop."""


class HttpWork:
    """Owned by the broker's loop; lives as long as its connection is read.

    With `stored` false the body of the answer is held in memory alone, and nothing of it is ever kept: it may hold new
    secrets, which redaction cannot know.
    """

    def __init__(
        self,
        invocation_id: InvocationId,
        bound: HttpBound,
        *,
        wire: Callable[[], HttpWire],
        secrets: Secrets,
        results: Results,
        egress: EgressOf,
        limits: Callable[[], Limits],
        clock: Clock,
        stored: bool = True,
    ) -> None:
        self.bound = bound
        self._invocation_id = invocation_id
        self._wire = wire
        self._secrets = secrets
        self._results = results
        self._limits = limits
        self._clock = clock
        self._egress = egress
        self._prepared: Prepared | None = None
        self._way = Egress()
        self._stored = stored
        self._sink: ResultSink | MemorySink | None = None
        self._answer: Answer | None = None
        self._location: str | None = None

    @property
    def answer(self) -> Answer | None:
        """The complete answer as a contract reads it, once it was kept."""
        return self._answer

    async def prepare(self) -> None:
        self._prepared = prepare(self.bound, await self._secrets.injection(self.bound))
        choice = self.bound.proxy
        asked = await self._secrets.proxy(choice) if choice is not None else None
        self._way = self._egress(self.bound, self._prepared.client, asked)

    def exchange(self, line: Line, deadline: float) -> Exchange:
        prepared, limits = self._ready, self._limits()
        self._sink = self._results.sink(self._invocation_id, prepared) if self._stored else MemorySink(prepared)
        exchange = self._wire().exchange(
            prepared.request,
            line=line,
            sink=self._sink,
            allow=self.bound.allow,
            limits=SetupLimits(limits.dns_s, limits.tcp_connect_s, limits.tls_handshake_s, limits.proxy_tunnel_s),
            deadline=deadline,
            close_completes=self.bound.close_completes,
            tls=self._way.tls,
            proxy=self._way.proxy,
            reuse=self._way.reuse,
        )
        return _Keyed(exchange) if prepared.client is not None else exchange

    def recomputed(self) -> str:
        return recomputed(self.bound, self._ready)

    def started(self, status: int | None, headers: tuple[tuple[str, str], ...]) -> None:
        self._receiving.start(headers)

    def deadline_verdict(self, evidence: HttpEvidence, *, caller_gone: bool) -> Verdict:
        return oc.deadline_verdict(evidence, self.bound.meaning, caller_gone=caller_gone)

    async def keep(self, evidence: HttpEvidence) -> Kept:
        if not evidence.complete:
            return await self._receiving.cut(evidence.body_bytes)
        kept = await self._receiving.finish()
        if evidence.status == UNAUTHORIZED:
            self._secrets.refused(self.bound)
        if evidence.status is not None:
            self._answer = Answer(evidence.status, oc.joined(kept.headers), await self._readable(kept))
            self._location = only_location(evidence.headers, kept.headers)
        return kept

    async def _readable(self, kept: Kept) -> bytes | None:
        """The body as a contract reads it; None where it cannot be read whole."""
        body = kept.body
        if isinstance(self._sink, MemorySink):
            return self._sink.body
        if not self.bound.reads_body or body.undecodable is not None or body.truncated_at is not None:
            return None
        if kept.inline is not None:
            return kept.inline
        if body.stored_bytes > READ_MAX:
            return None
        try:
            return b"".join([await self._results.chunk(body, n) for n in range(body.chunks)])
        except ResultUnreadable:
            return None

    def verdict(self, evidence: HttpEvidence) -> Verdict:
        verdict = oc.http_verdict(evidence, self.bound.meaning)
        if self._answer is None or not evidence.complete:
            return verdict
        return judged(verdict, self._answer, self.bound.contract, self.bound.meaning)

    def findings(self, verdict: Verdict) -> Findings:
        bound, contract, answer = self.bound, self.bound.contract, self._answer
        if answer is None:
            return Findings()
        job = None
        if contract.job is not None and verdict.code is Code.JOB_ACCEPTED:
            job = job_reference(contract.job, answer, bound.target)
        items = None
        if contract.batch is not None and bound.items is not None:
            items = outcomes(contract.batch, bound.items, verdict.outcome, answer)
        version = consistency(bound.read_for, contract.read, answer) if bound.effect is Effect.READ else None
        follow = job is not None and may_follow(job, bound.target, bound.credential)
        redirect = None
        if verdict.code is Code.REDIRECT_NOT_FOLLOWED:
            redirect = Redirection(answer.status, self._location)
        return Findings(items, job, follow, version, redirect)

    def completed(self, evidence: HttpEvidence, kept: Kept) -> ev.RemoteResponseComplete:
        return ev.RemoteResponseComplete(
            completion=evidence.completion or oc.RECEIPT,
            status=evidence.status,
            headers=chosen(kept.headers),
            remote_request_id=remote_request_id(kept.headers),
            length=evidence.body_bytes,
            sha256=f"sha256:{kept.body.sha256}" if evidence.complete else None,
        )

    def retry_after_s(self, evidence: HttpEvidence) -> float | None:
        """The longest pause that the answer asks for, by the contract's header and by Retry-After."""
        named, now = self.bound.contract.retry.after, self._clock.wall()
        asked = [retry_after(evidence.headers, now)]
        if named is not None:
            asked.append(retry_after(evidence.headers, now, name=named.header, epoch=named.epoch))
        return max((wait_s for wait_s in asked if wait_s is not None), default=None)

    def diagnostic(self, evidence: HttpEvidence) -> Mapping[str, Any] | None:
        if not evidence.diagnostic or not self._stored:
            return None
        told = readable(evidence.diagnostic[: self._limits().diagnostic], framed=evidence.status is not None)
        return diagnostic(told, self._ready.forms, "an incomplete answer; never a result")

    def signal(self, name: str) -> bool:
        return False

    def streamed(self, evidence: HttpEvidence) -> None:
        """An HTTP body is bound whole."""

    async def discard(self) -> None:
        if self._sink is not None:
            await self._sink.discard()

    def release(self) -> None:
        """What goes out is held until the answer has ended, also after a lock: a late echo of it is redacted."""

    @property
    def _ready(self) -> Prepared:
        assert self._prepared is not None, "prepare comes first"
        return self._prepared

    @property
    def _receiving(self) -> ResultSink | MemorySink:
        assert self._sink is not None, "exchange comes first"
        return self._sink


class _Keyed:
    """An exchange with a client certificate: a key that cannot be used stops the action, nothing being attempted."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self.close = exchange.close

    @property
    def evidence(self) -> HttpEvidence:
        return self._exchange.evidence

    async def run(self) -> HttpEvidence:
        try:
            return await self._exchange.run()
        except KeyUnusable:
            raise Stop(oc.stop(Code.KEY_UNUSABLE, Phase.CREDENTIAL_INJECTION)) from None
