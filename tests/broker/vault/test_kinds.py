"""What each kind of credential takes, and which secrets it can use."""

import traceback
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat
from tests.broker.vault import ssh_keys
from tests.broker.vault.authority import Authority, key_pem

from affidavit.broker.moment import after, rfc3339
from affidavit.broker.terms import Micros
from affidavit.broker.vault import CredentialKind, Invalid, NewCredential
from affidavit.broker.vault.kinds import (
    TAKES,
    BasicOptions,
    ClientAuth,
    HeaderOptions,
    MutualTlsOptions,
    OAuth2Options,
    Options,
    QueryOptions,
    SigV4Options,
    SshKeyOptions,
    SshPasswordOptions,
    check_secret,
    checked_options,
    fitted,
    kind_of,
    loaded,
    renewed_certificate,
    shown_options,
    stored,
)

NOW = Micros(1_796_000_000_000_000)
CA = Authority("private", NOW)
CLIENT = CA.client("agent-host", NOW)
CERTIFICATE, KEY = CLIENT
BEARER = NewCredential("prod", "bearer", ("https://api.example.com/v1/x",))
SIGV4 = replace(BEARER, kind="sigv4", access_key="AKIDEXAMPLE", region="eu-central-1", service="s3")
OAUTH2 = replace(BEARER, kind="oauth2", token_url="https://login.example.com/oauth2/token", client_id="4711")
MTLS = replace(BEARER, kind="mtls", certificate=CERTIFICATE)


def options(new: NewCredential) -> Options:
    return checked_options(new, kind_of(new.kind), NOW)


def refused(new: NewCredential) -> Invalid:
    with pytest.raises(Invalid) as caught:
        options(new)
    assert caught.value.message
    assert caught.value.remedy
    return caught.value


@pytest.mark.parametrize(
    ("new", "made"),
    [
        (BEARER, HeaderOptions("Authorization", "Bearer {secret}")),
        (replace(BEARER, header="X-Auth", format="token {secret}"), HeaderOptions("X-Auth", "token {secret}")),
        (replace(BEARER, kind="basic", username="ada"), BasicOptions("Authorization", "ada")),
        (replace(BEARER, kind="header", header="X-Api-Key"), HeaderOptions("X-Api-Key", "{secret}")),
        (replace(BEARER, kind="header", header="A", format="k={secret};"), HeaderOptions("A", "k={secret};")),
        (replace(BEARER, kind="query"), QueryOptions("key", "{secret}")),
        (replace(BEARER, kind="query", header="api_key"), QueryOptions("api_key", "{secret}")),
        (replace(BEARER, kind="query", format="api_key={secret}"), QueryOptions("api_key", "{secret}")),
        (replace(BEARER, kind="query", header="a", format="b={secret}"), QueryOptions("a", "b={secret}")),
        (replace(BEARER, kind="query", format="v{secret}"), QueryOptions("key", "v{secret}")),
        (SIGV4, SigV4Options("AKIDEXAMPLE", "eu-central-1", "s3")),
        (
            OAUTH2,
            OAuth2Options("https://login.example.com/oauth2/token", "4711", None, False, ClientAuth.BASIC),
        ),
        (
            replace(
                OAUTH2,
                token_url="HTTPS://Login.example.com:443/a/../oauth2/token",
                scope="users.read users.write",
                refresh=True,
                client_auth="body",
            ),
            OAuth2Options(
                "https://login.example.com/oauth2/token", "4711", "users.read users.write", True, ClientAuth.BODY
            ),
        ),
        (
            replace(OAUTH2, token_url="http://localhost:8080/token"),
            OAuth2Options("http://localhost:8080/token", "4711", None, False, ClientAuth.BASIC),
        ),
    ],
)
def test_what_each_kind_is_told(new: NewCredential, made: Options) -> None:
    assert options(new) == made


