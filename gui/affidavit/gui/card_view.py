"""What an approval card says, decided in plain data; `card_window` only draws it (R15, R71).

Everything that an agent or a target had a hand in goes through `runs.revealed`. The caller's words stand under its own
claim and nowhere else: not in the title, not in a sentence of ours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import tzinfo
from types import MappingProxyType
from typing import Final

import idna

from affidavit.broker.card import SSH, Card, CardEnd, NewHostKey, Notice, NoticeKind, Scope
from affidavit.broker.session import Process
from affidavit.broker.terms import ApprovalMode, Effect, InvocationId, Micros
from affidavit.gui import figures, texts
from affidavit.gui.arming import Needs, Step
from affidavit.gui.body_lines import Body, body
from affidavit.gui.host_key import HostKeyView
from affidavit.gui.runs import Line, Mark, Run, plain, revealed, underlined

_NO_CONTRACT: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "default.read": (texts.CONTRACT_NONE_READ, texts.CONTRACT_NONE_READ_MORE),
        "default.write": (texts.CONTRACT_NONE_WRITE, texts.CONTRACT_NONE_WRITE_MORE),
    }
)
"""The two contracts that apply where there is none (verdicts, Known idempotent)."""

STEPS: Final[Mapping[Step, str]] = MappingProxyType(
    {
        Step.TICK: texts.STEP_TICK,
        Step.HOST_KEY: texts.STEP_HOST_KEY,
        Step.BODY_END: texts.STEP_BODY_END,
        Step.BODY_UNREAD: texts.STEP_BODY_UNREAD,
        Step.STREAM: texts.STEP_STREAM,
        Step.PASSPHRASE: texts.STEP_PASSPHRASE,
        Step.ACTIVATE: texts.STEP_ACTIVATE,
        Step.PAUSE: texts.STEP_PAUSE,
    }
)
"""The sentence for each missing step."""


@dataclass(frozen=True, slots=True)
class NoticeView:
    """One notice. `amber` where an unknown outcome exists; `look_at` is the unknown that can be opened from here."""

    amber: bool
    bold: str
    more: str
    look_at: InvocationId | None = None
    look_description: str = ""
    tick: str | None = None
    host_key: HostKeyView | None = None


@dataclass(frozen=True, slots=True)
class CallerView:
    """Two frames: what the kernel shows, and what the caller says of itself."""

    program: Line
    process: str
    directory: Line
    directory_seen: bool
    chain: Line
    details: str
    client: Line
    reason: Line


@dataclass(frozen=True, slots=True)
class TargetView:
    """`lines`: the URL and, each on its own line, its query, the decoded host, and the headers that the agent set."""

    method: str
    lines: tuple[Line, ...]
    host: str
    changed: str = ""
    """What of it is underlined, in a sentence; empty where nothing is."""


@dataclass(frozen=True, slots=True)
class CredentialView:
    """`name` is None where no credential is sent; `rest` is said after the name."""

    name: str | None
    rest: tuple[str, ...]
    spoken: str


@dataclass(frozen=True, slots=True)
class AnswerView:
    question: str
    text: str
    present: bool

    @property
    def spoken(self) -> str:
        form = texts.ANSWER_PRESENT_NAME if self.present else texts.ANSWER_MISSING_NAME
        return form.format(question=self.question, text=self.text)


@dataclass(frozen=True, slots=True)
class ScopeView:
    """One thing that the approval may cover: its choice, what the button says, and the sentence above it."""

    scope: Scope
    choice: str
    button: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Words:
    """What differs between a card for a dispatch and one for a recorded result. `ends_at` and `closes_in` are forms."""

    ends: Mapping[CardEnd, str]
    ends_at: str
    closes_in: str
    deny: str


_DISPATCH = Words(texts.CARD_ENDS, texts.CARD_TIME_ENDS, texts.CLOSES_IN, texts.DENY_DESCRIPTION)
_RELEASE = Words(
    texts.CARD_ENDS_RELEASE, texts.CARD_TIME_ENDS_RELEASE, texts.CLOSES_IN_RELEASE, texts.DENY_RELEASE_DESCRIPTION
)


@dataclass(frozen=True, slots=True)
class CardView:
    """A card in the words and runs that are drawn, top to bottom."""

    invocation_id: InvocationId
    effect: Effect
    title: str
    notices: tuple[NoticeView, ...]
    caller: CallerView
    target: TargetView
    body: Body | None
    credential: CredentialView
    contract: str
    contract_more: str
    answers: tuple[AnswerView, ...]
    fingerprint: str
    groups: tuple[str, ...]
    scopes: tuple[ScopeView, ...]
    preselected: int
    needs: Needs
    words: Words

    @property
    def spoken_groups(self) -> str:
        """The fingerprint letter by letter, with a pause after each group."""
        return ", ".join(" ".join(group) for group in self.groups)

    def announced(self, seconds: int) -> str:
        """What a screen reader says once, when the card appears."""
        return texts.CARD_ANNOUNCED.format(
            effect=texts.EFFECT_SPOKEN[self.effect],
            title=self.title,
            host=self.target.host,
            program=plain(self.caller.program),
            spoken=figures.spoken(seconds),
        )

    def approve_description(self) -> str:
        return texts.APPROVE_DESCRIPTION.format(
            effect=texts.EFFECT_SPOKEN[self.effect],
            title=self.title,
            host=self.target.host,
            groups=self.spoken_groups,
        )


def card_view(card: Card, *, now: Micros, home: str, zone: tzinfo | None = None) -> CardView:
    """What `card` says at `now`. `home` is the directory that is written `~`; times are in `zone`, None for our own."""
    contract = _NO_CONTRACT.get(card.contract_id) or (
        texts.CONTRACT.format(contract_id=card.contract_id),
        texts.CONTRACT_READ.format(date=card.contract_checked) if card.contract_checked else texts.CONTRACT_UNDATED,
    )
    shown = body(card.body) if card.body else None
    if shown is not None and card.method == SSH:
        shown = replace(shown, kind=texts.BODY_COMMAND, pretty=None, streamed=card.streamed)
    scopes = tuple(_scope(card, scope, zone) for scope in card.scopes) or (_scope(card, Scope.ONCE, zone),)
    return CardView(
        invocation_id=card.invocation_id,
        effect=card.effect,
        title=plain(revealed(card.title)),
        notices=_notices(card, now),
        caller=_caller(card, home),
        target=_target(card, shown),
        body=shown,
        credential=_credential(card),
        contract=contract[0],
        contract_more=contract[1],
        answers=(
            AnswerView(texts.ANSWER_BINDS, card.answers.binds_retries.text, card.answers.binds_retries.present),
            AnswerView(texts.ANSWER_LOOKUP, card.answers.lookup.text, card.answers.lookup.present),
            AnswerView(
                texts.ANSWER_DEATH, card.answers.on_connection_death.text, card.answers.on_connection_death.present
            ),
        ),
        fingerprint=card.fingerprint,
        groups=card.fingerprint_groups,
        scopes=scopes,
        preselected=next((n for n, s in enumerate(scopes) if s.scope is card.preselected), 0),
        needs=Needs(
            tick=card.tick is not None,
            long_body=shown is not None and shown.is_long,
            passphrase=card.mode is ApprovalMode.PASSPHRASE,
            streamed=card.streamed,
        ),
        words=_RELEASE if _releases(card) else _DISPATCH,
    )


def _releases(card: Card) -> bool:
    """Whether the card would hand over a recorded result instead of sending anything."""
    return any(notice.kind is NoticeKind.RESULT_RELEASE for notice in card.notices)


def _notices(card: Card, now: Micros) -> tuple[NoticeView, ...]:
    """The notices, the tick with the one that it belongs to: the same effect's, else a notice of its own."""
    views = []
    tick = card.tick
    for notice in card.notices:
        own = tick if notice.kind is NoticeKind.SAME_EFFECT_UNKNOWN else None
        views.append(_notice(notice, now, own))
        tick = None if own else tick
    if tick is not None:
        views.insert(0, NoticeView(amber=False, bold=texts.NOTICE_TICK, more=texts.NOTICE_TICK_MORE, tick=tick))
    return tuple(views)


