"""A home: the places where one Affidavit keeps its files, who may read them, and which process owns them.

Interface, section 1. `AFFIDAVIT_HOME` names one directory for everything; otherwise the XDG base directories hold it.
Directories are 0700; a laxer one, one of another owner, or a data directory on a network file system is refused
before anything is opened, with the command that fixes it. Nothing here changes the mode of what it finds: a person
should know that a secret's file was open to others.

One process owns a home by `flock` on `data/lock`; the kernel lets it go with the process, however that ends.
"""

from __future__ import annotations

import errno
import fcntl
import os
import pwd
import shlex
import stat
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import TracebackType

SOCKET_PATH_MAX = 107 if sys.platform.startswith("linux") else 103
"""Bytes of a Unix socket's path: `sun_path` less its closing NUL (108 on Linux, 104 on BSD and macOS)."""

NETWORK_FILE_SYSTEMS = frozenset(
    {
        "9p",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "coda",
        "fuse.cephfs",
        "fuse.davfs",
        "fuse.glusterfs",
        "fuse.rclone",
        "fuse.s3fs",
        "fuse.smbnetfs",
        "fuse.sshfs",
        "glusterfs",
        "gpfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "ocfs2",
        "orangefs",
        "smb3",
        "smbfs",
        "virtiofs",
    }
)
"""File systems on which locks and the order of writes are another machine's promise. FUSE is named one by one: most of
its file systems are local."""

_MOUNTINFO = Path("/proc/self/mountinfo")


class HomeRefused(Exception):
    """A home cannot be used as it is. `code` is a lower-case word, `remedy` what to type or do.

    Codes: `lax`, `foreign_owner`, `not_a_directory`, `not_a_file`, `network_file_system`, `socket_path_too_long`,
    `not_writable`, `bad_environment`.
    """

    def __init__(self, code: str, message: str, remedy: str) -> None:
        super().__init__(f"{message} {remedy}")
        self.code = code
        self.message = message
        self.remedy = remedy


class HomeBusy(Exception):
    """Another process owns the home. `pid` and `program` are what it wrote; None where it has not written yet."""

    def __init__(self, pid: int | None, program: str | None) -> None:
        holder = f"{program} (pid {pid})" if pid is not None else "another process"
        super().__init__(f"This home is in use by {holder}.")
        self.pid = pid
        self.program = program


