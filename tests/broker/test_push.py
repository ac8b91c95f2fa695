"""What a push asks for and what a repository's refs say of it."""

from __future__ import annotations

import pytest

from affidavit.broker import push
from affidavit.broker.contract import parse
from affidavit.broker.contract.model import Reconcile
from affidavit.broker.lookup import Worth, pushed
from affidavit.broker.push import FLUSH, READ_MAX, PushReader, Update, refs, refs_command
from affidavit.broker.signs import Answer
from affidavit.broker.terms import Outcome

OLD, NEW, OTHER, NONE = "a" * 40, "b" * 40, "c" * 40, "0" * 40
MAIN = Update("refs/heads/main", OLD, NEW)
GONE = Update("refs/heads/gone", OLD, NONE)


def line(text: str) -> bytes:
    return f"{len(text.encode()) + 4:04x}{text}".encode()


def asked(*updates: Update) -> bytes:
    lines = [f"{each.old} {each.new} {each.ref}" for each in updates]
    lines[0] += "\0report-status side-band-64k agent=git/2.39.5"
    return b"".join(map(line, lines)) + FLUSH


def advertised(**found: str) -> bytes:
    lines = [f"{oid} refs/heads/{name}\n" for name, oid in found.items()] or [f"{NONE} capabilities^{{}}\n"]
    lines[0] = lines[0].replace("\n", "\0multi_ack thin-pack\n")
    return b"".join(map(line, lines)) + FLUSH


@pytest.mark.parametrize("cut", [1, 7, 1000])
def test_updates_are_read_as_the_push_passes(cut: int) -> None:
    reader, data = PushReader(), line("shallow " + OTHER) + asked(MAIN, GONE) + b"PACK" + bytes(100)
    for at in range(0, len(data), cut):
        reader.feed(data[at : at + cut])
    assert reader.updates == (MAIN, GONE)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        asked(MAIN)[:-5],
        line("push-cert\0caps") + FLUSH,
        line(f"{OLD} {NEW} HEAD") + FLUSH,
        FLUSH,
        b"zzzz",
        b"0003" + FLUSH,
        line("x" * 1000) * 20 + FLUSH,
    ],
)
def test_what_is_no_push_has_no_updates(data: bytes) -> None:
    reader = PushReader()
    reader.feed(data)
    reader.feed(asked(MAIN)) if len(data) > READ_MAX else None
    assert reader.updates is None


def test_the_refs_of_a_repository() -> None:
    assert refs(advertised(main=NEW, topic=OLD)) == {"refs/heads/main": NEW, "refs/heads/topic": OLD}
    assert refs(advertised()) == {"capabilities^{}": NONE}
    for wrong in (b"", b"fatal: no", advertised(main=NEW)[:-1], line("ERR no") + FLUSH):
        assert refs(wrong) is None


@pytest.mark.parametrize(
    ("command", "asks"),
    [
        ("git-receive-pack '/srv/a b.git'", "git-upload-pack '/srv/a b.git'"),
        ("git receive-pack 'a.git'", "git upload-pack 'a.git'"),
        ("/opt/git-receive-pack 'a.git'", "/opt/git-upload-pack 'a.git'"),
        ("git-upload-pack 'a.git'", None),
        ("echo git-receive-pack 'a.git'", None),
    ],
)
def test_the_command_that_tells_the_refs(command: str, asks: str | None) -> None:
    assert refs_command(command) == asks


def terms(absent: str = "") -> Reconcile:
    found = parse(
        'id = "git.push"\n[match]\nkind = "ssh"\nhost = "*"\ncommand = "git-receive-pack *"\n'
        f'[effect]\nkind = "write"\n[reconcile]\ncommand = "git ls-remote"\n{absent}',
        file="push.toml",
    ).reconcile
    assert found is not None
    assert found.by_refs
    return found


REJECTED = 'absent = { means = "rejected", after = "60s" }'


@pytest.mark.parametrize(
    ("found", "absent", "age_s", "worth", "outcome"),
    [
        ({"main": NEW}, "", 1, Worth.SETTLES, Outcome.COMMITTED),
        ({"main": OLD, "gone": OLD}, "", 100, Worth.ABSENT, None),
        ({"main": OLD, "gone": OLD}, REJECTED, 59, Worth.ABSENT, None),
        ({"main": OLD, "gone": OLD}, REJECTED, 60, Worth.SETTLES, Outcome.REJECTED),
        ({"main": NEW, "gone": OLD}, REJECTED, 60, Worth.OTHER, None),
        ({"main": OTHER, "gone": OLD}, REJECTED, 60, Worth.OTHER, None),
    ],
)
def test_what_the_refs_are_worth(
    found: dict[str, str], absent: str, age_s: float, worth: Worth, outcome: Outcome | None
) -> None:
    stdin = {"updates": [[each.ref, each.old, each.new] for each in (MAIN, GONE)]}
    finding = pushed(terms(absent), stdin, Answer(200, {}, advertised(**found)), age_s=age_s)
    assert (finding.worth, finding.outcome) == (worth, outcome)


@pytest.mark.parametrize(
    ("stdin", "answer"),
    [
        (None, Answer(200, {}, advertised(main=NEW))),
        ({"bytes": 4}, Answer(200, {}, advertised(main=NEW))),
        ({"updates": [["refs/heads/main", OLD, NEW]]}, None),
        ({"updates": [["refs/heads/main", OLD, NEW]]}, Answer(200, {}, None)),
        ({"updates": [["refs/heads/main", OLD, NEW]]}, Answer(200, {}, b"fatal: no")),
    ],
)
def test_without_both_nothing_is_proven(stdin: dict[str, object] | None, answer: Answer | None) -> None:
    assert pushed(terms(REJECTED), stdin, answer, age_s=1000).worth is Worth.FAILED


def test_a_name_of_zeros_is_a_ref_that_is_not_there() -> None:
    assert push.where(GONE, {}) == NONE
