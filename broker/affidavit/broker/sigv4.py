"""AWS Signature Version 4, by botocore's signer: the headers that prove a request without sending the secret.

What is signed is the value that was approved (`fingerprint.HttpDispatch`): method, URL, the agent's headers, body. The
broker's own headers (User-Agent, Accept, ...) are not part of it: front ends of services rewrite them on the way, and
no fingerprint holds them.

botocore is imported by `load`, on the first use. Only its signer's public steps are called, with the time passed in;
its `add_auth` takes the time from the system and writes the signature to a log.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote_to_bytes, urlsplit

from affidavit.broker.fingerprint import HttpDispatch
from affidavit.broker.moment import SECOND
from affidavit.broker.terms import Micros
from affidavit.broker.vault.kinds import SigV4Options

if TYPE_CHECKING:
    from botocore.auth import SigV4Auth

HEADERS = ("authorization", "x-amz-date", "x-amz-content-sha256", "x-amz-security-token")
"""What an agent may not set beside such a credential, in lower case."""

_S3 = frozenset({"s3", "s3-object-lambda", "s3-outposts", "s3express"})
"""Services that sign the path's segments encoded once, the others twice, and want the body's hash in a header."""


def load() -> None:
    """Import botocore's signer, about 0.2 s the first time: to be called in a thread before `signed` is."""
    import botocore.auth
    import botocore.awsrequest
    import botocore.credentials  # noqa: F401


def signed(
    options: SigV4Options, secret_key: str, dispatch: HttpDispatch, at: Micros
) -> tuple[tuple[bytes, bytes], ...]:
    """The headers to add, Authorization last. The target accepts them for some minutes from `at` on.

    What is sent keeps its spelling; path and query are signed as the target spells them before it compares.
    """
    from botocore.awsrequest import AWSRequest

    signer = _signer(options, secret_key)
    url, query = dispatch.url.partition("?")[::2]
    scheme, host, path = urlsplit(url)[:3]
    if options.service in _S3:
        path = "/".join(map(_encoded, path.split("/")))
    asked = f"{scheme}://{host}{path}"
    request = AWSRequest(dispatch.method, f"{asked}?{_canonical(query)}" if query else asked, data=dispatch.body)
    for name, value in (("Host", host), *dispatch.headers):
        request.headers[name] = value
    stamp = datetime.fromtimestamp(at // SECOND, UTC).strftime("%Y%m%dT%H%M%SZ")
    request.context["timestamp"] = stamp
    added = [("X-Amz-Date", stamp)]
    if options.service in _S3:
        added.append(("X-Amz-Content-Sha256", signer.payload(request)))
    for name, value in added:
        request.headers[name] = value
    signature = signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request)
    names = signer.signed_headers(signer.headers_to_sign(request))
    proof = f"AWS4-HMAC-SHA256 Credential={signer.scope(request)}, SignedHeaders={names}, Signature={signature}"
    return tuple((n.encode("ascii"), v.encode("ascii")) for n, v in (*added, ("Authorization", proof)))


def _signer(options: SigV4Options, secret_key: str) -> SigV4Auth:
    from botocore.auth import S3SigV4Auth, SigV4Auth
    from botocore.credentials import Credentials

    kind = S3SigV4Auth if options.service in _S3 else SigV4Auth
    return kind(Credentials(options.access_key, secret_key), options.service, options.region)


def _canonical(query: str) -> str:
    """The query with each name and value encoded anew."""
    pairs = (pair.partition("=") for pair in query.split("&") if pair)
    return "&".join(f"{_encoded(name)}={_encoded(value)}" for name, _, value in pairs)


def _encoded(text: str) -> str:
    return quote(unquote_to_bytes(text), safe="-_.~")
