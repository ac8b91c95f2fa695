"""What an OpenSSH file changes in the host entries, and what of it is skipped."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from tests.broker.test_openssh import TEXTS
from tests.broker.vault import ssh_keys
from tests.broker.vault.test_host_entry import BEARER, KEY, NEW, NOW, credential, made

from affidavit.broker.vault import HostEntry, Imported
from affidavit.broker.vault.host_import import planned

ED = ssh_keys.new()
OTHER = ssh_keys.new()
LINE, OTHER_LINE = ssh_keys.line(ED), ssh_keys.line(OTHER)
DB = made()
DB_2222 = made(replace(NEW, name="db2", port=2222))
SIX = made(replace(NEW, name="six", address="2001:db8::7"))
ENTRIES = (DB, DB_2222, SIX)


def plan(text: str, *entries: HostEntry, credential: str | None = None, user: str | None = None) -> Imported:
    return planned(text, entries, (KEY, BEARER), credential=credential, user=user, now=NOW)


# -- known_hosts


def test_keys_go_to_the_entries_that_are_named_exactly() -> None:
    text = (
        f"DB.example.com,other {LINE}\n{ssh_keys.hashed('[db.example.com]:2222')} {OTHER_LINE}\n2001:db8::7 {LINE}\n"
        f"db.example.com {OTHER_LINE}\n[db.example.org]:2222 {LINE}\n{ssh_keys.hashed('x')} {LINE}\n"
    )
    found = plan(text, *ENTRIES)
    key, other = ssh_keys.host_key(ED), ssh_keys.host_key(OTHER)
    assert found.added == ()
    assert found.changed == (
        (DB, DB.with_keys(key, other)),
        (DB_2222, DB_2222.with_keys(other)),
        (SIX, SIX.with_keys(key)),
    )
    assert [(each.line, each.what) for each in found.skipped] == [(5, "[db.example.org]:2222"), (6, "(a hashed name)")]


def test_the_same_file_again_changes_nothing() -> None:
    ((_, after),) = plan(f"db.example.com {LINE}", DB).changed
    again = plan(f"db.example.com {LINE}", after)
    assert (again.changed, again.skipped) == ((), ())


def test_a_revoked_key_is_removed_and_never_pinned() -> None:
    pinned = DB.with_keys(ssh_keys.host_key(ED), ssh_keys.host_key(OTHER))
    text = f"db.example.com {LINE}\n@revoked * {LINE}\n@revoked elsewhere {OTHER_LINE}"
    found = plan(text, pinned)
    ((before, after),) = found.changed
    assert before == pinned
    assert (after.host_keys, after.revoked) == ((ssh_keys.host_key(OTHER),), (ssh_keys.host_key(ED),))
    assert [(each.line, each.what) for each in found.skipped] == [(1, "db")]
    later = plan(f"db.example.com {LINE}", after)
    assert (later.changed, [each.what for each in later.skipped]) == ((), ["db"])


def test_a_bad_line_keeps_nothing_else_away() -> None:
    found = plan(f"@cert-authority * {LINE}\nnonsense\ndb.example.com {LINE}\n", DB)
    assert [after.name for _, after in found.changed] == ["db"]
    assert [each.line for each in found.skipped] == [1, 2]


# -- ssh_config


def test_hosts_are_added_jump_hosts_first() -> None:
    text = """\
Host app
    HostName app.example.com
    User deploy
    IdentityFile ~/.ssh/other
    IdentityFile ~/.ssh/key
    ProxyJump gate
Host gate
    HostName gate.example.com
    Port 2222
    ProxyJump root@db.example.com:22
"""
    root = made(replace(NEW, user="root"))
    found = plan(text, root, credential="key", user="ada")
    assert found.skipped == ()
    gate, app = found.added
    assert (gate.name, gate.address, gate.port, gate.user, gate.jump) == ("gate", "gate.example.com", 2222, "ada", "db")
    assert (app.name, app.user, app.jump, app.credential_id) == ("app", "deploy", "gate", KEY.credential_id)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("User u\nIdentityFile ~/.ssh/none", "No credential is named as its IdentityFile"),
        ("User u", "It names no IdentityFile"),
        ("IdentityFile key", "It names no User"),
        ("User u\nIdentityFile key\nPort x", "Port is no number"),
        ("User u\nIdentityFile key\nPort 70000", "1 to 65535"),
        ("User u\nIdentityFile key\nProxyCommand nc %h %p", "ProxyCommand"),
        ("User u\nIdentityFile key\nProxyJump a,b", "not one host"),
        ("User u\nIdentityFile key\nProxyJump nowhere", "is no entry"),
        ("User u\nIdentityFile key\nProxyJump root@db", "not mean exactly one"),
        ("User u\nIdentityFile key\nProxyJump db:2222", "not mean exactly one"),
        ("User u\nIdentityFile key\nProxyJump x", "circle"),
        ("User u\nIdentityFile key\nHostName %n.example.com", "not a host name"),
        ("User u\nIdentityFile key\nHostName elsewhere.example.org", "bound to"),
        ("User u\nIdentityFile token", "No credential is named"),
        ("User 'a b'\nIdentityFile key\nHostName b\u202e", "invisible"),
    ],
)
def test_a_host_that_cannot_be_taken_is_named(options: str, why: str) -> None:
    text = f"Host x\nHostName x.example.com\n{options}\nHost y\nHostName y.example.com\nUser u\nIdentityFile key\n"
    if "HostName" in options:
        text = text.replace("HostName x.example.com\n", "")
    found = plan(text, DB)
    assert [entry.name for entry in found.added] == ["y"]
    (skipped,) = found.skipped
    assert (skipped.line, skipped.what) == (1, "x")
    assert why in skipped.why


def test_what_was_behind_a_host_that_is_skipped_is_skipped_too() -> None:
    text = "Host a\nUser u\nHost b\nHostName b.example.com\nUser u\nIdentityFile key\nProxyJump a\n"
    found = plan(text)
    assert found.added == ()
    assert [each.what for each in found.skipped] == ["a", "b"]
    assert "was not taken" in found.skipped[1].why


def test_a_name_that_is_there_stays_as_it_is() -> None:
    found = plan("Host db\nUser other\nIdentityFile key\nHostName b.example.com\n", DB)
    assert (found.added, found.changed) == ((), ())
    assert "exists" in found.skipped[0].why


@given(TEXTS)
def test_any_text_gives_a_plan(text: str) -> None:
    found = planned(text, ENTRIES, (KEY, credential("any", "*")), credential="any", user="u", now=NOW)
    for n, entry in enumerate(found.added):
        assert entry.jump in {None, *(each.name for each in (*ENTRIES, *found.added[:n]))}
    for before, after in found.changed:
        assert before in ENTRIES
        assert (after.name, after.credential_id, after.policy) == (before.name, before.credential_id, before.policy)
        assert not set(after.host_keys) & set(after.revoked)
