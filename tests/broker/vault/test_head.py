"""A head round-trips; anything else is damage, told apart from a newer format."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from affidavit.broker.terms import Micros
from affidavit.broker.vault.errors import VaultDamaged
from affidavit.broker.vault.head import DeviceMode, VaultHead, _digest
from affidavit.broker.vault.keys import KdfParams

HEAD = VaultHead(
    created_at=Micros(1_796_000_000_000_000),
    cost=KdfParams(64, 2, 1),
    salt=bytes(range(16)),
    mode=DeviceMode.KEYRING,
    item="0011223344556677",
    device_check=b"c" * 32,
    verifier=b"v" * 32,
)


def changed(change: Callable[[dict[str, Any]], object], *, sealed: bool = True) -> bytes:
    fields = json.loads(HEAD.dump())
    fields.pop("digest")
    change(fields)
    return json.dumps({**fields, "digest": _digest(fields) if sealed else json.loads(HEAD.dump())["digest"]}).encode()


def test_round_trip(tmp_path: Path) -> None:
    file = tmp_path / "vault.head"
    file.write_bytes(HEAD.dump())
    assert VaultHead.read(file) == HEAD
    other = VaultHead(HEAD.created_at, HEAD.cost, HEAD.salt, DeviceMode.FILE, None, HEAD.device_check, HEAD.verifier)
    assert VaultHead.load(other.dump()) == other
    assert VaultHead.load(changed(lambda fields: None)) == HEAD


def test_every_changed_character_is_damage() -> None:
    content = HEAD.dump()
    for at in range(len(content)):
        for new in (b"0", b"1", b"x"):
            bad = content[:at] + new + content[at + 1 :]
            if content[at : at + 1] == new or content[at : at + 1].isspace():
                continue
            with pytest.raises(VaultDamaged):
                VaultHead.load(bad)


@pytest.mark.parametrize("length", [0, 1, 50, -2])
def test_a_cut_head_is_damage(length: int) -> None:
    with pytest.raises(VaultDamaged) as caught:
        VaultHead.load(HEAD.dump()[:length])
    assert "not made anew" in caught.value.remedy


@pytest.mark.parametrize(
    "content", [b"[]", b"3", b'"x"', b"\xff\xfe", b"{}", b"null", b"[" * 5000, b'{"digest": 1, "format": 1}']
)
def test_other_content_is_damage(content: bytes) -> None:
    with pytest.raises(VaultDamaged):
        VaultHead.load(content)


@pytest.mark.parametrize(
    "change",
    [
        lambda f: f["kdf"].update(name="scrypt"),
        lambda f: f["kdf"].update(memory_kib=2**40),
        lambda f: f["kdf"].update(salt="00"),
        lambda f: f["device"].update(mode="cloud"),
        lambda f: f["device"].update(mode="file"),
        lambda f: f["device"].update(item=None),
        lambda f: f["device"].update(check="zz"),
        lambda f: f.update(verifier=f["verifier"][2:]),
        lambda f: f.pop("verifier"),
    ],
)
def test_a_well_sealed_head_that_makes_no_sense_is_damage(change: Callable[[dict[str, Any]], object]) -> None:
    with pytest.raises(VaultDamaged):
        VaultHead.load(changed(change))


def test_a_changed_cost_without_its_digest_is_damage() -> None:
    with pytest.raises(VaultDamaged):
        VaultHead.load(changed(lambda f: f["kdf"].update(iterations=1), sealed=False))


def test_a_newer_format_says_so() -> None:
    with pytest.raises(VaultDamaged) as caught:
        VaultHead.load(changed(lambda f: f.update(format=2)))
    assert "format 2" in caught.value.message
    assert "newer" in caught.value.remedy
