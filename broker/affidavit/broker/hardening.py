"""What a process that holds secrets asks of the kernel before it holds one.

Called once, first thing, by the programs that open a vault; never on import. `exec` resets the first of these, so each
such program calls it for itself. Root is not kept out by any of it.
"""

from __future__ import annotations

import ctypes
import os
import resource
import sys

_PR_SET_DUMPABLE = 4
_PR_SET_NO_NEW_PRIVS = 38


def harden() -> None:
    """Close this process to the user's other processes; OSError where the kernel refuses.

    Not dumpable: no ptrace, and `/proc/PID/{mem,environ,maps}` only for root. No core file. No new privileges: nothing
    that this process starts can gain any by a set-uid file. Elsewhere than on Linux only core files are turned off.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform.startswith("linux"):
        _prctl(_PR_SET_DUMPABLE, 0)
        _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"prctl {option}: {os.strerror(number)}")
