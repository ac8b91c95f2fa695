"""Which credentials are taken in, what is warned of, and what a version means."""

from dataclasses import replace
from typing import Any

import pytest
from tests.broker.vault import ssh_keys
from tests.broker.vault.authority import Authority

from affidavit.broker.contract.pattern import UrlPattern
from affidavit.broker.moment import SystemClock
from affidavit.broker.terms import ApprovalMode, Micros
from affidavit.broker.vault import (
    CAUTIONS,
    Caution,
    Conflict,
    CredentialId,
    Invalid,
    NewCredential,
    NotKnown,
    Vault,
)
from affidavit.broker.vault import credentials as module
from affidavit.broker.vault.credentials import TARGETS_MAX, cautions, checked, is_loopback
from affidavit.broker.vault.kinds import MutualTlsOptions, shown_options

NOW = Micros(1_796_000_000_000_000)
BEARER = NewCredential("prod", "bearer", ("https://api.example.com/v1/x",))
LONG = b"0123456789"


def secret(value: bytes = LONG) -> bytearray:
    return bytearray(value)


def refused(new: NewCredential) -> Invalid:
    with pytest.raises(Invalid) as caught:
        checked(new, NOW)
    assert caught.value.message
    assert caught.value.remedy
    return caught.value


def test_a_new_credential_is_version_1() -> None:
    made = checked(BEARER, NOW)
    assert (made.version, made.created_at, made.rotated_at) == (1, NOW, NOW)


def test_approval_and_private_are_kept() -> None:
    made = checked(replace(BEARER, approval="passphrase", private=True), NOW)
    assert (made.approval, made.private) == (ApprovalMode.PASSPHRASE, True)
    assert checked(BEARER, NOW).approval is None


def test_several_targets_in_one_spelling_and_once_each() -> None:
    made = checked(
        replace(BEARER, targets=("https://A.example:443/x", "https://a.example/x", "https://b.example/**")), NOW
    )
    assert made.targets == (UrlPattern.parse("https://a.example/x").text, UrlPattern.parse("https://b.example/**").text)


def test_one_loopback_target_of_several_is_warned_of() -> None:
    made = checked(replace(BEARER, targets=("https://a.example/x", "http://localhost:8080/y")), NOW)
    assert cautions(made, secret()) == (Caution.LOOPBACK_TARGET,)


def test_ids_are_never_the_same() -> None:
    assert len({checked(BEARER, NOW).credential_id for _ in range(100)}) == 100


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "x" * 64])
def test_good_names(name: str) -> None:
    assert checked(replace(BEARER, name=name), NOW).name == name


@pytest.mark.parametrize("name", ["", "x" * 65, "a b", "ä", "a/b", "a\n", "${x}"])
def test_bad_names(name: str) -> None:
    assert refused(replace(BEARER, name=name)).field == "name"


@pytest.mark.parametrize(
    ("new", "field"),
    [
        (replace(BEARER, kind="cookie"), "kind"),
        (replace(BEARER, kind=""), "kind"),
        (replace(BEARER, targets=("api.example.com",)), "target"),
        (replace(BEARER, targets=("ftp://api.example.com/",)), "target"),
        (replace(BEARER, targets=("http://api.example.com/",)), "target"),
        (replace(BEARER, targets=("http://10.0.0.1/",)), "target"),
        (replace(BEARER, targets=()), "target"),
        (replace(BEARER, targets=("https://a.example/", "nonsense")), "target"),
        (replace(BEARER, targets=tuple(f"https://a.example/{n}" for n in range(TARGETS_MAX + 1))), "target"),
        (replace(BEARER, approval="sometimes"), "approval"),
    ],
)
def test_what_does_not_fit_names_its_field(new: NewCredential, field: str) -> None:
    assert refused(new).field == field


@pytest.mark.parametrize(
    ("target", "loopback"),
    [
        ("http://localhost:8080/", True),
        ("http://127.9.9.9/**", True),
        ("http://[::1]:80/", True),
        ("https://[::ffff:127.0.0.1]/", True),
        ("https://127.0.0.1.example.com/", False),
        ("https://localhost.example.com/", False),
        ("https://10.0.0.1/", False),
        ("https://[::2]/", False),
    ],
)
def test_loopback_targets(target: str, loopback: bool) -> None:
    assert is_loopback(UrlPattern.parse(target)) is loopback
    found = cautions(checked(replace(BEARER, targets=(target,)), NOW), secret())
    assert (Caution.LOOPBACK_TARGET in found) is loopback


@pytest.mark.parametrize(
    ("path", "covers"),
    [
        ("/**", True),
        ("/v1/*", True),
        ("/oauth/token", True),
        ("/oauth/tokens", True),
        ("/oauth/tok*", True),
        ("/*token", True),
        ("/oauth/token?grant_type=x", True),
        ("/oauth/token/revoke", False),
        ("/v1/payments", False),
        ("/v1/*/payments", False),
        ("/", False),
    ],
)
def test_token_endpoints(path: str, covers: bool) -> None:
    found = cautions(checked(replace(BEARER, targets=(f"https://api.example.com{path}",)), NOW), secret())
    assert (Caution.TOKEN_ENDPOINT in found) is covers