def _notice(notice: Notice, now: Micros, tick: str | None) -> NoticeView:
    match notice.kind:
        case NoticeKind.FIRST_CONTACT:
            return NoticeView(amber=False, bold=texts.NOTICE_FIRST_CONTACT, more=texts.NOTICE_FIRST_CONTACT_MORE)
        case NoticeKind.NEW_HOST_KEY:
            return NoticeView(
                amber=False,
                bold=texts.NOTICE_NEW_KEY,
                more=texts.NOTICE_NEW_KEY_MORE,
                host_key=_host_key(notice.host_key) if notice.host_key is not None else None,
            )
        case NoticeKind.CONTRACT_FIRST_USE:
            return NoticeView(amber=False, bold=texts.NOTICE_CONTRACT_FIRST, more=texts.NOTICE_CONTRACT_FIRST_MORE)
        case NoticeKind.REDIRECTED:
            more = (
                texts.NOTICE_REDIRECTED_NO_RECORD
                if notice.record is None or notice.at is None
                else texts.NOTICE_REDIRECTED_MORE.format(record=notice.record, ago=figures.ago(notice.at, now))
            )
            return NoticeView(amber=False, bold=texts.NOTICE_REDIRECTED, more=more)
        case NoticeKind.RESULT_RELEASE:
            more = (
                texts.NOTICE_RELEASE_NO_RECORD
                if notice.record is None or notice.at is None
                else texts.NOTICE_RELEASE_MORE.format(record=notice.record, ago=figures.ago(notice.at, now))
            )
            return NoticeView(amber=False, bold=texts.NOTICE_RELEASE, more=more)
        case NoticeKind.SAME_EFFECT_UNKNOWN:
            bold = (
                texts.NOTICE_SAME_EFFECT_UNDATED
                if notice.at is None
                else texts.NOTICE_SAME_EFFECT.format(ago=figures.ago(notice.at, now))
            )
            more = (
                texts.NOTICE_SAME_EFFECT_NO_RECORD
                if notice.record is None
                else texts.NOTICE_SAME_EFFECT_PROOF.format(record=notice.record)
            )
        case NoticeKind.SAME_ROUTE_UNKNOWN:
            bold = texts.NOTICE_SAME_ROUTE
            more = (
                texts.NOTICE_SAME_ROUTE_NO_RECORD
                if notice.record is None or notice.at is None
                else texts.NOTICE_SAME_ROUTE_PROOF.format(record=notice.record, ago=figures.ago(notice.at, now))
            )
    described = (
        texts.NOTICE_LOOK_UNNAMED if notice.record is None else texts.NOTICE_LOOK_NAMED.format(record=notice.record)
    )
    return NoticeView(
        amber=True, bold=bold, more=more, look_at=notice.invocation_id, look_description=described, tick=tick
    )


