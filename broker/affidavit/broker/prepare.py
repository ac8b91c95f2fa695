"""The request in a private buffer, and the way back from it to the fingerprint that was approved (R13, R15).

`prepare` adds what the broker itself sends (Host, Content-Length, Accept-Encoding, ...) and what the credential
injects. `recomputed` takes the buffer apart again, right before the first write: it is not told what was approved, so a
changed byte anywhere gives another fingerprint.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from affidavit.broker.bound import HttpBound
from affidavit.broker.fingerprint import Headers, dispatch_fingerprint
from affidavit.broker.inject import Injection
from affidavit.broker.redact import Forms
from affidavit.broker.vault.proxy import ProxyChoice
from affidavit.broker.wire.port import ClientCertificate, PreparedRequest
from affidavit.resources import __version__

OWN_HEADERS: tuple[tuple[str, str], ...] = (
    ("User-Agent", f"affidavit/{__version__}"),
    ("Accept", "*/*"),
    ("Accept-Encoding", "identity"),
)
"""Sent unless the agent set them. Identity keeps the answer's bytes the ones that the target's framing counts."""

BODY_METHODS = frozenset({"POST", "PUT", "PATCH"})
"""Methods that announce a length even of an empty body (RFC 9110, 8.6)."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A whole request, secret included, and what redaction must look for in its answer. Its repr names no value."""

    request: PreparedRequest = field(repr=False)
    whole: tuple[bytes, ...] = field(default=(), repr=False)
    """Injected values, redacted whatever their length."""
    secret: bytes = field(default=b"", repr=False)
    injected_headers: int = 0
    """How many of the request's headers, at the end, the credential added."""
    injected_query: bytes | None = field(default=None, repr=False)
    injected_body: bytes = field(default=b"", repr=False)
    client: ClientCertificate | None = None
    """What the target is shown in the TLS handshake."""

    @property
    def forms(self) -> Forms:
        """What is taken out of the answer."""
        return Forms((self.secret,), self.whole)


class Secrets(Protocol):
    """Where the engine gets secrets from, late."""

    async def injection(self, bound: HttpBound) -> Injection | None:
        """What the bound credential adds; None without one. Raises Stop where the secret cannot be used."""

    async def proxy(self, choice: ProxyChoice) -> Injection | None:
        """What the proxy asks for; None where it asks for nothing. Raises Stop as `injection`."""

    def refused(self, bound: HttpBound) -> None:
        """The target answered that it was not let in with this secret (401)."""


def prepare(bound: HttpBound, injection: Injection | None) -> Prepared:
    """Build the request. The order of headers: Host, the agent's, the broker's own, Content-Length, the injected."""
    injection = injection or Injection("none")
    given = {name.lower() for name, _ in bound.headers}
    body = bound.body + injection.body
    headers: list[tuple[bytes, bytes]] = [(b"Host", bound.target.authority.encode("ascii"))]
    headers += [(name.encode("ascii"), value.encode("latin-1")) for name, value in bound.headers]
    headers += [(n.encode("ascii"), v.encode("ascii")) for n, v in OWN_HEADERS if n.lower() not in given]
    if bound.has_body or bound.method in BODY_METHODS:
        headers.append((b"Content-Length", str(len(body)).encode("ascii")))
    target = bound.target.origin_form
    query = injection.query
    if query is not None:
        target += (b"&" if bound.target.query else b"" if bound.target.query is not None else b"?") + query
    request = PreparedRequest(
        method=bound.method,
        scheme=bound.target.scheme,
        host=bound.target.host,
        port=bound.target.port,
        target=target,
        headers=(*headers, *injection.headers),
        body=body,
    )
    return Prepared(
        request,
        whole=injection.whole,
        secret=injection.secret,
        injected_headers=len(injection.headers),
        injected_query=query,
        injected_body=injection.body,
        client=injection.client,
    )


def recomputed(bound: HttpBound, prepared: Prepared) -> str:
    """The dispatch fingerprint of what is about to go out; "" where the buffer does not fit what is bound at all."""
    request = prepared.request
    if (request.scheme, request.host, request.port) != (bound.target.scheme, bound.target.host, bound.target.port):
        return ""
    sent = request.headers[: len(request.headers) - prepared.injected_headers]
    target = request.target
    if prepared.injected_query is not None:
        target = target.removesuffix(prepared.injected_query)
        target = target[:-1] if target[-1:] in (b"&", b"?") and bound.target.query != "" else target
    given = {name.lower() for name, _ in bound.headers}
    own = {b"host", b"content-length"} | {n.lower().encode() for n, _ in OWN_HEADERS if n.lower() not in given}
    agent: Headers = tuple((n.decode("ascii"), v.decode("latin-1")) for n, v in sent if n.lower() not in own)
    url = bound.target.origin + target.decode("ascii")
    body = request.body.removesuffix(prepared.injected_body)
    return dispatch_fingerprint(bound.dispatch(request.method, url, agent, body))
