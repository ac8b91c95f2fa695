"""What the operator's trust and proxy mean for one target, in the words of the wire. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from affidavit.broker.bound import HttpBound
from affidavit.broker.inject import Injection
from affidavit.broker.limits import Limits
from affidavit.broker.target import HttpTarget, parse_http
from affidavit.broker.terms import Effect
from affidavit.broker.vault.proxy import ProxyChoice
from affidavit.broker.vault.trust import Anchor, trust_for
from affidavit.broker.wire.port import ClientCertificate, ProxyRoute, TlsTerms


@dataclass(frozen=True, slots=True)
class Egress:
    """How one exchange leaves: what TLS goes by, by which proxy, and whose connections it may share."""

    tls: TlsTerms | None = None
    proxy: ProxyRoute | None = None
    reuse: str | None = None


def egress_of(
    bound: HttpBound, anchors: Iterable[Anchor], client: ClientCertificate | None, asked: Injection | None
) -> Egress:
    """The way out of a bound action. Only reads share connections, and only with the same origin, credential version
    and TLS identity (R35); a write has a fresh one."""
    known = tuple(anchors)
    tls = tls_terms(known, bound.target, client)
    proxy = None
    if bound.proxy is not None:
        proxy = proxy_route(known, bound.proxy, asked.headers[0][1] if asked is not None else None)
    reuse = None
    if bound.effect is Effect.READ:
        whose = (bound.target.origin, bound.credential_id, bound.credential_version, tls.authorities, bound.proxy)
        reuse = hashlib.sha256(repr(whose).encode()).hexdigest()
    return Egress(tls, proxy, reuse)


def tls_terms(anchors: Iterable[Anchor], target: HttpTarget, client: ClientCertificate | None = None) -> TlsTerms:
    """What TLS with this target goes by."""
    return TlsTerms(authorities=_authorities(anchors, target), client=client)


def proxy_route(anchors: Iterable[Anchor], choice: ProxyChoice, authorization: bytes | None = None) -> ProxyRoute:
    """The chosen proxy; `authorization` is the value that `inject.inject_proxy` made."""
    return ProxyRoute(
        host=choice.host,
        port=choice.port,
        tls=choice.scheme == "https",
        authorization=authorization,
        authorities=_authorities(anchors, parse_http(choice.url, Limits())),
    )


def speaks_for_itself(proxy: ProxyChoice | None, anchors: Iterable[Anchor], target: HttpTarget) -> bool:
    """Whether a Proxy-Status behind this proxy can be its own word, and the operator vouches for that.

    A tunnel is closed to the proxy that opened it. One that ends TLS itself writes into the answer, under an authority
    that the operator has added for the target (docs/decisions, 0018).
    """
    return proxy is not None and proxy.trusted and bool(trust_for(anchors, target))


def _authorities(anchors: Iterable[Anchor], target: HttpTarget) -> bytes:
    return "".join(trust_for(anchors, target)).encode("ascii")
