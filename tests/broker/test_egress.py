"""The operator's trust and proxy in the words of the wire."""

from tests.broker.vault.authority import Authority

from affidavit.broker.egress import proxy_route, tls_terms
from affidavit.broker.limits import Limits
from affidavit.broker.secret import Secret
from affidavit.broker.target import parse_http
from affidavit.broker.terms import Micros
from affidavit.broker.vault.proxy import checked as checked_proxy
from affidavit.broker.vault.proxy import route_for
from affidavit.broker.vault.trust import checked
from affidavit.broker.wire.port import ClientCertificate, ProxyRoute, TlsTerms

NOW = Micros(1_796_000_000_000_000)
CA, OTHER = Authority("a", NOW), Authority("b", NOW)
ANCHORS = (
    checked("a", CA.pem, ("https://*.corp.example",), NOW),
    checked("b", OTHER.pem, ("https://api.corp.example", "https://proxy.example:3128"), NOW),
)
TARGET = parse_http("https://api.corp.example/v1", Limits())


def test_a_target_is_trusted_by_its_authorities_alone() -> None:
    assert tls_terms(ANCHORS, TARGET) == TlsTerms(authorities=(CA.pem + OTHER.pem).encode())
    assert tls_terms(ANCHORS, parse_http("https://api.example/", Limits())) == TlsTerms()
    client = ClientCertificate(b"PEM", Secret(b"key"))
    assert tls_terms((), TARGET, client).client is client


def test_a_proxy_has_authorities_of_its_own() -> None:
    for url, route in (
        (
            "https://proxy.example:3128",
            ProxyRoute("proxy.example", 3128, tls=True, authorization=b"Basic x", authorities=OTHER.pem.encode()),
        ),
        ("http://proxy.example:3128", ProxyRoute("proxy.example", 3128, authorization=b"Basic x")),
    ):
        choice = route_for(checked_proxy(url, (), credential_id=None, trusted=False, now=NOW), TARGET)
        assert choice is not None
        assert proxy_route(ANCHORS, choice, b"Basic x") == route
