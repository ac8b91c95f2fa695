"""Who holds the other end of a socket, by the kernel (R72): resolved once, when the connection is accepted.

The order closes the reuse of process numbers: take a pidfd of the process that connected, read `/proc`, then see that
the pidfd still names a living process. Program files are not hashed here.
"""

from __future__ import annotations

import os
import select
import socket
import struct

from affidavit.broker.session import Provenance
from affidavit.ipc import proc
from affidavit.ipc.provenance import Ours, walk

_SO_PEERPIDFD = 77
"""Linux 6.5; Python 3.11 has no name for it."""


class PeerRefused(Exception):
    """This peer gets no connection; the message tells it why."""


class Peer:
    """One connection's peer: its provenance, and pidfds of the process that connected and of its session's process.

    Owns both descriptors until `close`.
    """

    def __init__(self, provenance: Provenance, pidfd: int, session_pidfd: int) -> None:
        self.provenance = provenance
        self.session_pidfd = session_pidfd
        self._pidfd = pidfd

    @property
    def alive(self) -> bool:
        """The process that connected lives. One that inherited its socket is not the one that was identified."""
        return alive(self._pidfd)

    @property
    def program(self) -> str:
        """The program that asks, for a record and a warning: its file, or its short name where that is hidden."""
        process = self.provenance.process
        return process.exe or process.name

    def close(self) -> None:
        for pidfd in (self._pidfd, self.session_pidfd):
            if pidfd >= 0:
                os.close(pidfd)
        self._pidfd = self.session_pidfd = -1


def identify(sock: socket.socket, ours: Ours) -> Peer:
    """The peer of an accepted connection. Raises PeerRefused."""
    pid, uid, _ = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    if uid != os.geteuid():
        raise PeerRefused("You are another user than the one whose broker this is.")
    if pid <= 0:
        raise PeerRefused("Your process is not visible from here: it runs in another PID namespace.")
    pidfd = session_pidfd = -1
    try:
        pidfd = _pidfd_of(sock, pid)
        provenance = walk(proc.tree(pid, uid=uid, ours=ours), pid, uid=uid, ours=ours)
        of = provenance.process
        session_pidfd = os.pidfd_open(of.pid)
        if proc.started(of.pid) != of.started or not alive(pidfd):
            raise ProcessLookupError
        return Peer(provenance, pidfd, session_pidfd)
    except BaseException as error:
        for taken in (pidfd, session_pidfd):
            if taken >= 0:
                os.close(taken)
        if isinstance(error, ProcessLookupError | proc.Gone):
            raise PeerRefused("Your process ended before it could be identified.") from None
        raise


def alive(pidfd: int) -> bool:
    """Whether the process of this pidfd still runs: a pidfd becomes readable when it ends."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return not poll.poll(0)


def _pidfd_of(sock: socket.socket, pid: int) -> int:
    """A pidfd of the very process that connected; on kernels before 6.5 of the one that has its number now."""
    try:
        return sock.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)
    except ProcessLookupError:
        raise
    except OSError:
        return os.pidfd_open(pid)
