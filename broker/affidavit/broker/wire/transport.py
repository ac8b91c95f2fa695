"""The wire as an httpx transport: the same flight, pulled instead of pushed. The one place that imports httpx.

A request carries the engine's side in its extensions, and nothing reaches a target without it:

    request.extensions = {"line": Line, "allow": AddressCheck, "deadline": float,
                          "limits": SetupLimits (optional), "close_completes": bool (optional),
                          "tls": TlsTerms (optional), "proxy": ProxyRoute (optional), "reuse": str (optional)}

The transport is called without an `httpx.Client`, which would add headers, keep cookies and follow its environment.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx

from affidavit.broker.wire.exchange import DirectWire, Flight
from affidavit.broker.wire.port import HttpEvidence, PreparedRequest, SetupLimits

_PORTS = {"http": 80, "https": 443}


class NoCompleteAnswer(httpx.TransportError):
    """The exchange ended without a complete answer; `evidence` says how far it came. The class says nothing of that."""

    def __init__(self, evidence: HttpEvidence, request: httpx.Request) -> None:
        super().__init__(evidence.observation or "set-up stopped", request=request)
        self.evidence = evidence


class EvidenceTransport(httpx.AsyncBaseTransport):
    """Sends exactly the request's own headers and body over a connection of its own, and returns the raw answer.

    `response.extensions["flight"].evidence` is the evidence, at any time. The stream gives the body with its content
    coding kept, and raises NoCompleteAnswer where the body is not framed to its end (R31).
    """

    def __init__(self, wire: DirectWire) -> None:
        self._wire = wire

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Returns with the final head. Raises NoCompleteAnswer, what the line raises, ValueError and KeyError."""
        flight = self._wire.flight(
            await _prepare(request),
            line=request.extensions["line"],
            allow=request.extensions["allow"],
            limits=request.extensions.get("limits") or SetupLimits(),
            deadline=request.extensions["deadline"],
            close_completes=request.extensions.get("close_completes", False),
            tls=request.extensions.get("tls"),
            proxy=request.extensions.get("proxy"),
            reuse=request.extensions.get("reuse"),
        )
        first = await flight.start()
        evidence = flight.evidence
        if evidence.status is None:
            raise NoCompleteAnswer(evidence, request)
        return httpx.Response(
            evidence.status,
            headers=[(name.encode("ascii"), value.encode("latin-1")) for name, value in evidence.headers],
            stream=_Body(flight, first, request),
            extensions={"flight": flight},
        )


class _Body(httpx.AsyncByteStream):
    """What is left of a flight, as httpx reads it."""

    def __init__(self, flight: Flight, first: list[bytes], request: httpx.Request) -> None:
        self._flight = flight
        self._first = first
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self._first:
            yield part
        async for part in self._flight.parts():
            yield part
        evidence = self._flight.evidence
        if not evidence.complete:
            raise NoCompleteAnswer(evidence, self._request)

    async def aclose(self) -> None:
        self._flight.close()


async def _prepare(request: httpx.Request) -> PreparedRequest:
    url = request.url
    return PreparedRequest(
        method=request.method,
        scheme=url.scheme,
        host=url.raw_host.decode("ascii"),
        port=url.port or _PORTS.get(url.scheme, 0),
        target=url.raw_path,
        headers=tuple(request.headers.raw),
        body=await request.aread(),
    )