@pytest.mark.parametrize(
    ("new", "field"),
    [
        (replace(BEARER, username="ada"), "username"),
        (replace(BEARER, refresh=True), "refresh"),
        (replace(BEARER, certificate=CERTIFICATE), "certificate"),
        (replace(BEARER, kind="basic"), "username"),
        (replace(BEARER, kind="basic", username="a:b"), "username"),
        (replace(BEARER, kind="basic", username="a\nb"), "username"),
        (replace(BEARER, kind="basic", username="x" * 256), "username"),
        (replace(BEARER, kind="basic", username="ada", format="{secret}"), "format"),
        (replace(BEARER, kind="header"), "header"),
        (replace(BEARER, kind="header", header="a b"), "header"),
        (replace(BEARER, kind="header", header="a:"), "header"),
        (replace(BEARER, kind="header", header="Host"), "header"),
        (replace(BEARER, kind="header", header="Content-Length"), "header"),
        (replace(BEARER, kind="header", header="Proxy-Authorization"), "header"),
        (replace(BEARER, format="no placeholder"), "format"),
        (replace(BEARER, format="{secret}{secret}"), "format"),
        (replace(BEARER, format="{secret}\r\nX: y"), "format"),
        (replace(BEARER, format=" {secret}"), "format"),
        (replace(BEARER, format="ä{secret}"), "format"),
        (replace(BEARER, format="x" * 1024 + "{secret}"), "format"),
        (replace(BEARER, kind="query", header="a b"), "format"),
        (replace(BEARER, kind="query", format="a&b={secret}"), "format"),
        (replace(BEARER, kind="query", username="ada"), "username"),
        (replace(SIGV4, access_key=None), "access_key"),
        (replace(SIGV4, access_key="AK/ID"), "access_key"),
        (replace(SIGV4, access_key="AKID, Signature=x"), "access_key"),
        (replace(SIGV4, region=None), "region"),
        (replace(SIGV4, region="eu/central"), "region"),
        (replace(SIGV4, service=""), "service"),
        (replace(SIGV4, service="s3\n"), "service"),
        (replace(SIGV4, header="X-Key"), "header"),
        (replace(OAUTH2, token_url=None), "token_url"),
        (replace(OAUTH2, token_url="login.example.com/token"), "token_url"),
        (replace(OAUTH2, token_url="http://login.example.com/token"), "token_url"),
        (replace(OAUTH2, token_url="https://ada:pw@login.example.com/token"), "token_url"),
        (replace(OAUTH2, token_url="https://169.254.169.254/token"), "token_url"),
        (replace(OAUTH2, client_id=None), "client_id"),
        (replace(OAUTH2, client_id="a\x00b"), "client_id"),
        (replace(OAUTH2, scope=""), "scope"),
        (replace(OAUTH2, scope=" a"), "scope"),
        (replace(OAUTH2, scope='a"b'), "scope"),
        (replace(OAUTH2, scope="a " * 512 + "a"), "scope"),
        (replace(OAUTH2, client_auth="jwt"), "client_auth"),
        (replace(OAUTH2, username="ada"), "username"),
        (replace(MTLS, certificate=None), "certificate"),
        (replace(MTLS, certificate="nonsense"), "certificate"),
        (replace(MTLS, certificate=CERTIFICATE * 17), "certificate"),
        (replace(MTLS, certificate=CERTIFICATE + "x" * 64 * 1024), "certificate"),
        (replace(MTLS, certificate=CA.client("old", NOW, lasts_s=-1)[0]), "certificate"),
        (replace(MTLS, header="X-Key"), "header"),
    ],
)
def test_bad_options_name_their_field(new: NewCredential, field: str) -> None:
    assert refused(new).field == field


def test_a_refused_option_is_named_as_on_the_command_line() -> None:
    assert "--cert" in refused(replace(BEARER, certificate="x")).message
    assert "--token-url" in refused(replace(BEARER, token_url="x")).message


def test_every_kind_has_its_options() -> None:
    assert TAKES.keys() == set(CredentialKind)
    assert kind_of("oauth2") is CredentialKind.OAUTH2
    with pytest.raises(Invalid, match="no such kind"):
        kind_of("cookie")


def test_a_client_certificate_is_described_and_nothing_else_of_its_file_is_kept() -> None:
    made = options(replace(MTLS, certificate=f"{KEY}{CERTIFICATE}{CA.pem}"))
    assert isinstance(made, MutualTlsOptions)
    assert made.certificate == CERTIFICATE + CA.pem
    assert "PRIVATE" not in made.certificate
    assert made.subject == "CN=agent-host"
    assert made.expires_at == after(NOW, 3600)


@pytest.mark.parametrize("new", [BEARER, SIGV4, OAUTH2, MTLS, replace(BEARER, kind="basic", username="ada")])
def test_options_are_stored_and_read_back(new: NewCredential) -> None:
    made = options(new)
    assert loaded(kind_of(new.kind), stored(made)) == made


def test_what_the_operator_sees_of_options() -> None:
    shown = shown_options(options(MTLS))
    assert shown == {"subject": "CN=agent-host", "expires_at": rfc3339(after(NOW, 3600))}
    assert shown_options(options(SIGV4)) == {"access_key": "AKIDEXAMPLE", "region": "eu-central-1", "service": "s3"}


