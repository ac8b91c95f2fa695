"""What a card says of calls before: first contact, a contract's first use, what changed since the last approved one.

All three are read from the records, when a card is about to be shown and at no other time. "Sent" is what they go by: a
place that nothing was dispatched to is new, however often it was asked for.
"""

from __future__ import annotations

from typing import Final

from affidavit.broker.bound import Bound, HttpBound
from affidavit.broker.card import Notice, NoticeKind
from affidavit.broker.projection import Projection, origin_name, terms_name
from affidavit.broker.terms import InvocationId
from affidavit.journal import Name

AMONG: Final = 200
"""How many of the newest invocations are looked through for the last approved one: some milliseconds of the loop's time
for each card. What lies further back is not compared with."""
READ: Final = 8
"""How many of those that may be it are read."""
PERSON: Final = ("card", "card_passphrase", "cli_passphrase")
"""Means of an approval that a person gave, having seen the card."""


def firsts(projection: Projection, bound: Bound) -> tuple[Notice, ...]:
    """The notices of what is new about this dispatch."""
    reader, origin = projection.reader, origin_name(bound.shown)
    found = []
    if origin is not None and reader.name_id(origin) is None:
        found.append(Notice(NoticeKind.FIRST_CONTACT))
    used = terms_name(bound.contract_id, bound.contract_digest)
    if not bound.contract.is_default and reader.name_id(used) is None:
        found.append(Notice(NoticeKind.CONTRACT_FIRST_USE))
    return tuple(found)


def last_url(projection: Projection, bound: Bound) -> str | None:
    """The URL of the last call of the same route that a person approved; None where none is found. The route is the
    contract's pattern, else the exact path (interface, Approval)."""
    contract = projection.reader.name_id(Name("contract", bound.contract_id))
    if contract is None or not isinstance(bound, HttpBound):
        return None
    path = bound.target.origin + bound.target.path
    for view in projection.reader.newest_under(contract, among=AMONG, limit=READ):
        inv = projection.get(InvocationId(view.invocation_id))
        if inv is None or inv.target is None or inv.approval is None or inv.target.get("method") != bound.method:
            continue
        url = str(inv.target["url"])
        same = url.partition("?")[0] == path if bound.contract.is_default else url.startswith(bound.target.origin + "/")
        if same and inv.approval.approved and inv.approval.means in PERSON:
            return url
    return None
