"""Both halves are needed, every key has its own purpose, and the derivation never changes under a vault."""

from itertools import combinations

import pytest

from affidavit.broker.secret import Secret
from affidavit.broker.vault.keys import KdfParams, device_check, device_keys, vault_keys

CHEAP = KdfParams(memory_kib=8, iterations=1, lanes=1)
SALT = bytes(range(16))


def device(fill: int = 7) -> Secret:
    return Secret(bytearray([fill] * 32))


def derived(passphrase: bytes, secret: Secret, salt: bytes = SALT, cost: KdfParams = CHEAP) -> tuple[bytes, bytes]:
    keys = vault_keys(bytearray(passphrase), secret, salt, cost)
    return keys.database.use(bytes), keys.verifier


def test_the_derivation_is_fixed_for_ever() -> None:
    """Vaults made by earlier versions open: these values were printed once and must not change."""
    database, verifier = derived(b"correct horse", device())
    keys = device_keys(device())
    assert database.hex() == "608d9e7e6f2f22d3f2815f601a41d3ab7cfd618f94f86b9f95ef5b35391061ba"
    assert verifier.hex() == "09cd3230c2e7485bcd8fc30241cdabb29a3665041095114149168dff0ec01c4a"
    assert keys.journal.use(bytes).hex() == "e3592a160b4e2025ef4fec506192cc7e6f03a98e4972e151e7a39cd8bc673557"
    assert keys.digests.use(bytes).hex() == "b890981deca3383c79ac9ad645ae296c21364aca9163820fd4bfbfccbe01e5a9"
    assert device_check(device()).hex() == "4960fe35c0623f7cdf63e85febb9ef02e7c2b9022b7dae73c229eb07a79df995"


def test_every_input_changes_every_output() -> None:
    results = [
        derived(b"correct horse", device()),
        derived(b"correct hors", device()),
        derived(b"correct horse", device(8)),
        derived(b"correct horse", device(), bytes(16)),
        derived(b"correct horse", device(), SALT, KdfParams(memory_kib=16, iterations=1, lanes=1)),
        derived(b"correct horse", device(), SALT, KdfParams(memory_kib=8, iterations=2, lanes=1)),
    ]
    for one, other in combinations(results, 2):
        assert one[0] != other[0]
        assert one[1] != other[1]


def test_keys_of_different_purposes_differ() -> None:
    database, verifier = derived(b"correct horse", device())
    keys = device_keys(device())
    values = [database, verifier, keys.journal.use(bytes), keys.digests.use(bytes), device_check(device())]
    assert len(set(values)) == len(values)
    assert all(len(value) == 32 for value in values)


def test_the_passphrase_is_left_for_its_owner_to_overwrite() -> None:
    passphrase = bytearray(b"correct horse")
    vault_keys(passphrase, device(), SALT, CHEAP)
    assert passphrase == b"correct horse"


def test_device_keys_are_wiped_together() -> None:
    keys = device_keys(device())
    keys.wipe()
    for key in (keys.journal, keys.digests):
        with pytest.raises(Exception, match="wiped"):
            key.use(bytes)


@pytest.mark.parametrize(
    ("memory", "iterations", "lanes"),
    [(7, 1, 1), (8, 0, 1), (8, 1, 0), (64, 1, 17), (4 * 1024 * 1024, 1, 1), (8, 65, 1), (15, 1, 2)],
)
def test_costs_out_of_bounds_are_refused(memory: int, iterations: int, lanes: int) -> None:
    with pytest.raises(ValueError, match="out of bounds"):
        KdfParams(memory, iterations, lanes)


def test_the_default_cost() -> None:
    assert KdfParams() == KdfParams(memory_kib=131_072, iterations=3, lanes=2)
