"""Keyring calls are bounded, made by one thread, and fail with a plain reason; a real one is tried too."""

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from keyring import errors

from affidavit.broker.vault import keyring_store
from affidavit.broker.vault.errors import DeviceSecretUnavailable, DeviceTrouble
from affidavit.broker.vault.keyring_store import BACKENDS, SERVICE, KeyringStore, system_backend

MemoryKeyring = Any


def trouble(store: KeyringStore) -> DeviceSecretUnavailable:
    with pytest.raises(DeviceSecretUnavailable) as caught:
        store.get("item")
    return caught.value


def test_keeps_gives_and_deletes(keyring: MemoryKeyring, store: KeyringStore) -> None:
    assert store.get("item") is None
    store.set("item", memoryview(b"\x00\xffsecret"))
    assert store.get("item") == bytearray(b"\x00\xffsecret")
    assert list(keyring.entries) == [(SERVICE, "item")]
    store.delete("item")
    assert store.get("item") is None


def test_a_blocking_keyring_is_waited_for_a_bounded_time_only(keyring: MemoryKeyring) -> None:
    store = KeyringStore(backend=lambda: keyring, wait_s=0.01)
    keyring.blocked = True
    assert trouble(store).reason is DeviceTrouble.BLOCKING
    # The worker still hangs in the first call: the second is given up before its turn and never made.
    assert trouble(store).reason is DeviceTrouble.BLOCKING
    keyring.blocked = False
    keyring.answer.set()
    patient = KeyringStore(backend=lambda: keyring, wait_s=30)
    patient._jobs = store._jobs
    patient._thread = store._thread
    assert patient.get("item") is None
    assert keyring.calls == ["get", "get"]


def test_one_daemon_thread_makes_all_calls(keyring: MemoryKeyring) -> None:
    seen: list[threading.Thread] = []

    def backend() -> Any:
        seen.append(threading.current_thread())
        return keyring

    store = KeyringStore(backend=backend)
    store.get("a")
    store.get("b")
    assert len(set(seen)) == 1
    assert (seen[0].name, seen[0].daemon) == ("affidavit-keyring", True)


def test_an_entry_that_is_not_ours_is_a_mismatch(keyring: MemoryKeyring, store: KeyringStore) -> None:
    keyring.entries[SERVICE, "item"] = "not hex"
    assert trouble(store).reason is DeviceTrouble.MISMATCH


class PromptDismissedException(Exception):
    """Named as the backend's own."""


def wrapped(outer: Exception, inner: Exception) -> Exception:
    outer.__cause__ = inner
    return outer


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ("NoKeyringError", DeviceTrouble.ABSENT),
        ("KeyringLocked", DeviceTrouble.LOCKED),
        ("InitError", DeviceTrouble.FAILED),
        ("PasswordSetError", DeviceTrouble.FAILED),
    ],
)
def test_errors_of_the_keyring_library(
    keyring: MemoryKeyring, store: KeyringStore, error: str, reason: DeviceTrouble
) -> None:
    keyring.fails = getattr(errors, error)("quotes 6162636465666768 what it was given")
    refused = trouble(store)
    assert refused.reason is reason
    assert "6162" not in str(refused)
    assert refused.__cause__ is None
    assert refused.__suppress_context__


def test_a_dismissed_prompt_is_seen_through_its_wrapping(keyring: MemoryKeyring, store: KeyringStore) -> None:
    keyring.fails = wrapped(errors.InitError("Failed to create"), PromptDismissedException())
    assert trouble(store).reason is DeviceTrouble.DISMISSED


def test_only_listed_backends_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(BACKENDS) == {"linux", "darwin", "win32"}
    monkeypatch.setattr(keyring_store.sys, "platform", "plan9")
    with pytest.raises(DeviceSecretUnavailable) as caught:
        system_backend()
    assert caught.value.reason is DeviceTrouble.ABSENT


PROGRAM = """
import sys
from affidavit.broker.vault.keyring_store import KeyringStore
from affidavit.broker.vault.errors import DeviceSecretUnavailable
assert "keyring" not in sys.modules
store = KeyringStore(wait_s=float(sys.argv[1]))
try:
    store.set("item", memoryview(b"planted"))
    print(bytes(store.get("item")), store.get("other"))
    store.delete("item")
    print(store.get("item"))
except DeviceSecretUnavailable as refused:
    print(refused.reason.value)
"""

NO_BUS = """\
<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>session</type><listen>unix:tmpdir=/tmp</listen>
<policy context="default">
<allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/>
</policy>
</busconfig>
"""


def environment(tmp_path: Path) -> dict[str, str]:
    """A user with nothing of his own and no display."""
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LC_ALL": "C.UTF-8"}
    for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"):
        directory = tmp_path / name.lower()
        directory.mkdir(mode=0o700, exist_ok=True)
        env[name] = str(directory)
    return env


