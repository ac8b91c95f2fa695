"""From the text of a contract file to a Contract, or to everything that is wrong with it; never to half of one."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import rfc8785

from affidavit.broker.contract.check import check
from affidavit.broker.contract.grammar import HTTP, SSH, Fault, read, sign
from affidavit.broker.contract.lines import Lines, Path
from affidavit.broker.contract.model import (
    Absent,
    Batch,
    BatchOutcome,
    BodyVerdict,
    Completion,
    CompletionKind,
    Contract,
    Correlation,
    Deadlines,
    EffectTerms,
    Eventual,
    ExitVerdict,
    HttpMatch,
    IdempotencyTerms,
    Idempotent,
    Job,
    Place,
    PlaceKind,
    ReadTerms,
    Reconcile,
    RetryTerms,
    Row,
    SshMatch,
    Standing,
    Template,
    Verdict,
    Where,
)
from affidavit.broker.contract.pattern import CommandPattern
from affidavit.broker.limits import KIB
from affidavit.broker.terms import Effect, Outcome

MAX_FILE = 64 * KIB
"""Bytes of a contract file."""
DEFAULT_MARKER = Template("{operation_id}", ("operation_id",))
"""The completion marker of a contract that names no text for it."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a contract file, for the person who writes it."""

    file: str
    line: int
    """From 1."""
    key: str
    """Such as `match.where[0].equals`; empty for the file as a whole."""
    message: str
    fix: str

    def __str__(self) -> str:
        key = f"`{self.key}` " if self.key else ""
        return f"{self.file}:{self.line}: {key}{self.message}. {self.fix}"


class ContractRefused(Exception):
    """A contract file is refused; each problem is a line of the text."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)


def parse(text: str, *, file: str, standing: Standing = Standing.ADOPTED) -> Contract:
    """The contract that `text` is. `file` only names it in problems. Raises ContractRefused with all of them."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_FILE:
        message = f"The file is longer than {MAX_FILE // KIB} KiB"
        raise ContractRefused([Problem(file, 1, "", message, "A contract speaks of one action; split it.")])
    content = _content(text, file)
    values, faults = read(content)
    if not faults:
        faults = tuple(check(content, values))
    if faults:
        raise ContractRefused(_problems(faults, Lines(text), file))
    return _build(values, digest(content), standing)


def digest(content: Mapping[str, Any]) -> str:
    """`sha256:` over the RFC 8785 form of a file's content; white space, comments and order do not count."""
    return "sha256:" + hashlib.sha256(rfc8785.dumps(_json_ready(content))).hexdigest()


