"""Private authorities: for which targets each is trusted, and how they are kept."""

import pytest
from tests.broker.vault.authority import Authority

from affidavit.broker.limits import Limits
from affidavit.broker.moment import SystemClock, after
from affidavit.broker.target import parse_http
from affidavit.broker.terms import Micros
from affidavit.broker.vault import Conflict, Invalid, NotKnown, Vault, VaultLocked, trust_for
from affidavit.broker.vault import trust as module
from affidavit.broker.vault.trust import Anchor, checked

NOW = SystemClock().wall()
CA = Authority("corp", NOW)
OTHER = Authority("other", NOW, lasts_s=1800)


def anchor(*targets: str, pem: str = CA.pem) -> Anchor:
    return checked("corp", pem, targets, NOW)


@pytest.mark.parametrize(
    ("pattern", "url", "trusted"),
    [
        ("https://a.example", "https://a.example/v1/x?y=z", True),
        ("https://a.example/v1/*", "https://a.example/v2", True),
        ("https://A.example:443/", "https://a.example/", True),
        ("https://a.example", "https://a.example:8443/", False),
        ("https://a.example:8443", "https://a.example:8443/x", True),
        ("https://a.example", "https://b.example/", False),
        ("https://*.corp.example", "https://a.corp.example/x", True),
        ("https://*.corp.example", "https://corp.example/", False),
        ("https://[2001:db8::1]:8443", "https://[2001:db8::1]:8443/x", True),
        ("https://127.0.0.1:8443/", "https://127.0.0.1:8443/x", True),
        ("https://a.example", "http://localhost/", False),
    ],
)
def test_an_authority_vouches_for_its_servers_alone(pattern: str, url: str, trusted: bool) -> None:
    found = trust_for([anchor(pattern)], parse_http(url, Limits()))
    assert found == ((CA.pem,) if trusted else ())


def test_every_authority_of_a_target_counts() -> None:
    both = [anchor("https://*.example"), anchor("https://b.example", "https://a.example", pem=OTHER.pem)]
    assert trust_for(both, parse_http("https://a.example/", Limits())) == (CA.pem, OTHER.pem)


def test_what_is_kept_of_an_authority() -> None:
    made = checked("corp", f"# ours\n{CA.pem}{OTHER.pem}", ("https://a.example", "https://A.example/x"), NOW)
    assert made.targets == ("https://a.example/**",)
    assert made.pem == CA.pem + OTHER.pem
    assert made.subjects == ("CN=corp", "CN=other")
    assert made.expires_at == after(Micros(NOW // 1_000_000 * 1_000_000), 1800)
    assert made.digest != anchor("https://a.example").digest


@pytest.mark.parametrize(
    ("name", "ca", "targets", "field"),
    [
        ("a b", CA.pem, ("https://a.example",), "name"),
        ("corp", CA.pem, (), "target"),
        ("corp", CA.pem, ("http://localhost",), "target"),
        ("corp", CA.pem, ("a.example",), "target"),
        ("corp", "", ("https://a.example",), "ca"),
        ("corp", CA.client("leaf", NOW)[0], ("https://a.example",), "ca"),
        ("corp", CA.pem + CA.client("leaf", NOW)[0], ("https://a.example",), "ca"),
        ("corp", Authority("old", NOW, lasts_s=-1).pem, ("https://a.example",), "ca"),
    ],
)
def test_what_does_not_fit_names_its_field(name: str, ca: str, targets: tuple[str, ...], field: str) -> None:
    with pytest.raises(Invalid) as caught:
        checked(name, ca, targets, NOW)
    assert caught.value.field == field
    assert caught.value.remedy


def test_add_list_remove(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    assert vault.trust.list() == ()
    made = vault.trust.add("corp", CA.pem, ("https://a.example",))
    other = vault.trust.add("b", OTHER.pem, ("https://b.example",))
    assert vault.trust.list() == (other, made)
    with pytest.raises(Conflict):
        vault.trust.add("corp", OTHER.pem, ("https://a.example",))
    monkeypatch.setattr(module, "ANCHORS_MAX", 2)
    with pytest.raises(Invalid, match="at most"):
        vault.trust.add("third", OTHER.pem, ("https://a.example",))
    vault.lock()
    with pytest.raises(VaultLocked):
        vault.trust.list()
    vault.unlock(bytearray(b"correct horse"))
    assert vault.trust.list() == (other, made)
    assert vault.trust.remove("corp") == made
    assert vault.trust.list() == (other,)
    with pytest.raises(NotKnown):
        vault.trust.remove("corp")
