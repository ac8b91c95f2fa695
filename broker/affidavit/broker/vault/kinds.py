"""The kinds of credentials: what each is told beside its secret, and which secrets it can send.

Every kind has a frozen value of options of its own; none of them holds anything secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from enum import StrEnum
from typing import Any

from affidavit.broker.address import check_form, is_loopback
from affidavit.broker.limits import Limits
from affidavit.broker.moment import rfc3339
from affidavit.broker.refusal import Refused
from affidavit.broker.target import is_hidden, parse_http
from affidavit.broker.terms import Micros
from affidavit.broker.vault.certificates import BadCertificate, chain, check_key, not_after, pem, subject
from affidavit.broker.vault.errors import Invalid
from affidavit.broker.wire.ssh.port import KeyFault, SshKeyUnusable

PLACEHOLDER = "{secret}"
SECRET_MAX = 64 * 1024


class CredentialKind(StrEnum):
    """How a secret is used."""

    BEARER = "bearer"
    BASIC = "basic"
    HEADER = "header"
    QUERY = "query"
    SIGV4 = "sigv4"
    OAUTH2 = "oauth2"
    MTLS = "mtls"
    SSH_KEY = "ssh-key"
    SSH_PASSWORD = "ssh-password"  # noqa: S105 - a word


SSH_KINDS = frozenset({CredentialKind.SSH_KEY, CredentialKind.SSH_PASSWORD})
"""Kinds that log in to SSH hosts: their targets are hosts, and no HTTP request carries them."""


class ClientAuth(StrEnum):
    """How a client secret is given to a token service (RFC 6749, 2.3.1)."""

    BASIC = "basic"
    BODY = "body"


@dataclass(frozen=True, slots=True)
class HeaderOptions:
    """Bearer and header: the header's name, and its text, which holds `{secret}` once."""

    header: str
    format: str


@dataclass(frozen=True, slots=True)
class BasicOptions:
    """User name and secret in one header (RFC 7617)."""

    header: str
    username: str


@dataclass(frozen=True, slots=True)
class QueryOptions:
    """A query parameter: its name, and its value, which holds `{secret}` once."""

    parameter: str
    format: str


@dataclass(frozen=True, slots=True)
class SigV4Options:
    """AWS Signature Version 4: the secret signs and never goes out."""

    access_key: str
    region: str
    service: str


@dataclass(frozen=True, slots=True)
class OAuth2Options:
    """A token from a token service (RFC 6749, 4.4 and 6). The secret is the client's, or with `refresh` a refresh token
    and, on a second line where the client has one, the client's."""

    token_url: str
    """In the one spelling of `target.HttpTarget.url`."""
    client_id: str
    scope: str | None
    refresh: bool
    client_auth: ClientAuth


@dataclass(frozen=True, slots=True)
class MutualTlsOptions:
    """A client certificate; the secret is its private key in PEM."""

    certificate: str
    """The certificate and those above it, in PEM, its own first."""
    subject: str
    expires_at: Micros


@dataclass(frozen=True, slots=True)
class SshKeyOptions:
    """A private key; the secret is its file, and its passphrase a second secret beside it."""

    username: str | None
    """The one user that it logs in as; None: whomever the host entry names."""
    certificate: str | None
    """An OpenSSH user certificate for this key, on one line."""
    public_key: str = ""
    """Its public part as in `authorized_keys`. `fitted` reads it from the secret."""
    fingerprint: str = ""
    """As OpenSSH prints it."""
    encrypted: bool = False
    """The file needs the passphrase that is kept beside it."""


@dataclass(frozen=True, slots=True)
class SshPasswordOptions:
    """A password."""

    username: str | None
    """As in SshKeyOptions."""
    interactive: bool
    """It answers the one hidden prompt of keyboard-interactive (RFC 4256) instead of going out by itself."""


Options = (
    HeaderOptions
    | BasicOptions
    | QueryOptions
    | SigV4Options
    | OAuth2Options
    | MutualTlsOptions
    | SshKeyOptions
    | SshPasswordOptions
)

_OPTIONS: Mapping[CredentialKind, type[Options]] = {
    CredentialKind.BEARER: HeaderOptions,
    CredentialKind.BASIC: BasicOptions,
    CredentialKind.HEADER: HeaderOptions,
    CredentialKind.QUERY: QueryOptions,
    CredentialKind.SIGV4: SigV4Options,
    CredentialKind.OAUTH2: OAuth2Options,
    CredentialKind.MTLS: MutualTlsOptions,
    CredentialKind.SSH_KEY: SshKeyOptions,
    CredentialKind.SSH_PASSWORD: SshPasswordOptions,
}