def test_words_become_a_new_credential() -> None:
    params: dict[str, Any] = {"name": "n", "kind": "oauth2", "targets": ["https://a.example/"], "refresh": True}
    made = NewCredential.of({**params, "scope": None, "client_id": "4711", "other": 5})
    assert made == NewCredential("n", "oauth2", ("https://a.example/",), refresh=True, client_id="4711")


def secret_refused(made: Options, value: bytes) -> Invalid:
    with pytest.raises(Invalid) as caught:
        check_secret(made, bytearray(value))
    assert caught.value.field == "secret"
    return caught.value


KINDS = [BEARER, replace(BEARER, kind="basic", username="ada"), replace(BEARER, kind="query"), SIGV4, OAUTH2]


@pytest.mark.parametrize("new", KINDS, ids=lambda new: new.kind)
def test_secrets_have_a_size(new: NewCredential) -> None:
    made = options(new)
    for size in (0, 64 * 1024 + 1):
        secret_refused(made, b"x" * size)
    check_secret(made, bytearray(b"x"))
    check_secret(made, bytearray(b"x" * 64 * 1024))


@pytest.mark.parametrize("byte", [b"\r", b"\n", b"\0"])
def test_no_header_carries_a_line_break(byte: bytes) -> None:
    for new in (BEARER, replace(BEARER, kind="basic", username="ada")):
        assert "line break" in secret_refused(options(new), b"abc" + byte + b"def").message
    check_secret(options(replace(BEARER, kind="query")), bytearray(b"abc" + byte))


@pytest.mark.parametrize("value", [b" abc", b"abc\t", b"a\x01b", b"a\x7fb"])
def test_a_header_value_is_clean(value: bytes) -> None:
    secret_refused(options(BEARER), value)
    check_secret(options(replace(BEARER, kind="basic", username="ada")), bytearray(value))
    check_secret(options(BEARER), bytearray(b"a b\tc\xff"))


@pytest.mark.parametrize("value", [b"a b", b"a\n", b"a\xff", b"\x00"])
def test_a_secret_access_key_is_as_issued(value: bytes) -> None:
    secret_refused(options(SIGV4), value)


@pytest.mark.parametrize(
    ("refresh", "value", "fits"),
    [
        (False, b"s3cret with space", True),
        (False, b"s3cret\n", True),
        (False, b"s3cret\nsecond", False),
        (False, b"s\xc3\xa4", False),
        (False, b"\n", False),
        (True, b"refresh", True),
        (True, b"refresh\nclient secret", True),
        (True, b"refresh\r\nclient secret\r\n", True),
        (True, b"refresh\n\nclient secret", False),
        (True, b"a\nb\nc", False),
        (True, b"\nclient secret", False),
    ],
)
def test_client_secrets_and_refresh_tokens(refresh: bool, value: bytes, fits: bool) -> None:
    made = options(replace(OAUTH2, refresh=refresh))
    if fits:
        check_secret(made, bytearray(value))
    else:
        secret_refused(made, value)


def test_the_key_belongs_to_the_certificate() -> None:
    made = options(MTLS)
    check_secret(made, bytearray(KEY, "ascii"))
    check_secret(made, bytearray(KEY.rstrip("\n"), "ascii"))
    assert "does not belong" in secret_refused(made, key_pem(ec.generate_private_key(ec.SECP256R1())).encode()).message
    assert "no private key" in secret_refused(made, b"planted-secret").message
    assert "no private key" in secret_refused(made, CERTIFICATE.encode()).message


def test_a_key_with_a_passphrase_of_its_own_is_told_what_to_do() -> None:
    form = (Encoding.PEM, PrivateFormat.PKCS8)
    private = ec.generate_private_key(ec.SECP256R1())
    locked = private.private_bytes(*form, BestAvailableEncryption(b"x"))
    assert "openssl pkey" in secret_refused(options(MTLS), locked).message


@pytest.mark.parametrize("new", [BEARER, SIGV4, OAUTH2, MTLS], ids=lambda new: new.kind)
def test_no_secret_is_quoted(new: NewCredential) -> None:
    error = secret_refused(options(new), b"planted-secret\n\xff\n")
    assert "planted" not in "".join(traceback.format_exception(error)) + error.remedy


# -- SSH

SSH_KEY = replace(BEARER, kind="ssh-key", targets=("db.example.com",))
SSH_PASSWORD = replace(SSH_KEY, kind="ssh-password")
USER_KEY = ssh_keys.new()


