"""Contradictions inside one contract file, which no single key shows. Runs only on values that the grammar accepted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from affidavit.broker.contract.grammar import SSH, Fault
from affidavit.broker.contract.lines import Path
from affidavit.broker.contract.model import (
    LS_REMOTE,
    CompletionKind,
    Idempotent,
    Place,
    PlaceKind,
    Template,
    is_reserved_header,
)
from affidavit.broker.terms import Effect, Outcome


def check(content: Mapping[str, Any], values: Mapping[str, Any]) -> Iterator[Fault]:
    """Every contradiction. `content` is the parsed file, `values` what `grammar.read` made of it."""
    yield from _empty_sections(content)
    for rule in (
        _match,
        _effect,
        _correlation,
        _read,
        _idempotency,
        _headers,
        _verdict,
        _job,
        _batch,
        _reconcile,
        _retry,
    ):
        yield from rule(values)


def _empty_sections(content: Mapping[str, Any]) -> Iterator[Fault]:
    for name, section in content.items():
        if section == {}:
            yield Fault((name,), "is an empty section", "Give it a key, or leave it out.")


def _match(values: Mapping[str, Any]) -> Iterator[Fault]:
    for at, entry in enumerate(values["match"]["where"]):
        path: Path = ("match", "where", at)
        yield from _one_of(path, entry, ("pointer", "query", "header"))
        if entry["pointer"] is None and not isinstance(entry["equals"], str):
            yield Fault((*path, "equals"), "is not a text, as a header or parameter is", "Put it in quotes.")


def _effect(values: Mapping[str, Any]) -> Iterator[Fault]:
    effect, kind = values["effect"], values["match"]["kind"]
    idempotent, completion = effect["idempotent"], effect["completion"]
    if effect["kind"] is Effect.READ and idempotent not in (None, Idempotent.YES):
        yield Fault(("effect", "idempotent"), "contradicts the effect: a read changes nothing", "Leave it out.")
    if kind == SSH and idempotent in (Idempotent.IF_MATCH, Idempotent.IF_NONE_MATCH):
        yield Fault(("effect", "idempotent"), "names a header, which SSH has not", 'Write "name", true or false.')
    if completion is not None:
        for_ssh = completion.kind in (CompletionKind.EXIT_STATUS, CompletionKind.MARKER)
        if for_ssh is not (kind == SSH):
            ways = '"exit_status" or "marker"' if kind == SSH else '"body", "close" or "header:NAME"'
            yield Fault(("effect", "completion"), f"is not a way in which an answer over {kind} ends", f"Write {ways}.")
    if effect["marker"] is not None and (completion is None or completion.kind is not CompletionKind.MARKER):
        yield Fault(("effect", "marker"), "is a marker that nothing looks for", 'Add completion = "marker".')


def _correlation(values: Mapping[str, Any]) -> Iterator[Fault]:
    operation = values["correlation"] and values["correlation"]["operation"]
    if operation and (operation.kind in (PlaceKind.ENV, PlaceKind.ARG)) is not (values["match"]["kind"] == SSH):
        over_ssh = values["match"]["kind"] == SSH
        fix = 'Write "env:NAME" or "arg:--NAME".' if over_ssh else 'Write a JSON pointer or "header:NAME".'
        yield Fault(("correlation", "operation"), f"is no place in a request over {values['match']['kind']}", fix)


def _read(values: Mapping[str, Any]) -> Iterator[Fault]:
    consistency = values["read"] and values["read"]["consistency"]
    if values["match"]["kind"] == SSH and isinstance(consistency, Place) and consistency.kind is PlaceKind.HEADER:
        yield Fault(("read", "consistency"), "names a header, which SSH has not", "Write a JSON pointer or a table.")


def _idempotency(values: Mapping[str, Any]) -> Iterator[Fault]:
    terms = values["idempotency"]
    if terms is None:
        return
    for name, says in (("source", "where"), ("checked", "when")):
        if values[name] is None:
            message = f"promises what a key does, but no `{name}` tells {says} that was read"
            yield Fault(("idempotency",), message, f"Add `{name}` above the first section.")
    yield from _one_of(("idempotency",), terms, ("header", "body_field", "query"))
    if terms["quoted"] and terms["header"] is None:
        yield Fault(("idempotency", "quoted"), "is for a key in a header", "Leave it out.")
    yield from _signs(("idempotency", "in_use"), terms["in_use"])


def _headers(values: Mapping[str, Any]) -> Iterator[Fault]:
    """Headers that the contract has the broker set: none that is reserved, none for two things."""
    seen: set[str] = set()
    for path, name in _planted_headers(values):
        if is_reserved_header(name):
            yield Fault(path, f"is {name}, which is not a contract's to set", "Name another header.")
        if name.lower() in seen:
            yield Fault(path, f"is {name}, which carries something else already", "Name another header.")
        seen.add(name.lower())


def _planted_headers(values: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    correlation, idempotency = values["correlation"], values["idempotency"]
    if correlation is not None:
        if correlation["header"] is not None:
            yield ("correlation", "header"), correlation["header"]
        operation = correlation["operation"]
        if operation is not None and operation.kind is PlaceKind.HEADER:
            yield ("correlation", "operation"), operation.name
    if idempotency is not None:
        if idempotency["header"] is not None:
            yield ("idempotency", "header"), idempotency["header"]
        for at, companion in enumerate(idempotency["companions"]):
            yield ("idempotency", "companions", at), companion.name


def _verdict(values: Mapping[str, Any]) -> Iterator[Fault]:
    verdict = values["verdict"]
    if verdict is None:
        return
    for at, entry in enumerate(verdict["applied"]):
        if entry in verdict["refused"]:
            message = f"says that {entry} means done, and `refused` that it means not begun"
            yield Fault(("verdict", "applied", at), message, "Keep one of them.")
    for name in ("applied", "rate_limited"):
        yield from _signs(("verdict", name), verdict[name])
    statuses = [entry["status"] for entry in verdict["exit"]]
    for at, status in enumerate(statuses):
        if status in statuses[:at]:
            yield Fault(("verdict", "exit", at), f"speaks of exit status {status} again", "Keep one of them.")


def _signs(path: Path, entries: Sequence[Any]) -> Iterator[Fault]:
    for at, entry in enumerate(entries):
        if not isinstance(entry, Mapping):
            continue
        if entry["pointer"] is not None and entry["header"] is not None:
            yield Fault((*path, at), "names a pointer and a header", "Keep one of them.")
        if entry["equals"] is not None and entry["pointer"] is None and entry["header"] is None:
            yield Fault((*path, at, "equals"), "stands without a place", "Add `pointer` or `header`.")
        if entry["header"] is not None and not isinstance(entry["equals"], str | None):
            yield Fault((*path, at, "equals"), "is not a text, as a header is", "Put it in quotes.")


def _job(values: Mapping[str, Any]) -> Iterator[Fault]:
    if values["job"] is not None:
        yield from _one_of(("job",), values["job"], ("status_url", "url"))


def _batch(values: Mapping[str, Any]) -> Iterator[Fault]:
    batch = values["batch"]
    if batch is None:
        return
    if batch["by"] == "key" and batch["key"] is None:
        yield Fault(("batch",), 'meets results by "key" and names none', "Add `key`.")
    if batch["by"] == "position" and batch["key"] is not None:
        yield Fault(("batch", "key"), 'is not used where results are met by "position"', "Leave it out.")
    yield from _one_of(("batch",), batch, ("results", "successes"))
    for name, beside in (("outcome", "results"), ("failures", "successes")):
        yield from _together(batch, name, needed=batch[beside] is not None, why=f"`{beside}`")
    if batch["successes"] is not None and batch["by"] == "position":
        message = 'is "position", which no result has that stands in one of two lists'
        yield Fault(("batch", "by"), message, 'Write by = "key", and name the `key`.')
    if batch["outcome"] is not None:
        yield from _apart(("batch", "outcome"), batch["outcome"], ("committed", "rejected"))


def _together(batch: Mapping[str, Any], name: str, *, needed: bool, why: str) -> Iterator[Fault]:
    if needed and batch[name] is None:
        yield Fault(("batch",), f"has {why}, and no `{name}`", f"Add `{name}`.")
    elif not needed and batch[name] is not None:
        yield Fault(("batch", name), f"goes only with {why}", "Leave it out.")


def _reconcile(values: Mapping[str, Any]) -> Iterator[Fault]:
    look_up = values["reconcile"]
    if look_up is None:
        return
    if look_up["body"] is not None and look_up["method"] != "POST":
        yield Fault(("reconcile", "body"), "is sent only with POST", 'Add method = "POST", or leave the body out.')
    if values["idempotency"] is None:
        for name, template in _templates(look_up):
            if "idempotency_key" in template.names:
                message = "looks for an idempotency key, and the contract has none"
                yield Fault(("reconcile", name), message, "Add [idempotency], or use {operation_id}.")
    yield from _by_refs(values["match"], look_up)
    lists = ("committed", "pending", "rejected")
    if look_up["state"] is None:
        for name in lists:
            if look_up[name]:
                yield Fault(("reconcile", name), "lists states, and no `state` says where they are", "Add `state`.")
    elif not look_up["committed"]:
        yield Fault(("reconcile", "state"), "is read, but no state means that it was done", "Add `committed`.")
    yield from _apart(("reconcile",), look_up, lists)
    if look_up["each"] is not None and look_up["where"] is None:
        yield Fault(("reconcile", "each"), "looks at rows, and nothing says which is ours", "Add `where`.")
    absent = look_up["absent"]
    if absent is not None and absent["means"] is Outcome.REJECTED and absent["after"] is None:
        message = "takes absence for a refusal, and does not say from when on it counts"
        yield Fault(("reconcile", "absent"), message, 'Add `after`, such as after = "60s".')


def _by_refs(match: Mapping[str, Any], look_up: Mapping[str, Any]) -> Iterator[Fault]:
    if look_up["command"] is None or look_up["command"].text != LS_REMOTE:
        return
    if not match["command"].startswith("git-receive-pack "):
        message = f"is {LS_REMOTE}, which tells what became of a push, and of nothing else"
        yield Fault(("reconcile", "command"), message, 'Match command = "git-receive-pack *", or name a command.')
    for name in ("each", "where", "state"):
        if look_up[name] is not None:
            yield Fault(
                ("reconcile", name), f"reads an answer, and that of {LS_REMOTE} is read as refs", "Leave it out."
            )


def _templates(look_up: Mapping[str, Any]) -> Iterator[tuple[str, Template]]:
    for name in ("url", "body", "command"):
        if look_up[name] is not None:
            yield name, look_up[name]
    if look_up["where"] is not None and isinstance(look_up["where"]["equals"], Template):
        yield "where", look_up["where"]["equals"]


def _retry(values: Mapping[str, Any]) -> Iterator[Fault]:
    retry, effect = values["retry"], values["effect"]
    if retry is None or not retry["automatic"]:
        return
    if retry["attempts"] == 1:
        yield Fault(("retry", "automatic"), "has no repeat left: `attempts` is 1", "Raise `attempts`, or leave it out.")
    safe = effect["kind"] is Effect.READ or effect["idempotent"] not in (None, Idempotent.NO)
    if not safe and values["idempotency"] is None:
        message = "would repeat a write that nothing binds"
        yield Fault(("retry", "automatic"), message, "Add [idempotency], or say in [effect] why a repeat is safe.")


def _one_of(path: Path, table: Mapping[str, Any], names: Iterable[str]) -> Iterator[Fault]:
    there = [name for name in names if table[name] is not None]
    choices = ", ".join(f"`{name}`" for name in names)
    if not there:
        yield Fault(path, f"names none of {choices}", "Add one of them.")
    for name in there[1:]:
        yield Fault((*path, name), f"stands beside `{there[0]}`; one of {choices} is enough", "Keep one of them.")


def _apart(path: Path, table: Mapping[str, Any], names: Sequence[str]) -> Iterator[Fault]:
    """No value in two of these lists; true is not 1."""
    seen: dict[tuple[bool, Any], str] = {}
    for name in names:
        for at, value in enumerate(table[name]):
            first = seen.setdefault((isinstance(value, bool), value), name)
            if first != name:
                yield Fault((*path, name, at), f"stands in `{first}` too", "Keep it in one list.")
