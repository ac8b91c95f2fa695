"""How a credential becomes part of a request: a header pair or a query parameter, decided in pure functions.

What is bound at approval (the method label, which header is taken) is known without the secret; the secret's bytes are
asked for only when the request is built (architecture, One action, step 6).
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from urllib.parse import quote_from_bytes

from affidavit.broker.secret import Secret
from affidavit.broker.vault.credentials import PLACEHOLDER, Credential, CredentialKind


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
    whole: tuple[bytes, ...] = field(default=(), repr=False)
    secret: bytes = field(default=b"", repr=False)


def method_label(credential: Credential) -> str:
    """The injection method as digests and records name it: `header:authorization`, `query:key`."""
    if credential.kind is CredentialKind.QUERY:
        return f"query:{credential.parameter}"
    return f"header:{_header(credential).lower()}"


def sent_as(credential: Credential) -> str:
    """The same for a person: "Authorization header", "query parameter key"."""
    if credential.kind is CredentialKind.QUERY:
        return f"query parameter {credential.parameter}"
    return f"{_header(credential)} header"


def injected_header(credential: Credential) -> str | None:
    """The header, in lower case, that an agent may not set beside this credential; None if it injects none."""
    return None if credential.kind is CredentialKind.QUERY else _header(credential).lower()


def inject(credential: Credential, secret: Secret) -> Injection:
    """What `credential` adds to a request with this secret. The secret is lent for the length of the call."""
    return secret.use(lambda lent: _inject(credential, bytes(lent)))


def _inject(credential: Credential, secret: bytes) -> Injection:
    method = method_label(credential)
    match credential.kind:
        case CredentialKind.BASIC:
            # RFC 7617: the user-id holds no colon, so the first one ends it.
            token = base64.b64encode((credential.username or "").encode() + b":" + secret)
            value = b"Basic " + token
            return Injection(method, ((_header(credential).encode(), value),), None, (value, token), secret)
        case CredentialKind.BEARER | CredentialKind.HEADER:
            value = _fill(credential, secret)
            return Injection(method, ((_header(credential).encode(), value),), None, (value,), secret)
        case CredentialKind.QUERY:
            # Everything but unreserved characters (RFC 3986, 2.3) is encoded, so the value cannot end the parameter.
            encoded = quote_from_bytes(_fill(credential, secret), safe="").encode()
            query = quote_from_bytes((credential.parameter or "").encode(), safe="").encode() + b"=" + encoded
            return Injection(method, (), query, (query, encoded), secret)


def _fill(credential: Credential, secret: bytes) -> bytes:
    return (credential.format or PLACEHOLDER).encode().replace(PLACEHOLDER.encode(), secret)


def _header(credential: Credential) -> str:
    if credential.header is None:
        raise ValueError("this credential names no header")
    return credential.header
