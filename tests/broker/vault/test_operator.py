"""Adopted contracts and operator settings: all or nothing, and no text is ever forgotten."""

import pytest

from affidavit.broker.home import Places
from affidavit.broker.terms import Micros
from affidavit.broker.vault import Adopted, Adoption, Conflict, KdfParams, NotKnown, Vault

CHEAP = KdfParams(memory_kib=8, iterations=1, lanes=1)


class Ticks:
    """Wall time that moves by one at each look."""

    def __init__(self) -> None:
        self.at = 0

    def __call__(self) -> Micros:
        self.at += 1
        return Micros(self.at)


def one(number: int, contract_id: str = "a") -> Adoption:
    return Adoption(contract_id, f"sha256:{number:02d}", f"{contract_id}.toml", f"text {number}")


def in_force(vault: Vault) -> dict[str, str]:
    return {adopted.contract_id: adopted.digest for adopted in vault.operator.contracts()}


def test_adoption_keeps_text_file_and_time(places: Places) -> None:
    vault = Vault.create(places, bytearray(b"correct horse"), keyring=False, kdf=CHEAP, now=Ticks())
    vault.operator.adopt([one(2, "b"), one(1)])
    assert vault.operator.contracts() == (
        Adopted("a", "sha256:01", "a.toml", "text 1", Micros(2)),
        Adopted("b", "sha256:02", "b.toml", "text 2", Micros(2)),
    )
    vault.close()


def test_a_new_text_replaces_the_last_and_the_old_one_is_kept(vault: Vault) -> None:
    vault.operator.adopt([one(1)])
    vault.operator.adopt([one(2)])
    assert in_force(vault) == {"a": "sha256:02"}
    assert vault.operator.contract_text("sha256:01") == "text 1"
    assert vault.operator.contract_text("sha256:02") == "text 2"
    vault.operator.adopt([one(1)])
    assert in_force(vault) == {"a": "sha256:01"}


def test_all_or_none(vault: Vault) -> None:
    vault.operator.adopt([one(1)])
    with pytest.raises(Conflict):
        vault.operator.adopt([one(2), one(3, "c"), Adoption("a", "sha256:01", "a.toml", "another text")])
    assert in_force(vault) == {"a": "sha256:01"}
    for digest in ("sha256:02", "sha256:03"):
        with pytest.raises(NotKnown):
            vault.operator.contract_text(digest)


def test_one_digest_is_one_text_of_one_id(vault: Vault) -> None:
    vault.operator.adopt([one(1)])
    with pytest.raises(Conflict):
        vault.operator.adopt([one(1, "b")])


def test_settings(vault: Vault) -> None:
    assert vault.operator.setting("limit.body") is None
    assert vault.operator.set_setting("limit.body", "1") is None
    assert vault.operator.set_setting("limit.body", "2") == "1"
    vault.operator.set_setting("approvals", "off")
    assert vault.operator.setting("limit.body") == "2"
    assert vault.operator.settings() == {"approvals": "off", "limit.body": "2"}
    vault.lock()
    vault.unlock(bytearray(b"correct horse"))
    assert vault.operator.settings() == {"approvals": "off", "limit.body": "2"}