@dataclass(frozen=True, slots=True)
class NewCredential:
    """What the operator asks for, as words; `credentials.checked` makes a Credential of it or says what does not fit.

    The fields from `header` on are options; each kind takes those of `TAKES`.
    """

    name: str
    kind: str
    targets: tuple[str, ...]
    approval: str | None = None
    private: bool = False
    header: str | None = None
    format: str | None = None
    username: str | None = None
    access_key: str | None = None
    region: str | None = None
    service: str | None = None
    token_url: str | None = None
    client_id: str | None = None
    scope: str | None = None
    client_auth: str | None = None
    refresh: bool = False
    certificate: str | None = None
    """PEM; of kind ssh-key an OpenSSH certificate's file."""
    interactive: bool = False

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> NewCredential:
        """From the params of `credential.add`, which are of their types already; others are left out."""
        given = {field.name: params[field.name] for field in fields(cls) if params.get(field.name) is not None}
        return cls(**{"name": "", "kind": "", **given, "targets": tuple(given.get("targets", ()))})


TAKES: Mapping[CredentialKind, frozenset[str]] = {
    CredentialKind.BEARER: frozenset({"header", "format"}),
    CredentialKind.BASIC: frozenset({"header", "username"}),
    CredentialKind.HEADER: frozenset({"header", "format"}),
    CredentialKind.QUERY: frozenset({"header", "format"}),
    CredentialKind.SIGV4: frozenset({"access_key", "region", "service"}),
    CredentialKind.OAUTH2: frozenset({"token_url", "client_id", "scope", "client_auth", "refresh"}),
    CredentialKind.MTLS: frozenset({"certificate"}),
    CredentialKind.SSH_KEY: frozenset({"username", "certificate"}),
    CredentialKind.SSH_PASSWORD: frozenset({"username", "interactive"}),
}
OPTION_NAMES = tuple(sorted(frozenset().union(*TAKES.values())))
"""Every option of any kind, as a field of `NewCredential`."""


def kind_of(text: str) -> CredentialKind:
    """The kind that `text` names. Invalid, field `kind`."""
    try:
        return CredentialKind(text)
    except ValueError:
        raise Invalid(
            "There is no such kind of credential.", f"Use one of: {', '.join(CredentialKind)}.", field="kind"
        ) from None


def checked_options(new: NewCredential, kind: CredentialKind, now: Micros) -> Options:
    """The options of a new credential of this kind. Invalid with the field and what to write instead."""
    for name in OPTION_NAMES:
        if getattr(new, name) not in (None, False) and name not in TAKES[kind]:
            words = _FLAGS.get(name, f"--{name.replace('_', '-')}")
            raise Invalid(f"Kind {kind.value} takes no {words}.", f"Leave {words} out.", field=name)
    match kind:
        case CredentialKind.BEARER:
            return HeaderOptions(_header(new.header or "Authorization"), _format(new.format or f"Bearer {PLACEHOLDER}"))
        case CredentialKind.HEADER:
            if not new.header:
                raise Invalid("Kind header needs the header's name.", "Such as: --header X-Api-Key", field="header")
            return HeaderOptions(_header(new.header), _format(new.format or PLACEHOLDER))
        case CredentialKind.BASIC:
            return BasicOptions(_header(new.header or "Authorization"), _username(new.username))
        case CredentialKind.QUERY:
            parameter, template = _parameter(new.header, new.format)
            return QueryOptions(parameter, _format(template))
        case CredentialKind.SIGV4:
            return SigV4Options(
                access_key=_matching(new.access_key, _ACCESS_KEY, "access_key", "AKIAIOSFODNN7EXAMPLE"),
                region=_matching(new.region, _SCOPE_WORD, "region", "eu-central-1"),
                service=_matching(new.service, _SCOPE_WORD, "service", "s3"),
            )
        case CredentialKind.OAUTH2:
            return OAuth2Options(
                token_url=_token_url(new.token_url),
                client_id=_matching(new.client_id, _CLIENT_ID, "client_id", "4711-example"),
                scope=None if new.scope is None else _matching(new.scope, _SCOPE, "scope", "'users.read users.write'"),
                refresh=new.refresh,
                client_auth=_client_auth(new.client_auth),
            )
        case CredentialKind.MTLS:
            return client_certificate(new.certificate, now)
        case CredentialKind.SSH_KEY:
            return SshKeyOptions(_login(new.username), _one_line(new.certificate))
        case CredentialKind.SSH_PASSWORD:
            return SshPasswordOptions(_login(new.username), new.interactive)