def _host_key(key: NewHostKey) -> HostKeyView:
    about = texts.NOTICE_NEW_KEY_ABOUT.format(authority=key.authority, algorithm=key.algorithm)
    return HostKeyView(plain(revealed(about)), key.fingerprint.removeprefix("SHA256:"))


def _caller(card: Card, home: str) -> CallerView:
    provenance, claim = card.session.provenance, card.session.claim
    process = provenance.process
    chain = [revealed(parent.name, Mark.SECOND) for parent in provenance.chain]
    client = " ".join(part for part in (claim.client, claim.version) if part)
    reason = texts.CLAIM_REASON.partition("{reason}")
    return CallerView(
        program=revealed(process.name, Mark.STRONG),
        process=texts.KERNEL_PROCESS.format(pid=process.pid),
        directory=revealed(_abbreviated(process.cwd, home))
        if process.cwd
        else (Run(texts.KERNEL_UNSEEN_DIRECTORY, Mark.SECOND),),
        directory_seen=process.cwd is not None,
        chain=_started_by(chain),
        details=_details(process),
        client=revealed(client, Mark.SECOND) if client else (Run(texts.CLAIM_NO_CLIENT, Mark.SECOND),),
        reason=(Run(reason[0], Mark.SECOND), *revealed(card.reason, Mark.SECOND), Run(reason[2], Mark.SECOND))
        if card.reason
        else (Run(texts.CLAIM_NO_REASON, Mark.SECOND),),
    )


