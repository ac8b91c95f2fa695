"""One host entry: what is checked, who logs in to it, and the way to it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.broker.vault import ssh_keys

from affidavit.broker.terms import Micros
from affidavit.broker.vault import (
    Conflict,
    Credential,
    HostEntry,
    HostKeyPolicy,
    Invalid,
    NewCredential,
    NewHost,
    NotKnown,
    VaultError,
    hops_of,
)
from affidavit.broker.vault import credentials as vault_credentials
from affidavit.broker.vault.host_entry import HOPS_MAX, KEYS_MAX, by_address, checked, find

NOW = Micros(1_796_000_000_000_000)
LINE = ssh_keys.line(ssh_keys.new())
NEW = NewHost("db", "db.example.com", "deploy", "key")


def credential(name: str = "key", *targets: str, kind: str = "ssh-key", username: str | None = None) -> Credential:
    return vault_credentials.checked(
        NewCredential(name, kind, targets or ("*.example.com", "192.0.2.7", "2001:db8::7"), username=username), NOW
    )


KEY = credential()
BEARER = credential("token", "https://db.example.com/", kind="bearer")


def made(new: NewHost = NEW, *entries: HostEntry, known: tuple[Credential, ...] = (KEY, BEARER)) -> HostEntry:
    return checked(new, entries, known, NOW)


def test_what_is_kept() -> None:
    entry = made(replace(NEW, address="DB.Example.com", host_keys=(f"{LINE} a comment", LINE)))
    assert entry == HostEntry(
        name="db",
        address="db.example.com",
        port=22,
        user="deploy",
        credential_id=KEY.credential_id,
        jump=None,
        host_keys=(ssh_keys.HostKey.of(entry.host_keys[0].blob),),
        revoked=(),
        policy=HostKeyPolicy.STRICT,
        added_at=NOW,
    )
    assert entry.host_keys[0].line == LINE
    assert entry.authority == "db.example.com:22"


@pytest.mark.parametrize(
    ("address", "kept"),
    [("192.0.2.7", "192.0.2.7"), ("2001:DB8:0::7", "2001:db8::7"), ("[2001:db8::7]", "2001:db8::7")],
)
def test_literal_addresses_have_one_spelling(address: str, kept: str) -> None:
    entry = made(replace(NEW, address=address, port=2222))
    assert entry.address == kept
    assert entry.authority == (f"[{kept}]:2222" if ":" in kept else f"{kept}:2222")


@pytest.mark.parametrize(
    ("new", "field"),
    [
        (replace(NEW, name="a b"), "name"),
        (replace(NEW, name="x" * 65), "name"),
        (replace(NEW, address=""), "address"),
        (replace(NEW, address="a b"), "address"),
        (replace(NEW, address="db.example.com."), "address"),
        (replace(NEW, address="ssh://db"), "address"),
        (replace(NEW, address="deploy@db.example.com"), "address"),
        (replace(NEW, address="db.example.com:22"), "address"),
        (replace(NEW, address="*.example.com"), "address"),
        (replace(NEW, address="fe80::1%eth0"), "address"),
        (replace(NEW, port=0), "port"),
        (replace(NEW, port=65536), "port"),
        (replace(NEW, user=""), "user"),
        (replace(NEW, user="a\n"), "user"),
        (replace(NEW, user="a b"), "user"),
        (replace(NEW, user="a\u202e"), "user"),
        (replace(NEW, user="ä" * 128), "user"),
        (replace(NEW, credential="nobody"), "credential"),
        (replace(NEW, credential="token"), "credential"),
        (replace(NEW, address="db.example.org"), "credential"),
        (replace(NEW, address="192.0.2.8"), "credential"),
        (replace(NEW, jump="nowhere"), "jump"),
        (replace(NEW, jump="db"), "jump"),
        (replace(NEW, host_keys=("ssh-ed25519 AAAA",)), "host_keys"),
        (replace(NEW, policy="ask"), "policy"),
    ],
)
def test_what_does_not_fit_names_its_field(new: NewHost, field: str) -> None:
    with pytest.raises(Invalid) as caught:
        made(new)
    assert caught.value.field == field
    assert caught.value.message
    assert caught.value.remedy
    assert "URL" not in caught.value.message


def test_a_name_is_given_once() -> None:
    with pytest.raises(Conflict):
        made(NEW, made())


def test_a_credential_can_be_bound_to_one_user() -> None:
    one = credential(username="deploy")
    assert made(known=(one,)).user == "deploy"
    with pytest.raises(Invalid) as caught:
        made(replace(NEW, user="root"), known=(one,))
    assert caught.value.field == "user"


def test_a_host_has_so_many_keys() -> None:
    lines = tuple(ssh_keys.line(ssh_keys.new()) for _ in range(KEYS_MAX + 1))
    entry = made(replace(NEW, host_keys=lines[1:]))
    assert len(entry.host_keys) == KEYS_MAX
    with pytest.raises(Invalid):
        made(replace(NEW, host_keys=lines))
    with pytest.raises(Invalid):
        entry.with_keys(ssh_keys.host_key(ssh_keys.new()))


def test_a_digest_tells_every_difference() -> None:
    entry = made(replace(NEW, host_keys=(LINE,)))
    other = ssh_keys.host_key(ssh_keys.new())
    changed = [
        entry,
        replace(entry, name="b"),
        replace(entry, address="b"),
        replace(entry, port=23),
        replace(entry, user="b"),
        replace(entry, credential_id=BEARER.credential_id),
        replace(entry, jump="b"),
        entry.with_keys(other),
        entry.without_key(other),
        replace(entry, policy=HostKeyPolicy.ACCEPT_NEW),
    ]
    assert len({each.digest for each in changed}) == len(changed)
    assert replace(entry, added_at=Micros(1)).digest == entry.digest


def test_keys_come_and_go() -> None:
    key, other = ssh_keys.host_key(ssh_keys.new()), ssh_keys.host_key(ssh_keys.new())
    entry = made().with_keys(key, key)
    assert entry.with_keys(other, key).host_keys == (key, other)
    without = entry.without_key(key)
    assert (without.host_keys, without.revoked) == ((), (key,))
    assert without.without_key(key) == without
    with pytest.raises(Conflict):
        without.with_keys(other, key)
    lax = replace(without, policy=HostKeyPolicy.ACCEPT_NEW)
    assert lax.may_learn(other)
    assert not lax.may_learn(key)
    assert not without.may_learn(other)
    assert not lax.with_keys(other).may_learn(ssh_keys.host_key(ssh_keys.new()))


# -- ways


def chain(length: int) -> list[HostEntry]:
    """`h0` directly, `h1` through it, and so on."""
    entries: list[HostEntry] = []
    for n in range(length):
        jump = f"h{n - 1}" if n else None
        entries.append(made(replace(NEW, name=f"h{n}", jump=jump), *entries))
    return entries


def test_the_way_has_its_jump_hosts_first() -> None:
    entries = chain(HOPS_MAX)
    hops = hops_of(reversed(entries), (BEARER, KEY), "h2")
    assert [hop.entry.name for hop in hops] == ["h0", "h1", "h2"]
    assert all(hop.credential is KEY for hop in hops)
    assert len(hops_of(entries, (KEY,), f"h{HOPS_MAX - 1}")) == HOPS_MAX


def test_a_way_is_not_longer_than_that() -> None:
    with pytest.raises(Invalid) as caught:
        chain(HOPS_MAX + 1)
    assert caught.value.field == "jump"


def test_what_became_longer_is_no_way() -> None:
    entries = chain(HOPS_MAX)
    last = made(replace(NEW, name="last", jump=None))
    with pytest.raises(Invalid) as caught:
        hops_of((*entries, replace(last, jump=entries[-1].name)), (KEY,), "last")
    assert caught.value.field == "jump"


def test_a_circle_is_no_way() -> None:
    first, second = chain(2)
    with pytest.raises(Invalid) as caught:
        hops_of((replace(first, jump="h1"), second), (KEY,), "h1")
    assert caught.value.field == "jump"


def test_another_credential_logs_in_to_the_target_alone() -> None:
    other = credential("other")
    hops = hops_of(chain(2), (KEY, other), "h1", credential=other)
    assert [hop.credential.name for hop in hops] == ["key", "other"]
    with pytest.raises(Invalid) as caught:
        hops_of(chain(2), (KEY,), "h1", credential=BEARER)
    assert caught.value.field == "credential"


@pytest.mark.parametrize(("known", "name", "field"), [((KEY,), "h9", "host"), ((), "h1", "credential")])
def test_what_is_not_there(known: tuple[Credential, ...], name: str, field: str) -> None:
    with pytest.raises(NotKnown) as caught:
        hops_of(chain(2), known, name)
    assert caught.value.field == field


# -- what a person means by a host

A = made(replace(NEW, name="a"))
B = made(replace(NEW, name="b", port=2222))
C = made(replace(NEW, name="c", address="c.example.com", user="root"))


@pytest.mark.parametrize(
    ("host", "port", "user", "found"),
    [
        ("a", None, None, A),
        ("a", 22, "deploy", A),
        ("C.example.com", None, None, C),
        ("c.example.com", 22, "root", C),
        ("db.example.com", 2222, None, B),
    ],
)
def test_a_host_by_name_or_address(host: str, port: int | None, user: str | None, found: HostEntry) -> None:
    assert find((A, B, C), host, port=port, user=user) == found


@pytest.mark.parametrize(
    ("host", "port", "user", "error"),
    [
        ("a", 2222, None, Invalid),
        ("a", None, "root", Invalid),
        ("db.example.com", None, None, Invalid),
        ("d", None, None, NotKnown),
        ("c.example.com", 2222, None, NotKnown),
        ("a b", None, None, NotKnown),
    ],
)
def test_a_host_that_is_not_meant_clearly(
    host: str, port: int | None, user: str | None, error: type[VaultError]
) -> None:
    with pytest.raises(error) as caught:
        find((A, B, C), host, port=port, user=user)
    assert caught.value.field == "host"


def test_entries_by_address() -> None:
    assert by_address((A, B, C), "DB.example.com") == (A, B)
    assert by_address((A, B, C), "db.example.com", 2222) == (B,)
    assert by_address((A, B, C), "not a host") == ()
