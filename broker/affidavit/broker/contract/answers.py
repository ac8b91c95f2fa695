"""A contract's three answers, in words for a person (R70; design, Words), and `contract.explain`.

What binds a repeat; where the outcome can be looked up; what is left if the connection dies. The third is there only
if the contract names a key replay, a look-up, a job, or says so itself: that the request was sent is recorded anyway.
"""

from __future__ import annotations

from typing import Any

from affidavit.broker.card import Answer, Answers
from affidavit.broker.contract.model import (
    LS_REMOTE,
    OWN_URL,
    PATH,
    Contract,
    HttpMatch,
    IdempotencyTerms,
    Idempotent,
    PlaceKind,
    Reconcile,
    SshMatch,
    Template,
)
from affidavit.broker.contract.select import ContractSet
from affidavit.broker.target import HttpTarget
from affidavit.broker.terms import Effect

_NOTHING = Answer("Nothing", present=False)


def answers(contract: Contract) -> Answers:
    """The three answers of one contract."""
    return Answers(_binds_retries(contract), _lookup(contract), _on_connection_death(contract))


_BOUND_BY = {
    Idempotent.YES: "The request itself: a repeat changes nothing more",
    Idempotent.NAME: "The name that the caller gives the object",
    Idempotent.IF_MATCH: "If-Match: the object's version",
    Idempotent.IF_NONE_MATCH: "If-None-Match: the object must not exist yet",
    Idempotent.ASSUMED: "Assumed: a read may be repeated",
}


def _binds_retries(contract: Contract) -> Answer:
    if contract.idempotency:
        return Answer(_key(contract.idempotency), present=True)
    idempotent = contract.effect_terms.idempotent
    if idempotent is Idempotent.YES and contract.effect is Effect.READ:
        return Answer("Not needed: a read may be repeated", present=True)
    return Answer(_BOUND_BY[idempotent], present=True) if idempotent in _BOUND_BY else _NOTHING


_KEY_PLACES = {
    PlaceKind.HEADER: "{name}",
    PlaceKind.POINTER: "Body field {name}",
    PlaceKind.QUERY: "Query parameter {name}",
}


def _key(terms: IdempotencyTerms) -> str:
    place = _KEY_PLACES[terms.at.kind].format(name=terms.at.name)
    if terms.retention_s is None:
        return f"{place}, same key; how long is not documented"
    return f"{place}, same key for {_duration(terms.retention_s)}"


def _lookup(contract: Contract) -> Answer:
    if contract.reconcile:
        return Answer(_look_up(contract.reconcile, contract), present=True)
    return Answer("Not needed: nothing changes", present=True) if contract.effect is Effect.READ else _NOTHING


_FOUND_BY = {
    "operation_id": "by our operation id",
    "idempotency_key": "by the key",
    "correlation_id": "by the correlation id",
}


def _look_up(look_up: Reconcile, contract: Contract) -> str:
    if look_up.by_refs:
        return f"{LS_REMOTE}: the refs that the push was to move"
    if look_up.command is not None:
        return f"Command: {look_up.command.text}"
    assert look_up.url is not None, "a look-up over HTTP has a URL"
    place = _place(look_up.url, contract)
    shown = f"{look_up.method} {place}"
    if any(f"{{{name}}}" in place for name in look_up.url.names if not name.startswith(PATH)):
        return shown
    names = [name for part in (look_up.url, look_up.body) if part for name in part.names]
    found_by = next((_FOUND_BY[name] for name in names if name in _FOUND_BY), "")
    return f"{shown} {found_by}".rstrip()


def _place(url: Template, contract: Contract) -> str:
    """Where a look-up goes, less its query, and less its origin where that is the action's own."""
    text = url.text.partition("?")[0]
    if text == OWN_URL:
        return "the same URL"
    if url.is_own:
        return text
    authority, slash, path = text.partition("://")[2].partition("/")
    ours = contract.match.url if isinstance(contract.match, HttpMatch) else None
    same_host = ours is not None and authority.partition(":")[0].lower() == ours.host_text
    return slash + path or "/" if same_host else text


def _on_connection_death(contract: Contract) -> Answer:
    sent = "the command was sent" if isinstance(contract.match, SshMatch) else "the request was sent"
    if contract.on_connection_death:
        return Answer(contract.on_connection_death, present=True)
    if contract.idempotency:
        return Answer(f"Record that {sent}; the key replays the first answer", present=True)
    if contract.reconcile:
        return Answer(f"Record that {sent}; the look-up shows the rest", present=True)
    if contract.job:
        return Answer(f"Record that {sent}; the job shows the rest", present=True)
    return Answer(f"Only the record that {sent}", present=False)


_UNITS = ((86400, "days"), (3600, "h"), (60, "min"), (1, "s"))


def _duration(seconds: float) -> str:
    """As cards write it: `24 h`, `7 days`, `90 min`. Whole days from two on."""
    for unit, name in _UNITS:
        if seconds >= (2 * unit if name == "days" else unit) and seconds % unit == 0:
            return f"{seconds / unit:g} {name}"
    return f"{seconds:g} s"


def explain(contracts: ContractSet, method: str, target: HttpTarget) -> dict[str, Any]:
    """`contract.explain` for a method and URL: the contract, its effect, the three answers.

    A `where` needs the request itself; contracts that would go before this one if theirs holds are named in `unless`.
    """
    contract, conditional = contracts.by_route(method, target)
    return {
        "method": method,
        "url": target.url,
        **told(contract),
        "unless": [other.id for other in conditional],
    }


def told(contract: Contract) -> dict[str, Any]:
    """One contract, JSON-ready, as `contract.list` and `contract.explain` tell it."""
    three = answers(contract)
    each = {
        "binds_retries": three.binds_retries,
        "lookup": three.lookup,
        "on_connection_death": three.on_connection_death,
    }
    return {
        "contract": {
            "id": contract.id,
            "title": contract.title,
            "source": contract.source,
            "checked": contract.checked.isoformat() if contract.checked else None,
            "digest": contract.digest,
            "standing": str(contract.standing),
        },
        "effect": str(contract.effect),
        "idempotent": _idempotent_told(contract),
        "approval": str(contract.approval) if contract.approval else None,
        "redirects": contract.redirects,
        "answers": {name: answer.text for name, answer in each.items()},
        "missing": [name for name, answer in each.items() if not answer.present],
    }


def _idempotent_told(contract: Contract) -> bool | str:
    """As the file says it: true, false, `name`, `if-match`, `if-none-match`; `assumed` for `default.read`."""
    terms = contract.effect_terms.idempotent
    return {Idempotent.YES: True, Idempotent.NO: False}.get(terms, str(terms))
