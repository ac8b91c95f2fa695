"""What the operator's trust and proxy mean for one target, in the words of the wire. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from affidavit.broker.limits import Limits
from affidavit.broker.target import HttpTarget, parse_http
from affidavit.broker.vault.proxy import ProxyChoice
from affidavit.broker.vault.trust import Anchor, trust_for
from affidavit.broker.wire.port import ClientCertificate, ProxyRoute, TlsTerms


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


def _authorities(anchors: Iterable[Anchor], target: HttpTarget) -> bytes:
    return "".join(trust_for(anchors, target)).encode("ascii")