class HomeState(StrEnum):
    """What lies in a home's data directory."""

    ABSENT = "absent"
    """Neither vault nor journal: `affidavit init` comes first."""
    INITIALISED = "initialised"
    PARTIAL = "partial"
    """Some of the files are missing: an `init` that was cut short, or a loss. Nothing is made anew over it."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where everything lies. `named_by` is the variable that chose the home, or None for the XDG directories."""

    config: Path
    data: Path
    run: Path
    named_by: str | None = None

    @classmethod
    def at(cls, home: Path, *, named_by: str | None = None) -> Places:
        """All of a home below one directory."""
        return cls(config=home / "config", data=home / "data", run=home / "run", named_by=named_by)

    @classmethod
    def from_environment(cls, env: Mapping[str, str]) -> Places:
        """The home that `env` names: `AFFIDAVIT_HOME`, else the XDG base directories.

        XDG variables that are empty or relative count as unset, as the XDG specification says; a relative
        `AFFIDAVIT_HOME` is taken from the working directory. HomeRefused("bad_environment") for an empty one.
        """
        home = env.get("AFFIDAVIT_HOME")
        if home is not None:
            if not home or "\0" in home:
                raise HomeRefused("bad_environment", "AFFIDAVIT_HOME is empty.", "Unset it, or name a directory.")
            return cls.at(Path(os.path.abspath(home)), named_by="AFFIDAVIT_HOME")
        user = Path(env.get("HOME") or pwd.getpwuid(os.getuid()).pw_dir)

        def base(variable: str, default: Path) -> Path:
            given = env.get(variable, "")
            return Path(given) if os.path.isabs(given) else default

        state = base("XDG_STATE_HOME", user / ".local" / "state") / "affidavit"
        runtime = env.get("XDG_RUNTIME_DIR", "")
        return cls(
            config=base("XDG_CONFIG_HOME", user / ".config") / "affidavit",
            data=base("XDG_DATA_HOME", user / ".local" / "share") / "affidavit",
            run=Path(runtime) / "affidavit" if os.path.isabs(runtime) else state / "run",
        )

    @property
    def settings(self) -> Path:
        return self.config / "settings.toml"

    @property
    def contracts(self) -> Path:
        return self.config / "contracts"

    @property
    def vault(self) -> Path:
        return self.data / "vault.db"

    @property
    def vault_head(self) -> Path:
        """How the vault's key is made: parameters, never a secret."""
        return self.data / "vault.head"

    @property
    def device_key(self) -> Path:
        """The device secret, in homes that do without the OS keyring."""
        return self.data / "device.key"

    @property
    def journal(self) -> Path:
        return self.data / "journal.db"

    @property
    def results(self) -> Path:
        return self.data / "results"

    @property
    def lock(self) -> Path:
        return self.data / "lock"

    @property
    def agent_socket(self) -> Path:
        return self.run / "agent.sock"

    @property
    def operator_socket(self) -> Path:
        return self.run / "operator.sock"

    @property
    def state(self) -> HomeState:
        """What is there now, by the existence of the files alone."""
        there = [path.exists() for path in (self.vault_head, self.vault, self.journal)]
        if all(there):
            return HomeState.INITIALISED
        return HomeState.PARTIAL if any(there) else HomeState.ABSENT

    def prepare(self, *, file_system: Callable[[Path], str | None] | None = None) -> None:
        """Make the directories that are missing (0700) and refuse what is not private. Raises HomeRefused.

        Directories and everything directly inside `data` and `run` must give nothing to group and others. Files in
        `config` hold no secret and lie in a 0700 directory; there only the right to write is refused.
        `file_system` tells the type of the file system that holds a path, None where that cannot be known.
        """
        self.check_socket_paths()
        for directory in (self.config, self.contracts, self.data, self.results, self.run):
            _make_directory(directory)
            check_private(directory, directory=True)
        kind = (file_system or file_system_of)(self.data)
        if kind in NETWORK_FILE_SYSTEMS:
            raise HomeRefused(
                "network_file_system",
                f"{self.data} is on a network file system ({kind}). Locks and the order of writes are not certain "
                "there, so no record could be trusted.",
                "Use a local disk: set XDG_DATA_HOME or AFFIDAVIT_HOME to a directory on one.",
            )
        for path in _entries(self.data, self.run):
            check_private(path, directory=path == self.results)
        for path in _entries(self.config, self.contracts):
            if path != self.contracts:
                check_private(path, directory=path.is_dir(), shared_read=True)

    def check_run(self) -> None:
        """For clients: the run directory is ours and private, so the sockets in it are too. Raises HomeRefused."""
        check_private(self.run, directory=True)

    def check_socket_paths(self) -> None:
        """HomeRefused("socket_path_too_long") where the kernel would refuse to bind or connect."""
        for path in (self.agent_socket, self.operator_socket):
            length = len(os.fsencode(path))
            if length > SOCKET_PATH_MAX:
                raise HomeRefused(
                    "socket_path_too_long",
                    f"The socket path {path} has {length} bytes; the system allows {SOCKET_PATH_MAX}.",
                    "Set AFFIDAVIT_HOME or XDG_RUNTIME_DIR to a shorter path.",
                )


def check_private(path: Path, *, directory: bool, shared_read: bool = False, uid: int | None = None) -> None:
    """Refuse `path` unless it is ours and closed to others. A path that is not there passes, unless a directory.

    `shared_read` lets group and others read, not write. `uid` is whose it must be; ours if not given.
    """
    owner = os.geteuid() if uid is None else uid
    try:
        found = path.stat()
    except FileNotFoundError:
        if not directory:
            return
        raise HomeRefused("not_a_directory", f"{path} does not exist.", "Start the app, which makes it.") from None
    quoted = shlex.quote(str(path))
    if directory and not stat.S_ISDIR(found.st_mode):
        raise HomeRefused("not_a_directory", f"{path} is not a directory.", f"Move it away: mv {quoted} {quoted}.old")
    if not directory and stat.S_ISDIR(found.st_mode):
        raise HomeRefused("not_a_file", f"{path} is a directory.", f"Move it away: mv {quoted} {quoted}.old")
    if found.st_uid != owner:
        raise HomeRefused(
            "foreign_owner",
            f"{path} belongs to user {found.st_uid}, not to {owner}.",
            f"If its content is yours: sudo chown {owner} {quoted}",
        )
    lax = stat.S_IMODE(found.st_mode) & (0o022 if shared_read else 0o077)
    if lax:
        mode = "go-w" if shared_read else "700" if directory else "600"
        raise HomeRefused(
            "lax",
            f"{path} is open to other users (mode {stat.S_IMODE(found.st_mode):04o}).",
            f"chmod {mode} {quoted}",
        )


