"""Where an HTTP action goes: a URL, checked once and brought to one spelling.

What leaves the broker is this spelling, so that the card, the contract match, the fingerprint and the wire speak of
the same target (R14). The rules, in the order in which they are applied:

1. The URL is absolute, `http` or `https`, and holds no user-info, fragment, backslash, white space, control,
   bidirectional or otherwise invisible character. A fragment is refused rather than dropped: it would never be sent,
   and a card shows only what is sent.
2. The host is an IP literal or a name. Names become lower-case A-labels (UTS 46, IDNA 2008). A name whose last label
   is a number is an IPv4 address in an odd spelling (decimal, hexadecimal, octal, short) and becomes dotted; IPv6
   takes the form of RFC 5952. A name that ends in a dot is refused: it has a second spelling without it.
3. The path follows RFC 3986, 6.2.2: upper-case escapes, unreserved characters plain, dot segments removed. `%2F`,
   `%5C` and empty segments stay. A path that climbs above its root, spells a dot segment in escapes, or would hold one
   once `%2F` or `%5C` is decoded (however often), is refused.
4. The query stays as given.
5. Characters that RFC 3986 does not allow in a path or query (`"<>^`{|}` and whatever is not ASCII) are
   percent-encoded once, as UTF-8. The decoded form is the same, so no server reads anything else.
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from dataclasses import dataclass
from urllib.parse import quote

import idna

from affidavit.broker.limits import Limits
from affidavit.broker.refusal import Refused
from affidavit.broker.terms import Code

DEFAULT_PORTS = {"http": 80, "https": 443}


class BadUrl(ValueError):
    """A URL, or a part of one, is not a target; the text is a sentence for a person."""


@dataclass(frozen=True, slots=True)
class HttpTarget:
    """A checked URL. `url` is its one spelling and determines every other field."""

    scheme: str
    host: str
    """A-label name, dotted IPv4, or IPv6 without brackets: what is dialled and checked against the certificate."""
    host_shown: str
    """The host for a person: A-labels decoded where nothing invisible comes out."""
    port: int
    path: str
    query: str | None
    """Without its `?`; None where there is none, which is not the same as an empty one."""
    url: str
    origin: str
    is_literal: bool
    """The host is an IP address."""

    @property
    def authority(self) -> str:
        """Host and, unless it is the scheme's own, port: the value of the Host header."""
        return self.origin.partition("://")[2]

    @property
    def origin_form(self) -> bytes:
        """The request target of RFC 9112, 3.2.1: path and query."""
        return self.url.removeprefix(self.origin).encode("ascii")


@dataclass(frozen=True, slots=True)
class UrlParts:
    """The parts of an absolute URL as they were written, before any is normalised."""

    scheme: str
    host: str
    port: int
    path: str
    query: str | None


def parse_http(url: str, limits: Limits) -> HttpTarget:
    """The target that a request's `url` names. Refused: INVALID_TARGET, or PAYLOAD_LIMIT over `limits.url` bytes."""
    _check_length(url, limits)
    try:
        parts = split_url(url)
        host, is_literal = normal_host(parts.host)
        path = normal_path(parts.path)
        query = None if parts.query is None else normal_query(parts.query)
    except BadUrl as bad:
        raise Refused(Code.INVALID_TARGET, "url", str(bad)) from bad
    written = f"[{host}]" if ":" in host else host
    origin = f"{parts.scheme}://{written}"
    if parts.port != DEFAULT_PORTS[parts.scheme]:
        origin = f"{origin}:{parts.port}"
    normalised = origin + path + ("" if query is None else f"?{query}")
    _check_length(normalised, limits)
    return HttpTarget(
        scheme=parts.scheme,
        host=host,
        host_shown=host if is_literal else _shown(host),
        port=parts.port,
        path=path,
        query=query,
        url=normalised,
        origin=origin,
        is_literal=is_literal,
    )


def _check_length(url: str, limits: Limits) -> None:
    length = len(url.encode("utf-8", "surrogatepass"))
    if length > limits.url:
        raise Refused(Code.PAYLOAD_LIMIT, "url", f"The URL is {length} bytes; the limit is {limits.url}.")


