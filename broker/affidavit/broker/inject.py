"""How a credential becomes part of a request, decided in pure functions.

What is bound at approval (the method label, which headers are taken) is known without the secret; the secret's bytes
are asked for only when the request is built (architecture, One action, step 6).
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from urllib.parse import quote_from_bytes

from affidavit.broker import sigv4
from affidavit.broker.fingerprint import HttpDispatch
from affidavit.broker.secret import Secret
from affidavit.broker.terms import Micros
from affidavit.broker.vault.credentials import Credential
from affidavit.broker.vault.kinds import (
    PLACEHOLDER,
    BasicOptions,
    HeaderOptions,
    MutualTlsOptions,
    OAuth2Options,
    QueryOptions,
    SigV4Options,
    SshKeyOptions,
    SshPasswordOptions,
)
from affidavit.broker.wire.port import ClientCertificate

AUTHORIZATION = "Authorization"


@dataclass(frozen=True, slots=True, eq=False)
class Injection:
    """What one credential adds to one request. It holds secret bytes: it prints none and lives as long as the request.

    `whole` are the injected values as they go out, to be redacted wherever they appear. `secret` is the secret itself:
    where it has 8 bytes or more, redaction looks for it in all its forms (interface, Results).
    """

    method: str
    headers: tuple[tuple[bytes, bytes], ...] = field(default=(), repr=False)
    query: bytes | None = field(default=None, repr=False)
    """`name=value`, percent-encoded, to be joined to the target's query with `&`."""
    body: bytes = field(default=b"", repr=False)
    """To be appended to the body: of token calls alone."""
    client: ClientCertificate | None = None
    """What is shown in the TLS handshake; whoever connects with it wipes its key."""
    whole: tuple[bytes, ...] = field(default=(), repr=False)
    secret: bytes = field(default=b"", repr=False)


def method_label(credential: Credential) -> str:
    """The injection method as digests and records name it: `header:authorization`, `query:key`, `ssh:publickey`."""
    match credential.options:
        case HeaderOptions(header=header) | BasicOptions(header=header):
            return f"header:{header.lower()}"
        case QueryOptions(parameter=parameter):
            return f"query:{parameter}"
        case SigV4Options(region=region, service=service):
            return f"sigv4:{region}/{service}"
        case OAuth2Options():
            return f"oauth2:{AUTHORIZATION.lower()}"
        case MutualTlsOptions():
            return "mtls"
        case SshKeyOptions():
            return "ssh:publickey"
        case SshPasswordOptions(interactive=interactive):
            return "ssh:keyboard-interactive" if interactive else "ssh:password"


def sent_as(credential: Credential) -> str:
    """The same for a person: "Authorization header", "query parameter key"."""
    match credential.options:
        case HeaderOptions(header=header) | BasicOptions(header=header):
            return f"{header} header"
        case QueryOptions(parameter=parameter):
            return f"query parameter {parameter}"
        case SigV4Options(region=region, service=service):
            return f"AWS signature for {service} in {region}"
        case OAuth2Options():
            return f"OAuth2 token in the {AUTHORIZATION} header"
        case MutualTlsOptions():
            return "TLS client certificate"
        case SshKeyOptions():
            return "SSH key"
        case SshPasswordOptions():
            return "SSH password"


def injected_headers(credential: Credential) -> tuple[str, ...]:
    """The headers, in lower case, that an agent may not set beside this credential."""
    match credential.options:
        case HeaderOptions(header=header) | BasicOptions(header=header):
            return (header.lower(),)
        case SigV4Options():
            return sigv4.HEADERS
        case OAuth2Options():
            return (AUTHORIZATION.lower(),)
        case QueryOptions() | MutualTlsOptions() | SshKeyOptions() | SshPasswordOptions():
            return ()


def inject(credential: Credential, secret: Secret, dispatch: HttpDispatch, at: Micros) -> Injection:
    """What `credential` adds to the approved request with this secret: of kind oauth2 the token, else its own.

    The secret is lent for the length of the call. `at` is the wall clock: a signature holds for some minutes from then.
    """
    return secret.use(lambda lent: _inject(credential, bytes(lent), dispatch, at))


def inject_proxy(credential: Credential, secret: Secret) -> Injection:
    """The header that tells a proxy who asks, for its CONNECT alone (RFC 9110, 11.7.2). Kinds basic and bearer."""
    return secret.use(lambda lent: _in_header(credential, "Proxy-Authorization", bytes(lent)))


def _inject(credential: Credential, secret: bytes, dispatch: HttpDispatch, at: Micros) -> Injection:
    method = method_label(credential)
    match credential.options:
        case HeaderOptions(header=header) | BasicOptions(header=header):
            return _in_header(credential, header, secret)
        case QueryOptions(parameter=parameter, format=template):
            # Everything but unreserved characters (RFC 3986, 2.3) is encoded, so the value cannot end the parameter.
            encoded = quote_from_bytes(_fill(template, secret), safe="").encode()
            query = quote_from_bytes(parameter.encode(), safe="").encode() + b"=" + encoded
            return Injection(method, query=query, whole=(query, encoded), secret=secret)
        case SigV4Options() as options:
            headers = sigv4.signed(options, secret.decode("ascii"), dispatch, at)
            proof = headers[-1][1]
            return Injection(method, headers, whole=(proof, proof.rpartition(b"=")[2]), secret=secret)
        case OAuth2Options():
            value = b"Bearer " + secret
            return Injection(method, ((AUTHORIZATION.encode(), value),), whole=(value,), secret=secret)
        case MutualTlsOptions(certificate=certificate):
            return Injection(method, client=ClientCertificate(certificate.encode("ascii"), Secret(secret)))
        case SshKeyOptions() | SshPasswordOptions():
            raise ValueError("this kind of credential logs in to SSH hosts")


def _in_header(credential: Credential, header: str, secret: bytes) -> Injection:
    match credential.options:
        case BasicOptions(username=username):
            token = basic_token(username.encode(), secret)
            value = b"Basic " + token
            whole: tuple[bytes, ...] = (value, token)
        case HeaderOptions(format=template):
            value = _fill(template, secret)
            whole = (value,)
        case _:
            raise ValueError("this kind of credential is sent in no header")
    return Injection(f"header:{header.lower()}", ((header.encode(), value),), whole=whole, secret=secret)


def basic_token(user: bytes, password: bytes) -> bytes:
    """RFC 7617: the user-id holds no colon, so the first one ends it."""
    return base64.b64encode(user + b":" + password)


def _fill(template: str, secret: bytes) -> bytes:
    return template.encode().replace(PLACEHOLDER.encode(), secret)
