"""One HTTP action's work on the HTTP wire (`work.Work`)."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any

from affidavit.broker import events as ev
from affidavit.broker import outcome as oc
from affidavit.broker.bound import HttpBound
from affidavit.broker.egress import Egress
from affidavit.broker.headers import chosen, remote_request_id, retry_after
from affidavit.broker.inject import Injection
from affidavit.broker.limits import Limits
from affidavit.broker.moment import Clock
from affidavit.broker.outcome import Verdict
from affidavit.broker.prepare import Prepared, Secrets, prepare, recomputed
from affidavit.broker.results import Results
from affidavit.broker.sink import Kept, ResultSink
from affidavit.broker.stop import Stop
from affidavit.broker.terms import Code, InvocationId, Phase
from affidavit.broker.wire.port import (
    ClientCertificate,
    Exchange,
    HttpEvidence,
    HttpWire,
    KeyUnusable,
    Line,
    SetupLimits,
)

EgressOf = Callable[[HttpBound, ClientCertificate | None, Injection | None], Egress]
"""The way out of a bound action, with what the target is shown and what its proxy asks for. Raises Stop."""


class HttpWork:
    """Owned by the broker's loop; lives as long as its connection is read."""

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
        self._sink: ResultSink | None = None

    async def prepare(self) -> None:
        self._prepared = prepare(self.bound, await self._secrets.injection(self.bound))
        choice = self.bound.proxy
        asked = await self._secrets.proxy(choice) if choice is not None else None
        self._way = self._egress(self.bound, self._prepared.client, asked)

    def exchange(self, line: Line, deadline: float) -> Exchange:
        prepared, limits = self._ready, self._limits()
        self._sink = self._results.sink(self._invocation_id, prepared)
        exchange = self._wire().exchange(
            prepared.request,
            line=line,
            sink=self._sink,
            allow=self.bound.allow,
            limits=SetupLimits(limits.dns_s, limits.tcp_connect_s, limits.tls_handshake_s),
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

    def verdict(self, evidence: HttpEvidence) -> Verdict:
        return oc.http_verdict(evidence, self.bound.meaning)

    def deadline_verdict(self, evidence: HttpEvidence, *, caller_gone: bool) -> Verdict:
        return oc.deadline_verdict(evidence, self.bound.meaning, caller_gone=caller_gone)

    async def keep(self, evidence: HttpEvidence) -> Kept:
        return await self._receiving.finish()

    def completed(self, evidence: HttpEvidence, kept: Kept) -> ev.RemoteResponseComplete:
        return ev.RemoteResponseComplete(
            completion=evidence.completion or "",
            status=evidence.status,
            headers=chosen(kept.headers),
            remote_request_id=remote_request_id(kept.headers),
            length=evidence.body_bytes,
            sha256=f"sha256:{kept.body.sha256}",
        )

    def retry_after_s(self, evidence: HttpEvidence) -> float | None:
        return retry_after(evidence.headers, self._clock.wall())

    def diagnostic(self, evidence: HttpEvidence) -> Mapping[str, Any] | None:
        if not evidence.diagnostic:
            return None
        cleaned = self._secrets.redacted(self.bound, evidence.diagnostic[: self._limits().diagnostic])
        return {
            "bytes": len(cleaned),
            "base64": base64.b64encode(cleaned).decode(),
            "note": "an incomplete answer; never a result",
        }

    async def discard(self) -> None:
        if self._sink is not None:
            await self._sink.discard()

    def release(self) -> None:
        self._secrets.release(self.bound)

    @property
    def _ready(self) -> Prepared:
        assert self._prepared is not None, "prepare comes first"
        return self._prepared

    @property
    def _receiving(self) -> ResultSink:
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
