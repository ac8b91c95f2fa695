"""How the keys are made. Pure functions over secrets; nothing is kept.

    passphrase --Argon2id(salt)--> 32 bytes --+
                                              +--HKDF(salt)--> vault.db key, verifier
    device secret (32 random bytes) ----------+
                  |
                  +--HKDF--> journal.db key, digest key, device check

The passphrase alone opens nothing, the device secret alone opens the journal's outer layer and not the vault. Each key
has a label of its own, so none says anything of another. The verifiers are stored in clear: they tell a wrong
passphrase from a damaged file, and tell a guesser no more than the vault file itself would.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from affidavit.broker.secret import Secret, overwrite

KEY_BYTES = 32
SALT_BYTES = 16

_VAULT = b"affidavit 1 vault database"
_VERIFIER = b"affidavit 1 vault verifier"
_JOURNAL = b"affidavit 1 journal database"
_DIGESTS = b"affidavit 1 journal digests"
_DEVICE_CHECK = b"affidavit 1 device check"


@dataclass(frozen=True, slots=True)
class KdfParams:
    """Cost of Argon2id (RFC 9106); about 0.4 s as it stands. The RFC's choice for little memory is 64 MiB, 3 passes and
    4 lanes, which is also Bitwarden's; age spends 256 MiB of scrypt. A head with a cost out of bounds is refused before
    any of it is paid.
    """

    memory_kib: int = 128 * 1024
    iterations: int = 3
    lanes: int = 2

    def __post_init__(self) -> None:
        if not (
            1 <= self.lanes <= 16
            and 1 <= self.iterations <= 64
            and 8 * self.lanes <= self.memory_kib <= 2 * 1024 * 1024
        ):
            raise ValueError("the cost of the key derivation is out of bounds")


@dataclass(frozen=True, slots=True)
class DeviceKeys:
    """Keys that need no passphrase, for what goes on while the vault is locked; 32 bytes each. The owner wipes them."""

    journal: Secret
    """Opens journal.db (SQLCipher raw key)."""
    digests: Secret
    """HMAC key of the digests that stand in the journal's clear columns."""

    def wipe(self) -> None:
        self.journal.wipe()
        self.digests.wipe()


@dataclass(frozen=True, slots=True)
class VaultKeys:
    """What passphrase and device secret give together."""

    database: Secret
    """Opens vault.db (SQLCipher raw key)."""
    verifier: bytes = field(repr=False)
    """Stored in the head: who derives the same has both halves."""


def vault_keys(passphrase: bytearray, device: Secret, salt: bytes, cost: KdfParams) -> VaultKeys:
    """Derive; takes `cost`. Safe in any thread, and other threads run meanwhile. `passphrase` is left as it is."""
    stretched = bytearray(KEY_BYTES)
    Argon2id(
        salt=salt, length=KEY_BYTES, iterations=cost.iterations, lanes=cost.lanes, memory_cost=cost.memory_kib
    ).derive_into(passphrase, stretched)  # type: ignore[arg-type]  # it takes any buffer; its stub says bytes
    both = bytearray(2 * KEY_BYTES)
    both[:KEY_BYTES] = stretched
    overwrite(stretched)
    with Secret(both) as root:
        device.use(lambda secret: both.__setitem__(slice(KEY_BYTES, None), secret))
        return VaultKeys(database=_expand(root, _VAULT, salt), verifier=_public(root, _VERIFIER, salt))


def device_keys(device: Secret) -> DeviceKeys:
    """The keys that the device secret gives alone."""
    return DeviceKeys(journal=_expand(device, _JOURNAL), digests=_expand(device, _DIGESTS))


def device_check(device: Secret) -> bytes:
    """Stored in the head, to tell another machine's device secret from the right one."""
    return _public(device, _DEVICE_CHECK)


def _expand(material: Secret, label: bytes, salt: bytes | None = None) -> Secret:
    """HKDF-SHA256 (RFC 5869) of `material` for one purpose."""
    key = bytearray(KEY_BYTES)
    material.use(lambda lent: HKDF(SHA256(), KEY_BYTES, salt=salt, info=label).derive_into(lent, key))
    return Secret(key)


def _public(material: Secret, label: bytes, salt: bytes | None = None) -> bytes:
    with _expand(material, label, salt) as value:
        return value.use(bytes)