def ran(tmp_path: Path, *command: str, **more: str) -> str:
    result = subprocess.run(
        ["timeout", "-k", "5", "60", *command],
        env={**environment(tmp_path), **more},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    return result.stdout.strip() or result.stderr[-2000:]


needs_dbus = pytest.mark.skipif(shutil.which("dbus-run-session") is None, reason="needs dbus-run-session")
needs_keyring = pytest.mark.skipif(shutil.which("gnome-keyring-daemon") is None, reason="needs gnome-keyring")


UNLOCKED = (
    "printf 'login password\\n' | timeout 20 gnome-keyring-daemon --unlock --components=secrets >/dev/null 2>&1;"
    ' exec "$0" -c "$1" 30'
)


@pytest.mark.e2e
@needs_dbus
@needs_keyring
def test_a_real_keyring_keeps_a_secret_and_says_when_it_is_locked(tmp_path: Path) -> None:
    answer = ran(tmp_path, "dbus-run-session", "--", "sh", "-c", UNLOCKED, sys.executable, PROGRAM)
    assert answer.splitlines() == ["b'planted' None", "None"]
    # The same user's next session: the bus starts the keyring by itself, locked, and there is no display for a prompt.
    answer = ran(tmp_path, "dbus-run-session", "--", sys.executable, "-c", PROGRAM, "30")
    assert answer == "locked"


WHOLE_VAULT = """
import os, sys
from pathlib import Path
from affidavit.broker.home import HomeLock, Places
from affidavit.broker.vault import DeviceSecretUnavailable, KdfParams, NewCredential, Vault
places = Places.from_environment(os.environ)
places.prepare(file_system=lambda _: None)
with HomeLock(places, program="test"):
    try:
        if not places.vault.exists():
            kdf = KdfParams(memory_kib=8, iterations=1, lanes=1)
            vault = Vault.create(places, bytearray(b"correct horse"), keyring=True, kdf=kdf)
            new = NewCredential("planted", "bearer", ("https://api.example.com/v1/x",))
            vault.credentials.add(new, bytearray(b"planted-secret"))
        else:
            vault = Vault(places)
            vault.unlock(bytearray(b"correct horse"))
        print([c.name for c in vault.credentials.list()], places.device_key.exists())
        vault.close()
    except DeviceSecretUnavailable as refused:
        print(refused.reason.value)
"""


@pytest.mark.e2e
@needs_dbus
@needs_keyring
def test_a_vault_lives_on_a_real_keyring_and_not_without_it(tmp_path: Path) -> None:
    """Three processes of one user, none with an event loop: made, opened, and refused where the keyring is locked."""
    for _ in range(2):
        answer = ran(tmp_path, "dbus-run-session", "--", "sh", "-c", UNLOCKED, sys.executable, WHOLE_VAULT)
        assert answer == "['planted'] False"
    assert ran(tmp_path, "dbus-run-session", "--", sys.executable, "-c", WHOLE_VAULT) == "locked"
    files = [path for path in (tmp_path / "xdg_data_home" / "affidavit").rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if b"planted" in path.read_bytes()]


@pytest.mark.e2e
@needs_dbus
@needs_keyring
def test_a_real_keyring_that_cannot_ask_for_its_first_password(tmp_path: Path) -> None:
    answer = ran(tmp_path, "dbus-run-session", "--", sys.executable, "-c", PROGRAM, "30")
    assert answer == "dismissed"


@pytest.mark.e2e
@needs_dbus
def test_a_bus_without_a_keyring(tmp_path: Path) -> None:
    config = tmp_path / "bus.conf"
    config.write_text(NO_BUS)
    answer = ran(tmp_path, "dbus-run-session", f"--config-file={config}", "--", sys.executable, "-c", PROGRAM, "30")
    assert answer == "absent"


@pytest.mark.e2e
def test_no_bus_at_all(tmp_path: Path) -> None:
    address = f"unix:path={tmp_path}/none"
    assert ran(tmp_path, sys.executable, "-c", PROGRAM, "30", DBUS_SESSION_BUS_ADDRESS=address) == "absent"


@pytest.mark.e2e
def test_a_configured_foreign_backend_is_not_loaded(tmp_path: Path) -> None:
    answer = ran(
        tmp_path,
        sys.executable,
        "-c",
        PROGRAM,
        "30",
        PYTHON_KEYRING_BACKEND="keyring.backends.null.Keyring",
        DBUS_SESSION_BUS_ADDRESS=f"unix:path={tmp_path}/none",
    )
    assert answer == "absent"


@pytest.mark.e2e
def test_a_blocked_keyring_does_not_keep_the_process_from_ending(tmp_path: Path) -> None:
    program = PROGRAM.replace(
        "store = KeyringStore(", "import threading\nstore = KeyringStore(backend=threading.Event().wait, "
    )
    assert ran(tmp_path, sys.executable, "-c", program, "0.05") == "blocking"