def test_short_secrets() -> None:
    made = checked(BEARER, NOW)
    assert cautions(made, secret(b"1234567")) == (Caution.SHORT_SECRET,)
    assert cautions(made, secret(b"12345678")) == ()
    assert set(CAUTIONS) == set(Caution)


def test_add_list_and_use(vault: Vault) -> None:
    value = secret()
    added = vault.credentials.add(replace(BEARER, approval="always", private=True), value)
    assert not any(value)
    other = vault.credentials.add(replace(BEARER, name="a", kind="basic", username="ada"), secret(b"short"))
    assert other.cautions == (Caution.SHORT_SECRET,)
    assert vault.credentials.list() == (other.credential, added.credential)
    assert vault.credentials.named("prod") == added.credential
    assert vault.credentials.secret(added.credential.credential_id, 1).use(bytes) == LONG
    vault.lock()
    vault.unlock(bytearray(b"correct horse"))
    assert vault.credentials.list() == (other.credential, added.credential)


def test_a_refused_credential_leaves_nothing(vault: Vault) -> None:
    value = secret(b"with\nbreak")
    with pytest.raises(Invalid):
        vault.credentials.add(BEARER, value)
    assert not any(value)
    assert vault.credentials.list() == ()


def test_a_name_is_taken_once(vault: Vault) -> None:
    vault.credentials.add(BEARER, secret())
    with pytest.raises(Conflict) as caught:
        vault.credentials.add(replace(BEARER, kind="query"), secret(b"other-secret"))
    assert caught.value.field == "name"
    (credential,) = vault.credentials.list()
    assert vault.credentials.secret(credential.credential_id, 1).use(bytes) == LONG


def test_rotation_makes_the_next_version_and_only_it_has_a_secret(vault: Vault) -> None:
    first = vault.credentials.add(BEARER, secret()).credential
    value = secret(b"short")
    rotated = vault.credentials.rotate("prod", value)
    assert not any(value)
    assert rotated.credential.version == 2
    assert rotated.cautions == (Caution.SHORT_SECRET,)
    assert rotated.credential.credential_id == first.credential_id
    assert vault.credentials.list() == (rotated.credential,)
    assert vault.credentials.secret(first.credential_id, 2).use(bytes) == b"short"
    with pytest.raises(NotKnown):
        vault.credentials.secret(first.credential_id, 1)


def test_a_refused_rotation_changes_nothing(vault: Vault) -> None:
    made = vault.credentials.add(BEARER, secret()).credential
    value = secret(b"a\nb")
    with pytest.raises(Invalid):
        vault.credentials.rotate("prod", value)
    assert not any(value)
    assert vault.credentials.list() == (made,)
    assert vault.credentials.secret(made.credential_id, 1).use(bytes) == LONG


def test_a_service_gives_the_next_version_of_the_newest_alone(vault: Vault) -> None:
    new = replace(BEARER, kind="oauth2", token_url="https://login.example.com/token", client_id="4711", refresh=True)
    made = vault.credentials.add(new, secret(b"refresh-token-1")).credential
    value = secret(b"refresh-token-2")
    renewed = vault.credentials.renewed(made.credential_id, 1, value)
    assert not any(value)
    assert renewed == replace(made, version=2, rotated_at=renewed.rotated_at)
    assert vault.credentials.list() == (renewed,)
    assert vault.credentials.secret(made.credential_id, 2).use(bytes) == b"refresh-token-2"
    vault.credentials.rotate("prod", secret(b"by the operator"))
    late = secret(b"refresh-token-3")
    with pytest.raises(NotKnown):
        vault.credentials.renewed(made.credential_id, 2, late)
    assert not any(late)
    assert vault.credentials.secret(made.credential_id, 3).use(bytes) == b"by the operator"


def test_a_client_certificate_changes_with_its_key(vault: Vault) -> None:
    authority = Authority("private", SystemClock().wall())
    (first, key), (second, other) = (authority.client(name, SystemClock().wall()) for name in ("a", "b"))
    new = replace(BEARER, kind="mtls", certificate=first)
    made = vault.credentials.add(new, bytearray(key, "ascii")).credential
    with pytest.raises(Invalid) as caught:
        vault.credentials.rotate("prod", bytearray(other, "ascii"))
    assert caught.value.field == "secret"
    rotated = vault.credentials.rotate("prod", bytearray(other, "ascii"), certificate=second).credential
    assert isinstance(rotated.options, MutualTlsOptions)
    assert (rotated.version, rotated.options.subject) == (2, "CN=b")
    assert rotated.digest != made.digest
    assert vault.credentials.list() == (rotated,)
    again = vault.credentials.rotate("prod", bytearray(other, "ascii")).credential
    assert again.options == rotated.options