def client_certificate(text: str | None, now: Micros) -> MutualTlsOptions:
    """The options of kind mtls with this certificate file. Invalid, field `certificate`."""
    try:
        found = chain(text or "")
    except BadCertificate as bad:
        raise Invalid(
            str(bad), "Give --cert FILE: PEM, the client's own certificate first.", field="certificate"
        ) from None
    if not_after(found[0]) <= now:
        raise Invalid("The certificate has expired.", "Give one that is still valid.", field="certificate")
    return MutualTlsOptions(pem(found), subject(found[0]), not_after(found[0]))


def fitted(options: Options, value: bytearray, passphrase: bytearray | None = None) -> Options:
    """The options once this secret was checked against them; of kind ssh-key with what the key says of itself.

    `passphrase` is that of an SSH key's file. Invalid, field `secret`, `key_passphrase` or `certificate`. It takes as
    long as the key's own derivation: an encrypted key belongs in an executor.
    """
    check_secret(options, value)
    if isinstance(options, SshKeyOptions):
        return _read_key(options, value, passphrase)
    if passphrase is not None:
        raise Invalid("Only an SSH key has a passphrase.", "Leave --key-passphrase-fd out.", field="key_passphrase")
    return options


def renewed_certificate(options: Options, certificate: str | None, now: Micros) -> Options:
    """The options that a next version starts from. Of mtls the old certificate stays where there is no new one; an SSH
    key brings its own or has none. Invalid, field `certificate`."""
    if isinstance(options, SshKeyOptions):
        return replace(options, certificate=_one_line(certificate))
    if certificate is None:
        return options
    if not isinstance(options, MutualTlsOptions):
        raise Invalid("This kind of credential takes no --cert.", "Leave --cert out.", field="certificate")
    return client_certificate(certificate, now)


def check_secret(options: Options, value: bytearray) -> None:
    """Invalid, field `secret`, where these bytes cannot be used with these options. The value is never quoted."""
    if not 1 <= len(value) <= SECRET_MAX:
        raise Invalid(f"A secret has 1 byte to {SECRET_MAX // 1024} KiB.", "Give another.", field="secret")
    match options:
        case QueryOptions():
            pass
        case BasicOptions():
            _check_line(value)
        case HeaderOptions():
            _check_line(value)
            # RFC 9110, 5.5: a value neither begins nor ends in white space and holds no other control character.
            if value[0] in b" \t" or value[-1] in b" \t":
                raise Invalid("The secret begins or ends with white space.", "Give it without.", field="secret")
            if any((byte < 0x20 and byte != 0x09) or byte == 0x7F for byte in value):
                raise Invalid("The secret holds a control character.", "Give it without.", field="secret")
        case SigV4Options():
            if not _graphic(value):
                raise Invalid("A secret access key is ASCII without white space.", "Give it as issued.", field="secret")
        case OAuth2Options():
            _check_client_secret(options, value)
        case MutualTlsOptions():
            try:
                check_key(chain(options.certificate)[0], value)
            except BadCertificate as bad:
                raise Invalid(str(bad), "Give the certificate's own key in PEM.", field="secret") from None
        case SshKeyOptions():
            pass  # `fitted` reads it, with its passphrase
        case SshPasswordOptions():
            _check_password(value)


def stored(options: Options) -> dict[str, Any]:
    """The options as JSON-ready fields; `loaded` is the way back."""
    return asdict(options)


def loaded(kind: CredentialKind, kept: Mapping[str, Any]) -> Options:
    """The options that `stored` took apart."""
    given = dict(kept)
    if kind is CredentialKind.OAUTH2:
        given["client_auth"] = ClientAuth(given["client_auth"])
    return _OPTIONS[kind](**given)


