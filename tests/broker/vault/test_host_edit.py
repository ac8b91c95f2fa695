"""A change of a host's entry: what stays, what goes with the old address, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.broker.vault import ssh_keys
from tests.broker.vault.test_host_entry import BEARER, KEY, LINE, NEW, credential, made

from affidavit.broker.vault import HostEdit, HostEntry, HostKeyPolicy, VaultError
from affidavit.broker.vault.host_edit import edited
from affidavit.broker.wire.ssh.port import HostKey

OTHER = ssh_keys.line(ssh_keys.new())
PINNED, ADDED = (HostKey.of(ssh_keys.blob(line)) for line in (LINE, OTHER))
ADMIN = credential("admin", username="root")
ENTRY = made(replace(NEW, host_keys=(LINE,)))
GATE = made(replace(NEW, name="gate"))
KNOWN = (KEY, BEARER, ADMIN)


def after(edit: HostEdit, *others: HostEntry, entry: HostEntry = ENTRY) -> HostEntry:
    return edited(entry, edit, (entry, *others), KNOWN)


def test_what_is_not_named_stays() -> None:
    assert after(HostEdit()) == ENTRY
    held = replace(ENTRY, jump="gate", policy=HostKeyPolicy.ACCEPT_NEW, revoked=(ADDED,))
    assert after(HostEdit(), GATE, entry=held) == held


@pytest.mark.parametrize(
    ("edit", "changed"),
    [
        (HostEdit(policy="accept-new"), {"policy": HostKeyPolicy.ACCEPT_NEW}),
        (HostEdit(jump="gate"), {"jump": "gate"}),
        (HostEdit(user="ops"), {"user": "ops"}),
        (HostEdit(user="root", credential="admin"), {"user": "root", "credential_id": ADMIN.credential_id}),
        (HostEdit(host_keys=(OTHER,)), {"host_keys": (PINNED, ADDED)}),
        (HostEdit(forget_keys=(PINNED.fingerprint,)), {"host_keys": ()}),
        (HostEdit(host_keys=(OTHER,), forget_keys=(PINNED.fingerprint,)), {"host_keys": (ADDED,)}),
        (HostEdit(address="DB.example.com"), {}),
        (HostEdit(address="new.example.com"), {"address": "new.example.com", "host_keys": ()}),
        (HostEdit(port=2222), {"port": 2222, "host_keys": ()}),
        (HostEdit(port=2222, host_keys=(OTHER,)), {"port": 2222, "host_keys": (ADDED,)}),
    ],
)
def test_what_is_named_changes_and_another_place_drops_the_keys(edit: HostEdit, changed: dict[str, object]) -> None:
    assert after(edit, GATE) == replace(ENTRY, **changed)  # type: ignore[arg-type]


def test_a_jump_is_taken_away_by_the_empty_word() -> None:
    assert after(HostEdit(jump=""), GATE, entry=replace(ENTRY, jump="gate")).jump is None


def test_what_was_revoked_stays_revoked_at_another_address() -> None:
    revoked = replace(ENTRY, host_keys=(), revoked=(PINNED,))
    assert after(HostEdit(address="new.example.com"), entry=revoked).revoked == (PINNED,)
    with pytest.raises(VaultError) as refused:
        after(HostEdit(host_keys=(LINE,)), entry=revoked)
    assert refused.value.field == "host_keys"


@pytest.mark.parametrize(
    ("edit", "field"),
    [
        (HostEdit(address="a b"), "address"),
        (HostEdit(address="db.elsewhere.test"), "credential"),
        (HostEdit(port=0), "port"),
        (HostEdit(user=""), "user"),
        (HostEdit(credential="nobody"), "credential"),
        (HostEdit(credential="token"), "credential"),
        (HostEdit(credential="admin"), "user"),
        (HostEdit(jump="nobody"), "jump"),
        (HostEdit(jump="db"), "jump"),
        (HostEdit(jump="behind"), "jump"),
        (HostEdit(policy="lax"), "policy"),
        (HostEdit(host_keys=("ssh-dss AAAA",)), "host_keys"),
        (HostEdit(forget_keys=("SHA256:nothing",)), "forget_keys"),
    ],
)
def test_a_bad_change_is_refused_by_field(edit: HostEdit, field: str) -> None:
    behind = made(replace(NEW, name="behind", jump="db"), ENTRY)
    with pytest.raises(VaultError) as refused:
        after(edit, GATE, behind)
    assert refused.value.field == field


def test_a_way_that_gets_too_long_behind_it_is_refused() -> None:
    chain = [GATE]
    for name in ("two", "three", "four"):
        chain.append(made(replace(NEW, name=name, jump=chain[-1].name), *chain))
    behind = made(replace(NEW, name="behind", jump="db"), ENTRY)
    with pytest.raises(VaultError) as refused:
        after(HostEdit(jump="four"), *chain, behind)
    assert refused.value.field == "jump"
    assert after(HostEdit(jump="three"), *chain, behind).jump == "three"
