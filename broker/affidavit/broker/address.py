"""Which addresses an action may go to (interface, Credentials and targets).

A name can lead anywhere, so what counts is the address that is dialled: every address of a DNS answer must pass, and
the one that passed is pinned. Literal addresses are judged earlier, while the request is checked.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

from affidavit.broker.contract.pattern import UrlPattern
from affidavit.broker.refusal import Refused
from affidavit.broker.target import HttpTarget
from affidavit.broker.terms import Code
from affidavit.broker.wire.port import AddressCheck


class AddressClass(StrEnum):
    NEVER = "never"
    """Nothing is sent there, whoever gives leave: link-local, multicast, unspecified, a cloud's metadata, disguised."""
    LOOPBACK = "loopback"
    PRIVATE = "private"
    PUBLIC = "public"


# Where clouds hand a machine its credentials, beside the link-local addresses: Alibaba, Oracle, Azure's host agent; AWS
# (instances, pods), Google. They lie in ranges for which leave can be given (docs/decisions, 0015).
_METADATA_V4 = ("100.100.100.200/32", "192.0.0.192/32", "168.63.129.16/32")
_METADATA_V6 = ("fd00:ec2::254/128", "fd00:ec2::23/128", "fd20:ce::254/128")

_V4_CLASSES = (
    (AddressClass.NEVER, ("0.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "255.255.255.255/32")),
    (AddressClass.NEVER, _METADATA_V4),
    (AddressClass.LOOPBACK, ("127.0.0.0/8",)),
    (AddressClass.PRIVATE, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10")),
)
_V6_CLASSES = (
    (AddressClass.NEVER, ("::/128", "fe80::/10", "ff00::/8")),
    (AddressClass.NEVER, _METADATA_V6),
    (AddressClass.LOOPBACK, ("::1/128",)),
    (AddressClass.PRIVATE, ("fc00::/7",)),
)
_V4_TABLE = tuple((kind, IPv4Network(text)) for kind, texts in _V4_CLASSES for text in texts)
_V6_TABLE = tuple((kind, IPv6Network(text)) for kind, texts in _V6_CLASSES for text in texts)

# IPv6 forms that carry an IPv4 address, and the bytes that hold it: v4-compatible (RFC 4291, 2.5.5.1), v4-mapped
# (2.5.5.2), v4-translated (RFC 7915), NAT64 (RFC 6052, 2.1) and 6to4 (RFC 3056).
_EMBEDDED = (
    (IPv6Network("::/96"), (12, 13, 14, 15)),
    (IPv6Network("::ffff:0:0/96"), (12, 13, 14, 15)),
    (IPv6Network("::ffff:0:0:0/96"), (12, 13, 14, 15)),
    (IPv6Network("64:ff9b::/96"), (12, 13, 14, 15)),
    (IPv6Network("2002::/16"), (2, 3, 4, 5)),
)
# Local-use NAT64 (RFC 8215): the network chose a prefix length inside this block, which the address does not tell.
# RFC 6052, 2.2 has these layouts in it; whatever follows the IPv4 address is zero.
_LOCAL_NAT64 = IPv6Network("64:ff9b:1::/48")
_LOCAL_NAT64_LAYOUTS = ((6, 7, 9, 10), (7, 9, 10, 11), (9, 10, 11, 12), (12, 13, 14, 15))


@lru_cache(maxsize=1024)
def classify(address: str) -> AddressClass:
    """The class of a resolved or literal address; NEVER for what is not an address. A zone does not matter.

    Remembered, for an action asks several times, and the next one goes to the same place.
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return AddressClass.NEVER
    if isinstance(parsed, IPv4Address):
        return _classify_v4(parsed)
    kind = next((kind for kind, network in _V6_TABLE if parsed in network), None)
    if kind is not None:
        return kind
    inner = [_classify_v4(v4) for v4 in _inner(parsed)]
    # Nothing that needs leave is reached in disguise: leave names an address as it is.
    return AddressClass.PUBLIC if all(kind is AddressClass.PUBLIC for kind in inner) else AddressClass.NEVER


def _classify_v4(address: IPv4Address) -> AddressClass:
    return next((kind for kind, network in _V4_TABLE if address in network), AddressClass.PUBLIC)


def _inner(address: IPv6Address) -> list[IPv4Address]:
    """Every IPv4 address that this one may stand for."""
    packed = address.packed
    layouts = [places for network, places in _EMBEDDED if address in network]
    if address in _LOCAL_NAT64:
        fitting = [places for places in _LOCAL_NAT64_LAYOUTS if not any(packed[places[-1] + 1 :])]
        # A short prefix leaves the end zero; read as the longest one, that would be 0.0.0.0 and say nothing.
        layouts += [places for places in fitting if any(packed[at] for at in places)] or fitting[-1:]
    return [IPv4Address(bytes(packed[at] for at in places)) for places in layouts]


@dataclass(frozen=True, slots=True)
class Binding:
    """What may give leave: a credential's target or a contract's match, with its `private`."""

    pattern: UrlPattern
    private: bool


@dataclass(frozen=True, slots=True)
class Leave:
    """Where beyond public addresses this one action may go."""

    loopback: bool = False
    private: bool = False


def leave(target: HttpTarget, bindings: Iterable[Binding]) -> Leave:
    """What the credential used and the contract matched allow for this target.

    One that names an address by literal allows that address; `localhost` allows loopback; `private` both classes.
    """
    covering = [binding for binding in bindings if binding.pattern.matches(target)]
    if any(binding.private for binding in covering):
        return Leave(loopback=True, private=True)
    if not any(binding.pattern.names_literally(target.host) for binding in covering):
        return Leave()
    kind = classify(target.host) if target.is_literal else AddressClass.LOOPBACK
    return Leave(loopback=kind is AddressClass.LOOPBACK, private=kind is AddressClass.PRIVATE)


def allowed(address: str, target: HttpTarget, leave: Leave) -> bool:
    """Whether this action may be sent to `address`. Plain http goes to loopback only (R35)."""
    kind = classify(address)
    if kind is AddressClass.LOOPBACK:
        return leave.loopback
    if target.scheme == "http":
        return False
    return kind is AddressClass.PUBLIC or (kind is AddressClass.PRIVATE and leave.private)


def address_check(target: HttpTarget, leave: Leave) -> AddressCheck:
    """`allowed` in the shape that the wire asks for, for each address of a DNS answer."""
    return lambda address: allowed(address, target, leave)


def is_loopback(target: HttpTarget) -> bool:
    """Whether the host is `localhost` or a loopback literal; where another name leads is known once it is resolved."""
    return target.host == "localhost" or (target.is_literal and classify(target.host) is AddressClass.LOOPBACK)


def check_form(target: HttpTarget) -> None:
    """Refuse a literal that no leave could allow: TARGET_BLOCKED. Needs neither vault nor contract."""
    if not target.is_literal:
        return
    kind = classify(target.host)
    if kind is AddressClass.NEVER:
        raise _blocked(f"The address {target.host} is never allowed.")
    if target.scheme == "http" and kind is not AddressClass.LOOPBACK:
        raise _blocked(f"http:// goes to loopback only; {target.host} has no identity without TLS. Use https://.")


def check_literal(target: HttpTarget, leave: Leave) -> None:
    """Refuse a literal for which leave is missing: TARGET_BLOCKED. Names are checked when they are resolved."""
    if target.is_literal and not allowed(target.host, target, leave):
        raise _blocked(
            f"The {classify(target.host)} address {target.host} needs a credential or contract that names it, "
            "or one marked private."
        )


def _blocked(message: str) -> Refused:
    return Refused(Code.TARGET_BLOCKED, "url", message)