def unfit(options: Options, value: bytes, passphrase: bytes | None = None) -> Invalid:
    with pytest.raises(Invalid) as caught:
        fitted(options, bytearray(value), None if passphrase is None else bytearray(passphrase))
    assert caught.value.remedy
    assert "planted" not in "".join(traceback.format_exception(caught.value))
    return caught.value


def test_an_ssh_key_says_what_it_is() -> None:
    made = fitted(options(replace(SSH_KEY, username="deploy")), bytearray(ssh_keys.file(USER_KEY)))
    assert made == SshKeyOptions(
        "deploy", None, ssh_keys.line(USER_KEY), ssh_keys.host_key(USER_KEY).fingerprint, encrypted=False
    )
    assert loaded(CredentialKind.SSH_KEY, stored(made)) == made
    assert shown_options(made)["certificate"] is False
    assert shown_options(made)["public_key"] == ssh_keys.line(USER_KEY)


def test_an_encrypted_key_needs_its_passphrase() -> None:
    value = ssh_keys.file(USER_KEY, ssh_keys.PASSPHRASE)
    made = fitted(options(SSH_KEY), bytearray(value), bytearray(ssh_keys.PASSPHRASE))
    assert isinstance(made, SshKeyOptions)
    assert made.encrypted
    needed, wrong = unfit(options(SSH_KEY), value), unfit(options(SSH_KEY), value, b"planted-other")
    assert (needed.field, wrong.field) == ("key_passphrase", "key_passphrase")
    assert "--key-passphrase-fd" in needed.remedy
    assert needed.message != wrong.message
    assert unfit(options(SSH_KEY), ssh_keys.file(USER_KEY), b"planted").field == "key_passphrase"
    assert unfit(options(BEARER), b"token", b"planted").field == "key_passphrase"


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"planted",
        ssh_keys.line(USER_KEY).encode(),
        ssh_keys.file(USER_KEY)[:-60],
        key_pem(ec.generate_private_key(ec.SECP256K1())),
    ],
)
def test_what_is_no_usable_key(value: bytes | str) -> None:
    assert unfit(options(SSH_KEY), value.encode() if isinstance(value, str) else value).field == "secret"


def test_a_certificate_belongs_to_its_key() -> None:
    text = ssh_keys.certificate(USER_KEY)
    made = fitted(options(replace(SSH_KEY, certificate=text)), bytearray(ssh_keys.file(USER_KEY)))
    assert isinstance(made, SshKeyOptions)
    assert made.certificate == " ".join(text.split()[:2])
    assert shown_options(made)["certificate"] is True
    for other in (ssh_keys.certificate(ssh_keys.new()), ssh_keys.certificate(USER_KEY, user=False), "a b"):
        assert unfit(options(replace(SSH_KEY, certificate=other)), ssh_keys.file(USER_KEY)).field == "certificate"
    assert refused(replace(SSH_KEY, certificate="x")).field == "certificate"


def test_a_next_key_brings_its_certificate_or_has_none() -> None:
    text = ssh_keys.certificate(USER_KEY)
    made = options(replace(SSH_KEY, certificate=text))
    assert renewed_certificate(made, None, NOW) == SshKeyOptions(None, None)
    assert renewed_certificate(SshKeyOptions(None, None), text, NOW) == made
    with pytest.raises(Invalid, match="takes no --cert"):
        renewed_certificate(options(SSH_PASSWORD), text, NOW)
    mutual = options(MTLS)
    assert renewed_certificate(mutual, None, NOW) is mutual


def test_an_ssh_password() -> None:
    made = options(replace(SSH_PASSWORD, username="deploy", interactive=True))
    assert made == SshPasswordOptions("deploy", True)
    assert loaded(CredentialKind.SSH_PASSWORD, stored(made)) == made
    assert options(SSH_PASSWORD) == SshPasswordOptions(None, False)
    assert fitted(made, bytearray("pässword with spaces".encode())) is made
    for value in (b"", b"planted\n", b"planted\0", b"planted\x7f", b"planted\xff"):
        assert unfit(made, value).field == "secret"


@pytest.mark.parametrize("username", ["", "a b", "a\n", "a\u202e", "x" * 256])
def test_bad_user_names(username: str) -> None:
    assert refused(replace(SSH_KEY, username=username)).field == "username"
    assert refused(replace(SSH_PASSWORD, username=username)).field == "username"


def test_each_ssh_kind_takes_its_own_options() -> None:
    assert refused(replace(SSH_PASSWORD, certificate="x")).field == "certificate"
    assert refused(replace(SSH_KEY, interactive=True)).field == "interactive"
    assert refused(replace(BEARER, interactive=True)).field == "interactive"