def test_no_other_kind_takes_a_certificate(vault: Vault) -> None:
    vault.credentials.add(BEARER, secret())
    with pytest.raises(Invalid) as caught:
        vault.credentials.rotate("prod", secret(), certificate="x")
    assert caught.value.field == "certificate"


def test_a_client_certificate_needs_tls() -> None:
    certificate, _ = Authority("private", NOW).client("a", NOW)
    new = replace(BEARER, kind="mtls", certificate=certificate, targets=("http://localhost:8080/",))
    assert refused(new).field == "target"


def test_removal_and_a_new_one_of_the_same_name(vault: Vault) -> None:
    first = vault.credentials.add(BEARER, secret()).credential
    assert vault.credentials.remove("prod") == first
    assert vault.credentials.list() == ()
    with pytest.raises(NotKnown):
        vault.credentials.secret(first.credential_id, 1)
    second = vault.credentials.add(BEARER, secret()).credential
    assert second.credential_id != first.credential_id


def test_unknown_names_are_said_and_not_echoed(vault: Vault) -> None:
    calls: list[Any] = [
        lambda: vault.credentials.named("ghost"),
        lambda: vault.credentials.rotate("ghost", secret()),
        lambda: vault.credentials.remove("ghost"),
        lambda: vault.credentials.secret(CredentialId("ghost"), 1),
    ]
    for call in calls:
        with pytest.raises(NotKnown) as caught:
            call()
        assert "ghost" not in str(caught.value)


def test_a_vault_has_a_limit(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CREDENTIALS_MAX", 1)
    vault.credentials.add(BEARER, secret())
    with pytest.raises(Invalid, match="at most"):
        vault.credentials.add(replace(BEARER, name="other"), secret())


# -- SSH


def test_an_ssh_credential_is_bound_to_hosts() -> None:
    new = NewCredential("k", "ssh-key", ("DB.example.com", "*.Prod.example.com", "[2001:DB8::7]", "192.0.2.7"))
    made = checked(new, NOW)
    assert made.targets == ("db.example.com", "*.prod.example.com", "2001:db8::7", "192.0.2.7")
    assert cautions(made, secret(b"x" * 8)) == ()
    assert cautions(made, secret(b"x" * 7)) == (Caution.SHORT_SECRET,)
    for target in ("https://db.example.com/", "ada@db.example.com", "db.example.com/x", "**", "", "a b", "db:22"):
        error = refused(replace(new, targets=(target,)))
        assert error.field == "target"
        assert "https" not in error.remedy
    assert refused(replace(new, targets=())).field == "target"


def test_a_passphrase_is_a_second_secret(vault: Vault) -> None:
    value = ssh_keys.file(ssh_keys.new(), ssh_keys.PASSPHRASE)
    given = bytearray(value), bytearray(ssh_keys.PASSPHRASE)
    made = vault.credentials.add(NewCredential("k", "ssh-key", ("db",)), *given).credential
    assert not any(given[0])
    assert not any(given[1])
    with vault.credentials.secret(made.credential_id, 1) as kept:
        assert kept.use(bytes) == value
    passphrase = vault.credentials.passphrase(made.credential_id, 1)
    assert passphrase is not None
    with passphrase:
        assert passphrase.use(bytes) == ssh_keys.PASSPHRASE
    assert "planted" not in repr(vault.credentials.list())

    plain = ssh_keys.new()
    rotated = vault.credentials.rotate("k", bytearray(ssh_keys.file(plain))).credential
    assert shown_options(rotated.options)["public_key"] == ssh_keys.line(plain)
    assert rotated.digest != made.digest
    assert vault.credentials.passphrase(made.credential_id, 2) is None
    assert vault.credentials.passphrase(made.credential_id, 1) is None
    again = vault.credentials.rotate("k", bytearray(value), passphrase=bytearray(ssh_keys.PASSPHRASE)).credential
    assert shown_options(again.options)["encrypted"] is True


def test_a_key_without_its_passphrase_is_not_taken(vault: Vault) -> None:
    value = ssh_keys.file(ssh_keys.new(), ssh_keys.PASSPHRASE)
    vault.credentials.add(NewCredential("k", "ssh-key", ("db",)), bytearray(ssh_keys.file(ssh_keys.new())))
    for passphrase in (None, bytearray(b"planted-other")):
        with pytest.raises(Invalid) as caught:
            vault.credentials.rotate("k", bytearray(value), passphrase=passphrase)
        assert caught.value.field == "key_passphrase"
    assert vault.credentials.named("k").version == 1


def test_a_rotation_that_another_overtook_is_refused(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    vault.credentials.add(NewCredential("k", "ssh-password", ("db",)), secret())
    old = vault.credentials.named("k")
    vault.credentials.rotate("k", secret())
    monkeypatch.setattr(vault.credentials, "named", lambda name: old)
    with pytest.raises(Conflict, match="meanwhile"):
        vault.credentials.rotate("k", secret())
    monkeypatch.undo()
    assert vault.credentials.named("k").version == 2