# Characters that cannot be seen, by general category and, for letters and marks that draw nothing, by code point
# (Unicode: Default_Ignorable_Code_Point, less what the categories cover; and the blank Braille pattern).
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
_HIDDEN_RANGES = (
    (0x034F, 0x034F),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x2800, 0x2800),
    (0x3164, 0x3164),
    (0xFE00, 0xFE0F),
    (0xFFA0, 0xFFA0),
    (0xE0100, 0xE01EF),
)


def is_hidden(character: str) -> bool:
    """Whether a person cannot see this character: white space, control, bidirectional, unassigned or blank."""
    if " " < character <= "~":
        return False
    point = ord(character)
    return unicodedata.category(character) in _HIDDEN_CATEGORIES or any(a <= point <= z for a, z in _HIDDEN_RANGES)


_VISIBLE = re.compile(r"[!-~]*")
"""ASCII that a person sees: all of most URLs."""
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_AUTHORITY_END = re.compile(r"[/?]")
_PORT = re.compile(r"[0-9]{1,5}")


def split_url(url: str) -> UrlParts:
    """Take an absolute http or https URL apart. Raises BadUrl."""
    hidden = None if _VISIBLE.fullmatch(url) else next((at for at, sign in enumerate(url) if is_hidden(sign)), None)
    if hidden is not None:
        raise BadUrl(
            f"The URL holds white space or an invisible character (U+{ord(url[hidden]):04X}, place {hidden + 1})."
        )
    if "\\" in url:
        raise BadUrl("The URL holds a backslash, which programs read in different ways; write %5C if it is meant.")
    if "#" in url:
        raise BadUrl("The URL has a fragment, which is never sent; leave it out.")
    scheme = _SCHEME.match(url)
    if scheme is None or scheme[1].lower() not in DEFAULT_PORTS:
        raise BadUrl("The URL must be absolute and begin with https:// or http://.")
    rest = url[scheme.end() :]
    end = _AUTHORITY_END.search(rest)
    authority, tail = (rest, "") if end is None else (rest[: end.start()], rest[end.start() :])
    if "@" in authority:
        raise BadUrl("The URL has a user name in it; credentials are named by the field `credential`.")
    name = scheme[1].lower()
    host, port = _split_authority(authority, DEFAULT_PORTS[name])
    path, mark, query = tail.partition("?")
    return UrlParts(name, host, port, path or "/", query if mark else None)


def _split_authority(authority: str, default_port: int) -> tuple[str, int]:
    if authority.startswith("["):
        host, bracket, after = authority.partition("]")
        host += bracket
        if not bracket or (after and not after.startswith(":")):
            raise BadUrl("The IPv6 address in the URL must stand in brackets, such as https://[2001:db8::1]/.")
    else:
        host, colon, digits = authority.partition(":")
        after = colon + digits
    if not host:
        raise BadUrl("The URL has no host.")
    if not after:
        return host, default_port
    if not _PORT.fullmatch(after[1:]) or not 1 <= int(after[1:]) <= 65535:
        raise BadUrl("The port in the URL must be a number from 1 to 65535.")
    return host, int(after[1:])


_LABEL = re.compile(r"[a-z0-9_-]{1,63}")
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]*|[0-9]+")


def normal_host(host: str) -> tuple[str, bool]:
    """The one spelling of a host, and whether it is an address; IPv6 comes and goes with and without its brackets.

    Raises BadUrl.
    """
    if host.startswith("["):
        return _normal_ipv6(host[1:-1]), True
    name = host.lower() if host.isascii() else _to_a_labels(host)
    if name.endswith("."):
        raise BadUrl("The host in the URL ends in a dot; leave the dot out.")
    labels = name.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        return _normal_ipv4(labels), True
    for label in labels:
        if not _LABEL.fullmatch(label):
            raise BadUrl("The host in the URL is not a host name.")
        if label.startswith("xn--"):
            _from_a_label(label)
    if len(name) > 253:
        raise BadUrl("The host in the URL is longer than 253 characters.")
    return name, False


def _to_a_labels(host: str) -> str:
    try:
        return idna.encode(host, uts46=True, std3_rules=True).decode("ascii").lower()
    except UnicodeError as bad:
        raise BadUrl("The host in the URL is not a valid international name.") from bad


