"""Processes as `/proc` shows them: the edge below `provenance` (Linux; desktop facts are in its comments).

What a number names can change under the reader. Who calls holds a pidfd of the first process and looks at it once more
afterwards; every parent is confirmed here by its child, which still names it after the parent was read.
"""

from __future__ import annotations

import os
import sys
import sysconfig

from affidavit.broker.session import Process
from affidavit.ipc.provenance import MAX_CHAIN, FileId, Ours, Seen, closed, python_runs

_CMDLINE_BYTES = 4096
_STATUS_BYTES = 4096


class Gone(Exception):
    """The process has ended, or its number is not visible here."""


def read(pid: int, ours: Ours) -> Seen:
    """One process. Raises Gone."""
    parent, started, comm = _stat(pid)
    uid = _uid(pid)
    readable = True
    exe = cwd = None
    file: FileId | None = None
    try:
        exe = os.readlink(f"/proc/{pid}/exe")
        file = _file_id(f"/proc/{pid}/exe")
    except OSError:  # EACCES: another user's, or not dumpable. ENOENT: a zombie, or the kernel's own.
        readable = False
    try:
        cwd = os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        pass
    argv = _argv(pid)
    return Seen(
        Process(
            pid=pid,
            started=started,
            name=os.path.basename(exe).removesuffix(" (deleted)") if exe else comm,
            exe=exe,
            cwd=cwd,
            device=file[0] if file else None,
            inode=file[1] if file else None,
        ),
        parent=parent,
        uid=uid,
        argv=argv,
        readable=readable,
        script=_script(argv, cwd) if file in ours.interpreters else None,
    )


def tree(pid: int, *, uid: int, ours: Ours) -> dict[int, Seen]:
    """The process and what is above it, as far as a walk can go. Raises Gone where the process itself is."""
    at = read(pid, ours)
    found = {pid: at}
    while at.parent not in found and at.parent > 0 and len(found) < MAX_CHAIN:
        try:
            above = read(at.parent, ours)
            if _stat(at.process.pid)[0] != at.parent:  # it was adopted meanwhile: we read a stranger
                break
        except Gone:
            break
        found[at.parent] = at = above
        if closed(above, uid=uid, ours=ours):
            break
    return found


def started(pid: int) -> int:
    """Start time in clock ticks after boot. Raises Gone."""
    return _stat(pid)[1]


def boot_id() -> str:
    """Names this boot of the kernel: with a pid and a start time it names a process for ever."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def ours() -> Ours:
    """Our own programs: this interpreter with the console script that was installed beside it; in a packaged build,
    this program by itself."""
    this = _file_id("/proc/self/exe")
    if getattr(sys, "frozen", False):
        return Ours(programs=frozenset({this}))
    script = os.path.join(sysconfig.get_path("scripts"), "affidavit")
    scripts = frozenset({_file_id(script)}) if os.path.exists(script) else frozenset[FileId]()
    return Ours(interpreters=frozenset({this}), scripts=scripts)


def _stat(pid: int) -> tuple[int, int, str]:
    """Parent, start time and short name. The name may hold anything, a `)` included: fields are counted after the
    last one."""
    line = _bytes(pid, "stat", 1024)
    name, _, rest = line.rpartition(b")")
    fields = rest.split()
    return int(fields[1]), int(fields[19]), name.partition(b"(")[2].decode("utf-8", "replace")


def _uid(pid: int) -> int:
    """The user; where real and effective differ the other one than ours, so that it never passes for ours."""
    for line in _bytes(pid, "status", _STATUS_BYTES).splitlines():
        if line.startswith(b"Uid:"):
            real, effective = (int(word) for word in line.split()[1:3])
            return effective if real == os.geteuid() else real
    raise Gone


def _argv(pid: int) -> tuple[str, ...]:
    try:
        line = _bytes(pid, "cmdline", _CMDLINE_BYTES)
    except (Gone, PermissionError):
        return ()
    return tuple(word.decode("utf-8", "replace") for word in line.rstrip(b"\0").split(b"\0")) if line else ()


def _script(argv: tuple[str, ...], cwd: str | None) -> FileId | None:
    """The file that a Python command line runs, or None where it is none or cannot be found."""
    what = python_runs(argv)
    if what is None or what.module or cwd is None:
        return None
    try:
        return _file_id(os.path.join(cwd, what.name))
    except (OSError, ValueError):
        return None


def _file_id(path: str) -> FileId:
    found = os.stat(path)
    return found.st_dev, found.st_ino


def _bytes(pid: int, name: str, most: int) -> bytes:
    try:
        file = os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise Gone from None
    try:
        return os.read(file, most)
    except ProcessLookupError:
        raise Gone from None
    finally:
        os.close(file)
