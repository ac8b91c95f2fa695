"""Who asks: what the kernel says of a caller, resolved once at accept and handed on as one frozen value (R72).

`ipc` builds these values; the broker only reads them. Nothing here is what a caller says of itself, save `claim`.
"""

from __future__ import annotations

from dataclasses import dataclass

from affidavit.broker.terms import SessionId


@dataclass(frozen=True, slots=True)
class Process:
    """One process as the kernel shows it; a part that is not visible to us is None."""

    pid: int
    started: int
    """Start time in clock ticks after boot: with `pid` it names the process for ever."""
    name: str
    """The base name of the program file, or the kernel's own short name where the file is not visible."""
    exe: str | None = None
    cwd: str | None = None
    device: int | None = None
    inode: int | None = None


@dataclass(frozen=True, slots=True)
class Provenance:
    """The caller: its own process, and the chain of those that started it, nearest first."""

    uid: int
    process: Process
    """The session's process: the first that is neither one of ours nor a shell or launcher."""
    peer: Process
    """The process that holds the other end of the socket."""
    chain: tuple[Process, ...] = ()


@dataclass(frozen=True, slots=True)
class Claim:
    """What the caller says of itself. Never verified; shown in a frame that says so."""

    client: str | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class Session:
    """One agent's run. It ends with its process, and its grants with it (R59)."""

    session_id: SessionId
    provenance: Provenance
    claim: Claim = Claim()

    @property
    def program(self) -> str:
        """Program file and working directory as one line: a later session of the same is `scope: mine`."""
        p = self.provenance.process
        return f"{p.device}:{p.inode}:{p.exe}\n{p.cwd}"