def _from_a_label(label: str) -> str:
    try:
        return idna.decode(label)
    except UnicodeError as bad:
        raise BadUrl("The host in the URL holds an xn-- label that does not decode.") from bad


def _shown(host: str) -> str:
    labels = []
    for label in host.split("."):
        decoded = _from_a_label(label) if label.startswith("xn--") else label
        labels.append(label if any(map(is_hidden, decoded)) else decoded)
    return ".".join(labels)


def _normal_ipv6(text: str) -> str:
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError as bad:
        raise BadUrl("The text in brackets in the URL is not an IPv6 address.") from bad
    if address.scope_id is not None:
        raise BadUrl("The IPv6 address in the URL has a zone, which is not supported.")
    # RFC 5952, section 5, spelt out because versions of Python differ here.
    return f"::ffff:{address.ipv4_mapped}" if address.ipv4_mapped else address.compressed


def _normal_ipv4(labels: list[str]) -> str:
    """One to four numbers as `inet_aton` reads them: hexadecimal after 0x, octal after 0, the last fills the rest."""
    bad = BadUrl("The host in the URL ends in a number but is not an IPv4 address.")
    if len(labels) > 4 or not all(_NUMBER.fullmatch(label) and len(label) <= 16 for label in labels):
        raise bad
    try:
        *leading, last = [_inet_number(label) for label in labels]
    except ValueError:
        raise bad from None
    if any(number > 255 for number in leading) or last >= 256 ** (4 - len(leading)):
        raise bad
    value = sum(number << (24 - 8 * at) for at, number in enumerate(leading)) + last
    return str(ipaddress.IPv4Address(value))


def _inet_number(text: str) -> int:
    if text[:2] in ("0x", "0X"):
        return int(text[2:] or "0", 16)
    return int(text, 8 if text.startswith("0") and len(text) > 1 else 10)


_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_ESCAPE = re.compile("%([0-9A-Fa-f]{2})")
_BAD_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")
_KEPT = "!#$%&'()*+,/:;=?@[]~"
"""What `quote` leaves alone besides letters, digits and `_.-`: everything that may stand in a path or query."""
_DELIMITER = re.compile("%(?:25)*(2[Ee]|2[Ff]|5[Cc]|3[Bb])")
"""A dot, slash, backslash or semicolon, percent-encoded any number of times over."""


def normal_path(path: str) -> str:
    """A path by RFC 3986, 6.2.2, as told at the head of this module. Raises BadUrl."""
    if _BAD_ESCAPE.search(path):
        raise BadUrl("A % in the path must be followed by two hexadecimal digits; write %25 for the sign itself.")
    for segment in path.split("/"):
        if segment not in (".", "..") and _ESCAPE.sub(_plain_if_unreserved, segment) in (".", ".."):
            raise BadUrl("The path spells a dot segment in escapes; write the path that is meant.")
    encoded = quote(_ESCAPE.sub(_plain_if_unreserved, path), safe=_KEPT)
    removed = _remove_dot_segments(encoded)
    for segment in re.split(r"[/\\]", _DELIMITER.sub(_decoded, removed)):
        if segment.partition(";")[0] in (".", ".."):
            raise BadUrl("The path holds a dot segment behind an encoded delimiter; write the path that is meant.")
    return removed


def normal_query(query: str) -> str:
    """The query as given, with the characters encoded that may not stand in one."""
    return quote(query, safe=_KEPT)


def _plain_if_unreserved(escape: re.Match[str]) -> str:
    character = chr(int(escape[1], 16))
    return character if character in _UNRESERVED else escape[0].upper()


def _decoded(escape: re.Match[str]) -> str:
    return chr(int(escape[1], 16))


def _remove_dot_segments(path: str) -> str:
    """RFC 3986, 5.2.4, for a path that begins with a slash; climbing above the root is refused, not ignored."""
    kept: list[str] = []
    segments = path[1:].split("/")
    for segment in segments:
        if segment == "..":
            if not kept:
                raise BadUrl("The path climbs above its root with `..`.")
            kept.pop()
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in (".", ".."):
        kept.append("")
    return "/" + "/".join(kept)
