"""An approval card for a terminal, in the order of the window's: what it is, who asks, target and body, credential,
three answers, fingerprint, scope. All of it is there; nothing is cut (R15)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from affidavit.ipc.cli.escape import escape
from affidavit.ipc.cli.words import clock

NOTICES = {
    "same_effect_unknown": (
        "The same request was sent before and is unknown ({invocation_id}, record {record}). Approving it may make its "
        "effect happen twice."
    ),
    "same_route_unknown": (
        "Another request to this route is unknown ({invocation_id}, record {record}); this one differs in its body."
    ),
    "first_contact": "First contact: nothing was sent to this target before.",
    "new_host_key": (
        "First contact: the key of {host} at {authority} has never been seen: {algorithm} {fingerprint}. Compare it "
        "with the one that its administrator published. Approving pins it."
    ),
    "result_release": (
        "Nothing is sent: another agent asks to read a recorded result. The result is that of record {record} "
        "({invocation_id}). It belongs to another session."
    ),
    "contract_first_use": "This contract is used for the first time.",
    "redirected": (
        "The target answered {invocation_id} (record {record}) with a redirect to here. The agent did not name it."
    ),
}
ANSWERS = {
    "binds_retries": "A repeat is bound by",
    "lookup": "Outcome can be looked up",
    "on_connection_death": "Left if the connection dies",
}


def lines(card: Mapping[str, Any]) -> Iterator[str]:
    """The whole card. Everything that an agent or a target wrote is escaped."""
    released = releases(card)
    yield escape(card["title"]) if released else f"{card['effect'].upper()}  {escape(card['title'])}"
    if card["expires_at"]:
        end = "the result is not handed over" if released else "nothing is sent"
        yield f"Ends {clock(card['expires_at'])} UTC; then {end}."
    for notice in card["notices"]:
        key = notice.get("host_key") or {}
        yield f"! {escape(NOTICES.get(notice['kind'], notice['kind']).format(**{**notice, **key}))}"
        if key.get("next_host"):
            yield f"! Nothing is sent yet: {escape(key['next_host'])}, behind it, is new as well and has its own card."
    yield ""
    yield from caller(card["session"], card["reason"])
    yield ""
    if released:
        yield f"The result is that of: {escape(card['method'])} {escape(card['url'])}"
        yield f"Fingerprint of that action: {' '.join(card['fingerprint_groups'])}"
        yield "Scope: lets this session read the result. Nothing is sent."
        return
    yield f"{escape(card['method'])} {escape(card['url'])}"
    if (last := card.get("last_url")) not in (None, card["url"]):
        yield f"  last approved on this route: {escape(last)}"
    for name, value in card["headers"]:
        yield f"  {escape(name)}: {escape(value)}"
    yield from body(card["body"])
    yield ""
    yield from terms(card)


def releases(card: Mapping[str, Any]) -> bool:
    """Whether the card would hand over a recorded result instead of sending anything."""
    return any(notice["kind"] == "result_release" for notice in card["notices"])


def caller(session: Mapping[str, Any], reason: str | None) -> Iterator[str]:
    """What the kernel says of the caller, and apart from it what the caller says."""
    process = session["process"]
    yield "Seen by the kernel:"
    yield f"  {seen(process['name'])}, pid {process['pid']}, in {seen(process['cwd'])}"
    yield f"  program {seen(process['exe'])}"
    if session["chain"]:
        yield f"  started by {' <- '.join(seen(step['name']) for step in session['chain'])}"
    claim = session["claim"]
    said = " ".join(escape(claim[part]) for part in ("client", "version") if claim[part])
    if said or reason:
        yield "Claimed by the caller, not verified:"
        if said:
            yield f'  it calls itself "{said}"'
        if reason:
            yield f'  reason: "{escape(reason)}"'


def seen(value: str | None) -> str:
    return "not visible to us" if value is None else escape(value)


def body(shown: Mapping[str, Any]) -> Iterator[str]:
    """The body in full, each line of it marked, so that none can pass for a line of the card."""
    if not shown["bytes"]:
        yield "  no body"
        return
    kind = escape(shown["type"] or "no type given")
    if shown.get("text") is not None:
        yield f"  body, {shown['bytes']} bytes, {kind}, all shown:"
        yield from (f"  | {line}" for line in escape(shown["text"], keep_lines=True).split("\n"))
    elif shown.get("base64") is not None:
        yield f"  body, {shown['bytes']} bytes, {kind}, not text, all shown as base64:"
        encoded = str(shown["base64"])
        yield from (f"  | {encoded[at : at + 96]}" for at in range(0, len(encoded), 96))
    else:
        yield f"  body, {shown['bytes']} bytes, {kind}, shown with the passphrase"


def terms(card: Mapping[str, Any]) -> Iterator[str]:
    """Under which credential and contract it goes out, and what exactly is approved."""
    credential = card["credential"]
    if credential is None:
        yield "Credential: none; it is sent without"
    else:
        sent_as = escape(credential["sent_as"])
        yield f"Credential: {escape(credential['name'])}, version {credential['version']}, sent as {sent_as}"
    contract = card["contract"]
    checked = f", checked {escape(contract['checked'])}" if contract["checked"] else ""
    yield f"Contract: {escape(contract['id'])}{checked}"
    for name, label in ANSWERS.items():
        answer = contract["answers"][name]
        yield f"  {label}: {'' if answer['present'] else 'MISSING. '}{escape(answer['text'])}"
    yield f"Fingerprint: {' '.join(card['fingerprint_groups'])}"
    if card["tick"]:
        yield f"Your passphrase also says: {escape(card['tick'])}"
    if repeats := card.get("repeats"):
        yield f"Approving it also approves up to {repeats} {'repeat' if repeats == 1 else 'repeats'} of just this."
    others = [scope for scope in card["scopes"] if scope != card["preselected"]]
    yield f"Scope: {card['preselected']}{''.join(f' (or --scope {scope})' for scope in others)}"
