"""A home is private, local, and owned by one process; what is not is refused with the command that fixes it."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from affidavit.broker import home as home_module
from affidavit.broker.home import (
    SOCKET_PATH_MAX,
    HomeBusy,
    HomeLock,
    HomeRefused,
    HomeState,
    Places,
    check_private,
    create_private,
    file_system_of,
)


def local(_: Path) -> str:
    return "ext4"


@pytest.fixture
def places(tmp_path: Path) -> Places:
    found = Places.at(tmp_path / "home")
    found.prepare(file_system=local)
    return found


def refusal(call: Callable[[], object]) -> HomeRefused:
    with pytest.raises(HomeRefused) as caught:
        call()
    assert caught.value.message
    assert caught.value.remedy
    return caught.value


def test_one_variable_names_the_whole_home(tmp_path: Path) -> None:
    places = Places.from_environment({"AFFIDAVIT_HOME": str(tmp_path), "XDG_DATA_HOME": "/elsewhere"})
    assert (places.config, places.data, places.run) == (tmp_path / "config", tmp_path / "data", tmp_path / "run")
    assert places.named_by == "AFFIDAVIT_HOME"
    assert places.settings == tmp_path / "config/settings.toml"
    assert places.contracts == tmp_path / "config/contracts"
    assert [p.name for p in (places.vault, places.vault_head, places.device_key, places.journal, places.results)] == [
        "vault.db",
        "vault.head",
        "device.key",
        "journal.db",
        "results",
    ]
    assert places.lock == tmp_path / "data/lock"
    assert places.agent_socket == tmp_path / "run/agent.sock"
    assert places.operator_socket == tmp_path / "run/operator.sock"


def test_a_relative_home_is_taken_from_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Places.from_environment({"AFFIDAVIT_HOME": "here"}).data == tmp_path / "here/data"


def test_an_empty_home_is_refused() -> None:
    assert refusal(lambda: Places.from_environment({"AFFIDAVIT_HOME": ""})).code == "bad_environment"


def test_xdg_directories() -> None:
    env = {"HOME": "/home/u", "XDG_CONFIG_HOME": "/c", "XDG_DATA_HOME": "/d", "XDG_RUNTIME_DIR": "/run/user/7"}
    places = Places.from_environment(env)
    assert (places.config, places.data, places.run) == (
        Path("/c/affidavit"),
        Path("/d/affidavit"),
        Path("/run/user/7/affidavit"),
    )
    assert places.named_by is None


def test_xdg_defaults_and_relative_values_count_as_unset() -> None:
    places = Places.from_environment({"HOME": "/home/u", "XDG_DATA_HOME": "relative", "XDG_RUNTIME_DIR": ""})
    assert places.config == Path("/home/u/.config/affidavit")
    assert places.data == Path("/home/u/.local/share/affidavit")
    assert places.run == Path("/home/u/.local/state/affidavit/run")


def test_without_home_the_user_database_is_asked() -> None:
    assert Places.from_environment({}).config.is_absolute()


def test_prepare_makes_private_directories(places: Places) -> None:
    for directory in (places.config, places.contracts, places.data, places.results, places.run, places.data.parent):
        assert directory.stat().st_mode & 0o777 == 0o700
    places.prepare(file_system=local)


@pytest.mark.parametrize("name", ["config", "data", "run", "results", "contracts"])
def test_a_lax_directory_is_refused_with_the_fix(places: Places, name: str) -> None:
    directory: Path = getattr(places, name)
    directory.chmod(0o750)
    refused = refusal(lambda: places.prepare(file_system=local))
    assert (refused.code, refused.remedy) == ("lax", f"chmod 700 {directory}")
    assert directory.stat().st_mode & 0o777 == 0o750
    subprocess.run(refused.remedy, shell=True, check=True)
    places.prepare(file_system=local)


@pytest.mark.parametrize("name", ["vault", "vault_head", "device_key", "journal", "lock", "agent_socket"])
@pytest.mark.parametrize("mode", [0o604, 0o640, 0o620])
def test_a_lax_file_is_refused_with_the_fix(places: Places, name: str, mode: int) -> None:
    path: Path = getattr(places, name)
    path.touch(mode=0o600)
    places.prepare(file_system=local)
    path.chmod(mode)
    refused = refusal(lambda: places.prepare(file_system=local))
    assert (refused.code, refused.remedy) == ("lax", f"chmod 600 {path}")


def test_a_config_file_may_be_read_by_others_and_not_written(places: Places) -> None:
    for path in (places.settings, places.contracts / "one.toml"):
        path.touch()
        path.chmod(0o644)
        places.prepare(file_system=local)
        path.chmod(0o664)
        refused = refusal(lambda: places.prepare(file_system=local))
        assert (refused.code, refused.remedy) == ("lax", f"chmod go-w {path}")
        path.chmod(0o600)


def test_the_fix_is_quoted_for_the_shell(tmp_path: Path) -> None:
    places = Places.at(tmp_path / "a home; rm")
    places.prepare(file_system=local)
    places.data.chmod(0o755)
    subprocess.run(refusal(lambda: places.prepare(file_system=local)).remedy, shell=True, check=True)
    assert places.data.stat().st_mode & 0o777 == 0o700


def test_another_owner_is_refused(places: Places) -> None:
    refused = refusal(lambda: check_private(places.data, directory=True, uid=os.geteuid() + 1))
    assert refused.code == "foreign_owner"
    assert str(os.geteuid()) in refused.message


def test_a_file_in_place_of_a_directory_and_the_reverse(places: Places) -> None:
    places.results.rmdir()
    places.results.touch(mode=0o600)
    assert refusal(lambda: places.prepare(file_system=local)).code == "not_a_directory"
    places.results.unlink()
    places.vault.mkdir(mode=0o700)
    assert refusal(lambda: places.prepare(file_system=local)).code == "not_a_file"


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "home").touch()
    assert refusal(lambda: Places.at(tmp_path / "home").prepare(file_system=local)).code == "not_writable"


def test_clients_refuse_a_missing_or_lax_run_directory(places: Places) -> None:
    places.check_run()
    places.run.chmod(0o711)
    assert refusal(places.check_run).code == "lax"
    places.run.rmdir()
    assert refusal(places.check_run).code == "not_a_directory"


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs"])
def test_a_network_file_system_is_refused(places: Places, kind: str) -> None:
    refused = refusal(lambda: places.prepare(file_system=lambda _: kind))
    assert refused.code == "network_file_system"
    assert kind in refused.message


def test_an_unknown_file_system_passes(places: Places) -> None:
    places.prepare(file_system=lambda _: None)


MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:40 / /home rw - nfs4 server:/home rw,vers=4.2
31 30 0:41 / /home/u/with\\040space rw - fuse.sshfs u@h: rw
32 22 0:42 / /mnt rw - tmpfs tmpfs rw
33 22 0:43 / /mnt rw - cifs //server/share rw
broken line
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/x", "ext4"),
        ("/home/u", "nfs4"),
        ("/home/u/with space/data", "fuse.sshfs"),
        ("/homeless", "ext4"),
        ("/mnt/data", "cifs"),
    ],
)
def test_the_file_system_is_read_from_mountinfo(path: str, kind: str) -> None:
    assert file_system_of(Path(path), MOUNTS) == kind


def test_mountinfo_of_this_machine_and_of_none(tmp_path: Path) -> None:
    assert file_system_of(tmp_path)
    assert file_system_of(tmp_path, "") is None


def test_a_socket_path_as_long_as_the_system_allows_binds_and_one_more_byte_is_refused(tmp_path: Path) -> None:
    tail = len("/run/operator.sock")
    room = SOCKET_PATH_MAX - len(os.fsencode(tmp_path)) - tail - 1
    longest = Places.at(tmp_path / ("x" * room))
    longest.prepare(file_system=local)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(longest.operator_socket))
    refused = refusal(lambda: Places.at(tmp_path / ("x" * (room + 1))).prepare(file_system=local))
    assert refused.code == "socket_path_too_long"
    assert not (tmp_path / ("x" * (room + 1))).exists()


def test_state_follows_the_files(places: Places) -> None:
    assert places.state is HomeState.ABSENT
    places.vault.touch()
    assert places.state is HomeState.PARTIAL
    places.vault_head.touch()
    places.journal.touch()
    assert places.state is HomeState.INITIALISED


def test_a_lock_that_cannot_be_opened_is_a_home_that_cannot_be_used(places: Places) -> None:
    places.lock.mkdir()
    refused = refusal(HomeLock(places, program="affidavit serve").acquire)
    assert refused.code == "not_writable"
    assert str(places.lock) in refused.message


def test_a_second_lock_names_the_holder(places: Places) -> None:
    with HomeLock(places, program="affidavit\nserve"):
        assert places.lock.read_text() == f"{os.getpid()} affidavit serve\n"
        assert places.lock.stat().st_mode & 0o777 == 0o600
        with pytest.raises(HomeBusy) as caught:
            HomeLock(places, program="affidavit tray").acquire()
        assert (caught.value.pid, caught.value.program) == (os.getpid(), "affidavit serve")
        assert f"affidavit serve (pid {os.getpid()})" in str(caught.value)
    with HomeLock(places, program="affidavit tray"):
        assert "tray" in places.lock.read_text()


def test_a_lock_is_taken_once_and_released_as_often_as_one_likes(places: Places) -> None:
    lock = HomeLock(places, program="x")
    lock.acquire()
    with pytest.raises(RuntimeError):
        lock.acquire()
    lock.release()
    lock.release()
    assert places.lock.read_text() == ""


def test_a_holder_that_has_not_written_yet(places: Places) -> None:
    with HomeLock(places, program="x"):
        places.lock.write_text("")
        with pytest.raises(HomeBusy) as caught:
            HomeLock(places, program="y").acquire()
        assert caught.value.pid is None
        assert "another process" in str(caught.value)


@pytest.mark.e2e
def test_the_kernel_frees_the_lock_of_a_killed_process(places: Places) -> None:
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys; from pathlib import Path; from affidavit.broker.home import HomeLock, Places\n"
            "HomeLock(Places.at(Path(sys.argv[1])), program='holder').acquire(); print('held', flush=True)\n"
            "sys.stdin.read()",
            str(places.data.parent),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(HomeBusy) as caught:
            HomeLock(places, program="y").acquire()
        assert (caught.value.pid, caught.value.program) == (holder.pid, "holder")
        holder.kill()
        holder.wait()
    HomeLock(places, program="y").acquire()


def test_create_private_is_whole_or_not_at_all(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    path = places.data / "file"
    create_private(path, b"content")
    assert path.read_bytes() == b"content"
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        create_private(path, b"other")
    assert path.read_bytes() == b"content"
    other = places.data / "other"
    (places.data / "other.new").write_text("left by a crash")

    def full(_: int) -> None:
        raise OSError(28, "full")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="full"):
        create_private(other, b"content")
    assert sorted(p.name for p in places.data.iterdir()) == ["file", "results"]


def test_create_private_leaves_nothing_that_may_not_last(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(_: Path) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(home_module, "sync_directory", failing)
    with pytest.raises(OSError, match="Input"):
        create_private(places.data / "file", b"content")
    assert [p.name for p in places.data.iterdir()] == ["results"]