def shown_options(options: Options) -> dict[str, Any]:
    """The options as the operator sees them in lists."""
    shown = stored(options)
    if isinstance(options, MutualTlsOptions):
        del shown["certificate"]
        shown["expires_at"] = rfc3339(options.expires_at)
    if isinstance(options, SshKeyOptions):
        shown["certificate"] = options.certificate is not None
    return shown


_PASSPHRASE = "key_passphrase"  # noqa: S105 - a field's name
_FLAGS = {"certificate": "--cert"}
"""Options whose name on the command line is another."""

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}")
"""A header's name (RFC 9110, 5.6.2)."""
_PARAMETER = re.compile(r"[A-Za-z0-9._~\[\]-]{1,128}")
_ACCESS_KEY = re.compile(r"[A-Za-z0-9._~+=@:-]{1,128}")
"""AWS issues letters and digits; others that speak the same protocol are freer. It stands between slashes."""
_SCOPE_WORD = re.compile(r"[A-Za-z0-9._-]{1,64}")
_CLIENT_ID = re.compile(r"[ -~]{1,256}")
"""VSCHAR (RFC 6749, appendix A.1)."""
_SCOPE = re.compile(r"(?=.{1,1024}$)[!#-\[\]-~]+(?: [!#-\[\]-~]+)*")
"""RFC 6749, 3.3."""
_FRAMING = frozenset(
    {"host", "content-length", "transfer-encoding", "connection", "upgrade", "expect", "te", "trailer", "keep-alive"}
)
"""Headers that say how a message is framed and where it goes: no credential is sent in one."""


def _matching(given: str | None, pattern: re.Pattern[str], field: str, example: str) -> str:
    flag = f"--{field.replace('_', '-')}"
    if not given:
        raise Invalid(f"This kind needs {flag}.", f"Such as: {flag} {example}", field=field)
    if not pattern.fullmatch(given):
        raise Invalid(f"{flag} is not of the form that it must have.", f"Such as: {flag} {example}", field=field)
    return given


def _token_url(text: str | None) -> str:
    try:
        target = parse_http(text or "", Limits())
        check_form(target)
    except Refused as bad:
        raise Invalid(
            bad.refusal.message, "Such as: --token-url https://login.example.com/oauth2/token", field="token_url"
        ) from None
    if target.scheme == "http" and not is_loopback(target):
        raise Invalid(
            "http:// goes to loopback only: anywhere else the secret could be read on its way.",
            "Use https://.",
            field="token_url",
        )
    return target.url


def _client_auth(text: str | None) -> ClientAuth:
    try:
        return ClientAuth(text or ClientAuth.BASIC)
    except ValueError:
        raise Invalid(
            "A client's secret is given in a header or in the body.",
            f"Use one of: {', '.join(ClientAuth)}.",
            field="client_auth",
        ) from None


def _header(name: str) -> str:
    if not _TOKEN.fullmatch(name):
        raise Invalid("That is no header name.", "Such as: X-Api-Key", field="header")
    if name.lower() in _FRAMING or name.lower().startswith("proxy-"):
        raise Invalid("A secret cannot be sent in this header.", "Such as: Authorization", field="header")
    return name


def _format(template: str) -> str:
    if template.count(PLACEHOLDER) != 1 or not template.isascii() or not template.isprintable() or len(template) > 1024:
        raise Invalid(
            "A format is printable ASCII with {secret} in it once.", "Such as: token {secret}", field="format"
        )
    if template != template.strip():
        raise Invalid("A format neither begins nor ends with white space.", "Such as: token {secret}", field="format")
    return template


def _username(name: str | None) -> str:
    if not name or len(name) > 255 or ":" in name or not name.isprintable():
        raise Invalid(
            "Kind basic needs a user name without a colon or control characters (RFC 7617).",
            "Such as: --username ada",
            field="username",
        )
    return name


def _parameter(header: str | None, template: str | None) -> tuple[str, str]:
    """Name and value format of a query credential: `--header` names the parameter, or `--format` as `name={secret}`."""
    name, equals, value = (template or "").partition("=")
    if header is None and equals and PLACEHOLDER in value:
        header, template = name, value
    parameter = header or "key"
    if not _PARAMETER.fullmatch(parameter):
        raise Invalid("That is no name of a query parameter.", "Such as: --format 'api_key={secret}'", field="format")
    return parameter, template or PLACEHOLDER