def _started_by(chain: list[Line]) -> Line:
    if not chain:
        return (Run(texts.KERNEL_UNSEEN_CHAIN, Mark.SECOND),)
    before, _, after = texts.KERNEL_STARTED_BY.partition("{chain}")
    runs = [Run(before, Mark.SECOND)]
    for n, name in enumerate(chain):
        runs += [Run(texts.CHAIN_ARROW, Mark.SECOND)] if n else []
        runs += name
    return (*runs, Run(after, Mark.SECOND)) if after else tuple(runs)


def _details(process: Process) -> str:
    def seen(part: object) -> str:
        return texts.KERNEL_UNSEEN if part is None else str(part)

    exe = texts.KERNEL_UNSEEN if process.exe is None else plain(revealed(process.exe))
    return texts.KERNEL_DETAILS.format(
        exe=exe, started=process.started, device=seen(process.device), inode=seen(process.inode)
    )


def _abbreviated(path: str, home: str) -> str:
    home = home.rstrip("/")
    if home and (path == home or path.startswith(home + "/")):
        return "~" + path[len(home) :]
    return path


_URL = re.compile(
    r"([A-Za-z][A-Za-z0-9+.-]*://)((?:[^/?#]*@)?)(\[[^\]/?#]*\]|[^:/?#]*)([^/?#]*)([^?#]*)((?:\?[^#]*)?)(.*)", re.S
)
"""A URL in parts that, put together, are the URL again (RFC 3986, appendix B); `urllib` would drop some characters."""


def _target(card: Card, shown: Body | None) -> TargetView:
    found = _URL.fullmatch(card.url)
    if found is None:
        return TargetView(card.method, (revealed(card.url, Mark.STRONG),), plain(revealed(card.url)))
    scheme, user, host, port, path, query, rest = found.groups()
    last = _URL.fullmatch(card.last_url) if card.last_url is not None else None
    lines: list[Line] = [
        (
            *revealed(scheme, Mark.FAINT),
            *revealed(user, Mark.STRONG),
            *revealed(host, Mark.STRONG),
            *revealed(port, Mark.STRONG),
            *_path(path, path if last is None else last[5]),
        )
    ]
    if query or rest:
        lines.append((*_query(query, query if last is None else last[6]), *revealed(rest)))
    marked = [plain((run,)) for line in lines for run in line if run.changed]
    decoded = _decoded(host)
    if decoded is not None:
        before, _, after = texts.TARGET_DECODED.partition("{decoded}")
        lines.append((Run(before, Mark.FAINT), *revealed(decoded, Mark.SECOND), Run(after, Mark.FAINT)))
    lines.extend(_header(name, value) for name, value in card.headers if not _said_below(name, value, shown))
    changed = texts.TARGET_CHANGED.format(parts=", ".join(marked)) if marked else ""
    return TargetView(plain(revealed(card.method)), tuple(lines), plain(revealed(host + port)), changed)


def _path(path: str, before: str) -> Line:
    """The path, the segments underlined that are not where they were in `before`."""
    if path == before:
        return revealed(path)
    was = before.split("/")
    runs: list[Run] = []
    for n, segment in enumerate(path.split("/")):
        runs.extend(revealed("/" if n else ""))
        runs.extend(revealed(segment) if was[n : n + 1] == [segment] else underlined(revealed(segment)))
    return tuple(runs)


