"""What a card says, without a window: nothing of the caller's outside its claim, nothing hidden, nothing left out."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC

import pytest
from tests.gui import cards

from affidavit.broker.card import Answers, Card, CardEnd, Notice, NoticeKind, Scope
from affidavit.broker.session import Claim, Process, Provenance, Session
from affidavit.broker.terms import ApprovalMode, InvocationId
from affidavit.gui import texts
from affidavit.gui.card_view import CardView, card_view
from affidavit.gui.runs import Line, Mark, Run, plain


def view(card: Card) -> CardView:
    return card_view(card, now=cards.NOW, home=cards.HOME, zone=UTC)


def lines(shown: CardView) -> list[str]:
    return [plain(line) for line in shown.target.lines]


def marked(line: Line, mark: Mark) -> list[str]:
    return [run.text for run in line if run.mark is mark]


def test_the_refund_of_the_pictures() -> None:
    shown = view(cards.WRITE)
    assert lines(shown) == ["https://api.example.com/v1/refunds", "?expand=charge&notify=true"]
    assert marked(shown.target.lines[0], Mark.STRONG) == ["api.example.com"]
    assert marked(shown.target.lines[1], Mark.VALUE) == ["charge", "true"]
    assert marked(shown.target.lines[1], Mark.SECOND) == ["expand", "notify"]
    assert plain(shown.caller.directory) == "~/src/shop-support"
    assert plain(shown.caller.chain) == "started by zsh  ‹  alacritty"  # noqa: RUF001
    assert plain(shown.caller.client) == "Claude Code 2.3"
    assert plain(shown.caller.reason) == "“Order 1187 came back; refund the customer”"
    assert shown.credential.spoken == "Credential refunds-test, version 4, sent as Authorization header"
    assert (shown.contract, shown.contract_more) == ("Contract example.refunds.create", "read 2026-11-30")
    assert shown.groups == ("8b1f", "20c4", "e77a", "03d9", "5c61", "9ae2", "4fb8", "71d0")
    assert shown.announced(102) == (
        "Write. Create a refund at api.example.com, asked by node. Deny is focused. 1 minute 42 seconds."
    )


def test_the_fingerprint_is_read_letter_by_letter() -> None:
    assert view(cards.WRITE).spoken_groups.startswith("8 b 1 f, 2 0 c 4, ")


def test_the_title_and_our_sentences_hold_nothing_of_the_caller() -> None:
    claim = Claim("CLAIMED-NAME", "CLAIMED-VERSION")
    card = replace(cards.WRITE, session=replace(cards.SESSION, claim=claim), reason="CLAIMED-REASON")
    shown = view(card)
    claimed = plain(shown.caller.client) + plain(shown.caller.reason)
    assert all(word in claimed for word in ("CLAIMED-NAME", "CLAIMED-VERSION", "CLAIMED-REASON"))
    elsewhere = (shown.title, shown.announced(9), shown.approve_description(), shown.caller.details, *lines(shown))
    assert not any("CLAIMED" in text for text in elsewhere)


@pytest.mark.parametrize("place", ["reason", "url", "headers", "title", "client", "name", "cwd", "chain", "method"])
def test_a_reordering_character_is_a_chip_wherever_it_comes(place: str) -> None:
    evil = "a\u202eb"
    process = replace(cards.SESSION.provenance.process, name=evil, exe=evil, cwd=evil)
    session = Session(
        cards.SESSION.session_id,
        Provenance(1000, process, process, (Process(1, 1, evil),)),
        Claim(evil, evil),
    )
    card = replace(
        cards.WRITE, reason=evil, url=f"https://h/{evil}?{evil}={evil}#{evil}", headers=((evil, evil),), title=evil,
        session=session, method=evil,
    )  # fmt: skip
    shown = view(card)
    text = {
        "reason": plain(shown.caller.reason),
        "url": lines(shown)[0] + lines(shown)[1],
        "headers": lines(shown)[-1],
        "title": shown.title,
        "client": plain(shown.caller.client),
        "name": plain(shown.caller.program) + shown.caller.details,
        "cwd": plain(shown.caller.directory),
        "chain": plain(shown.caller.chain),
        "method": shown.target.method,
    }[place]
    assert "\u202e" not in text
    assert "U+202E" in text


@pytest.mark.parametrize(
    "url",
    [
        "https://user@host:8443/p?a=b=c&&d#frag",
        "http://[::1]:8080/x",
        "https://host",
        "https://host?q",
        "not a url",
        "https://host/a b\\c",
    ],
)
def test_a_target_is_shown_to_its_last_character(url: str) -> None:
    assert "".join(lines(view(replace(cards.WRITE, url=url, headers=())))) == url


def test_the_host_is_told_apart_from_what_looks_like_one() -> None:
    shown = view(replace(cards.WRITE, url="https://evil.example/https://api.example.com/"))
    assert marked(shown.target.lines[0], Mark.STRONG) == ["evil.example"]
    assert shown.target.host == "evil.example"


def test_a_punycode_host_is_shown_as_such_with_its_name_beside_it() -> None:
    shown = view(replace(cards.WRITE, url="https://xn--bcher-kva.example/", headers=()))
    assert lines(shown) == ["https://xn--bcher-kva.example/", "shown as bücher.example"]
    assert lines(view(replace(cards.WRITE, url="https://xn--a.example/", headers=()))) == ["https://xn--a.example/"]


@pytest.mark.parametrize(
    ("url", "changed"),
    [
        ("https://h/v1/refunds/7?a=1&b=2", []),
        ("https://h/v1/refunds/8?a=1&b=2", ["8"]),
        ("https://h/v1/refunds/7/undo?a=1&b=2", ["undo"]),
        ("https://h/v2/refunds/7?b=2&a=1", ["v2"]),
        ("https://h/v1/refunds/7?a=1&b=3&c", ["b", "=", "3", "c"]),
        ("https://h/v1/refunds/7", []),
        ("https://h", []),
    ],
)
def test_what_differs_from_the_last_approved_call_is_underlined(url: str, changed: list[str]) -> None:
    card = replace(cards.WRITE, url=url, headers=(), last_url="https://h/v1/refunds/7?a=1&b=2")
    shown = view(card)
    assert "".join(lines(shown)) == url
    assert [run.text for line in shown.target.lines for run in line if run.changed] == changed
    assert shown.target.changed.endswith(": " + ", ".join(changed)) if changed else shown.target.changed == ""


def test_without_an_approved_call_before_nothing_is_underlined() -> None:
    shown = view(replace(cards.WRITE, last_url=None)).target
    assert not any(run.changed for line in shown.lines for run in line)


def test_a_hidden_character_that_is_new_is_an_underlined_chip() -> None:
    shown = view(replace(cards.WRITE, url="https://h/a\u202e", headers=(), last_url="https://h/a")).target
    assert [run for line in shown.lines for run in line if run.changed][-1] == Run("U+202E", Mark.CHIP, changed=True)


def test_headers_are_shown_but_for_a_type_that_the_body_line_says() -> None:
    headers = (("Content-Type", "application/json"), ("X-Mode", "force"))
    assert lines(view(replace(cards.WRITE, headers=headers)))[2:] == ["X-Mode: force"]
    assert lines(view(replace(cards.WRITE, headers=headers, body=b"{")))[2:] == [
        "Content-Type: application/json",
        "X-Mode: force",
    ]


def test_what_the_kernel_does_not_show_is_said() -> None:
    bare = Process(7, 1, "prog")
    session = Session(cards.SESSION.session_id, Provenance(1000, bare, bare))
    shown = view(replace(cards.WRITE, session=session, reason=None)).caller
    assert plain(shown.directory) == texts.KERNEL_UNSEEN_DIRECTORY
    assert plain(shown.chain) == texts.KERNEL_UNSEEN_CHAIN
    assert texts.KERNEL_UNSEEN in shown.details
    assert plain(shown.client) == texts.CLAIM_NO_CLIENT
    assert plain(shown.reason) == texts.CLAIM_NO_REASON


@pytest.mark.parametrize(
    ("cwd", "said"),
    [("/home/op", "~"), ("/home/op/x", "~/x"), ("/home/operator", "/home/operator"), ("/srv/home/op", "/srv/home/op")],
)
def test_only_the_home_directory_is_shortened(cwd: str, said: str) -> None:
    process = replace(cards.SESSION.provenance.process, cwd=cwd)
    session = replace(cards.SESSION, provenance=replace(cards.SESSION.provenance, process=process))
    assert plain(view(replace(cards.WRITE, session=session)).caller.directory) == said


def test_the_two_notices_of_an_unknown_twin() -> None:
    same, route = view(cards.TWINS).notices
    assert same.bold == "The same request was sent 12 minutes ago. Its outcome is unknown."
    assert same.more.startswith("Record 41 proves it was sent")
    assert same.tick == "I accept that the refund may happen twice"
    assert same.amber
    assert same.look_at == "act_01J9ZK0000000000000000REF0"
    assert route.bold.startswith("Another request to this route is unknown; this one differs")
    assert "Record 37" in route.more
    assert route.tick is None
    assert view(cards.TWINS).needs.tick


def test_a_tick_without_its_notice_gets_one() -> None:
    (notice,) = view(replace(cards.WRITE, tick="I accept it")).notices
    assert (notice.tick, notice.amber, notice.look_at) == ("I accept it", False, None)


def test_a_new_host_key_is_shown_whole_and_the_button_says_that_it_is_pinned() -> None:
    shown = view(cards.NEW_KEY)
    (notice,) = shown.notices
    assert notice.bold == "First contact: this host key has never been seen."
    assert not notice.amber
    assert notice.host_key is not None
    assert notice.host_key.about == "web-02.example.com:22  ssh-ed25519  SHA256"
    assert notice.host_key.value == "7Qm4kV0xPz2r9sLhaT6EwB1dYc8NuJ3fLk2Re5XnGt4"
    (scope,) = shown.scopes
    assert (scope.button, scope.sentence) == (
        "Pin key and approve once",
        "Covers this one dispatch and pins this host key.",
    )


def test_a_card_that_only_pins_says_that_nothing_is_sent_yet() -> None:
    (notice,) = cards.NEW_KEY.notices
    assert notice.host_key is not None
    key = replace(notice.host_key, next_host="web\u202e-03")
    (scope,) = view(replace(cards.NEW_KEY, notices=(replace(notice, host_key=key),))).scopes
    assert scope.button == "Pin key"
    assert "Nothing is sent yet: webU+202E-03, behind it, is new as well" in scope.sentence


@pytest.mark.parametrize("kind", NoticeKind)
def test_a_notice_without_record_or_time_claims_neither(kind: NoticeKind) -> None:
    (notice,) = view(replace(cards.WRITE, notices=(Notice(kind, InvocationId("act_1")),))).notices
    assert "{" not in notice.bold + notice.more
    assert "None" not in notice.bold + notice.more + notice.look_description
    assert notice.amber is kind.value.endswith("unknown")


@pytest.mark.parametrize(
    ("contract", "said"),
    [("default.read", texts.CONTRACT_NONE_READ), ("default.write", texts.CONTRACT_NONE_WRITE)],
)
def test_no_contract_is_said_in_words(contract: str, said: str) -> None:
    shown = view(replace(cards.WRITE, contract_id=contract, contract_checked=None))
    assert shown.contract == said
    assert "default" not in shown.contract + shown.contract_more


def test_a_missing_answer_is_spoken_as_missing() -> None:
    answers = Answers(cards.ANSWERS.binds_retries, replace(cards.ANSWERS.lookup, present=False), cards.ANSWERS.lookup)
    spoken = [answer.spoken for answer in view(replace(cards.WRITE, answers=answers)).answers]
    assert ["missing" in text for text in spoken] == [False, True, False]


def test_the_scopes_of_a_read() -> None:
    shown = view(cards.READ)
    assert [scope.button for scope in shown.scopes] == ["Approve once", "Approve until 14:32"]
    assert [scope.choice for scope in shown.scopes] == [
        "Only this request",
        "GET on this route, by this process, until 14:32",
    ]
    assert shown.scopes[shown.preselected].scope is Scope.SESSION
    assert shown.scopes[1].sentence == "The grant ends at that time, with this process, or when the vault locks."


def test_a_write_preselects_only_this_request() -> None:
    shown = view(replace(cards.WRITE, scopes=(Scope.ONCE, Scope.SESSION), grant_until=cards.READ.grant_until))
    assert shown.preselected == 0


def test_what_the_card_asks_for() -> None:
    assert view(replace(cards.WRITE, mode=ApprovalMode.PASSPHRASE)).needs.passphrase
    assert view(cards.LONG).needs.long_body
    assert view(replace(cards.NEW_KEY, streamed=True)).needs.streamed
    assert view(cards.READ).body is None
    assert view(replace(cards.WRITE, credential=None)).credential.name is None


def test_a_card_that_releases_a_result_says_nothing_of_sending() -> None:
    notice = Notice(NoticeKind.RESULT_RELEASE, InvocationId("act_1"), record=52, at=cards.NOW)
    shown = view(replace(cards.READ, scopes=(Scope.ONCE,), preselected=Scope.ONCE, notices=(notice,)))
    assert shown.notices[0].bold.startswith("Nothing is sent")
    assert "record 52" in shown.notices[0].more
    assert shown.scopes[0].button == "Let it read the result"
    assert set(shown.words.ends) == set(CardEnd)
    assert not any("was sent" in sentence for sentence in shown.words.ends.values())


@pytest.mark.parametrize(
    ("repeats", "button"),
    [(0, "Approve once"), (1, "Approve with up to 1 repeat"), (2, "Approve with up to 2 repeats")],
)
def test_the_button_says_how_many_repeats_it_covers(repeats: int, button: str) -> None:
    (scope,) = view(replace(cards.WRITE, repeats=repeats)).scopes
    assert scope.button == button
    assert ("repeat" in scope.sentence) == bool(repeats)
