"""The device secret's file: private, exact, never overwritten."""

import pytest

from affidavit.broker.home import Places
from affidavit.broker.vault.device import GIVES_UP, Device
from affidavit.broker.vault.errors import DeviceSecretUnavailable, DeviceTrouble, VaultExists
from affidavit.broker.vault.head import DeviceMode
from affidavit.broker.vault.keyring_store import KeyringStore


@pytest.fixture
def file(places: Places, store: KeyringStore) -> Device:
    return Device(places, DeviceMode.FILE, None, store)


def reason(device: Device) -> DeviceTrouble:
    with pytest.raises(DeviceSecretUnavailable) as caught:
        device.read()
    return caught.value.reason


def test_a_file_keeps_what_it_made(file: Device, places: Places) -> None:
    secret = file.create()
    assert file.read().use(bytes) == secret.use(bytes)
    assert places.device_key.read_text() == secret.use(bytes).hex() + "\n"
    with pytest.raises(VaultExists):
        file.create()
    assert file.read().use(bytes) == secret.use(bytes)
    file.discard()
    assert reason(file) is DeviceTrouble.MISSING


def test_two_secrets_differ(places: Places, store: KeyringStore) -> None:
    made = [Device(places, DeviceMode.KEYRING, item, store).create().use(bytes) for item in ("a", "b")]
    assert made[0] != made[1]
    assert all(len(value) == 32 for value in made)


@pytest.mark.parametrize("content", [b"", b"zz", b"00" * 31, b"00" * 33, b"\xff" * 64, b"00" * 40000])
def test_another_content_is_a_mismatch(file: Device, places: Places, content: bytes) -> None:
    places.device_key.touch(mode=0o600)
    places.device_key.write_bytes(content)
    assert reason(file) is DeviceTrouble.MISMATCH


def test_a_lax_file_and_a_directory_are_refused(file: Device, places: Places) -> None:
    file.create()
    places.device_key.chmod(0o640)
    assert reason(file) is DeviceTrouble.LAX
    places.device_key.unlink()
    places.device_key.mkdir(mode=0o700)
    assert reason(file) is DeviceTrouble.LAX


def test_each_mode_says_what_it_gives_up() -> None:
    assert set(GIVES_UP) == set(DeviceMode)
    assert "data/device.key" in GIVES_UP[DeviceMode.FILE]


def test_every_trouble_has_words() -> None:
    for trouble in DeviceTrouble:
        error = DeviceSecretUnavailable(trouble)
        assert error.message.endswith(".")
        assert error.remedy