def _query(query: str, before: str) -> Line:
    """The query, the pairs underlined that `before` did not have."""
    was = before[1:].split("&")
    runs: list[Run] = []
    for n, pair in enumerate(query[1:].split("&")):
        key, equals, value = pair.partition("=")
        shown = (*revealed(key, Mark.SECOND), *revealed(equals, Mark.FAINT), *revealed(value, Mark.VALUE))
        runs.append(Run("&" if n else "?", Mark.FAINT))
        runs.extend(shown if pair in was else underlined(shown))
    return tuple(runs) if query else ()


def _header(name: str, value: str) -> Line:
    return (*revealed(name, Mark.SECOND), Run(": ", Mark.FAINT), *revealed(value))


def _said_below(name: str, value: str, shown: Body | None) -> bool:
    """A content type of JSON over a body that is JSON says nothing that the line under the body does not."""
    is_json = shown is not None and shown.kind == texts.BODY_JSON
    return is_json and name.lower() == "content-type" and value.strip().lower() == "application/json"


def _decoded(host: str) -> str | None:
    """The name that a punycode host stands for (RFC 5891), None where it is no such host or stands for none."""
    if not any(label.startswith("xn--") for label in host.lower().split(".")):
        return None
    try:
        return idna.decode(host)
    except idna.IDNAError:
        return None


def _credential(card: Card) -> CredentialView:
    shown = card.credential
    if shown is None:
        return CredentialView(None, (texts.CREDENTIAL_NONE,), texts.CREDENTIAL_NONE)
    return CredentialView(
        name=shown.name,
        rest=(
            texts.CREDENTIAL_VERSION.format(version=shown.version),
            texts.CREDENTIAL_SENT_AS.format(sent_as=shown.sent_as),
        ),
        spoken=texts.CREDENTIAL_NAME.format(name=shown.name, version=shown.version, sent_as=shown.sent_as),
    )


def _scope(card: Card, scope: Scope, zone: tzinfo | None) -> ScopeView:
    match scope:
        case Scope.ONCE if _releases(card):
            return ScopeView(scope, texts.SCOPE_CHOICE_RELEASE, texts.APPROVE_RELEASE, texts.SCOPE_RELEASE)
        case Scope.ONCE if card.new_host_key is not None:
            button, sentence = _pinning(card.new_host_key)
            return ScopeView(scope, texts.SCOPE_CHOICE_ONCE, button, sentence)
        case Scope.ONCE if card.repeats:
            few = texts.REPEAT if card.repeats == 1 else texts.REPEATS.format(count=card.repeats)
            button, sentence = texts.APPROVE_REPEATS.format(repeats=few), texts.SCOPE_REPEATS.format(repeats=few)
            return ScopeView(scope, texts.SCOPE_CHOICE_ONCE, button, sentence)
        case Scope.ONCE:
            return ScopeView(scope, texts.SCOPE_CHOICE_ONCE, texts.APPROVE_ONCE, texts.SCOPE_ONCE)
        case Scope.SESSION:
            assert card.grant_until is not None, "a card offers a grant with its end alone"
            clock = figures.clock(card.grant_until, zone)
            return ScopeView(
                scope,
                texts.SCOPE_CHOICE_UNTIL.format(method=card.method, clock=clock),
                texts.APPROVE_UNTIL.format(clock=clock),
                texts.SCOPE_SESSION,
            )


def _pinning(key: NewHostKey) -> tuple[str, str]:
    """What the button and the sentence say of an approval that pins a key."""
    if key.next_host is None:
        return texts.APPROVE_PIN, texts.SCOPE_PIN
    return texts.APPROVE_PIN_ONLY, texts.SCOPE_PIN_ONLY.format(host=plain(revealed(key.next_host)))
