"""What a redirect asks for (RFC 9110, 15.4), and what of a request may go where it leads (R20). Pure.

A redirect is the complete result of its exchange. Where the contract lets it be followed, what it asks for is either a
read of another place, or the same request once more: `carried`, byte by byte as it was planted. Which of both is said
by status and method, never by the target's wish alone:

- 303 asks for a read, whatever was sent; so do 301 and 302 for a POST, as clients have taken them ever since.
- Every other 301, 302, 307 and 308 keeps the method. Without a body, a GET, HEAD or OPTIONS that is a read stays a read
  of another place; anything else is carried.

Whether a carried request may go there is for `admission` to say: only the contract that was approved speaks for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urljoin

from affidavit.broker.address import check_form
from affidavit.broker.contract.model import READ_METHODS
from affidavit.broker.fingerprint import Headers
from affidavit.broker.limits import Limits
from affidavit.broker.refusal import Refused
from affidavit.broker.target import HttpTarget, parse_http
from affidavit.broker.terms import Code

FOLLOWED = frozenset({301, 302, 303, 307, 308})
"""300 offers a choice, 304 is no redirect, 305 and 306 are not used any more (RFC 9110, 15.4): none is followed."""

_CROSSES = frozenset(
    {
        "accept",
        "accept-encoding",
        "accept-language",
        "cache-control",
        "content-encoding",
        "content-language",
        "content-type",
        "if-match",
        "if-modified-since",
        "if-none-match",
        "if-range",
        "if-unmodified-since",
        "range",
        "user-agent",
    }
)
"""An agent's headers that may go to another origin: they name no one and open nothing."""

_OF_THE_REQUEST = ("content-", "if-", "range", "digest", "repr-digest")
"""How names begin that speak of a request's body or of a version: a read of another place has neither."""


class NotFollowed(Exception):
    """A redirect that is not followed for a reason that no code of a refusal names; the text is a sentence."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The exchange that was redirected, as far as the next one depends on it."""

    method: str
    target: HttpTarget
    headers: Headers
    """As they went out, without what the credential added."""
    named: frozenset[str]
    """Names of the headers that the agent gave, as it wrote them; the others were planted."""
    has_body: bool
    writes: bool


@dataclass(frozen=True, slots=True)
class Step:
    """What follows: a read of another place, or, `carried`, the same request once more."""

    method: str
    target: HttpTarget
    headers: Headers
    carried: bool
    crosses: bool
    """It leaves the origin."""


def step(status: int, location: str, asked: Asked, limits: Limits) -> Step:
    """What a redirect to `location` asks for. Raises NotFollowed, or Refused for a place that is no target."""
    if status not in FOLLOWED:
        raise NotFollowed(f"A {status} does not say where to go on.")
    target = place(location, asked.target, limits)
    method = _method(status, asked.method)
    kept = status != 303 and method == asked.method
    carried = kept and (method not in READ_METHODS or asked.has_body or asked.writes)
    crosses = target.origin != asked.target.origin
    headers = asked.headers
    if carried and crosses:
        _check_crossing(asked)
    elif not carried:
        headers = tuple(
            (name, value)
            for name, value in headers
            if name in asked.named
            and (not crosses or name.lower() in _CROSSES)
            and not ((method != asked.method or asked.has_body) and name.lower().startswith(_OF_THE_REQUEST))
        )
    return Step(method, target, headers, carried, crosses)


def place(location: str, base: HttpTarget, limits: Limits) -> HttpTarget:
    """The target that a Location names (RFC 9110, 10.2.2), its fragment left out, which is never sent. Raises Refused:
    INVALID_TARGET, PAYLOAD_LIMIT, or TARGET_BLOCKED where it is never allowed or gives up TLS."""
    try:
        url = urljoin(base.url, location.partition("#")[0])
    except ValueError:
        raise Refused(Code.INVALID_TARGET, "url", "The Location of the redirect is no URL.") from None
    target = parse_http(url, limits)
    check_form(target)
    if base.scheme == "https" and target.scheme != "https":
        raise Refused(Code.TARGET_BLOCKED, "url", "The redirect leads from https:// to http://.")
    return target


def _method(status: int, method: str) -> str:
    if status == 303 and method != "HEAD":
        return "GET"
    return "GET" if status in (301, 302) and method == "POST" else method


def _check_crossing(asked: Asked) -> None:
    """A request that is sent again keeps all its headers, or is another request."""
    for name, _ in asked.headers:
        if name in asked.named and name.lower() not in _CROSSES:
            raise Refused(
                Code.HEADER_FORBIDDEN,
                f"headers.{name}",
                f"The redirect leads to another origin, where the agent's {name} does not go.",
            )
