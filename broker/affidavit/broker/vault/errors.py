"""The ways in which the vault refuses. None of them holds or hints at a secret.

`code` is a lower-case word, `message` a sentence for a person, `remedy` the next step, `field` the input to correct
where there is one.
"""

from __future__ import annotations

from enum import StrEnum


class VaultError(Exception):
    """Common shape of what the vault refuses."""

    code = "vault"

    def __init__(self, message: str, remedy: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.field = field


class WrongPassphrase(VaultError):
    """The device secret is the right one and the passphrase is not."""

    code = "wrong_passphrase"

    def __init__(self) -> None:
        super().__init__("That is not this vault's passphrase.", "Try again.")


class VaultLocked(VaultError):
    """The call needs an open vault."""

    code = "locked"

    def __init__(self) -> None:
        super().__init__("The vault is locked.", "Unlock it: affidavit unlock")


class VaultAbsent(VaultError):
    """There is no vault, or a part of it is gone. Nothing is made anew in its place."""

    code = "absent"


class VaultExists(VaultError):
    """A vault, or a part of one, lies where a new one should be made. It is left as it is."""

    code = "exists"


class VaultDamaged(VaultError):
    """A file of the vault is not what was written. Nothing is overwritten."""

    code = "damaged"


class VaultUnavailable(VaultError):
    """The system refused: rights, a full disk, a database in use."""

    code = "unavailable"


class Invalid(VaultError):
    """What the operator gave does not fit a rule; `field` names it."""

    code = "invalid"


class Conflict(VaultError):
    """The name is taken."""

    code = "conflict"


class NotKnown(VaultError):
    """No such credential, version or text in this vault."""

    code = "not_known"


class DeviceTrouble(StrEnum):
    """Why the device secret is not to be had."""

    ABSENT = "absent"
    """No keyring service on this session."""
    LOCKED = "locked"
    """The keyring stayed locked: its prompt was dismissed, or there was nowhere to show one."""
    DISMISSED = "dismissed"
    """The prompt for a keyring's first password was dismissed, or there was nowhere to show it."""
    BLOCKING = "blocking"
    """The keyring did not answer in time; most often its prompt waits for the person."""
    MISSING = "missing"
    """The keyring, or the file, is there; this vault's secret is not in it."""
    MISMATCH = "mismatch"
    """A secret is there and is not the one that this vault was made with."""
    LAX = "lax"
    """The file with the secret is open to others, or not ours."""
    FAILED = "failed"
    """The keyring answered with another error."""


_DEVICE_TEXTS: dict[DeviceTrouble, tuple[str, str]] = {
    DeviceTrouble.ABSENT: (
        "No login keyring answers on this session.",
        "Start one (gnome-keyring, KWallet with Secret Service, KeePassXC), or choose the mode without it when the "
        "vault is made: AFFIDAVIT_KEYRING=off affidavit init",
    ),
    DeviceTrouble.LOCKED: ("The login keyring is locked.", "Unlock it, then try again."),
    DeviceTrouble.DISMISSED: (
        "The login keyring's prompt was dismissed, or there was nowhere to show it.",
        "Try again on your desktop and answer the prompt.",
    ),
    DeviceTrouble.BLOCKING: (
        "The login keyring has not answered yet. It may be waiting for you in a prompt.",
        "Answer its prompt, then try again.",
    ),
    DeviceTrouble.MISSING: (
        "The device secret of this vault is gone. The passphrase alone does not open it.",
        "Restore the login keyring (or data/device.key) of this machine from a backup.",
    ),
    DeviceTrouble.MISMATCH: (
        "The device secret found is not the one that this vault was made with.",
        "Restore the login keyring (or data/device.key) that belongs to this vault.",
    ),
    DeviceTrouble.LAX: ("The device secret's file is open to others.", "chmod 600 data/device.key, and own it."),
    DeviceTrouble.FAILED: ("The login keyring failed.", "See what the keyring's own log says, then try again."),
}


class DeviceSecretUnavailable(VaultError):
    """The half of the key that this machine keeps is not to be had; `reason` says why."""

    code = "keyring"

    def __init__(self, reason: DeviceTrouble, detail: str = "") -> None:
        message, remedy = _DEVICE_TEXTS[reason]
        super().__init__(f"{message} ({detail})" if detail else message, remedy)
        self.reason = reason
