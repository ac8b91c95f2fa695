"""Which contract a request falls under: the most specific of those that match, else a default (interface, 6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import Any
from urllib.parse import parse_qsl

from affidavit.broker.contract.model import (
    METHODS,
    READ_METHODS,
    Completion,
    CompletionKind,
    Contract,
    EffectTerms,
    HttpMatch,
    Idempotent,
    PlaceKind,
    SshMatch,
    Standing,
    Where,
)
from affidavit.broker.contract.parse import digest
from affidavit.broker.contract.pattern import Rank
from affidavit.broker.contract.pointer import MISSING, NotJson, find, load_json, same
from affidavit.broker.target import HttpTarget
from affidavit.broker.terms import Effect

Headers = Sequence[tuple[str, str]]
"""Names in lower case, and values."""


def _default(effect: Effect, idempotent: Idempotent) -> Contract:
    """Its digest is over what a file of it would say, so that a changed default shows in the records."""
    content: Mapping[str, Any] = {
        "id": f"default.{effect}",
        "effect": {"kind": str(effect), "idempotent": str(idempotent)},
    }
    return Contract(
        id=content["id"],
        digest=digest(content),
        standing=Standing.BUILT_IN,
        match=None,
        effect_terms=EffectTerms(effect, idempotent, Completion(CompletionKind.BODY)),
    )


DEFAULT_READ = _default(Effect.READ, Idempotent.ASSUMED)
"""GET, HEAD, OPTIONS without a contract: idempotent by assumption only (R33)."""
DEFAULT_READ_UNASSUMED = _default(Effect.READ, Idempotent.NO)
"""The same with the setting `assume_reads` off."""
DEFAULT_WRITE = _default(Effect.WRITE, Idempotent.NO)
"""Everything else without a contract: not idempotent, no key, no look-up."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two contracts of which neither goes before the other; they are refused at adoption, both named."""

    one: str
    other: str
    message: str


class ContractSet:
    """The contracts in force. Immutable: adopting makes a new one."""

    def __init__(self, contracts: Iterable[Contract] = (), *, assume_reads: bool = True) -> None:
        """A built-in contract whose id was adopted is left out."""
        given = tuple(contracts)
        adopted = {contract.id for contract in given if contract.standing is Standing.ADOPTED}
        self._contracts = tuple(
            contract for contract in given if contract.standing is Standing.ADOPTED or contract.id not in adopted
        )
        self._default_read = DEFAULT_READ if assume_reads else DEFAULT_READ_UNASSUMED
        self._of_host: dict[tuple[str, int, str | None], list[tuple[Contract, HttpMatch]]] = {}
        """HTTP contracts by the scheme, port and host of their patterns; None where a star stands in the host."""
        for contract in self._contracts:
            if isinstance(contract.match, HttpMatch):
                url = contract.match.url
                host = url.host_text if url.host_is_written_out else None
                self._of_host.setdefault((url.scheme, url.port, host), []).append((contract, contract.match))

    def __iter__(self) -> Iterator[Contract]:
        """Every contract but the defaults, by id."""
        return iter(sorted(self._contracts, key=lambda contract: contract.id))

    def get(self, contract_id: str) -> Contract | None:
        """The contract of this id, defaults included."""
        everyone = (*self._contracts, self._default_read, DEFAULT_WRITE)
        return next((contract for contract in everyone if contract.id == contract_id), None)

    def match(self, method: str, target: HttpTarget, headers: Headers, body: bytes) -> Contract:
        """The contract of this request, as the agent gave it, before anything is planted."""
        holds = _conditions(target, headers, body)
        candidates = [
            contract
            for contract in self._covering(method, target)
            if isinstance(contract.match, HttpMatch) and all(map(holds, contract.match.where))
        ]
        return max(candidates, key=_precedence, default=self.default(method))

    def match_command(self, host: str, command: str) -> Contract:
        """The contract of this command at this host entry."""
        candidates = [
            contract
            for contract in self._contracts
            if isinstance(contract.match, SshMatch) and contract.match.pattern.matches(host, command)
        ]
        return max(candidates, key=_precedence, default=DEFAULT_WRITE)

    def by_route(self, method: str, target: HttpTarget) -> tuple[Contract, tuple[Contract, ...]]:
        """What holds for a method and target alone, and those that go before it if their `where` holds."""
        plain, conditional = self.default(method), []
        for contract in sorted(self._covering(method, target), key=_precedence):
            if isinstance(contract.match, HttpMatch) and contract.match.where:
                conditional.append(contract)
            else:
                plain, conditional = contract, []
        return plain, tuple(reversed(conditional))

    def default(self, method: str) -> Contract:
        return self._default_read if method in READ_METHODS else DEFAULT_WRITE

    def conflicts(self) -> tuple[Conflict, ...]:
        """Every pair with one id, or of equal rank and standing that some request would match both of."""
        found = []
        for one, other in combinations(self, 2):
            if one.id == other.id:
                found.append(Conflict(one.id, other.id, f"Two contracts have the id {one.id}; rename one."))
            elif _order(one) == _order(other) and _overlap(one, other):
                message = (
                    f"{one.id} and {other.id} can match the same request, and neither is more specific; narrow one."
                )
                found.append(Conflict(one.id, other.id, message))
        return tuple(found)

    def _covering(self, method: str, target: HttpTarget) -> Iterator[Contract]:
        for host in (target.host, None):
            for contract, match in self._of_host.get((target.scheme, target.port, host), ()):
                if match.names_method(method) and match.url.matches(target):
                    yield contract


def rank(contract: Contract) -> Rank:
    """How specific its match is; the defaults have none."""
    match contract.match:
        case HttpMatch(method=method, url=url, where=where):
            own = url.rank
            return own._replace(conditions=own.conditions + len(where), named_method=method is not None)
        case SshMatch(pattern=pattern):
            return pattern.rank
        case None:
            return Rank(literal_host=False, literal_path=0, fewer_wildcards=0)


def _order(contract: Contract) -> tuple[Rank, bool]:
    return rank(contract), contract.standing is Standing.ADOPTED


def _precedence(contract: Contract) -> tuple[Rank, bool, str]:
    """The order with ties settled by id: a set with conflicts is not adopted, and must still answer in one way."""
    return *_order(contract), contract.id


def _overlap(one: Contract, other: Contract) -> bool:
    mine, theirs = one.match, other.match
    if isinstance(mine, SshMatch) and isinstance(theirs, SshMatch):
        return mine.pattern.overlaps(theirs.pattern)
    if isinstance(mine, HttpMatch) and isinstance(theirs, HttpMatch):
        methods = set(mine.method or METHODS) & set(theirs.method or METHODS)
        apart = any(a.at == b.at and not same(a.equals, b.equals) for a in mine.where for b in theirs.where)
        return bool(methods) and not apart and mine.url.overlaps(theirs.url)
    return False


def _conditions(target: HttpTarget, headers: Headers, body: bytes) -> Callable[[Where], bool]:
    """Whether a condition of `where` holds for this request; the body is parsed only if one asks for it."""

    @cache
    def document() -> Any:
        try:
            return load_json(body)
        except NotJson:
            return MISSING

    def holds(where: Where) -> bool:
        match where.at.kind:
            case PlaceKind.POINTER:
                return same(find(document(), where.at.name), where.equals)
            case PlaceKind.QUERY:
                given: Iterable[tuple[str, str]] = parse_qsl(target.query or "", keep_blank_values=True)
                name = where.at.name
            case _:
                given, name = headers, where.at.name.lower()
        # Given twice, a value is not one value: whoever reads it may take the other.
        return [value for key, value in given if key == name] == [where.equals]

    return holds
