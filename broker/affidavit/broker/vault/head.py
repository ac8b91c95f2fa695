"""The vault's head: the clear file beside it that says how its key is made. It holds no secret.

    {"format": 1, "created_at": 1700000000000000,
     "kdf": {"name": "argon2id", "memory_kib": 131072, "iterations": 3, "lanes": 2, "salt": "<hex>"},
     "device": {"mode": "keyring", "item": "<16 hex>", "check": "<hex>"},
     "verifier": "<hex>", "digest": "sha256:<hex of the canonical JSON of all the rest>"}

The digest tells damage from a wrong passphrase. It is no seal: who can write the file can make the vault unopenable,
as by deleting it, and gains nothing else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import rfc8785

from affidavit.broker.terms import Micros
from affidavit.broker.vault.errors import VaultDamaged
from affidavit.broker.vault.keys import KEY_BYTES, SALT_BYTES, KdfParams

FORMAT = 1
SIZE_MAX = 16 * 1024


class DeviceMode(StrEnum):
    """Where this machine's half of the key lies."""

    KEYRING = "keyring"
    FILE = "file"


@dataclass(frozen=True, slots=True)
class VaultHead:
    """One head. `item` names the keyring's entry in mode KEYRING, else it is None."""

    created_at: Micros
    cost: KdfParams
    salt: bytes
    mode: DeviceMode
    item: str | None
    device_check: bytes
    verifier: bytes

    def dump(self) -> bytes:
        """The file's content."""
        fields: dict[str, Any] = {
            "format": FORMAT,
            "created_at": self.created_at,
            "kdf": {
                "name": "argon2id",
                "memory_kib": self.cost.memory_kib,
                "iterations": self.cost.iterations,
                "lanes": self.cost.lanes,
                "salt": self.salt.hex(),
            },
            "device": {"mode": self.mode.value, "item": self.item, "check": self.device_check.hex()},
            "verifier": self.verifier.hex(),
        }
        return (json.dumps({**fields, "digest": _digest(fields)}, indent=1) + "\n").encode()

    @classmethod
    def load(cls, content: bytes) -> VaultHead:
        """The inverse of `dump`. VaultDamaged for anything that `dump` did not write."""
        try:
            fields = json.loads(content[: SIZE_MAX + 1])
            digest = fields.pop("digest")
            if fields["format"] != FORMAT:
                raise VaultDamaged(
                    f"The vault's head has format {fields['format']!r:.20}; this program reads {FORMAT}.",
                    "Use the version of Affidavit that made this vault, or a newer one.",
                )
            if digest != _digest(fields):
                raise ValueError("digest")
            return cls._from(fields)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise VaultDamaged(
                "The vault's head (data/vault.head) is damaged.", "Restore it from a backup; it is not made anew."
            ) from error

    @classmethod
    def read(cls, path: Path) -> VaultHead:
        """`load` of a file; FileNotFoundError if there is none."""
        with path.open("rb") as opened:
            return cls.load(opened.read(SIZE_MAX + 1))

    @classmethod
    def _from(cls, fields: Mapping[str, Any]) -> VaultHead:
        kdf, device = fields["kdf"], fields["device"]
        mode = DeviceMode(device["mode"])
        item = device["item"]
        if kdf["name"] != "argon2id" or isinstance(item, str) != (mode is DeviceMode.KEYRING):
            raise ValueError("kdf or device")
        return cls(
            created_at=Micros(int(fields["created_at"])),
            cost=KdfParams(int(kdf["memory_kib"]), int(kdf["iterations"]), int(kdf["lanes"])),
            salt=_bytes(kdf["salt"], SALT_BYTES),
            mode=mode,
            item=item,
            device_check=_bytes(device["check"], KEY_BYTES),
            verifier=_bytes(fields["verifier"], KEY_BYTES),
        )


def _digest(fields: Mapping[str, Any]) -> str:
    return "sha256:" + hashlib.sha256(rfc8785.dumps(dict(fields))).hexdigest()


def _bytes(text: str, length: int) -> bytes:
    value = bytes.fromhex(text)
    if len(value) != length:
        raise ValueError("length")
    return value