def _json_ready(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _json_ready(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_json_ready(inner) for inner in value]
    return value.isoformat() if isinstance(value, date) else value


_WHERE = re.compile(r"(?P<what>.*?) \(at (?:line (?P<line>[0-9]+), column (?P<column>[0-9]+)|end of document)\)")


def _content(text: str, file: str) -> dict[str, Any]:
    fix = "Mend it as TOML 1.0 has it."
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as bad:
        where = _WHERE.fullmatch(str(bad))
        what = where["what"] if where else str(bad)
        line = int(where["line"]) if where and where["line"] else text.count("\n") + 1
        column = f" (column {where['column']})" if where and where["column"] else ""
        problem = Problem(file, line, "", f"This is not TOML{column}: {what[:1].lower()}{what[1:]}", fix)
        raise ContractRefused([problem]) from bad
    except RecursionError as bad:
        raise ContractRefused([Problem(file, 1, "", "The file is nested too deeply", fix)]) from bad


def _problems(faults: Iterable[Fault], lines: Lines, file: str) -> list[Problem]:
    problems = [Problem(file, lines.of(fault.path), _key(fault.path), fault.message, fault.fix) for fault in faults]
    return sorted(problems, key=lambda problem: problem.line)


def _key(path: Path) -> str:
    written = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return written.removeprefix(".")


# From checked values to the model. Every section is either None or a dict with every key of its table.


def _build(values: Mapping[str, Any], file_digest: str, standing: Standing) -> Contract:
    v = values
    return Contract(
        id=v["id"],
        digest=file_digest,
        standing=standing,
        match=_match(v["match"]),
        effect_terms=_effect(v["effect"], v["match"]["kind"]),
        title=v["title"],
        source=v["source"],
        checked=v["checked"],
        correlation=Correlation(**v["correlation"]) if v["correlation"] else None,
        read=_read_terms(v["read"]) if v["read"] else None,
        idempotency=_idempotency(v["idempotency"]) if v["idempotency"] else None,
        verdict=_verdict(v["verdict"]) if v["verdict"] else Verdict(),
        on_connection_death=v["answers"]["on_connection_death"] if v["answers"] else None,
        job=Job(**v["job"]) if v["job"] else None,
        batch=_batch(v["batch"]) if v["batch"] else None,
        reconcile=_reconcile(v["reconcile"]) if v["reconcile"] else None,
        deadlines=_deadlines(v["deadlines"]) if v["deadlines"] else Deadlines(),
        retry=RetryTerms(**v["retry"]) if v["retry"] else RetryTerms(),
        redirects=v["redirect"]["follow"] if v["redirect"] else 0,
        expected_result=v["result"]["expected"] if v["result"] else None,
        approval=v["approval"]["mode"] if v["approval"] else None,
    )


def _match(match: Mapping[str, Any]) -> HttpMatch | SshMatch:
    if match["kind"] == SSH:
        return SshMatch(CommandPattern.parse(match["host"], match["command"]))
    where = tuple(Where(_place(entry, "pointer", "query", "header"), entry["equals"]) for entry in match["where"])
    return HttpMatch(match["method"], match["url"], where, match["private"])


def _effect(effect: Mapping[str, Any], kind: str) -> EffectTerms:
    idempotent = effect["idempotent"]
    if idempotent is None:
        idempotent = Idempotent.YES if effect["kind"] is Effect.READ else Idempotent.NO
    completion = effect["completion"] or Completion(CompletionKind.BODY if kind == HTTP else CompletionKind.EXIT_STATUS)
    if completion.kind is CompletionKind.MARKER:
        completion = replace(completion, marker=effect["marker"] or DEFAULT_MARKER)
    return EffectTerms(effect["kind"], idempotent, completion)


def _read_terms(terms: Mapping[str, Any]) -> ReadTerms:
    consistency = terms["consistency"]
    if isinstance(consistency, Mapping):
        consistency = Eventual(consistency["eventual"])
    return ReadTerms(terms["purpose"], consistency)


def _idempotency(terms: Mapping[str, Any]) -> IdempotencyTerms:
    return IdempotencyTerms(
        at=terms["body_field"] or _place(terms, "header", "query"),
        quoted=terms["quoted"],
        max_length=terms["max_length"],
        scope=terms["scope"],
        retention_s=terms["retention"],
        mismatch=terms["mismatch"],
        replays_errors=terms["replays_errors"],
        companions=tuple(place.name for place in terms["companions"]),
        in_use=tuple(map(sign, terms["in_use"])),
    )


def _verdict(terms: Mapping[str, Any]) -> Verdict:
    return Verdict(
        refused=terms["refused"],
        applied=tuple(map(sign, terms["applied"])),
        rate_limited=tuple(map(sign, terms["rate_limited"])),
        body=tuple(BodyVerdict(**entry) for entry in terms["body"]),
        exit=tuple(ExitVerdict(**entry) for entry in terms["exit"]),
        proxy_status=terms["proxy_status"],
    )


def _batch(terms: Mapping[str, Any]) -> Batch:
    return Batch(**{**terms, "outcome": BatchOutcome(**terms["outcome"]) if terms["outcome"] else None})


def _reconcile(terms: Mapping[str, Any]) -> Reconcile:
    absent = Absent(terms["absent"]["means"], terms["absent"]["after"]) if terms["absent"] else Absent(Outcome.UNKNOWN)
    where = Row(**terms["where"]) if terms["where"] else None
    return Reconcile(**{**terms, "absent": absent, "where": where})


def _deadlines(terms: Mapping[str, Any]) -> Deadlines:
    return Deadlines(terms["request"], terms["recovery"])


def _place(table: Mapping[str, Any], *names: str) -> Place:
    """The one of these keys that is there, as the place it names."""
    name = next(name for name in names if table[name] is not None)
    return Place(PlaceKind(name), table[name])
