"""Words that the commands print for a person, in the voice of the cards (design, section 5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from affidavit.ipc.cli.escape import escape
from affidavit.ipc.verdict import facts, may_repeat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

RETRY = {
    "never": "not again",
    "after_correction": "after a correction",
    "backoff": "may try again after a pause",
    "same_idempotency_key": "may repeat with the same key",
    "reconcile": "look first",
    "fetch_result": "fetch the result",
}
OUTCOME = {
    "not_attempted": "not attempted",
    "rejected": "rejected",
    "committed": "committed",
    "unknown": "unknown",
}
PHASE = {
    "validation": "validation",
    "credential_injection": "credential injection",
    "connection_setup": "connection set-up",
    "remote_execution": "remote execution",
    "result_delivery": "result delivery",
}
NEEDS = {
    "operator_unlock": "The operator unlocks the vault: affidavit unlock",
    "operator_review": "The operator reviews the journal.",
    "operator_approval": "The operator decides: affidavit approve {invocation_id}",
    "request": "The request is given again.",
    "credential": "The target asks for another credential.",
    "payment": "The target asks for a payment.",
    "permission": "The target asks for more rights.",
    "proxy_credential": "The proxy asks for a credential.",
    "network_login": "The network asks for a login.",
}
WITHHELD = (
    "The body is withheld: it does not decode, and the credential may stand in it. Only the operator may see it, and "
    "asking again changes nothing. The status and the hash are in the record."
)
QUERY_SEALED = (
    "While the vault is locked that asks nothing (affidavit unlock). The query is shown to the program whose action it "
    "is, and to the operator: affidavit action show --operator {invocation_id}"
)
"""Of a look-up without its words: the vault is locked, or the action is another program's. An envelope does not say
which."""


def verdict(envelope: Mapping[str, Any]) -> Iterator[str]:
    """An envelope's facts, sentence and next step, one line each. Every value from outside is escaped."""
    said = facts(envelope)
    outcome = OUTCOME.get(said["outcome"], said["outcome"])
    phase = PHASE.get(said["phase"], said["phase"])
    retry = RETRY.get(said["retry"], said["retry"])
    yield escape(f"{said['code']}: {outcome}, in {phase}; {retry}.")
    if said.get("message"):
        yield escape(str(said["message"]))
    if said.get("field"):
        yield escape(f"Field: {said['field']}")
    step = next_step(envelope)
    if step is not None:
        yield escape(f"Next: {step}")


def next_step(envelope: Mapping[str, Any]) -> str | None:
    """What a person or an agent can do now, as a command where there is one."""
    said = facts(envelope)
    invocation = envelope["invocation_id"]
    evidence = envelope.get("evidence") or {}
    if envelope.get("pending") is not None:
        wait = f"affidavit action wait {invocation}"
        if said.get("state") == "awaiting_approval":
            return f"It waits for the operator (affidavit approve {invocation}). Do not send it again: {wait}"
        return f"Not finished, do not send it again: {wait}"
    if said.get("needs") in NEEDS:
        return NEEDS[said["needs"]].format(invocation_id=invocation)
    if said["retry"] == "fetch_result":
        other = evidence.get("refers_to") if said["phase"] != "result_delivery" else None
        return fetching(other or invocation, "stdout" if is_command(envelope) else "body")
    kept = said["outcome"] != "not_attempted" or evidence.get("fingerprint") is not None
    if kept and may_repeat(envelope):  # what was refused at once is kept by nobody
        return f"affidavit action retry {invocation}"
    if said["retry"] == "reconcile" and said["outcome"] != "unknown" and evidence.get("refers_to"):
        return f"Look first: affidavit action show {evidence['refers_to']}"
    if said["outcome"] == "unknown" or said["retry"] == "reconcile":
        look = evidence.get("reconcile") or {}
        ask = f"affidavit action reconcile {invocation}"
        if look.get("url"):
            return f"Look first: {ask} (it asks {look.get('method', 'GET')} {look['url']})"
        if look.get("command"):
            return f"Look first: {ask} (it runs {look['command']})"
        if look.get("available"):
            return f"Look first: {ask}. {QUERY_SEALED.format(invocation_id=invocation)}"
        if attestable(envelope):
            return "No status query is known for this action; look at the target, then the operator can attest it."
        return "Look at the target before it is asked for again."
    return None


def attestable(envelope: Mapping[str, Any]) -> bool:
    """Whether an operator's word is wanted: of the action itself, or of an item of its batch."""
    items = (envelope.get("evidence") or {}).get("items") or ()
    return "unknown" in (facts(envelope)["outcome"], *(item["outcome"] for item in items))


def is_command(envelope: Mapping[str, Any]) -> bool:
    """Whether an action is a command's, as far as its target is told."""
    return ((envelope.get("evidence") or {}).get("target") or {}).get("kind") == "ssh"


def fetching(invocation: str, part: str = "body") -> str:
    """How one part of a stored result is fetched."""
    return f"affidavit result fetch {invocation}" + ("" if part == "body" else f" --part {part}")


def clock(text: str | None) -> str:
    """An RFC 3339 time as `2026-11-30 14:32:07`, still UTC; a dash where there is none."""
    return "-" if text is None else escape(text)[:19].replace("T", " ")


def columns(rows: Sequence[tuple[str, ...]], heads: tuple[str, ...]) -> Iterator[str]:
    """A plain table; the cells are escaped already, and the last column is as long as it is."""
    table = [heads, *rows]
    widths = [max(len(row[i]) for row in table) for i in range(len(heads) - 1)]
    for row in table:
        yield "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip()
