"""The proxy: which targets go through it, and what may be one."""

from dataclasses import replace
from typing import Any

import pytest

from affidavit.broker.limits import Limits
from affidavit.broker.target import parse_http
from affidavit.broker.terms import Micros
from affidavit.broker.vault import (
    Conflict,
    CredentialId,
    Invalid,
    NewCredential,
    NotKnown,
    Proxy,
    ProxyChoice,
    Vault,
    VaultLocked,
    route_for,
)
from affidavit.broker.vault.proxy import NO_PROXY_MAX, checked, sends_in_clear

NOW = Micros(1_796_000_000_000_000)
URL = "http://proxy.example.com:3128"


def proxy(url: str = URL, *no_proxy: str, credential_id: str | None = None, trusted: bool = False) -> Proxy:
    known = None if credential_id is None else CredentialId(credential_id)
    return checked(url, no_proxy, credential_id=known, trusted=trusted, now=NOW)


def route(proxy: Proxy | None, url: str) -> ProxyChoice | None:
    return route_for(proxy, parse_http(url, Limits()))


@pytest.mark.parametrize(
    ("no_proxy", "url", "through"),
    [
        ((), "https://api.example.com/", True),
        ((), "https://10.0.0.1/", True),
        ((), "http://localhost:8080/", False),
        ((), "https://localhost/", False),
        ((), "https://127.9.9.9:8443/", False),
        ((), "https://[::1]/", False),
        (("api.example.com",), "https://api.example.com:8443/v1", False),
        (("API.example.com",), "https://api.example.com/", False),
        (("example.com",), "https://api.example.com/", True),
        (("*.example.com",), "https://api.example.com/", False),
        (("*.example.com",), "https://a.api.example.com/", True),
        (("other.example", "10.0.0.1"), "https://10.0.0.1/", False),
        (("2001:db8::1",), "https://[2001:db8::1]/", False),
        (("[2001:DB8::1]",), "https://[2001:db8::1]/", False),
    ],
)
def test_which_targets_go_through_it(no_proxy: tuple[str, ...], url: str, through: bool) -> None:
    assert (route(proxy(URL, *no_proxy), url) is not None) is through


def test_no_proxy_is_a_direct_connection() -> None:
    assert route(None, "https://api.example.com/") is None


def test_the_choice_has_what_the_wire_dials() -> None:
    made = route(proxy("https://[2001:DB8::1]:443/", credential_id="cred_1", trusted=True), "https://a.example/")
    assert made == ProxyChoice("https://[2001:db8::1]:443", "https", "2001:db8::1", 443, CredentialId("cred_1"), True)
    made = route(proxy("http://Proxy.example.com:80"), "https://a.example/")
    assert made == ProxyChoice("http://proxy.example.com:80", "http", "proxy.example.com", 80, None, False)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "proxy.example.com:3128",
        "socks5://proxy.example.com:1080",
        "http://proxy.example.com",
        "http://[::1]",
        "http://proxy.example.com:3128/path",
        "http://proxy.example.com:3128/?a=b",
        "http://proxy.example.com:0",
        "http://169.254.169.254:80",
    ],
)
def test_what_is_no_proxy(url: str) -> None:
    with pytest.raises(Invalid) as caught:
        proxy(url)
    assert (caught.value.field, bool(caught.value.remedy)) == ("url", True)


def test_a_user_name_in_the_url_is_sent_to_the_vault() -> None:
    with pytest.raises(Invalid) as caught:
        proxy("http://ada:planted@proxy.example.com:3128")
    assert "--credential" in caught.value.remedy
    assert "planted" not in f"{caught.value.message}{caught.value.remedy}"


@pytest.mark.parametrize(
    "host", ["", "a b", "https://a.example", "a.example/x", "a.example:443", "a.example:80", "**", "a?b", "::1]"]
)
def test_an_excepted_host_is_a_host_alone(host: str) -> None:
    with pytest.raises(Invalid) as caught:
        proxy(URL, host)
    assert caught.value.field == "no_proxy"


def test_there_is_a_limit_of_excepted_hosts() -> None:
    assert len(proxy(URL, *(f"h{n}.example" for n in range(NO_PROXY_MAX))).no_proxy) == NO_PROXY_MAX
    with pytest.raises(Invalid):
        proxy(URL, *("a.example" for _ in range(NO_PROXY_MAX + 1)))
    assert proxy(URL, "A.example", "a.example").no_proxy == ("a.example",)


def test_a_credential_in_clear_is_known() -> None:
    assert sends_in_clear(proxy(credential_id="cred_1"))
    assert not sends_in_clear(proxy())
    assert not sends_in_clear(proxy("https://proxy.example.com:3128", credential_id="cred_1"))
    assert not sends_in_clear(proxy("http://127.0.0.1:3128", credential_id="cred_1"))


def test_the_digest_tells_every_change() -> None:
    first = proxy(URL, "a.example")
    others = [
        proxy("http://other.example.com:3128", "a.example"),
        proxy(URL),
        replace(first, trusted=True),
        replace(first, credential_id=CredentialId("cred_1")),
    ]
    assert len({each.digest for each in [first, *others]}) == 5
    assert replace(first, set_at=Micros(0)).digest == first.digest


def put(vault: Vault, url: str = URL, **more: Any) -> tuple[Proxy | None, Proxy]:
    return vault.proxy.set(url, **{"credential": None, "no_proxy": (), "trusted": False, **more})


def test_set_get_off(vault: Vault) -> None:
    assert vault.proxy.get() is None
    before, first = put(vault, no_proxy=("a.example",), trusted=True)
    assert before is None
    assert vault.proxy.get() == first
    before, second = put(vault, "https://other.example.com:443")
    assert before == first
    vault.lock()
    with pytest.raises(VaultLocked):
        vault.proxy.get()
    vault.unlock(bytearray(b"correct horse"))
    assert vault.proxy.get() == second
    assert vault.proxy.off() == second
    assert vault.proxy.get() is None
    assert vault.proxy.off() is None


def test_its_credential_is_of_the_vault_and_fits(vault: Vault) -> None:
    def add(name: str, kind: str, **more: Any) -> CredentialId:
        new = NewCredential(name, kind, ("https://proxy.example.com/",), **more)
        return vault.credentials.add(new, bytearray(b"planted-secret")).credential.credential_id

    known = add("corp", "basic", username="ada")
    add("key", "query")
    with pytest.raises(NotKnown) as missing:
        put(vault, credential="ghost")
    with pytest.raises(Invalid) as unfit:
        put(vault, credential="key")
    assert (missing.value.field, unfit.value.field) == ("credential", "credential")
    assert vault.proxy.get() is None
    assert put(vault, credential="corp")[1].credential_id == known
    with pytest.raises(Conflict):
        vault.credentials.remove("corp")
    assert vault.credentials.of(known).name == "corp"
    vault.proxy.off()
    vault.credentials.remove("corp")
    with pytest.raises(NotKnown):
        vault.credentials.of(known)