def file_system_of(path: Path, mountinfo: str | None = None) -> str | None:
    """The type of the file system that holds `path`, by proc(5) mountinfo; None where there is none to read.

    A type with a subtype is given as `fuse.sshfs`.
    """
    if mountinfo is None:
        try:
            mountinfo = _MOUNTINFO.read_text(errors="surrogateescape")
        except OSError:
            return None
    target = Path(os.path.realpath(path))
    best: tuple[int, str] | None = None
    for line in mountinfo.splitlines():
        fields, separator, rest = line.partition(" - ")
        columns = fields.split(" ")
        if not separator or len(columns) < 5:
            continue
        point = Path(_unescape(columns[4]))
        # A later line of the same point was mounted over the earlier one.
        if target.is_relative_to(point) and (best is None or len(point.parts) >= best[0]):
            best = (len(point.parts), rest.split(" ")[0])
    return best[1] if best else None


class HomeLock:
    """Ownership of one home, from `acquire` until `release` or the end of the process. Owned by one thread.

    The file is never removed: a lock file that comes and goes can be held twice.
    """

    def __init__(self, places: Places, *, program: str) -> None:
        self._path = places.lock
        self._program = program
        self._file: int | None = None

    def acquire(self) -> None:
        """Take the lock and write who holds it. HomeBusy if another process has it, HomeRefused("not_writable")."""
        if self._file is not None:
            raise RuntimeError("this lock is already held here")
        try:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self._unwritable("cannot be opened", error) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            program = " ".join(self._program.split())
            os.ftruncate(file, 0)
            os.pwrite(file, f"{os.getpid()} {program}\n".encode(errors="surrogateescape"), 0)
        except BlockingIOError:
            holder = _holder(os.pread(file, 4096, 0))
            os.close(file)
            raise HomeBusy(*holder) from None
        except OSError as error:
            os.close(file)
            raise self._unwritable("cannot be written", error) from error
        self._file = file

    def release(self) -> None:
        """Let the home go. Does nothing where it is not held."""
        if self._file is not None:
            os.ftruncate(self._file, 0)
            os.close(self._file)
            self._file = None

    def _unwritable(self, what: str, error: OSError) -> HomeRefused:
        return HomeRefused(
            "not_writable",
            f"{self._path} {what}: {os.strerror(error.errno or 0)}.",
            f"Make {shlex.quote(str(self._path.parent))} writable for you, or set AFFIDAVIT_HOME to another place.",
        )

    def __enter__(self) -> HomeLock:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def create_private(path: Path, content: bytes) -> None:
    """Make a new 0600 file with this content, whole or not at all, on the disk when this returns.

    FileExistsError where one is there. The caller holds the home's lock, so nobody else makes it meanwhile.
    """
    if path.exists() or path.is_symlink():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)  # from a creation that was cut short
    file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    made = new
    try:
        with os.fdopen(file, "wb") as opened:
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())
        made = new.rename(path)
        sync_directory(path.parent)
    except BaseException:
        made.unlink(missing_ok=True)
        raise


def sync_directory(directory: Path) -> None:
    """Make a new or renamed entry of `directory` durable."""
    file = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _make_directory(directory: Path) -> None:
    """Make `directory` and the parents that are missing, each 0700."""
    missing = [step for step in (directory, *directory.parents) if not step.exists()]
    for step in reversed(missing):
        try:
            step.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise HomeRefused(
                "not_writable",
                f"{step} cannot be made: {os.strerror(error.errno or 0)}.",
                f"Make {shlex.quote(str(step.parent))} writable for you, or set AFFIDAVIT_HOME to another place.",
            ) from error


def _entries(*directories: Path) -> list[Path]:
    return [entry for directory in directories for entry in sorted(directory.iterdir())]


def _holder(content: bytes) -> tuple[int | None, str | None]:
    pid, _, program = content.decode(errors="replace").strip().partition(" ")
    return (int(pid), program or "an unnamed program") if pid.isdecimal() else (None, None)


def _unescape(text: str) -> str:
    """Undo mountinfo's octal escapes of space, tab, newline and backslash."""
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text