def _check_line(value: bytearray) -> None:
    if any(byte in b"\r\n\0" for byte in value):
        raise Invalid(
            "The secret holds a line break or a NUL, which no header can carry.",
            "Give it without one; a file's last line break is the usual cause.",
            field="secret",
        )


def _check_password(value: bytearray) -> None:
    """RFC 4252, 8: UTF-8. A control character is no part of what a person types."""
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        raise Invalid("An SSH password is UTF-8 (RFC 4252).", "Give another.", field="secret") from None
    if any(character < " " or character == "\x7f" for character in text):
        raise Invalid(
            "The password holds a line break or another control character.",
            "Give it without one; a file's last line break is the usual cause.",
            field="secret",
        )


def _login(name: str | None) -> str | None:
    """The user name of an SSH credential; None stays."""
    return None if name is None else login_name(name, "username")


def login_name(name: str, field: str) -> str:
    """A user as an SSH server is asked for: 1 to 255 bytes, nothing that a person cannot see. Invalid with `field`."""
    if not 1 <= len(name.encode("utf-8", "surrogatepass")) <= 255 or any(map(is_hidden, name)):
        raise Invalid(
            "A user name has 1 to 255 bytes and no white space, control or invisible character.",
            "Such as: deploy",
            field=field,
        )
    return name


def _one_line(certificate: str | None) -> str | None:
    """An OpenSSH certificate's kind and blob, without its comment. Invalid, field `certificate`."""
    if certificate is None:
        return None
    words = certificate.split()
    if len(words) < 2 or not certificate.isascii():
        raise _not_its_certificate()
    return f"{words[0]} {words[1]}"


def _read_key(options: SshKeyOptions, value: bytearray, passphrase: bytearray | None) -> SshKeyOptions:
    # Here and not at the head: it brings paramiko, and a broker that holds no SSH key starts without it.
    from affidavit.broker.wire.ssh import keys

    try:
        facts = keys.describe(bytes(value), None if passphrase is None else bytes(passphrase))
        if options.certificate is not None:
            keys.check_certificate(options.certificate.encode("ascii"), facts.public)
    except SshKeyUnusable as unusable:
        raise _unusable(unusable.fault) from None
    if passphrase is not None and not facts.encrypted:
        raise Invalid("This key has no passphrase.", "Leave --key-passphrase-fd out.", field="key_passphrase")
    return replace(
        options, public_key=facts.public.line, fingerprint=facts.public.fingerprint, encrypted=facts.encrypted
    )


def _unusable(fault: KeyFault) -> Invalid:
    match fault:
        case KeyFault.MALFORMED:
            return Invalid(
                "That is no private key file, or a damaged one.",
                "Give the private key itself, in OpenSSH's form or PEM; not its .pub file.",
                field="secret",
            )
        case KeyFault.KIND:
            return Invalid(
                "A key is Ed25519, ECDSA on a NIST curve, or RSA of 2048 to 16384 bits.",
                "Make one: ssh-keygen -t ed25519",
                field="secret",
            )
        case KeyFault.PASSPHRASE_NEEDED:
            return Invalid("The key's file has a passphrase.", "Give it by: --key-passphrase-fd N", field=_PASSPHRASE)
        case KeyFault.PASSPHRASE_WRONG:
            return Invalid(
                "That is not the passphrase of this key's file, or the file is damaged.",
                "Try again.",
                field=_PASSPHRASE,
            )
        case KeyFault.CERTIFICATE:
            return _not_its_certificate()


def _not_its_certificate() -> Invalid:
    return Invalid(
        "That is no OpenSSH user certificate for this key.",
        "Give the key's own -cert.pub file: --certificate FILE",
        field="certificate",
    )


def _check_client_secret(options: OAuth2Options, value: bytearray) -> None:
    """One line of printable ASCII (RFC 6749, appendix A.2 and A.17); with `refresh` a second one may follow."""
    lines = value.splitlines()
    if len(lines) > 1 + options.refresh or not all(_printable(line) for line in lines):
        raise Invalid(
            "A client's secret and a refresh token are printable ASCII, each on one line.",
            "With --refresh: the refresh token, and on a second line the client's secret, if it has one.",
            field="secret",
        )


def _printable(line: bytearray) -> bool:
    return bool(line) and all(0x20 <= byte <= 0x7E for byte in line)


def _graphic(value: bytearray) -> bool:
    return all(0x21 <= byte <= 0x7E for byte in value)
