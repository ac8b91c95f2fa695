"""The device secret: this machine's half of the vault's key, 32 random bytes in the keyring or in a 0600 file."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from dataclasses import dataclass

from affidavit.broker.home import HomeRefused, Places, check_private, create_private, sync_directory
from affidavit.broker.secret import Secret
from affidavit.broker.vault.errors import DeviceSecretUnavailable, DeviceTrouble, VaultExists
from affidavit.broker.vault.head import DeviceMode
from affidavit.broker.vault.keyring_store import KeyringStore
from affidavit.broker.vault.keys import KEY_BYTES

GIVES_UP = {
    DeviceMode.KEYRING: (
        "The vault opens with your passphrase and a secret in your login keyring; neither alone opens it. "
        "Programs of your own session can read an open keyring, so against them the passphrase is what protects the "
        "vault. Without a backup of the keyring a copy of these files cannot be opened on another machine."
    ),
    DeviceMode.FILE: (
        "Without the login keyring this machine's half of the key is a file beside the vault (data/device.key, open to "
        "you alone). Whoever copies the whole directory, as from a backup or a stolen disk, has that half: your "
        "passphrase alone then protects the vault, and nothing protects the journal's outer layer, which shows ids, "
        "times and verdicts."
    ),
}
"""What each mode protects and gives up, for the person who chooses (architecture, Vault and keys)."""


@dataclass(frozen=True, slots=True)
class Device:
    """Where one vault's device secret lies. Its calls may block on the keyring, for a bounded time."""

    places: Places
    mode: DeviceMode
    item: str | None
    keyring: KeyringStore

    def create(self) -> Secret:
        """Make a new secret, keep it, and read it back; nothing is kept where one of these fails.

        VaultExists where the file is there already; DeviceSecretUnavailable; OSError where it cannot be written.
        """
        secret = Secret(bytearray(secrets.token_bytes(KEY_BYTES)))
        if self.mode is DeviceMode.FILE:
            self._create_file(secret)
        try:
            if self.mode is DeviceMode.KEYRING:
                secret.use(lambda lent: self.keyring.set(self._name, lent))
            with self.read() as kept:
                if kept.use(bytes) != secret.use(bytes):
                    raise DeviceSecretUnavailable(DeviceTrouble.FAILED, "it did not keep what it was given")
        except BaseException:
            self.discard()
            raise
        return secret

    def read(self) -> Secret:
        """The secret. DeviceSecretUnavailable with a reason."""
        value = self._read_file() if self.mode is DeviceMode.FILE else self.keyring.get(self._name)
        if value is None:
            raise DeviceSecretUnavailable(DeviceTrouble.MISSING)
        if len(value) != KEY_BYTES:
            raise DeviceSecretUnavailable(DeviceTrouble.MISMATCH)
        return Secret(value)

    def discard(self) -> None:
        """Remove what `create` made, for a vault that did not come to be. An unreachable keyring keeps its entry, a
        disk that refuses its file."""
        if self.mode is DeviceMode.FILE:
            with suppress(OSError):
                self.places.device_key.unlink(missing_ok=True)
                sync_directory(self.places.data)
        else:
            with suppress(DeviceSecretUnavailable):
                self.keyring.delete(self._name)

    @property
    def _name(self) -> str:
        return f"device {self.item}"

    def _create_file(self, secret: Secret) -> None:
        try:
            create_private(self.places.device_key, secret.use(lambda lent: lent.hex()).encode() + b"\n")
        except FileExistsError:
            raise VaultExists(
                f"{self.places.device_key} is there already; it may be the only key to a vault.",
                f"If you are sure that it is of no use, move {self.places.data} away and run affidavit init again.",
            ) from None

    def _read_file(self) -> bytearray | None:
        path = self.places.device_key
        try:
            check_private(path, directory=False)
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except (HomeRefused, OSError) as error:
            raise DeviceSecretUnavailable(DeviceTrouble.LAX) from error
        try:
            text = os.read(file, 4 * KEY_BYTES)
        finally:
            os.close(file)
        try:
            return bytearray.fromhex(text.decode("ascii").strip())
        except ValueError:
            raise DeviceSecretUnavailable(DeviceTrouble.MISMATCH) from None
